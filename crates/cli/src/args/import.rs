//! The words of `arraylab import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// In whose shape results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// As `fio --output-format=json` prints them
    FioJson,
}

/// Show a job file of fio as an experiment
///
/// What `arraylab run job.fio` would run, in TOML: write it to disk, change it, and run it. Groups of jobs that wait
/// for each other (stonewall) are experiments of their own. Options that are not kept, or change nothing here, are
/// listed on standard error.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab import randread.fio
  arraylab import randread.fio > randread.toml
  arraylab import phases.fio -o experiments/      a file for each group of jobs
  arraylab run randread.fio                       runs it as it is")]
pub struct Import {
    /// The job file
    #[arg(value_name = "JOB")]
    pub job: PathBuf,

    /// Write a file for each group of jobs into this directory, and print its name
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Refuse a file with options that are not kept to the letter
    #[arg(long)]
    pub strict: bool,

    /// Run a job file of fio without the options that are unknown or not supported, and list them
    #[arg(long, conflicts_with = "strict")]
    pub lenient: bool,
}
