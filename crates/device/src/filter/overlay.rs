//! A device that is never written: what is written to it stays in memory, and is read from there.
//!
//! Who opens an array replays its logs and records that it is in use. In front of members that may not be written, or
//! must not be, this filter takes all of that: those behind see reads only. What was written is gone with the filter.
//! Memory is kept by blocks of the device; one of zeroes takes none, as logs and areas are often cleared as a whole.
//! More than a bound is not kept: then writes fail as on a full device, and nothing is lost that was kept.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use runtime::Runtime;
use units::Bytes;

use crate::{Buffer, Device, DeviceError, Extent, Operation, Payload, Reply, Request, Shape, Stamps};

/// A device in front of one that is only read.
pub struct Overlay<D> {
    inner: D,
    runtime: Runtime,
    /// What was written, by number of the block; `None` is zeroes.
    blocks: RefCell<BTreeMap<u64, Option<Box<[u8]>>>>,
    kept: Cell<Bytes>,
    most: Bytes,
}

impl<D: Device> Overlay<D> {
    /// Keeps at most so much of what is written.
    pub fn new(runtime: &Runtime, inner: D, most: Bytes) -> Overlay<D> {
        Overlay { inner, runtime: runtime.clone(), blocks: RefCell::default(), kept: Cell::new(Bytes::ZERO), most }
    }

    /// How much memory it keeps for what was written.
    pub fn kept(&self) -> Bytes {
        self.kept.get()
    }

    fn range(&self, offset: Bytes, length: Bytes) -> std::ops::Range<u64> {
        let block = self.shape().logical_block;
        offset / block..(offset + length) / block
    }

    /// Keeps blocks of a range; those of zeroes where there are no bytes.
    fn keep(&self, offset: Bytes, length: Bytes, bytes: Option<&[u8]>) -> Result<(), DeviceError> {
        let block = self.shape().logical_block;
        let mut blocks = self.blocks.borrow_mut();
        for (index, number) in self.range(offset, length).enumerate() {
            let from = index * block.as_usize();
            let new = bytes.map(|bytes| &bytes[from..from + block.as_usize()]);
            let new = new.filter(|new| new.iter().any(|byte| *byte != 0));
            let had = if blocks.get(&number).is_some_and(Option::is_some) { block } else { Bytes::ZERO };
            let has = if new.is_some() { block } else { Bytes::ZERO };
            let kept = self.kept.get() + has - had.min(self.kept.get() + has);
            if has > had && kept > self.most {
                return Err(DeviceError::NoSpace);
            }
            self.kept.set(kept);
            blocks.insert(number, new.map(Box::from));
        }
        Ok(())
    }

    /// Puts what was written over what was read.
    fn lay_over(&self, offset: Bytes, buffer: &mut Buffer) {
        let (block, range) = (self.shape().logical_block, self.range(offset, buffer.len()));
        let Some(into) = buffer.bytes_mut() else { return };
        for (number, kept) in self.blocks.borrow().range(range.clone()) {
            let from = (block * (number - range.start)).as_usize();
            let into = &mut into[from..from + block.as_usize()];
            match kept {
                Some(bytes) => into.copy_from_slice(bytes),
                None => into.fill(0),
            }
        }
    }

    /// Whether all of a range was written.
    fn covers(&self, offset: Bytes, length: Bytes) -> bool {
        let range = self.range(offset, length);
        self.blocks.borrow().range(range.clone()).count() as u64 == range.end - range.start
    }
}

impl<D: Device> Device for Overlay<D> {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    async fn submit(&self, request: Request) -> Reply {
        let submitted = self.runtime.now();
        if let Err(error) = self.shape().check(&request) {
            return request.refuse(error, submitted);
        }
        let (offset, length) = (request.offset, request.length);
        let stamps = || Stamps { submitted, completed: self.runtime.now() };
        let result = match (&request.payload, request.operation) {
            (_, Operation::Read) if !self.covers(offset, length) => {
                let mut reply = self.inner.submit(request).await;
                if let Some(buffer) = reply.buffer.as_mut().filter(|_| reply.result.is_ok()) {
                    self.lay_over(offset, buffer);
                }
                return Reply { stamps: stamps(), ..reply };
            }
            (_, Operation::Read) => {
                self.runtime.yield_now().await;
                let mut request = request;
                if let Payload::Into(buffer) = &mut request.payload {
                    self.lay_over(offset, buffer);
                }
                return request.answer(Ok(()), stamps());
            }
            (Payload::From(data), _) => match data.bytes() {
                Some(bytes) => self.keep(offset, length, Some(bytes)),
                None => Ok(()),
            },
            (_, Operation::WriteZeroes) => self.keep(offset, length, None),
            // What is forgotten may read as anything, and nothing has to be durable.
            _ => Ok(()),
        };
        self.runtime.yield_now().await;
        request.answer(result, stamps())
    }

    fn extent(&self, offset: Bytes, length: Bytes) -> Extent {
        let block = self.shape().logical_block;
        let range = offset / block..(offset + length).get().div_ceil(block.get());
        match self.blocks.borrow().range(range).next() {
            None => self.inner.extent(offset, length),
            Some(_) => Extent::data(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Data, MemoryDevice};

    fn block(value: u8) -> Data {
        let mut buffer = Buffer::zeroed(Bytes::SECTOR);
        buffer.bytes_mut().unwrap().fill(value);
        buffer.freeze()
    }

    fn read(runtime: &Runtime, device: &impl Device, sector: u64, sectors: u64) -> Vec<u8> {
        let request = Request::read(Bytes::SECTOR * sector, Buffer::zeroed(Bytes::SECTOR * sectors));
        let reply = runtime.block_on(device.submit(request));
        reply.result.unwrap();
        reply.buffer.unwrap().bytes().unwrap().chunks(512).map(|block| block[0]).collect()
    }

    #[test]
    fn what_is_written_is_read_again_and_the_device_behind_is_as_it_was() {
        let runtime = Runtime::simulated();
        let memory = MemoryDevice::new(&runtime, Shape::new("m", Bytes::mib(1)));
        for sector in 0..8 {
            let write = Request::write(Bytes::SECTOR * sector, block(sector as u8 + 1));
            runtime.block_on(memory.submit(write)).result.unwrap();
        }
        let over = Overlay::new(&runtime, &memory, Bytes::SECTOR * 3);
        let write =
            |sector: u64, data: Data| runtime.block_on(over.submit(Request::write(Bytes::SECTOR * sector, data)));
        write(2, block(77)).result.unwrap();
        write(5, block(88)).result.unwrap();
        runtime.block_on(over.submit(Request::write_zeroes(Bytes::SECTOR * 3, Bytes::SECTOR))).result.unwrap();
        assert_eq!(read(&runtime, &over, 0, 8), [1, 2, 77, 0, 5, 88, 7, 8]);
        assert_eq!(read(&runtime, &over, 2, 2), [77, 0]);
        assert_eq!(read(&runtime, &memory, 0, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
        // Zeroes take no room, and what is overwritten none again.
        write(5, block(89)).result.unwrap();
        write(6, block(0)).result.unwrap();
        write(7, block(9)).result.unwrap();
        assert_eq!(over.kept(), Bytes::SECTOR * 3);
        assert_eq!(write(0, block(9)).result, Err(DeviceError::NoSpace));
        write(7, block(0)).result.unwrap();
        write(0, block(9)).result.unwrap();
        assert_eq!(read(&runtime, &over, 0, 8), [9, 2, 77, 0, 5, 89, 0, 0]);
        runtime.block_on(over.submit(Request::flush())).result.unwrap();
    }
}
