//! What an experiment gives beside what was published about it.
//!
//! The rows that an experiment names are answered by its study's model ([`crate::reproduce`]), which looks for the
//! trials of a row among the points that have just been run and makes those that are missing: `arraylab run
//! raid-i/figure-03` and `arraylab reproduce raid-i` print the same numbers.

use lab::Experiment;
use lab::Outcome;

use crate::bench::Outcome as Known;
use crate::known;
use crate::reproduce::{Judged, ReproduceError, judged};

/// The published rows that the points of an experiment are compared with, judged. `settings` are changes to the machine
/// that all points share. Empty where there is nothing to compare.
pub fn compare(
    points: &[(&Experiment, &Outcome)],
    settings: Vec<(String, String)>,
) -> Result<Vec<Judged>, ReproduceError> {
    let Some((first, _)) = points.first() else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    let named: std::collections::BTreeSet<&str> =
        first.published.iter().filter_map(|id| id.split('/').next()).collect();
    for study in named {
        let Ok(study) = known::study(study, settings.clone()) else { continue };
        for (experiment, outcome) in points {
            let has_spans = outcome.conclusion.modelled.as_ref().is_some_and(|modelled| modelled.spans.is_some());
            if has_spans {
                study.bench().know(experiment, Known::of(outcome));
            }
        }
        rows.extend(judged(&*study, &first.published)?);
    }
    Ok(rows)
}
