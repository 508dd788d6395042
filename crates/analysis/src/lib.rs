//! What the records say.
//!
//! Pure functions from rows to findings. Nothing here reads a clock or a file or starts a thread, and nothing here can
//! tell a live run from a modelled one: a model is judged by the same tables as the machine.

mod advice;
mod against;
mod bend;
mod brought;
pub mod by_job;
pub mod compare;
mod course;
mod estimate;
pub mod explain;
pub mod json;
pub mod knee;
pub mod lateness;
pub mod maximum;
mod moments;
mod occupancy;
pub mod rounds;
mod series;
mod steady;
mod summary;
pub mod surroundings;
pub mod survey;
mod tally;
mod trend;

pub use advice::{Advice, AdviceKind, Facts, Load, PageCache, SATURATED, advise, hollow};
pub use against::{Change, Compared, against};
pub use bend::{Bend, Curve, Verdict, bend};
pub use brought::Brought;
pub use course::{Course, Extents, Pass};
pub use estimate::{Estimate, half_width, student_t};
pub use json::Quantity;
pub use moments::Moments;
pub use occupancy::{Occupancies, Occupancy};
pub use series::{Interval, Point, Series};
pub use steady::{SteadyRule, SteadyWindow, steady};
pub use summary::{ErrorCount, Figures, Group, Latency, Spread, Summary, Uncounted};
pub use tally::{Part, Summarizer, Tally};
pub use trend::{Trend, trend};
