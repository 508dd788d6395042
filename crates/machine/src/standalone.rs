//! A modelled drive as a device of its own, on no bus but its own.
//!
//! Whatever drives a real disk drives it: it takes the same requests and replies when the model says. It stores
//! nothing: requests carry phantom payloads, and one with memory is refused ([`DeviceError::Unsupported`]).
//!
//! A disk chooses among the requests that wait, so its [`Controller`] is turned at the instants that it names, by a
//! task that lives as long as requests wait. A flash drive says at once when a request will be complete.

use std::cell::RefCell;
use std::rc::Rc;

use device::{Device, DeviceError, Operation, Payload, Reply, Request, Shape, Stamps};
use runtime::{Random, Runtime};
use units::{Bytes, Instant};

use crate::disk::controller::Controller;
use crate::disk::drive;
use crate::disk::mechanism::Access;
use crate::disk::parameters::Parameters;
use crate::disk::queued::Queued;
use crate::flash::{Flash, FlashParameters};
use crate::library::{LibraryError, Shelf};
use crate::part::{Part, PartError, Problem};

/// A modelled drive.
pub struct Standalone {
    runtime: Runtime,
    shape: Shape,
    model: Model,
}

enum Model {
    Disk(Rc<Queued>),
    Flash(Box<RefCell<Flash>>),
}

impl Standalone {
    /// The drive of a part of kind `disk` or `flash`. A disk's speed is drawn within its error by `seed`.
    pub fn new(runtime: &Runtime, part: &Part, seed: u64) -> Result<Standalone, PartError> {
        let (model, size) = match part.kind.as_str() {
            "disk" => {
                let parameters = Parameters::read(part)?;
                let size = Bytes::SECTOR * parameters.mechanism.geometry.blocks();
                let mut random = Random::named(seed, "spindle");
                let disk = Queued::new(Controller::drawn(parameters, &mut random));
                (Model::Disk(Rc::new(disk)), size)
            }
            "flash" => {
                let parameters = FlashParameters::read(part)?;
                let size = parameters.capacity;
                (Model::Flash(Box::new(RefCell::new(Flash::new(parameters)))), size)
            }
            kind => {
                let problem = Problem::OtherKind { kind: kind.to_owned(), wanted: "disk' or 'flash".to_owned() };
                return Err(PartError {
                    place: part.values.place.clone(),
                    path: "kind".to_owned(),
                    problem: Box::new(problem),
                });
            }
        };
        Ok(Standalone { runtime: runtime.clone(), shape: Shape::new(part.name.clone(), size), model })
    }

    /// The drive that a name means: a part that comes with the program, or the file of that path.
    pub fn open(runtime: &Runtime, name: &str, seed: u64) -> Result<Standalone, LibraryError> {
        Ok(Standalone::new(runtime, &Shelf::Parts.find(name)?, seed)?)
    }

    /// When a request is complete, waiting for its turn if there is one.
    async fn completion(&self, access: Access, offset: Bytes, length: Bytes, through: bool) -> Instant {
        let now = self.runtime.now();
        match &self.model {
            Model::Flash(flash) => flash.borrow_mut().serve(now, access, offset, length),
            Model::Disk(disk) => {
                let (block, blocks) = (offset / Bytes::SECTOR, length / Bytes::SECTOR);
                let request = drive::Request { through, ..drive::Request::new(access, block, blocks) };
                disk.serve(&self.runtime, request).await.completes
            }
        }
    }

    fn flush(&self) -> Instant {
        let now = self.runtime.now();
        match &self.model {
            Model::Flash(flash) => flash.borrow().flush(now),
            Model::Disk(disk) => disk.flush(now),
        }
    }
}

impl Device for Standalone {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, request: Request) -> Reply {
        let submitted = self.runtime.now();
        if let Err(error) = self.shape.check(&request) {
            return request.refuse(error, submitted);
        }
        let access = match (request.operation, &request.payload) {
            (Operation::Read, Payload::Into(buffer)) if buffer.bytes().is_none() => Access::Read,
            (Operation::Write, Payload::From(data)) if data.bytes().is_none() => Access::Write,
            (Operation::Flush, _) => {
                self.runtime.sleep_until(self.flush()).await;
                let completed = self.runtime.now();
                return request.answer(Ok(()), Stamps { submitted, completed });
            }
            _ => return request.refuse(DeviceError::Unsupported, submitted),
        };
        if request.length.is_zero() {
            return request.answer(Ok(()), Stamps { submitted, completed: submitted });
        }
        let completed = self.completion(access, request.offset, request.length, request.fua).await;
        self.runtime.sleep_until(completed).await;
        request.answer(Ok(()), Stamps { submitted, completed: self.runtime.now() })
    }
}
