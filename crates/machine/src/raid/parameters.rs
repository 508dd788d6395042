//! `[array]` in the file of a system.
//!
//! ```toml
//! [array]
//! level = 5                                # or 0, 1, 3, 4, 6, 10, "linear"
//! layout = "left-symmetric"                # the level's default if it is left away
//! stripe-unit = "32 KiB"
//! members = ["disk-0.0", "disk-0.1"]       # names of nodes; "disk-*" is all whose names begin so
//! consistency = "none"                     # or "resync", "bitmap", "ppl", "journal"
//! journal = "disk-1.0"                     # its disk, if there is one
//! # failed, rebuild-rate, scrub-rate: see upkeep.rs
//! source = "..."
//! ```
//!
//! With `none` the array keeps nothing on its members, as the drivers of the studies did; with the others it keeps what
//! Linux md does.

use array::geometry::{Geometry, GeometryError, Level};
use array::md::{Consistency, CreateError, create};
use array::{AssembleError, OpenError};
use units::Bytes;

use super::upkeep::Upkeep;
use crate::part::{FromValue, PartError, Problem, Reader, Value};

/// What distinguishes one array from another.
#[derive(Debug, Clone, PartialEq)]
pub struct RaidParameters {
    /// Level and layout.
    pub level: Level,
    /// What lies on one member before the next one's turn.
    pub stripe_unit: Bytes,
    /// Its disks, in the order of their roles.
    pub members: Vec<String>,
    /// How parity that a crash tore is found; `None` if the array keeps nothing about it.
    pub consistency: Option<Consistency>,
    /// The disk of the journal, if there is one.
    pub journal: Option<String>,
    /// Failed disks, and the rebuild or scrub beside the requests.
    pub upkeep: Upkeep,
}

/// Why disks of a machine are no array.
#[derive(Debug, thiserror::Error)]
pub enum RaidError {
    /// The layout cannot be.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The members do not fit it.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// md's structures do not.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// What was made cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A disk that is not there.
    #[error("the system's array has '{0}' as a member, and the system has no such drive; change array.members")]
    NoDrive(String),
    /// An array of nothing.
    #[error("an array has members; name drives of the system")]
    NoMembers,
    /// A drive of another host.
    #[error("'{0}' is a drive of another host than the first member; an array is of one host's drives")]
    OtherHost(String),
    /// Disks of a volume that differ.
    #[error(
        "a volume's stripes need disks of one size: '{0}' has {1:#}, '{2}' {3:#}; leave one of them out, or give their parts one capacity"
    )]
    Sizes(String, Bytes, String, Bytes),
    /// It cannot lose so many, or has nothing to be compared with.
    #[error("{0}")]
    Upkeep(String),
    /// A disk with two roles.
    #[error("'{0}' has two roles in the array; give each drive one")]
    Twice(String),
}

/// A level as a file has it: `5`, `"linear"`.
struct LevelName(String);

impl FromValue for LevelName {
    const ACCEPTED: &'static str = "a level: 0, 1, 3, 4, 5, 6, 10 or \"linear\"";
    fn from_value(value: &Value) -> Result<LevelName, Problem> {
        match value {
            Value::Integer(number) => Ok(LevelName(number.to_string())),
            Value::Text(text) => Ok(LevelName(text.clone())),
            value => Err(Problem::wrong(Self::ACCEPTED, value)),
        }
    }
}

/// Reads how an array lays its data out.
pub(crate) fn layout(reader: &Reader) -> Result<(Level, Bytes), PartError> {
    let LevelName(name) = reader.get("level")?;
    let layout: Option<String> = reader.find("layout")?;
    let level = Level::named(&name, layout.as_deref()).map_err(|unknown| {
        let key = if layout.is_some() && Level::named(&name, None).is_ok() { "layout" } else { "level" };
        reader.fault(key, Problem::Contradiction(unknown.to_string()))
    })?;
    let stripe_unit: Bytes = reader.get("stripe-unit")?;
    if stripe_unit.is_zero() || !stripe_unit.is_multiple_of(Bytes::SECTOR) {
        let accepted = "a stripe unit is whole 512-byte blocks, at least one".into();
        return Err(reader.fault("stripe-unit", Problem::OutOfRange { accepted }));
    }
    Ok((level, stripe_unit))
}

/// The names that a list of names and beginnings (`disk-*`) means.
fn expanded(written: Vec<String>, drives: &[(&str, Bytes)]) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for text in written {
        let Some(beginning) = text.strip_suffix('*') else {
            names.push(text);
            continue;
        };
        let before = names.len();
        let meant = drives.iter().filter(|(name, _)| name.starts_with(beginning));
        names.extend(meant.map(|(name, _)| (*name).to_owned()));
        if names.len() == before {
            return Err(format!("no drive's name begins with '{beginning}'"));
        }
    }
    Ok(names)
}

/// Names of the ways to keep an array consistent.
const WAYS: [(&str, Option<Consistency>); 5] = [
    ("none", None),
    ("resync", Some(Consistency::Resync)),
    ("bitmap", Some(Consistency::Bitmap)),
    ("ppl", Some(Consistency::Ppl)),
    ("journal", Some(Consistency::Journal)),
];

impl RaidParameters {
    /// Reads `[array]` of a machine with these drives: name and size.
    pub fn read(reader: &Reader, drives: &[(&str, Bytes)]) -> Result<RaidParameters, PartError> {
        let size = |name: &str| drives.iter().find(|(known, _)| *known == name).map(|(_, size)| *size);
        let (level, stripe_unit) = layout(reader)?;
        let members = expanded(reader.get("members")?, drives)
            .map_err(|message| reader.fault("members", Problem::Contradiction(message)))?;
        let consistency = reader.choose("consistency", &WAYS)?;
        let journal: Option<String> = reader.find("journal")?;
        if journal.is_some() != (consistency == Some(Consistency::Journal)) {
            let problem = "a journal has its disk, and only a journal: give journal = \"disk-1.0\" with consistency = \"journal\"";
            return Err(reader.fault("consistency", Problem::Contradiction(problem.to_owned())));
        }
        let upkeep = Upkeep::read(reader)?;
        upkeep
            .check(level, members.len())
            .map_err(|message| reader.fault("members", Problem::Contradiction(message)))?;
        let parameters = RaidParameters { level, stripe_unit, members, consistency, journal, upkeep };
        parameters
            .check(&parameters.members)
            .and_then(|()| match parameters.sizes(&parameters.members, size) {
                Ok(sizes) => parameters.geometry(&sizes).map(|_| ()),
                // A machine that was changed to fewer disks is one without its array, and is refused when that is used.
                Err(_) => Ok(()),
            })
            .map_err(|error| reader.fault("members", Problem::Contradiction(error.to_string())))?;
        Ok(parameters)
    }

    /// Refuses disks that would have two roles.
    pub fn check(&self, members: &[String]) -> Result<(), RaidError> {
        let all: Vec<&String> = members.iter().chain(&self.journal).collect();
        match all.iter().enumerate().find(|(index, name)| all[..*index].contains(name)) {
            Some((_, name)) => Err(RaidError::Twice((*name).clone())),
            None => Ok(()),
        }
    }

    /// What these members store, and behind them the journal's disk, if there is one.
    pub fn sizes(&self, members: &[String], size: impl Fn(&str) -> Option<Bytes>) -> Result<Vec<Bytes>, RaidError> {
        members
            .iter()
            .chain(&self.journal)
            .map(|name| size(name).ok_or_else(|| RaidError::NoDrive(name.clone())))
            .collect()
    }

    /// The layout over members of these sizes, and the journal's behind them, if there is one.
    pub fn geometry(&self, sizes: &[Bytes]) -> Result<Geometry, RaidError> {
        match self.consistency {
            None => Ok(Geometry::new(self.level, self.stripe_unit, sizes)?),
            Some(consistency) => {
                let (new, devices) = self.new_array(consistency, sizes);
                Ok(create(&new, &devices)?.1)
            }
        }
    }
}
