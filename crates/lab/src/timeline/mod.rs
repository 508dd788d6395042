//! The way of live requests through the kernel: what trace points told, joined to the rows of the run.
//!
//! [`join`] finds which events are of which request. Here they become spans, which tile the time of a request as those
//! of a modelled machine do ([`record::live_phases`]), and a [`Tally`] of how much was found and what that cost.

mod join;
mod ring;

use std::fmt;

use analysis::json::number;
use host::cpu::thread_time;
use record::{Phase, RawError, Recording, Row, SpanLog, Spans, live_phases};
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
    /// Of those that were followed, how many also through what a loop device passes its requests on to. The page cache
    /// between the two may answer others.
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
    // By row, from the first storey below the device down.
    let mut below: Vec<Vec<Option<Passed>>> = Vec::new();
    for level in 1..deepest {
        let mut passed = vec![None; rows.len()];
        Joiner::new(&rows, &disks, level).join(merged(&events), |row, one| passed[row as usize] = Some(one));
        below.push(passed);
    }
    let mut draft = Draft::new(devices, &disks);
    let requests = rows.iter().filter(|row| row.phase == Phase::Measure).count() as u64;
    let read = events.iter().map(Vec::len).sum::<usize>() as u64;
    Joiner::new(&rows, &disks, 0).join(merged(&events), |row, passed| {
        let below: Vec<Passed> = below.iter().map_while(|passed| passed[row as usize]).collect();
        draft.keep(&rows[row as usize], &passed, &below);
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
}

/// Spans in the making.
struct Draft {
    spans: Spans,
    /// By device of the run: it, and what it stands on, from above.
    parts: Vec<Vec<record::PartName>>,
    phases: [record::PhaseName; live_phases::ALL.len()],
    joined: u64,
    below: u64,
}

impl Draft {
    fn new(devices: &[String], disks: &[Option<Followed>]) -> Draft {
        let spans = Spans::on(SPANS);
        let part = |(index, device): (usize, &String)| {
            let below = disks.get(index).into_iter().flatten().flat_map(|disk| disk.levels().skip(1));
            let names = [device.as_str()].into_iter().chain(below.map(|followed| followed.name.as_str()));
            names.map(|name| spans.part(name)).collect()
        };
        let parts = devices.iter().enumerate().map(part).collect();
        let phases = live_phases::ALL.map(|phase| spans.phase(phase));
        Draft { spans, parts, phases, joined: 0, below: 0 }
    }

    /// Keeps the spans of a request that counts, with what is known of it below its device. They tile its time: a time
    /// stamp that lies a little before the one that came before it, on a clock that the kernel reads without a lock,
    /// counts as equal to it.
    fn keep(&mut self, row: &Row, passed: &Passed, below: &[Passed]) {
        if row.phase != Phase::Measure {
            return;
        }
        self.joined += 1;
        self.below += u64::from(!below.is_empty());
        let [before, ring, submit, scheduler, device, bio, down, back, to_ring, seen] = self.phases;
        let parts = &self.parts[usize::from(row.device)];
        let mut reached = row.intended;
        let mut until = |level: usize, phase, at: Instant| {
            let at = at.clamp(reached, row.completed);
            self.spans.keep(u64::from(row.request), parts[level], phase, reached, at);
            reached = at;
        };
        until(0, before, row.submitted);
        if let Some(taken) = passed.taken {
            until(0, ring, taken);
        }
        until(0, submit, passed.queued);
        let deepest = below.len();
        let way = [*passed].into_iter().chain(below.iter().copied()).enumerate();
        for (level, here) in way.clone() {
            if let Some(issued) = here.issued {
                until(level, scheduler, issued);
            }
            if let Some(next) = below.get(level) {
                until(level, down, next.queued);
            } else {
                until(level, if here.issued.is_some() { device } else { bio }, here.completed);
            }
        }
        for (level, here) in way.collect::<Vec<_>>().into_iter().rev().filter(|(level, _)| *level < deepest) {
            until(level, back, here.completed);
        }
        if let Some(posted) = passed.posted {
            until(0, to_ring, posted);
        }
        until(0, seen, row.completed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::Operation;

    const NOWHERE: Passed =
        Passed { taken: None, queued: Instant::START, issued: None, completed: Instant::START, posted: None };

    #[test]
    fn a_request_through_a_ring_and_a_loop_device_is_in_one_phase_at_a_time() {
        let at = Instant::from_nanos;
        let row =
            Row { intended: at(0), submitted: at(10), completed: at(900), ..Row::new(Operation::Read, Phase::Measure) };
        let mut draft = Draft::new(&["d".to_owned()], &[]);
        draft.parts[0].push(draft.spans.part("below"));
        let (taken, posted) = (Some(at(30)), Some(at(800)));
        let above = Passed { taken, queued: at(40), issued: Some(at(60)), completed: at(700), posted };
        let below = Passed { queued: at(100), issued: Some(at(150)), completed: at(600), ..NOWHERE };
        draft.keep(&row, &above, &[below]);
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
        let mut draft = Draft::new(&["d".to_owned()], &[]);
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
