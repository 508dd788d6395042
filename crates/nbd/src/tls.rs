//! Encrypted wires: TLS by rustls, both sides known to each other by certificates of one authority.
//!
//! Files are named as libnbd, qemu and nbdkit name them, so that one folder serves all: `ca-cert.pem`, and
//! `server-cert.pem` with `server-key.pem` or `client-cert.pem` with `client-key.pem`. A server demands a certificate
//! of its clients: encryption alone would let anybody write to the disk.
//!
//! A certificate of one's own that is not valid now is refused at the start, with the date: peers refuse it, and say so
//! where nobody looks. It is held against the authority by the verifier that a peer would use, of whose complaints only
//! those of time count: a chain that is incomplete here may be whole there.
//!
//! A peer's own end is not asked for its `close_notify`: what a connection here still has to say is known without it. A
//! client says that it leaves, and an answer has a length.
//!
//! Of an authority that verifier asks no date (RFC 5280, 6.1, leaves that to whoever trusts it), where peers that use
//! GnuTLS or OpenSSL do. So the certificate of each is held against itself like one of one's own. Those that are not
//! valid now are not trusted; where no other is left, that is refused as well.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use device::Buffer;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};
use units::Bytes;
use uring::Parcel;

use crate::key::unusable_rsa_bits;
use crate::wire::Wire;

/// What a server shows its clients, and whom it lets in. Clones share it.
#[derive(Clone)]
pub struct ServerTls(Arc<ServerConfig>);

/// What a client shows servers, and whom it trusts. Clones share it.
#[derive(Clone)]
pub struct ClientTls(Arc<ClientConfig>);

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum TlsError {
    #[error(
        "{path} cannot be read: {reason}; a folder for TLS holds ca-cert.pem, {side}-cert.pem and {side}-key.pem, in PEM"
    )]
    File { path: PathBuf, reason: String, side: &'static str },
    #[error("the certificates in {folder} do not do: {reason}; {side}-cert.pem must belong to {side}-key.pem")]
    Certificates { folder: PathBuf, reason: String, side: &'static str },
    #[error(
        "{path} holds an RSA key of {bits} bits; RSA keys of 2048, 3072 or 4096 bits can be used, and ECDSA (P-256, P-384) and Ed25519 keys. \
         Make one (certtool --generate-privkey --key-type rsa --bits 3072 --outfile KEY, or openssl genrsa -out KEY 3072), and a certificate for it"
    )]
    KeySize { path: PathBuf, bits: usize },
    #[error("the certificate in {path} expired at {date}; put one that is valid in its place")]
    Expired { path: PathBuf, date: String },
    #[error("the certificate in {path} is valid from {date} on; is the clock of this machine right?")]
    NotYet { path: PathBuf, date: String },
    #[error("'{0}' is no name of a host that a certificate could be for")]
    Host(String),
}

struct Files {
    authority: RootCertStore,
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Files {
    fn read(folder: &Path, side: &'static str) -> Result<Files, TlsError> {
        fn fail(path: &Path, side: &'static str, reason: impl ToString) -> TlsError {
            TlsError::File { path: path.to_owned(), reason: reason.to_string(), side }
        }
        let certificates = |name: String| {
            let path = folder.join(name);
            let read = CertificateDer::pem_file_iter(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            match read {
                Ok(found) if found.is_empty() => Err(fail(&path, side, "there is no certificate in it")),
                read => read.map_err(|error| fail(&path, side, error)).map(|found| (path, found)),
            }
        };
        let (mut authority, mut outdated) = (RootCertStore::empty(), None);
        let (path, found) = certificates("ca-cert.pem".into())?;
        for certificate in found {
            let mut alone = RootCertStore::empty();
            alone.add(certificate.clone()).map_err(|error| fail(&path, side, error))?;
            match timely(complaint_of_clients(alone, std::slice::from_ref(&certificate)), &path) {
                Ok(()) => authority.add(certificate).map_err(|error| fail(&path, side, error))?,
                Err(error) => outdated = outdated.or(Some(error)),
            }
        }
        if let (true, Some(error)) = (authority.is_empty(), outdated) {
            return Err(error);
        }
        let (_, certificates) = certificates(format!("{side}-cert.pem"))?;
        let path = folder.join(format!("{side}-key.pem"));
        let key = PrivateKeyDer::from_pem_file(&path).map_err(|error| fail(&path, side, error))?;
        if let Some(bits) = unusable_rsa_bits(&key) {
            return Err(TlsError::KeySize { path, bits });
        }
        Ok(Files { authority, certificates, key })
    }
}

impl ServerTls {
    /// From the files in a folder: `ca-cert.pem`, `server-cert.pem`, `server-key.pem`.
    pub fn from_folder(folder: &Path) -> Result<ServerTls, TlsError> {
        let side = "server";
        let files = Files::read(folder, side)?;
        let fail = |reason: String| TlsError::Certificates { folder: folder.to_owned(), reason, side };
        timely(complaint_of_clients(files.authority.clone(), &files.certificates), &folder.join("server-cert.pem"))?;
        let provider = Arc::new(default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(files.authority), Arc::clone(&provider))
            .build()
            .map_err(|error| fail(error.to_string()))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| fail(error.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(files.certificates, files.key)
            .map_err(|error| fail(error.to_string()))?;
        Ok(ServerTls(Arc::new(config)))
    }
}

impl ClientTls {
    /// From the files in a folder: `ca-cert.pem`, `client-cert.pem`, `client-key.pem`.
    pub fn from_folder(folder: &Path) -> Result<ClientTls, TlsError> {
        let side = "client";
        let files = Files::read(folder, side)?;
        let fail = |reason: String| TlsError::Certificates { folder: folder.to_owned(), reason, side };
        let authority = Arc::new(files.authority.clone());
        if let Ok(of_servers) =
            WebPkiClientVerifier::builder_with_provider(authority, Arc::new(default_provider())).build()
        {
            let (own, others) = files.certificates.split_first().expect("there is a certificate in the file");
            let judged = of_servers.verify_client_cert(own, others, UnixTime::now());
            timely(judged.err(), &folder.join("client-cert.pem"))?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| fail(error.to_string()))?
            .with_root_certificates(files.authority)
            .with_client_auth_cert(files.certificates, files.key)
            .map_err(|error| fail(error.to_string()))?;
        Ok(ClientTls(Arc::new(config)))
    }
}

/// What clients who trust these authorities would say of a server's certificate, and those behind it in its file.
fn complaint_of_clients(authority: RootCertStore, certificates: &[CertificateDer]) -> Option<rustls::Error> {
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(authority), Arc::new(default_provider()));
    let anybody = ServerName::try_from("localhost").expect("it is the name of a host");
    let (own, others) = certificates.split_first().expect("there is a certificate in the file");
    verifier.build().ok()?.verify_server_cert(own, others, &anybody, &[], UnixTime::now()).err()
}

/// Refuses a certificate that a peer would find not to be valid now.
fn timely(complaint: Option<rustls::Error>, path: &Path) -> Result<(), TlsError> {
    let path = path.to_owned();
    let date = |time: UnixTime| {
        let since_1970 = std::time::Duration::from_secs(time.as_secs());
        humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + since_1970).to_string()
    };
    match complaint {
        Some(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Err(TlsError::Expired { path, date: date(not_after) })
        }
        Some(rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. })) => {
            Err(TlsError::NotYet { path, date: date(not_before) })
        }
        _ => Ok(()),
    }
}

/// An encrypted wire.
pub struct Tls<W> {
    wire: Rc<W>,
    session: RefCell<Connection>,
    received: RefCell<Received>,
}

/// Encrypted bytes that have arrived.
struct Received {
    /// Absent while it is being filled.
    memory: Option<Buffer>,
    start: usize,
    end: usize,
}

/// A record of TLS has at most 16 KiB; one receive takes several.
const CAPACITY: Bytes = Bytes::kib(128);
/// What is encrypted at once.
const PIECE: usize = 256 * 1024;

impl<W: Wire> Tls<W> {
    /// The server's side of the handshake.
    pub async fn accept(wire: Rc<W>, tls: &ServerTls) -> io::Result<Tls<W>> {
        let session = ServerConnection::new(Arc::clone(&tls.0)).map_err(io::Error::other)?;
        Tls::shake_hands(wire, session.into()).await
    }

    /// The client's side, with a host of that name.
    pub async fn connect(wire: Rc<W>, tls: &ClientTls, host: &str) -> io::Result<Tls<W>> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| io::Error::other(TlsError::Host(host.into())))?;
        let session = ClientConnection::new(Arc::clone(&tls.0), name).map_err(io::Error::other)?;
        Tls::shake_hands(wire, session.into()).await
    }

    async fn shake_hands(wire: Rc<W>, mut session: Connection) -> io::Result<Tls<W>> {
        // What is written is sent at once, so there is no need for a limit.
        session.set_buffer_limit(None);
        let received = RefCell::new(Received { memory: Some(Buffer::zeroed(CAPACITY)), start: 0, end: 0 });
        let tls = Tls { wire, session: RefCell::new(session), received };
        loop {
            tls.flush().await?;
            if !tls.session.borrow().is_handshaking() {
                return Ok(tls);
            }
            let advanced = tls.advance().await;
            if advanced.is_err() {
                // The peer is told what it did wrong, if it still listens.
                let _ = tls.flush().await;
            }
            if advanced? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Decrypts what has arrived, or waits until something has; 0 if the peer has ended.
    async fn advance(&self) -> io::Result<usize> {
        let empty = {
            let received = self.received.borrow();
            received.start == received.end
        };
        if empty {
            let memory = self.received.borrow_mut().memory.take().expect("one task receives");
            let (memory, result) = self.wire.receive(memory).await;
            let mut received = self.received.borrow_mut();
            received.memory = Some(memory);
            (received.start, received.end) = (0, 0);
            received.end = result?;
            if received.end == 0 {
                return Ok(0);
            }
        }
        let mut received = self.received.borrow_mut();
        let Received { memory, start, end } = &mut *received;
        let mut bytes =
            &memory.as_ref().and_then(Buffer::bytes).expect("memory is there between receives")[*start..*end];
        let mut session = self.session.borrow_mut();
        let count = session.read_tls(&mut bytes)?;
        *start += count;
        session.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(count)
    }

    /// Sends what TLS itself has to say, and what was encrypted.
    async fn flush(&self) -> io::Result<()> {
        let mut encrypted = Vec::new();
        {
            let mut session = self.session.borrow_mut();
            while session.wants_write() {
                session.write_tls(&mut encrypted)?;
            }
        }
        if encrypted.is_empty() {
            return Ok(());
        }
        self.wire.send(vec![Parcel::head(encrypted)]).await.1
    }

    async fn send_all(&self, parcels: &[Parcel]) -> io::Result<()> {
        for part in parcels.iter().flat_map(Parcel::parts) {
            for piece in part.chunks(PIECE) {
                self.session.borrow_mut().writer().write_all(piece)?;
                if piece.len() == PIECE {
                    self.flush().await?;
                }
            }
        }
        self.flush().await
    }
}

impl<W: Wire> Wire for Tls<W> {
    async fn receive(&self, mut into: Buffer) -> (Buffer, io::Result<usize>) {
        loop {
            let read = {
                let memory = into.bytes_mut().expect("what is received needs memory");
                self.session.borrow_mut().reader().read(memory)
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match self.advance().await {
                    Ok(0) => return (into, Ok(0)),
                    Ok(_) => {}
                    Err(error) => return (into, Err(error)),
                },
                read => return (into, read),
            }
        }
    }

    async fn send(&self, parcels: Vec<Parcel>) -> (Vec<Parcel>, io::Result<()>) {
        let sent = self.send_all(&parcels).await;
        (parcels, sent)
    }

    fn stop_receiving(&self) {
        self.wire.stop_receiving();
    }

    fn stop_sending(&self) {
        self.wire.stop_sending();
    }

    /// With `close_notify`, by which the peer knows that nobody cut off the rest (RFC 8446, 6.1).
    async fn end_sending(&self) {
        self.session.borrow_mut().send_close_notify();
        // A peer that has gone already does not miss it.
        let _ = self.flush().await;
        self.wire.end_sending().await;
    }
}
