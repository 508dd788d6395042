//! Many storms, on as many processors as there are: each seed is a world of its own, so they share nothing but a
//! counter.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use crate::levels::Choice;
use crate::storm::{Broken, Outcome, replay, storm};

/// Seeds that a thread takes at a time: a few milliseconds of work.
const BATCH: u64 = 16;

/// What many storms have shown. The fields are those of the JSON contract.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Storms that were run.
    pub seeds: u64,
    /// What happened in them.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Promises that were broken, by seed.
    pub violations: Vec<Violation>,
}

/// A broken promise, and how to see it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The seed.
    pub seed: u64,
    /// What was found.
    pub what: String,
    /// The command that replays it.
    pub replay: String,
    /// What had happened until then, with the times since the power came, and what superblocks said.
    pub story: Vec<String>,
}

/// The story with superblocks: the storm is run once more for it.
fn whole_story(broken: Broken, choice: Choice) -> Vec<String> {
    match replay(broken.seed, choice, None) {
        Err(again) if again.what == broken.what => again.story,
        // It is the same each time, or the fault is the storm's own, and is not to hide what was found.
        other => {
            let differs = format!("replayed, this storm ended otherwise: {other:?}");
            broken.story.into_iter().chain([differs]).collect()
        }
    }
}

/// Runs the storms of `seeds` in `threads` threads until all are done or `stop` is set; `done` counts them meanwhile.
pub fn campaign(seeds: Range<u64>, choice: Choice, threads: usize, stop: &AtomicBool, done: &AtomicU64) -> Report {
    let taken = AtomicU64::new(0);
    let report = Mutex::new(Report::default());
    let work = || {
        let mut mine = Report::default();
        while !stop.load(Relaxed) {
            // The last seeds are near the largest number.
            let first =
                taken.fetch_add(1, Relaxed).checked_mul(BATCH).and_then(|before| seeds.start.checked_add(before));
            let Some(first) = first.filter(|first| *first < seeds.end) else { break };
            for seed in first..first.saturating_add(BATCH).min(seeds.end) {
                match storm(seed, choice, None) {
                    Ok(outcome) => mine.outcome = mine.outcome.and(outcome),
                    Err(broken) => mine.violations.push(Violation {
                        seed,
                        what: broken.to_string(),
                        replay: format!("arraylab storm --seeds {seed}..{}{}", seed + 1, choice.option()),
                        story: whole_story(broken, choice),
                    }),
                }
                mine.seeds += 1;
                done.fetch_add(1, Relaxed);
            }
        }
        let mut report = report.lock().expect("no thread panics while it adds up");
        report.seeds += mine.seeds;
        report.outcome = report.outcome.and(mine.outcome);
        report.violations.extend(mine.violations);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let mut report = report.into_inner().expect("no thread panics while it adds up");
    report.violations.sort_by_key(|violation| violation.seed);
    report
}
