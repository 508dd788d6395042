//! The studies that come with the program, each with its model.

use std::path::Path;

use lab::published::printed;

use crate::raid_i;
use crate::reproduce::Study;
use crate::study::{Files, Folder, StudyError, Test};

/// A study's files beside its numbers, by name.
type Texts = &'static [(&'static str, &'static str)];

/// The files of a study that is data, from its folder in `studies/`.
macro_rules! folder {
    ($name:literal) => {
        (
            $name,
            &[
                ("study.toml", include_str!(concat!("../../../studies/", $name, "/study.toml"))),
                ("rows.csv", include_str!(concat!("../../../studies/", $name, "/rows.csv"))),
                ("claims.toml", include_str!(concat!("../../../studies/", $name, "/claims.toml"))),
            ],
        )
    };
}

/// All of them.
const FOLDERS: [(&str, Texts); 5] =
    [folder!("raid-i"), folder!("rounds"), folder!("max"), folder!("scb"), folder!("vax")];

/// Tests of claims that no expression says, by study.
const TESTS: [(&str, &[(&str, Test)]); 1] = [("raid-i", raid_i::TESTS)];

/// The model of a study, with changes to its system: of one that comes with the program, or of a folder of the user's.
pub fn study(name: &str, settings: Vec<(String, String)>) -> Result<Box<dyn Study>, StudyError> {
    let printed = match (printed(name), Files::at(Path::new(name))) {
        (Ok(printed), _) => printed,
        (Err(_), Some(files)) => return Ok(Box::new(Folder::read(&files, settings)?)),
        (Err(unknown), None) => return Err(unknown.into()),
    };
    let (name, texts) = FOLDERS.iter().find(|(name, _)| *name == printed.name).expect("each study has its folder");
    let files = Files::Built { folder: format!("studies/{name}"), published: printed.text, texts };
    let tests = TESTS.iter().find(|(of, _)| of == name).map_or(&[][..], |(_, tests)| tests);
    Ok(Box::new(Folder::read(&files, settings)?.with_tests(tests)))
}
