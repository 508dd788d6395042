//! The world of one storm: disks, power, chance, and what is known of the data.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Geometry, Level, Rotation};
use array::md::{self, Bitmap, Consistency, NewArray, NewMember, SUPERBLOCK_AT, Stamp, Superblock, Uuid};
use array::{Array, MemberState, add_checksums, checksum_room, format};
use device::filter::{Damage, WriteCache};
use device::{Device, DeviceError, MemoryDevice, Request, Shape};
use futures_util::future::{Either, select};
use rand::RngExt;
use runtime::{Random, Runtime};
use units::{Bytes, Duration};

use crate::bug::{Bug, data_of};
use crate::disk::{Disk, Lie};
use crate::levels::{Choice, levels};
use crate::oracle::Oracle;
use crate::returned;
use crate::shortage::shares;
use crate::storm::Outcome;
use crate::story::Story;

/// Of disks with blocks of 512 bytes, and of 4 KiB: small, so that requests meet in one row, and yet of several blocks.
const CHUNKS: [Bytes; 2] = [Bytes::kib(4), Bytes::kib(16)];
/// What a member holds of data at first, in chunks: a few rows.
const ROOM: u64 = 5;
/// Now and then, at level 1 and where members that were away come back with the checksums that they had: more than two
/// units of a mirror's locks, and regions of checksums, which are of 64 KiB.
const LARGE: u64 = 34;

/// A growth.
pub struct Growing {
    pub geometry: Geometry,
    pub acknowledged: bool,
}

/// All that a storm has.
pub struct World {
    pub runtime: Runtime,
    pub seed: u64,
    pub level: Level,
    pub consistency: Consistency,
    /// Members keep checksums, so that they may lie.
    pub checksums: bool,
    /// Members are on other machines, and may come back as something else.
    pub exports: bool,
    /// Some disk has no room for what it never held, or will have none before the round ends; and had none in it.
    pub short: Cell<bool>,
    pub was_short: Cell<bool>,
    /// The first disks take their room of stores: one for all, or one each.
    one_store: Option<bool>,
    geometry: RefCell<Rc<Geometry>>,
    /// Where a growth leads that has not been seen since, and whether it was acknowledged.
    pub growing: RefCell<Option<Growing>>,
    /// It has grown and was not stopped since: redundancy of what it grew by may not fit, whatever a log says.
    pub grown: Cell<bool>,
    /// A member has come back, or began to.
    pub returned: Cell<bool>,
    /// The array was opened without a member, which may hold a record that nobody else has, and count on nobody who is
    /// left when it comes back.
    pub missed: Cell<bool>,
    /// Disks have more room than the array uses.
    spacious: bool,
    /// What clients write is whole blocks of this size: 512 bytes or 4 KiB.
    pub block: Bytes,
    /// Only some disks have such blocks, of those that the array began with. What joins them later has smaller ones, as
    /// an array that serves takes no larger.
    mixed: bool,
    chunk: Bytes,
    pub data_offset: Bytes,
    /// By member: the disk that has its place, or had it last. Behind them the journal, if there is one.
    pub disks: RefCell<Vec<Rc<Disk>>>,
    /// Members that were lost with the power; they come back with the next.
    pub gone: RefCell<Vec<usize>>,
    /// Members that had failed when the array was last left, or were being rebuilt, or whose place another disk was to
    /// fill since.
    pub not_whole: RefCell<Vec<usize>>,
    /// Members that are being rebuilt: until that is answered, nothing is promised of them.
    pub rebuilding: RefCell<Vec<usize>>,
    /// Disks that were replaced, with what was on them.
    pub shelf: RefCell<Vec<Rc<Disk>>>,
    /// What those of them are called that are coming back: they are in the array's hands.
    pub coming_back: RefCell<Vec<String>>,
    /// Disks that wait for a member to fail, and the one that is to replace a member, which are given to the array with
    /// the members.
    pub waiting: RefCell<Vec<Rc<Disk>>>,
    pub random: RefCell<Random>,
    pub oracle: RefCell<Oracle>,
    pub outcome: RefCell<Outcome>,
    pub story: Rc<Story>,
    /// The journal failed, at some time; and the array was opened without it since, and has none now.
    pub journal_failed: Cell<bool>,
    pub without_journal: Cell<bool>,
    /// More members are gone than the level survives; all come back.
    pub outage: Cell<bool>,
    /// The array was stopped, and nothing was done since: its members' checksums are all there.
    pub stopped: Cell<bool>,
    /// Everything was read while all members were there, and none has come back since: every block's sum is known, if
    /// not yet stored.
    pub summed: Cell<bool>,
    /// The same when the array was last stopped, and the power went but once since: a member that leaves now has all
    /// sums with it.
    pub sums_stored: Cell<bool>,
    /// In this round the array may be served before it is in sync; and it is.
    pub may_linger: Cell<bool>,
    pub lingers: Cell<bool>,
    bug: Option<Bug>,
    made: Cell<u8>,
    cuts: Cell<u64>,
}

impl World {
    /// A new array of a level that the seed chooses.
    pub fn new(seed: u64, choice: Choice, bug: Option<Bug>, story: Story) -> World {
        let mut random = Random::named(seed, "storm");
        let all = levels(choice);
        let (level, members, consistency) = match bug {
            // These bugs need an array that they can hurt.
            Some(Bug::WrongRotation) => (Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Resync),
            Some(Bug::SwapPAndQ) => (Level::Raid6(DoubleRotation::default()), 4, Consistency::Resync),
            Some(Bug::TrustUnsynced) if seed.is_multiple_of(2) => (Level::Raid1, 3, Consistency::Bitmap),
            Some(Bug::TrustUnsynced) => (Level::Raid10(Copies::near(2)), 4, Consistency::Resync),
            Some(Bug::SkipLog) if seed.is_multiple_of(2) => {
                (Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Ppl)
            }
            Some(Bug::SkipLog) => (Level::Raid6(DoubleRotation::default()), 4, Consistency::Ppl),
            _ => all[random.random_range(0..all.len())],
        };
        let checksums = bug == Some(Bug::ForgetSumMarks) || bug.is_none() && random.random_bool(0.4);
        World::with(seed, random, (level, members, consistency), checksums, bug, bug.is_none(), story)
    }

    /// A new array like this, for a scenario.
    pub fn of(level: Level, members: usize, consistency: Consistency, checksums: bool) -> World {
        World::with(
            0,
            Random::named(0, "scenario"),
            (level, members, consistency),
            checksums,
            None,
            false,
            Story::default(),
        )
    }

    fn with(
        seed: u64,
        mut random: Random,
        (level, members, consistency): (Level, usize, Consistency),
        checksums: bool,
        bug: Option<Bug>,
        varied: bool,
        story: Story,
    ) -> World {
        let story = Rc::new(story);
        let (array, name) = (Uuid([9; 16]), "storm".into());
        // Drawn from numbers of their own, so that other storms stay what they were.
        let mut blocks = Random::named(seed, "blocks");
        let mut kinds = Random::named(seed, "kinds of disks");
        let exports = varied && kinds.random_bool(0.2) || bug == Some(Bug::BelieveReturned);
        let thin = varied && kinds.random_bool(0.2) || bug == Some(Bug::CallFullStored);
        let one_store = thin.then(|| kinds.random_bool(0.5));
        let (native, mixed) = (varied && blocks.random_bool(0.15), blocks.random_bool(0.3));
        let (block, chunk) = if native { (Bytes::kib(4), CHUNKS[1]) } else { (Bytes::SECTOR, CHUNKS[0]) };
        let new = NewArray { level, chunk, name, array, now: Stamp(0), consistency, clean: true };
        // Metadata take 1 MiB, with a log 2 MiB.
        let bitmap = has_bitmap(level, consistency);
        let keeps = checksums && bitmap;
        let large = match level {
            Level::Raid1 => varied && random.random_bool(0.3),
            _ => varied && keeps && random.random_bool(0.1),
        };
        let room = chunk * if large { LARGE } else { ROOM };
        let size = Bytes::mib(if consistency == Consistency::Ppl { 2 } else { 1 }) + room;
        let mut sized: Vec<NewMember> =
            (0..members).map(|member| NewMember { size, member: Uuid([member as u8; 16]) }).collect();
        // One that is full soon.
        let journal = Bytes::mib(1) + Bytes::kib(256) * (members as u64 + 1);
        if consistency == Consistency::Journal {
            sized.push(NewMember { size: journal, member: Uuid([members as u8; 16]) });
        }
        let (mut superblocks, geometry) = md::create(&new, &sized).expect("the arrays of storms can be made");
        // A log that is full soon, so that it goes round often.
        if varied && blocks.random_bool(0.5) {
            superblocks.iter_mut().for_each(shorten_log);
        }
        let runtime = Runtime::simulated();
        let oracle = Oracle::new(geometry.size() / Bytes::SECTOR);
        let world = World {
            seed,
            level,
            consistency,
            checksums,
            exports,
            short: Cell::new(false),
            was_short: Cell::new(false),
            one_store,
            geometry: RefCell::new(Rc::new(geometry)),
            growing: RefCell::default(),
            grown: Cell::new(false),
            returned: Cell::new(false),
            missed: Cell::new(false),
            spacious: varied,
            block,
            mixed,
            chunk,
            data_offset: superblocks[0].data_offset,
            disks: RefCell::default(),
            gone: RefCell::default(),
            not_whole: RefCell::default(),
            rebuilding: RefCell::default(),
            shelf: RefCell::default(),
            coming_back: RefCell::default(),
            waiting: RefCell::default(),
            random: RefCell::new(random),
            oracle: RefCell::new(oracle),
            outcome: RefCell::default(),
            story,
            journal_failed: Cell::new(false),
            without_journal: Cell::new(false),
            outage: Cell::new(false),
            stopped: Cell::new(false),
            summed: Cell::new(false),
            sums_stored: Cell::new(false),
            may_linger: Cell::new(false),
            lingers: Cell::new(false),
            bug,
            made: Cell::new(0),
            cuts: Cell::new(0),
            runtime,
        };
        let mut its_block = || if mixed && blocks.random_bool(0.5) { Bytes::SECTOR } else { block };
        let mut disks: Vec<Rc<Disk>> = (0..members).map(|_| world.disk(its_block())).collect();
        if consistency == Consistency::Journal {
            let shape = Shape { logical_block: its_block(), ..Shape::new("journal", journal) };
            disks.push(Disk::new(&world.runtime, shape, seed, false, bug, &world.story));
        }
        if let Some(common) = one_store {
            disks.iter().zip(shares(disks.len(), common)).for_each(|(disk, share)| disk.set_share(Some(share)));
        }
        let fine = varied && bitmap && world.happens(0.7);
        let made = async {
            if checksums {
                add_checksums(&disks, &superblocks).await?;
            }
            format(&disks, &superblocks).await?;
            if fine { refine(&disks, &superblocks, chunk).await } else { Ok(()) }
        };
        world.runtime.block_on(made).expect("sound disks take their superblocks");
        *world.disks.borrow_mut() = disks;
        world
    }

    /// A disk that nobody has used.
    pub fn new_disk(&self) -> Rc<Disk> {
        self.disk(if self.mixed { Bytes::SECTOR } else { self.block })
    }

    /// How large a disk must be to be a member.
    pub fn room(&self) -> Bytes {
        let used = self.geometry().used();
        let sums = if self.checksums { checksum_room(used) } else { Bytes::ZERO };
        self.data_offset + used + sums
    }

    fn disk(&self, block: Bytes) -> Rc<Disk> {
        let used = self.geometry().used();
        let more = match (self.checksums, self.spacious) {
            // A mirror has no chunks, and grows by any room.
            (_, true) if self.level == Level::Raid1 && used >= self.chunk * LARGE => {
                self.chunk * 12 * self.choose(8).min(2)
            }
            // Not always enough for the checksums to move to.
            (true, true) => self.chunk * self.choose(12).min(6),
            (false, true) => self.chunk * self.choose(8).min(3),
            (_, false) => Bytes::ZERO,
        };
        let size = self.room() + more;
        let number = self.made.replace(self.made.get() + 1);
        let shape = Shape { logical_block: block, ..Shape::new(format!("disk {number}"), size) };
        Disk::new(&self.runtime, shape, self.seed, self.exports, self.bug, &self.story)
    }

    /// What lies where.
    pub fn geometry(&self) -> Rc<Geometry> {
        Rc::clone(&self.geometry.borrow())
    }

    /// Where the data lie on each member.
    pub fn data_area(&self) -> Range<Bytes> {
        self.data_offset..self.data_offset + self.geometry().used()
    }

    /// Whether members are so large that most of them is left alone by requests that are near each other.
    pub fn is_large(&self) -> bool {
        self.geometry().used() >= self.chunk * LARGE
    }

    /// Where a block of a member's data begins, with two more behind it.
    pub fn some_block(&self) -> Bytes {
        self.data_offset + self.block * self.choose(self.geometry().used() / self.block - 3)
    }

    /// A write that goes astray by up to 16 blocks.
    pub fn misdirected(&self) -> Lie {
        Lie::Misdirected(self.block / Bytes::SECTOR * (1 + self.choose(16)))
    }

    /// What blocks the disks have, if not all of them those of 512 bytes.
    pub fn blocks(&self) -> String {
        let of = |disk: &Rc<Disk>| if disk.shape().logical_block == Bytes::SECTOR { "512" } else { "4096" };
        match self.block {
            Bytes::SECTOR => String::new(),
            _ => format!(" of {}-byte blocks", self.disks.borrow().iter().map(of).collect::<Vec<_>>().join("-, ")),
        }
    }

    /// Holds the size of an array that was opened against what it may be: as it was, or as it is to become.
    pub fn measure(&self, array: &Array<Rc<Disk>>) -> Result<(), String> {
        let (found, before) = (array.geometry(), self.geometry());
        let same = |geometry: &Geometry| (geometry.size(), geometry.used()) == (found.size(), found.used());
        let grown = self.growing.borrow().as_ref().map(|growing| (growing.geometry.clone(), growing.acknowledged));
        match grown {
            Some((geometry, _)) if same(&geometry) => {
                self.tell(format_args!("it has grown to {}", geometry.size()));
                self.oracle.borrow_mut().grow(geometry.size() / Bytes::SECTOR);
                *self.geometry.borrow_mut() = Rc::new(geometry);
                *self.growing.borrow_mut() = None;
                self.grown.set(true);
            }
            // The power cut met it, and it has not happened; one who was told may yet be the only one that is left.
            Some((_, false)) | None if same(&before) => {}
            _ => return Err(format!("it opens with a size of {}, and had {}", found.size(), before.size())),
        }
        Ok(())
    }

    /// Whether the array that was opened is to be served before it is in sync. Only that of levels without parity:
    /// elsewhere a value that is computed from what does not fit may be anything, and with all members there is one
    /// place to read it from.
    pub fn is_to_linger(&self, array: &Array<Rc<Disk>>) -> bool {
        let due = array.needs_resync() || self.bug == Some(Bug::TrustUnsynced);
        let settled = self.growing.borrow().is_none() && !self.oracle.borrow().has_free();
        let mut random = Random::named(self.seed.wrapping_add(self.cuts.get() << 32), "lingers");
        self.may_linger.get() && self.level.parities() == 0 && due && settled && random.random_bool(0.6)
    }

    /// Whether the first disks take their room of stores.
    pub fn is_thin(&self) -> bool {
        self.one_store.is_some()
    }

    /// Whether they do so of one that they have in common.
    pub fn is_of_one_store(&self) -> bool {
        self.one_store == Some(true)
    }

    /// There is room again.
    pub fn refill(&self) {
        let (disks, shelf, waiting) = (self.disks.borrow(), self.shelf.borrow(), self.waiting.borrow());
        for share in disks.iter().chain(&*shelf).chain(&*waiting).filter_map(|disk| disk.share()) {
            share.store().refill();
        }
        self.short.set(false);
    }

    /// Whether its disks break promises in the array's name.
    pub fn cheats(&self) -> bool {
        self.bug.is_some()
    }

    /// An identity for the member that was made last.
    pub fn identity(&self) -> Uuid {
        Uuid([self.made.get() | 0x80; 16])
    }

    /// The array knows best which disk has whose place: after it was opened, or a disk has taken another's place.
    pub fn adopt(&self, array: &Array<Rc<Disk>>) {
        for member in 0..self.members() {
            let Some(now) = array.device(member).map(|device| Rc::clone(&*device)) else { continue };
            if Rc::ptr_eq(&now, &self.disks.borrow()[member]) {
                continue;
            }
            self.waiting.borrow_mut().retain(|disk| !Rc::ptr_eq(disk, &now));
            self.shelf.borrow_mut().retain(|disk| !Rc::ptr_eq(disk, &now));
            let filled = self.place_of(&now);
            let before = std::mem::replace(&mut self.disks.borrow_mut()[member], now);
            self.put_away(member, before);
            // It was to fill another place, too, when the power went, and that was forgotten.
            if let Some(filled) = filled {
                let nobody = self.new_disk();
                self.disks.borrow_mut()[filled] = nobody;
            }
        }
    }

    /// The array was opened without those members that are gone, or whose superblocks are spoilt.
    pub fn miss(&self) {
        let missing = !self.gone.borrow().is_empty() || self.disks.borrow().iter().any(|disk| disk.is_spoilt());
        self.missed.set(self.missed.get() || missing);
    }

    /// A disk has lost its place as a member.
    pub fn put_away(&self, member: usize, disk: Rc<Disk>) {
        // One that was away may hold a record that nobody else has, and say on its return that it went on alone.
        if !self.gone.borrow().contains(&member) && !disk.is_spoilt() {
            self.shelf.borrow_mut().push(disk);
        }
        self.gone.borrow_mut().retain(|gone| *gone != member);
    }

    /// Does something that must come to an end. No request takes longer than its members' time-outs, so whatever takes
    /// an hour waits for itself.
    pub fn finish<T>(&self, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let ends = pin!(self.runtime.sleep(Duration::seconds(3600)));
        match self.runtime.try_block_on(select(pin!(work), ends)) {
            Ok(Either::Left((result, _))) => result,
            Ok(Either::Right(_)) => Err("something is never answered".into()),
            Err(stalled) => Err(stalled.to_string()),
        }
    }

    /// Adds to the story.
    pub fn tell(&self, what: impl std::fmt::Display) {
        self.story.tell(&self.runtime, what);
    }

    /// Whose place a disk has.
    pub fn place_of(&self, disk: &Rc<Disk>) -> Option<usize> {
        self.disks.borrow()[..self.members()].iter().position(|other| Rc::ptr_eq(other, disk))
    }

    /// Whether a disk was a member, and whole, when the array was last left.
    pub fn was_whole(&self, disk: &Rc<Disk>) -> bool {
        self.place_of(disk).is_some_and(|member| !self.not_whole.borrow().contains(&member))
    }

    /// How many members the array has.
    pub fn members(&self) -> usize {
        self.geometry.borrow().members()
    }

    /// A number below `limit`.
    pub fn choose(&self, limit: u64) -> u64 {
        self.random.borrow_mut().random_range(0..limit)
    }

    /// Whether something of this chance happens.
    pub fn happens(&self, chance: f64) -> bool {
        self.random.borrow_mut().random_bool(chance)
    }

    /// A member's superblock is damaged while the power is off: it is as good as lost.
    pub fn spoil_superblock(&self, member: usize) {
        self.tell(format_args!("the superblock of member {member} is spoilt"));
        self.outcome.borrow_mut().silent += 1;
        let bit = self.choose(8 * 256) as u16;
        self.disks.borrow()[member].damage(SUPERBLOCK_AT..SUPERBLOCK_AT + Bytes::SECTOR, Damage::Flipped(bit));
    }

    /// What is lost with the power: members, as `also_lost` chose them, and perhaps a bitmap.
    pub fn lose(&self, members: Vec<usize>) {
        for member in members {
            if self.happens(0.7) {
                self.gone.borrow_mut().push(member);
            } else {
                self.spoil_superblock(member);
            }
        }
        self.spoil_bitmap();
    }

    /// Whether members that were away come back by a bitmap.
    pub fn may_return(&self) -> bool {
        has_bitmap(self.level, self.consistency) && !self.cheats()
    }

    /// The bitmap of a member may be damaged while the power is off: another's is enough. But there must be one: a
    /// bitmap has no sum, so the only one is believed as it is, and a mark that it has lost is not missed.
    fn spoil_bitmap(&self) {
        if !has_bitmap(self.level, self.consistency) || !self.happens(0.1) {
            return;
        }
        let member = self.choose(self.members() as u64) as usize;
        let (disks, gone) = (self.disks.borrow(), self.gone.borrow());
        let is_whole =
            |other: usize| self.was_whole(&disks[other]) && !gone.contains(&other) && !disks[other].is_spoilt();
        if !(0..self.members()).any(|other| other != member && is_whole(other)) {
            return;
        }
        self.tell(format_args!("the bitmap of member {member} is spoilt"));
        self.outcome.borrow_mut().silent += 1;
        let at = SUPERBLOCK_AT + Bytes::kib(4);
        disks[member].damage(at..at + Bytes::SECTOR, Damage::Flipped(self.choose(4096) as u16));
    }

    /// Whether an outage has broken the array, so that requests may fail.
    pub fn is_out(&self, array: &Array<Rc<Disk>>) -> bool {
        self.outage.get() && array.is_broken()
    }

    /// Whether the array has a journal.
    pub fn has_journal(&self) -> bool {
        self.consistency == Consistency::Journal && !self.without_journal.get()
    }

    /// Whether a member may be lost with the power, and nothing with it.
    pub fn is_closed(&self) -> bool {
        self.consistency == Consistency::Ppl || self.has_journal()
    }

    /// Members of which something is lost: those without current contents, those with damaged or wrong sectors, and
    /// those that had no room for something.
    pub fn impaired(&self, array: &Array<Rc<Disk>>) -> Vec<usize> {
        let impaired = |member: &usize| {
            array.state(*member) != MemberState::Active
                || self.rebuilding.borrow().contains(member)
                || self.disks.borrow()[*member].damaged() > 0
                || array.has_bad(*member)
        };
        (0..self.members()).filter(impaired).collect()
    }

    /// Whether the array survives the loss of a member on top of these, of which it is none. At level 10 that depends
    /// on which they are.
    pub fn spares(&self, lost: &[usize], member: usize) -> bool {
        !lost.contains(&member) && self.geometry().survives(|other| other == member || lost.contains(&other))
    }

    /// The older copy that came back in a disk's place, if it stays there: all others in use must know that the member
    /// has failed.
    fn keeps_older(&self, next: &Runtime, number: usize) -> Option<WriteCache<MemoryDevice>> {
        let (disks, not_whole) = (self.disks.borrow(), self.not_whole.borrow());
        let older = disks[number].export()?.older()?;
        let in_use = |other: &usize| *other != number && !not_whole.contains(other);
        let others = (0..self.members()).filter(in_use).map(|other| disks[other].contents());
        let stays = returned::is_disowned(next, &older, others) && self.happens(0.7);
        if stays {
            self.tell(format_args!("{} stays the older copy of itself", disks[number].shape().name));
        }
        stays.then_some(older)
    }

    /// The power goes, and comes back: requests under way are dropped, and of what was not flushed any part is kept.
    /// What had vanished, or hung, is there again.
    ///
    /// Damaged sectors at levels with parity are healed: an unreadable sector in a stripe that is being written is the
    /// write hole itself, on one member more. So are sectors that are wrong without saying so, unless the array was
    /// stopped: the sums of what was being written go with the power. And those of a disk that had left by then: what
    /// had been learnt of it by reading was in memory, and no sum of it is on that disk.
    pub fn cut(&mut self) {
        self.crash(false);
    }

    /// The server is killed, and started anew: requests under way are dropped, and what the disks have taken they have.
    pub fn kill(&mut self) {
        self.crash(true);
    }

    fn crash(&mut self, killed: bool) {
        self.tell(if killed { "the server is killed" } else { "the power is cut" });
        self.oracle.borrow_mut().crash(killed);
        let next = Runtime::simulated();
        self.cuts.set(self.cuts.get() + 1);
        match killed {
            true => self.outcome.borrow_mut().kills += 1,
            false => self.outcome.borrow_mut().power_cuts += 1,
        }
        let seed = self.seed.wrapping_add(self.cuts.get() << 32);
        let sums = self.stopped.take() && self.checksums;
        self.sums_stored.set(self.summed.take() && sums);
        self.refill();
        self.was_short.set(false);
        let kept: Vec<_> = (0..self.disks.borrow().len()).map(|number| self.keeps_older(&next, number)).collect();
        let after = |disk: &Rc<Disk>, older| {
            let share = self.random.borrow_mut().random_range(0.0..=1.0);
            let stays = |sector, damage| match damage {
                Damage::Unreadable => self.level.parities() == 0,
                Damage::Flipped(_) => sums && disk.is_known() && Bytes::SECTOR * sector >= self.data_offset,
            };
            let keep = (!killed).then_some(|| self.random.borrow_mut().random_bool(share));
            disk.after_cut(&next, keep, stays, sums, older, seed)
        };
        let disks: Vec<Rc<Disk>> =
            self.disks.borrow().iter().zip(kept).map(|(disk, older)| after(disk, older)).collect();
        let after = |disk: &Rc<Disk>| after(disk, None);
        let shelf: Vec<Rc<Disk>> = self.shelf.borrow().iter().map(after).collect();
        let waiting: Vec<Rc<Disk>> = self.waiting.borrow().iter().map(after).collect();
        self.runtime.clear();
        self.outage.set(false);
        self.gone.borrow_mut().clear();
        self.rebuilding.borrow_mut().clear();
        self.coming_back.borrow_mut().clear();
        (self.runtime, self.disks, self.shelf) = (next, RefCell::new(disks), RefCell::new(shelf));
        self.waiting = RefCell::new(waiting);
    }
}

/// Whether the members of such an array keep a bitmap: a partial parity log is md's, which has none beside it, at level
/// 5 only.
fn has_bitmap(level: Level, consistency: Consistency) -> bool {
    match consistency {
        Consistency::Bitmap => true,
        Consistency::Ppl => !matches!(level, Level::Raid5(_)),
        Consistency::Resync | Consistency::Journal => false,
    }
}

/// Leaves room for a few entries in a partial parity log, if there is one.
fn shorten_log(superblock: &mut Superblock) {
    const SECTORS: u32 = 48;
    if superblock.own_ppl_at().is_some() {
        // Where `array/src/md/note.rs` notes the size.
        superblock.reshape[20..24].copy_from_slice(&SECTORS.to_le_bytes());
        assert!(
            superblock.own_ppl_at().is_some_and(|(_, size)| size == Bytes::SECTOR * u64::from(SECTORS)),
            "it is noted there"
        );
    } else if superblock.ppl_at().is_some() {
        superblock.bitmap_offset = superblock.bitmap_offset & 0xffff | (SECTORS << 16) as i32;
    }
}

/// Gives members bitmaps whose marks tell rows apart. The one that such a small array would get has a single mark.
async fn refine(disks: &[Rc<Disk>], superblocks: &[Superblock], row: Bytes) -> Result<(), DeviceError> {
    for (disk, superblock) in disks.iter().zip(superblocks) {
        let Some(at) = superblock.bitmap_at() else { continue };
        let coarse = Bitmap::of_new(superblock);
        let mut fine = Bitmap::full(superblock.array, superblock.events, coarse.covers, row);
        (0..fine.regions()).for_each(|region| _ = fine.set(region, false));
        let mut bytes = fine.to_bytes();
        bytes.resize(4096, 0);
        disk.submit(Request::write(at, data_of(&bytes)).with_fua()).await.result?;
    }
    Ok(())
}
