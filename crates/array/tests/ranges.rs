//! Zeroes and discards: by the members themselves where they can do it, otherwise written, or left; and holes.

use crate::common;

use array::geometry::{Copies, Geometry, Level, Rotation, Zones};
use array::{Array, MemberState, Repair};
use common::image::data;
use common::noise;
use device::filter::{Effect, Faulty, Rule};
use device::{Buffer, Device, DeviceError, Extent, MemoryDevice, Operation, Request, Shape};
use proptest::prelude::*;
use runtime::Runtime;
use units::{Bytes, Duration};

type Disk = Faulty<MemoryDevice>;
const CHUNK: Bytes = Bytes::kib(16);
const DATA_AT: Bytes = Bytes::kib(8);

fn without_parity() -> Vec<(Level, usize)> {
    vec![
        (Level::Linear, 3),
        (Level::Raid0(Zones::Original), 3),
        (Level::Raid1, 2),
        (Level::Raid1, 3),
        (Level::Raid10(Copies::near(2)), 5),
        (Level::Raid10(Copies::far(2)), 4),
        (Level::Raid10(Copies::offset(3)), 4),
    ]
}

fn with_parity() -> Vec<(Level, usize)> {
    vec![(Level::Raid4, 4), (Level::Raid5(Rotation::LeftSymmetric), 5)]
}

/// Members of different sizes where the level uses all of each.
fn sizes(level: Level, members: usize) -> Vec<Bytes> {
    let more = matches!(level, Level::Linear | Level::Raid0(_));
    (0..members as u64).map(|member| CHUNK * if more { 12 + 4 * member } else { 16 }).collect()
}

fn array<D: Device>(runtime: &Runtime, (level, members): (Level, usize), wrap: impl Fn(MemoryDevice) -> D) -> Array<D> {
    let sizes = sizes(level, members);
    let disk = |size: &Bytes| (wrap(MemoryDevice::new(runtime, Shape::new("disk", DATA_AT + *size))), DATA_AT);
    let geometry = Geometry::new(level, CHUNK, &sizes).unwrap();
    Array::assemble(runtime, "array", geometry, sizes.iter().map(disk).collect()).unwrap()
}

fn faulty(runtime: &Runtime) -> impl Fn(MemoryDevice) -> Disk + '_ {
    |memory| Faulty::new(runtime, memory, 1)
}

fn fill<D: Device>(runtime: &Runtime, array: &Array<D>) -> Vec<u8> {
    let model = noise(5, array.shape().size.as_usize());
    runtime.block_on(array.submit(Request::write(Bytes::ZERO, data(&model)))).result.unwrap();
    model
}

fn contents<D: Device>(runtime: &Runtime, array: &Array<D>) -> Vec<u8> {
    let reply = runtime.block_on(array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(array.shape().size))));
    reply.result.unwrap();
    reply.buffer.unwrap().bytes().unwrap().to_vec()
}

fn no(operation: Operation) -> Rule {
    Rule::new(Effect::Fail(DeviceError::Kernel { errno: 5 })).on(operation)
}

fn on_all(array: &Array<Disk>, members: usize, rule: impl Fn() -> Rule) {
    (0..members).for_each(|member| array.device(member).unwrap().add(rule()));
}

#[test]
fn nothing_is_moved_where_there_is_no_parity() {
    let runtime = Runtime::simulated();
    for (level, members) in without_parity() {
        let array = array(&runtime, (level, members), faulty(&runtime));
        let mut model = fill(&runtime, &array);
        on_all(&array, members, || no(Operation::Write));
        let (from, length) = (Bytes::kib(9), Bytes::kib(131));
        let zeroes = Request::write_zeroes(from, length).with_punch().with_fua();
        assert_eq!(runtime.block_on(array.submit(zeroes)).result, Ok(()), "{level}");
        model[from.as_usize()..][..length.as_usize()].fill(0);
        assert!(contents(&runtime, &array) == model, "{level}");
        let (from, length) = (Bytes::kib(143), Bytes::new(512));
        assert_eq!(runtime.block_on(array.submit(Request::discard(from, length))).result, Ok(()), "{level}");
        // Memory discards to zeroes.
        model[from.as_usize()..][..length.as_usize()].fill(0);
        assert!(contents(&runtime, &array) == model, "{level}");
        assert!((0..members).all(|member| array.state(member) == MemberState::Active), "{level}");
    }
}

#[test]
fn what_was_zeroed_or_discarded_is_a_hole() {
    for (level, members) in without_parity() {
        for zeroes in [true, false] {
            let runtime = Runtime::simulated();
            let array = array(&runtime, (level, members), |memory| memory);
            fill(&runtime, &array);
            let size = array.shape().size;
            assert!(!array.extent(Bytes::ZERO, size).hole);
            let request =
                if zeroes { Request::write_zeroes(Bytes::ZERO, size) } else { Request::discard(Bytes::ZERO, size) };
            runtime.block_on(array.submit(request)).result.unwrap();
            let mut at = Bytes::ZERO;
            while at < size {
                let extent = array.extent(at, size - at);
                assert_eq!(extent, Extent::hole(extent.length), "{level} at {at}");
                at += extent.length;
            }
            assert!(contents(&runtime, &array).iter().all(|byte| *byte == 0), "{level}");
        }
    }
}

#[test]
fn of_a_member_that_is_lost_no_hole_is_known() {
    let runtime = Runtime::simulated();
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5(Rotation::LeftSymmetric), 3)] {
        let array = array(&runtime, (level, members), |memory| memory);
        assert!(array.extent(Bytes::ZERO, CHUNK).hole, "nothing was ever written");
        let held_by = array.geometry().place(Bytes::ZERO).member;
        array.fail(held_by);
        assert!(!array.extent(Bytes::ZERO, CHUNK).hole, "{level}");
    }
}

#[test]
fn with_parity_zeroes_are_written_and_discards_forget_nothing() {
    let runtime = Runtime::simulated();
    for (level, members) in with_parity() {
        let array = array(&runtime, (level, members), faulty(&runtime));
        let mut model = fill(&runtime, &array);
        on_all(&array, members, || no(Operation::WriteZeroes));
        on_all(&array, members, || no(Operation::Discard));
        let size = array.shape().size;
        runtime.block_on(array.submit(Request::discard(Bytes::ZERO, size))).result.unwrap();
        assert!(contents(&runtime, &array) == model, "{level}");
        runtime.block_on(array.submit(Request::write_zeroes(CHUNK, CHUNK * 9))).result.unwrap();
        model[CHUNK.as_usize()..][..9 * CHUNK.as_usize()].fill(0);
        assert!(contents(&runtime, &array) == model, "{level}");
        assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0, "{level}");
    }
}

#[test]
fn what_members_cannot_do_is_written_or_left() {
    for error in [DeviceError::Unsupported, DeviceError::Kernel { errno: 5 }] {
        for (level, members) in without_parity() {
            let runtime = Runtime::simulated();
            let array = array(&runtime, (level, members), faulty(&runtime));
            let mut model = fill(&runtime, &array);
            let refuses = |operation| Rule::new(Effect::Fail(error.clone())).on(operation);
            array.device(1).unwrap().add(refuses(Operation::WriteZeroes));
            let size = array.shape().size;
            assert_eq!(runtime.block_on(array.submit(Request::write_zeroes(CHUNK, size - CHUNK))).result, Ok(()));
            model[CHUNK.as_usize()..].fill(0);
            assert!(contents(&runtime, &array) == model, "{level}");
            assert_eq!(array.state(1), MemberState::Active, "{level}: it takes writes");
            // What it cannot forget is no fault of its medium; any other error says that it is not to be relied on.
            array.device(1).unwrap().add(refuses(Operation::Discard));
            assert_eq!(runtime.block_on(array.submit(Request::discard(CHUNK, size - CHUNK))).result, Ok(()));
            let redundant = array.geometry().copies() > 1;
            assert_eq!(
                array.state(1) == MemberState::Failed,
                redundant && error != DeviceError::Unsupported,
                "{level}"
            );
            assert!(contents(&runtime, &array)[..CHUNK.as_usize()] == model[..CHUNK.as_usize()], "{level}");
        }
    }
}

/// What was asked of a member that did not answer in time may yet be carried out.
#[test]
fn zeroes_that_come_late_are_not_over_what_was_written_since() {
    for operation in [Operation::WriteZeroes, Operation::Discard] {
        for (level, members) in without_parity() {
            let runtime = Runtime::simulated();
            let array = array(&runtime, (level, members), faulty(&runtime));
            array.set_time_limit(Duration::seconds(2));
            let size = array.shape().size;
            array.device(1).unwrap().add(Rule::new(Effect::Hang).on(operation));
            let request = match operation {
                Operation::Discard => Request::discard(Bytes::ZERO, size),
                _ => Request::write_zeroes(Bytes::ZERO, size),
            };
            let result = runtime.block_on(array.submit(request)).result;
            let redundant = array.geometry().copies() > 1;
            let late = Err(DeviceError::TimedOut(Duration::seconds(2)));
            assert_eq!(result, if redundant { Ok(()) } else { late }, "{level}: {operation:?}");
            assert_eq!(array.state(1) == MemberState::Failed, redundant, "{level}: {operation:?}");
            if redundant {
                let model = fill(&runtime, &array);
                array.device(1).unwrap().resume();
                runtime.block_on(runtime.sleep(Duration::seconds(1)));
                assert!(contents(&runtime, &array) == model, "{level}: {operation:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    /// Writes, zeroes and discards of any size beside each other, with a member lost and rebuilt meanwhile.
    #[test]
    fn ranges_are_as_an_array_of_bytes_has_them(
        which in 0..7usize,
        steps in prop::collection::vec((0..4u8, any::<u32>(), any::<u32>()), 1..40),
        lost in 0..80usize,
    ) {
        let runtime = Runtime::simulated();
        let (level, members) = without_parity()[which];
        let array = array(&runtime, (level, members), |memory| memory);
        let mut model = fill(&runtime, &array);
        let sectors = model.len() as u64 / 512;
        for (number, (kind, from, count)) in steps.into_iter().enumerate() {
            if number == lost && array.geometry().copies() > 1 {
                array.fail(0);
            }
            let from = u64::from(from) % sectors;
            let count = 1 + u64::from(count) % (sectors - from).min(400);
            let (at, length) = (Bytes::SECTOR * from, Bytes::SECTOR * count);
            let touched = &mut model[at.as_usize()..][..length.as_usize()];
            let request = match kind {
                0 => {
                    touched.copy_from_slice(&noise(number as u64 + 7, length.as_usize()));
                    Request::write(at, data(touched))
                }
                1 => {
                    touched.fill(0);
                    Request::write_zeroes(at, length)
                }
                2 => {
                    touched.fill(0);
                    Request::write_zeroes(at, length).with_punch()
                }
                _ => Request::discard(at, length),
            };
            prop_assert_eq!(runtime.block_on(array.submit(request)).result, Ok(()));
            if kind == 3 {
                // Zeroes, or as before: memory forgets to zeroes, and an array that is not whole forgets nothing.
                let into = Buffer::zeroed(length);
                let found = runtime.block_on(array.submit(Request::read(at, into))).buffer.unwrap();
                let found = found.bytes().unwrap();
                let touched = &mut model[at.as_usize()..][..length.as_usize()];
                prop_assert!(found == touched || found.iter().all(|byte| *byte == 0));
                touched.copy_from_slice(found);
            }
        }
        prop_assert!(contents(&runtime, &array) == model);
        if array.is_complete() {
            prop_assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0);
        }
    }
}
