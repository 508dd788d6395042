//! `arraylab reproduce`.

use std::io::ErrorKind;
use std::process::ExitCode;

use studies::reproduce::{Report, reproduce as judge};
use studies::study::StudyError;

use crate::args::Reproduce;
use crate::fail::Failure;
use crate::out;

/// A study that cannot be had: it is what was asked for that is wrong, unless the disk would not give it.
fn unreadable(error: StudyError) -> Failure {
    match &error {
        StudyError::Missing { error: read, .. } if read.kind() != ErrorKind::NotFound => Failure::world(error),
        _ => Failure::input(error),
    }
}

/// Judges the studies named, or all of them.
pub fn reproduce(args: &Reproduce) -> Result<ExitCode, Failure> {
    let settings: Vec<_> = args.set.iter().map(|set| (set.key.clone(), set.value.clone())).collect();
    let mut reports: Vec<Report> = Vec::new();
    let named: Vec<&str> = match &args.studies[..] {
        [] => lab::published::names().to_vec(),
        some => some.iter().map(String::as_str).collect(),
    };
    for name in named {
        let study = studies::study(name, settings.clone()).map_err(unreadable)?;
        if let Some(seed) = args.seed {
            study.bench().draw_from(seed);
        }
        study.bench().repeat(args.repeat);
        reports.push(judge(&*study).map_err(Failure::input)?);
    }
    if args.json {
        out::json(&serde_json::to_value(&reports).expect("plain data becomes JSON"))?;
    } else {
        out::text(&reports.iter().map(Report::text).collect::<String>())?;
    }
    let passed = reports.iter().all(|report| report.passes);
    Ok(if args.check && !passed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
