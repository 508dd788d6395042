//! Stream sockets under the live runtime: connections by TCP and within the machine.
//!
//! Receiving is a call of the ring, so that requests of files and the next message are waited for by the same
//! `io_uring_enter`. What is received goes where the caller wants it, and what is sent is gathered from where it lies
//! (see [`Parcel`]).
//!
//! What the kernel has room for is sent at once, by a system call of its own; only the rest becomes a call of the ring,
//! which waits for room. A peer that waits for one answer after the other has it before the task goes on, and not only
//! when the runtime parks: 28,000 for 25,300 reads of 4 KiB a second at depth 1, at 16.3 for 18.9 us of the server's
//! processor time (two builds in four turns; `benchsuite serve` has the load). With many requests under way their
//! answers are gathered into one message, and the call more is not seen.
//!
//! What is to be received next is told to the kernel together with something else, or when there is nothing left to do
//! (see `ring`): one system call of four is saved for a request at depth 1. 35,800 for 34,700 reads of 4 KiB a second
//! at 12.9 for 13.6 us of the server's processor time, and 37,500 for 36,800 writes at 14.9 for 14.9 us (two builds in
//! twelve turns, the same load).
//!
//! A lone peer that is prompt is waited for by a receive that blocks, for [`STAY`] at most (see `ring`): such a call is
//! woken on the processor that sent, where a ring's waiter is woken on another, and nothing has to be armed and
//! collected. On a virtual machine whose sleeping processor is slow to wake (AMD's EPYC, medians of 25 turns of two
//! builds) 6,920 for 6,300 reads a second at 54.8 for 63.1 us of the server's processor time, and 5,280 for 4,660
//! writes at 69.1 for 89.4 us (the same load).
//!
//! A peer by TCP may vanish without a word: its machine loses power, or the way to it is cut. The kernel then asks it
//! whether it is there, and ends the connection after two minutes; where something that was sent is not acknowledged,
//! it ends it when it has tried for long enough (`net.ipv4.tcp_retries2`, a quarter of an hour). Rejected: a limit for
//! the latter (`TCP_USER_TIMEOUT`), which also ends the connection of a peer that is there, and has no room: a program
//! that was stopped for a while.
//!
//! Rejected: waiting for readiness. By the ring (poll, then read) it costs two more system calls for each message. By
//! `poll(2)`, while nothing but sockets is waited for, the calls more cost on one machine what the waking saves on
//! another. Receives that block without end: nobody else, neither another thread nor a new connection, could end them.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;

use device::Buffer;
use runtime::aside;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
    connect, recv, sendmsg, shutdown, socket_with,
};
use units::Duration;

use crate::RingError;
use crate::call::{Call, Parcel, Sending, unsent};
use crate::flight::RingFile;
use crate::live::Live;
use crate::ring::{Ring, STAY};

/// A connection. Both directions may be used at once, each by one task at a time.
pub struct Socket {
    file: RingFile,
    fd: Rc<OwnedFd>,
    receiving: Cell<bool>,
    sending: Cell<bool>,
    moved: Cell<u64>,
}

/// Memory that the kernel keeps for what was sent and not yet received, if the limit (`net.core.wmem_max`) allows: a
/// message of 128 KiB, a usual size of sequential reads, is then taken at once.
const KEPT_BY_KERNEL: usize = 1 << 20;

/// Between two attempts to connect to a socket whose queue is full.
const PAUSE: Duration = Duration::millis(10);

/// A peer by TCP that has been silent for so long is asked by the kernel whether it is there, ...
const SILENT: std::time::Duration = std::time::Duration::from_secs(60);
/// ... this often ...
const ASKED_EVERY: std::time::Duration = std::time::Duration::from_secs(15);
/// ... and so many times; if it never answers, the connection has broken.
const ASKED: u32 = 4;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The peer, or the way to it.
    #[error("no connection: {0}; is the server running, and is that its address?")]
    Refused(#[from] io::Error),
    /// Who listens at a socket of this machine takes nobody in.
    #[error("no connection: the socket's queue was full for {0}; does its server still accept connections?")]
    Full(Duration),
    /// Sockets need the ring.
    #[error("sockets need io_uring: {0}")]
    Ring(String),
}

impl Socket {
    /// Connects to a socket of this machine within a time. Where its queue is full, as that of a server which accepts
    /// no more, the kernel would have the thread wait for as long as that lasts, and tells nobody when there is room:
    /// so it is asked without waiting, again and again.
    pub async fn reach_unix(live: &Live, path: &Path, within: Duration) -> Result<Socket, ConnectError> {
        let address = SocketAddrUnix::new(path).map_err(io::Error::from)?;
        let kind = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, kind, None).map_err(io::Error::from)?;
        let deadline = live.runtime().now() + within;
        loop {
            match connect(&fd, &address) {
                Ok(()) => break,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) if live.runtime().now() + PAUSE < deadline => live.runtime().sleep(PAUSE).await,
                Err(Errno::AGAIN) => return Err(ConnectError::Full(within)),
                Err(error) => return Err(ConnectError::Refused(error.into())),
            }
        }
        // From here on as a socket is that was connected with waiting.
        ioctl_fionbio(&fd, false).map_err(io::Error::from)?;
        Socket::on(ring(live).map_err(ConnectError::Ring)?, fd).map_err(|error| ConnectError::Ring(error.to_string()))
    }

    /// Connects to a host by TCP; waits for as long as the kernel tries.
    pub fn connect_tcp(live: &Live, address: SocketAddr) -> Result<Socket, ConnectError> {
        Socket::reached(live, TcpStream::connect(address)?)
    }

    /// Connects to a host by TCP within a time. A thread of its own waits for the kernel, which may try for minutes, so
    /// that the runtime's does not.
    pub async fn reach_tcp(live: &Live, address: SocketAddr, within: Duration) -> Result<Socket, ConnectError> {
        let within = std::time::Duration::from_nanos(within.as_nanos());
        let stream = aside("connect", move || TcpStream::connect_timeout(&address, within)).await??;
        Socket::reached(live, stream)
    }

    fn reached(live: &Live, stream: TcpStream) -> Result<Socket, ConnectError> {
        prepare_tcp(&stream)?;
        Socket::on(ring(live).map_err(ConnectError::Ring)?, stream.into())
            .map_err(|error| ConnectError::Ring(error.to_string()))
    }

    /// Two ends of one connection.
    pub fn pair(live: &Live) -> Result<(Socket, Socket), ConnectError> {
        let (one, other) = UnixStream::pair()?;
        let ring = ring(live).map_err(ConnectError::Ring)?;
        let on =
            |stream: UnixStream| Socket::on(ring, stream.into()).map_err(|error| ConnectError::Ring(error.to_string()));
        Ok((on(one)?, on(other)?))
    }

    /// Takes over a connected socket.
    pub(crate) fn on(ring: &Ring, fd: OwnedFd) -> Result<Socket, RingError> {
        // A wish: with less memory it is slower, and correct.
        let _ = sockopt::set_socket_send_buffer_size(&fd, KEPT_BY_KERNEL);
        // No wish: a call that waits is not to be a call without end.
        sockopt::set_socket_timeout(&fd, Timeout::Recv, Some(STAY)).map_err(|errno| RingError::System {
            call: "limiting how long a socket is waited for",
            source: errno.into(),
        })?;
        let file = ring.register(fd.as_fd())?;
        Ok(Socket {
            file,
            fd: Rc::new(fd),
            receiving: Cell::new(false),
            sending: Cell::new(false),
            moved: Cell::new(0),
        })
    }

    /// Receives at least one byte into the front of `into`; none if the peer has ended. The buffer comes back.
    ///
    /// # Panics
    /// If another task receives.
    pub async fn receive(&self, into: Buffer) -> (Buffer, io::Result<usize>) {
        let _turn = Turn::new(&self.receiving);
        let (call, result) = self.file.call(Call::Receive(into, Rc::clone(&self.fd))).await;
        let Call::Receive(into, _) = call else { panic!("a call comes back as what it was") };
        let received = checked(result);
        self.count(received.as_ref().map_or(0, |count| *count));
        (into, received)
    }

    /// As [`receive`](Socket::receive), of what has arrived already: `None` if nothing has. It costs a system call of
    /// its own, and the task goes on.
    ///
    /// # Panics
    /// If another task receives.
    pub fn receive_arrived(&self, into: &mut Buffer) -> Option<io::Result<usize>> {
        let _turn = Turn::new(&self.receiving);
        let memory = into.bytes_mut().expect("what is received needs memory");
        match recv(&self.fd, memory, RecvFlags::DONTWAIT) {
            Ok((count, _)) => {
                self.count(count);
                Some(Ok(count))
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    /// Sends all parcels, one after the other; they come back, sent or not.
    ///
    /// # Panics
    /// If another task sends.
    pub async fn send(&self, parcels: Vec<Parcel>) -> (Vec<Parcel>, io::Result<()>) {
        let _turn = Turn::new(&self.sending);
        let length: usize = parcels.iter().map(Parcel::length).sum();
        let (mut parcels, mut sent) = (parcels, 0);
        while sent < length {
            match self.send_at_once(&parcels, sent) {
                Ok(count) => {
                    sent += count;
                    self.count(count);
                    continue;
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return (parcels, Err(error.into())),
            }
            let (call, result) = self.file.call(Call::Send(Sending::new(parcels, sent))).await;
            let Call::Send(sending) = call else { panic!("a call comes back as what it was") };
            parcels = sending.into_parcels();
            match checked(result) {
                Ok(count) => {
                    sent += count;
                    self.count(count);
                }
                Err(error) => return (parcels, Err(error)),
            }
        }
        assert_eq!(sent, length, "the kernel sends no more than it was given");
        (parcels, Ok(()))
    }

    /// Sends as much as the kernel has room for, behind the first `sent` bytes; `AGAIN` if it has none.
    fn send_at_once(&self, parcels: &[Parcel], sent: usize) -> Result<usize, Errno> {
        let parts: Vec<IoSlice> = unsent(parcels, sent).map(IoSlice::new).collect();
        sendmsg(&self.fd, &parts, &mut SendAncillaryBuffer::default(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
    }

    fn count(&self, bytes: usize) {
        self.moved.set(self.moved.get() + bytes as u64);
    }

    /// Bytes received so far, and sent as far as the kernel has taken them: what tells a slow peer from one that stands
    /// still.
    pub fn moved(&self) -> u64 {
        self.moved.get()
    }

    /// The address of a peer by TCP.
    pub fn peer(&self) -> Option<SocketAddr> {
        rustix::net::getpeername(&self.fd).ok()??.try_into().ok()
    }

    /// Receives no more: whoever waits for the peer finds that it has ended. What is being sent goes on.
    pub fn stop_receiving(&self) {
        // An error says that the peer is gone, and then there is nothing to stop.
        let _ = shutdown(&self.fd, Shutdown::Read);
    }

    /// Tells the peer that nothing more will come. What the peer sends can still be received.
    pub fn stop_sending(&self) {
        let _ = shutdown(&self.fd, Shutdown::Write);
    }
}

/// Makes of a connection by TCP one for requests and replies.
pub(crate) fn prepare_tcp(fd: impl AsFd) -> io::Result<()> {
    // A small reply must not wait for the next one.
    sockopt::set_tcp_nodelay(&fd, true)?;
    sockopt::set_tcp_keepidle(&fd, SILENT)?;
    sockopt::set_tcp_keepintvl(&fd, ASKED_EVERY)?;
    sockopt::set_tcp_keepcnt(&fd, ASKED)?;
    Ok(sockopt::set_socket_keepalive(&fd, true)?)
}

/// The ring of a runtime, or why sockets cannot be had there.
pub(crate) fn ring(live: &Live) -> Result<&Ring, String> {
    live.ring().map_err(ToString::to_string)
}

pub(crate) fn checked(result: i32) -> io::Result<usize> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result as usize) }
}

/// One task at a time: two would get parts of each other's messages.
struct Turn<'a>(&'a Cell<bool>);

impl<'a> Turn<'a> {
    fn new(taken: &'a Cell<bool>) -> Turn<'a> {
        assert!(!taken.replace(true), "one task at a time uses a direction of a socket");
        Turn(taken)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Listener, LiveOptions};

    #[test]
    fn who_vanishes_is_noticed_on_both_sides() {
        let live = Live::start(&LiveOptions::default());
        if let Err(error) = live.ring() {
            return println!("skipped: {error}");
        }
        let listener = Listener::tcp(&live, "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.tcp_address().unwrap();
        let reach = Socket::reach_tcp(&live, address, Duration::seconds(10));
        let (reached, accepted) = live.runtime().block_on(async { futures_util::join!(reach, listener.accept()) });
        for socket in [reached.unwrap(), accepted.unwrap()] {
            assert!(sockopt::socket_keepalive(&socket.fd).unwrap());
            let after = sockopt::tcp_keepidle(&socket.fd).unwrap();
            let then = sockopt::tcp_keepintvl(&socket.fd).unwrap() * sockopt::tcp_keepcnt(&socket.fd).unwrap();
            assert_eq!((after + then).as_secs(), 120);
        }
    }
}
