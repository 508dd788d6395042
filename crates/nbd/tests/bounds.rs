//! What clients may have of a server, over real sockets: places, time, memory; and that those who behave are served
//! whatever the others do.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use common::{export, live, memory};
use nbd::protocol::{RequestHeader, command, option};
use nbd::{Exports, Limits, ServeOptions, Served, serve};
use runtime::Alarm;
use units::Bytes;
use uring::Listener;

const MIB: u32 = 1 << 20;

/// They measure the memory of one process.
static ALONE: Mutex<()> = Mutex::new(());

/// A server on a thread of its own, by a Unix socket and by TCP.
struct Server {
    folder: tempfile::TempDir,
    tcp: SocketAddr,
    alarm: Alarm,
    thread: Option<std::thread::JoinHandle<(Served, Vec<String>)>>,
    _alone: MutexGuard<'static, ()>,
}

impl Server {
    fn start(limits: Limits) -> Option<Server> {
        live()?;
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let (path, alarm) = (folder.path().join("s.sock"), Alarm::default());
        let (ready, tcp) = mpsc::channel();
        let ends = alarm.clone();
        let thread = std::thread::spawn(move || {
            let live = live().unwrap();
            let runtime = live.runtime();
            let exports = Exports::new(export(memory(runtime, Bytes::mib(64)))).unwrap();
            let listeners = vec![
                Listener::unix(&live, &path).unwrap(),
                Listener::tcp(&live, "127.0.0.1:0".parse().unwrap()).unwrap(),
            ];
            ready.send(listeners[1].tcp_address().unwrap()).unwrap();
            let told: std::rc::Rc<std::cell::RefCell<Vec<String>>> = std::rc::Rc::default();
            let tell = std::rc::Rc::clone(&told);
            let options = ServeOptions {
                limits,
                tell: Some(std::rc::Rc::new(move |notice: &nbd::Notice| tell.borrow_mut().push(notice.to_string()))),
                ..ServeOptions::default()
            };
            let served = runtime.block_on(serve(runtime, exports, listeners, options, ends.raised()));
            let told = told.borrow().clone();
            (served, told)
        });
        Some(Server { folder, tcp: tcp.recv().unwrap(), alarm, thread: Some(thread), _alone: alone })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("s.sock")
    }

    fn unix(&self) -> UnixStream {
        UnixStream::connect(self.path()).unwrap()
    }

    fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.tcp).unwrap()
    }

    /// Ends it; what it did and said, and how long it took to the end.
    fn end(mut self) -> (Served, Vec<String>, Duration) {
        let begin = Instant::now();
        self.alarm.raise();
        let (served, told) = self.thread.take().unwrap().join().unwrap();
        (served, told, begin.elapsed())
    }
}

/// From the greeting to the default export; false if the server refuses it.
fn go(stream: &mut (impl Read + Write)) -> std::io::Result<bool> {
    let mut hello = [0; 18];
    stream.read_exact(&mut hello)?;
    stream.write_all(&[0, 0, 0, 3])?;
    stream.write_all(&common::raw::wish(option::GO, &common::raw::name("", &[])))?;
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head)?;
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        stream.read_exact(&mut vec![0; number(16) as usize])?;
        match number(12) {
            1 => return Ok(true),
            kind if kind >= 1 << 31 => return Ok(false),
            _ => {}
        }
    }
}

fn request(command: u16, length: u32) -> Vec<u8> {
    RequestHeader { flags: 0, command, cookie: 7, offset: 0, length }.to_bytes().to_vec()
}

/// Reads so much, and says how long that took.
fn reads(stream: &mut (impl Read + Write), length: u32) -> Duration {
    let begin = Instant::now();
    stream.write_all(&request(command::READ, length)).unwrap();
    stream.read_exact(&mut vec![0; 16 + length as usize]).unwrap();
    begin.elapsed()
}

fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn clients_that_never_read_are_given_a_bounded_memory_and_keep_nobody_from_reading() {
    for ask in [MIB, 32 * MIB] {
        let Some(server) = Server::start(Limits::default()) else { return };
        let before = rss();
        let greedy: Vec<UnixStream> = (0..63)
            .map(|_| {
                let mut stream = server.unix();
                assert!(go(&mut stream).unwrap());
                stream.set_nonblocking(true).unwrap();
                for _ in 0..100 {
                    _ = stream.write(&request(command::READ, ask));
                }
                stream
            })
            .collect();
        let mut reader = server.unix();
        assert!(go(&mut reader).unwrap());
        let until = Instant::now() + Duration::from_secs(3);
        let (mut most, mut slowest) = (0, Duration::ZERO);
        while Instant::now() < until {
            slowest = slowest.max(reads(&mut reader, MIB));
            most = most.max(rss().saturating_sub(before));
        }
        assert!(most < 400 << 20, "{} MiB for requests of {ask}", most >> 20);
        assert!(slowest < Duration::from_secs(2), "{slowest:?}");
        // They do not hold up the end, either.
        let (served, _, took) = server.end();
        assert_eq!(served.abandoned, 0);
        assert!(took < Duration::from_secs(15), "{took:?}");
        drop(greedy);
    }
}

#[test]
fn a_large_read_is_served_after_a_while_though_clients_that_do_not_read_keep_the_memory() {
    let Some(server) = Server::start(Limits { total: Bytes::mib(128), ..Limits::default() }) else { return };
    let greedy: Vec<UnixStream> = (0..8)
        .map(|_| {
            let mut stream = server.unix();
            assert!(go(&mut stream).unwrap());
            (0..8).for_each(|_| stream.write_all(&request(command::READ, 8 * MIB)).unwrap());
            stream
        })
        .collect();
    let mut reader = server.unix();
    assert!(go(&mut reader).unwrap());
    std::thread::sleep(Duration::from_secs(2));
    reads(&mut reader, 4096);
    let waited = reads(&mut reader, 32 * MIB);
    assert!(waited < Duration::from_secs(50), "{waited:?}");
    let (_, told, _) = server.end();
    assert!(told.iter().any(|line| line.contains("moved next to nothing")), "{told:?}");
    drop(greedy);
}

#[test]
fn payloads_that_trickle_in_and_replies_to_half_closed_clients_are_bounded_too() {
    let Some(server) = Server::start(Limits::default()) else { return };
    let before = rss();
    let clients: Vec<UnixStream> = (0..60)
        .map(|number| {
            let mut stream = server.unix();
            assert!(go(&mut stream).unwrap());
            if number % 2 == 0 {
                // Nearly all of a large payload, so that its memory is in use.
                stream.set_nonblocking(true).unwrap();
                _ = stream.write(&request(command::WRITE, 32 * MIB));
                _ = stream.write(&vec![1; 16 << 20]);
            } else {
                (0..10).for_each(|_| stream.write_all(&request(command::READ, 16 * MIB)).unwrap());
                stream.shutdown(std::net::Shutdown::Write).unwrap();
            }
            stream
        })
        .collect();
    let mut reader = server.unix();
    assert!(go(&mut reader).unwrap());
    for _ in 0..20 {
        let took = reads(&mut reader, MIB);
        assert!(took < Duration::from_secs(2), "{took:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let grown = rss().saturating_sub(before);
    assert!(grown < 400 << 20, "{} MiB", grown >> 20);
    drop(clients);
    server.end();
}

#[test]
fn clients_without_an_export_go_in_time_and_keep_nobody_out() {
    let limits = Limits { places: 8, negotiation: units::Duration::seconds(2), ..Limits::default() };
    let Some(server) = Server::start(limits) else { return };
    let mut silent: Vec<TcpStream> = (0..8).map(|_| server.tcp()).collect();
    let mut slow = server.tcp();
    // From the same address, though all that wait are from there.
    let begin = Instant::now();
    let mut prompt = server.tcp();
    assert!(go(&mut prompt).unwrap());
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    // A byte now and then is no sign of life.
    let byte = |stream: &mut TcpStream| stream.write_all(&[0]).is_ok();
    while begin.elapsed() < Duration::from_secs(6) && byte(&mut slow) {
        std::thread::sleep(Duration::from_millis(200));
    }
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(1500) && took < Duration::from_secs(5), "{took:?}");
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(!matches!(&ended, Err(error) if error.kind() == ErrorKind::WouldBlock), "{ended:?}");
    }
    assert!(reads(&mut prompt, 4096) < Duration::from_secs(1), "who has an export stays");
    let (_, told, _) = server.end();
    let found =
        |words: &str| told.iter().any(|line| line.starts_with("a client from 127.0.0.1") && line.contains(words));
    assert!(found("it asked for no export within 2 s") && found("too many clients"), "{told:?}");
}

#[test]
fn one_address_has_half_of_the_places_and_unix_sockets_have_others() {
    let limits = Limits { places: 4, negotiation: units::Duration::seconds(1), ..Limits::default() };
    let Some(server) = Server::start(limits) else { return };
    let mut held: Vec<TcpStream> = (0..2).map(|_| server.tcp()).collect();
    assert!(held.iter_mut().all(|stream| go(stream).unwrap()));
    assert!(!go(&mut server.tcp()).unwrap(), "a third from the same address is refused, by an answer");
    // Another address of this machine.
    let socket = from_address("127.0.0.2:0", server.tcp);
    if let Some(mut other) = socket {
        assert!(go(&mut other).unwrap());
    }
    let mut local: Vec<UnixStream> = (0..4).map(|_| server.unix()).collect();
    assert!(local.iter_mut().all(|stream| go(stream).unwrap()));
    assert!(!go(&mut server.unix()).unwrap());
    drop(held);
    assert!(go(&mut server.tcp()).unwrap(), "a place that was given back is given again");
    let (_, told, _) = server.end();
    assert!(told.iter().any(|line| line.contains("as many as they may (--connections)")), "{told:?}");
}

/// A connection from an address of this machine that the test chooses; `None` where there is no such address.
fn from_address(from: &str, to: SocketAddr) -> Option<TcpStream> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).ok()?;
    rustix::net::bind(&socket, &from.parse::<SocketAddr>().unwrap()).ok()?;
    rustix::net::connect(&socket, &to).ok()?;
    Some(TcpStream::from(socket))
}
