//! RAID-I (UCB/CSD 90/574): which modelled number stands beside which printed one.
//!
//! Most rows say by their conditions what was done: how many disks, how large a request, through which call. The trial
//! is made of these, and the row's quantity says what is looked at. Where a row gives a peak, a range or a difference,
//! the trials are named here.

use std::collections::BTreeMap;

use machine::load::Passages;

use crate::published::{Role, Row};
use crate::reproduce::{Answer, Bar, Part, Study};

mod claims;
mod setup;

use setup::Setup;

use crate::bench::{Bench, Outcome, TrialError, board, megabytes, on_host};

/// Request sizes of the sweeps, KB; the figures' axes are lost, the text names sizes from 4 to 128.
const SIZES: [u64; 7] = [4, 8, 16, 32, 56, 96, 128];

/// The study, on a bench.
pub struct RaidI {
    bench: Bench,
}

impl RaidI {
    /// With changes to the system that hold for all trials.
    pub fn with(settings: Vec<(String, String)>) -> RaidI {
        RaidI { bench: Bench::new("raid-i", settings) }
    }
}

impl Study for RaidI {
    fn name(&self) -> &str {
        "raid-i"
    }

    fn bench(&self) -> &Bench {
        &self.bench
    }

    fn bar(&self) -> Bar {
        let (claims, parameters, rows) = ((55, 61), 25, 60);
        Bar { within_5: 0.0, within_10: 0.76, within_25: 0.91, median: 0.04, tables: 0.85, claims, parameters, rows }
    }

    fn answer(&self, row: &Row) -> Result<Answer, TrialError> {
        if row.role == Role::Claim {
            return claims::test(&self.bench, row.local());
        }
        if row.quantity == "ios_completed" {
            let reason = "how much of a trace fits into the analyzer's memory depends on its recording format, which is not known";
            return Ok(Answer::Nothing { reason: reason.to_owned() });
        }
        match self.number(row)? {
            Some(number) => Ok(Answer::Number(number)),
            None => Ok(Answer::Nothing { reason: "no trial is named for this row".to_owned() }),
        }
    }

    /// A phase is a part of the time between two requests, an interval a part of a call, and a share a part of a
    /// hundred percent. The time between calls is compared with that of a call, too, but is no part of its table.
    /// Tables of phases are taken by their shares, as these have the time in which the bus is free.
    fn part(&self, row: &Row, rows: &BTreeMap<&str, &Row>) -> Option<Part> {
        let value = |id: String| rows.get(id.as_str())?.value();
        let (above, name) = row.id.rsplit_once('/')?;
        let table = above.rsplit_once('/').map(|(table, _)| table.to_owned());
        match row.quantity.as_str() {
            "phase_share" => Some(Part { table: table.filter(|_| name == "share"), whole: 100.0 }),
            _ if row.unit == "percent" => Some(Part { table: None, whole: 100.0 }),
            "interval_time" => {
                let parts = ["entry-to-submit", "jaguar-board", "interrupt-to-entry"];
                let sum = || parts.iter().map(|part| value(format!("{above}/{part}"))).sum();
                let whole = value(format!("{above}/total")).or_else(sum)?;
                let is_inside = !matches!(name, "total" | "between-calls");
                Some(Part { table: is_inside.then(|| above.to_owned()), whole })
            }
            "phase_time_per_io" => {
                let table = table?;
                let time = value(format!("{table}/data-transfer/normalized"))?;
                Some(Part { table: None, whole: time / value(format!("{table}/data-transfer/share"))? * 100.0 })
            }
            _ => None,
        }
    }

    /// The tables of phases print each one as a share and as a time a request.
    fn counted_as(&self, row: &Row, rows: &BTreeMap<&str, &Row>) -> Option<String> {
        let time = format!("{}/normalized", row.id.strip_suffix("/share")?);
        rows.get(time.as_str()).filter(|row| !row.disputed()).map(|row| row.id.clone())
    }
}

/// The trial that a row's conditions describe.
fn setup(row: &Row) -> Setup {
    let random = row.condition("pattern") == Some("random");
    let kib = row.number("request_kb").unwrap_or(if random { 4.0 } else { 32.0 });
    let mut setup = Setup::new(row.condition("op") == Some("write"), kib);
    let disks = row.number("disks").unwrap_or(1.0) as usize;
    let strings = row.number("strings").unwrap_or(1.0) as usize;
    setup = if strings > 1 { setup.spread(disks, strings) } else { setup.disks(disks.min(4)) };
    if disks > 4 && strings == 1 {
        setup = setup.spread(disks, 4);
    }
    if random {
        setup = setup.random();
    }
    if row.condition("issue") == Some("sprite") {
        setup = setup.sprite();
    }
    if let Some(processes) = row.number("procs_per_disk") {
        setup = setup.processes(processes as u32);
    }
    if row.condition("readahead") == Some("off") {
        setup = setup.no_read_ahead();
    }
    if let Some(kib) = row.number("bfr_kb") {
        setup = setup.full_ratio(kib);
    }
    setup
}

impl RaidI {
    fn number(&self, row: &Row) -> Result<Option<f64>, TrialError> {
        if let Some(number) = self.named(row)? {
            return Ok(Some(number));
        }
        let outcome = || self.bench.run(&setup(row));
        Ok(Some(match row.quantity.as_str() {
            "interval_time" => {
                let interval = row.condition("interval").unwrap_or_default();
                in_unit(interval_time(&*outcome()?, interval), &row.unit)
            }
            "phase_share" => phase(&*outcome()?, row.condition("phase").unwrap_or("data-transfer")).0 * 100.0,
            "phase_share_bus_free" => phase(&*outcome()?, "bus-free").0 * 100.0,
            "phase_time_per_io" => {
                in_unit(phase(&*outcome()?, row.condition("phase").unwrap_or("data-transfer")).1, &row.unit)
            }
            "bus_utilization" => outcome()?.string_utilization(0) * 100.0,
            "host_utilization" => outcome()?.host_utilization() * 100.0,
            "bandwidth" => megabytes(outcome()?.bandwidth),
            "io_rate" => outcome()?.rate.get(),
            "io_rate_per_disk" => outcome()?.rate.get() / setup(row).used() as f64,
            "data_transfer_time_ideal" => {
                let byte: units::Duration =
                    self.bench.kit()?.parts["scsi-1"].reader("scsi-string")?.get("byte-time")?;
                in_unit(byte.as_seconds() * setup(row).request().get() as f64, &row.unit)
            }
            "copy_rate" => {
                let outcome = self.bench.run(&Setup::new(false, row.number("request_kb").unwrap_or(32.0)).sprite())?;
                row.number("request_kb").unwrap_or(32.0)
                    / 1024.0
                    / outcome.mean(|_, phase| phase == "copy").as_seconds()
            }
            _ => return Ok(None),
        }))
    }

    /// Rows whose trials are not, or not only, what their conditions say.
    fn named(&self, row: &Row) -> Result<Option<f64>, TrialError> {
        let bench = &self.bench;
        let array_reads = || Setup::read(32).sprite().spread(11, 3);
        let peak = |setup: &dyn Fn(u64) -> Setup| -> Result<f64, TrialError> {
            SIZES.iter().try_fold(0.0, |best: f64, size| Ok(best.max(bench.bandwidth(&setup(*size))?)))
        };
        let rate_loss = |disks: usize, write: bool| -> Result<(f64, f64), TrialError> {
            let setup = Setup::new(write, 4.0).random().disks(disks);
            let (without, with) = (bench.rate(&setup)?, bench.rate(&setup.sprite())?);
            Ok(((without - with) / disks as f64, (1.0 - with / without) * 100.0))
        };
        let penalty = |kib: u64, sprite: bool| -> Result<f64, TrialError> {
            let issue = |setup: Setup| if sprite { setup.sprite() } else { setup };
            Ok((bench.board(&issue(Setup::write(kib)))? - bench.board(&issue(Setup::read(kib)))?) * 1e3)
        };
        let flush = |write: bool, kib: u64| -> Result<f64, TrialError> {
            Ok(bench.run(&Setup::new(write, kib as f64).sprite())?.mean(|_, phase| phase == "dma-free").as_seconds())
        };
        let range = |values: Vec<f64>, most: bool| {
            values.into_iter().reduce(if most { f64::max } else { f64::min }).unwrap_or_default()
        };
        let most = row.local().ends_with("/max");
        let trace = Setup::read(32);
        let string_reads = || Setup::read(32).disks(4);
        let string_writes = || Setup::write(32).disks(4);
        let data_time =
            |setup: &Setup| -> Result<f64, TrialError> { Ok(phase(&*bench.run(setup)?, "data-transfer").1 * 1e3) };
        let extra_transfer =
            || -> Result<f64, TrialError> { Ok(data_time(&string_writes())? - data_time(&string_reads())?) };
        let number = match row.local() {
            "abstract/array-bandwidth"
            | "s4.1.2/read/limit"
            | "s4.5/sequential-limit"
            | "s5/host-limit"
            | "fig-19/sprite"
            | "table-32/overall/bw-sprite" => bench.bandwidth(&array_reads())?,
            "abstract/array-io-rate" | "s5/io-limit" => {
                // As many disks as there are: nothing but the host limits them.
                let disks: Vec<(usize, usize)> = (0..28).map(|disk| (disk % 7, disk / 7)).collect();
                bench.rate(&Setup::read(4).random().sprite().at(&disks))?
            }
            id if id.ends_with("/elapsed") => {
                // The time of as many requests as the trace has: its length is the analyzer's doing.
                let ios = [("table-03", 620.0), ("table-04", 565.0), ("table-07", 625.0), ("table-08", 566.0)];
                let Some((_, ios)) = ios.iter().find(|(table, _)| id.starts_with(table)) else { return Ok(None) };
                ios / bench.rate(&setup(row))?
            }
            "table-11/total-wren" | "s4.6/total-wren" => {
                mean(&*bench.run(&trace)?, |passages| passages.target_pauses) * 1e3
            }
            "table-11/total-jaguar" | "s4.6/total-jaguar" => {
                mean(&*bench.run(&trace)?, |passages| passages.initiator_pauses) * 1e3
            }
            "s4.6/total" => {
                mean(&*bench.run(&trace)?, |passages| passages.target_pauses + passages.initiator_pauses) * 1e3
            }
            "s4.6/bus-busy" => {
                let outcome = bench.run(&trace)?;
                outcome.string_utilization(0) / outcome.rate.get() * 1e3
            }
            "s4.6/string-overhead" | "s4.1.1/read/overhead" => (1.0 - bench.bandwidth(&string_reads())? / 4.0) * 100.0,
            "fig-03/disk2" => bench.bandwidth(&Setup::read(128).disks(2))?,
            "fig-03/max" | "s4.1.1/read/best-string" | "s5/string-limit" | "fig-04/read4" | "fig-07/no-copy" => {
                peak(&|size| Setup::read(size).disks(4))?
            }
            "fig-03/share-of-expected" => peak(&|size| Setup::read(size).disks(4))? / 4.0 * 100.0,
            "fig-04/disk1" => peak(&Setup::write)?,
            "fig-07/disk1-peak" => peak(&|size| Setup::read(size).sprite())?,
            "fig-07/disk4" => peak(&|size| Setup::read(size).sprite().disks(4))?,
            "fig-07/share" => 100.0 * bench.bandwidth(&string_reads().sprite())? / bench.bandwidth(&string_reads())?,
            "fig-07/disk1-large" => bench.bandwidth(&Setup::read(128).sprite())?,
            "fig-07/disk1-peak-range/min" | "fig-07/disk1-peak-range/max" => {
                let best = peak(&|size| Setup::read(size).sprite())?;
                let mut near = Vec::new();
                for size in SIZES {
                    if bench.bandwidth(&Setup::read(size).sprite())? > 0.95 * best {
                        near.push(size as f64);
                    }
                }
                range(near, most)
            }
            "fig-08/loss" => {
                100.0 * (1.0 - bench.bandwidth(&string_writes().sprite())? / bench.bandwidth(&string_writes())?)
            }
            "s4.1.1/write/burst" => {
                let outcome = bench.run(&string_writes())?;
                let passages = &outcome.load.passages;
                passages.first_burst as f64 / 2.0 / passages.commands as f64
            }
            "s4.1.1/write/extra-board" => penalty(32, false)?,
            "s4.1.2/write/extra-board" => penalty(32, true)?,
            "s4.1.1/write/extra-transfer" => extra_transfer()?,
            "s4.1.1/write/missed-rotation" => penalty(32, false)? - extra_transfer()?,
            "s4.1.1/write/missed-fraction" => (penalty(32, false)? - extra_transfer()?) / (1000.0 / 60.0),
            "s4.1.2/write/overlap" => {
                let outcome = bench.run(&Setup::write(32).sprite())?;
                outcome.mean(|part, phase| on_host(part) && phase != "between-calls").as_seconds() * 1e3
            }
            "s4.1.2/write/flush-ratio" => flush(false, 32)? / flush(true, 32)?,
            "s4.7/flush-ratio/min" | "s4.7/flush-ratio/max" => {
                range(vec![flush(false, 32)? / flush(true, 32)?, flush(false, 128)? / flush(true, 128)?], most)
            }
            "s4.7/flush-read" => 32.0 / 1024.0 / flush(false, 32)?,
            "s4.7/flush-write/min" | "s4.7/flush-write/max" => {
                range(vec![32.0 / 1024.0 / flush(true, 32)?, 128.0 / 1024.0 / flush(true, 128)?], most)
            }
            "s4.7/write-penalty/min" | "s4.7/write-penalty/max" => {
                let mut penalties = Vec::new();
                for (size, sprite) in [(4, false), (32, false), (128, false), (4, true), (32, true), (128, true)] {
                    penalties.push(penalty(size, sprite)?);
                }
                range(penalties, most)
            }
            "s4.7/other-share-exception" => {
                let outcome = bench.run(&Setup::write(4).sprite())?;
                let total = outcome.mean(|_, phase| phase != "between-calls").as_seconds();
                let moving =
                    outcome.mean(|part, phase| !on_host(part) || phase == "copy" || phase == "dma-free").as_seconds();
                (1.0 - moving / total) * 100.0
            }
            "fig-06/read-per-disk" => bench.rate(&Setup::read(4).random().disks(3))? / 3.0,
            "fig-09/loss/min" | "fig-09/loss/max" => {
                let mut losses = Vec::new();
                for disks in 1..=4 {
                    losses.push(rate_loss(disks, false)?.0);
                }
                range(losses, most)
            }
            "fig-09/loss-share" => rate_loss(4, false)?.1,
            "fig-10/loss-share" => rate_loss(4, true)?.1,
            "fig-11/read-p16" => bench.rate(&Setup::read(4).random().raid(16))?,
            "fig-12/write-logical" => bench.rate(&Setup::write(4).random().raid(16))?,
            "fig-12/write-sprite" => bench.rate(&Setup::write(4).random().sprite().disks(4))?,
            "fig-11/read-sprite" => bench.rate(&Setup::read(4).random().sprite().disks(4))?,
            "s4.2.2/crossover" => {
                let mut crossover = 0.0;
                for size in [8, 16, 24, 32, 48, 64, 96] {
                    let small = bench.bandwidth(&Setup::read(size).disks(3).full_ratio(0.5))?;
                    if small >= bench.bandwidth(&Setup::read(size).disks(3).full_ratio(16.0))? {
                        crossover = size as f64;
                    }
                }
                crossover
            }
            "s4.4/timeouts-disks" => {
                let mut first = 0.0;
                for disks in (1..=13).rev() {
                    let outcome = bench.run(&Setup::read(32).spread(disks, 4))?;
                    if outcome.load.count("time-outs") > 0 {
                        first = disks as f64;
                    }
                }
                first
            }
            "s4.4/best" | "s5/best" | "table-32/best/bw-no-copy" => bench.bandwidth(&Setup::read(128).spread(16, 4))?,
            "fig-20/sprite-first" => bench.rate(&Setup::read(4).random().sprite().spread(4, 4))? / 4.0,
            "s4.5/context-switches" => {
                let outcome = bench.run(&Setup::read(4).random().sprite().spread(14, 4))?;
                outcome.load.count("dispatches") as f64 / outcome.elapsed.as_seconds()
            }
            "s5/disk-io-rate" => bench.rate(&Setup::read(4).random())?,
            _ => return Ok(None),
        };
        Ok(Some(number))
    }
}

/// Mean over the requests, in seconds.
fn mean(outcome: &Outcome, pauses: impl Fn(&Passages) -> units::Duration) -> f64 {
    pauses(&outcome.load.passages).as_seconds() / outcome.load.passages.commands as f64
}

/// Share of the time and time per request of a phase of the first string.
fn phase(outcome: &Outcome, name: &str) -> (f64, f64) {
    use machine::scsi::phase::Phase;
    let elapsed = outcome.elapsed.as_seconds();
    let time = match Phase::ALL.iter().position(|phase| phase.name() == name) {
        Some(index) => outcome.load.time("string-0", Phase::ALL[index].name()).as_seconds(),
        None => (1.0 - outcome.string_utilization(0)) * elapsed,
    };
    (time / elapsed, time / outcome.requests as f64)
}

/// Mean of an interval of a kernel timeline, in seconds.
fn interval_time(outcome: &Outcome, interval: &str) -> f64 {
    let phases: &[&str] = match interval {
        "jaguar-board" => return board(outcome).as_seconds(),
        "total" => return outcome.mean(|_, phase| phase != "between-calls").as_seconds(),
        "jaguar-driver" => &["adapter-driver", "dma-window"],
        "before-device-driver" => &["before-driver"],
        "before-copy" => &["before-copy", "run-queue"],
        other => return outcome.mean(|_, phase| phase == other).as_seconds(),
    };
    outcome.mean(|_, phase| phases.contains(&phase)).as_seconds()
}

fn in_unit(seconds: f64, unit: &str) -> f64 {
    match unit {
        "us" => seconds * 1e6,
        "ms" => seconds * 1e3,
        _ => seconds,
    }
}
