//! The addresses at which a server offers its own array.
//!
//! An array whose spare, or member, is one of its own exports would write to itself: the superblock of the member lands
//! in the users' data, and filling it waits for requests that wait for it. Which addresses are its own only the server
//! can tell. A socket in the file system is compared by what it is, whatever it is called; an address of TCP by its
//! port and by whether the host's name stands for an address that the server listens on. Behind another server or a
//! proxy it is not recognised.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use nbd::Uri;

use crate::Place;

/// Whether a URI leads to one of these addresses, at whatever export.
pub(crate) fn leads_to(uri: &Uri, listening: &[nbd::Place]) -> bool {
    match &uri.place {
        nbd::Place::Unix(path) => {
            let there = Place::Path(path.clone());
            listening.iter().any(|place| match place {
                nbd::Place::Unix(own) => Place::Path(own.clone()).is_same(&there),
                nbd::Place::Tcp(..) => false,
            })
        }
        nbd::Place::Tcp(host, port) => {
            let own: Vec<SocketAddr> = listening.iter().flat_map(addresses).collect();
            // A name that nobody knows is refused when it is connected to.
            let there = Uri::addresses(host, *port).unwrap_or_default();
            there.iter().any(|there| own.iter().any(|own| is_heard(*there, *own)))
        }
    }
}

/// The addresses of TCP that a place stands for.
fn addresses(place: &nbd::Place) -> Vec<SocketAddr> {
    match place {
        nbd::Place::Tcp(host, port) => Uri::addresses(host, *port).unwrap_or_default(),
        nbd::Place::Unix(_) => Vec::new(),
    }
}

/// Whether who listens at `own` hears who connects to `there`.
fn is_heard(there: SocketAddr, own: SocketAddr) -> bool {
    let (to, at) = (there.ip().to_canonical(), own.ip().to_canonical());
    let same = match at.is_unspecified() {
        true => to.is_unspecified() || is_here(to),
        // Who connects to no address in particular reaches this machine's own.
        false => to == at || (to.is_unspecified() && at.is_loopback()),
    };
    there.port() == own.port() && same
}

/// Whether an address is this machine's: only such can be bound to.
fn is_here(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> nbd::Place {
        nbd::Place::Tcp(host.to_owned(), port)
    }

    #[test]
    fn an_address_of_one_s_own_is_recognised_by_all_its_names() {
        let leads = |uri: &str, place: nbd::Place| leads_to(&uri.parse().unwrap(), &[place]);
        assert!(leads("nbd://127.0.0.1:10810", tcp("127.0.0.1", 10810)));
        assert!(leads("nbd://localhost:10810/part", tcp("127.0.0.1", 10810)));
        assert!(leads("nbd://127.0.0.1:10810", tcp("0.0.0.0", 10810)));
        assert!(!leads("nbd://127.0.0.1:10811", tcp("0.0.0.0", 10810)));
        // Of documentation (RFC 5737), nobody's.
        assert!(!leads("nbd://192.0.2.1:10810", tcp("0.0.0.0", 10810)));
        assert!(!leads("nbd://127.0.0.2:10810", tcp("127.0.0.1", 10810)));
        assert!(!leads("nbd+unix:///?socket=/nowhere", tcp("127.0.0.1", 10810)));
        assert!(leads("nbd+unix:///?socket=/nowhere", nbd::Place::Unix("/nowhere".into())));
    }
}
