//! Rounds: devices that convoy on what they share, found from completion stamps alone.
//!
//! Disks on one bus were seen to serve one request each before any of them serves its next (R. Barve, P. B. Gibbons, B.
//! K. Hillyer, Y. Matias, E. Shriver and J. S. Vitter, "Round-like behavior in multiple disks on a bus", 1999): all
//! transfer, one after the other, then all position at once while the bus idles. The same pattern shows on any link
//! whose sender of commands gives way to data.
//!
//! # The algorithm, as published (section 4.1)
//! A *delta* is the time from one completion to the next, of whatever device. Above a threshold it is *large*,
//! otherwise *small*. When a large delta comes, a *good round* is counted if the D - 1 deltas before it were all small,
//! the last large one is exactly D deltas back, and the D - 1 small ones belong to different devices, none of them that
//! of the present one. `OutOf`, the most rounds that there can be, is the number of deltas divided by D.
//!
//! To which device a delta belongs, the study does not say in so many words. Here it is the one whose completion
//! *begins* it. Belonging to the one that ends it, the condition would want one device to be first in two rounds
//! running, which among D equal ones happens once in D times, while the study's tables count 81 to 100 percent of good
//! rounds.
//!
//! The study sets thresholds by hand; without one, `Threshold` finds the gap between the two kinds. Whether as many
//! good rounds could have come about by chance is for `chance` to say: the algorithm itself gives a number for any
//! load.
//!
//! # Who is counted
//! Devices that complete so little that no pattern could be found with them are left out, and named (`stray.rs`). So
//! are requests that failed: no transfer ended with one, and a device that refuses at once would answer in the midst of
//! the others' transfers.
//!
//! # The verdict
//! Whatever holds back the machine that measures (another program, the hypervisor) holds back all its devices: they
//! complete together, are asked together, and so do convoy, on the processor. On a link, one has to wait until another
//! has transferred; those that completed together waited for something else. So rounds count for a convoy only where
//! their completions were seen one by one. Nor do they where the devices were not asked for anything for most of the
//! time that a round's later ones take: then the load asks them all at once.

mod chance;
mod counter;
mod merged;
pub mod model;
mod service;
mod stray;
mod threshold;

use serde::Serialize;
use serde::ser::SerializeMap;
use units::{Duration, Instant, Ratio};

pub use counter::Deltas;
pub use merged::Merged;
pub use service::Service;
pub use stray::Stray;

use chance::{SHUFFLES, chance};
use counter::Counter;
use stray::Counts as Completed;
use threshold::Threshold;

/// One completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finish {
    /// When.
    pub at: Instant,
    /// Index of the device.
    pub device: u16,
    /// The pass. Deltas do not reach from one pass into the next.
    pub pass: u16,
}

/// Rounds count as the pattern of service from this share of all requests on; the study's weakest case has 81 percent.
const PATTERN: f64 = 0.5;

/// Small deltas below this share of the large ones are no transfers; the study's are 1 to 3 percent with blocks of 128
/// KB, and 21 to 35 with smaller ones.
const BURST: f64 = 1.0 / 16.0;

/// Devices that are without requests for this share of the time that they would be if all were asked at the round's end
/// are in rounds because of the load. In a closed loop it is next to nothing.
const ASKED_TOGETHER: f64 = 0.5;

/// What the completions say.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounds {
    /// Deltas above this are large.
    pub threshold: Duration,
    /// True if the caller has set the threshold.
    pub threshold_given: bool,
    /// Rounds in which each device was served once, and then nothing completed for a while.
    pub good_rounds: u64,
    /// The most rounds that there could have been.
    pub out_of: u64,
    /// The share of requests that belong to good rounds.
    pub share: Ratio,
    /// Good rounds in which some completions were seen together, less than a sixteenth of the mean small delta apart:
    /// the machine that measures was late, or something else held back all devices at once, and not a link.
    pub together: u64,
    /// Deltas above the threshold.
    pub large: Deltas,
    /// The others.
    pub small: Deltas,
    /// How likely it is that devices which do not wait for each other look like this; see `chance.rs`.
    pub chance: Ratio,
    /// The share of good rounds whose devices finish in the same order as in the good round before.
    pub order_repeats: Ratio,
    /// Jain's index of the counts of all devices, those left out among them: 1 if all were served equally often, 1/D if
    /// one had everything (R. Jain, D. Chiu and W. Hawe, 1984).
    pub fairness: Ratio,
    /// Each device's part, in the order of the names.
    pub devices: Vec<Service>,
    /// Devices that were left out; see `stray.rs`.
    pub left_out: Vec<Stray>,
    /// The most that could have been in rounds with them.
    pub with_them: Ratio,
    /// True if the devices convoy.
    pub found: bool,
    /// The verdict in a sentence or two, with its numbers.
    pub evidence: String,
}

/// Why completions cannot be looked at for rounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum RoundsError {
    #[error("rounds are something that several devices do together, and requests completed on {0} only")]
    OneDevice(String),
    #[error("there are no completions to look at for rounds")]
    NoDevice,
    #[error(
        "{completions} completions are too few to look at for rounds: three rounds of {devices} devices are {needed}; measure longer"
    )]
    TooFew { completions: u64, devices: u64, needed: u64 },
    #[error(
        "completion {index} on {device}, at {} ns, lies before the one that precedes it, at {} ns: stamps of several clocks, or not in order of completion",
        at.as_nanos(), before.as_nanos()
    )]
    BackInTime { index: u64, device: String, at: Instant, before: Instant },
}

/// What the algorithm counts, as published, and nothing beyond it.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts {
    /// Rounds in which each device was served once, and then nothing completed for a while.
    pub good_rounds: u64,
    /// The most rounds that there could have been.
    pub out_of: u64,
    /// Deltas above the threshold.
    pub large: Deltas,
    /// The others.
    pub small: Deltas,
}

/// Counts good rounds and deltas of both kinds, as [`rounds`] does, which counts them in up to 199 runs of chance, too.
pub fn count(finishes: &[Finish], names: &[String], threshold: Duration) -> Result<Counts, RoundsError> {
    let passes = passes(finishes, names)?;
    let active = check(&passes, names)?;
    let counter = Counter::of(passes, names.len(), active.len(), threshold);
    let (large, small) = (Deltas::of(&counter.large), Deltas::of(&counter.small));
    Ok(Counts { good_rounds: counter.good, out_of: counter.out_of(), large, small })
}

/// Looks for rounds in completions, which must be in order of time within each pass. `names` are those of the devices,
/// by index.
///
/// Panics on a device without a name: completions and names are then not of one run.
pub fn rounds(finishes: &[Finish], names: &[String], threshold: Option<Duration>) -> Result<Rounds, RoundsError> {
    let passes = passes(finishes, names)?;
    let all = check(&passes, names)?;
    let completed = Completed::of(&passes, names.len());
    let active = completed.regular(&all);
    let regular: Vec<Vec<Finish>>;
    let passes = if active.len() == all.len() {
        passes
    } else {
        let of_regular = |pass: &&[Finish]| pass.iter().filter(|one| active.contains(&one.device)).copied().collect();
        regular = passes.iter().map(of_regular).collect();
        regular.iter().map(Vec::as_slice).filter(|pass| !pass.is_empty()).collect()
    };
    check(&passes, names)?;
    let counts: Vec<u64> = all.iter().map(|device| completed.get(*device)).collect();
    let left_out = all.iter().filter(|device| !active.contains(device)).map(|device| Stray {
        device: names[usize::from(*device)].clone(),
        completions: completed.get(*device),
        share: Ratio::new(completed.get(*device) as f64 / counts.iter().sum::<u64>().max(1) as f64),
    });
    let deltas = || passes.iter().flat_map(|pass| pass.windows(2)).map(|pair| pair[1].at.since(pair[0].at));
    let limit = threshold.unwrap_or_else(|| Threshold::of(deltas()).split());
    let counter = Counter::of(passes.iter().copied(), names.len(), active.len(), limit);
    let chance = chance(&passes, &active, names.len(), threshold);
    let share = counter.share();
    let together = counter.together();
    let apart = counter.share_of(counter.good - together);
    let found = apart.get() >= PATTERN && counter.good > 0 && chance.get() <= 1.0 / (SHUFFLES as f64 + 1.0);
    let mut rounds = Rounds {
        threshold: limit,
        threshold_given: threshold.is_some(),
        good_rounds: counter.good,
        out_of: counter.out_of(),
        share,
        together,
        large: Deltas::of(&counter.large),
        small: Deltas::of(&counter.small),
        chance,
        order_repeats: counter.service.order_repeats(),
        fairness: service::fairness(&counts),
        devices: counter.service.finish(names, &active, counts.iter().sum()),
        left_out: left_out.collect(),
        with_them: completed.bound(&all),
        found,
        evidence: String::new(),
    };
    rounds.evidence = rounds.sentence(active.len(), apart);
    Ok(rounds)
}

/// The completions of each pass that has any.
fn passes<'f>(finishes: &'f [Finish], names: &[String]) -> Result<Vec<&'f [Finish]>, RoundsError> {
    let passes: Vec<&[Finish]> = finishes.chunk_by(|a, b| a.pass == b.pass).collect();
    let mut index = 0;
    for pass in &passes {
        for pair in pass.windows(2) {
            if pair[1].at < pair[0].at {
                let device = names[usize::from(pair[1].device)].clone();
                return Err(RoundsError::BackInTime { index: index + 2, device, at: pair[1].at, before: pair[0].at });
            }
            index += 1;
        }
        index += 1;
    }
    Ok(passes)
}

/// The devices that completed anything, if there are enough of them and enough completions.
fn check(passes: &[&[Finish]], names: &[String]) -> Result<Vec<u16>, RoundsError> {
    let mut seen = vec![false; names.len()];
    passes.iter().copied().flatten().for_each(|finish| seen[usize::from(finish.device)] = true);
    let active: Vec<u16> = (0..).zip(seen).filter(|(_, seen)| *seen).map(|(device, _)| device).collect();
    match active[..] {
        [] => return Err(RoundsError::NoDevice),
        [one] => return Err(RoundsError::OneDevice(names[usize::from(one)].clone())),
        _ => {}
    }
    let completions = passes.iter().map(|pass| pass.len() as u64).sum();
    let (devices, needed) = (active.len() as u64, 3 * active.len() as u64);
    if completions < needed { Err(RoundsError::TooFew { completions, devices, needed }) } else { Ok(active) }
}

impl Rounds {
    /// How long a round is: a large delta and D - 1 small ones. `None` if there are no deltas of one kind.
    pub fn length(&self) -> Option<Duration> {
        Some(self.large.mean? + self.small.mean? * (self.devices.len() as u64 - 1))
    }

    /// How much longer than a small delta the large one is: the time in each round in which nothing can have been
    /// transferred, as the study has it, in which a small delta is one transfer and a large one a transfer and what
    /// comes before it.
    pub fn idle(&self) -> Option<Duration> {
        Some(self.large.mean?.saturating_sub(self.small.mean?))
    }

    /// Whether completions come in bursts: then a small delta is not the time of a transfer, as with the study's blocks
    /// of 128 KB (section 4.2), and how much of the large one is idle they do not say.
    pub fn in_bursts(&self) -> bool {
        let times = self.small.mean.zip(self.large.mean);
        times.is_some_and(|(small, large)| small.as_seconds() < BURST * large.as_seconds())
    }

    /// For how long a device whose requests are asked for at the round's end has none, on average: it has been served,
    /// and others have not.
    fn until_round_ends(&self) -> f64 {
        self.small.mean.map_or(0.0, Duration::as_seconds) * (self.devices.len() as f64 - 1.0) / 2.0
    }

    /// Takes the verdict back if devices were without requests for `gap` on average, from one request to the next, and
    /// that is why they went in rounds: an open loop or a lock step asks all of them at once, and what they share may
    /// idle as there is nothing to do.
    pub fn unless_asked_together(&mut self, gap: Duration) {
        if self.found && gap.as_seconds() > ASKED_TOGETHER * self.until_round_ends() {
            self.found = false;
            self.evidence = format!(
                "{} of I/O in rounds ({} of {}), but the devices were without requests for {gap} between two of them: the load asks them all at once, and no convoy is shown",
                percent(self.share),
                self.good_rounds,
                self.out_of
            );
        }
    }

    /// Which devices were left out, and why; nothing if none was.
    pub fn strays(&self) -> Option<String> {
        let named = |stray: &Stray| format!("{} ({} completions)", stray.device, stray.completions);
        let (names, are) = match &self.left_out[..] {
            [] => return None,
            [one] => (named(one), "is"),
            several => (several.iter().map(named).collect::<Vec<_>>().join(", "), "are"),
        };
        let them = if are == "is" { "it" } else { "them" };
        Some(format!(
            "{names} {are} left out of this: a round is one request of each device, so that with {them} no more than {} of I/O could be in rounds",
            self.with_them
        ))
    }

    fn sentence(&self, devices: usize, apart: Ratio) -> String {
        let counted = format!("{} of I/O in rounds ({} of {})", percent(self.share), self.good_rounds, self.out_of);
        let (Some(length), Some(idle)) = (self.length(), self.idle()) else {
            return format!(
                "{counted}: all completions are equally far apart, {}",
                self.small.mean.or(self.large.mean).unwrap_or(Duration::ZERO)
            );
        };
        if self.found && self.in_bursts() {
            let burst = self.small.mean.unwrap_or(Duration::ZERO) * (devices as u64 - 1);
            return format!(
                "{counted}: each of the {devices} devices is served once, and all complete within {burst} of every {length}; how much of the rest nothing is transferred, completions do not say"
            );
        }
        if self.found {
            let share = Ratio::new(idle.as_seconds() / length.as_seconds().max(1e-12));
            return format!(
                "{counted}: each of the {devices} devices is served once, then nothing is transferred for {idle} of every {length}, {}",
                percent(share)
            );
        }
        if self.share.get() < PATTERN {
            return format!("{counted}: the devices do not convoy");
        }
        if apart.get() < PATTERN {
            return format!(
                "{counted}, but in {} of these rounds completions were seen together, as when the machine that measures, or what else holds back all devices at once, is late: \
                 no convoy on a link is shown; measure while the machine does nothing else, or import the stamps of blktrace",
                self.together
            );
        }
        format!(
            "{counted}, but devices that do not wait for each other would look the same by chance: no convoy is shown"
        )
    }
}

/// Whole percents, as a sentence has them.
fn percent(share: Ratio) -> String {
    format!("{:.0} percent", share.as_percent())
}

/// With the names of the JSON contract, one level deep.
impl Serialize for Rounds {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("found", &self.found)?;
        map.serialize_entry("evidence", &self.evidence)?;
        map.serialize_entry("good_rounds", &self.good_rounds)?;
        map.serialize_entry("out_of", &self.out_of)?;
        map.serialize_entry("share", &self.share.get())?;
        map.serialize_entry("together", &self.together)?;
        map.serialize_entry("chance", &self.chance.get())?;
        map.serialize_entry("threshold_ns", &self.threshold.as_nanos())?;
        map.serialize_entry("threshold_given", &self.threshold_given)?;
        map.serialize_entry("round_ns", &self.length().map(Duration::as_nanos))?;
        map.serialize_entry("idle_ns", &self.idle().map(Duration::as_nanos))?;
        for (kind, deltas) in [("large", &self.large), ("small", &self.small)] {
            map.serialize_entry(&format!("{kind}_count"), &deltas.count)?;
            for (name, time) in [
                ("mean", deltas.mean),
                ("deviation", deltas.deviation),
                ("min", deltas.least),
                ("max", deltas.greatest),
            ] {
                map.serialize_entry(&format!("{kind}_{name}_ns"), &time.map(Duration::as_nanos))?;
            }
        }
        map.serialize_entry("fairness", &self.fairness.get())?;
        map.serialize_entry("order_repeats", &self.order_repeats.get())?;
        map.serialize_entry("devices", &self.devices)?;
        map.serialize_entry("left_out", &self.left_out)?;
        map.end()
    }
}
