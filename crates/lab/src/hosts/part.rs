//! What one rank came to, and one result of all parts.

use std::collections::HashMap;

use analysis::survey::Processors;
use device::DeviceError;
use record::{CHUNK_ROWS, Keeping, Labels, Loss, Meta, RawError, Recorder, Row, RunFolder, Spill, WhenBehind};
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Instant, Ratio};
use uring::Choice;
use workload::{Findings, Written};

use crate::experiment::Experiment;
use crate::hosts::conductor::{Clocks, Conductor};
use crate::hosts::member::Member;
use crate::hosts::wire::ROWS;
use crate::hosts::{Seen, Together};
use crate::keep;
use crate::pass::Failure;
use crate::runner::{Conclusion, Made, Outcome, Progress, RunError, Tick, Ways, conclude, make};
use crate::target::Target;
use crate::verification::Verified;

/// All that a rank says of its run, but for the rows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    devices: Vec<String>,
    sizes: Vec<Bytes>,
    engines: Vec<Option<(String, String)>>,
    /// When its passes began, by its own clock: so long after that of the process did.
    begins: Vec<Duration>,
    late: Duration,
    failures: Vec<Failed>,
    abandoned: u64,
    unserved: u64,
    announced: u64,
    processors: Option<(Processors, f64)>,
    /// Of the process, of kernel threads, and of the process in user mode and in the kernel.
    processor_time: [Duration; 4],
    verified: Vec<(String, Findings)>,
    interrupted: bool,
    remarks: Vec<String>,
    rows_lost: u64,
}

/// A device that was given up: which, in which stream, by which error, and where that was.
#[derive(Debug, Serialize, Deserialize)]
struct Failed {
    device: usize,
    stream: usize,
    errno: i32,
    offset: Bytes,
    length: Bytes,
}

impl Part {
    fn of(made: &Made) -> Part {
        let Made { meta, recording, conclusion } = made;
        let failure = |failure: &Failure| {
            let (offset, length) = match failure.error {
                DeviceError::Medium { offset, length }
                | DeviceError::OutOfRange { offset, length, .. }
                | DeviceError::Misaligned { offset, length, .. } => (offset, length),
                _ => (Bytes::ZERO, Bytes::ZERO),
            };
            Failed { device: failure.device, stream: failure.stream, errno: failure.error.errno(), offset, length }
        };
        let (process, kernel) = conclusion.processor_time;
        let [user, system] = conclusion.own_time;
        Part {
            devices: meta.labels.devices.clone(),
            sizes: conclusion.sizes.clone(),
            engines: conclusion
                .engines
                .iter()
                .map(|choice| choice.as_ref().map(|choice| (choice.engine.to_string(), choice.reason.clone())))
                .collect(),
            begins: conclusion.begins.iter().map(|begin| begin.since(Instant::START)).collect(),
            late: conclusion.late,
            failures: conclusion.failures.iter().map(failure).collect(),
            abandoned: conclusion.abandoned,
            unserved: conclusion.unserved,
            announced: conclusion.announced,
            processors: conclusion.processors.map(|(processors, busiest)| (processors, busiest.get())),
            processor_time: [process, kernel, user, system],
            verified: conclusion.verified.iter().map(|one| (one.device.clone(), one.findings.clone())).collect(),
            interrupted: conclusion.interrupted,
            remarks: conclusion.remarks.clone(),
            rows_lost: recording.loss().rows,
        }
    }
}

/// Takes part in a run: `folder` is this rank's own. Its rows go to rank 0.
pub fn take_part(
    name: &str,
    experiment: &Experiment,
    targets: &[Target],
    ways: &Ways,
    (member, folder): (&Member, &RunFolder),
) -> Result<bool, RunError> {
    let ways = Ways { progress: member, party: Some(member), folder: Some(folder), ..*ways };
    let made = make(name, experiment, targets, &ways)?;
    // What cannot be kept here cannot be verified later; the run is none the worse for it.
    let kept = keep::ledger(folder, &made.conclusion.verified);
    let mut part = Part::of(&made);
    part.remarks.extend(kept.err().map(|error| format!("the ledger is not kept: {error}")));
    let interrupted = part.interrupted;
    member.done(part);
    if member.asked() {
        made.recording.visit(|rows| {
            rows.chunks(ROWS).for_each(|some| member.rows(some));
            Ok::<(), RawError>(())
        })?;
        member.no_more_rows();
    }
    Ok(interrupted)
}

/// Runs a point on all ranks, of which this is the first, and puts together what they came to. `folders` are that of
/// the run and that of this rank.
pub fn conduct(
    name: &str,
    experiment: &Experiment,
    targets: &[Target],
    ways: &Ways,
    (conductor, folders): (&Conductor, [&RunFolder; 2]),
) -> Result<Outcome, RunError> {
    let [whole, own] = folders;
    let all = All { conductor, progress: ways.progress };
    let here = Ways { progress: &all, party: Some(conductor), folder: Some(own), ..*ways };
    let made = make(name, experiment, targets, &here).inspect_err(|_| crate::runner::Party::end_early(conductor))?;
    let others = conductor.parts();
    if let (Some(trouble), []) = (conductor.trouble(), &made.conclusion.begins[..]) {
        // No pass began, so there is nothing to keep.
        return Err(trouble.into());
    }
    let kept = keep::ledger(own, &made.conclusion.verified);
    let mut ranks = vec![(None, 0, conductor.rank.host.clone(), Part::of(&made), Clocks::own())];
    ranks.extend(others.into_iter().map(|(index, rank, host, part, clocks)| (Some(index), rank, host, part, clocks)));
    let (labels, places) =
        labels(&made.meta.labels, &ranks.iter().map(|(_, _, host, part, _)| (&**host, part)).collect::<Vec<_>>());
    let meta = Meta { labels, ..made.meta };
    let keeping = Keeping {
        expected_rows: 0,
        memory: ways.record_memory,
        spill: Spill::WhenFull(whole.raw_path()),
        when_behind: WhenBehind::Wait,
    };
    let (recorder, mut logs) = Recorder::start(&keeping, &meta, ranks.len())?;
    logs.reverse();
    let begins: Vec<Duration> = made.conclusion.begins.iter().map(|begin| begin.since(Instant::START)).collect();
    let mut vanished = Vec::new();
    let mut strange: Vec<Loss> = Vec::new();
    for ((index, _, host, part, _), places) in ranks.iter().zip(&places) {
        let mut log = logs.pop().expect("there is a log for each rank");
        let streams = meta.labels.streams.len();
        let mut lost = 0;
        let mut take = |rows: &[Row]| {
            for row in rows {
                match moved(row, (&part.begins, &begins), places, streams) {
                    Some(row) => log.push(row),
                    None => lost += 1,
                }
            }
        };
        match index {
            None => made.recording.visit(|rows| {
                rows.chunks(CHUNK_ROWS).for_each(&mut take);
                Ok::<(), RawError>(())
            })?,
            Some(index) if !conductor.rows(*index, |rows| take(&rows)) => vanished.push(host.clone()),
            Some(_) => {}
        }
        let reason = format!("rows of {host} are of no pass, device or stream of the run");
        strange.push(Loss { rows: lost, reason: (lost > 0).then_some(reason) });
    }
    let mut recording = recorder.finish();
    strange.iter().for_each(|loss| recording.add_loss(loss));
    for (_, _, _, part, _) in &ranks {
        recording.add_loss(&Loss { rows: part.rows_lost, reason: None });
    }
    let sizes = meta.labels.devices.len();
    let mut conclusion = joined(&ranks, &places, sizes);
    conclusion.rounds = made.conclusion.rounds;
    conclusion.begins = made.conclusion.begins;
    conclusion.remarks.extend(kept.err().map(|error| format!("the ledger is not kept: {error}")));
    let hosts = conclusion.hosts.insert(Together { ranks: seen(&ranks, &places), trouble: conductor.trouble() });
    conclusion.interrupted |= hosts.trouble.is_some() || !vanished.is_empty();
    conclude(
        &spread(experiment, &ranks.iter().map(|(.., part, _)| part.devices.len()).collect::<Vec<_>>(), &places),
        Made { meta, recording, conclusion },
    )
}

type Ranked = (Option<usize>, u32, String, Part, Clocks);

/// The names of all devices, and where those of each rank stand among them. A device that several ranks of one host
/// load is one.
fn labels(streams: &Labels, parts: &[(&str, &Part)]) -> (Labels, Vec<Vec<u16>>) {
    let mut devices: Vec<String> = Vec::new();
    let mut known: HashMap<String, u16> = HashMap::new();
    let place = |host: &str, name: &String| {
        let full = format!("{host}:{name}");
        // Devices that do nothing are each their own.
        if name.starts_with("null:") || !known.contains_key(&full) {
            known.insert(full.clone(), devices.len() as u16);
            devices.push(full.clone());
        }
        known[&full]
    };
    let mut place = place;
    let places = parts.iter().map(|(host, part)| part.devices.iter().map(|name| place(host, name)).collect()).collect();
    (Labels { streams: streams.streams.clone(), devices }, places)
}

/// A row of another rank as one of the whole run, its times by the clock of rank 0; `None` if it is of no pass or
/// device that there was.
fn moved(row: &Row, (theirs, ours): (&[Duration], &[Duration]), places: &[u16], streams: usize) -> Option<Row> {
    let pass = usize::from(row.pass);
    let (theirs, ours) = (*theirs.get(pass)?, *ours.get(pass)?);
    let moved = |nanos: u64| nanos.checked_sub(theirs.as_nanos())?.checked_add(ours.as_nanos());
    let time = |at: Instant| moved(at.as_nanos()).map(Instant::from_nanos);
    let device = *places.get(usize::from(row.device))?;
    let (intended, submitted, completed) = (time(row.intended)?, time(row.submitted)?, time(row.completed)?);
    let sound = usize::from(row.stream) < streams && intended <= submitted && submitted <= completed;
    sound.then_some(Row { intended, submitted, completed, device, ..*row })
}

/// What all ranks came to, besides their rows.
fn joined(ranks: &[Ranked], places: &[Vec<u16>], devices: usize) -> Conclusion {
    let mut whole =
        Conclusion { sizes: vec![Bytes::ZERO; devices], engines: vec![None; devices], ..Conclusion::default() };
    let mut processors: Vec<(Processors, f64)> = Vec::new();
    for ((_, rank, host, part, _), places) in ranks.iter().zip(places) {
        for (index, place) in places.iter().map(|place| usize::from(*place)).enumerate() {
            whole.sizes[place] = part.sizes.get(index).copied().unwrap_or(Bytes::ZERO);
            let choice = part.engines.get(index).cloned().flatten();
            whole.engines[place] =
                choice.and_then(|(engine, reason)| Some(Choice { engine: engine.parse().ok()?, reason }));
        }
        for Failed { device, stream, errno, offset, length } in &part.failures {
            let Some(device) = places.get(*device).map(|place| usize::from(*place)) else { continue };
            let error = DeviceError::from_errno(*errno, *offset, *length);
            whole.failures.push(Failure { device, stream: *stream, error });
        }
        whole.abandoned += part.abandoned;
        whole.unserved += part.unserved;
        whole.announced += part.announced;
        processors.extend(part.processors);
        let [process, kernel, user, system] = part.processor_time;
        whole.processor_time = (whole.processor_time.0 + process, whole.processor_time.1 + kernel);
        whole.own_time = [whole.own_time[0] + user, whole.own_time[1] + system];
        whole.verified.extend(part.verified.iter().map(|(device, findings)| Verified {
            device: format!("{host}:{device}"),
            findings: findings.clone(),
            // Each rank keeps its own ledger.
            written: Written { run: 0, device: 0, unit: Bytes::SECTOR, extents: Vec::new(), cut: false },
        }));
        whole.interrupted |= part.interrupted;
        let remark = |remark: &String| format!("rank {rank} on {host}: {remark}");
        whole.remarks.extend(part.remarks.iter().map(remark));
        whole.late = whole.late.max(part.late);
    }
    let n = processors.len() as f64;
    let mean = |of: fn(&Processors) -> Ratio| {
        Ratio::new(processors.iter().map(|(processors, _)| of(processors).get()).sum::<f64>() / n)
    };
    whole.processors = (!processors.is_empty()).then(|| {
        let busiest = processors.iter().map(|(_, busiest)| *busiest).fold(0.0, f64::max);
        let mean = Processors {
            user: mean(|one| one.user),
            system: mean(|one| one.system),
            iowait: mean(|one| one.iowait),
            softirq: mean(|one| one.softirq),
            own: mean(|one| one.own),
        };
        (mean, Ratio::new(busiest))
    });
    whole
}

fn seen(ranks: &[Ranked], places: &[Vec<u16>]) -> Vec<Seen> {
    let one = |((_, rank, host, part, clocks), places): (&Ranked, &Vec<u16>)| Seen {
        rank: *rank,
        host: host.clone(),
        devices: places.clone(),
        error: clocks.error,
        time_of_day_ahead_ns: clocks.day_ahead,
        drift_ns: clocks.drift,
        late: part.late,
    };
    ranks.iter().zip(places).map(one).collect()
}

/// The experiment as one of all devices: its streams name theirs by their indices in the result.
fn spread(experiment: &Experiment, counts: &[usize], places: &[Vec<u16>]) -> Experiment {
    let mut whole = experiment.clone();
    for plan in &mut whole.streams {
        let on = counts.iter().zip(places).flat_map(|(count, places)| {
            (0..*count).filter(|index| plan.runs_on(*index)).map(|index| usize::from(places[index])).collect::<Vec<_>>()
        });
        plan.on = Some(on.collect());
    }
    whole
}

impl Clocks {
    /// Rank 0's clock is the one that others are compared with.
    fn own() -> Clocks {
        Clocks { error: Some(Duration::ZERO), drift: 0, day_ahead: 0 }
    }
}

/// Shows what the devices of all ranks do.
struct All<'a> {
    conductor: &'a Conductor,
    progress: &'a dyn Progress,
}

impl Progress for All<'_> {
    fn tick(&self, tick: &Tick) {
        let devices = tick.devices.iter().cloned().chain(self.conductor.beats()).collect();
        self.progress.tick(&Tick::of(tick.elapsed, tick.whole, devices, tick.generator));
    }
}
