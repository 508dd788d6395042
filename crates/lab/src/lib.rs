//! Experiments: from a TOML file to a checked plan, run live or simulated, swept, and surveyed.

mod document;
mod experiment;
mod file;
mod source;

pub use document::{Point, Setting, read};
pub use experiment::{Engine, Experiment, Io, Mode, Run, StreamPlan};
pub use source::{Source, SourceError};
