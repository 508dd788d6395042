//! `arraylab verify`.

use std::process::ExitCode;

use lab::verify::{VerifyError, checked, verify as read_again};
use lab::{Mode, verification};
use serde_json::json;

use crate::args::Verify;
use crate::fail::Failure;
use crate::progress::interrupt;
use crate::{out, run};

/// Reads again what a run wrote.
pub fn verify(args: &Verify) -> Result<ExitCode, Failure> {
    let interrupted = interrupt(Vec::new());
    let mode = if args.buffered { Mode::Buffered } else { Mode::Direct };
    let verdict = read_again(&args.run, &args.on, mode, &interrupted).map_err(failure)?;
    let failed = verification::failed(&verdict.devices);
    if args.json {
        let device = |one: &verification::Verified| json!({ "device": one.device, "findings": one.findings });
        out::json(&json!({
            "devices": verdict.devices.iter().map(device).collect::<Vec<_>>(),
            "seconds": verdict.time.as_seconds(),
            "sound": !failed,
            "killed": verdict.killed,
            "interrupted": verdict.interrupted,
        }))?;
    } else {
        let mut text = verification::lines(&verdict.devices).join("\n");
        let (bytes, time) = (checked(&verdict.devices), verdict.time);
        text.push_str(&format!("\n{bytes} read in {time}, {}\n", bytes.per(time)));
        if verdict.killed {
            text.push_str("the run was killed: checked is what it had written until about a second before\n");
        }
        if verdict.interrupted {
            text.push_str("it was ended early; what was not read is not known to be sound\n");
        }
        out::text(&text)?;
    }
    Ok(match (failed, verdict.interrupted) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::from(3),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// A run that is none is the user's to change; a device that does not answer is not.
fn failure(error: VerifyError) -> Failure {
    match error {
        VerifyError::Open(error) => run::failure(error),
        VerifyError::Read { .. } => Failure::world(error),
        _ => Failure::input(error),
    }
}
