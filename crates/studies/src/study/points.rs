//! The points of a study's experiments.
//!
//! A point is named by keys and values. A key that is an axis of the experiment's sweep, or the last words of one and
//! of no other, chooses among the points of the sweep; any other key changes the experiment as `--set` does. Axes that
//! are not named leave all of their values.

use std::collections::HashMap;
use std::rc::Rc;

use lab::Experiment;
use lab::{Point, Setting};
use lab::{Source, SourceError};

use super::StudyError;
use super::file::Files;
use super::unit::{Amount, amount};

/// An experiment's name, and what is changed about it.
type Key = (String, Vec<(String, String)>);

/// The experiments that were asked for so far.
pub(super) struct Experiments<'f> {
    files: &'f Files,
    texts: HashMap<String, Source>,
    read: HashMap<Key, Rc<[Point]>>,
}

/// The points of a quantity, in the order of the sweep.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trials {
    pub experiments: Rc<[Experiment]>,
    /// What each of them says of the axes.
    pub settings: Rc<[Vec<Setting>]>,
}

impl Trials {
    /// The value of an axis at each point, if all have that axis and say a number.
    pub fn along(&self, key: &str) -> Option<Vec<Amount>> {
        let value = |point: &Vec<Setting>| {
            let setting = point.iter().find(|setting| is_meant(&setting.key, key))?;
            amount(setting.value.trim_matches('"'))
        };
        self.settings.iter().map(value).collect()
    }
}

/// Why there are no such points.
pub(super) enum NoPoint {
    /// In words, about the line that asks for them.
    Said(String),
    /// The experiment itself cannot be read.
    Study(StudyError),
}

impl From<SourceError> for NoPoint {
    fn from(error: SourceError) -> NoPoint {
        NoPoint::Study(error.into())
    }
}

impl<'f> Experiments<'f> {
    pub fn of(files: &'f Files) -> Experiments<'f> {
        Experiments { files, texts: HashMap::new(), read: HashMap::new() }
    }

    /// The experiments of the points that keys and values choose, in the order of the sweep. Never empty.
    pub fn choose(&mut self, name: &str, point: &[(String, String)]) -> Result<Trials, NoPoint> {
        let all = self.points(name, &[])?;
        let axes: Vec<&str> = all[0].settings.iter().map(|set| set.key.as_str()).collect();
        let (mut chosen, mut changes) = (Vec::new(), Vec::new());
        for (key, value) in point {
            let of: Vec<usize> = (0..axes.len()).filter(|axis| is_meant(axes[*axis], key)).collect();
            match of[..] {
                [] => changes.push((key.clone(), value.clone())),
                [axis] => {
                    if !all.iter().any(|point| is_same(&point.settings[axis].value, value)) {
                        return Err(NoPoint::Said(no_such_value(name, axes[axis], &all, axis, value)));
                    }
                    chosen.push((axes[axis].to_owned(), value.clone()));
                }
                _ => {
                    let them: Vec<&str> = of.iter().map(|axis| axes[*axis]).collect();
                    return Err(NoPoint::Said(format!("'{key}' may be {}; write one of them", them.join(" or "))));
                }
            }
        }
        let points = if changes.is_empty() { all } else { self.points(name, &changes)? };
        let is_chosen = |point: &&Point| {
            chosen
                .iter()
                .all(|(axis, value)| point.settings.iter().any(|set| set.key == *axis && is_same(&set.value, value)))
        };
        let points: Vec<&Point> = points.iter().filter(is_chosen).collect();
        let experiments: Rc<[Experiment]> = points.iter().map(|point| point.experiment.clone()).collect();
        let settings = points.iter().map(|point| point.settings.clone()).collect();
        if experiments.iter().any(|experiment| experiment.system.is_none()) {
            let said = format!(
                "experiment '{name}' has no [system]; a study is of modelled machines, so its experiments name theirs"
            );
            return Err(NoPoint::Said(said));
        }
        match experiments.is_empty() {
            true => Err(NoPoint::Said(format!("experiment '{name}' has no point with all of these values"))),
            false => Ok(Trials { experiments, settings }),
        }
    }

    fn points(&mut self, name: &str, changes: &[(String, String)]) -> Result<Rc<[Point]>, NoPoint> {
        let key = (name.to_owned(), changes.to_vec());
        if let Some(points) = self.read.get(&key) {
            return Ok(Rc::clone(points));
        }
        if !self.texts.contains_key(name) {
            self.texts.insert(name.to_owned(), self.files.experiment(name).map_err(NoPoint::Said)?);
        }
        let set = |(key, value): &(String, String)| Setting { key: key.clone(), value: value.clone() };
        let settings: Vec<Setting> = changes.iter().map(set).collect();
        let points: Rc<[Point]> = lab::read(&self.texts[name], &settings)?.into();
        self.read.insert(key, Rc::clone(&points));
        Ok(points)
    }
}

fn no_such_value(experiment: &str, axis: &str, all: &[Point], index: usize, value: &str) -> String {
    let mut known: Vec<&str> = Vec::new();
    for point in all {
        let value = point.settings[index].value.as_str();
        if !known.contains(&value) {
            known.push(value);
        }
    }
    format!("experiment '{experiment}' has no point with {axis} = {value}; it has {}", known.join(", "))
}

/// Whether a key is that axis, or its last words.
fn is_meant(axis: &str, key: &str) -> bool {
    axis.strip_suffix(key).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Whether two texts are the same value: blanks, quotes and the brackets of a list are of no account, nor is how a
/// number is written.
fn is_same(a: &str, b: &str) -> bool {
    let is_written = |letter: &char| !letter.is_whitespace() && !"\"[]".contains(*letter);
    let [a, b] = [a, b].map(|text| text.chars().filter(is_written).collect::<String>());
    a == b || a.parse::<f64>().is_ok_and(|a| b.parse::<f64>() == Ok(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_an_axis_by_its_last_words() {
        assert!(is_meant("stream.load.size", "size") && is_meant("stream.load.size", "load.size"));
        assert!(!is_meant("stream.load.size", "ize") && !is_meant("system.disks", "system"));
        assert!(is_same("32 KiB", "32KiB") && is_same("2.0", "2") && is_same("[\"a\", \"b\"]", "[a,b]"));
        assert!(is_same("[\"array-0.0\"]", "array-0.0"));
        assert!(!is_same("2", "4") && !is_same("32 KiB", "32 kB"));
    }
}
