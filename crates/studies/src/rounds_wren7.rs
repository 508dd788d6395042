//! Rounds on a SCSI bus (R. Barve et al., 1999): which modelled number stands beside which printed one.
//!
//! A row's conditions say how many disks read, how large the blocks are, and where the fence stands; its quantity is
//! one of the columns of the study's tables, which the delta algorithm gives ([`analysis::rounds`]) with the study's
//! own thresholds. Counts are those of one run of the study's length. How long it measured is not printed: all its
//! tables come to about the same time, deltas times counts, and that time is fitted, as parts' values are, on the two
//! rows that [`RoundsWren7::fits`] names.
//!
//! # Whole milliseconds
//! The study's times are whole milliseconds, cut off and not rounded: each delta before it is counted, and the mean of
//! them when it is printed. That is nowhere said; it follows from the tables. Counts times means must come to the
//! measured time, which was one for all runs of a kind. As printed, the twelve lines of Tables 1 to 4 come to 89 to 99
//! s, the less the more reads a line has, by 1 to 1.5 ms a read; with half a millisecond for each delta and up to one
//! for each mean, all but one lie around 100 s, and that one (32 KB, seven disks) one percent below. So do all nine
//! means of Table 5 for 15 s, of which rounding leaves no time that fits 16 KB with four disks and 64 KB with seven. It
//! also settles what the study's numbers seemed to contradict: 18 ms for a block of 64 KB is 18.9 ms, its bus transfer
//! time. Here the model's deltas are cut off likewise.
//!
//! # The 128 KB rounds
//! With blocks of 128 KB the processes see their data together, after all disks have transferred. The study supposes
//! that woken processes get no processor. The model needs no such rule: Solaris on this machine transfers at most 124
//! KiB at a time, so that a read of 128 KB is two commands. The second one, for the last 4 KB, waits like any command
//! until no disk wants the bus; then all second commands are served from the disks' buffers within milliseconds of each
//! other.
//!
//! Sequential reads of 128 KB show the same two commands. The driver serves its targets in turn, and each of seven
//! targets has a long command and a short one by turns: which of the two a target has as its turn comes was decided
//! when the processes started, and stays so, as seven is odd. If one turn is `L L S S L L L`, the next is `S S L L S S
//! S`, and completions, which are the ends of short ones, come in groups of two, two and three after two, two and three
//! long ones: the study's one delta of 120 ms, two of 80 and four of 3. Other beginnings give other patterns; most give
//! this one.

use std::collections::BTreeMap;

use analysis::rounds::{Finish, Rounds, count, rounds};
use lab::published::{Role, Row};
use units::Duration;

use crate::bench::{Bench, Outcome, TrialError};
use crate::reproduce::{Answer, Bar, Beside, Fit, Part, Study};

mod beside;
mod claims;
mod printed;
mod reads;

use printed::{BLOCKS, DISKS, LARGEST, thresholds};
use reads::Reads;

/// The study, on a bench.
pub struct RoundsWren7 {
    bench: Bench,
}

impl RoundsWren7 {
    /// With changes to the system that hold for all trials.
    pub fn with(settings: Vec<(String, String)>) -> RoundsWren7 {
        RoundsWren7 { bench: Bench::new("sparc20-wren7", settings) }
    }
}

impl Study for RoundsWren7 {
    fn name(&self) -> &str {
        "rounds"
    }

    fn answer(&self, row: &Row) -> Result<Answer, TrialError> {
        if row.role == Role::Claim {
            return claims::test(&self.bench, row.local());
        }
        Ok(match self.number(row)? {
            Some(number) => Answer::Number(number),
            None => Answer::Nothing { reason: "no trial is named for this row".to_owned() },
        })
    }

    /// No row is a part of another one: few deltas above the cut-off are a finding in themselves.
    fn part(&self, _row: &Row, _rows: &BTreeMap<&str, &Row>) -> Option<Part> {
        None
    }

    fn bench(&self) -> &Bench {
        &self.bench
    }

    fn fits(&self) -> Vec<Fit> {
        let fit = |parameter: &str, value: Duration, row: &str| Fit {
            parameter: parameter.to_owned(),
            value: value.to_string(),
            rows: vec![format!("rounds/{row}")],
        };
        vec![
            fit("measuring time of random reads", reads::RANDOM, "table-03/d4/out-of"),
            fit("measuring time of sequential reads", reads::SEQUENTIAL, "table-05/64k/d7/ios"),
            fit("time between starts of processes", reads::APART, "s4.4/128k-medium-count"),
        ]
    }

    fn beside(&self) -> Result<Vec<Beside>, TrialError> {
        beside::beside(&self.bench)
    }

    fn bar(&self) -> Bar {
        let (claims, parameters, rows) = ((27, 30), 8, 16);
        Bar { within_5: 0.0, within_10: 0.82, within_25: 0.88, median: 0.02, tables: 0.0, claims, parameters, rows }
    }
}

impl RoundsWren7 {
    fn number(&self, row: &Row) -> Result<Option<f64>, TrialError> {
        if let Some(number) = self.named(row)? {
            return Ok(Some(number));
        }
        let (Some(disks), Some(kib)) = (row.number("disks"), row.number("block_kb")) else { return Ok(None) };
        let (disks, kib) = (disks as usize, kib as u64);
        if row.condition("pattern") == Some("sequential") {
            let deltas = Deltas::of(&*self.bench.run(&Reads::sequential(disks, kib))?, Duration::MAX, Duration::MAX)?;
            return Ok(match row.quantity.as_str() {
                "reads_measured" => Some(deltas.reads),
                "delta_mean" => Some(deltas.small_mean),
                "delta_std" => Some(deltas.small_std),
                _ => None,
            });
        }
        let deltas = self.table(disks, kib)?;
        let large = row.condition("delta") == Some("large");
        Ok(Some(match row.quantity.as_str() {
            "good_rounds" => deltas.good,
            "possible_rounds" => deltas.out_of,
            "delta_mean" if large => deltas.large_mean,
            "delta_mean" => deltas.small_mean,
            "delta_std" if large => deltas.large_std,
            "delta_std" => deltas.small_std,
            "small_deltas_over_cutoff" => deltas.outliers,
            "small_deltas" => deltas.small_count,
            "good_round_fraction" => deltas.good_percent(),
            _ => return Ok(None),
        }))
    }

    /// A line of Tables 1 to 4.
    fn table(&self, disks: usize, kib: u64) -> Result<Deltas, TrialError> {
        table(&self.bench, &Reads::random(disks, kib))
    }

    /// Rows that look at several trials.
    fn named(&self, row: &Row) -> Result<Option<f64>, TrialError> {
        let over = |disks: &[usize], blocks: &[u64], figure: fn(&Deltas) -> f64| -> Result<Vec<f64>, TrialError> {
            let mut values = Vec::new();
            for (disks, kib) in disks.iter().flat_map(|disks| blocks.iter().map(move |kib| (*disks, *kib))) {
                values.push(figure(&self.table(disks, kib)?));
            }
            Ok(values)
        };
        let least = |values: Vec<f64>| values.into_iter().reduce(f64::min);
        let most = |values: Vec<f64>| values.into_iter().reduce(f64::max);
        Ok(match row.local() {
            "s4.2/good-fraction-d2/min" => least(over(&[2], &BLOCKS, Deltas::good_percent)?),
            "s4.2/good-fraction-d2/max" => most(over(&[2], &BLOCKS, Deltas::good_percent)?),
            "s4.2/small-128k/min" => least(over(&DISKS, &[LARGEST], |deltas| deltas.small_mean)?),
            "s4.2/small-128k/max" => most(over(&DISKS, &[LARGEST], |deltas| deltas.small_mean)?),
            id if id.starts_with("s4.4/128k-") => {
                let clusters = clusters(&*self.bench.run(&Reads::sequential(7, LARGEST))?);
                let of = |name: &str| id["s4.4/128k-".len()..].starts_with(name);
                let (mean, count) = clusters[if of("large") {
                    0
                } else if of("medium") {
                    1
                } else {
                    2
                }];
                Some(if id.ends_with("-count") { count } else { mean })
            }
            _ => None,
        })
    }
}

/// The columns of the study's tables, of one run; times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Deltas {
    /// Completions.
    pub reads: f64,
    pub good: f64,
    pub out_of: f64,
    pub large_mean: f64,
    pub large_std: f64,
    pub small_mean: f64,
    pub small_std: f64,
    pub small_count: f64,
    /// Small deltas above the cut-off.
    pub outliers: f64,
    pub large_count: f64,
}

impl Deltas {
    /// Of a trial. Deltas above `threshold` are large; small ones above `cutoff` are outliers.
    pub fn of(outcome: &Outcome, threshold: Duration, cutoff: Duration) -> Result<Deltas, TrialError> {
        let finishes = whole_milliseconds(&outcome.finishes);
        let found = count(&finishes, &outcome.disks, threshold).map_err(TrialError::nothing)?;
        let deltas = finishes.chunk_by(|a, b| a.pass == b.pass).flat_map(|pass| pass.windows(2));
        let outliers =
            deltas.map(|pair| pair[1].at.since(pair[0].at)).filter(|delta| *delta > cutoff && *delta <= threshold);
        let passes = outcome.pass_count() as f64;
        let ms = |time: Option<Duration>| time.map_or(0.0, Duration::as_millis);
        Ok(Deltas {
            reads: outcome.finishes.len() as f64 / passes,
            good: found.good_rounds as f64 / passes,
            out_of: found.out_of as f64 / passes,
            large_mean: ms(found.large.mean).floor(),
            large_std: ms(found.large.deviation),
            small_mean: ms(found.small.mean).floor(),
            small_std: ms(found.small.deviation),
            small_count: found.small.count as f64 / passes,
            outliers: outliers.count() as f64 / passes,
            large_count: found.large.count as f64 / passes,
        })
    }

    /// GoodRounds of OutOf, percent.
    pub fn good_percent(&self) -> f64 {
        100.0 * self.good / self.out_of
    }
}

/// The same completions with every delta cut off to whole milliseconds.
fn whole_milliseconds(finishes: &[Finish]) -> Vec<Finish> {
    const MILLISECOND: u64 = 1_000_000;
    let mut cut = Vec::with_capacity(finishes.len());
    for pass in finishes.chunk_by(|a, b| a.pass == b.pass) {
        let mut at = pass[0].at;
        cut.push(pass[0]);
        for pair in pass.windows(2) {
            at += Duration::nanos(pair[1].at.since(pair[0].at).as_nanos() / MILLISECOND * MILLISECOND);
            cut.push(Finish { at, ..pair[1] });
        }
    }
    cut
}

/// The delta algorithm on a trial, with the threshold that it finds itself.
fn delta_statistics(outcome: &Outcome) -> Result<Rounds, TrialError> {
    rounds(&outcome.finishes, &outcome.disks, None).map_err(TrialError::nothing)
}

/// A trial's line, by the thresholds of the study's tables for that many disks and blocks of that size.
fn table(bench: &Bench, reads: &Reads) -> Result<Deltas, TrialError> {
    let (threshold, cutoff) = thresholds(reads.disks(), reads.block().get() / 1024)?;
    Deltas::of(&*bench.run(reads)?, threshold, cutoff)
}

/// Large, medium and small: the mean in milliseconds, and how many there are in a round.
type Clusters = [(f64, f64); 3];

/// Large, medium and small deltas of a trial: the mean in milliseconds, and how many there are in a round. Medium is
/// what lies between the thresholds of the study's clusters at 3, 80 and 120 ms, in the middle between them. Of each
/// number, the median of the passes: a pass keeps the pattern that it fell into as its processes started, and the study
/// tells of one run.
fn clusters(outcome: &Outcome) -> Clusters {
    let finishes = whole_milliseconds(&outcome.finishes);
    let passes: Vec<Clusters> =
        finishes.chunk_by(|a, b| a.pass == b.pass).map(|pass| clusters_of(pass, outcome.disks.len())).collect();
    let median = |number: &dyn Fn(&Clusters) -> f64| {
        let mut numbers: Vec<f64> = passes.iter().map(number).collect();
        numbers.sort_by(f64::total_cmp);
        numbers[numbers.len() / 2]
    };
    [0, 1, 2].map(|cluster| (median(&|pass| pass[cluster].0), median(&|pass| pass[cluster].1)))
}

fn clusters_of(pass: &[Finish], disks: usize) -> Clusters {
    let deltas: Vec<f64> = pass.windows(2).map(|pair| pair[1].at.since(pair[0].at).as_millis()).collect();
    [(100.0, f64::MAX), (41.5, 100.0), (0.0, 41.5)].map(|(from, to)| {
        let inside: Vec<f64> = deltas.iter().copied().filter(|delta| (from..to).contains(delta)).collect();
        let count = inside.len() as f64;
        let round = deltas.len() as f64 / disks as f64;
        (inside.iter().sum::<f64>() / count.max(1.0), count / round)
    })
}
