//! What every device promises, checked on any device under either clock.
//!
//! One behaviour per function, and one list of all: the memory device runs it under both clocks, files and block
//! devices under the live one, a RAID over any of them. A behaviour writes what it reads, so it assumes nothing of the
//! contents it finds; it *destroys* them. It needs [`SMALLEST`] bytes.

use futures_util::FutureExt;
use futures_util::future::join_all;
use runtime::Runtime;
use units::Bytes;

use crate::{Buffer, Data, Device, DeviceError, Operation, Reply, Request};

/// The least size of a device that can be put to the test.
pub const SMALLEST: Bytes = Bytes::mib(4);

/// A behaviour: its name, and the function that panics where the device does not show it.
pub type Behaviour<D> = (&'static str, fn(&Runtime, &D));

/// Everything that a device of type `D` must do.
pub fn behaviours<D: Device>() -> Vec<Behaviour<D>> {
    macro_rules! list {
        ($($behaviour:ident),* $(,)?) => { vec![$((stringify!($behaviour), $behaviour::<D>)),*] };
    }
    list![
        reads_what_was_written,
        the_later_write_wins,
        neighbours_stay_as_they_were,
        the_last_block_is_usable,
        misaligned_requests_are_refused,
        requests_beyond_the_end_are_refused,
        an_empty_request_succeeds,
        flushes_and_durable_writes_succeed,
        zeroed_ranges_read_as_zeroes,
        discarding_spares_the_neighbours,
        the_buffer_that_comes_back_is_the_one_that_was_given,
        stamps_lie_within_the_call,
        large_requests_are_whole,
        parts_of_a_buffer_are_filled_in_place,
        many_requests_at_once,
        abandoned_requests_do_no_harm,
        tasks_share_a_device,
    ]
}

/// Checks all behaviours in turn, naming each on standard output, where a failing test shows it.
pub fn check<D: Device>(runtime: &Runtime, device: &D) {
    assert!(device.shape().size >= SMALLEST, "conformance needs a device of {SMALLEST}");
    for (name, behaviour) in behaviours::<D>() {
        println!("{}: {name}", device.shape().name);
        behaviour(runtime, device);
    }
}

/// Bytes that differ from block to block and from `seed` to `seed`.
fn pattern(length: Bytes, seed: u64) -> Buffer {
    let mut buffer = Buffer::zeroed(length);
    let bytes = buffer.bytes_mut().expect("a buffer with memory");
    for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
        let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed.wrapping_mul(0xd134_2543_de82_ef95);
        word.copy_from_slice(&mixed.to_le_bytes());
    }
    buffer
}

fn block(device: &impl Device) -> Bytes {
    device.shape().logical_block
}

async fn write(device: &impl Device, offset: Bytes, data: Data) {
    device.submit(Request::write(offset, data)).await.result.expect("a write succeeds");
}

async fn read(device: &impl Device, offset: Bytes, length: Bytes) -> Vec<u8> {
    let reply = device.submit(Request::read(offset, Buffer::zeroed(length))).await;
    reply.result.expect("a read succeeds");
    reply.buffer.expect("a read's buffer comes back").bytes().expect("a buffer with memory").to_vec()
}

#[track_caller]
fn same(found: &[u8], wanted: &[u8]) {
    assert_eq!(found.len(), wanted.len());
    if let Some(at) = found.iter().zip(wanted).position(|(found, wanted)| found != wanted) {
        panic!("byte {at} of {}: {:#04x} instead of {:#04x}", found.len(), found[at], wanted[at]);
    }
}

fn reads_what_was_written<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let block = block(device);
        for (seed, (at, blocks)) in [(0, 1), (1, 1), (3, 7), (8, 8), (17, 100), (512, 256)].into_iter().enumerate() {
            let data = pattern(block * blocks, seed as u64).freeze();
            write(device, block * at, data.clone()).await;
            same(&read(device, block * at, block * blocks).await, data.bytes().unwrap());
        }
    });
}

fn the_later_write_wins<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let block = block(device);
        let (first, second) = (pattern(block * 8, 1).freeze(), pattern(block * 8, 2).freeze());
        write(device, Bytes::ZERO, first.clone()).await;
        write(device, block * 4, second.clone()).await;
        same(&read(device, Bytes::ZERO, block * 4).await, first.slice(Bytes::ZERO, block * 4).bytes().unwrap());
        same(&read(device, block * 4, block * 8).await, second.bytes().unwrap());
    });
}

fn neighbours_stay_as_they_were<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let block = block(device);
        let around = pattern(block * 3, 3).freeze();
        write(device, block * 10, around.clone()).await;
        write(device, block * 11, pattern(block, 4).freeze()).await;
        for neighbour in [0, 2] {
            let wanted = around.slice(block * neighbour, block);
            same(&read(device, block * (10 + neighbour), block).await, wanted.bytes().unwrap());
        }
    });
}

fn the_last_block_is_usable<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let block = block(device);
        let last = device.shape().size - block;
        let data = pattern(block, 5).freeze();
        write(device, last, data.clone()).await;
        same(&read(device, last, block).await, data.bytes().unwrap());
    });
}

/// Sends a read and a write of `length` bytes at `offset`, neither of which may be carried out.
async fn refused(device: &impl Device, offset: Bytes, length: Bytes) -> [DeviceError; 2] {
    let read = device.submit(Request::read(offset, Buffer::zeroed(length))).await;
    assert_eq!(read.buffer.expect("a refused read's buffer comes back").len(), length);
    let write = device.submit(Request::write(offset, Buffer::zeroed(length).freeze())).await;
    [read.result.expect_err("a bad read is refused"), write.result.expect_err("a bad write is refused")]
}

fn misaligned_requests_are_refused<D: Device>(runtime: &Runtime, device: &D) {
    let block = block(device);
    if block == Bytes::new(1) {
        return; // every request is aligned to a byte
    }
    runtime.block_on(async {
        let half = block / 2;
        for (offset, length) in [(half, block), (block, half), (half, half), (block, block + half)] {
            let wanted = DeviceError::Misaligned { offset, length, block };
            assert_eq!(refused(device, offset, length).await, [wanted.clone(), wanted]);
        }
    });
}

fn requests_beyond_the_end_are_refused<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let (block, size) = (block(device), device.shape().size);
        let furthest = Bytes::new(u64::MAX).round_down(block);
        for (offset, length) in [(size - block, block * 2), (size, block), (size + block, block), (furthest, block)] {
            let wanted = DeviceError::OutOfRange { offset, length, size };
            assert_eq!(refused(device, offset, length).await, [wanted.clone(), wanted]);
        }
    });
}

fn an_empty_request_succeeds<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let (block, size) = (block(device), device.shape().size);
        // Where chunks and stripes begin, too, and at the end, where nothing lies.
        for offset in (0..=64).map(|part| (size / 64 * part).round_down(block)).chain([block, size - block, size]) {
            assert!(read(device, offset, Bytes::ZERO).await.is_empty());
            let nothing = || Buffer::zeroed(Bytes::ZERO).freeze();
            write(device, offset, nothing()).await;
            device.submit(Request::write(offset, nothing()).with_fua()).await.result.expect("a write succeeds");
            for request in [Request::write_zeroes(offset, Bytes::ZERO), Request::discard(offset, Bytes::ZERO)] {
                let result = device.submit(request).await.result;
                assert!(matches!(result, Ok(()) | Err(DeviceError::Unsupported)), "{result:?}");
            }
        }
    });
}

fn flushes_and_durable_writes_succeed<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let block = block(device);
        let data = pattern(block * 4, 6).freeze();
        let reply = device.submit(Request::write(block * 5, data.clone()).with_fua()).await;
        assert_eq!((reply.result, reply.buffer.is_none()), (Ok(()), true));
        let reply = device.submit(Request::flush()).await;
        assert_eq!((reply.result, reply.buffer.is_none()), (Ok(()), true));
        same(&read(device, block * 5, block * 4).await, data.bytes().unwrap());
    });
}

/// Sends an operation on the middle third of a range that was written before; returns what the range holds after, and
/// the pattern. `None` if the device does not know the operation: then nothing may have changed.
async fn in_the_middle<D: Device>(device: &D, operation: Operation) -> Option<(Vec<u8>, Data)> {
    let part = Bytes::kib(64).round_up(block(device));
    let data = pattern(part * 3, 7).freeze();
    write(device, part, data.clone()).await;
    let request = match operation {
        Operation::Discard => Request::discard(part * 2, part),
        _ => Request::write_zeroes(part * 2, part),
    };
    let result = device.submit(request).await.result;
    let found = read(device, part, part * 3).await;
    if result == Err(DeviceError::Unsupported) {
        same(&found, data.bytes().unwrap());
        return None;
    }
    result.expect("the operation succeeds, or is not supported");
    Some((found, data))
}

fn zeroed_ranges_read_as_zeroes<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let Some((found, data)) = in_the_middle(device, Operation::WriteZeroes).await else { return };
        let (third, data) = (found.len() / 3, data.bytes().unwrap());
        same(&found[..third], &data[..third]);
        same(&found[third..2 * third], &vec![0; third]);
        same(&found[2 * third..], &data[2 * third..]);
    });
}

fn discarding_spares_the_neighbours<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let Some((found, data)) = in_the_middle(device, Operation::Discard).await else { return };
        let (third, data) = (found.len() / 3, data.bytes().unwrap());
        same(&found[..third], &data[..third]);
        same(&found[2 * third..], &data[2 * third..]);
    });
}

fn the_buffer_that_comes_back_is_the_one_that_was_given<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let block = block(device);
        for offset in [Bytes::ZERO, device.shape().size] {
            let buffer = Buffer::zeroed(block);
            let address = buffer.bytes().unwrap().as_ptr();
            let reply = device.submit(Request::read(offset, buffer)).await;
            assert_eq!(reply.result.is_ok(), offset.is_zero());
            assert_eq!(reply.buffer.expect("it comes back, error or not").bytes().unwrap().as_ptr(), address);
        }
    });
}

fn stamps_lie_within_the_call<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        for _ in 0..10 {
            let before = runtime.now();
            let reply = device.submit(Request::read(Bytes::ZERO, Buffer::zeroed(block(device)))).await;
            let (stamps, after) = (reply.stamps, runtime.now());
            assert!(before <= stamps.submitted && stamps.submitted <= stamps.completed && stamps.completed <= after);
        }
    });
}

fn large_requests_are_whole<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let length = (device.shape().size / 2).round_down(block(device)).min(Bytes::mib(24));
        let data = pattern(length, 8).freeze();
        write(device, block(device), data.clone()).await;
        same(&read(device, block(device), length).await, data.bytes().unwrap());
    });
}

fn parts_of_a_buffer_are_filled_in_place<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let part = Bytes::kib(16).round_up(block(device));
        let data = pattern(part * 2, 9).freeze();
        let halves = [(part * 3, Bytes::ZERO), (part, part)];
        join_all(halves.map(|(at, start)| write(device, at, data.slice(start, part)))).await;
        let mut first = Buffer::zeroed(part * 2);
        let address = first.bytes().unwrap().as_ptr();
        let second = first.split_to(part);
        let reads = [(part * 3, second), (part, first)].map(|(at, into)| device.submit(Request::read(at, into)));
        let mut parts = join_all(reads).await.into_iter().map(|reply| {
            reply.result.expect("a read succeeds");
            reply.buffer.expect("a read's buffer comes back")
        });
        let mut whole = parts.next().unwrap();
        whole.join(parts.next().unwrap());
        assert_eq!(whole.bytes().unwrap().as_ptr(), address, "neighbouring parts join without a copy");
        same(whole.bytes().unwrap(), data.bytes().unwrap());
    });
}

fn many_requests_at_once<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let part = Bytes::kib(4).round_up(block(device));
        let count = (device.shape().size / part).min(1000);
        let patterns: Vec<Data> = (0..count).map(|n| pattern(part, 1000 + n).freeze()).collect();
        join_all(patterns.iter().zip(0..).map(|(data, n)| write(device, part * n, data.clone()))).await;
        let found = join_all((0..count).rev().map(|n| read(device, part * n, part))).await;
        for (found, data) in found.iter().rev().zip(&patterns) {
            same(found, data.bytes().unwrap());
        }
    });
}

fn abandoned_requests_do_no_harm<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let part = Bytes::kib(16).round_up(block(device));
        // A write that nobody waits for may be made at any later time, so it goes where no other behaviour looks (on
        // larger devices than the smallest).
        let apart = (device.shape().size / 4 * 3).round_down(block(device));
        let data = pattern(part, 10).freeze();
        write(device, Bytes::ZERO, data.clone()).await;
        for round in 0..20 {
            for _ in 0..8 {
                // Never polled, polled once, polled and left alone for a turn.
                drop(device.submit(Request::read(Bytes::ZERO, Buffer::zeroed(part))));
                let once = device.submit(Request::read(part, Buffer::zeroed(part))).now_or_never();
                drop::<Option<Reply>>(once);
                let mut later = Box::pin(device.submit(Request::write(apart, pattern(part, round).freeze())));
                drop::<Option<Reply>>(later.as_mut().now_or_never());
                runtime.yield_now().await;
            }
            // Memory that the abandoned reads have given up may be ours now; they must not write into it.
            let fresh: Vec<Buffer> = (0..16).map(|n| pattern(part, n)).collect();
            same(&read(device, Bytes::ZERO, part).await, data.bytes().unwrap());
            for (buffer, n) in fresh.iter().zip(0..) {
                same(buffer.bytes().unwrap(), pattern(part, n).bytes().unwrap());
            }
        }
    });
}

fn tasks_share_a_device<D: Device>(runtime: &Runtime, device: &D) {
    runtime.block_on(async {
        let part = Bytes::kib(8).round_up(block(device));
        let streams = (0..16).map(async |stream: u64| {
            for turn in 0..20 {
                let data = pattern(part, stream << 32 | turn).freeze();
                write(device, part * stream, data.clone()).await;
                same(&read(device, part * stream, part).await, data.bytes().unwrap());
            }
        });
        join_all(streams).await;
    });
}
