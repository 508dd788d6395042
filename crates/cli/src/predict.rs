//! `arraylab predict`.

use std::process::ExitCode;

use analysis::rounds::model::{Bus, Seek};

use crate::args::{Predict, PredictRounds, Predicted};
use crate::fail::Failure;
use crate::out;

/// Reckons what is asked for.
pub fn predict(args: &Predict) -> Result<ExitCode, Failure> {
    match &args.what {
        Predicted::Rounds(rounds) => predict_rounds(rounds),
    }
}

/// A prediction for each block size and number of disks.
fn predict_rounds(args: &PredictRounds) -> Result<ExitCode, Failure> {
    let mut predictions = Vec::new();
    for &block in &args.block {
        for &disks in &args.disks {
            let bus = Bus {
                disks,
                block,
                rate: args.rate,
                media: args.media,
                revolution: args.revolution,
                seek: Seek { least: args.seek_least, mean: args.seek_mean, greatest: args.seek_greatest },
                fence: args.fence,
                buffer: args.buffer,
                overhead: args.overhead,
            };
            predictions.push(bus.predict().map_err(Failure::input)?);
        }
    }
    if args.json {
        out::json(&serde_json::to_value(&predictions).expect("plain data becomes JSON"))?;
    } else {
        out::text(&report::predictions(&predictions))?;
    }
    Ok(ExitCode::SUCCESS)
}
