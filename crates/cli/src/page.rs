//! `arraylab report`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lab::explain::explain;
use lab::kept::{self, Kept, KeptError, KeptMaximum, KeptSurvey};
use report::{MaximumPage, Page, SurveyPage, maximum_page, page, survey_page};
use serde_json::json;

use crate::args::Report;
use crate::explain::{bars, failure};
use crate::fail::Failure;
use crate::{compare, out, sweep};

/// Makes a page of a run, a survey, a sweep, a comparison or a trace.
pub fn report(args: &Report) -> Result<ExitCode, Failure> {
    let next = "name another file with -o";
    let kept = args.of.run.as_deref().map_or(Ok(Kept::Run), open)?;
    let mut measured = args.of.subject().files();
    measured.extend(files(&kept));
    args.output.as_deref().map_or(Ok(()), |path| out::spares(&measured, path, next))?;
    let words = [(args.of.threshold.is_some(), "--threshold"), (args.window.is_some(), "--window")];
    only_of_runs(args.of.run.as_deref(), &kept, &words)?;
    let html = match &kept {
        Kept::Run => run(args)?,
        Kept::Survey(survey) => of_survey(survey),
        Kept::Maximum(maximum) => of_maximum(maximum),
        Kept::Sweep(sweep) => sweep::page(sweep)?,
        Kept::Comparison(comparison) => compare::page(comparison)?,
    };
    match &args.output {
        None => out::text(&html)?,
        Some(path) => {
            out::write(path, &html, next)?;
            if args.json {
                out::json(&json!({ "page": path, "bytes": html.len() }))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What the folder at this path holds.
pub fn open(path: &Path) -> Result<Kept, Failure> {
    kept::open(path).map_err(|error| match error {
        KeptError::Folder(error) => failure(error.into()),
        KeptError::Unfinished(_) | KeptError::NoMaximum(_) => Failure::input(error),
    })
}

/// The files that it is read from, unless it is a run.
fn files(kept: &Kept) -> Vec<PathBuf> {
    match kept {
        Kept::Run | Kept::Survey(_) | Kept::Maximum(_) => Vec::new(),
        Kept::Sweep(sweep) => sweep.folder.files(),
        Kept::Comparison(comparison) => comparison.folder.files(),
    }
}

/// Refuses words that are of runs alone, if they are given.
pub fn only_of_runs(path: Option<&Path>, kept: &Kept, words: &[(bool, &str)]) -> Result<(), Failure> {
    match (kept, words.iter().find(|(given, _)| *given), path) {
        (Kept::Survey(_) | Kept::Maximum(_) | Kept::Sweep(_) | Kept::Comparison(_), Some((_, word)), Some(path)) => {
            let (path, what) = (path.display(), kept.name());
            Err(Failure::input(anyhow::anyhow!("{word} is for a run, and {path} is {what}; leave it out")))
        }
        _ => Ok(()),
    }
}

/// The page of a run or a trace.
fn run(args: &Report) -> Result<String, Failure> {
    let explained = explain(&args.of.subject(), args.of.threshold, args.window).map_err(failure)?;
    let origin = &explained.origin;
    Ok(page(&Page {
        title: &origin.title,
        started: origin.started,
        about: origin.about,
        explanation: &explained.explanation,
        summary: &explained.summary,
        course: &explained.course,
        lanes: bars(&explained),
        ways: explained.ways.as_ref(),
        files: &origin.files,
    }))
}

fn of_survey(kept: &KeptSurvey) -> String {
    survey_page(&SurveyPage {
        title: &kept.title,
        started: kept.started,
        about: &kept.about,
        survey: &kept.survey,
        ladders: kept.ladders.clone(),
        remarks: &kept.remarks,
        files: &kept.files,
    })
}

fn of_maximum(kept: &KeptMaximum) -> String {
    maximum_page(&MaximumPage {
        title: &kept.title,
        started: kept.started,
        about: &kept.about,
        maximum: &kept.maximum,
        remarks: &kept.remarks,
        files: &kept.files,
    })
}
