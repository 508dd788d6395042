//! The studies that the program models, by the names of their files in `published/`.
//!
//! A study is a system, the trials on it, which number of a trial stands beside which printed row, and a test of each claim. How a row is
//! judged and what is counted is the same for all ([`crate::reproduce`]).

use crate::raid_i::RaidI;
use crate::reproduce::Study;
use crate::rounds_wren7::RoundsWren7;

/// The model of a study, with changes to its system; nothing if there is no such study.
pub fn study(name: &str, settings: Vec<(String, String)>) -> Option<Box<dyn Study>> {
    match name {
        "raid-i" => Some(Box::new(RaidI::with(settings))),
        "rounds-wren7" => Some(Box::new(RoundsWren7::with(settings))),
        _ => None,
    }
}
