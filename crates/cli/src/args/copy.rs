//! The words of `arraylab copy`.

use clap::Args;
use lab::Target;
use units::Bytes;

use super::{Common, Seen};

/// Copy one device or file to another, with both sides measured
///
/// Reads and writes overlap, --depth pieces at a time. Every read and write is recorded; the result says what each side
/// gave, and which of them limits. At the end the target is flushed. What is on the target is lost; it must be there,
/// and large enough.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab copy /dev/sdb /dev/sdc --destroy-data
  arraylab copy disk.img /dev/sdc --destroy-data --size 4MiB --depth 16
  arraylab copy 'nbd+unix:///?socket=/run/a.sock' copy.img --destroy-data
  arraylab copy a.img b.img --destroy-data --json | jq .limit

Ctrl-C or an I/O error ends the copy early: the exit code is 3, and the result says how far it came.")]
pub struct Copy {
    /// What is copied: a path or an NBD URI
    #[arg(value_name = "SOURCE")]
    pub source: Target,

    /// What it is copied to, and what is overwritten
    #[arg(value_name = "TARGET")]
    pub target: Target,

    /// The size of a piece
    #[arg(long, value_name = "SIZE", default_value = "1 MiB")]
    pub size: Bytes,

    /// How many pieces are under way
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub depth: u32,

    /// Through the page cache of this machine
    #[arg(long)]
    pub buffered: bool,

    /// While it goes on.
    #[command(flatten)]
    pub seen: Seen,

    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
}
