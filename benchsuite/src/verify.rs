//! What verification costs, and that it never cries wolf: 10 GiB written and read again.
//!
//! The device is memory under the virtual clock, so the time is all the generator's: of the loop, and of making and judging sectors. Beside it stands
//! the same load without verification.

use std::cell::RefCell;
use std::time::Instant as Wall;

use device::{Device, MemoryDevice, Shape};
use record::Row;
use runtime::{Random, Runtime};
use units::{Bytes, Duration, Instant};
use workload::{Context, Control, Drive, Heap, Ledger, Limits, Mix, OnError, Pattern, Stream, Tally, Verify};

const SIZE: Bytes = Bytes::mib(256);
const WRITTEN: Bytes = Bytes::gib(10);

/// Runs the bench; false if anything was found.
pub fn run() -> bool {
    let mut sound = true;
    for request in [Bytes::kib(4), Bytes::kib(128)] {
        let (plain, _) = load(request, None);
        let ledger = Ledger::new(1, 0, request);
        let (verified, requests) = load(request, Some(&ledger));
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
    }
    sound
}

/// Seconds, and the number of requests.
fn load(request: Bytes, ledger: Option<&Ledger>) -> (f64, u64) {
    let runtime = Runtime::simulated();
    let device = MemoryDevice::new(&runtime, Shape::new("memory", SIZE));
    let requests = WRITTEN / request * 2;
    let stream = Stream {
        behind: Some(4),
        verify: ledger.map(|_| Verify::Reads),
        limits: Limits { requests: Some(requests), ..Limits::NONE },
        ..Stream::closed("verify", Mix::WRITES, Pattern::Random, request, 8)
    };
    stream.check(device.shape()).expect("the stream fits");
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    let observer = RefCell::new(|_: &Row| ());
    let drive = Drive {
        context: Context {
            runtime: &runtime,
            device: &device,
            control: &control,
            observer: &observer,
            tally: &Tally::default(),
            on_error: OnError::Stop,
            stream_index: 0,
            device_index: 0,
            pass: 0,
            memory: &Heap,
            data: &stream.data(&Heap, &mut Random::new(1)),
        },
        stream: &stream,
        seed: 1,
        turns: None,
        lock_step: None,
        ledger,
    };
    let started = Wall::now();
    assert_eq!(runtime.block_on(drive.run()), None);
    (started.elapsed().as_secs_f64(), requests)
}
