//! Requests that do not fit the device's blocks, byte by byte, in virtual time.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::raw::{Raw, name};
use common::{export, house, memory, visit};
use device::filter::{Delay, Effect, Event, Faulty, Latency, Recorder, Rule};
use device::{AnyDevice, DeviceError, MemoryDevice, Operation, Shape};
use nbd::protocol::{answer, chunk, command, flag, option};
use nbd::{Portion, divide};
use proptest::collection::vec;
use proptest::prelude::*;
use runtime::Runtime;
use units::{Bytes, Duration};

const SIZE: Bytes = Bytes::kib(64);

/// A device of such blocks.
fn blocks_of(runtime: &Runtime, block: Bytes) -> MemoryDevice {
    let shape = Shape { logical_block: block, ..Shape::new("blocks", SIZE) };
    MemoryDevice::new(runtime, shape)
}

/// Writes, and returns the error.
async fn write(raw: &Raw, offset: u64, bytes: &[u8]) -> u32 {
    raw.request(command::WRITE, 0, offset, bytes.len() as u32, bytes).await;
    raw.simple().await
}

/// What is there.
async fn read(raw: &Raw, offset: u64, length: usize) -> Vec<u8> {
    raw.request(command::READ, 0, offset, length as u32, &[]).await;
    assert_eq!(raw.simple().await, 0);
    raw.exactly(length).await
}

proptest! {
    /// Against a plain array of bytes: any ranges, on blocks of any size, with a device that zeroes and one that
    /// cannot.
    #[test]
    fn any_range_is_read_and_written(
        kib in 0u64..5,
        poor: bool,
        steps in vec((0..4u8, 0u64..SIZE.get(), prop_oneof![0u64..4, 0u64..600, 4090u64..4100, 0u64..20_000], 1u8..255), 1..30),
    ) {
        let runtime = Runtime::simulated();
        let block = if kib == 0 { Bytes::SECTOR } else { Bytes::kib(kib.next_power_of_two()) };
        let faulty = Faulty::new(&runtime, blocks_of(&runtime, block), 1);
        if poor {
            faulty.add(Rule::new(Effect::Fail(DeviceError::Unsupported)).on(Operation::WriteZeroes));
        }
        let house = house(&runtime, export(faulty));
        let raw = Raw(visit(&house));
        let mut model = vec![0u8; SIZE.as_usize()];
        runtime.block_on(async {
            raw.go(false).await;
            for (what, offset, length, byte) in steps {
                // Many reach to the very end.
                let length = length.min(SIZE.get() - offset) as usize;
                let range = offset as usize..offset as usize + length;
                match what {
                    0 => assert_eq!(read(&raw, offset, length).await, model[range]),
                    1 => {
                        raw.request(command::WRITE_ZEROES, 0, offset, length as u32, &[]).await;
                        assert_eq!(raw.simple().await, 0);
                        model[range].fill(0);
                    }
                    _ => {
                        // No two bytes side by side are the same.
                        let bytes: Vec<u8> = (0..length).map(|at| byte.wrapping_add(at as u8)).collect();
                        assert_eq!(write(&raw, offset, &bytes).await, 0);
                        model[range].copy_from_slice(&bytes);
                    }
                }
            }
            assert_eq!(read(&raw, 0, SIZE.as_usize()).await, model);
        });
        prop_assert_eq!(house.totals.errors.get(), 0);
    }
}

/// A request of the device: what, from where, how much, and how durably.
type Asked = (Operation, u64, u64, bool);

/// What the device is asked for: whole blocks, the edges once, and as durably as the client wants it.
#[test]
fn the_device_sees_whole_blocks_and_the_wish_for_durability() {
    let runtime = Runtime::simulated();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&seen);
    let note = move |event: &Event| {
        if event.ended.is_none() {
            log.borrow_mut().push((event.operation, event.offset.get(), event.length.get(), event.fua));
        }
    };
    let house = house(&runtime, export(Recorder::new(&runtime, memory(&runtime, SIZE), note)));
    let raw = Raw(visit(&house));
    use Operation::*;
    let cases: [(u16, u16, u64, u32, Vec<Asked>); 10] = [
        (command::READ, 0, 511, 2, vec![(Read, 0, 1024, false)]),
        (command::WRITE, flag::FUA, 1023, 1, vec![(Read, 512, 512, false), (Write, 512, 512, true)]),
        (command::WRITE, 0, 511, 1026, vec![(Read, 0, 512, false), (Read, 1536, 512, false), (Write, 0, 2048, false)]),
        (command::WRITE, flag::FUA, 512, 700, vec![(Read, 1024, 512, false), (Write, 512, 1024, true)]),
        (command::WRITE, flag::FUA, 512, 1024, vec![(Write, 512, 1024, true)]),
        (
            command::WRITE_ZEROES,
            flag::FUA,
            500,
            1036,
            vec![(Read, 0, 512, false), (Write, 0, 512, false), (WriteZeroes, 512, 1024, false), (Flush, 0, 0, false)],
        ),
        (command::WRITE_ZEROES, 0, 1, 1, vec![(Read, 0, 512, false), (Write, 0, 512, false)]),
        (command::TRIM, 0, 511, 1026, vec![(Discard, 512, 1024, false)]),
        (command::TRIM, flag::FUA, 1, 1022, vec![(Flush, 0, 0, false)]),
        (command::WRITE, 0, 3, 0, vec![]),
    ];
    runtime.block_on(async {
        raw.go(false).await;
        for (code, flags, offset, length, wanted) in cases {
            let payload = if code == command::WRITE { vec![1; length as usize] } else { vec![] };
            raw.request(code, flags, offset, length, &payload).await;
            assert_eq!(raw.simple().await, 0);
            if code == command::READ {
                raw.exactly(length as usize).await;
            }
            assert_eq!(seen.take(), wanted, "request {code} of {length} at {offset}");
        }
    });
}

#[test]
fn a_trim_forgets_whole_blocks_and_a_status_is_of_what_was_asked() {
    let runtime = Runtime::simulated();
    let house = house(&runtime, export(blocks_of(&runtime, Bytes::kib(4))));
    let raw = Raw(visit(&house));
    runtime.block_on(async {
        raw.go(true).await;
        raw.request(command::WRITE, 0, 0, 8192, &[1; 8192]).await;
        raw.simple().await;
        raw.request(command::TRIM, 0, 1, 4100, &[]).await;
        assert_eq!(raw.simple().await, 0);
        raw.request(command::READ, 0, 4095, 2, &[]).await;
        assert_eq!(raw.chunk().await, (chunk::OFFSET_DATA, [&4095u64.to_be_bytes()[..], &[1, 1]].concat()));
        for (flags, offset, length) in [(0, 4097, 5), (flag::REQ_ONE, 1, 1), (0, SIZE.get() - 1, 1), (0, 3, 10_000)] {
            raw.request(command::BLOCK_STATUS, flags, offset, length, &[]).await;
            let (kind, data) = raw.chunk().await;
            assert_eq!((kind, &data[..4]), (chunk::BLOCK_STATUS, &[0, 0, 0, 1][..]));
            let lengths = data[4..].chunks(8).map(|extent| u32::from_be_bytes(extent[..4].try_into().unwrap()));
            assert_eq!(lengths.sum::<u32>(), length);
        }
    });
}

/// Two clients write to one block side by side, and each is told that it is done: both are there, whatever the order of
/// coming.
#[test]
fn no_neighbour_of_an_acknowledged_write_is_lost() {
    const OLD: u8 = 1;
    for (ours, theirs) in
        [((0, 1), (512, 512)), ((3, 600), (0, 512)), ((3, 1), (4, 1)), ((0, 513), (513, 511)), ((5, 9), (1, 1))]
    {
        for later in [0, 5, 10, 15, 25] {
            for zeroes in [false, true] {
                let runtime = Runtime::simulated();
                // Whatever is asked happens ten milliseconds later.
                let block = blocks_of(&runtime, Bytes::kib(1));
                let slow = Delay::new(&runtime, block, Latency::Fixed(Duration::millis(10)), 1);
                let house = house(&runtime, export(slow));
                let (one, other) = (Raw(visit(&house)), Raw(visit(&house)));
                runtime.block_on(async {
                    one.go(false).await;
                    other.go(false).await;
                    assert_eq!(write(&one, 0, &[OLD; 4096]).await, 0);
                    let first = async {
                        let code = if zeroes { command::WRITE_ZEROES } else { command::WRITE };
                        let payload = if zeroes { vec![] } else { vec![0; ours.1] };
                        one.request(code, 0, ours.0 as u64, ours.1 as u32, &payload).await;
                        assert_eq!(one.simple().await, 0);
                    };
                    let second = async {
                        runtime.sleep(Duration::millis(later)).await;
                        assert_eq!(write(&other, theirs.0 as u64, &vec![2; theirs.1]).await, 0);
                        // A block as the device knows it, beside them.
                        assert_eq!(write(&other, 1024, &[3; 1024]).await, 0);
                    };
                    futures_util::future::join(first, second).await;
                    let found = read(&one, 0, 3072).await;
                    for (at, byte) in found.into_iter().enumerate() {
                        let wrote = |(from, length): (usize, usize)| (from..from + length).contains(&at);
                        let allowed: &[u8] = match (wrote(ours), wrote(theirs)) {
                            _ if (1024..2048).contains(&at) => &[3],
                            (true, true) => &[0, 2],
                            (true, false) => &[0],
                            (false, true) => &[2],
                            (false, false) => &[OLD],
                        };
                        assert!(allowed.contains(&byte), "{byte} at {at}: {ours:?}, and {later} ms later {theirs:?}");
                    }
                });
            }
        }
    }
}

/// A whole block is written by one, and bytes of it by the other, while many more are under way: nothing waits for
/// ever.
#[test]
fn aligned_writes_of_a_whole_block_are_not_undone() {
    let runtime = Runtime::simulated();
    let slow = Delay::new(&runtime, blocks_of(&runtime, Bytes::kib(1)), Latency::Fixed(Duration::millis(10)), 1);
    let house = house(&runtime, export(slow));
    let (one, other) = (Raw(visit(&house)), Raw(visit(&house)));
    runtime.block_on(async {
        one.go(false).await;
        other.go(false).await;
        for round in 1..20u8 {
            let bytes = async {
                for at in 0..8 {
                    one.request(command::WRITE, 0, at, 1, &[round]).await;
                }
                for _ in 0..8 {
                    assert_eq!(one.simple().await, 0);
                }
            };
            let block = async {
                runtime.sleep(Duration::millis(u64::from(round))).await;
                assert_eq!(write(&other, 0, &[round; 1024]).await, 0);
            };
            futures_util::future::join(bytes, block).await;
            assert!(read(&one, 0, 1024).await == [round; 1024], "round {round}");
        }
    });
}

#[test]
fn an_error_at_an_edge_is_told_and_has_its_place_only_within_the_request() {
    let runtime = Runtime::simulated();
    let faulty = Rc::new(Faulty::new(&runtime, blocks_of(&runtime, Bytes::kib(4)), 1));
    let house = house(&runtime, export(Rc::clone(&faulty)));
    let raw = Raw(visit(&house));
    runtime.block_on(async {
        raw.go(true).await;
        for (at, kind) in [(4096, chunk::ERROR), (4200, chunk::ERROR_OFFSET)] {
            let error = DeviceError::Medium { offset: Bytes::new(at), length: Bytes::SECTOR };
            faulty.add(Rule::new(Effect::Fail(error)).on(Operation::Read).times(2));
            for code in [command::READ, command::WRITE] {
                let payload = if code == command::WRITE { vec![1; 200] } else { vec![] };
                raw.request(code, 0, 4150, 200, &payload).await;
                let (found, data) = raw.chunk().await;
                assert_eq!((found, &data[..4]), (kind, &5u32.to_be_bytes()[..]));
            }
        }
        raw.request(command::READ, 0, 4150, 1, &[]).await;
        assert_eq!(raw.chunk().await, (chunk::OFFSET_DATA, [&4150u64.to_be_bytes()[..], &[0]].concat()));
    });
}

/// Clients that do not ask for block sizes count on 512 bytes, and get them of any device: by the old option and by the
/// new one.
#[test]
fn large_blocks_are_served_to_clients_that_count_on_small_ones() {
    for old in [false, true] {
        let runtime = Runtime::simulated();
        let house = house(&runtime, export(blocks_of(&runtime, Bytes::kib(4))));
        let raw = Raw(visit(&house));
        runtime.block_on(async {
            raw.greet().await;
            if old {
                raw.ask(option::EXPORT_NAME, b"").await;
                raw.exactly(10).await;
            } else {
                raw.ask(option::GO, &name("", &[])).await;
                assert_eq!(raw.answers(option::GO).await.last().unwrap().0, answer::ACK);
            }
            assert_eq!(write(&raw, 512, &[7; 512]).await, 0);
            assert_eq!(read(&raw, 0, 1536).await, [vec![0; 512], vec![7; 512], vec![0; 512]].concat());
        });
    }
}

/// Exports that are parts of a device begin and end on its blocks: what is done around a request stays in its part.
#[test]
fn parts_of_a_device_leave_each_other_alone() {
    let runtime = Runtime::simulated();
    let slow = Delay::new(&runtime, blocks_of(&runtime, Bytes::kib(4)), Latency::Fixed(Duration::millis(10)), 1);
    let portions: Vec<Portion> = ["a=..8KiB", "b=8KiB.."].map(|text| text.parse().unwrap()).into();
    let exports = divide(&runtime, &AnyDevice::new(slow), &portions, false).unwrap();
    let house = common::house_of(&runtime, exports);
    let (one, other) = (Raw(visit(&house)), Raw(visit(&house)));
    runtime.block_on(async {
        for (raw, which) in [(&one, "a"), (&other, "b")] {
            raw.greet().await;
            raw.ask(option::GO, &name(which, &[])).await;
            raw.answers(option::GO).await;
        }
        let last = write(&one, 8191, &[1]);
        let first = write(&other, 0, &[2]);
        assert_eq!(futures_util::future::join(last, first).await, (0, 0));
        assert_eq!(read(&one, 8189, 3).await, [0, 0, 1]);
        assert_eq!(read(&other, 0, 3).await, [2, 0, 0]);
        one.request(command::READ, 0, 8191, 2, &[]).await;
        assert_eq!(one.simple().await, 22, "the end of a part is an end");
    });
}
