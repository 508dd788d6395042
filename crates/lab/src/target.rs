//! What the load goes to, as the user names it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use machine::standalone::Standalone;
use nbd::Uri;
use runtime::Runtime;
use units::{Bytes, Duration};

use crate::described::Described;

/// One device of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A file or a block device of this machine: `PATH`.
    Path(PathBuf),
    /// An export of an NBD server: `nbd://HOST/EXPORT`, `nbd+unix:///EXPORT?socket=PATH`.
    Nbd(Box<Uri>),
    /// Memory behind a fixed delay, in virtual time: `memory:SIZE` or `memory:SIZE:DELAY`.
    Memory {
        /// How much it stores.
        size: Bytes,
        /// How long each request takes; any number are served at once.
        delay: Duration,
    },
    /// A modelled drive on no bus but its own, in virtual time: `part:NAME`, or `part:PATH` of a part file.
    Part {
        /// A part of kind `disk` or `flash`.
        name: String,
    },
    /// A way into the machine that the experiment names, in virtual time. No text names one.
    Modelled {
        /// What the machine calls it.
        device: String,
    },
    /// A device that the experiment describes itself. No text names one.
    Described(Box<Described>),
    /// A device that does nothing, in real time: `null:SIZE`. What remains is the cost of the generator.
    Null {
        /// The addresses it has.
        size: Bytes,
    },
}

/// The delay of a memory device for which none was given: about that of a flash drive.
const USUAL_DELAY: Duration = Duration::micros(100);

/// Why a text names no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' names no device: {reason}; write a path, an NBD URI, memory:SIZE, memory:SIZE:DELAY, part:NAME or null:SIZE, such as memory:1GiB:100us"
)]
pub struct TargetError {
    text: String,
    reason: String,
}

impl FromStr for Target {
    type Err = TargetError;
    fn from_str(text: &str) -> Result<Target, TargetError> {
        let error = |reason: String| TargetError { text: text.to_owned(), reason };
        if let Some(name) = text.strip_prefix("part:") {
            // Built once to be refused early: nothing has been opened yet.
            let built = Standalone::open(&Runtime::simulated(), name, 0);
            return match built {
                Ok(_) => Ok(Target::Part { name: name.to_owned() }),
                Err(problem) => Err(error(problem.to_string())),
            };
        }
        let parts: Vec<&str> = text.split(':').collect();
        let size = |text: &str| match text.parse::<Bytes>() {
            Ok(size) if size.is_zero() => Err(error("it has no size".into())),
            Ok(size) => Ok(size.round_down(Bytes::SECTOR)),
            Err(problem) => Err(error(problem.to_string())),
        };
        if Uri::is_meant(text) {
            return text
                .parse()
                .map(|uri| Target::Nbd(Box::new(uri)))
                .map_err(|problem: nbd::UriError| error(problem.reason().to_owned()));
        }
        match parts[..] {
            ["memory", bytes] => Ok(Target::Memory { size: size(bytes)?, delay: USUAL_DELAY }),
            ["memory", bytes, delay] => {
                let delay: Duration = delay.parse().map_err(|problem: units::ParseError| error(problem.to_string()))?;
                if delay.is_zero() {
                    // In virtual time a closed loop without any delay would never reach its end.
                    return Err(error("a delay of zero would stop virtual time".into()));
                }
                Ok(Target::Memory { size: size(bytes)?, delay })
            }
            ["null", bytes] => Ok(Target::Null { size: size(bytes)? }),
            ["memory" | "null", ..] => Err(error("it has too many or too few parts".into())),
            _ if text.is_empty() => Err(error("it is empty".into())),
            _ => Ok(Target::Path(PathBuf::from(text))),
        }
    }
}

/// As results call it.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Target::Path(path) => write!(f, "{}", path.display()),
            Target::Nbd(uri) => write!(f, "{uri}"),
            Target::Memory { size, delay } => write!(f, "memory:{}:{}", tight(size), tight(delay)),
            Target::Part { name } => write!(f, "part:{name}"),
            Target::Modelled { device } => f.write_str(device),
            Target::Described(described) => f.write_str(&described.name()),
            Target::Null { size } => write!(f, "null:{}", tight(size)),
        }
    }
}

/// As results call several: those that would be called alike, which are devices of their own, are counted
/// (`null:1GiB#2`), as whoever looks at results tells devices apart by their names.
pub fn names(targets: &[Target]) -> Vec<String> {
    let names: Vec<String> = targets.iter().map(Target::to_string).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    names.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut told_apart = Vec::with_capacity(names.len());
    for name in &names {
        let number = seen.entry(name).or_default();
        *number += 1;
        told_apart.push(if counts[name.as_str()] == 1 { name.clone() } else { format!("{name}#{number}") });
    }
    told_apart
}

/// Exact and without blanks, so that it can stand in a list on a command line.
fn tight(quantity: &impl std::fmt::Display) -> String {
    format!("{quantity:#}").replace(' ', "")
}

impl Target {
    /// The paths of this machine that it stands for.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let (one, several): (_, &[PathBuf]) = match self {
            Target::Path(path) => (Some(path), &[]),
            Target::Described(described) => (None, &described.files),
            _ => (None, &[]),
        };
        one.into_iter().chain(several).map(PathBuf::as_path)
    }

    /// True if it exists in virtual time only.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Target::Memory { .. } | Target::Part { .. } | Target::Modelled { .. })
    }
}
