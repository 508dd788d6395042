//! `arraylab max`: how much this host takes, by the three methods of the M.A.X. study.
//!
//! Devices are added one at a time, round-robin over the links they stand on, and each is measured alone, too. What
//! is found, and what it means, is in [`analysis::maximum`] and [`analysis::knee`].
//!
//! # The load
//! Sequential requests of one size past the page cache, one under way on each device, from the device's beginning. A
//! volume is a stream in lock-step: one step of every device, and the next when all are complete, which is what a
//! striping driver makes of an application's request of step x devices bytes. Load is on before and behind the
//! counted time, so that n requests count for n gaps between them.
//!
//! # The order
//! Every repeat measures all points in an order of its own, drawn from the seed: what drifts with time (a neighbour,
//! a warming disk) is then scatter of all points and not a bend of the curve. The survey goes through its points in
//! one order in each repeat; its verdicts compare whole levels, and a drift within one repeat is less than what they
//! are about.

mod conduct;
mod host;
mod order;
mod xdd;

use analysis::maximum::{Direction, Kind, Loaded, Method};
use units::{Bytes, Duration};

pub use self::conduct::conduct;
pub use self::host::{Host, HostError};
pub use self::xdd::{lines, stamps};

/// How it is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Bytes of one request to one device.
    pub sizes: Vec<Bytes>,
    /// How devices are accessed.
    pub methods: Vec<Method>,
    /// Whether they are written, too.
    pub writes: bool,
    /// How often each point is measured.
    pub repeats: u32,
    /// About how long all measurements may take together.
    pub budget: Duration,
    /// Decides the order of measurements.
    pub seed: u64,
}

/// One measurement to be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// What is asked, how.
    pub kind: Kind,
    /// Of which devices.
    pub loaded: Loaded,
    /// How long to count.
    pub time: Duration,
}

impl Plan {
    /// The kinds of measurement.
    pub fn kinds(&self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        for &request in &self.sizes {
            for &method in &self.methods {
                let directions: &[Direction] = match method {
                    Method::Simultaneous => &[Direction::Both],
                    _ if self.writes => &[Direction::Read, Direction::Write],
                    _ => &[Direction::Read],
                };
                kinds.extend(directions.iter().map(|&direction| Kind { method, direction, request }));
            }
        }
        kinds
    }

    /// The streams of its records: one for each kind, and one for what is measured only to be compared with.
    pub fn streams(&self) -> Vec<String> {
        let name = |kind: &Kind| format!("{} {}", describe(*kind), kind.request);
        self.kinds().iter().map(name).chain(["to compare with".to_owned()]).collect()
    }

    /// The stream of a kind.
    fn stream(&self, kind: Kind) -> u16 {
        let kinds = self.kinds();
        kinds.iter().position(|other| *other == kind).unwrap_or(kinds.len()) as u16
    }

    /// How it is measured, for the run folder.
    pub fn to_toml(&self) -> String {
        let list = |words: Vec<String>| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
        let methods = self.methods.iter().map(|method| method_name(*method).to_owned()).collect();
        format!(
            "# how `arraylab max` measured\n[max]\nsizes = [{}]\nmethods = [{}]\nwrites = {}\nrepeats = {}\ntime = \"{:#}\"\nseed = {}\n",
            list(self.sizes.iter().map(|size| format!("{size:#}")).collect()),
            list(methods),
            self.writes,
            self.repeats,
            self.budget,
            self.seed
        )
    }
}

/// As the command line has it.
pub fn method_name(method: Method) -> &'static str {
    match method {
        Method::Independent => "independent",
        Method::Volume => "volume",
        Method::Simultaneous => "simultaneous",
    }
}

/// A kind in words, without its size.
pub fn describe(kind: Kind) -> String {
    let direction = match kind.direction {
        Direction::Read => "reads",
        Direction::Write => "writes",
        Direction::Both => "reads and writes",
    };
    format!("{} {direction}", method_name(kind.method))
}
