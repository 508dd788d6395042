//! What scenarios are played on: an array with known contents, its disks at hand.

use std::future::Future;
use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::{Consistency, SUPERBLOCK_AT, SUPERBLOCK_SIZE, Superblock};
use array::{Array, MemberState, OpenError, OpenOptions, Repair, Scrubbed};
use device::{Buffer, Device, DeviceError, Request};
use units::Bytes;

use crate::bug::data_of;
use crate::disk::Disk;
use crate::oracle::sectors_of;
use crate::recovery::look;
use crate::world::World;

pub const FIVE: Level = Level::Raid5(Rotation::LeftSymmetric);

/// Levels with redundancy and so many members.
pub fn redundant() -> Vec<(Level, usize)> {
    let six = Level::Raid6(DoubleRotation::default());
    vec![(Level::Raid1, 2), (Level::Raid4, 4), (FIVE, 4), (six, 5), (Level::Raid10(Copies::near(2)), 4)]
}

/// A world and its array.
pub struct Stage {
    pub world: World,
    array: Option<Array<Rc<Disk>>>,
}

/// An error unless it holds.
pub fn must(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

impl Stage {
    /// An array whose every sector has a value of its own.
    pub fn new(level: Level, members: usize, consistency: Consistency, checksums: bool) -> Result<Stage, String> {
        let mut stage = Stage { world: World::of(level, members, consistency, checksums), array: None };
        stage.reopen().map_err(|error| format!("a new array does not open: {error}"))?;
        let sectors = stage.world.oracle.borrow().sectors();
        stage.write(0, sectors).map_err(|error| format!("a new array is not written: {error}"))?;
        stage.flush()?;
        Ok(stage)
    }

    pub fn array(&self) -> &Array<Rc<Disk>> {
        self.array.as_ref().expect("the array is open")
    }
    pub fn disk(&self, member: usize) -> Rc<Disk> {
        Rc::clone(&self.world.disks.borrow()[member])
    }
    /// Where a sector of a member's data is on its disk.
    pub fn at(&self, sector: u64) -> std::ops::Range<Bytes> {
        let at = self.world.data_offset + Bytes::SECTOR * sector;
        at..at + Bytes::SECTOR
    }
    pub fn state(&self, member: usize) -> MemberState {
        self.array().state(member)
    }
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.world.runtime.block_on(work)
    }

    /// Writes sectors, each with one new value for all of them.
    pub fn write(&self, first: u64, count: u64) -> Result<(), DeviceError> {
        let value = self.world.oracle.borrow_mut().fresh();
        self.world.oracle.borrow_mut().may_write(first..first + count, value);
        let request = Request::write(Bytes::SECTOR * first, data_of(&sectors_of(value, count)));
        self.wait(self.array().submit(request)).result
    }
    /// All that was written is durable.
    pub fn flush(&self) -> Result<(), String> {
        self.wait(self.array().submit(Request::flush())).result.map_err(|error| format!("a flush failed: {error}"))?;
        let mut oracle = self.world.oracle.borrow_mut();
        let all = 0..oracle.sectors();
        let newest = oracle.newest(all.clone());
        oracle.must_hold(all, &newest);
        Ok(())
    }
    pub fn read(&self, first: u64, count: u64) -> Result<Vec<u8>, DeviceError> {
        let request = Request::read(Bytes::SECTOR * first, Buffer::zeroed(Bytes::SECTOR * count));
        let reply = self.wait(self.array().submit(request));
        reply.result?;
        Ok(reply.buffer.expect("a read gives its buffer back").bytes().expect("it is real").to_vec())
    }
    /// Everything is what was written last.
    pub fn reads_well(&self) -> Result<(), String> {
        let sectors = self.world.oracle.borrow().sectors();
        let bytes = self.read(0, sectors).map_err(|error| format!("reading everything failed: {error}"))?;
        self.world.oracle.borrow().is_newest(0, &bytes)
    }
    pub fn scrub(&self, repair: Repair) -> Result<Scrubbed, String> {
        self.wait(self.array().scrub(repair)).map_err(|error| format!("the scrub failed: {error}"))
    }
    /// Another disk takes a failed member's place.
    pub fn rebuild(&self, member: usize, fresh: Rc<Disk>) -> Result<Vec<std::ops::Range<Bytes>>, DeviceError> {
        self.world.disks.borrow_mut()[member] = Rc::clone(&fresh);
        self.wait(self.array().rebuild(member, fresh, self.world.data_offset, self.world.identity()))
    }

    /// The array is stopped in order.
    pub fn stop(&mut self) -> Result<(), String> {
        self.wait(self.array().stop()).map_err(|error| format!("the array does not stop: {error}"))?;
        self.array = None;
        Ok(())
    }
    /// The power goes and comes back.
    pub fn cut(&mut self) {
        self.array = None;
        self.world.cut();
    }

    pub fn open(&self, disks: Vec<Rc<Disk>>, force: bool) -> Result<Array<Rc<Disk>>, OpenError> {
        let options = OpenOptions { force_dirty_degraded: force };
        self.wait(Array::open(&self.world.runtime, "array", disks, options))
    }
    /// Opens the array of all disks that are there.
    pub fn reopen(&mut self) -> Result<(), OpenError> {
        self.array = None;
        let gone = self.world.gone.borrow().clone();
        let disks = self.world.disks.borrow().clone().into_iter().enumerate();
        let there = disks.filter(|(member, _)| !gone.contains(member)).map(|(_, disk)| disk).collect();
        self.array = Some(self.open(there, false)?);
        Ok(())
    }
    /// After a cut: redundancy is made to fit, and every sector has one of its values.
    pub fn recovers(&self) -> Result<(), String> {
        self.wait(self.array().resync()).map_err(|error| format!("the resync failed: {error}"))?;
        self.wait(look(&self.world, self.array()))
    }

    /// Changes what a disk's superblock says.
    pub fn edit(&self, disk: &Rc<Disk>, change: impl Fn(&mut Superblock)) {
        let read = Request::read(SUPERBLOCK_AT, Buffer::zeroed(SUPERBLOCK_SIZE));
        let buffer = self.wait(disk.submit(read)).buffer.expect("a read gives its buffer back");
        let mut it = Superblock::parse(buffer.bytes().expect("it is real")).expect("a member has a superblock");
        change(&mut it);
        let write = Request::write(SUPERBLOCK_AT, data_of(&it.to_bytes()));
        self.wait(disk.submit(write)).result.expect("a sound disk takes its superblock");
    }
}
