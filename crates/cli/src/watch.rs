//! A run that is watched: lines each second, a file in its folder, and what Prometheus asks for.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lab::{Progress, Status, Tick};

use crate::args;
use crate::fail::Failure;
use crate::progress::RunBar;

/// Refuses to show meanwhile what is over before anybody can look.
pub fn check(seen: &args::Seen, virtual_time: bool) -> Result<(), Failure> {
    match virtual_time && (seen.watch || seen.metrics.is_some()) {
        true => Err(Failure::input(anyhow::anyhow!(
            "--watch and --metrics are of real devices; what is modelled or simulated runs in virtual time: leave them out"
        ))),
        false => Ok(()),
    }
}

/// What has been seen.
#[derive(Default)]
struct Seen {
    last: Option<Tick>,
    shown: usize,
    /// What is being done.
    title: String,
}

/// Shows a run, and keeps its state where others can read it.
pub struct Watch {
    loud: bool,
    bar: Option<RunBar>,
    names: Vec<String>,
    /// The document of the run so far, made anew each second.
    file: PathBuf,
    metrics: Option<Metrics>,
    seen: Mutex<Seen>,
}

impl Watch {
    /// `loud` prints lines on standard error; otherwise there is a bar.
    pub fn new(loud: bool, names: Vec<String>, file: PathBuf, metrics: Option<Metrics>) -> Watch {
        let mut watch = Watch::beside(loud, names, file, metrics);
        watch.bar = (!loud).then(RunBar::new);
        watch
    }

    /// Without a bar: there is one already.
    pub fn beside(loud: bool, names: Vec<String>, file: PathBuf, metrics: Option<Metrics>) -> Watch {
        Watch { loud, bar: None, names, file, metrics, seen: Mutex::default() }
    }

    /// Says what is being done, above the lines of the next second.
    pub fn title(&self, title: String) {
        self.seen.lock().expect("no panic under this lock").title = title;
    }

    fn print(&self, text: &str, before: usize) {
        let mut error = std::io::stderr().lock();
        // On a terminal the lines of the last second are written over. If it is gone, there is nobody to tell.
        let over = std::io::IsTerminal::is_terminal(&error) && before > 0;
        let up = if over { format!("\x1b[{before}A\x1b[J") } else { String::new() };
        let _ = writeln!(error, "{up}{text}");
    }
}

impl Progress for Watch {
    fn tick(&self, tick: &Tick) {
        if let Some(bar) = &self.bar {
            bar.tick(tick);
        }
        let mut seen = self.seen.lock().expect("no panic under this lock");
        let last = seen.last.as_ref().map_or(units::Duration::ZERO, |last| last.elapsed);
        if tick.devices.is_empty() || tick.elapsed.saturating_sub(last) < units::Duration::seconds(1) {
            return;
        }
        let whole = Status::between(None, tick);
        // A folder that takes nothing more will be said to be so at the end of the run.
        let part = self.file.with_extension("part");
        let _ = std::fs::write(&part, format!("{:#}\n", whole.document(&self.names)))
            .and_then(|()| std::fs::rename(&part, &self.file));
        if let Some(metrics) = &self.metrics {
            metrics.set(whole.metrics(&self.names));
        }
        if self.loud {
            let lines = Status::between(seen.last.as_ref(), tick).lines(&self.names);
            let text = if seen.title.is_empty() { lines } else { format!("{}\n{lines}", seen.title) };
            self.print(&text, seen.shown);
            seen.shown = text.lines().count();
        }
        seen.last = Some(tick.clone());
    }

    fn warn(&self, warning: &str) {
        eprintln!("warning: {warning}");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The summary says more.
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Answers Prometheus, from a thread that ends with the program. One kind of request, one answer: a server of others would be more to read than this.
#[derive(Clone)]
pub struct Metrics {
    text: Arc<Mutex<String>>,
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
        let metrics = Metrics { text: Arc::default() };
        let served = metrics.clone();
        let thread = std::thread::Builder::new().name("metrics".into());
        let started = thread.spawn(move || {
            for client in listener.incoming() {
                match client {
                    // A client that leaves or says nothing is its own affair.
                    Ok(client) => drop(served.answer(client)),
                    // Nor is there anybody to tell that no file may be opened any more; that may pass.
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),
                }
            }
        });
        started.map_err(refused)?;
        Ok(metrics)
    }

    fn set(&self, text: String) {
        *self.text.lock().expect("no panic under this lock") = text;
    }

    fn answer(&self, mut client: TcpStream) -> std::io::Result<()> {
        client.set_read_timeout(Some(Duration::from_secs(2)))?;
        client.set_write_timeout(Some(Duration::from_secs(2)))?;
        let mut lines = BufReader::new(client.try_clone()?.take(16 << 10)).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        // The rest of the head is of no interest, but a connection that is closed before it was read is reset.
        while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
        let (status, body) = match first.split(' ').take(2).collect::<Vec<_>>()[..] {
            ["GET", "/metrics" | "/"] => ("200 OK", self.text.lock().expect("no panic under this lock").clone()),
            ["GET", _] => ("404 Not Found", "there is only /metrics\n".to_owned()),
            _ => ("405 Method Not Allowed", "there is only GET\n".to_owned()),
        };
        write!(
            client,
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    }
}
