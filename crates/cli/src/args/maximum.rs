//! The words of `arraylab max`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lab::Target;
use units::{Bytes, Duration};

use super::{Common, Seen};

/// Find how much this host takes: add devices one at a time until more bring no more
///
/// Reads sequentially with one request under way on each device, by the methods of the M.A.X. study: independent (a
/// task a device), volume (an application's request is split into one step a device), and, where writing is allowed,
/// simultaneous (half of the devices read while half write). Devices are dealt over the links they stand on. Prints
/// rates by number of devices, the knee with its confidence or that there is none, the loss per device, and what more
/// devices would give.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab max /dev/sd[b-i]                             reads only
  arraylab max /dev/sd[b-i] --sizes 256KiB,2MiB         requests of these sizes
  arraylab max /dev/sd[b-i] --methods volume --sizes 1MiB    a volume with steps of 1 MiB
  arraylab max /dev/sd[b-i] --destroy-data              writes, too, and reading while writing
  arraylab max 'nbd+unix:///a?socket=s' 'nbd+unix:///b?socket=s'   exports of a server
  arraylab max /dev/sd[b-i] --json | jq '.curves[].knee'
  arraylab report runs/2026-02-14-max-1 -o max.html     the result as a page

Writes need --destroy-data, or files that arraylab itself made. Ctrl-C, kill or an I/O error
ends the measurement early: what was measured until then is kept and printed, the exit code is
3, and the JSON says \"interrupted\": true.")]
pub struct Max {
    /// Files, block devices or NBD exports; they are only read, unless writing is allowed
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<Target>,

    /// Sizes of requests to one device, which of a volume are its steps; multiples of the devices' blocks
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_values = ["64KiB", "512KiB", "4MiB"], value_parser = size)]
    pub sizes: Vec<Bytes>,

    /// Methods of access [default: independent and volume, and simultaneous where writing is allowed]
    #[arg(long, value_name = "METHOD,...", value_delimiter = ',')]
    pub methods: Vec<MaxMethod>,

    /// About how long all measurements may take together
    #[arg(long, value_name = "TIME", default_value = "2 min")]
    pub time: Duration,

    /// How often each point is measured, each time in another order
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub repeats: u32,

    /// Decides the order of measurements
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Print xdd's lines, too, of all devices together
    #[arg(long, conflicts_with = "json")]
    pub xdd: bool,

    /// Write xdd's table of time stamps of every request to this file
    #[arg(long, value_name = "FILE")]
    pub stamps: Option<PathBuf>,

    /// While it goes on.
    #[command(flatten)]
    pub seen: Seen,

    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
}

/// How devices are accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MaxMethod {
    /// A task a device, one request under way on each
    Independent,
    /// One application, whose requests are split into one step a device
    Volume,
    /// Half of the devices read while the other half writes
    Simultaneous,
}

fn size(text: &str) -> Result<Bytes, String> {
    /// Beyond this a request says no more of the host.
    const MOST: Bytes = Bytes::mib(64);
    let size: Bytes = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    let good = size >= Bytes::SECTOR && size <= MOST;
    if good { Ok(size) } else { Err(format!("write a size from 512 B to {MOST}, such as 64KiB or 4MiB")) }
}
