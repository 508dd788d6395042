//! Memory of one connection for payloads, used again.
//!
//! A new buffer must be zeroed, and a large one fetched from the kernel page by page; most loads use one size. So buffers are kept, up to
//! a limit, and handed out by their exact length. They may hold what this connection read or wrote before: whoever takes one fills all
//! of it before it is sent.

use std::cell::RefCell;

use device::Buffer;
use units::Bytes;

/// The most that is kept.
const KEPT: Bytes = Bytes::mib(8);

/// Buffers that nobody uses.
#[derive(Default)]
pub struct Pool {
    free: RefCell<Vec<Buffer>>,
}

impl Pool {
    /// Memory of this length.
    pub fn take(&self, length: Bytes) -> Buffer {
        let mut free = self.free.borrow_mut();
        match free.iter().rposition(|buffer| buffer.len() == length) {
            Some(place) => free.swap_remove(place),
            None => Buffer::zeroed(length),
        }
    }

    /// Takes a buffer back.
    pub fn give(&self, buffer: Buffer) {
        if buffer.is_empty() || buffer.len() > KEPT {
            return;
        }
        let mut free = self.free.borrow_mut();
        free.push(buffer);
        let mut kept: Bytes = free.iter().map(Buffer::len).sum();
        while kept > KEPT {
            // The one at the front has not been wanted for longest.
            kept = kept - free.remove(0).len();
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
}
