//! Memory for payloads, used again.
//!
//! A new buffer must be zeroed, and a large one fetched from the kernel page by page; most loads use one size. So whoever moves many
//! payloads (a connection, an array) keeps its buffers, up to a limit, and hands them out by their exact length. They may hold what
//! their owner read or wrote before: whoever takes one fills all of it before anybody else sees it.

use std::cell::{Cell, RefCell};

use units::Bytes;

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
        match free.iter().rposition(|buffer| buffer.len() == length) {
            Some(place) => {
                self.kept.set(self.kept.get() - length);
                free.swap_remove(place)
            }
            None => Buffer::zeroed(length),
        }
    }

    /// Takes a buffer back.
    pub fn give(&self, buffer: Buffer) {
        if buffer.is_empty() || buffer.len() > KEPT || buffer.bytes().is_none() {
            return;
        }
        let mut free = self.free.borrow_mut();
        let mut kept = self.kept.get() + buffer.len();
        free.push(buffer);
        while kept > KEPT {
            // The one at the front has not been wanted for longest.
            kept = kept - free.remove(0).len();
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

#[test]
fn memory_comes_back_and_does_not_grow() {
    let pool = Pool::default();
    let buffer = pool.take(Bytes::kib(4));
    let address = buffer.bytes().unwrap().as_ptr();
    pool.give(buffer);
    assert_ne!(pool.take(Bytes::kib(8)).bytes().unwrap().as_ptr(), address, "only of the same length");
    assert_eq!(pool.take(Bytes::kib(4)).bytes().unwrap().as_ptr(), address);
    for _ in 0..100 {
        pool.give(Buffer::zeroed(Bytes::mib(1)));
    }
    assert_eq!(pool.free.borrow().iter().map(Buffer::len).sum::<Bytes>(), KEPT);
    assert_eq!(pool.kept.get(), KEPT);
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
