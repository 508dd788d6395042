//! A survey that was kept, read from its run folder.

use std::time::SystemTime;

use analysis::survey::Survey;
use record::{FolderError, RunFile, RunFolder, RunInfo};
use report::Derived;
use serde_json::Value;
use units::{Frequency, Rate};

/// A survey.
pub struct KeptSurvey {
    /// What it is called.
    pub title: String,
    /// When it began.
    pub started: Option<SystemTime>,
    /// On what it was, and how it ended.
    pub about: String,
    /// What it came to.
    pub survey: Survey,
    /// The document of `survey --json`.
    pub document: Value,
    /// Of a modelled machine, the ladders that were derived: for bandwidth, and for requests.
    pub ladders: Option<[Vec<Derived>; 2]>,
    /// What a reader must know besides.
    pub remarks: Vec<String>,
    /// How it was made, and on what: names of files and their text.
    pub files: Vec<(&'static str, String)>,
}

/// Whether a run folder is that of a survey, which says in its experiment how it measures.
pub(crate) fn is_one(folder: &RunFolder) -> Result<bool, FolderError> {
    says(folder, "survey")
}

/// Whether the experiment of a run folder has this table.
pub(super) fn says(folder: &RunFolder, what: &str) -> Result<bool, FolderError> {
    let text = folder.read(RunFile::Experiment)?.unwrap_or_default();
    let table = String::from_utf8_lossy(&text).parse::<toml::Table>();
    Ok(table.is_ok_and(|table| table.contains_key(what)))
}

impl KeptSurvey {
    /// Reads it; nothing if it has not come to its end.
    pub(super) fn read(folder: &RunFolder, info: RunInfo) -> Result<Option<KeptSurvey>, FolderError> {
        let Some(document) = folder.read_json::<Value>(RunFile::Summary)? else { return Ok(None) };
        let damaged = |source| FolderError::Damaged { path: folder.path().join(RunFile::Summary.name()), source };
        let mut plain = document.clone();
        // Of a modelled machine the ladder is derived, and the one that was measured stands beside it.
        let ladders = document.get("request_ladder").map(|requests| [derived(&document["ladder"]), derived(requests)]);
        if ladders.is_some() {
            plain["ladder"] = plain["measured_ladder"].take();
        }
        let survey = serde_json::from_value(plain).map_err(damaged)?;
        let remarks = document["remarks"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let on = match document["system"].as_str() {
            Some(system) => format!("a survey of the modelled machine {system}, in virtual time"),
            None => "a survey of real devices".to_owned(),
        };
        Ok(Some(KeptSurvey {
            title: info.name,
            started: info.started,
            about: on + super::ended(info.state),
            survey,
            ladders,
            remarks: remarks.map(str::to_owned).collect(),
            files: super::texts(|file| folder.read(file))?,
            document,
        }))
    }
}

/// The rungs of a derived ladder; what is none is left out.
fn derived(rungs: &Value) -> Vec<Derived> {
    let rung = |rung: &Value| {
        let part = rung["part"].as_str()?;
        let number = |key: &str| rung[key].as_f64().filter(|number| *number >= 0.0);
        Some((
            part.to_owned(),
            Rate::bytes_per_second(number("bandwidth_bytes_per_s")?),
            Frequency::per_second(number("iops")?),
            rung["doubled"][part].as_f64(),
        ))
    };
    rungs.as_array().into_iter().flatten().filter_map(rung).collect()
}
