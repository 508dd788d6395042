//! Verification: a planted corruption is found and named rightly every time, and without a plant nothing is found.

use std::cell::RefCell;
use std::collections::BTreeSet;

use device::filter::{Damage, Delay, Effect, Faulty, Latency, Medium, Rule};
use device::{Device, MemoryDevice, Operation, Request, Shape};
use rand::RngExt;
use record::Row;
use runtime::{Random, Runtime};
use units::{Bytes, Duration, Instant, Ratio};
use workload::{
    Context, Control, Drive, Heap, Kind, Ledger, Limits, Load, Mismatch, Mix, OnError, Pattern, ReadBehind, Sizes,
    Stream, Tally, Verify, sweep,
};

const BLOCK: Bytes = Bytes::kib(4);
const DEVICE: u16 = 5;

/// A device of which writes may be lost, misdirected or shorn, on a medium whose bits may turn over.
type Bench = Delay<Faulty<Medium<MemoryDevice>>>;

struct Rig {
    runtime: Runtime,
    device: Bench,
    ledger: Ledger,
}

impl Rig {
    fn new(seed: u64, size: Bytes, rules: Vec<Rule>) -> Rig {
        let runtime = Runtime::simulated();
        let medium = Medium::new(&runtime, MemoryDevice::new(&runtime, Shape::new("d", size)));
        let faulty = Faulty::new(&runtime, medium, seed);
        rules.into_iter().for_each(|rule| faulty.add(rule));
        // Completions come out of order, so that requests overlap in every way.
        let latency = Latency::Uniform(Duration::micros(10), Duration::micros(500));
        let device = Delay::new(&runtime, faulty, latency, seed);
        Rig { runtime, device, ledger: Ledger::new(77, DEVICE, BLOCK) }
    }

    fn medium(&self) -> &Medium<MemoryDevice> {
        self.device.inner().inner()
    }

    /// Runs a stream for so many requests.
    fn load(&self, stream: &Stream, requests: u64, pass: u16, seed: u64) {
        let stream = Stream { limits: Limits { requests: Some(requests), ..Limits::NONE }, ..stream.clone() };
        stream.check(self.device.shape()).unwrap();
        let begin = self.runtime.now().max(Instant::START);
        let control = Control::new(begin, Duration::ZERO, Duration::ZERO, 1);
        let observer = RefCell::new(|row: &Row| assert_eq!(row.errno, 0));
        let (tally, data) = (Tally::default(), stream.data(&Heap, &mut Random::new(1)));
        let context = Context::new(&self.runtime, &self.device, &control, &observer, &tally, &Heap, &data);
        let drive = Drive::new(Context { stream_index: 3, device_index: DEVICE, pass, ..context }, &stream, seed);
        let drive = Drive { ledger: Some(&self.ledger), ..drive };
        assert_eq!(self.runtime.block_on(drive.run()), None);
    }

    /// Everything is read again; what was found, in order of address.
    fn sweep(&self) -> Vec<Mismatch> {
        assert_eq!(self.runtime.block_on(sweep(&self.device, &self.ledger, &Heap, (4, 9), || false)), None);
        let findings = self.ledger.findings();
        assert_eq!(findings.count as usize, findings.mismatches.len());
        let mut found = findings.mismatches;
        found.sort_by_key(|mismatch| mismatch.offset);
        found
    }

    fn read(&self, at: Bytes, length: Bytes) -> Vec<u8> {
        let request = Request::read(at, device::Buffer::zeroed(length));
        let reply = self.runtime.block_on(self.medium().submit(request));
        reply.buffer.unwrap().bytes().unwrap().to_vec()
    }

    /// Changes what is stored behind the ledger's back.
    fn plant(&self, at: Bytes, bytes: &[u8]) {
        let mut buffer = device::Buffer::zeroed(Bytes::new(bytes.len() as u64));
        buffer.bytes_mut().unwrap().copy_from_slice(bytes);
        let reply = self.runtime.block_on(self.medium().submit(Request::write(at, buffer.freeze())));
        assert_eq!(reply.result, Ok(()));
    }
}

fn writer(pattern: Pattern) -> Stream {
    Stream { verify: Some(Verify::Reads), ..Stream::closed("w", Mix::WRITES, pattern, BLOCK, 16) }
}

fn filled(seed: u64, blocks: u64, rules: Vec<Rule>) -> Rig {
    let rig = Rig::new(seed, BLOCK * blocks, rules);
    rig.load(&writer(Pattern::RandomOnce), blocks, 0, seed);
    rig
}

/// Reads and writes of mixed sizes over one another, many more than there are blocks; whatever overlaps, nothing is
/// found.
#[test]
fn without_a_plant_nothing_is_found() {
    for seed in 0..40 {
        let rig = Rig::new(seed, Bytes::mib(1), Vec::new());
        let mut both = Stream { mix: Mix { reads: Ratio::percent(50.0) }, ..writer(Pattern::Random) };
        both.sizes = Sizes::weighted([(BLOCK, 3), (BLOCK * 4, 2), (BLOCK * 16, 1)]).unwrap();
        both.align = BLOCK;
        rig.load(&both, 2000, 0, seed);
        rig.load(
            &Stream { behind: Some(ReadBehind { lag: 3, lap: None }), mix: Mix::WRITES, ..both },
            2000,
            1,
            seed + 1000,
        );
        assert_eq!(rig.sweep(), []);
        let findings = rig.ledger.findings();
        assert!(findings.checked > Bytes::mib(10), "{findings:?}");
    }
}

/// Writes larger or smaller than reads: a block is no unit of both.
#[test]
fn writes_of_other_sizes_than_reads_are_verified() {
    for (read, write) in [(1, 16), (16, 1), (3, 2)] {
        let rig = Rig::new(read, Bytes::mib(1), Vec::new());
        let mut both = Stream { mix: Mix { reads: Ratio::percent(50.0) }, ..writer(Pattern::Random) };
        both.sizes = Sizes::fixed(BLOCK * read);
        both.write_sizes = Some(Sizes::fixed(BLOCK * write));
        both.align = BLOCK;
        rig.load(&both, 2000, 0, read);
        assert_eq!(rig.sweep(), []);
        let at = BLOCK * 20;
        rig.medium().damage(at..at + Bytes::SECTOR, Damage::Flipped(9));
        assert_eq!(rig.sweep().len(), 1, "reads of {read}, writes of {write}");
    }
}

/// Reads at once find it as well as a sweep does: the stream itself reads what a fault in front of the medium lost.
#[test]
fn a_stream_that_reads_behind_finds_what_its_device_lost() {
    for seed in 0..40 {
        let lost = Rule::new(Effect::Lose).on(Operation::Write).after(20 + seed).times(1);
        let rig = Rig::new(seed, BLOCK * 500, vec![lost]);
        rig.load(
            &Stream { behind: Some(ReadBehind { lag: 2, lap: None }), ..writer(Pattern::RandomOnce) },
            900,
            0,
            seed,
        );
        let findings = rig.ledger.findings();
        let [one] = &findings.mismatches[..] else { panic!("seed {seed}: {findings:?}") };
        assert_eq!((one.kind, one.length, one.stream, one.found), (Kind::Stale, BLOCK, 3, None), "{one}");
    }
}

#[test]
fn a_flipped_bit_is_named_to_the_bit() {
    for seed in 0..100 {
        let rig = filled(seed, 256, Vec::new());
        let mut random = Random::new(seed);
        let (sector, bit) = (random.random_range(0..256 * 8u64), random.random_range(0..4096u16));
        let at = Bytes::SECTOR * sector;
        rig.medium().damage(at..at + Bytes::SECTOR, Damage::Flipped(bit));
        let found = rig.sweep();
        let [one] = &found[..] else { panic!("seed {seed}: {found:?}") };
        assert_eq!((one.kind, one.device, one.offset, one.length), (Kind::Corrupt, DEVICE, at, Bytes::SECTOR));
        assert_eq!((one.bits, one.first_bit), (Some(1), Some(u32::from(bit))), "seed {seed}");
        let byte = format!("bit {} of byte {}", bit % 8, at.get() + u64::from(bit / 8));
        assert!(one.to_string().contains(&byte), "{one}");
    }
}

#[test]
fn swapped_blocks_are_misplaced_both() {
    for seed in 0..100 {
        let rig = filled(seed, 256, Vec::new());
        let mut random = Random::new(seed);
        let first = random.random_range(0..256u64);
        let second = (first + random.random_range(1..256u64)) % 256;
        let places = [first, second].map(|block| BLOCK * block);
        let [a, b] = places.map(|at| rig.read(at, BLOCK));
        rig.plant(places[0], &b);
        rig.plant(places[1], &a);
        let found = rig.sweep();
        let named: BTreeSet<_> = found.iter().map(|one| (one.offset, one.found.unwrap().offset, one.length)).collect();
        let planted = BTreeSet::from([(places[0], places[1], BLOCK), (places[1], places[0], BLOCK)]);
        assert_eq!(named, planted, "seed {seed}");
        assert!(found.iter().all(|one| one.kind == Kind::Misplaced && one.device == DEVICE), "{found:?}");
    }
}

/// A write that is answered and not done: what is there is the one before, or what was there before the first.
#[test]
fn a_lost_write_leaves_stale_blocks() {
    for seed in 0..100 {
        let again = seed % 2 == 1;
        let lost = Rule::new(Effect::Lose).on(Operation::Write).after(u64::from(again) * 256 + seed).times(1);
        let rig = filled(seed, 256, vec![lost]);
        if again {
            rig.load(&writer(Pattern::RandomOnce), 256, 1, seed + 1000);
        }
        let found = rig.sweep();
        let [one] = &found[..] else { panic!("seed {seed}: {found:?}") };
        assert_eq!((one.kind, one.length), (Kind::Stale, BLOCK), "{one}");
        let expected = one.expected.unwrap().version;
        assert_eq!(expected.pass(), u16::from(again));
        assert_eq!(one.found.map(|found| found.version.pass()), again.then_some(0), "{one}");
        assert!(one.found.is_none_or(|found| found.version < expected && found.offset == one.offset));
    }
}

/// A block of an earlier time is put back.
#[test]
fn a_stale_block_is_named_with_its_age() {
    for seed in 0..100 {
        let rig = filled(seed, 256, Vec::new());
        let at = BLOCK * Random::new(seed).random_range(0..256u64);
        let old = rig.read(at, BLOCK);
        let was = workload::Stamp::read(&old[..512]).unwrap();
        rig.load(&writer(Pattern::RandomOnce), 256, 1, seed + 1000);
        rig.plant(at, &old);
        let found = rig.sweep();
        let [one] = &found[..] else { panic!("seed {seed}: {found:?}") };
        assert_eq!((one.kind, one.offset, one.length, one.found), (Kind::Stale, at, BLOCK, Some(was)), "{one}");
        let said = format!("expected {}, found {}", one.expected.unwrap().version, was.version);
        assert!(one.to_string().contains(&said), "{one}");
    }
}

/// A misdirected write is two faults: what it should have replaced is stale, and what it replaced is misplaced.
#[test]
fn a_misdirected_write_is_seen_at_both_ends() {
    for seed in 0..50 {
        let away = Rule::new(Effect::Misdirect(BLOCK * 100))
            .on(Operation::Write)
            .within(Bytes::ZERO..BLOCK * 100)
            .after(seed)
            .times(1);
        // The blocks that it may hit are written before.
        let rig = Rig::new(seed, BLOCK * 200, vec![away]);
        let mut half = writer(Pattern::RandomOnce);
        half.region.start = BLOCK * 100;
        rig.load(&half, 100, 0, seed);
        half.region = workload::Region { start: Bytes::ZERO, length: Some(BLOCK * 100) };
        rig.load(&half, 100, 0, seed);
        let found = rig.sweep();
        let [near, far] = &found[..] else { panic!("seed {seed}: {found:?}") };
        assert_eq!((near.kind, far.kind), (Kind::Stale, Kind::Misplaced), "{near}; {far}");
        assert_eq!(far.offset, near.offset + BLOCK * 100);
        assert_eq!(far.found, near.expected, "the one is where the other should be");
    }
}

/// Of a write of 64 KiB some sectors are stored. All mismatches are of that write, and called torn; a write of which
/// nothing was stored was lost.
#[test]
fn a_shorn_write_is_torn() {
    for seed in 0..50 {
        let shorn = Rule::new(Effect::Shear).on(Operation::Write).after(16 + seed % 16).times(1);
        let rig = Rig::new(seed, Bytes::mib(1), vec![shorn]);
        // One at a time, so that the shorn one is of the second lap, and the last of its place.
        let load = Load::Closed { depth: 1, think: Duration::ZERO };
        let (sizes, align) = (Sizes::fixed(Bytes::kib(64)), Bytes::kib(64));
        let large = Stream { sizes, align, load, ..writer(Pattern::RandomOnce) };
        rig.load(&large, 32, 0, seed);
        let found = rig.sweep();
        let writes: BTreeSet<_> = found.iter().map(|one| one.expected.unwrap().version).collect();
        assert!(writes.len() <= 1, "seed {seed}: {found:?}");
        let bytes: Bytes = found.iter().map(|one| one.length).sum();
        assert!(bytes < Bytes::kib(64), "a random part of 128 sectors is never none");
        assert!(found.iter().all(|one| one.kind == Kind::Torn), "seed {seed}: {found:?}");
        assert!(!found.is_empty(), "seed {seed}: nor is it all of them");
    }
}

/// What is not known is not judged, and said not to be.
#[test]
fn what_nobody_wrote_is_not_judged() {
    let rig = Rig::new(1, BLOCK * 64, Vec::new());
    let reads = Stream { mix: Mix::READS, ..writer(Pattern::RandomOnce) };
    rig.plant(Bytes::ZERO, &[0xa5; 4096]);
    rig.load(&reads, 64, 0, 1);
    let findings = rig.ledger.findings();
    assert_eq!((findings.checked, findings.unknown, findings.count), (Bytes::ZERO, BLOCK * 64, 0));
    // A failed write leaves what nobody knows.
    let failing = Rule::new(Effect::Fail(device::DeviceError::NoSpace)).on(Operation::Write).times(1);
    let rig = Rig::new(1, BLOCK * 64, vec![failing]);
    let stream = Stream { limits: Limits { requests: Some(64), ..Limits::NONE }, ..writer(Pattern::RandomOnce) };
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    let observer = RefCell::new(|_: &Row| ());
    let (tally, data) = (Tally::default(), stream.data(&Heap, &mut Random::new(1)));
    let context = Context::new(&rig.runtime, &rig.device, &control, &observer, &tally, &Heap, &data);
    let context = Context { on_error: [OnError::Continue; 2], device_index: DEVICE, ..context };
    let drive = Drive { ledger: Some(&rig.ledger), ..Drive::new(context, &stream, 1) };
    rig.runtime.block_on(drive.run());
    assert_eq!(rig.sweep(), []);
    assert_eq!(rig.ledger.findings().checked, BLOCK * 63);
}

/// A device that is not written is held to what its sectors say of themselves.
#[test]
fn a_device_that_was_stamped_before_is_checked_blindly() {
    let mut rig = filled(3, 64, Vec::new());
    let [a, b] = [0, 1].map(|block| rig.read(BLOCK * block, BLOCK));
    rig.plant(BLOCK, &a);
    rig.plant(Bytes::ZERO, &b);
    rig.plant(BLOCK * 9, &[7; 4096]);
    rig.ledger = Ledger::blind(DEVICE, BLOCK);
    rig.load(&Stream { mix: Mix::READS, ..writer(Pattern::RandomOnce) }, 64, 0, 1);
    let mut found = rig.ledger.findings().mismatches;
    found.sort_by_key(|one| one.offset);
    let kinds: Vec<_> = found.iter().map(|one| (one.offset / BLOCK, one.kind)).collect();
    assert_eq!(kinds, [(0, Kind::Misplaced), (1, Kind::Misplaced), (9, Kind::Foreign)]);
}

/// What a ledger writes out is what it knows.
#[test]
fn a_ledger_made_of_what_was_written_is_the_same() {
    let mut rig = filled(3, 300, Vec::new());
    let written = rig.ledger.written();
    rig.ledger = Ledger::of(&written);
    assert_eq!(rig.ledger.written(), written);
    assert_eq!(rig.sweep(), []);
    assert_eq!(rig.ledger.findings().checked, BLOCK * 300);
}
