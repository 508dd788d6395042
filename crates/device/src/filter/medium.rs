//! A medium with damage: sectors that cannot be read, and sectors whose bytes have changed.
//!
//! Damage sits on sectors and stays until they are written again, as on a disk: a write makes the drive remap an
//! unreadable sector and stores fresh bytes over rotten ones. Latent sector errors and bit rot differ in one thing
//! only: who notices.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use runtime::Runtime;
use units::Bytes;

use crate::{Device, DeviceError, Operation, Reply, Request, Shape};

/// What is wrong with a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// A latent sector error: a read that touches it fails.
    Unreadable,
    /// Bit rot: a read succeeds, with this bit (0 to 4095) of the sector turned over.
    Flipped(u16),
}

/// A device with damaged sectors of 512 bytes.
pub struct Medium<D> {
    inner: D,
    runtime: Runtime,
    damaged: RefCell<BTreeMap<u64, Damage>>,
}

impl<D: Device> Medium<D> {
    /// A sound medium.
    pub fn new(runtime: &Runtime, inner: D) -> Medium<D> {
        Medium { inner, runtime: runtime.clone(), damaged: RefCell::default() }
    }

    /// The device behind.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Damages the sectors that `range` touches. Panics if the bit is not one of a sector's.
    pub fn damage(&self, range: Range<Bytes>, damage: Damage) {
        if let Damage::Flipped(bit) = damage {
            assert!(bit < 4096, "bit {bit} of a sector of 4096 bits");
        }
        self.damaged.borrow_mut().extend(sectors(range).map(|sector| (sector, damage)));
    }

    /// The damaged sectors by number, in order.
    pub fn damaged(&self) -> Vec<(u64, Damage)> {
        self.damaged.borrow().iter().map(|(sector, damage)| (*sector, *damage)).collect()
    }
}

fn sectors(range: Range<Bytes>) -> Range<u64> {
    range.start / Bytes::SECTOR..range.end.round_up(Bytes::SECTOR) / Bytes::SECTOR
}

impl<D: Device> Device for Medium<D> {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    async fn submit(&self, request: Request) -> Reply {
        if let Err(error) = self.shape().check(&request) {
            return request.refuse(error, self.runtime.now());
        }
        let (operation, offset, length) = (request.operation, request.offset, request.length);
        let touched = sectors(offset..offset + length);
        let mut reply = self.inner.submit(request).await;
        if reply.result.is_err() {
            return reply;
        }
        match operation {
            Operation::Write | Operation::WriteZeroes | Operation::Discard => {
                self.damaged.borrow_mut().retain(|sector, _| !touched.contains(sector));
            }
            Operation::Flush => {}
            Operation::Read => {
                for (&sector, &damage) in self.damaged.borrow().range(touched) {
                    let at = Bytes::SECTOR * sector;
                    match damage {
                        Damage::Unreadable => {
                            reply.result = Err(DeviceError::Medium { offset: at, length: Bytes::SECTOR });
                            break;
                        }
                        Damage::Flipped(bit) => {
                            if let Some(bytes) = reply.buffer.as_mut().and_then(|buffer| buffer.bytes_mut()) {
                                bytes[(at - offset).as_usize() + usize::from(bit / 8)] ^= 1 << (bit % 8);
                            }
                        }
                    }
                }
            }
        }
        reply
    }
}
