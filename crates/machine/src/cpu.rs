//! The host's processor: instructions, copies and flushes, interrupts, context switches, and the idle loop.
//!
//! Processes take the processor in turn and keep it until they block; interrupt handlers push them aside. A context
//! switch is paid where one process takes over from another that was running until then; out of the idle loop the next
//! process only has to be resumed, which is part of its own path. On a processor with [`CpuParameters::switches_idle`]
//! it is paid by every process that goes on after another one, whatever was in between. What a switch takes may lie
//! between two times; it is then drawn for each.
//!
//! # Several cores
//! They are alike and share one queue. A process has one of them while it runs; an interrupt handler takes the next
//! that is free, before all processes that wait. Where interrupts are *steered*, some cores take all of them and run no
//! processes. What a core does with its own cache is its own business, so its instructions need no event but their end;
//! copies and flushes share the memory bus as always.
//!
//! *Host utilization* is measured as the study measured it: by how often an idle loop gets round. The loop runs when
//! nothing else does, and loses the cache to DMA, so that DMA looks like a busy processor (Section 4.1.1, which says
//! the memory bus; but then the 75 percent of Table 7 could not be, with the bus as busy as it is). Copies and flushes
//! are work of the processor and count as such.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::RngExt;
use record::PartName;
use runtime::{Grant, Random, Resource, Runtime};
use units::{Bytes, Duration, Frequency, Ratio};

use crate::backplane::SLOTS;
use crate::component::{Component, Fast, Kind};
use crate::flow::{Flows, Link};
use crate::load::{Gauges, Reading};
use crate::memory::Memory;
use crate::part::{PartError, Problem, Reader};
use crate::trace::{Ledger, Trace};

/// The host's processor, on its memory.
pub const KIND: Kind = Kind {
    name: "processor",
    on: &["memory"],
    fast: &[Fast { limit: "host processor", values: &["instructions", "context-switch"] }],
    build: |site| {
        let parameters = site.parameters(CpuParameters::read)?;
        Ok(Rc::new(Cpu::new(site.runtime, site.flows, site.trace, site.name, site.on(), parameters, site.seed)))
    },
};

impl Component for Cpu {
    fn gauges(&self, gauges: &mut Gauges) {
        match self.several() {
            false => {
                gauges.put("", Reading::Busy(self.busy()));
                gauges.put_host("(by its idle loop)", Reading::Spare(self.idle_loop()));
            }
            true => gauges.put_host("", Reading::Busy(self.busy())),
        }
        if let Some(handlers) = &self.handlers {
            gauges.put("(cores for interrupts)", Reading::Busy(handlers.busy() / u64::from(handlers.places())));
        }
        gauges.put("dispatches", Reading::Count(self.dispatches()));
        gauges.put("switches", Reading::Count(self.switches()));
    }
}

/// What distinguishes one processor from another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuParameters {
    /// Instructions a second.
    pub instructions: Frequency,
    /// From one running process to another, least and most.
    pub context_switch: (Duration, Duration),
    /// Also if the processor was idle between the two.
    pub switches_idle: bool,
    /// Cores that are alike.
    pub cores: u32,
    /// Of these, those that take all interrupts and nothing else; all cores take them if there are none.
    pub interrupt_cores: Option<u32>,
    /// The share of the time of instructions in which they use memory. In that share they wait for DMA.
    pub memory_share: f64,
}

impl CpuParameters {
    /// Reads a part of kind `processor`.
    pub fn read(reader: &Reader) -> Result<CpuParameters, PartError> {
        let instructions: Frequency = reader.get("instructions")?;
        if instructions.get() <= 0.0 {
            return Err(reader.fault(
                "instructions",
                Problem::OutOfRange { accepted: "a frequency above zero, such as \"10 MIPS\"".into() },
            ));
        }
        let switches_idle = reader.find("switches-idle")?.unwrap_or(false);
        let least: Duration = reader.get("context-switch")?;
        let most = reader.find("context-switch-most")?.unwrap_or(least);
        if most < least {
            let accepted = format!("at least {least}, the shortest (context-switch)");
            return Err(reader.fault("context-switch-most", Problem::OutOfRange { accepted }));
        }
        let count = |key: &'static str, least: u32, most: u32| -> Result<Option<u32>, PartError> {
            match reader.find::<u32>(key)? {
                Some(count) if !(least..=most).contains(&count) => {
                    Err(reader.fault(key, Problem::OutOfRange { accepted: format!("{least} to {most}") }))
                }
                count => Ok(count),
            }
        };
        let cores = count("cores", 1, 4096)?.unwrap_or(1);
        // Somebody has to run the processes.
        let interrupt_cores = count("interrupt-cores", 0, cores - 1)?.filter(|cores| *cores > 0);
        let memory_share = reader.find::<Ratio>("memory-share")?.unwrap_or(Ratio::ZERO).get();
        if memory_share > 0.0 && cores > 1 {
            let message = "instructions of several cores do not wait for DMA; omit memory-share, or set cores = 1";
            return Err(reader.fault("memory-share", Problem::Contradiction(message.to_owned())));
        }
        if memory_share > 1.0 {
            return Err(reader.fault("memory-share", Problem::OutOfRange { accepted: "0 % to 100 %".into() }));
        }
        let context_switch = (least, most);
        Ok(CpuParameters { instructions, context_switch, switches_idle, cores, interrupt_cores, memory_share })
    }
}

/// Who runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// An interrupt handler.
    Interrupt,
    /// A process in turn.
    Process,
}

/// Waiters for a core: handlers come before processes.
const INTERRUPT: u32 = 0;
const PROCESS: u32 = 1;

impl Level {
    fn class(self) -> u8 {
        // Behind all slots of the backplane: DMA has precedence.
        SLOTS as u8 + self as u8
    }
}

/// One processor.
pub struct Cpu {
    /// What it is.
    pub parameters: CpuParameters,
    runtime: Runtime,
    flows: Flows,
    link: Link,
    memory: Rc<Memory>,
    part: PartName,
    /// Cores that processes take in turn.
    turn: Resource,
    /// Cores that take all interrupts, if some are set apart for them.
    handlers: Option<Resource>,
    active: Cell<u32>,
    /// The process that had the last turn.
    last: Cell<Option<ProcessId>>,
    dispatches: Cell<u64>,
    switches: Cell<u64>,
    random: RefCell<Random>,
}

/// Tells processes apart: their number, in the order in which they came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessId(pub(crate) u64);

impl ProcessId {
    /// The program that has several requests under way; no process has this number.
    pub const PROGRAM: ProcessId = ProcessId(0);
}

impl Cpu {
    /// In its idle loop. How long its context switches take is drawn by `seed`.
    pub fn new(
        runtime: &Runtime,
        flows: &Flows,
        trace: &Trace,
        name: &str,
        memory: Rc<Memory>,
        parameters: CpuParameters,
        seed: u64,
    ) -> Cpu {
        flows.watch(memory.cache(), true);
        Cpu {
            parameters,
            runtime: runtime.clone(),
            flows: flows.clone(),
            link: flows.link(),
            memory,
            part: trace.part(name),
            turn: Resource::new(runtime, parameters.cores - parameters.interrupt_cores.unwrap_or(0)),
            handlers: parameters.interrupt_cores.map(|cores| Resource::new(runtime, cores)),
            active: Cell::new(0),
            last: Cell::new(None),
            dispatches: Cell::new(0),
            switches: Cell::new(0),
            random: RefCell::new(Random::named(seed, "context switches")),
        }
    }
    /// The memory that it works on.
    pub fn memory(&self) -> &Rc<Memory> {
        &self.memory
    }
    /// Its number in spans.
    pub fn part(&self) -> PartName {
        self.part
    }
    fn several(&self) -> bool {
        self.parameters.cores > 1
    }
    /// For how long it worked; of several cores the mean.
    pub fn busy(&self) -> Duration {
        match self.several() {
            false => self.flows.busy(self.link),
            true => {
                let handlers = self.handlers.as_ref().map_or(Duration::ZERO, Resource::busy);
                (self.turn.busy() + handlers) / u64::from(self.parameters.cores)
            }
        }
    }
    /// For how long processes had it, interrupts in between included. A system that samples at each tick of its clock
    /// counts this as theirs.
    pub fn held(&self) -> Duration {
        self.turn.busy() / u64::from(self.turn.places())
    }
    /// For how long the idle loop made full progress, or as much progress as that.
    pub fn idle_loop(&self) -> Duration {
        self.flows.spare(self.memory.cache())
    }
    /// How often a process was put on the processor.
    pub fn dispatches(&self) -> u64 {
        self.dispatches.get()
    }
    /// How often a context switch was paid.
    pub fn switches(&self) -> u64 {
        self.switches.get()
    }

    /// Waits for this process's turn. What the kernel does for itself is of no process.
    pub async fn dispatch(&self, process: Option<ProcessId>, ledger: &mut Ledger, phase: &'static str) -> Grant {
        self.dispatches.set(self.dispatches.get() + 1);
        let contended = self.turn.in_use() == self.turn.places();
        let turn = self.turn.acquire(PROCESS).await;
        ledger.until(self.runtime.now(), self.part, "run-queue");
        let other = process.is_some() && self.last.replace(process) != process;
        let goes_on = process == Some(ProcessId::PROGRAM) && !other;
        if contended && !goes_on || self.parameters.switches_idle && other {
            self.switches.set(self.switches.get() + 1);
            self.work(self.switch_time().as_seconds(), 1.0, Level::Process, 0.0).await;
            ledger.until(self.runtime.now(), self.part, phase);
        }
        turn
    }

    /// How long the next context switch takes.
    fn switch_time(&self) -> Duration {
        let (least, most) = self.parameters.context_switch;
        if least == most {
            return least;
        }
        Duration::nanos(self.random.borrow_mut().random_range(least.as_nanos()..=most.as_nanos()))
    }

    /// Executes instructions: those of a process have its core already, those of an interrupt handler wait for one.
    pub async fn execute(&self, instructions: u64, level: Level) {
        if !self.several() {
            let rate = self.parameters.instructions.get();
            return self.work(instructions as f64, rate, level, self.parameters.memory_share / rate).await;
        }
        if instructions > 0 {
            let _core = match level {
                Level::Process => None,
                Level::Interrupt => Some(self.handlers.as_ref().unwrap_or(&self.turn).acquire(INTERRUPT).await),
            };
            self.runtime.sleep(self.time(instructions)).await;
        }
    }

    /// Executes instructions of the kernel for which no process holds a core, when there is nothing better to do.
    pub async fn aside(&self, instructions: u64) {
        let _core = if self.several() { Some(self.turn.acquire(PROCESS).await) } else { None };
        self.execute(instructions, Level::Process).await;
    }

    /// Stands still for as long as so many instructions take, on the core at hand.
    pub async fn stand_still(&self, instructions: u64) {
        let level = if self.several() { Level::Process } else { Level::Interrupt };
        self.execute(instructions, level).await;
    }

    fn time(&self, instructions: u64) -> Duration {
        Duration::from_seconds(instructions as f64 / self.parameters.instructions.get())
    }

    /// Copies; `others` is what went through the cache since the buffers were last used.
    pub async fn copy(&self, bytes: Bytes, others: Bytes) {
        let (rate, bus) = self.memory.copy(others);
        self.work(bytes.get() as f64, rate, Level::Process, bus).await;
    }

    /// Flushes the cache lines of a buffer.
    pub async fn flush(&self, bytes: Bytes, dirty: bool, level: Level) {
        let (amount, rate, bus) = self.memory.flush(bytes, dirty);
        self.work(amount.get() as f64, rate, level, bus).await;
    }

    async fn work(&self, amount: f64, rate: f64, level: Level, bus: f64) {
        if amount == 0.0 {
            return;
        }
        if self.several() {
            let demand = self.memory.demand(amount, rate, level.class(), bus);
            self.flows.start(demand).await;
            return;
        }
        self.enter();
        let demand = self.memory.demand(amount, rate, level.class(), bus).over(self.link, 1.0 / rate);
        self.flows.start(demand).await;
        self.leave();
    }

    fn enter(&self) {
        self.active.set(self.active.get() + 1);
        if self.active.get() == 1 {
            self.flows.watch(self.memory.cache(), false);
        }
    }

    fn leave(&self) {
        self.active.set(self.active.get() - 1);
        if self.active.get() == 0 {
            self.flows.watch(self.memory.cache(), true);
        }
    }
}
