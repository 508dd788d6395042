//! Copying one device or file to another, with both sides measured.
//!
//! Each place in the queue reads a piece and writes it, then takes the next; so reads and writes overlap, and the
//! slower side fills the queue: what limits a copy is told by where its requests spend their time. Every read and every
//! write has a row, those of the source as device 0 and those of the target as device 1. At the end the target is
//! flushed: what was copied is then stored.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use analysis::json::number;
use analysis::{Summarizer, Summary};
use device::{Buffer, Device, DeviceError, Operation, Reply, Request};
use futures_util::future::join_all;
use host::guard::WritePermit;
use nbd::Client;
use record::{Clock, Keeping, Labels, Log, Meta, Phase, Recorder, Recording, Row, Spill, WhenBehind};
use serde::Serialize;
use units::{Bytes, Duration, Instant, Ratio};
use uring::{FileDevice, FileOptions, Live, LiveOptions, Mode};

use crate::live::Bare;
use crate::pulse::Pulse;
use crate::runner::{RunError, Tick, Ways};
use crate::target::Target;

/// What is copied, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// From where.
    pub source: Target,
    /// To where.
    pub target: Target,
    /// By pieces of this size.
    pub size: Bytes,
    /// So many pieces under way.
    pub depth: u32,
    /// Past the page cache or through it.
    pub mode: Mode,
}

/// Why nothing is copied, or not all.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum CopyError {
    #[error("{target} exists in virtual time only; a copy is from one file, device or export to another")]
    Simulated { target: Target },
    #[error("{source_size:#} of {source_name} do not fit on {target}, which has {size:#}; take a larger target")]
    TooSmall { source_name: Target, source_size: Bytes, target: Target, size: Bytes },
    #[error("pieces of {size:#} are no multiple of the blocks of {target}, {block:#}; change --size")]
    Misaligned { size: Bytes, target: Target, block: Bytes },
    #[error(
        "{source_name} has {size:#}, which is no multiple of the {block:#} blocks of one of the two; take --buffered"
    )]
    Rest { source_name: Target, size: Bytes, block: Bytes },
    #[error(transparent)]
    Run(#[from] RunError),
}

/// A copy that was made.
#[derive(Debug)]
pub struct Copied {
    /// Labels of the records.
    pub meta: Meta,
    /// Every read and every write.
    pub recording: Recording,
    /// What the two sides came to.
    pub summary: Summary,
    /// What both did together.
    pub result: CopyResult,
}

/// What a copy came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CopyResult {
    /// What was read and written.
    #[serde(with = "number")]
    pub bytes: Bytes,
    /// What there was to copy.
    #[serde(with = "number")]
    pub of: Bytes,
    /// From the first read to the end of the flush.
    #[serde(with = "number", rename = "time_ns")]
    pub time: Duration,
    /// The flush alone.
    #[serde(with = "number", rename = "flush_ns")]
    pub flush: Duration,
    /// The share of the time of all pieces that they spent waiting for the source.
    #[serde(with = "number")]
    pub waiting_for_source: Ratio,
    /// The same for the target.
    #[serde(with = "number")]
    pub waiting_for_target: Ratio,
    /// What went wrong, and where.
    pub failure: Option<String>,
    /// It was ended early.
    pub interrupted: bool,
}

impl CopyResult {
    /// Which side limits, if one does.
    pub fn limit(&self) -> String {
        // Between these neither side waits much longer than the other.
        const SIDES: [f64; 2] = [0.4, 0.6];
        let (source, target) = (self.waiting_for_source, self.waiting_for_target);
        let shares = format!("a piece waits for the source {source} of its time and for the target {target}");
        match source.get() {
            share if share > SIDES[1] => format!("the source limits: {shares}"),
            share if share < SIDES[0] => format!("the target limits: {shares}"),
            _ => format!("neither side limits alone: {shares}"),
        }
    }
}

/// Opens a real device; simulated ones have been refused.
pub(crate) fn open(
    live: &Live,
    target: &Target,
    mode: Mode,
    permits: &HashMap<PathBuf, WritePermit>,
) -> Result<Bare, RunError> {
    let options = match mode {
        Mode::Direct => FileOptions::direct(),
        Mode::Buffered => FileOptions::buffered(),
    };
    Ok(match target {
        Target::Nbd(uri) => Bare::Nbd(live.runtime().block_on(Client::connect(live, uri))?),
        Target::Path(path) => Bare::File(match permits.get(path) {
            Some(permit) => FileDevice::open_writable(live, permit, &options)?,
            None => FileDevice::open_read_only(live, path, &options)?,
        }),
        _ => unreachable!("what is simulated was refused"),
    })
}

/// Copies.
pub fn copy(name: &str, plan: &Plan, ways: &Ways) -> Result<Copied, CopyError> {
    for target in [&plan.source, &plan.target] {
        if !matches!(target, Target::Path(_) | Target::Nbd(_)) {
            return Err(CopyError::Simulated { target: target.clone() });
        }
    }
    let live = Live::start(&LiveOptions::default());
    let source = open(&live, &plan.source, plan.mode, ways.permits)?;
    let target = open(&live, &plan.target, plan.mode, ways.permits)?;
    let of = fits(plan, &source, &target)?;
    let labels = Labels {
        streams: vec!["read".to_owned(), "write".to_owned()],
        devices: vec![plan.source.to_string(), plan.target.to_string()],
    };
    let meta =
        Meta { run: name.to_owned(), clock: Clock::Live, origin: Some(SystemTime::now()), labels: labels.clone() };
    let keeping = Keeping {
        expected_rows: 2 * (of / plan.size + 1),
        memory: ways.record_memory,
        spill: ways.folder.map_or(Spill::Never, |folder| Spill::WhenFull(folder.raw_path())),
        when_behind: WhenBehind::Lose,
    };
    let (recorder, mut logs) = Recorder::start(&keeping, &meta, 1).map_err(RunError::from)?;
    let begin = live.runtime().now();
    let state = State {
        plan,
        ways,
        of,
        begin,
        log: RefCell::new(logs.pop().expect("one log was asked for")),
        next: Cell::new(Bytes::ZERO),
        written: Cell::new(Bytes::ZERO),
        waits: Default::default(),
        pulses: Default::default(),
        under_way: Default::default(),
        failure: RefCell::new(None),
    };
    let flush = live.runtime().block_on(async {
        join_all((0..plan.depth).map(|_| state.lane(&live, &source, &target))).await;
        let flushed = target.submit(Request::flush()).await;
        state.fail("flush", &plan.target, flushed.result);
        flushed.stamps.completed.saturating_since(flushed.stamps.submitted)
    });
    let time = live.runtime().now().saturating_since(begin);
    let State { log, written, waits, failure, .. } = state;
    drop(log);
    let recording = recorder.finish();
    let mut summarizer = Summarizer::new(&labels);
    let added = recording.visit(|rows| {
        summarizer.add(rows);
        Ok::<(), record::RawError>(())
    });
    added.map_err(RunError::from)?;
    let [source, target] = waits.map(|wait| wait.get().as_seconds());
    let share = |part: f64| Ratio::new(part / (source + target).max(1e-9));
    let failure = failure.into_inner();
    let result = CopyResult {
        bytes: written.get(),
        of,
        time,
        flush,
        waiting_for_source: share(source),
        waiting_for_target: share(target),
        interrupted: failure.is_none() && ways.interrupted.load(Relaxed),
        failure,
    };
    Ok(Copied { meta, summary: summarizer.summary(), recording, result })
}

/// How much is to be copied, if it can be.
fn fits(plan: &Plan, source: &Bare, target: &Bare) -> Result<Bytes, CopyError> {
    let (from, to) = (source.shape(), target.shape());
    if from.size > to.size {
        let (source_name, source_size) = (plan.source.clone(), from.size);
        return Err(CopyError::TooSmall { source_name, source_size, target: plan.target.clone(), size: to.size });
    }
    for (shape, target) in [(from, &plan.source), (to, &plan.target)] {
        let block = shape.logical_block;
        if plan.size.is_zero() || !plan.size.is_multiple_of(block) {
            return Err(CopyError::Misaligned { size: plan.size, target: target.clone(), block });
        }
        if !from.size.is_multiple_of(block) {
            return Err(CopyError::Rest { source_name: plan.source.clone(), size: from.size, block });
        }
    }
    Ok(from.size)
}

struct State<'a> {
    plan: &'a Plan,
    ways: &'a Ways<'a>,
    of: Bytes,
    begin: Instant,
    log: RefCell<Log>,
    /// Where the next piece begins.
    next: Cell<Bytes>,
    written: Cell<Bytes>,
    /// How long pieces have waited for source and target.
    waits: [Cell<Duration>; 2],
    /// What source and target do, for those who watch.
    pulses: [Pulse; 2],
    under_way: [Cell<u64>; 2],
    failure: RefCell<Option<String>>,
}

impl State<'_> {
    /// One place in the queue.
    async fn lane(&self, live: &Live, source: &Bare, target: &Bare) {
        let mut memory = Buffer::zeroed(self.plan.size);
        loop {
            let offset = self.next.get();
            let over = self.ways.interrupted.load(Relaxed) || self.failure.borrow().is_some();
            if offset >= self.of || over {
                return;
            }
            let length = self.plan.size.min(self.of - offset);
            self.next.set(offset + length);
            let piece = if length < memory.len() { Buffer::zeroed(length) } else { memory };

            let intended = live.runtime().now();
            self.under_way[0].update(|n| n + 1);
            let mut reply = source.submit(Request::read(offset, piece)).await;
            let read = self.row(Operation::Read, (offset, length), intended, &reply);
            let Some(bytes) = reply.buffer.take().filter(|_| reply.result.is_ok()) else {
                return self.fail(&format!("reading at {}", offset.get()), &self.plan.source, reply.result);
            };
            let bytes = bytes.freeze();
            self.under_way[1].update(|n| n + 1);
            let reply = target.submit(Request::write(offset, bytes.clone())).await;
            self.row(Operation::Write, (offset, length), read, &reply);
            if reply.result.is_err() {
                return self.fail(&format!("writing at {}", offset.get()), &self.plan.target, reply.result);
            }
            self.written.update(|written| written + length);
            memory = bytes
                .reclaim()
                .filter(|memory| memory.len() == self.plan.size)
                .unwrap_or_else(|| Buffer::zeroed(self.plan.size));
            self.ways.progress.tick(&self.tick(live.runtime().now()));
        }
    }

    /// Records one request, and says when it completed.
    fn row(&self, operation: Operation, (offset, length): (Bytes, Bytes), intended: Instant, reply: &Reply) -> Instant {
        let side = u16::from(operation == Operation::Write);
        let mut row = Row::new(operation, Phase::Measure);
        (row.offset, row.length) = (offset, length.get() as u32);
        (row.stream, row.device) = (side, side);
        row.depth = self.plan.depth as u16;
        row.intended = intended;
        row.submitted = reply.stamps.submitted.max(intended);
        row.completed = reply.stamps.completed.max(row.submitted);
        row.errno = reply.result.as_ref().err().map_or(0, |error| error.errno() as u16);
        self.log.borrow_mut().push(row);
        self.pulses[usize::from(side)].add(&row);
        self.under_way[usize::from(side)].update(|n| n - 1);
        self.waits[usize::from(side)].update(|wait| wait + row.response());
        row.completed
    }

    fn fail(&self, what: &str, target: &Target, result: Result<(), DeviceError>) {
        if let Err(error) = result {
            self.failure.borrow_mut().get_or_insert(format!("{target}: {what}: {error}"));
        }
    }

    fn tick(&self, now: Instant) -> Tick {
        let elapsed = now.saturating_since(self.begin);
        let done = self.written.get();
        // A piece is on one side or the other, so that what is under way there is all that may be.
        let beat = |(pulse, under_way): (&Pulse, &Cell<u64>)| {
            pulse.state(under_way.get(), units::Ratio::ZERO);
            pulse.beat(under_way.get())
        };
        let whole = (!done.is_zero()).then(|| elapsed.scale(self.of.get() as f64 / done.get() as f64));
        let sides = self.pulses.iter().zip(&self.under_way).map(beat).collect();
        Tick { bytes: done, ..Tick::of(elapsed, whole, sides, units::Ratio::ZERO) }
    }
}
