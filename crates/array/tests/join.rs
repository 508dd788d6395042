//! What joins an array while it serves: replacements, spares, members that were away, room that has grown.

mod common;

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::{Consistency, Features, SUPERBLOCK_AT, Superblock, Uuid};
use array::{Array, GrowError, MemberState, OpenError, OpenOptions, Repair, format};
use common::superblocks;
use device::filter::{Delay, Effect, Faulty, Latency, Rule};
use device::{Buffer, Data, Device, DeviceError, MemoryDevice, Operation, Reply, Request, Shape};
use futures_util::future::{Either, select};
use runtime::Runtime;
use units::{Bytes, Duration, Instant};

type Disk = Rc<Faulty<Delay<MemoryDevice>>>;
const CHUNK: Bytes = Bytes::kib(4);
/// Behind 2 MiB at most of metadata; a copy passes several marks on its way.
const SIZE: Bytes = Bytes::kib(2048 + 2400);
const BLOCK: Bytes = Bytes::kib(4);

fn disk(runtime: &Runtime, size: Bytes) -> Disk {
    let memory = MemoryDevice::new(runtime, Shape::new("disk", size));
    let delay = Delay::new(runtime, memory, Latency::Fixed(Duration::micros(20)), 1);
    Rc::new(Faulty::new(runtime, delay, 1))
}

const LEVELS: [(Level, usize, Consistency); 6] = [
    (Level::Raid1, 2, Consistency::Bitmap),
    (Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Ppl),
    (Level::Raid4, 3, Consistency::Ppl),
    (Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric)), 5, Consistency::Bitmap),
    (Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric)), 5, Consistency::Ppl),
    (Level::Raid10(Copies::near(2)), 3, Consistency::Bitmap),
];

fn disks(runtime: &Runtime, case: (Level, usize, Consistency)) -> Vec<Disk> {
    let superblocks = superblocks(case, CHUNK, SIZE, 1);
    let disks: Vec<Disk> = superblocks.iter().map(|_| disk(runtime, SIZE)).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    disks
}

fn open(runtime: &Runtime, disks: &[Disk]) -> Rc<Array<Disk>> {
    let opened = runtime.block_on(Array::open(runtime, "array", disks.to_vec(), OpenOptions::default()));
    Rc::new(opened.unwrap_or_else(|error| panic!("{error}")))
}

fn superblock(runtime: &Runtime, disk: &Disk) -> Superblock {
    let reply = runtime.block_on(disk.submit(Request::read(SUPERBLOCK_AT, Buffer::zeroed(Bytes::kib(4)))));
    Superblock::parse(reply.buffer.unwrap().bytes().unwrap()).unwrap()
}

fn edit(runtime: &Runtime, disk: &Disk, change: impl Fn(&mut Superblock)) {
    let mut superblock = superblock(runtime, disk);
    change(&mut superblock);
    let (bytes, mut buffer) = (superblock.to_bytes(), Buffer::zeroed(Bytes::kib(4)));
    buffer.bytes_mut().unwrap()[..bytes.len()].copy_from_slice(&bytes);
    runtime.block_on(disk.submit(Request::write(SUPERBLOCK_AT, buffer.freeze()))).result.unwrap();
}

fn block(value: u64) -> Data {
    let mut buffer = Buffer::zeroed(BLOCK);
    buffer.bytes_mut().unwrap().chunks_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
    buffer.freeze()
}

/// What was acknowledged for each block.
type Model = Rc<RefCell<Vec<u64>>>;

fn model(array: &Array<Disk>) -> Model {
    Rc::new(RefCell::new(vec![0; (array.geometry().size() / BLOCK) as usize]))
}

/// Writes all over the array until it is told to end.
fn load(runtime: &Runtime, array: &Rc<Array<Disk>>, model: &Model, ending: &Rc<Cell<bool>>) -> runtime::JoinHandle<()> {
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
fn write_all(runtime: &Runtime, array: &Array<Disk>, model: &Model, from: u64) {
    for (number, value) in model.borrow_mut().iter_mut().enumerate() {
        *value = from + number as u64;
        let request = Request::write(BLOCK * number as u64, block(*value));
        runtime.block_on(array.submit(request)).result.unwrap();
    }
}

fn assert_holds(runtime: &Runtime, array: &Array<Disk>, model: &Model) {
    for (number, value) in model.borrow().iter().enumerate() {
        let reply = runtime.block_on(array.submit(Request::read(BLOCK * number as u64, Buffer::zeroed(BLOCK))));
        reply.result.unwrap();
        assert_eq!(reply.buffer.unwrap().bytes(), block(*value).bytes(), "block {number}");
    }
}

fn fits(runtime: &Runtime, array: &Array<Disk>) {
    assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0);
}

/// Where the data of a new member begin.
fn data_offset(array: &Array<Disk>) -> Bytes {
    array.member_layout().unwrap().data_offset
}

#[test]
fn a_member_is_replaced_under_load_without_losing_redundancy() {
    for case in LEVELS {
        let runtime = Runtime::simulated();
        let mut disks = disks(&runtime, case);
        let array = open(&runtime, &disks);
        let (model, ending) = (model(&array), Rc::new(Cell::new(false)));
        let writer = load(&runtime, &array, &model, &ending);
        // What the old one cannot give is computed; a write elsewhere may have mended it before.
        let lost = data_offset(&array) + Bytes::kib(80)..data_offset(&array) + Bytes::kib(96);
        let medium = DeviceError::Medium { offset: lost.start, length: lost.end - lost.start };
        disks[1].add(Rule::new(Effect::Fail(medium)).on(Operation::Read).within(lost));
        let new = disk(&runtime, SIZE);
        let offset = data_offset(&array);
        let copied = runtime.block_on(array.replace(1, Rc::clone(&new), offset, Uuid([9; 16])));
        assert_eq!(copied.unwrap(), [], "{case:?}");
        ending.set(true);
        runtime.block_on(writer);
        assert!((0..case.1).all(|member| array.state(member) == MemberState::Active), "{case:?}");
        let old = std::mem::replace(&mut disks[1], new);
        assert_holds(&runtime, &array, &model);
        fits(&runtime, &array);
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        // The old one is a member no more, even if it is named.
        disks.push(old);
        let array = open(&runtime, &disks);
        assert!(Rc::ptr_eq(&*array.device(1).unwrap(), &disks[1]), "{case:?}");
        assert_holds(&runtime, &array, &model);
        array.fail(0);
        assert_holds(&runtime, &array, &model);
    }
}

#[test]
fn a_replacement_that_was_ended_goes_on_where_it_was() {
    for case in LEVELS {
        // The mark as it was recorded; somewhere in a unit, as md's are; and behind the end, where nothing can be believed of it.
        for (without_old, further) in [(false, 0), (true, 0), (false, 3), (true, 3), (true, 1 << 40)] {
            let runtime = Runtime::simulated();
            let mut disks = disks(&runtime, case);
            let array = open(&runtime, &disks);
            let (model, ending) = (model(&array), Rc::new(Cell::new(false)));
            let writer = load(&runtime, &array, &model, &ending);
            let new = disk(&runtime, SIZE);
            array.watch(|progress| progress.done < progress.of / 2);
            let offset = data_offset(&array);
            runtime.block_on(array.replace(1, Rc::clone(&new), offset, Uuid([9; 16]))).unwrap();
            ending.set(true);
            runtime.block_on(writer);
            assert_eq!(array.replacing().map(|(member, _)| member), Some(1), "{case:?}");
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            edit(&runtime, &new, |superblock| superblock.recovery += further);
            let old = std::mem::replace(&mut disks[1], new);
            if without_old {
                // It is the member now, as far as it is filled.
                let array = open(&runtime, &disks);
                let MemberState::Rebuilding(upto) = array.state(1) else { panic!("{case:?}") };
                assert_eq!(upto.is_zero(), further > 3, "{case:?}: {upto}");
                assert_holds(&runtime, &array, &model);
                write_all(&runtime, &array, &model, 1 << 32);
                assert_eq!(runtime.block_on(array.resume_rebuild(1)).unwrap(), []);
                fits(&runtime, &array);
                assert_holds(&runtime, &array, &model);
            } else {
                disks.push(old);
                let array = open(&runtime, &disks);
                assert_eq!(array.replacing().map(|(member, _)| member), Some(1));
                assert_eq!(array.state(1), MemberState::Active);
                write_all(&runtime, &array, &model, 1 << 32);
                assert_eq!(runtime.block_on(array.resume_replace(1)).unwrap(), []);
                assert_eq!(array.replacing(), None);
                fits(&runtime, &array);
                assert_holds(&runtime, &array, &model);
            }
        }
    }
}

/// Two members cannot read one row, so that a block can neither be copied nor computed. That is in no log before the new one is the member.
#[test]
fn what_a_replacement_could_not_copy_stays_lost_when_it_was_ended() {
    let case = LEVELS[1];
    let runtime = Runtime::simulated();
    let mut disks = disks(&runtime, case);
    let array = open(&runtime, &disks);
    let model = model(&array);
    write_all(&runtime, &array, &model, 1);
    let offset = data_offset(&array);
    // In a row whose parity is on neither, so that it is data on both.
    let row = (4..8).find(|row| ![0, 1].contains(&array.geometry().stripe(*row).p())).unwrap();
    let lost = offset + CHUNK * row..offset + CHUNK * (row + 1);
    let medium = DeviceError::Medium { offset: lost.start, length: CHUNK };
    for disk in &disks[..2] {
        disk.add(Rule::new(Effect::Fail(medium.clone())).on(Operation::Read).within(lost.clone()));
    }
    let new = disk(&runtime, SIZE);
    array.watch(|progress| progress.done < progress.of / 2);
    let copied = runtime.block_on(array.replace(1, Rc::clone(&new), offset, Uuid([9; 16]))).unwrap();
    let block = copied[0].start..copied[copied.len() - 1].end;
    assert_eq!(block.end - block.start, CHUNK, "{copied:?}");
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    disks.push(new);
    let array = open(&runtime, &disks);
    assert_eq!(runtime.block_on(array.resume_replace(1)).unwrap(), copied, "it is found anew");
    assert_eq!((array.replacing(), array.state(1)), (None, MemberState::Active));
    let read = || {
        let request = Request::read(block.start, Buffer::zeroed(block.end - block.start));
        runtime.block_on(array.submit(request)).result
    };
    assert!(matches!(read(), Err(DeviceError::Medium { .. })), "{:?}", read());
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    // The new member's log has it, too.
    let array = open(&runtime, &[disks[0].clone(), disks[4].clone(), disks[2].clone(), disks[3].clone()]);
    let request = Request::read(block.start, Buffer::zeroed(block.end - block.start));
    assert!(matches!(runtime.block_on(array.submit(request)).result, Err(DeviceError::Medium { .. })));
}

/// A disk that dies: it takes no writes to its data, and takes its time to say so of all but the first block.
struct Dying {
    runtime: Runtime,
    memory: MemoryDevice,
    refuses_from: Cell<Option<Bytes>>,
}

impl Device for Dying {
    fn shape(&self) -> &Shape {
        self.memory.shape()
    }
    async fn submit(&self, request: Request) -> Reply {
        let from = self.refuses_from.get().filter(|from| request.offset >= *from);
        let (Some(from), Operation::Write) = (from, request.operation) else {
            return self.memory.submit(request).await;
        };
        if request.offset > from {
            self.runtime.sleep(Duration::millis(50)).await;
        }
        request.refuse(DeviceError::Kernel { errno: 5 }, self.runtime.now())
    }
}

/// What a dying disk was still sent comes back as errors when another has its place.
#[test]
fn late_errors_of_a_device_are_not_held_against_its_successor() {
    let runtime = Runtime::simulated();
    let superblocks = superblocks(LEVELS[0], CHUNK, SIZE, 1);
    let disk = || {
        let memory = MemoryDevice::new(&runtime, Shape::new("disk", SIZE));
        Rc::new(Dying { runtime: runtime.clone(), memory, refuses_from: Cell::new(None) })
    };
    let disks: Vec<Rc<Dying>> = superblocks.iter().map(|_| disk()).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    let array = Array::open(&runtime, "array", disks.clone(), OpenOptions::default());
    let array = runtime.block_on(array).unwrap();
    let offset = superblocks[1].data_offset;
    disks[1].refuses_from.set(Some(offset));
    runtime.block_on(async {
        let late = array.submit(Request::write(BLOCK * 32, block(2)));
        let replaced = async {
            array.submit(Request::write(Bytes::ZERO, block(1))).await.result.unwrap();
            assert_eq!(array.state(1), MemberState::Failed);
            array.rebuild(1, disk(), offset, Uuid([9; 16])).await
        };
        let (late, replaced) = futures_util::join!(late, replaced);
        assert_eq!((late.result, replaced), (Ok(()), Ok(vec![])));
        assert!(runtime.now().since(Instant::START) >= Duration::millis(50));
    });
    assert_eq!(array.state(1), MemberState::Active, "{:?}", array.failure(1));
}

#[test]
fn a_member_that_was_gone_while_its_replacement_served_is_stale_when_it_comes_back() {
    for case in LEVELS {
        // Both together, or the old one alone.
        for both in [true, false] {
            let runtime = Runtime::simulated();
            let mut disks = disks(&runtime, case);
            let array = open(&runtime, &disks);
            let model = model(&array);
            write_all(&runtime, &array, &model, 1);
            let new = disk(&runtime, SIZE);
            array.watch(|progress| progress.done < progress.of / 2);
            let offset = data_offset(&array);
            runtime.block_on(array.replace(1, Rc::clone(&new), offset, Uuid([9; 16]))).unwrap();
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            // Some of it is written without the old one, and then the power goes.
            let old = std::mem::replace(&mut disks[1], Rc::clone(&new));
            let array = open(&runtime, &disks);
            for number in [0, 5, 9] {
                runtime.block_on(array.submit(Request::write(BLOCK * number, block(1 << 40 | number)))).result.unwrap();
                model.borrow_mut()[number as usize] = 1 << 40 | number;
            }
            drop(array);
            if both {
                disks.push(old)
            } else {
                disks[1] = old
            };
            // With a write hole an array is not opened that was not stopped and has none that is whole in a place, nor with one there that is stale.
            if case.0.parities() > 0 && case.2 != Consistency::Ppl {
                let opened = Array::open(&runtime, "array", disks.clone(), OpenOptions::default());
                assert!(matches!(runtime.block_on(opened), Err(OpenError::DirtyDegraded { .. })), "{case:?}");
                continue;
            }
            let array = open(&runtime, &disks);
            assert_eq!(array.state(1) == MemberState::Failed, !both, "{case:?}");
            assert_holds(&runtime, &array, &model);
        }
    }
}

#[test]
fn a_replacement_that_fails_costs_nothing() {
    for case in LEVELS {
        let runtime = Runtime::simulated();
        let mut disks = disks(&runtime, case);
        let array = open(&runtime, &disks);
        let (model, ending) = (model(&array), Rc::new(Cell::new(false)));
        let writer = load(&runtime, &array, &model, &ending);
        let new = disk(&runtime, SIZE);
        let offset = data_offset(&array);
        let broken = offset + array.geometry().used() / 2..SIZE;
        new.add(Rule::new(Effect::Fail(DeviceError::Kernel { errno: 5 })).on(Operation::Write).within(broken));
        let copied = runtime.block_on(array.replace(1, Rc::clone(&new), offset, Uuid([9; 16])));
        assert_eq!(copied, Err(DeviceError::Kernel { errno: 5 }), "{case:?}");
        ending.set(true);
        runtime.block_on(writer);
        assert_eq!(array.replacing(), None);
        assert_holds(&runtime, &array, &model);
        fits(&runtime, &array);
        drop(array);
        // Opened again with it, as after a power cut: it is nobody's twin.
        disks.push(new);
        let array = open(&runtime, &disks);
        assert_eq!(array.replacing(), None, "{case:?}");
        assert_eq!(array.state(1), MemberState::Active);
        assert_holds(&runtime, &array, &model);
    }
}

#[test]
fn reads_are_spread_over_copies_after_a_replacement_that_failed() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, LEVELS[0]);
    let array = open(&runtime, &disks);
    write_all(&runtime, &array, &model(&array), 1);
    let new = disk(&runtime, SIZE);
    let offset = data_offset(&array);
    let broken = offset + array.geometry().used() / 2..SIZE;
    new.add(Rule::new(Effect::Vanish).on(Operation::Write).within(broken));
    assert_eq!(runtime.block_on(array.replace(1, new, offset, Uuid([9; 16]))), Err(DeviceError::Gone));
    disks.iter().for_each(|disk| disk.add(Rule::new(Effect::Stall(Duration::micros(1))).on(Operation::Read)));
    let reads = (0..8).map(|number| array.submit(Request::read(BLOCK * number, Buffer::zeroed(BLOCK))));
    runtime.block_on(futures_util::future::join_all(reads)).iter().for_each(|reply| assert_eq!(reply.result, Ok(())));
    assert_eq!(disks.iter().map(|disk| disk.suffered()).collect::<Vec<_>>(), [4, 4]);
}

#[test]
fn a_spare_takes_the_place_of_a_member_that_fails() {
    for case in LEVELS {
        let runtime = Runtime::simulated();
        let mut disks = disks(&runtime, case);
        let array = open(&runtime, &disks);
        for number in [7, 8] {
            disks.push(disk(&runtime, SIZE));
            let spare = Rc::clone(disks.last().unwrap());
            runtime.block_on(array.add_spare(spare, Uuid([number; 16]))).unwrap();
        }
        let small = disk(&runtime, SIZE / 2);
        let refused = runtime.block_on(array.add_spare(small, Uuid([6; 16])));
        assert!(matches!(refused, Err(DeviceError::OutOfRange { .. })), "{refused:?}");
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        let array = open(&runtime, &disks);
        assert_eq!(array.spares().len(), 2, "{case:?}");
        let (model, ending) = (model(&array), Rc::new(Cell::new(false)));
        let writer = load(&runtime, &array, &model, &ending);
        for member in [0, 1] {
            runtime.block_on(runtime.sleep(Duration::millis(20)));
            array.fail(member);
            let filled = runtime.block_on(array.rebuild_on_spare(member)).expect("there is a spare");
            assert_eq!(filled.unwrap(), [], "{case:?}");
        }
        assert!(runtime.block_on(array.rebuild_on_spare(0)).is_none());
        ending.set(true);
        runtime.block_on(writer);
        assert_holds(&runtime, &array, &model);
        fits(&runtime, &array);
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        let roles: Vec<_> = disks.iter().map(|disk| superblock(&runtime, disk).number).collect();
        let distinct: std::collections::BTreeSet<_> = roles.iter().collect();
        assert_eq!(distinct.len(), disks.len(), "every device has a number of its own: {roles:?}");
        let array = open(&runtime, &disks);
        assert!((0..case.1).all(|member| array.state(member) == MemberState::Active), "{case:?}");
        assert_holds(&runtime, &array, &model);
    }
}

/// A byte of a member, changed behind the array's back.
fn flip(runtime: &Runtime, disk: &Disk, at: Bytes) {
    let reply = runtime.block_on(disk.submit(Request::read(at, Buffer::zeroed(Bytes::SECTOR))));
    let mut buffer = reply.buffer.unwrap();
    buffer.bytes_mut().unwrap()[0] ^= 1;
    runtime.block_on(disk.submit(Request::write(at, buffer.freeze()))).result.unwrap();
}

#[test]
fn a_member_that_was_away_gets_what_was_written_meanwhile_and_no_more() {
    for case in LEVELS.into_iter().filter(|(.., consistency)| *consistency == Consistency::Bitmap) {
        let runtime = Runtime::simulated();
        let disks = disks(&runtime, case);
        let array = open(&runtime, &disks);
        let model = model(&array);
        let write = |array: &Array<Disk>, number: u64, value: u64| {
            runtime.block_on(array.submit(Request::write(BLOCK * number, block(value)))).result.unwrap();
            model.borrow_mut()[number as usize] = value;
        };
        let blocks = model.borrow().len() as u64;
        (0..blocks).for_each(|number| write(&array, number, 1));
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        let others = [&disks[..1], &disks[2..]].concat();
        let array = open(&runtime, &others);
        (0..5).for_each(|number| write(&array, number, 2));
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        let array = open(&runtime, &disks);
        assert_eq!(array.state(1), MemberState::Failed, "it is stale");
        assert_eq!(array.returning().iter().map(|(member, _)| *member).collect::<Vec<_>>(), [1], "{case:?}");
        // Far from what was written, so it is not looked at. A whole rebuild would mend it.
        flip(&runtime, &disks[1], data_offset(&array) + array.geometry().used() - Bytes::kib(8));
        (5..9).for_each(|number| write(&array, number, 3));
        assert_eq!(runtime.block_on(array.bring_back(1)).expect("it may return").unwrap(), []);
        assert_eq!(array.state(1), MemberState::Active);
        assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 1, "{case:?}");
        flip(&runtime, &disks[1], data_offset(&array) + array.geometry().used() - Bytes::kib(8));
        fits(&runtime, &array);
        assert_holds(&runtime, &array, &model);
        array.fail(0);
        assert_holds(&runtime, &array, &model);
    }
}

#[test]
fn a_member_whose_number_another_device_has_does_not_come_back() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, LEVELS[0]);
    let array = open(&runtime, &disks);
    array.fail(1);
    write_all(&runtime, &array, &model(&array), 1);
    let mut former = superblock(&runtime, &disks[1]);
    assert_eq!(array.may_return(&former), Some(1));
    let spare = disk(&runtime, SIZE);
    runtime.block_on(array.add_spare(Rc::clone(&spare), Uuid([9; 16]))).unwrap();
    former.number = superblock(&runtime, &spare).number;
    assert_eq!(array.may_return(&former), None);
    former.number = superblock(&runtime, &disks[0]).number;
    assert_eq!(array.may_return(&former), None);
}

#[test]
fn a_half_that_went_on_alone_does_not_come_back_by_the_bitmap() {
    for (level, members) in [(Level::Raid1, 2), (LEVELS[3].0, 4), (Level::Raid10(Copies::near(2)), 4)] {
        for written in [true, false] {
            let runtime = Runtime::simulated();
            let disks = disks(&runtime, (level, members, Consistency::Bitmap));
            let array = open(&runtime, &disks);
            write_all(&runtime, &array, &model(&array), 1);
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            let half = |which: usize| disks.iter().skip(which).step_by(2).cloned().collect::<Vec<Disk>>();
            let alone = open(&runtime, &half(1));
            runtime.block_on(alone.submit(Request::write(BLOCK * 4, block(77)))).result.unwrap();
            runtime.block_on(alone.stop()).unwrap();
            let array = open(&runtime, &half(0));
            let write = || runtime.block_on(array.submit(Request::write(BLOCK * 9, block(78)))).result.unwrap();
            if written {
                write();
            }
            // The other half has writes that are marked only on itself, whether this one was used or not.
            for disk in half(1) {
                let other = superblock(&runtime, &disk);
                assert_eq!(array.may_return(&other), None, "{level} {written}");
                assert_eq!(array.went_on_without(&other), (0..members).step_by(2).collect::<Vec<_>>(), "{level}");
                let offset = data_offset(&array);
                let filled = array.rebuild(usize::from(other.number as u16), disk, offset, other.member);
                assert_eq!(runtime.block_on(filled).unwrap(), []);
            }
            write();
            fits(&runtime, &array);
        }
    }
}

#[test]
fn a_member_that_missed_what_is_marked_no_more_does_not_come_back() {
    let runtime = Runtime::simulated();
    let case = (Level::Raid1, 3, Consistency::Bitmap);
    let mut disks = disks(&runtime, case);
    let away = disks.remove(2);
    let array = open(&runtime, &disks);
    runtime.block_on(array.submit(Request::write(Bytes::ZERO, block(1)))).result.unwrap();
    let offset = data_offset(&array);
    runtime.block_on(array.rebuild(2, disk(&runtime, SIZE), offset, Uuid([9; 16]))).unwrap();
    // Complete again, so the bits are cleared; then the new one goes.
    runtime.block_on(array.stop()).unwrap();
    array.fail(2);
    runtime.block_on(array.submit(Request::flush())).result.unwrap();
    assert_eq!(array.may_return(&superblock(&runtime, &away)), None);
    drop(array);
    disks.push(away);
    let array = open(&runtime, &disks);
    assert_eq!(array.state(2), MemberState::Failed);
    assert_eq!(array.returning(), []);
    assert!(runtime.block_on(array.bring_back(2)).is_none());
}

/// A power cut left the record of another's failure on the member that was lost with it, under the number of events that the others gave their own record of its
/// absence. When it comes back, the next cut meets the record of that, which it misses: it is one behind, and stale.
#[test]
fn a_member_that_comes_back_is_not_current_before_it_says_that_it_is_not() {
    for told in 0..2 {
        let runtime = Runtime::simulated();
        let disks = disks(&runtime, (Level::Raid1, 3, Consistency::Bitmap));
        let array = open(&runtime, &disks);
        write_all(&runtime, &array, &model(&array), 1);
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        edit(&runtime, &disks[2], |superblock| {
            superblock.events += 1;
            superblock.roles[1] = 0xfffe;
        });
        let array = open(&runtime, &disks[..2]);
        runtime.block_on(array.submit(Request::write(Bytes::ZERO, block(777)))).result.unwrap();
        let away = superblock(&runtime, &disks[2]);
        assert_eq!(array.may_return(&away), Some(2));
        let superblocks = SUPERBLOCK_AT..SUPERBLOCK_AT + BLOCK;
        let never = Effect::Stall(Duration::seconds(1));
        disks[2].add(Rule::new(never).on(Operation::Write).within(superblocks).after(told));
        runtime.block_on(async {
            let returns = std::pin::pin!(array.readd(Rc::clone(&disks[2]), &away));
            let cut = std::pin::pin!(runtime.sleep(Duration::millis(20)));
            assert!(matches!(futures_util::future::select(returns, cut).await, futures_util::future::Either::Right(_)));
        });
        drop(array);
        disks[2].clear_rules();
        let array = open(&runtime, &disks);
        assert_ne!(array.state(2), MemberState::Active, "after {told} records on it");
        (0..2).for_each(|member| assert_eq!(array.state(member), MemberState::Active));
    }
}

/// It was not there when the array was opened, and until something is written the others call it a member. A power cut while it comes back, or is filled as something
/// new, finds it as it was, or called missing: it is never believed with a log that was made anew.
#[test]
fn a_member_that_was_merely_missing_is_called_so_before_anything_of_it_is_changed() {
    let case = LEVELS[4];
    for as_new in [false, true] {
        let mut cut_after = Duration::ZERO;
        loop {
            let runtime = Runtime::simulated();
            let disks = disks(&runtime, case);
            let array = open(&runtime, &disks);
            let model = model(&array);
            array.fail(2);
            for number in 0..9 {
                runtime.block_on(array.submit(Request::write(BLOCK * number, block(77 + number)))).result.unwrap();
                model.borrow_mut()[number as usize] = 77 + number;
            }
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            let array = open(&runtime, &[&disks[..1], &disks[3..]].concat());
            let (superblock, device) = (superblock(&runtime, &disks[1]), Rc::clone(&disks[1]));
            let done = runtime.block_on(async {
                let offset = data_offset(&array);
                let filled = async {
                    match as_new {
                        true => array.rebuild(1, device, offset, superblock.member).await,
                        false => array.readd(device, &superblock).await,
                    }
                };
                let (filled, cut) = (pin!(filled), pin!(runtime.sleep(cut_after)));
                matches!(select(filled, cut).await, Either::Left(_))
            });
            drop(array);
            let opened = Array::open(&runtime, "array", disks.clone(), OpenOptions::default());
            let array = runtime.block_on(opened).unwrap_or_else(|error| panic!("cut after {cut_after}: {error}"));
            assert_holds(&runtime, &array, &model);
            if done {
                break;
            }
            cut_after += Duration::micros(30);
        }
        assert!(cut_after > Duration::micros(300), "{cut_after}: it was cut several times on its way");
    }
}

/// The same bytes on larger disks. What was behind the end before is anything.
fn larger(runtime: &Runtime, small: &[Disk]) -> Vec<Disk> {
    let larger = |(from, seed): (&Disk, u64)| {
        let to = disk(runtime, SIZE * 2);
        let all = runtime.block_on(from.submit(Request::read(Bytes::ZERO, Buffer::zeroed(SIZE)))).buffer;
        runtime.block_on(to.submit(Request::write(Bytes::ZERO, all.unwrap().freeze()))).result.unwrap();
        for at in SIZE / BLOCK..SIZE * 2 / BLOCK {
            let noise = block(at * 31 + seed);
            runtime.block_on(to.submit(Request::write(BLOCK * at, noise))).result.unwrap();
        }
        to
    };
    small.iter().zip(0..).map(larger).collect()
}

#[test]
fn a_growth_that_a_power_cut_meets_has_happened_or_not() {
    for case in LEVELS {
        for told in 0..=case.1 {
            let runtime = Runtime::simulated();
            let small = disks(&runtime, case);
            let array = open(&runtime, &small);
            let (model, before) = (model(&array), array.geometry().size());
            write_all(&runtime, &array, &model, 1);
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            let large = larger(&runtime, &small);
            let array = Rc::into_inner(open(&runtime, &large)).unwrap();
            let superblocks = SUPERBLOCK_AT..SUPERBLOCK_AT + Bytes::kib(4);
            let mute = Rule::new(Effect::Hang).on(Operation::Write).within(superblocks);
            large[told..].iter().for_each(|disk| disk.add(mute.clone()));
            let cut = Box::pin(runtime.sleep(Duration::seconds(1)));
            runtime.block_on(futures_util::future::select(Box::pin(array.grow()), cut));
            large.iter().for_each(|disk| {
                disk.clear_rules();
                disk.resume();
            });
            let array = open(&runtime, &large);
            assert_eq!(array.geometry().size() > before, told == case.1, "{case:?}, {told} were told");
            assert_holds(&runtime, &array, &model);
            assert!(runtime.block_on(array.resync()).unwrap());
            fits(&runtime, &array);
            write_all(&runtime, &array, &model, 1 << 32);
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            // They say the same now, whatever they were told.
            let sizes: std::collections::BTreeSet<Bytes> =
                large.iter().map(|disk| superblock(&runtime, disk).size).collect();
            assert_eq!(sizes.len(), 1, "{case:?}, {told} were told: {sizes:?}");
            let array = Rc::into_inner(open(&runtime, &large)).unwrap();
            let again = runtime.block_on(array.grow());
            assert_eq!(again.is_ok(), told < case.1, "{case:?}, {told} were told: {again:?}");
            let array = open(&runtime, &large);
            assert_holds(&runtime, &array, &model);
            assert!(runtime.block_on(array.resync()).unwrap());
            fits(&runtime, &array);
        }
    }
}

#[test]
fn a_spare_that_an_array_has_outgrown_is_passed_over() {
    let runtime = Runtime::simulated();
    let small = disks(&runtime, LEVELS[0]);
    let array = open(&runtime, &small);
    let model = model(&array);
    write_all(&runtime, &array, &model, 1);
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    let mut large = larger(&runtime, &small);
    let array = open(&runtime, &large);
    large.push(disk(&runtime, SIZE * 2));
    large.push(disk(&runtime, SIZE));
    for (number, spare) in (7..).zip(&large[2..]) {
        runtime.block_on(array.add_spare(Rc::clone(spare), Uuid([number; 16]))).unwrap();
    }
    runtime.block_on(array.stop()).unwrap();
    runtime.block_on(Rc::into_inner(array).unwrap().grow()).unwrap();
    let array = open(&runtime, &large);
    runtime.block_on(array.resync()).unwrap();
    array.fail(0);
    assert_eq!(runtime.block_on(array.rebuild_on_spare(0)).expect("one has room").unwrap(), []);
    array.fail(1);
    assert!(runtime.block_on(array.rebuild_on_spare(1)).is_none(), "the other has none");
    assert_eq!(array.spares().len(), 1);
    assert_holds(&runtime, &array, &model);
}

#[test]
fn room_that_members_have_is_used_when_the_array_grows() {
    for case in LEVELS {
        let runtime = Runtime::simulated();
        let small = disks(&runtime, case);
        let array = open(&runtime, &small);
        let model = model(&array);
        write_all(&runtime, &array, &model, 0);
        runtime.block_on(array.stop()).unwrap();
        let before = array.geometry().size();
        let array = Rc::into_inner(array).unwrap();
        assert!(matches!(runtime.block_on(array.grow()), Err(GrowError::NoRoom { .. })), "{case:?}");
        let large = larger(&runtime, &small);
        let array = Rc::into_inner(open(&runtime, &large)).unwrap();
        runtime.block_on(array.grow()).unwrap();
        let array = open(&runtime, &large);
        assert!(array.geometry().size() > before + before / 2, "{case:?}");
        assert!(array.is_dirty() && array.needs_resync());
        assert_holds(&runtime, &array, &model);
        assert!(runtime.block_on(array.resync()).unwrap());
        fits(&runtime, &array);
        runtime.block_on(array.stop()).unwrap();
        assert!(!array.is_dirty(), "{case:?}");
        assert_holds(&runtime, &array, &model);
    }
    let runtime = Runtime::simulated();
    let array = open(&runtime, &disks(&runtime, (Level::Raid10(Copies::far(2)), 3, Consistency::Bitmap)));
    let refused = runtime.block_on(Rc::into_inner(array).unwrap().grow());
    assert!(matches!(refused, Err(GrowError::Level(_))), "{refused:?}");
}

/// A copy is under way in several units at a time, and keeps those locked that are done before an earlier one; a discard locks all its units.
#[test]
fn a_discard_and_a_replacement_do_not_wait_for_each_other() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, (Level::Raid1, 2, Consistency::Bitmap));
    let array = open(&runtime, &disks);
    let data = data_offset(&array);
    runtime.block_on(array.submit(Request::write(BLOCK * 20, block(1)))).result.unwrap();
    // A write holds the first unit for a while. The discard waits for it, and so does the copy of that unit, but not the copy of the next.
    let slow = Rule::new(Effect::Stall(Duration::millis(5))).on(Operation::Write).within(data..data + BLOCK);
    disks[0].add(slow);
    runtime.block_on(async {
        let at = async |micros, request| {
            runtime.sleep(Duration::micros(micros)).await;
            array.submit(request).await.result.unwrap();
        };
        let replaced = async {
            runtime.sleep(Duration::micros(500)).await;
            array.replace(1, disk(&runtime, SIZE), data, Uuid([9; 16])).await.unwrap();
        };
        let write = at(0, Request::write(Bytes::ZERO, block(2)));
        let discard = at(100, Request::discard(BLOCK, Bytes::kib(192)));
        futures_util::join!(write, discard, replaced)
    });
    assert!(array.is_complete() && array.replacing().is_none());
    fits(&runtime, &array);
}

/// The power cut met the record that put it in its place, with another member's loss; and the next one came before anything was recorded anew. It keeps the log.
#[test]
fn what_has_just_taken_a_place_keeps_the_log_over_a_second_cut() {
    let runtime = Runtime::simulated();
    let mut disks = disks(&runtime, (Level::Raid4, 3, Consistency::Ppl));
    let array = open(&runtime, &disks);
    runtime.block_on(array.submit(Request::write(Bytes::ZERO, block(1)))).result.unwrap();
    let new = disk(&runtime, SIZE);
    runtime.block_on(array.replace(0, Rc::clone(&new), data_offset(&array), Uuid([9; 16]))).unwrap();
    runtime.block_on(array.submit(Request::write(BLOCK, block(2)))).result.unwrap();
    drop(array);
    edit(&runtime, &new, |superblock| {
        superblock.features = superblock.features.with(Features::REPLACEMENT);
        (superblock.events, superblock.recovery, superblock.roles[0]) = (superblock.events - 1, 0, 0);
    });
    disks[0] = new;
    disks.pop();
    let superblocks = SUPERBLOCK_AT..SUPERBLOCK_AT + BLOCK;
    let never = Rule::new(Effect::Stall(Duration::seconds(1))).on(Operation::Write).within(superblocks).after(1);
    disks.iter().for_each(|disk| disk.add(never.clone()));
    runtime.block_on(async {
        let opens = Array::open(&runtime, "array", disks.to_vec(), OpenOptions::default());
        let cut = runtime.sleep(Duration::millis(50));
        let (opens, cut) = (std::pin::pin!(opens), std::pin::pin!(cut));
        assert!(matches!(futures_util::future::select(opens, cut).await, futures_util::future::Either::Right(_)));
    });
    disks.iter().for_each(|disk| disk.clear_rules());
    let array = open(&runtime, &disks);
    let read = runtime.block_on(array.submit(Request::read(BLOCK, Buffer::zeroed(BLOCK))));
    assert!(read.buffer.unwrap().bytes() == block(2).bytes());
}

/// Who asked for it is gone before the others have it; who asks next is not answered before they do.
#[test]
fn a_record_that_is_dropped_is_finished_before_anything_is_answered() {
    for case in LEVELS {
        let runtime = Runtime::simulated();
        let disks = disks(&runtime, case);
        let array = open(&runtime, &disks);
        runtime.block_on(array.submit(Request::write(Bytes::ZERO, block(1)))).result.unwrap();
        let never = Rule::new(Effect::Stall(Duration::seconds(1))).on(Operation::Write);
        let superblocks = SUPERBLOCK_AT..SUPERBLOCK_AT + BLOCK;
        disks.iter().for_each(|disk| disk.add(never.clone().within(superblocks.clone())));
        array.fail(0);
        runtime.block_on(async {
            let flush = std::pin::pin!(array.submit(Request::flush()));
            let dropped = std::pin::pin!(runtime.sleep(Duration::millis(5)));
            assert!(matches!(
                futures_util::future::select(flush, dropped).await,
                futures_util::future::Either::Right(_)
            ));
        });
        disks.iter().for_each(|disk| disk.clear_rules());
        runtime.block_on(array.submit(Request::flush())).result.unwrap();
        for disk in &disks[1..] {
            assert_eq!(superblock(&runtime, disk).roles[0], 0xfffe, "{case:?}");
        }
    }
}
