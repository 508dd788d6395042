//! `arraylab explain`.

use std::path::Path;
use std::process::ExitCode;

use lab::against::{Against, AgainstError};
use lab::explain::{ExplainError, Explained, explain as find};
use lab::kept::Kept;
use record::FolderError;
use report::Lanes;
use serde_json::{Value, json};

use crate::args::Explain;
use crate::fail::Failure;
use crate::{compare, out, page, sweep};

/// Explains a run, a survey, a sweep, a comparison or a trace.
pub fn explain(args: &Explain) -> Result<ExitCode, Failure> {
    if let (Some(run), Some(earlier)) = (&args.of.run, &args.against) {
        return beside(&held_against(earlier, run)?, args.json);
    }
    if let Some(run) = &args.of.run {
        let kept = page::open(run)?;
        let words = [(args.of.threshold.is_some(), "--threshold"), (args.lanes.is_some(), "--lanes")];
        page::only_of_runs(Some(run), &kept, &words)?;
        match &kept {
            Kept::Run => {}
            Kept::Survey(survey) => return of_survey(&survey.document, args.json),
            Kept::Maximum(kept) if args.json => return out::json(&kept.document).map(|()| ExitCode::SUCCESS),
            Kept::Maximum(kept) => {
                return out::text(&report::maximum(&kept.maximum, &kept.remarks)).map(|()| ExitCode::SUCCESS);
            }
            Kept::Sweep(kept) if args.json => return out::json(&sweep::document(kept)).map(|()| ExitCode::SUCCESS),
            Kept::Sweep(kept) => return out::text(&sweep::text(kept)).map(|()| ExitCode::SUCCESS),
            Kept::Comparison(kept) => return compare::again(kept, args.json),
        }
    }
    let (subject, next) = (args.of.subject(), "name another file with --lanes");
    args.lanes.as_deref().map_or(Ok(()), |path| out::spares(&subject.files(), path, next))?;
    let explained = find(&subject, args.of.threshold, args.window).map_err(failure)?;
    if let Some(path) = &args.lanes {
        out::write(path, &report::lanes(&bars(&explained)), next)?;
    }
    if args.json {
        out::json(&serde_json::to_value(&explained.explanation).expect("plain data becomes JSON"))?;
    } else {
        out::text(&report::explanation(&explained.explanation))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A survey has verdicts of its own, of measurements that were made for them.
fn of_survey(survey: &Value, as_json: bool) -> Result<ExitCode, Failure> {
    if as_json {
        out::json(survey)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text =
        "A survey compares measurements that are unlike each other, so it has no one verdict. Its own are\n\n"
            .to_owned();
    for verdict in survey["verdicts"].as_array().into_iter().flatten() {
        let of = |field: &str| verdict[field].as_str().unwrap_or_default().to_owned();
        let limit = if of("limit").is_empty() { "no limit".to_owned() } else { of("limit") };
        text.push_str(&format!("* {}: {limit}. {}\n", of("part"), of("evidence")));
    }
    out::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Some of its requests as bars.
pub fn bars(explained: &Explained) -> Lanes<'_> {
    Lanes {
        title: &explained.origin.title,
        names: &explained.names,
        rows: &explained.rows,
        window: explained.window,
        threshold: explained.explanation.rounds.as_ref().map(|rounds| rounds.threshold),
    }
}

/// A run and an earlier one.
pub fn held_against(earlier: &Path, run: &Path) -> Result<Against, Failure> {
    lab::against::against(earlier, run).map_err(|error| match error {
        AgainstError::Folder(error) => failure(error.into()),
        AgainstError::Nothing(_) => Failure::input(error),
    })
}

/// Shows a run beside an earlier one.
fn beside(against: &Against, as_json: bool) -> Result<ExitCode, Failure> {
    let [before, after] = &against.only;
    if as_json {
        let compared = &against.compared;
        out::json(&json!({ "compared": compared, "only_before": before, "only_after": after }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = report::against(&against.compared);
    for (which, lines) in [("before", before), ("after", after)].into_iter().filter(|(_, lines)| !lines.is_empty()) {
        text.push_str(&format!("\nin the experiment {which} only:\n"));
        lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    out::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A path that is not there, or no run, is the user's to change; what the disk refuses is not.
pub fn failure(error: ExplainError) -> Failure {
    let missing = |source: &std::io::Error| {
        matches!(
            source.kind(),
            std::io::ErrorKind::NotFound | std::io::ErrorKind::IsADirectory | std::io::ErrorKind::NotADirectory
        )
    };
    match &error {
        ExplainError::Folder(FolderError::Io { source, .. }) | ExplainError::Read { source, .. }
            if !missing(source) =>
        {
            Failure::world(error)
        }
        ExplainError::Folder(FolderError::Io { path, source }) => {
            let next = "give a folder that 'arraylab run' has made under runs/, or a trace with --trace";
            Failure::input(anyhow::anyhow!("{}: {source}; {next}", path.display()))
        }
        _ => Failure::input(error),
    }
}
