//! `arraylab array assemble`.

use std::process::ExitCode;

use raid::{Forced, Place, Server, Sightings};
use serde_json::json;

use crate::args::Assemble;
use crate::array::{blame, print, refused};
use crate::fail::Failure;
use crate::permit;

/// Finds arrays, and says how they are served; by force, takes stale members back.
pub fn assemble(args: &Assemble) -> Result<ExitCode, Failure> {
    let found = raid::seek(&args.sought, args.scan).map_err(blame)?;
    if args.force {
        return force(args, &found);
    }
    let assembly = raid::assemble(found, args.read_only);
    print(args.json, || json!(assembly), &assembly.text())?;
    let all_open = assembly.arrays.iter().all(|array| array.opens);
    Ok(if all_open { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn force(args: &Assemble, found: &Sightings) -> Result<ExitCode, Failure> {
    let [array] = &found.arrays[..] else {
        let named = found.arrays.iter().map(|it| format!("{} {}", it.array, it.name)).collect::<Vec<_>>().join(", ");
        return Err(refused(format!(
            "--force is for one array, and several were found: {named}; give the UUID of one"
        )));
    };
    if Server::find(&array.places).is_some() {
        return Err(refused("the array is being served, so it is open; nothing is forced".into()));
    }
    let planned = raid::force_plan(&array.places).map_err(blame)?;
    if !args.destroy_data {
        print(args.json, || json!(planned), &planned.text())?;
        return Ok(ExitCode::from(1));
    }
    let permits = permit::members(planned.members.iter().filter_map(|it| it.path.path()))?;
    let places: Vec<Place> = planned.members.iter().map(|it| it.path.clone()).collect();
    let forced: Forced = raid::force(&places, &permits).map_err(blame)?;
    drop(permits);
    let again = Sightings {
        arrays: vec![raid::Candidates { array: array.array, name: array.name.clone(), places }],
        skipped: Vec::new(),
    };
    let assembly = raid::assemble(again, false);
    let text = format!("{}\n{}", forced.text(), assembly.text());
    print(args.json, || json!({ "forced": forced, "assembly": assembly }), &text)?;
    let opens = assembly.arrays.iter().all(|array| array.opens);
    Ok(if opens { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
