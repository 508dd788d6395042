//! The words of `arraylab array assemble`.

use clap::Args;
use raid::Sought;

/// Find an array's members, check whether it opens, and print the command that serves it
///
/// Looks among the files and exports named and, if a UUID or a name is given or with --scan, among all block devices of
/// this machine. Prints the members in the order of their roles, how the array is, and the `arraylab array serve`
/// command to paste. Nothing is written without --force.
///
/// --force takes back members that dropped out one after the other (a cable, a controller): the freshest of the stale
/// ones until there are enough, as `mdadm --assemble --force` does. Without --destroy-data it only prints which would
/// be believed and what may be lost.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array assemble --scan                      all arrays of this machine
  arraylab array assemble home                        the array of that name, from the block devices
  arraylab array assemble 5e9a2f60:0d3c8a11:77b4e2d9:41c6a803
  arraylab array assemble a b c d                     from these files
  arraylab array assemble --read-only /dev/sd[b-e]    serve without writing to the members
  arraylab array assemble --force a b c d             what force would do; nothing is written
  arraylab array assemble --force --destroy-data a b c d")]
pub struct Assemble {
    /// Array UUIDs, array names, or paths and exports of members
    #[arg(value_name = "UUID|NAME|PATH", required_unless_present = "scan")]
    pub sought: Vec<Sought>,

    /// Find all arrays on the block devices of this machine
    #[arg(long)]
    pub scan: bool,

    /// Print the command that serves without writing to the members
    #[arg(long, conflicts_with = "force")]
    pub read_only: bool,

    /// Show which stale members would be taken back so that the array opens, and what that may lose
    #[arg(long)]
    pub force: bool,

    /// With --force: write it to the members
    #[arg(long, requires = "force")]
    pub destroy_data: bool,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}
