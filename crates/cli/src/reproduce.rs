//! `arraylab reproduce`.

use std::process::ExitCode;

use lab::published;
use lab::reproduce::{Report, ReproduceError, reproduce as judge};

use crate::args::Reproduce;
use crate::fail::Failure;
use crate::out;

/// Judges the studies named, or all of them.
pub fn reproduce(args: &Reproduce) -> Result<ExitCode, Failure> {
    let settings: Vec<_> = args.set.iter().map(|set| (set.key.clone(), set.value.clone())).collect();
    let mut reports: Vec<Report> = Vec::new();
    let all = published::studies();
    let named: Vec<&str> =
        if args.studies.is_empty() { all.clone() } else { args.studies.iter().map(String::as_str).collect() };
    for name in named {
        let Some(study) = lab::study(name, settings.clone()) else {
            // Says which there are.
            let unknown = published::read(name).expect_err("a study that is published has its model");
            return Err(Failure::input(ReproduceError::Published(unknown)));
        };
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
