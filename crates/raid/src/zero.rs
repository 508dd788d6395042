//! Devices that cease to be members: `mdadm --zero-superblock`.

use array::{Mark, erase, marks};
use device::AnyDevice;
use host::Kernel;
use host::guard::{Consent, unmark};
use nbd::PATIENCE;
use serde::Serialize;
use units::Bytes;
use uring::{Live, LiveOptions};

use crate::members::{connected_to_write, to_read, writable};
use crate::{Place, RaidError, exact};

/// What was erased of a device.
#[derive(Debug, Clone, Serialize)]
pub struct Zeroed {
    /// The device.
    pub path: Place,
    /// What it was: nothing, if it was no member.
    pub erased: Vec<Erased>,
}

/// Something that was erased.
#[derive(Debug, Clone, Serialize)]
pub struct Erased {
    /// Its name.
    pub what: String,
    /// Where it was.
    #[serde(rename = "at_bytes", with = "exact")]
    pub at: Bytes,
    /// How long it was.
    #[serde(rename = "length_bytes", with = "exact")]
    pub length: Bytes,
}

/// Erases what makes these devices members. All are looked at, and leave is asked for all, before the first is written.
/// What is no member is left as it is.
pub fn zero(places: &[Place], destroy_data: bool) -> Result<Vec<Zeroed>, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let runtime = live.runtime();
    let mut found: Vec<(&Place, Vec<Mark>)> = Vec::new();
    for place in places {
        let read = async { Ok(marks(&to_read(&live, place).await?).await) };
        let marks: Result<Vec<Mark>, _> = runtime.block_on(read).and_then(|it: Result<_, device::DeviceError>| {
            it.map_err(|error| RaidError::Device { place: place.clone(), error })
        });
        found.push((place, marks?));
    }
    if !found.iter().any(|(_, marks)| !marks.is_empty()) {
        return Err(RaidError::NothingToErase { places: places.iter().map(Place::word).collect::<Vec<_>>().join(" ") });
    }
    if !destroy_data {
        let is_member = |(_, marks): &&(&Place, Vec<Mark>)| !marks.is_empty();
        let members = found.iter().filter(is_member).map(|(place, _)| place.word()).collect::<Vec<_>>().join(" ");
        return Err(RaidError::NotToErase { members });
    }
    let mut opened: Vec<Option<AnyDevice>> = Vec::new();
    let mut permits = Vec::new();
    for (place, marks) in &found {
        opened.push(match place {
            _ if marks.is_empty() => None,
            Place::Path(path) => {
                let permit = unmark(&Kernel::running(), path, Consent { destroy_data, times_named: 1 })?;
                let device = AnyDevice::new(writable(&live, &permit)?);
                permits.push(permit);
                Some(device)
            }
            Place::Nbd(uri) => Some(AnyDevice::new(runtime.block_on(connected_to_write(&live, uri, PATIENCE))?)),
        });
    }
    for ((place, marks), device) in found.iter().zip(&opened) {
        if let Some(device) = device {
            let erased = runtime.block_on(erase(device, marks));
            erased.map_err(|error| RaidError::Device { place: (*place).clone(), error })?;
        }
    }
    let erased =
        |Mark { what, range }: &Mark| Erased { what: what.clone(), at: range.start, length: range.end - range.start };
    Ok(found
        .iter()
        .map(|(place, marks)| Zeroed { path: (*place).clone(), erased: marks.iter().map(erased).collect() })
        .collect())
}

impl Zeroed {
    /// In words.
    pub fn text(&self) -> String {
        if self.erased.is_empty() {
            return format!("{}: no md superblock; nothing erased\n", self.path);
        }
        let one = |it: &Erased| format!("{}: erased {}, {:#} at {:#}\n", self.path, it.what, it.length, it.at);
        self.erased.iter().map(one).collect()
    }
}
