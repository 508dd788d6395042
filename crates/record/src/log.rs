//! The log: where the load generator of one thread puts its rows.
//!
//! Recording must not be seen in what is recorded. So a push is a comparison and 56 bytes stored behind the previous
//! row, which the processor's prefetcher follows; no lock, no system call, no page fault. Memory comes in chunks of
//! [`CHUNK_ROWS`] rows whose pages were touched before the log sees them. Once per chunk, about every 65 thousand
//! requests, the log exchanges its full chunk for a fresh one under a lock that is held for a few stores.
//!
//! Rejected: one `Vec` that grows (a reallocation copies hundreds of megabytes in the middle of a run, the spikes that
//! fio users report); a memory-mapped file (page faults and writeback inside the run); one log for all threads
//! (contended lines).

use std::sync::Arc;

use crate::Row;
use crate::keeper::{Chunk, Pool};

/// Rows in a chunk, if there are not too many logs for the memory: 3.5 MiB, 13 ms of the fastest null device and a
/// minute of a disk.
pub const CHUNK_ROWS: usize = 65_536;

/// How many rows a log loses before it asks for memory again; asking takes a lock.
const RETRY: u64 = 1024;

/// The rows of one thread. Dropping it hands over what it holds.
#[derive(Debug)]
pub struct Log {
    /// Being filled; its capacity is never exceeded. Without capacity while rows are being lost.
    open: Chunk,
    /// Which of the recorder's logs this is.
    number: u16,
    /// Rows for which there was no place.
    lost: u64,
    pool: Arc<Pool>,
}

impl Log {
    pub(crate) fn new(number: u16, open: Chunk, pool: Arc<Pool>) -> Log {
        Log { open, number, lost: 0, pool }
    }

    /// Keeps a row. Rows are expected in order of completion.
    ///
    /// When the recorder has no memory left, the row is lost and counted ([`Log::lost`]), or, if the recorder was told
    /// to ([`crate::WhenBehind::Wait`]), the call waits for the disk.
    #[inline]
    pub fn push(&mut self, row: Row) {
        if self.open.len() < self.open.capacity() {
            self.open.push(row);
        } else {
            self.exchange_and_push(row);
        }
    }

    #[cold]
    #[inline(never)]
    fn exchange_and_push(&mut self, row: Row) {
        let losing = self.open.capacity() == 0;
        if !losing || self.lost.is_multiple_of(RETRY) {
            self.open = self.pool.exchange(self.number, std::mem::take(&mut self.open));
        }
        if self.open.capacity() == 0 {
            self.lost += 1;
        } else {
            self.open.push(row);
        }
    }

    /// Hands over the rows that are not yet handed over, if the recorder spills as it goes: to be called about once a
    /// second and at the end of a pass, so that a kill takes little away. Costs a lock when there are rows, otherwise
    /// nothing.
    pub fn hand_over(&mut self) {
        if self.pool.spills_as_it_goes() && !self.open.is_empty() {
            self.open = self.pool.exchange(self.number, std::mem::take(&mut self.open));
        }
    }

    /// How many rows were lost so far for want of memory.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.pool.retire(self.number, std::mem::take(&mut self.open), self.lost);
    }
}
