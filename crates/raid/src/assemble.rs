//! Arrays that are found and looked at, so that they can be served; and members that dropped out, taken back by force.
//!
//! Nothing runs when a command ends, so to assemble an array is to find its members, to try whether it opens, and to
//! say by which command it is served. The trial is the real thing, in front of members that are only read
//! ([`Overlay`](device::filter::Overlay)): logs are replayed in memory, and what the array would refuse it refuses here
//! in the same words. Force writes superblocks ([`array::force`]), and only after it was said what that may cost.

use std::fmt::Write;

use array::force::{Given, NotForced, Plan, plan, tell};
use array::md::{Features, MemberRole, Superblock};
use array::standing::newest;
use array::{Array, OpenOptions};
use device::Device;
use serde::Serialize;
use units::Bytes;
use uring::{Live, LiveOptions};

use crate::given::{of_one_array, of_one_creation};
use crate::halves::Halves;
use crate::members::{Permits, over, superblock, to_read, to_write, when};
use crate::seek::{Candidates, Sightings};
use crate::upkeep::numbered;
use crate::{LeftOut, Place, RaidError, Status, status};

/// An array that was found.
#[derive(Debug, Clone, Serialize)]
pub struct Assembled {
    /// Its identity.
    pub array: String,
    /// Its name.
    pub name: String,
    /// Whether it opens as it is.
    pub opens: bool,
    /// Why not, and what to do.
    pub problem: Option<String>,
    /// What its members say, if they agree.
    pub status: Option<Status>,
    /// Its devices in the order of their roles, without those that it does not use.
    pub devices: Vec<Place>,
    /// The command that serves it.
    pub serve: Option<String>,
}

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub struct Assembly {
    /// The arrays.
    pub arrays: Vec<Assembled>,
    /// What was named, or would have been taken, and was not.
    pub skipped: Vec<LeftOut>,
}

/// Looks at the arrays that were found. Nothing is written.
pub fn assemble(found: Sightings, read_only: bool) -> Assembly {
    let arrays = found.arrays.iter().map(|array| one(array, read_only)).collect();
    Assembly { arrays, skipped: found.skipped }
}

fn one(found: &Candidates, read_only: bool) -> Assembled {
    let mut assembled = Assembled {
        array: found.array.to_string(),
        name: found.name.clone(),
        opens: false,
        problem: None,
        status: None,
        devices: Vec::new(),
        serve: None,
    };
    let status = match status(&found.places) {
        Ok(status) => status,
        Err(error) => return Assembled { problem: Some(error.to_string()), ..assembled },
    };
    let used = |state: &str| matches!(state, "active" | "rebuilding" | "replacing" | "spare" | "journal");
    let all = status.members.iter().chain(&status.others);
    assembled.devices = all.filter(|it| used(it.state)).filter_map(|it| it.path.clone()).collect();
    assembled.status = Some(status);
    match tried(&found.places) {
        Ok(()) => {
            assembled.opens = true;
            assembled.serve = Some(serve(&assembled, read_only));
        }
        Err(error) => {
            let mut problem = error.to_string();
            if let Ok((read, plan)) = planned(&found.places) {
                let places: Vec<Place> = read.into_iter().map(|read| read.place).collect();
                let what = if plan.believed.is_empty() { "opens it all the same" } else { "takes stale members back" };
                let words = force_command(&places, false);
                _ = write!(problem, ". Force {what}; see what that costs with `{words}`, which writes nothing");
            }
            assembled.problem = Some(problem);
        }
    }
    assembled
}

/// Whether the array in these places opens: everything that it writes stays in memory.
fn tried(places: &[Place]) -> Result<(), RaidError> {
    let live = Live::start(&LiveOptions::default());
    let opened = async {
        let mut devices = Vec::new();
        for place in places {
            devices.push(over(&live, to_read(&live, place).await?));
        }
        let opened = Array::open(live.runtime(), "array", devices, OpenOptions::default()).await;
        opened.map(drop).map_err(|error| RaidError::of_open(places, error))
    };
    live.runtime().block_on(opened)
}

/// The command that serves an array.
fn serve(it: &Assembled, read_only: bool) -> String {
    let own = it.name.rsplit(':').next().unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let socket: String = own.chars().map(plain).collect();
    let socket = if socket.is_empty() { "array".to_owned() } else { socket };
    let words: Vec<String> = it.devices.iter().map(Place::word).collect();
    let only = if read_only { " --read-only" } else { "" };
    format!("arraylab array serve --nbd unix:{socket}.sock{only} {}", words.join(" "))
}

fn force_command(places: &[Place], destroy_data: bool) -> String {
    let words: Vec<String> = places.iter().map(Place::word).collect();
    let destroy = if destroy_data { " --destroy-data" } else { "" };
    format!("arraylab array assemble --force{destroy} {}", words.join(" "))
}

impl Assembly {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (index, array) in self.arrays.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            text.push_str(&array.text());
        }
        for LeftOut { path, why } in &self.skipped {
            _ = writeln!(text, "{path} is not used: {why}");
        }
        text
    }
}

impl Assembled {
    fn text(&self) -> String {
        let mut text = match &self.status {
            Some(status) => status.text(),
            None => format!("{}  {}\n", self.array, crate::examined::harmless(&self.name)),
        };
        if let Some(problem) = &self.problem {
            _ = writeln!(text, "  does not open: {problem}");
        }
        if let Some(serve) = &self.serve {
            _ = writeln!(text, "  serve it:\n    {serve}");
        }
        text
    }
}

/// A device as it was read.
struct Read {
    place: Place,
    superblock: Superblock,
    size: Bytes,
    block: Bytes,
}

/// A member where force is asked for.
#[derive(Debug, Clone, Serialize)]
pub struct Vintage {
    /// Its place.
    pub member: Option<u16>,
    /// The device.
    pub path: Place,
    /// What it has seen of the array's changes.
    pub events: u64,
    /// When it was last written, as it says.
    pub updated: String,
    /// `current`, `believed` by force, or `left out`.
    pub fate: &'static str,
}

/// What force does.
#[derive(Debug, Clone, Serialize)]
pub struct Forced {
    /// The members.
    pub members: Vec<Vintage>,
    /// The array is called clean, though parity may not fit where something was being written.
    pub calls_clean: bool,
    /// What may be lost.
    pub loses: String,
    /// It was done.
    pub written: bool,
    /// The command that does it.
    pub command: String,
}

/// Reads the devices of an array, and plans what force would do.
fn planned(places: &[Place]) -> Result<(Vec<Read>, Plan), RaidError> {
    let live = Live::start(&LiveOptions::default());
    let mut read = Vec::new();
    for place in places {
        let one = async {
            let device = to_read(&live, place).await?;
            let superblock = superblock(place, &device).await?;
            let shape = device.shape();
            let (size, block) = (shape.size, shape.logical_block);
            Ok::<_, RaidError>(Read { place: place.clone(), superblock, size, block })
        };
        // What has nothing to say is not asked.
        read.extend(live.runtime().block_on(one).ok());
    }
    of_one_array(read.iter().map(|it| (&it.place, it.superblock.array)))?;
    let foreign = of_one_creation(read.iter().map(|it| (&it.place, &it.superblock)))?.foreign;
    let mut index = 0..;
    read.retain(|_| !foreign.contains(&index.next().expect("numbers do not end")));
    if let Some(halves) = Halves::among(read.iter().map(|it| (&it.place, &it.superblock))) {
        return Err(RaidError::Halves(halves.to_string()));
    }
    let given: Vec<Given> =
        read.iter().map(|it| Given { superblock: &it.superblock, size: it.size, block: it.block }).collect();
    let plan = plan(&given).map_err(|error| match error {
        NotForced::Needless => RaidError::NeedlessForce,
        NotForced::TooFew => RaidError::TooFewByForce,
    })?;
    Ok((read, plan))
}

fn forced(read: &[Read], plan: &Plan, written: bool) -> Forced {
    let superblocks: Vec<&Superblock> = read.iter().map(|it| &it.superblock).collect();
    let latest = newest(&superblocks).expect("there is a plan, so there are devices");
    let is_believed = |index: usize| plan.believed.iter().any(|(other, _)| *other == index);
    let vintage = |(index, it): (usize, &Read)| Vintage {
        member: match it.superblock.role() {
            MemberRole::Active(member) => Some(member),
            _ => None,
        },
        path: it.place.clone(),
        events: it.superblock.events,
        updated: when(it.superblock.updated),
        fate: match (is_believed(index), plan.superblocks[index].is_some()) {
            (true, _) => "believed",
            (false, true) => "current",
            (false, false) => "left out",
        },
    };
    let mut members: Vec<Vintage> = read.iter().enumerate().map(vintage).collect();
    members.sort_by_key(|it| (it.member.is_none(), it.member));
    let mut loses: Vec<String> = Vec::new();
    for (index, place) in &plan.believed {
        let it = &read[*index];
        loses.push(format!(
            "what was written after {} left (its record {} of {}, at {}; the last one is of {}) may be missing on member {place}, and what is computed with \
             it may be wrong",
            it.place,
            it.superblock.events,
            latest.events,
            when(it.superblock.updated),
            when(latest.updated),
        ));
    }
    if plan.calls_clean {
        loses.push("where something was being written when the array was last used, what is missing is computed from parity that may not fit".into());
    }
    if latest.features.has(Features::JOURNAL) {
        loses.push("what the journal holds is written to the members as they are then".into());
    }
    let places: Vec<Place> = read.iter().map(|it| it.place.clone()).collect();
    Forced {
        members,
        calls_clean: plan.calls_clean,
        loses: loses.join("; "),
        written,
        command: force_command(&places, true),
    }
}

/// What force would do to the array in these places. Nothing is written.
pub fn force_plan(places: &[Place]) -> Result<Forced, RaidError> {
    let (read, plan) = planned(places)?;
    Ok(forced(&read, &plan, false))
}

/// Takes back stale members until the array in these places opens. Those that come back are told first: until the
/// others are, nothing has changed, and the same command goes on.
pub fn force(places: &[Place], permits: &Permits) -> Result<Forced, RaidError> {
    let (read, plan) = planned(places)?;
    let live = Live::start(&LiveOptions::default());
    let believed = plan.believed.iter().map(|(index, _)| *index);
    let others = (0..read.len()).filter(|index| !plan.believed.iter().any(|(other, _)| other == index));
    let order: Vec<usize> = believed.chain(others).collect();
    live.runtime().block_on(async {
        let mut devices = Vec::new();
        for index in order {
            let Some(now) = &plan.superblocks[index] else { continue };
            // All of them can be written before the first is.
            devices.push((to_write(&live, &read[index].place, permits).await?, index, now));
        }
        for (device, index, now) in devices {
            let told = tell(&device, &read[index].superblock, now).await;
            told.map_err(|error| RaidError::Device { place: read[index].place.clone(), error })?;
        }
        Ok::<_, RaidError>(())
    })?;
    Ok(forced(&read, &plan, true))
}

impl Forced {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::from("  member    events      last written          device\n");
        for it in &self.members {
            let member = it.member.map_or("-".into(), |member| member.to_string());
            let fate = match it.fate {
                "believed" if self.written => " (was stale, is a member again)",
                "believed" => " (stale, would be believed)",
                "left out" => " (stale, stays out)",
                _ => "",
            };
            _ = writeln!(text, "  {member:<8}  {:<10}  {}  {}{fate}", it.events, it.updated, it.path);
        }
        let believed: Vec<usize> = self
            .members
            .iter()
            .filter(|it| it.fate == "believed")
            .filter_map(|it| it.member.map(usize::from))
            .collect();
        if !believed.is_empty() {
            let verb = if self.written { "was taken back" } else { "would be taken back" };
            _ = writeln!(text, "by force {} {verb}", numbered(&believed, " and "));
        }
        if self.calls_clean {
            let verb = if self.written { "is called" } else { "would be called" };
            _ = writeln!(text, "the array {verb} clean, as it could not be opened otherwise");
        }
        _ = writeln!(text, "may be lost: {}", self.loses);
        if !self.written {
            _ = writeln!(text, "nothing was written; to do it:\n  {}", self.command);
        }
        text
    }
}
