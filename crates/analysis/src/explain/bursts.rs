//! Bursts of other programs: the intervals in which they took a device or the processors, and what a run lost by it.
//!
//! Over a whole run a neighbour that works for two seconds of ten has a share that nobody would blame. So the
//! surroundings are kept by the second ([`Surroundings::intervals`]), and intervals are *taken* in which others had a
//! fifth of what a block device moved ([`MUCH`]), or of the processors while these had nothing left. Requests that
//! completed then are compared with those of the other intervals, by their mean response and by their rate: of a closed
//! loop both become worse, of an open one the response.
//!
//! Taken intervals are a finding if requests did clearly worse in them ([`WORSE`]), and if what the run did in the
//! median of them is beyond what it did in nine of ten others: a device that varies by itself does as badly without a
//! neighbour. Bursts shorter than an interval are spread over it: they are seen as a share, and dated to the interval.

use record::{Phase, Row};
use serde::Serialize;
use units::{Bytes, Duration, Instant, Ratio};

use super::findings::{MUCH, full};
use super::limit::LimitKind;
use super::stall::{nanoseconds, period};
use crate::json::{number, seconds};
use crate::series;
use crate::surroundings::{Disk, Interval, Neighbour, Surroundings};

/// Requests do worse in an interval if their mean response is this many times that of the others. This and what follows
/// is assumed; `benchsuite verdicts` plants bursts that cost more, and the tests have some that cost nothing.
const WORSE: f64 = 1.25;
/// With a ratio of this, one interval is enough.
const MUCH_WORSE: f64 = 2.0;
/// With fewer intervals that nobody took there is nothing to compare.
const FEW: usize = 3;
/// If others had the most of the time, that is no burst, and the shares of the whole run say it.
const RULE: f64 = 0.6;

/// What other programs did in bursts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bursts {
    /// What they took: a neighbour's I/O, or processors.
    pub kind: LimitKind,
    /// The block device, or `the processors`.
    pub part: String,
    /// The devices of the run that stand on it; all of them for processors.
    pub devices: Vec<String>,
    /// The programs, who took most first; none if they could not be seen.
    pub by: Vec<String>,
    /// How many.
    pub count: usize,
    /// How long each lasted, on average, to the length of an interval.
    #[serde(with = "number", rename = "mean_ns")]
    pub mean: Duration,
    /// Their share of the counted time.
    #[serde(with = "number")]
    pub share: Ratio,
    /// When the first began, from the begin of the run.
    #[serde(with = "seconds", rename = "first_s")]
    pub first: Duration,
    /// The time from one to the next, if it is always about the same.
    #[serde(rename = "period_ns", serialize_with = "nanoseconds")]
    pub period: Option<Duration>,
    /// Mean response of requests that completed in a burst.
    #[serde(with = "number", rename = "response_within_ns")]
    pub within: Duration,
    /// That of the others.
    #[serde(with = "number", rename = "response_otherwise_ns")]
    pub otherwise: Duration,
    /// What the bursts cost: by how much less was done, or of the mean response how much was theirs.
    #[serde(with = "number")]
    pub cost: Ratio,
    /// When they were.
    #[serde(skip)]
    pub when: Vec<(Duration, Duration)>,
}

/// Takes rows in order of completion, and counts them by the intervals of the surroundings.
#[derive(Debug)]
pub struct BurstWatch {
    bounds: Vec<(Duration, Duration)>,
    /// By interval, then by device.
    cells: Vec<Vec<series::Interval>>,
    at: usize,
}

impl BurstWatch {
    /// For the intervals in which a run was looked at.
    pub fn new(intervals: &[Interval], devices: usize) -> BurstWatch {
        let bounds: Vec<_> = intervals.iter().map(|one| (one.from, one.until)).collect();
        BurstWatch { cells: vec![vec![series::Interval::default(); devices]; bounds.len()], bounds, at: 0 }
    }

    /// Sees rows.
    pub fn add(&mut self, rows: &[Row]) {
        if self.bounds.is_empty() {
            return;
        }
        for row in rows {
            let at = row.completed.since(Instant::START);
            let (from, until) = self.bounds[self.at];
            if !(from..until).contains(&at) {
                self.at = self.bounds.partition_point(|(_, until)| *until <= at).min(self.bounds.len() - 1);
            }
            let (from, until) = self.bounds[self.at];
            if (from..until).contains(&at) && row.phase == Phase::Measure {
                self.cells[self.at][usize::from(row.device)].add(row);
            }
        }
    }

    /// What was found, what cost most first.
    pub fn finish(&self, around: &Surroundings, names: &[String]) -> Vec<Bursts> {
        assert_eq!(around.intervals.len(), self.cells.len(), "the intervals of these surroundings");
        let disks = around.disks.iter().filter(|disk| !disk.devices.is_empty());
        let of_disk = |disk: &Disk| self.on_disk(around, disk, names);
        let mut found: Vec<Bursts> = disks.filter_map(of_disk).chain(self.on_processors(around, names)).collect();
        found.sort_by(|a, b| b.cost.get().total_cmp(&a.cost.get()));
        found
    }

    fn on_disk(&self, around: &Surroundings, disk: &Disk, names: &[String]) -> Option<Bursts> {
        if disk.devices.iter().any(|device| around.cached.contains(device)) {
            return None;
        }
        let indices: Vec<usize> = (0..names.len()).filter(|index| disk.devices.contains(&names[*index])).collect();
        let taken = |place: usize| {
            let own: u64 = indices.iter().map(|index| self.cells[place][*index].bytes.get()).sum();
            let here = around.intervals[place].around.disks.iter().find(|other| other.name == disk.name);
            let (share, programs) = here.and_then(|here| foreign(&around.intervals[place].around, here, own))?;
            (share >= MUCH).then(|| programs.into_iter().map(program).collect())
        };
        self.bursts(around, LimitKind::Neighbour, &disk.name, &indices, names, taken)
    }

    fn on_processors(&self, around: &Surroundings, names: &[String]) -> Option<Bursts> {
        let all: Vec<usize> = (0..names.len()).collect();
        let taken = |place: usize| {
            let here = &around.intervals[place].around;
            let much = MUCH * here.processors.len() as f64;
            let programs = here.neighbours.iter().filter(|one| one.processor.get() * 4.0 >= much).map(program);
            (full(here) && here.of_neighbours() >= much).then(|| programs.collect())
        };
        self.bursts(around, LimitKind::Processors, "the processors", &all, names, taken)
    }

    /// Compares the intervals that others took, as `taken` says with their names, with the rest.
    fn bursts(
        &self,
        around: &Surroundings,
        kind: LimitKind,
        part: &str,
        devices: &[usize],
        names: &[String],
        taken: impl Fn(usize) -> Option<Vec<String>>,
    ) -> Option<Bursts> {
        let (mut within, mut otherwise, mut by) = (Side::default(), Side::default(), Vec::new());
        let mut when: Vec<(Duration, Duration)> = Vec::new();
        for (place, interval) in around.intervals.iter().enumerate() {
            let mut done = series::Interval::default();
            devices.iter().for_each(|device| done.merge(&self.cells[place][*device]));
            let length = interval.until - interval.from;
            match taken(place) {
                None => otherwise.add(done, length),
                Some(programs) => {
                    within.add(done, length);
                    for program in programs {
                        if !by.contains(&program) {
                            by.push(program);
                        }
                    }
                    match when.last_mut().filter(|(_, until)| *until == interval.from) {
                        Some((_, until)) => *until = interval.until,
                        None => when.push((interval.from, interval.until)),
                    }
                }
            }
        }
        let share = within.time / (within.time + otherwise.time).max(1e-9);
        if when.is_empty() || otherwise.slowness.len() < FEW || share >= RULE {
            return None;
        }
        let worse = (within.slowness() / otherwise.slowness()).max(otherwise.rate() / within.rate().max(1e-9));
        let enough = within.slowness.len() >= 2 || worse >= MUCH_WORSE;
        if worse < WORSE || !enough || within.median() <= otherwise.quantile(0.9) {
            return None;
        }
        let all = (within.done.requests + otherwise.done.requests) as f64 / (within.time + otherwise.time);
        let mean =
            (within.total() + otherwise.total()) / (within.done.requests + otherwise.done.requests).max(1) as f64;
        let cost = (1.0 - all / otherwise.rate()).max(1.0 - otherwise.slowness() / mean).max(0.0);
        let stamped: Vec<_> = when.iter().map(|(from, until)| (Instant::START + *from, *until - *from)).collect();
        by.truncate(4);
        Some(Bursts {
            kind,
            part: part.to_owned(),
            devices: devices.iter().map(|device| names[*device].clone()).collect(),
            by,
            count: when.len(),
            mean: Duration::from_seconds(within.time / when.len() as f64),
            share: Ratio::new(share),
            first: when[0].0,
            period: period(&stamped),
            within: Duration::from_seconds(within.slowness()),
            otherwise: Duration::from_seconds(otherwise.slowness()),
            cost: Ratio::new(cost),
            when,
        })
    }
}

/// What was done in some intervals.
#[derive(Default)]
struct Side {
    time: f64,
    done: series::Interval,
    /// The mean response of each interval; endless where nothing completed.
    slowness: Vec<f64>,
}

impl Side {
    fn add(&mut self, done: series::Interval, length: Duration) {
        self.time += length.as_seconds();
        self.slowness.push(done.response_mean().map_or(f64::INFINITY, Duration::as_seconds));
        self.done.merge(&done);
    }
    fn rate(&self) -> f64 {
        self.done.requests as f64 / self.time.max(1e-9)
    }
    /// Mean response in seconds; of nothing it is zero, and the rate says what there is to say.
    fn slowness(&self) -> f64 {
        self.done.response_mean().map_or(0.0, Duration::as_seconds)
    }
    fn total(&self) -> f64 {
        self.slowness() * self.done.requests as f64
    }
    fn median(&self) -> f64 {
        self.quantile(0.5)
    }
    fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.slowness.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[((sorted.len() - 1) as f64 * share).round() as usize]
    }
}

impl Bursts {
    /// When they were and what came of it, in words.
    pub fn said(&self) -> String {
        let by = if self.by.is_empty() { "programs that cannot be seen".to_owned() } else { self.by.join(", ") };
        let what = if self.kind == LimitKind::Processors { "work" } else { "I/O" };
        let every = self.period.map_or(String::new(), |period| format!(", one every {period}"));
        format!(
            "bursts of {what} on {} by {by}: {}, {} long on average, in {} of the time; the first began at {}{every}; \
             requests took {} meanwhile, and {} otherwise",
            self.part, self.count, self.mean, self.share, self.first, self.within, self.otherwise
        )
    }

    /// True if most of some pauses of a device, by their beginnings, lie in them or began with them.
    pub(super) fn explain(&self, device: &str, begins: &[Duration]) -> bool {
        let within = |at: &&Duration| self.when.iter().any(|(from, until)| (*from..=*until).contains(*at));
        self.devices.iter().any(|one| one == device) && begins.iter().filter(within).count() * 4 >= begins.len() * 3
    }
}

fn program(one: &Neighbour) -> String {
    format!("{} ({})", one.name, one.id)
}

/// The share of what a block device moved that others had, and who they are, if their programs are known or nobody else
/// could have asked for it. `own` is what the run had of it, in bytes.
pub(super) fn foreign<'a>(around: &'a Surroundings, disk: &Disk, own: u64) -> Option<(f64, Vec<&'a Neighbour>)> {
    let moved: u64 = disk.moved.iter().sum();
    let others = moved.saturating_sub(own);
    let had = |one: &Neighbour| one.read + one.written;
    let mut named: Vec<_> = around.neighbours.iter().filter(|one| had(one).get() * 10 >= others.max(1)).collect();
    named.sort_by_key(|one| std::cmp::Reverse(had(one)));
    let known: Bytes = named.iter().map(|one| had(one)).sum();
    named.truncate(4);
    (disk.is_raw || known.get() * 2 >= others).then(|| (others as f64 / (moved as f64).max(1.0), named))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Operation;

    /// Forty seconds of a closed loop of one request; while `slow` says so, each takes five times as long. What others
    /// read each second is `others` MiB.
    fn watched(slow: impl Fn(u64) -> bool, others: impl Fn(u64) -> u64) -> Vec<Bursts> {
        let (mut rows, mut now) = (Vec::new(), 0);
        while now < 40_000 {
            let took = if slow(now / 1000) { 5 } else { 1 };
            let at = |millis: u64| Instant::START + Duration::millis(millis);
            let mut row = Row::new(Operation::Read, Phase::Measure);
            (row.intended, row.submitted, row.completed, row.length) = (at(now), at(now), at(now + took), 4096);
            rows.push(row);
            now += took;
        }
        let interval = |second: u64| {
            let done =
                rows.iter().filter(|row| row.completed.since(Instant::START).as_nanos() / 1_000_000_000 == second);
            let moved = [done.count() as u64 * 4096 + (others(second) << 20), 0];
            let disk = Disk {
                name: "sda".to_owned(),
                devices: vec!["/dev/sda".to_owned()],
                is_raw: true,
                requests: [1, 0],
                moved,
                merges: [0; 2],
                in_flight: 1.0,
                busy: Ratio::ONE,
            };
            let read = Bytes::mib(others(second));
            let fio = Neighbour { name: "fio".to_owned(), id: 9, processor: Ratio::ZERO, read, written: Bytes::ZERO };
            let around = Surroundings { disks: vec![disk], neighbours: vec![fio], ..Surroundings::default() };
            Interval { from: Duration::seconds(second), until: Duration::seconds(second + 1), around }
        };
        let intervals: Vec<Interval> = (0..40).map(interval).collect();
        let disks = intervals[0].around.disks.clone();
        let around = Surroundings { intervals, disks, ..Surroundings::default() };
        let mut watch = BurstWatch::new(&around.intervals, 1);
        rows.chunks(100).for_each(|rows| watch.add(rows));
        watch.finish(&around, &["/dev/sda".to_owned()])
    }

    #[test]
    fn a_neighbour_of_two_seconds_in_ten_is_found_and_dated() {
        let taken = |second: u64| second % 10 < 2;
        let [bursts] = &watched(taken, |second| if taken(second) { 50 } else { 0 })[..] else { panic!("one finding") };
        assert_eq!((bursts.count, bursts.mean, bursts.first), (4, Duration::seconds(2), Duration::ZERO));
        assert_eq!((bursts.by.join(","), bursts.kind), ("fio (9)".to_owned(), LimitKind::Neighbour));
        assert!((bursts.within.as_seconds() - 0.005).abs() < 1e-4 && bursts.share.get() == 0.2, "{bursts:?}");
        // In two of ten seconds a fifth is done: 16 percent less than without.
        assert!((bursts.cost.get() - 0.16).abs() < 0.01, "{bursts:?}");
        assert!(bursts.explain("/dev/sda", &[Duration::millis(500), Duration::seconds(11)]), "{bursts:?}");
        assert!(!bursts.explain("/dev/sda", &[Duration::seconds(5), Duration::seconds(15)]), "{bursts:?}");
        assert!(!bursts.explain("/dev/sdb", &[Duration::seconds(11)]), "another device");
    }

    #[test]
    fn a_neighbour_without_harm_and_harm_without_a_neighbour_are_none() {
        let taken = |second: u64| second % 10 < 2;
        assert_eq!(watched(|_| false, |second| if taken(second) { 50 } else { 0 }), [], "no harm");
        assert_eq!(watched(taken, |_| 0), [], "nobody there");
        assert_eq!(watched(taken, |second| if taken(second + 5) { 50 } else { 0 }), [], "at other times");
        assert_eq!(watched(|_| true, |_| 50), [], "all the time, which is no burst");
    }
}
