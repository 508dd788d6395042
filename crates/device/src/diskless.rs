//! The store of a disk that has none: the "diskless array" of the M.A.X. study.
//!
//! To load the channels of a machine with more arrays than it had disks, that study let the firmware of arrays answer
//! without disks: with the timing of one, zeroes for what is read, nothing kept of what is written. The first 512-byte
//! block was kept after all, as an operating system writes its label there and does not use a disk that loses it.

use std::cell::Cell;

use runtime::Runtime;
use units::Bytes;

use crate::{Device, Operation, Payload, Reply, Request, Shape, Stamps};

const BLOCK: usize = Bytes::SECTOR.as_usize();

/// Zeroes, but for the first 512 bytes. Replies at once; timing is that of another device ([`crate::filter::Backed`]).
pub struct Diskless {
    runtime: Runtime,
    shape: Shape,
    first: Cell<[u8; BLOCK]>,
}

impl Diskless {
    /// A device of the given shape, all zeroes.
    pub fn new(runtime: &Runtime, shape: Shape) -> Diskless {
        Diskless { runtime: runtime.clone(), shape, first: Cell::new([0; BLOCK]) }
    }

    fn carry_out(&self, request: &mut Request) {
        let (first, operation) = (request.offset.is_zero(), request.operation);
        let mut block = self.first.get();
        let kept = BLOCK.min(request.length.as_usize());
        match (&mut request.payload, operation) {
            (Payload::Into(buffer), _) => {
                let Some(into) = buffer.bytes_mut() else { return };
                into.fill(0);
                if first {
                    into[..kept].copy_from_slice(&block[..kept]);
                }
            }
            (Payload::From(data), _) => {
                if let (Some(from), true) = (data.bytes(), first) {
                    block[..kept].copy_from_slice(&from[..kept]);
                }
            }
            (Payload::None, Operation::Discard | Operation::WriteZeroes) if first => block[..kept].fill(0),
            (Payload::None, _) => {}
        }
        self.first.set(block);
    }
}

impl Device for Diskless {
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
}
