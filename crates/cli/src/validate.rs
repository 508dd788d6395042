//! `arraylab validate`.

use std::process::ExitCode;

use lab::validation::validate as compare;

use crate::args::Validate;
use crate::fail::Failure;
use crate::out;

/// Replays the trace and prints how far the model is off.
pub fn validate(args: &Validate) -> Result<ExitCode, Failure> {
    let validation = compare(&args.drive, &args.trace).map_err(Failure::input)?;
    if let Some(path) = &args.svg {
        out::write(path, &validation.svg(), "name a file in a folder that exists and that you may write to")?;
    }
    if args.json {
        out::json(&serde_json::json!(validation))?;
    } else {
        out::text(&validation.text())?;
    }
    Ok(ExitCode::SUCCESS)
}
