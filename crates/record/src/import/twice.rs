//! One disk that a trace shows twice: as itself, and as a volume upon it (dm, md). Explained as two, they would seem to
//! move in step.
//!
//! Where blktrace recorded how requests were mapped, the volumes are left out, as it is the disks that serve. Where it
//! did not, requests that begin and end within microseconds of each other are a sign of it, and no proof: a mirror's
//! two disks may be as quick as each other.

use std::collections::{BTreeMap, BTreeSet};

use units::Duration;

use super::Imported;
use crate::Row;

/// Devices whose requests came from another: the names of both.
pub(super) type Mapped = BTreeSet<(String, String)>;

/// A volume takes no longer than this to hand a request on, or its end.
const NEAR: Duration = Duration::micros(50);
/// Nor than this part of what the request takes: on fast devices, strangers lie within microseconds of each other.
const NEAR_PART: u64 = 16;
/// Of so many requests, and so many neighbours of each on both sides: enough to tell.
const MOST: usize = 1 << 16;
const NEIGHBOURS: usize = 32;
/// Fewer requests of a device may be near another's by chance.
const LEAST: u64 = 20;

/// Leaves out the devices whose requests are all those of devices below them, as far as these are in the trace, too.
pub(super) fn leave_out_volumes(imported: &mut Imported, mapped: &Mapped) {
    let mut seen = vec![false; imported.labels.devices.len()];
    imported.rows.iter().for_each(|row| seen[usize::from(row.device)] = true);
    let names = &imported.labels.devices;
    let known = |name: &String| names.iter().position(|known| known == name).filter(|index| seen[*index]);
    let mut below: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (disk, volume) in mapped.iter().filter(|(disk, volume)| !mapped.contains(&(volume.clone(), disk.clone()))) {
        if let (Some(_), Some(volume)) = (known(disk), known(volume)) {
            below.entry(volume).or_default().push(disk);
        }
    }
    if below.is_empty() || seen.iter().enumerate().all(|(index, seen)| !seen || below.contains_key(&index)) {
        return;
    }
    for (volume, disks) in &below {
        let (volume, disks) = (&names[*volume], disks.join(" and "));
        let remark = format!("{volume} is left out: its requests are those of {disks}, to which events A map them");
        imported.remarks.push(remark);
    }
    let stays: Vec<usize> = (0..names.len()).filter(|index| !below.contains_key(index)).collect();
    imported.labels.devices = stays.iter().map(|index| names[*index].clone()).collect();
    imported.rows.retain_mut(|row| match stays.binary_search(&usize::from(row.device)) {
        Ok(index) => {
            row.device = index as u16;
            true
        }
        Err(_) => false,
    });
}

/// Remarks on devices nearly all of whose requests begin and end with one of another's. Rows are in order of
/// completion.
pub(super) fn remark_on_twins(imported: &mut Imported) {
    let rows = &imported.rows[..imported.rows.len().min(MOST)];
    let mut all: BTreeMap<u16, u64> = BTreeMap::new();
    let mut twins: BTreeMap<(u16, u16), u64> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        *all.entry(row.device).or_default() += 1;
        let near = |other: &&Row| apart(other.completed.as_nanos(), row.completed.as_nanos()) <= NEAR;
        let before = rows[..index].iter().rev().take(NEIGHBOURS).take_while(near);
        let after = rows[index + 1..].iter().take(NEIGHBOURS).take_while(near);
        let others: BTreeSet<u16> =
            before.chain(after).filter(|other| is_twin(row, other)).map(|other| other.device).collect();
        others.into_iter().for_each(|other| *twins.entry((row.device, other)).or_default() += 1);
    }
    let mut said = BTreeSet::new();
    for ((device, other), count) in twins {
        let of = all[&device];
        if of >= LEAST && count * 20 >= of * 19 && said.insert((device.min(other), device.max(other))) {
            let [device, other] = [device, other].map(|index| &imported.labels.devices[usize::from(index)]);
            imported.remarks.push(format!(
                "nearly every request of {device} begins and ends within microseconds of one of {other}, of the same size: \
                 if one of them is a volume upon the other, they are one device here twice; give a trace without the volume"
            ));
        }
    }
}

fn is_twin(row: &Row, other: &Row) -> bool {
    let (begins, ends) = (row.intended.as_nanos(), row.completed.as_nanos());
    let near = NEAR.min(row.completed.saturating_since(row.intended) / NEAR_PART);
    row.device != other.device
        && (row.operation, row.length) == (other.operation, other.length)
        && apart(begins, other.intended.as_nanos()) <= near
        && apart(ends, other.completed.as_nanos()) <= near
}

fn apart(one: u64, other: u64) -> Duration {
    Duration::nanos(one.abs_diff(other))
}
