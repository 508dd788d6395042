//! Memory for payloads, used again.
//!
//! A new buffer must be zeroed, and a large one fetched from the kernel page by page; most loads use one size. So
//! whoever moves many payloads (a connection, an array) keeps its buffers, up to a limit, and hands them out by their
//! exact length. They may hold what their owner read or wrote before: whoever takes one fills all of it before anybody
//! else sees it.

use std::cell::{Cell, RefCell};

use units::Bytes;

use crate::buffer::ALIGNMENT;
use crate::{Buffer, Data};

/// The most that is kept.
const KEPT: Bytes = Bytes::mib(8);

/// Buffers that nobody uses.
#[derive(Default)]
pub struct Pool {
    free: RefCell<Vec<Buffer>>,
    kept: Cell<Bytes>,
}

impl Pool {
    /// Memory of this length.
    pub fn take(&self, length: Bytes) -> Buffer {
        let mut free = self.free.borrow_mut();
        // Whoever uses one size finds it last.
        let found = match free.pop_if(|last| last.len() == length) {
            Some(last) => last,
            None => match free.iter().rposition(|buffer| buffer.len() == length) {
                Some(place) => free.remove(place),
                None => return Buffer::reusable(length),
            },
        };
        self.kept.set(self.kept.get() - cost(&found));
        found
    }

    /// Takes a buffer back.
    pub fn give(&self, buffer: Buffer) {
        if buffer.is_empty() || buffer.len() > KEPT || buffer.bytes().is_none() {
            return;
        }
        let mut free = self.free.borrow_mut();
        let mut kept = self.kept.get() + cost(&buffer);
        free.push(buffer);
        while kept > KEPT {
            // The one at the front has not been wanted for longest.
            kept = kept - cost(&free.remove(0));
        }
        self.kept.set(kept);
    }

    /// Takes back what was written, if nobody else holds any of it.
    pub fn take_back(&self, data: Data) {
        if let Some(buffer) = data.reclaim() {
            self.give(buffer);
        }
    }
}

/// The memory that a buffer takes: it begins on a page of its own.
fn cost(buffer: &Buffer) -> Bytes {
    buffer.len() + ALIGNMENT
}

#[test]
fn memory_comes_back_and_does_not_grow() {
    let pool = Pool::default();
    let buffer = pool.take(Bytes::kib(4));
    let address = buffer.bytes().unwrap().as_ptr();
    pool.give(buffer);
    assert_ne!(pool.take(Bytes::kib(8)).bytes().unwrap().as_ptr(), address, "only of the same length");
    assert_eq!(pool.take(Bytes::kib(4)).bytes().unwrap().as_ptr(), address);
    for size in [Bytes::SECTOR, Bytes::mib(1)] {
        for _ in 0..10_000 {
            pool.give(Buffer::zeroed(size));
        }
        let kept: Bytes = pool.free.borrow().iter().map(cost).sum();
        assert!(kept <= KEPT && kept + size + ALIGNMENT > KEPT, "{kept} of {size} each");
        assert_eq!(pool.kept.get(), kept);
    }
}

#[test]
fn what_was_not_wanted_for_longest_goes() {
    let pool = Pool::default();
    let of = |mebibytes: u64, less: u64| Bytes::mib(mebibytes) - ALIGNMENT - Bytes::new(less);
    let (a, b, c, d) = (of(2, 0), of(3, 0), of(3, 512), of(3, 1024));
    for length in [a, b, c] {
        pool.give(Buffer::zeroed(length));
    }
    let wanted = pool.take(a);
    pool.give(wanted);
    pool.give(Buffer::zeroed(d));
    assert_eq!(pool.free.borrow().iter().map(Buffer::len).collect::<Vec<_>>(), [c, a, d]);
}

#[test]
fn what_was_written_comes_back_once_nobody_holds_it() {
    let pool = Pool::default();
    let data = pool.take(Bytes::kib(4)).freeze();
    let address = data.bytes().unwrap().as_ptr();
    let held = data.clone();
    pool.take_back(data);
    assert!(pool.free.borrow().is_empty(), "somebody holds it");
    pool.take_back(held);
    assert_eq!(pool.take(Bytes::kib(4)).bytes().unwrap().as_ptr(), address);
}
