//! Verification in a run: which devices have a ledger, what became of it, and the file by which a later run knows what
//! was written.
//!
//! ```text
//! ledger.bin   "arraylab ledger 1\n"
//!              for each device: a line of JSON {device, name, run, unit, extents}, then so many times 24 bytes:
//!              first unit, number of units, version; 64 bits each, the lowest byte first
//!              "end\n"
//! ```
//! The file lies in the run's folder. A run that was killed leaves its journal (`journal.rs`) instead, by which what it
//! wrote can be verified, too.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rand::Rng;
use record::{LEDGER_LOG, RunFile};
use runtime::Random;
use serde::{Deserialize, Serialize};
use units::Bytes;
use workload::{Filling, Findings, Known, Ledger, Mismatch, Stream, Verify, Version, Written};

use crate::experiment::{Experiment, StreamPlan};
use crate::journal;

/// What verification came to on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Its name.
    pub device: String,
    /// What was found.
    pub findings: Findings,
    /// What was written, for later.
    pub written: Written,
}

/// Why a ledger cannot be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum LedgerError {
    #[error(
        "{}: {source}; `arraylab verify` takes the folder of a run that wrote with `verify` in a stream", path.display()
    )]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{} is not a ledger of this program, or was damaged at byte {at}; the data cannot be verified by it", path.display())]
    Damaged { path: PathBuf, at: usize },
    #[error("{}: the run still goes on; wait for its end, or end it", path.display())]
    GoesOn { path: PathBuf },
}

const FIRST: &[u8] = b"arraylab ledger 1\n";
const LAST: &[u8] = b"end\n";
/// Bytes of an extent.
const EXTENT: usize = 24;

#[derive(Serialize, Deserialize)]
struct Head {
    device: u16,
    name: String,
    run: u64,
    unit: u64,
    extents: usize,
}

/// The ledger of a device in a run of this identity; none if none of its streams verify.
pub(crate) fn ledger(experiment: &Experiment, device: usize, run: u64) -> Option<Ledger> {
    let verifying = || {
        let verifies = |plan: &&StreamPlan| plan.stream.verify.is_some();
        experiment.streams.iter().filter(verifies).filter(move |plan| plan.runs_on(device)).map(|plan| &plan.stream)
    };
    let sizes = |stream: &Stream| stream.each_size().chain([stream.align, stream.region.start]).collect::<Vec<_>>();
    let unit = verifying().flat_map(sizes).reduce(gcd)?;
    let written = verifying().any(|stream| stream.mix.has_writes());
    let ledger = if written { Ledger::new(run, device as u16, unit) } else { Ledger::blind(device as u16, unit) };
    Some(match verifying().find_map(|stream| stream.known.as_ref()) {
        None => ledger,
        Some(Known::Whole(pattern)) => ledger.patterned(pattern.clone()),
        Some(Known::Behind(pattern)) => ledger.filled(Filling::of(pattern)),
    })
}

/// What tells a run from all others, on any machine: no two are started in one nanosecond by processes of one number.
pub(crate) fn identity() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    Random::named(now, &std::process::id().to_string()).next_u64()
}

/// Whether all that was written to the device is to be read at the end.
pub(crate) fn at_end(experiment: &Experiment, device: usize) -> bool {
    let ends = |plan: &StreamPlan| plan.stream.verify == Some(Verify::End) && plan.stream.mix.has_writes();
    experiment.streams.iter().any(|plan| ends(plan) && plan.runs_on(device))
}

fn gcd(a: Bytes, b: Bytes) -> Bytes {
    if b.is_zero() { a } else { gcd(b, Bytes::new(a.get() % b.get())) }
}

impl Verified {
    pub(crate) fn new(device: &str, ledger: &Ledger) -> Verified {
        let mut written = ledger.written();
        if !ledger.is_plain() {
            // A later run would look for sectors that hold no pattern.
            written.extents.clear();
        }
        Verified { device: device.to_owned(), findings: ledger.findings(), written }
    }
}

/// What a reader is told: a line for each device, and one for each of its first mismatches.
pub fn lines(verified: &[Verified]) -> Vec<String> {
    /// More would bury the rest of the result; the document has them all.
    const SHOWN: usize = 20;
    let mut lines = Vec::new();
    for Verified { device, findings, .. } in verified {
        let unknown = match findings.unknown {
            Bytes::ZERO => String::new(),
            unknown => format!("; of {unknown} that were read nothing was known"),
        };
        let found = match findings.count {
            0 => "no mismatch".to_owned(),
            1 => "1 mismatch".to_owned(),
            n => format!("{n} mismatches"),
        };
        let later = match findings.later {
            Bytes::ZERO => String::new(),
            later => {
                format!(" ({later} of it by writes that were under way when the run was killed, or had just ended)")
            }
        };
        lines.push(format!("verification of {device}: {} checked{later}, {found}{unknown}", findings.checked));
        let line = |mismatch: &Mismatch| format!("  {device}: {mismatch}");
        lines.extend(findings.mismatches.iter().take(SHOWN).map(line));
        if findings.count > SHOWN as u64 {
            lines.push(format!("  {device}: and {} more", findings.count - SHOWN as u64));
        }
    }
    lines
}

/// True if anything is not what was written.
pub fn failed(verified: &[Verified]) -> bool {
    verified.iter().any(|verified| verified.findings.count > 0)
}

/// The ledger of a run as it is kept; nothing if nothing was written.
pub fn encode(verified: &[Verified]) -> Option<Vec<u8>> {
    if verified.iter().all(|verified| verified.written.extents.is_empty()) {
        return None;
    }
    let mut bytes = FIRST.to_vec();
    for Verified { device: name, written, .. } in verified {
        let Written { run, device, unit, extents, cut } = written;
        assert!(!cut, "what came to its end is kept, and nothing else");
        let head = Head { device: *device, name: name.clone(), run: *run, unit: unit.get(), extents: extents.len() };
        bytes.extend(serde_json::to_vec(&head).expect("plain data becomes JSON"));
        bytes.push(b'\n');
        for (first, units, version) in extents {
            for word in [*first, *units, version.to_bits()] {
                bytes.extend(word.to_le_bytes());
            }
        }
    }
    bytes.extend(LAST);
    Some(bytes)
}

/// Names of devices and what was written to them, from the folder of a run.
pub fn of(folder: &Path) -> Result<Vec<(String, Written)>, LedgerError> {
    let (path, log) = (folder.join(RunFile::Ledger.name()), folder.join(LEDGER_LOG));
    match std::fs::read(&path) {
        Ok(bytes) => parse(&bytes).map_err(|at| LedgerError::Damaged { path, at }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && log.exists() => journal::read(&log),
        Err(source) => Err(LedgerError::Unreadable { path, source }),
    }
}

/// The place of the first byte that is not what it should be, if there is one.
fn parse(bytes: &[u8]) -> Result<Vec<(String, Written)>, usize> {
    let mut rest = bytes.strip_prefix(FIRST).ok_or(0usize)?;
    let mut devices = Vec::new();
    while rest != LAST {
        let at = bytes.len() - rest.len();
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or(at)?;
        let head: Head = serde_json::from_slice(&rest[..end]).map_err(|_| at)?;
        rest = &rest[end + 1..];
        let length = head.extents.checked_mul(EXTENT).filter(|length| *length <= rest.len()).ok_or(at)?;
        let (table, after) = rest.split_at(length);
        let mut extents = Vec::new();
        let mut free = 0;
        for entry in table.as_chunks::<EXTENT>().0 {
            let [first, units, version] =
                [0, 1, 2].map(|n| u64::from_le_bytes(*entry.as_chunks::<8>().0.get(n).unwrap_or(&[0; 8])));
            let next = first.checked_add(units).filter(|next| first >= free && *next > first).ok_or(at)?;
            let version = Version::from_bits(version).ok_or(at)?;
            let in_bytes = next.checked_mul(head.unit);
            if in_bytes.is_none() {
                return Err(at);
            }
            free = next;
            extents.push((first, units, version));
        }
        let unit = Bytes::new(head.unit);
        if unit.is_zero() || !unit.is_multiple_of(Bytes::SECTOR) {
            return Err(at);
        }
        devices.push((head.name, Written { run: head.run, device: head.device, unit, extents, cut: false }));
        rest = after;
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Verified> {
        let written = |device| Written {
            run: u64::MAX,
            device,
            unit: Bytes::kib(4),
            extents: vec![(0, 3, Version::new(0, 1)), (7, 1, Version::new(2, 9))],
            cut: false,
        };
        let one = |(device, name): (u16, &str)| Verified {
            device: name.to_owned(),
            findings: Findings::default(),
            written: written(device),
        };
        [(0, "/dev/sdb"), (1, "a \"strange\"\nname")].into_iter().map(one).collect()
    }

    #[test]
    fn a_ledger_comes_back_as_it_was() {
        let back = parse(&encode(&some()).unwrap()).unwrap();
        let names: Vec<_> = some().into_iter().map(|verified| (verified.device, verified.written)).collect();
        assert_eq!(back, names);
    }

    /// Cut off anywhere, it is refused, and nothing panics.
    #[test]
    fn a_piece_of_a_ledger_is_none() {
        let whole = encode(&some()).unwrap();
        (0..whole.len()).for_each(|end| assert!(parse(&whole[..end]).is_err(), "{end} bytes"));
    }
}
