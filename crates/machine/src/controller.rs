//! A RAID controller: a board with drives of its own, of which the host sees one.
//!
//! # A command's way
//! The host rings and the board fetches the command, as at any device on PCI Express. Its processor takes the command
//! in. The data of a read come from the board's cache or from the drives, and cross the board's memory and the host's
//! link; those of a write come the other way, and are complete when they are in the cache (write-back) or on the drives
//! (write-through). Then the processor completes the command.
//!
//! What lies on which drive, and which reads new parity takes, the array of this project says, as it does over real
//! devices ([`crate::raid`]): the board is one more host of it. Each command to a drive takes the board's processor
//! twice, to send it and to complete it. Parity is an engine's, at a rate of bytes that it reads; one computation is
//! under way at a time. Each byte that goes to a drive or comes from one crosses the board's memory.
//!
//! # Write-back
//! The board writes dirty data to the drives in the order of their addresses, and begins anew at the lowest when it has
//! reached the highest (an elevator). It writes at most a stripe at a time. Small writes that lie side by side become
//! one (`cache.rs`). A write waits while the dirty data leave no room for it. The cache survives a power cut, as one
//! with a battery does; so the array needs no log against the write hole.
//!
//! # Beside the requests
//! Drives may have failed, and the array may fill a new one or be scrubbed ([`crate::raid::upkeep`]).
//!
//! # Given hits
//! A study may know how often its cache hits, and not what was asked for. `read-hits` then decides whether a read is in
//! the cache, whatever its size, and `parity-hits` whether a read is that the new parity of a host's write needs
//! (`given.rs`).
//!
//! # Rejected
//! A second RAID in here.
//!
//! # Not modelled
//! Reading ahead by the board: its drives do.
//!
//! # Sources
//! Intel RAID Controller RS2PI008, technical product specification, table 15 (write back and write through, cached
//! reads). NVM Express Base Specification 2.0, Section 3.3, for messages on the link. The elevator is assumed: no maker
//! says in which order a board writes.

pub(crate) mod cache;
pub(crate) mod given;
mod parameters;

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use device::{Data, Device, Request};
use record::PartName;
use runtime::{Resource, Runtime, Signal};
use units::{Bytes, Duration, Rate};

use self::cache::Cache;
use self::given::Given;
use self::parameters::ControllerParameters;
use crate::attendance::Attendance;
use crate::component::{Component, Fast, Kind, Owner, Places, Site};
use crate::endpoint::{Endpoint, Executing};
use crate::lines::Lines;
use crate::load::{Gauges, Reading};
use crate::packet::route::{Leg, Route, Wires};
use crate::packet::sas::{Board, Port};
use crate::part::PartError;
use crate::raid::inside::{Behind, Engine, Spared};
use crate::raid::upkeep::Done;
use crate::scsi::protocol::Passage;
use crate::scsi::target::{BLOCK, Command};
use crate::trace::{Ledger, Trace};

/// A board with drives of its own.
pub const KIND: Kind = Kind {
    name: "raid-controller",
    on: &["pcie-root", "pcie-switch", "backplane"],
    fast: &[
        Fast {
            limit: "RAID controllers",
            values: &["command", "completion", "member", "buffer", "link.lanes", "link.latency"],
        },
        Fast { limit: "parity engines", values: &["parity"] },
        Fast { limit: "SAS lanes", values: &["lane"] },
    ],
    build: |site| Ok(Controller::build(site)?),
};

impl Component for Controller {
    fn gauges(&self, gauges: &mut Gauges) {
        let (up, down) = self.wires.busy();
        gauges.put("", Reading::Present(self.attendance.sum(self.runtime.now())));
        gauges.put("processor", Reading::Busy(self.board.processor.busy()));
        gauges.put("parity", Reading::Busy(self.engine.turn.busy()));
        gauges.put("memory", Reading::Busy(self.memory.busy().0));
        gauges.put("link up", Reading::Busy(up));
        gauges.put("link down", Reading::Busy(down));
        gauges.put("read hits", Reading::Count(self.hits.get()));
        self.parameters.upkeep.gauge(&self.done, gauges);
        gauges.put("most dirty KiB", Reading::Most(self.cache.borrow().most_dirty() >> 10));
    }
    fn rate(&self) -> Option<Rate> {
        let (link, memory) = (self.wires.rate(), self.memory.rate());
        Some(if link < memory { link } else { memory })
    }
    fn places(&self) -> Option<Places> {
        Some(Places { key: "port", count: self.parameters.adapter.ports, taken: None })
    }
    fn port(&self) -> Option<&Port> {
        Some(&self.port)
    }
    fn endpoint(self: Rc<Self>) -> Option<Rc<dyn Endpoint>> {
        Some(self)
    }
    fn owner(self: Rc<Self>) -> Option<Rc<dyn Owner>> {
        Some(self)
    }
}

/// The board.
struct Controller {
    parameters: ControllerParameters,
    runtime: Runtime,
    trace: Trace,
    part: PartName,
    /// Of its link to the host.
    wires: Wires,
    /// Of its memory.
    memory: Wires,
    /// From its memory to that of the host.
    route: Route,
    /// Its side towards the host.
    board: Board,
    /// Its side towards its drives.
    port: Port,
    engine: Engine,
    cache: RefCell<Cache>,
    /// What of it is given.
    given: Rc<Given>,
    /// Something became dirty, or clean.
    changed: Signal,
    /// Where the last write to the drives ended.
    arm: Cell<u64>,
    hits: Cell<u64>,
    /// How far its upkeep is.
    done: Done,
    behind: OnceCell<Behind>,
    attendance: Attendance,
}

impl Controller {
    fn build(site: &Site) -> Result<Rc<Controller>, PartError> {
        let parameters = site.parameters(ControllerParameters::read)?;
        let (runtime, flows, part) = (site.runtime, site.flows, site.trace.part(site.name));
        let adapter = &parameters.adapter;
        let link = adapter.link.leg(flows);
        let wires = Wires::new(flows, link.clone(), part);
        // One memory for both directions.
        let cost = 1.0 / parameters.buffer.get();
        let bus = flows.link();
        let inner = Leg { up: (bus, cost), down: (bus, cost), ask: 0.0, answer: 0.0, latency: Duration::ZERO };
        let memory = Wires::new(flows, inner.clone(), part);
        let to_host = site.board_route(adapter.link, link)?;
        let route = to_host.beyond(inner.clone()).ok_or_else(|| site.too_far())?;
        let processor = Resource::new(runtime, 1);
        let board = |command, completion, queue| Board {
            command,
            completion,
            register_word: site.register_word(),
            runtime: runtime.clone(),
            part,
            processor: processor.clone(),
            queue: Resource::new(runtime, queue),
        };
        let drives = Route::within(runtime, flows).beyond(inner).expect("a way may have a leg");
        let inside = board(parameters.member, parameters.member, u32::MAX);
        let port = Port::new(drives, adapter.drives, flows, inside).ok_or_else(|| site.too_far())?;
        Ok(Rc::new(Controller {
            board: board(adapter.command, adapter.completion, adapter.queue),
            runtime: runtime.clone(),
            trace: site.trace.clone(),
            part,
            wires,
            memory,
            route,
            port,
            engine: Engine { turn: Resource::new(runtime, 1), rate: parameters.parity },
            cache: RefCell::new(Cache::new(parameters.cache.size, parameters.cache.line)),
            given: Rc::new(Given::new(&parameters.cache, site.name, site.seed)),
            changed: Signal::default(),
            arm: Cell::new(0),
            hits: Cell::new(0),
            done: Done::default(),
            behind: OnceCell::new(),
            attendance: Attendance::default(),
            parameters,
        }))
    }

    fn behind(&self) -> &Behind {
        self.behind.get().expect("a machine gives controllers their drives when it is built")
    }

    async fn carry_out(&self, command: Command, lines: Lines, ledger: &mut Ledger) {
        let note = |ledger: &mut Ledger, phase| ledger.until(self.runtime.now(), self.part, phase);
        let _present = self.attendance.enter(&self.runtime);
        let place = self.board.take(ledger).await;
        // The doorbell and the fetch of the command, there and back.
        self.route.signal(3).await;
        note(ledger, "command");
        let bytes = command.bytes();
        let range = (BLOCK * command.first).get()..(BLOCK * (command.first + command.blocks)).get();
        if command.write {
            let back = self.parameters.cache.write_back;
            if back {
                let most = self.parameters.cache.dirty_most.max(bytes.get());
                self.changed.wait_until(|| self.cache.borrow().dirty() + bytes.get() <= most).await;
                self.cache.borrow_mut().reserve(bytes.get());
                note(ledger, "cache-full");
            }
            self.route.signal(2).await;
            self.route.transfer(bytes, false, lines).await;
            note(ledger, "transfer");
            if back {
                self.cache.borrow_mut().write(range);
                self.changed.notify();
            } else {
                self.behind().through(command, ledger).await;
                self.cache.borrow_mut().keep(range);
            }
        } else {
            let hit = match self.given.read() {
                Some(hit) => hit,
                None => self.cache.borrow_mut().hits(range.clone()),
            };
            if hit {
                self.hits.set(self.hits.get() + 1);
            } else {
                self.behind().through(command, ledger).await;
                self.cache.borrow_mut().keep(range);
            }
            self.route.transfer(bytes, true, lines).await;
            note(ledger, "transfer");
        }
        self.route.signal(1).await;
        note(ledger, "completion");
        self.board.complete(ledger).await;
        drop(place);
    }

    /// Writes what is dirty to the drives, for ever.
    async fn destage(&self) {
        let behind = self.behind();
        loop {
            self.changed.wait_until(|| self.cache.borrow().has_unwritten()).await;
            let Range { start, end } = self.cache.borrow_mut().next(self.arm.get(), behind.stripe.get());
            self.arm.set(end);
            let (address, bytes) = (Bytes::new(start), Bytes::new(end - start));
            let request = Request::write(address, Data::phantom(bytes)).with_id(behind.number());
            behind.array.submit(request).await.result.expect("a modelled member does what it is asked");
            self.cache.borrow_mut().written(start..end);
            self.changed.notify();
        }
    }
}

impl Owner for Controller {
    fn adopt(self: Rc<Self>, drives: Vec<(Arc<str>, Rc<dyn Endpoint>)>) -> Result<(), String> {
        let (level, all) = (self.parameters.layout.0, drives.len());
        if level.parities() == 1 && all < 3 {
            let name = level.name();
            return Err(format!("{name} of {all} drives has no row to compute parity of; give it three or more"));
        }
        let place = (&self.runtime, &self.trace, self.part);
        let given = Rc::clone(&self.given);
        let spared: Spared = Rc::new(move |bytes| given.parity(bytes));
        let behind = Behind::assemble(place, self.engine.clone(), Some(spared), self.parameters.layout, drives)?;
        behind.array.reconstruct_writes(self.parameters.reconstructs);
        let upkeep = self.parameters.upkeep;
        upkeep.check(level, all)?;
        upkeep.fail(&behind.array, all);
        let new = upkeep.replaced(all).map(|place| (place, behind.another(place), Bytes::ZERO));
        let adopted = self.behind.set(behind);
        assert!(adopted.is_ok(), "a controller is given its drives once");
        let controller = Rc::clone(&self);
        self.runtime.spawn_detached(async move {
            upkeep.carry_out(&controller.behind().array, new, &controller.done).await;
        });
        if self.parameters.cache.write_back {
            for _ in 0..self.parameters.cache.destages {
                let controller = Rc::clone(&self);
                self.runtime.spawn_detached(async move { controller.destage().await });
            }
        }
        Ok(())
    }
}

impl Endpoint for Controller {
    fn size(&self) -> Bytes {
        self.behind().size()
    }
    fn depth(&self) -> u32 {
        self.parameters.adapter.queue
    }
    fn execute<'a>(&'a self, command: Command, lines: Lines, ledger: &'a mut Ledger) -> Executing<'a> {
        Box::pin(async move {
            self.carry_out(command, lines, ledger).await;
            Passage::default()
        })
    }
    /// A doorbell is a posted write: the processor does not wait for it.
    fn register_word(&self) -> Duration {
        Duration::ZERO
    }
    fn busy(&self) -> Duration {
        self.attendance.sum(self.runtime.now())
    }
}
