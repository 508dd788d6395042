//! Marks on regions: whose sums on the member may not fit, because something is being written there.

use std::ops::Range;
use std::rc::Rc;

use device::{Buffer, Device, DeviceError, Request};
use runtime::Grant;

use super::area::{Header, Layout, PAGE, SUMS, page_bytes, parse_page};
use super::{Checksums, data, newest_header};
use crate::md::Superblock;
use crate::member::{Member, MemberState, Patient};

impl Checksums {
    /// Marked regions in which nothing is being written, nor was since the last call unless `all` are wanted.
    pub(super) fn idle_regions(&self, all: bool) -> Vec<u64> {
        let touched = std::mem::take(&mut *self.touched.borrow_mut());
        let header = self.header.borrow();
        let idle = |region: &u64| {
            (all || !touched.contains(region)) && !self.writing.touch(&self.layout.region_blocks(*region))
        };
        header.marked(self.regions()).filter(idle).collect()
    }
}

/// Regions that are to be closed once what was written to them is durable.
pub(crate) struct Closing {
    checksums: Rc<Checksums>,
    regions: Vec<u64>,
    all: bool,
    _one: Grant,
}

impl<D: Device> Member<D> {
    /// The newest sound header, read with the member's patience.
    pub(super) async fn newest_header(
        &self,
        layout: &Layout,
        superblock: &Superblock,
    ) -> Result<Option<(Header, u64)>, DeviceError> {
        let Some(device) = self.device() else { return Ok(None) };
        newest_header(&Patient { member: self, device }, layout, superblock).await
    }

    /// Says durably that the sums of these regions may not fit. Whoever waits for marks shares one write of them.
    pub(super) async fn mark(&self, checksums: &Checksums, regions: Range<u64>) -> Result<(), DeviceError> {
        let marked = || regions.clone().all(|region| checksums.durable.borrow().is_marked(region));
        if marked() {
            return Ok(());
        }
        let _turn = checksums.turn.acquire(0).await;
        if marked() || checksums.retired.get() {
            return Ok(());
        }
        let writing = checksums.writing.ranges.borrow().clone();
        for region in writing.iter().flat_map(|blocks| checksums.layout.regions_of(blocks)) {
            checksums.header.borrow_mut().mark(region, true);
        }
        self.write_header(checksums).await
    }

    /// Writes the header into the slot of the older one. The caller has the turn.
    async fn write_header(&self, checksums: &Checksums) -> Result<(), DeviceError> {
        checksums.untold.set(false);
        let header = {
            let mut header = checksums.header.borrow_mut();
            header.generation += 1;
            header.clone()
        };
        let at = checksums.layout.header_at(checksums.slot.get());
        self.send_sums(checksums, Request::write(at, data(&header.to_bytes())).with_fua()).await.result?;
        // Only one that is surely there lets the other slot be overwritten.
        checksums.slot.set(1 - checksums.slot.get());
        *checksums.durable.borrow_mut() = header;
        Ok(())
    }

    /// Before the member's superblock is written: the header must know it, and the one before.
    pub(crate) async fn announce(&self, superblock: &Superblock) -> Result<(), DeviceError> {
        let Some(checksums) = self.checksums() else { return Ok(()) };
        let _turn = checksums.turn.acquire(0).await;
        checksums.header.borrow_mut().superblocks =
            [super::area::superblock_sum(superblock), checksums.superblock.get()];
        self.write_header(&checksums).await
    }

    /// The member has that superblock.
    pub(crate) fn announced(&self, superblock: &Superblock) {
        if let Some(checksums) = self.checksums() {
            checksums.superblock.set(super::area::superblock_sum(superblock));
        }
    }

    /// After the start: what lies in marked regions may not fit its sums, which are forgotten. The marks stay until the
    /// regions are closed.
    pub(super) async fn forget_marked(&self, checksums: &Checksums) -> Result<(), DeviceError> {
        let marked: Vec<u64> = checksums.header.borrow().marked(checksums.regions()).collect();
        *checksums.suspect.borrow_mut() = Some(marked.iter().copied().collect());
        for region in marked {
            let blocks = checksums.layout.region_blocks(region);
            for page in checksums.layout.pages_of(&blocks) {
                let reply = self.send(Request::read(checksums.layout.page_at(page), Buffer::zeroed(PAGE))).await;
                match reply.result {
                    Ok(()) | Err(DeviceError::Medium { .. }) => {}
                    Err(error) => return Err(error),
                }
                let buffer = reply.buffer.expect("a read gives its buffer back");
                let sums = reply.result.ok().and_then(|()| parse_page(buffer.bytes().expect("it is real"), page));
                let mut sums = sums.unwrap_or_else(|| vec![0; SUMS as usize]);
                let part = blocks.start.max(SUMS * page)..blocks.end.min(SUMS * (page + 1));
                sums[(part.start - SUMS * page) as usize..(part.end - SUMS * page) as usize].fill(0);
                let request = Request::write(checksums.layout.page_at(page), data(&page_bytes(&sums, page)));
                self.send(request).await.result?;
            }
        }
        Ok(())
    }

    /// Chooses regions to be closed: those that were not written since this was last done, or `all` in which nothing is
    /// being written. `None` if there is nothing to do. What was under way when the array was last left may not fit its
    /// parity while a resync is due, and only the mark says so: it stays.
    pub(crate) async fn begin_closing(&self, all: bool, resync_due: bool) -> Option<Closing> {
        let checksums = self.checksums()?;
        let one = checksums.closing.acquire(0).await;
        let mut regions = checksums.idle_regions(all);
        if resync_due {
            let suspect = checksums.suspect.borrow();
            regions.retain(|region| suspect.as_ref().is_some_and(|all| !all.contains(region)));
        }
        if let MemberState::Rebuilding(upto) = self.state() {
            // Behind the mark nothing is known yet of what is there, and what was forgotten must stay so until it is
            // filled.
            let end = |region: u64| checksums.layout.block * checksums.layout.region_blocks(region).end;
            regions.retain(|region| end(*region) <= upto);
        }
        let due = all || !regions.is_empty() || checksums.untold.get();
        due.then_some(Closing { checksums, regions, all, _one: one })
    }

    /// Writes the sums of regions in which nothing was written since they were chosen, and takes their marks away. Data
    /// must have been flushed meanwhile.
    pub(crate) async fn finish_closing(&self, closing: Closing) -> Result<(), DeviceError> {
        let Closing { checksums, regions, all, _one } = closing;
        match self.close_regions(&checksums, regions, all).await {
            // Whatever the device had to say, it is a member no more.
            Err(_) if checksums.retired.get() => Ok(()),
            closed => closed,
        }
    }

    async fn close_regions(&self, checksums: &Checksums, mut regions: Vec<u64>, all: bool) -> Result<(), DeviceError> {
        let idle = |region: &u64| {
            !checksums.touched.borrow().contains(region)
                && !checksums.writing.touch(&checksums.layout.region_blocks(*region))
        };
        let _turn = checksums.turn.acquire(0).await;
        if checksums.retired.get() {
            return Ok(());
        }
        regions.retain(idle);
        {
            let _one = checksums.transfer.acquire(0).await;
            for region in &regions {
                for page in checksums.layout.pages_of(&checksums.layout.region_blocks(*region)) {
                    self.store_page(checksums, page).await?;
                }
            }
            // What was learnt by reading lies in regions without a mark.
            let learnt: Vec<u64> = checksums.pages.borrow().keys().copied().filter(|_| all).collect();
            for page in learnt {
                self.store_page(checksums, page).await?;
            }
        }
        regions.retain(idle);
        if regions.is_empty() && !checksums.untold.get() {
            return Ok(());
        }
        // From here on a write finds the region unmarked, and waits its turn to mark it again.
        for region in regions {
            checksums.header.borrow_mut().mark(region, false);
            checksums.durable.borrow_mut().mark(region, false);
        }
        self.write_header(checksums).await
    }
}
