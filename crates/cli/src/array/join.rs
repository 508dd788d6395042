//! What joins an array, and what that makes of it: `arraylab array add`, `replace`, `grow`.

use std::process::ExitCode;

use lab::raid::{self, Added, NewPlace, Order, Place, Server};
use serde_json::json;

use crate::args::{Add, Replace, Upkeep};
use crate::array::{blame, course, left, left_as, newcomer, permits, print};
use crate::fail::Failure;
use crate::permit;

/// Adds a spare or a former member.
pub fn add(args: &Add) -> Result<ExitCode, Failure> {
    let (members, pace) = (&args.array.members, &args.array.pace);
    let course = course(pace);
    let added: Added = if let Some(mut server) = Server::find(members) {
        let device =
            NewPlace { place: args.device.absolute().to_string(), size: args.size, destroy_data: args.destroy_data };
        server.order(&Order::Add { device, rate: pace.rate }, &course).map_err(blame)?
    } else {
        let others: Vec<Place> =
            members.iter().filter(|place| place.absolute() != args.device.absolute()).cloned().collect();
        let mut all = permits(&others)?;
        // What was a member carries the array's data, and comes back as one.
        all.extend(match raid::belongs(&others, &args.device) && !args.destroy_data {
            true => permit::members(args.device.path())?,
            false => newcomer(&args.device, args.size, args.destroy_data)?,
        });
        raid::add(&others, &all, &args.device, &course).map_err(blame)?
    };
    let mut text = match (added.member, added.returned) {
        (None, _) => format!("{} is a spare\n", args.device),
        (Some(member), _) if added.interrupted => {
            format!("member {member} is not whole yet; name {} among the members, and `rebuild` goes on\n", args.device)
        }
        (Some(member), true) => format!("{} is member {member} again\n", args.device),
        (Some(member), false) => format!("{} is member {member}\n", args.device),
    };
    for (from, to) in &added.lost {
        text.push_str(&format!(
            "lost: bytes {from} to {to} of the array; they read as errors until they are written\n"
        ));
    }
    text.push_str(&left_as(&added.done));
    print(pace.json, || json!(added), &text)?;
    Ok(if added.interrupted { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

/// Replaces a member while it serves.
pub fn replace(args: &Replace) -> Result<ExitCode, Failure> {
    let (members, pace) = (&args.array.members, &args.array.pace);
    let course = course(pace);
    let done: raid::Rebuild = if let Some(mut server) = Server::find(members) {
        let new = |place: &Place| NewPlace {
            place: place.absolute().to_string(),
            size: args.size,
            destroy_data: args.destroy_data,
        };
        let member = args.member.as_ref().map(|place| place.absolute().to_string());
        let order = Order::Replace { member, onto: args.onto.as_ref().map(new), rate: pace.rate };
        server.order(&order, &course).map_err(blame)?
    } else {
        let mut all = permits(members)?;
        if let Some(onto) = &args.onto {
            all.extend(newcomer(onto, args.size, args.destroy_data)?);
        }
        raid::replace(members, &all, args.member.as_ref(), args.onto.as_ref(), &course).map_err(blame)?
    };
    let mut text = match done.interrupted {
        true => {
            format!("member {} is not replaced yet; `replace` with all members, old and new, goes on\n", done.member)
        }
        false => format!("member {} is replaced\n", done.member),
    };
    for (from, to) in &done.lost {
        text.push_str(&format!(
            "lost: bytes {from} to {to} of the array; they read as errors until they are written\n"
        ));
    }
    print(pace.json, || json!(done), &text)?;
    Ok(match (done.interrupted, done.lost.is_empty()) {
        (true, _) => ExitCode::from(3),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(1),
    })
}

/// Uses all the room that members have.
pub fn grow(args: &Upkeep) -> Result<ExitCode, Failure> {
    if Server::find(&args.members).is_some() {
        let next = "clients cannot be told of another size; end the server, and begin it again afterwards";
        return Err(Failure::input(anyhow::anyhow!("the array is being served, and {next}")));
    }
    let done = raid::grow(&args.members, &permits(&args.members)?, &course(&args.pace)).map_err(blame)?;
    left(&done, &args.pace)
}
