//! Verifying later: all that a run wrote is read again, and held against its ledger.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use device::DeviceError;
use units::{Bytes, Duration};
use uring::{Live, LiveOptions, Mode};
use workload::{Heap, Ledger, Written, sweep};

use crate::copy::open;
use crate::runner::RunError;
use crate::target::Target;
use crate::verification::{self, LedgerError, Verified};

/// Requests under way: enough for a drive to read ahead, or an array to use its members.
const DEPTH: u32 = 8;

/// Why what was written cannot be verified.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum VerifyError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("the run wrote {wrote} devices, and {given} are given; name them all, in the order of the run: {}", names.join(", "))]
    Number { wrote: usize, given: usize, names: Vec<String> },
    #[error(
        "{device} existed in virtual time only, and its bytes ended with the run; verify such a run in the run itself: `verify = \"end\"`"
    )]
    Gone { device: String },
    #[error(transparent)]
    Open(#[from] RunError),
    #[error("{device} cannot be read: {error}")]
    Read { device: String, error: DeviceError },
}

/// What came of it, device by device.
#[derive(Debug)]
pub struct Verdict {
    /// What was found.
    pub devices: Vec<Verified>,
    /// How long the reading took.
    pub time: Duration,
    /// The run was killed: of what it wrote, all is known but the last second.
    pub killed: bool,
    /// It was ended early; what was found until then counts.
    pub interrupted: bool,
}

/// Reads all that the run in `folder` wrote: from the devices of the run, or from `on`, in their order.
pub fn verify(folder: &Path, on: &[Target], mode: Mode, interrupted: &AtomicBool) -> Result<Verdict, VerifyError> {
    let wrote = verification::of(folder)?;
    if !on.is_empty() && on.len() != wrote.len() {
        let names = wrote.iter().map(|(name, _)| name.clone()).collect();
        return Err(VerifyError::Number { wrote: wrote.len(), given: on.len(), names });
    }
    let started = std::time::Instant::now();
    let live = Live::start(&LiveOptions::default());
    let mut devices = Vec::new();
    for (index, (name, written)) in wrote.iter().enumerate() {
        let target = match on.get(index) {
            Some(target) => target.clone(),
            None => name.parse().map_err(|_| VerifyError::Gone { device: name.clone() })?,
        };
        devices.push(one(&live, (&target, mode), written, interrupted)?);
        if interrupted.load(Relaxed) {
            break;
        }
    }
    let time = Duration::nanos(started.elapsed().as_nanos() as u64);
    let killed = wrote.iter().any(|(_, written)| written.cut);
    Ok(Verdict { devices, time, killed, interrupted: interrupted.load(Relaxed) })
}

fn one(
    live: &Live,
    (target, mode): (&Target, Mode),
    written: &Written,
    interrupted: &AtomicBool,
) -> Result<Verified, VerifyError> {
    if !matches!(target, Target::Path(_) | Target::Nbd(_)) {
        return Err(VerifyError::Gone { device: target.to_string() });
    }
    let device = open(live, target, mode, &HashMap::new())?;
    let ledger = Ledger::of(written);
    let stop = || interrupted.load(Relaxed);
    let error = RefCell::new(None);
    live.runtime().block_on(async {
        *error.borrow_mut() = sweep(&device, &ledger, &Heap, (DEPTH, 0), stop).await;
    });
    match error.into_inner() {
        Some(error) => Err(VerifyError::Read { device: target.to_string(), error }),
        None => Ok(Verified::new(&target.to_string(), &ledger)),
    }
}

/// All bytes that were checked.
pub fn checked(devices: &[Verified]) -> Bytes {
    devices.iter().map(|verified| verified.findings.checked).sum()
}
