//! `arraylab array`.

mod alter;
mod assemble;
mod hook;
mod join;
mod newcomer;
mod serve;

use std::process::ExitCode;
use std::rc::Rc;

use raid::{Course, Done, Given, LeftOut, Level, Order, Permits, Place, Plan, RaidError, Server};
use serde_json::{Value, json};
use units::Bytes;

use self::newcomer::Newcomer;
use crate::args::{Array, ArrayAction, Create, Layout, Pace, Paths, Rebuild, Scrub};
use crate::fail::Failure;
use crate::out;
use crate::permit;
use crate::progress::{Bar, interrupt_scrub, interrupt_upkeep, interrupt_watching};

/// Does what is to be done with an array.
pub fn array(args: &Array) -> Result<ExitCode, Failure> {
    match &args.action {
        ArrayAction::Create(args) => create(args),
        ArrayAction::Examine(args) => {
            different(&args.members)?;
            examine(args)
        }
        ArrayAction::Status(args) => {
            different(&args.members)?;
            status(args)
        }
        ArrayAction::Fail(args) => {
            let (members, pace) = (&args.array.members, &args.array.pace);
            let order = Order::Fail { member: args.member.absolute().to_string() };
            let (done, served): (Result<Done, RaidError>, bool) = match Server::find(members) {
                Some(mut server) => (server.order(&order, &watching(pace)), true),
                None => (raid::fail(members, &permits(members, None)?, &args.member, &course(pace)), false),
            };
            let done = done.map_err(blame)?;
            print(pace.json, || json!(done), &failed(&args.member, &done, served))?;
            // While it is served, it is dirty as often as it is written.
            Ok(if done.clean || served { ExitCode::SUCCESS } else { ExitCode::from(3) })
        }
        ArrayAction::Stop(args) => {
            let (members, pace) = (&args.array.members, &args.array.pace);
            if let Some(mut server) = Server::find(members) {
                let process = server.status(&Course::quiet()).map_err(blame)?.process;
                return Err(Failure::input(anyhow::anyhow!(
                    "the array is being served by process {process}; end that (kill {process}), and it stops the array"
                )));
            }
            let done = raid::stop(members, &admitted(members)?.0, args.force, &course(pace)).map_err(blame)?;
            print(pace.json, || json!(done), &left(&done))?;
            Ok(code(&done))
        }
        ArrayAction::Assemble(args) => assemble::assemble(args),
        ArrayAction::Serve(args) => serve::serve(args),
        ArrayAction::Add(args) => join::add(args),
        ArrayAction::Replace(args) => join::replace(args),
        ArrayAction::Grow(args) => join::grow(args),
        ArrayAction::Set(args) => alter::set(args),
        ArrayAction::Zero(args) => alter::zero(args),
        ArrayAction::Layout(args) => layout(args),
        ArrayAction::Rebuild(args) => rebuild(args),
        ArrayAction::Scrub(args) => scrub(args),
    }
}

/// Prints what each member says. What is none is said, too, and is an error when the others have been printed.
fn examine(args: &Paths) -> Result<ExitCode, Failure> {
    let all = raid::examine(&args.members);
    let member = |result: &Result<raid::Examined, RaidError>| result.as_ref().ok().map(raid::Examined::text);
    let text = all.iter().filter_map(member).collect::<Vec<_>>().join("\n");
    let document = || {
        let one = |(place, it): (&Place, &Result<raid::Examined, RaidError>)| match it {
            Ok(examined) => json!(examined),
            Err(RaidError::Unknown(unknown)) => json!(unknown),
            Err(error) => json!({ "path": place, "error": error.to_string() }),
        };
        args.members.iter().zip(&all).map(one).collect()
    };
    print(args.json, document, &text)?;
    raid::disagreement(&args.members).iter().for_each(|said| eprintln!("warning: {said}"));
    let mut errors: Vec<RaidError> = all.into_iter().filter_map(Result::err).collect();
    let Some(last) = errors.pop() else { return Ok(ExitCode::SUCCESS) };
    errors.iter().for_each(|error| eprintln!("{error}"));
    Err(blame(last))
}

/// Prints how an array is. Its server knows devices that are not named, and knows it if none of those named can be
/// read.
fn status(args: &Paths) -> Result<ExitCode, Failure> {
    let service = Server::find(&args.members).map(|mut server| server.status(&Course::quiet()).map_err(blame));
    let service = service.transpose()?;
    let status = match (raid::status(&args.members), &service) {
        (Err(error), Some(service)) => {
            let others = service.places().into_iter().filter(|place| !args.members.iter().any(|it| it.is_same(place)));
            let all: Vec<Place> = args.members.iter().cloned().chain(others).collect();
            // Its devices may say nothing, or be others by now.
            let status = raid::status(&all).ok().filter(|status| status.members.len() == service.members.len());
            status.ok_or_else(|| blame(error))
        }
        (status, _) => status.map_err(blame),
    };
    let mut status = status?;
    if let Some(service) = service {
        status.serve(service);
    }
    print(args.json, || json!(status), &status.text())
}

fn create(args: &Create) -> Result<ExitCode, Failure> {
    let level = Level::named(&args.level, args.layout.as_deref()).map_err(Failure::input)?;
    let all = || args.members.iter().chain(&args.journal).chain(&args.spare);
    if args.name.contains(char::is_control) {
        return Err(refused(format!(
            "--name {:?} has characters that no terminal shows; name it without them",
            args.name
        )));
    }
    let (members, spares) = roles(args)?;
    let missing = all().find(|place| !place.exists());
    if let (Some(place), None) = (missing, args.size) {
        let next = "name one that exists, or give --size to have files made";
        return Err(Failure::input(anyhow::anyhow!("{place}: there is no such file or device; {next}")));
    }
    let different = members.iter().chain(&args.journal).chain(&spares);
    raid::apart(&different.collect::<Vec<_>>(), &[]).map_err(blame)?;
    let there = all().filter(|place| place.exists());
    let permits = permit::places(there, args.destroy_data)?;
    let plan = Plan {
        level,
        stripe_unit: args.stripe_unit.unwrap_or(level.usual_chunk()),
        members: &members,
        journal: args.journal.as_ref(),
        spares: &spares,
        permits: &permits,
        size: args.size.unwrap_or(Bytes::ZERO),
        consistency: args.consistency.map(Into::into),
        name: args.name.clone(),
        assume_clean: args.assume_clean,
        integrity: args.integrity,
    };
    let done = raid::create(&plan, &course(&args.pace)).map_err(blame)?;
    drop(permits);
    let made: Vec<Place> = members.iter().chain(&args.journal).chain(&spares).cloned().collect();
    let status = raid::status(&made).map_err(blame)?;
    print(args.pace.json, || json!(status), &status.text())?;
    if level == Level::Raid3 {
        eprintln!("Linux md has no level 3, and calls this one of level 4, as do its members from now on");
    }
    Ok(if done.clean { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// The members and spares of a new array. What is named twice, spelled the same, so that what it carries may be lost,
/// is one of them; whatever else is named twice would be two of the array's devices, and is refused.
fn roles(args: &Create) -> Result<(Vec<Place>, Vec<Place>), Failure> {
    let once = |places: &[Place], role: &str| {
        let mut different: Vec<Place> = Vec::new();
        for place in places {
            match different.iter().find(|other| other.is_same(place)) {
                None => different.push(place.clone()),
                Some(other) if other != place => {
                    return Err(refused(format!("{other} and {place} are the same, and cannot both be {role}s")));
                }
                Some(_) if permit::asks_twice(place, args.destroy_data) => {}
                Some(_) => return Err(refused(format!("{place} is named twice as a {role}; name each device once"))),
            }
        }
        Ok(different)
    };
    let (members, spares) = (once(&args.members, "member")?, once(&args.spare, "spare")?);
    let journal = args.journal.iter().map(|place| (place, "journal"));
    let others: Vec<(&Place, &str)> = journal.chain(spares.iter().map(|place| (place, "spare"))).collect();
    let before = members.iter().map(|place| (place, "member")).chain(others.iter().copied());
    for (index, (place, role)) in others.iter().enumerate() {
        let mut before = before.clone().take(members.len() + index);
        if let Some((other, first)) = before.find(|(other, _)| other.is_same(place)) {
            let same =
                if other == *place { format!("{place} is") } else { format!("{other} and {place} are the same,") };
            return Err(refused(format!("{same} named as a {first} and as a {role}; name each device once")));
        }
    }
    Ok((members, spares))
}

fn rebuild(args: &Rebuild) -> Result<ExitCode, Failure> {
    let (members, pace) = (&args.array.members, &args.array.pace);
    let onto = Newcomer::named("--onto", &args.onto, args.size, args.destroy_data)?;
    if let Some(mut server) = Server::find(members) {
        let order = Order::Rebuild { onto: onto.as_ref().map(Newcomer::for_server), rate: pace.rate };
        return rebuilt(&server.order(&order, &watching(pace)).map_err(blame)?, pace);
    }
    // First: a member's other name may be a use of it, for which it would be refused.
    if let Some(onto) = onto.as_ref().filter(|onto| !members.iter().any(|member| member.is_same(onto.place))) {
        raid::apart(&[onto.place], &members.iter().collect::<Vec<_>>()).map_err(blame)?;
    }
    let mut permits = admitted(members)?.0;
    if let Some(onto) = &onto {
        if let Some(member) = members.iter().find(|member| member.is_same(onto.place)) {
            let next = "leave --onto away to go on with its rebuild, or leave it away from the members to begin anew";
            return Err(refused(format!("{member} is named as a member, too; {next}")));
        }
        permits.extend(onto.permit()?);
    }
    let onto = onto.map(|onto| onto.place);
    let done = raid::rebuild(members, &permits, onto, args.force, &course(pace));
    rebuilt(&done.inspect_err(|_| raid::remove_unused(&permits)).map_err(blame)?, pace)
}

/// Draws a layout.
fn layout(args: &Layout) -> Result<ExitCode, Failure> {
    let level = Level::named(&args.level, args.layout.as_deref()).map_err(Failure::input)?;
    let drawing = raid::layout(level, args.members.into(), args.rows.unwrap_or(args.members).into());
    out::text(&format!("{level}\n{}", drawing.map_err(blame)?))?;
    Ok(ExitCode::SUCCESS)
}

/// Says what a rebuild has done.
fn rebuilt(rebuilt: &raid::Rebuild, pace: &Pace) -> Result<ExitCode, Failure> {
    let mut text = match rebuilt.done.not_whole.contains(&rebuilt.member) {
        true => {
            format!("member {} is not whole yet; name it among the members, and `rebuild` goes on\n", rebuilt.member)
        }
        false if rebuilt.interrupted => format!("member {} is whole again\n{UNFIT}", rebuilt.member),
        false => format!("member {} is whole again\n", rebuilt.member),
    };
    for (from, to) in &rebuilt.lost {
        text.push_str(&format!(
            "lost: bytes {from} to {to} of the array; they read as errors until they are written\n"
        ));
    }
    print(pace.json, || json!(rebuilt), &text)?;
    Ok(match (rebuilt.interrupted, rebuilt.lost.is_empty()) {
        (true, _) => ExitCode::from(3),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(1),
    })
}

fn scrub(args: &Scrub) -> Result<ExitCode, Failure> {
    let (members, pace) = (&args.array.members, &args.array.pace);
    let course = Course { interrupted: interrupt_scrub(), ..shown(pace) };
    let (repair, from) = (args.repair, args.from.unwrap_or(Bytes::ZERO));
    let found = match Server::find(members) {
        Some(mut server) => server.order(&Order::Scrub { repair, from, rate: pace.rate }, &course),
        None => raid::scrub(members, &permits(members, None)?, repair, from, &course),
    };
    let found: raid::Scrub = found.map_err(blame)?;
    print(pace.json, || json!(found), &found.text())?;
    Ok(match (found.interrupted, found.leaves_some()) {
        (true, _) => ExitCode::from(3),
        (false, true) => ExitCode::from(1),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// What it means that a member was taken out of use, and what to do next.
fn failed(member: &Place, done: &Done, served: bool) -> String {
    if let Some(stays) = done.called_off {
        let next = "`arraylab array replace` replaces it by another device";
        return format!(
            "{member} replaces member {stays} no more; that stays as it was, and {next}\n{}",
            left_as(done, served)
        );
    }
    let next = match (done.spares.is_empty(), served) {
        (true, _) => {
            "`arraylab array rebuild --onto DEVICE` with the members that are left fills its place on another device; \
                   `arraylab array add` brings it back, if it is sound after all"
        }
        (false, true) => "a spare takes its place now; `arraylab array status` tells how far that is",
        (false, false) => "`arraylab array rebuild` with the members that are left and the spare fills its place",
    };
    format!("{member} is used no more; {}\nnext: {next}\n{}", done.outlook(), left_as(done, served))
}

/// What is left to do where a member or a spare has its place, and what follows was ended.
const UNFIT: &str = "the redundancy of all was not made to fit yet; `arraylab array stop` goes on with that\n";

/// Says how the array was left by what was to make it clean.
fn left(done: &Done) -> String {
    let mut text = left_as(done, false);
    if !done.clean {
        text.push_str("not finished; the same command goes on\n");
    }
    text
}

/// How what was to make an array clean exits.
fn code(done: &Done) -> ExitCode {
    if done.clean { ExitCode::SUCCESS } else { ExitCode::from(3) }
}

/// The same in words. While an array is served it is dirty as often as it is written, and nothing has to be done about
/// that.
fn left_as(done: &Done, served: bool) -> String {
    let mut text = String::from(match (done.clean, served) {
        (true, _) => "clean",
        (false, true) => "being written",
        (false, false) => "dirty: redundancy may not fit",
    });
    if !done.not_whole.is_empty() {
        text.push_str(&format!(", {} not whole", raid::numbered(&done.not_whole, ", ")));
    }
    text.push('\n');
    text
}

fn print(json: bool, document: impl FnOnce() -> Value, text: &str) -> Result<ExitCode, Failure> {
    if json {
        out::json(&document())?
    } else {
        out::text(text)?
    }
    Ok(ExitCode::SUCCESS)
}

fn refused(reason: String) -> Failure {
    Failure::input(anyhow::anyhow!(reason))
}

/// Refuses members of which one is named twice.
fn different(members: &[Place]) -> Result<(), Failure> {
    for (index, place) in members.iter().enumerate() {
        match members[..index].iter().find(|other| other.is_same(place)) {
            Some(other) if other == place => {
                return Err(refused(format!("{place} is named twice; name each member once")));
            }
            Some(other) => return Err(refused(format!("{other} and {place} are the same; name each member once"))),
            None => {}
        }
    }
    Ok(())
}

/// Leave to write to the members of an array, for what is done with all of them, and `beside` them with what is to
/// become part of it.
fn permits(members: &[Place], beside: Option<&Place>) -> Result<Permits, Failure> {
    different(members)?;
    let given = raid::given(members, beside).map_err(blame)?;
    given.is_enough().map_err(blame)?;
    admit(members, &given)
}

/// Leave to write to the members of an array that may lack some, and which of those named it is opened without.
fn admitted(members: &[Place]) -> Result<(Permits, Vec<LeftOut>), Failure> {
    different(members)?;
    let given = raid::given(members, None).map_err(blame)?;
    Ok((admit(members, &given)?, given.left_out))
}

/// Which of the members of an array it is opened without, where nothing is written to any.
fn looked_at(members: &[Place]) -> Result<Vec<LeftOut>, Failure> {
    different(members)?;
    let given = raid::given(members, None).map_err(blame)?;
    tell_left_out(&given);
    Ok(given.left_out)
}

/// Leave to write to the members of an array. Whom it is opened without is said before anything is done to it without
/// them.
fn admit(members: &[Place], given: &Given) -> Result<Permits, Failure> {
    let permits = permit::members(members.iter().filter_map(Place::path))?;
    tell_left_out(given);
    Ok(permits)
}

fn tell_left_out(given: &Given) {
    for LeftOut { path, why } in &given.left_out {
        eprintln!("{path} is left out: {why}");
    }
    given.without().iter().for_each(|without| eprintln!("{without}"));
}

/// Bar, rate and Ctrl-C of a command.
fn course(pace: &Pace) -> Course {
    Course { interrupted: interrupt_upkeep(), ..shown(pace) }
}

/// The same of one that a server carries out.
fn watching(pace: &Pace) -> Course {
    Course { interrupted: interrupt_watching(), ..shown(pace) }
}

/// Bar and rate of a command.
fn shown(pace: &Pace) -> Course {
    let bar = Bar::new(1000);
    let show = move |progress: raid::Progress| {
        let share = progress.done.get() as f64 / progress.of.get().max(1) as f64;
        bar.show((share * 1000.0) as u64, format!("{} of {}", progress.done, progress.of));
    };
    Course { show: Rc::new(show), rate: pace.rate, ..Course::quiet() }
}

fn blame(error: RaidError) -> Failure {
    if error.is_input() { Failure::input(error) } else { Failure::world(error) }
}
