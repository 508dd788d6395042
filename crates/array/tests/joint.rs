//! Writes of several bands of a row: what they ask of the members, and what becomes of them when a member fails.

use std::cell::Cell;
use std::rc::Rc;

use array::geometry::{Geometry, Level, Rotation};
use array::{Array, MemberState, Repair};
use device::filter::{Delay, Effect, Event, Faulty, Latency, Recorder, Rule};
use device::{Buffer, Data, Device, DeviceError, MemoryDevice, Operation, Request, Shape};
use runtime::Runtime;
use units::{Bytes, Duration};

const CHUNK: Bytes = Bytes::kib(8);
const TIME: Duration = Duration::millis(1);

type Disk = Recorder<Faulty<Delay<MemoryDevice>>, Box<dyn Fn(&Event)>>;

/// Reads and writes of all members.
type Counts = Rc<Cell<(u64, u64)>>;

/// Level 5 over five members that take 1 ms for each request.
fn array(runtime: &Runtime) -> (Array<Disk>, Counts) {
    let geometry = Geometry::new(Level::Raid5(Rotation::LeftSymmetric), CHUNK, &[CHUNK * 4; 5]).unwrap();
    let counts = Counts::default();
    let disk = || {
        let counts = Rc::clone(&counts);
        let observe = move |event: &Event| {
            let (reads, writes) = counts.get();
            match event.operation {
                _ if event.ended.is_some() => {}
                Operation::Read => counts.set((reads + 1, writes)),
                _ => counts.set((reads, writes + 1)),
            }
        };
        let memory = MemoryDevice::new(runtime, Shape::new("disk", CHUNK * 4));
        let slow = Faulty::new(runtime, Delay::new(runtime, memory, Latency::Fixed(TIME), 1), 1);
        (Recorder::new(runtime, slow, Box::new(observe) as Box<dyn Fn(&Event)>), Bytes::ZERO)
    };
    let array = Array::assemble(runtime, "array", geometry, (0..5).map(|_| disk()).collect()).unwrap();
    (array, counts)
}

fn data(length: Bytes, fill: u8) -> Data {
    let mut buffer = Buffer::zeroed(length);
    buffer.bytes_mut().unwrap().fill(fill);
    buffer.freeze()
}

fn write(runtime: &Runtime, array: &Array<Disk>, at: Bytes, length: Bytes, fill: u8) -> Result<(), DeviceError> {
    runtime.block_on(array.submit(Request::write(at, data(length, fill)))).result
}

fn read(runtime: &Runtime, array: &Array<Disk>, length: Bytes) -> Vec<u8> {
    let reply = runtime.block_on(array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(length))));
    reply.result.unwrap();
    reply.buffer.unwrap().bytes().unwrap().to_vec()
}

fn mismatches(runtime: &Runtime, array: &Array<Disk>) -> u64 {
    runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches
}

/// What a write asks of the members, and how long it takes.
fn cost(at: Bytes, length: Bytes, reconstructs: bool) -> (u64, u64, Duration) {
    let runtime = Runtime::simulated();
    let (array, counts) = array(&runtime);
    array.reconstruct_writes(reconstructs);
    write(&runtime, &array, Bytes::ZERO, array.shape().size, 1).unwrap();
    let (reads, writes) = counts.get();
    let before = runtime.now();
    write(&runtime, &array, at, length, 2).unwrap();
    let took = runtime.now().since(before);
    let cost = (counts.get().0 - reads, counts.get().1 - writes, took);
    let mut expected = vec![1; (CHUNK * 4).as_usize()];
    expected[at.as_usize()..(at + length).as_usize()].fill(2);
    assert_eq!(read(&runtime, &array, CHUNK * 4), expected);
    assert_eq!(mismatches(&runtime, &array), 0);
    cost
}

#[test]
fn each_member_is_asked_once_in_each_of_two_rounds() {
    let kib = Bytes::kib;
    // A chunk and a fragment: of the fragment's chunk the rest, and two others; or what is written, and parity.
    assert_eq!(cost(kib(0), kib(9), true), (3, 3, TIME * 2));
    assert_eq!(cost(kib(0), kib(9), false), (3, 3, TIME * 2));
    // Two chunks and a fragment leave the rest of one chunk, and another.
    assert_eq!(cost(kib(0), kib(17), true), (2, 4, TIME * 2));
    assert_eq!(cost(kib(0), kib(17), false), (2, 4, TIME * 2));
    // Two chunks, from the middle of one to the middle of the third: three are written, of two a half is left, and one.
    assert_eq!(cost(kib(4), kib(16), true), (3, 4, TIME * 2));
    // The end of a chunk and the beginning of the next lie apart: each has its old data and old parity read.
    assert_eq!(cost(kib(6), kib(4), false), (4, 4, TIME * 4));
}

/// Whichever member cannot be read: what is written is there, and redundancy fits.
#[test]
fn what_cannot_be_read_is_computed() {
    for member in 0..5 {
        for reconstructs in [true, false] {
            let runtime = Runtime::simulated();
            let (array, _) = array(&runtime);
            array.reconstruct_writes(reconstructs);
            write(&runtime, &array, Bytes::ZERO, array.shape().size, 1).unwrap();
            let medium = DeviceError::Medium { offset: Bytes::ZERO, length: Bytes::SECTOR };
            let rule = Rule::new(Effect::Fail(medium)).on(Operation::Read).times(1);
            array.device(member).unwrap().inner().add(rule);
            write(&runtime, &array, Bytes::ZERO, Bytes::kib(9), 2).unwrap();
            let found = read(&runtime, &array, CHUNK * 4);
            assert!(found[..9 << 10].iter().all(|byte| *byte == 2) && found[9 << 10..].iter().all(|byte| *byte == 1));
            assert_eq!(mismatches(&runtime, &array), 0, "member {member}");
        }
    }
}

/// Whichever member fails while it is written: what is written is there.
#[test]
fn a_member_that_fails_while_it_is_written_is_done_without() {
    for member in 0..5 {
        let runtime = Runtime::simulated();
        let (array, _) = array(&runtime);
        write(&runtime, &array, Bytes::ZERO, array.shape().size, 1).unwrap();
        array.device(member).unwrap().inner().add(Rule::new(Effect::Vanish).on(Operation::Write));
        write(&runtime, &array, Bytes::ZERO, Bytes::kib(9), 2).unwrap();
        let asked = [0, 1, 4].contains(&member);
        assert_eq!(array.state(member) == MemberState::Failed, asked, "member {member}");
        let found = read(&runtime, &array, CHUNK * 4);
        assert!(found[..9 << 10].iter().all(|byte| *byte == 2) && found[9 << 10..].iter().all(|byte| *byte == 1));
    }
}

/// Whichever member has no room: the write fails, nobody is lost, and redundancy fits what is there.
#[test]
fn a_member_without_room_fails_the_write_and_no_member() {
    for member in [0, 1, 4] {
        let runtime = Runtime::simulated();
        let (array, _) = array(&runtime);
        write(&runtime, &array, Bytes::ZERO, array.shape().size, 1).unwrap();
        let rule = Rule::new(Effect::Fail(DeviceError::NoSpace)).on(Operation::Write).times(1);
        array.device(member).unwrap().inner().add(rule);
        let error = write(&runtime, &array, Bytes::ZERO, Bytes::kib(9), 2).unwrap_err();
        assert_eq!(error, DeviceError::NoSpace);
        assert!((0..5).all(|member| array.state(member) == MemberState::Active));
        let found = read(&runtime, &array, CHUNK * 4);
        assert!(found[9 << 10..].iter().all(|byte| *byte == 1), "what was not written is as it was");
        if member == 4 {
            // Parity that was refused on the write that found out is marked bad, and made good by a scrub.
            runtime.block_on(array.scrub(Repair::BelieveData)).unwrap();
        }
        assert_eq!(mismatches(&runtime, &array), 0, "member {member}");
        write(&runtime, &array, Bytes::ZERO, Bytes::kib(9), 3).unwrap();
        assert_eq!(mismatches(&runtime, &array), 0, "member {member}");
    }
}
