//! A network file server: a layer of an operating system that answers clients' reads and writes of files.
//!
//! # A request's way
//! ```text
//!   client -> frame -> network adapter -> server code -> file cache | write buffer -> disk driver -> disks
//!   disks -> reply in frames -> client
//! ```
//! What a request takes from its arrival at a client until the client has all of the answer is the study's *overhead
//! per request*. Below the server are the endpoints of every other layer: disks one by one, or the one of a RAID
//! controller. Each file lies whole on one disk, so each part of the address space belongs to a disk.
//!
//! # Two I/O protocols
//! [`Protocol::Locate`] (`locate.rs`) is that of most drivers: only the host sends commands, each is answered by an
//! interrupt, and so many are at a device at a time (`outstanding`: one, or what a RAID controller takes; at the
//! network adapter `sending`, one where that is not said). Data cross the host's memory, where the file cache and the
//! write buffer are. [`Protocol::Move`] (`peer.rs`) has pipes of control elements between all units: the host tells an
//! adapter what to do, and data go from adapter to adapter, each request in pieces of a frame, of which the network and
//! the disks work on several at once. Memory, and with it cache and buffer, see nothing of them.
//!
//! # File cache and write buffer
//! A read that is not in the file cache and is smaller than its block loads a block. Whether it is there decides
//! `hit-ratio`, where a study gives it, or else a real cache of whole blocks, the least recently used first out. A
//! write goes through the buffer, waits there until its disk has no read to do, and is answered when it is on the disk.
//! A share `merged` of the writes is joined with another in the buffer, and asks no disk. What else such buffers do is
//! not known of the study.
//!
//! # Sources
//! K. D. Huynh and T. M. Khoshgoftaar, "A performance analysis of advanced I/O architectures for PC-based network file
//! servers", 1994, Sections 2, 3.2 and 5.

mod cache;
mod locate;
mod parameters;
mod peer;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::RngExt;
use record::PartName;
use runtime::{Random, Resource, Runtime, Signal};
use units::{Bytes, Ratio};

use self::cache::FileCache;
pub use self::parameters::{Protocol, ServerParameters};
use crate::component::{Component, Kind};
use crate::endpoint::Endpoint;
use crate::load::{Gauges, Reading};
use crate::network::Clients;
use crate::os::Os;
use crate::system::Machine;
use crate::trace::{Ledger, Trace};

/// A file server, on the operating system that it is a layer of.
pub const KIND: Kind = Kind {
    name: "file-server",
    on: &["operating-system"],
    fast: &[],
    build: |site| {
        let parameters = site.parameters(ServerParameters::read)?;
        let part = site.trace.part(site.name);
        let random = Random::named(site.seed, &format!("{} hits", site.name));
        Ok(Rc::new(FileServer {
            os: site.on(),
            part,
            cache: RefCell::new(FileCache::new(&parameters)),
            random: RefCell::new(random),
            counts: Counts::default(),
            parameters,
        }))
    },
};

/// The server code with its cache, before it knows disks and clients.
pub struct FileServer {
    parameters: ServerParameters,
    os: Rc<Os>,
    part: PartName,
    cache: RefCell<FileCache>,
    random: RefCell<Random>,
    counts: Counts,
}

/// What it did.
#[derive(Default)]
struct Counts {
    reads: Cell<u64>,
    writes: Cell<u64>,
    hits: Cell<u64>,
    merged: Cell<u64>,
    commands: Cell<u64>,
    interrupts: Cell<u64>,
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

impl Component for FileServer {
    fn gauges(&self, gauges: &mut Gauges) {
        let counts = &self.counts;
        gauges.put("reads", Reading::Count(counts.reads.get()));
        gauges.put("writes", Reading::Count(counts.writes.get()));
        gauges.put("cache hits", Reading::Count(counts.hits.get()));
        gauges.put("merged writes", Reading::Count(counts.merged.get()));
        gauges.put("commands", Reading::Count(counts.commands.get()));
        gauges.put("interrupts", Reading::Count(counts.interrupts.get()));
    }
}

/// A file server at work: with the disks below it and the clients before it.
pub struct Files {
    runtime: Runtime,
    trace: Trace,
    server: Rc<FileServer>,
    clients: Rc<Clients>,
    disks: Vec<Below>,
    /// What each disk stores of the files.
    each: Bytes,
    /// Of the protocol that has one request at the network adapter at a time.
    sending: Resource,
    /// Bytes in the write buffer, or elements' bytes in the pipes; and who waits for room.
    taken: Cell<u64>,
    freed: Signal,
}

/// A disk, and the commands that may be there at a time.
struct Below {
    endpoint: Rc<dyn Endpoint>,
    turn: Resource,
}

/// Why there is no file server.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum ServerError {
    #[error(
        "the system has no file server; add a node of kind 'file-server' on its operating system, or take another way"
    )]
    NoServer,
    #[error("nobody asks the file server; add a node of kind 'clients' on a token ring or an Ethernet")]
    NoClients,
}

impl Files {
    /// The file server of a machine, over these disks.
    pub fn assemble(machine: &Machine, disks: &[Rc<dyn Endpoint>]) -> Result<Rc<Files>, ServerError> {
        let server: Rc<FileServer> = machine.parts().next().ok_or(ServerError::NoServer)?;
        let clients: Rc<Clients> = machine.parts().next().ok_or(ServerError::NoClients)?;
        let runtime = &machine.runtime;
        let below = |endpoint: &Rc<dyn Endpoint>| {
            let outstanding = server.parameters.outstanding.min(endpoint.depth());
            Below { endpoint: Rc::clone(endpoint), turn: Resource::new(runtime, outstanding) }
        };
        let least = disks.iter().map(|disk| disk.size()).min().unwrap_or(Bytes::ZERO);
        Ok(Rc::new(Files {
            disks: disks.iter().map(below).collect(),
            each: least.round_down(clients.network.packet),
            sending: Resource::new(runtime, server.parameters.sending),
            taken: Cell::new(0),
            freed: Signal::default(),
            runtime: runtime.clone(),
            trace: machine.trace.clone(),
            server,
            clients,
        }))
    }

    /// The operating system that it is a layer of.
    pub fn os(&self) -> &Rc<Os> {
        &self.server.os
    }

    /// How much it stores.
    pub fn size(&self) -> Bytes {
        self.each * self.disks.len() as u64
    }

    /// The largest request, and what bounds it.
    pub fn largest(&self) -> (Bytes, &'static str) {
        let parameters = &self.server.parameters;
        match (parameters.protocol, parameters.pipe) {
            (Protocol::Move, Some((pipe, element))) => {
                (self.clients.network.packet * (pipe / element), "the elements of its frames fill its delivery pipes")
            }
            _ => (parameters.cache, "it does not fit the file cache"),
        }
    }

    /// Carries out a request of a client, from its first frame until the client has the last.
    pub async fn serve(self: &Rc<Files>, write: bool, offset: Bytes, bytes: Bytes, ledger: &mut Ledger) {
        let (number, place) = (offset / self.each, offset % self.each);
        // A file ends with its disk.
        let at = (number as usize, place.min(self.each - bytes));
        count(if write { &self.server.counts.writes } else { &self.server.counts.reads });
        match (self.server.parameters.protocol, write) {
            (Protocol::Locate, false) => self.locate_read(at, bytes, ledger).await,
            (Protocol::Locate, true) => self.locate_write(at, bytes, ledger).await,
            (Protocol::Move, _) => self.peer(write, at, bytes, ledger).await,
        }
    }

    fn note(&self, ledger: &mut Ledger, phase: &'static str) {
        ledger.until(self.runtime.now(), self.server.part, phase);
    }

    fn draw(&self, share: Ratio) -> bool {
        self.server.random.borrow_mut().random_bool(share.get())
    }

    /// The host is interrupted.
    async fn interrupt(&self, ledger: &mut Ledger) {
        count(&self.server.counts.interrupts);
        self.server.os.interrupted(ledger).await;
    }

    /// Takes room in buffer or pipes, of which there is so much.
    async fn take_room(&self, bytes: u64, all: u64, ledger: &mut Ledger) {
        self.freed.wait_until(|| self.taken.get() + bytes <= all).await;
        self.taken.set(self.taken.get() + bytes);
        self.note(ledger, "room");
    }

    fn give_room(&self, bytes: u64) {
        self.taken.set(self.taken.get() - bytes);
        self.freed.notify();
    }
}
