//! Checksums in the path of a member's reads and writes.

use std::ops::Range;
use std::rc::Rc;

use device::{Buffer, Data, Device, DeviceError, Reply, Request};
use units::Bytes;

use super::area::{PAGE, SUMS, block_sum, page_bytes, parse_page};
use super::{Checksums, Page, Span, data};
use crate::member::Member;

/// A write whose sums are to follow. Whoever drops it unfinished leaves blocks of which nothing is known.
pub(crate) struct Writing<'a> {
    checksums: &'a Checksums,
    blocks: Range<u64>,
    finished: bool,
    _span: Span<'a>,
}

impl Writing<'_> {
    /// The member has the data.
    pub fn finish(mut self, data: &Data) {
        let Some(bytes) = data.bytes() else { return };
        let mut wrong = self.checksums.wrong.borrow_mut();
        for (block, bytes) in self.blocks.clone().zip(bytes.chunks(self.checksums.layout.block.as_usize())) {
            self.checksums.set(block, block_sum(bytes));
            wrong.remove(&block);
        }
        drop(wrong);
        self.finished = true;
    }

    /// The member had no room for all of the data, and this is there now: a block that it did not take keeps the sum
    /// that it had, as it may be wrong without saying so.
    pub fn refused(mut self, data: &Data, there: &Buffer) {
        let (Some(new), Some(there)) = (data.bytes(), there.bytes()) else { return };
        let size = self.checksums.layout.block.as_usize();
        for (block, (new, there)) in self.blocks.clone().zip(new.chunks(size).zip(there.chunks(size))) {
            if new == there {
                self.checksums.set(block, block_sum(new));
            }
        }
        self.finished = true;
    }

    /// Nothing was sent: what was known is known.
    fn call_off(mut self) {
        self.finished = true;
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        for block in self.blocks.clone() {
            // A page that is not in memory yet: nothing was sent.
            if self.checksums.pages.borrow().contains_key(&(block / SUMS)) {
                self.checksums.set(block, 0);
            }
        }
    }
}

impl Checksums {
    /// The blocks that do not fit. Those whose sum is not known get one. The page must be in memory.
    fn compare(&self, blocks: Range<u64>, bytes: &[u8]) -> Vec<u64> {
        let mut pages = self.pages.borrow_mut();
        let mut wrong = Vec::new();
        for (block, bytes) in blocks.zip(bytes.chunks(self.layout.block.as_usize())) {
            let page = pages.get_mut(&(block / SUMS)).expect("it was loaded");
            let (kept, found) = (&mut page.sums[(block % SUMS) as usize], block_sum(bytes));
            match *kept {
                0 => (*kept, page.changed) = (found, true),
                kept if kept != found => wrong.push(block),
                _ => {}
            }
        }
        wrong
    }
}

impl<D: Device> Member<D> {
    /// Holds what was read against its sums, and what does not fit, once more. The buffer comes back either way.
    pub(crate) async fn verify(
        &self,
        checksums: &Rc<Checksums>,
        offset: Bytes,
        buffer: Buffer,
        id: u64,
    ) -> (Buffer, Result<(), DeviceError>) {
        let blocks = checksums.layout.blocks_of(offset, buffer.len());
        let compared = self.compare(checksums, &blocks, &buffer).await;
        if checksums.retired.get() {
            return Box::pin(self.read_anew(offset, buffer, id)).await;
        }
        match compared {
            Ok(wrong) if wrong.is_empty() => return (buffer, Ok(())),
            Ok(_) => {}
            Err(error) => return (buffer, Err(error)),
        }
        // Data and sum of a block that is being written do not change at one instant: look again while nobody writes
        // there.
        let _held = checksums.held.add(blocks.clone());
        checksums.writing.leave(&blocks).await;
        let reply = self.send(Request::read(self.data_offset() + offset, buffer).with_id(id)).await;
        let buffer = reply.buffer.expect("a read gives its buffer back");
        if let Err(error) = reply.result {
            return (buffer, Err(error));
        }
        let compared = self.compare(checksums, &blocks, &buffer).await;
        if checksums.retired.get() {
            return Box::pin(self.read_anew(offset, buffer, id)).await;
        }
        match compared {
            Ok(wrong) if wrong.is_empty() => (buffer, Ok(())),
            Ok(wrong) => {
                let at = self.data_offset() + checksums.layout.block * wrong[0];
                let new = wrong.into_iter().filter(|block| checksums.wrong.borrow_mut().insert(*block)).count() as u64;
                checksums.header.borrow_mut().found += new;
                checksums.untold.set(true);
                self.count_corrupt(new);
                (buffer, Err(DeviceError::Medium { offset: at, length: checksums.layout.block }))
            }
            Err(error) => (buffer, Err(error)),
        }
    }

    /// Another device has taken the place of the one that was asked, and has sums of its own: it is asked, if what it
    /// holds counts.
    async fn read_anew(&self, offset: Bytes, buffer: Buffer, id: u64) -> (Buffer, Result<(), DeviceError>) {
        if self.is_current(&(offset..offset + buffer.len())) {
            return self.read(offset, buffer, id).await;
        }
        let (at, length) = (self.data_offset() + offset, buffer.len());
        (buffer, Err(DeviceError::Medium { offset: at, length }))
    }

    async fn compare(
        &self,
        checksums: &Checksums,
        blocks: &Range<u64>,
        buffer: &Buffer,
    ) -> Result<Vec<u64>, DeviceError> {
        let Some(bytes) = buffer.bytes() else { return Ok(Vec::new()) };
        let mut wrong = Vec::new();
        for page in checksums.layout.pages_of(blocks) {
            self.load(checksums, page).await?;
            let part = blocks.start.max(SUMS * page)..blocks.end.min(SUMS * (page + 1));
            let from = (checksums.layout.block * (part.start - blocks.start)).as_usize();
            wrong.extend(checksums.compare(part, &bytes[from..]));
        }
        Ok(wrong)
    }

    /// Before a write: the region is marked on the member, and the sums are in memory.
    pub(crate) async fn begin_write<'a>(
        &self,
        checksums: &'a Checksums,
        offset: Bytes,
        length: Bytes,
    ) -> Result<Writing<'a>, DeviceError> {
        let blocks = checksums.layout.blocks_of(offset, length);
        checksums.held.leave(&blocks).await;
        let regions = checksums.layout.regions_of(&blocks);
        checksums.touched.borrow_mut().extend(regions.clone());
        let span = checksums.writing.add(blocks.clone());
        let writing = Writing { checksums, blocks, finished: false, _span: span };
        for page in checksums.layout.pages_of(&writing.blocks) {
            self.load(checksums, page).await?;
        }
        match self.mark(checksums, regions).await {
            Ok(()) => Ok(writing),
            Err(error) => {
                writing.call_off();
                Err(error)
            }
        }
    }

    /// Sends what concerns sums to the device that has them. Once another has its place there is nobody to send it to.
    pub(super) async fn send_sums(&self, checksums: &Checksums, request: Request) -> Reply {
        match checksums.retired.get() {
            false => self.send(request).await,
            true => request.refuse(DeviceError::Gone, self.runtime().now()),
        }
    }

    /// Brings a page into memory.
    async fn load(&self, checksums: &Checksums, page: u64) -> Result<(), DeviceError> {
        if checksums.pages.borrow().contains_key(&page) {
            return Ok(());
        }
        let _one = checksums.transfer.acquire(0).await;
        if checksums.pages.borrow().contains_key(&page) {
            return Ok(());
        }
        match self.fetch(checksums, page).await {
            // Nothing is asked of a device that is a member no more; whoever wanted to know reads anew.
            Err(_) if checksums.retired.get() => {
                let unknown = Page { sums: vec![0; SUMS as usize], changed: false };
                checksums.pages.borrow_mut().insert(page, unknown);
                Ok(())
            }
            fetched => fetched,
        }
    }

    /// As [`load`](Member::load). The caller has the turn.
    async fn fetch(&self, checksums: &Checksums, page: u64) -> Result<(), DeviceError> {
        self.make_room(checksums).await?;
        let reply =
            self.send_sums(checksums, Request::read(checksums.layout.page_at(page), Buffer::zeroed(PAGE))).await;
        let sums = match reply.result {
            Ok(()) => {
                let buffer = reply.buffer.expect("a read gives its buffer back");
                parse_page(buffer.bytes().expect("it is real"), page)
            }
            Err(DeviceError::Medium { .. }) => None,
            Err(error) => return Err(error),
        };
        // Of a page that is damaged nothing is known; it is written again with the next that is.
        let changed = sums.is_none();
        let sums = sums.unwrap_or_else(|| vec![0; SUMS as usize]);
        checksums.pages.borrow_mut().insert(page, Page { sums, changed });
        Ok(())
    }

    /// Gives pages up until there is room for one more. The caller has the turn.
    async fn make_room(&self, checksums: &Checksums) -> Result<(), DeviceError> {
        let most = (checksums.memory.get() / PAGE).max(1) as usize;
        // Pages whose blocks are being written stay, so there may be more than was allowed.
        let tries = checksums.pages.borrow().len();
        for _ in 0..tries {
            if checksums.pages.borrow().len() < most {
                break;
            }
            let next = {
                let pages = checksums.pages.borrow();
                let behind = pages.range(checksums.hand.get()..).next();
                behind.or_else(|| pages.iter().next()).map(|(number, _)| *number)
            };
            let Some(number) = next else { break };
            checksums.hand.set(number + 1);
            let in_use = || checksums.writing.touch(&(SUMS * number..SUMS * (number + 1)));
            if in_use() {
                continue;
            }
            self.store_page(checksums, number).await?;
            let mut pages = checksums.pages.borrow_mut();
            if !in_use() && pages.get(&number).is_some_and(|page| !page.changed) {
                pages.remove(&number);
            }
        }
        Ok(())
    }

    /// Writes a page to the member, if it has changed. Its regions are marked there, or its new sums are of blocks that
    /// had none. The caller has the turn.
    pub(super) async fn store_page(&self, checksums: &Checksums, number: u64) -> Result<(), DeviceError> {
        let sums = match checksums.pages.borrow().get(&number) {
            Some(page) if page.changed => page.sums.clone(),
            _ => return Ok(()),
        };
        let at = checksums.layout.page_at(number);
        self.send_sums(checksums, Request::write(at, data(&page_bytes(&sums, number))).with_fua()).await.result?;
        // What changed meanwhile is not there yet.
        if let Some(page) = checksums.pages.borrow_mut().get_mut(&number) {
            page.changed = page.sums != sums;
        }
        Ok(())
    }
}
