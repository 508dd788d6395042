//! A drive whose adjoining commands go to it as one.
//!
//! An array asks a member chunk by chunk. A controller that stripes finer than a request sends each drive one command
//! for all of its share. So here: while a command is under way others wait; of those that wait, all that adjoin the
//! first and go the same way are one command. Commands of one instant wait for each other, too.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use record::PartName;
use runtime::{Runtime, Signal};
use units::{Bytes, Duration};

use crate::endpoint::{Endpoint, Executing};
use crate::lines::Lines;
use crate::scsi::protocol::Passage;
use crate::scsi::target::Command;
use crate::trace::{Ledger, Trace};

/// The drive.
pub(crate) struct Joined {
    inner: Rc<Inner>,
}

struct Inner {
    drive: Rc<dyn Endpoint>,
    runtime: Runtime,
    trace: Trace,
    part: PartName,
    waiting: RefCell<Vec<(Command, Rc<Cell<bool>>)>>,
    /// Something has completed.
    completed: Signal,
    /// A task sends commands.
    sending: Cell<bool>,
}

impl Joined {
    /// A drive without commands. Time that a command takes here is noted as that of `part`.
    pub fn new(runtime: &Runtime, trace: &Trace, part: PartName, drive: Rc<dyn Endpoint>) -> Joined {
        let (runtime, trace, waiting) = (runtime.clone(), trace.clone(), RefCell::default());
        let (completed, sending) = (Signal::default(), Cell::new(false));
        Joined { inner: Rc::new(Inner { drive, runtime, trace, part, waiting, completed, sending }) }
    }
}

impl Endpoint for Joined {
    fn size(&self) -> Bytes {
        self.inner.drive.size()
    }
    fn depth(&self) -> u32 {
        1
    }
    fn execute<'a>(&'a self, command: Command, _: Lines, ledger: &'a mut Ledger) -> Executing<'a> {
        Box::pin(async move {
            let (inner, done) = (&self.inner, Rc::new(Cell::new(false)));
            inner.waiting.borrow_mut().push((command, Rc::clone(&done)));
            if !inner.sending.replace(true) {
                inner.runtime.spawn_detached(Rc::clone(inner).send());
            }
            inner.completed.wait_until(|| done.get()).await;
            ledger.until(inner.runtime.now(), inner.part, "drives");
            Passage::default()
        })
    }
    fn register_word(&self) -> Duration {
        self.inner.drive.register_word()
    }
    fn busy(&self) -> Duration {
        self.inner.drive.busy()
    }
}

impl Inner {
    /// Sends commands until none waits.
    async fn send(self: Rc<Inner>) {
        loop {
            self.runtime.yield_now().await;
            let Some((command, parts)) = self.next() else { break };
            let mut ledger = self.trace.aside(self.runtime.now());
            self.drive.execute(command, Lines::Cached, &mut ledger).await;
            ledger.close(self.runtime.now());
            parts.iter().for_each(|done| done.set(true));
            self.completed.notify();
        }
        self.sending.set(false);
    }

    /// The first command that waits, with all that adjoin it.
    fn next(&self) -> Option<(Command, Vec<Rc<Cell<bool>>>)> {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            return None;
        }
        let (mut joined, done) = waiting.remove(0);
        let mut parts = vec![done];
        while let Some(index) = waiting.iter().position(|(other, _)| {
            let ends = [other.first + other.blocks == joined.first, joined.first + joined.blocks == other.first];
            other.write == joined.write && ends.contains(&true)
        }) {
            let (other, done) = waiting.remove(index);
            joined.first = joined.first.min(other.first);
            joined.blocks += other.blocks;
            parts.push(done);
        }
        Some((joined, parts))
    }
}
