//! What keeping the members consistent costs: requests to the members for each write to the array, counted.
//!
//! Level 5 over four members, chunks of 32 KiB, as md was counted with (2.0 reads always; writes, flushes among them:
//! 2.0 without anything, 2.1 with a bitmap that is warm and 6.2 with one that is cold, 5.0 with PPL, 4.0 with a
//! journal). And level 6 over five.

use std::cell::Cell;
use std::rc::Rc;

use array::geometry::{DoubleRotation, Geometry, Level, Rotation};
use array::md::{Consistency, NewArray, NewMember, Stamp, Uuid, create};
use array::{Array, OpenOptions, format};
use device::filter::{Effect, Event, Faulty, Recorder, Rule};
use device::{Buffer, Data, Device, MemoryDevice, Operation, Request, Shape};
use futures_util::future::join_all;
use runtime::Runtime;
use units::{Bytes, Duration};

const SIZE: Bytes = Bytes::mib(64);
const CHUNK: Bytes = Bytes::kib(32);

/// Requests to all members.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    reads: u64,
    writes: u64,
    fua: u64,
    flushes: u64,
    kib: u64,
}

impl Counts {
    fn print(&self, name: &str, what: &str, writes: u64) {
        let per = |count: u64| count as f64 / writes as f64;
        println!(
            "| {name} | {what} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} |",
            per(self.reads),
            per(self.writes + self.flushes),
            per(self.fua),
            per(self.flushes),
            per(self.kib)
        );
    }
}

type Disk = Rc<Recorder<Faulty<MemoryDevice>, Box<dyn Fn(&Event)>>>;

struct Bed {
    runtime: Runtime,
    array: Array<Disk>,
    counts: Rc<Cell<Counts>>,
}

fn data(length: Bytes) -> Data {
    let mut buffer = Buffer::zeroed(length);
    buffer.bytes_mut().unwrap().fill(7);
    buffer.freeze()
}

fn bed(consistency: Consistency) -> Bed {
    bed_of(Level::Raid5(Rotation::LeftSymmetric), 4, consistency)
}

fn bed_of(level: Level, members: u8, consistency: Consistency) -> Bed {
    let runtime = Runtime::simulated();
    let counts = Rc::new(Cell::new(Counts::default()));
    let (array, name) = (Uuid([1; 16]), "cost".into());
    let new = NewArray { level, chunk: CHUNK, name, array, now: Stamp(0), consistency, clean: true };
    let devices = members + u8::from(consistency == Consistency::Journal);
    let members: Vec<NewMember> =
        (0..devices).map(|member| NewMember { size: SIZE, member: Uuid([member + 2; 16]) }).collect();
    let (superblocks, _) = create(&new, &members).unwrap();
    let disk = |_| {
        let counts = counts.clone();
        let observe = move |event: &Event| {
            if event.ended.is_some() {
                return;
            }
            let mut now = counts.get();
            match event.operation {
                Operation::Read => now.reads += 1,
                Operation::Flush => now.flushes += 1,
                _ => {
                    now.writes += 1;
                    now.fua += u64::from(event.fua);
                    now.kib += event.length / Bytes::kib(1);
                }
            }
            counts.set(now);
        };
        let memory = Faulty::new(&runtime, MemoryDevice::new(&runtime, Shape::new("disk", SIZE)), 1);
        Rc::new(Recorder::new(&runtime, memory, Box::new(observe) as Box<dyn Fn(&Event)>))
    };
    let disks: Vec<Disk> = (0..superblocks.len()).map(disk).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    let array = runtime.block_on(Array::open(&runtime, "array", disks, OpenOptions::default())).unwrap();
    let bed = Bed { runtime, array, counts };
    // The first write says that the array is dirty; that is not what is counted.
    bed.count(1, Bytes::kib(4), 1, |_| Bytes::ZERO);
    bed
}

impl Bed {
    /// Requests for `writes` writes at these addresses, `depth` at a time; and a line that says so.
    fn count(&self, writes: u64, length: Bytes, depth: u64, address: impl Fn(u64) -> Bytes) -> Counts {
        self.counts.set(Counts::default());
        for batch in 0..writes / depth {
            let write = |number| self.array.submit(Request::write(address(batch * depth + number), data(length)));
            let replies = self.runtime.block_on(join_all((0..depth).map(write)));
            assert!(replies.into_iter().all(|reply| reply.result.is_ok()));
        }
        self.counts.get()
    }

    fn table(&self, name: &str) -> [Counts; 4] {
        let size = self.array.geometry().size();
        let random =
            |number: u64| Bytes::kib(4) * (number.wrapping_mul(7919 * 31).wrapping_add(13) % (size / Bytes::kib(4)));
        let row = self.array.geometry().stripe_size();
        let all = [
            ("4 KiB, random", 2000, self.count(2000, Bytes::kib(4), 1, random)),
            ("4 KiB, random, 32 at once", 3200, self.count(3200, Bytes::kib(4), 32, random)),
            ("4 KiB, the same again and again", 200, self.count(200, Bytes::kib(4), 1, |_| Bytes::mib(1))),
            ("full row of 96 KiB", 400, self.count(400, row, 1, |number| row * number)),
        ];
        all.iter().for_each(|(what, writes, counts)| counts.print(name, what, *writes));
        all.map(|(_, _, counts)| counts)
    }
}

#[test]
fn nothing_kept_costs_two_writes() {
    let [random, many, same, full] = bed(Consistency::Resync).table("resync");
    assert_eq!((random.reads, random.writes, random.flushes, random.fua), (4000, 4000, 0, 0));
    assert_eq!((many.writes, same.writes, full.writes, full.reads), (6400, 400, 1600, 0));
}

#[test]
fn a_bitmap_costs_a_write_to_each_member_when_a_region_is_cold() {
    let bed = bed(Consistency::Bitmap);
    let [random, many, same, full] = bed.table("bitmap");
    let (marked, all) = bed.array.marked_regions().unwrap();
    assert_eq!((marked, all), (63, 63));
    // One region was marked before; every other once, on four members.
    assert_eq!((random.reads, random.writes, random.flushes, random.fua), (4000, 4000 + 62 * 4, 0, 62 * 4));
    assert_eq!((many.writes, same.writes, full.writes, full.reads), (6400, 400, 1600, 0));
}

#[test]
fn a_journal_costs_one_write_more_and_less_with_many_at_once() {
    let [random, many, same, full] = bed(Consistency::Journal).table("journal");
    // Members are flushed, and two blocks written to the journal, when its 63 MiB are full: at most once here.
    assert!((6000..6003).contains(&random.writes) && random.flushes <= 4, "{random:?}");
    assert_eq!(random.reads, 4000);
    assert!(many.writes < 3200 * 5 / 2, "the log write is shared: {many:?}");
    assert!((600..603).contains(&same.writes) && full.reads == 0);
}

#[test]
fn a_partial_parity_log_costs_one_write_more_and_less_with_many_at_once() {
    let [random, many, same, full] = bed(Consistency::Ppl).table("PPL");
    assert_eq!((random.reads, random.writes, random.flushes, random.fua), (4000, 6000, 0, 6000));
    assert!(many.writes < 3200 * 5 / 2, "the log write is shared: {many:?}");
    // The first of them is logged, the others are covered by its entry.
    assert_eq!((same.writes, same.flushes), (2 * 200 + 1, 0));
    assert_eq!((full.reads, full.writes, full.flushes), (0, 400 * 5, 0));
}

#[test]
fn two_parities_are_logged_on_two_members() {
    let six = |consistency| bed_of(Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric)), 5, consistency);
    let marked = 4 * 5 * 16;
    let [random, ..] = six(Consistency::Bitmap).table("bitmap, level 6");
    // Of three data chunks the two others are fewer than the one that is written and two parities.
    assert_eq!(random.reads, 4000);
    assert!((6000..6000 + marked).contains(&random.writes), "{random:?}");
    let [random, many, same, full] = six(Consistency::Ppl).table("PPL, level 6");
    assert_eq!((random.reads, random.flushes), (4000, 0));
    assert!((10_000..10_000 + marked).contains(&random.writes), "{random:?}");
    assert!(many.writes < 3200 * 4, "the log writes are shared: {many:?}");
    assert_eq!((same.writes, same.flushes), (3 * 200 + 2, 0));
    assert_eq!((full.reads, full.writes, full.flushes), (0, 400 * 7, 0));
    let [random, many, ..] = six(Consistency::Journal).table("journal, level 6");
    assert!((8000..8003).contains(&random.writes) && many.writes < 3200 * 7 / 2, "{random:?}, {many:?}");
}

/// Disks take 100 us, so that writes wait for each other: 24 of 4 KiB, which fill a row of three chunks, are sent at
/// once.
#[test]
fn small_writes_that_adjoin_are_carried_out_together() {
    let one_after_the_other = |name, consistency| {
        let bed = bed(consistency);
        for member in 0..4 {
            let disk = bed.array.device(member).unwrap();
            disk.inner().add(Rule::new(Effect::Stall(Duration::micros(100))));
        }
        let counts = bed.count(2400, Bytes::kib(4), 24, |number| Bytes::kib(4) * number);
        counts.print(name, "4 KiB, one after the other, 24 at once", 2400);
        counts
    };
    // By itself each takes two reads and two writes, and another one to a log.
    let nothing = one_after_the_other("resync", Consistency::Resync);
    assert!(nothing.reads + nothing.writes < 2400, "{nothing:?}");
    // Pieces of one chunk only.
    let log = one_after_the_other("PPL", Consistency::Ppl);
    assert!(log.reads + log.writes < 2 * 2400, "{log:?}");
    let journal = one_after_the_other("journal", Consistency::Journal);
    assert!(journal.reads + journal.writes < 2400, "{journal:?}");
}

#[test]
fn a_request_under_way_takes_two_kibibytes_at_most() {
    let runtime = Runtime::simulated();
    let geometry = Geometry::new(Level::Raid5(Rotation::LeftSymmetric), CHUNK, &[CHUNK; 4]).unwrap();
    let memory = || (MemoryDevice::new(&runtime, Shape::new("memory", CHUNK)), Bytes::ZERO);
    let array = Array::assemble(&runtime, "array", geometry, (0..4).map(|_| memory()).collect()).unwrap();
    let write = array.submit(Request::write(Bytes::ZERO, data(Bytes::kib(4))));
    assert!(size_of_val(&write) <= 2048, "{} bytes", size_of_val(&write));
}
