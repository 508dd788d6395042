//! A disk as the array has it: a device that the kernel itself asks, and the accounts of the requests that it is asked for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use array::ParityWork;
use device::{Device, DeviceError, Operation, Payload, Reply, Request, Shape, Stamps};
use record::PartName;

use crate::endpoint::Endpoint;
use crate::os::{Os, Process, command};
use crate::system::Machine;
use crate::trace::Ledger;

/// A disk of an array.
pub(super) struct Member {
    calls: Rc<Calls>,
    unit: Rc<dyn Endpoint>,
    shape: Shape,
}

impl Member {
    pub fn new(calls: &Rc<Calls>, unit: Rc<dyn Endpoint>, shape: Shape) -> Member {
        Member { calls: Rc::clone(calls), unit, shape }
    }
}

impl Device for Member {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, request: Request) -> Reply {
        let (runtime, os) = (&self.calls.machine.runtime, &self.calls.os);
        let submitted = runtime.now();
        let write = match (request.operation, &request.payload) {
            (Operation::Read, Payload::Into(buffer)) if buffer.bytes().is_none() => false,
            (Operation::Write, Payload::From(data)) if data.bytes().is_none() => true,
            // Writes are on the medium when they are replied to.
            (Operation::Flush, _) => return request.answer(Ok(()), Stamps { submitted, completed: submitted }),
            _ => return request.refuse(DeviceError::Unsupported, submitted),
        };
        let command = command(write, request.offset, request.length);
        let mut account = self.calls.account(request.id);
        let passage = os.kernel(&*self.unit, command, &mut account.ledger).await;
        self.calls.settle(account);
        self.calls.machine.passed(&passage);
        request.answer(Ok(()), Stamps { submitted, completed: runtime.now() })
    }
}

/// The requests under way at an array, by number.
pub(super) struct Calls {
    machine: Rc<Machine>,
    os: Rc<Os>,
    part: PartName,
    under_way: RefCell<HashMap<u64, Call>>,
}

/// A request under way: its process, and its ledger while no member has it.
struct Call {
    process: Rc<Process>,
    ledger: Option<Ledger>,
}

/// A ledger for a while.
struct Account {
    ledger: Ledger,
    /// Whose it is, if it was lent.
    lender: Option<u64>,
}

impl Calls {
    pub fn new(machine: &Rc<Machine>, os: &Rc<Os>) -> Calls {
        let part = machine.trace.part("raid");
        Calls { machine: Rc::clone(machine), os: Rc::clone(os), part, under_way: RefCell::default() }
    }

    /// A request begins.
    pub fn begin(&self, id: u64, process: &Rc<Process>, ledger: Ledger) {
        let call = Call { process: Rc::clone(process), ledger: Some(ledger) };
        let before = self.under_way.borrow_mut().insert(id, call);
        assert!(before.is_none(), "each request has its own number");
    }

    /// A request has been answered; what it waited for last were the members that were not the first.
    pub fn end(&self, id: u64) -> Ledger {
        let call = self.under_way.borrow_mut().remove(&id).expect("what ends has begun");
        let mut ledger = call.ledger.expect("whoever had the ledger has answered");
        ledger.until(self.machine.runtime.now(), self.part, "other-members");
        ledger
    }

    /// The ledger of a request, if it is not with somebody else already; otherwise one of its own.
    fn account(&self, id: u64) -> Account {
        let now = self.machine.runtime.now();
        match self.under_way.borrow_mut().get_mut(&id).and_then(|call| call.ledger.take()) {
            Some(mut ledger) => {
                ledger.until(now, self.part, "other-members");
                Account { ledger, lender: Some(id) }
            }
            None => Account { ledger: self.machine.trace.open(now), lender: None },
        }
    }

    fn settle(&self, account: Account) {
        match account.lender {
            None => account.ledger.close(self.machine.runtime.now()),
            Some(id) => {
                if let Some(call) = self.under_way.borrow_mut().get_mut(&id) {
                    call.ledger = Some(account.ledger);
                }
            }
        }
    }

    /// The host computes parity, on behalf of the process that asked, or of nobody.
    pub async fn parity(&self, work: ParityWork) {
        let process = self.under_way.borrow().get(&work.id).map(|call| Rc::clone(&call.process));
        let mut account = self.account(work.id);
        let bytes = work.length * (work.sources * work.targets) as u64;
        self.os.parity(process.as_deref(), bytes, &mut account.ledger).await;
        self.settle(account);
    }
}
