//! What an array does beside the requests that it serves: it fills the drive that replaces a failed one, or compares
//! all data with their redundancy. An operating system's array does so, and a controller's.
//!
//! ```toml
//! [array]
//! failed = 1                    # so many of its drives have failed: the last ones
//! rebuild-rate = "100 MB/s"     # the first of them is replaced, and the new one is filled at this rate at most
//! # or, of an array without failed drives:
//! # scrub-rate = "100 MB/s"     # so much of the array is compared in a second at most
//! ```
//!
//! Failed drives are gone from the start, and the array computes what they held from the others. Rates are bounds, as
//! Linux md's `sync_speed_max` is one; what the drives give beside their load may be less. 0 B/s means that nothing is
//! done. The code is the one that fills and scrubs real drives.
//!
//! # Not modelled
//! A drive that fails while the machine runs. Sectors that cannot be read: a scrub finds all in order.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use array::geometry::Level;
use array::md::Uuid;
use array::{Array, Repair};
use device::{Device, MemoryDevice, Operation, Payload, Reply, Request, Shape, Stamps};
use runtime::Runtime;
use units::{Bytes, Rate};

use crate::load::{Gauges, Reading};
use crate::part::{PartError, Problem, Reader};

/// The gauge that says how much of a new drive is filled.
pub const REBUILT: &str = "rebuilt KiB";
/// The gauge that says how much of an array is compared with its redundancy.
pub const SCRUBBED: &str = "scrubbed KiB";

/// The failed drives of an array, and its rebuild or scrub.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Upkeep {
    /// How many of its drives have failed: the last ones.
    failed: u32,
    work: Option<Work>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Work {
    /// The first failed drive is replaced, and filled at this rate at most, of the drive.
    Rebuild(Rate),
    /// The array is compared at this rate at most, of its data.
    Scrub(Rate),
}

/// How far an array's upkeep is.
#[derive(Clone, Default)]
pub(crate) struct Done(Rc<Cell<Bytes>>);

impl Upkeep {
    /// Reads it out of `[array]`.
    pub(crate) fn read(array: &Reader) -> Result<Upkeep, PartError> {
        let failed = array.find("failed")?.unwrap_or(0);
        let rate = |key| Ok(array.find(key)?.filter(|rate: &Rate| !rate.is_zero()));
        let contradiction = |key, message: &str| Err(array.fault(key, Problem::Contradiction(message.to_owned())));
        let work = match (rate("rebuild-rate")?, rate("scrub-rate")?) {
            (Some(_), _) if failed == 0 => {
                return contradiction(
                    "rebuild-rate",
                    "a drive that is filled takes the place of one that has failed: give failed = 1, too",
                );
            }
            (_, Some(_)) if failed > 0 => {
                return contradiction(
                    "scrub-rate",
                    "an array that lacks a drive cannot be compared with its redundancy: leave out failed, or scrub-rate",
                );
            }
            (rebuild, scrub) => rebuild.map(Work::Rebuild).or(scrub.map(Work::Scrub)),
        };
        Ok(Upkeep { failed, work })
    }

    /// Says why an array of so many drives cannot lose them, or be scrubbed.
    pub(crate) fn check(&self, level: Level, drives: usize) -> Result<(), String> {
        let (failed, survived, name) = (self.failed as usize, level.losses_survived(drives), level.name());
        if failed > survived {
            return Err(format!(
                "{name} of {drives} drives survives the loss of {survived}, and {failed} have failed; give fewer as failed"
            ));
        }
        if survived == 0 && matches!(self.work, Some(Work::Scrub(_))) {
            return Err(format!("{name} has no redundancy to compare its data with; leave out scrub-rate"));
        }
        Ok(())
    }

    /// The place whose drive is replaced, if one is.
    pub(crate) fn replaced(&self, drives: usize) -> Option<usize> {
        matches!(self.work, Some(Work::Rebuild(_))).then(|| drives - self.failed as usize)
    }

    /// Takes away from an array of so many drives those that have failed.
    pub(crate) fn fail<D: Device>(&self, array: &Array<D>, drives: usize) {
        (drives - self.failed as usize..drives).for_each(|gone| array.fail(gone));
    }

    /// Rebuilds or scrubs to the end. `new` is the drive that replaces a failed one: its place, the drive, and the
    /// beginning of its data.
    pub(crate) async fn carry_out<D: Device>(&self, array: &Array<D>, new: Option<(usize, D, Bytes)>, done: &Done) {
        let (Some(Work::Rebuild(rate) | Work::Scrub(rate)), told) = (self.work, Rc::clone(&done.0)) else { return };
        array.limit(Some(rate));
        array.watch(move |progress| {
            told.set(progress.done);
            true
        });
        let ended = match new {
            Some((place, drive, offset)) => {
                // The first members have the numbers from one on.
                let identity = Uuid((u128::MAX - place as u128).to_be_bytes());
                array.rebuild(place, drive, offset, identity).await.map(|lost| lost.is_empty())
            }
            None => {
                let repair = Repair::usual(false, array.geometry().level());
                array.scrub(repair).await.map(|found| found.mismatches == 0 && found.unreadable == 0)
            }
        };
        assert!(ended.is_ok_and(|whole| whole), "modelled drives do what they are asked");
    }

    /// Puts how far it is, if anything is to be done.
    pub(crate) fn gauge(&self, done: &Done, gauges: &mut Gauges) {
        let what = match self.work {
            None => return,
            Some(Work::Rebuild(_)) => REBUILT,
            Some(Work::Scrub(_)) => SCRUBBED,
        };
        gauges.put(what, Reading::Count(done.0.get().get() >> 10));
    }
}

/// What a drive of a modelled array holds: what the array keeps there for itself. Its data, which nobody reads, are
/// zeroes, however many terabytes a rebuild moves.
pub(crate) struct Store {
    kept: MemoryDevice,
    data: Range<Bytes>,
    runtime: Runtime,
}

impl Store {
    /// Of a drive whose data are there.
    pub fn new(runtime: &Runtime, shape: Shape, data: Range<Bytes>) -> Store {
        Store { kept: MemoryDevice::new(runtime, shape), data, runtime: runtime.clone() }
    }

    /// What the array keeps for itself.
    pub fn kept(&self) -> &MemoryDevice {
        &self.kept
    }
}

impl Device for Store {
    fn shape(&self) -> &Shape {
        self.kept.shape()
    }
    async fn submit(&self, mut request: Request) -> Reply {
        let is_data = self.data.start <= request.offset && request.offset + request.length <= self.data.end;
        if !is_data || request.operation == Operation::Flush {
            return self.kept.submit(request).await;
        }
        if let (Operation::Read, Payload::Into(buffer)) = (request.operation, &mut request.payload)
            && let Some(bytes) = buffer.bytes_mut()
        {
            bytes.fill(0);
        }
        let now = self.runtime.now();
        request.answer(Ok(()), Stamps { submitted: now, completed: now })
    }
}
