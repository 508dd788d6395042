//! What people read.
//!
//! Findings come in as plain data and go out as text. This is the only crate that knows how a table is drawn, and the
//! only one that knows HTML; nothing is measured or decided here.

mod against;
mod brought;
mod chart;
mod compared;
pub mod distribution;
mod explanation;
pub mod exposition;
mod fio_json;
mod gain;
mod intervals;
mod lanes;
mod maximum;
mod page;
mod prediction;
mod run;
mod survey;
mod swept;
mod table;
mod text;
mod ticks;
mod ways;

pub use against::against;
pub use brought::brought;
pub use compared::compared;
pub use explanation::explanation;
pub use fio_json::{Directions, DiskUse, FioJob, Search, Shown, Used, fio_json};
pub use gain::{Gained, gains};
pub use lanes::{Lanes, lanes};
pub use maximum::maximum;
pub use page::{
    ComparisonPage, MaximumPage, Page, Pair, SAME, SurveyPage, SweepPage, Turn, comparison_page, maximum_page, page,
    survey_page, sweep_page,
};
pub use prediction::predictions;
pub use run::{Sweep, run, sides, sweep, utilizations};
pub use survey::{Derived, ladder, modelled_survey, survey};
pub use swept::{Swept, swept};
pub use table::Table;
