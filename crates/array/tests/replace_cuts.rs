//! Power cuts while members are replaced: where a log closes the write hole, a member may be lost with the power too, and nothing is lost with it.
//!
//! Each seed is an array with a partial parity log or a journal over disks with volatile caches, four clients that write, flush and read,
//! a member that fails or is replaced meanwhile, and the power that goes, sometimes with a member; then the array is opened from what is left and compared
//! with an oracle, several times over. The oracle keeps for each sector the values that may be there: the newest that was made
//! durable, and all later ones. (The crate `storm` does worse to arrays without a journal.)

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;

use array::geometry::{DoubleRotation, Geometry, Level, Rotation};
use array::md::{self, Consistency, NewArray, NewMember, Stamp, Uuid};
use array::{Array, MemberState, OpenOptions, Repair, format};
use device::filter::{Delay, Latency, WriteCache};
use device::{Buffer, Data, Device, MemoryDevice, Operation, Reply, Request, Shape, Stamps};
use futures_util::future::{join_all, select};
use rand::RngExt;
use runtime::{Random, Runtime};
use units::{Bytes, Duration};

const CHUNK: Bytes = Bytes::kib(4);
/// What data take of a member: a few rows.
const DATA: Bytes = Bytes::kib(20);

/// Arrays whose write hole is closed.
fn closed_hole() -> Vec<(Level, usize, Consistency)> {
    vec![
        (Level::Raid5(Rotation::LeftSymmetric), 3, Consistency::Ppl),
        (Level::Raid5(Rotation::RightAsymmetric), 4, Consistency::Ppl),
        (Level::Raid5(Rotation::ParityLast), 5, Consistency::Ppl),
        (Level::Raid4, 3, Consistency::Journal),
        (Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Journal),
        (Level::Raid6(DoubleRotation::default()), 4, Consistency::Journal),
        (Level::Raid6(DoubleRotation::DdfNRestart), 5, Consistency::Journal),
    ]
}

/// How large the devices of an array are: its members, and a journal that is full soon.
fn sizes(members: usize, consistency: Consistency) -> Vec<Bytes> {
    match consistency {
        Consistency::Ppl => vec![Bytes::mib(2) + DATA; members],
        Consistency::Journal => {
            let journal = Bytes::mib(1) + Bytes::kib(256) * (members as u64 + 1);
            [vec![Bytes::mib(1) + DATA; members], vec![journal]].concat()
        }
        Consistency::Resync | Consistency::Bitmap => panic!("the write hole is open"),
    }
}

/// Whether a member may be lost with the power.
fn is_closed(consistency: Consistency) -> bool {
    matches!(consistency, Consistency::Ppl | Consistency::Journal)
}

/// A promise that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// What is to be logged is not.
    SkipLog,
}

/// A disk behind a cache that forgets, at a random distance; it may cheat in the name of the array.
struct Disk {
    runtime: Runtime,
    inner: Delay<WriteCache<MemoryDevice>>,
    bug: Option<Bug>,
}

impl Disk {
    fn new(runtime: &Runtime, cache: WriteCache<MemoryDevice>, bug: Option<Bug>, seed: u64) -> Rc<Disk> {
        let latency = Latency::Uniform(Duration::micros(1), Duration::micros(100));
        Rc::new(Disk { runtime: runtime.clone(), inner: Delay::new(runtime, cache, latency, seed), bug })
    }
}

impl Device for Disk {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    async fn submit(&self, request: Request) -> Reply {
        // In a log behind the superblock and before the data; empty headers pass.
        let in_log = (Bytes::kib(8)..Bytes::mib(2)).contains(&request.offset) && request.length > Bytes::kib(4);
        if self.bug == Some(Bug::SkipLog) && request.operation == Operation::Write && in_log {
            let now = self.runtime.now();
            return request.answer(Ok(()), Stamps { submitted: now, completed: now });
        }
        self.inner.submit(request).await
    }
}

fn data_of(bytes: &[u8]) -> Data {
    let mut buffer = Buffer::zeroed(Bytes::new(bytes.len() as u64));
    buffer.bytes_mut().unwrap().copy_from_slice(bytes);
    buffer.freeze()
}

/// For each sector the values that may be there, oldest first; the last is what a read must give while the power is on.
struct Oracle {
    allowed: Vec<Vec<u64>>,
    next: Cell<u64>,
    /// Sectors of the writes that are not answered, by client.
    under_way: Vec<Range<u64>>,
    /// As it was when a member failed.
    at_failure: Vec<Range<u64>>,
}

/// A sector full of one number.
fn sectors_of(value: u64, count: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(64 * count as usize)
}

/// The number of a sector; `None` if it is a mixture.
fn value_of(sector: &[u8]) -> Option<u64> {
    let first = &sector[..8];
    sector.chunks(8).all(|word| word == first).then(|| u64::from_le_bytes(first.try_into().unwrap()))
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Outcome {
    operations: u64,
    cuts: u64,
    failures: u64,
    lost_in_cuts: u64,
    rebuilds: u64,
    /// Replacements that a cut met, and those that had taken the member's place.
    replacing: u64,
    replaced: u64,
}

/// One client: writes, flushes and reads of its own sectors, until the power goes.
async fn client(
    array: &Array<Rc<Disk>>,
    oracle: &RefCell<Oracle>,
    mut random: Random,
    number: usize,
    own: Range<u64>,
    pauses: Option<&Runtime>,
    done: &Cell<u64>,
) -> Result<(), String> {
    loop {
        if let Some(runtime) = pauses {
            runtime.sleep(Duration::millis(random.random_range(0..2000))).await;
        }
        let from = random.random_range(own.clone());
        let most = if random.random_bool(0.2) { 64 } else { 12 };
        let count = random.random_range(1..=(own.end - from).min(most));
        let touched = from as usize..(from + count) as usize;
        match random.random_range(0..10) {
            0..6 => {
                let (value, fua) = (oracle.borrow().next.get(), random.random_bool(0.2));
                oracle.borrow().next.set(value + 1);
                oracle.borrow_mut().allowed[touched.clone()].iter_mut().for_each(|values| values.push(value));
                let mut request = Request::write(Bytes::SECTOR * from, data_of(&sectors_of(value, count)));
                request.fua = fua;
                oracle.borrow_mut().under_way[number] = from..from + count;
                if array.submit(request).await.result.is_err() {
                    return Ok(());
                }
                oracle.borrow_mut().under_way[number] = 0..0;
                if fua {
                    oracle.borrow_mut().allowed[touched].iter_mut().for_each(|values| *values = vec![value]);
                }
            }
            6..8 => {
                // What has been answered by now is promised when the flush is answered. Clients have sectors of their own and
                // one request at a time, so all that this client wrote has been answered.
                let now: Vec<u64> = oracle.borrow().allowed[own.start as usize..own.end as usize]
                    .iter()
                    .map(|values| *values.last().unwrap())
                    .collect();
                if array.submit(Request::flush()).await.result.is_err() {
                    return Ok(());
                }
                for (values, newest) in
                    oracle.borrow_mut().allowed[own.start as usize..own.end as usize].iter_mut().zip(now)
                {
                    values.retain(|value| *value >= newest);
                }
            }
            _ => {
                let reply =
                    array.submit(Request::read(Bytes::SECTOR * from, Buffer::zeroed(Bytes::SECTOR * count))).await;
                if reply.result.is_err() {
                    return Ok(());
                }
                let buffer = reply.buffer.unwrap();
                for (sector, bytes) in touched.zip(buffer.bytes().unwrap().chunks(512)) {
                    let newest = *oracle.borrow().allowed[sector].last().unwrap();
                    if value_of(bytes) != Some(newest) {
                        return Err(format!("sector {sector} reads {:?}, written was {newest}", value_of(bytes)));
                    }
                }
            }
        }
        done.set(done.get() + 1);
    }
}

/// A member and what is to replace it, from where its data begin on.
type Twin = (usize, Rc<Disk>, Bytes);

/// Four clients until the power goes; on the way `victim` fails, and a member is replaced. Gives how many operations were done.
fn rage(
    runtime: &Runtime,
    array: &Array<Rc<Disk>>,
    oracle: &RefCell<Oracle>,
    random: &mut Random,
    seed: u64,
    victim: Option<usize>,
    twin: Option<Twin>,
) -> Result<u64, String> {
    let done = Cell::new(0);
    let broken = RefCell::new(None);
    let quarter = oracle.borrow().allowed.len() as u64 / 4;
    let slow = random.random_bool(0.2);
    let pauses = slow.then_some(runtime);
    oracle.borrow_mut().under_way = vec![0..0; 4];
    oracle.borrow_mut().at_failure.clear();
    let clients = (0..4u64).map(|number| {
        let own = number * quarter..(number + 1) * quarter;
        let random = Random::named(seed, &format!("client {number}"));
        let (done, broken) = (&done, &broken);
        async move {
            if let Err(what) = client(array, oracle, random, number as usize, own, pauses, done).await {
                *broken.borrow_mut() = Some(what);
            }
        }
    });
    // Some storms are slow, so that the array finds time to say that it is clean.
    let lasts = Duration::micros(random.random_range(1..if slow { 15_000_000 } else { 20_000 }));
    let when = lasts.scale(random.random_range(0.0..1.0));
    let fail = async {
        runtime.sleep(when).await;
        victim.into_iter().for_each(|member| array.fail(member));
        let now = oracle.borrow().under_way.clone();
        oracle.borrow_mut().at_failure = now;
        std::future::pending::<()>().await;
    };
    let begin = lasts.scale(random.random_range(0.0..1.0));
    let replace = async {
        runtime.sleep(begin).await;
        if let Some((member, disk, at)) = twin {
            // It may be cut off, fail with its member, or be done.
            _ = array.replace(member, disk, at, Uuid([0x55; 16])).await;
        }
        std::future::pending::<()>().await;
    };
    let work = pin!(async { futures_util::join!(join_all(clients), fail, replace, array.tend()) });
    runtime.block_on(select(work, pin!(runtime.sleep(lasts))));
    broken.take().map_or(Ok(done.get()), Err)
}

/// Sectors of which the partial parity log promises nothing if `member` is lost during these writes and they are never answered: those
/// of a write that touches other chunks of the row too.
fn arbitrary(writes: &[Range<u64>], geometry: &Geometry, consistency: Consistency, member: usize) -> BTreeSet<usize> {
    if consistency != Consistency::Ppl {
        return BTreeSet::new();
    }
    let place = |sector: u64| geometry.place(Bytes::SECTOR * sector);
    let row = |sector: u64| Bytes::SECTOR * sector / geometry.stripe_size();
    let in_one = |write: &Range<u64>| {
        let several = |sector: &u64| {
            write.clone().any(|other| row(other) == row(*sector) && place(other).member != place(*sector).member)
        };
        write
            .clone()
            .filter(|sector| place(*sector).member == member)
            .filter(several)
            .map(|s| s as usize)
            .collect::<Vec<_>>()
    };
    writes.iter().flat_map(in_one).collect()
}

/// Runs a storm. `Err` is a broken promise.
fn storm(seed: u64, bug: Option<Bug>, arrays: &[(Level, usize, Consistency)]) -> Result<Outcome, String> {
    let mut random = Random::named(seed, "storm");
    let (level, members, consistency) = arrays[random.random_range(0..arrays.len())];
    let mut runtime = Runtime::simulated();
    let (array, name, sizes) = (Uuid([9; 16]), "storm".into(), sizes(members, consistency));
    let new = NewArray { level, chunk: CHUNK, name, array, now: Stamp(0), consistency, clean: true };
    let sized = sizes.iter().enumerate().map(|(m, size)| NewMember { size: *size, member: Uuid([m as u8; 16]) });
    let sized: Vec<NewMember> = sized.collect();
    let (superblocks, geometry) = md::create(&new, &sized).unwrap();
    let sectors = geometry.size() / Bytes::SECTOR;
    let disk = |runtime: &Runtime, member: usize| {
        let memory = MemoryDevice::new(runtime, Shape::new(format!("disk {member}"), sizes[member]));
        Disk::new(runtime, WriteCache::new(runtime, memory), bug, seed)
    };
    let mut disks: Vec<Rc<Disk>> = (0..sizes.len()).map(|member| disk(&runtime, member)).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    let oracle = RefCell::new(Oracle {
        allowed: vec![vec![0]; sectors as usize],
        next: Cell::new(1),
        under_way: Vec::new(),
        at_failure: Vec::new(),
    });
    let mut outcome = Outcome::default();
    let what = |text: String| format!("seed {seed}, {level:?} on {members}, {consistency:?}: {text}");
    let mut failed: BTreeSet<usize> = BTreeSet::new();
    // Members that are not given to the array, and sectors that may hold anything.
    let (mut gone, mut wild) = (BTreeSet::new(), BTreeSet::new());
    let mut twin: Option<(usize, Rc<Disk>)> = None;
    for round in 0..4 {
        let there = disks.iter().enumerate().filter(|(disk, _)| !gone.contains(disk)).map(|(_, disk)| disk.clone());
        let there = there.chain(twin.iter().map(|(_, disk)| disk.clone()));
        let opened = runtime.block_on(Array::open(&runtime, "array", there.collect(), OpenOptions::default()));
        let array = match opened {
            Ok(array) => array,
            Err(error) => return Err(what(format!("it does not open: {error}"))),
        };
        if let Some((member, disk)) = twin.take() {
            if array.replacing().is_some() {
                outcome.replacing += 1;
                let copied = runtime.block_on(array.resume_replace(member));
                assert_eq!(copied.map_err(|error| what(format!("not replaced: {error}")))?, []);
            }
            if matches!(array.state(member), MemberState::Rebuilding(_)) {
                let filled = runtime.block_on(array.resume_rebuild(member));
                assert_eq!(filled.map_err(|error| what(format!("not filled: {error}")))?, []);
            }
            if array.device(member).is_some_and(|device| Rc::ptr_eq(&*device, &disk)) {
                outcome.replaced += 1;
                disks[member] = disk;
                failed.remove(&member);
                gone.remove(&member);
            }
        }
        let degraded = (0..members).any(|member| array.state(member) == MemberState::Failed);
        if !degraded || level.parities() == 0 {
            runtime.block_on(array.resync()).map_err(|error| what(format!("no resync: {error}")))?;
            let scrubbed = runtime.block_on(array.scrub(Repair::No)).map_err(|error| what(error.to_string()))?;
            if scrubbed.mismatches > 0 {
                return Err(what(format!("{} mismatches after {round} cuts", scrubbed.mismatches)));
            }
        }
        let whole = runtime.block_on(array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(geometry.size()))));
        whole.result.map_err(|error| what(error.to_string()))?;
        for (sector, bytes) in whole.buffer.unwrap().bytes().unwrap().chunks(512).enumerate() {
            let values = &mut oracle.borrow_mut().allowed[sector];
            if wild.contains(&sector) {
                continue;
            }
            match value_of(bytes) {
                Some(value) if values.contains(&value) => *values = vec![value],
                other => {
                    return Err(what(format!(
                        "after {round} cuts sector {sector} holds {other:?}, allowed are {values:?}"
                    )));
                }
            }
        }
        for sector in std::mem::take(&mut wild) {
            let value = oracle.borrow().next.get();
            oracle.borrow().next.set(value + 1);
            oracle.borrow_mut().allowed[sector] = vec![value];
            let write = Request::write(Bytes::SECTOR * sector as u64, data_of(&sectors_of(value, 1)));
            runtime.block_on(array.submit(write)).result.map_err(|error| what(error.to_string()))?;
        }
        // Make the repair itself durable, or the next cut may choose differently.
        runtime.block_on(array.submit(Request::flush())).result.map_err(|error| what(error.to_string()))?;
        if round == 3 {
            return Ok(outcome);
        }
        for member in 0..members {
            if array.state(member) == MemberState::Failed && bug.is_none() && random.random_bool(0.5) {
                let fresh = disk(&runtime, member);
                let at = superblocks[member].data_offset;
                let rebuilt = runtime.block_on(array.rebuild(member, fresh.clone(), at, Uuid([0x77; 16])));
                assert_eq!(rebuilt.map_err(|error| what(error.to_string()))?, []);
                disks[member] = fresh;
                failed.remove(&member);
                gone.remove(&member);
                outcome.rebuilds += 1;
            }
        }
        let may_fail = failed.len() < level.losses_survived(members) && random.random_bool(0.2);
        let victim = may_fail.then(|| random.random_range(0..members));
        if bug.is_none() && random.random_bool(0.4) {
            let member = random.random_range(0..members);
            twin = Some((member, disk(&runtime, member)));
        }
        let replacement = twin.as_ref().map(|(m, disk)| (*m, Rc::clone(disk), superblocks[*m].data_offset));
        outcome.operations +=
            rage(&runtime, &array, &oracle, &mut random, seed + round, victim, replacement).map_err(what)?;
        outcome.failures += u64::from(victim.is_some());
        if let Some(victim) = victim {
            let oracle = oracle.borrow();
            let both = oracle.under_way.iter().zip(&oracle.at_failure).filter(|(now, then)| now == then);
            let writes: Vec<Range<u64>> = both.map(|(now, _)| now.clone()).collect();
            wild = arbitrary(&writes, &geometry, consistency, victim);
        }
        failed.extend(victim);
        outcome.cuts += 1;
        drop(array);
        // The power goes, with the requests under way.
        let next = Runtime::simulated();
        let copies: Vec<WriteCache<MemoryDevice>> =
            disks.iter().map(|disk| disk.inner.inner().snapshot(&next)).collect();
        for copy in &copies {
            let share = random.random_range(0.0..=1.0);
            next.block_on(copy.cut(|_, _| random.random_bool(share))).unwrap();
        }
        disks = copies.into_iter().map(|copy| Disk::new(&next, copy, bug, seed + round)).collect();
        twin = twin.map(|(member, disk)| {
            let copy = disk.inner.inner().snapshot(&next);
            let share = random.random_range(0.0..=1.0);
            next.block_on(copy.cut(|_, _| random.random_bool(share))).unwrap();
            (member, Disk::new(&next, copy, bug, seed + round))
        });
        // A member may be lost with the power, where that is to be survived.
        let survives = failed.len() < level.losses_survived(members) && is_closed(consistency);
        if survives && random.random_bool(0.3) {
            let member = random.random_range(0..members);
            wild = arbitrary(&oracle.borrow().under_way, &geometry, consistency, member);
            failed.insert(member);
            gone.insert(member);
            outcome.lost_in_cuts += 1;
        }
        runtime.clear();
        runtime = next;
    }
    unreachable!("the last round returns")
}

fn storms(seeds: u64, arrays: &[(Level, usize, Consistency)]) -> Outcome {
    let mut total = Outcome::default();
    for seed in 0..seeds {
        let outcome = storm(seed, None, arrays).unwrap_or_else(|broken| panic!("{broken}"));
        total.operations += outcome.operations;
        total.cuts += outcome.cuts;
        total.failures += outcome.failures;
        total.lost_in_cuts += outcome.lost_in_cuts;
        total.rebuilds += outcome.rebuilds;
        total.replacing += outcome.replacing;
        total.replaced += outcome.replaced;
    }
    println!("{seeds} storms: {total:?}");
    total
}

#[test]
fn nothing_is_lost_with_a_member_where_the_write_hole_is_closed() {
    let seeds: u64 = std::env::var("ARRAYLAB_STORMS").map_or(300, |text| text.parse().expect("a number of storms"));
    let total = storms(seeds, &closed_hole());
    assert!(total.lost_in_cuts >= seeds / 4 && total.rebuilds >= seeds / 8);
    assert!(total.replacing >= seeds / 16 && total.replaced >= seeds / 4, "{total:?}");
}

#[test]
fn a_skipped_log_is_caught() {
    let with_ppl: Vec<_> = closed_hole().into_iter().filter(|(.., way)| *way == Consistency::Ppl).collect();
    let found = (0..60).find_map(|seed| storm(seed, Some(Bug::SkipLog), &with_ppl).err());
    println!("{found:?}");
    assert!(found.is_some(), "a log that is not written went unnoticed in 60 storms");
}
