//! A disk of a storm: memory behind a volatile cache, at a random distance, with a medium that decays and a cable that fails.

use std::cell::RefCell;
use std::rc::Rc;

use array::geometry::Geometry;
use array::md::SUPERBLOCK_AT;
use device::filter::{Damage, Delay, Faulty, Latency, Medium, Rule, WriteCache};
use device::{Device, MemoryDevice, Operation, Payload, Reply, Request, Shape, Stamps};
use runtime::Runtime;
use units::{Bytes, Duration};

use crate::bug::{Bug, changed, data_of};

/// From the array to the medium: faults of requests, damaged sectors, the way there, the cache, what survives a power cut.
type Stack = Faulty<Medium<Delay<WriteCache<MemoryDevice>>>>;

/// A disk.
pub struct Disk {
    runtime: Runtime,
    stack: Rc<Stack>,
    bug: Option<Bug>,
    /// How a bug finds the place where it sends writes of this disk.
    astray: RefCell<Option<Astray>>,
}

/// What lies where: the array's layout, where data begin, this member, all members.
struct Astray {
    geometry: Geometry,
    data_offset: Bytes,
    member: usize,
    all: Vec<Rc<Stack>>,
}

fn stack(runtime: &Runtime, cache: WriteCache<MemoryDevice>, seed: u64) -> Rc<Stack> {
    let latency = Latency::Uniform(Duration::micros(1), Duration::micros(100));
    let medium = Medium::new(runtime, Delay::new(runtime, cache, latency, seed));
    Rc::new(Faulty::new(runtime, medium, seed))
}

impl Disk {
    /// A disk of zeroes. Its delays are drawn from `seed` and its name.
    pub fn new(runtime: &Runtime, shape: Shape, seed: u64, bug: Option<Bug>) -> Rc<Disk> {
        let cache = WriteCache::new(runtime, MemoryDevice::new(runtime, shape));
        Rc::new(Disk { runtime: runtime.clone(), stack: stack(runtime, cache, seed), bug, astray: RefCell::default() })
    }

    fn cache(&self) -> &WriteCache<MemoryDevice> {
        self.stack.inner().inner().inner()
    }

    /// The disk after a power cut, under a runtime of its own: of its unflushed writes it has those sectors that `keep` chooses. What
    /// is damaged stays so, unless `healed`.
    pub fn after_cut(&self, next: &Runtime, mut keep: impl FnMut() -> bool, healed: bool, seed: u64) -> Rc<Disk> {
        let cache = self.cache().snapshot(next);
        next.block_on(cache.cut(|_, _| keep())).expect("memory takes what it is given");
        let stack = stack(next, cache, seed);
        if !healed {
            for (sector, damage) in self.stack.inner().damaged() {
                stack.inner().damage(Bytes::SECTOR * sector..Bytes::SECTOR * (sector + 1), damage);
            }
        }
        Rc::new(Disk { runtime: next.clone(), stack, bug: self.bug, astray: RefCell::default() })
    }

    /// Lets the bug, if there is one, know what lies where.
    pub fn lead_astray(disks: &[Rc<Disk>], geometry: &Geometry, data_offset: Bytes) {
        for (member, disk) in disks.iter().enumerate().filter(|(_, disk)| disk.bug == Some(Bug::SwapPAndQ)) {
            let all = disks.iter().map(|disk| Rc::clone(&disk.stack)).collect();
            *disk.astray.borrow_mut() = Some(Astray { geometry: geometry.clone(), data_offset, member, all });
        }
    }

    /// From now on requests suffer by this rule.
    pub fn suffer(&self, rule: Rule) {
        self.stack.add(rule);
    }

    /// It is sound again: rules are forgotten, what hung goes on, what was gone is back.
    pub fn recover(&self) {
        self.stack.clear_rules();
        self.stack.resume();
    }

    /// How many requests have suffered.
    pub fn suffered(&self) -> u64 {
        self.stack.suffered()
    }

    /// Damages sectors.
    pub fn damage(&self, range: std::ops::Range<Bytes>, damage: Damage) {
        self.stack.inner().damage(range, damage);
    }

    /// How many sectors are damaged.
    pub fn damaged(&self) -> usize {
        self.stack.inner().damaged().len()
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
            _ => Rc::clone(&self.stack),
        }
    }
}

impl Device for Disk {
    fn shape(&self) -> &Shape {
        self.stack.shape()
    }

    async fn submit(&self, mut request: Request) -> Reply {
        let Some(bug) = self.bug else { return self.stack.submit(request).await };
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
        let mut reply = self.target(&request).submit(request).await;
        if let (true, true, Some(buffer)) = (is_superblock, reads, &mut reply.buffer) {
            let bytes = changed(buffer.bytes().expect("it is real"), |superblock| bug.on_reading(superblock));
            buffer.bytes_mut().expect("it is real").copy_from_slice(&bytes);
        }
        reply
    }
}
