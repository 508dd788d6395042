//! From the name of a host to a connection.
//!
//! The library looks names up by a call that waits, for as long as the name servers take: 10 s and more where none
//! answers. So that is done on a thread of its own (see [`aside`]); an address in numbers needs none. Rejected: a
//! resolver of our own or of a crate, which would not know what the machine's does (`nsswitch.conf`).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;

use futures_util::future::{Either, select};
use runtime::aside;
use units::Duration;
use uring::{ConnectError, Live, Socket};

use crate::address::Uri;

/// Tries the addresses of a host in turn. Each may take what is left of `within` when they are known.
pub async fn connect_tcp(live: &Live, host: &str, port: u16, within: Duration) -> Result<Socket, ConnectError> {
    let deadline = live.runtime().now() + within;
    let addresses = look_up(live, host, port, within).await?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name stands for no address");
    // None at all would be refused as no time-out.
    let within = deadline.saturating_since(live.runtime().now()).max(Duration::millis(1));
    for address in addresses {
        match Socket::reach_tcp(live, address, within).await {
            Err(ConnectError::Refused(error)) => last = error,
            done => return done,
        }
    }
    Err(last.into())
}

/// The addresses of a host.
async fn look_up(live: &Live, host: &str, port: u16, within: Duration) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let name = host.to_owned();
    let found = pin!(aside("look-up", move || Uri::addresses(&name, port)));
    match select(found, pin!(live.runtime().sleep(within))).await {
        Either::Left((found, _)) => found?,
        Either::Right(_) => {
            let silent = format!("no name server has said within {within} which address '{host}' has");
            Err(io::Error::new(io::ErrorKind::TimedOut, silent))
        }
    }
}
