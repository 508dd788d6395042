//! An array inside a controller: its drives, the processor or engine that computes its parity, and the accounts of the
//! commands that go through it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use array::Array;
use array::geometry::{Geometry, Level};
use device::filter::Backed;
use device::{Buffer, Data, Device, Request, Shape};
use record::PartName;
use runtime::{Resource, Runtime};
use units::{Bytes, Rate};

use super::member::{Calls, Host, Member};
use super::upkeep::Store;
use crate::endpoint::Endpoint;
use crate::lines::Lines;
use crate::scsi::target::{BLOCK, Command};
use crate::trace::{Ledger, Trace};

/// Drives of a controller, by name.
pub(crate) type Drives = Vec<(Arc<str>, Rc<dyn Endpoint>)>;

/// A drive as a member.
pub(crate) type Own = Backed<Member<Inside>, Store>;

/// Says of a read for parity, by its length, whether its data are known without a drive.
pub(crate) type Spared = Rc<dyn Fn(Bytes) -> bool>;

/// What computes parity: it reads so much in a second, one computation after the other.
#[derive(Clone)]
pub(crate) struct Engine {
    /// One computation.
    pub turn: Resource,
    /// In bytes of sources.
    pub rate: Rate,
}

/// A controller as the one that runs an array.
pub(crate) struct Inside {
    runtime: Runtime,
    part: PartName,
    engine: Engine,
    spared: Option<Spared>,
}

impl Host for Inside {
    /// Whether it is a write of the host, whose reads are for parity.
    type Caller = bool;
    async fn command(&self, unit: &dyn Endpoint, command: Command, caller: Option<&bool>, ledger: &mut Ledger) {
        let spared = self.spared.as_ref().filter(|_| caller == Some(&true) && !command.write);
        if spared.is_some_and(|spared| spared(command.bytes())) {
            ledger.until(self.runtime.now(), self.part, "parity-hit");
            return;
        }
        unit.execute(command, Lines::Cached, ledger).await;
    }
    async fn parity(&self, _: Option<&bool>, sources: Bytes, ledger: &mut Ledger) {
        let _turn = self.engine.turn.acquire(0).await;
        ledger.until(self.runtime.now(), self.part, "parity-queue");
        self.runtime.sleep(self.engine.rate.time_for(sources)).await;
        ledger.until(self.runtime.now(), self.part, "parity");
    }
}

/// The array.
pub(crate) struct Behind {
    /// Over its drives.
    pub array: Array<Own>,
    calls: Rc<Calls<Inside>>,
    /// Data of a row.
    pub stripe: Bytes,
    runtime: Runtime,
    trace: Trace,
    /// The number of the last request to the array.
    last: Cell<u64>,
    drives: Drives,
}

impl Behind {
    /// An array of these drives, run by the controller whose spans are those of `part`. Of what it reads for parity
    /// it may be `spared` some.
    pub fn assemble(
        (runtime, trace, part): (&Runtime, &Trace, PartName),
        engine: Engine,
        spared: Option<Spared>,
        (level, chunk): (Level, Bytes),
        drives: Drives,
    ) -> Result<Behind, String> {
        let sizes: Vec<Bytes> = drives.iter().map(|(_, drive)| drive.size()).collect();
        let geometry = Geometry::new(level, chunk, &sizes).map_err(|error| error.to_string())?;
        let inside = Inside { runtime: runtime.clone(), part, engine, spared };
        let calls = Rc::new(Calls::new(runtime, trace, part, inside));
        let members = drives.iter().map(|drive| (member(runtime, &calls, drive), Bytes::ZERO)).collect();
        let stripe = geometry.stripe_size();
        let array = Array::assemble(runtime, "array", geometry, members).map_err(|error| error.to_string())?;
        calls.run(&array);
        let (runtime, trace) = (runtime.clone(), trace.clone());
        Ok(Behind { array, calls, stripe, runtime, trace, last: Cell::new(0), drives })
    }

    /// Another drive like the one in a place: what replaces it.
    pub fn another(&self, place: usize) -> Own {
        member(&self.runtime, &self.calls, &self.drives[place])
    }

    /// How much it stores.
    pub fn size(&self) -> Bytes {
        self.array.shape().size.round_down(BLOCK)
    }

    /// The number of the next request.
    pub fn number(&self) -> u64 {
        self.last.set(self.last.get() + 1);
        self.last.get()
    }

    /// Carries out a command of the controller.
    pub async fn through(&self, command: Command, ledger: &mut Ledger) {
        let id = self.number();
        let aside = self.trace.aside(self.runtime.now());
        self.calls.begin(id, command.write, std::mem::replace(ledger, aside));
        let (address, bytes) = (BLOCK * command.first, command.bytes());
        let request = match command.write {
            true => Request::write(address, Data::phantom(bytes)),
            false => Request::read(address, Buffer::phantom(bytes)),
        };
        let result = self.array.submit(request.with_id(id)).await.result;
        result.expect("a modelled member does what it is asked");
        *ledger = self.calls.end(id);
    }
}

fn member(runtime: &Runtime, calls: &Rc<Calls<Inside>>, (name, drive): &(Arc<str>, Rc<dyn Endpoint>)) -> Own {
    let shape = Shape::new(name.to_string(), drive.size());
    // Nothing but data: the cache of a controller survives a power cut, so its array keeps nothing for itself.
    let store = Store::new(runtime, shape.clone(), Bytes::ZERO..drive.size());
    Backed::new(Member::new(calls, Rc::clone(drive), shape), store)
}
