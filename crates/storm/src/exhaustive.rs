//! Nothing left to chance: every sequence of a few writes on an array of two stripes, and every state in which a power
//! cut can leave it.
//!
//! The array's chunk is one sector, so two stripes are four sectors of data at level 5 (two at level 1, four at 6 and
//! 10). A step writes one of the ranges of sectors, and may be followed by a flush or be sent with FUA. What the
//! members are sent is taped. A power cut leaves of each sector of each member the newest version that is durable, or
//! any later one that was sent: every combination is built, opened, made consistent and read. Cuts are looked at where
//! the set of states is largest: just before something becomes durable, and at the end of each step; the states of any
//! other instant are among these. (Bounded black-box crash testing: CrashMonkey and ACE, OSDI 2018, found that three
//! operations show most bugs of file systems.)
//!
//! What an array makes of its members depends on their bytes alone, and many sequences leave the same bytes: what it
//! made of them is kept by their hash, and only held against another sequence's oracle. (64 bits: among the tens of
//! millions of different states of three writes, one in a hundred thousand searches takes a state for another.)

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use array::geometry::{Copies, DoubleRotation, Geometry, Level, Rotation};
use array::md::{self, Consistency, NewArray, NewMember, Stamp, Superblock, Uuid};
use array::{Array, OpenOptions, Repair, format};
use device::{Buffer, Data, Device, MemoryDevice, Operation, Payload, Reply, Request, Shape};
use runtime::Runtime;
use serde::Serialize;
use units::Bytes;

use crate::bug::data_of;
use crate::oracle::{Oracle, sectors_of, value_of};

/// Behind the superblock, which ends at 8 KiB.
const DATA_AT: Bytes = Bytes::kib(8);

/// What was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Exhausted {
    /// Sequences of steps.
    pub sequences: u64,
    /// States of the members that were opened.
    pub states: u64,
    /// Broken promises: sequence, state, and what was found.
    pub violations: Vec<String>,
}

/// One step of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Write { first: u64, count: u64, fua: bool },
    Flush,
}

/// Something that happened at a member.
#[derive(Clone)]
enum Event {
    Sent {
        write: usize,
        member: usize,
        sector: u64,
        data: Data,
    },
    /// A write is done; whether it is durable.
    Done {
        write: usize,
        durable: bool,
    },
    FlushSent {
        flush: usize,
        member: usize,
    },
    Flushed {
        flush: usize,
    },
}

/// A member whose requests are taped.
struct Taped {
    inner: MemoryDevice,
    member: usize,
    tape: Rc<RefCell<Vec<Event>>>,
}

impl Device for Taped {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    async fn submit(&self, request: Request) -> Reply {
        let number = self.tape.borrow().len();
        let fua = request.fua;
        let operation = request.operation;
        match (&request.payload, operation) {
            (Payload::From(data), Operation::Write) => {
                let (sector, data) = (request.offset / Bytes::SECTOR, data.clone());
                self.tape.borrow_mut().push(Event::Sent { write: number, member: self.member, sector, data });
            }
            (_, Operation::Flush) => {
                self.tape.borrow_mut().push(Event::FlushSent { flush: number, member: self.member });
            }
            _ => {}
        }
        let reply = self.inner.submit(request).await;
        match operation {
            Operation::Write => self.tape.borrow_mut().push(Event::Done { write: number, durable: fua }),
            Operation::Flush => self.tape.borrow_mut().push(Event::Flushed { flush: number }),
            _ => {}
        }
        reply
    }
}

/// What a sector of a member may hold: versions in the order in which they were sent; none is what it held before all.
type Versions = BTreeMap<(usize, u64), Vec<Option<(usize, Data)>>>;

/// The versions after some events.
#[derive(Default, Clone)]
struct Members {
    versions: Versions,
    done: BTreeSet<usize>,
    /// What was done when a flush was sent, by flush: its member, and the writes.
    covered: BTreeMap<usize, (usize, BTreeSet<usize>)>,
}

impl Members {
    /// Whether the event makes something durable, and so rules states out.
    fn narrows(event: &Event) -> bool {
        matches!(event, Event::Done { durable: true, .. } | Event::Flushed { .. })
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Sent { write, member, sector, data } => {
                for number in 0..data.len() / Bytes::SECTOR {
                    let part = data.slice(Bytes::SECTOR * number, Bytes::SECTOR);
                    let versions = self.versions.entry((*member, sector + number)).or_insert_with(|| vec![None]);
                    versions.push(Some((*write, part)));
                }
            }
            Event::Done { write, durable } => {
                self.done.insert(*write);
                if *durable {
                    self.keep_from(None, |other| other == *write);
                }
            }
            Event::FlushSent { flush, member } => {
                self.covered.insert(*flush, (*member, self.done.clone()));
            }
            Event::Flushed { flush } => {
                let (member, writes) = self.covered.remove(flush).expect("it was sent");
                self.keep_from(Some(member), |write| writes.contains(&write));
            }
        }
    }

    /// Versions before the newest durable one are ruled out.
    fn keep_from(&mut self, member: Option<usize>, durable: impl Fn(usize) -> bool) {
        for ((of, _), versions) in &mut self.versions {
            if member.is_none_or(|member| member == *of) {
                let newest = versions.iter().rposition(|version| version.as_ref().is_some_and(|(w, _)| durable(*w)));
                versions.drain(..newest.unwrap_or(0));
            }
        }
    }

    /// How many states there are.
    fn states(&self) -> u64 {
        self.versions.values().map(|versions| versions.len() as u64).product()
    }

    /// What is stored in state `number`: member, sector, bytes.
    fn state(&self, mut number: u64) -> Vec<(usize, u64, Data)> {
        let mut stored = Vec::new();
        for ((member, sector), versions) in &self.versions {
            let choices = versions.len() as u64;
            if let Some((_, data)) = &versions[(number % choices) as usize] {
                stored.push((*member, *sector, data.clone()));
            }
            number /= choices;
        }
        stored
    }
}

/// An array of two stripes of one-sector chunks.
struct Small {
    geometry: Geometry,
    superblocks: Vec<Superblock>,
}

impl Small {
    fn new(level: Level, members: usize) -> Small {
        let rows = if let Level::Raid10(_) = level { 4 } else { 2 };
        let new = NewArray {
            level,
            chunk: Bytes::kib(4),
            name: "small".into(),
            array: Uuid([3; 16]),
            now: Stamp(0),
            consistency: Consistency::Resync,
            clean: true,
        };
        let sized: Vec<NewMember> =
            (0..members).map(|member| NewMember { size: Bytes::mib(2), member: Uuid([member as u8; 16]) }).collect();
        let (mut superblocks, _) = md::create(&new, &sized).expect("a small array can be made");
        let used = Bytes::SECTOR * rows;
        for superblock in &mut superblocks {
            superblock.data_offset = DATA_AT;
            // There is no room for a bad-block log, and no medium that refuses anything.
            (superblock.bad_block_offset, superblock.bad_block_sectors) = (0, 0);
            (superblock.size, superblock.data_size) = (used, used);
            if !superblock.chunk.is_zero() {
                superblock.chunk = Bytes::SECTOR;
            }
        }
        let geometry =
            Geometry::new(level, Bytes::SECTOR, &vec![used; members]).expect("a small array can be laid out");
        Small { geometry, superblocks }
    }

    /// Formatted members.
    fn members(&self, runtime: &Runtime) -> Vec<MemoryDevice> {
        let size = DATA_AT + self.geometry.used();
        let members = self.superblocks.iter().map(|_| MemoryDevice::new(runtime, Shape::new("member", size)));
        let members: Vec<MemoryDevice> = members.collect();
        runtime.block_on(format(&members, &self.superblocks)).expect("memory takes what it is given");
        members
    }

    /// All steps: each range of sectors, plain and with FUA, and a flush.
    fn steps(&self) -> Vec<Step> {
        let sectors = self.geometry.size() / Bytes::SECTOR;
        let mut steps = Vec::new();
        for first in 0..sectors {
            for count in 1..=sectors - first {
                steps.extend([false, true].map(|fua| Step::Write { first, count, fua }));
            }
        }
        steps.push(Step::Flush);
        steps
    }
}

/// What a thread tries states on: members that are given one state after the other, and what came of each.
struct Trial<'a> {
    small: &'a Small,
    runtime: Runtime,
    members: Vec<MemoryDevice>,
    /// The members of a new array, whole.
    new: Vec<Vec<u8>>,
    /// By the hash of what was stored: the values that were read after the array was made consistent, or why it was
    /// not.
    known: HashMap<u64, Result<Vec<Option<u64>>, String>>,
}

/// A thread forgets what came of states before this many of them take more than some hundred megabytes.
const KNOWN_AT_MOST: usize = 4_000_000;

impl<'a> Trial<'a> {
    fn new(small: &'a Small) -> Trial<'a> {
        let runtime = Runtime::simulated();
        let members = small.members(&runtime);
        let whole = |member: &MemoryDevice| {
            let read = Request::read(Bytes::ZERO, Buffer::zeroed(member.shape().size));
            let buffer = runtime.block_on(member.submit(read)).buffer.expect("a read gives its buffer back");
            buffer.bytes().expect("it is real").to_vec()
        };
        let new = members.iter().map(whole).collect();
        Trial { small, runtime, members, new, known: HashMap::new() }
    }

    /// What an array makes of its members when they have this stored beside what a new one has.
    fn survives(&mut self, stored: &[(usize, u64, Data)]) -> &Result<Vec<Option<u64>>, String> {
        let mut hasher = DefaultHasher::new();
        for (member, sector, data) in stored {
            (member, sector, data.bytes().expect("it is real")).hash(&mut hasher);
        }
        if self.known.len() >= KNOWN_AT_MOST {
            self.known.clear();
        }
        match self.known.entry(hasher.finish()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let mut images = self.new.clone();
                for (member, sector, data) in stored {
                    let (at, bytes) = ((Bytes::SECTOR * *sector).as_usize(), data.bytes().expect("it is real"));
                    images[*member][at..at + bytes.len()].copy_from_slice(bytes);
                }
                for (member, image) in self.members.iter().zip(&images) {
                    let written = self.runtime.block_on(member.submit(Request::write(Bytes::ZERO, data_of(image))));
                    written.result.expect("memory takes what it is given");
                }
                let found = self.runtime.block_on(opened(&self.runtime, &self.members, self.small.geometry.size()));
                unknown.insert(found.map(|bytes| bytes.chunks(512).map(value_of).collect()))
            }
        }
    }
}

/// The arrays that are gone through, by the number of the level.
pub fn arrays() -> Vec<(u32, Level, usize)> {
    vec![
        (1, Level::Raid1, 2),
        (4, Level::Raid4, 3),
        (5, Level::Raid5(Rotation::LeftSymmetric), 3),
        (6, Level::Raid6(DoubleRotation::default()), 4),
        (10, Level::Raid10(Copies::near(2)), 2),
    ]
}

/// Goes through all sequences of up to `writes` writes (and flushes between and behind them) on an array.
pub fn exhaust(
    level: Level,
    members: usize,
    writes: usize,
    threads: usize,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Exhausted {
    let small = Small::new(level, members);
    let steps = small.steps();
    let next = AtomicUsize::new(0);
    let all = Mutex::new(Exhausted::default());
    let work = || {
        let mut mine = Exhausted::default();
        let mut trial = Trial::new(&small);
        loop {
            // Threads share the sequences by their first two steps: each of them with all that may follow.
            let number = next.fetch_add(1, Relaxed);
            let (first, second) = (number / (steps.len() + 1), number % (steps.len() + 1));
            if first >= steps.len() {
                break;
            }
            if steps[first] == Step::Flush {
                continue;
            }
            match second {
                0 => look(&mut trial, &[steps[first]], &mut mine, done),
                _ => go(&mut trial, &steps, &mut vec![steps[first], steps[second - 1]], writes, stop, &mut mine, done),
            }
        }
        let mut all = all.lock().expect("no thread panics while it adds up");
        all.sequences += mine.sequences;
        all.states += mine.states;
        all.violations.append(&mut mine.violations);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    all.into_inner().expect("no thread panics while it adds up")
}

/// This sequence, and all that begin with it.
fn go(
    trial: &mut Trial,
    steps: &[Step],
    sequence: &mut Vec<Step>,
    writes: usize,
    stop: &AtomicBool,
    found: &mut Exhausted,
    done: &AtomicU64,
) {
    let written = sequence.iter().filter(|step| **step != Step::Flush).count();
    if written > writes || stop.load(Relaxed) {
        return;
    }
    look(trial, sequence, found, done);
    let flushed = sequence.last() == Some(&Step::Flush);
    for step in steps.iter().filter(|step| !(flushed && **step == Step::Flush)) {
        sequence.push(*step);
        go(trial, steps, sequence, writes, stop, found, done);
        sequence.pop();
    }
}

/// Carries out a sequence and looks at all states of power cuts in its last step; those before it belong to shorter
/// sequences.
fn look(trial: &mut Trial, sequence: &[Step], found: &mut Exhausted, done: &AtomicU64) {
    let small = trial.small;
    let runtime = Runtime::simulated();
    let tape = Rc::new(RefCell::new(Vec::new()));
    let members = small.members(&runtime).into_iter().enumerate();
    let members = members.map(|(member, inner)| Taped { inner, member, tape: Rc::clone(&tape) }).collect();
    let array = runtime.block_on(Array::open(&runtime, "small", members, OpenOptions::default()));
    let array = array.expect("a new array opens");
    let sectors = small.geometry.size() / Bytes::SECTOR;
    let mut oracle = Oracle::new(sectors);
    let mut state = Members::default();
    let mut seen = 0;
    for (number, step) in sequence.iter().enumerate() {
        let last = number + 1 == sequence.len();
        let newest = oracle.newest(0..sectors);
        let request = match *step {
            Step::Flush => Request::flush(),
            Step::Write { first, count, fua } => {
                let value = oracle.fresh();
                oracle.may_write(first..first + count, value);
                let mut request = Request::write(Bytes::SECTOR * first, data_of(&sectors_of(value, count)));
                request.fua = fua;
                request
            }
        };
        let reply = runtime.block_on(array.submit(request));
        reply.result.expect("sound members take everything");
        for event in &tape.borrow()[seen..] {
            if last && Members::narrows(event) {
                check(trial, sequence, &state, &oracle, found);
            }
            state.happen(event);
        }
        seen = tape.borrow().len();
        match *step {
            Step::Flush => oracle.must_hold(0..sectors, &newest),
            Step::Write { first, count, fua: true } => {
                let newest = oracle.newest(first..first + count);
                oracle.must_hold(first..first + count, &newest);
            }
            Step::Write { .. } => {}
        }
        if last {
            check(trial, sequence, &state, &oracle, found);
        }
    }
    found.sequences += 1;
    done.fetch_add(1, Relaxed);
}

/// Opens every state and holds what is read against the oracle.
fn check(trial: &mut Trial, sequence: &[Step], state: &Members, oracle: &Oracle, found: &mut Exhausted) {
    for number in 0..state.states() {
        found.states += 1;
        let survived = trial.survives(&state.state(number));
        let allowed = survived.as_ref().map_err(String::clone).and_then(|values| oracle.allows(values));
        if let Err(what) = allowed {
            // A few say as much as all.
            if found.violations.len() < 10 {
                found.violations.push(format!("{sequence:?}, state {number}: {what}"));
            }
        }
    }
}

/// Opens the array of these members, makes it consistent, and reads all of it.
async fn opened(runtime: &Runtime, members: &[MemoryDevice], size: Bytes) -> Result<Vec<u8>, String> {
    let array = Array::open(runtime, "small", members.iter().collect(), OpenOptions::default()).await;
    let array = array.map_err(|error| format!("it does not open: {error}"))?;
    if !array.resync().await.map_err(|error| error.to_string())? {
        return Err("redundancy does not fit after the resync".to_owned());
    }
    let scrubbed = array.scrub(Repair::No).await.map_err(|error| error.to_string())?;
    if scrubbed.mismatches > 0 {
        return Err(format!("{} sectors do not fit after the resync", scrubbed.mismatches));
    }
    let reply = array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(size))).await;
    reply.result.map_err(|error| error.to_string())?;
    let buffer = reply.buffer.expect("a read gives its buffer back");
    Ok(buffer.bytes().expect("it is real").to_vec())
}
