//! Drives of today as devices: what their data sheets promise, and what follows from how they are built.

use std::cell::Cell;
use std::rc::Rc;

use device::{Buffer, Data, Device, DeviceError, Request};
use machine::flash::{Flash, FlashParameters};
use machine::library::Shelf;
use machine::standalone::Standalone;
use runtime::{Random, Runtime};
use units::{Bytes, Duration, Instant};

/// Requests a second of a closed loop of so many, each of `size` bytes, and the mean response time.
fn closed(part: &str, depth: u32, size: Bytes, write: bool, sequential: bool, requests: u64) -> (f64, Duration) {
    let runtime = Runtime::simulated();
    let drive = Rc::new(Standalone::new(&runtime, &Shelf::Parts.find(part).unwrap(), 7).unwrap());
    let (issued, spent, counted) =
        (Rc::new(Cell::new(0u64)), Rc::new(Cell::new(Duration::ZERO)), Rc::new(Cell::new(0u64)));
    let begun = Rc::new(Cell::new(Instant::START));
    let warm_up = requests / 4;
    let loops = (0..depth).map(|number| {
        let (runtime, drive) = (runtime.clone(), Rc::clone(&drive));
        let (issued, spent, counted, begun) =
            (Rc::clone(&issued), Rc::clone(&spent), Rc::clone(&counted), Rc::clone(&begun));
        async move {
            let mut random = Random::named(7, &format!("loop {number}"));
            let slots = drive.shape().size / size;
            while issued.get() < requests {
                let nth = issued.replace(issued.get() + 1);
                let slot = if sequential { nth } else { rand::RngExt::random_range(&mut random, 0..slots) };
                let request = if write {
                    Request::write(size * slot, Data::phantom(size))
                } else {
                    Request::read(size * slot, Buffer::phantom(size))
                };
                let start = runtime.now();
                let reply = drive.submit(request).await;
                assert_eq!(reply.result, Ok(()));
                if nth == warm_up {
                    begun.set(runtime.now());
                }
                if nth > warm_up {
                    spent.set(spent.get() + runtime.now().since(start));
                    counted.set(counted.get() + 1);
                }
            }
        }
    });
    let handles: Vec<_> = loops.map(|one| runtime.spawn(one)).collect();
    runtime.block_on(async {
        for handle in handles {
            handle.await;
        }
    });
    let elapsed = runtime.now().since(begun.get()).as_seconds();
    (counted.get() as f64 / elapsed, spent.get() / counted.get())
}

const DISK: &str = "mg10-20tb";
const FLASH: &str = "flash-nvme-3.84tb";
const KIB4: Bytes = Bytes::kib(4);

#[test]
fn the_disk_reads_its_edge_at_the_rate_of_the_data_sheet() {
    let (rate, _) = closed(DISK, 1, Bytes::kib(512), false, true, 4000);
    let mb = rate * 512.0 * 1024.0 / 1e6;
    assert!((270.0..290.0).contains(&mb), "{mb:.1} MB/s, the data sheet says 281");
}

#[test]
fn the_disk_serves_as_many_random_requests_as_its_arm_allows() {
    // Seek 7.4 ms, half a turn 4.17 ms, overhead 0.12 ms.
    let (alone, time) = closed(DISK, 1, KIB4, false, false, 4000);
    assert!((80.0..90.0).contains(&alone), "{alone:.1} reads a second at depth 1");
    assert!((time.as_millis() - 11.7).abs() < 0.6, "{time}");
    let (queued, _) = closed(DISK, 16, KIB4, false, false, 4000);
    assert!(queued > alone * 1.7, "the queue is reordered: {queued:.1} reads a second at depth 16");
    // More segments than requests wait to be written, so there is more to choose from.
    let (written, _) = closed(DISK, 16, KIB4, true, false, 8000);
    assert!(written > queued, "{written:.1} writes a second, {queued:.1} reads");
}

#[test]
fn the_flash_drive_gives_what_its_series_promises() {
    let (rate, time) = closed(FLASH, 1, KIB4, false, false, 4000);
    assert!((70..85).contains(&(time.as_nanos() / 1000)), "{time} for a read, {rate:.0} a second");
    let (reads, _) = closed(FLASH, 256, KIB4, false, false, 400_000);
    assert!((600_000.0..1_000_001.0).contains(&reads), "{reads:.0} random reads a second");
    let (sequential, _) = closed(FLASH, 16, Bytes::kib(128), false, true, 100_000);
    let gb = sequential * 128.0 * 1024.0 / 1e9;
    assert!((6.0..6.81).contains(&gb), "{gb:.2} GB/s read in sequence");
    let (sequential, _) = closed(FLASH, 4, Bytes::kib(128), true, true, 100_000);
    let gb = sequential * 128.0 * 1024.0 / 1e9;
    assert!((5.0..5.7).contains(&gb), "{gb:.2} GB/s written in sequence");
}

#[test]
fn random_writes_of_a_full_flash_drive_pay_for_what_is_moved() {
    let parameters = FlashParameters::read(&Shelf::Parts.find(FLASH).unwrap()).unwrap();
    let flash = Flash::new(parameters.clone());
    let dies = f64::from(parameters.dies());
    let limit = dies * parameters.unit().get() as f64
        / parameters.programming(flash.amplification()).as_seconds()
        / KIB4.get() as f64;
    let (rate, _) = closed(FLASH, 32, KIB4, true, false, 400_000);
    assert!((rate / limit - 1.0).abs() < 0.02, "{rate:.0} writes a second; the dies allow {limit:.0}");
    assert!(flash.amplification() > 3.0, "{}", flash.amplification());
}

#[test]
fn a_read_waits_for_a_suspended_program_and_not_for_its_end() {
    let runtime = Runtime::simulated();
    let drive = Standalone::new(&runtime, &Shelf::Parts.find(FLASH).unwrap(), 7).unwrap();
    runtime.block_on(async {
        let quiet = drive.submit(Request::read(Bytes::ZERO, Buffer::phantom(KIB4))).await.stamps.service();
        // All dies are given a unit.
        for nth in 0..64 {
            drive.submit(Request::write(Bytes::kib(64) * nth, Data::phantom(Bytes::kib(64)))).await;
        }
        let disturbed = drive.submit(Request::read(Bytes::ZERO, Buffer::phantom(KIB4))).await.stamps.service();
        assert_eq!(disturbed, quiet + Duration::micros(100));
    });
}

#[test]
fn a_write_is_complete_in_the_buffer_and_durable_after_a_flush() {
    let runtime = Runtime::simulated();
    let drive = Standalone::new(&runtime, &Shelf::Parts.find(DISK).unwrap(), 7).unwrap();
    runtime.block_on(async {
        let far = Bytes::gib(9000);
        let buffered = drive.submit(Request::write(far, Data::phantom(KIB4))).await.stamps.service();
        assert!(buffered < Duration::millis(1), "{buffered}");
        let flushed = drive.submit(Request::flush()).await.stamps.service();
        assert!(flushed > Duration::millis(5), "{flushed}");
        let again = drive.submit(Request::flush()).await.stamps.service();
        assert_eq!(again, Duration::ZERO);
        let through = drive.submit(Request::write(Bytes::ZERO, Data::phantom(KIB4)).with_fua()).await.stamps.service();
        assert!(through > Duration::millis(5), "{through}");
    });
}

#[test]
fn an_idle_disk_destages_and_reads_come_first() {
    let runtime = Runtime::simulated();
    let drive = Standalone::new(&runtime, &Shelf::Parts.find(DISK).unwrap(), 7).unwrap();
    runtime.block_on(async {
        for nth in 0..20u64 {
            let at = Bytes::gib(900) * (nth * 7 % 20);
            let written = drive.submit(Request::write(at, Data::phantom(KIB4))).await.stamps.service();
            assert!(written < Duration::millis(1), "{written}");
        }
        // At once: the read waits for at most one of them.
        let read = drive.submit(Request::read(Bytes::gib(5000), Buffer::phantom(KIB4))).await.stamps.service();
        assert!(read < Duration::millis(45), "{read}");
        runtime.sleep(Duration::seconds(1)).await;
        assert_eq!(drive.submit(Request::flush()).await.stamps.service(), Duration::ZERO, "a second was enough");
    });
}

#[test]
fn memory_and_other_operations_are_refused() {
    let runtime = Runtime::simulated();
    let drive = Standalone::new(&runtime, &Shelf::Parts.find(FLASH).unwrap(), 7).unwrap();
    runtime.block_on(async {
        let memory = drive.submit(Request::read(Bytes::ZERO, Buffer::zeroed(KIB4))).await;
        assert_eq!(memory.result, Err(DeviceError::Unsupported));
        let beyond = drive.submit(Request::read(drive.shape().size, Buffer::phantom(KIB4))).await;
        assert!(matches!(beyond.result, Err(DeviceError::OutOfRange { .. })));
        assert_eq!(drive.submit(Request::discard(Bytes::ZERO, KIB4)).await.result, Err(DeviceError::Unsupported));
    });
    let other = Standalone::new(&runtime, &Shelf::Parts.find("vme").unwrap(), 7).err().unwrap().to_string();
    assert!(
        other.contains("this is a part of kind 'backplane', but one of kind 'disk' or 'flash' is wanted"),
        "{other}"
    );
}

/// What is said of the flash drive with one text replaced in its file.
fn flash_with(from: &str, to: &str) -> String {
    let (_, text) = machine::library::PARTS.iter().find(|(name, _)| *name == FLASH).unwrap();
    assert!(text.contains(from));
    let part = machine::part::Part::parse("x.toml", &text.replacen(from, to, 1)).unwrap();
    FlashParameters::read(&part).unwrap_err().to_string()
}

#[test]
fn contradictory_flash_drives_are_refused_with_their_line() {
    let cases = [
        ("\"4 TiB\"", "\"3.85 TB\"", "x.toml:9:", "flash.physical: is out of range; write at least 1 % more"),
        ("\"16 KiB\"", "\"1000 B\"", "x.toml:13:", "flash.page: is out of range"),
        (
            "value = 8, source = \"assumed: usual",
            "value = 0, source = \"x",
            "x.toml:10:",
            "flash.channels: is out of range",
        ),
        ("\"64 MiB\"", "\"4 KiB\"", "x.toml:23:", "controller.write-buffer: is out of range; write at least 64 KiB"),
        ("\"100 %\"", "\"101 %\"", "x.toml:6:", "filled: is out of range"),
        ("\"60 us\"", "60", "x.toml:15:", "flash.read: '60' has no unit"),
        ("suspend =", "suspends =", "x.toml:8:", "flash.suspend: is missing"),
    ];
    for (from, to, place, says) in cases {
        let said = flash_with(from, to);
        assert!(said.starts_with(place) && said.contains(says), "{said}");
    }
}
