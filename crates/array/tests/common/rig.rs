//! An array without checksums, on disks of memory that take their time and fail when they are told to, and what is done
//! to it.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::{Consistency, SUPERBLOCK_AT, Superblock};
use array::{Array, OpenOptions, Repair, format};
use device::filter::{Delay, Faulty, Latency};
use device::{Buffer, Data, Device, MemoryDevice, Request, Shape};
use futures_util::future::{Either, select};
use runtime::Runtime;
use units::{Bytes, Duration};

use super::superblocks;

pub type Disk = Rc<Faulty<Delay<MemoryDevice>>>;
pub const CHUNK: Bytes = Bytes::kib(4);
/// Behind 2 MiB at most of metadata; a copy passes several marks on its way.
pub const SIZE: Bytes = Bytes::kib(2048 + 2400);
pub const BLOCK: Bytes = Bytes::kib(4);

pub fn disk(runtime: &Runtime, size: Bytes) -> Disk {
    let memory = MemoryDevice::new(runtime, Shape::new("disk", size));
    let delay = Delay::new(runtime, memory, Latency::Fixed(Duration::micros(20)), 1);
    Rc::new(Faulty::new(runtime, delay, 1))
}

pub const LEVELS: [(Level, usize, Consistency); 6] = [
    (Level::Raid1, 2, Consistency::Bitmap),
    (Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Ppl),
    (Level::Raid4, 3, Consistency::Ppl),
    (Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric)), 5, Consistency::Bitmap),
    (Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric)), 5, Consistency::Ppl),
    (Level::Raid10(Copies::near(2)), 3, Consistency::Bitmap),
];

pub fn disks(runtime: &Runtime, case: (Level, usize, Consistency)) -> Vec<Disk> {
    let superblocks = superblocks(case, CHUNK, SIZE, 1);
    let disks: Vec<Disk> = superblocks.iter().map(|_| disk(runtime, SIZE)).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    disks
}

pub fn open(runtime: &Runtime, disks: &[Disk]) -> Rc<Array<Disk>> {
    let opened = runtime.block_on(Array::open(runtime, "array", disks.to_vec(), OpenOptions::default()));
    Rc::new(opened.unwrap_or_else(|error| panic!("{error}")))
}

/// Waits so long for something and drops it, if it has not ended by then; says whether it has.
pub fn drop_after(runtime: &Runtime, time: Duration, it: impl Future) -> bool {
    runtime.block_on(async {
        let (it, instant) = (pin!(it), pin!(runtime.sleep(time)));
        matches!(select(it, instant).await, Either::Left(_))
    })
}

pub fn superblock(runtime: &Runtime, disk: &Disk) -> Superblock {
    let reply = runtime.block_on(disk.submit(Request::read(SUPERBLOCK_AT, Buffer::zeroed(Bytes::kib(4)))));
    Superblock::parse(reply.buffer.unwrap().bytes().unwrap()).unwrap()
}

pub fn edit(runtime: &Runtime, disk: &Disk, change: impl Fn(&mut Superblock)) {
    let mut superblock = superblock(runtime, disk);
    change(&mut superblock);
    let (bytes, mut buffer) = (superblock.to_bytes(), Buffer::zeroed(Bytes::kib(4)));
    buffer.bytes_mut().unwrap()[..bytes.len()].copy_from_slice(&bytes);
    runtime.block_on(disk.submit(Request::write(SUPERBLOCK_AT, buffer.freeze()))).result.unwrap();
}

pub fn block(value: u64) -> Data {
    let mut buffer = Buffer::zeroed(BLOCK);
    buffer.bytes_mut().unwrap().chunks_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
    buffer.freeze()
}

/// What was acknowledged for each block.
pub type Model = Rc<RefCell<Vec<u64>>>;

pub fn model(array: &Array<Disk>) -> Model {
    Rc::new(RefCell::new(vec![0; (array.geometry().size() / BLOCK) as usize]))
}

/// Writes all over the array until it is told to end.
pub fn load(
    runtime: &Runtime,
    array: &Rc<Array<Disk>>,
    model: &Model,
    ending: &Rc<Cell<bool>>,
) -> runtime::JoinHandle<()> {
    let (array, model, ending, own) = (Rc::clone(array), Rc::clone(model), Rc::clone(ending), runtime.clone());
    runtime.spawn(async move {
        let blocks = model.borrow().len() as u64;
        for round in 1u64.. {
            let number = round * 7919 % blocks;
            array.submit(Request::write(BLOCK * number, block(round))).await.result.unwrap();
            model.borrow_mut()[number as usize] = round;
            if round.is_multiple_of(40) {
                array.submit(Request::flush()).await.result.unwrap();
            }
            own.sleep(Duration::micros(50)).await;
            if ending.get() {
                return;
            }
        }
    })
}

/// Writes every block, from this value on.
pub fn write_all(runtime: &Runtime, array: &Array<Disk>, model: &Model, from: u64) {
    for (number, value) in model.borrow_mut().iter_mut().enumerate() {
        *value = from + number as u64;
        let request = Request::write(BLOCK * number as u64, block(*value));
        runtime.block_on(array.submit(request)).result.unwrap();
    }
}

pub fn assert_holds(runtime: &Runtime, array: &Array<Disk>, model: &Model) {
    for (number, value) in model.borrow().iter().enumerate() {
        let reply = runtime.block_on(array.submit(Request::read(BLOCK * number as u64, Buffer::zeroed(BLOCK))));
        reply.result.unwrap();
        assert_eq!(reply.buffer.unwrap().bytes(), block(*value).bytes(), "block {number}");
    }
}

pub fn fits(runtime: &Runtime, array: &Array<Disk>) {
    assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0);
}

/// Where the data of a new member begin.
pub fn data_offset(array: &Array<Disk>) -> Bytes {
    array.member_layout().unwrap().data_offset
}
