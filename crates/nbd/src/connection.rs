//! One client: greeting, haggling, requests.
//!
//! One task reads requests, a task for each carries it out, and one sends the replies. What the client gets wrong is
//! answered as the protocol says; what cannot be answered (a header without its magic number, for nobody knows where
//! the next one begins) ends the connection. Nothing that a client sends ends the server.

use std::io;
use std::rc::Rc;

use device::{Buffer, Pool};
use futures_util::future::{Either, join, select};
use runtime::Runtime;
use units::Bytes;
use uring::Parcel;

use crate::budget::{Budget, Commons, Limits, Line, Share};
use crate::carry::carry_out;
use crate::command::{Command, Terms};
use crate::export::Exports;
use crate::haggle::{Agreement, Haggle, Next, Tls as Encryption};
use crate::inlet::Inlet;
use crate::notice::{Tell, Teller, Why};
use crate::outlet::Outlet;
use crate::places::{Hall, Peer, Places, Seat};
use crate::protocol::{INIT_MAGIC, OPTION_MAGIC, REQUEST_HEADER, Reader, RequestHeader, command, greeting};
use crate::reply::{Heading, Problem};
use crate::tls::{ServerTls, Tls};
use crate::totals::{Totals, add};
use crate::wire::{Link, Wire};

/// Data of one option that are read. Names and queries are shorter.
const OPTION_DATA: u32 = 64 << 10;

/// Memory of payloads that is kept: a connection uses one of so many pools, the first ones each their own, and what
/// they keep stays bounded however many there are.
const POOLS: usize = 4;
/// What a status says at most (`carry`): 1024 extents and a head.
const STATUS: Bytes = Bytes::kib(9);

/// What all connections of a server share.
pub struct House {
    /// Who keeps the time.
    pub runtime: Runtime,
    /// What is offered.
    pub exports: Exports,
    /// If there is one, all is encrypted.
    pub tls: Option<ServerTls>,
    /// Of each connection, and of all.
    pub limits: Limits,
    /// What was done.
    pub totals: Rc<Totals>,
    pub(crate) commons: Rc<Commons>,
    places: Rc<Places>,
    hall: Rc<Hall>,
    teller: Rc<Teller>,
    pools: [Rc<Pool>; POOLS],
}

impl House {
    /// Without anybody in it.
    pub fn new(runtime: &Runtime, exports: Exports, tls: Option<ServerTls>, limits: Limits) -> House {
        House {
            runtime: runtime.clone(),
            exports,
            tls,
            limits,
            totals: Rc::default(),
            commons: Commons::new(limits),
            places: Places::new(limits.places),
            hall: Hall::new(limits.places),
            teller: Rc::new(Teller::new(runtime, None)),
            pools: Default::default(),
        }
    }

    /// Says by this who was sent away.
    pub fn telling(mut self, tell: Option<Tell>) -> House {
        self.teller = Rc::new(Teller::new(&self.runtime, tell));
        self
    }

    /// A place for a client, waiting for one for a while.
    async fn place(&self, peer: Peer) -> Option<Seat> {
        let mut place = self.places.take(peer);
        if place.is_none() {
            let given = self.places.changed.wait_until(|| {
                place = self.places.take(peer);
                place.is_some()
            });
            let patience = self.runtime.sleep(self.limits.negotiation / 2);
            let _: Either<_, _> = select(std::pin::pin!(given), std::pin::pin!(patience)).await;
        }
        place
    }

    fn send_away(&self, peer: Peer, why: Why) {
        add(&self.totals.refused, 1);
        self.teller.tell(peer, why);
    }
}

/// Serves one client until it leaves, or until its wire receives no more. An error says what it did that cannot be
/// answered.
pub async fn converse<W: Wire + 'static>(house: Rc<House>, wire: Rc<W>) -> io::Result<()> {
    let number = house.totals.connections.get();
    add(&house.totals.connections, 1);
    let _present = house.totals.comes();
    let peer = wire.peer();
    let haggled = {
        let close = {
            let (wire, house) = (Rc::clone(&wire), Rc::downgrade(&house));
            move || {
                if let Some(house) = house.upgrade() {
                    house.send_away(peer, Why::Crowded);
                }
                end(&*wire);
            }
        };
        let _guest = house.hall.enter(peer, close);
        let haggling = std::pin::pin!(haggle(&house, Rc::clone(&wire), peer));
        let patience = std::pin::pin!(house.runtime.sleep(house.limits.negotiation));
        match select(haggling, patience).await {
            Either::Left((haggled, _)) => haggled,
            Either::Right(_) => {
                house.send_away(peer, Why::Silent(house.limits.negotiation));
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    };
    let served = match haggled {
        Ok(Some((inlet, link, agreement, _place))) => {
            let line = Connection { wire: Rc::clone(&wire), house: Rc::clone(&house), peer };
            let pool = Rc::clone(&house.pools[number as usize % POOLS]);
            transmit(&house, inlet, link, (line, pool), agreement).await
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    end(&*wire);
    served
}

fn end(wire: &impl Wire) {
    wire.stop_sending();
    wire.stop_receiving();
}

/// A connection, as its budget sees it.
struct Connection<W> {
    wire: Rc<W>,
    house: Rc<House>,
    peer: Peer,
}

impl<W: Wire> Line for Connection<W> {
    fn moved(&self) -> u64 {
        self.wire.moved()
    }
    fn close(&self, held: Bytes) {
        self.house.send_away(self.peer, Why::Slow { held });
        end(&*self.wire);
    }
}

type Haggled<W> = (Inlet<Link<W>>, Rc<Link<W>>, Agreement, Seat);

/// From the greeting to an agreement; `None` if the client left without one.
async fn haggle<W: Wire>(house: &House, wire: Rc<W>, peer: Peer) -> io::Result<Option<Haggled<W>>> {
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
        let mut next = if length > OPTION_DATA {
            inlet.skip(length.into()).await?;
            haggle.too_big(code, &mut replies)
        } else if inlet.wait_for(length as usize).await? || length == 0 {
            haggle.option(code, inlet.take(length as usize), &mut replies)
        } else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let mut place = None;
        if let Next::Transmit(_) = next {
            place = house.place(peer).await;
            if place.is_none() {
                house.send_away(peer, Why::NoPlace { share: house.places.share(peer) });
                next = haggle.no_place(code, &mut replies);
            }
        }
        if next == Next::Close {
            // A client that aborts need not wait for the answer.
            let _ = send(&*link, replies).await;
            link.end_sending().await;
            return Ok(None);
        }
        send(&*link, replies).await?;
        match next {
            Next::Haggle | Next::Close => {}
            Next::Transmit(agreement) => {
                return Ok(Some((inlet, link, agreement, place.expect("one was taken for it"))));
            }
            Next::StartTls => {
                // What was sent in the clear behind the wish for TLS, by whoever, must not be taken for what comes
                // encrypted.
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
    (line, pool): (Connection<W>, Rc<Pool>),
    agreement: Agreement,
) -> io::Result<()> {
    let export = &house.exports.all()[agreement.export];
    let outlet = Outlet::new(link, Rc::clone(&pool));
    let session = Rc::new(Session {
        house: Rc::clone(house),
        export: agreement.export,
        terms: Terms::new(export, &agreement),
        budget: Budget::new(&house.commons, line, outlet.turns()),
        pool,
        outlet,
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
            // Where the client is gone, nobody waits for the answers to what it has sent.
            if !inlet.wait_for(REQUEST_HEADER).await? || self.outlet.is_broken() {
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
                    let said = if matches!(command, Command::BlockStatus { .. }) { STATUS } else { Bytes::ZERO };
                    // What does not fit is moved once more, by whole blocks.
                    let block = self.terms.block;
                    let memory = if command.fits(block) { moved } else { moved * 2 + block * 2 };
                    let share = self.budget.take(memory + said).await;
                    if self.budget.is_closed() || self.outlet.is_broken() {
                        return Ok(());
                    }
                    let payload = if writes { Some(self.payload(inlet, moved).await?) } else { None };
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
                    self.house.totals.refuses();
                    self.outlet.push(heading.failed(&Problem::refused(refused)), share);
                }
            }
        }
    }

    async fn payload(&self, inlet: &mut Inlet<Link<W>>, length: Bytes) -> io::Result<Buffer> {
        self.budget.receives();
        let received = inlet.read(self.pool.take(length)).await;
        self.budget.receives();
        received
    }

    /// The life of a request.
    async fn answer(&self, heading: Heading, command: Command, payload: Option<Buffer>, share: Share) {
        let export = &self.house.exports.all()[self.export];
        let (totals, begin) = (&self.house.totals, self.house.runtime.now());
        totals.begins();
        let (parcel, failed) = carry_out(export, self.terms.block, &self.pool, heading, command, payload).await;
        totals.ends(&command, failed, self.house.runtime.now().since(begin));
        self.outlet.push(parcel, share);
    }
}
