//! The RAID driver of the study: level 5, left-symmetric, in one row of disks.
//!
//! A read of a stripe unit goes to one disk. A write of less than a stripe reads the old data and the old parity, computes the new
//! parity, and writes both: four disk requests. This driver stands here, apart from everything else, until the array of this
//! project runs on modelled disks; it knows only how to map, and asks the operating system for the rest.

use std::rc::Rc;

use runtime::Runtime;
use units::Bytes;

use crate::adapter::Unit;
use crate::os::{Os, Process, command};
use crate::trace::{Ledger, PartId, Trace};

/// A row of disks as one device.
pub struct Raid5 {
    os: Rc<Os>,
    runtime: Runtime,
    trace: Trace,
    part: PartId,
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
    /// A row of at least three disks.
    pub fn new(runtime: &Runtime, trace: &Trace, os: &Rc<Os>, members: Vec<Rc<Unit>>, stripe: Bytes) -> Rc<Raid5> {
        assert!(members.len() >= 3, "parity needs at least three disks");
        Rc::new(Raid5 {
            os: Rc::clone(os),
            runtime: runtime.clone(),
            trace: trace.clone(),
            part: trace.part("raid"),
            members,
            stripe,
        })
    }

    /// Reads within one stripe unit.
    pub async fn read(&self, process: &Process, address: Bytes, bytes: Bytes, ledger: &mut Ledger) {
        let home = self.enter(process, address, bytes, ledger).await;
        self.os.block(process);
        self.os.kernel(&self.members[home.data], command(false, home.offset, bytes), ledger).await;
        self.os.resume(process, ledger, "before-copy").await;
        self.os.copy(process, bytes, ledger).await;
        self.os.step(self.os.parameters.finish, ledger, "finish").await;
    }

    /// Writes within one stripe unit: read, modify, write.
    pub async fn write(self: &Rc<Raid5>, process: &Process, address: Bytes, bytes: Bytes, ledger: &mut Ledger) {
        let home = self.enter(process, address, bytes, ledger).await;
        self.os.copy(process, bytes, ledger).await;
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

    async fn both(self: &Rc<Raid5>, home: Home, write: bool, bytes: Bytes) {
        let member = |disk: usize| {
            let (raid, order) = (Rc::clone(self), command(write, home.offset, bytes));
            self.runtime.spawn(async move {
                let mut ledger = raid.trace.open(raid.runtime.now());
                raid.os.kernel(&raid.members[disk], order, &mut ledger).await;
                ledger.close(raid.runtime.now());
            })
        };
        let (data, parity) = (member(home.data), member(home.parity));
        data.await;
        parity.await;
    }

    async fn enter(&self, process: &Process, address: Bytes, bytes: Bytes, ledger: &mut Ledger) -> Home {
        assert!(address % self.stripe + bytes <= self.stripe, "a request lies within one stripe unit");
        self.os.resume(process, ledger, "start-system-call").await;
        self.os.step(self.os.parameters.start_call + self.os.parameters.raid_driver, ledger, "start-system-call").await;
        home(address, self.stripe, self.members.len() as u64)
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
