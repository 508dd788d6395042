//! Numbers of the study that its trials are judged by: thresholds, cut-offs, bus transfer times. They are looked up in
//! its published rows, so that each stands in one place.

use lab::published::{self, Row};
use units::Duration;

use crate::bench::TrialError;

/// Disks of the tables.
pub(super) const DISKS: [usize; 3] = [2, 4, 7];
/// Blocks of Tables 1 to 3, KB: what a single command transfers.
pub(super) const BLOCKS: [u64; 3] = [32, 64, 96];
/// Blocks of Table 4, KB: two commands.
pub(super) const LARGEST: u64 = 128;
/// Blocks of all tables of random reads, KB.
pub(super) const TABLES: [u64; 4] = [BLOCKS[0], BLOCKS[1], BLOCKS[2], LARGEST];

/// The study's rows.
pub(super) fn rows() -> &'static [Row] {
    published::read("rounds").expect("the study comes with the program")
}

/// The least large delta and the least outlier, as the study set them for so many disks and blocks of so many KB.
pub(super) fn thresholds(disks: usize, kib: u64) -> Result<(Duration, Duration), TrialError> {
    let of = |quantity| number(quantity, kib, |row| row.number("disks") == Some(disks as f64));
    match (of("delta_threshold"), of("outlier_cutoff")) {
        (Some(threshold), Some(cutoff)) => Ok((milliseconds(threshold), milliseconds(cutoff))),
        _ => Err(TrialError::nothing(format!(
            "the study has no threshold for {disks} disks and blocks of {kib} KB; its tables are of {DISKS:?} disks and {TABLES:?} KB"
        ))),
    }
}

/// The bus transfer time of a block that the study computes from a single disk, in milliseconds.
pub(super) fn transfer(kib: u64) -> Result<f64, TrialError> {
    number("bus_transfer_time", kib, |_| true)
        .ok_or_else(|| TrialError::nothing(format!("the study has no bus transfer time of {kib} KB")))
}

fn number(quantity: &str, kib: u64, fits: impl Fn(&Row) -> bool) -> Option<f64> {
    let of_block = |row: &&Row| row.quantity == quantity && row.number("block_kb") == Some(kib as f64);
    rows().iter().filter(of_block).find(|row| fits(row))?.value()
}

fn milliseconds(time: f64) -> Duration {
    Duration::from_seconds(time / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_tables_has_its_numbers() {
        for (disks, kib) in DISKS.into_iter().flat_map(|disks| TABLES.map(|kib| (disks, kib))) {
            let (threshold, cutoff) = thresholds(disks, kib).expect("the tables print both");
            assert!(cutoff < threshold, "{disks} disks, {kib} KB: an outlier is still a small delta");
            assert!(transfer(kib).expect("Section 3 prints it") < threshold.as_millis());
        }
        assert_eq!(thresholds(7, LARGEST), Ok((Duration::millis(100), Duration::millis(20))));
        assert!(thresholds(3, 64).expect_err("no table has three disks").to_string().contains("3 disks"));
    }
}
