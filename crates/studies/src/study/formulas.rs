//! The formulas for rounds beside a model: what [`analysis::rounds::model`] says of a trial.
//!
//! `[formulas]` of `study.toml` has the constants that a study prints, the seek times and the revolution, and
//! expressions for the two rates, which are those of the modelled machine: what the bus moves and what passes under a
//! head. How many disks there are and how much a read asks for is the trial's own. A disk asks for the bus once its
//! block is in its buffer.
//!
//! A study that has formulas shows them beside each number that is `rounds.possible`: the time that a pass counted,
//! divided by that number, is how long a round took, as it was printed and as it is modelled.

use analysis::rounds::model::{Bus, ModelError, Prediction, Seek};
use lab::Experiment;
use lab::published::Row;
use units::{Bytes, Duration, Rate, Ratio};

use crate::bench::{Bench, Outcome, TrialError};
use crate::reproduce::Beside;

use super::bound::{Bound, Context};

/// What of a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Term {
    /// The least positioning time of all disks, on average.
    Positioning,
    /// A block's time on the bus.
    Transfer,
    /// The large delta.
    Large,
    /// A round.
    Round,
}

/// The constants of a study.
pub(crate) struct Formulas {
    pub bus: Text,
    pub medium: Text,
    pub revolution: Duration,
    pub seek: Seek,
}

/// An expression and its words.
pub(crate) struct Text {
    pub text: String,
    pub bound: Bound,
}

impl Text {
    fn rate(&self, bench: &Bench) -> Result<Rate, TrialError> {
        let by = Context { bench, whole: None, formulas: None };
        let rate = self.bound.number(&by, &self.text)?;
        if rate > 0.0 && rate.is_finite() {
            return Ok(Rate::bytes_per_second(rate));
        }
        Err(TrialError::nothing(format!(
            "as the machine was changed, '{}' gives no rate for the formulas; change less of it",
            self.text
        )))
    }
}

impl Formulas {
    /// In seconds.
    pub fn term(&self, bench: &Bench, experiment: &Experiment, term: Term) -> Result<f64, TrialError> {
        let predicted = self.predict(bench, experiment)?;
        let time = match term {
            Term::Positioning => predicted.positioning_min,
            Term::Transfer => predicted.transfer,
            Term::Large => predicted.large,
            Term::Round => predicted.round,
        };
        Ok(time.as_seconds())
    }

    /// Whether there is a curve through the seek times.
    pub fn check(&self) -> Result<(), ModelError> {
        self.reckoned(1, Bytes::SECTOR, [Rate::bytes_per_second(1e6); 2]).map(|_| ())
    }

    fn reckoned(&self, disks: u32, block: Bytes, [rate, media]: [Rate; 2]) -> Result<Prediction, ModelError> {
        let (revolution, seek) = (self.revolution, self.seek);
        let (fence, buffer, overhead) = (Ratio::ONE, None, Duration::ZERO);
        Bus { disks, block, rate, media, revolution, seek, fence, buffer, overhead }.predict()
    }

    fn predict(&self, bench: &Bench, experiment: &Experiment) -> Result<Prediction, TrialError> {
        let (disks, block) = of_one_block(experiment)
            .ok_or_else(|| TrialError::nothing("formulas are of one stream that reads blocks of one size"))?;
        // Both are asked for before one is given up, so that their trials run side by side.
        let [rate, media] = [&self.bus, &self.medium].map(|text| text.rate(bench));
        self.reckoned(disks, block, [rate?, media?]).map_err(TrialError::nothing)
    }

    /// A line of the table beside a number that is `rounds.possible` at one point.
    pub fn beside(&self, by: &Context, row: &Row, experiment: &Experiment) -> Result<Option<Beside>, TrialError> {
        let (Some(printed), Some(counted), Some((disks, block))) =
            (row.value(), experiment.run.measure, of_one_block(experiment))
        else {
            return Ok(None);
        };
        let outcome = by.bench.run(experiment)?;
        let formula = self.predict(by.bench, experiment)?;
        let [published, modelled] = [printed, possible(by, &outcome)?].map(|rounds| counted.as_seconds() / rounds);
        let bytes = f64::from(disks) * block.get() as f64;
        let rate = |round: f64| Rate::bytes_per_second(bytes / round);
        Ok(Some(Beside {
            of: format!("{}: {disks} disks, {} KB", row.locator, block.get() / Bytes::kib(1).get()),
            round_ms: [published * 1e3, modelled * 1e3, formula.round.as_millis()],
            bandwidth: [rate(published), rate(modelled), formula.bandwidth],
            constants: formula.constants,
            independent: formula.independent,
            pipelined: formula.pipelined,
        }))
    }
}

fn possible(by: &Context, outcome: &Outcome) -> Result<f64, TrialError> {
    use super::deltas::{Bounds, Completions, Pattern};
    Completions::of(outcome, by.whole).rounds(Pattern::Possible, &Bounds::default(), None)
}

/// How many disks a trial reads, and its block.
fn of_one_block(experiment: &Experiment) -> Option<(u32, Bytes)> {
    let [stream] = &experiment.streams[..] else { return None };
    let disks = u32::try_from(experiment.system.as_ref()?.disks.len()).ok()?;
    Some((disks, stream.stream.sizes.single()?))
}
