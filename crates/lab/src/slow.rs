//! Parts of a run that are held up on purpose: `[[slow]]`.
//!
//! It is what `arraylab what-if` makes its runs of, and part of their experiment, so that nobody takes such a run for
//! one of the machine as it is. A device that is held up takes longer for each request by a share of what that took
//! ([`device::filter::Slow`]); the generator computes for so long for each request.

use device::filter::Pace;
use serde::Deserialize;
use toml::{Spanned, Table, Value};
use units::{Duration, Ratio};

use crate::source::{Source, SourceError};
use crate::written::text;

/// More than this is a slip: the run would hardly move.
const MOST: f64 = 100.0;
/// So is a generator that takes this long for a request.
const LONGEST: Duration = Duration::seconds(1);

/// A part that is held up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Slow {
    /// A device, by its number among those of the run.
    Device {
        /// Its number.
        device: usize,
        /// By how much.
        pace: Pace,
    },
    /// The generator: it computes for so long for each request, half of it before and half after.
    Generator(Duration),
}

/// As it stands in a file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FileSlow {
    device: Option<usize>,
    by: Option<Spanned<Ratio>>,
    #[serde(default)]
    beyond: Duration,
    at_once: Option<Spanned<u32>>,
    generator: Option<Spanned<Duration>>,
}

impl FileSlow {
    /// All of them, or what is wrong with one.
    pub fn check(all: Vec<Spanned<FileSlow>>, source: &Source) -> Result<Vec<Slow>, SourceError> {
        let mut known: Vec<Slow> = Vec::new();
        for given in all {
            let place = given.span();
            let slow = given.into_inner().one(source, place.clone())?;
            if known.iter().any(|other| other.is_of(&slow)) {
                return Err(source.error(place, "this part is held up twice").help("leave one of the two out"));
            }
            known.push(slow);
        }
        Ok(known)
    }

    fn one(self, source: &Source, place: std::ops::Range<usize>) -> Result<Slow, SourceError> {
        let help = "take { device = 0, by = \"100 %\" }, with `at-once = 4` if it serves so many at a time, or { generator = \"20 us\" }";
        match (self.device, self.by, self.generator) {
            (Some(device), Some(by), None) => {
                if !(0.0..=MOST).contains(&by.get_ref().get()) {
                    return Err(source.error(by.span(), format!("`by` is from 0 % to {}", Ratio::new(MOST))));
                }
                if let Some(none) = self.at_once.as_ref().filter(|places| *places.get_ref() == 0) {
                    return Err(source.error(none.span(), "`at-once` must be above zero"));
                }
                let (by, at_once) = (by.into_inner(), self.at_once.map(Spanned::into_inner));
                Ok(Slow::Device { device, pace: Pace { by, beyond: self.beyond, at_once } })
            }
            (None, None, Some(generator)) if self.at_once.is_none() && self.beyond.is_zero() => {
                match *generator.get_ref() > LONGEST {
                    true => Err(source.error(generator.span(), format!("`generator` is at most {LONGEST}"))),
                    false => Ok(Slow::Generator(generator.into_inner())),
                }
            }
            _ => Err(source.error(place, "this says neither a device and by how much, nor the generator").help(help)),
        }
    }
}

impl Slow {
    fn is_of(&self, other: &Slow) -> bool {
        match (self, other) {
            (Slow::Device { device, .. }, Slow::Device { device: other, .. }) => device == other,
            (Slow::Generator(_), Slow::Generator(_)) => true,
            _ => false,
        }
    }

    /// As it stands in a file.
    pub(crate) fn written(&self) -> Value {
        let mut table = Table::new();
        match self {
            Slow::Device { device, pace } => {
                table.insert("device".into(), Value::Integer(*device as i64));
                table.insert("by".into(), text(pace.by));
                table.insert("beyond".into(), text(pace.beyond));
                pace.at_once.map(|places| table.insert("at-once".into(), i64::from(places).into()));
            }
            Slow::Generator(time) => {
                table.insert("generator".into(), text(time));
            }
        }
        table.into()
    }

    /// In words, with the names of the devices.
    pub(crate) fn said(&self, names: &[String]) -> String {
        match self {
            Slow::Device { device, pace: Pace { by, beyond, at_once } } => {
                let name = names.get(*device).map_or("a device that is not there", String::as_str);
                let at_once = at_once.map_or(String::new(), |places| format!(", {places} at once"));
                let beyond = if beyond.is_zero() { String::new() } else { format!(" beyond {beyond}") };
                format!("{name} takes {by} longer{beyond}{at_once}")
            }
            Slow::Generator(time) => format!("the generator computes {time} for each request"),
        }
    }
}

/// How a device is held up.
pub(crate) fn of_device(slow: &[Slow], index: usize) -> Option<Pace> {
    slow.iter().find_map(|slow| match slow {
        Slow::Device { device, pace } if *device == index => Some(*pace),
        _ => None,
    })
}

/// For how long the generator computes for each request.
pub(crate) fn of_generator(slow: &[Slow]) -> Duration {
    let of = |slow: &Slow| if let Slow::Generator(time) = slow { Some(*time) } else { None };
    slow.iter().find_map(of).unwrap_or(Duration::ZERO)
}
