//! One client: greeting, haggling, requests.
//!
//! One task reads requests, a task for each carries it out, and one sends the replies. What the client gets wrong is answered as the
//! protocol says; what cannot be answered (a header without its magic number, for nobody knows where the next one begins) ends the
//! connection. Nothing that a client sends ends the server.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use device::{Buffer, Pool};
use futures_util::future::{Either, join, select};
use runtime::Runtime;
use units::{Bytes, Duration};
use uring::Parcel;

use crate::budget::{Budget, Limits, Share};
use crate::carry::carry_out;
use crate::command::{Command, Terms};
use crate::export::Exports;
use crate::haggle::{Agreement, Haggle, Next, Tls as Encryption};
use crate::inlet::Inlet;
use crate::outlet::Outlet;
use crate::protocol::{INIT_MAGIC, OPTION_MAGIC, REQUEST_HEADER, Reader, RequestHeader, command, greeting};
use crate::reply::{Heading, Problem};
use crate::tls::{ServerTls, Tls};
use crate::wire::{Link, Wire};

/// A client that has no export after this long is sent away: it would take the place of another.
const HAGGLING: Duration = Duration::seconds(30);
/// Data of one option that are read. Names and queries are shorter.
const OPTION_DATA: u32 = 64 << 10;

/// What all connections of a server share.
pub struct House {
    /// Who keeps the time.
    pub runtime: Runtime,
    /// What is offered.
    pub exports: Exports,
    /// If there is one, all is encrypted.
    pub tls: Option<ServerTls>,
    /// Of each connection.
    pub limits: Limits,
    /// What was done.
    pub totals: Totals,
}

/// What a server has done.
#[derive(Debug, Default)]
pub struct Totals {
    /// Connections accepted.
    pub connections: Cell<u64>,
    /// Requests answered.
    pub requests: Cell<u64>,
    /// Bytes that were read.
    pub read: Cell<u64>,
    /// Bytes that were written.
    pub written: Cell<u64>,
    /// Requests answered with an error.
    pub errors: Cell<u64>,
}

fn add(total: &Cell<u64>, more: u64) {
    total.set(total.get() + more);
}

/// Serves one client until it leaves, or until its wire receives no more. An error says what it did that cannot be answered.
pub async fn converse<W: Wire + 'static>(house: Rc<House>, wire: Rc<W>) -> io::Result<()> {
    add(&house.totals.connections, 1);
    let haggled = {
        let haggling = std::pin::pin!(haggle(&house, Rc::clone(&wire)));
        let patience = std::pin::pin!(house.runtime.sleep(HAGGLING));
        match select(haggling, patience).await {
            Either::Left((haggled, _)) => haggled,
            Either::Right(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    };
    let served = match haggled {
        Ok(Some((inlet, link, agreement))) => transmit(&house, inlet, link, agreement).await,
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    wire.stop_sending();
    wire.stop_receiving();
    served
}

type Haggled<W> = (Inlet<Link<W>>, Rc<Link<W>>, Agreement);

/// From the greeting to an agreement; `None` if the client left without one.
async fn haggle<W: Wire>(house: &House, wire: Rc<W>) -> io::Result<Option<Haggled<W>>> {
    let mut link = Rc::new(Link::Plain(Rc::clone(&wire)));
    let mut inlet = Inlet::new(Rc::clone(&link));
    let ours = greeting::FIXED_NEWSTYLE | greeting::NO_ZEROES;
    let hello = [&INIT_MAGIC.to_be_bytes()[..], &OPTION_MAGIC.to_be_bytes(), &ours.to_be_bytes()].concat();
    send(&*link, hello).await?;
    if !inlet.wait_for(4).await? {
        return Ok(None);
    }
    let theirs = Reader(inlet.take(4)).u32().expect("four bytes were waited for");
    if theirs & !u32::from(ours) != 0 {
        return Err(bad("the client has flags that it was not offered"));
    }
    let padded = theirs & u32::from(greeting::NO_ZEROES) == 0;
    let tls = if house.tls.is_some() { Encryption::Required } else { Encryption::Absent };
    let mut haggle = Haggle::new(&house.exports, tls, padded);
    loop {
        if !inlet.wait_for(16).await? {
            link.end_sending().await;
            return Ok(None);
        }
        let mut header = Reader(inlet.take(16));
        let (magic, code, length) = (header.u64(), header.u32(), header.u32());
        let (Some(OPTION_MAGIC), Some(code), Some(length)) = (magic, code, length) else {
            return Err(bad("the client sent something that is no option"));
        };
        let mut replies = Vec::new();
        let next = if length > OPTION_DATA {
            inlet.skip(length.into()).await?;
            haggle.too_big(code, &mut replies)
        } else if inlet.wait_for(length as usize).await? || length == 0 {
            haggle.option(code, inlet.take(length as usize), &mut replies)
        } else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        if next == Next::Close {
            // A client that aborts need not wait for the answer.
            let _ = send(&*link, replies).await;
            link.end_sending().await;
            return Ok(None);
        }
        send(&*link, replies).await?;
        match next {
            Next::Haggle | Next::Close => {}
            Next::Transmit(agreement) => return Ok(Some((inlet, link, agreement))),
            Next::StartTls => {
                // What was sent in the clear behind the wish for TLS, by whoever, must not be taken for what comes encrypted.
                if !inlet.is_empty() {
                    return Err(bad("the client did not wait for TLS"));
                }
                let config = house.tls.as_ref().expect("TLS is begun only where there is a certificate");
                link = Rc::new(Link::Encrypted(Box::new(Tls::accept(Rc::clone(&wire), config).await?)));
                inlet = Inlet::new(Rc::clone(&link));
                haggle = haggle.encrypted();
            }
        }
    }
}

fn bad(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

async fn send(wire: &impl Wire, bytes: Vec<u8>) -> io::Result<()> {
    if bytes.is_empty() { Ok(()) } else { wire.send(vec![Parcel::head(bytes)]).await.1 }
}

/// What the tasks of one connection share once there is an agreement.
struct Session<W> {
    house: Rc<House>,
    /// The place of the export.
    export: usize,
    terms: Terms,
    budget: Budget,
    pool: Rc<Pool>,
    outlet: Outlet<Link<W>, Share>,
}

/// Answers requests until the client leaves; what is under way then is finished.
async fn transmit<W: Wire + 'static>(
    house: &Rc<House>,
    mut inlet: Inlet<Link<W>>,
    link: Rc<Link<W>>,
    agreement: Agreement,
) -> io::Result<()> {
    let export = &house.exports.all()[agreement.export];
    let pool = Rc::new(Pool::default());
    let session = Rc::new(Session {
        house: Rc::clone(house),
        export: agreement.export,
        terms: Terms::new(export, &agreement),
        budget: Budget::new(house.limits),
        pool: Rc::clone(&pool),
        outlet: Outlet::new(link, pool),
    });
    let reading = async {
        let read = session.read(&mut inlet).await;
        session.budget.all_back().await;
        session.outlet.end();
        read
    };
    let (read, ()) = join(reading, session.outlet.run()).await;
    read
}

impl<W: Wire + 'static> Session<W> {
    /// Reads requests and starts a task for each, until the client leaves.
    async fn read(self: &Rc<Self>, inlet: &mut Inlet<Link<W>>) -> io::Result<()> {
        loop {
            if !inlet.wait_for(REQUEST_HEADER).await? {
                return Ok(());
            }
            let bytes = inlet.take(REQUEST_HEADER).try_into().expect("a header was waited for");
            let header =
                RequestHeader::parse(bytes).ok_or_else(|| bad("the client sent something that is no request"))?;
            let heading = Heading { cookie: header.cookie, structured: self.terms.structured };
            let writes = header.command == command::WRITE;
            match self.terms.judge(&header) {
                Ok(Command::Disconnect) => return Ok(()),
                Ok(command) => {
                    let moved = match command {
                        Command::Read { length, .. } | Command::Write { length, .. } => length,
                        _ => Bytes::ZERO,
                    };
                    // What does not fit is moved once more, by whole blocks.
                    let block = self.terms.block;
                    let memory = if command.fits(block) { moved } else { moved * 2 + block * 2 };
                    let share = self.budget.take(memory).await;
                    let payload = if writes { Some(inlet.read(self.pool.take(moved)).await?) } else { None };
                    let session = Rc::clone(self);
                    self.house
                        .runtime
                        .spawn_detached(async move { session.answer(heading, command, payload, share).await });
                }
                Err(refused) => {
                    let share = self.budget.take(Bytes::ZERO).await;
                    if writes {
                        inlet.skip(header.length.into()).await?;
                    }
                    add(&self.house.totals.requests, 1);
                    add(&self.house.totals.errors, 1);
                    self.outlet.push(heading.failed(&Problem::refused(refused)), share);
                }
            }
        }
    }

    /// The life of a request.
    async fn answer(&self, heading: Heading, command: Command, payload: Option<Buffer>, share: Share) {
        let export = &self.house.exports.all()[self.export];
        let (parcel, failed) = carry_out(export, self.terms.block, &self.pool, heading, command, payload).await;
        let totals = &self.house.totals;
        add(&totals.requests, 1);
        match command {
            _ if failed => add(&totals.errors, 1),
            Command::Read { length, .. } => add(&totals.read, length.get()),
            Command::Write { length, .. } => add(&totals.written, length.get()),
            _ => {}
        }
        self.outlet.push(parcel, share);
    }
}
