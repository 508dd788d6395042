//! A validation as text.

use report::Table;

use super::{Sample, Validation};

impl Validation {
    /// The scores, the requests by what became of them, and the worst ones.
    pub fn text(&self) -> String {
        let Validation { name, status, drive, trace, .. } = self;
        format!(
            "{name} ({drive}; {status}) against {trace}\n\n{}\n\
             demerit: root mean square horizontal distance of the two distribution curves (Ruemmler and Wilkes 1994);\n\
             rms error and correlation are of modelled and measured times, request by request.\n\n\
             By what became of them in the model\n\n{}\n\
             The worst {}, and where the model thinks their time went (ms; seek in ms over cylinders)\n\n{}",
            self.scores(),
            self.by_outcome(),
            self.worst.len(),
            self.one_by_one(),
        )
    }

    fn scores(&self) -> Table {
        let mut table = Table::new([
            "",
            "requests",
            "measured mean",
            "modelled mean",
            "mean error",
            "demerit",
            "of mean",
            "rms error",
            "correlation",
        ]);
        for Sample { title, score, .. } in &self.samples {
            let share = score.demerit.as_millis() / score.measured_mean.as_millis();
            table.row([
                (*title).to_owned(),
                score.requests.to_string(),
                in_ms(score.measured_mean.as_millis()),
                in_ms(score.modelled_mean.as_millis()),
                format!("{:+.1} %", score.mean_error() * 100.0),
                in_ms(score.demerit.as_millis()),
                format!("{:.1} %", share * 100.0),
                in_ms(score.rms_error.as_millis()),
                if score.correlation.is_finite() { format!("{:.3}", score.correlation) } else { "-".to_owned() },
            ]);
        }
        table
    }

    fn by_outcome(&self) -> Table {
        let mut table = Table::new(["", "requests", "measured mean", "modelled mean", "rms error"]);
        for kind in &self.outcomes {
            table.row([
                kind.outcome.to_owned(),
                kind.requests.to_string(),
                in_ms(kind.measured_mean_ms),
                in_ms(kind.modelled_mean_ms),
                in_ms(kind.rms_error_ms),
            ]);
        }
        table
    }

    fn one_by_one(&self) -> Table {
        let mut table = Table::new([
            "line", "request", "block", "blocks", "measured", "modelled", "outcome", "command", "waiting", "seek",
            "over", "rotation", "transfer",
        ])
        .left(1)
        .left(6);
        for told in &self.worst {
            let ms = |time: f64| format!("{time:.3}");
            table.row([
                told.line.to_string(),
                told.operation.to_owned(),
                told.block.to_string(),
                told.blocks.to_string(),
                ms(told.measured_ms),
                ms(told.modelled_ms),
                told.outcome.to_owned(),
                ms(told.command_ms),
                ms(told.waiting_ms),
                ms(told.seek_ms),
                told.cylinders.to_string(),
                ms(told.rotation_ms),
                ms(told.transfer_ms),
            ]);
        }
        table
    }
}

fn in_ms(time: f64) -> String {
    format!("{time:.3} ms")
}
