//! What joins an array, and what that makes of it: `arraylab array add`, `replace`, `grow`.

use std::process::ExitCode;

use raid::{Added, Order, Place, Server};
use serde_json::json;

use crate::args::{Add, Replace, Upkeep};
use crate::array::newcomer::Newcomer;
use crate::array::{UNFIT, blame, code, course, left, left_as, permits, print, refused, watching};
use crate::fail::Failure;
use crate::permit;

/// Adds a spare or a former member.
pub fn add(args: &Add) -> Result<ExitCode, Failure> {
    let (members, pace) = (&args.array.members, &args.array.pace);
    let new = Newcomer::named("--device", &args.device, args.size, args.destroy_data)?;
    let new = new.expect("it is required");
    let device = new.place;
    let server = Server::find(members);
    let served = server.is_some();
    let added: Added = if let Some(mut server) = server {
        server.order(&Order::Add { device: new.for_server(), rate: pace.rate }, &watching(pace)).map_err(blame)?
    } else {
        let others: Vec<Place> = members.iter().filter(|place| !place.is_same(device)).cloned().collect();
        if others.is_empty() {
            return Err(refused("name the members of the array that it is added to, too".into()));
        }
        if !args.destroy_data && raid::is_in_use(&others, device) {
            let next = "name it among the members; with --destroy-data it is filled anew";
            return Err(refused(format!("{device} is a member of the array, and has missed nothing: {next}")));
        }
        raid::apart(&[device], &others.iter().collect::<Vec<_>>()).map_err(blame)?;
        let mut all = permits(&others, Some(device))?;
        // What was a member carries the array's data, and comes back as one.
        all.extend(match raid::belongs(&others, device) && !args.destroy_data {
            true => permit::members(device.path())?,
            false => new.permit()?,
        });
        let added = raid::add(&others, &all, device, args.destroy_data, &course(pace));
        added.inspect_err(|_| raid::remove_unused(&all)).map_err(blame)?
    };
    let mut text = match (added.member, added.returned) {
        (None, _) => format!("{} is a spare\n", device),
        (Some(member), _) if added.done.not_whole.contains(&member) => {
            format!("member {member} is not whole yet; name {} among the members, and `rebuild` goes on\n", device)
        }
        (Some(member), true) => format!("{} is member {member} again\n", device),
        (Some(member), false) => format!("{} is member {member}\n", device),
    };
    if added.interrupted && added.member.is_none_or(|member| !added.done.not_whole.contains(&member)) {
        text.push_str(UNFIT);
    }
    for (from, to) in &added.lost {
        text.push_str(&format!(
            "lost: bytes {from} to {to} of the array; they read as errors until they are written\n"
        ));
    }
    text.push_str(&left_as(&added.done, served));
    print(pace.json, || json!(added), &text)?;
    Ok(match (added.interrupted, added.lost.is_empty()) {
        (true, _) => ExitCode::from(3),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(1),
    })
}

/// Replaces a member while it serves.
pub fn replace(args: &Replace) -> Result<ExitCode, Failure> {
    let (members, pace) = (&args.array.members, &args.array.pace);
    let onto = Newcomer::named("--onto", &args.onto, args.size, args.destroy_data)?;
    let done: raid::Rebuild = if let Some(mut server) = Server::find(members) {
        let member = args.member.as_ref().map(|place| place.absolute().to_string());
        let order = Order::Replace { member, onto: onto.as_ref().map(Newcomer::for_server), rate: pace.rate };
        server.order(&order, &watching(pace)).map_err(blame)?
    } else {
        // First: a member's other name may be a use of it, for which it would be refused.
        if let Some(onto) = onto.as_ref().filter(|onto| !members.iter().any(|member| member.is_same(onto.place))) {
            raid::apart(&[onto.place], &members.iter().collect::<Vec<_>>()).map_err(blame)?;
        }
        let mut all = permits(members, None)?;
        if let Some(onto) = &onto {
            if let Some(member) = members.iter().find(|member| member.is_same(onto.place)) {
                let next = "leave --member and --onto away to go on, or leave it away from the members";
                return Err(refused(format!("{member} is named as a member, too; {next}")));
            }
            all.extend(onto.permit()?);
        }
        let done = raid::replace(members, &all, args.member.as_ref(), onto.map(|onto| onto.place), &course(pace));
        done.inspect_err(|_| raid::remove_unused(&all)).map_err(blame)?
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
    let grown = raid::grow(&args.members, &permits(&args.members, None)?, &course(&args.pace)).map_err(blame)?;
    let text = format!("the array stores {}\n{}", grown.size, left(&grown.done));
    print(args.pace.json, || json!(grown), &text)?;
    Ok(code(&grown.done))
}
