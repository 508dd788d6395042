//! What Prometheus asks for: a document over HTTP, or a file that node_exporter reads.
//!
//! One kind of request, one answer: a server of others would be more to read than this. Whoever asks is served by a
//! thread of its own, of which there are at most [`AT_ONCE`], and each has [`PATIENCE`] for all of its request and all
//! of the answer: a client that sends a byte a second, or many that send none, take nothing from the threads that do
//! the work, and soon make room for others. The document is made by those who know it, and only handed out here.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::fail::Failure;

/// Clients at a time; one more is sent away.
const AT_ONCE: usize = 16;
/// How long one client may take.
const PATIENCE: Duration = Duration::from_secs(4);
/// The longest head of a request.
const LONGEST: usize = 16 << 10;

/// Answers Prometheus, from threads that end with the program.
#[derive(Clone)]
pub struct Metrics {
    text: Arc<Mutex<String>>,
    present: Arc<AtomicUsize>,
}

impl Metrics {
    /// Listens.
    pub fn serve(address: SocketAddr) -> Result<Metrics, Failure> {
        let refused = |error| {
            Failure::world(anyhow::anyhow!(
                "--metrics {address}: {error}; name an address of this machine and a free port"
            ))
        };
        let listener = TcpListener::bind(address).map_err(refused)?;
        eprintln!("metrics: http://{}/metrics", listener.local_addr().map_err(refused)?);
        let metrics = Metrics { text: Arc::default(), present: Arc::default() };
        let served = metrics.clone();
        let started = thread().spawn(move || served.attend(&listener));
        started.map_err(refused)?;
        Ok(metrics)
    }

    /// What is answered from now on.
    pub fn set(&self, text: String) {
        *self.text.lock().expect("no panic under this lock") = text;
    }

    fn attend(&self, listener: &TcpListener) {
        for client in listener.incoming() {
            // There is nobody to tell that no file may be opened any more; that may pass.
            let Ok(client) = client else {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            if self.present.fetch_add(1, Ordering::Relaxed) >= AT_ONCE {
                self.present.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let served = self.clone();
            let leave = Leave(Arc::clone(&self.present));
            // A client that leaves or says nothing is its own affair; where there is no thread for it, it comes again.
            _ = thread().spawn(move || {
                let _leave = leave;
                _ = served.answer(client);
            });
        }
    }

    fn answer(&self, mut client: TcpStream) -> std::io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        // All of the head is read: a connection that is closed before is reset.
        let head = head(&mut client, deadline)?;
        let first = head.lines().next().unwrap_or_default();
        let (status, body) = match first.split(' ').take(2).collect::<Vec<_>>()[..] {
            ["GET" | "HEAD", "/metrics" | "/"] => {
                ("200 OK", self.text.lock().expect("no panic under this lock").clone())
            }
            ["GET" | "HEAD", _] => ("404 Not Found", "there is only /metrics\n".to_owned()),
            _ => ("405 Method Not Allowed", "there is only GET\n".to_owned()),
        };
        let mut answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        if !first.starts_with("HEAD ") {
            answer.push_str(&body);
        }
        let mut rest = answer.as_bytes();
        while !rest.is_empty() {
            client.set_write_timeout(Some(left(deadline)?))?;
            let written = client.write(rest)?;
            rest = &rest[written..];
        }
        Ok(())
    }
}

fn thread() -> std::thread::Builder {
    std::thread::Builder::new().name("metrics".into()).stack_size(256 << 10)
}

/// Counts a client that goes.
struct Leave(Arc<AtomicUsize>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Time that is left, as sockets take it.
fn left(deadline: Instant) -> std::io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

/// The head of a request, up to the empty line.
fn head(client: &mut TcpStream, deadline: Instant) -> std::io::Result<String> {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    loop {
        client.set_read_timeout(Some(left(deadline)?))?;
        let count = client.read(&mut piece)?;
        head.extend_from_slice(&piece[..count]);
        let is_whole = head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n");
        if is_whole || count == 0 {
            return Ok(String::from_utf8_lossy(&head).into_owned());
        }
        if head.len() > LONGEST {
            return Err(Error::from(ErrorKind::InvalidData));
        }
    }
}

/// A file that node_exporter's textfile collector reads, replaced as a whole.
pub struct TextFile {
    documents: Option<SyncSender<String>>,
    writing: JoinHandle<()>,
    path: PathBuf,
}

impl TextFile {
    /// At this path. The first document is written at once, so that a folder that takes none is said to.
    pub fn at(path: &Path, first: &str) -> Result<TextFile, Failure> {
        let refuse = |words: &str| Failure::input(anyhow::anyhow!("--metrics-file {}: {words}", path.display()));
        if path.extension().is_none_or(|extension| extension != "prom") {
            return Err(refuse("node_exporter reads files that end in .prom; name it so"));
        }
        replace(path, first)
            .map_err(|error| refuse(&format!("{error}; name a file in a folder that can be written to")))?;
        let (documents, taken) = sync_channel::<String>(1);
        let to = path.to_owned();
        // A thread of its own: the file system may take its time.
        let writing = thread().spawn(move || {
            let mut said = false;
            for document in taken {
                let done = replace(&to, &document);
                if let (Err(error), false) = (&done, said) {
                    _ = writeln!(std::io::stderr(), "--metrics-file {}: {error}; it is tried again", to.display());
                }
                said = done.is_err();
            }
        });
        let writing = writing.map_err(|error| refuse(&error.to_string()))?;
        Ok(TextFile { documents: Some(documents), writing, path: path.to_owned() })
    }

    /// Writes a document; not this one if one is still being written.
    pub fn set(&self, document: String) {
        _ = self.documents.as_ref().map(|documents| documents.try_send(document));
    }
}

impl Drop for TextFile {
    /// An array that is served no more has no metrics.
    fn drop(&mut self) {
        self.documents = None;
        let deadline = Instant::now() + PATIENCE;
        while !self.writing.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        _ = std::fs::remove_file(&self.path);
    }
}

fn replace(path: &Path, document: &str) -> std::io::Result<()> {
    // A name that the collector does not read.
    let part = path.with_extension(format!("prom.{}", std::process::id()));
    let done = std::fs::write(&part, document).and_then(|()| std::fs::rename(&part, path));
    if done.is_err() {
        _ = std::fs::remove_file(&part);
    }
    done
}
