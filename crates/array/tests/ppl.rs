//! The partial parity log: what it may say, and of whom.

mod common;

use std::rc::Rc;

use array::geometry::{Level, Rotation};
use array::md::{Consistency, Uuid};
use array::{Array, OpenOptions, format};
use common::superblocks;
use device::{Buffer, Data, Device, MemoryDevice, Request, Shape};
use runtime::Runtime;
use units::Bytes;

type Disk = Rc<MemoryDevice>;
const CHUNK: Bytes = Bytes::kib(4);
const SIZE: Bytes = Bytes::mib(3);
const FIVE: Level = Level::Raid5(Rotation::LeftSymmetric);

fn disks(runtime: &Runtime, case: (Level, usize, Consistency)) -> Vec<Disk> {
    let superblocks = superblocks(case, CHUNK, SIZE, 1);
    let disk = |_| Rc::new(MemoryDevice::new(runtime, Shape::new("disk", SIZE)));
    let disks: Vec<Disk> = superblocks.iter().map(disk).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    disks
}

fn open(runtime: &Runtime, disks: &[Disk]) -> Result<Array<Disk>, String> {
    let opened = runtime.block_on(Array::open(runtime, "array", disks.to_vec(), OpenOptions::default()));
    opened.map_err(|error| error.to_string())
}

fn filled(fill: u8) -> Data {
    let mut buffer = Buffer::zeroed(CHUNK);
    buffer.bytes_mut().unwrap().fill(fill);
    buffer.freeze()
}

/// Writes a data chunk of a row.
fn write(runtime: &Runtime, array: &Array<Disk>, row: u64, index: u64, fill: u8) {
    let at = array.geometry().stripe_size() * row + CHUNK * index;
    runtime.block_on(array.submit(Request::write(at, filled(fill)))).result.unwrap();
}

fn chunk(runtime: &Runtime, array: &Array<Disk>, row: u64, index: u64) -> u8 {
    let at = array.geometry().stripe_size() * row + CHUNK * index;
    let reply = runtime.block_on(array.submit(Request::read(at, Buffer::zeroed(CHUNK))));
    reply.result.unwrap();
    let buffer = reply.buffer.unwrap();
    let bytes = buffer.bytes().unwrap();
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a mixture in row {row}, chunk {index}");
    bytes[0]
}

#[test]
fn a_device_that_comes_back_brings_no_old_log_with_it() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, (FIVE, 4, Consistency::Ppl));
    // Rows whose parity is on member 1.
    let rows = || (2..80).step_by(4);
    let array = open(&runtime, &disks).unwrap();
    rows().for_each(|row| write(&runtime, &array, row, 0, 1));
    runtime.block_on(array.stop()).unwrap();
    // It is away while other chunks of these rows change.
    let others = [disks[0].clone(), disks[2].clone(), disks[3].clone()];
    let array = open(&runtime, &others).unwrap();
    rows().for_each(|row| write(&runtime, &array, row, 1, 2));
    runtime.block_on(array.stop()).unwrap();
    // It is filled again, and its log begins with one entry, behind which the old ones would go on.
    let array = open(&runtime, &others).unwrap();
    let data_offset = superblocks((FIVE, 4, Consistency::Ppl), CHUNK, SIZE, 1)[0].data_offset;
    runtime.block_on(array.rebuild(1, disks[1].clone(), data_offset, Uuid([9; 16]))).unwrap();
    write(&runtime, &array, 2, 0, 3);
    drop(array);
    // Member 3 has the chunks that changed, and is lost with the power.
    let array = open(&runtime, &disks[..3]).unwrap();
    assert!(rows().all(|row| chunk(&runtime, &array, row, 1) == 2), "computed by an entry of before");
}
