//! What the model of rounds predicts, case by case.

use analysis::rounds::model::Prediction;

use crate::Table;
use crate::text::wrapped;

/// A line for each case: the times of a round, what passes, and what would pass otherwise.
pub fn predictions(predictions: &[Prediction]) -> String {
    let mut table = Table::new([
        "block",
        "disks",
        "positioning",
        "transfer",
        "large delta",
        "round",
        "bandwidth",
        "if independent",
        "pipelined at best",
    ]);
    for prediction in predictions {
        table.row([
            prediction.block.to_string(),
            prediction.disks.to_string(),
            prediction.positioning_min.to_string(),
            prediction.transfer.to_string(),
            prediction.large.to_string(),
            prediction.round.to_string(),
            prediction.bandwidth.to_string(),
            prediction.independent.to_string(),
            prediction.pipelined.to_string(),
        ]);
    }
    let constants =
        predictions.first().map_or(String::new(), |first| wrapped(&format!("reckoned with: {}", first.constants)));
    format!("{table}\n{constants}")
}
