//! The buffer cache: blocks of all drives that the system keeps in memory.
//!
//! A buffer is *busy* while somebody uses it or its data are under way; others wait. A free one keeps its block until
//! its memory is wanted: first those that nobody is expected to ask for again (*aged*: written whole, or read ahead),
//! then the least recently used. One whose block waits to be written is written first, while the search goes on. Who
//! finds none waits, and those who wait get one in turn: the programs are alike, and none of them waits for ever.
//!
//! # Source
//! ufs_bio.c of 4.2BSD (6.1): bread, breada, bwrite, bdwrite, bawrite, brelse, getblk, getnewbuf.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use runtime::{Runtime, Signal};
use units::Bytes;

use super::Caller;
use crate::driver::Unit;

/// A block of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The mounted file system.
    pub mount: usize,
    /// The first fragment.
    pub fragment: u64,
}

/// A buffer.
pub(super) struct Buffer {
    key: Key,
    bytes: Cell<Bytes>,
    busy: Cell<bool>,
    /// It holds what the disk holds, or what is to be written.
    valid: Cell<bool>,
    dirty: Cell<bool>,
}

/// Where a block lies, for a transfer.
#[derive(Clone)]
pub(super) struct Place {
    pub unit: Rc<Unit>,
    pub key: Key,
    pub offset: Bytes,
    pub bytes: Bytes,
}

/// All buffers.
pub(super) struct Cache {
    runtime: Runtime,
    most: usize,
    memory: Bytes,
    inner: RefCell<Inner>,
    /// Who waits for a free buffer, by the number that each was given.
    queue: RefCell<VecDeque<u64>>,
    numbers: Cell<u64>,
    changed: Signal,
    pub hits: Cell<u64>,
    pub reads: Cell<u64>,
    pub writes: Cell<u64>,
}

#[derive(Default)]
struct Inner {
    buffers: HashMap<Key, (Rc<Buffer>, Place)>,
    aged: VecDeque<Key>,
    recent: VecDeque<Key>,
    bytes: Bytes,
}

impl Cache {
    pub fn new(runtime: &Runtime, most: usize, memory: Bytes) -> Cache {
        let (inner, queue, numbers, changed) = Default::default();
        let (hits, reads, writes) = Default::default();
        Cache { runtime: runtime.clone(), most, memory, inner, queue, numbers, changed, hits, reads, writes }
    }

    /// Whether a block is here, or on its way.
    pub fn has(&self, key: Key) -> bool {
        self.inner.borrow().buffers.contains_key(&key)
    }

    /// The buffer of a block, busy with the caller. It may be valid.
    pub async fn get(self: &Rc<Cache>, place: &Place, caller: &mut Caller<'_>) -> Rc<Buffer> {
        assert!(place.bytes <= self.memory, "a block fits the cache");
        let mut number = None;
        let buffer = self.find(place, &mut number, caller).await;
        if let Some(number) = number {
            self.queue.borrow_mut().retain(|waiting| *waiting != number);
            self.changed.notify();
        }
        buffer
    }

    /// The same, with the number in the queue if it had to wait there.
    async fn find(self: &Rc<Cache>, place: &Place, number: &mut Option<u64>, caller: &mut Caller<'_>) -> Rc<Buffer> {
        loop {
            let known = self.inner.borrow().buffers.get(&place.key).map(|(buffer, _)| Rc::clone(buffer));
            if let Some(buffer) = known {
                if buffer.busy.get() {
                    caller.wait(&self.changed, || !buffer.busy.get()).await;
                    continue;
                }
                self.take(&buffer);
                self.resize(&buffer, place);
                return buffer;
            }
            let in_turn = |number: Option<u64>| self.queue.borrow().front().copied() == number;
            if in_turn(*number)
                && let Some(buffer) = self.new_buffer(place)
            {
                caller.step(caller.buffer, "buffer").await;
                return buffer;
            }
            let victim = if in_turn(*number) { self.victim() } else { None };
            let Some((victim, home)) = victim else {
                let number = Some(*number.get_or_insert_with(|| self.line_up()));
                caller.wait(&self.changed, || self.has_room(place) && in_turn(number)).await;
                continue;
            };
            if victim.dirty.get() {
                self.start(&victim, &home, true, true).await;
            } else {
                self.drop_buffer(&victim);
            }
        }
    }

    /// The buffer of a block with its data; `ahead` is read as well, and nobody waits for that.
    pub async fn read(self: &Rc<Cache>, place: &Place, ahead: Option<&Place>, caller: &mut Caller<'_>) -> Rc<Buffer> {
        let mut started = None;
        if !self.has(place.key) {
            let buffer = self.get(place, caller).await;
            self.start(&buffer, place, false, false).await;
            started = Some(buffer);
        }
        if let Some(ahead) = ahead.filter(|ahead| !self.has(ahead.key)) {
            let buffer = self.get(ahead, caller).await;
            if buffer.valid.get() {
                self.release(&buffer, false)
            } else {
                self.start(&buffer, ahead, false, true).await
            }
        }
        let buffer = match started {
            Some(buffer) => buffer,
            None => {
                let buffer = self.get(place, caller).await;
                if buffer.valid.get() {
                    self.hits.set(self.hits.get() + 1);
                    return buffer;
                }
                self.start(&buffer, place, false, false).await;
                buffer
            }
        };
        caller.wait(&self.changed, || buffer.valid.get()).await;
        buffer
    }

    /// Starts a transfer of a busy buffer. If nobody waits for it, the buffer is released when it ends.
    pub async fn start(self: &Rc<Cache>, buffer: &Rc<Buffer>, place: &Place, write: bool, alone: bool) {
        assert!(buffer.busy.get(), "a buffer under way is nobody else's");
        let count = if write { &self.writes } else { &self.reads };
        count.set(count.get() + 1);
        buffer.dirty.set(false);
        let ticket = place.unit.strategy(write, place.offset, place.bytes).await;
        let (cache, buffer, unit) = (Rc::clone(self), Rc::clone(buffer), Rc::clone(&place.unit));
        if write {
            buffer.valid.set(false);
        }
        self.runtime.spawn_detached(async move {
            unit.finished(&ticket).await;
            buffer.valid.set(true);
            if alone {
                cache.release(&buffer, true);
            } else {
                cache.changed.notify();
            }
        });
    }

    /// Writes a buffer, and the caller waits.
    pub async fn write_through(self: &Rc<Cache>, buffer: &Rc<Buffer>, place: &Place, caller: &mut Caller<'_>) {
        self.start(buffer, place, true, false).await;
        caller.wait(&self.changed, || buffer.valid.get()).await;
        self.release(buffer, false);
    }

    /// The buffer's block has changed, and is written some time.
    pub fn delay(&self, buffer: &Rc<Buffer>) {
        buffer.valid.set(true);
        buffer.dirty.set(true);
        self.release(buffer, false);
    }

    /// The caller does not use the buffer any more.
    pub fn release(&self, buffer: &Rc<Buffer>, aged: bool) {
        assert!(buffer.busy.replace(false), "a buffer is released by who has it");
        let inner = &mut *self.inner.borrow_mut();
        let list = if aged { &mut inner.aged } else { &mut inner.recent };
        list.push_back(buffer.key);
        self.changed.notify();
    }

    /// Starts the writes of all that waits to be written.
    pub async fn flush(self: &Rc<Cache>) {
        let dirty: Vec<(Rc<Buffer>, Place)> = {
            let inner = self.inner.borrow();
            let dirty = inner.buffers.values().filter(|(buffer, _)| buffer.dirty.get() && !buffer.busy.get());
            let mut dirty: Vec<_> = dirty.map(|(buffer, place)| (Rc::clone(buffer), place.clone())).collect();
            dirty.sort_by_key(|(buffer, _)| (buffer.key.mount, buffer.key.fragment));
            dirty
        };
        for (buffer, place) in dirty {
            if buffer.dirty.get() && !buffer.busy.get() {
                self.take(&buffer);
                self.start(&buffer, &place, true, true).await;
            }
        }
    }

    /// Forgets all blocks of a mounted file system that nobody uses: as after it was mounted anew.
    pub fn forget(&self, mount: usize) {
        let inner = &mut *self.inner.borrow_mut();
        let idle = |key: &Key, buffer: &Buffer| key.mount == mount && !buffer.busy.get();
        let freed: Bytes = inner
            .buffers
            .iter()
            .filter(|(key, (buffer, _))| idle(key, buffer))
            .map(|(_, (buffer, _))| buffer.bytes.get())
            .sum();
        inner.buffers.retain(|key, (buffer, _)| !idle(key, buffer));
        inner.bytes = inner.bytes - freed;
        let Inner { buffers, aged, recent, .. } = inner;
        aged.retain(|key| buffers.contains_key(key));
        recent.retain(|key| buffers.contains_key(key));
    }

    fn take(&self, buffer: &Buffer) {
        assert!(!buffer.busy.replace(true), "a buffer is taken by one at a time");
        let inner = &mut *self.inner.borrow_mut();
        inner.aged.retain(|key| *key != buffer.key);
        inner.recent.retain(|key| *key != buffer.key);
    }

    /// A fragment may have become longer, or be another file's by now.
    fn resize(&self, buffer: &Buffer, place: &Place) {
        let inner = &mut *self.inner.borrow_mut();
        inner.bytes = inner.bytes - buffer.bytes.get() + place.bytes;
        buffer.bytes.set(place.bytes);
        if let Some((_, home)) = inner.buffers.get_mut(&buffer.key) {
            *home = place.clone();
        }
    }

    fn new_buffer(&self, place: &Place) -> Option<Rc<Buffer>> {
        let inner = &mut *self.inner.borrow_mut();
        if inner.buffers.len() >= self.most || inner.bytes + place.bytes > self.memory {
            return None;
        }
        let buffer = Rc::new(Buffer {
            key: place.key,
            bytes: Cell::new(place.bytes),
            busy: Cell::new(true),
            valid: Cell::new(false),
            dirty: Cell::new(false),
        });
        inner.bytes += place.bytes;
        inner.buffers.insert(place.key, (Rc::clone(&buffer), place.clone()));
        Some(buffer)
    }

    /// The next buffer whose memory may be had, busy now.
    fn victim(&self) -> Option<(Rc<Buffer>, Place)> {
        let inner = &mut *self.inner.borrow_mut();
        let key = inner.aged.pop_front().or_else(|| inner.recent.pop_front())?;
        let (buffer, place) = &inner.buffers[&key];
        assert!(!buffer.busy.replace(true), "a buffer on a list is free");
        Some((Rc::clone(buffer), place.clone()))
    }

    /// Whether there is a buffer to be had, or memory for one.
    fn has_room(&self, place: &Place) -> bool {
        let inner = self.inner.borrow();
        let room = inner.buffers.len() < self.most && inner.bytes + place.bytes <= self.memory;
        room || !inner.aged.is_empty() || !inner.recent.is_empty()
    }

    /// Joins those who wait for a free buffer.
    fn line_up(&self) -> u64 {
        let number = self.numbers.get();
        self.numbers.set(number + 1);
        self.queue.borrow_mut().push_back(number);
        number
    }

    fn drop_buffer(&self, buffer: &Buffer) {
        let inner = &mut *self.inner.borrow_mut();
        inner.buffers.remove(&buffer.key);
        inner.bytes = inner.bytes - buffer.bytes.get();
        buffer.busy.set(false);
    }
}

impl Buffer {
    /// All of it is filled now.
    pub fn fill(&self) {
        self.valid.set(true);
    }
}
