//! The words of `parts`, `systems` and `validate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Show the parts of modelled machines, or bring one in
///
/// Without a name, all parts that come with the program are listed. With one, every value of the part is shown with its
/// source: a row of a study, a line of a drive file, a data sheet, or "assumed" and why. A part file of your own is
/// named by its path.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  arraylab parts
  arraylab parts wren-iv
  arraylab parts ./barracuda.toml
  arraylab parts import barracuda.diskspecs -o barracuda.toml"
)]
pub struct Parts {
    /// What to do instead of showing
    #[command(subcommand)]
    pub action: Option<PartsAction>,

    /// A part that comes with the program, or the path of a part file
    pub name: Option<String>,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// What else can be done with parts.
#[derive(Subcommand)]
pub enum PartsAction {
    Import(Import),
}

/// Turn DiskSim drive files into a part
///
/// A drive of DiskSim 4.0 is three files: X.diskspecs (controller and buffer), X.model (zones, skews, spares,
/// mechanics) and X.seek (the seek curve; drives with a seek equation have none). Each names the next, and it is looked
/// for beside it unless it is given. The part that comes out names file and line of every value. What had to be
/// assumed, and what the model has no use for, is said on standard error.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab parts import barracuda.diskspecs > barracuda.toml
  arraylab parts import hp_c3323a.diskspecs --model hp_c3323a_validate.model -o c3323a.toml
  arraylab parts import barracuda.diskspecs --json | jq '.notes'
  arraylab validate --drive barracuda.toml --trace barracuda.trace")]
pub struct Import {
    /// The drive file: controller and buffer
    #[arg(value_name = "X.diskspecs")]
    pub specs: PathBuf,

    /// Layout and mechanics, if not beside it under the name that it uses
    #[arg(long, value_name = "X.model")]
    pub model: Option<PathBuf>,

    /// The seek curve, if not beside the model under the name that it uses
    #[arg(long, value_name = "X.seek")]
    pub seek: Option<PathBuf>,

    /// Write the part to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Print values, sources and notes as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Show the modelled machines
///
/// Without a name, all systems that come with the program are listed. With one, every value is shown with its source:
/// which parts it is put together of, and how they are joined. docs/machines.md teaches the language of system files.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  arraylab systems
  arraylab systems raid-i
  arraylab systems check nvme-24
  arraylab systems --template nvme > mine.toml
  arraylab parts jaguar                    one of the parts that it names
  arraylab systems raid-i --json | jq '.values'"
)]
pub struct Systems {
    /// What to do instead of showing
    #[command(subcommand)]
    pub action: Option<SystemsAction>,

    /// Print a commented system file to start from
    #[arg(long, value_name = "KIND", conflicts_with_all = ["name", "json"])]
    pub template: Option<Template>,

    /// A system that comes with the program, or the path of a system file
    pub name: Option<String>,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// What else can be done with systems.
#[derive(Subcommand)]
pub enum SystemsAction {
    Check(Check),
}

/// Put a machine together and print its tree
///
/// Each line is a node, or several that are alike: its part, what it passes of reads at most, and what reaches it from
/// the drives on it. The narrowest cut is the set of nodes that let least through. What does not fit is refused with
/// its line.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab systems check nvme-24
  arraylab systems check ./mine.toml
  arraylab systems check sas-60 --json | jq '.narrowest'")]
pub struct Check {
    /// A system that comes with the program, or the path of a system file
    #[arg(value_name = "FILE")]
    pub name: String,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Which file to start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Template {
    /// NVMe drives behind PCI Express switches
    Nvme,
    /// Disks behind a SAS expander
    Sas,
    /// Disks on SCSI strings, as an array of the host
    Raid,
    /// A file server with clients on a network
    Nfs,
}

/// Hold a modelled drive against the measured response times of a real one
///
/// The trace has a line for each request: R or W, the outcome seen on the bus (not used), first block, number of
/// 512-byte blocks, measured response time and, in the last column, the delay from this completion to the next issue,
/// both in microseconds. One request is under way at a time: the first is issued at time zero, each other one at the
/// modelled completion of the one before plus its delay.
///
/// Printed are the demerit of all requests, of the reads and of the writes (the root mean square horizontal distance of
/// measured and modelled distribution curves, after Ruemmler and Wilkes), the error of the mean, and the rms error and
/// correlation of modelled and measured times request by request; then what the model made of the requests, and the 20
/// that are furthest off, with where the model thinks their time went.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab validate --drive barracuda.toml --trace barracuda.trace
  arraylab validate --drive barracuda.diskspecs --trace barracuda.trace --svg barracuda.svg
  arraylab validate --drive barracuda.toml --trace barracuda.trace --json | jq '.demerit_ms'")]
pub struct Validate {
    /// A part of kind disk: one that comes with the program, a part file, or an X.diskspecs, imported on the way
    #[arg(long, value_name = "PART")]
    pub drive: String,

    /// The measured requests
    #[arg(long, value_name = "FILE")]
    pub trace: String,

    /// Draw the distribution curves, measured and modelled, into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}
