//! What systemd does for a service: sockets that it passes, and what it wants to be told.
//!
//! Sockets: `sd_listen_fds(3)`. With `--nbd systemd` the server serves every socket that it was passed, by Unix sockets
//! and TCP; their names (`LISTEN_FDNAMES`) are not needed, as each of them speaks NBD. Not found out from the
//! environment: a server that was meant to listen elsewhere would serve at a place that nobody named.
//!
//! State: `sd_notify(3)`, a datagram to the socket that `NOTIFY_SOCKET` names, by a path or abstract (`@`). Sent by
//! hand: the crate `sd-notify` knows no abstract ones.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use listenfd::ListenFd;
use nbd::Address;
use units::Duration;
use uring::{ListenError, Listener, Live};

use crate::fail::Failure;

/// What a program has from whoever started it, and its children shall not.
pub const ENVIRONMENT: [&str; 6] =
    ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// Sockets that were passed.
#[derive(Default)]
pub struct Passed {
    unix: Vec<UnixListener>,
    tcp: Vec<TcpListener>,
}

impl Passed {
    /// Those of this process, if one of the addresses asks for them. To be called before there are threads: the
    /// environment is changed.
    pub fn take(addresses: &[Address]) -> Result<Passed, Failure> {
        let refuse = |words: String| Err(Failure::input(anyhow::anyhow!("{words}")));
        let mut passed = Passed::default();
        match addresses.iter().filter(|address| **address == Address::Systemd).count() {
            0 => return Ok(passed),
            1 => {}
            _ => return refuse("--nbd systemd stands for all sockets that were passed; give it once".into()),
        }
        let for_whom = std::env::var("LISTEN_PID").unwrap_or_default();
        let mut all = ListenFd::from_env();
        if all.len() == 0 {
            let found = match &for_whom[..] {
                "" => "LISTEN_FDS is not set".to_owned(),
                process => format!("LISTEN_PID is {process}, and this is process {}", std::process::id()),
            };
            return refuse(format!(
                "--nbd systemd: no socket was passed to this program ({found}); start it by a socket unit (docs/systemd), or try `systemd-socket-activate -l /run/a.sock arraylab ...`"
            ));
        }
        for index in 0..all.len() {
            let number = 3 + index;
            let unix = all.take_unix_listener(index);
            if let Ok(Some(listener)) = unix {
                passed.unix.push(listener);
                continue;
            }
            match all.take_tcp_listener(index) {
                Ok(Some(listener)) => passed.tcp.push(listener),
                _ => {
                    return refuse(format!(
                        "--nbd systemd: descriptor {number}, which was passed, is no stream socket; give the socket unit ListenStream="
                    ));
                }
            }
        }
        Ok(passed)
    }

    /// Listens at them. `encrypted` says whether other machines may be served.
    pub fn listen(self, live: &Live, encrypted: bool) -> Result<Vec<Listener>, Failure> {
        let blame = |error| match error {
            ListenError::Ring(_) => Failure::world(error),
            _ => Failure::input(error),
        };
        let mut listeners = Vec::new();
        for listener in self.unix {
            listeners.push(Listener::inherited_unix(live, listener).map_err(blame)?);
        }
        for listener in self.tcp {
            let listener = Listener::inherited_tcp(live, listener).map_err(blame)?;
            let open = listener.tcp_address().filter(|address| !address.ip().to_canonical().is_loopback());
            if let (Some(address), false) = (open, encrypted) {
                return Err(Failure::input(anyhow::anyhow!(
                    "{address}, which was passed, can be reached from other machines, and whoever reaches it could read and write; add --tls DIR, or have the socket unit listen on 127.0.0.1:{}",
                    address.port()
                )));
            }
            listeners.push(listener);
        }
        Ok(listeners)
    }
}

/// Whoever wants to know how the service is.
pub struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
}

impl Manager {
    /// The one that the environment names, if one is.
    pub fn of_environment() -> Manager {
        let address = std::env::var("NOTIFY_SOCKET").ok().and_then(|name| match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name).ok(),
            None => SocketAddr::from_pathname(&name).ok(),
        });
        let socket = address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address)));
        if let Some((socket, _)) = &socket {
            // A manager that is busy is told nothing, and delays nobody.
            let _ = socket.set_nonblocking(true);
        }
        Manager { socket }
    }

    /// Says something, by the lines of `sd_notify(3)`.
    pub fn say(&self, lines: &str) {
        if let Some((socket, address)) = &self.socket {
            // Nobody is there to be told that nobody is there.
            let _ = socket.send_to_addr(lines.as_bytes(), address);
        }
    }

    /// Clients can connect.
    pub fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={}\n", one_line(status)));
    }

    /// How it is.
    pub fn status(&self, status: &str) {
        self.say(&format!("STATUS={}\n", one_line(status)));
    }

    /// It ends, which may take so long.
    pub fn stopping(&self, within: Duration) {
        self.say(&format!("STOPPING=1\nSTATUS=ending\nEXTEND_TIMEOUT_USEC={}\n", within.as_nanos() / 1000));
    }

    /// How often a sign of life is expected of this process, if at all.
    pub fn watchdog(&self) -> Option<Duration> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        self.socket.as_ref()?;
        if number("WATCHDOG_PID").is_some_and(|process| process != u64::from(std::process::id())) {
            return None;
        }
        number("WATCHDOG_USEC").filter(|micros| *micros > 0).map(Duration::micros)
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
