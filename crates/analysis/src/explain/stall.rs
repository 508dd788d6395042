//! Stalls: times in which a device had requests and completed none, much longer than it usually takes.
//!
//! A *gap* is the time between two completions of a device while the request that ends it was under way. Its usual
//! length is told by the median, as stalls are few. A gap is a stall if it lasts 10 ms at least, and 20 times the
//! median, and 8 times the mean of the gaps that are no stalls: of exponential gaps one in a million is longer than
//! 13.9 means, which 20 medians are. Stalls are a finding if there are three or more and they take 3 percent of the
//! time at least; and if they take most of it they are no stalls but how the device works (completions in bursts).
//!
//! Stalls whose beginnings are equally far apart are called *periodic*: half of the distances then lie within a tenth
//! of their median. A stall that skips a period would double one distance, which a deviation would not forgive and
//! quartiles do.

use record::{Histogram, Row};
use serde::Serialize;
use units::{Duration, Instant, Ratio};

use crate::json::{number, seconds};

/// A shorter gap is no stall, however regular the others are.
pub(crate) const LEAST: Duration = Duration::millis(10);
pub(crate) const MEDIANS: u64 = 20;
pub(crate) const MEANS: f64 = 8.0;
const FEW: usize = 3;
/// In this share of the time stalls matter, and beyond the other they are the rule.
const MATTERS: f64 = 0.03;
const RULE: f64 = 0.6;
/// So many gaps are kept as candidates, the longest.
const MOST: usize = 1 << 14;

/// The stalls of a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stalls {
    /// The device.
    pub device: String,
    /// How many.
    pub count: usize,
    /// How long each lasted, on average.
    #[serde(with = "number", rename = "mean_ns")]
    pub mean: Duration,
    /// The longest.
    #[serde(with = "number", rename = "longest_ns")]
    pub longest: Duration,
    /// Their share of the time.
    #[serde(with = "number")]
    pub share: Ratio,
    /// When the first began, from the begin of the run.
    #[serde(with = "seconds", rename = "first_s")]
    pub first: Duration,
    /// The time from one to the next, if it is always about the same.
    #[serde(rename = "period_ns", serialize_with = "nanoseconds")]
    pub period: Option<Duration>,
    /// When each began.
    #[serde(skip)]
    pub begins: Vec<Duration>,
    /// What the other gaps last on average.
    #[serde(with = "number", rename = "usual_ns")]
    pub usual: Duration,
}

pub(super) fn nanoseconds<S: serde::Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(Duration::as_nanos).serialize(serializer)
}

/// Takes rows in order of completion.
#[derive(Debug, Default)]
pub struct StallWatch {
    devices: Vec<Watch>,
}

#[derive(Debug, Default)]
struct Watch {
    /// The last completion, and its pass.
    last: Option<(u16, Instant)>,
    gaps: Histogram,
    /// Beginnings and lengths of long gaps.
    long: Vec<(Instant, Duration)>,
}

impl StallWatch {
    /// Sees rows.
    pub fn add(&mut self, rows: &[Row]) {
        for row in rows {
            let device = usize::from(row.device);
            if device >= self.devices.len() {
                self.devices.resize_with(device + 1, Watch::default);
            }
            self.devices[device].add(row);
        }
    }

    /// What was found, of the devices by their names.
    pub fn finish(&self, names: &[String]) -> Vec<Stalls> {
        self.devices.iter().zip(names).filter_map(|(watch, name)| watch.stalls(name)).collect()
    }
}

impl Watch {
    fn add(&mut self, row: &Row) {
        let before = self.last.filter(|(pass, _)| *pass == row.pass).map(|(_, at)| at);
        self.last = Some((row.pass, row.completed));
        let Some(before) = before else { return };
        let begin = before.max(row.submitted);
        let gap = row.completed.saturating_since(begin);
        self.gaps.record(gap);
        if gap >= LEAST {
            if self.long.len() == 2 * MOST {
                self.long.select_nth_unstable_by_key(MOST, |(_, gap)| std::cmp::Reverse(*gap));
                self.long.truncate(MOST);
            }
            self.long.push((begin, gap));
        }
    }

    fn stalls(&self, device: &str) -> Option<Stalls> {
        let median = self.gaps.quantile(Ratio::percent(50.0))?;
        let least = LEAST.max(median * MEDIANS);
        let mut long: Vec<(Instant, Duration)> = self.long.iter().copied().filter(|(_, gap)| *gap >= least).collect();
        let taken = |long: &[(Instant, Duration)]| long.iter().map(|(_, gap)| gap.as_seconds()).sum::<f64>();
        let all = self.gaps.sum_nanos() as f64 / 1e9;
        let others = (self.gaps.count() as f64 - long.len() as f64).max(1.0);
        let usual = (all - taken(&long)).max(0.0) / others;
        long.retain(|(_, gap)| gap.as_seconds() >= MEANS * usual);
        let share = taken(&long) / all.max(1e-12);
        if long.len() < FEW || !(MATTERS..RULE).contains(&share) {
            return None;
        }
        long.sort_unstable();
        Some(Stalls {
            device: device.to_owned(),
            count: long.len(),
            mean: Duration::from_seconds(taken(&long) / long.len() as f64),
            longest: long.iter().map(|(_, gap)| *gap).max()?,
            share: Ratio::new(share),
            first: long[0].0.since(Instant::START),
            begins: long.iter().map(|(begin, _)| begin.since(Instant::START)).collect(),
            period: period(&long),
            usual: Duration::from_seconds(
                ((all - taken(&long)).max(0.0)) / (self.gaps.count() as f64 - long.len() as f64).max(1.0),
            ),
        })
    }
}

/// The distance of beginnings, if half of the distances are within a tenth of it. Passes have distances of their own,
/// so four are asked for.
pub(super) fn period(stalls: &[(Instant, Duration)]) -> Option<Duration> {
    let mut apart: Vec<Duration> = stalls.windows(2).map(|two| two[1].0.since(two[0].0)).collect();
    apart.sort_unstable();
    let median = *apart.get(apart.len() / 2)?;
    let quartile = |share: usize| apart[(apart.len() - 1) * share / 4];
    let near = quartile(1) * 10 >= median * 9 && quartile(3) * 10 <= median * 11;
    (apart.len() >= 4 && near).then_some(median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Operation, Phase};

    /// One request at a time for ten seconds, of 1 ms each but for what `slow` says of the millisecond at which it
    /// begins.
    fn watched(slow: impl Fn(u64) -> Option<u64>) -> Option<Stalls> {
        let (mut watch, mut now) = (StallWatch::default(), 0);
        while now < 10_000 {
            let took = slow(now).unwrap_or(1);
            let at = |millis: u64| Instant::START + Duration::millis(millis);
            let mut row = Row::new(Operation::Read, Phase::Measure);
            (row.intended, row.submitted, row.completed) = (at(now), at(now), at(now + took));
            watch.add(&[row]);
            now += took;
        }
        watch.finish(&["sda".to_owned()]).pop()
    }

    #[test]
    fn a_tenth_of_each_second_is_found_and_dated() {
        let stalls = watched(|now| now.is_multiple_of(1000).then_some(100)).unwrap();
        assert_eq!((stalls.count, stalls.mean, stalls.period), (9, Duration::millis(100), Some(Duration::seconds(1))));
        assert_eq!(stalls.first, Duration::seconds(1));
        assert!((stalls.share.get() - 0.09).abs() < 0.011, "{stalls:?}");
    }

    #[test]
    fn irregular_stalls_have_no_period() {
        let stalls = watched(|now| [700, 900, 3000, 3500, 8000].contains(&now).then_some(100)).unwrap();
        assert_eq!((stalls.count, stalls.period), (5, None));
    }

    #[test]
    fn neither_slow_devices_nor_bursts_nor_single_hiccups_are_stalls() {
        assert_eq!(watched(|_| Some(80)), None, "each request takes 80 ms");
        assert_eq!(watched(|now| Some(1 + now * 7919 % 30)), None, "1 to 30 ms");
        assert_eq!(watched(|now| (now == 5000).then_some(400)), None, "once");
        // 32 completions at once, and then nothing for 50 ms.
        let mut watch = StallWatch::default();
        for burst in 0..200u64 {
            for _ in 0..32 {
                let at = |millis: u64| Instant::START + Duration::millis(millis);
                let mut row = Row::new(Operation::Read, Phase::Measure);
                (row.submitted, row.completed) = (at(burst * 50), at(burst * 50 + 50));
                watch.add(&[row]);
            }
        }
        assert_eq!(watch.finish(&["sda".to_owned()]), []);
    }

    #[test]
    fn what_is_not_asked_for_is_no_stall() {
        // A request each 100 ms, of 1 ms.
        let mut watch = StallWatch::default();
        for number in 0..100u64 {
            let at = |millis: u64| Instant::START + Duration::millis(millis);
            let mut row = Row::new(Operation::Read, Phase::Measure);
            (row.submitted, row.completed) = (at(number * 100), at(number * 100 + 1));
            watch.add(&[row]);
        }
        assert_eq!(watch.finish(&["sda".to_owned()]), []);
    }
}
