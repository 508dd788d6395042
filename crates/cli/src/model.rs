//! `arraylab survey --system`.

use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use analysis::survey::Question;
use lab::survey::{Modelled, Probe, conduct};
use lab::{Rung, ladder};
use serde_json::{Value, json};

use crate::args::Survey;
use crate::fail::Failure;
use crate::out;
use crate::progress::{Bar, interrupt};
use crate::survey::{describe, failure};

/// Surveys the modelled machine of that name, and derives what limits it.
pub fn survey(name: &str, args: &Survey) -> Result<ExitCode, Failure> {
    let interrupted = interrupt(Vec::new());
    let parts = args.set.iter().map(|set| (set.part_key().to_owned(), set.value.clone())).collect();
    let mut machine = Modelled::new(name, parts, &interrupted).map_err(Failure::input)?;
    let tree = machine.tree().clone();
    let bar = Bar::new(1000);
    let mut show = |probe: &Probe, done: usize, of: usize| {
        bar.show((done * 1000 / of) as u64, format!("{done} of {of}: {}", describe(probe)));
    };
    let how = lab::survey::Conduct { repeats: args.repeats, ..Modelled::conduct() };
    let (findings, broken) = conduct(&mut machine, &tree, &how, &mut show);
    if let Some(error) = broken {
        return Err(failure(error));
    }
    let mut show = |done: usize| bar.show(1000, format!("the ladder: trial {done}"));
    let mut climb = |question| ladder(&machine.ladder_load(question), &interrupted, &mut show);
    let (bandwidth, requests) = (climb(Question::Bandwidth), climb(Question::Requests));
    let bandwidth = bandwidth.map_err(crate::run::failure)?;
    let requests = requests.map_err(crate::run::failure)?;
    drop(bar);
    let survey = analysis::survey::Survey::of(&tree, &findings);
    if args.common.json {
        let mut value = serde_json::to_value(&survey).expect("plain data becomes JSON");
        value["system"] = json!(name);
        value["measured_ladder"] = value["ladder"].take();
        value["ladder"] = document(&bandwidth);
        value["request_ladder"] = document(&requests);
        value["interrupted"] = json!(interrupted.load(Relaxed));
        out::json(&value)?;
    } else {
        let lines = |rungs: &[Rung]| report::ladder(&rungs.iter().map(line).collect::<Vec<_>>());
        out::text(&format!(
            "{}\nThe ladder, derived by making parts faster, of all disks read through the operating system:\n\n{}\n{}",
            report::modelled_survey(&survey),
            lines(&bandwidth),
            lines(&requests)
        ))?;
    }
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
