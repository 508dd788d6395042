//! The array over members in memory: what it costs beyond what its members cost. Processor time of one thread.
//!
//! Level 5, eight members, chunks of 64 KiB. The members copy what is written and read, as a device would by DMA, so that a
//! figure near theirs is the most there can be.

use std::hint::black_box;

use array::Array;
use array::geometry::{Geometry, Level, Rotation};
use device::{Buffer, Data, Device, MemoryDevice, Request, Shape};
use futures_util::future::join_all;
use runtime::Runtime;
use units::Bytes;

use crate::measure::{line, processor_seconds};

const MEMBERS: usize = 8;
const CHUNK: Bytes = Bytes::kib(64);
const ROWS: u64 = 64;
const BLOCK: Bytes = Bytes::kib(4);
const ROUNDS: u32 = 7;
const REQUESTS: u64 = 20_000;

struct Bed {
    runtime: Runtime,
    array: Array<MemoryDevice>,
}

fn memory(runtime: &Runtime) -> MemoryDevice {
    MemoryDevice::new(runtime, Shape::new("memory", CHUNK * ROWS))
}

fn bed() -> Bed {
    let runtime = Runtime::simulated();
    let level = Level::Raid5(Rotation::LeftSymmetric);
    let geometry = Geometry::new(level, CHUNK, &[CHUNK * ROWS; MEMBERS]).expect("eight members make a level 5");
    let members = (0..MEMBERS).map(|_| (memory(&runtime), Bytes::ZERO)).collect();
    let array = Array::assemble(&runtime, "array", geometry, members).expect("they fit");
    let bed = Bed { runtime, array };
    bed.fill();
    bed
}

fn data(length: Bytes) -> Data {
    let mut buffer = Buffer::zeroed(length);
    for (index, byte) in buffer.bytes_mut().expect("it is real").iter_mut().enumerate() {
        *byte = (index.wrapping_mul(0x9e37_79b9) >> 13) as u8;
    }
    buffer.freeze()
}

/// The best of the rounds, in seconds of processor time.
fn best(mut work: impl FnMut()) -> f64 {
    let round = |_| {
        let start = processor_seconds();
        work();
        processor_seconds() - start
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

/// Addresses of blocks all over a size, in an order that looks random.
fn addresses(size: Bytes) -> impl Iterator<Item = Bytes> {
    let blocks = size / BLOCK;
    (0..REQUESTS).map(move |number| BLOCK * (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).wrapping_rem(blocks))
}

impl Bed {
    fn fill(&self) {
        let row = data(self.array.geometry().stripe_size());
        for number in 0..ROWS {
            let request = Request::write(row.len() * number, row.clone());
            self.runtime.block_on(self.array.submit(request)).result.expect("memory does not fail");
        }
    }

    /// One request after the other.
    fn each(&self, device: &impl Device, requests: impl Iterator<Item = Request>) {
        self.runtime.block_on(async {
            for request in requests {
                black_box(device.submit(request).await).result.expect("memory does not fail");
            }
        });
    }
}

pub fn run() -> bool {
    let bed = bed();
    let size = bed.array.geometry().size();
    let mut met = true;

    let written = data(size);
    let mut copy = vec![0u8; size.as_usize()];
    let copying = best(|| {
        copy.copy_from_slice(written.bytes().expect("it is real"));
        black_box(&mut copy);
    });
    let full = best(|| bed.fill());
    println!(
        "  full rows {:.1} GB/s, copying the same bytes {:.1} GB/s",
        size.get() as f64 / full / 1e9,
        size.get() as f64 / copying / 1e9
    );
    met &= line("copying takes, of the time of full-row writes", -copying / full * 100.0, "%", Some(-60.0));

    let block = data(BLOCK);
    let write = best(|| bed.each(&bed.array, addresses(size).map(|at| Request::write(at, block.clone()))));
    // What a read-modify-write sends to members: two reads side by side, then two writes.
    let members = [memory(&bed.runtime), memory(&bed.runtime)];
    bed.each(&members[0], std::iter::once(Request::write(Bytes::ZERO, data(CHUNK * ROWS))));
    bed.each(&members[1], std::iter::once(Request::write(Bytes::ZERO, data(CHUNK * ROWS))));
    let alone = best(|| {
        bed.runtime.block_on(async {
            for at in addresses(CHUNK * ROWS) {
                let old =
                    join_all(members.iter().map(|member| member.submit(Request::read(at, Buffer::zeroed(BLOCK)))))
                        .await;
                black_box(old);
                let new = join_all(members.iter().map(|member| member.submit(Request::write(at, block.clone())))).await;
                black_box(new);
            }
        });
    });
    let nanos = |seconds: f64| seconds * 1e9 / REQUESTS as f64;
    println!("  random 4 KiB write {:.0} ns, its member I/Os alone {:.0} ns", nanos(write), nanos(alone));
    met &= line("random 4 KiB writes, of their member I/Os", write / alone * 100.0, "%", Some(115.0));

    let read = best(|| bed.each(&bed.array, addresses(size).map(|at| Request::read(at, Buffer::zeroed(BLOCK)))));
    println!("  random 4 KiB read {:.0} ns", nanos(read));
    met &= line("random 4 KiB reads, thousands a second", -(REQUESTS as f64 / read / 1e3), "k/s", Some(-300.0));

    bed.array.fail(3);
    let degraded = best(|| bed.each(&bed.array, addresses(size).map(|at| Request::read(at, Buffer::zeroed(BLOCK)))));
    println!("  the same with a member lost {:.0} ns", nanos(degraded));
    met
}
