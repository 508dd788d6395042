//! A socket that others connect to.
//!
//! A socket in the file system is made with its permissions, not given them afterwards: `fchmod` on the unbound socket is what
//! `bind` then makes the file with (Linux `net/unix/af_unix.c`, `unix_bind_bsd`), so that nobody gets in between. What stands at the path is
//! never removed: it may be a server's that has not answered yet. The file that was made is removed in the end, if it still is that one.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

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
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum ListenError {
    /// A server answers there.
    #[error("{path}: a server is listening there; stop it, or name another path")]
    Occupied { path: PathBuf },
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
    /// Sockets need the ring.
    #[error("sockets need io_uring: {0}")]
    Ring(String),
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
                _ => ListenError::Occupied { path: owned() },
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
