//! What a conversation runs over: a stream of bytes in both directions.
//!
//! Sockets are wires, and so is a [`Pipe`](crate::Pipe) in memory: server and client then talk under the virtual clock,
//! and what is simulated is the code that serves.

use std::future::Future;
use std::io;
use std::rc::Rc;

use device::Buffer;
use uring::{Parcel, Socket};

use crate::places::Peer;
use crate::tls::Tls;

/// One end of a connection. Each direction is used by one task at a time.
pub trait Wire {
    /// Receives at least one byte into the front of `into`; none if the peer has ended. The buffer comes back.
    fn receive(&self, into: Buffer) -> impl Future<Output = (Buffer, io::Result<usize>)>;
    /// As [`receive`](Wire::receive), of what has arrived already; `None` if nothing has, or if this wire does not
    /// know.
    fn receive_arrived(&self, _into: &mut Buffer) -> Option<io::Result<usize>> {
        None
    }
    /// Sends all parcels, in order. They come back.
    fn send(&self, parcels: Vec<Parcel>) -> impl Future<Output = (Vec<Parcel>, io::Result<()>)>;
    /// Receives no more, as if the peer had ended.
    fn stop_receiving(&self);
    /// Says that nothing more will be sent.
    fn stop_sending(&self);
    /// Bytes moved so far, in both directions; of a wire that does not know, none.
    fn moved(&self) -> u64 {
        0
    }
    /// Who is at the other end.
    fn peer(&self) -> Peer {
        Peer::Local
    }
    /// As [`stop_sending`](Wire::stop_sending), when all has been said; a wire that has a last word for that sends it.
    /// It waits as every message does, for room.
    fn end_sending(&self) -> impl Future<Output = ()> {
        async { self.stop_sending() }
    }
}

impl Wire for Socket {
    async fn receive(&self, into: Buffer) -> (Buffer, io::Result<usize>) {
        self.receive(into).await
    }
    fn receive_arrived(&self, into: &mut Buffer) -> Option<io::Result<usize>> {
        self.receive_arrived(into)
    }
    async fn send(&self, parcels: Vec<Parcel>) -> (Vec<Parcel>, io::Result<()>) {
        self.send(parcels).await
    }
    fn stop_receiving(&self) {
        self.stop_receiving();
    }
    fn stop_sending(&self) {
        self.stop_sending();
    }
    fn moved(&self) -> u64 {
        self.moved()
    }
    fn peer(&self) -> Peer {
        self.peer().map_or(Peer::Local, |address| Peer::Net(address.ip()))
    }
}

/// A wire as it is, or encrypted.
pub enum Link<W> {
    /// As it is.
    Plain(Rc<W>),
    /// By TLS.
    Encrypted(Box<Tls<W>>),
}

impl<W: Wire> Wire for Link<W> {
    async fn receive(&self, into: Buffer) -> (Buffer, io::Result<usize>) {
        match self {
            Link::Plain(wire) => wire.receive(into).await,
            Link::Encrypted(tls) => tls.receive(into).await,
        }
    }
    fn receive_arrived(&self, into: &mut Buffer) -> Option<io::Result<usize>> {
        match self {
            Link::Plain(wire) => wire.receive_arrived(into),
            Link::Encrypted(tls) => tls.receive_arrived(into),
        }
    }
    async fn send(&self, parcels: Vec<Parcel>) -> (Vec<Parcel>, io::Result<()>) {
        match self {
            Link::Plain(wire) => wire.send(parcels).await,
            Link::Encrypted(tls) => tls.send(parcels).await,
        }
    }
    fn stop_receiving(&self) {
        match self {
            Link::Plain(wire) => wire.stop_receiving(),
            Link::Encrypted(tls) => tls.stop_receiving(),
        }
    }
    fn stop_sending(&self) {
        match self {
            Link::Plain(wire) => wire.stop_sending(),
            Link::Encrypted(tls) => tls.stop_sending(),
        }
    }
    async fn end_sending(&self) {
        match self {
            Link::Plain(wire) => wire.end_sending().await,
            Link::Encrypted(tls) => tls.end_sending().await,
        }
    }
}
