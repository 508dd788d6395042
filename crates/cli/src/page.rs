//! `arraylab report`.

use std::process::ExitCode;

use lab::explain::explain;
use report::{Page, page};
use serde_json::json;

use crate::args::Report;
use crate::explain::{bars, failure};
use crate::fail::Failure;
use crate::out;

/// Makes a page of a run or a trace.
pub fn report(args: &Report) -> Result<ExitCode, Failure> {
    let (subject, next) = (args.of.subject(), "name another file with -o");
    args.output.as_deref().map_or(Ok(()), |path| out::spares(&subject.files(), path, next))?;
    let explained = explain(&subject, args.of.threshold, args.window).map_err(failure)?;
    let origin = &explained.origin;
    let html = page(&Page {
        title: &origin.title,
        started: origin.started,
        about: origin.about,
        explanation: &explained.explanation,
        summary: &explained.summary,
        course: &explained.course,
        lanes: bars(&explained),
        files: &origin.files,
    });
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
