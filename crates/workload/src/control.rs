//! When a pass begins, what counts, and when it ends.
//!
//! One `Control` is shared by all lanes of all streams of a pass, on whatever threads they run; it is a handful of
//! atomics.
//!
//! ```text
//! begin        + start-up             last stream done measuring       + cool-down
//!   |--- not counted ---|------------ counted ------------|--- not counted ---| end
//! ```
//!
//! Requests go on through all three phases: a stream that has reached its limit keeps the load up, uncounted, until
//! every other one has reached its own, unless it is to stop there ([`Limits::stop`]).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use device::Operation;
use units::{Bytes, Duration, Instant};

use crate::rules::{Rules, Standing};
use crate::throttle::{RateLimit, Throttle};

/// When a stream has done its part of a pass, whichever comes first; counted for each device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// This many counted requests.
    pub requests: Option<u64>,
    /// This many counted bytes.
    pub bytes: Option<Bytes>,
    /// This much counted time.
    pub time: Option<Duration>,
    /// As many counted bytes as whole requests of the stream find room for in its region, this often.
    pub laps: Option<u32>,
    /// Then all streams of the pass have done their part: fio's `exitall`.
    pub end_all: bool,
    /// Then it asks no more. Otherwise it keeps the load up, uncounted, until every other stream has reached its own
    /// limits.
    pub stop: bool,
}

impl Limits {
    /// True if nothing but the run's measuring time ends the stream.
    pub fn are_none(&self) -> bool {
        self.requests.is_none() && self.bytes.is_none() && self.time.is_none() && self.laps.is_none()
    }

    /// Ends only with the run's measuring time.
    pub const NONE: Limits =
        Limits { requests: None, bytes: None, time: None, laps: None, end_all: false, stop: false };
}

/// The state of a pass.
#[derive(Debug)]
pub struct Control {
    begin: Instant,
    start_up: Duration,
    cool_down: Duration,
    /// Streams (one for each device) that still measure.
    measuring: AtomicU32,
    /// When the last of them stopped measuring; `u64::MAX` before.
    measured: AtomicU64,
    /// When requests stop; `u64::MAX` while that is unknown.
    end: AtomicU64,
    interrupted: AtomicBool,
    /// Of the whole load, and of each stream on all of its devices together.
    throttle: Option<Throttle>,
    throttles: Vec<Option<Throttle>>,
    /// Of each stream's reads, and of its writes.
    by_direction: Vec<[Option<Throttle>; 2]>,
    /// By the rules of the streams, if any has one.
    standing: Option<Standing>,
}

impl Control {
    /// A pass of `streams` streams (counted once for each device) that begins at `begin`.
    pub fn new(begin: Instant, start_up: Duration, cool_down: Duration, streams: u32) -> Control {
        Control {
            begin,
            start_up,
            cool_down,
            measuring: AtomicU32::new(streams),
            measured: AtomicU64::new(u64::MAX),
            end: AtomicU64::new(u64::MAX),
            interrupted: AtomicBool::new(false),
            throttle: None,
            throttles: Vec::new(),
            by_direction: Vec::new(),
            standing: None,
        }
    }

    /// With rates that are kept to: by all streams together, and by each, in the order of their indices.
    pub fn throttled(self, all: Option<RateLimit>, each: impl IntoIterator<Item = Option<RateLimit>>) -> Control {
        let begin = self.begin;
        let throttles: Vec<_> = each.into_iter().map(|limit| Some(Throttle::new(limit?, begin))).collect();
        // Looked at for each request: no list at all if it is empty.
        let throttles = if throttles.iter().any(Option::is_some) { throttles } else { Vec::new() };
        Control { throttle: all.map(|limit| Throttle::new(limit, begin)), throttles, ..self }
    }

    /// With rates of reads and of writes that are kept to each by itself, from each stream's first request on (`delay`
    /// after the beginning).
    pub fn throttled_apart(self, each: impl IntoIterator<Item = (Duration, [Option<RateLimit>; 2])>) -> Control {
        let begin = self.begin;
        let of = |(delay, limits): (Duration, [Option<RateLimit>; 2])| {
            limits.map(|limit| Some(Throttle::new(limit?, begin + delay)))
        };
        let by_direction: Vec<_> = each.into_iter().map(of).collect();
        let any = by_direction.iter().flatten().any(Option::is_some);
        Control { by_direction: if any { by_direction } else { Vec::new() }, ..self }
    }

    /// With the rules of each stream, in the order of their indices.
    pub fn ruled<'r>(self, rules: impl IntoIterator<Item = &'r Rules> + Clone) -> Control {
        let any = rules.clone().into_iter().any(|rules| *rules != Rules::default());
        Control { standing: any.then(|| Standing::new(rules)), ..self }
    }

    /// How its streams stand by their rules, if any has one.
    pub(crate) fn standing(&self) -> Option<&Standing> {
        self.standing.as_ref()
    }

    /// Ends one stream; the others go on.
    pub(crate) fn end_stream(&self, stream: u16, at: Instant) {
        self.standing.as_ref().inspect(|standing| standing.end_stream(stream, at));
    }

    /// When a rule ends a stream.
    pub(crate) fn ended(&self, stream: u16) -> Instant {
        self.standing.as_ref().map_or(Instant::NEVER, |standing| standing.end(stream))
    }

    /// Whether a stream's requests of this direction are held back at `now`, and longer than those of the other.
    pub(crate) fn is_held(&self, stream: u16, operation: Operation, now: Instant) -> bool {
        let Some(throttles) = self.by_direction.get(usize::from(stream)) else { return false };
        let [read, write] =
            throttles.each_ref().map(|throttle| throttle.as_ref().map_or(Instant::START, Throttle::due));
        let (own, other) = if operation == Operation::Read { (read, write) } else { (write, read) };
        own > now && other < own
    }

    /// Whether reads and writes of a stream have rates of their own.
    pub(crate) fn is_throttled_apart(&self) -> bool {
        !self.by_direction.is_empty()
    }

    /// When a request of a stream that is ready `now` may be made, by the rates to keep to; `None` where there are
    /// none. It is counted as made.
    pub(crate) fn admit(
        &self,
        (stream, operation): (u16, Operation),
        now: impl FnOnce() -> Instant,
        length: Bytes,
    ) -> Option<Instant> {
        let own = self.throttles.get(usize::from(stream)).and_then(Option::as_ref);
        let apart = self.by_direction.get(usize::from(stream));
        let apart = apart.and_then(|apart| apart[usize::from(operation != Operation::Read)].as_ref());
        if own.is_none() && apart.is_none() && self.throttle.is_none() {
            return None;
        }
        let now = now();
        [own, apart, self.throttle.as_ref()].into_iter().flatten().map(|throttle| throttle.admit(now, length)).max()
    }

    /// When all streams start together.
    pub fn begin(&self) -> Instant {
        self.begin
    }

    /// When counting starts.
    pub fn counts_from(&self) -> Instant {
        self.begin + self.start_up
    }

    /// When the last stream stopped measuring, once that is known.
    pub fn counted_until(&self) -> Option<Instant> {
        let measured = self.measured.load(Relaxed);
        (measured != u64::MAX).then(|| Instant::from_nanos(measured))
    }

    /// True if a request that is due at `intended` is no longer to be made.
    pub fn is_over(&self, intended: Instant) -> bool {
        intended.as_nanos() >= self.end.load(Relaxed)
    }

    /// When requests stop, once that is known.
    pub fn end(&self) -> Option<Instant> {
        let end = self.end.load(Relaxed);
        (end != u64::MAX).then(|| Instant::from_nanos(end))
    }

    /// Until when late arrivals of an open loop are still served: as long again as was measured. A device that cannot
    /// serve in twice the time what was offered is too far behind for its response times to mean anything but "too
    /// much".
    pub fn drained_until(&self) -> Option<Instant> {
        if self.was_interrupted() {
            return self.end();
        }
        Some(self.end()? + self.counted_until()?.saturating_since(self.counts_from()))
    }

    /// One stream has stopped measuring at `at`; the last one, or one that ends all, sets the end of the pass.
    pub(crate) fn stream_done(&self, at: Instant, ends_all: bool) {
        let before = self.measuring.fetch_sub(1, Relaxed);
        assert!(before > 0, "a stream stops measuring once");
        if before == 1 || ends_all {
            self.measured.fetch_min(at.as_nanos(), Relaxed);
            self.end.fetch_min((at + self.cool_down).as_nanos(), Relaxed);
        }
    }

    /// Ends the pass at `now`, whatever is left to do: an interrupt, or an error in a run that stops on errors.
    pub fn interrupt(&self, now: Instant) {
        self.interrupted.store(true, Relaxed);
        self.measured.fetch_min(now.as_nanos(), Relaxed);
        self.end.fetch_min(now.as_nanos(), Relaxed);
    }

    /// True if the pass was ended before its time.
    pub fn was_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed)
    }
}
