//! The export of another server as a device.
//!
//! Requests are sent as they come and answered in any order; as many are under way as the caller sends. Replies are
//! simple ones: a device here is read in one piece, so chunks would only cost. What was under way when the connection
//! broke has failed with [`DeviceError::Gone`], and so does everything after it: whether a write was done is then not
//! known, and an array decides what that means.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use device::{Buffer, Device, DeviceError, Operation, Payload, Pool, Reply, Request, Shape, Stamps};
use futures_util::future::{Either, select};
use runtime::Runtime;
use units::{Bytes, Duration};
use uring::{Body, Live, Parcel, Socket};

use crate::address::{Place, Uri};
use crate::greet::{GreetError, Offer, greet};
use crate::inlet::Inlet;
use crate::outlet::Outlet;
use crate::protocol::{LARGEST_PAYLOAD, Reader, RequestHeader, SIMPLE_REPLY_MAGIC, command, flag, transmission};
use crate::reach::connect_tcp;
use crate::tls::{ClientTls, TlsError};
use crate::wire::{Link, Wire};

/// An export of another server. Dropping it ends the connection.
pub struct Client<W: Wire + 'static = Socket> {
    shape: Shape,
    offer: Offer,
    /// The largest payload of one request; a multiple of the logical block.
    most: Bytes,
    line: Rc<Line<W>>,
    runtime: Runtime,
}

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum ClientError {
    #[error("{uri}: {source}")]
    Connect { uri: String, source: uring::ConnectError },
    #[error("{uri}: {source}")]
    Greet { uri: String, source: GreetError },
    #[error("{uri}: {source}")]
    Tls { uri: String, source: TlsError },
    #[error("{uri}: no folder of certificates was given; add ?tls-certificates=FOLDER")]
    NoCertificates { uri: String },
}

impl Client<Socket> {
    /// Connects to the export that a URI names.
    pub async fn connect(live: &Live, uri: &Uri) -> Result<Client<Socket>, ClientError> {
        Client::connect_within(live, uri, WAIT).await
    }

    /// As [`connect`](Client::connect), where the address, and then the server, may take no longer than `within`, or
    /// than is usual.
    pub async fn connect_within(live: &Live, uri: &Uri, within: Duration) -> Result<Client<Socket>, ClientError> {
        let within = within.min(WAIT);
        let name = uri.to_string();
        let tls = match (uri.tls, &uri.certificates) {
            (false, _) => None,
            (true, None) => return Err(ClientError::NoCertificates { uri: name }),
            (true, Some(folder)) => match ClientTls::from_folder(folder) {
                Ok(tls) => Some(tls),
                Err(source) => return Err(ClientError::Tls { uri: name, source }),
            },
        };
        let (socket, host) = match &uri.place {
            Place::Unix(path) => (Socket::reach_unix(live, path, within).await, "localhost"),
            Place::Tcp(host, port) => (connect_tcp(live, host, *port, within).await, host.as_str()),
        };
        let socket = socket.map_err(|source| ClientError::Connect { uri: name.clone(), source })?;
        let tls = tls.as_ref().map(|tls| (tls, host));
        let client = Client::greeted(live.runtime(), socket, &name, &uri.export, tls, within).await;
        client.map_err(|source| ClientError::Greet { uri: name, source })
    }
}

/// How long an address may take to be found and to answer, and a server to offer an export: each long enough for a busy
/// machine at the other end of the world, and both together shorter than what an export may be away for
/// ([`PATIENCE`](crate::PATIENCE)), so that it is tried again.
const WAIT: Duration = Duration::seconds(10);

impl<W: Wire + 'static> Client<W> {
    /// Asks for an export over a wire, for ten seconds. The device has the name `name` in results.
    pub async fn over(
        runtime: &Runtime,
        wire: W,
        name: &str,
        export: &str,
        tls: Option<(&ClientTls, &str)>,
    ) -> Result<Client<W>, GreetError> {
        Client::greeted(runtime, wire, name, export, tls, WAIT).await
    }

    async fn greeted(
        runtime: &Runtime,
        wire: W,
        name: &str,
        export: &str,
        tls: Option<(&ClientTls, &str)>,
        within: Duration,
    ) -> Result<Client<W>, GreetError> {
        let wire = Rc::new(wire);
        let greeting = Box::pin(greet(Rc::clone(&wire), export, tls));
        // A server that is stopped has its connections taken by the kernel, and never says a word.
        let greeted = match select(greeting, pin!(runtime.sleep(within))).await {
            Either::Left((greeted, _)) => greeted,
            Either::Right(_) => Err(GreetError::Silent { export: export.into(), within }),
        };
        let (inlet, link, offer) = greeted.inspect_err(|_| {
            wire.stop_sending();
            wire.stop_receiving();
        })?;
        let [least, preferred, most] = offer.blocks;
        // A server that takes single bytes reads and writes around them; sectors are what devices here are made of.
        let logical_block = Bytes::new(least.into()).round_up(Bytes::SECTOR);
        let physical_block = Bytes::new(u64::from(preferred).next_power_of_two()).round_up(logical_block);
        let size = Bytes::new(offer.size).round_down(logical_block);
        let shape = Shape { name: name.to_owned(), size, logical_block, physical_block };
        let most = Bytes::new(most.min(LARGEST_PAYLOAD).into()).round_down(logical_block);
        if most.is_zero() {
            return Err(GreetError::Foreign("its largest request is smaller than a sector"));
        }
        let line = Rc::new(Line {
            outlet: Outlet::new(link, Rc::new(Pool::default())),
            waiting: RefCell::default(),
            free: RefCell::default(),
            gone: Cell::new(false),
        });
        let (sender, receiver) = (Rc::clone(&line), Rc::clone(&line));
        runtime.spawn_detached(async move { sender.outlet.run().await });
        runtime.spawn_detached(async move { receiver.receive(inlet).await });
        Ok(Client { shape, offer, most, line, runtime: runtime.clone() })
    }

    /// Whether the server has answered everything that it was asked, what nobody waits for any more included.
    pub fn is_idle(&self) -> bool {
        self.line.waiting.borrow().iter().flatten().all(|waiting| waiting.outcome.is_some())
    }

    /// Sends a request in as many pieces as the server wants.
    async fn carry_out(&self, request: &mut Request) -> Result<(), DeviceError> {
        let can = |flag: u16| self.offer.flags & flag != 0;
        let writes = !matches!(request.operation, Operation::Read | Operation::Flush);
        if writes && can(transmission::READ_ONLY) {
            return Err(DeviceError::ReadOnly);
        }
        let supported = match request.operation {
            Operation::Read | Operation::Write => true,
            Operation::Flush => can(transmission::SEND_FLUSH),
            Operation::Discard => can(transmission::SEND_TRIM),
            Operation::WriteZeroes => can(transmission::SEND_WRITE_ZEROES),
        };
        if !supported {
            return Err(DeviceError::Unsupported);
        }
        if request.length.is_zero() && request.operation != Operation::Flush {
            return Ok(());
        }
        let durable = request.fua && can(transmission::SEND_FUA);
        let flags = if durable { flag::FUA } else { 0 };
        // Ranges are as long as the number in the header allows; they move nothing.
        let longest = Bytes::new(1 << 31);
        let (offset, length) = (request.offset, request.length);
        match (request.operation, &mut request.payload) {
            (Operation::Read, Payload::Into(buffer)) => self.read(offset, buffer).await?,
            (Operation::Write, Payload::From(data)) => {
                for (at, piece) in pieces(length, self.most) {
                    let part = Body::Data(data.slice(at, piece));
                    self.ask(command::WRITE, flags, offset + at, piece, part).await?;
                }
            }
            (Operation::Flush, Payload::None) => {
                self.ask(command::FLUSH, 0, Bytes::ZERO, Bytes::ZERO, Body::None).await?;
            }
            (Operation::Discard, Payload::None) => {
                for (at, piece) in pieces(length, longest) {
                    self.ask(command::TRIM, flags, offset + at, piece, Body::None).await?;
                }
            }
            (Operation::WriteZeroes, Payload::None) => {
                for (at, piece) in pieces(length, longest) {
                    let flags = if request.punch { flags } else { flags | flag::NO_HOLE };
                    self.ask(command::WRITE_ZEROES, flags, offset + at, piece, Body::None).await?;
                }
            }
            (operation, payload) => panic!("a {operation:?} with payload {payload:?}"),
        }
        if request.fua && writes && !durable {
            if !can(transmission::SEND_FLUSH) {
                return Err(DeviceError::Unsupported);
            }
            self.ask(command::FLUSH, 0, Bytes::ZERO, Bytes::ZERO, Body::None).await?;
        }
        Ok(())
    }

    /// Reads into a buffer, which is whole again afterwards.
    async fn read(&self, offset: Bytes, buffer: &mut Buffer) -> Result<(), DeviceError> {
        let length = buffer.len();
        let mut rest = std::mem::replace(buffer, Buffer::zeroed(Bytes::ZERO));
        let mut whole: Option<Buffer> = None;
        let mut result = Ok(());
        for (at, piece) in pieces(length, self.most) {
            let part = rest.split_to(piece);
            let part = match result {
                Ok(()) => {
                    let (part, read) = self.line.ask_for(request(command::READ, 0, offset + at, piece), part).await;
                    result = read.map_err(|error| located(error, offset + at, piece));
                    part
                }
                Err(_) => part,
            };
            match &mut whole {
                Some(whole) => whole.join(part),
                None => whole = Some(part),
            }
        }
        *buffer = whole.expect("a read of something has a piece");
        result
    }

    async fn ask(&self, command: u16, flags: u16, offset: Bytes, length: Bytes, body: Body) -> Result<(), DeviceError> {
        let answered = self.line.ask(request(command, flags, offset, length), body, None).await;
        answered.1.map_err(|error| located(error, offset, length))
    }
}

impl<W: Wire + 'static> Device for Client<W> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, mut request: Request) -> Reply {
        let submitted = self.runtime.now();
        if let Err(error) = self.shape.check(&request) {
            return request.refuse(error, submitted);
        }
        let result = self.carry_out(&mut request).await;
        request.answer(result, Stamps { submitted, completed: self.runtime.now() })
    }
}

impl<W: Wire + 'static> Drop for Client<W> {
    fn drop(&mut self) {
        // No reply: the server finishes what is under way and closes.
        self.line.outlet.push(Parcel::head(request(command::DISCONNECT, 0, Bytes::ZERO, Bytes::ZERO).to_bytes()), ());
        self.line.outlet.end();
    }
}

/// Where the pieces of a length begin, and how long each is.
fn pieces(length: Bytes, most: Bytes) -> impl Iterator<Item = (Bytes, Bytes)> {
    (0..length.get().div_ceil(most.get())).map(move |piece| {
        let at = most * piece;
        (at, most.min(length - at))
    })
}

fn request(command: u16, flags: u16, offset: Bytes, length: Bytes) -> RequestHeader {
    RequestHeader { flags, command, cookie: 0, offset: offset.get(), length: length.get() as u32 }
}

/// An error of the protocol's number, as one of a device.
fn located(error: Failure, offset: Bytes, length: Bytes) -> DeviceError {
    match error {
        // 108: the server is shutting down.
        Failure::Gone | Failure::Number(108) => DeviceError::Gone,
        // What the server calls not permitted is a write to what is read-only.
        Failure::Number(1) => DeviceError::ReadOnly,
        // The numbers are Linux's.
        Failure::Number(number) => DeviceError::from_errno(number.cast_signed(), offset, length),
    }
}

/// What became of a request.
#[derive(Debug, Clone, Copy)]
enum Failure {
    Gone,
    Number(u32),
}

/// The connection: who waits for which reply.
struct Line<W> {
    outlet: Outlet<Link<W>, ()>,
    /// By cookie.
    waiting: RefCell<Vec<Option<Waiting>>>,
    free: RefCell<Vec<usize>>,
    gone: Cell<bool>,
}

/// Somebody who waits.
struct Waiting {
    /// Where a read goes.
    into: Option<Buffer>,
    outcome: Option<Result<(), Failure>>,
    waker: Option<Waker>,
    /// Nobody waits any more; the reply will come all the same.
    abandoned: bool,
}

impl<W: Wire> Line<W> {
    async fn ask_for(&self, header: RequestHeader, into: Buffer) -> (Buffer, Result<(), Failure>) {
        let (into, result) = self.ask(header, Body::None, Some(into)).await;
        (into.expect("a read's buffer comes back"), result)
    }

    /// Sends a request and waits for its reply.
    async fn ask(
        &self,
        header: RequestHeader,
        body: Body,
        into: Option<Buffer>,
    ) -> (Option<Buffer>, Result<(), Failure>) {
        if self.gone.get() {
            return (into, Err(Failure::Gone));
        }
        let waiting = Waiting { into, outcome: None, waker: None, abandoned: false };
        let cookie = {
            let (mut all, mut free) = (self.waiting.borrow_mut(), self.free.borrow_mut());
            let cookie = free.pop().unwrap_or_else(|| {
                all.push(None);
                all.len() - 1
            });
            assert!(all[cookie].is_none(), "a free cookie is nobody's");
            all[cookie] = Some(waiting);
            cookie
        };
        let header = RequestHeader { cookie: cookie as u64, ..header };
        self.outlet.push(Parcel { head: header.to_bytes(), body }, ());
        let mut place = Seat { line: self, cookie, taken: false };
        poll_fn(|context| {
            let mut all = self.waiting.borrow_mut();
            let waiting = all[cookie].as_mut().expect("a cookie is its request's until the reply is taken");
            match waiting.outcome {
                None => {
                    waiting.waker = Some(context.waker().clone());
                    Poll::Pending
                }
                Some(outcome) => {
                    let into = waiting.into.take();
                    place.taken = true;
                    all[cookie] = None;
                    self.free.borrow_mut().push(cookie);
                    Poll::Ready((into, outcome))
                }
            }
        })
        .await
    }

    /// Takes replies until the connection ends; then nobody waits any more.
    async fn receive(&self, mut inlet: Inlet<Link<W>>) {
        while self.take_reply(&mut inlet).await.is_some() {}
        self.gone.set(true);
        let cookies = self.waiting.borrow().len();
        for cookie in 0..cookies {
            self.settle(cookie, None, Err(Failure::Gone));
        }
        self.outlet.end();
    }

    /// Takes one reply; `None` if there are no more, or if it makes no sense.
    async fn take_reply(&self, inlet: &mut Inlet<Link<W>>) -> Option<()> {
        const REPLY: usize = 16;
        if !inlet.wait_for(REPLY).await.ok()? {
            return None;
        }
        let mut header = Reader(inlet.take(REPLY));
        let (magic, error, cookie) = (header.u32()?, header.u32()?, header.u64()?);
        let cookie = usize::try_from(cookie).ok()?;
        if magic != SIMPLE_REPLY_MAGIC {
            return None;
        }
        let into = {
            let mut all = self.waiting.borrow_mut();
            let waiting = all.get_mut(cookie)?.as_mut().filter(|waiting| waiting.outcome.is_none())?;
            waiting.into.take()
        };
        let (into, outcome) = match (into, error) {
            (Some(into), 0) => {
                let length = into.len();
                match inlet.read(into).await {
                    Ok(into) => (Some(into), Ok(())),
                    // The buffer is lost with the connection; whoever waits gets another of its length.
                    Err(_) => {
                        self.settle(cookie, Some(Buffer::zeroed(length)), Err(Failure::Gone));
                        return None;
                    }
                }
            }
            (into, 0) => (into, Ok(())),
            (into, number) => (into, Err(Failure::Number(number))),
        };
        self.settle(cookie, into, outcome);
        Some(())
    }

    /// A request is over.
    fn settle(&self, cookie: usize, into: Option<Buffer>, outcome: Result<(), Failure>) {
        let mut all = self.waiting.borrow_mut();
        let Some(waiting) = &mut all[cookie] else { return };
        if waiting.outcome.is_some() {
            return;
        }
        if waiting.abandoned {
            all[cookie] = None;
            self.free.borrow_mut().push(cookie);
            return;
        }
        if into.is_some() {
            waiting.into = into;
        }
        waiting.outcome = Some(outcome);
        if let Some(waker) = waiting.waker.take() {
            waker.wake();
        }
    }
}

/// The place of somebody who waits, left when the future is dropped.
struct Seat<'a, W> {
    line: &'a Line<W>,
    cookie: usize,
    taken: bool,
}

impl<W> Drop for Seat<'_, W> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut all = self.line.waiting.borrow_mut();
        let waiting = all[self.cookie].as_mut().expect("a cookie is its request's until the reply is taken");
        if waiting.outcome.is_some() {
            all[self.cookie] = None;
            self.line.free.borrow_mut().push(self.cookie);
        } else {
            waiting.abandoned = true;
        }
    }
}
