//! Steps: moments from which on a device takes longer, or less long, than before: a write cache that is full, garbage
//! collection, heat.
//!
//! The run is cut where the logarithm of the mean response, interval by interval, differs most between both sides, and
//! the sides are cut again (binary segmentation: A. J. Scott and M. Knott, "A cluster analysis method for grouping means
//! in the analysis of variance", 1974). A cut counts if response changes by half at least ([`LEAST`]), and by so many
//! standard errors ([`ERRORS`]) that a search over all cuts of a steady device finds one by chance in none of the
//! seeded runs of the tests. The noise is estimated from differences of neighbouring intervals, which a step does not
//! raise. A mean response over a step is of a device that never was.

use record::Operation;
use serde::Serialize;
use units::{Duration, Ratio};

use super::findings::Findings;
use crate::course::Course;
use crate::json::{number, seconds};

/// A smaller change is drift, of which the advice speaks.
const LEAST: f64 = 1.5;
const ERRORS: f64 = 8.0;
/// A side has so many intervals at least, of so many requests each.
const INTERVALS: usize = 5;
const REQUESTS: u64 = 5;
/// So many steps of one device are told.
const MOST: usize = 32;

/// A change of one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// The device.
    pub device: String,
    /// When, from the begin of the run.
    #[serde(with = "seconds", rename = "at_s")]
    pub at: Duration,
    /// Mean response before it, back to the step before.
    #[serde(with = "number", rename = "response_before_ns")]
    pub before: Duration,
    /// Mean response from then on.
    #[serde(with = "number", rename = "response_after_ns")]
    pub after: Duration,
    /// How many times as long requests take.
    #[serde(with = "number")]
    pub ratio: Ratio,
}

/// The steps of all devices, in order of time.
pub fn steps(course: &Course, names: &[String]) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..).zip(names).flat_map(|(device, name)| of_device(course, device, name)).collect();
    steps.sort_by_key(|step| step.at);
    steps
}

fn of_device(course: &Course, device: u16, name: &str) -> Vec<Step> {
    let length = course.series.interval();
    let counts = |from: Duration| {
        course.passes.iter().any(|pass| pass.counted.start <= from && from + length <= pass.counted.end)
    };
    let mut points: Vec<(Duration, f64)> = Vec::new();
    for index in 0..course.series.len() {
        let (from, done) = (length * index as u64, course.series.get(index, device));
        if let Some(mean) = done.response_mean().filter(|_| counts(from) && done.requests >= REQUESTS) {
            points.push((from, mean.as_seconds().max(1e-9).ln()));
        }
    }
    let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    let mut cuts = vec![0, values.len()];
    cuts.splice(1..1, cuts_of(&values));
    let mean = |from: usize, until: usize| values[from..until].iter().sum::<f64>() / (until - from) as f64;
    let step = |three: &[usize]| {
        let (before, after) = (mean(three[0], three[1]), mean(three[1], three[2]));
        Step {
            device: name.to_owned(),
            at: course.clock(points[three[1]].0),
            before: Duration::from_seconds(before.exp()),
            after: Duration::from_seconds(after.exp()),
            ratio: Ratio::new((after - before).exp()),
        }
    };
    cuts.windows(3).map(step).filter(|step| (step.ratio.get().ln()).abs() >= LEAST.ln()).take(MOST).collect()
}

/// What is to be said of the steps of a run, with what the machine showed meanwhile. Of a model its parts say it.
pub(super) fn remark(findings: &Findings) -> Option<String> {
    let beyond_bursts = |step: &&Step| {
        let near = |(from, until): &(Duration, Duration)| {
            step.at + Duration::seconds(1) >= *from && step.at <= *until + Duration::seconds(1)
        };
        !findings.bursts.iter().flat_map(|bursts| &bursts.when).any(near)
    };
    let steps: Vec<&Step> = findings.steps.iter().filter(beyond_bursts).collect();
    let worst = steps.iter().max_by(|a, b| a.ratio.get().ln().abs().total_cmp(&b.ratio.get().ln().abs()))?;
    let more = match steps.len() {
        1 => String::new(),
        2 => ", and changes once more".to_owned(),
        many => format!(", and changes {} times more", many - 1),
    };
    Some(format!(
        "{} changes at {}: requests take {} on average before, and {} from then on{more}; figures of the whole run are \
         averages of both{}",
        worst.device,
        worst.at,
        worst.before,
        worst.after,
        cause(findings, worst)
    ))
}

/// What may be the cause of a step. That of a device cannot be seen from outside.
fn cause(findings: &Findings, step: &Step) -> String {
    let Some(around) = findings.surroundings else { return String::new() };
    let clocks = |after: bool| {
        let side = around.intervals.iter().filter(|one| (one.from >= step.at) == after);
        let clocks: Vec<_> = side.filter_map(|one| one.around.clocks).collect();
        let mean = clocks.iter().map(|one| one.mean.get()).sum::<f64>() / clocks.len().max(1) as f64;
        (!clocks.is_empty()).then(|| (mean, clocks.iter().map(|one| one.slowed).sum::<u64>()))
    };
    if let Some(((before, _), (after, slowed))) = clocks(false).zip(clocks(true))
        && step.ratio.get() > 1.0
        && (after < 0.9 * before || slowed > 0)
    {
        let heat = if slowed > 0 { format!(", slowed for heat {slowed} times") } else { String::new() };
        return format!(
            "; the processors ran at {:.2} GHz before and at {:.2} GHz then{heat}",
            before / 1e9,
            after / 1e9
        );
    }
    if !around.cached.is_empty() {
        return "; requests went through the page cache: it may have filled, or begun to write back".to_owned();
    }
    let writes = findings.summary.operations.iter().any(|group| group.name == Operation::Write.name());
    let device = if writes { "a write cache that is full, garbage collection or heat" } else { "heat" };
    format!("; no other program is seen to have done that: inside the device it may be {device}")
}

/// Where values change, in order.
fn cuts_of(values: &[f64]) -> Vec<usize> {
    if values.len() < 2 * INTERVALS {
        return vec![];
    }
    // Of normal noise half of the differences of neighbours are less than 0.954 standard deviations.
    let mut jumps: Vec<f64> = values.windows(2).map(|two| (two[1] - two[0]).abs()).collect();
    jumps.sort_by(f64::total_cmp);
    let noise = (jumps[jumps.len() / 2] / 0.954).max(0.01);
    let (mut cuts, mut open) = (Vec::new(), vec![(0, values.len())]);
    while let Some((from, until)) = open.pop() {
        if let Some(cut) = best(values, from, until, noise) {
            cuts.push(cut);
            open.extend([(from, cut), (cut, until)]);
        }
    }
    cuts.sort_unstable();
    cuts
}

/// The cut of a stretch at which both sides differ most, if they do.
fn best(values: &[f64], from: usize, until: usize, noise: f64) -> Option<usize> {
    let all: f64 = values[from..until].iter().sum();
    let (mut left, mut best) = (0.0, (0.0, from));
    for cut in from + 1..until {
        left += values[cut - 1];
        let (here, there) = ((cut - from) as f64, (until - cut) as f64);
        if cut - from < INTERVALS || until - cut < INTERVALS {
            continue;
        }
        let apart = (left / here - (all - left) / there).abs();
        let errors = apart / (noise * (1.0 / here + 1.0 / there).sqrt());
        if apart >= LEAST.ln() / 2.0 && errors > best.0 {
            best = (errors, cut);
        }
    }
    (best.0 >= ERRORS).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::course::Extents;
    use rand_distr::{Distribution, Exp1};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;
    use record::{Operation, Phase, Row};
    use units::Instant;

    /// Twenty seconds of one request at a time, of a mean that `micros` says of the second, exponentially distributed.
    fn stepped(seed: u64, micros: impl Fn(u64) -> f64) -> Vec<Step> {
        let (mut random, mut rows, mut now) = (Xoshiro256PlusPlus::seed_from_u64(seed), Vec::new(), 0u64);
        while now < 20_000_000 {
            let draw: f64 = Exp1.sample(&mut random);
            let took = (draw * micros(now / 1_000_000)).ceil() as u64 + 1;
            let at = |micros: u64| Instant::START + Duration::micros(micros);
            let mut row = Row::new(Operation::Write, Phase::Measure);
            (row.intended, row.submitted, row.completed, row.length) = (at(now), at(now), at(now + took), 4096);
            rows.push(row);
            now += took;
        }
        let mut extents = Extents::default();
        extents.add(&rows);
        let mut course = extents.course(1);
        course.add(&rows);
        steps(&course, &["sda".to_owned()])
    }

    #[test]
    fn a_cliff_is_dated_and_measured() {
        let [step] = &stepped(1, |second| if second < 12 { 1000.0 } else { 3000.0 })[..] else { panic!("one step") };
        assert!((step.at.as_seconds() - 12.0).abs() < 0.3, "{step:?}");
        assert!((step.ratio.get() - 3.0).abs() < 0.3, "{step:?}");
    }

    #[test]
    fn slow_phases_have_a_begin_and_an_end() {
        let steps = stepped(2, |second| if second % 10 >= 7 { 4000.0 } else { 1000.0 });
        let at: Vec<f64> = steps.iter().map(|step| step.at.as_seconds().round()).collect();
        assert_eq!(at, [7.0, 10.0, 17.0], "{steps:?}");
    }

    #[test]
    fn a_steady_device_has_none() {
        for seed in 0..50 {
            assert_eq!(stepped(seed, |_| 2000.0), [], "seed {seed}");
        }
        // Five requests an interval: the noise of a mean is nearly half of it.
        assert_eq!(stepped(3, |_| 25_000.0), []);
        let drift = stepped(4, |second| 1000.0 + 10.0 * second as f64);
        assert_eq!(drift, [], "a drift of a fifth is no step");
    }
}
