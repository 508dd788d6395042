//! Times between one completion and the next, of whatever device, and the rounds that they show.
//!
//! [`analysis::rounds`] defines deltas and rounds. A delta lies within one pass. A count is the mean over the passes.
//!
//! A study may print whole milliseconds. Then each delta is cut off before it is counted, and so is the mean of them:
//! [`Completions::of`] has the unit of it.

use analysis::Moments;
use analysis::rounds::{Finish, count, rounds};
use units::Duration;

use crate::bench::{Outcome, TrialError};
use crate::reproduce::median;

/// What is asked of deltas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statistic {
    Mean,
    Median,
    /// Of the deltas themselves, not of what they may be a sample of.
    Deviation,
    Count,
    /// How many there are, while each device completes once.
    PerRound,
}

/// What is asked of rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Whether they are the pattern of service.
    Found,
    /// Good rounds.
    Good,
    /// The most rounds that there could have been.
    Possible,
    /// The good ones of those.
    Share,
    /// The share of good rounds in which a device finishes first.
    First,
    /// The share of good rounds that have the order of the one before.
    OrderRepeats,
}

/// Which deltas count: above one time, up to another.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Bounds {
    above: Option<Edge>,
    up_to: Option<Edge>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Edge {
    At(Duration),
    /// So much above the mean of all.
    BeyondMean(Duration),
}

/// The completions of a trial.
pub(crate) struct Completions<'o> {
    finishes: Vec<Finish>,
    devices: &'o [String],
    passes: f64,
    whole: Option<Duration>,
}

impl Bounds {
    /// From `above 20 ms`, `up to 25 ms`, and `above mean + 10 ms`.
    pub fn read(names: &[String]) -> Result<Bounds, String> {
        let mut bounds = Bounds::default();
        for name in names {
            let wanted = || {
                format!("'{name}' is no bound of deltas; write 'above 20 ms', 'up to 25 ms' or 'above mean + 10 ms'")
            };
            let (place, text) = match (name.strip_prefix("above "), name.strip_prefix("up to ")) {
                (Some(text), _) => (&mut bounds.above, text),
                (_, Some(text)) => (&mut bounds.up_to, text),
                _ => return Err(wanted()),
            };
            let beyond = text.strip_prefix("mean").and_then(|rest| rest.trim_start().strip_prefix('+'));
            let time = beyond.unwrap_or(text).trim().parse().map_err(|_| wanted())?;
            let edge = if beyond.is_some() { Edge::BeyondMean(time) } else { Edge::At(time) };
            if place.replace(edge).is_some() {
                return Err(format!(
                    "'{name}' is a second bound on one side; deltas are above one time and up to another"
                ));
            }
        }
        Ok(bounds)
    }

    /// From `above 25 ms`: what deltas are large.
    pub fn threshold(names: &[String]) -> Result<Bounds, String> {
        match Bounds::read(names)? {
            bounds @ Bounds { above: None | Some(Edge::At(_)), up_to: None } => Ok(bounds),
            _ => Err("large deltas are above a time, as in 'above 25 ms'".to_owned()),
        }
    }

    fn large_above(&self) -> Option<Duration> {
        match self.above? {
            Edge::At(time) => Some(time),
            Edge::BeyondMean(_) => unreachable!("a threshold was read"),
        }
    }
}

impl<'o> Completions<'o> {
    /// Of a trial, with every delta cut off to whole ones of `whole`.
    pub fn of(outcome: &'o Outcome, whole: Option<Duration>) -> Completions<'o> {
        let finishes = match whole {
            Some(whole) => cut_off(&outcome.finishes, whole),
            None => outcome.finishes.clone(),
        };
        Completions { finishes, devices: &outcome.disks, passes: outcome.pass_count() as f64, whole }
    }

    fn deltas(&self) -> impl Iterator<Item = Duration> {
        let passes = self.finishes.chunk_by(|a, b| a.pass == b.pass);
        passes.flat_map(|pass| pass.windows(2)).map(|pair| pair[1].at.since(pair[0].at))
    }

    /// In seconds, or how many.
    pub fn delta(&self, statistic: Statistic, bounds: &Bounds) -> Result<f64, TrialError> {
        let mut all = Moments::default();
        self.deltas().for_each(|delta| all.add(delta.as_nanos() as f64));
        let at = |edge: Edge| match edge {
            Edge::At(time) => time.as_nanos() as f64,
            Edge::BeyondMean(time) => self.shown(all.mean()) + time.as_nanos() as f64,
        };
        let (above, up_to) = (bounds.above.map(at), bounds.up_to.map(at));
        let is_chosen =
            |delta: &f64| above.is_none_or(|above| *delta > above) && up_to.is_none_or(|up_to| *delta <= up_to);
        let chosen_deltas = || self.deltas().map(|delta| delta.as_nanos() as f64).filter(is_chosen);
        let mut chosen = Moments::default();
        chosen_deltas().for_each(|delta| chosen.add(delta));
        let some = |nanos: f64| match chosen.count {
            0 => Err(TrialError::nothing("no time between completions is within these bounds")),
            _ => Ok(nanos / 1e9),
        };
        match statistic {
            Statistic::Mean => some(self.shown(chosen.mean())),
            Statistic::Median => some(median(chosen_deltas().collect())),
            Statistic::Deviation => some(chosen.own_deviation()),
            Statistic::Count => Ok(chosen.count as f64 / self.passes),
            Statistic::PerRound => match all.count {
                0 => Err(TrialError::nothing("fewer than two requests completed")),
                deltas => Ok(chosen.count as f64 * self.devices.len() as f64 / deltas as f64),
            },
        }
    }

    /// A mean as the study prints it.
    fn shown(&self, nanos: f64) -> f64 {
        match self.whole {
            Some(whole) => {
                let one = whole.as_nanos() as f64;
                (nanos.round() / one).floor() * one
            }
            None => nanos,
        }
    }

    /// A count, a share, or 1 where rounds are found; of a device, where its name is asked for.
    pub fn rounds(&self, pattern: Pattern, bounds: &Bounds, device: Option<&str>) -> Result<f64, TrialError> {
        let counted = |above| count(&self.finishes, self.devices, above).map_err(TrialError::nothing);
        let found = || rounds(&self.finishes, self.devices, None).map_err(TrialError::nothing);
        let good = || match bounds.large_above() {
            Some(above) => counted(above).map(|counts| (counts.good_rounds as f64, counts.out_of as f64)),
            None => found().map(|rounds| (rounds.good_rounds as f64, rounds.out_of as f64)),
        };
        Ok(match pattern {
            Pattern::Good => good()?.0 / self.passes,
            Pattern::Share => good().map(|(good, possible)| good / possible)?,
            // It is the number of deltas by that of devices, whatever is large.
            Pattern::Possible => counted(Duration::ZERO)?.out_of as f64 / self.passes,
            Pattern::Found => f64::from(u8::from(found()?.found)),
            Pattern::OrderRepeats => found()?.order_repeats.get(),
            Pattern::First => {
                let name = device.expect("it was checked");
                let unknown = || format!("'{name}' is none of the devices: {}", self.devices.join(", "));
                let of = found()?.devices.into_iter().find(|of| of.device == name);
                of.ok_or_else(|| TrialError::nothing(unknown()))?.first.get()
            }
        })
    }
}

/// The same completions with every delta cut off.
fn cut_off(finishes: &[Finish], whole: Duration) -> Vec<Finish> {
    let mut cut = Vec::with_capacity(finishes.len());
    for pass in finishes.chunk_by(|a, b| a.pass == b.pass) {
        let mut at = pass[0].at;
        cut.push(pass[0]);
        for pair in pass.windows(2) {
            at += whole * (pair[1].at.since(pair[0].at).as_nanos() / whole.as_nanos());
            cut.push(Finish { at, ..pair[1] });
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use units::Instant;

    use super::*;

    fn read(names: &[&str]) -> Result<Bounds, String> {
        Bounds::read(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    /// Three devices in rounds of 30.4 ms and twice 10.9 ms, in two passes of so many rounds each.
    fn completions(devices: &[String], rounds: u64, whole: Option<Duration>) -> Completions<'_> {
        let mut finishes = Vec::new();
        for pass in 0..2 {
            let mut at = Instant::START;
            for _ in 0..rounds {
                for (device, delta) in [(0, 30_400), (1, 10_900), (2, 10_900)] {
                    at += Duration::micros(delta);
                    finishes.push(Finish { at, device, pass });
                }
            }
        }
        let finishes = whole.map_or_else(|| finishes.clone(), |whole| cut_off(&finishes, whole));
        Completions { finishes, devices, passes: 2.0, whole }
    }

    #[test]
    fn deltas_within_bounds_are_counted_for_one_pass() {
        let devices = ["a", "b", "c"].map(str::to_owned);
        let all = completions(&devices, 50, None);
        let is = |statistic, names: &[&str]| all.delta(statistic, &read(names).unwrap()).unwrap();
        assert_eq!(is(Statistic::Count, &[]), 149.0);
        assert_eq!((is(Statistic::Count, &["above 20 ms"]), is(Statistic::Count, &["up to 20 ms"])), (49.0, 100.0));
        assert_eq!(is(Statistic::Count, &["above 10.9 ms", "up to 30.4 ms"]), 49.0, "above is beyond, up to includes");
        assert!((is(Statistic::Mean, &["up to 20 ms"]) - 10.9e-3).abs() < 1e-9);
        assert_eq!(is(Statistic::Deviation, &["above 20 ms"]), 0.0);
        assert!((is(Statistic::Median, &[]) - 10.9e-3).abs() < 1e-9, "more small ones than large ones");
        assert_eq!(is(Statistic::Count, &["above mean + 5 ms"]), 49.0);
        assert!((is(Statistic::PerRound, &["above 20 ms"]) - 49.0 * 3.0 / 149.0).abs() < 1e-9);
        let none = all.delta(Statistic::Mean, &read(&["above 1 s"]).unwrap());
        assert!(none.unwrap_err().to_string().contains("within these bounds"));
    }

    #[test]
    fn a_study_that_prints_whole_milliseconds_cuts_deltas_and_means_off() {
        let devices = ["a", "b", "c"].map(str::to_owned);
        let cut = completions(&devices, 50, Some(Duration::millis(1)));
        let is = |names: &[&str]| cut.delta(Statistic::Mean, &read(names).unwrap()).unwrap();
        assert_eq!((is(&["above 20 ms"]), is(&["up to 20 ms"])), (0.030, 0.010));
        assert_eq!(is(&[]), 0.016, "the mean of 49 and 100 is 16.6 ms");
    }

    #[test]
    fn rounds_are_counted_by_a_given_threshold_or_by_one_that_is_found() {
        let devices = ["a", "b", "c"].map(str::to_owned);
        let all = completions(&devices, 50, None);
        let given = Bounds::threshold(&["above 20 ms".to_owned()]).unwrap();
        let is = |pattern, bounds: &Bounds, device| all.rounds(pattern, bounds, device).unwrap();
        let free = Bounds::default();
        assert_eq!(is(Pattern::Possible, &free, None), 49.5, "298 deltas of three devices, in two passes");
        assert_eq!(is(Pattern::Good, &given, None), is(Pattern::Good, &free, None));
        assert!(is(Pattern::Share, &given, None) > 0.95);
        assert_eq!(is(Pattern::Good, &Bounds::threshold(&["above 1 s".to_owned()]).unwrap(), None), 0.0);
        assert_eq!(is(Pattern::OrderRepeats, &free, None), 1.0);
        let firsts = ["a", "b", "c"].map(|name| is(Pattern::First, &free, Some(name)));
        assert_eq!(firsts.iter().sum::<f64>(), 1.0);
        let unknown = all.rounds(Pattern::First, &free, Some("d")).unwrap_err().to_string();
        assert!(unknown.contains("none of the devices: a, b, c"), "{unknown}");
    }

    #[test]
    fn bounds_that_nobody_can_mean_are_refused() {
        for (names, said) in [
            (&["20 ms"][..], "is no bound of deltas"),
            (&["above 20"], "is no bound of deltas"),
            (&["above 1 ms", "above 2 ms"], "second bound"),
        ] {
            assert!(read(names).unwrap_err().contains(said), "{names:?}");
        }
        assert!(Bounds::threshold(&["up to 5 ms".to_owned()]).is_err());
        assert!(Bounds::threshold(&["above mean + 5 ms".to_owned()]).is_err());
    }
}
