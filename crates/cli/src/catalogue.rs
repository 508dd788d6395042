//! `arraylab parts`, `arraylab parts import`, `arraylab systems`, `arraylab systems check`.

use std::process::ExitCode;

use lab::catalogue::{Sheet, list, list_text};
use machine::disk::diskspecs::import_files;
use machine::library::Shelf;

use crate::args::{Import, Parts, PartsAction, Systems, SystemsAction, Template};
use crate::fail::Failure;
use crate::out;

/// Lists the parts, shows one, or imports one.
pub fn parts(args: &Parts) -> Result<ExitCode, Failure> {
    match &args.action {
        Some(PartsAction::Import(import)) => self::import(import),
        None => show(Shelf::Parts, args.name.as_deref(), args.json),
    }
}

/// Lists the systems, shows one, puts one together, or prints one to start from.
pub fn systems(args: &Systems) -> Result<ExitCode, Failure> {
    match (&args.action, args.template) {
        (Some(SystemsAction::Check(check)), _) => {
            let blueprint = lab::blueprint::blueprint(&check.name).map_err(Failure::input)?;
            if check.json {
                out::json(&serde_json::json!(blueprint))?;
            } else {
                out::text(&blueprint.text())?;
            }
            Ok(ExitCode::SUCCESS)
        }
        (None, Some(template)) => {
            out::text(lab::blueprint::template(match template {
                Template::Nvme => lab::blueprint::Start::Nvme,
                Template::Sas => lab::blueprint::Start::Sas,
                Template::Raid => lab::blueprint::Start::Raid,
                Template::Nfs => lab::blueprint::Start::Nfs,
            }))?;
            Ok(ExitCode::SUCCESS)
        }
        (None, None) => show(Shelf::Systems, args.name.as_deref(), args.json),
    }
}

fn show(shelf: Shelf, name: Option<&str>, json: bool) -> Result<ExitCode, Failure> {
    match name {
        None if json => out::json(&serde_json::json!(list(shelf)))?,
        None => out::text(&list_text(&list(shelf)))?,
        Some(name) => {
            let sheet = Sheet::of(name, &shelf.find(name).map_err(Failure::input)?);
            if json {
                out::json(&serde_json::json!(sheet))?;
            } else {
                out::text(&sheet.text())?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn import(args: &Import) -> Result<ExitCode, Failure> {
    let imported = import_files(&args.specs, args.model.as_deref(), args.seek.as_deref()).map_err(Failure::input)?;
    if let Some(path) = &args.output {
        out::write(path, &imported.part.to_toml(), "name a file in a folder that exists and that you may write to")?;
    }
    if args.json {
        let mut document = serde_json::json!(Sheet::of(&args.specs.display().to_string(), &imported.part));
        document["notes"] = serde_json::json!(imported.notes);
        out::json(&document)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.output.is_none() {
        out::text(&imported.part.to_toml())?;
    }
    for note in &imported.notes {
        eprintln!("note: {note}");
    }
    Ok(ExitCode::SUCCESS)
}
