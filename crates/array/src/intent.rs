//! The write-intent bitmap in the path of a write: a power cut costs a resync of what was being written, not of
//! everything.
//!
//! A region's bit is on all members before the first write to it goes out, and is cleared by [`Array::tend`] some
//! seconds after the last, once a flush has made that durable. Writes that wait for bits share one write of them to
//! each member. While members are missing no bit is cleared: what they miss is marked. A region is coarse (64 MiB on
//! large members, as with mdadm), so that a bit is rarely cold: a write to a marked region costs nothing more.
//!
//! The bitmap's number of events is raised before that of the superblocks: one that is behind them is stale, and then
//! all is taken as marked. After the start a bit counts as set on disk only where every member's bitmap had it: a write
//! does not rely on one that the power cut brought to some of them, nor on one that is marked because a bitmap could
//! not be read. Then all of it is written anew, once. It does not close the write hole (see
//! [`Bitmap`](crate::md::Bitmap)).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use device::{Buffer, Data, Device, DeviceError, Request};
use futures_util::future::join_all;
use runtime::{Resource, Runtime};
use units::Bytes;

use crate::array::Array;
use crate::geometry::Level;
use crate::md::{Bitmap, Superblock};
use crate::member::{Member, MemberState};
use crate::rarely::rarely;

const PAGE: Bytes = Bytes::kib(4);

/// The bitmap of an array, and who is writing where.
pub(crate) struct Intent {
    /// What goes to the members with the next write of a page.
    bitmap: RefCell<Bitmap>,
    /// Marks that all members have.
    durable: RefCell<Bitmap>,
    /// Some members' bitmaps could not be used: the next write is of all pages, or what is left of them would seem
    /// sound with the first.
    unsound: Cell<bool>,
    /// Where it lies on each member.
    at: Bytes,
    /// Regions with writes under way, and how many.
    writing: RefCell<BTreeMap<u64, u32>>,
    /// Regions written since the last time bits were cleared.
    touched: RefCell<BTreeSet<u64>>,
    /// One change of marks at a time.
    turn: Resource,
    /// One write of pages at a time: an older page may not overtake a newer one.
    store: Resource,
}

/// Writes are under way in these regions until it is dropped.
pub(crate) struct Marked<'a> {
    intent: &'a Intent,
    regions: Range<u64>,
}

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        let mut writing = self.intent.writing.borrow_mut();
        for region in self.regions.clone() {
            let writers = writing.get_mut(&region).expect("a region that is written is known");
            *writers -= 1;
            if *writers == 0 {
                writing.remove(&region);
            }
        }
    }
}

/// The page of the bitmap that holds a region's bit.
fn page_of(region: u64) -> u64 {
    (256 + region / 8) / PAGE.get()
}

/// The same bitmap with nothing marked.
fn without_marks(bitmap: &Bitmap) -> Bitmap {
    let mut bitmap = bitmap.clone();
    (0..bitmap.regions()).for_each(|region| _ = bitmap.set(region, false));
    bitmap
}

fn page(bytes: &[u8], number: u64) -> Data {
    let mut buffer = Buffer::zeroed(PAGE);
    let from = (PAGE * number).as_usize();
    let part = &bytes[from..bytes.len().min(from + PAGE.as_usize())];
    buffer.bytes_mut().expect("it is real")[..part.len()].copy_from_slice(part);
    buffer.freeze()
}

impl Intent {
    /// The bitmap to go on with, the marks of it that all members have (none if some members' bitmaps are unsound), and
    /// where it lies.
    fn new(runtime: &Runtime, bitmap: Bitmap, durable: Option<Bitmap>, at: Bytes) -> Intent {
        Intent {
            unsound: Cell::new(durable.is_none()),
            durable: RefCell::new(durable.unwrap_or_else(|| without_marks(&bitmap))),
            bitmap: RefCell::new(bitmap),
            at,
            writing: RefCell::default(),
            touched: RefCell::default(),
            turn: Resource::new(runtime, 1),
            store: Resource::new(runtime, 1),
        }
    }

    /// Whether any of it may differ between members.
    pub fn is_marked(&self, range: &Range<Bytes>) -> bool {
        let bitmap = self.bitmap.borrow();
        bitmap.regions_of(range.start, range.end - range.start).any(|region| bitmap.is_marked(region))
    }

    /// The newest events at which bits were cleared.
    pub fn events_cleared(&self) -> u64 {
        self.bitmap.borrow().events_cleared
    }

    /// What one bit covers.
    pub fn region(&self) -> Bytes {
        self.bitmap.borrow().region
    }

    /// Where it lies on each member.
    pub fn at(&self) -> Bytes {
        self.at
    }

    /// Where it ends there.
    pub fn end(&self) -> Bytes {
        self.at + Bytes::new(self.bitmap.borrow().to_bytes().len() as u64).round_up(PAGE)
    }

    /// How many regions are marked, and how many there are.
    pub fn counts(&self) -> (u64, u64) {
        let bitmap = self.bitmap.borrow();
        (bitmap.marked().count() as u64, bitmap.regions())
    }

    /// Counts a write of a range of the bitmap among those under way.
    fn begin(&self, range: Range<Bytes>) -> Marked<'_> {
        let regions = self.bitmap.borrow().regions_of(range.start, range.end - range.start);
        for region in regions.clone() {
            *self.writing.borrow_mut().entry(region).or_default() += 1;
            self.touched.borrow_mut().insert(region);
        }
        Marked { intent: self, regions }
    }
}

impl Marked<'_> {
    /// Whether its bits are on the members.
    fn is_durable(&self) -> bool {
        let durable = self.intent.durable.borrow();
        self.regions.clone().all(|region| durable.is_marked(region))
    }
}

impl<D: Device> Array<D> {
    /// What the bitmap covers of a range of the array: a range of every member, or at level 10 of the array.
    pub(crate) fn in_bitmap(&self, range: Range<Bytes>) -> Range<Bytes> {
        match self.geometry.level() {
            level if level.parities() > 0 => {
                let (chunk, row) = (self.geometry.chunk(), self.geometry.stripe_size());
                chunk * (range.start / row)..chunk * range.end.get().div_ceil(row.get())
            }
            _ => range,
        }
    }

    /// Marks what is about to be written, on all members.
    pub(crate) async fn mark<'a>(&self, intent: &'a Intent, range: Range<Bytes>) -> Result<Marked<'a>, DeviceError> {
        let marked = intent.begin(self.in_bitmap(range));
        if !marked.is_durable() {
            rarely(|| self.mark_durably(&marked)).await?;
        }
        Ok(marked)
    }

    async fn mark_durably(&self, marked: &Marked<'_>) -> Result<(), DeviceError> {
        let intent = marked.intent;
        let _turn = intent.turn.acquire(0).await;
        if marked.is_durable() {
            return Ok(());
        }
        // Everyone who waits for a bit is served at once.
        let mut wanted: Vec<u64> = intent.writing.borrow().keys().copied().collect();
        wanted.retain(|region| !intent.durable.borrow().is_marked(*region));
        for region in &wanted {
            intent.bitmap.borrow_mut().set(*region, true);
        }
        self.write_bitmap(intent, &wanted.iter().copied().map(page_of).collect()).await?;
        for region in wanted {
            intent.durable.borrow_mut().set(region, true);
        }
        Ok(())
    }

    /// Writes pages of the bitmap to all members in use, durably. Who cannot take them fails.
    async fn write_bitmap(&self, intent: &Intent, pages: &BTreeSet<u64>) -> Result<(), DeviceError> {
        self.store_pages(intent, pages).await?;
        self.settle().await
    }

    /// Says on all members that the bitmap belongs to this number of events, before their superblocks do.
    pub(crate) async fn raise_bitmap_events(&self, events: u64) -> Result<(), DeviceError> {
        let Some(intent) = &self.intent else { return Ok(()) };
        let exchanged = |member: &Member<D>| member.cause() == Some(DeviceError::Exchanged);
        {
            let mut bitmap = intent.bitmap.borrow_mut();
            bitmap.events = events;
            if self.members.iter().any(exchanged) {
                // An older copy of a member says that it lacks only what is marked, and lacks what was unmarked since,
                // too. From here on none returns so.
                bitmap.events_cleared = events;
            }
        }
        self.store_pages(intent, &[0].into()).await
    }

    /// An error if a member has no room for them: then nobody may rely on what they say.
    async fn store_pages(&self, intent: &Intent, pages: &BTreeSet<u64>) -> Result<(), DeviceError> {
        let _store = intent.store.acquire(0).await;
        let bytes = intent.bitmap.borrow().to_bytes();
        let all: BTreeSet<u64> = (0..(bytes.len() as u64).div_ceil(PAGE.get())).collect();
        let pages = if intent.unsound.get() { &all } else { pages };
        let write = |number: usize| {
            let (member, bytes) = (&self.members[number], &bytes);
            async move {
                if member.state() == MemberState::Failed {
                    return Ok(());
                }
                for number_of_page in pages {
                    let at = intent.at + PAGE * *number_of_page;
                    let request = Request::write(at, page(bytes, *number_of_page)).with_fua();
                    match member.send(request).await.result {
                        Ok(()) => {}
                        Err(DeviceError::NoSpace) => return Err(DeviceError::NoSpace),
                        Err(error) => self.could_not_store(number, &error),
                    }
                }
                Ok(())
            }
        };
        join_all((0..self.members.len()).map(write)).await.into_iter().collect::<Result<(), DeviceError>>()?;
        intent.unsound.set(false);
        Ok(())
    }

    /// Puts the whole bitmap on a member that is new.
    pub(crate) async fn copy_bitmap(&self, member: usize) -> Result<(), DeviceError> {
        let Some(intent) = &self.intent else { return Ok(()) };
        let _store = intent.store.acquire(0).await;
        let bytes = intent.bitmap.borrow().to_bytes();
        for number in 0..(bytes.len() as u64).div_ceil(PAGE.get()) {
            let request = Request::write(intent.at + PAGE * number, page(&bytes, number)).with_fua();
            self.members[member].send(request).await.result?;
        }
        Ok(())
    }

    /// Clears the bits of regions that have not been written since the last call, in a complete array whose redundancy
    /// fits.
    pub(crate) async fn clear_bits(&self) -> Result<(), DeviceError> {
        let Some(intent) = &self.intent else { return Ok(()) };
        let touched = std::mem::take(&mut *intent.touched.borrow_mut());
        let idle = |region: &u64| !touched.contains(region) && !intent.writing.borrow().contains_key(region);
        let candidates: Vec<u64> = intent.bitmap.borrow().marked().filter(idle).collect();
        if candidates.is_empty() || !self.is_complete() || self.is_resync_due() {
            return Ok(());
        }
        let _turn = intent.turn.acquire(0).await;
        self.flush_members(0).await?;
        // What is bad is said first: a mark is all that would tell of it after a power cut.
        self.settle().await?;
        // A member that fails the flush may lack what was written; its bits stay.
        if !self.is_complete() {
            return Ok(());
        }
        let mut pages: BTreeSet<u64> = [0].into();
        {
            let (mut bitmap, mut durable) = (intent.bitmap.borrow_mut(), intent.durable.borrow_mut());
            // Whoever writes to one of them from now on finds it unmarked, and waits for the turn.
            let untouched = |region: &u64| !intent.touched.borrow().contains(region);
            for region in candidates.into_iter().filter(untouched) {
                bitmap.set(region, false);
                durable.set(region, false);
                pages.insert(page_of(region));
            }
            bitmap.events_cleared = bitmap.events;
        }
        self.write_bitmap(intent, &pages).await
    }

    /// Reads the bitmaps of the members with these superblocks. Where one is stale, damaged or another's, everything is
    /// marked.
    pub(crate) async fn read_bitmaps(&self, superblocks: &[Option<Superblock>], own_events: &[u64]) -> Option<Intent> {
        let at = superblocks.iter().flatten().find_map(Superblock::bitmap_at)?;
        let covers = match self.geometry.level() {
            Level::Raid10(_) => self.geometry.size(),
            _ => self.geometry.used(),
        };
        let (mut union, mut common): (Option<Bitmap>, Option<Bitmap>) = (None, None);
        let mut sound = true;
        for (member, superblock) in superblocks.iter().enumerate() {
            let Some(superblock) = superblock else { continue };
            let read = async |length: Bytes| {
                let reply = self.members[member].send(Request::read(at, Buffer::zeroed(length))).await;
                reply.result.ok().and(reply.buffer)
            };
            let parsed = async || {
                let first = read(PAGE).await?;
                let needed = match Bitmap::parse(first.bytes()?) {
                    Ok(bitmap) => return Some(bitmap),
                    Err(crate::md::BitmapError::Short { needed, .. }) => Bytes::new(needed).round_up(PAGE),
                    Err(_) => return None,
                };
                let room = superblock.data_offset.saturating_sub(at);
                let whole = if needed <= room { read(needed).await? } else { return None };
                Bitmap::parse(whole.bytes()?).ok()
            };
            let belongs = |bitmap: &Bitmap| {
                bitmap.array == superblock.array && bitmap.covers == covers && bitmap.events >= own_events[member]
            };
            match (parsed().await.filter(belongs).filter(|bitmap| !bitmap.is_stale()), &mut union, &mut common) {
                (Some(bitmap), None, _) => (union, common) = (Some(bitmap.clone()), Some(bitmap)),
                (Some(bitmap), Some(union), Some(common)) if bitmap.region == union.region => {
                    let not_here = |region: &u64| !bitmap.is_marked(*region);
                    (0..common.regions()).filter(not_here).for_each(|region| _ = common.set(region, false));
                    bitmap.marked().for_each(|region| _ = union.set(region, true));
                    union.events_cleared = union.events_cleared.max(bitmap.events_cleared);
                }
                _ => sound = false,
            }
        }
        let array = superblocks.iter().flatten().next()?.array;
        let mut bitmap = union.unwrap_or_else(|| Bitmap::full(array, 0, covers, Bitmap::region_for(covers)));
        bitmap.events = own_events.iter().copied().max().unwrap_or(0).max(bitmap.events);
        if !sound {
            (0..bitmap.regions()).for_each(|region| _ = bitmap.set(region, true));
        }
        Some(Intent::new(&self.runtime, bitmap, common.filter(|_| sound), at))
    }
}
