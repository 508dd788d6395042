//! What xdd, the tool of the study, would have printed of the measurements: its lines, and its table of time stamps.

use std::fmt::Write;

use analysis::Summarizer;
use analysis::maximum::{Direction, Kind, Loaded};
use record::{Labels, RawError, Recording, Row};

use super::{Load, describe};
use crate::xdd::{lines_of, stamps_of};

/// xdd's lines for all devices together, one block for each kind of measurement, in which a pass is a repeat. `made`
/// are the measurements in order.
pub fn lines(made: &[Load], recording: &Recording, devices: &[String]) -> Result<String, RawError> {
    let mut text = String::new();
    for kind in kinds(made) {
        let all = Loaded::First(devices.len());
        let of_kind = |load: &Load| load.kind == kind && load.loaded == all;
        let passes: Vec<usize> = (0..made.len()).filter(|pass| of_kind(&made[*pass])).collect();
        if passes.is_empty() {
            continue;
        }
        let labels = Labels { streams: vec![describe(kind)], devices: devices.to_vec() };
        let mut summarizer = Summarizer::new(&labels);
        recording.visit(|rows| {
            let repeat = |row: &Row| passes.iter().position(|pass| *pass == usize::from(row.pass));
            let rows = rows.iter().filter_map(|row| Some(Row { pass: repeat(row)? as u16, stream: 0, ..*row }));
            summarizer.add(&rows.collect::<Vec<_>>());
            Ok::<(), RawError>(())
        })?;
        let operation = match kind.direction {
            Direction::Read => "read",
            Direction::Write => "write",
            Direction::Both => "mixed",
        };
        let lines = lines_of(operation, (kind.request, 1), &summarizer.summary());
        let _ = write!(text, "\nxdd: {}, {}\n\n{lines}", describe(kind), kind.request);
    }
    Ok(text)
}

/// xdd's table of time stamps, one for each kind and set of devices; a pass of it is a repeat.
pub fn stamps(made: &[Load], recording: &Recording) -> Result<String, RawError> {
    let mut rows: Vec<Vec<Row>> = vec![Vec::new(); made.len()];
    recording.visit(|all| {
        all.iter().for_each(|row| rows[usize::from(row.pass)].push(*row));
        Ok::<(), RawError>(())
    })?;
    let mut text = String::new();
    let mut points: Vec<(Kind, Loaded)> = Vec::new();
    for load in made {
        if points.contains(&(load.kind, load.loaded)) {
            continue;
        }
        points.push((load.kind, load.loaded));
        let alike = made.iter().zip(&rows).filter(|(other, _)| (other.kind, other.loaded) == (load.kind, load.loaded));
        let numbered = alike
            .enumerate()
            .flat_map(|(pass, (_, rows))| rows.iter().map(move |row| Row { pass: pass as u16, ..*row }));
        let table = stamps_of(load.kind.request, numbered.collect());
        let which = match load.loaded {
            Loaded::Alone(device) => format!("target {device} alone"),
            Loaded::First(count) => format!("the first {count} targets"),
        };
        let _ = writeln!(text, "# {}, {which}\n{table}", describe(load.kind));
    }
    Ok(text)
}

/// The kinds of what was measured, in order.
fn kinds(made: &[Load]) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = made.iter().map(|load| load.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}
