//! Experiments: from a TOML file to a checked plan, run live or simulated, swept, and surveyed.

mod accounts;
mod advice;
pub mod catalogue;
mod document;
mod experiment;
mod file;
mod gate;
pub mod keep;
mod live;
mod pass;
mod pool;
pub mod published;
pub mod raid_i;
pub mod remote;
pub mod reproduce;
mod runner;
mod simulated;
mod source;
pub mod survey;
mod target;
pub mod validation;
mod written;

pub use document::{Point, Setting, read};
pub use experiment::{Cache, Experiment, Io, LANGUAGE, Run, StreamPlan};
pub use pass::Failure;
pub use runner::{Conclusion, Outcome, Progress, RunError, Silent, Tick, Ways, run};
pub use source::{Source, SourceError};
pub use target::{Target, TargetError};
pub use uring::OpenError;
pub use uring::{Engine, Mode};
