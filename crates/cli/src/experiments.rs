//! `arraylab experiments`.

use std::process::ExitCode;

use lab::{EXPERIMENTS, Entry};
use serde_json::{Value, json};

use crate::args::Experiments;
use crate::fail::Failure;
use crate::out;

/// Lists the experiments that come with the program, those of a study, or shows one whole.
pub fn experiments(args: &Experiments) -> Result<ExitCode, Failure> {
    let name = args.name.as_deref().unwrap_or_default();
    if let Some(entry) = EXPERIMENTS.iter().find(|entry| entry.name == name) {
        match args.json {
            true => out::json(&json!({ "name": entry.name, "title": entry.title(), "text": entry.text }))?,
            false => out::text(entry.text)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let of_study = |entry: &&Entry| entry.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
    let listed: Vec<&Entry> = EXPERIMENTS.iter().filter(|entry| name.is_empty() || of_study(entry)).collect();
    if listed.is_empty() {
        let studies: std::collections::BTreeSet<&str> =
            EXPERIMENTS.iter().filter_map(|entry| entry.name.split('/').next()).collect();
        let known = studies.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Failure::input(anyhow::anyhow!(
            "no experiment is called '{name}', and no study; there are experiments of: {known}; `arraylab experiments` lists them all"
        )));
    }
    if args.json {
        let line = |entry: &&Entry| json!({ "name": entry.name, "title": entry.title() });
        out::json(&Value::Array(listed.iter().map(line).collect()))?;
    } else {
        let width = listed.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
        let line = |entry: &Entry| format!("{:<width$}  {}\n", entry.name, entry.title());
        out::text(&listed.into_iter().map(line).collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}
