//! `arraylab run` as one of several ranks: rank 0 prints, the others do what it says.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use host::guard::WritePermit;
use lab::hosts::{Conductor, MeetError, Member, Order, Place, Rank, take_part};
use lab::layout::read_paths;
use lab::{Experiment, Point, Silent, Source, Target, Ways, keep};
use record::{RunFolder, RunState};

use crate::args::Run;
use crate::fail::Failure;
use crate::prepare;
use crate::progress::interrupt_quietly;
use crate::run::{RECORDS, all, build, failure, find, no_folder, once_each, only_of_jobs, permits};

/// Meets the other ranks, and leads them or follows.
pub fn run(args: &Run, rank: Rank) -> Result<ExitCode, Failure> {
    let place = args.meet.clone().unwrap_or_else(|| Place::Folder(args.common.runs.clone()));
    let experiment = read(args);
    let written =
        |(_, points): &(String, Vec<Point>)| points.iter().map(|point| point.experiment.to_toml()).collect::<String>();
    // A rank that cannot read the experiment comes to the meeting all the same, so that one of them says so and none
    // waits.
    let text = experiment.as_ref().map(written).map_err(Failure::message);
    if rank.number == 0 {
        let conductor = Conductor::meet(rank, &place, args.meet_within, &text).map_err(blame)?;
        let done = experiment.and_then(|(text, points)| all(args, &text, points, Some(&conductor)));
        conductor.end(done.as_ref().map_or_else(Failure::number, |code| *code));
        return done.map(ExitCode::from);
    }
    match Member::meet(rank, &place, args.meet_within, &text) {
        Ok(member) => follow(args, &member),
        Err(MeetError::Dismissed { code, .. }) => Ok(ExitCode::from(code)),
        Err(error) => Err(blame(error)),
    }
}

/// The experiment and its text, unless several ranks cannot run it.
fn read(args: &Run) -> Result<(String, Vec<Point>), Failure> {
    let refuse = |why: &str| Err(Failure::input(anyhow::anyhow!("{why}")));
    let source = find(&args.experiment)?;
    if fio::is_meant(&args.experiment, &source.text) {
        return refuse("several ranks run experiments: `arraylab import JOB.fio -o load.toml` makes one of a job file");
    }
    only_of_jobs(args)?;
    let points = lab::read(&source, &args.set).map_err(Failure::input)?;
    if points.iter().any(|point| point.experiment.system.is_some()) || args.on.iter().any(Target::is_simulated) {
        return refuse("what exists in virtual time needs no several ranks; start arraylab without mpirun or srun");
    }
    if args.trace || points.iter().any(|point| point.experiment.run.trace) {
        return refuse("of a run on several hosts nothing is traced yet; leave out --trace (run.trace)");
    }
    if points.iter().any(|point| point.experiment.run.steady.is_some()) {
        return refuse("several ranks do not judge together what is steady; leave out run.steady, and give run.passes");
    }
    Ok((source.text, points))
}

/// Makes the folder of rank 0, and adds the names of the other ranks' devices to those of its own.
pub fn gather<'c>(
    conductor: &'c Conductor,
    folder: &RunFolder,
    experiment: &Experiment,
    targets: &[Target],
    names: &mut Vec<String>,
) -> Result<(&'c Conductor, RunFolder), Failure> {
    let begun = keep::begin_rank(folder.path(), 0, &experiment.to_toml(), targets, build());
    let both = begun.map_err(no_folder).and_then(|own| {
        let others = conductor.gather(folder.path()).map_err(|trouble| failure(trouble.into()))?;
        let own_names = loaded(experiment, targets).into_iter().map(|name| format!("{}:{name}", conductor.rank.host));
        *names = own_names.collect();
        for (rank, name) in others {
            // What several ranks load is one device in the result; each is watched by itself.
            let known = names.contains(&name);
            names.push(if known { format!("{name} (rank {rank})") } else { name });
        }
        Ok((conductor, own))
    });
    both.inspect_err(|_| {
        // Nothing ran, so nothing is kept.
        let _ = std::fs::remove_dir_all(folder.path());
    })
}

/// The devices that are used of those given.
fn loaded(experiment: &Experiment, targets: &[Target]) -> Vec<String> {
    let most = experiment.run.devices.unwrap_or(usize::MAX);
    lab::names(&targets[..most.min(targets.len())])
}

/// What is ready to run.
struct Ready {
    experiment: Experiment,
    targets: Vec<Target>,
    permits: HashMap<PathBuf, WritePermit>,
    /// Files of ours among them.
    made: bool,
}

/// Does what rank 0 says, until it says good-bye.
fn follow(args: &Run, member: &Member) -> Result<ExitCode, Failure> {
    let interrupted = interrupt_quietly();
    let mut ready = None;
    let mut run: Option<(RunFolder, RunState)> = None;
    loop {
        match member.next() {
            Ok(Order::Point(text)) => {
                ready = make_ready(args, &member.rank, text, &interrupted).map_err(|f| tell(member, &f)).ok();
            }
            Ok(Order::Folder(path)) => {
                // What was not ready was told.
                let Some(ready) = ready.take() else { continue };
                run = one(member, &ready, &path, &interrupted).map_err(|f| tell(member, &f)).ok();
                if ready.made {
                    prepare::leave(&ready.permits, &[]);
                }
            }
            Ok(Order::Kept) => {
                if let Some((folder, state)) = run.take() {
                    // A raw file that cannot be removed says nothing that the result does not.
                    let _ = folder.handed_over(state);
                }
            }
            Ok(Order::Bye(code)) => return Ok(ExitCode::from(code)),
            Err(trouble) => {
                let who = format!("rank {} on {}", member.rank.number, member.rank.host);
                let kept = run.map_or(String::new(), |(folder, _)| {
                    format!("; what this rank recorded is in {}", folder.path().display())
                });
                return Err(Failure::world(anyhow::anyhow!("{who}: {trouble}{kept}")));
            }
        }
    }
}

fn tell(member: &Member, failure: &Failure) {
    member.fail(format!("failed: {}", failure.message()), failure.number() == 2);
}

fn make_ready(args: &Run, rank: &Rank, text: String, interrupted: &AtomicBool) -> Result<Ready, Failure> {
    let source = Source { name: "the experiment of rank 0".to_owned(), text };
    let point = lab::read(&source, &[]).map_err(Failure::input)?.remove(0);
    let experiment = rank.filled(&point.experiment);
    let on: Vec<Target> = args.on.iter().map(|target| rank.fill_target(target)).collect();
    let read: HashSet<PathBuf> = read_paths([&experiment]);
    let own = prepare::permits(&experiment, args.common.destroy_data, &read, interrupted)?;
    let made = own.is_some();
    let permits = match own {
        Some(own) => own,
        None => permits(args, &on, experiment.writes())?,
    };
    let targets = match experiment.own_targets().filter(|_| on.is_empty()) {
        Some(own) => own,
        None => once_each(&on),
    };
    Ok(Ready { experiment, targets, permits, made })
}

fn one(
    member: &Member,
    ready: &Ready,
    whole: &Path,
    interrupted: &AtomicBool,
) -> Result<(RunFolder, RunState), Failure> {
    let Ready { experiment, targets, permits, .. } = ready;
    let text = experiment.to_toml();
    let folder = keep::begin_rank(whole, member.rank.number, &text, targets, build()).map_err(no_folder)?;
    member.devices(loaded(experiment, targets));
    let ways = Ways { permits, record_memory: RECORDS, folder: None, interrupted, progress: &Silent, party: None };
    let cut = take_part(&folder.id(), experiment, targets, &ways, (member, &folder)).map_err(failure)?;
    Ok((folder, if cut { RunState::Interrupted } else { RunState::Complete }))
}

fn blame(error: MeetError) -> Failure {
    if error.is_input() { Failure::input(error) } else { Failure::world(error) }
}
