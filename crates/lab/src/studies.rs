//! The studies that come with the program: what each printed, and its model.
//!
//! A study is a system, the trials on it, which number of a trial stands beside which printed row, and a test of each
//! claim. How a row is judged and what is counted is the same for all ([`crate::reproduce`]). A user's own study is a
//! folder of the same shape as a study that comes with the program as data ([`mod@crate::study`]).

use std::path::Path;

use crate::published::PublishedError;
use crate::raid_i::RaidI;
use crate::reproduce::Study;
use crate::rounds_wren7::RoundsWren7;
use crate::study::{Files, Folder, StudyError};

/// Makes a model, with changes to its system.
type Model = fn(Vec<(String, String)>) -> Result<Box<dyn Study>, StudyError>;

/// A study's numbers and its model.
pub(crate) struct Known {
    /// What it is called.
    pub name: &'static str,
    /// Its numbers, as its file in `published/` has them.
    pub published: &'static str,
    model: Model,
}

/// A study that is data: its folder in `studies/`, its numbers in `published/`.
macro_rules! folder {
    ($name:literal) => {
        Known {
            name: $name,
            published: include_str!(concat!("../../../published/", $name, ".csv")),
            model: |settings| {
                const FILES: &[(&str, &str)] = &[
                    ("published.csv", include_str!(concat!("../../../published/", $name, ".csv"))),
                    ("study.toml", include_str!(concat!("../../../studies/", $name, "/study.toml"))),
                    ("rows.csv", include_str!(concat!("../../../studies/", $name, "/rows.csv"))),
                    ("claims.toml", include_str!(concat!("../../../studies/", $name, "/claims.toml"))),
                ];
                let files = Files::Built(concat!("studies/", $name), FILES);
                Ok(Box::new(Folder::read(&files, settings)?))
            },
        }
    };
}

/// All of them.
pub(crate) const STUDIES: [Known; 5] = [
    Known {
        name: "raid-i",
        published: include_str!("../../../published/raid-i.csv"),
        model: |settings| Ok(Box::new(RaidI::with(settings))),
    },
    Known {
        name: "rounds",
        published: include_str!("../../../published/rounds.csv"),
        model: |settings| Ok(Box::new(RoundsWren7::with(settings))),
    },
    folder!("max"),
    folder!("scb"),
    folder!("vax"),
];

/// Names that studies had before, and those that they have.
const FORMER: [(&str, &str); 1] = [("rounds-wren7", "rounds")];

/// The study of that name.
pub(crate) fn known(name: &str) -> Result<&'static Known, PublishedError> {
    let name = FORMER.iter().find(|(former, _)| *former == name).map_or(name, |(_, name)| name);
    let unknown = || PublishedError::Unknown { name: name.to_owned(), known: names().join(", ") };
    STUDIES.iter().find(|study| study.name == name).ok_or_else(unknown)
}

/// The names of all studies.
pub fn names() -> [&'static str; STUDIES.len()] {
    STUDIES.each_ref().map(|study| study.name)
}

/// The model of a study, with changes to its system: of one that comes with the program, or of a folder of the user's.
pub fn study(name: &str, settings: Vec<(String, String)>) -> Result<Box<dyn Study>, StudyError> {
    match (known(name), Files::at(Path::new(name))) {
        (Ok(known), _) => (known.model)(settings),
        (Err(_), Some(files)) => Ok(Box::new(Folder::read(&files, settings)?)),
        (Err(unknown), None) => Err(unknown.into()),
    }
}
