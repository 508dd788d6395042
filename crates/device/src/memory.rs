//! A device in memory: what conformance tests and the storm stand on.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use runtime::Runtime;
use units::Bytes;

use crate::{Device, Extent, Operation, Payload, Reply, Request, Shape, Stamps};

/// Memory comes in pages of this size, made when first written: a large device costs only what is used of it.
const PAGE: usize = 64 * 1024;
/// Of a device smaller than [`SMALL`]: simulations of power cuts take a snapshot at each, and copy a page for nearly
/// each write after it.
const SMALL_PAGE: usize = 4 * 1024;
const SMALL: Bytes = Bytes::mib(8);

/// A device that keeps its blocks in memory and replies at once (in the next turn of the runtime, so that nobody
/// starves).
///
/// Time, faults and limits are filters that stand in front of it.
pub struct MemoryDevice {
    runtime: Runtime,
    shape: Shape,
    /// Bytes of a page.
    page: usize,
    pages: RefCell<HashMap<u64, Rc<[u8]>>>,
}

impl MemoryDevice {
    /// A device full of zeroes.
    pub fn new(runtime: &Runtime, shape: Shape) -> MemoryDevice {
        let page = if shape.size < SMALL { SMALL_PAGE } else { PAGE };
        MemoryDevice { runtime: runtime.clone(), shape, page, pages: RefCell::default() }
    }

    /// A second device with the same contents, under a runtime of its own. Pages are shared until one of the two writes
    /// them.
    pub fn snapshot(&self, runtime: &Runtime) -> MemoryDevice {
        let pages = RefCell::new(self.pages.borrow().clone());
        MemoryDevice { runtime: runtime.clone(), shape: self.shape.clone(), page: self.page, pages }
    }

    /// Calls `visit` for each page that the range touches: page number, range within the page, range within the
    /// request.
    fn pages(
        size: usize,
        offset: Bytes,
        length: Bytes,
        mut visit: impl FnMut(u64, std::ops::Range<usize>, std::ops::Range<usize>),
    ) {
        let (mut at, end) = (offset.get(), (offset + length).get());
        while at < end {
            let (page, within) = (at / size as u64, (at % size as u64) as usize);
            let count = (size - within).min((end - at) as usize);
            let done = (at - offset.get()) as usize;
            visit(page, within..within + count, done..done + count);
            at += count as u64;
        }
    }

    fn carry_out(&self, request: &mut Request) {
        let (size, pages) = (self.page, &mut *self.pages.borrow_mut());
        match (&mut request.payload, request.operation) {
            (Payload::Into(buffer), Operation::Read) => {
                let Some(into) = buffer.bytes_mut() else { return };
                Self::pages(size, request.offset, request.length, |page, within, range| match pages.get(&page) {
                    Some(page) => into[range].copy_from_slice(&page[within]),
                    None => into[range].fill(0),
                });
            }
            (Payload::From(data), Operation::Write) => {
                let Some(from) = data.bytes() else { return };
                Self::pages(size, request.offset, request.length, |page, within, range| {
                    let page = pages.entry(page).or_insert_with(|| Rc::from(vec![0; size]));
                    Rc::make_mut(page)[within].copy_from_slice(&from[range]);
                });
            }
            (Payload::None, Operation::Discard | Operation::WriteZeroes) => {
                Self::pages(size, request.offset, request.length, |page, within, _| {
                    if within.len() == size {
                        pages.remove(&page);
                    } else if let Some(page) = pages.get_mut(&page) {
                        Rc::make_mut(page)[within].fill(0);
                    }
                });
            }
            (Payload::None, Operation::Flush) => {}
            (payload, operation) => panic!("a {operation:?} with payload {payload:?}"),
        }
    }
}

impl Device for MemoryDevice {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, mut request: Request) -> Reply {
        let submitted = self.runtime.now();
        if let Err(error) = self.shape.check(&request) {
            return request.refuse(error, submitted);
        }
        self.runtime.yield_now().await;
        self.carry_out(&mut request);
        request.answer(Ok(()), Stamps { submitted, completed: self.runtime.now() })
    }

    /// Pages that were never written are holes.
    fn extent(&self, offset: Bytes, length: Bytes) -> Extent {
        let pages = self.pages.borrow();
        let page = |at: u64| pages.contains_key(&(at / self.page as u64));
        let (start, end) = (offset.get(), (offset + length).get());
        let stored = page(start);
        let mut at = start;
        while at < end && page(at) == stored {
            at = (at / self.page as u64 + 1) * self.page as u64;
        }
        let length = Bytes::new(at.min(end) - start);
        if stored { Extent::data(length) } else { Extent::hole(length) }
    }
}
