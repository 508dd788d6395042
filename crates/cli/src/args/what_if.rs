//! The words of `what-if`.

use std::path::PathBuf;

use lab::Target;
use units::Ratio;

use super::Common;

/// What a faster part would bring, measured by holding up all others
///
/// The run is made again, with every part held up but one: if all others take twice as long, and so do think times and
/// arrivals, then on a clock that runs half as fast that part is twice as fast, and nothing else has changed. Parts are
/// the devices of the run and the generator (this program). Each part takes two runs a turn, of which one is held up by
/// nothing; they are compared as `compare` does it. All runs are kept, and their experiments say what was held up
/// ([[slow]]).
///
/// What devices share cannot be held up: a part that is found to share something, such as a link, is called unknown. A
/// modelled machine's parts are made faster by their values instead.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  arraylab what-if runs/2026-02-14-load-1                       each part twice as fast
  arraylab what-if runs/2026-02-14-load-1 --part /dev/sdc --times 1.25 --repeat 5
  arraylab what-if runs/2026-02-14-load-1 --part generator --json")]
pub struct WhatIf {
    /// The folder of the run
    pub run: PathBuf,

    /// A device of the run, or "generator"; may be given several times. All of them if absent
    #[arg(long, value_name = "PART")]
    pub part: Vec<String>,

    /// So many times as fast, from 1.05 to 10
    #[arg(long, value_name = "TIMES", default_value = "2", value_parser = times)]
    pub times: Ratio,

    /// How many turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=1000))]
    pub repeat: u16,

    /// Devices in place of those of the run, as `run` takes them
    #[arg(long, value_name = "PATH,...", value_delimiter = ',')]
    pub on: Vec<Target>,

    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
}

/// `2`, or `200 %`.
fn times(word: &str) -> Result<Ratio, String> {
    let times = word.parse::<f64>().map(Ratio::new).or_else(|_| word.parse::<Ratio>());
    match times {
        Ok(times) if (1.05..=10.0).contains(&times.get()) => Ok(times),
        Ok(_) => Err("a part is made 1.05 to 10 times as fast".to_owned()),
        Err(_) => Err("this is no number; give 1.25, 2, or 150 %".to_owned()),
    }
}
