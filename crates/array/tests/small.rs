//! The small write, of which most lies on one way of its own: how long it waits for members that are slow, and for
//! members that hang.

use array::geometry::{Geometry, Level, Rotation};
use array::md::Uuid;
use array::{Array, MemberState};
use device::filter::{Delay, Effect, Faulty, Latency, Rule};
use device::{Buffer, Data, Device, DeviceError, MemoryDevice, Operation, Request, Shape};
use runtime::Runtime;
use units::{Bytes, Duration};

type Disk = Faulty<Delay<MemoryDevice>>;
const CHUNK: Bytes = Bytes::kib(64);
const BLOCK: Bytes = Bytes::kib(4);
const SLOW: Duration = Duration::seconds(20);
const LIMIT: Duration = Duration::seconds(30);
/// Where the block lies, and its parity.
const DATA: usize = 0;
const PARITY: usize = 4;

fn memory(runtime: &Runtime) -> MemoryDevice {
    MemoryDevice::new(runtime, Shape::new("disk", CHUNK * 4))
}

/// Five members that take 20 s for each request, and may take 30.
fn array(runtime: &Runtime) -> Array<Disk> {
    let disk = || Faulty::new(runtime, Delay::new(runtime, memory(runtime), Latency::Fixed(SLOW), 1), 1);
    array_of(runtime, disk)
}

fn array_of<D: Device>(runtime: &Runtime, disk: impl Fn() -> D) -> Array<D> {
    let geometry = Geometry::new(Level::Raid5(Rotation::LeftSymmetric), CHUNK, &[CHUNK * 4; 5]).unwrap();
    let (row, stripe, place) = geometry.in_row(BLOCK);
    assert_eq!((row, stripe.p(), place.member, place.offset), (0, PARITY, DATA, BLOCK));
    let disks = (0..5).map(|_| (disk(), Bytes::ZERO)).collect();
    let array = Array::assemble(runtime, "array", geometry, disks).unwrap();
    array.set_time_limit(LIMIT);
    array
}

fn block(fill: u8) -> Data {
    let mut buffer = Buffer::zeroed(BLOCK);
    buffer.bytes_mut().unwrap().fill(fill);
    buffer.freeze()
}

/// Writes a block; how long it took.
fn write<D: Device>(runtime: &Runtime, array: &Array<D>, fill: u8) -> Duration {
    let before = runtime.now();
    runtime.block_on(array.submit(Request::write(BLOCK, block(fill)))).result.unwrap();
    runtime.now().since(before)
}

fn holds<D: Device>(runtime: &Runtime, array: &Array<D>, fill: u8) -> bool {
    let reply = runtime.block_on(array.submit(Request::read(BLOCK, Buffer::zeroed(BLOCK))));
    reply.result.unwrap();
    reply.buffer.unwrap().bytes() == block(fill).bytes()
}

#[test]
fn each_step_has_the_whole_of_the_time_limit() {
    let runtime = Runtime::simulated();
    let array = array(&runtime);
    assert_eq!(write(&runtime, &array, 7), SLOW + SLOW, "a read and a write");
    assert!((0..5).all(|member| array.state(member) == MemberState::Active));
    assert!(holds(&runtime, &array, 7));
}

#[test]
fn a_member_that_hangs_in_either_step_is_waited_for_once_and_no_longer_than_the_limit() {
    // A read that is late is followed by those of what is left, and the writes; after a write that is late nothing is
    // left to do.
    for (operation, expected) in [(Operation::Read, LIMIT + SLOW + SLOW), (Operation::Write, SLOW + LIMIT)] {
        for member in [DATA, PARITY] {
            let runtime = Runtime::simulated();
            let array = array(&runtime);
            write(&runtime, &array, 7);
            array.device(member).unwrap().add(Rule::new(Effect::Hang).on(operation));
            // With the parity lost nothing need be read any more.
            let expected = if (operation, member) == (Operation::Read, PARITY) { LIMIT + SLOW } else { expected };
            assert_eq!(write(&runtime, &array, 8), expected, "{operation:?} of member {member}");
            assert_eq!(array.failure(member), Some(DeviceError::TimedOut(LIMIT)));
            let failed = |other: &usize| array.state(*other) == MemberState::Failed;
            assert_eq!((0..5).filter(failed).collect::<Vec<_>>(), [member]);
            assert!(holds(&runtime, &array, 8), "{operation:?} of member {member}");
        }
    }
}

/// The step that fails is under way when another device takes the place.
#[test]
fn a_device_is_not_blamed_for_the_one_whose_place_it_took() {
    for (operation, begins) in [(Operation::Read, Duration::ZERO), (Operation::Write, SLOW)] {
        for member in [DATA, PARITY] {
            let runtime = Runtime::simulated();
            let disk = || Delay::new(&runtime, Faulty::new(&runtime, memory(&runtime), 1), Latency::Fixed(SLOW), 1);
            let array = array_of(&runtime, disk);
            write(&runtime, &array, 7);
            let fails = Rule::new(Effect::Fail(DeviceError::Unsupported)).on(operation);
            array.device(member).unwrap().inner().add(fails);
            runtime.block_on(async {
                let replaced = async {
                    runtime.sleep(begins + Duration::seconds(1)).await;
                    array.fail(member);
                    array.rebuild(member, disk(), Bytes::ZERO, Uuid::default()).await
                };
                let written = array.submit(Request::write(BLOCK, block(8)));
                let (replaced, written) = futures_util::join!(replaced, written);
                assert_eq!((replaced, written.result), (Ok(vec![]), Ok(())), "{operation:?} of member {member}");
            });
            let is_active = |other| array.state(other) == MemberState::Active;
            assert!((0..5).all(is_active), "{operation:?} of member {member}");
            assert!(holds(&runtime, &array, 8), "{operation:?} of member {member}");
        }
    }
}
