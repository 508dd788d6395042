//! What is to be explained or reported: words that both commands have.

use std::path::PathBuf;

use clap::Args;
use lab::explain::Subject;
use record::TraceFormat;
use units::Duration;

/// A run, or a trace of another program.
#[derive(Args)]
pub struct Subjects {
    /// A run folder, or a records.parquet; or the folder of a survey, a maximum, a sweep or a comparison
    #[arg(required_unless_present = "trace", conflicts_with = "trace")]
    pub run: Option<PathBuf>,

    /// Take a trace of another program; may be given several times
    #[arg(long, value_name = "FILE")]
    pub trace: Vec<PathBuf>,

    /// What the trace is: blkparse or fio-log [default: told from its text]
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    pub format: Option<TraceFormat>,

    /// Deltas above this are large [default: found in the deltas]
    #[arg(long, value_name = "TIME")]
    pub threshold: Option<Duration>,
}

impl Subjects {
    /// The run, or the trace.
    pub fn subject(&self) -> Subject {
        match &self.run {
            Some(run) => Subject::Run(run.clone()),
            None => Subject::Trace(self.trace.clone(), self.format),
        }
    }
}
