//! What changes an array as a whole while it is stopped: `arraylab array set` and `zero`.

use std::process::ExitCode;

use raid::{Change, Course, Place, Server};
use serde_json::json;

use crate::args::{Set, Zero};
use crate::array::{blame, different, permits, print, refused};
use crate::fail::Failure;

/// Changes the settings of an array.
pub fn set(args: &Set) -> Result<ExitCode, Failure> {
    let members = &args.members;
    at_rest(members, "settings are changed")?;
    if args.name.as_ref().is_some_and(|name| name.contains(char::is_control)) {
        return Err(refused("--name has characters that no terminal shows; omit them".into()));
    }
    let change = Change {
        name: args.name.clone(),
        consistency: args.consistency.map(Into::into),
        bitmap_chunk: args.bitmap_chunk,
        write_mostly: both("write-mostly", &args.write_mostly, &args.no_write_mostly)?,
        failfast: both("failfast", &args.failfast, &args.no_failfast)?,
    };
    let permits = permits(members, None)?;
    raid::set(members, &permits, &change, &Course::quiet()).map_err(blame)?;
    drop(permits);
    let status = raid::status(members).map_err(blame)?;
    print(args.json, || json!(status), &status.text())
}

/// Who is to have a flag, and who is not.
fn both(flag: &str, yes: &[Place], no: &[Place]) -> Result<Vec<(Place, bool)>, Failure> {
    if let Some(place) = yes.iter().find(|place| no.iter().any(|other| other.is_same(place))) {
        return Err(refused(format!("{place} is named with --{flag} and with --no-{flag}; name it with one of them")));
    }
    Ok(yes.iter().map(|place| (place.clone(), true)).chain(no.iter().map(|place| (place.clone(), false))).collect())
}

/// Erases superblocks.
pub fn zero(args: &Zero) -> Result<ExitCode, Failure> {
    let mut members: Vec<Place> = Vec::new();
    // To name one twice is how others are told that what it carries may be lost.
    for place in &args.members {
        if !members.contains(place) {
            members.push(place.clone());
        }
    }
    different(&members)?;
    at_rest(&members, "superblocks are erased")?;
    let zeroed = raid::zero(&members, args.destroy_data).map_err(blame)?;
    let text: String = zeroed.iter().map(raid::Zeroed::text).collect();
    print(args.json, || json!(zeroed), &text)
}

/// Refuses members of arrays that are being served, each of its own.
fn at_rest(members: &[Place], what: &str) -> Result<(), Failure> {
    for member in members {
        if let Some(mut server) = Server::find(std::slice::from_ref(member)) {
            let process = server.status(&Course::quiet()).map_err(blame)?.process;
            return Err(refused(format!(
                "the array of {member} is being served by process {process}, and {what} only while it is stopped: end that (kill {process}), then give this command again"
            )));
        }
    }
    Ok(())
}
