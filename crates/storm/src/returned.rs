//! Members that come back with other contents: of the same size and name, and empty, an older copy of themselves, or
//! another member's.
//!
//! In some storms the members are exports of other servers, which break their connections and come back
//! ([`Export`]). As an export that outlives its connection (`nbd`'s `Steady`) each has to prove first that it is the
//! one that went away, by the same [evidence](device::evidence); what it acknowledged and may have lost is written
//! again, and so is what was under way. One that cannot prove it answers everything with
//! [`DeviceError::Exchanged`], and the array must go on without it.
//!
//! An older copy from which nothing is missing that was made durable is the same member, and must be believed.
//!
//! # What cannot be known
//! A server that is started anew has no evidence. So an older copy that was found out stays in the member's place over
//! a power cut only if all the others say by then that the member has failed; else the right one is back.
//!
//! Nor does it know what the one before it had written and had not made durable. If that one was killed alone, the
//! members have it in their caches, where the oracle counts on it. A member that loses it is as after a power cut. One
//! that is copied before the first flush, and comes back as the copy, has lost what is durable by then; nothing tells.
//! (Only arrays that are served before they are in sync come to that; all others are flushed first.) So of what it took
//! before the array was opened a member loses nothing, and while it holds some of it, no copy is made.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use array::md::{MemberRole, SUPERBLOCK_AT, SUPERBLOCK_SIZE, Superblock};
use array::{Array, MemberState};
use device::again::{Again, Kept};
use device::evidence::{self, Evidence, Label};
use device::filter::{Unflushed, WriteCache};
use device::{Buffer, Device, DeviceError, MemoryDevice, Operation, Reply, Request};
use rand::RngExt;
use runtime::{Random, Runtime, Signal};
use units::{Bytes, Duration};

use crate::bug::Bug;
use crate::disk::Disk;
use crate::world::World;

/// As what a member comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guise {
    /// Itself, without some of what it had not made durable.
    Itself,
    /// An empty disk.
    Empty,
    /// What it was a while ago, with all that it had acknowledged by then, or only what was durable.
    Older { durable: bool },
    /// What another member is now.
    Other(usize),
}

/// A member that goes and comes back in a round.
#[derive(Debug)]
pub struct Return {
    member: usize,
    guise: Guise,
    /// When it is copied, how much later it goes, and how long it is away.
    begins: Duration,
    goes_after: Duration,
    away: Duration,
}

impl Return {
    /// The one of a round that lasts so long, if there is one. Drawn from numbers of its own, so that other storms stay
    /// what they were. It is a loss as any other: `struck` are those that the round has already.
    pub fn of(world: &World, round: u64, lasts: Duration, struck: &[usize]) -> Option<Return> {
        let mut random = Random::named(round, "returned");
        if !world.exports || !random.random_bool(0.6) {
            return None;
        }
        let spared: Vec<usize> = (0..world.members()).filter(|member| world.spares(struck, *member)).collect();
        let member = *spared.get(random.random_range(0..spared.len().max(1)))?;
        let guise = match random.random_range(0..8) {
            0 | 1 => Guise::Itself,
            2 => Guise::Empty,
            3 => Guise::Other((member + random.random_range(1..world.members())) % world.members()),
            _ => Guise::Older { durable: random.random_bool(0.5) },
        };
        // Often before anything has changed that was made durable.
        let longest = if random.random_bool(0.5) { 100 } else { 2000 };
        Some(Return {
            member,
            guise,
            begins: lasts.scale(random.random_range(0.0..1.0)),
            goes_after: Duration::micros(random.random_range(0..longest)),
            away: Duration::micros(random.random_range(0..300)),
        })
    }

    /// Has the member go and come back.
    pub async fn strike(mut self, world: &World, array: &Array<Rc<Disk>>) -> Result<(), String> {
        world.runtime.sleep(self.begins).await;
        let disk = Rc::clone(&world.disks.borrow()[self.member]);
        let copy = match self.guise {
            Guise::Older { durable } if !disk.holds_from_before() => Some(copy_of(&disk, !durable).await),
            Guise::Older { .. } => {
                self.guise = Guise::Itself;
                None
            }
            _ => None,
        };
        world.runtime.sleep(self.goes_after).await;
        // It may have lost its place, or be about to, since this was thought of.
        let serves = array.device(self.member).is_some_and(|device| Rc::ptr_eq(&*device, &disk));
        if !serves || array.state(self.member) != MemberState::Active {
            return Ok(());
        }
        world.tell(format_args!("{self:?}"));
        world.outcome.borrow_mut().faults += 1;
        let export = disk.export().expect("the members of such storms are exports");
        export.leave();
        world.runtime.sleep(self.away).await;
        let contents = match (self.guise, copy) {
            (_, Some(copy)) => copy,
            (Guise::Other(other), _) => {
                let other = Rc::clone(&world.disks.borrow()[other]);
                resized(&disk, copy_of(&other, true).await).await
            }
            (Guise::Empty, _) => {
                WriteCache::new(&world.runtime, MemoryDevice::new(&world.runtime, disk.shape().clone()))
            }
            _ => {
                let copy = copy_of(&disk, true).await;
                let keep = |write: &Unflushed, _: u64| disk.is_from_before(write) || world.happens(0.5);
                copy.cut(keep).await.expect("memory takes what it is given");
                copy
            }
        };
        let difference = export.come_back(&disk, contents, matches!(self.guise, Guise::Older { .. })).await;
        match &difference {
            Some(difference) => {
                world.tell(format_args!("member {} came back, but {difference}", self.member));
                world.outcome.borrow_mut().exchanged += 1;
            }
            None => {
                world.tell(format_args!("member {} came back as it was", self.member));
                world.outcome.borrow_mut().recognised += 1;
            }
        }
        match (self.guise, difference) {
            (Guise::Itself, Some(difference)) => {
                Err(format!("member {} came back as it was and is not believed: {difference}", self.member))
            }
            _ => Ok(()),
        }
    }
}

/// What a disk holds now, with what it has not made durable or without.
async fn copy_of(disk: &Disk, volatile: bool) -> WriteCache<MemoryDevice> {
    let copy = disk.contents();
    if !volatile {
        copy.cut(|_, _| false).await.expect("memory takes what it is given");
    }
    copy
}

/// The same contents on something that has a disk's size and blocks.
async fn resized(disk: &Disk, contents: WriteCache<MemoryDevice>) -> WriteCache<MemoryDevice> {
    let (runtime, shape) = (disk.runtime(), disk.shape().clone());
    let step = Bytes::kib(4);
    let (size, own) =
        (shape.size.min(contents.shape().size), WriteCache::new(runtime, MemoryDevice::new(runtime, shape)));
    let mut at = Bytes::ZERO;
    while at < size {
        let read = contents.submit(Request::read(at, Buffer::zeroed(step.min(size - at)))).await;
        let buffer = read.buffer.expect("a read gives its buffer back");
        if buffer.bytes().expect("it is real").iter().any(|byte| *byte != 0) {
            let write = own.inner().submit(Request::write(at, buffer.freeze())).await;
            write.result.expect("memory takes what it is given");
        }
        at += step;
    }
    own
}

/// The superblock of a member.
struct OfMember;

impl Label for OfMember {
    fn range(&self) -> std::ops::Range<Bytes> {
        SUPERBLOCK_AT..SUPERBLOCK_AT + SUPERBLOCK_SIZE
    }
    fn difference(&self, _known: &[u8], _found: &[u8]) -> String {
        "its superblock is not the one that was written last".into()
    }
}

/// The connection to a disk on another machine.
pub struct Export {
    evidence: RefCell<Evidence>,
    kept: RefCell<Kept>,
    /// How often it broke.
    breaks: Cell<u64>,
    away: Cell<bool>,
    changed: Signal,
    exchanged: Cell<bool>,
    /// What came back in the member's place, if it was an older copy of it.
    older: RefCell<Option<WriteCache<MemoryDevice>>>,
}

impl Export {
    /// The connection to a disk whose label is this.
    pub fn to(label: &[u8]) -> Export {
        let mut evidence = Evidence::default();
        evidence.recognise(Box::new(OfMember), label);
        Export {
            evidence: RefCell::new(evidence),
            kept: RefCell::default(),
            breaks: Cell::new(0),
            away: Cell::new(false),
            changed: Signal::default(),
            exchanged: Cell::new(false),
            older: RefCell::default(),
        }
    }

    /// As [`to`](Export::to), with the label that is on a medium.
    pub fn over(runtime: &Runtime, cache: &WriteCache<MemoryDevice>) -> Export {
        let read = cache.submit(Request::read(SUPERBLOCK_AT, Buffer::zeroed(SUPERBLOCK_SIZE)));
        let buffer = runtime.block_on(read).buffer.expect("a read gives its buffer back");
        Export::to(buffer.bytes().expect("it is real"))
    }

    /// The connection breaks.
    fn leave(&self) {
        self.breaks.set(self.breaks.get() + 1);
        self.away.set(true);
    }

    /// Something with these contents is there in a disk's place. Says what differs, if it is not the same.
    async fn come_back(&self, disk: &Disk, contents: WriteCache<MemoryDevice>, older: bool) -> Option<String> {
        let copy = older.then(|| contents.snapshot(disk.runtime()));
        let stack = disk.stack_of(contents);
        let difference = match disk.bug() {
            Some(Bug::BelieveReturned) => Ok(None),
            _ => evidence::difference(&self.evidence, disk.shape(), &*stack).await,
        };
        let difference = difference.unwrap_or_else(|error| Some(format!("it does not answer: {error}")));
        if difference.is_none() {
            let writes = self.kept.borrow().writes();
            for write in writes {
                stack.submit(write).await.result.expect("a sound disk takes what it took before");
            }
            self.evidence.borrow_mut().reconnected();
            disk.set_stack(stack);
        } else {
            self.exchanged.set(true);
            self.older.replace(copy);
        }
        self.away.set(false);
        self.changed.notify();
        difference
    }

    /// The right disk is there again, and somebody has looked at it.
    pub fn forgive(&self) {
        self.exchanged.set(false);
        self.older.take();
    }

    /// What came back in its place.
    pub fn older(&self) -> Option<WriteCache<MemoryDevice>> {
        self.older.take()
    }

    /// Sends a request over the connection, again where that broke.
    pub async fn send(&self, disk: &Disk, request: Request) -> Reply {
        let again = Again::of(&request);
        let offset = request.offset;
        if !again.is_write() {
            let refusals = self.evidence.borrow().refusals();
            let reply = self.send_numbered(disk, request, &again, 0).await;
            if let (Ok(()), Some(bytes)) = (&reply.result, reply.buffer.as_ref().and_then(Buffer::bytes)) {
                self.evidence.borrow_mut().read(refusals, offset, bytes);
            }
            return reply;
        }
        let (range, fua) = (offset..offset + request.length, request.fua);
        let number = self.evidence.borrow_mut().sent(range, again.put());
        let waiting = Waiting { evidence: &self.evidence, number };
        let reply = self.send_numbered(disk, request, &again, number).await;
        self.evidence.borrow_mut().answered(number, &reply.result, fua, again.data());
        drop(waiting);
        reply
    }

    async fn send_numbered(&self, disk: &Disk, mut request: Request, again: &Again, number: u64) -> Reply {
        loop {
            self.changed.wait_until(|| !self.away.get()).await;
            if self.exchanged.get() {
                return request.refuse(DeviceError::Exchanged, disk.runtime().now());
            }
            let (breaks, mark) = (self.breaks.get(), self.kept.borrow().mark());
            let reply = disk.carry_out(request).await;
            // Of what was under way when the connection broke nobody hears.
            if self.breaks.get() != breaks {
                request = again.request(reply.buffer);
                continue;
            }
            match &reply.result {
                Ok(()) if again.operation() == Operation::Flush => {
                    self.kept.borrow_mut().forget(mark, &mut self.evidence.borrow_mut());
                }
                Ok(()) if again.is_write() => self.kept.borrow_mut().keep(number, mark, again),
                _ => {}
            }
            return reply;
        }
    }
}

/// Somebody waits for a write until it is dropped.
struct Waiting<'a> {
    evidence: &'a RefCell<Evidence>,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.evidence.borrow_mut().abandoned(self.number);
    }
}

/// Whether all `others`, and there are some, say durably that the member has failed whose superblock is on `copy`.
pub fn is_disowned(
    runtime: &Runtime,
    copy: &WriteCache<MemoryDevice>,
    others: impl IntoIterator<Item = WriteCache<MemoryDevice>>,
) -> bool {
    let superblock = |contents: &WriteCache<MemoryDevice>| {
        let medium = contents.inner().snapshot(runtime);
        let read = medium.submit(Request::read(SUPERBLOCK_AT, Buffer::zeroed(SUPERBLOCK_SIZE)));
        let buffer = runtime.block_on(read).buffer.expect("a read gives its buffer back");
        Superblock::parse(buffer.bytes().expect("it is real")).ok()
    };
    let Some(own) = superblock(copy) else { return false };
    let mut any = false;
    let disowned = others.into_iter().all(|other| {
        any = true;
        let said = superblock(&other);
        said.is_some_and(|said| said.roles.get(own.number as usize) == Some(&MemberRole::Faulty.number()))
    });
    any && disowned
}
