//! The formulas beside the model and the study: how long a round takes, and what passes.
//!
//! A round is the measured time divided by `OutOf`, of the study's tables and of the modelled runs alike: counts are
//! printed exactly, where deltas are whole milliseconds, cut off. The formulas are those of [`analysis::rounds::model`]
//! for the study's three seek times, with the bus rate and the media rate that the modelled machine gives in runs of
//! one disk.

use lab::published::Row;
use units::{Bytes, Rate};

use crate::bench::{Bench, TrialError};
use crate::reproduce::Beside;

use super::claims::formulas;
use super::printed::rows;
use super::reads::{RANDOM, Reads};
use super::table;

/// A line for each line of Tables 1 to 4.
pub(super) fn beside(bench: &Bench) -> Result<Vec<Beside>, TrialError> {
    let mut lines = Vec::new();
    for row in rows().iter().filter(|row| row.quantity == "possible_rounds") {
        let (Some(rounds), Some(disks), Some(kib)) = (row.value(), row.number("disks"), row.number("block_kb")) else {
            continue;
        };
        let modelled = table(bench, &Reads::random(disks as usize, kib as u64))?.out_of;
        let formula = formulas(bench, disks as usize, kib as u64)?;
        lines.push(line(row, (disks, kib), [rounds, modelled], formula));
    }
    Ok(lines)
}

fn line(row: &Row, (disks, kib): (f64, f64), rounds: [f64; 2], formula: analysis::rounds::model::Prediction) -> Beside {
    let [published, modelled] = rounds.map(|rounds| RANDOM.as_seconds() / rounds);
    let bytes = disks * Bytes::kib(kib as u64).get() as f64;
    let rate = |round: f64| Rate::bytes_per_second(bytes / round);
    Beside {
        of: format!("{}: {disks} disks, {kib} KB", row.locator),
        round_ms: [published * 1e3, modelled * 1e3, formula.round.as_millis()],
        bandwidth: [rate(published), rate(modelled), formula.bandwidth],
        constants: formula.constants,
        independent: formula.independent,
        pipelined: formula.pipelined,
    }
}
