//! The words of `array set`.

use clap::{ArgGroup, Args};
use raid::Place;
use units::Bytes;

use super::array::Way;

/// Change the settings of a stopped array
///
/// Changes the name, the consistency policy, the bitmap's chunk, or flags of single members. Data stay where they are.
/// The array must be clean; a new policy or chunk also needs all members. Name all members. If the command is killed,
/// the array has its old or its new settings; give the same command again.
#[derive(Args)]
#[command(
    override_usage = "arraylab array set [OPTIONS] <MEMBER>...",
    group(ArgGroup::new("change").required(true).multiple(true)),
    after_long_help = "\
Examples:
  arraylab array set --name backup a b c d
  arraylab array set --consistency bitmap --bitmap-chunk 16MiB a b c d
  arraylab array set --write-mostly b a b       read a, and b only if need be"
)]
pub struct Set {
    /// All members of the array, in any order
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<Place>,

    /// Name of the array, at most 32 bytes
    #[arg(long, group = "change")]
    pub name: Option<String>,

    /// How redundancy survives a power cut
    #[arg(long, group = "change")]
    pub consistency: Option<Way>,

    /// Data of each member that one bit of the bitmap covers: a power of two from 4 KiB to 2 GiB
    #[arg(long, value_name = "SIZE", group = "change")]
    pub bitmap_chunk: Option<Bytes>,

    /// Read this member only if no other copy can be read (levels 1 and 10); may be repeated
    #[arg(long, value_name = "PATH", group = "change")]
    pub write_mostly: Vec<Place>,

    /// Read this member like the others; may be repeated
    #[arg(long, value_name = "PATH", group = "change")]
    pub no_write_mostly: Vec<Place>,

    /// Have Linux md fail this member at its first error (levels 1 and 10); may be repeated. arraylab keeps the flag
    /// for md
    #[arg(long, value_name = "PATH", group = "change")]
    pub failfast: Vec<Place>,

    /// Have Linux md retry errors of this member; may be repeated
    #[arg(long, value_name = "PATH", group = "change")]
    pub no_failfast: Vec<Place>,

    /// Print the array's status as one JSON document
    #[arg(long)]
    pub json: bool,
}
