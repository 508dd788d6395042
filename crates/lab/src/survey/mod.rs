//! Making a survey: which measurements, in which order, on what.
//!
//! What they mean is decided in [`analysis::survey`]; here a [`Bench`] is asked for them and need not be this machine.
//!
//! # Repeats
//! All points are measured once, then all again, at least three times: what drifts with time (a busy neighbour on a
//! virtual machine, a warming disk) then shows as spread of every point and not as a bend of the curve, as it would if
//! the repeats of a point followed each other.

mod conduct;
mod files;
mod machine;
mod modelled;
mod overall;
mod rows;

use analysis::survey::{Access, Kind, Sample};
use record::{Keeping, Log, Meta, RecordError, Recorder, RunFolder, Spill, WhenBehind};
use units::{Bytes, Duration};

pub use conduct::conduct;
pub(crate) use files::SHARE_OF_FREE;
pub use files::{FileError, Files};
pub use machine::{Machine, MachineError};
pub use modelled::Modelled;
pub(crate) use overall::Overall;
pub(crate) use rows::Rows;
pub use rows::streams;

/// Memory for the rows of all measurements; more go to the run folder.
const RECORDS: Bytes = Bytes::gib(1);

/// The record of a survey: all of its measurements come one after the other, from one thread.
pub fn recorder(folder: &RunFolder, meta: &Meta) -> Result<(Recorder, Log), RecordError> {
    let spill = Spill::WhenFull(folder.raw_path());
    let keeping = Keeping { expected_rows: 0, memory: RECORDS, spill, when_behind: WhenBehind::Wait };
    let (recorder, mut logs) = Recorder::start(&keeping, meta, 1)?;
    Ok((recorder, logs.pop().expect("one log was asked for")))
}

/// One measurement to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Which devices are loaded together.
    pub devices: Vec<usize>,
    /// What is asked, how.
    pub kind: Kind,
    /// Size of the sequential requests.
    pub request: Bytes,
    /// How long to count.
    pub time: Duration,
}

/// Something that can be surveyed.
pub trait Bench {
    /// Why a measurement failed.
    type Error;
    /// Makes one measurement.
    fn measure(&mut self, probe: &Probe) -> Result<Sample, Self::Error>;
}

/// How a survey is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Conduct {
    /// About how long all measurements may take together.
    pub budget: Duration,
    /// How often each is made; at least twice, as one measurement says nothing about its spread.
    pub repeats: u32,
    /// Whether writes are measured, too.
    pub writes: bool,
    /// Sizes among which that of the sequential requests is chosen.
    pub requests: Vec<Bytes>,
    /// How requests reach the devices; the first two are compared.
    pub accesses: Vec<Access>,
}

impl Default for Conduct {
    fn default() -> Conduct {
        Conduct {
            budget: Duration::seconds(60),
            repeats: 3,
            writes: false,
            requests: vec![Bytes::kib(64), Bytes::kib(256), Bytes::mib(1), Bytes::mib(4)],
            accesses: vec![Access::Raw, Access::Os, Access::Process],
        }
    }
}

impl Conduct {
    /// How the survey is made, for its run folder.
    pub fn to_toml(&self) -> String {
        let sizes: Vec<String> = self.requests.iter().map(|size| format!("\"{size:#}\"")).collect();
        format!(
            "# how `arraylab survey` measured\n[survey]\ntime = \"{:#}\"\nrepeats = {}\nwrites = {}\nrequests = [{}]\n",
            self.budget,
            self.repeats,
            self.writes,
            sizes.join(", ")
        )
    }
}
