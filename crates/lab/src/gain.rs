//! What the points of a sweep gain over the one that they are compared with.
//!
//! `gain = "esp.gives-way"` beside `[sweep]` names a swept key. Its first value is the baseline: each point is held
//! against the one that differs from it in that key alone, and has the first value there. Several keys, as a list, are
//! changed together: the cure of rounds by pipelined reads needs another number of requests under way, too, and over
//! the same number without them it would gain more than anybody has from it.
//!
//! The gain is that of the rates, with Welch's interval over the passes ([`analysis::against`]). In an open loop the
//! arrivals decide the rate, so mean response times are compared there. Of several devices it is also said what share
//! of their requests is in rounds, before and after: what a cure takes away, and whether it did.

use analysis::explain::unless_asked_together;
use analysis::rounds::{Merged, Rounds, rounds};
use analysis::{Change, Occupancies, Summarizer};
use record::Row;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::document::Point;
use crate::runner::Outcome;
use crate::source::{Source, SourceError};

/// Rounds are looked for in so many completions of each point; 64 MiB of stamps.
const MOST_FINISHES: usize = 1 << 22;

/// What a point came to beside the one that it is compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct Gain {
    /// The place of that one among the points; nothing if it is this one.
    pub over: Option<usize>,
    /// Of bytes a second; nothing for the baseline, and where one of the two moved none.
    pub bandwidth: Option<Change>,
    /// Of requests a second.
    pub iops: Option<Change>,
    /// Of the mean response, where both ask by arrivals alone.
    pub response: Option<Change>,
    /// The rounds of the point itself, if it has several devices and completions enough.
    pub rounds: Option<Rounds>,
}

/// The gain of each point; nothing where the experiment asks for none.
///
/// # Panics
/// If a point comes before its baseline. They are run in their order, so that what is there of a sweep that was ended
/// has its baselines.
pub fn gains(points: &[(&Point, &Outcome)]) -> Vec<Gain> {
    let gain = |(place, (point, outcome)): (usize, &(&Point, &Outcome))| {
        let baseline = point.baseline?;
        let over = (baseline != place).then_some(baseline);
        let compared = over.map(|over| {
            let (_, before) = points.get(over).expect("baselines are run first");
            analysis::against(&before.summary, &outcome.summary).swap_remove(0)
        });
        let (bandwidth, iops) = compared.as_ref().map_or((None, None), |total| (total.bandwidth, total.iops));
        let open = point.experiment.is_open() && points[baseline].0.experiment.is_open();
        let response = compared.filter(|_| open).and_then(|total| total.latency_mean);
        Some(Gain { over, bandwidth, iops, response, rounds: rounds_of(outcome) })
    };
    points.iter().enumerate().filter_map(gain).collect()
}

/// The rounds of a run that has just been made, judged as [`explain`](crate::explain) does.
fn rounds_of(outcome: &Outcome) -> Option<Rounds> {
    let labels = &outcome.meta.labels;
    if labels.devices.len() < 2 {
        return None;
    }
    let visit = |take: &mut dyn FnMut(&[Row])| {
        let visited = outcome.recording.visit(|rows| {
            take(rows);
            Ok::<(), record::RawError>(())
        });
        visited.expect("the summary has been made of the same rows");
    };
    let (mut summarizer, mut merged) = (Summarizer::new(labels), Merged::at_most(MOST_FINISHES));
    visit(&mut |rows| {
        summarizer.add(rows);
        merged.add(rows);
    });
    let mut occupancies = Occupancies::new(&summarizer);
    visit(&mut |rows| occupancies.add(rows));
    let mut found = rounds(&merged.finish(), &labels.devices, None).ok()?;
    unless_asked_together(&mut found, &occupancies.finish(), &outcome.summary);
    Some(found)
}

/// Which point of a sweep is the baseline of which.
pub(crate) struct Basis {
    /// Of each key that is compared: how many points lie between its values, and how many values it has.
    axes: Vec<(usize, usize)>,
}

impl Basis {
    /// Reads `gain`. `axes` are the keys that are swept, with the number of their values; `fixed` those that `--set`
    /// has taken out of the sweep: of them there is nothing to compare, and the user knows.
    pub fn read(
        source: &Source,
        table: &DeTable,
        axes: &[(&str, usize)],
        fixed: &[&str],
    ) -> Result<Option<Basis>, SourceError> {
        let Some(gain) = table.get("gain") else { return Ok(None) };
        let keys = match gain.get_ref() {
            DeValue::String(_) => std::slice::from_ref(gain),
            DeValue::Array(list) if !list.is_empty() => &list[..],
            _ => return Err(refused(source, gain, "gain names a swept key, or several in a list".to_owned(), axes)),
        };
        let mut compared = Vec::new();
        for key in keys {
            let DeValue::String(name) = key.get_ref() else {
                return Err(refused(source, key, "gain names swept keys".to_owned(), axes));
            };
            let place = axes.iter().position(|(axis, _)| axis == name);
            match place.map(|place| (place, axes[place].1)) {
                Some((place, values)) if values > 1 => {
                    compared.push((axes[place + 1..].iter().map(|(_, values)| values).product(), values));
                }
                Some(_) => {
                    let message = format!("'{name}' has only one value in [sweep]: there is nothing to compare");
                    return Err(source.error(key.span(), message).help("give it another, or leave out gain"));
                }
                None if fixed.contains(&&**name) => {}
                None => return Err(refused(source, key, format!("[sweep] does not vary '{name}'"), axes)),
            }
        }
        Ok((!compared.is_empty()).then_some(Basis { axes: compared }))
    }

    /// The place of the baseline of the point at this place.
    pub fn of(&self, place: usize) -> usize {
        place - self.axes.iter().map(|(stride, values)| place / stride % values * stride).sum::<usize>()
    }
}

fn refused(source: &Source, at: &Spanned<DeValue>, message: String, axes: &[(&str, usize)]) -> SourceError {
    let swept: Vec<&str> = axes.iter().map(|(key, _)| *key).collect();
    let help = match &swept[..] {
        [] => "there is no [sweep] whose points could be compared; add one, or leave out gain".to_owned(),
        keys => format!("it varies: {}", keys.join(", ")),
    };
    source.error(at.span(), message).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baselines(gain: &str) -> Vec<Option<usize>> {
        let text = format!(
            "{gain}\n[run]\nmeasure = \"1 s\"\n[[stream]]\nname = \"s\"\noperation = \"read\"\npattern = \"random\"\nsize = \"4 KiB\"\n\
             [sweep]\n\"stream.s.depth\" = [1, 2]\n\"run.devices\" = [1, 2, 3]\n\"seed\" = [1, 2]\n"
        );
        let source = Source { name: "load.toml".into(), text };
        let points = crate::document::read(&source, &[]).unwrap();
        points.iter().map(|point| point.baseline).collect()
    }

    #[test]
    fn the_baseline_differs_in_the_named_keys_alone() {
        let some = |places: &[usize]| places.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(baselines(""), vec![None; 12]);
        assert_eq!(baselines("gain = \"stream.s.depth\""), some(&[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]));
        assert_eq!(baselines("gain = \"run.devices\""), some(&[0, 1, 0, 1, 0, 1, 6, 7, 6, 7, 6, 7]));
        let both = baselines("gain = [\"stream.s.depth\", \"seed\"]");
        assert_eq!(both, some(&[0, 0, 2, 2, 4, 4, 0, 0, 2, 2, 4, 4]));
    }
}
