//! Where ranks find each other: a file that says where rank 0 listens, or an address that all were given.

use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration as Wait, Instant};

use serde::{Deserialize, Serialize};
use units::Duration;

use crate::hosts::{Rank, Trouble};

/// How often who waits looks again.
pub(crate) const LOOK: Wait = Wait::from_millis(5);
/// A connection that is not made by then would not be good for clocks either.
const CONNECT: Wait = Wait::from_secs(3);

/// Where ranks meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A folder that all of them see.
    Folder(PathBuf),
    /// Where rank 0 listens, as `HOST:PORT`.
    Address(String),
}

impl FromStr for Place {
    type Err = String;
    fn from_str(text: &str) -> Result<Place, String> {
        match text.rsplit_once(':') {
            _ if text.is_empty() => Err("name a folder that all ranks see, or HOST:PORT of rank 0".to_owned()),
            Some((host, port)) if !host.is_empty() && !host.contains('/') => match port.parse::<u16>() {
                Ok(port) if port > 0 => Ok(Place::Address(text.to_owned())),
                _ => Err(format!(
                    "'{port}' is no port from 1 to 65535; write HOST:PORT of rank 0, or a folder with a '/'"
                )),
            },
            _ => Ok(Place::Folder(PathBuf::from(text))),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Place::Folder(path) => write!(f, "{}", path.display()),
            Place::Address(address) => f.write_str(address),
        }
    }
}

/// Why ranks did not come together.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum MeetError {
    #[error("rank 0 cannot listen for the others at {place}: {source}; name another meeting place with --meet")]
    Listen { place: Place, source: io::Error },
    #[error(
        "of {size} ranks {missing} did not come to {place} within {within}; start all of them, with the same meeting place: a folder that every host sees (--meet DIR), or HOST:PORT of rank 0"
    )]
    Missing { size: u32, missing: String, place: Place, within: Duration },
    #[error(
        "{who} found no rank 0 at {place} within {within}; name a folder that every host sees (--meet DIR), or HOST:PORT of rank 0"
    )]
    Alone { who: String, place: Place, within: Duration },
    #[error("{who} was refused by rank 0: {why}")]
    Refused { who: String, why: String },
    /// Rank 0 says why.
    #[error("{who} was sent away by rank 0, which says why")]
    Dismissed { who: String, code: u8 },
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// Whether another connection may be accepted after this: what failed was that of a client which left, or there was
/// none.
pub(crate) fn passes(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | ConnectionAborted | ConnectionReset | Interrupted)
}

impl MeetError {
    /// Whether it is the user's to mend.
    pub fn is_input(&self) -> bool {
        match self {
            MeetError::Refused { .. } => true,
            MeetError::Trouble(trouble) => trouble.input,
            _ => false,
        }
    }
}

/// What stands in the file.
#[derive(Serialize, Deserialize)]
struct Notice {
    word: String,
    host: String,
    boot: String,
    address: Option<IpAddr>,
    port: u16,
}

/// Rank 0's side: it listens, and the file is there as long as it does.
pub(crate) struct Open {
    pub listener: TcpListener,
    /// What those who come must say.
    pub word: String,
    file: Option<PathBuf>,
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Whoever finds it all the same finds nobody there.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Begins to listen, and says where.
pub(crate) fn open(rank: &Rank, place: &Place) -> Result<Open, MeetError> {
    let refused = |source| MeetError::Listen { place: place.clone(), source };
    let listen = || -> io::Result<Open> {
        match place {
            Place::Address(address) => {
                let listener = TcpListener::bind(&**address)?;
                Ok(Open { listener, word: rank.job.clone(), file: None })
            }
            Place::Folder(folder) => {
                let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
                let word: String = host::identity::random()?.iter().map(|byte| format!("{byte:02x}")).collect();
                let port = listener.local_addr()?.port();
                let notice =
                    Notice { word: word.clone(), host: rank.host.clone(), boot: boot(), address: outward(), port };
                let file = notice_path(rank, folder);
                std::fs::create_dir_all(folder)?;
                // Only this user may read the word; whoever looks sees all of it or nothing.
                let part = file.with_extension("part");
                let _ = std::fs::remove_file(&part);
                let mut text = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
                text.write_all(&serde_json::to_vec(&notice).expect("plain data becomes JSON"))?;
                std::fs::rename(&part, &file)?;
                Ok(Open { listener, word, file: Some(file) })
            }
        }
    };
    let open = listen().map_err(refused)?;
    open.listener.set_nonblocking(true).map_err(refused)?;
    Ok(open)
}

/// A connection to rank 0 and the word to say, if it listens by now.
pub(crate) fn seek(rank: &Rank, place: &Place) -> Option<(TcpStream, String)> {
    let connect = |host: &dyn Fn() -> io::Result<Vec<std::net::SocketAddr>>| {
        host().ok()?.into_iter().find_map(|address| TcpStream::connect_timeout(&address, CONNECT).ok())
    };
    match place {
        Place::Address(address) => {
            let stream = connect(&|| Ok(address.to_socket_addrs()?.collect()))?;
            Some((stream, rank.job.clone()))
        }
        Place::Folder(folder) => {
            let text = std::fs::read(notice_path(rank, folder)).ok()?;
            let notice: Notice = serde_json::from_slice(&text).ok()?;
            let port = notice.port;
            let stream = if notice.boot == boot() {
                connect(&|| Ok(vec![(Ipv4Addr::LOCALHOST, port).into()]))
            } else {
                // The way out of rank 0's host, then its name.
                connect(&|| Ok(notice.address.iter().map(|address| (*address, port).into()).collect()))
                    .or_else(|| connect(&|| Ok((&*notice.host, port).to_socket_addrs()?.collect())))
            };
            Some((stream?, notice.word))
        }
    }
}

/// Until when to wait.
pub(crate) fn deadline(within: Duration) -> Instant {
    Instant::now() + Wait::from(within)
}

fn notice_path(rank: &Rank, folder: &Path) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    folder.join(format!(".arraylab-meeting-{}.json", rank.job.chars().map(plain).collect::<String>()))
}

/// Tells one running kernel from all others.
fn boot() -> String {
    host::environment::boot_id(&host::Kernel::running())
}

/// The address by which packets leave this host: a socket that is connected to an address of documentation (RFC 5737),
/// and sends nothing.
fn outward() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_folder_or_an_address() {
        assert_eq!("runs".parse(), Ok(Place::Folder("runs".into())));
        assert_eq!("/nfs/a:b/c".parse(), Ok(Place::Folder("/nfs/a:b/c".into())));
        assert_eq!("node1:7000".parse(), Ok(Place::Address("node1:7000".into())));
        assert!("node1:port".parse::<Place>().unwrap_err().contains("HOST:PORT"));
        assert!("".parse::<Place>().is_err());
    }
}
