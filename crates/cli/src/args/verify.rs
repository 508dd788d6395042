//! The words of `arraylab verify`.

use std::path::PathBuf;

use clap::Args;
use lab::Target;

/// Read again what a run wrote, and hold it against what was written
///
/// Takes the folder of a run in which a stream had `verify`. Every block says which device, address, pass and write it
/// is of, so a mismatch is named: corrupt (bits differ), stale (an older write is there), torn (part of a write is
/// there), misplaced (another place's block), foreign. Nothing is written.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab run load/verify --on /dev/sdb --destroy-data    writes, and keeps what it wrote where
  arraylab verify runs/2026-02-14-load-verify-1            the same device, later
  arraylab verify runs/2026-02-14-load-verify-1 --on /dev/sdc   a copy of it
  arraylab verify runs/2026-02-14-load-verify-1 --json | jq '.devices[].findings.mismatches'

The exit code is 0 if all is sound, 1 if anything is not what was written.")]
pub struct Verify {
    /// The run's folder
    pub run: PathBuf,

    /// Where the data are now, in the order of the run's devices [default: the devices of the run]
    #[arg(long, value_name = "PATH,...", value_delimiter = ',')]
    pub on: Vec<Target>,

    /// Through the page cache of this machine
    #[arg(long)]
    pub buffered: bool,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}
