//! Where requests of a modelled machine, or of a traced kernel, spent their time: part by part, phase by phase, as the
//! SCSI analyzer of RAID-I's Tables 5 to 11 prints it.

use record::{Span, SpanLog, SpanNames};
use serde::Serialize;
use units::{Duration, Instant, Ratio};

use crate::json::number;

/// A part of the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartTime {
    /// Its name.
    pub part: String,
    /// What it is, where the machine's description says: a kind of part, and which one of the kind. Parts of one make
    /// are alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub make: Option<Make>,
    /// The share of the time in which it worked, as the machine has counted; where nobody has, in which it worked for
    /// at least one request. A phase whose name speaks of waiting, of a queue or of other members is no work.
    #[serde(with = "number")]
    pub busy: Ratio,
    /// Its phases, the longest first.
    pub phases: Vec<PhaseTime>,
}

/// What a part of a modelled machine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Make {
    /// The kind of part.
    pub kind: String,
    /// Which one of the kind.
    pub part: String,
}

impl PartTime {
    /// A part that was at work for this share of the time, and of which no phases are known.
    pub fn at_work(part: String, busy: Ratio) -> PartTime {
        PartTime { part, make: None, busy, phases: Vec::new() }
    }
}

/// A phase of a part's work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseTime {
    /// Its name.
    pub phase: String,
    /// How often.
    pub count: u64,
    /// How long, on average.
    #[serde(with = "number", rename = "mean_ns")]
    pub mean: Duration,
    /// Its share in the time of all requests.
    #[serde(with = "number")]
    pub share: Ratio,
}

impl PhaseTime {
    /// How long in all, in seconds.
    pub(super) fn time(&self) -> f64 {
        self.mean.as_seconds() * self.count as f64
    }
    /// The part works in it, and waits for nothing else.
    pub(super) fn is_work(&self) -> bool {
        !waits(&self.phase)
    }
}

/// True if a part in this phase waits for something else.
fn waits(phase: &str) -> bool {
    ["wait", "queue", "other-members"].iter().any(|word| phase.contains(word))
}

/// The table of a log of spans: parts that work most first.
pub fn parts(log: &SpanLog) -> Vec<PartTime> {
    let mut times = PartTimes::default();
    times.add(log.names(), log.spans());
    times.finish(log.names())
}

/// Adds up the spans of a run, of which there may be more than memory should hold.
#[derive(Debug, Default)]
pub struct PartTimes {
    /// By the number of the part.
    parts: Vec<OfPart>,
    begin: Option<Instant>,
    end: Instant,
}

#[derive(Debug, Default)]
struct OfPart {
    /// By the number of the phase.
    phases: Vec<OfPhase>,
    work: Union,
}

#[derive(Debug, Clone, Default)]
struct OfPhase {
    count: u64,
    /// Nanoseconds.
    time: u128,
    /// Set with the first span of the phase.
    is_work: bool,
}

impl PartTimes {
    /// Adds some spans. The numbers of names stay the same from call to call.
    pub fn add(&mut self, names: &SpanNames, spans: &[Span]) {
        for span in spans {
            let part = at(&mut self.parts, span.part.index());
            let phase = at(&mut part.phases, span.phase.index());
            if phase.count == 0 {
                phase.is_work = !waits(names.phase(span.phase));
            }
            phase.count += 1;
            phase.time += u128::from(span.time().as_nanos());
            if phase.is_work {
                part.work.add(span.start, span.end);
            }
            self.begin = Some(self.begin.map_or(span.start, |begin| begin.min(span.start)));
            self.end = self.end.max(span.end);
        }
    }

    /// The table: parts that work most first.
    pub fn finish(self, names: &SpanNames) -> Vec<PartTime> {
        let whole = self.end.saturating_since(self.begin.unwrap_or(self.end)).as_seconds().max(1e-12);
        let all: u128 = self.parts.iter().flat_map(|part| &part.phases).map(|phase| phase.time).sum();
        let told = |part: OfPart, part_name: &str| {
            let phases = part.phases.iter().zip(names.phases()).filter(|(phase, _)| phase.count > 0);
            let mut phases: Vec<PhaseTime> = phases
                .map(|(phase, name)| PhaseTime {
                    phase: name.to_owned(),
                    count: phase.count,
                    mean: Duration::nanos((phase.time / u128::from(phase.count)) as u64),
                    share: Ratio::new(phase.time as f64 / (all as f64).max(1.0)),
                })
                .collect();
            phases.sort_by(|a, b| b.share.get().total_cmp(&a.share.get()).then_with(|| a.phase.cmp(&b.phase)));
            let busy = Ratio::new((part.work.length().as_seconds() / whole).min(1.0));
            PartTime { part: part_name.to_owned(), make: None, busy, phases }
        };
        let parts = self.parts.into_iter().zip(names.parts()).filter(|(part, _)| !part.phases.is_empty());
        let mut parts: Vec<PartTime> = parts.map(|(part, name)| told(part, name)).collect();
        parts.sort_by(|a, b| b.busy.get().total_cmp(&a.busy.get()).then_with(|| a.part.cmp(&b.part)));
        parts
    }
}

/// The place of this number, which is made if it is missing.
fn at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}

/// The time in which at least one of many intervals lasts. They come nearly in order: those at hand are merged into
/// what is known from time to time, and touch its end only.
#[derive(Debug, Clone, Default)]
struct Union {
    /// Disjoint, in order.
    known: Vec<(Instant, Instant)>,
    at_hand: Vec<(Instant, Instant)>,
}

impl Union {
    const AT_HAND: usize = 1 << 16;

    fn add(&mut self, start: Instant, end: Instant) {
        self.at_hand.push((start, end));
        if self.at_hand.len() >= Union::AT_HAND {
            self.merge();
        }
    }

    fn merge(&mut self) {
        let Some(first) = self.at_hand.iter().map(|(start, _)| *start).min() else { return };
        // What ends before the first of them begins stays as it is.
        let kept = self.known.partition_point(|(_, end)| *end < first);
        self.at_hand.extend(self.known.drain(kept..));
        self.at_hand.sort_unstable();
        for (start, end) in self.at_hand.drain(..) {
            match self.known.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => self.known.push((start, end)),
            }
        }
    }

    fn length(mut self) -> Duration {
        self.merge();
        self.known.iter().fold(Duration::ZERO, |sum, (start, end)| sum + end.since(*start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_union_is_that_of_moments_however_it_is_merged(
            intervals in prop::collection::vec((0u64..300, 0u64..20), 0..100),
            every in 1usize..20,
        ) {
            let mut union = Union::default();
            let mut covered = [false; 320];
            for (number, (start, length)) in intervals.into_iter().enumerate() {
                union.add(Instant::from_nanos(start), Instant::from_nanos(start + length));
                covered[start as usize..(start + length) as usize].fill(true);
                if number % every == 0 {
                    union.merge();
                    prop_assert!(union.known.windows(2).all(|two| two[0].1 < two[1].0), "disjoint, in order");
                }
            }
            let moments = covered.iter().filter(|covered| **covered).count() as u64;
            prop_assert_eq!(union.length(), Duration::nanos(moments));
        }
    }
}
