//! What the superblock of one member says: for programs by fields, for people in words. Nothing is written.

use std::fmt::Write;

use array::md::{Features, MemberRole, Numbers, Resync, Superblock, SuperblockError};
use array::{ChecksumReport, checksums_of};
use device::{AnyDevice, Device};
use serde::Serialize;
use units::Bytes;
use uring::{Live, LiveOptions};

use crate::members::{superblock, to_read};
use crate::{Place, RaidError, exact, unknown};

/// What one member says.
#[derive(Debug, Clone, Serialize)]
pub struct Examined {
    /// Where it was read.
    pub path: Place,
    /// The array's identity.
    pub array: String,
    /// The array's name.
    pub name: String,
    /// When the array was made, in seconds since 1970 began.
    pub created_seconds: u64,
    /// Level and layout.
    pub level: String,
    /// How many members the array has.
    pub members: u32,
    /// The chunk, where there is one.
    #[serde(rename = "stripe_unit_bytes", serialize_with = "exact::some")]
    pub stripe_unit: Option<Bytes>,
    /// How much of each member is used, at levels where that is the same.
    #[serde(rename = "used_bytes", serialize_with = "exact::some")]
    pub used: Option<Bytes>,
    /// This device's identity.
    pub device: String,
    /// What this device holds.
    #[serde(rename = "device_bytes", with = "exact")]
    pub holds: Bytes,
    /// Room for data on it.
    #[serde(rename = "data_bytes", with = "exact")]
    pub data: Bytes,
    /// Where that begins.
    #[serde(rename = "data_offset_bytes", with = "exact")]
    pub data_offset: Bytes,
    /// `member`, `replacement` of one, `spare`, `failed`, `journal`.
    pub role: &'static str,
    /// The place that it has, or is to have.
    pub member: Option<u16>,
    /// Its number among the array's devices.
    pub device_number: u32,
    /// How much of it is rebuilt, if it is not whole.
    #[serde(rename = "rebuilt_bytes", serialize_with = "exact::some")]
    pub rebuilt: Option<Bytes>,
    /// It says that redundancy fits.
    pub clean: bool,
    /// If not: up to where of the members it does.
    #[serde(rename = "fits_up_to_bytes", serialize_with = "exact::some")]
    pub fits_up_to: Option<Bytes>,
    /// What it has seen of the array's changes.
    pub events: u64,
    /// What is kept against resyncs and the write hole.
    pub consistency: &'static str,
    /// It is read only where no other copy is.
    pub write_mostly: bool,
    /// md gives requests to it up at the first error.
    pub failfast: bool,
    /// Its checksums, if it keeps any.
    pub checksums: Option<Checksums>,
    /// Each place of the array, as it knows it: `active`, `replacing`, `missing`.
    pub places: Vec<&'static str>,
}

/// The checksums of a member.
#[derive(Debug, Clone, Serialize)]
pub struct Checksums {
    /// What one is of.
    #[serde(rename = "block_bytes", with = "exact")]
    pub block: Bytes,
    /// Blocks that did not fit so far.
    pub corrupt: u64,
    /// Times that all were given up, as the array was used without them.
    pub renewed: u64,
}

pub(crate) fn consistency(superblock: &Superblock) -> &'static str {
    let has = |feature| superblock.features.has(feature);
    match () {
        () if has(Features::PPL) || has(Features::PPLS) => "partial parity log",
        () if has(Features::JOURNAL) => "journal",
        () if superblock.own_ppl_at().is_some() => "partial parity log and bitmap",
        () if has(Features::BITMAP) => "bitmap",
        () => "resync",
    }
}

pub(crate) fn name_of(superblock: &Superblock) -> String {
    String::from_utf8_lossy(&superblock.name).trim_end_matches('\0').to_owned()
}

/// What a terminal would act on, as a superblock of others may carry it, is written as what it is.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { it.escape_default().to_string() } else { it.to_string() }).collect()
}

/// Level and layout, or that they are not understood.
pub(crate) fn level_of(superblock: &Superblock) -> String {
    match (Numbers { level: superblock.level, layout: superblock.layout }).level() {
        Ok(level) => level.to_string(),
        Err(error) => error.to_string(),
    }
}

/// What was asked of a member for good, if anything was.
pub(crate) fn flags(write_mostly: bool, failfast: bool) -> Option<String> {
    let named = [(write_mostly, "write-mostly"), (failfast, "failfast")];
    let set: Vec<&str> = named.into_iter().filter(|(set, _)| *set).map(|(_, name)| name).collect();
    (!set.is_empty()).then(|| set.join(", "))
}

/// How far it is rebuilt, if it is not whole.
pub(crate) fn rebuilt(it: &Superblock) -> Option<Bytes> {
    it.features.has(Features::RECOVERY).then(|| Bytes::SECTOR * it.recovery.min(1 << 54))
}

pub(crate) async fn checksums(device: &impl Device, it: &Superblock) -> Option<ChecksumReport> {
    // One that cannot be read has none that could be relied on.
    checksums_of(device, it).await.ok().flatten()
}

/// What each of these paths says, or why it says nothing.
pub fn examine(places: &[Place]) -> Vec<Result<Examined, RaidError>> {
    let live = Live::start(&LiveOptions::default());
    places.iter().map(|place| one(&live, place)).collect()
}

fn one(live: &Live, place: &Place) -> Result<Examined, RaidError> {
    let runtime = live.runtime();
    let device = runtime.block_on(to_read(live, place))?;
    match runtime.block_on(superblock(place, &device)) {
        Ok(it) => Ok(of_member(place, &it, &device, runtime.block_on(checksums(&device, &it)))),
        Err(error) => Err(explained(live, place, &device, error)),
    }
}

/// Why a device is no member, with what it is instead where it can be told.
pub(crate) fn explained(live: &Live, place: &Place, device: &AnyDevice, error: RaidError) -> RaidError {
    let is_foreign = matches!(
        error,
        RaidError::NoRoomForSuperblock { .. }
            | RaidError::Superblock {
                error: SuperblockError::NoMagic { .. } | SuperblockError::OtherVersion { .. },
                ..
            }
    );
    match unknown::look(live, place, device) {
        // What is too small is that first of all.
        Ok(unknown)
            if is_foreign
                && !(unknown.formats.is_empty() && matches!(error, RaidError::NoRoomForSuperblock { .. })) =>
        {
            RaidError::Unknown(Box::new(unknown))
        }
        _ => error,
    }
}

fn of_member(place: &Place, it: &Superblock, device: &AnyDevice, sums: Option<ChecksumReport>) -> Examined {
    let (role, member) = match it.role() {
        MemberRole::Active(column) if it.features.has(Features::REPLACEMENT) => ("replacement", Some(column)),
        MemberRole::Active(column) => ("member", Some(column)),
        MemberRole::Spare => ("spare", None),
        MemberRole::Faulty => ("failed", None),
        MemberRole::Journal => ("journal", None),
    };
    Examined {
        path: place.clone(),
        array: it.array.to_string(),
        name: name_of(it),
        created_seconds: it.created.seconds(),
        level: level_of(it),
        members: it.members,
        stripe_unit: (!it.chunk.is_zero()).then_some(it.chunk),
        used: (!it.size.is_zero()).then_some(it.size),
        device: it.member.to_string(),
        holds: device.shape().size,
        data: it.data_size,
        data_offset: it.data_offset,
        role,
        member,
        device_number: it.number,
        rebuilt: rebuilt(it),
        clean: it.resync == Resync::Clean,
        fits_up_to: match it.resync {
            Resync::Clean => None,
            Resync::From(offset) => Some(offset),
        },
        events: it.events,
        consistency: consistency(it),
        write_mostly: it.is_write_mostly(),
        failfast: it.is_fail_fast(),
        checksums: sums.map(|it| Checksums { block: it.block, corrupt: it.found, renewed: it.renewed }),
        places: places(it),
    }
}

/// Each place of the array, as a superblock knows it: two devices have the place of a member that is being replaced.
fn places(it: &Superblock) -> Vec<&'static str> {
    let state = |column: u16| {
        let own = MemberRole::Active(column).number();
        match it.roles.iter().filter(|role| **role == own).count() {
            0 => "missing",
            1 => "active",
            _ => "replacing",
        }
    };
    (0..it.members as u16).map(state).collect()
}

impl Checksums {
    fn text(&self) -> String {
        let mut text = format!("of every {:#}; {} blocks did not fit so far", self.block, self.corrupt);
        if self.renewed > 0 {
            text.push_str(&format!("; given up {} times, as the array was used without them", self.renewed));
        }
        text
    }
}

impl Examined {
    /// For people, in the order in which they read it.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.path);
        let mut line = |name: &str, value: &str| {
            writeln!(text, "  {name:<40}{}", harmless(value)).expect("text takes text");
        };
        line("array", &self.array);
        line("name", &self.name);
        line("created", &format!("{} s after 1970 began", self.created_seconds));
        line("level", &self.level);
        line("members", &self.members.to_string());
        if let Some(stripe_unit) = self.stripe_unit {
            line("stripe unit", &format!("{stripe_unit:#}"));
        }
        if let Some(used) = self.used {
            line("used of each member", &format!("{used:#}"));
        }
        line("this device", &self.device);
        line("holds", &format!("{:#}", self.holds));
        line("data", &format!("{:#} from {:#} on", self.data, self.data_offset));
        let role = match (self.role, self.member) {
            ("replacement", Some(member)) => format!("replacement of member {member}"),
            (role, Some(member)) => format!("{role} {member}"),
            (role, None) => role.to_owned(),
        };
        line("role", &format!("{role}, device number {}", self.device_number));
        if let Some(rebuilt) = self.rebuilt {
            line("rebuilt", &format!("{rebuilt:#}"));
        }
        line(
            "state",
            &match self.fits_up_to {
                None => "clean".into(),
                Some(Bytes::ZERO) => "dirty: redundancy may not fit".into(),
                Some(offset) => format!("dirty: redundancy fits up to {offset:#} of the members"),
            },
        );
        line("events", &self.events.to_string());
        line("consistency", self.consistency);
        if let Some(flags) = flags(self.write_mostly, self.failfast) {
            line("flags", &flags);
        }
        line("checksums", &self.checksums.as_ref().map_or("none".into(), Checksums::text));
        // mdadm's letters.
        let letter = |state: &&str| match *state {
            "active" => 'A',
            "replacing" => 'R',
            _ => '.',
        };
        let letters: String = self.places.iter().map(letter).collect();
        line("places (R: being replaced, .: missing)", &letters);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reaches_the_terminal_without_what_that_would_act_on() {
        assert_eq!(harmless("home"), "home");
        assert_eq!(harmless("Größe"), "Größe");
        assert_eq!(harmless("a\n\u{1b}[2Jb\u{9b}"), "a\\n\\u{1b}[2Jb\\u{9b}");
    }
}
