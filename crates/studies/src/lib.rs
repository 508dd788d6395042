//! Studies: what somebody measured beside what a model of the same machine gives, and how good the model is by that.
//!
//! A study is a system, the trials on it, which number of a trial stands beside which measured row, and a test of each
//! claim. It is data: a [folder](mod@study), the program's or the user's own, but for two claims of RAID-I that are
//! about no trial. How a row is judged and what is counted is the same for all ([`reproduce`](mod@reproduce)).

mod bench;
mod comparison;
mod known;
mod raid_i;
pub mod reproduce;
pub mod study;

pub use comparison::compare;
pub use known::study;
