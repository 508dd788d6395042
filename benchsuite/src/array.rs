//! The array over members in memory: what it costs beyond what its members cost. Processor time of one thread.
//!
//! Level 5, eight members, chunks of 64 KiB. The members copy what is written and read, as a device would by DMA, so
//! that a figure near theirs is the most there can be.
//!
//! Small writes are measured beside their member I/Os alone: as many reads and writes of the same members at addresses
//! as random, two at a time, into buffers that are used again. Twice, as what four copies of 4 KiB cost depends on
//! where the members lie: from memory (256 MiB of them, more than any cache here holds; the bar is for this, as no disk
//! fits into a cache), and in cache, where the copies are cheapest and no array could keep the bar: computing the sum
//! between the reads and the writes, without any array, takes more than its 15 percent there. That floor is printed for
//! both.

use std::hint::black_box;
use std::rc::Rc;

use array::Array;
use array::geometry::{Geometry, Level, Rotation};
use array::md::Uuid;
use device::filter::{Delay, Latency, Limited};
use device::{Buffer, Data, Device, MemoryDevice, Request, Shape};
use futures_util::future::join;
use futures_util::stream::{self, StreamExt};
use parity::Kernel;
use runtime::Runtime;
use units::{Bytes, Duration, Instant, Rate};

use crate::measure::{amount, processor_seconds};
use crate::runs::Table;

const MEMBERS: usize = 8;
const CHUNK: Bytes = Bytes::kib(64);
const ROWS: u64 = 64;
/// Members of 32 MiB, and of 128 KiB.
const FROM_MEMORY: u64 = amount(512, 16) as u64;
const IN_CACHE: u64 = 2;
const BLOCK: Bytes = Bytes::kib(4);
const ROUNDS: u32 = amount(7, 1);
const REQUESTS: u64 = amount(20_000, 1_000) as u64;
/// Turns of two pieces of work that are compared, and the requests of each: so few that a neighbour's noise mostly
/// lasts longer than a turn.
const TURNS: u64 = amount(301, 1) as u64;
const IN_A_TURN: u64 = amount(4_000, 500) as u64;

struct Bed {
    runtime: Runtime,
    array: Array<MemoryDevice>,
}

/// An array of so many rows, full of data.
fn bed(rows: u64) -> Bed {
    let runtime = Runtime::simulated();
    let level = Level::Raid5(Rotation::LeftSymmetric);
    let size = CHUNK * rows;
    let geometry = Geometry::new(level, CHUNK, &[size; MEMBERS]).expect("eight members make a level 5");
    let memory = || MemoryDevice::new(&runtime, Shape::new("memory", size));
    let members = (0..MEMBERS).map(|_| (memory(), Bytes::ZERO)).collect();
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

/// Seconds of processor time that a piece of work takes.
fn seconds(work: impl FnOnce()) -> f64 {
    let start = processor_seconds();
    work();
    processor_seconds() - start
}

/// The best of the rounds.
fn best(mut work: impl FnMut()) -> f64 {
    (0..ROUNDS).map(|_| seconds(&mut work)).fold(f64::INFINITY, f64::min)
}

/// Two pieces of work that were done in turns: the best of each, and the quartiles of their ratio within a turn. A
/// neighbour's noise, which lasts longer than a turn, hits both.
struct Compared {
    work: f64,
    other: f64,
    quartiles: [f64; 3],
}

/// Does two pieces of work in turns. Each is told a number that neither had before: what one leaves in the cache must
/// not serve the other, which it did while both had the same addresses (32 MB of a turn, and as much cache). Now one of
/// them goes first and now the other.
fn against(turns: u64, mut work: impl FnMut(u64), mut other: impl FnMut(u64)) -> Compared {
    let mut best = (f64::INFINITY, f64::INFINITY);
    let mut ratios = Vec::new();
    for turn in 0..turns {
        let (mut to_work, mut to_other) = (|| seconds(|| work(2 * turn)), || seconds(|| other(2 * turn + 1)));
        let took = if turn % 2 == 0 {
            (to_work(), to_other())
        } else {
            let other = to_other();
            (to_work(), other)
        };
        best = (best.0.min(took.0), best.1.min(took.1));
        ratios.push(took.0 / took.1);
    }
    ratios.sort_by(f64::total_cmp);
    Compared { work: best.0, other: best.1, quartiles: [1, 2, 3].map(|quarter| ratios[ratios.len() * quarter / 4]) }
}

/// What is found, as it is printed and as it is kept.
struct Results {
    table: Table,
    met: bool,
}

impl Results {
    fn tell(&mut self, what: &str, value: f64, unit: &str) {
        println!("  {what:<58} {value:>9.1} {unit}");
        self.table.row(&[what.to_owned(), format!("{value:.1}"), unit.to_owned(), String::new()]);
    }
    fn at_least(&mut self, what: &str, value: f64, unit: &str, bar: f64) {
        self.judge(what, value, unit, value >= bar, format!("at least {bar}"));
    }
    fn at_most(&mut self, what: &str, value: f64, unit: &str, bar: f64) {
        self.judge(what, value, unit, value <= bar, format!("at most {bar}"));
    }
    fn judge(&mut self, what: &str, value: f64, unit: &str, met: bool, bar: String) {
        let verdict = if met { "met" } else { "MISSED" };
        println!("  {what:<58} {value:>9.1} {unit}   bar {bar} {unit}: {verdict}");
        self.table.row(&[what.to_owned(), format!("{value:.1}"), unit.to_owned(), bar]);
        self.met &= met;
    }
}

/// Addresses of blocks all over a size, in an order that looks random.
fn addresses(size: Bytes, numbers: std::ops::Range<u64>) -> impl Iterator<Item = Bytes> {
    let blocks = size / BLOCK;
    numbers.map(move |number| BLOCK * (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).wrapping_rem(blocks))
}

/// Those of a turn: others in each, as few would stay in the cache.
fn of_turn(size: Bytes, turn: u64) -> impl Iterator<Item = Bytes> {
    addresses(size, turn * IN_A_TURN..(turn + 1) * IN_A_TURN)
}

impl Bed {
    fn fill(&self) {
        let row = data(self.array.geometry().stripe_size());
        for number in 0..self.array.geometry().rows() {
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

/// The member I/Os of small writes without an array: such reads and writes of its members, under the same runtime, and
/// into the same two buffers again and again. They leave parity that does not fit.
struct Alone<'a> {
    bed: &'a Bed,
    members: Vec<Rc<MemoryDevice>>,
}

impl Alone<'_> {
    fn new(bed: &Bed) -> Alone<'_> {
        let member = |number: usize| bed.array.device(number).expect("no member is lost");
        Alone { bed, members: (0..MEMBERS).map(member).collect() }
    }

    /// What a read-modify-write of each block sends: two reads side by side, then two writes. With a kernel what is
    /// written as parity is computed in between.
    fn each(&self, turn: u64, block: &Data, kernel: Option<&Kernel>) {
        let geometry = self.bed.array.geometry();
        self.bed.runtime.block_on(async {
            let mut buffers = (Buffer::zeroed(BLOCK), Buffer::zeroed(BLOCK));
            for address in of_turn(geometry.size(), turn) {
                let (_, stripe, place) = geometry.in_row(address);
                let (data, parity) = (&self.members[place.member], &self.members[stripe.p()]);
                let read = |into| Request::read(place.offset, into);
                let (old, sum) = join(data.submit(read(buffers.0)), parity.submit(read(buffers.1))).await;
                buffers = (old.buffer.expect("it was read"), sum.buffer.expect("it was read"));
                let write = |data: &Data| Request::write(place.offset, data.clone());
                let Some(kernel) = kernel else {
                    black_box(join(data.submit(write(block)), parity.submit(write(block))).await);
                    continue;
                };
                let (old, mut sum) = buffers;
                let (before, after) = (old.bytes().expect("it is real"), block.bytes().expect("it is real"));
                kernel.add(&[before, after], sum.bytes_mut().expect("it is real"));
                let sum = sum.freeze();
                black_box(join(data.submit(write(block)), parity.submit(write(&sum))).await);
                buffers = (old, sum.reclaim().expect("nobody else holds it"));
            }
        });
    }
}

/// Small writes beside their member I/Os alone, and beside these with the sum that lies between them.
fn small_writes(results: &mut Results, rows: u64, place: &str, bar: Option<f64>) {
    let (bed, block) = (bed(rows), data(BLOCK));
    let (alone, size) = (Alone::new(&bed), bed.array.geometry().size());
    let nanos = |seconds: f64| seconds * 1e9 / IN_A_TURN as f64;
    let alone_each = |turn| alone.each(turn, &block, None);
    let floor = against(TURNS, |turn| alone.each(turn, &block, Some(Kernel::best())), alone_each);
    let writes = |turn| bed.each(&bed.array, of_turn(size, turn).map(|at| Request::write(at, block.clone())));
    let Compared { work, other, quartiles: [low, median, high] } = against(TURNS, writes, alone_each);
    results.tell(&format!("random 4 KiB write, members {place}"), nanos(work), "ns");
    results.tell("its member I/Os alone", nanos(other), "ns");
    results.tell("floor: these and the sum, of these", floor.quartiles[1] * 100.0, "%");
    results.tell(&format!("a quarter of turns {place} lies below"), low * 100.0, "%");
    results.tell(&format!("and a quarter above, of {TURNS}"), high * 100.0, "%");
    let what = format!("random 4 KiB writes {place}, of their member I/Os");
    match bar {
        Some(bar) => results.at_most(&what, median * 100.0, "%", bar),
        None => results.tell(&what, median * 100.0, "%"),
    }
}

/// A disk of 200 MB/s and 100 us: memory behind a link.
type Disk = Limited<Delay<MemoryDevice>>;

const DISK: Bytes = Bytes::mib(24);

fn disk(runtime: &Runtime) -> Disk {
    let memory = MemoryDevice::new(runtime, Shape::new("disk", DISK));
    let delay = Delay::new(runtime, memory, Latency::Fixed(Duration::micros(100)), 1);
    Limited::to(runtime, delay, Rate::bytes_per_second(200e6))
}

/// A rebuild beside a copy of a disk that has sixteen reads and writes under way. In virtual time, so that it is the
/// same on every machine: in processor time nobody could compute a member from seven others as fast as copy it, and no
/// disk is as fast as memory.
fn rebuild(results: &mut Results) {
    let runtime = Runtime::simulated();
    let seconds = |start: Instant| runtime.now().since(start).as_seconds();
    let (from, to) = (disk(&runtime), disk(&runtime));
    let copy = |unit: u64| {
        let (from, to) = (&from, &to);
        async move {
            let reply = from.submit(Request::read(CHUNK * unit, Buffer::zeroed(CHUNK))).await;
            let bytes = reply.buffer.expect("it was read").freeze();
            to.submit(Request::write(CHUNK * unit, bytes)).await.result.expect("memory does not fail");
        }
    };
    let start = runtime.now();
    runtime.block_on(stream::iter(0..DISK / CHUNK).map(copy).buffered(16).collect::<Vec<()>>());
    let copied = seconds(start);

    let level = Level::Raid5(Rotation::LeftSymmetric);
    let geometry = Geometry::new(level, CHUNK, &[DISK; MEMBERS]).expect("eight members make a level 5");
    let members = (0..MEMBERS).map(|_| (disk(&runtime), Bytes::ZERO)).collect();
    let array = Array::assemble(&runtime, "array", geometry, members).expect("they fit");
    array.fail(3);
    let (start, processor) = (runtime.now(), processor_seconds());
    let lost = runtime.block_on(array.rebuild(3, disk(&runtime), Bytes::ZERO, Uuid([3; 16])));
    assert!(lost.expect("memory does not fail").is_empty(), "everything can be computed");
    let (rebuilt, processor) = (seconds(start), processor_seconds() - processor);
    let size = DISK.get() as f64 / 1e6;
    results.tell("copy of a disk of 200 MB/s", size / copied, "MB/s");
    results.tell("rebuild of one, of seven others", size / rebuilt, "MB/s");
    results.tell("processor time of the rebuild, of its time", processor / rebuilt * 100.0, "%");
    results.at_least("rebuild of a member, of the rate of a copy", copied / rebuilt * 100.0, "%", 80.0);
}

pub fn run() -> bool {
    let bed = bed(ROWS);
    let size = bed.array.geometry().size();
    let headings = ["what", "value", "unit", "bar"];
    let mut results = Results { table: Table::new("array", &headings), met: true };

    let written = data(size);
    let mut copy = vec![0u8; size.as_usize()];
    let mut copying = || {
        copy.copy_from_slice(written.bytes().expect("it is real"));
        black_box(&mut copy);
    };
    let compared = against(u64::from(3 * ROUNDS), |_| bed.fill(), |_| copying());
    let Compared { work: full, other: copying, quartiles: [_, ratio, _] } = compared;
    results.tell("full-row writes", size.get() as f64 / full / 1e9, "GB/s");
    results.tell("copying the same bytes", size.get() as f64 / copying / 1e9, "GB/s");
    results.at_least("copying takes, of the time of full-row writes", 100.0 / ratio, "%", 60.0);

    small_writes(&mut results, FROM_MEMORY, "from memory", Some(115.0));
    small_writes(&mut results, IN_CACHE, "in cache", None);

    let nanos = |seconds: f64| seconds * 1e9 / REQUESTS as f64;
    let reads =
        || bed.each(&bed.array, addresses(size, 0..REQUESTS).map(|at| Request::read(at, Buffer::zeroed(BLOCK))));
    let read = best(reads);
    results.tell("random 4 KiB read", nanos(read), "ns");
    results.at_least("random 4 KiB reads", REQUESTS as f64 / read / 1e3, "k/s", 300.0);
    bed.array.fail(3);
    results.tell("random 4 KiB read with a member lost", nanos(best(reads)), "ns");

    rebuild(&mut results);
    results.table.keep();
    results.met
}
