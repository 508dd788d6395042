//! What a journal alone holds is not lost: neither when it fails, nor when the power does while what Linux left in it
//! is brought to the members, or somebody was dropped, or two were at its superblock at once.

use crate::common;

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use array::geometry::{Level, Rotation};
use array::md::{Consistency, JournalBlock, JournalPayload, SUPERBLOCK_AT, Superblock};
use array::{Array, MemberState, OpenError, OpenOptions, Repair, format};
use device::filter::{Delay, Effect, Faulty, Latency, Rule, WriteCache};
use device::{Buffer, Data, Device, DeviceError, MemoryDevice, Operation, Reply, Request, Shape};
use futures_util::future::{Either, select};
use runtime::Runtime;
use units::{Bytes, Duration};

const SIZE: Bytes = Bytes::mib(4);
const BLOCK: Bytes = Bytes::kib(4);

type Disk = Rc<Faulty<WriteCache<MemoryDevice>>>;

fn disk(runtime: &Runtime) -> Disk {
    let memory = MemoryDevice::new(runtime, Shape::new("disk", SIZE));
    Rc::new(Faulty::new(runtime, WriteCache::new(runtime, memory), 1))
}

fn block(value: u8) -> Data {
    let mut buffer = Buffer::zeroed(BLOCK);
    buffer.bytes_mut().unwrap().fill(value);
    buffer.freeze()
}

/// The journal does not take the record that a member has failed. Were the members to go on without it, it would be two
/// records behind, and stale.
#[test]
fn what_a_journal_holds_is_on_the_members_before_they_record_what_it_does_not_know() {
    let runtime = Runtime::simulated();
    let level = Level::Raid5(Rotation::LeftSymmetric);
    let superblocks = common::superblocks((level, 4, Consistency::Journal), Bytes::kib(4), SIZE, 1);
    let disks: Vec<Disk> = superblocks.iter().map(|_| disk(&runtime)).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    runtime.block_on(async {
        for disk in &disks {
            disk.submit(Request::flush()).await.result.unwrap();
        }
    });
    let open = |disks: &[Disk]| {
        let options = OpenOptions { force_dirty_degraded: true };
        runtime.block_on(Array::open(&runtime, "array", disks.to_vec(), options)).unwrap()
    };
    let array = open(&disks);
    let at = |number: u64| BLOCK * number;
    runtime.block_on(async {
        for number in 0..6 {
            array.submit(Request::write(at(number), block(number as u8 + 1))).await.result.unwrap();
        }
        array.submit(Request::flush()).await.result.unwrap();
    });
    let unflushed = |number: usize| disks[number].inner().unflushed().len();
    assert!((0..3).all(|member| unflushed(member) > 0), "the journal alone has made it durable");

    disks[3].add(Rule::new(Effect::Vanish).on(Operation::Write).within(SUPERBLOCK_AT..SUPERBLOCK_AT + BLOCK));
    array.fail(0);
    // It makes nothing durable itself, but waits until the others have said who has failed.
    runtime.block_on(array.submit(Request::flush())).result.unwrap();
    assert!(array.has_lost_journal());
    drop(array);

    runtime.block_on(async {
        for disk in &disks {
            disk.clear_rules();
            disk.inner().cut(|_, _| false).await.unwrap();
        }
    });
    let array = open(&disks);
    for number in 0..6 {
        let reply = runtime.block_on(array.submit(Request::read(at(number), Buffer::zeroed(BLOCK))));
        reply.result.unwrap();
        assert!(reply.buffer.unwrap().bytes() == block(number as u8 + 1).bytes(), "block {number} is lost");
    }
}

/// A disk that takes its time for what is durable, and forgets the rest with the power.
type Volatile = Rc<WriteCache<Delay<MemoryDevice>>>;

/// An array of four members and a journal, each of whose blocks has its number, stopped.
fn stopped(runtime: &Runtime, blocks: u64) -> (Vec<Volatile>, Vec<Superblock>) {
    let level = Level::Raid5(Rotation::LeftSymmetric);
    let superblocks = common::superblocks((level, 5, Consistency::Journal), BLOCK, SIZE, 1);
    let disk = || {
        let memory = MemoryDevice::new(runtime, Shape::new("disk", SIZE));
        let delay = Delay::new(runtime, memory, Latency::Fixed(Duration::micros(20)), 1);
        Rc::new(WriteCache::new(runtime, delay))
    };
    let disks: Vec<Volatile> = superblocks.iter().map(|_| disk()).collect();
    runtime.block_on(async {
        format(&disks, &superblocks).await.unwrap();
        let array = Array::open(runtime, "array", disks.clone(), OpenOptions::default()).await.unwrap();
        for number in 0..blocks {
            array.submit(Request::write(BLOCK * number, block(number as u8))).await.result.unwrap();
        }
        array.stop().await.unwrap();
    });
    (disks, superblocks)
}

/// What a block holds in the log.
fn newer(number: u64) -> u8 {
    (100 + number % 100) as u8
}

/// What md leaves in its log in write-back mode: new data of these blocks without parity, in meta blocks of so many.
fn leave_without_parity(runtime: &Runtime, journal: &Volatile, blocks: &[u64], in_one: usize) {
    let read = |at: Bytes| runtime.block_on(journal.submit(Request::read(at, Buffer::zeroed(BLOCK)))).buffer.unwrap();
    let superblock = Superblock::parse(read(SUPERBLOCK_AT).bytes().unwrap()).unwrap();
    let tail = Bytes::SECTOR * superblock.recovery;
    let empty = read(superblock.data_offset + tail);
    let empty = JournalBlock::parse(empty.bytes().unwrap(), superblock.array).unwrap();
    assert!(empty.payloads.is_empty(), "it was stopped");
    let mut log = Vec::new();
    for (few, sequence) in blocks.chunks(in_one).zip(empty.sequence + 1..) {
        let position = tail + BLOCK + Bytes::new(log.len() as u64);
        let sum = |number: u64| JournalBlock::checksum(superblock.array, block(newer(number)).bytes().unwrap());
        let of = |number: &u64| JournalPayload::Data { at: BLOCK * *number, checksums: vec![sum(*number)] };
        let meta = JournalBlock { sequence, position, payloads: few.iter().map(of).collect() };
        log.extend(meta.to_bytes(superblock.array).unwrap());
        few.iter().for_each(|number| log.extend_from_slice(block(newer(*number)).bytes().unwrap()));
    }
    let mut pages = Buffer::zeroed(Bytes::new(log.len() as u64));
    pages.bytes_mut().unwrap().copy_from_slice(&log);
    let request = Request::write(superblock.data_offset + tail + BLOCK, pages.freeze()).with_fua();
    runtime.block_on(journal.submit(request)).result.unwrap();
}

/// The power goes after ever longer times, at last after all is done, and what is not durable stays by halves.
#[test]
fn what_linux_left_without_parity_survives_a_power_cut_while_it_is_written() {
    const BLOCKS: u64 = 24;
    let new = [1, 5, 6, 7, 14, 22];
    let mut cuts = 0;
    for halves in 0..3 {
        for micros in (1..).step_by(13) {
            let runtime = Runtime::simulated();
            let (disks, _) = stopped(&runtime, BLOCKS);
            leave_without_parity(&runtime, &disks[4], &new, 2);
            let opening = {
                let (own, disks) = (runtime.clone(), disks.clone());
                runtime.spawn(async move { Array::open(&own, "array", disks, OpenOptions::default()).await.is_ok() })
            };
            runtime.block_on(runtime.sleep(Duration::micros(micros)));
            let done = opening.take().is_some();
            runtime.clear();
            for disk in &disks {
                runtime.block_on(disk.cut(|write, _| halves == 2 || write.write % 2 == halves)).unwrap();
            }
            let array =
                runtime.block_on(Array::open(&runtime, "array", disks.clone(), OpenOptions::default())).unwrap();
            for number in 0..BLOCKS {
                let reply = runtime.block_on(array.submit(Request::read(BLOCK * number, Buffer::zeroed(BLOCK))));
                reply.result.unwrap();
                let value = if new.contains(&number) { newer(number) } else { number as u8 };
                let holds = reply.buffer.unwrap().bytes() == block(value).bytes();
                assert!(holds, "block {number}, power lost after {micros} us");
            }
            assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0, "after {micros} us");
            cuts += 1;
            if done {
                break;
            }
        }
    }
    assert!(cuts > 30, "{cuts} cuts");
}

/// Of what stays in the log until it is written, there may be more than finds room there a second time.
#[test]
fn a_journal_that_is_full_of_what_has_no_parity_is_left_as_it_is() {
    let runtime = Runtime::simulated();
    let (disks, superblocks) = stopped(&runtime, 1);
    let size = superblocks[4].data_size;
    // A third of it, and what says so; to stay in the log each takes two more.
    let many: Vec<u64> = (0..size / BLOCK / 3).collect();
    leave_without_parity(&runtime, &disks[4], &many, 16);
    let superblock = || {
        let reply = runtime.block_on(disks[4].submit(Request::read(SUPERBLOCK_AT, Buffer::zeroed(BLOCK))));
        Superblock::parse(reply.buffer.unwrap().bytes().unwrap()).unwrap()
    };
    let tail = superblock().recovery;
    let opened = runtime.block_on(Array::open(&runtime, "array", disks.clone(), OpenOptions::default()));
    assert!(matches!(opened, Err(OpenError::JournalFull { .. })), "{:?}", opened.map(|_| ()));
    assert_eq!(superblock().recovery, tail, "the log begins where it did");
}

#[test]
fn what_is_logged_behind_a_write_that_was_dropped_is_found() {
    let mut dropped = 0;
    for micros in (1..120).step_by(4) {
        let runtime = Runtime::simulated();
        let (disks, _) = stopped(&runtime, 12);
        let array = runtime.block_on(Array::open(&runtime, "array", disks.clone(), OpenOptions::default())).unwrap();
        runtime.block_on(async {
            {
                let write = pin!(array.submit(Request::write(BLOCK * 20, block(99))));
                let instant = pin!(runtime.sleep(Duration::micros(micros)));
                dropped += u64::from(matches!(select(write, instant).await, Either::Right(_)));
            }
            for number in 0..12 {
                array.submit(Request::write(BLOCK * number, block(newer(number)))).await.result.unwrap();
            }
        });
        drop(array);
        for disk in &disks {
            runtime.block_on(disk.cut(|_, _| false)).unwrap();
        }
        let array = runtime.block_on(Array::open(&runtime, "array", disks.clone(), OpenOptions::default())).unwrap();
        for number in 0..12 {
            let reply = runtime.block_on(array.submit(Request::read(BLOCK * number, Buffer::zeroed(BLOCK))));
            assert!(
                reply.result.is_ok() && reply.buffer.unwrap().bytes() == block(newer(number)).bytes(),
                "block {number}, dropped after {micros} us"
            );
        }
    }
    assert!(dropped > 5, "{dropped}");
}

/// A journal whose next superblock arrives late, as on a device that orders nothing, once its log begins anew: when a
/// single block is logged.
struct Late {
    runtime: Runtime,
    inner: WriteCache<MemoryDevice>,
    begins_anew: Cell<bool>,
    late: Cell<bool>,
}

impl Device for Late {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }
    async fn submit(&self, request: Request) -> Reply {
        let is_superblock = request.offset == SUPERBLOCK_AT;
        let takes = match request.operation {
            Operation::Write if is_superblock && self.late.take() => Duration::millis(5),
            Operation::Write if !is_superblock && request.fua && request.length == BLOCK => {
                self.begins_anew.set(true);
                Duration::millis(1)
            }
            _ => Duration::micros(20),
        };
        self.runtime.sleep(takes).await;
        self.inner.submit(request).await
    }
}

#[test]
fn of_two_superblocks_of_a_journal_the_newer_is_written_last() {
    const BLOCKS: u64 = 90;
    let runtime = Runtime::simulated();
    let level = Level::Raid5(Rotation::LeftSymmetric);
    let superblocks = common::superblocks((level, 5, Consistency::Journal), BLOCK, SIZE, 1);
    let disk = || {
        let inner = WriteCache::new(&runtime, MemoryDevice::new(&runtime, Shape::new("disk", SIZE)));
        Rc::new(Late { runtime: runtime.clone(), inner, begins_anew: Cell::new(false), late: Cell::new(false) })
    };
    let disks: Vec<Rc<Late>> = superblocks.iter().map(|_| disk()).collect();
    let open = || {
        let options = OpenOptions { force_dirty_degraded: true };
        Rc::new(runtime.block_on(Array::open(&runtime, "array", disks.clone(), options)).unwrap())
    };
    runtime.block_on(async {
        format(&disks, &superblocks).await.unwrap();
        for disk in &disks {
            disk.submit(Request::flush()).await.result.unwrap();
        }
    });
    let array = open();
    let (journal, mut model) = (&disks[4], vec![0u8; BLOCKS as usize]);
    journal.begins_anew.set(false);
    let write = |round: u64, model: &mut [u8]| {
        let (array, number) = (Rc::clone(&array), round * 7 % BLOCKS);
        model[number as usize] = round as u8;
        runtime.spawn(async move { array.submit(Request::write(BLOCK * number, block(round as u8))).await.result })
    };
    let mut rounds = 1..;
    // Until the log is full.
    let last = loop {
        let write = write(rounds.next().expect("there are enough"), &mut model);
        runtime.block_on(runtime.sleep(Duration::micros(200)));
        match write.take() {
            Some(result) => result.unwrap(),
            None if journal.begins_anew.get() => break write,
            None => panic!("a write takes less"),
        }
    };
    // Another record meanwhile, whose superblock of the journal is on its way for longer than the log takes to begin
    // anew.
    journal.late.set(true);
    array.fail(0);
    runtime.block_on(array.submit(Request::flush())).result.unwrap();
    runtime.block_on(last).unwrap();
    for round in rounds.take(6) {
        runtime.block_on(write(round, &mut model)).unwrap();
    }
    drop(array);
    for disk in &disks {
        runtime.block_on(disk.inner.cut(|_, _| false)).unwrap();
    }
    let array = open();
    for (number, value) in model.iter().enumerate() {
        let reply = runtime.block_on(array.submit(Request::read(BLOCK * number as u64, Buffer::zeroed(BLOCK))));
        let holds = reply.result == Ok::<(), DeviceError>(()) && reply.buffer.unwrap().bytes() == block(*value).bytes();
        assert!(holds, "block {number} was acknowledged");
    }
}

#[test]
fn who_cannot_make_what_is_replayed_durable_is_recorded_before_the_log_forgets_it() {
    let runtime = Runtime::simulated();
    let level = Level::Raid5(Rotation::LeftSymmetric);
    let superblocks = common::superblocks((level, 4, Consistency::Journal), BLOCK, SIZE, 1);
    let disks: Vec<Disk> = superblocks.iter().map(|_| disk(&runtime)).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    let open = || runtime.block_on(Array::open(&runtime, "array", disks.clone(), OpenOptions::default())).unwrap();
    let cut = || {
        for disk in &disks {
            disk.clear_rules();
            runtime.block_on(disk.inner().cut(|_, _| false)).unwrap();
        }
    };
    let holds = |array: &Array<Disk>, when: &str| {
        for number in 0..6 {
            let reply = runtime.block_on(array.submit(Request::read(BLOCK * number, Buffer::zeroed(BLOCK))));
            let holds = reply.result.is_ok() && reply.buffer.unwrap().bytes() == block(newer(number)).bytes();
            assert!(holds, "block {number}, {when}");
        }
    };
    let array = open();
    for number in 0..6 {
        runtime.block_on(array.submit(Request::write(BLOCK * number, block(newer(number))))).result.unwrap();
    }
    drop(array);
    cut();
    let error = DeviceError::Kernel { errno: 5 };
    disks[0].add(Rule::new(Effect::Fail(error)).on(Operation::Flush));
    let array = open();
    assert_eq!(array.state(0), MemberState::Failed);
    holds(&array, "without the one that failed");
    drop(array);
    cut();
    holds(&open(), "after another power cut");
}
