//! The words of `storm`.

use clap::Args;
use storm::Choice;

/// Run the array's code through power cuts and failing members, in virtual time
///
/// Each seed is a storm: an array in memory, clients that write, flush and read, members that fail, vanish, hang and
/// lose sectors, and power cuts that keep any part of what was not flushed, also inside recovery. An oracle knows for
/// each sector what may be there. A promise that is broken is printed with the command that replays it; the exit code
/// is then 1.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab storm --seeds 0..20000
  arraylab storm --seeds 0..1000 --level 6
  arraylab storm --seeds 4711..4712          once more
  arraylab storm --exhaustive --level 5      every crash of every short sequence of writes
  arraylab storm --scenario write-error      one of the known ways to break, on purpose")]
pub struct Storm {
    /// The seeds, from..to; the last is not among them
    #[arg(long, value_name = "FROM..TO", default_value = "0..2000", value_parser = seeds)]
    pub seeds: std::ops::Range<u64>,

    /// Only arrays of this level
    #[arg(long)]
    pub level: Option<Choice>,

    /// Instead of seeds: every sequence of a few writes on two stripes, and every state a power cut can leave
    #[arg(long, conflicts_with = "seeds")]
    pub exhaustive: bool,

    /// Instead of seeds: one of the known ways in which an array can break
    #[arg(long, value_name = "NAME", conflicts_with_all = ["seeds", "level", "exhaustive"])]
    pub scenario: Option<String>,

    /// The scenarios there are
    #[arg(long, conflicts_with_all = ["seeds", "level", "exhaustive", "scenario"])]
    pub list: bool,

    /// How many writes a sequence has at most
    #[arg(long, value_name = "N", default_value_t = 2, requires = "exhaustive", value_parser = clap::value_parser!(u8).range(1..=3))]
    pub writes: u8,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}

fn seeds(text: &str) -> Result<std::ops::Range<u64>, String> {
    let range = text.split_once("..").and_then(|(from, to)| Some(from.trim().parse().ok()?..to.trim().parse().ok()?));
    match range {
        Some(range) if range.start < range.end => Ok(range),
        _ => Err("seeds are two numbers, the second larger, such as 0..2000".into()),
    }
}
