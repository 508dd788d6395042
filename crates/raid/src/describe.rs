//! An array, as its members describe it. Nothing is written.

use std::fmt::Write;

use array::creation::Belonging;
use array::geometry::{Geometry, Level, picture};
use array::geometry_of;
use array::md::{Features, MemberRole, Resync, Superblock};
use array::standing::{Standing, newest};
use device::Device;
use serde::Serialize;
use units::Bytes;
use uring::{Live, LiveOptions};

use crate::examined::{checksums, consistency, explained, flags, harmless, level_of, name_of, rebuilt};
use crate::given::{of_one_array, of_one_creation, reason, shortfall, why_foreign};
use crate::halves::Halves;
use crate::members::{superblock, to_read};
use crate::service::Service;
use crate::upkeep::{numbered, outlook};
use crate::{Place, RaidError, exact};

/// An array, as its members describe it.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Its identity.
    pub array: String,
    /// Its name.
    pub name: String,
    /// Level and layout.
    pub level: String,
    /// The chunk, where there is one.
    #[serde(rename = "stripe_unit_bytes", serialize_with = "exact::some")]
    pub stripe_unit: Option<Bytes>,
    /// What it stores; not known where that is the sum of the members, and one is missing.
    #[serde(rename = "size_bytes", serialize_with = "exact::some")]
    pub size: Option<Bytes>,
    /// What is kept against resyncs and the write hole.
    pub consistency: &'static str,
    /// The members say that redundancy fits.
    pub clean: bool,
    /// Members that are missing or not rebuilt, by number.
    pub not_whole: Vec<usize>,
    /// How many more losses the array survives, whichever member it is.
    pub survives: usize,
    /// Members whose loss it does not survive, where it survives that of others.
    pub needed: Vec<usize>,
    /// Data are lost with those that are not whole.
    pub broken: bool,
    /// Each place of the array.
    pub members: Vec<MemberStatus>,
    /// What belongs to the array and has no place in it: stale and spare devices.
    pub others: Vec<MemberStatus>,
    /// That these are two halves that went on without each other, what each says, and what to do.
    pub split: Option<String>,
    /// What its server says, if it is being served.
    pub served: Option<Service>,
    /// It was not stopped, and no log tells what was under way: without one of its members it is opened by force only.
    #[serde(skip)]
    write_hole: bool,
    /// Known with the size.
    #[serde(skip)]
    geometry: Option<Geometry>,
}

/// A place of the array, or a device without one.
#[derive(Debug, Clone, Serialize)]
pub struct MemberStatus {
    /// The place.
    pub member: Option<usize>,
    /// The device, if one of those named has it.
    pub path: Option<Place>,
    /// `active`, `rebuilding`, `missing`; without a place `stale`, `spare`, `journal`, and `not used` by the array's
    /// server; `replacing` the one whose number it has. `half` is who went on without others that went on without it,
    /// `left out` is who has no usable superblock, `foreign` who is of an earlier creation of the array, `too small`
    /// who has lost its end, `twice` who claims the place of another.
    pub state: &'static str,
    /// What it has seen of the array's changes.
    pub events: Option<u64>,
    /// How much of it is rebuilt.
    #[serde(rename = "rebuilt_bytes", serialize_with = "exact::some")]
    pub rebuilt: Option<Bytes>,
    /// Blocks of it that did not fit their checksums so far, if it keeps any.
    pub corrupt: Option<u64>,
    /// `write-mostly`, `failfast`.
    pub flags: Option<String>,
    /// Why the array is not opened with it, or at all; or why its server uses it no more.
    pub reason: Option<String>,
    /// What is wrong with the device that was named: it is empty, gone, unreadable, or no member.
    pub error: Option<String>,
}

impl MemberStatus {
    /// One whose superblock is not at hand.
    fn unread(member: Option<usize>, path: Option<Place>, state: &'static str) -> MemberStatus {
        let (events, rebuilt, corrupt) = (None, None, None);
        MemberStatus { member, path, state, events, rebuilt, corrupt, flags: None, reason: None, error: None }
    }
}

/// The array that these paths are members of.
pub fn status(places: &[Place]) -> Result<Status, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let mut found: Vec<(Place, Superblock, Option<u64>, Bytes)> = Vec::new();
    let (mut others, mut unread) = (Vec::new(), None);
    for place in places {
        let runtime = live.runtime();
        let read = runtime.block_on(to_read(&live, place)).and_then(|device| {
            match runtime.block_on(superblock(place, &device)) {
                Ok(it) => {
                    let corrupt = runtime.block_on(checksums(&device, &it)).map(|report| report.found);
                    Ok((place.clone(), it, corrupt, device.shape().size))
                }
                Err(error) => Err(explained(&live, place, &device, error)),
            }
        });
        match read {
            Ok(read) => found.push(read),
            // The others have something to say all the same.
            Err(error) => {
                let status = MemberStatus::unread(None, Some(place.clone()), "left out");
                let said = Some(reason(&error));
                others.push(MemberStatus { reason: said.clone(), error: said, ..status });
                unread = unread.or(Some(error));
            }
        }
    }
    of_one_array(found.iter().map(|(path, it, ..)| (path, it.array)))?;
    let Belonging { foreign, .. } = of_one_creation(found.iter().map(|(path, it, ..)| (path, it)))?;
    let (mut own, mut away) = (Vec::new(), Vec::new());
    let all = found.into_iter().enumerate();
    all.for_each(|(index, it)| if foreign.contains(&index) { away.push(it) } else { own.push(it) });
    let found = own;
    for (path, it, ..) in away {
        let status = MemberStatus::unread(None, Some(path), "foreign");
        others.push(MemberStatus { events: Some(it.events), reason: Some(why_foreign(&it)), ..status });
    }
    let superblocks: Vec<&Superblock> = found.iter().map(|(_, it, ..)| it).collect();
    let Some(newest) = newest(&superblocks) else {
        return Err(unread.expect("a path was named"));
    };
    let halves = Halves::among(found.iter().map(|(path, it, ..)| (path, it)));
    let all = newest.members as usize;
    let missing = |member: usize| MemberStatus::unread(Some(member), None, "missing");
    let mut members: Vec<MemberStatus> = (0..all).map(missing).collect();
    let mut sizes = vec![newest.size; all];
    let (mut clean, mut resyncing) = (true, false);
    for (path, it, corrupt, size) in &found {
        let rebuilding = it.features.has(Features::RECOVERY);
        let of = |member, state| MemberStatus {
            member,
            path: Some(path.clone()),
            state,
            events: Some(it.events),
            rebuilt: member.and(rebuilt(it)),
            corrupt: *corrupt,
            flags: flags(it.is_write_mostly(), it.is_fail_fast()),
            reason: None,
            error: None,
        };
        if let Some(said) = halves.as_ref().and_then(|halves| halves.said_by(path)) {
            let half = |member| MemberStatus { reason: Some(format!("it says that {said}")), ..of(member, "half") };
            match it.role() {
                MemberRole::Active(column) if members.get(usize::from(column)).is_some_and(|it| it.path.is_none()) => {
                    members[usize::from(column)] = half(Some(column.into()));
                }
                _ => others.push(half(None)),
            }
            continue;
        }
        match Standing::of(it, newest) {
            Standing::Member(column) if members[column].path.is_some() => {
                let first = members[column].path.as_ref().expect("it was looked for");
                let why = format!("it says that it is what {first} is, and is as fresh; one is a copy of the other");
                others.push(MemberStatus { reason: Some(why), ..of(Some(column), "twice") });
            }
            Standing::Member(column) => {
                members[column] = match shortfall(it, *size) {
                    None => of(Some(column), if rebuilding { "rebuilding" } else { "active" }),
                    Some(needed) => {
                        let holds =
                            format!("it holds {size:#}; its data begin at {:#} and need {needed:#}", it.data_offset);
                        MemberStatus { reason: Some(holds), ..of(Some(column), "too small") }
                    }
                };
                sizes[column] = if it.size.is_zero() { it.data_size } else { it.size };
                clean &= it.resync == Resync::Clean;
                resyncing |= !matches!(it.resync, Resync::Clean | Resync::From(Bytes::ZERO));
            }
            Standing::Replacing(column) => others.push(of(Some(column), "replacing")),
            Standing::Journal => others.push(of(None, "journal")),
            Standing::Spare => others.push(of(None, "spare")),
            Standing::Stale => others.push(of(None, "stale")),
        }
    }
    // At level 0 and linear the size of a member is what that member says.
    let (geometry, level) = match sizes.iter().any(|size| size.is_zero()) && members.iter().any(|it| it.path.is_none())
    {
        true => (None, level_of(newest)),
        false => {
            let geometry = geometry_of(newest, &sizes)?;
            let level = geometry.level().to_string();
            (Some(geometry), level)
        }
    };
    // A log tells what was being written, and nothing of what a resync under way has not reached.
    let has_log = matches!(consistency(newest), "partial parity log" | "partial parity log and bitmap");
    let has_journal = consistency(newest) == "journal";
    let has_parity = geometry.as_ref().is_some_and(|geometry| geometry.level().parities() > 0);
    let mut status = Status {
        array: newest.array.to_string(),
        name: name_of(newest),
        level,
        stripe_unit: (!newest.chunk.is_zero()).then_some(newest.chunk),
        size: geometry.as_ref().map(Geometry::size),
        consistency: consistency(newest),
        clean,
        not_whole: Vec::new(),
        survives: 0,
        needed: Vec::new(),
        broken: false,
        members,
        others,
        split: halves.map(|halves| halves.to_string()),
        served: None,
        write_hole: !clean && has_parity && !has_journal && (resyncing || !has_log),
        geometry,
    };
    status.weigh();
    Ok(status)
}

/// The drawing of a level's layout, with so many members of so many chunks.
pub fn layout(level: Level, members: usize, rows: u64) -> Result<String, RaidError> {
    // Sizes are of no matter: a chunk is a column of a line.
    let sizes = vec![Bytes::SECTOR * rows; members];
    let geometry = Geometry::new(level, Bytes::SECTOR, &sizes).map_err(array::OpenError::Geometry)?;
    Ok(picture(&geometry, rows))
}

impl Status {
    /// What the members' states mean.
    fn weigh(&mut self) {
        let is_lost = |member: usize| self.members[member].state != "active";
        let (not_whole, whole): (Vec<usize>, Vec<usize>) = (0..self.members.len()).partition(|member| is_lost(*member));
        let Some(geometry) = &self.geometry else {
            // There is no redundancy where it is not known, and a member is missing.
            (self.not_whole, self.survives, self.needed, self.broken) = (not_whole, 0, Vec::new(), true);
            return;
        };
        let left = geometry.losses_left(is_lost);
        let is_needed = |member: &usize| !geometry.survives(|other| other == *member || is_lost(other));
        let (needed, others): (Vec<usize>, Vec<usize>) = whole.into_iter().partition(is_needed);
        self.needed = if others.is_empty() { Vec::new() } else { needed };
        // Which of two halves is to be believed decides what is lost.
        let broken = left.is_none() && self.split.is_none();
        (self.not_whole, self.survives, self.broken) = (not_whole, left.unwrap_or(0), broken);
    }

    /// Has what the array's server says of it count: it holds devices that nobody has named here, and what it does not
    /// use says less than it knows, as nobody tells those any more.
    pub fn serve(&mut self, service: Service) {
        let read = std::mem::take(&mut self.members).into_iter().chain(std::mem::take(&mut self.others));
        let mut read: Vec<MemberStatus> = read.filter(|status| status.path.is_some()).collect();
        // Of a device that was named, also what it says itself.
        let mut known = |member: Option<usize>, device: &str, state: &'static str| {
            let place = service.place(device);
            let is_it = |status: &MemberStatus| status.path.as_ref().is_some_and(|path| path.is_same(&place));
            match read.iter().position(is_it) {
                Some(index) => MemberStatus { member, state, ..read.remove(index) },
                None => MemberStatus::unread(member, Some(place), state),
            }
        };
        for (number, served) in service.members.iter().enumerate() {
            let state = match served.state.as_str() {
                "active" => "active",
                "rebuilding" => "rebuilding",
                _ => "missing",
            };
            self.members.push(match (&served.device, state) {
                (Some(device), "active" | "rebuilding") => known(Some(number), device, state),
                _ => MemberStatus {
                    reason: served.failure.clone(),
                    ..MemberStatus::unread(Some(number), None, "missing")
                },
            });
        }
        self.others.extend(service.replacing.iter().map(|(member, device)| known(Some(*member), device, "replacing")));
        self.others.extend(service.journal.iter().map(|device| known(None, device, "journal")));
        self.others.extend(service.spares.iter().map(|device| known(None, device, "spare")));
        self.others.extend(read.into_iter().map(|status| MemberStatus {
            member: None,
            state: "not used",
            rebuilt: None,
            ..status
        }));
        self.weigh();
        self.size = self.size.or(Some(service.size));
        (self.broken, self.clean) = (service.broken, service.clean);
        self.split = None;
        self.served = Some(service);
    }

    /// Nobody who was named is its journal, and it has one.
    fn lacks_journal(&self) -> bool {
        self.served.is_none()
            && self.consistency == "journal"
            && self.others.iter().all(|other| other.state != "journal")
    }

    /// What makes the members whole that are not.
    fn how_to_be_whole(&self) -> String {
        let which = numbered(&self.not_whole, ", ");
        if self.write_hole && self.served.is_none() {
            return format!(
                "parity may not fit where a write was under way, and what {which} held would be computed wrongly there. Give what is missing, too, if it is sound; \
                 `arraylab array rebuild --force` accepts that it is computed"
            );
        }
        let upkeep = self.served.as_ref().and_then(|service| service.upkeep.as_ref());
        let filling = upkeep.and_then(|upkeep| Some((upkeep.member.filter(|it| self.not_whole.contains(it))?, upkeep)));
        if let Some((member, upkeep)) = filling {
            return format!("member {member} is being rebuilt, {} of {}", upkeep.done, upkeep.of);
        }
        let mut rebuilding = self.members.iter().filter(|member| member.state == "rebuilding");
        match (rebuilding.next(), &self.served) {
            (Some(MemberStatus { member: Some(member), rebuilt, .. }), None) => {
                let rebuilt = rebuilt.unwrap_or(Bytes::ZERO);
                format!("`arraylab array rebuild` goes on with member {member}, of which {rebuilt} are done")
            }
            // Its server takes it up by itself.
            (Some(MemberStatus { member: Some(member), .. }), Some(_)) => {
                format!("the rebuild of member {member} goes on shortly")
            }
            _ => "`arraylab array rebuild` makes them whole".into(),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let size = self.size.map_or("of unknown size".into(), |size| size.to_string());
        let mut text = format!("{} {size}, \"{}\"\n", self.level, harmless(&self.name));
        let mut line = |name: &str, value: String| writeln!(text, "  {name:<14}{value}").expect("text takes text");
        line("array", self.array.clone());
        if let Some(stripe_unit) = self.stripe_unit {
            line("stripe unit", format!("{stripe_unit:#}"));
        }
        line("consistency", self.consistency.into());
        let too_small: Vec<usize> =
            (0..self.members.len()).filter(|at| self.members[*at].state == "too small").collect();
        let twice = self.others.iter().find(|other| other.state == "twice").and_then(|other| other.member);
        let rival = self.served.as_ref().and_then(|service| service.rival.as_ref());
        let redundancy = match (self.clean, self.not_whole.len()) {
            _ if let Some(split) = &self.split => split.clone(),
            _ if !too_small.is_empty() => {
                let which = numbered(&too_small, ", ");
                format!(
                    "cannot be opened with {which}, too small by now; make it as large again as it was, or leave it away"
                )
            }
            _ if let Some(member) = twice => {
                format!("cannot be opened with two of member {member}; give one of them")
            }
            _ if self.lacks_journal() => {
                "cannot be opened without its journal; give that, too, or have the array do without it by `arraylab array stop --force`".into()
            }
            _ if self.broken && self.size.is_none() => {
                let (lost, are) = (numbered(&self.not_whole, ", "), if self.not_whole.len() == 1 { "is" } else { "are" });
                format!("broken: {lost} {are} missing, and there is no redundancy to compute it from; give it, too")
            }
            (_, lost) if self.broken && self.others.iter().any(|other| other.state == "stale") => {
                let all = self.members.iter().chain(&self.others).filter_map(|it| it.path.as_ref());
                let words: Vec<String> = all.map(Place::word).collect();
                format!(
                    "broken: {lost} members are not whole, more than can be spared; `arraylab array assemble --force {}` shows whether stale ones could be \
                     taken back, and what that may lose",
                    words.join(" ")
                )
            }
            (_, lost) if self.broken => format!("broken: {lost} members are not whole, more than can be spared"),
            (true, 0) => "clean".into(),
            (false, 0) if self.served.is_some() => "being written".into(),
            (false, 0) => "dirty: redundancy may not fit; `arraylab array stop` makes it fit".into(),
            (clean, lost) => {
                let state = match (clean, &self.served) {
                    (true, _) => "clean",
                    (false, Some(_)) => "being written",
                    (false, None) => "dirty",
                };
                format!("{state}, {lost} of {} members not whole; {}", self.members.len(), self.how_to_be_whole())
            }
        };
        line("state", rival.map_or(redundancy, |opened| crate::event::rival(opened)));
        if !self.broken {
            line("outlook", outlook(self.survives, &self.needed));
        }
        if let Some(service) = &self.served {
            line("served", service.text());
            for export in &service.exports {
                line("export", export.text(self.size.unwrap_or(service.size)));
            }
        }
        for (number, member) in self.members.iter().chain(&self.others).enumerate() {
            let served = self.served.as_ref().and_then(|service| service.members.get(number));
            let again = match served.and_then(|served| served.reconnections) {
                None | Some(0) => String::new(),
                Some(1) => ", connected again once".into(),
                Some(times) => format!(", connected again {times} times"),
            };
            let place = member.member.map_or("-".to_owned(), |member| member.to_string());
            let path = member.path.as_ref().map_or("-".to_owned(), Place::to_string);
            let rebuilt = member.rebuilt.map_or(String::new(), |upto| format!(" up to {upto}"));
            let corrupt = match member.corrupt {
                None => String::new(),
                Some(0) => ", with checksums".into(),
                Some(blocks) => format!(", {blocks} blocks did not fit their checksums so far"),
            };
            let flags = member.flags.as_ref().map_or(String::new(), |flags| format!(", {flags}"));
            let reason = member.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
            line(
                &format!("member {place}"),
                format!("{:<12}{path}{rebuilt}{flags}{corrupt}{again}{reason}", member.state),
            );
        }
        text
    }
}
