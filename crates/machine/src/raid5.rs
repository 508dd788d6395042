//! The RAID driver of the study: level 5, left-symmetric, in one row of disks.
//!
//! A read of a stripe unit goes to one disk. A write of less than a stripe reads the old data and the old parity, computes the new
//! parity, and writes both: four disk requests. This driver stands here, apart from everything else, until the array of this
//! project runs on modelled disks; it knows only how to map, and asks the operating system for the rest.

use std::rc::Rc;

use record::PartName;
use runtime::{JoinHandle, Runtime};
use units::Bytes;

use crate::adapter::Unit;
use crate::os::{Os, Process, command};
use crate::trace::{Ledger, Trace};

/// A row of disks as one device.
pub struct Raid5 {
    os: Rc<Os>,
    runtime: Runtime,
    trace: Trace,
    part: PartName,
    members: Vec<Rc<Unit>>,
    stripe: Bytes,
}

/// Where a stripe unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home {
    /// Which disk has the data.
    pub data: usize,
    /// Which has the parity of its row.
    pub parity: usize,
    /// Byte address on both.
    pub offset: Bytes,
}

/// The home of the byte at `address`, left-symmetric over `disks` disks.
pub fn home(address: Bytes, stripe: Bytes, disks: u64) -> Home {
    let unit = address / stripe;
    let (row, within) = (unit / (disks - 1), unit % (disks - 1));
    let parity = (disks - 1 - row % disks) % disks;
    let data = (parity + 1 + within) % disks;
    Home { data: data as usize, parity: parity as usize, offset: stripe * row + address % stripe }
}

impl Raid5 {
    /// With fewer disks there is nothing to rotate parity over.
    pub const FEWEST: usize = 3;

    /// A row of at least [`Raid5::FEWEST`] disks.
    pub fn new(runtime: &Runtime, trace: &Trace, os: &Rc<Os>, members: Vec<Rc<Unit>>, stripe: Bytes) -> Rc<Raid5> {
        assert!(members.len() >= Raid5::FEWEST, "parity needs at least three disks");
        Rc::new(Raid5 {
            os: Rc::clone(os),
            runtime: runtime.clone(),
            trace: trace.clone(),
            part: trace.part("raid"),
            members,
            stripe,
        })
    }

    /// What an array of members that store so much stores: whole stripes, less a unit of parity in each.
    pub fn size(&self, member: Bytes) -> Bytes {
        self.stripe * (member / self.stripe) * (self.members.len() as u64 - 1)
    }

    /// Reads. Disks that hold parts of the request work on them at the same time.
    pub async fn read(self: &Rc<Raid5>, process: &Process, address: Bytes, bytes: Bytes, ledger: &mut Ledger) {
        self.enter(process, ledger).await;
        self.os.block(process);
        let pieces = self.pieces(address, bytes);
        if let [(home, bytes)] = pieces[..] {
            self.os.kernel(&self.members[home.data], command(false, home.offset, bytes), ledger).await;
        } else {
            let parts: Vec<_> =
                pieces.iter().map(|(home, bytes)| self.member(home.data, home.offset, false, *bytes)).collect();
            for part in parts {
                part.await;
            }
            ledger.until(self.runtime.now(), self.part, "read");
        }
        self.os.resume(process, ledger, "before-copy").await;
        self.os.copy(process, bytes, ledger).await;
        self.os.step(self.os.parameters.finish, ledger, "finish").await;
    }

    /// Writes, stripe unit by stripe unit: read, modify, write.
    pub async fn write(self: &Rc<Raid5>, process: &Process, address: Bytes, bytes: Bytes, ledger: &mut Ledger) {
        self.enter(process, ledger).await;
        self.os.copy(process, bytes, ledger).await;
        for (home, bytes) in self.pieces(address, bytes) {
            self.os.block(process);
            self.both(home, false, bytes).await;
            ledger.until(self.runtime.now(), self.part, "read-old");
            // Old data, old parity and new data through the processor.
            self.os.resume(process, ledger, "parity").await;
            self.os.copy(process, bytes * 2, ledger).await;
            self.os.block(process);
            self.both(home, true, bytes).await;
            ledger.until(self.runtime.now(), self.part, "write-new");
        }
    }

    /// A request cut at the borders of stripe units.
    fn pieces(&self, address: Bytes, bytes: Bytes) -> Vec<(Home, Bytes)> {
        let end = address + bytes;
        let mut pieces = Vec::with_capacity(1);
        let mut at = address;
        while at < end {
            let next = end.min(at.round_down(self.stripe) + self.stripe);
            pieces.push((home(at, self.stripe, self.members.len() as u64), next - at));
            at = next;
        }
        pieces
    }

    async fn both(self: &Rc<Raid5>, home: Home, write: bool, bytes: Bytes) {
        let data = self.member(home.data, home.offset, write, bytes);
        let parity = self.member(home.parity, home.offset, write, bytes);
        data.await;
        parity.await;
    }

    /// Asks one member, on its own account.
    fn member(self: &Rc<Raid5>, disk: usize, offset: Bytes, write: bool, bytes: Bytes) -> JoinHandle<()> {
        let (raid, order) = (Rc::clone(self), command(write, offset, bytes));
        self.runtime.spawn(async move {
            let mut ledger = raid.trace.open(raid.runtime.now());
            raid.os.kernel(&raid.members[disk], order, &mut ledger).await;
            ledger.close(raid.runtime.now());
        })
    }

    async fn enter(&self, process: &Process, ledger: &mut Ledger) {
        self.os.resume(process, ledger, "start-system-call").await;
        self.os.step(self.os.parameters.start_call + self.os.parameters.raid_driver, ledger, "start-system-call").await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_has_its_own_place_and_parity_goes_round() {
        let stripe = Bytes::kib(32);
        let mut seen = std::collections::HashSet::new();
        let mut parities = [0; 4];
        for unit in 0..120 {
            let home = home(stripe * unit, stripe, 4);
            assert!(home.data != home.parity);
            assert!(seen.insert((home.data, home.offset)));
            parities[home.parity] += 1;
        }
        assert_eq!(parities, [30; 4], "parity is spread evenly");
    }
}
