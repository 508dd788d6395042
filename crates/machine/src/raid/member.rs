//! A disk as an array has it: a device whose commands the host of the array sends. And the accounts of the requests
//! that the array is asked for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use array::{Array, ParityWork};
use device::{Device, DeviceError, Operation, Payload, Reply, Request, Shape, Stamps};
use record::PartName;
use runtime::Runtime;
use units::{Bytes, Duration};

use crate::endpoint::Endpoint;
use crate::os::command;
use crate::scsi::target::Command;
use crate::trace::{Ledger, Trace};

/// A modelled member neither hangs nor fails. However long its queue is, it is waited for.
const PATIENCE: Duration = Duration::seconds(365 * 24 * 3600);

/// Who runs an array, a kernel or a controller: it sends the array's commands to members, and computes its parity.
pub(crate) trait Host: 'static {
    /// On whose behalf a request is carried out.
    type Caller: Clone + 'static;
    /// Has a member carry out a command, on behalf of a caller or of nobody.
    async fn command(&self, unit: &dyn Endpoint, command: Command, caller: Option<&Self::Caller>, ledger: &mut Ledger);
    /// Computes parity of so many bytes of sources, on behalf of a caller or of nobody.
    async fn parity(&self, caller: Option<&Self::Caller>, sources: Bytes, ledger: &mut Ledger);
}

/// A disk of an array.
pub(crate) struct Member<H: Host> {
    calls: Rc<Calls<H>>,
    unit: Rc<dyn Endpoint>,
    shape: Shape,
}

impl<H: Host> Member<H> {
    pub fn new(calls: &Rc<Calls<H>>, unit: Rc<dyn Endpoint>, shape: Shape) -> Member<H> {
        Member { calls: Rc::clone(calls), unit, shape }
    }
}

impl<H: Host> Device for Member<H> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, request: Request) -> Reply {
        let calls = &self.calls;
        let submitted = calls.runtime.now();
        let write = match (request.operation, &request.payload) {
            (Operation::Read, Payload::Into(buffer)) if buffer.bytes().is_none() => false,
            (Operation::Write, Payload::From(data)) if data.bytes().is_none() => true,
            // Writes are on the medium when they are replied to.
            (Operation::Flush, _) => return request.answer(Ok(()), Stamps { submitted, completed: submitted }),
            _ => return request.refuse(DeviceError::Unsupported, submitted),
        };
        let command = command(write, request.offset, request.length);
        let mut account = calls.account(request.id);
        let caller = calls.caller(request.id);
        calls.host.command(&*self.unit, command, caller.as_ref(), &mut account.ledger).await;
        calls.settle(account);
        request.answer(Ok(()), Stamps { submitted, completed: calls.runtime.now() })
    }
}

/// The requests under way at an array, by number.
pub(crate) struct Calls<H: Host> {
    runtime: Runtime,
    trace: Trace,
    host: H,
    part: PartName,
    under_way: RefCell<HashMap<u64, Call<H::Caller>>>,
}

/// A request under way: on whose behalf, and its ledger while no member has it.
struct Call<C> {
    caller: C,
    ledger: Option<Ledger>,
}

/// A ledger for a while.
struct Account {
    ledger: Ledger,
    /// Whose it is, if it was lent.
    lender: Option<u64>,
}

impl<H: Host> Calls<H> {
    /// Without requests. Time in which a request waits for members beside its first one is noted as that of `part`.
    pub fn new(runtime: &Runtime, trace: &Trace, part: PartName, host: H) -> Calls<H> {
        let (runtime, trace) = (runtime.clone(), trace.clone());
        Calls { runtime, trace, host, part, under_way: RefCell::default() }
    }

    /// A request begins.
    pub fn begin(&self, id: u64, caller: H::Caller, ledger: Ledger) {
        let call = Call { caller, ledger: Some(ledger) };
        let before = self.under_way.borrow_mut().insert(id, call);
        assert!(before.is_none(), "each request has its own number");
    }

    /// A request has been answered; what it waited for last were the members that were not the first.
    pub fn end(&self, id: u64) -> Ledger {
        let call = self.under_way.borrow_mut().remove(&id).expect("what ends has begun");
        let mut ledger = call.ledger.expect("whoever had the ledger has answered");
        ledger.until(self.runtime.now(), self.part, "other-members");
        ledger
    }

    /// On whose behalf a request is carried out, if it is anybody's.
    fn caller(&self, id: u64) -> Option<H::Caller> {
        self.under_way.borrow().get(&id).map(|call| call.caller.clone())
    }

    /// The ledger of a request, if it is not with somebody else already; otherwise one of its own.
    fn account(&self, id: u64) -> Account {
        let now = self.runtime.now();
        match self.under_way.borrow_mut().get_mut(&id).and_then(|call| call.ledger.take()) {
            Some(mut ledger) => {
                ledger.until(now, self.part, "other-members");
                Account { ledger, lender: Some(id) }
            }
            None => Account { ledger: self.trace.open(now), lender: None },
        }
    }

    fn settle(&self, account: Account) {
        match account.lender {
            None => account.ledger.close(self.runtime.now()),
            Some(id) => {
                if let Some(call) = self.under_way.borrow_mut().get_mut(&id) {
                    call.ledger = Some(account.ledger);
                }
            }
        }
    }

    /// Has the array charge its parity to the host, and wait for members as long as it takes.
    pub fn run<D: Device>(self: &Rc<Self>, array: &Array<D>) {
        array.set_time_limit(PATIENCE);
        let calls = Rc::clone(self);
        array.charge_parity(move |work: ParityWork| {
            let calls = Rc::clone(&calls);
            Box::pin(async move { calls.parity(work).await })
        });
    }

    /// Parity is computed, on behalf of who asked, or of nobody.
    async fn parity(&self, work: ParityWork) {
        let caller = self.caller(work.id);
        let mut account = self.account(work.id);
        let sources = work.length * (work.sources * work.targets) as u64;
        self.host.parity(caller.as_ref(), sources, &mut account.ledger).await;
        self.settle(account);
    }
}
