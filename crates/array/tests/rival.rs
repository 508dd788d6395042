//! Two servers of one array, which know nothing of each other: here two arrays over the same memory.

use crate::common;

use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::{Consistency, SUPERBLOCK_AT, SUPERBLOCK_SIZE, Stamp, Superblock, Uuid};
use array::{Array, MemberState, OpenOptions, Repair, format};
use common::image::data;
use common::superblocks;
use device::filter::{Event, Recorder};
use device::{Buffer, Device, DeviceError, MemoryDevice, Operation, Request, Shape};
use futures_util::future::{join, select};
use runtime::Runtime;
use std::cell::Cell;
use std::pin::pin;
use units::{Bytes, Duration};

type Disk = Rc<Recorder<MemoryDevice, Box<dyn Fn(&Event)>>>;

/// Members, and how often superblocks are read of them.
fn members(runtime: &Runtime, level: Level, members: usize) -> (Vec<Disk>, Rc<Cell<u64>>) {
    let consistency = Consistency::Resync;
    let size = Bytes::mib(8);
    let superblocks = superblocks((level, members, consistency), Bytes::kib(64), size, 1);
    let reads = Rc::new(Cell::new(0));
    let disk = |_| {
        let reads = Rc::clone(&reads);
        let observe = move |event: &Event| {
            if event.ended.is_none() && event.operation == Operation::Read && event.offset == SUPERBLOCK_AT {
                reads.set(reads.get() + 1);
            }
        };
        let memory = MemoryDevice::new(runtime, Shape::new("disk", size));
        Rc::new(Recorder::new(runtime, memory, Box::new(observe) as Box<dyn Fn(&Event)>))
    };
    let disks: Vec<Disk> = (0..members).map(disk).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    (disks, reads)
}

fn open(runtime: &Runtime, disks: &[Disk], opened: u64) -> Array<Disk> {
    let array = Array::open(runtime, "array", disks.to_vec(), OpenOptions::default());
    let array = runtime.block_on(array).unwrap();
    array.look_out(Stamp(opened));
    array
}

fn write(runtime: &Runtime, array: &Array<Disk>) -> Result<(), DeviceError> {
    runtime.block_on(array.submit(Request::write(Bytes::ZERO, data(&[7; 4096])))).result
}

fn events(runtime: &Runtime, disks: &[Disk]) -> Vec<u64> {
    let read = |disk: &Disk| {
        let reply = runtime.block_on(disk.submit(Request::read(SUPERBLOCK_AT, Buffer::zeroed(SUPERBLOCK_SIZE))));
        Superblock::parse(reply.buffer.unwrap().bytes().unwrap()).unwrap().events
    };
    disks.iter().map(read).collect()
}

fn levels() -> [(Level, usize); 4] {
    let six = Level::Raid6(DoubleRotation::default());
    [(Level::Raid1, 2), (Level::Raid5(Rotation::LeftSymmetric), 4), (six, 5), (Level::Raid10(Copies::near(2)), 4)]
}

#[test]
fn who_finds_the_record_of_another_writes_nothing_more() {
    for (level, number) in levels() {
        let runtime = Runtime::simulated();
        let (disks, _) = members(&runtime, level, number);
        let (first, second) = (open(&runtime, &disks, 1), open(&runtime, &disks, 2));
        assert_eq!(write(&runtime, &first), Ok(()), "{level}");
        let before = events(&runtime, &disks);
        assert_eq!(write(&runtime, &second), Err(DeviceError::ReadOnly), "{level}");
        assert_eq!((first.rival(), second.rival()), (None, Some(Stamp(1))), "{level}");
        // Nor does anything else of it reach the members.
        assert_eq!(runtime.block_on(second.submit(Request::flush())).result, Err(DeviceError::ReadOnly), "{level}");
        assert_eq!(runtime.block_on(second.scrub(Repair::usual(true, level))), Err(DeviceError::ReadOnly), "{level}");
        assert_eq!(runtime.block_on(second.stop()), Err(DeviceError::ReadOnly), "{level}");
        assert_eq!(events(&runtime, &disks), before, "{level}");
        assert_eq!(write(&runtime, &first), Ok(()), "{level}");
        runtime.block_on(first.stop()).unwrap();
        assert_eq!(first.rival(), None, "{level}");
        // Whoever was stopped in time begins anew.
        let third = open(&runtime, &disks, 3);
        assert_eq!(write(&runtime, &third), Ok(()), "{level}");
        // At one instant, and each from the same: what they record differs by when they were opened.
        runtime.block_on(third.stop()).unwrap();
        let (one, other) = (open(&runtime, &disks, 4), open(&runtime, &disks, 5));
        let request = || Request::write(Bytes::ZERO, data(&[7; 4096]));
        runtime.block_on(join(one.submit(request()), other.submit(request())));
        assert!(
            write(&runtime, &one).is_err()
                || runtime.block_on(one.stop()).is_err()
                || runtime.block_on(other.stop()).is_err(),
            "{level}"
        );
    }
}

#[test]
fn an_array_that_is_being_written_finds_another_within_a_second() {
    for (level, number) in levels() {
        let runtime = Runtime::simulated();
        let (disks, reads) = members(&runtime, level, number);
        let first = open(&runtime, &disks, 1);
        assert_eq!(write(&runtime, &first), Ok(()), "{level}");
        // Opened dirty, it makes redundancy fit, as a server does; and would write.
        let second = open(&runtime, &disks, 2);
        runtime.block_on(second.resync()).unwrap();
        let serving = async {
            let mut writes = 0;
            while first.submit(Request::write(Bytes::ZERO, data(&[8; 4096]))).await.result.is_ok() {
                writes += 1;
                runtime.sleep(Duration::millis(10)).await;
            }
            writes
        };
        let writes = runtime.block_on(async {
            match select(pin!(serving), pin!(first.tend())).await {
                futures_util::future::Either::Left((writes, _)) => writes,
                futures_util::future::Either::Right(_) => unreachable!("tending never ends"),
            }
        });
        assert!((1..=101).contains(&writes), "{level}: {writes}");
        assert_eq!((first.rival(), second.rival()), (Some(Stamp(2)), None), "{level}");
        assert_eq!(write(&runtime, &second), Ok(()), "{level}");
        // What it costs: a read of each member in each second that something is written in, and none otherwise.
        let members = disks.len() as u64;
        reads.set(0);
        let ten_seconds = async {
            for _ in 0..100 {
                assert_eq!(second.submit(Request::write(Bytes::ZERO, data(&[9; 4096]))).await.result, Ok(()));
                runtime.sleep(Duration::millis(100)).await;
            }
            let busy = reads.take();
            runtime.sleep(Duration::seconds(60)).await;
            (busy, reads.get())
        };
        let (busy, idle) = runtime.block_on(async {
            match select(pin!(ten_seconds), pin!(second.tend())).await {
                futures_util::future::Either::Left((reads, _)) => reads,
                futures_util::future::Either::Right(_) => unreachable!("tending never ends"),
            }
        });
        assert!((9 * members..=10 * members).contains(&busy), "{level}: {busy}");
        // The last second's, and that of the clean mark.
        assert!(idle <= 2 * members, "{level}: {idle}");
    }
}

/// The power goes while members record that a spare is one of them now: they say so, and it says that it is a spare.
/// Nobody else did that.
#[test]
fn a_spare_whose_place_the_others_know_is_no_rival() {
    let runtime = Runtime::simulated();
    let five = Level::Raid5(Rotation::LeftSymmetric);
    let (disks, _) = members(&runtime, five, 4);
    let mut said = superblocks((five, 3, Consistency::Resync), Bytes::kib(64), Bytes::mib(8), 1);
    let spare = Superblock { number: 3, member: Uuid([9; 16]), ..said[0].clone() };
    for superblock in &mut said {
        superblock.events += 1;
        (superblock.roles[2], superblock.roles[3]) = (65534, 2);
    }
    said[2] = spare;
    runtime.block_on(format(&disks[..3], &said)).unwrap();
    let array = open(&runtime, &disks[..3], 5);
    assert_eq!(array.state(2), MemberState::Rebuilding(Bytes::ZERO));
    assert_eq!(runtime.block_on(array.resume_rebuild(2)), Ok(vec![]));
    assert_eq!((array.rival(), array.is_complete()), (None, true));
}
