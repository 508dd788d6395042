//! A socket that others connect to.
//!
//! A socket in the file system is made with its permissions, not given them afterwards: `fchmod` on the unbound socket
//! is what `bind` then makes the file with (Linux `net/unix/af_unix.c`, `unix_bind_bsd`), so that nobody gets in
//! between. What stands at the path is never removed by [`Listener::unix`]: it may be a server's that has not answered
//! yet. [`Listener::unix_replacing`] removes a socket at which nobody listens, under a lock of its folder (`flock`): of
//! two servers that start at once the second finds the first one's socket, and not the stale one that both saw. The
//! file that was made is removed in the end, if it still is that one. A socket that was inherited belongs to whoever
//! passed it, and stays.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt,
};

use crate::call::{Call, accepted};
use crate::flight::RingFile;
use crate::live::Live;
use crate::socket::{Socket, checked, prepare_tcp, ring};

/// How many connections may wait to be accepted.
const WAITING: i32 = 128;

/// Listens on one address.
pub struct Listener {
    file: RingFile,
    fd: OwnedFd,
    place: Place,
}

enum Place {
    /// A file: its path, device and number, by which it is known again.
    Path {
        path: PathBuf,
        identity: (u64, u64),
    },
    Tcp,
    /// A socket of this machine that whoever started this program made, and removes: its path, if it has one.
    Inherited(Option<PathBuf>),
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum ListenError {
    /// A server answers there.
    #[error("{path}: a server is listening there{}; stop it, or name another path", by(*process))]
    Occupied { path: PathBuf, process: Option<i32> },
    /// A server was there.
    #[error("{path}: a server left this socket behind and is gone; remove it (rm {path}), or name another path")]
    Stale { path: PathBuf },
    /// Something else is there.
    #[error("{path} exists and is no socket; name a path where there is nothing")]
    NotASocket { path: PathBuf },
    /// The name does not fit into a socket's address.
    #[error("{path}: the path of a socket has at most 107 bytes; name a shorter one")]
    TooLong { path: PathBuf },
    /// No folder, no permission.
    #[error("{path}: no socket can be made there: {source}; name a path in a folder that you may write to")]
    NoPlace { path: PathBuf, source: io::Error },
    /// The address is taken, or not this machine's.
    #[error("{address}: {source}; name another port (0: any that is free) or an address of this machine")]
    Address { address: SocketAddr, source: io::Error },
    /// What was inherited is connected, or bound and no more.
    #[error("{name}, which was passed to this program, does not listen; pass a listening socket (systemd: Accept=no)")]
    Idle { name: String },
    /// Sockets need the ring.
    #[error("sockets need io_uring: {0}")]
    Ring(String),
}

/// How long the lock of a folder is waited for. Somebody who holds it for longer does something else with it, and keeps
/// nobody from serving.
const PATIENCE: Duration = Duration::from_secs(2);

/// Keeps others who do so from making and removing sockets in the folder of this path, until it is dropped; where the
/// file system knows no locks, nothing does.
fn alone_in(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder).ok()?;
    let deadline = Instant::now() + PATIENCE;
    while rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) == Err(Errno::AGAIN) {
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(folder)
}

/// Whether nobody listens at a socket. It is asked without waiting: a server whose queue is full is one.
fn is_stale(path: &Path) -> bool {
    let kind = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let asked = SocketAddrUnix::new(path)
        .and_then(|address| connect(&socket_with(AddressFamily::UNIX, SocketType::STREAM, kind, None)?, &address));
    asked == Err(Errno::CONNREFUSED)
}

fn by(process: Option<i32>) -> String {
    process.map_or(String::new(), |process| format!(" (process {process})"))
}

/// The process that called `listen` on the other end of a connection, where the kernel names it: zero is one of another
/// namespace.
fn listening(stream: &UnixStream) -> Option<i32> {
    let process = sockopt::socket_peercred(stream).ok()?.pid.as_raw_nonzero().get();
    (process > 0).then_some(process)
}

impl Listener {
    /// Listens at a new path, which only this user may connect to.
    pub fn unix(live: &Live, path: &Path) -> Result<Listener, ListenError> {
        let owned = || path.to_owned();
        if let Ok(metadata) = std::fs::symlink_metadata(path) {
            if !metadata.file_type().is_socket() {
                return Err(ListenError::NotASocket { path: owned() });
            }
            return Err(match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => ListenError::Stale { path: owned() },
                connected => {
                    let process = connected.ok().as_ref().and_then(listening);
                    ListenError::Occupied { path: owned(), process }
                }
            });
        }
        let address = SocketAddrUnix::new(path).map_err(|_| ListenError::TooLong { path: owned() })?;
        let no_place = |source: io::Error| ListenError::NoPlace { path: owned(), source };
        let system = |error: rustix::io::Errno| no_place(error.into());
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(system)?;
        rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR).map_err(system)?;
        bind(&fd, &address).map_err(system)?;
        let metadata = std::fs::symlink_metadata(path).map_err(no_place)?;
        let place = Place::Path { path: owned(), identity: (metadata.dev(), metadata.ino()) };
        let listening = listen(&fd, WAITING).map_err(system);
        // From here on the file is ours, and removed if anything fails.
        let listener = Listener::on(live, fd, place)?;
        listening.map(|()| listener)
    }

    /// As [`unix`](Listener::unix), in the place of a socket at which nobody listens any more, if one is there.
    pub fn unix_replacing(live: &Live, path: &Path) -> Result<Listener, ListenError> {
        // Between being bound and listening, a socket looks like one that was left: so both are done under the lock
        // under which it is looked.
        let _alone = alone_in(path);
        match Listener::unix(live, path) {
            Err(ListenError::Stale { .. }) => {
                std::fs::remove_file(path).map_err(|source| ListenError::NoPlace { path: path.to_owned(), source })?;
                Listener::unix(live, path)
            }
            listening => listening,
        }
    }

    /// Removes a socket at which nobody listens, if there is one at the path. Only for folders in which sockets are
    /// made by [`unix_replacing`](Listener::unix_replacing).
    pub fn remove_stale(path: &Path) {
        let is_socket = || std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_socket() && is_stale(path) {
            let _alone = alone_in(path);
            if is_socket() && is_stale(path) {
                // Whoever may not remove it leaves it to whoever may.
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// Listens on a socket of this machine that whoever started this program has made, as systemd does for a socket
    /// unit. It is not removed in the end.
    pub fn inherited_unix(live: &Live, listener: UnixListener) -> Result<Listener, ListenError> {
        let path = listener.local_addr().ok().and_then(|address| address.as_pathname().map(Path::to_owned));
        let name = path.as_ref().map_or("a socket without a path".into(), |path| path.display().to_string());
        Listener::inherited(live, listener.into(), name, Place::Inherited(path))
    }

    /// As [`inherited_unix`](Listener::inherited_unix), of TCP.
    pub fn inherited_tcp(live: &Live, listener: TcpListener) -> Result<Listener, ListenError> {
        let name = listener.local_addr().map_or("a socket of TCP".into(), |address| address.to_string());
        Listener::inherited(live, listener.into(), name, Place::Tcp)
    }

    fn inherited(live: &Live, fd: OwnedFd, name: String, place: Place) -> Result<Listener, ListenError> {
        if !sockopt::socket_acceptconn(&fd).unwrap_or(false) {
            return Err(ListenError::Idle { name });
        }
        // The ring waits, whatever the socket is set to: one that does not block would have it ask without end.
        let _ = rustix::io::ioctl_fionbio(&fd, false);
        Listener::on(live, fd, place)
    }

    /// Listens on an address of TCP; port 0 is any that is free.
    pub fn tcp(live: &Live, address: SocketAddr) -> Result<Listener, ListenError> {
        let listener = TcpListener::bind(address).map_err(|source| ListenError::Address { address, source })?;
        Listener::on(live, listener.into(), Place::Tcp)
    }

    fn on(live: &Live, fd: OwnedFd, place: Place) -> Result<Listener, ListenError> {
        let registered = ring(live).and_then(|ring| ring.register(fd.as_fd()).map_err(|error| error.to_string()));
        match registered {
            Ok(file) => Ok(Listener { file, fd, place }),
            Err(error) => {
                place.remove();
                Err(ListenError::Ring(error))
            }
        }
    }

    /// The address of TCP that it listens on.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        rustix::net::getsockname(&self.fd).ok()?.try_into().ok()
    }

    /// The path that it listens at.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::Path { path, .. } => Some(path),
            Place::Inherited(path) => path.as_deref(),
            Place::Tcp => None,
        }
    }

    /// Waits for the next connection.
    pub async fn accept(&self) -> io::Result<Socket> {
        let (_, result) = self.file.call(Call::Accept).await;
        let fd = accepted(checked(result)? as i32);
        if matches!(self.place, Place::Tcp) {
            prepare_tcp(&fd)?;
        }
        Socket::on(self.file.ring(), fd).map_err(io::Error::other)
    }
}

impl Place {
    fn remove(&self) {
        if let Place::Path { path, identity } = self {
            let found = std::fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
            if found.is_ok_and(|found| found == *identity) {
                // Who took away the permission to remove it has to remove it.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.place.remove();
    }
}
