//! What the computing of parity costs where time is modelled.
//!
//! On a real machine it takes the time that it takes. In virtual time nothing takes time by itself, and a modelled host
//! of 1990 needs as long for the parity of a small write as its disk needs for a part of a turn. So whoever models the
//! host is told of each computation, after its sources have been read and before its result is written, and lets pass
//! what it costs: processor, memory bus, whatever else.
//!
//! Rejected: to charge the host from outside by the number of member requests, which cannot tell the ways to new parity
//! apart.

use std::pin::Pin;
use std::rc::Rc;

use device::Device;
use units::Bytes;

use crate::array::Array;

/// One computation: `targets` blocks, each from all of `sources` blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParityWork {
    /// The request that it is for, 0 if it is a rebuild.
    pub id: u64,
    /// How many blocks are combined. A read-modify-write of one chunk has two, its old and its new data, which are
    /// added to the old parity.
    pub sources: usize,
    /// How many blocks result: the parities, or what was lost.
    pub targets: usize,
    /// The length of each.
    pub length: Bytes,
}

/// Ends when the host would have computed.
pub(crate) type Toll = Rc<dyn Fn(ParityWork) -> Pin<Box<dyn Future<Output = ()>>>>;

impl<D: Device> Array<D> {
    /// Has every computation of parity that a read, a write, a rebuild or a scrub needs take as long as `toll` does;
    /// those of resyncs and of what logs hold are free.
    pub fn charge_parity(&self, toll: impl Fn(ParityWork) -> Pin<Box<dyn Future<Output = ()>>> + 'static) {
        *self.toll.borrow_mut() = Some(Rc::new(toll));
    }

    /// Whether computing takes modelled time.
    pub(crate) fn is_charged(&self) -> bool {
        self.toll.borrow().is_some()
    }

    pub(crate) async fn pay(&self, sources: usize, targets: usize, length: Bytes, id: u64) {
        let toll = self.toll.borrow().clone();
        if let Some(toll) = toll.filter(|_| sources > 0 && targets > 0) {
            toll(ParityWork { id, sources, targets, length }).await;
        }
    }
}
