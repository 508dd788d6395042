//! An array whose members keep checksums, on disks of memory that take their time, and what is done to it.

use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::{self, Consistency, Superblock};
use array::{Array, OpenOptions, Repair};
use array::{add_checksums, checksum_room, checksums_of, format};
use device::filter::{Damage, Delay, Faulty, Latency, Medium};
use device::{Buffer, Data, Device, MemoryDevice, Request, Shape};
use runtime::Runtime;
use units::{Bytes, Duration};

use super::superblocks;

pub const CHUNK: Bytes = Bytes::kib(16);
/// Of data on each member: sums of three pages, and an end within a region of sums, which is 64 KiB.
pub const ROOM: Bytes = Bytes::kib(1296);
pub const BLOCK: Bytes = Bytes::kib(4);

pub type Disk = Rc<Faulty<Medium<Delay<MemoryDevice>>>>;

pub const LEVELS: [(Level, usize, Consistency); 6] = [
    (Level::Raid1, 2, Consistency::Bitmap),
    (Level::Raid4, 3, Consistency::Resync),
    (Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric)), 4, Consistency::Ppl),
    (Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Ppl),
    (Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric)), 4, Consistency::Bitmap),
    (Level::Raid10(Copies::near(2)), 3, Consistency::Bitmap),
];

pub fn disk(runtime: &Runtime, size: Bytes) -> Disk {
    let memory = MemoryDevice::new(runtime, Shape::new("disk", size));
    let slow = Delay::new(runtime, memory, Latency::Uniform(Duration::micros(5), Duration::micros(60)), 1);
    Rc::new(Faulty::new(runtime, Medium::new(runtime, slow), 1))
}

/// An array whose members keep checksums, its disks in the order of their roles.
pub struct Bed {
    pub runtime: Runtime,
    pub disks: Vec<Disk>,
    pub data_offset: Bytes,
    pub case: (Level, usize, Consistency),
}

impl Bed {
    pub fn new(case: (Level, usize, Consistency)) -> Bed {
        Bed::with_room(case, Bytes::ZERO)
    }

    /// On disks that have so much room that the array does not use.
    pub fn with_room(case: (Level, usize, Consistency), more: Bytes) -> Bed {
        let runtime = Runtime::simulated();
        let size = Bytes::mib(2) + ROOM;
        let superblocks = superblocks(case, CHUNK, size, 1);
        let disks: Vec<Disk> = superblocks.iter().map(|_| disk(&runtime, size + checksum_room(size) + more)).collect();
        runtime.block_on(async {
            add_checksums(&disks, &superblocks).await.unwrap();
            format(&disks, &superblocks).await.unwrap();
        });
        Bed { runtime, disks, data_offset: superblocks[0].data_offset, case }
    }

    pub fn open(&self) -> Rc<Array<Disk>> {
        let opened = Array::open(&self.runtime, "array", self.disks.clone(), OpenOptions::default());
        let array = self.runtime.block_on(opened).unwrap_or_else(|error| panic!("{:?}: {error}", self.case));
        assert!(array.has_checksums());
        Rc::new(array)
    }

    /// A disk as large as the first.
    pub fn spare(&self) -> Disk {
        disk(&self.runtime, self.disks[0].shape().size)
    }

    /// Turns a bit over in a sector of a disk's data.
    pub fn rot(&self, disk: &Disk, sector: u64) {
        let at = self.data_offset + Bytes::SECTOR * sector;
        disk.inner().damage(at..at + Bytes::SECTOR, Damage::Flipped(77));
    }

    pub fn rotten(&self, disk: &Disk) -> usize {
        disk.inner().damaged().len()
    }

    pub fn stop(&self, array: Rc<Array<Disk>>) {
        self.runtime.block_on(array.stop()).unwrap();
    }

    pub fn superblock(&self, disk: &Disk) -> Superblock {
        let reply = self.runtime.block_on(disk.submit(Request::read(md::SUPERBLOCK_AT, Buffer::zeroed(BLOCK))));
        Superblock::parse(reply.buffer.unwrap().bytes().unwrap()).unwrap()
    }

    /// What a disk's sums were given up for, and how many regions of it are marked.
    pub fn renewed_and_open(&self, disk: &Disk) -> (u64, u64) {
        let report =
            self.runtime.block_on(checksums_of(disk, &self.superblock(disk))).unwrap().expect("there are sums");
        (report.renewed, report.open_regions)
    }

    pub fn scrubbed(&self, array: &Array<Disk>) -> Vec<u64> {
        let found = self.runtime.block_on(array.scrub(Repair::No)).unwrap();
        assert_eq!((found.mismatches, found.unreadable), (0, 0), "{:?}", self.case);
        found.corrupt
    }
}

pub fn block(value: u64) -> Data {
    let mut buffer = Buffer::zeroed(BLOCK);
    let mixed = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    buffer.bytes_mut().unwrap().chunks_mut(8).for_each(|word| word.copy_from_slice(&mixed.to_le_bytes()));
    buffer.freeze()
}

pub fn write(bed: &Bed, array: &Array<Disk>, number: u64, value: u64) {
    bed.runtime.block_on(array.submit(Request::write(BLOCK * number, block(value)))).result.unwrap();
}

pub fn fill(bed: &Bed, array: &Array<Disk>, from: u64) -> Vec<u64> {
    let blocks = array.geometry().size() / BLOCK;
    (0..blocks).for_each(|number| write(bed, array, number, from + number));
    (from..from + blocks).collect()
}

pub fn assert_holds(bed: &Bed, array: &Array<Disk>, values: &[u64]) {
    for (number, value) in values.iter().enumerate() {
        let reply = bed.runtime.block_on(array.submit(Request::read(BLOCK * number as u64, Buffer::zeroed(BLOCK))));
        reply.result.unwrap_or_else(|error| panic!("{:?}, block {number}: {error}", bed.case));
        assert!(reply.buffer.unwrap().bytes() == block(*value).bytes(), "{:?}, block {number} is wrong", bed.case);
    }
}
