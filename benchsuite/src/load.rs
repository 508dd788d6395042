//! The load of the bench of engines: random reads of 4 KiB, as an experiment makes them, every request recorded.

use std::cell::RefCell;
use std::time::Instant;

use device::{Data, Device};
use record::{Clock, Keeping, Labels, Log, Meta, Recorder, Row, Spill, WhenBehind};
use units::{Bytes, Duration};
use uring::Live;
use workload::{Context, Control, Drive, Memory, Mix, Pattern, Stream, Tally};

use crate::measure::cpu_seconds;

/// How many requests are under way.
pub const DEPTH: u32 = 32;
/// How large they are.
pub const BLOCK: Bytes = Bytes::kib(4);

/// What requests cost.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Processor time of the process for each request, the threads that the kernel starts in its name included, in
    /// microseconds.
    pub cpu: f64,
    /// Requests per second.
    pub rate: f64,
}

/// Buffers of an engine, registered with its ring if it has one.
struct Buffers(RefCell<Vec<device::Buffer>>);

impl Memory for Buffers {
    fn take(&self, _: Bytes) -> device::Buffer {
        self.0.borrow_mut().pop().expect("a buffer for each lane")
    }
    fn give_back(&self, buffer: device::Buffer) {
        self.0.borrow_mut().push(buffer);
    }
}

/// Makes so many requests of a device.
pub fn run(live: &Live, device: &impl Device, requests: u64) -> Cost {
    let mut stream = Stream::closed("bench", Mix::READS, Pattern::Random, BLOCK, DEPTH);
    stream.limits.requests = Some(requests);
    let (buffers, registered) = live.buffers(DEPTH as usize, BLOCK);
    registered.unwrap_or_else(|error| panic!("{error}"));
    let memory = Buffers(RefCell::new(buffers));
    let (recorder, mut log) = recorder(requests);
    let (tally, data) = (Tally::default(), Data::phantom(Bytes::ZERO));
    let runtime = live.runtime();

    let (start, cpu) = (Instant::now(), cpu_seconds());
    let control = Control::new(runtime.now(), Duration::ZERO, Duration::ZERO, 1);
    let observer = RefCell::new(|row: &Row| log.push(*row));
    let context = Context::new(runtime, device, &control, &observer, &tally, &memory, &data);
    let drive = Drive::new(context, &stream, 1);
    let failure = runtime.block_on(drive.run());
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);

    assert_eq!(failure, None, "what the bench has just made can be read");
    drop(log);
    let made = tally.requests.get();
    let kept = recorder.finish().rows();
    assert!(kept == made && made >= requests, "{kept} of {made} requests were recorded");
    Cost { cpu: cpu * 1e6 / made as f64, rate: made as f64 / wall }
}

/// With memory for all rows, which is touched now and not during the run.
fn recorder(requests: u64) -> (Recorder, Log) {
    let labels = Labels { streams: vec!["bench".into()], devices: vec!["target".into()] };
    let meta = Meta { run: "bench".into(), clock: Clock::Live, origin: None, labels };
    let keeping =
        Keeping { expected_rows: requests, memory: Bytes::gib(1), spill: Spill::Never, when_behind: WhenBehind::Lose };
    let (recorder, mut logs) = Recorder::start(&keeping, &meta, 1).expect("1 GiB is enough");
    (recorder, logs.pop().expect("one log"))
}
