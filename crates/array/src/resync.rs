//! Resync and stop: redundancy is made to fit after a power cut, and said to fit at the end of service.
//!
//! A sector of data that cannot be read is left alone where parity may not fit. md computes it from that parity, which
//! invents what was being written there. So the array stays dirty until somebody has written it, or read it, and with
//! that believed what parity says. All else is made to fit once: it is known what was left, and the next resync looks
//! only there. After another start it begins at the first of these places, if nothing was written.

use std::ops::Range;

use device::{Device, DeviceError};
use units::Bytes;

use crate::array::Array;
use crate::geometry::Level;
use crate::md::Resync;
use crate::upkeep::Repair;

impl<D: Device> Array<D> {
    /// Makes redundancy fit again after a power cut: what parity or other copies say is replaced by what the data, or
    /// the first copy, say. Says whether it does: with parity not while members are missing, not where sectors cannot
    /// be read, and not if whoever [watches](Array::watch) ended it. Until then whoever reads what copies may hold
    /// differently makes them equal (`unsynced.rs`).
    pub async fn resync(&self) -> Result<bool, DeviceError> {
        let Some(state) = &self.state else { return Ok(true) };
        if state.resync_due.get() && self.can_be_scrubbed() {
            self.claim().await?;
            let marked = |range: Range<Bytes>| {
                self.intent.as_ref().is_none_or(|intent| intent.is_marked(&self.in_bitmap(range)))
            };
            let before = state.resync_left.take();
            let all = || vec![self.array_address(state.resync_from.get())..self.geometry.size()];
            let due = before.clone().unwrap_or_else(all);
            let (mut unread, mut upto, mut whole) = (Vec::new(), Bytes::ZERO, true);
            for range in due {
                let found = self.scrub_where(range.clone(), Repair::BelieveData, marked).await?;
                unread.extend(found.unread);
                upto = found.upto;
                whole = upto == range.end;
                if !whole {
                    break;
                }
            }
            if whole && unread.is_empty() {
                self.flush_members(0).await?;
                self.trust_logs(true).await?;
                state.resync_due.set(false);
            } else {
                self.record_resync(unread.first().map_or(upto, |first| first.start)).await?;
                state.resync_left.replace(if whole { Some(unread) } else { before });
            }
        }
        Ok(!state.resync_due.get())
    }

    /// What lies before the mark of an earlier resync is in sync.
    pub(crate) fn recall_resync(&self) {
        let from = self.state.as_ref().map_or(Bytes::ZERO, |state| state.resync_from.get());
        self.synced.add(Bytes::ZERO..self.array_address(from));
    }

    /// What of the array the last [resync](Array::resync) that came to its end could not read, and did not make fit.
    pub fn resync_left(&self) -> Vec<Range<Bytes>> {
        self.state.as_ref().and_then(|state| state.resync_left.borrow().clone()).unwrap_or_default()
    }

    /// Where a resync that has come so far on the members is in the array. Where members and array do not go on
    /// together, at the start.
    pub(crate) fn array_address(&self, offset: Bytes) -> Bytes {
        match self.geometry.level().parities() {
            // md's marks lie anywhere, also within a block.
            0 if self.geometry.level() == Level::Raid1 => offset.min(self.geometry.size()).round_down(self.step()),
            0 => Bytes::ZERO,
            _ => self.geometry.stripe_size() * (offset / self.geometry.chunk()).min(self.geometry.rows()),
        }
    }

    /// Records that redundancy fits before an address of the array, if nothing was written since the array was opened.
    async fn record_resync(&self, upto: Bytes) -> Result<(), DeviceError> {
        let state = self.state.as_ref().expect("a resync is of an array with state");
        let offset = match self.geometry.level().parities() {
            0 if self.geometry.level() == Level::Raid1 => upto,
            0 => return Ok(()),
            _ => self.geometry.chunk() * (upto / self.geometry.stripe_size()),
        };
        if state.resync_from.get() == offset {
            return Ok(());
        }
        self.flush_members(0).await?;
        let _one = state.recording.acquire(0).await;
        if state.written.get() {
            return Ok(());
        }
        // Set first: a write that comes now waits for this record, and takes it back.
        state.resync_from.set(offset);
        self.record(|superblock| superblock.resync = Resync::From(offset)).await
    }

    /// Ends service: everything is made durable, then the members say that redundancy fits, unless a
    /// [`resync`](Array::resync) is due. Requests under way must have been answered.
    pub async fn stop(&self) -> Result<(), DeviceError> {
        self.unrivalled()?;
        self.flush_members(0).await?;
        self.settle().await?;
        self.close_journal().await?;
        self.mark_clean().await?;
        // Twice, as the first time spares what was written since the last.
        self.clear_bits().await?;
        self.clear_bits().await?;
        self.close_regions(true).await
    }
}
