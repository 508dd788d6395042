//! What a server says of the array that it serves.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use units::Bytes;

use crate::{Place, exact};

/// An upkeep under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upkeep {
    /// `rebuild`, `replacement`, `resync`, `scrub`.
    pub what: String,
    /// The member that is filled.
    pub member: Option<usize>,
    /// How far it is, of the array (scrub, resync) or of the member (rebuild).
    #[serde(rename = "done_bytes", with = "exact")]
    pub done: Bytes,
    /// All of it.
    #[serde(rename = "of_bytes", with = "exact")]
    pub of: Bytes,
}

/// An array in service, as its server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// The server's process.
    pub process: u32,
    /// More is lost than the level survives.
    pub broken: bool,
    /// When another server opened the array, if one records on its members, too: this one accepts no write then.
    #[serde(default)]
    pub rival: Option<String>,
    /// What it stores.
    #[serde(rename = "size_bytes", with = "exact")]
    pub size: Bytes,
    /// The members say that redundancy fits.
    #[serde(default)]
    pub clean: bool,
    /// The folder in which relative names of devices begin.
    #[serde(default)]
    pub folder: PathBuf,
    /// What is being done to it.
    pub upkeep: Option<Upkeep>,
    /// What clients are offered of it.
    #[serde(default)]
    pub exports: Vec<Offer>,
    /// By number.
    pub members: Vec<Served>,
    /// Devices that wait for a member to fail.
    pub spares: Vec<String>,
    /// The number of a member that is being replaced, and what is to replace it.
    #[serde(default)]
    pub replacing: Option<(usize, String)>,
    /// The journal's device.
    #[serde(default)]
    pub journal: Option<String>,
}

/// A member in service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// What it is called.
    pub device: Option<String>,
    /// `active`, `rebuilding`, `failed`.
    pub state: String,
    /// Reads that failed on the medium since the server was started.
    pub medium_errors: u64,
    /// Ranges that were computed from the others and written again.
    pub rewritten: u64,
    /// How often it was connected again, if it is an export.
    #[serde(default)]
    pub reconnections: Option<u64>,
    /// What it did, if it is used no more and was not told to fail.
    #[serde(default)]
    pub failure: Option<String>,
}

/// An export of an array in service: all of it, or a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Its name; empty for the default one.
    pub name: String,
    /// Where in the array it begins.
    #[serde(rename = "from_bytes", with = "exact")]
    pub from: Bytes,
    /// How much it is.
    #[serde(rename = "size_bytes", with = "exact")]
    pub size: Bytes,
    /// Clients may not write.
    pub read_only: bool,
}

impl Service {
    /// A device as this process may call it.
    pub fn place(&self, device: &str) -> Place {
        match device.parse::<Place>() {
            Ok(Place::Path(path)) if !self.is_here() => Place::Path(self.folder.join(path)),
            Ok(place) => place,
            Err(_) => Place::Path(device.into()),
        }
    }

    /// The devices that it uses, as this process may call them.
    pub fn places(&self) -> Vec<Place> {
        let members = self.members.iter().filter_map(|member| member.device.as_ref());
        let others = self.replacing.iter().map(|(_, device)| device).chain(&self.spares).chain(&self.journal);
        // Of a server whose folder was removed nobody knows where its relative names lead.
        let is_known =
            |place: &Place| place.path().is_none_or(|path| path.is_absolute() || !self.folder.as_os_str().is_empty());
        members.chain(others).map(|device| self.place(device)).filter(is_known).collect()
    }

    fn is_here(&self) -> bool {
        std::env::current_dir().is_ok_and(|folder| folder == self.folder)
    }

    /// In one line.
    pub fn text(&self) -> String {
        let process = format!("by process {}", self.process);
        match &self.upkeep {
            None => process,
            Some(Upkeep { what, member, done, of }) => {
                let member = member.map_or(String::new(), |member| format!(" of member {member}"));
                format!("{process}; {what}{member}: {done} of {of}")
            }
        }
    }
}

impl Offer {
    /// In one line. `whole` is the size of the array.
    pub fn text(&self, whole: Bytes) -> String {
        let name = if self.name.is_empty() { "(default)" } else { &self.name };
        let access = if self.read_only { "read-only" } else { "reads and writes" };
        if self.size == whole {
            format!("{name}, all of it, {access}")
        } else {
            format!("{name}, {:#} from {:#} on, {access}", self.size, self.from)
        }
    }
}
