//! The words of `report`.

use std::path::PathBuf;

use clap::Args;
use units::Duration;

use super::subject::Subjects;

/// Make a page of a run, a survey, a sweep or a comparison, for a browser
///
/// The verdict stands first. Of a run the page holds what `arraylab explain` says, the figures, bandwidth and response
/// times over time, response times by percentile, and some requests as bars; of a survey, or of `arraylab max`, its
/// verdicts, curves and tables; of a sweep the figures over its axes and what limits each point; of a comparison the
/// effects with their intervals, and each difference in conditions. At its end are the experiment and the machine as
/// they were.
///
/// It is one file of HTML that loads nothing: it can be mailed, archived and opened without a network. It is light or
/// dark as the browser is, can be read on a telephone, and can be printed.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab report runs/2026-02-14-load-1 -o load.html
  arraylab report runs/2026-02-14-load-1 > load.html
  arraylab report runs/2026-02-14-survey-1 -o survey.html         the folder tells what it holds
  arraylab report runs/2026-02-14-max-1 -o max.html
  arraylab report runs/2026-02-14-load-sweep-1 -o sweep.html
  arraylab report runs/2026-02-14-compare-1 -o compare.html
  arraylab report --trace trace.txt -o trace.html          what blkparse printed, or a latency log of fio")]
pub struct Report {
    #[command(flatten)]
    pub of: Subjects,

    /// Where the page goes [default: standard output]
    #[arg(short, long, value_name = "FILE.html")]
    pub output: Option<PathBuf>,

    /// How much time the bars show, from the middle of the run on [default: about 8 requests of each device]
    #[arg(long, value_name = "TIME")]
    pub window: Option<Duration>,

    /// Say as one JSON document where the page is
    #[arg(long, requires = "output")]
    pub json: bool,
}
