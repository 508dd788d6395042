//! A disk of a storm: memory behind a volatile cache, at a random distance, with a medium that decays and a cable that
//! fails.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use array::geometry::Geometry;
use array::md::{SUPERBLOCK_AT, SUPERBLOCK_SIZE, Superblock};
use device::filter::{Damage, Delay, Faulty, Latency, Medium, Rule, Share, Unflushed, WriteCache};
use device::{Buffer, Device, DeviceError, MemoryDevice, Operation, Payload, Reply, Request, Shape, Stamps};
use runtime::Runtime;
use units::{Bytes, Duration};

use crate::bug::{Bug, changed, data_of, without_marks};
use crate::oracle::sectors_of;
use crate::returned::Export;
use crate::story::{Said, Story};

/// From the array to the medium: faults of requests, damaged sectors, the way there, the cache, what survives a power
/// cut.
type Stack = Faulty<Medium<Delay<WriteCache<MemoryDevice>>>>;

/// A disk.
pub struct Disk {
    runtime: Runtime,
    shape: Shape,
    seed: u64,
    stack: RefCell<Rc<Stack>>,
    /// The connection to it, if it is on another machine.
    export: Option<Export>,
    /// What it has of a store where it takes its room, if it does.
    share: RefCell<Option<Rc<Share>>>,
    bug: Option<Bug>,
    /// What sectors seem to hold although something else was written there, until they are written again.
    wrong: RefCell<BTreeMap<u64, Vec<u8>>>,
    /// What becomes of the next write to the data, which lie here.
    lie: RefCell<Option<(Lie, Range<Bytes>)>>,
    /// It was a member in use when the array was stopped: what was known of what it holds is on it.
    known: Cell<bool>,
    /// The number of its first write since the array was opened last.
    first: u64,
    story: Rc<Story>,
    /// What its superblock said when it was last told of.
    said: RefCell<String>,
    /// How a bug finds the place where it sends writes of this disk.
    astray: RefCell<Option<Astray>>,
}

/// What a disk does with a write and does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// It is not there.
    Lost,
    /// It is so many sectors further on instead, in the data.
    Misdirected(u64),
    /// Some of its sectors are there, others not, and one is half of each.
    Torn,
}

/// What lies where: the array's layout, where data begin, this member, all members.
struct Astray {
    geometry: Geometry,
    data_offset: Bytes,
    member: usize,
    all: Vec<Rc<Stack>>,
}

fn cache(stack: &Stack) -> &WriteCache<MemoryDevice> {
    stack.inner().inner().inner()
}

fn stack(runtime: &Runtime, cache: WriteCache<MemoryDevice>, seed: u64) -> Rc<Stack> {
    let latency = Latency::Uniform(Duration::micros(1), Duration::micros(100));
    let medium = Medium::new(runtime, Delay::new(runtime, cache, latency, seed));
    Rc::new(Faulty::new(runtime, medium, seed))
}

impl Disk {
    /// A disk of zeroes, perhaps on another machine. Its delays are drawn from `seed` and its name.
    pub fn new(
        runtime: &Runtime,
        shape: Shape,
        seed: u64,
        is_export: bool,
        bug: Option<Bug>,
        story: &Rc<Story>,
    ) -> Rc<Disk> {
        let cache = WriteCache::new(runtime, MemoryDevice::new(runtime, shape.clone()));
        Rc::new(Disk {
            runtime: runtime.clone(),
            shape,
            seed,
            stack: RefCell::new(stack(runtime, cache, seed)),
            export: is_export.then(|| Export::to(&[0; SUPERBLOCK_SIZE.as_usize()])),
            share: RefCell::default(),
            bug,
            wrong: RefCell::default(),
            lie: RefCell::default(),
            known: Cell::new(false),
            first: 0,
            story: Rc::clone(story),
            said: RefCell::default(),
            astray: RefCell::default(),
        })
    }

    /// What it is made of now.
    fn stack(&self) -> Rc<Stack> {
        Rc::clone(&self.stack.borrow())
    }

    /// The same with other contents.
    pub fn stack_of(&self, contents: WriteCache<MemoryDevice>) -> Rc<Stack> {
        stack(&self.runtime, contents, self.seed)
    }

    /// From now on it is made of this.
    pub fn set_stack(&self, stack: Rc<Stack>) {
        self.stack.replace(stack);
    }

    /// A copy of what it holds, durable or not.
    pub fn contents(&self) -> WriteCache<MemoryDevice> {
        cache(&self.stack()).snapshot(&self.runtime)
    }

    /// Whether it took a write before the array was opened last, and has not made that durable.
    pub fn is_from_before(&self, write: &Unflushed) -> bool {
        write.write < self.first
    }

    /// Whether it has [such a write](Disk::is_from_before).
    pub fn holds_from_before(&self) -> bool {
        cache(&self.stack()).unflushed().iter().any(|write| self.is_from_before(write))
    }

    /// Its runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The promise that it breaks.
    pub fn bug(&self) -> Option<Bug> {
        self.bug
    }

    /// The connection to it.
    pub fn export(&self) -> Option<&Export> {
        self.export.as_ref()
    }

    /// What it has of a store.
    pub fn share(&self) -> Option<Rc<Share>> {
        self.share.borrow().clone()
    }

    /// From now on it takes its room there, or lacks none.
    pub fn set_share(&self, share: Option<Rc<Share>>) {
        self.share.replace(share);
    }

    /// The disk after a power cut, under a runtime of its own: of its unflushed writes it has those sectors that `keep`
    /// chooses, or all of them, unflushed as they were, where nothing chooses and the server alone was killed. Of its
    /// damaged sectors it has those that `stays` chooses are still damaged. What it lied about `comes_out` as the lie,
    /// or is true after all. Instead of what it was it may be `other` contents.
    pub fn after_cut(
        &self,
        next: &Runtime,
        keep: Option<impl FnMut() -> bool>,
        stays: impl Fn(u64, Damage) -> bool,
        comes_out: bool,
        other: Option<WriteCache<MemoryDevice>>,
        seed: u64,
    ) -> Rc<Disk> {
        let own = self.stack();
        let cache = other.as_ref().unwrap_or(cache(&own)).snapshot(next);
        if let Some(mut keep) = keep {
            next.block_on(cache.cut(|_, _| keep())).expect("memory takes what it is given");
        }
        let first = cache.unflushed().last().map_or(0, |write| write.write + 1);
        let export = self.export.as_ref().map(|_| Export::over(next, &cache));
        let stack = stack(next, cache, seed);
        for (sector, damage) in own.inner().damaged().into_iter().filter(|(sector, damage)| stays(*sector, *damage)) {
            stack.inner().damage(Bytes::SECTOR * sector..Bytes::SECTOR * (sector + 1), damage);
        }
        let wrong = if comes_out { self.wrong.borrow().clone() } else { BTreeMap::new() };
        Rc::new(Disk {
            runtime: next.clone(),
            shape: self.shape.clone(),
            seed,
            stack: RefCell::new(stack),
            export,
            share: RefCell::new(self.share()),
            bug: self.bug,
            wrong: RefCell::new(wrong),
            lie: RefCell::default(),
            known: Cell::new(self.known.get()),
            first,
            story: Rc::clone(&self.story),
            said: RefCell::default(),
            astray: RefCell::default(),
        })
    }

    /// Lets the bug, if there is one, know what lies where.
    pub fn lead_astray(disks: &[Rc<Disk>], geometry: &Geometry, data_offset: Bytes) {
        for (member, disk) in disks.iter().enumerate().filter(|(_, disk)| disk.bug == Some(Bug::SwapPAndQ)) {
            let all = disks.iter().map(|disk| disk.stack()).collect();
            *disk.astray.borrow_mut() = Some(Astray { geometry: geometry.clone(), data_offset, member, all });
        }
    }

    /// From now on requests suffer by this rule.
    pub fn suffer(&self, rule: Rule) {
        self.stack().add(rule);
    }

    /// It is sound again: rules are forgotten, what hung goes on, what was gone is back.
    pub fn recover(&self) {
        self.stack().clear_rules();
        self.stack().resume();
        self.export.iter().for_each(Export::forgive);
    }

    /// How many requests have suffered.
    pub fn suffered(&self) -> u64 {
        self.stack().suffered()
    }

    /// Damages sectors.
    pub fn damage(&self, range: std::ops::Range<Bytes>, damage: Damage) {
        self.stack().inner().damage(range, damage);
    }

    /// How many sectors are damaged, or hold something else than they should.
    pub fn damaged(&self) -> usize {
        self.stack().inner().damaged().len() + self.wrong.borrow().len()
    }

    /// Whether its superblock is damaged.
    pub fn is_spoilt(&self) -> bool {
        let superblock = SUPERBLOCK_AT / Bytes::SECTOR;
        self.stack().inner().damaged().iter().any(|(sector, _)| *sector == superblock)
    }

    /// Whether what is known of it is on it.
    pub fn is_known(&self) -> bool {
        self.known.get()
    }

    /// The array was stopped, with it as a member.
    pub fn set_known(&self) {
        self.known.set(true);
    }

    /// The next write to the data, which lie here, is lied about.
    pub fn lie(&self, lie: Lie, data: Range<Bytes>) {
        *self.lie.borrow_mut() = Some((lie, data));
    }

    /// Puts anything into a range of the medium, which nobody uses: disks are seldom as empty as new ones.
    pub fn scribble(&self, range: Range<Bytes>, first: u64) {
        let sectors = range.end.saturating_sub(range.start) / Bytes::SECTOR;
        let bytes: Vec<u8> = (first..first + sectors).flat_map(|value| sectors_of(value, 1)).collect();
        let request = Request::write(range.start, data_of(&bytes));
        let stack = self.stack();
        self.runtime.block_on(cache(&stack).inner().submit(request)).result.expect("memory takes what it is given");
    }

    /// Carries out a write, but lets it seem otherwise.
    async fn submit_lying(&self, request: Request, lie: Lie, data_area: Range<Bytes>) -> Reply {
        let (first, count) = (request.offset / Bytes::SECTOR, request.length / Bytes::SECTOR);
        let Payload::From(data) = &request.payload else { panic!("a write carries data") };
        let new = data.clone();
        let stack = self.stack();
        let old = cache(&stack).submit(Request::read(request.offset, Buffer::zeroed(request.length))).await.buffer;
        let old = old.expect("a read gives its buffer back");
        let sector = |bytes: &[u8], number: u64| bytes[512 * number as usize..][..512].to_vec();
        let (old, new) = (old.bytes().expect("it is real"), new.bytes().expect("it is real"));
        let reply = self.send(request).await;
        // Of what it says it did not do it tells no lie.
        if reply.result.is_err() {
            return reply;
        }
        let mut wrong = self.wrong.borrow_mut();
        for number in 0..count {
            let mut seems = sector(old, number);
            match lie {
                Lie::Lost | Lie::Misdirected(_) => {}
                Lie::Torn if number % 3 == 0 => seems[..256].copy_from_slice(&sector(new, number)[..256]),
                Lie::Torn if number % 3 == 1 => continue,
                Lie::Torn => {}
            }
            wrong.insert(first + number, seems);
        }
        if let Lie::Misdirected(by) = lie {
            let in_data = |at: &u64| Bytes::SECTOR * *at < data_area.end;
            wrong.extend(
                (0..count).map(|number| (first + by + number, sector(new, number))).filter(|(at, _)| in_data(at)),
            );
        }
        // What seems to be what it is, is no lie.
        let true_after_all = |at: u64| (first..first + count).contains(&at).then(|| sector(new, at - first));
        wrong.retain(|at, seems| true_after_all(*at).is_none_or(|truth| *seems != truth));
        reply
    }

    /// Sends a request the way there.
    async fn send(&self, request: Request) -> Reply {
        match &self.export {
            Some(export) => export.send(self, request).await,
            None => self.carry_out(request).await,
        }
    }

    /// Does what is asked, if there is room for it.
    pub async fn carry_out(&self, request: Request) -> Reply {
        let (target, now) = (self.target(&request), self.runtime.now());
        let Some(share) = self.share() else { return target.submit(request).await };
        let mut reply = share.submit(&self.runtime, &*target, request).await;
        if self.bug == Some(Bug::CallFullStored) && reply.result == Err(DeviceError::NoSpace) {
            reply = Reply { result: Ok(()), stamps: Stamps { submitted: now, completed: self.runtime.now() }, ..reply };
        }
        reply
    }

    /// The stack that takes a request of this disk.
    fn target(&self, request: &Request) -> Rc<Stack> {
        match (&*self.astray.borrow(), self.bug) {
            (Some(astray), Some(bug))
                if request.operation == Operation::Write && request.offset >= astray.data_offset =>
            {
                let offset = request.offset - astray.data_offset;
                Rc::clone(&astray.all[bug.goes_to(&astray.geometry, astray.member, offset)])
            }
            _ => self.stack(),
        }
    }
}

impl Disk {
    /// Tells what a superblock says that passes by, unless it is known.
    fn tell(&self, verb: &str, bytes: Option<&[u8]>) {
        let Some(Ok(superblock)) = bytes.map(Superblock::parse) else { return };
        let says = Said(&superblock).to_string();
        if *self.said.borrow() != says {
            self.story.tell(&self.runtime, format_args!("{} {verb}: {says}", self.shape().name));
            *self.said.borrow_mut() = says;
        }
    }

    /// Carries a request out; what is read is what the sectors seem to hold.
    async fn submit_seeming(&self, request: Request) -> Reply {
        let (operation, offset) = (request.operation, request.offset);
        let sectors = offset / Bytes::SECTOR..(offset + request.length) / Bytes::SECTOR;
        if !matches!(operation, Operation::Read | Operation::Flush) {
            self.wrong.borrow_mut().retain(|sector, _| !sectors.contains(sector));
        }
        if operation == Operation::Write {
            let lie = self.lie.borrow_mut().take_if(|(_, data)| data.contains(&offset));
            if let Some((lie, data)) = lie {
                return self.submit_lying(request, lie, data).await;
            }
        }
        let mut reply = self.send(request).await;
        if let (Operation::Read, Some(bytes)) = (operation, reply.buffer.as_mut().and_then(Buffer::bytes_mut)) {
            for (sector, seems) in self.wrong.borrow().range(sectors) {
                let at = (Bytes::SECTOR * *sector - offset).as_usize();
                bytes[at..at + 512].copy_from_slice(seems);
            }
        }
        reply
    }

    /// Does what the bug makes of a request.
    async fn submit_cheating(&self, mut request: Request, bug: Bug) -> Reply {
        let is_superblock = request.offset == SUPERBLOCK_AT && !request.length.is_zero();
        match request.operation {
            Operation::Flush if bug == Bug::SkipFlush => {
                let now = self.runtime.now();
                return request.answer(Ok(()), Stamps { submitted: now, completed: now });
            }
            Operation::Write if is_superblock => {
                let Payload::From(data) = &request.payload else { panic!("a write carries data") };
                let bytes = data.bytes().expect("superblocks are real bytes");
                request.payload = Payload::From(data_of(&changed(bytes, |superblock| bug.on_writing(superblock))));
            }
            Operation::Write if bug == Bug::SkipFlush => request.fua = false,
            Operation::Write if bug == Bug::ForgetSumMarks => {
                let Payload::From(data) = &request.payload else { panic!("a write carries data") };
                let bytes = data.bytes().expect("storms have bytes");
                request.payload = Payload::From(data_of(&without_marks(bytes)));
            }
            // Behind the superblock and before the data; empty headers pass.
            Operation::Write
                if bug == Bug::SkipLog
                    && (Bytes::kib(8)..Bytes::mib(2)).contains(&request.offset)
                    && request.length > Bytes::kib(4) =>
            {
                let now = self.runtime.now();
                return request.answer(Ok(()), Stamps { submitted: now, completed: now });
            }
            _ => {}
        }
        let reads = request.operation == Operation::Read;
        let mut reply = self.send(request).await;
        if let (true, true, Some(buffer)) = (is_superblock, reads, &mut reply.buffer) {
            let bytes = changed(buffer.bytes().expect("it is real"), |superblock| bug.on_reading(superblock));
            buffer.bytes_mut().expect("it is real").copy_from_slice(&bytes);
        }
        reply
    }
}

impl Device for Disk {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, request: Request) -> Reply {
        let told = self.story.has_superblocks() && request.offset == SUPERBLOCK_AT && !request.length.is_zero();
        if let (true, Payload::From(data)) = (told, &request.payload) {
            self.tell("is told", data.bytes());
        }
        let reply = match self.bug {
            None => self.submit_seeming(request).await,
            Some(bug) => self.submit_cheating(request, bug).await,
        };
        if let (true, true, Some(buffer)) = (told, reply.result.is_ok(), &reply.buffer) {
            self.tell("says", buffer.bytes());
        }
        reply
    }
}
