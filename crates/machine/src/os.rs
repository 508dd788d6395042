//! The path of a request through the operating system.
//!
//! # Two ways in
//! The *raw device* path of a process: system call, drivers, board, interrupt, flush of the DMA buffer, copy between
//! kernel and user, return; one request per process at a time. Reading, the copy comes last; writing, it comes first.
//!
//! The *no-copy call*: a batch of commands is put on the driver's queue at once, all of them into one buffer that is
//! neither copied nor flushed; the next command goes to the board as soon as the one before has completed. What the
//! driver still has to do for a command then goes on beside the board.
//!
//! Each step costs instructions; steps that map memory cost more for each page. What a copy finds in the cache depends
//! on how much went through it since the process's last copy ([`crate::memory`]).
//!
//! DMA goes to a window of the address space: a request holds its part of it from the driver until the interrupt.
//!
//! A raw request that is larger than the system's greatest transfer goes to the board in pieces, one after the other:
//! the process is woken when a piece has come, submits the next, and returns from its call after the last. Where the
//! adapter gives way to data, the second piece waits like any command, and so large requests of several disks return
//! together, long after most of their data have come.
//!
//! A system may have only so many registers that map the pages of one request. One that does not begin on a page lies
//! on a page more ([`Os::check_mapping`]).
//!
//! # Sources
//! UCB/CSD 90/574 Table 2 (instructions), Section 2.4.2 (window), Section 3.3 (no-copy call), Section 4.7 (order of the
//! steps).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use record::PartName;
use runtime::{Grant, Runtime, Signal};
use units::{Bytes, Duration, Instant};

use crate::component::{Component, Kind};
use crate::cpu::{Cpu, Level, ProcessId};
use crate::endpoint::Endpoint;
use crate::lines::Lines;
use crate::load::{Gauges, Reading};
use crate::memory::Memory;
use crate::part::{PartError, Problem, Reader};
use crate::scsi::protocol::Passage;
use crate::scsi::target::{BLOCK, Command};
use crate::trace::{Ledger, Trace};

/// An operating system, on the processor it runs on.
pub const KIND: Kind = Kind {
    name: "operating-system",
    on: &["processor"],
    fast: &[],
    build: |site| {
        let parameters = site.parameters(OsParameters::read)?;
        Ok(Os::new(site.runtime, site.trace, site.name, site.on(), parameters))
    },
};

impl Component for Os {
    fn gauges(&self, gauges: &mut Gauges) {
        gauges.put("requests at boards", Reading::Most(self.most_outstanding()));
    }
}

/// What distinguishes one operating system's path from another's. Steps are in instructions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OsParameters {
    /// Into the kernel and through the system call, and its way out to wait.
    pub start_call: u64,
    /// A write between its copy and the drivers.
    pub before_driver: u64,
    /// The driver that knows disks.
    pub generic_driver: u64,
    /// The driver that knows the adapter.
    pub adapter_driver: u64,
    /// The interrupt handler up to the flush.
    pub start_interrupt: u64,
    /// What follows the interrupt until the process goes on.
    pub after_interrupt: u64,
    /// Back to user level.
    pub finish: u64,
    /// The user's loop from one call to the next.
    pub between_calls: u64,
    /// The no-copy call: from the interrupt until the board takes the next command.
    pub next_entry: u64,
    /// Mapping or unmapping one page, in each of the three steps that do so.
    pub map_page: u64,
    /// A page.
    pub page: Bytes,
    /// Words written to the adapter's registers for one command.
    pub command_words: u64,
    /// Space for DMA.
    pub dma_window: Bytes,
    /// Pages that one request can map; any number without.
    pub mapping_registers: Option<u32>,
    /// Where a caller's buffer begins in its first page.
    pub buffer_offset: Bytes,
    /// The most that one command of a raw request moves.
    pub transfer_most: Option<Bytes>,
    /// Raw requests go through a buffer of the kernel. Without, DMA goes to the process's own pages.
    pub copies: bool,
    /// The buffer is flushed after DMA. Without, the cache sees DMA by itself.
    pub flushes: bool,
    /// Commands that the no-copy call takes at once.
    pub batch: u32,
    /// What the RAID driver adds to a request.
    pub raid_driver: u64,
}

impl OsParameters {
    /// Reads a part of kind `operating-system`.
    pub fn read(reader: &Reader) -> Result<OsParameters, PartError> {
        let page: Bytes = reader.get("page")?;
        if page.is_zero() {
            return Err(reader.fault("page", Problem::OutOfRange { accepted: "a size above zero".into() }));
        }
        let batch = reader.get("batch")?;
        if batch == 0 {
            return Err(reader.fault("batch", Problem::OutOfRange { accepted: "at least one command".into() }));
        }
        let transfer_most: Option<Bytes> = reader.find("transfer-most")?;
        if transfer_most.is_some_and(|most| most.is_zero() || !most.is_multiple_of(BLOCK)) {
            let accepted = "whole 512-byte blocks, at least one".into();
            return Err(reader.fault("transfer-most", Problem::OutOfRange { accepted }));
        }
        let steps = reader.table("instructions")?;
        let parameters = OsParameters {
            start_call: steps.get("start-call")?,
            before_driver: steps.get("before-driver")?,
            generic_driver: steps.get("generic-driver")?,
            adapter_driver: steps.get("adapter-driver")?,
            start_interrupt: steps.get("start-interrupt")?,
            after_interrupt: steps.get("after-interrupt")?,
            finish: steps.get("finish")?,
            between_calls: steps.get("between-calls")?,
            next_entry: steps.get("next-entry")?,
            map_page: steps.get("map-page")?,
            raid_driver: steps.get("raid-driver")?,
            page,
            command_words: reader.get("command-words")?,
            dma_window: reader.get("dma-window")?,
            mapping_registers: match reader.find::<u32>("mapping-registers")? {
                Some(_) => Some(reader.count("mapping-registers", 1 << 20)?),
                None => None,
            },
            buffer_offset: match reader.find("buffer-offset")?.unwrap_or(Bytes::ZERO) {
                offset if offset < page => offset,
                _ => {
                    let accepted = format!("less than a page ({page:#})");
                    return Err(reader.fault("buffer-offset", Problem::OutOfRange { accepted }));
                }
            },
            transfer_most,
            copies: reader.find("copies")?.unwrap_or(true),
            flushes: reader.find("flushes")?.unwrap_or(true),
            batch,
        };
        steps.done()?;
        Ok(parameters)
    }
}

/// A request that cannot be mapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a request of {length:#} whose buffer begins {offset:#} into a page lies on {needed} pages, and {os} maps at most {there} for a request; \
     align the buffer to a page (--set {os}.buffer-offset=0B), or ask for at most {most:#}"
)]
#[allow(missing_docs)] // the fields are the blanks of the sentence
pub struct Unmappable {
    pub length: Bytes,
    pub offset: Bytes,
    pub needed: u64,
    pub there: u32,
    pub most: Bytes,
    pub os: String,
}

/// The operating system of one host.
pub struct Os {
    /// What it is.
    pub parameters: OsParameters,
    /// The processor it runs on.
    pub cpu: Rc<Cpu>,
    runtime: Runtime,
    memory: Rc<Memory>,
    part: PartName,
    name: String,
    window: Cell<u64>,
    window_freed: Signal,
    /// Commands of no-copy batches that are complete, and whose interrupts are not yet worked off.
    behind: Cell<u64>,
    worked_off: Signal,
    processes: Cell<u64>,
    most_outstanding: Cell<u64>,
    outstanding: Cell<u64>,
    /// Processes that wait for the processor, and those of them that waited for something else in the kernel before.
    ready: Cell<u64>,
    woken: Cell<u64>,
}

/// A process: one request at a time. It keeps the processor from when it goes on until its next request is at the
/// board.
pub struct Process {
    id: ProcessId,
    turn: RefCell<Option<Grant>>,
    /// Calls it has returned from, and whether it is in one.
    calls: Cell<u64>,
    calling: Cell<bool>,
    /// How much had gone through the cache when it last copied; nothing if it never did.
    copied_at: Cell<Option<u64>>,
    /// Since when it has the processor, or had it last.
    since: Cell<Instant>,
}

impl Process {
    fn new(id: ProcessId) -> Rc<Process> {
        Rc::new(Process {
            id,
            turn: RefCell::default(),
            calls: Cell::new(0),
            calling: Cell::new(false),
            copied_at: Cell::new(None),
            since: Cell::new(Instant::START),
        })
    }
    /// How many calls it has returned from.
    pub fn calls(&self) -> u64 {
        self.calls.get()
    }
    /// It returns from a call; gives which one that was.
    pub fn returned(&self) -> u64 {
        assert!(self.calling.replace(false), "a process returns from a call that it is in");
        self.calls.set(self.calls.get() + 1);
        self.calls.get()
    }
    /// Whether it has not called since it returned from that call.
    pub fn waits_since(&self, call: u64) -> bool {
        self.calls.get() == call && !self.calling.get()
    }
    /// It calls.
    pub fn call(&self) {
        assert!(!self.calling.replace(true), "a process makes one call at a time");
    }
}

impl Os {
    /// A system without processes.
    pub fn new(runtime: &Runtime, trace: &Trace, name: &str, cpu: Rc<Cpu>, parameters: OsParameters) -> Rc<Os> {
        Rc::new(Os {
            parameters,
            runtime: runtime.clone(),
            memory: Rc::clone(cpu.memory()),
            cpu,
            part: trace.part(name),
            name: name.to_owned(),
            window: Cell::new(parameters.dma_window.get()),
            window_freed: Signal::default(),
            behind: Cell::new(0),
            worked_off: Signal::default(),
            processes: Cell::new(0),
            most_outstanding: Cell::new(0),
            outstanding: Cell::new(0),
            ready: Cell::new(0),
            woken: Cell::new(0),
        })
    }

    /// Refuses a request on more pages than can be mapped.
    pub fn check_mapping(&self, length: Bytes) -> Result<(), Unmappable> {
        let OsParameters { page, buffer_offset: offset, mapping_registers, .. } = self.parameters;
        let needed = (offset + length).get().div_ceil(page.get());
        match mapping_registers.filter(|there| needed > u64::from(*there)) {
            None => Ok(()),
            Some(there) => {
                let most = (page * u64::from(there) - offset).round_down(BLOCK);
                Err(Unmappable { length, offset, needed, there, most, os: self.name.clone() })
            }
        }
    }

    /// A new process.
    pub fn process(&self) -> Rc<Process> {
        self.processes.set(self.processes.get() + 1);
        Process::new(ProcessId(self.processes.get()))
    }
    /// One of the requests that the machine's one program has under way at once.
    pub fn of_program(&self) -> Rc<Process> {
        Process::new(ProcessId::PROGRAM)
    }
    /// Its number in spans.
    pub fn part(&self) -> PartName {
        self.part
    }
    /// The most requests that were at boards at one time.
    pub fn most_outstanding(&self) -> u64 {
        self.most_outstanding.get()
    }

    /// A raw read or write by a process, from the call to its return.
    pub async fn raw(&self, process: &Process, unit: &dyn Endpoint, command: Command, ledger: &mut Ledger) -> Passage {
        let steps = &self.parameters;
        let bytes = command.bytes();
        self.resume(process, ledger, "start-system-call").await;
        self.step(steps.start_call + self.pages(bytes), ledger, "start-system-call").await;
        if command.write {
            self.copy(process, bytes, ledger).await;
            self.step(steps.before_driver, ledger, "before-driver").await;
        }
        let mut passage: Option<Passage> = None;
        for piece in command.pieces(steps.transfer_most.unwrap_or(bytes)) {
            if passage.is_some() {
                self.resume(process, ledger, "device-driver").await;
            }
            self.step(steps.generic_driver, ledger, "device-driver").await;
            self.submit(unit, piece.bytes(), ledger).await;
            self.block(process);
            let passed = self.board(unit, piece, ledger).await;
            passage = Some(passage.map_or(passed, |before| before.and(&passed)));
        }
        let passage = passage.expect("a command moves something");
        let woken = if command.write { "finish" } else { "before-copy" };
        self.resume(process, ledger, woken).await;
        self.step(steps.after_interrupt + self.pages(bytes), ledger, woken).await;
        if !command.write {
            self.copy(process, bytes, ledger).await;
            self.step(steps.finish, ledger, "finish").await;
        }
        passage
    }

    /// What a process does between two calls.
    pub async fn between(&self, process: &Process, ledger: &mut Ledger) {
        self.resume(process, ledger, "between-calls").await;
        self.step(self.parameters.between_calls, ledger, "between-calls").await;
    }

    /// A process goes on: it waits for its turn, unless it still has it.
    pub async fn resume(&self, process: &Process, ledger: &mut Ledger, phase: &'static str) {
        if process.turn.borrow().is_none() {
            self.ready.set(self.ready.get() + 1);
            let turn = self.cpu.dispatch(Some(process.id), ledger, phase).await;
            self.ready.set(self.ready.get() - 1);
            process.since.set(self.runtime.now());
            process.turn.replace(Some(turn));
        }
    }

    /// A process that waited in the kernel goes on.
    pub async fn wake(&self, process: &Process, ledger: &mut Ledger) {
        self.woken.set(self.woken.get() + 1);
        self.resume(process, ledger, "wake").await;
        self.woken.set(self.woken.get() - 1);
    }

    /// A call returns to its program. A process that was woken in the kernel meanwhile has precedence; any other that
    /// waits takes over once this one has had the processor for a slice. Within the kernel nobody takes it away.
    pub fn leave(&self, process: &Process, slice: Duration) {
        let had = self.runtime.now().since(process.since.get());
        if self.woken.get() > 0 || self.ready.get() > 0 && had >= slice {
            self.block(process);
        }
    }

    /// A process waits for something: the processor is free for others.
    pub fn block(&self, process: &Process) {
        process.turn.replace(None);
    }

    /// One command of a no-copy batch.
    pub async fn no_copy(self: &Rc<Os>, unit: &dyn Endpoint, command: Command, ledger: &mut Ledger) -> Passage {
        let steps = self.parameters;
        // A processor that is behind with interrupts has no time to send more. So at most as many commands wait for it
        // as are at the boards.
        self.worked_off.wait_until(|| self.behind.get() <= self.outstanding.get().max(1)).await;
        self.registers(unit).await;
        self.cpu.execute(steps.adapter_driver, Level::Interrupt).await;
        ledger.until(self.runtime.now(), self.part, "entry-to-submit");
        self.count(1);
        let passage = unit.execute(command, Lines::Cached, ledger).await;
        self.count(-1);
        self.cpu.execute(steps.next_entry, Level::Interrupt).await;
        ledger.until(self.runtime.now(), self.part, "interrupt-to-entry");
        let (os, rest) = (
            Rc::clone(self),
            steps.generic_driver + (steps.start_interrupt + steps.after_interrupt).saturating_sub(steps.next_entry),
        );
        self.behind.set(self.behind.get() + 1);
        self.runtime.spawn_detached(async move {
            os.cpu.aside(rest).await;
            os.behind.set(os.behind.get() - 1);
            os.worked_off.notify();
        });
        passage
    }

    /// The adapter's driver, up to the command's submission, with the DMA window.
    async fn submit(&self, unit: &dyn Endpoint, bytes: Bytes, ledger: &mut Ledger) {
        let want = bytes.round_up(self.parameters.page).get().min(self.parameters.dma_window.get());
        self.window_freed.wait_until(|| self.window.get() >= want).await;
        self.window.set(self.window.get() - want);
        ledger.until(self.runtime.now(), self.part, "dma-window");
        self.registers(unit).await;
        self.step(self.parameters.adapter_driver + self.pages(bytes), ledger, "adapter-driver").await;
    }

    /// At the board, and the interrupt with its flush.
    async fn board(&self, unit: &dyn Endpoint, command: Command, ledger: &mut Ledger) -> Passage {
        self.count(1);
        let passage = unit.execute(command, Lines::Flushed, ledger).await;
        self.count(-1);
        self.cpu.execute(self.parameters.start_interrupt, Level::Interrupt).await;
        ledger.until(self.runtime.now(), self.part, "start-interrupt");
        if self.parameters.flushes {
            self.cpu.flush(command.bytes(), !command.write, Level::Interrupt).await;
        }
        ledger.until(self.runtime.now(), self.part, "dma-free");
        let want = command.bytes().round_up(self.parameters.page).get().min(self.parameters.dma_window.get());
        self.window.set(self.window.get() + want);
        self.window_freed.notify();
        passage
    }

    /// Carries out a command for the kernel itself (the RAID driver): drivers, board, interrupt; no copy.
    pub async fn kernel(&self, unit: &dyn Endpoint, command: Command, ledger: &mut Ledger) -> Passage {
        let turn = self.cpu.dispatch(None, ledger, "device-driver").await;
        self.step(self.parameters.generic_driver, ledger, "device-driver").await;
        self.submit(unit, command.bytes(), ledger).await;
        drop(turn);
        let passage = self.board(unit, command, ledger).await;
        let turn = self.cpu.dispatch(None, ledger, "before-copy").await;
        self.step(self.parameters.after_interrupt, ledger, "before-copy").await;
        drop(turn);
        passage
    }

    /// Executes something of the kernel for itself, in its turn.
    pub async fn work(&self, instructions: u64, ledger: &mut Ledger, phase: &'static str) {
        let _turn = self.cpu.dispatch(None, ledger, phase).await;
        self.step(instructions, ledger, phase).await;
    }

    /// Copies within the kernel, in its turn.
    pub async fn move_data(&self, bytes: Bytes, ledger: &mut Ledger) {
        let _turn = self.cpu.dispatch(None, ledger, "copy").await;
        self.pass_through(None, bytes, ledger, "copy").await;
    }

    /// An adapter's interrupt.
    pub async fn interrupted(&self, ledger: &mut Ledger) {
        self.cpu.execute(self.parameters.start_interrupt, Level::Interrupt).await;
        ledger.until(self.runtime.now(), self.part, "start-interrupt");
    }

    /// An interrupt that nobody waits for.
    pub fn interrupt_aside(self: &Rc<Os>) {
        let os = Rc::clone(self);
        self.runtime
            .spawn_detached(async move { os.cpu.execute(os.parameters.start_interrupt, Level::Interrupt).await });
    }

    /// Writes a command to the registers of an adapter, each word of which takes so long.
    pub async fn write_registers(&self, word: Duration, ledger: &mut Ledger) {
        self.stand_still(word).await;
        ledger.until(self.runtime.now(), self.part, "registers");
    }

    /// Executes one step of the path.
    pub async fn step(&self, instructions: u64, ledger: &mut Ledger, phase: &'static str) {
        self.cpu.execute(instructions, Level::Process).await;
        ledger.until(self.runtime.now(), self.part, phase);
    }

    /// Copies between kernel and user.
    pub async fn copy(&self, process: &Process, bytes: Bytes, ledger: &mut Ledger) {
        if !self.parameters.copies {
            return;
        }
        self.pass_through(Some(process), bytes, ledger, "copy").await;
    }

    /// Computes parity of sources of so many bytes, on behalf of a process that waits or of the kernel itself: each is
    /// fetched and its sum stored, as in a copy.
    pub async fn parity(&self, process: Option<&Process>, bytes: Bytes, ledger: &mut Ledger) {
        let turn = self.cpu.dispatch(process.map(|process| process.id), ledger, "parity").await;
        self.pass_through(process, bytes, ledger, "parity").await;
        drop(turn);
    }

    /// Bytes pass through the processor and its cache, which holds nothing of the kernel's buffers.
    pub(crate) async fn pass_through(
        &self,
        process: Option<&Process>,
        bytes: Bytes,
        ledger: &mut Ledger,
        phase: &'static str,
    ) {
        let passed = self.memory.passed();
        let before = process.and_then(|process| process.copied_at.replace(Some(passed.get())));
        let others = before.map_or(Bytes::new(u64::MAX / 2), |then| Bytes::new(passed.get() - then));
        self.cpu.copy(bytes, others).await;
        self.memory.pass(bytes * 2 + self.memory.parameters.system_footprint);
        ledger.until(self.runtime.now(), self.part, phase);
    }

    /// Writes a command to the registers of a controller.
    async fn registers(&self, unit: &dyn Endpoint) {
        self.stand_still(unit.register_word()).await;
    }

    /// The processor stands still while the words of a command cross the way to an adapter.
    async fn stand_still(&self, word: Duration) {
        let seconds = word.as_seconds() * self.parameters.command_words as f64;
        let instructions = (seconds * self.cpu.parameters.instructions.get()).round() as u64;
        self.cpu.stand_still(instructions).await;
    }

    fn pages(&self, bytes: Bytes) -> u64 {
        self.parameters.map_page * bytes.get().div_ceil(self.parameters.page.get())
    }

    fn count(&self, change: i64) {
        let now = self.outstanding.get().checked_add_signed(change).expect("what ends has begun");
        self.outstanding.set(now);
        self.most_outstanding.set(self.most_outstanding.get().max(now));
    }
}

/// A command for `bytes` at byte `offset` of a unit.
pub fn command(write: bool, offset: Bytes, bytes: Bytes) -> Command {
    assert!(offset.is_multiple_of(BLOCK) && bytes.is_multiple_of(BLOCK), "requests are whole blocks");
    Command { write, first: offset / BLOCK, blocks: bytes / BLOCK }
}
