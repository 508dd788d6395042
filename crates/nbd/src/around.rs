//! Requests that do not start and end on the device's blocks, carried out by whole blocks around them.
//!
//! A read is widened to whole blocks and cut. A write reads the blocks at its edges and writes whole ones, in one
//! piece, as durably as was asked. A trim, which is a wish, keeps to the whole blocks inside.
//!
//! What another request writes to a block at the edge in between, and has acknowledged, would be lost. So such a write
//! is alone on its export, whichever connection it came by: it closes the export's [`Gate`](runtime::Gate), which all
//! others pass. Reads and flushes do not: who reads beside a write finds what was there before it or after it, as ever.
//! Exports of one device need no gate in common: they begin and end on its blocks, and no two share one unless neither
//! can be written (`portion` refuses both).
//!
//! Clients do this: `e2fsck` writes single bytes of a superblock, and a client that does not ask for block sizes counts
//! on 512.

use device::{AnyDevice, Buffer, Data, Device, DeviceError, Pool, Request};
use units::Bytes;

use crate::carry::zero;

/// A device of blocks, and memory for them.
pub struct Around<'d> {
    /// Where things are done.
    pub device: &'d AnyDevice,
    /// Its logical block.
    pub block: Bytes,
    /// Of the connection.
    pub pool: &'d Pool,
}

impl Around<'_> {
    /// Reads any range.
    pub async fn read(&self, offset: Bytes, length: Bytes) -> Result<Buffer, DeviceError> {
        if length.is_zero() {
            return Ok(Buffer::zeroed(Bytes::ZERO));
        }
        let (start, end) = self.outside(offset, length);
        let wide = self.fetch(start, end - start).await?;
        // Not a part of the wider buffer: the pool's memory begins on a page, as direct I/O wants it.
        let mut wanted = self.pool.take(length);
        let skip = (offset - start).as_usize();
        bytes(&mut wanted).copy_from_slice(&wide.bytes().expect(REAL)[skip..skip + length.as_usize()]);
        self.pool.give(wide);
        Ok(wanted)
    }

    /// Writes any range. The caller is alone.
    pub async fn write(&self, offset: Bytes, data: &Data, fua: bool) -> Result<(), DeviceError> {
        if data.is_empty() {
            return Ok(());
        }
        let length = data.len();
        let (start, end) = self.outside(offset, length);
        let mut whole = self.pool.take(end - start);
        let first = (start < offset).then_some(start);
        let last = (offset + length < end).then_some(end - self.block).filter(|last| first != Some(*last));
        for edge in first.into_iter().chain(last) {
            let block = self.fetch(edge, self.block).await?;
            let at = (edge - start).as_usize();
            bytes(&mut whole)[at..at + self.block.as_usize()].copy_from_slice(block.bytes().expect(REAL));
            self.pool.give(block);
        }
        let at = (offset - start).as_usize();
        bytes(&mut whole)[at..at + length.as_usize()].copy_from_slice(data.bytes().expect(REAL));
        let whole = whole.freeze();
        let result = self.device.submit(Request { fua, ..Request::write(start, whole.clone()) }).await.result;
        self.pool.take_back(whole);
        result
    }

    /// Zeroes any range. The caller is alone.
    pub async fn write_zeroes(&self, offset: Bytes, length: Bytes, punch: bool) -> Result<(), DeviceError> {
        let end = offset + length;
        let Some((from, to)) = self.inside(offset, length) else {
            return self.write(offset, &Buffer::zeroed(length).freeze(), false).await;
        };
        let edges = Buffer::zeroed(self.block).freeze();
        self.write(offset, &edges.slice(Bytes::ZERO, from - offset), false).await?;
        zero(self.device, from, to - from, punch).await?;
        self.write(to, &edges.slice(Bytes::ZERO, end - to), false).await
    }

    /// The whole blocks that a range touches, which is not empty.
    fn outside(&self, offset: Bytes, length: Bytes) -> (Bytes, Bytes) {
        (offset.round_down(self.block), (offset + length).round_up(self.block))
    }

    /// The whole blocks that lie in a range, if there are any.
    pub fn inside(&self, offset: Bytes, length: Bytes) -> Option<(Bytes, Bytes)> {
        let (from, to) = (offset.round_up(self.block), (offset + length).round_down(self.block));
        (from < to).then_some((from, to))
    }

    async fn fetch(&self, offset: Bytes, length: Bytes) -> Result<Buffer, DeviceError> {
        let reply = self.device.submit(Request::read(offset, self.pool.take(length))).await;
        reply.result.map(|()| reply.buffer.expect("a read's buffer comes back"))
    }
}

const REAL: &str = "the memory of a connection is no phantom";

fn bytes(buffer: &mut Buffer) -> &mut [u8] {
    buffer.bytes_mut().expect(REAL)
}
