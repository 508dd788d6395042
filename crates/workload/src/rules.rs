//! Rules that hold a stream back, or end it before its limits: what jobs of fio keep to besides rates.
//!
//! *Flow* keeps streams of one pool to shares of their requests: a stream waits while its part of all requests of the
//! pool is above its part of all weights (fio since 3.26). A stream that has ended leaves the pool with its requests,
//! as those that stay would wait for it otherwise.
//!
//! A *steady* stream ends when a figure of its group, taken each interval over a window, no longer changes: when no
//! value is farther from the mean than the limit, or when the slope of a straight line through the values, by least
//! squares, is flatter. Both are fio's `steadystate`.
//!
//! *Least* ends a stream that is slower than it has to be. It is looked at when a request completes, as fio does, so
//! that a slow pace of large requests is none too slow between two of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use device::{DeviceError, Operation, PaceUnit};
use units::{Bytes, Duration, Instant};

use crate::{OnError, Search};

/// The rules of one stream; none mostly.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rules {
    /// What a failed read does, and any other request that fails; what the run says, if absent.
    pub on_error: Option<[OnError; 2]>,
    /// Errors of reads, and of other requests, that are counted and end nothing, whatever `on_error` says; by number.
    pub ignored: [Vec<u16>; 2],
    /// A write for which there is no room ends it, and is no error.
    pub ends_full: bool,
    /// A mismatch that its reads find ends it.
    pub ends_wrong: bool,
    /// Streams of one group end together when one with `ends_group` ends.
    pub group: u32,
    /// Its end is that of its group.
    pub ends_group: bool,
    /// Its share of the requests of a pool.
    pub flow: Option<Flow>,
    /// A request that takes longer ends it, as an error.
    pub longest: Option<Duration>,
    /// A pace below which it ends, as an error: of reads and of what is none.
    pub least: Option<Least>,
    /// It ends when it is steady.
    pub steady: Option<Settling>,
    /// It searches for the deepest queue that keeps to a latency. Closed loops only.
    pub search: Option<Search>,
    /// A request waits for those under way that it overlaps with.
    pub serial: bool,
    /// When all that may be under way is, no request is made before so few are: fio's `iodepth_low`.
    pub low: Option<u32>,
}

impl Rules {
    /// True if they say what errors do, and nothing else.
    pub fn are_of_errors_alone(&self) -> bool {
        let (on_error, ignored) = (self.on_error, self.ignored.clone());
        Rules { on_error, ignored, group: self.group, ..Rules::default() } == *self
    }
}

/// A share of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Which pool.
    pub pool: u32,
    /// Its weight among those of the pool; above zero.
    pub weight: u32,
    /// How long it rests when it is ahead; as short as makes sense, if zero.
    pub rest: Duration,
}

/// The least pace, in each of two directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Least {
    /// Over so much time, from two seconds after the first request on.
    pub every: Duration,
    /// Bytes a second; zero for any.
    pub bytes: [u64; 2],
    /// Requests a second.
    pub requests: [u64; 2],
}

/// When a stream is steady.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settling {
    /// Streams of one number are looked at as one, and end as one.
    pub with: u32,
    /// What is looked at.
    pub figure: Figure,
    /// Its slope, not its deviation from the mean.
    pub slope: bool,
    /// The limit: in percent of the mean, or in the figure's own unit.
    pub limit: Limit,
    /// Over so much time.
    pub window: Duration,
    /// Each value is of so much of it.
    pub interval: Duration,
    /// After so much time without looking.
    pub ramp: Duration,
}

/// A figure that may be steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Requests a second.
    Requests,
    /// Bytes a second.
    Bytes,
    /// The mean response, in nanoseconds.
    Latency,
}

/// How far a figure may change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// Of the mean.
    Percent(f64),
    /// In its own unit.
    Of(f64),
}

/// What all of a group did until some moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Sum {
    pub requests: u64,
    pub bytes: u64,
    pub nanos: u64,
}

/// The values of a window, as they come.
#[derive(Debug)]
pub(crate) struct Window {
    rule: Settling,
    values: VecDeque<f64>,
    last: Option<(Instant, Sum)>,
}

impl Window {
    pub fn new(rule: Settling) -> Window {
        Window { rule, values: VecDeque::new(), last: None }
    }

    /// Takes what was done until now, and says whether the window is steady.
    pub fn look(&mut self, now: Instant, sum: Sum) -> bool {
        let Some((then, before)) = self.last.replace((now, sum)) else { return false };
        let seconds = now.saturating_since(then).as_seconds();
        let requests = sum.requests.saturating_sub(before.requests) as f64;
        let value = match self.rule.figure {
            Figure::Requests => requests / seconds,
            Figure::Bytes => sum.bytes.saturating_sub(before.bytes) as f64 / seconds,
            Figure::Latency => sum.nanos.saturating_sub(before.nanos) as f64 / requests.max(1.0),
        };
        let most = (self.rule.window.as_nanos() / self.rule.interval.as_nanos()).max(1) as usize;
        self.values.push_back(value);
        if self.values.len() > most {
            self.values.pop_front();
        }
        self.values.len() == most && self.is_steady()
    }

    fn is_steady(&self) -> bool {
        let count = self.values.len() as f64;
        let mean = self.values.iter().sum::<f64>() / count;
        let change = if self.rule.slope {
            let middle = (count - 1.0) / 2.0;
            let places = || (0..self.values.len()).map(|place| place as f64 - middle);
            let squares: f64 = places().map(|place| place * place).sum();
            let products: f64 = places().zip(&self.values).map(|(place, value)| place * value).sum();
            (products / squares).abs()
        } else {
            self.values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max)
        };
        match self.rule.limit {
            Limit::Percent(percent) => 100.0 * change / mean < percent,
            Limit::Of(limit) => change < limit,
        }
    }
}

/// What a stream moved since its pace was looked at last, in two directions.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    done: [(u64, u64); 2],
    last: [Option<(Instant, (u64, u64))>; 2],
}

impl Pace {
    /// Counts a request that has completed at `now`, of a stream that began at `begin`; the error if it was too slow.
    pub fn completed(
        &mut self,
        least: &Least,
        (operation, length): (Operation, Bytes),
        (begin, now): (Instant, Instant),
    ) -> Option<DeviceError> {
        const SETTLES: Duration = Duration::seconds(2);
        let side = usize::from(operation != Operation::Read);
        self.done[side].0 += 1;
        self.done[side].1 += length.get();
        if now.saturating_since(begin) < SETTLES {
            return None;
        }
        for side in 0..2 {
            let (bytes, requests) = (least.bytes[side], least.requests[side]);
            if (bytes == 0 && requests == 0) || self.done[side].0 == 0 {
                continue;
            }
            if let Some((then, before)) = self.last[side] {
                let spent = now.saturating_since(then);
                if spent < least.every || spent.is_zero() {
                    continue;
                }
                let rate = |now: u64, before: u64| ((now - before) as f64 / spent.as_seconds()) as u64;
                let (by_count, by_bytes) = (rate(self.done[side].0, before.0), rate(self.done[side].1, before.1));
                if by_bytes < bytes {
                    return Some(DeviceError::Slow { got: by_bytes, least: bytes, unit: PaceUnit::Bytes });
                }
                if by_count < requests {
                    return Some(DeviceError::Slow { got: by_count, least: requests, unit: PaceUnit::Requests });
                }
            }
            self.last[side] = Some((now, self.done[side]));
        }
        None
    }
}

/// How the streams of a pass stand by their rules.
#[derive(Debug)]
pub(crate) struct Standing {
    streams: Vec<Stream>,
    pools: Vec<Pool>,
}

#[derive(Debug)]
struct Stream {
    /// When it ends, whatever its limits; `u64::MAX` while nothing ends it.
    end: AtomicU64,
    group: u32,
    flow: Option<(usize, Flow)>,
    flowed: AtomicU64,
    left: AtomicU64,
    /// With whom it is steady.
    settles: Option<u32>,
    requests: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
}

/// The streams that share requests by weight.
#[derive(Debug)]
struct Pool {
    number: u32,
    /// From one on, so that there is a share of it.
    requests: AtomicU64,
    weights: AtomicU64,
}

impl Standing {
    pub fn new<'r>(rules: impl IntoIterator<Item = &'r Rules>) -> Standing {
        let mut standing = Standing { streams: Vec::new(), pools: Vec::new() };
        for rules in rules {
            let flow = rules.flow.map(|flow| (standing.pool(flow), flow));
            standing.streams.push(Stream {
                end: AtomicU64::new(u64::MAX),
                group: rules.group,
                flow,
                flowed: AtomicU64::new(0),
                left: AtomicU64::new(0),
                settles: rules.steady.map(|steady| steady.with),
                requests: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                nanos: AtomicU64::new(0),
            });
        }
        standing
    }

    fn pool(&mut self, flow: Flow) -> usize {
        let place = self.pools.iter().position(|pool| pool.number == flow.pool).unwrap_or_else(|| {
            let (requests, weights) = (AtomicU64::new(1), AtomicU64::new(0));
            self.pools.push(Pool { number: flow.pool, requests, weights });
            self.pools.len() - 1
        });
        self.pools[place].weights.fetch_add(flow.weight.into(), Relaxed);
        place
    }

    /// When a stream is ended by a rule; never, if by none.
    pub fn end(&self, stream: u16) -> Instant {
        let end = self.streams.get(usize::from(stream)).map_or(u64::MAX, |stream| stream.end.load(Relaxed));
        if end == u64::MAX { Instant::NEVER } else { Instant::from_nanos(end) }
    }

    pub fn end_stream(&self, stream: u16, at: Instant) {
        if let Some(stream) = self.streams.get(usize::from(stream)) {
            stream.end.fetch_min(at.as_nanos(), Relaxed);
        }
    }

    /// Ends all that are of the group of this one.
    pub fn end_group(&self, stream: u16, at: Instant) {
        let Some(group) = self.streams.get(usize::from(stream)).map(|stream| stream.group) else { return };
        for other in self.streams.iter().filter(|other| other.group == group) {
            other.end.fetch_min(at.as_nanos(), Relaxed);
        }
    }

    /// Counts a request of a stream against its pool, or says how long the stream is to rest first.
    pub fn flows(&self, stream: u16) -> Option<Duration> {
        /// As long as waking up takes; a shorter rest would be a busy one.
        const SHORTEST: Duration = Duration::micros(50);
        let own = self.streams.get(usize::from(stream))?;
        let (pool, flow) = own.flow.as_ref()?;
        let pool = &self.pools[*pool];
        let (mine, all) = (own.flowed.load(Relaxed) as f64, pool.requests.load(Relaxed) as f64);
        if mine / all > f64::from(flow.weight) / pool.weights.load(Relaxed) as f64 {
            return Some(flow.rest.max(SHORTEST));
        }
        own.flowed.fetch_add(1, Relaxed);
        pool.requests.fetch_add(1, Relaxed);
        None
    }

    /// A stream has ended, and takes its requests out of its pool.
    pub fn leave(&self, stream: u16) {
        let Some(own) = self.streams.get(usize::from(stream)) else { return };
        let Some((pool, flow)) = &own.flow else { return };
        if own.left.swap(1, Relaxed) == 0 {
            self.pools[*pool].requests.fetch_sub(own.flowed.load(Relaxed), Relaxed);
            self.pools[*pool].weights.fetch_sub(flow.weight.into(), Relaxed);
        }
    }

    /// Counts what a stream has done, if somebody looks at it.
    pub fn completed(&self, stream: u16, length: Bytes, took: Duration) {
        if let Some(own) = self.streams.get(usize::from(stream)).filter(|own| own.settles.is_some()) {
            own.requests.fetch_add(1, Relaxed);
            own.bytes.fetch_add(length.get(), Relaxed);
            own.nanos.fetch_add(took.as_nanos(), Relaxed);
        }
    }

    /// What all streams have done that are looked at together.
    pub fn sum(&self, with: u32) -> Sum {
        self.settling(with).fold(Sum::default(), |sum, other| Sum {
            requests: sum.requests + other.requests.load(Relaxed),
            bytes: sum.bytes + other.bytes.load(Relaxed),
            nanos: sum.nanos + other.nanos.load(Relaxed),
        })
    }

    /// They are steady.
    pub fn end_settled(&self, with: u32, at: Instant) {
        self.settling(with).for_each(|stream| _ = stream.end.fetch_min(at.as_nanos(), Relaxed));
    }

    fn settling(&self, with: u32) -> impl Iterator<Item = &Stream> {
        self.streams.iter().filter(move |stream| stream.settles == Some(with))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settling(slope: bool, limit: Limit) -> Settling {
        let second = Duration::seconds(1);
        Settling { with: 0, figure: Figure::Requests, slope, limit, window: second * 4, interval: second, ramp: second }
    }

    /// After how many values the window of four is steady.
    fn steady_after(rule: Settling, values: &[u64]) -> Option<usize> {
        let mut window = Window::new(rule);
        let mut sum = Sum::default();
        window.look(Instant::START, sum);
        values.iter().enumerate().find_map(|(index, value)| {
            sum.requests += value;
            let now = Instant::START + Duration::seconds(index as u64 + 1);
            window.look(now, sum).then_some(index + 1)
        })
    }

    #[test]
    fn a_window_is_steady_by_deviation_or_by_slope() {
        let falling = [1000, 800, 600, 400, 410, 390, 400, 400];
        assert_eq!(steady_after(settling(false, Limit::Percent(5.0)), &falling), Some(7));
        assert_eq!(steady_after(settling(false, Limit::Of(1.0)), &falling), None);
        // Up and down is flat, and far from its mean.
        let swinging = [100, 300, 300, 100, 100];
        assert_eq!(steady_after(settling(true, Limit::Percent(1.0)), &swinging), Some(4));
        assert_eq!(steady_after(settling(false, Limit::Percent(1.0)), &swinging), None);
    }

    #[test]
    fn a_pace_is_looked_at_when_a_request_completes_and_the_window_is_over() {
        let least = Least { every: Duration::seconds(1), bytes: [1024, 0], requests: [0, 0] };
        let at = |millis| (Instant::START, Instant::START + Duration::millis(millis));
        let mut pace = Pace::default();
        let read = (Operation::Read, Bytes::kib(4));
        // 4096 bytes in 3.3 s are enough, in 5 s they are not.
        assert_eq!([0, 3300, 6600].map(|millis| pace.completed(&least, read, at(millis))), [None, None, None]);
        let slow = DeviceError::Slow { got: 819, least: 1024, unit: PaceUnit::Bytes };
        assert_eq!(pace.completed(&least, read, at(11_600)), Some(slow));
    }

    #[test]
    fn shares_of_a_pool_are_kept_until_one_leaves() {
        let flow = |weight| Rules { flow: Some(Flow { pool: 0, weight, rest: Duration::ZERO }), ..Rules::default() };
        let standing = Standing::new(&[flow(1), flow(3)]);
        let mut made = [0, 0];
        for turn in 0..4000 {
            made[turn % 2] += u32::from(standing.flows((turn % 2) as u16).is_none());
        }
        assert!((made[0] as f64 * 3.0 / f64::from(made[1]) - 1.0).abs() < 0.01, "{made:?}");
        standing.leave(1);
        assert!((0..100).all(|_| standing.flows(0).is_none()), "who is alone never waits");
    }
}
