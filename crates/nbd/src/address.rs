//! Where a server listens, and where a client finds it.
//!
//! Clients name an export by a URI (`doc/uri.md` of the reference implementation), which `nbdinfo`, `nbdcopy`, qemu and
//! fio understand: `nbd://HOST:PORT/EXPORT` by TCP, `nbd+unix:///EXPORT?socket=PATH` within the machine, with `nbds`
//! for TLS.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// The port that IANA has given to NBD.
const PORT: u16 = 10809;

/// Where a server listens: `unix:PATH`, `tcp:HOST:PORT`, or `systemd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// An address of this machine.
    Tcp(SocketAddr),
    /// The sockets that whoever started the program passed to it.
    Systemd,
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is no address: {reason}; write unix:PATH or tcp:HOST:PORT, such as tcp:127.0.0.1:10809, or systemd for the sockets of a socket unit"
)]
pub struct AddressError {
    text: String,
    reason: String,
}

impl FromStr for Address {
    type Err = AddressError;
    fn from_str(text: &str) -> Result<Address, AddressError> {
        let error = |reason: String| AddressError { text: text.to_owned(), reason };
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Address::Unix(PathBuf::from(path))),
            Some(("tcp", host)) => resolve(host).map(Address::Tcp).map_err(error),
            None if text == "systemd" => Ok(Address::Systemd),
            _ => Err(error("it begins with neither unix: nor tcp:".into())),
        }
    }
}

impl Address {
    /// The address that other machines can reach, if it is one.
    pub fn open(&self) -> Option<SocketAddr> {
        match self {
            Address::Tcp(address) if !address.ip().is_loopback() => Some(*address),
            // What was passed is looked at when it is taken.
            Address::Unix(_) | Address::Tcp(_) | Address::Systemd => None,
        }
    }
}

/// A host and a port as one address; the first that the name stands for.
fn resolve(host: &str) -> Result<SocketAddr, String> {
    let mut found = host.to_socket_addrs().map_err(|error| error.to_string())?;
    found.next().ok_or_else(|| "the name stands for no address".into())
}

/// An export, as clients name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uri {
    /// The connection is encrypted.
    pub tls: bool,
    /// Where the server is.
    pub place: Place,
    /// The name of the export; empty for the default one.
    pub export: String,
    /// The folder of certificates, for TLS.
    pub certificates: Option<PathBuf>,
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Behind a socket in the file system.
    Unix(PathBuf),
    /// On a host, by name or number, at a port.
    Tcp(String, u16),
}

/// A text that names no export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' names no export: {reason}; write nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH (nbds for TLS)"
)]
pub struct UriError {
    text: String,
    reason: String,
}

impl UriError {
    /// What is wrong with the text.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl Uri {
    /// True if the text means to be one.
    pub fn is_meant(text: &str) -> bool {
        ["nbd:", "nbds:", "nbd+unix:", "nbds+unix:"].iter().any(|scheme| text.starts_with(scheme))
    }

    /// The addresses of a host.
    pub fn addresses(host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
        Ok((host, port).to_socket_addrs()?.collect())
    }
}

impl FromStr for Uri {
    type Err = UriError;
    fn from_str(text: &str) -> Result<Uri, UriError> {
        let error = |reason: &str| UriError { text: text.to_owned(), reason: reason.to_owned() };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| error("it has no ://"))?;
        let (tls, unix) = match scheme {
            "nbd" => (false, false),
            "nbds" => (true, false),
            "nbd+unix" => (false, true),
            "nbds+unix" => (true, true),
            _ => return Err(error("it begins with none of nbd, nbds, nbd+unix, nbds+unix")),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
        let decoded = |part: &str| decode(part).ok_or_else(|| error("a % stands before something that is no byte"));
        let export = decoded(export)?;
        let (mut socket, mut certificates) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("socket", path)) => socket = Some(PathBuf::from(decoded(path)?)),
                Some(("tls-certificates", path)) => certificates = Some(PathBuf::from(decoded(path)?)),
                _ => return Err(error("the words after ? may be socket=PATH and tls-certificates=FOLDER")),
            }
        }
        let place = match (unix, socket) {
            (true, Some(_)) if !authority.is_empty() => return Err(error("a socket is not on a host")),
            (true, Some(path)) => Place::Unix(path),
            (true, None) => return Err(error("?socket=PATH is missing")),
            (false, Some(_)) => return Err(error("a host has no socket= (write nbd+unix)")),
            (false, None) => tcp(authority).ok_or_else(|| error("it has no HOST, or no number for a PORT"))?,
        };
        Ok(Uri { tls, place, export, certificates })
    }
}

/// `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`.
fn tcp(authority: &str) -> Option<Place> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        Some(port) => port.parse().ok()?,
        None => PORT,
    };
    (!host.is_empty()).then(|| Place::Tcp(host.to_owned(), port))
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let scheme = if self.tls { "nbds" } else { "nbd" };
        let export = encode(&self.export);
        let mut query = Vec::new();
        match &self.place {
            Place::Unix(path) => {
                write!(f, "{scheme}+unix:///{export}")?;
                query.push(format!("socket={}", encode(&path.to_string_lossy())));
            }
            Place::Tcp(host, port) if host.contains(':') => write!(f, "{scheme}://[{host}]:{port}/{export}")?,
            Place::Tcp(host, port) => write!(f, "{scheme}://{host}:{port}/{export}")?,
        }
        if let Some(folder) = &self.certificates {
            query.push(format!("tls-certificates={}", encode(&folder.to_string_lossy())));
        }
        if query.is_empty() { Ok(()) } else { write!(f, "?{}", query.join("&")) }
    }
}

/// Bytes that stand for themselves in a path and in a query (RFC 3986: unreserved, and what separates nothing there,
/// nor in a list with commas).
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~/:@!$;".contains(&byte)
}

fn encode(text: &str) -> String {
    let encoded =
        text.bytes().map(|byte| if is_plain(byte) { char::from(byte).into() } else { format!("%{byte:02X}") });
    encoded.collect()
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (code, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(str::from_utf8(code).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn uris_as_libnbd_prints_them() {
        let uri: Uri = "nbd+unix:///a%20b?socket=/tmp/nbd.sock".parse().unwrap();
        assert_eq!((uri.export.as_str(), &uri.place), ("a b", &Place::Unix("/tmp/nbd.sock".into())));
        let uri: Uri = "nbd://[::1]:99".parse().unwrap();
        assert_eq!(uri.place, Place::Tcp("::1".into(), 99));
        let uri: Uri = "nbds://host/x?tls-certificates=/etc/pki".parse().unwrap();
        assert_eq!((uri.tls, uri.place), (true, Place::Tcp("host".into(), PORT)));
    }

    #[test]
    fn what_names_no_export_is_told_apart() {
        for (text, reason) in [
            ("nbd:host", "it has no ://"),
            ("http://host", "none of nbd"),
            ("nbd:///x", "no HOST"),
            ("nbd://host:no/x", "no number"),
            ("nbd+unix:///x", "?socket=PATH is missing"),
            ("nbd+unix://host/x?socket=a", "not on a host"),
            ("nbd://host/%zz", "no byte"),
            ("nbd://host/?level=9", "words after ?"),
        ] {
            let error = text.parse::<Uri>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("write nbd://HOST"), "{error}");
        }
    }

    #[test]
    fn addresses_of_servers() {
        assert_eq!("unix:/run/a.sock".parse(), Ok(Address::Unix("/run/a.sock".into())));
        let tcp: Address = "tcp:[::1]:7".parse().unwrap();
        assert_eq!(tcp.open(), None);
        assert!("tcp:0.0.0.0:7".parse::<Address>().unwrap().open().is_some());
        assert_eq!("systemd".parse(), Ok(Address::Systemd));
        for text in ["", "unix:", "/run/a.sock", "tcp:7", "tcp:host"] {
            assert!(text.parse::<Address>().unwrap_err().to_string().contains("write unix:PATH"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_uri_prints_back_to_itself(export in "\\PC{0,20}", socket in "/[^\\x00]{1,20}", tls: bool, unix: bool) {
            let place = if unix { Place::Unix(socket.into()) } else { Place::Tcp("host".into(), 7) };
            let uri = Uri { tls, place, export, certificates: tls.then(|| "/a b&c".into()) };
            prop_assert_eq!(uri.to_string().parse(), Ok(uri));
        }

        #[test]
        fn any_text_is_an_address_or_an_error(text in "\\PC{0,40}") {
            let _ = (text.parse::<Uri>(), format!("nbd://{text}").parse::<Uri>());
        }
    }
}
