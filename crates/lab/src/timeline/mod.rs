//! The way of live requests through the kernel: what trace points told, joined to the rows of the run.
//!
//! [`join`] finds which events are of which request. Here they become spans, which tile the time of a request as those
//! of a modelled machine do ([`record::live_phases`]), and a [`Tally`] of how much was found and what that cost.

mod join;
mod ring;
mod under;

use std::fmt;

use analysis::json::number;
use host::cpu::thread_time;
use record::{PartName, Phase, PhaseName, RawError, Recording, Row, SpanLog, Spans, live_phases};
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Instant, Ratio};

use crate::live::{Followed, Traced};
use join::{Joiner, merged, way};

/// Memory for spans: 16 million, of 2.4 million requests that go through a ring.
const SPANS: Bytes = Bytes::mib(512);

/// What was found.
#[derive(Debug)]
pub struct Timeline {
    /// Where the time of the counted requests went.
    pub spans: SpanLog,
    /// How much was found.
    pub tally: Tally,
}

impl Timeline {
    /// What a reader of the result must know.
    pub fn remarks(&self) -> Vec<String> {
        let lost = self.spans.lost();
        let rest = (lost > 0).then(|| {
            format!("{lost} spans found no place in the {SPANS} granted; those of the first requests are kept")
        });
        [self.tally.to_string()].into_iter().chain(rest).collect()
    }
}

/// How much was found, and what that cost. The names of fields in JSON stay stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Counted reads, writes and discards on devices that were traced, as long as events were kept.
    pub requests: u64,
    /// Those of which the whole way was found.
    pub joined: u64,
    /// Their share.
    #[serde(with = "number")]
    pub share: Ratio,
    /// Events that were read.
    pub events: u64,
    /// Events that were lost: at least so many.
    pub lost: u64,
    /// Set if memory for events was used up: the requests until then are those of the timeline.
    #[serde(with = "if_known")]
    pub until: Option<Duration>,
    /// Of those that were followed, how many also through what their device passes its requests on to, as loop devices,
    /// arrays and volumes do. What lies between the two, such as the page cache, may answer others.
    #[serde(default)]
    pub below: u64,
    /// Processor time for each request of reading the events during the run.
    #[serde(with = "number", rename = "reading_per_request_ns")]
    pub reading: Duration,
    /// Processor time for each request of joining them afterwards.
    #[serde(with = "number", rename = "joining_per_request_ns")]
    pub joining: Duration,
}

/// A duration in nanoseconds, or `null`.
mod if_known {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use units::Duration;

    pub fn serialize<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(Duration::as_nanos).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::nanos))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Tally { requests, joined, events, lost, .. } = self;
        write!(
            f,
            "kernel timeline: {joined} of {requests} requests ({}) were followed from submission to completion, by {events} events",
            self.share
        )?;
        if self.below > 0 {
            write!(f, "; {} of them also through what the device stands on", self.below)?;
        }
        if *lost > 0 {
            write!(f, "; {lost} more were lost, because they came faster than they were read or kept")?;
        }
        if let Some(until) = self.until {
            write!(f, "; memory for events was used up {until} after the beginning, and the timeline ends there")?;
        }
        write!(
            f,
            ". For each request reading them took {} of processor time during the run, and joining them {} after it",
            self.reading, self.joining
        )
    }
}

/// Joins what was traced to the rows of the run.
pub(crate) fn timeline(traced: Traced, recording: &Recording, devices: &[String]) -> Result<Timeline, RawError> {
    let before = thread_time();
    let Traced { disks, mut events, origin, lost, full, cost } = traced;
    let full = full.map(|at| at.saturating_sub(origin));
    let is_asked = |row: &Row| {
        disks.get(usize::from(row.device)).is_some_and(Option::is_some)
            && row.length > 0
            && way(row.operation).is_some()
    };
    let mut rows: Vec<Row> = Vec::new();
    recording.visit(|some| {
        let in_time = |row: &&Row| full.is_none_or(|full| row.completed.as_nanos() <= full);
        rows.extend(some.iter().filter(|row| is_asked(row)).filter(in_time));
        Ok::<(), RawError>(())
    })?;
    for event in events.iter_mut().flatten() {
        // Nothing of ours happened before the run.
        event.since(origin);
    }
    let levels = |followed: &Followed| followed.levels().count();
    let deepest = disks.iter().flatten().map(levels).max().unwrap_or(0);
    let mut draft = Draft::new(devices);
    // By row, where anything lies below a device: what was found there, from the first storey down.
    let mut below: Vec<Vec<Below>> = vec![Vec::new(); if deepest > 1 { rows.len() } else { 0 }];
    for level in 1..deepest {
        let mut joiner = Joiner::new(&rows, &disks, level);
        let parts = draft.parts_of(joiner.names());
        joiner.join(merged(&events), |row, way| {
            let known = &mut below[row as usize];
            // Below what was not found nothing is told.
            if level == 1 || known.last().is_some_and(|last| last.level + 1 == level) {
                known.extend(way.iter().map(|(disk, passed)| Below { level, part: parts[*disk], passed: *passed }));
            }
        });
    }
    let requests = rows.iter().filter(|row| row.phase == Phase::Measure).count() as u64;
    let read = events.iter().map(Vec::len).sum::<usize>() as u64;
    let mut joiner = Joiner::new(&rows, &disks, 0);
    let parts = draft.parts_of(joiner.names());
    let mut storeys = Vec::new();
    joiner.join(merged(&events), |row, way| {
        let ((_, own), passed_on) = way.split_first().expect("a request passes its own disk");
        storeys.clear();
        storeys.extend(passed_on.iter().map(|(disk, passed)| (parts[*disk], *passed)));
        storeys.extend(below.get(row as usize).into_iter().flatten().map(|below| (below.part, below.passed)));
        draft.keep(&rows[row as usize], own, &storeys);
    });
    let share = Ratio::new(draft.joined as f64 / requests.max(1) as f64);
    let each = |time: Duration| Duration::nanos(time.as_nanos() / requests.max(1));
    let tally = Tally {
        requests,
        joined: draft.joined,
        below: draft.below,
        share,
        events: read,
        lost,
        until: full.map(Duration::nanos),
        reading: each(cost),
        joining: each(thread_time().saturating_sub(before)),
    };
    Ok(Timeline { spans: draft.spans.take().expect("spans are on"), tally })
}

/// When a request passed the trace points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Passed {
    /// When the kernel took it out of its ring, if it is known there.
    taken: Option<Instant>,
    queued: Instant,
    /// `None` of a device without requests of its own.
    issued: Option<Instant>,
    completed: Instant,
    /// When its result was in the ring.
    posted: Option<Instant>,
    /// Of what its disk passed on of it, the part that was done last, by its place in the joiner's list.
    lower: Option<u32>,
}

/// When it passed a disk on which its own device stands.
#[derive(Debug, Clone, Copy)]
struct Below {
    /// How many storeys below, as loop devices count: what these pass on lies on one storey with them.
    level: usize,
    part: PartName,
    passed: Passed,
}

/// Spans in the making.
struct Draft {
    spans: Spans,
    /// By device of the run.
    devices: Vec<PartName>,
    phases: [PhaseName; live_phases::ALL.len()],
    joined: u64,
    below: u64,
}

impl Draft {
    fn new(devices: &[String]) -> Draft {
        let spans = Spans::on(SPANS);
        let devices = devices.iter().map(|device| spans.part(device)).collect();
        let phases = live_phases::ALL.map(|phase| spans.phase(phase));
        Draft { spans, devices, phases, joined: 0, below: 0 }
    }

    /// The parts for disks of these names.
    fn parts_of(&self, names: &[&str]) -> Vec<PartName> {
        names.iter().map(|name| self.spans.part(name)).collect()
    }

    /// Keeps the spans of a request that counts, with what is known of it below its device. They tile its time: a time
    /// stamp that lies a little before the one that came before it, on a clock that the kernel reads without a lock,
    /// counts as equal to it.
    fn keep(&mut self, row: &Row, passed: &Passed, below: &[(PartName, Passed)]) {
        if row.phase != Phase::Measure {
            return;
        }
        self.joined += 1;
        self.below += u64::from(!below.is_empty());
        let [before, ring, submit, scheduler, device, bio, down, back, to_ring, seen] = self.phases;
        let own = self.devices[usize::from(row.device)];
        let mut reached = row.intended;
        let mut until = |part, phase, at: Instant| {
            let at = at.clamp(reached, row.completed);
            self.spans.keep(u64::from(row.request), part, phase, reached, at);
            reached = at;
        };
        until(own, before, row.submitted);
        if let Some(taken) = passed.taken {
            until(own, ring, taken);
        }
        until(own, submit, passed.queued);
        let storey = |level: usize| level.checked_sub(1).map_or((own, *passed), |level| below[level]);
        for level in 0..=below.len() {
            let (part, here) = storey(level);
            if let Some(issued) = here.issued {
                until(part, scheduler, issued);
            }
            match below.get(level) {
                Some((_, next)) => until(part, down, next.queued),
                None => until(part, if here.issued.is_some() { device } else { bio }, here.completed),
            }
        }
        for (part, here) in (0..below.len()).rev().map(storey) {
            until(part, back, here.completed);
        }
        if let Some(posted) = passed.posted {
            until(own, to_ring, posted);
        }
        until(own, seen, row.completed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::Operation;

    const NOWHERE: Passed = Passed {
        taken: None,
        queued: Instant::START,
        issued: None,
        completed: Instant::START,
        posted: None,
        lower: None,
    };

    #[test]
    fn a_request_through_a_ring_and_a_loop_device_is_in_one_phase_at_a_time() {
        let at = Instant::from_nanos;
        let row =
            Row { intended: at(0), submitted: at(10), completed: at(900), ..Row::new(Operation::Read, Phase::Measure) };
        let mut draft = Draft::new(&["d".to_owned()]);
        let part = draft.spans.part("below");
        let (taken, posted) = (Some(at(30)), Some(at(800)));
        let above = Passed { taken, queued: at(40), issued: Some(at(60)), completed: at(700), posted, lower: None };
        let below = Passed { queued: at(100), issued: Some(at(150)), completed: at(600), ..NOWHERE };
        draft.keep(&row, &above, &[(part, below)]);
        let log = draft.spans.take().unwrap();
        log.check([(0, at(0), at(900))]).unwrap();
        let told: Vec<(&str, &str, u64)> = log
            .spans()
            .iter()
            .map(|span| (log.part(span.part), log.phase(span.phase), span.time().as_nanos()))
            .collect();
        let expected = [
            ("d", live_phases::BEFORE, 10),
            ("d", live_phases::RING, 20),
            ("d", live_phases::SUBMIT, 10),
            ("d", live_phases::SCHEDULER, 20),
            ("d", live_phases::DOWN, 40),
            ("below", live_phases::SCHEDULER, 50),
            ("below", live_phases::DEVICE, 450),
            ("d", live_phases::BACK, 100),
            ("d", live_phases::POSTED, 100),
            ("d", live_phases::SEEN, 100),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn spans_tile_the_time_of_a_request_also_where_a_stamp_lies_before_the_last() {
        let at = Instant::from_nanos;
        let row = |request, phase| Row {
            intended: at(100),
            submitted: at(200),
            completed: at(900),
            request,
            ..Row::new(Operation::Read, phase)
        };
        let mut draft = Draft::new(&["d".to_owned()]);
        let passed = Passed { queued: at(190), issued: Some(at(400)), completed: at(901), ..NOWHERE };
        draft.keep(&row(1, Phase::Measure), &passed, &[]);
        draft.keep(&row(2, Phase::Measure), &Passed { queued: at(300), completed: at(800), ..NOWHERE }, &[]);
        draft.keep(&row(3, Phase::StartUp), &passed, &[]);
        assert_eq!(draft.joined, 2, "start-up does not count");
        let log = draft.spans.take().unwrap();
        log.check([1, 2].map(|request| (request, at(100), at(900)))).unwrap();
        let told: Vec<(u64, &str, u64)> =
            log.spans().iter().map(|span| (span.request, log.phase(span.phase), span.time().as_nanos())).collect();
        let expected = [
            (1, live_phases::BEFORE, 100),
            (1, live_phases::SUBMIT, 0),
            (1, live_phases::SCHEDULER, 200),
            (1, live_phases::DEVICE, 500),
            (1, live_phases::SEEN, 0),
            (2, live_phases::BEFORE, 100),
            (2, live_phases::SUBMIT, 100),
            (2, live_phases::BIO, 500),
            (2, live_phases::SEEN, 100),
        ];
        assert_eq!(told, expected);
    }
}
