//! The report as people read it: a line a row, the formulas beside both, what was fitted, the sum.

use std::fmt::Write as _;

use crate::bench::megabytes;

use super::{Beside, Judged, Report};

/// Rows as text, a line each.
pub fn lines(rows: &[Judged]) -> String {
    let mut text = String::new();
    let number = |value: Option<f64>| value.map_or(String::new(), short);
    let percent = |value: Option<f64>| match value {
        // Of a published zero no share can be given.
        Some(value) if !value.is_finite() => "-".to_owned(),
        value => value.map_or(String::new(), |value| format!("{:.1} %", value * 100.0)),
    };
    let _ = writeln!(
        text,
        "{:<56} {:>10} {:>10} {:>10} {:<8} {:>8}  status",
        "row", "published", "modelled", "+-95 %", "unit", "error"
    );
    for row in rows {
        let remark = if row.remark.is_empty() { String::new() } else { format!("  {}", row.remark) };
        let _ = writeln!(
            text,
            "{:<56} {:>10} {:>10} {:>10} {:<8} {:>8}  {}{remark}",
            row.id,
            number(row.published),
            number(row.modelled),
            number(row.confidence_95),
            row.unit,
            percent(row.error),
            row.status.name(),
        );
    }
    text
}

impl Report {
    /// The whole report as text: every row, then the sum.
    pub fn text(&self) -> String {
        let mut text = lines(&self.rows);
        text.push_str(&beside(&self.formulas));
        if !self.tables.is_empty() {
            let _ = writeln!(text, "\n{:<56} {:>10} {:>10}", "table of parts", "parts", "misplaced");
        }
        for table in &self.tables {
            let misplaced = 100.0 * table.misplaced;
            let _ = writeln!(text, "{:<56} {:>10} {misplaced:>8.1} %", table.table, table.parts);
        }
        let _ = writeln!(text, "\nfitted:");
        for fit in &self.fits {
            let _ = writeln!(text, "  {} = {} on {}", fit.parameter, fit.value, fit.rows.join(", "));
        }
        text.push_str(&self.summary());
        text
    }

    /// The sum alone.
    pub fn summary(&self) -> String {
        let score = &self.score;
        let share = |count: usize| 100.0 * count as f64 / score.scored.max(1) as f64;
        let mut text = format!(
            "\n{}: {} rows scored, {:.1} % within 5 %, {:.1} % within 10 %, {:.1} % within 25 %, median error {:.1} %\n\
             {} claims kept, {} broken, {} not tested; {} outputs not reproduced, {} disputed; {} parameters fitted on {} rows\n\
             not scored: {} that print a measurement once more, {} parts of less than 5 % of their whole\n",
            self.study,
            score.scored,
            share(score.within_5),
            share(score.within_10),
            share(score.within_25),
            score.median_error * 100.0,
            score.claims_kept,
            score.claims_broken,
            score.claims_not_tested,
            score.not_reproduced,
            score.disputed,
            score.fitted_parameters,
            score.fitted_rows,
            score.repeated,
            score.small_parts,
        );
        let tables = &score.tables;
        if tables.scored > 0 {
            let _ = writeln!(
                text,
                "misplaced time: {:.1} % of a table's whole in the median, at most 5 % in {} of {} tables",
                tables.misplaced_median * 100.0,
                tables.within_5,
                tables.scored
            );
        }
        let null = &score.null;
        for (answers, ten, more) in [
            ("zero everywhere", null.zero_within_10, null.zero_within_25),
            ("the mean of all other rows of the quantity", null.mean_within_10, null.mean_within_25),
        ] {
            let (ten, more) = (share(ten), share(more));
            let _ = writeln!(text, "a model that answers {answers}: {ten:.1} % within 10 %, {more:.1} % within 25 %");
        }
        text
    }
}

/// A table of trials, rounds in milliseconds and rates in MB/s of 2^20 bytes, as the studies have them.
fn beside(lines: &[Beside]) -> String {
    let mut text = String::new();
    if lines.is_empty() {
        return text;
    }
    let _ = writeln!(
        text,
        "\n{:<30} {:>10} {:>10} {:>10}   {:>9} {:>9} {:>9} {:>14} {:>10}",
        "ms a round, then MB/s",
        "published",
        "modelled",
        "formulas",
        "published",
        "modelled",
        "formulas",
        "without rounds",
        "pipelined"
    );
    for line in lines {
        let [published, modelled, formulas] = line.round_ms;
        let [a, b, c] = line.bandwidth.map(megabytes);
        let _ = writeln!(
            text,
            "{:<30} {published:>10.1} {modelled:>10.1} {formulas:>10.1}   {a:>9.2} {b:>9.2} {c:>9.2} {:>14.2} {:>10.2}",
            line.of,
            megabytes(line.independent),
            megabytes(line.pipelined)
        );
    }
    let constants = lines[0].constants;
    let _ = writeln!(
        text,
        "formulas with the rates of modelled runs of one disk and the study's seeks: {constants}\n\
         (`arraylab predict rounds` has the bus rate that the study prints, `explain` of a modelled run those of the machine's description)"
    );
    text
}

/// Four digits.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
