//! Who may be here: clients that have an export, and those on their way to one.
//!
//! A client with an export has a place until it goes. Unix sockets have places of their own: who may connect to one is
//! this user, or whom this user let in, so that those clients are not told apart, and whatever they do takes no place
//! from TCP. Of the places of TCP one address has at most half; an IPv6 address is known by its first 64 bits, as
//! whoever has one has them all (RFC 4291, 2.5.4).
//!
//! A client without an export costs little, and is bounded in time ([`Limits::negotiation`](crate::Limits)) from its
//! first byte to its last option, the handshake of TLS included. As many of these are in the [`Hall`] as there are
//! places of either kind; if one more comes, the oldest of the address that has most there goes. So clients that
//! connect and say nothing keep nobody out, whose greeting takes a moment.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;

use runtime::Signal;

/// Where a client comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// By a Unix socket, or within the process.
    Local,
    /// By TCP.
    Net(IpAddr),
}

impl Peer {
    /// As which it is counted.
    fn party(self) -> Peer {
        match self {
            Peer::Net(address) => Peer::Net(match address.to_canonical() {
                IpAddr::V6(address) if !address.is_loopback() => {
                    IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64))
                }
                address => address,
            }),
            Peer::Local => Peer::Local,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Peer::Local => f.write_str("a client of this machine"),
            Peer::Net(address) => write!(f, "a client from {}", address.to_canonical()),
        }
    }
}

/// The places of clients that have an export.
pub struct Places {
    most: u32,
    taken: RefCell<HashMap<Peer, u32>>,
    /// One was given back.
    pub changed: Signal,
}

/// A place, given back when it is dropped.
pub struct Seat {
    places: Rc<Places>,
    party: Peer,
}

impl Places {
    /// So many for Unix sockets, and for TCP.
    pub fn new(most: u32) -> Rc<Places> {
        Rc::new(Places { most: most.max(1), taken: RefCell::default(), changed: Signal::default() })
    }

    /// How many one party may have.
    pub fn share(&self, peer: Peer) -> u32 {
        match peer {
            Peer::Local => self.most,
            Peer::Net(_) => self.most.div_ceil(2),
        }
    }

    /// A place for this client, if there is one.
    pub fn take(self: &Rc<Self>, peer: Peer) -> Option<Seat> {
        let party = peer.party();
        let mut taken = self.taken.borrow_mut();
        let kind = |other: &Peer| (*other == Peer::Local) == (party == Peer::Local);
        let all: u32 = taken.iter().filter(|(other, _)| kind(other)).map(|(_, count)| *count).sum();
        let own = taken.get(&party).copied().unwrap_or(0);
        if all >= self.most || own >= self.share(peer) {
            return None;
        }
        taken.insert(party, own + 1);
        Some(Seat { places: Rc::clone(self), party })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        {
            let mut taken = self.places.taken.borrow_mut();
            let own = taken.get_mut(&self.party).expect("a place that was taken is counted");
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.party);
            }
        }
        self.places.changed.notify();
    }
}

/// Clients on their way to an export.
pub struct Hall {
    most: usize,
    next: Cell<u64>,
    waiting: RefCell<Vec<Newcomer>>,
}

struct Newcomer {
    ticket: u64,
    party: Peer,
    close: Box<dyn Fn()>,
}

/// A client in the hall until this is dropped.
pub struct Guest {
    hall: Rc<Hall>,
    ticket: u64,
}

impl Hall {
    /// Room for so many.
    pub fn new(most: u32) -> Rc<Hall> {
        Rc::new(Hall { most: most.max(1) as usize, next: Cell::new(0), waiting: RefCell::default() })
    }

    /// Lets a client in; if there is no room another one is closed.
    pub fn enter(self: &Rc<Self>, peer: Peer, close: impl Fn() + 'static) -> Guest {
        let ticket = self.next.replace(self.next.get() + 1);
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= self.most {
            let of = |party: Peer| waiting.iter().filter(|other| other.party == party).count();
            // The first of those that are as many: they stand in the order in which they came.
            let crowd = waiting.iter().map(|newcomer| of(newcomer.party)).max().unwrap_or(0);
            if let Some(oldest) = waiting.iter().position(|newcomer| of(newcomer.party) == crowd) {
                (waiting.remove(oldest).close)();
            }
        }
        waiting.push(Newcomer { ticket, party: peer.party(), close: Box::new(close) });
        Guest { hall: Rc::clone(self), ticket }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.hall.waiting.borrow_mut().retain(|newcomer| newcomer.ticket != self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(address: &str) -> Peer {
        Peer::Net(address.parse().unwrap())
    }

    #[test]
    fn one_address_has_half_and_unix_sockets_have_their_own() {
        let places = Places::new(4);
        let take = |peer| places.take(peer);
        let held: Vec<Seat> = (0..2).map(|_| take(net("10.0.0.1")).unwrap()).collect();
        assert!(take(net("10.0.0.1")).is_none() && take(net("::ffff:10.0.0.1")).is_none());
        let other = take(net("2001:db8::1")).unwrap();
        let same = take(net("2001:db8::ffff:2")).unwrap();
        assert!(take(net("10.0.0.2")).is_none(), "all are taken");
        let local: Vec<Seat> = (0..4).map(|_| take(Peer::Local).unwrap()).collect();
        assert!(take(Peer::Local).is_none());
        let taken = || places.taken.borrow().values().sum::<u32>();
        assert_eq!(taken(), 8);
        drop((other, same));
        assert!(take(net("10.0.0.1")).is_none() && take(net("10.0.0.2")).is_some());
        drop((held, local));
        assert_eq!(taken(), 0);
    }

    #[test]
    fn the_oldest_of_those_who_are_most_makes_room() {
        let hall = Hall::new(3);
        let closed: Rc<RefCell<Vec<u32>>> = Rc::default();
        let enter = |number: u32, address: &str| {
            let closed = Rc::clone(&closed);
            hall.enter(net(address), move || closed.borrow_mut().push(number))
        };
        let first = enter(0, "10.0.0.9");
        let crowd: Vec<Guest> = (1..6).map(|number| enter(number, "10.0.0.1")).collect();
        assert_eq!(*closed.borrow(), [1, 2, 3], "and not the one that was there before");
        drop((first, crowd));
        assert!(hall.waiting.borrow().is_empty());
    }
}
