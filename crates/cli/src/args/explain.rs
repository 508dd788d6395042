//! The words of `explain`.

use std::path::PathBuf;

use clap::Args;
use units::Duration;

use super::subject::Subjects;

/// Say what limited a run, and on what evidence
///
/// A run is explained from what its folder keeps: each request with its time stamps, the generator's processor time,
/// what the devices stand on, and of modelled machines the time in each part. Printed are the limit; where the time of
/// requests went, device by device; what the devices share; whether they convoy on it (rounds: each is served once
/// before any is served again, and the link is idle between), with the evidence; what a change would bring at most; and
/// the requests that took longest.
///
/// Of a survey its own verdicts are printed, of `arraylab max` its result once more; of a sweep, what limits each of
/// its points; of a comparison, its result once more.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab explain runs/2026-02-14-load-1
  arraylab explain runs/2026-02-14-load-1 --lanes lanes.svg    requests as bars, device by device
  arraylab explain runs/2026-02-14-load-1 --threshold 45ms     large deltas as the study sets them
  arraylab explain --json runs/2026-02-14-load-1 | jq '.rounds.evidence'
  arraylab explain runs/2026-02-14-load-2 --against runs/2026-02-14-load-1   was it faster, and how sure is that?

Traces of other programs:
  blktrace -d /dev/sdb -d /dev/sdc -w 30 -o - | blkparse -i - > trace.txt
  arraylab explain --trace trace.txt

  fio --write_lat_log=log --log_issue_time=1 --log_offset=1 ...       fio 3.37 or later
  arraylab explain --trace log_clat.1.log --trace log_clat.2.log      a device for each job

Rounds:
  A delta is the time from one completion to the next, of whatever device. A large delta after D - 1
  small ones of D different devices ends a good round (Barve et al., 1999). A convoy is reported if
  half of all requests are in good rounds, and if they stand out more plainly than in each of 199
  runs in which the devices are moved against each other in time: devices that do not wait for each
  other are taken for a convoy in fewer than one run in a hundred. Requests that failed are left out,
  and devices that complete less than half of what the others do on average: with them, half of all
  requests could not be in rounds.")]
pub struct Explain {
    #[command(flatten)]
    pub of: Subjects,

    /// Hold the run against this earlier one instead: what differs between them, and whether the passes bear that out
    #[arg(long, value_name = "RUN", requires = "run", conflicts_with_all = ["trace", "threshold", "lanes"])]
    pub against: Option<PathBuf>,

    /// Draw requests as bars, one lane for each device
    #[arg(long, value_name = "FILE.svg")]
    pub lanes: Option<PathBuf>,

    /// How much time the lanes show, from the middle of the run on [default: about 8 requests of each device]
    #[arg(long, value_name = "TIME", requires = "lanes")]
    pub window: Option<Duration>,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}
