//! `arraylab survey --system`.

use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use analysis::survey::Question;
use lab::survey::{Modelled, Probe, conduct, recorder, streams};
use lab::{Rung, keep, ladder};
use record::{Clock, Labels, Meta};
use serde_json::{Value, json};
use units::Bytes;

use crate::args::Survey;
use crate::fail::Failure;
use crate::out;
use crate::progress::{Bar, interrupt};
use crate::run::{build, no_folder};
use crate::survey::{describe, failure};

/// The size of a request to a modelled machine.
pub fn request(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    let fits = size.is_multiple_of(Bytes::SECTOR) && (Bytes::SECTOR..=Bytes::mib(64)).contains(&size);
    if fits { Ok(size) } else { Err("whole blocks of 512 bytes are wanted, at most 64 MiB".to_owned()) }
}

/// Surveys the modelled machine of that name, and derives what limits it.
pub fn survey(name: &str, args: &Survey) -> Result<ExitCode, Failure> {
    let interrupted = interrupt(Vec::new());
    let parts = args.set.iter().map(|set| (set.part_key().to_owned(), set.value.clone())).collect();
    let machine = Modelled::new(name, parts, &interrupted).map_err(Failure::input)?;
    let machine = machine.asked_with(args.request, args.depth);
    let how = lab::survey::Conduct { repeats: args.repeats, ..machine.conduct() };
    let folder = keep::begin(&args.common.runs, "survey", &machine.to_toml(&how), &[], build()).map_err(no_folder)?;
    let labels = Labels { streams: streams(), devices: machine.devices() };
    let meta = Meta { run: folder.id(), clock: Clock::Simulated, origin: None, labels };
    let (recorder, log) = recorder(&folder, &meta).map_err(Failure::world)?;
    let mut machine = machine.keeping(log);
    let tree = machine.tree().clone();
    let bar = Bar::new(1000);
    let mut show = |probe: &Probe, done: usize, of: usize| {
        bar.show((done * 1000 / of) as u64, format!("{done} of {of}: {}", describe(probe)));
    };
    let (findings, broken) = conduct(&mut machine, &tree, &how, &mut show);
    // Half a survey of a machine that can be surveyed again in a minute is not worth keeping.
    let give_up = || _ = std::fs::remove_dir_all(folder.path());
    if let Some(error) = broken {
        give_up();
        return Err(failure(error));
    }
    let mut show = |done: usize| bar.show(1000, format!("the ladder: trial {done}"));
    let mut climb = |question| ladder(&machine.ladder_load(question), &interrupted, &mut show);
    let (bandwidth, requests) = (climb(Question::Bandwidth), climb(Question::Requests));
    let (bandwidth, requests) = match (bandwidth, requests) {
        (Ok(bandwidth), Ok(requests)) => (bandwidth, requests),
        (Err(error), _) | (_, Err(error)) => {
            give_up();
            return Err(crate::run::failure(error));
        }
    };
    drop(bar);
    // Its log goes with it, and hands over the last rows.
    drop(machine);
    let recording = recorder.finish();
    let survey = analysis::survey::Survey::of(&tree, &findings);
    let mut value = serde_json::to_value(&survey).expect("plain data becomes JSON");
    value["system"] = json!(name);
    value["measured_ladder"] = value["ladder"].take();
    value["ladder"] = document(&bandwidth);
    value["request_ladder"] = document(&requests);
    value["interrupted"] = json!(interrupted.load(Relaxed));
    let kept = keep::finish(&folder, &value, (&recording, None, &meta), interrupted.load(Relaxed));
    if args.common.json {
        value["run"] = json!(folder.path());
        out::json(&value)?;
    } else {
        let lines = |rungs: &[Rung]| report::ladder(&rungs.iter().map(line).collect::<Vec<_>>());
        out::text(&format!(
            "{}\nThe ladder, derived by making parts faster, of all disks read through the operating system.\n\n\
             In sequence, by requests of {}:\n\n{}\nAt random, by 4 KiB:\n\n{}\nrun folder: {}\n",
            report::modelled_survey(&survey),
            survey.request,
            lines(&bandwidth),
            lines(&requests),
            folder.path().display()
        ))?;
    }
    kept.map_err(Failure::world)?;
    Ok(if interrupted.load(Relaxed) { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

/// What doubling the limiting part brings.
fn gain(rung: &Rung) -> Option<f64> {
    rung.doublings.iter().find(|(part, _)| *part == rung.part).map(|(_, gain)| *gain)
}

fn line(rung: &Rung) -> (String, units::Rate, units::Frequency, Option<f64>) {
    (rung.part.clone(), rung.bandwidth, rung.rate, gain(rung))
}

fn document(rungs: &[Rung]) -> Value {
    let rung = |rung: &Rung| {
        let doublings = rung.doublings.iter().map(|(part, gain)| (part.clone(), json!(gain)));
        json!({
            "part": rung.part,
            "bandwidth_bytes_per_s": rung.bandwidth.get(),
            "iops": rung.rate.get(),
            "doubled": Value::Object(doublings.collect()),
        })
    };
    Value::Array(rungs.iter().map(rung).collect())
}
