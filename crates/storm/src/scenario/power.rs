//! Power cuts, and what must be seen if promises are broken.

use std::sync::atomic::{AtomicBool, AtomicU64};

use array::OpenError;
use array::geometry::{DoubleRotation, Level};
use array::md::Consistency;

use super::stage::{FIVE, Stage, must};
use crate::bug::Bug;
use crate::campaign::campaign;
use crate::exhaustive::{arrays, exhaust};
use crate::levels::Choice;
use crate::storm::storm;

pub fn every_write() -> Result<(), String> {
    for (_, level, members) in arrays() {
        let found = exhaust(level, members, 1, 1, &AtomicBool::new(false), &AtomicU64::new(0));
        must(found.violations.is_empty() && found.states > 100, || format!("{level}: {:?}", found.violations))?;
    }
    Ok(())
}

/// A few storms; how many of what must have happened.
fn storms(seeds: u64, enough: impl Fn(&crate::Report) -> bool) -> Result<(), String> {
    let report = campaign(0..seeds, Choice::ALL, 1, &AtomicBool::new(false), &AtomicU64::new(0));
    if let Some(violation) = report.violations.first() {
        return Err(format!("{}: {}", violation.what, violation.replay));
    }
    must(enough(&report), || format!("too little happened: {:?}", report.outcome))
}

pub fn any_subset() -> Result<(), String> {
    storms(60, |report| report.outcome.power_cuts >= 120)
}

pub fn inside_recovery() -> Result<(), String> {
    storms(60, |report| report.outcome.recovery_cuts >= 15)
}

pub fn member_lost() -> Result<(), String> {
    let six = Level::Raid6(DoubleRotation::default());
    let ways = [Consistency::Ppl, Consistency::Journal, Consistency::Resync, Consistency::Bitmap];
    for consistency in ways {
        for lost in 0..4 {
            lost_with_the_power(FIVE, consistency, &[lost])?;
            lost_with_the_power(Level::Raid4, consistency, &[lost])?;
            for other in 0..lost {
                lost_with_the_power(six, consistency, &[other, lost])?;
            }
        }
    }
    Ok(())
}

fn lost_with_the_power(level: Level, consistency: Consistency, lost: &[usize]) -> Result<(), String> {
    let mut stage = Stage::new(level, 4, consistency, false)?;
    // One sector, so that under the partial parity log, too, it is the old one or the new one.
    stage.write(5, 1).map_err(|error| error.to_string())?;
    stage.cut();
    stage.world.gone.borrow_mut().extend(lost);
    match (stage.reopen(), stage.world.is_closed()) {
        (Ok(()), true) => stage.recovers(),
        (Err(OpenError::DirtyDegraded { missing }), false) if missing == lost => Ok(()),
        (Ok(()), false) => Err(format!("{level}, {consistency:?} without {lost:?}: it opens")),
        (Err(error), _) => Err(format!("{level}, {consistency:?} without {lost:?}: {error}")),
    }
}

fn caught(bug: Bug) -> Result<(), String> {
    let found = (0..80).any(|seed| storm(seed, Choice::ALL, Some(bug)).is_err());
    must(found, || format!("{bug:?} went unnoticed in 80 storms"))
}

pub fn lying_flush() -> Result<(), String> {
    caught(Bug::SkipFlush)
}

pub fn seeded_bugs() -> Result<(), String> {
    Bug::ALL.into_iter().try_for_each(caught)
}
