//! An export that outlives its connection: the client connects again, and what the server had not made durable is
//! written once more.
//!
//! When a server is started anew, what it had acknowledged and not flushed may be lost, and a later flush would not say
//! so. So every write is kept until a flush says that it is durable ([`Kept`]). On a new connection all of them are
//! written again, in the order in which they were acknowledged, before anything else is; then requests that were under
//! way when the old one broke are sent again. Writing a block twice is writing it once, and who sends two writes to one
//! block side by side has no order to lose. Nothing is written again over newer bytes that are durable.
//!
//! More than [`MOST`] is not kept: then a flush comes first. A server that does not come back within [`PATIENCE`] is
//! gone for good, and its array goes on without it.
//!
//! Before any of that the export must prove that it is the same one, with the same contents
//! ([`evidence`](device::evidence)): same size and blocks, same label, and everything there that was compared of what
//! had been made durable. One that is not is gone for good at once: nothing is written to it, nothing that it says is
//! believed, and whoever waits is told [`DeviceError::Exchanged`].
//!
//! # What it relies on A server has ended with the old connection's requests when it accepts the new one, as it does if
//! it was started anew. One that is alive and still holds a write of a connection that broke, of a network that was cut
//! in two, could carry it out later, over newer data. The protocol has no way to ask.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;

use device::again::{Again, Kept};
use device::evidence::{self, Evidence, Label};
use device::{Buffer, Device, DeviceError, Operation, Reply, Request, Shape, Stamps};
use futures_util::future::{Either, select};
use runtime::{Resource, Runtime};
use units::{Bytes, Duration, Instant};
use uring::{Live, Socket};

use crate::address::Uri;
use crate::client::{Client, ClientError};
use crate::wire::Wire;

/// How long a server may be away: shorter than what an array grants a member for one request.
pub const PATIENCE: Duration = Duration::seconds(25);
/// How much is kept that is not known to be durable.
pub const MOST: Bytes = Bytes::mib(64);
/// Between two attempts.
const PAUSE: Duration = Duration::millis(200);

/// A way to connect, again and again.
pub trait Connect {
    /// What connections run over.
    type Wire: Wire + 'static;
    /// Connects.
    fn connect(&self) -> impl Future<Output = Result<Client<Self::Wire>, ClientError>>;
}

/// The export that a URI names, by sockets.
pub struct ToUri {
    live: Live,
    uri: Uri,
    /// How long one attempt may wait for the server.
    within: Duration,
}

impl Connect for ToUri {
    type Wire = Socket;
    async fn connect(&self) -> Result<Client<Socket>, ClientError> {
        Client::connect_within(&self.live, &self.uri, self.within).await
    }
}

/// An export of another server, as long as that comes back.
pub struct Steady<C: Connect> {
    runtime: Runtime,
    way: C,
    shape: Shape,
    /// The connection, and how many there were before.
    line: RefCell<Option<Rc<Client<C::Wire>>>>,
    generation: Cell<u64>,
    /// When it was noticed that the last one broke, and how long it took to have another.
    broken: Cell<Instant>,
    away: Cell<Duration>,
    kept: RefCell<Kept>,
    /// One connects, the others wait for that.
    connecting: Resource,
    gone: Cell<bool>,
    evidence: RefCell<Evidence>,
    /// What differed when it came back as another one.
    exchanged: RefCell<Option<String>>,
}

/// What became of an attempt to go on over a new connection.
enum TakenUp {
    Yes,
    /// The connection broke, or the server did not do what it was asked.
    No,
    /// It is another export, or another state of it.
    Exchanged(String),
}

impl Steady<ToUri> {
    /// Connects to the export that a URI names, each time within this much, if that is shorter than usual. The first
    /// time the server must be there.
    pub async fn to(live: &Live, uri: &Uri, within: Duration) -> Result<Steady<ToUri>, ClientError> {
        Steady::over(live.runtime(), ToUri { live: live.clone(), uri: uri.clone(), within }).await
    }
}

impl<C: Connect> Steady<C> {
    /// Connects some way.
    pub async fn over(runtime: &Runtime, way: C) -> Result<Steady<C>, ClientError> {
        let client = way.connect().await?;
        Ok(Steady {
            runtime: runtime.clone(),
            way,
            shape: client.shape().clone(),
            line: RefCell::new(Some(Rc::new(client))),
            generation: Cell::new(0),
            broken: Cell::new(runtime.now()),
            away: Cell::new(Duration::ZERO),
            kept: RefCell::default(),
            connecting: Resource::new(runtime, 1),
            gone: Cell::new(false),
            evidence: RefCell::default(),
            exchanged: RefCell::default(),
        })
    }

    /// From now on the export is recognised by this label, as it is now, too, when it is connected again. One that is
    /// too small for it has none.
    pub async fn recognise(&self, label: impl Label + 'static) -> Result<(), DeviceError> {
        let range = label.range();
        if range.end > self.shape.size || !range.start.is_multiple_of(self.shape.logical_block) {
            return Ok(());
        }
        let reply = self.submit(Request::read(range.start, Buffer::zeroed(range.end - range.start))).await;
        reply.result?;
        let buffer = reply.buffer.expect("a read gives its buffer back");
        self.evidence.borrow_mut().recognise(Box::new(label), buffer.bytes().expect("it is real"));
        Ok(())
    }

    /// What differed, if it came back as another export, or without what had been made durable.
    pub fn exchanged(&self) -> Option<String> {
        self.exchanged.borrow().clone()
    }

    /// How often it has connected again.
    pub fn reconnections(&self) -> u64 {
        self.generation.get()
    }

    /// Whether there is no connection. That one has ended is known when a request is not answered.
    pub fn is_away(&self) -> bool {
        self.line.borrow().is_none()
    }

    /// How long it was [away](Steady::is_away) before it connected again, the last time.
    pub fn last_away(&self) -> Duration {
        self.away.get()
    }

    /// Whether its server has answered everything that it was asked on the connection, what nobody waits for any more
    /// included.
    pub fn is_idle(&self) -> bool {
        self.line.borrow().as_ref().is_none_or(|client| client.is_idle())
    }

    /// The connection, a new one if need be.
    async fn line(&self) -> Result<(Rc<Client<C::Wire>>, u64), DeviceError> {
        let there = || Some((self.line.borrow().clone()?, self.generation.get()));
        if let Some(line) = there() {
            return Ok(line);
        }
        let _one = self.connecting.acquire(0).await;
        if let Some(line) = there() {
            return Ok(line);
        }
        if self.gone.get() {
            return Err(self.end());
        }
        let deadline = self.runtime.now() + PATIENCE;
        loop {
            let attempt = async {
                let client = Rc::new(self.way.connect().await.ok()?);
                match self.take_up(&client).await {
                    TakenUp::Yes => return Some(client),
                    TakenUp::No => {}
                    TakenUp::Exchanged(difference) => {
                        self.exchanged.replace(Some(difference));
                        self.gone.set(true);
                    }
                }
                None
            };
            let client = match select(pin!(attempt), pin!(self.runtime.sleep_until(deadline))).await {
                Either::Left((client, _)) => client,
                Either::Right(_) => None,
            };
            if let Some(client) = client {
                self.evidence.borrow_mut().reconnected();
                *self.line.borrow_mut() = Some(Rc::clone(&client));
                self.away.set(self.runtime.now().since(self.broken.get()));
                self.generation.set(self.generation.get() + 1);
                return Ok((client, self.generation.get()));
            }
            if self.gone.get() || self.runtime.now() + PAUSE >= deadline {
                self.gone.set(true);
                return Err(self.end());
            }
            self.runtime.sleep(PAUSE).await;
        }
    }

    /// Why it is gone for good.
    fn end(&self) -> DeviceError {
        if self.exchanged.borrow().is_some() { DeviceError::Exchanged } else { DeviceError::Gone }
    }

    /// Has the export prove what it is, and writes again what the server may have lost.
    async fn take_up(&self, client: &Client<C::Wire>) -> TakenUp {
        match evidence::difference(&self.evidence, &self.shape, client).await {
            Err(_) => return TakenUp::No,
            Ok(Some(difference)) => return TakenUp::Exchanged(difference),
            Ok(None) => {}
        }
        let writes = self.kept.borrow().writes();
        for write in writes {
            if client.submit(write).await.result.is_err() {
                return TakenUp::No;
            }
        }
        TakenUp::Yes
    }

    /// The connection of this generation has broken.
    fn broke(&self, generation: u64) {
        if self.generation.get() == generation && self.line.take().is_some() {
            self.broken.set(self.runtime.now());
        }
    }

    /// Makes durable what is kept, when it is too much.
    async fn make_room(&self) -> Result<(), DeviceError> {
        if self.kept.borrow().bytes() < MOST {
            return Ok(());
        }
        self.send(Request::flush()).await.result
    }

    /// Sends a request until it is answered by a server that is there.
    async fn send(&self, request: Request) -> Reply {
        let (offset, length, fua) = (request.offset, request.length, request.fua);
        let again = Again::of(&request);
        if !again.is_write() {
            let refusals = self.evidence.borrow().refusals();
            let reply = self.send_numbered(request, &again, 0).await;
            if let (Ok(()), Some(bytes)) = (&reply.result, reply.buffer.as_ref().and_then(Buffer::bytes)) {
                self.evidence.borrow_mut().read(refusals, offset, bytes);
            }
            return reply;
        }
        let number = self.evidence.borrow_mut().sent(offset..offset + length, again.put());
        let waiting = Waiting { evidence: &self.evidence, number };
        let reply = self.send_numbered(request, &again, number).await;
        self.evidence.borrow_mut().answered(number, &reply.result, fua, again.data());
        drop(waiting);
        reply
    }

    /// As [`send`](Steady::send), of a write that has a number among the evidence.
    async fn send_numbered(&self, mut request: Request, again: &Again, number: u64) -> Reply {
        let submitted = self.runtime.now();
        loop {
            let (client, generation) = match self.line().await {
                Ok(line) => line,
                Err(error) => return request.refuse(error, submitted),
            };
            let mark = self.kept.borrow().mark();
            let reply = client.submit(request).await;
            drop(client);
            match &reply.result {
                Err(DeviceError::Gone) => self.broke(generation),
                Ok(()) if again.operation() == Operation::Flush => {
                    self.kept.borrow_mut().forget(mark, &mut self.evidence.borrow_mut());
                }
                Ok(()) if again.is_write() => self.kept.borrow_mut().keep(number, mark, again),
                _ => {}
            }
            if reply.result != Err(DeviceError::Gone) {
                return since(reply, submitted);
            }
            request = again.request(reply.buffer);
        }
    }
}

/// Somebody waits for a write until it is dropped.
struct Waiting<'a> {
    evidence: &'a RefCell<Evidence>,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.evidence.borrow_mut().abandoned(self.number);
    }
}

/// The reply to a request that may have been sent several times.
fn since(reply: Reply, submitted: Instant) -> Reply {
    Reply { stamps: Stamps { submitted, ..reply.stamps }, ..reply }
}

impl<C: Connect> Device for Steady<C> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, request: Request) -> Reply {
        let submitted = self.runtime.now();
        if let Err(error) = self.shape.check(&request) {
            return request.refuse(error, submitted);
        }
        let writes = !matches!(request.operation, Operation::Read | Operation::Flush);
        if writes && let Err(error) = self.make_room().await {
            return request.refuse(error, submitted);
        }
        self.send(request).await
    }
}
