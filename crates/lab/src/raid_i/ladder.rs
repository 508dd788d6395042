//! The hierarchy of bottlenecks, derived.
//!
//! On each rung every part is made twice as fast in turn. The part whose doubling brings most is the limit; its rung is what the machine
//! gives before. Then that part is made so fast that it cannot limit anything, and the next rung is looked for, until doubling
//! brings nothing but at the disks. Nobody says in which order the parts are to be found.

use machine::part::PartError;
use units::{Duration, Frequency, Rate};

use super::bench::{Bench, Setup};

/// A part of the machine that can limit it, with the values that make up its speed.
struct Suspect {
    name: &'static str,
    values: &'static [&'static str],
}

const SUSPECTS: &[Suspect] = &[
    Suspect {
        name: "host memory system",
        values: &[
            "sun4-280-memory.copy-cached",
            "sun4-280-memory.copy-uncached",
            "sun4-280-memory.flush-dirty",
            "sun4-280-memory.flush-clean",
            "sun4-280-memory.dma-miss",
            "sun4-280-memory.dma-hit",
        ],
    },
    Suspect { name: "host processor", values: &["sun4-280.instructions", "sun4-280.context-switch"] },
    Suspect { name: "backplane", values: &["vme.rate", "vme.register-access"] },
    Suspect {
        name: "adapters",
        values: &["jaguar.data-path", "jaguar.dma", "jaguar.command-setup", "jaguar.completion"],
    },
    Suspect {
        name: "strings",
        values: &[
            "scsi-1.byte-time",
            "jaguar.allocation",
            "jaguar.answer.fifo",
            "jaguar.answer.save-pointer",
            "jaguar.answer.restore-pointer",
            "wren-iv.pause.decode",
            "wren-iv.pause.first-data-least",
            "wren-iv.pause.first-data-most",
            "wren-iv.pause.save-pointer-least",
            "wren-iv.pause.save-pointer-most",
            "wren-iv.pause.status",
            "wren-iv.pause.status-per-block",
        ],
    },
];

/// The disks are what is left when nothing else limits.
const DISKS: &str = "disks";

/// As fast as nothing else is.
const UNLIMITED: f64 = 1000.0;

/// A doubling that brings less than this is not counted as a limit.
const WORTH: f64 = 1.02;

/// One rung.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Rung {
    /// What limits.
    pub part: String,
    /// What the machine gives under this limit, 2^20 bytes a second.
    pub bandwidth: f64,
    /// Requests a second.
    pub rate: f64,
    /// How many times as much it gives with each part twice as fast.
    pub doublings: Vec<(String, f64)>,
}

/// The ladder of large sequential reads: 32 KB through the operating system, all disks.
pub fn bandwidth(bench: &Bench) -> Result<Vec<Rung>, PartError> {
    climb(bench, &Setup::read(32).sprite().at(&all()))
}

/// The ladder of small random reads: 4 KB through the operating system, all disks.
pub fn requests(bench: &Bench) -> Result<Vec<Rung>, PartError> {
    climb(bench, &Setup::read(4).random().sprite().at(&all()))
}

/// All disks of the machine, the first of each string first.
fn all() -> Vec<(usize, usize)> {
    (0..28).map(|disk| (disk % 7, disk / 7)).collect()
}

fn climb(bench: &Bench, start: &Setup) -> Result<Vec<Rung>, PartError> {
    let mut left: Vec<&Suspect> = SUSPECTS.iter().collect();
    let mut setup = start.clone();
    let mut rungs = Vec::new();
    loop {
        let now = bench.rate(&setup)?;
        let mut doublings = Vec::new();
        for suspect in &left {
            doublings.push((suspect.name.to_owned(), bench.rate(&faster(bench, &setup, suspect, 2.0)?)? / now));
        }
        let best = doublings
            .iter()
            .enumerate()
            .max_by(|(_, a), (_, b)| a.1.total_cmp(&b.1))
            .map(|(index, (_, gain))| (index, *gain));
        let limit = best.filter(|(_, gain)| *gain > WORTH).map(|(index, _)| left.remove(index));
        rungs.push(Rung {
            part: limit.map_or(DISKS, |suspect| suspect.name).to_owned(),
            bandwidth: bench.bandwidth(&setup)?,
            rate: now,
            doublings,
        });
        let Some(limit) = limit else { return Ok(rungs) };
        setup = faster(bench, &setup, limit, UNLIMITED)?;
    }
}

/// The same trial with a part so many times as fast.
fn faster(bench: &Bench, setup: &Setup, suspect: &Suspect, factor: f64) -> Result<Setup, PartError> {
    let kit = bench.kit()?;
    let mut result = setup.clone();
    for key in suspect.values {
        let (part, path) = key.split_once('.').expect("a value is named by its part and path");
        let rows = kit.parts[part].rows();
        let row = rows.iter().find(|row| row.path == path).expect("a suspect's values are values of its part");
        result = result.with(key, scaled(row.value.trim_matches('"'), factor));
    }
    Ok(result)
}

/// A time shortened, or a rate or frequency raised.
fn scaled(text: &str, factor: f64) -> String {
    if let Ok(time) = text.parse::<Duration>() {
        return format!("{:#}", time.scale(1.0 / factor).max(Duration::nanos(1)));
    }
    if let Ok(rate) = text.parse::<Rate>() {
        return format!("{:#}", rate * factor);
    }
    let frequency: Frequency = text.parse().expect("a suspect's value is a time, a rate or a frequency");
    format!("{:#}", Frequency::per_second(frequency.get() * factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_is_the_one_of_the_study() {
        let bench = Bench::default();
        let rungs = bandwidth(&bench).unwrap();
        let found: Vec<&str> =
            rungs.iter().map(|rung| rung.part.as_str()).filter(|part| *part != "host processor").collect();
        assert_eq!(found, ["host memory system", "backplane", "adapters", "strings", "disks"], "{rungs:#?}");
        assert_eq!(requests(&bench).unwrap()[0].part, "host processor");
    }
}
