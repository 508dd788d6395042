//! A host bus adapter: commands in, data through, interrupts out.
//!
//! # Theory
//! ```text
//!   host -> master command entry | command queue -> work queue of the device -> SCSI string -> completion -> interrupt
//!                                                  data: string <-> 8 KB buffers <-> backplane
//! ```
//! The board's own processor moves each command from the command queue to the work queue of its device and builds the
//! response when it is complete; it is one processor for all strings. Data stop in the board's memory: they are taken
//! over the string into a buffer of fixed size and go on over the backplane from there, while the next buffer fills.
//! Crossing into the next buffer within a tenure makes the bus wait: the board allocates it, and if this transfer
//! already fills as many buffers as it may, waits until one has been emptied. The first buffer of a tenure was
//! allocated while the bus was free and costs nothing.
//!
//! Writing, the first buffer is fetched before the bus is asked for; what follows is fetched in small units while the
//! bus waits, each with a set-up. All strings of a board share one data path.
//!
//! # Sources
//! UCB/CSD 90/574 Sections 2.2 (queues, buffers), 4.3 (ceiling of the board), 4.6 (stalls); the pauses of writes are
//! described in Section 4.1.1 without a cause. That they are the board's fetches from host memory is this model's
//! reading: it explains why they begin after the first 8 KB and why they are longer when host memory is slower (Tables
//! 4 and 8).

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use record::PartName;
use runtime::{Grant, JoinHandle, Resource, Runtime};
use units::{Bytes, Duration, Rate};

use crate::backplane::{Backplane, DmaPath};
use crate::component::{Component, Fast, Kind, Places};
use crate::endpoint::{Endpoint, Executing};
use crate::flow::{Demand, Flows, Link};
use crate::lines::Lines;
use crate::load::{Gauges, Reading};
use crate::part::{PartError, Problem, Reader};
use crate::scsi::protocol::{self, Answers, Passage, Port};
use crate::scsi::string::ScsiString;
use crate::scsi::target::{BLOCK, Command, Target};
use crate::trace::{Ledger, Trace};

/// A board for SCSI strings, on a backplane.
pub const KIND: Kind = Kind {
    name: "adapter",
    on: &["backplane"],
    fast: &[
        Fast { limit: "adapters", values: &["data-path", "dma", "command-setup", "completion"] },
        Fast {
            limit: "strings",
            values: &["allocation", "answer.fifo", "answer.save-pointer", "answer.restore-pointer"],
        },
    ],
    build: |site| {
        let parameters = site.parameters(AdapterParameters::read)?;
        let backplane = site.on::<Backplane>();
        let path = DmaPath::new(site.flows, &backplane, site.place, parameters.dma);
        let word = backplane.parameters.register_access;
        Ok(Adapter::new(site.runtime, site.flows, site.trace, site.name, path, word, parameters))
    },
};

impl Component for Adapter {
    fn gauges(&self, gauges: &mut Gauges) {
        gauges.put("processor", Reading::Busy(self.processor_busy()));
        gauges.put("data path", Reading::Busy(self.data_path_busy()));
        gauges.put("time-outs", Reading::Count(self.time_outs()));
    }
    fn rate(&self) -> Option<Rate> {
        Some(if self.parameters.data_path < self.parameters.dma {
            self.parameters.data_path
        } else {
            self.parameters.dma
        })
    }
    fn places(&self) -> Option<Places> {
        Some(Places { key: "channel", count: self.parameters.strings, taken: None })
    }
}

/// What distinguishes one board from another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdapterParameters {
    /// Its address on its strings.
    pub id: u32,
    /// It does not take a string for a command while any target wants it.
    pub gives_way: bool,
    /// Of commands that wait for a string, it next sends one to the device after the one that it served last; otherwise
    /// the one that came first.
    pub in_turn: bool,
    /// Strings it has.
    pub strings: u32,
    /// Commands that wait in the command queue.
    pub command_queue: u32,
    /// Devices that have work queues.
    pub work_queues: u32,
    /// Words that the board copies from and to the shared registers for one command, its response included.
    pub handshake_words: u64,
    /// The board's processor takes a command in.
    pub command_setup: Duration,
    /// The board's processor completes a command.
    pub completion: Duration,
    /// All data buffers.
    pub buffer_memory: Bytes,
    /// One buffer.
    pub buffer: Bytes,
    /// Buffers that one transfer may hold at a time.
    pub buffers_per_transfer: u32,
    /// The board's processor allocates a buffer.
    pub allocation: Duration,
    /// What all strings together move.
    pub data_path: Rate,
    /// What it moves over the backplane, memory not making it wait.
    pub dma: Rate,
    /// Writes are fetched from memory in units of this, after the first buffer.
    pub fetch_unit: Bytes,
    /// To set each such fetch up.
    pub fetch_setup: Duration,
    /// How it answers targets.
    pub answers: Answers,
}

impl AdapterParameters {
    /// Reads a part of kind `adapter`.
    pub fn read(reader: &Reader) -> Result<AdapterParameters, PartError> {
        let positive = |key: &'static str, most: u32| -> Result<u32, PartError> {
            let number = reader.get(key)?;
            if !(1..=most).contains(&number) {
                return Err(reader.fault(key, Problem::OutOfRange { accepted: format!("1 to {most}") }));
            }
            Ok(number)
        };
        let rate = |key: &'static str| -> Result<Rate, PartError> {
            let rate: Rate = reader.get(key)?;
            if rate.is_zero() {
                return Err(reader.fault(key, Problem::OutOfRange { accepted: "a rate above zero".into() }));
            }
            Ok(rate)
        };
        let blocks = |key: &'static str| -> Result<Bytes, PartError> {
            let size: Bytes = reader.get(key)?;
            if size.is_zero() || !size.is_multiple_of(BLOCK) {
                return Err(
                    reader.fault(key, Problem::OutOfRange { accepted: "whole 512-byte blocks, at least one".into() })
                );
            }
            Ok(size)
        };
        let (buffer_memory, buffer) = (blocks("buffer-memory")?, blocks("buffer")?);
        let buffers_per_transfer = positive("buffers-per-transfer", 1024)?;
        if buffer * u64::from(buffers_per_transfer) > buffer_memory {
            let accepted = format!("at most {}, as many as the buffer memory holds", buffer_memory / buffer);
            return Err(reader.fault("buffers-per-transfer", Problem::OutOfRange { accepted }));
        }
        let id: u32 = reader.get("id")?;
        if id > 7 {
            return Err(reader.fault("id", Problem::OutOfRange { accepted: "0 to 7, an address of the bus".into() }));
        }
        let answer = reader.table("answer")?;
        let answers = Answers {
            command_first: answer.get("command-first-byte")?,
            command_other: answer.get("command-other-byte")?,
            first_disconnect: answer.get("first-disconnect")?,
            save_pointer: answer.get("save-pointer")?,
            disconnect: answer.get("disconnect")?,
            identify: answer.get("identify")?,
            restore_pointer: answer.get("restore-pointer")?,
            fifo: answer.get("fifo")?,
            status: answer.get("status")?,
            complete: answer.get("command-complete")?,
        };
        answer.done()?;
        Ok(AdapterParameters {
            id,
            gives_way: reader.get("gives-way")?,
            in_turn: reader.find("in-turn")?.unwrap_or(false),
            strings: positive("strings", 64)?,
            command_queue: positive("command-queue", 4096)?,
            work_queues: positive("work-queues", 4096)?,
            handshake_words: reader.get("handshake-words")?,
            command_setup: reader.get("command-setup")?,
            completion: reader.get("completion")?,
            buffer_memory,
            buffer,
            buffers_per_transfer,
            allocation: reader.get("allocation")?,
            data_path: rate("data-path")?,
            dma: rate("dma")?,
            fetch_unit: blocks("fetch-unit")?,
            fetch_setup: reader.get("fetch-setup")?,
            answers,
        })
    }
}

/// One board.
pub struct Adapter {
    /// What it is.
    pub parameters: AdapterParameters,
    runtime: Runtime,
    flows: Flows,
    part: PartName,
    path: DmaPath,
    data_path: Link,
    queue: Resource,
    processor: Resource,
    dma: Resource,
    buffers: Resource,
    time_outs: Cell<u64>,
    /// The host's processor writes a word to its registers.
    register_word: Duration,
    /// Devices that have work queues.
    devices: Cell<u32>,
}

/// A device behind a board: its string, itself, and its work queue.
pub struct Unit {
    /// The board.
    pub adapter: Rc<Adapter>,
    /// The bus.
    pub string: ScsiString,
    /// The device.
    pub target: Rc<dyn Target>,
    /// How much it stores.
    pub size: Bytes,
    /// One command at a time goes to the device; others wait here in order.
    pub work_queue: Resource,
}

impl Adapter {
    /// A board without work.
    pub fn new(
        runtime: &Runtime,
        flows: &Flows,
        trace: &Trace,
        name: &str,
        path: DmaPath,
        register_word: Duration,
        parameters: AdapterParameters,
    ) -> Rc<Adapter> {
        let buffers = (parameters.buffer_memory / parameters.buffer) as u32;
        Rc::new(Adapter {
            parameters,
            runtime: runtime.clone(),
            flows: flows.clone(),
            part: trace.part(name),
            path,
            data_path: flows.link(),
            queue: Resource::new(runtime, parameters.command_queue),
            processor: Resource::new(runtime, 1),
            dma: Resource::new(runtime, 1),
            buffers: Resource::new(runtime, buffers),
            time_outs: Cell::new(0),
            register_word,
            devices: Cell::new(0),
        })
    }

    /// One more device has a work queue. False if the board has no queue left.
    pub fn has_queue_for_another(&self) -> bool {
        let devices = self.devices.get() + 1;
        self.devices.set(devices);
        devices <= self.parameters.work_queues
    }

    /// Its number in spans.
    pub fn part(&self) -> PartName {
        self.part
    }
    /// How often it gave up waiting for the backplane.
    pub fn time_outs(&self) -> u64 {
        self.time_outs.get()
    }
    /// For how long its data path was in use.
    pub fn data_path_busy(&self) -> Duration {
        self.flows.busy(self.data_path)
    }
    /// For how long its processor worked.
    pub fn processor_busy(&self) -> Duration {
        self.processor.busy()
    }

    /// The board's processor works on a command, with half of the words of its hand-over.
    async fn think(&self, time: Duration) {
        let _turn = self.processor.acquire(0).await;
        self.path.words(self.parameters.handshake_words / 2).await;
        self.runtime.sleep(time).await;
    }

    fn count(&self, time_outs: u64) {
        self.time_outs.set(self.time_outs.get() + time_outs);
    }

    /// Moves one buffer over the backplane.
    async fn drain(self: Rc<Adapter>, bytes: Bytes, lines: Lines) {
        let _turn = self.dma.acquire(0).await;
        let time_outs = self.path.move_bytes(bytes, lines).await;
        self.count(time_outs);
    }
}

impl Endpoint for Unit {
    fn size(&self) -> Bytes {
        self.size
    }
    fn depth(&self) -> u32 {
        1
    }
    fn execute<'a>(&'a self, command: Command, lines: Lines, ledger: &'a mut Ledger) -> Executing<'a> {
        Box::pin(self.carry_out(command, lines, ledger))
    }
    fn register_word(&self) -> Duration {
        self.adapter.register_word
    }
    fn busy(&self) -> Duration {
        self.work_queue.busy()
    }
}

impl Unit {
    async fn carry_out(&self, command: Command, lines: Lines, ledger: &mut Ledger) -> Passage {
        let adapter = &self.adapter;
        let (runtime, part) = (&adapter.runtime, adapter.part);
        let slot = adapter.queue.acquire(0).await;
        ledger.until(runtime.now(), part, "command-queue");
        adapter.think(adapter.parameters.command_setup).await;
        ledger.until(runtime.now(), part, "setup");
        drop(slot);
        let device = self.work_queue.acquire(0).await;
        ledger.until(runtime.now(), part, "work-queue");
        let mut transfer = Transfer::new(adapter, self.string.parameters().byte_time, lines);
        if command.write {
            transfer.fetch_first(command.bytes()).await;
            ledger.until(runtime.now(), part, "fetch");
        }
        let passage = protocol::execute(runtime, &self.string, &mut transfer, &*self.target, command, ledger).await;
        drop(device);
        transfer.finish().await;
        ledger.until(runtime.now(), part, "drain");
        adapter.think(adapter.parameters.completion).await;
        ledger.until(runtime.now(), part, "completion");
        passage
    }
}

/// The data of one command on their way through the board.
struct Transfer {
    adapter: Rc<Adapter>,
    byte_time: Duration,
    lines: Lines,
    /// The target's pause after each block.
    pause: Duration,
    /// Blocks that still fit into the present buffer; nothing allocated at the start of a tenure but what costs
    /// nothing.
    room: u64,
    filled: u64,
    /// The present buffer's place in the board's memory.
    place: Option<Grant>,
    /// Buffers on their way over the backplane.
    draining: VecDeque<JoinHandle<()>>,
    /// Blocks that were fetched before the bus was asked for.
    fetched: u64,
}

impl Transfer {
    fn new(adapter: &Rc<Adapter>, byte_time: Duration, lines: Lines) -> Transfer {
        let room = adapter.parameters.buffer / BLOCK;
        Transfer {
            adapter: Rc::clone(adapter),
            byte_time,
            lines,
            pause: Duration::ZERO,
            room,
            filled: 0,
            place: None,
            draining: VecDeque::new(),
            fetched: 0,
        }
    }

    async fn fetch_first(&mut self, bytes: Bytes) {
        let bytes = bytes.min(self.adapter.parameters.buffer);
        Rc::clone(&self.adapter).drain(bytes, self.lines).await;
        self.fetched = bytes / BLOCK;
    }

    /// Sends the present buffer on.
    fn send_on(&mut self) {
        let place = self.place.take();
        if self.filled > 0 {
            let drain = Rc::clone(&self.adapter).drain(BLOCK * self.filled, self.lines);
            self.draining.push_back(self.adapter.runtime.spawn(async move {
                drain.await;
                drop(place);
            }));
        }
        (self.filled, self.room) = (0, self.adapter.parameters.buffer / BLOCK);
    }

    /// Waits until at most so many buffers are on their way.
    async fn wait(&mut self, most: usize) {
        while self.draining.len() > most {
            self.draining.pop_front().expect("it is longer than that").await;
        }
    }

    async fn finish(&mut self) {
        self.wait(0).await;
    }

    fn wire(&self, bytes: Bytes) -> Demand {
        let byte_ns = self.byte_time.as_nanos() as f64 + self.pause.as_nanos() as f64 / BLOCK.get() as f64;
        Demand::new(bytes.get() as f64, 1e9 / byte_ns, 0)
            .over(self.adapter.data_path, 1.0 / self.adapter.parameters.data_path.get())
    }
}

impl Port for Transfer {
    fn id(&self) -> u8 {
        self.adapter.parameters.id as u8
    }
    fn gives_way(&self) -> bool {
        self.adapter.parameters.gives_way
    }
    fn in_turn(&self) -> bool {
        self.adapter.parameters.in_turn
    }
    fn pace(&mut self, pause: Duration) {
        self.pause = pause;
    }
    fn answers(&self) -> &Answers {
        &self.adapter.parameters.answers
    }
    fn room(&self) -> u64 {
        if self.room == 0 { self.adapter.parameters.buffer / BLOCK } else { self.room }
    }

    async fn pass(&mut self, blocks: u64, write: bool) {
        let parameters = self.adapter.parameters;
        if write {
            let ready = blocks.min(self.fetched);
            self.fetched -= ready;
            if ready > 0 {
                self.adapter.flows.start(self.wire(BLOCK * ready)).await;
            }
            if blocks > ready {
                // Unit by unit: fetched while the bus waits, then sent.
                let unit = parameters.fetch_unit.get() as f64;
                let between = self.byte_time.as_seconds() + parameters.fetch_setup.as_seconds() / unit;
                let demand = self.adapter.path.demand(BLOCK * (blocks - ready), self.lines, between);
                let demand = demand.over(self.adapter.data_path, 1.0 / parameters.data_path.get());
                let time_outs = self.adapter.flows.start(demand).await;
                self.adapter.count(time_outs);
            }
            return;
        }
        if self.room == 0 {
            self.send_on();
            self.adapter.runtime.sleep(parameters.allocation).await;
            self.wait(parameters.buffers_per_transfer as usize - 1).await;
        }
        if self.place.is_none() {
            self.place = Some(self.adapter.buffers.acquire(0).await);
        }
        self.adapter.flows.start(self.wire(BLOCK * blocks)).await;
        self.room -= blocks;
        self.filled += blocks;
    }

    fn put_down(&mut self) {
        self.send_on();
    }
}
