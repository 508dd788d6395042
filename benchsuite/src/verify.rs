//! What verification costs, that it never cries wolf, and that it finds what is there: 10 GiB written and read again,
//! and then damaged.
//!
//! The device is memory under the virtual clock, so the time is all the generator's: of the loop, and of making and
//! judging sectors. Beside it stands the same load without verification. Afterwards blocks are damaged behind the
//! ledger's back, in four ways, all of them are read again, and each must be found at its place under its name, and
//! nothing else.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Instant as Wall;

use device::{Buffer, Device, MemoryDevice, Request, Shape};
use rand::RngExt;
use record::Row;
use runtime::{Random, Runtime};
use units::{Bytes, Duration, Instant};
use workload::{
    Context, Control, Drive, Heap, Kind, Ledger, Limits, Mix, Pattern, ReadBehind, Stream, Tally, Verify, sweep,
};

const SIZE: Bytes = Bytes::mib(256);
const WRITTEN: Bytes = Bytes::gib(10);
/// How often blocks are damaged and all is read again: 10 GiB in all, for the two sizes.
const ROUNDS: u64 = 20;
/// Blocks that are damaged in each way at a time.
const PLANTS: u64 = 25;

/// Runs the bench; false if anything was found.
pub fn run() -> bool {
    let mut sound = true;
    for request in [Bytes::kib(4), Bytes::kib(128)] {
        let (plain, ..) = load(request, None);
        let ledger = Ledger::new(1, 0, request);
        let (verified, requests, runtime, device) = load(request, Some(&ledger));
        let findings = ledger.findings();
        let micros = |seconds: f64| seconds / requests as f64 * 1e6;
        println!(
            "  {request}: {requests} requests, {} checked, {} mismatches; {:.2} us of processor time a request, {:.2} without verification, ratio {:.2}; {:.1} GB/s stamped or judged",
            findings.checked,
            findings.count,
            micros(verified),
            micros(plain),
            verified / plain,
            2.0 * WRITTEN.get() as f64 / (verified - plain).max(1e-9) / 1e9,
        );
        sound &= findings.count == 0 && findings.checked + request * 8 >= WRITTEN;
        let (planted, found, others) = plants(&runtime, &device, &ledger, request);
        println!("  {request}: {planted} planted, {found} found and named rightly, {others} others");
        sound &= found == planted && others == 0;
    }
    sound
}

/// Damages what is there, reads all again, and mends it, round after round: how much was planted, found at its place
/// under its name, and found besides.
fn plants(runtime: &Runtime, device: &MemoryDevice, ledger: &Ledger, block: Bytes) -> (u64, u64, u64) {
    let read = |at| {
        let reply = runtime.block_on(device.submit(Request::read(at, Buffer::zeroed(block))));
        reply.buffer.and_then(|buffer| buffer.bytes().map(<[u8]>::to_vec)).expect("memory is read")
    };
    let write = |at, bytes: &[u8]| {
        let mut buffer = Buffer::zeroed(block);
        buffer.bytes_mut().expect("it is real").copy_from_slice(bytes);
        assert_eq!(runtime.block_on(device.submit(Request::write(at, buffer.freeze()))).result, Ok(()));
    };
    let written = ledger.written();
    let mut random = Random::new(block.get());
    let (mut planted, mut found, mut others) = (0, 0, 0);
    for _ in 0..ROUNDS {
        let mut blocks: Vec<u64> = Vec::new();
        while (blocks.len() as u64) < 5 * PLANTS {
            let (first, units, _) = written.extents[random.random_range(0..written.extents.len())];
            let one = first + random.random_range(0..units);
            // Neighbours that are damaged alike would be named as one.
            if blocks.iter().all(|other| other.abs_diff(one) > 1) {
                blocks.push(one);
            }
        }
        let places: Vec<Bytes> = blocks.iter().map(|one| block * *one).collect();
        let good: Vec<Vec<u8>> = places.iter().map(|at| read(*at)).collect();
        let mut expected = BTreeMap::new();
        for (places, good) in places.chunks(5).zip(good.chunks(5)) {
            let mut flipped = good[0].clone();
            let bit = random.random_range(0..block.get() * 8);
            flipped[(bit / 8) as usize] ^= 1 << (bit % 8);
            write(places[0], &flipped);
            expected.insert(places[0] + Bytes::new(bit / 8).round_down(Bytes::SECTOR), Kind::Corrupt);
            write(places[1], &good[2]);
            write(places[2], &good[1]);
            expected.extend([(places[1], Kind::Misplaced), (places[2], Kind::Misplaced)]);
            write(places[3], &vec![0; block.as_usize()]);
            expected.insert(places[3], Kind::Stale);
            let mut torn = good[4].clone();
            torn[block.as_usize() / 2..].fill(0);
            write(places[4], &torn);
            expected.insert(places[4] + block / 2, Kind::Torn);
        }
        let again = Ledger::of(&written);
        assert_eq!(runtime.block_on(sweep(device, &again, &Heap, (8, 0), || false)), None);
        for mismatch in again.findings().mismatches {
            match expected.get(&mismatch.offset) {
                Some(kind) if *kind == mismatch.kind => found += 1,
                _ => others += 1,
            }
        }
        planted += expected.len() as u64;
        places.iter().zip(&good).for_each(|(at, bytes)| write(*at, bytes));
    }
    (planted, found, others)
}

/// Seconds, the number of requests, and the device with its clock.
fn load(request: Bytes, ledger: Option<&Ledger>) -> (f64, u64, Runtime, MemoryDevice) {
    let runtime = Runtime::simulated();
    let device = MemoryDevice::new(&runtime, Shape::new("memory", SIZE));
    let requests = WRITTEN / request * 2;
    let stream = Stream {
        behind: Some(ReadBehind { lag: 4, lap: None }),
        verify: ledger.map(|_| Verify::Reads),
        limits: Limits { requests: Some(requests), ..Limits::NONE },
        ..Stream::closed("verify", Mix::WRITES, Pattern::Random, request, 8)
    };
    stream.check(device.shape()).expect("the stream fits");
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    let observer = RefCell::new(|_: &Row| ());
    let (tally, data) = (Tally::default(), stream.data(&Heap, &mut Random::new(1)));
    let context = Context::new(&runtime, &device, &control, &observer, &tally, &Heap, &data);
    let drive = Drive { ledger, ..Drive::new(context, &stream, 1) };
    let started = Wall::now();
    assert_eq!(runtime.block_on(drive.run()), None);
    (started.elapsed().as_secs_f64(), requests, runtime, device)
}
