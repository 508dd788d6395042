//! The words of `compare`.

use lab::{Setting, Target};

use super::Common;

/// Compare set-ups by interleaved runs: which is faster, and how sure that is
///
/// Each side is an experiment (a file, or a name of `arraylab experiments`), and is run --repeat times, in turns: AB,
/// BA, AB. Compared are requests a second, mean and 99th percentile, turn by turn, so that what drifts drifts for both.
/// Of each figure the effect is printed with an interval; that any of them differs is said wrongly in at most 5 of 100
/// comparisons of what is the same. Where no difference is shown, the largest is printed that the runs do not exclude.
/// Every difference in settings, machine, kernel, and what the devices stand on is listed. The result is kept in a
/// folder of its own, of which `arraylab report` makes a page.
///
/// A side may also be a run folder. Two single runs tell how these runs differ; whether their set-ups do, only repeats
/// can tell.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  arraylab compare --repeat 5 a.toml b.toml --on /dev/sdb
  arraylab compare load.toml load.toml,stream.readers.depth=8 --on /dev/sdb    one value changed
  arraylab compare --repeat 10 a.toml b.toml c.toml --on /dev/sdb --json       each with the first
  arraylab compare runs/2026-02-14-load-1 runs/2026-02-15-load-1               runs that were kept")]
pub struct Compare {
    /// Experiments, each with changes of its own after commas (FILE,KEY=VALUE,...), or folders of runs
    #[arg(required = true, num_args = 2.., value_name = "SIDE")]
    pub sides: Vec<String>,

    /// How often each side is run
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(2..=1000))]
    pub repeat: u16,

    /// Devices of all sides, as `run` takes them
    #[arg(long, value_name = "PATH,...", value_delimiter = ',')]
    pub on: Vec<Target>,

    /// Change a value of all experiments; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Setting>,

    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
}
