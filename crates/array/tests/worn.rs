//! Members whose medium takes what it is given and does not give it back: when they are given up, and when not.

use crate::common;

use array::geometry::{Copies, DoubleRotation, Geometry, Level, Rotation};
use array::{Array, MemberState, Repair};
use common::image::data;
use device::filter::{Damage, Effect, Faulty, Medium, Rule};
use device::{Buffer, Device, DeviceError, MemoryDevice, Operation, Request, Shape};
use runtime::Runtime;
use units::{Bytes, Duration};

type Disk = Faulty<Medium<MemoryDevice>>;
const CHUNK: Bytes = Bytes::kib(64);
/// Patches count once for each MiB.
const MEMBER: Bytes = Bytes::mib(48);
const FIVE: Level = Level::Raid5(Rotation::LeftSymmetric);

fn levels() -> [(Level, usize); 5] {
    let six = Level::Raid6(DoubleRotation::default());
    [(Level::Raid1, 2), (Level::Raid4, 4), (FIVE, 4), (six, 8), (Level::Raid10(Copies::near(2)), 4)]
}

fn assemble(runtime: &Runtime, level: Level, members: usize) -> Array<Disk> {
    let geometry = Geometry::new(level, CHUNK, &vec![MEMBER; members]).unwrap();
    let disk = || {
        let memory = MemoryDevice::new(runtime, Shape::new("disk", MEMBER));
        Faulty::new(runtime, Medium::new(runtime, memory), 1)
    };
    Array::assemble(runtime, "array", geometry, (0..members).map(|_| (disk(), Bytes::ZERO)).collect()).unwrap()
}

/// A member that takes writes, and gives nothing back.
fn wear(array: &Array<Disk>, member: usize) {
    let medium = DeviceError::Medium { offset: Bytes::ZERO, length: Bytes::SECTOR };
    array.device(member).unwrap().add(Rule::new(Effect::Fail(medium)).on(Operation::Read));
}

fn read(runtime: &Runtime, array: &Array<Disk>, at: Bytes) -> Result<u8, DeviceError> {
    let reply = runtime.block_on(array.submit(Request::read(at, Buffer::zeroed(Bytes::kib(4)))));
    reply.result.map(|()| reply.buffer.unwrap().bytes().unwrap()[0])
}

fn write(runtime: &Runtime, array: &Array<Disk>, at: Bytes, byte: u8) {
    runtime.block_on(array.submit(Request::write(at, data(&[byte; 4096])))).result.unwrap();
}

#[test]
fn a_member_that_gives_nothing_back_is_given_up_after_twenty_reads() {
    for (level, members) in levels() {
        let runtime = Runtime::simulated();
        let array = assemble(&runtime, level, members);
        write(&runtime, &array, Bytes::ZERO, 7);
        let worn = array.geometry().place(Bytes::ZERO).member;
        wear(&array, worn);
        for request in 1..=21 {
            assert_eq!(array.state(worn), MemberState::Active, "{level}: before read {request}");
            assert_eq!(read(&runtime, &array, Bytes::ZERO), Ok(7), "{level}");
        }
        assert_eq!(array.state(worn), MemberState::Failed, "{level}");
        let cause = array.failure(worn).unwrap().to_string();
        assert_eq!(cause, "its medium could not give 21 reads, most of them within an hour", "{level}");
        let errors = array.counts(worn).medium_errors;
        assert_eq!(read(&runtime, &array, Bytes::ZERO), Ok(7), "{level}");
        assert_eq!(array.counts(worn).medium_errors, errors, "{level}: it is asked no more");
    }
}

#[test]
fn writes_that_have_to_read_find_it_out_too() {
    for (level, members) in levels().into_iter().filter(|(level, _)| level.parities() > 0) {
        let runtime = Runtime::simulated();
        let array = assemble(&runtime, level, members);
        let worn = array.geometry().place(Bytes::ZERO).member;
        wear(&array, worn);
        for request in 1..=21 {
            assert_eq!(array.state(worn), MemberState::Active, "{level}: before write {request}");
            write(&runtime, &array, Bytes::ZERO, request);
        }
        assert_eq!(array.state(worn), MemberState::Failed, "{level}");
        assert_eq!(read(&runtime, &array, Bytes::ZERO), Ok(21), "{level}");
    }
}

#[test]
fn it_stays_where_the_array_would_break_without_it() {
    for (level, members) in levels() {
        let runtime = Runtime::simulated();
        let array = assemble(&runtime, level, members);
        write(&runtime, &array, Bytes::ZERO, 7);
        // At level 10 the one that holds the same.
        (1..=level.losses_survived(members)).for_each(|other| array.fail(other));
        let device = array.device(0).unwrap();
        for request in 0..40 {
            // It gives in the end, or there would be nothing to correct.
            let medium = DeviceError::Medium { offset: Bytes::ZERO, length: CHUNK };
            device.add(Rule::new(Effect::Fail(medium)).on(Operation::Read).times(1));
            _ = read(&runtime, &array, CHUNK * request);
            device.clear_rules();
        }
        assert_eq!(array.state(0), MemberState::Active, "{level}");
        assert_eq!(read(&runtime, &array, Bytes::ZERO), Ok(7), "{level}");
    }
}

#[test]
fn it_stays_while_another_fails_too() {
    for (level, members) in levels().into_iter().filter(|(level, _)| level.losses_survived(4) == 1) {
        if level.parities() == 0 {
            continue;
        }
        let runtime = Runtime::simulated();
        let array = assemble(&runtime, level, members);
        let worn = array.geometry().place(Bytes::ZERO).member;
        let of_another = CHUNK;
        let place = array.geometry().place(of_another);
        array
            .device(place.member)
            .unwrap()
            .inner()
            .damage(place.offset..place.offset + Bytes::SECTOR, Damage::Unreadable);
        assert_eq!(read(&runtime, &array, of_another), Ok(0), "{level}");
        wear(&array, worn);
        for _ in 0..40 {
            assert_eq!(read(&runtime, &array, Bytes::ZERO), Ok(0), "{level}");
        }
        assert_eq!(array.state(worn), MemberState::Active, "{level}");
        // An hour later the other has done nothing worse.
        runtime.block_on(runtime.sleep(Duration::seconds(3600)));
        for _ in 0..40 {
            assert_eq!(read(&runtime, &array, Bytes::ZERO), Ok(0), "{level}");
        }
        assert_eq!(array.state(worn), MemberState::Failed, "{level}");
    }
}

#[test]
fn one_bad_patch_and_what_a_scrub_meets_cost_no_member() {
    for (level, members) in levels() {
        let runtime = Runtime::simulated();
        let array = assemble(&runtime, level, members);
        let worn = array.geometry().place(Bytes::ZERO).member;
        let device = array.device(worn).unwrap();
        // 256 requests meet it.
        device.inner().damage(Bytes::ZERO..Bytes::mib(1), Damage::Unreadable);
        for block in 0..1024 {
            assert_eq!(read(&runtime, &array, Bytes::kib(4) * block), Ok(0), "{level}");
        }
        assert!(array.counts(worn).rewritten >= 256 / members as u64, "{level}: {:?}", array.counts(worn));
        // A place in each of 40 patches.
        (0..40).for_each(|mib| {
            device.inner().damage(Bytes::mib(mib)..Bytes::mib(mib) + Bytes::kib(4), Damage::Unreadable)
        });
        runtime.block_on(array.scrub(Repair::No)).unwrap();
        assert_eq!(device.inner().damaged(), [], "{level}: all is mended");
        assert_eq!(array.state(worn), MemberState::Active, "{level}");
        // In service they are too many, if they come within some hours.
        let data = (0..array.shape().size / CHUNK).map(|chunk| CHUNK * chunk);
        let own: Vec<Bytes> = data.filter(|at| array.geometry().place(*at).member == worn).collect();
        let mut patches: Vec<Bytes> =
            own.iter().map(|at| array.geometry().place(*at).offset.round_down(Bytes::mib(1))).collect();
        patches.dedup();
        for pause in [Duration::seconds(3600), Duration::ZERO] {
            for patch in &patches {
                let at = own
                    .iter()
                    .find(|at| array.geometry().place(**at).offset.round_down(Bytes::mib(1)) == *patch)
                    .unwrap();
                let place = array.geometry().place(*at).offset;
                device.inner().damage(place..place + Bytes::kib(4), Damage::Unreadable);
                assert_eq!(read(&runtime, &array, *at), Ok(0), "{level}");
                runtime.block_on(runtime.sleep(pause));
            }
            let expected = if pause.is_zero() { MemberState::Failed } else { MemberState::Active };
            assert_eq!(array.state(worn), expected, "{level}, one each {pause}");
        }
    }
}
