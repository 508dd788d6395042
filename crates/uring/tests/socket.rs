//! Sockets under the ring: what ends the wait for a silent peer, and messages that are larger than the kernel's room
//! for them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use device::{Buffer, Device, Request};
use futures_util::future::{Either, join, select};
use runtime::Alarm;
use units::{Bytes, Duration};
use uring::{Engine, FileDevice, FileOptions, Listener, Live, LiveOptions, Parcel, Socket};

/// How long the other side lets the runtime sleep before it does something.
const MEANWHILE: std::time::Duration = std::time::Duration::from_millis(20);

fn live() -> Option<Live> {
    let live = Live::start(&LiveOptions::default());
    match live.ring() {
        Ok(_) => Some(live),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// A connection within the machine: ours, and one that a plain thread uses.
fn connection(live: &Live) -> (Socket, UnixStream) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = Listener::unix(live, &path).unwrap();
    let theirs = thread::spawn(move || UnixStream::connect(path).unwrap());
    let ours = live.runtime().block_on(listener.accept()).unwrap();
    (ours, theirs.join().unwrap())
}

async fn word(socket: &Socket) -> Vec<u8> {
    let (buffer, result) = socket.receive(Buffer::zeroed(Bytes::new(64))).await;
    buffer.bytes().unwrap()[..result.unwrap()].to_vec()
}

#[test]
fn what_has_arrived_is_received_without_waiting() {
    let Some(live) = live() else { return };
    let (ours, mut theirs) = connection(&live);
    let mut buffer = Buffer::zeroed(Bytes::new(64));
    assert!(ours.receive_arrived(&mut buffer).is_none(), "nothing was sent");
    theirs.write_all(b"here").unwrap();
    assert_eq!(ours.receive_arrived(&mut buffer).unwrap().unwrap(), 4);
    assert_eq!(&buffer.bytes().unwrap()[..4], b"here");
    assert!(ours.receive_arrived(&mut buffer).is_none(), "it was received");
    drop(theirs);
    assert_eq!(ours.receive_arrived(&mut buffer).unwrap().unwrap(), 0, "the peer has ended");
}

#[test]
fn messages_are_answered_until_the_peer_ends() {
    let Some(live) = live() else { return };
    let (ours, mut theirs) = connection(&live);
    let peer = thread::spawn(move || {
        for round in 0..100 {
            if round % 25 == 0 {
                thread::sleep(MEANWHILE);
            }
            theirs.write_all(&[round]).unwrap();
            let mut answer = [0];
            theirs.read_exact(&mut answer).unwrap();
            assert_eq!(answer, [round]);
        }
        thread::sleep(MEANWHILE);
    });
    let answered = live.runtime().block_on(async {
        let mut answered = 0;
        loop {
            let word = word(&ours).await;
            if word.is_empty() {
                return answered;
            }
            ours.send(vec![Parcel::head(word)]).await.1.unwrap();
            answered += 1;
        }
    });
    assert_eq!(answered, 100);
    peer.join().unwrap();
}

#[test]
fn a_message_that_the_kernel_has_no_room_for_arrives_whole() {
    let Some(live) = live() else { return };
    let (ours, mut theirs) = connection(&live);
    const LENGTH: usize = 16 << 20;
    let byte = |index: usize| (index % 251) as u8;
    let peer = thread::spawn(move || {
        // Nothing is read until the sender has to wait.
        thread::sleep(MEANWHILE);
        let mut all = vec![0; LENGTH];
        theirs.read_exact(&mut all).unwrap();
        assert!(all.iter().enumerate().all(|(index, found)| *found == byte(index)));
    });
    let whole: Vec<u8> = (0..LENGTH).map(byte).collect();
    // Parts of all sizes, and more of them than one call takes.
    let mut parcels = Vec::new();
    let mut rest = &whole[..];
    for part in (1..4000).cycle() {
        if rest.is_empty() {
            break;
        }
        let (head, behind) = rest.split_at(part.min(rest.len()));
        parcels.push(Parcel::head(head.to_vec()));
        rest = behind;
    }
    assert!(parcels.len() > 2 * 1024);
    let (back, sent) = live.runtime().block_on(ours.send(parcels));
    sent.unwrap();
    assert_eq!(back.iter().map(Parcel::length).sum::<usize>(), LENGTH);
    peer.join().unwrap();
}

#[test]
fn a_peer_that_is_gone_is_an_error_of_who_sends() {
    let Some(live) = live() else { return };
    let (ours, theirs) = connection(&live);
    drop(theirs);
    let (_, sent) = live.runtime().block_on(ours.send(vec![Parcel::head(vec![1; 100])]));
    assert_eq!(sent.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn time_passes_while_a_peer_is_silent_and_nothing_is_lost_of_what_it_says_later() {
    let Some(live) = live() else { return };
    let (ours, mut theirs) = connection(&live);
    live.runtime().block_on(async {
        let patience = pin!(live.runtime().sleep(Duration::millis(10)));
        match select(pin!(word(&ours)), patience).await {
            Either::Left(_) => panic!("nothing was said"),
            Either::Right((_, waiting)) => {
                theirs.write_all(b"late").unwrap();
                assert_eq!(waiting.await, b"late");
            }
        }
        // A receive that is given up is taken back from the kernel, and what arrives then is the next one's.
        let patience = pin!(live.runtime().sleep(Duration::millis(10)));
        drop(select(Box::pin(word(&ours)), patience).await);
        live.runtime().sleep(Duration::millis(10)).await;
        theirs.write_all(b"later").unwrap();
        assert_eq!(word(&ours).await, b"later");
    });
}

/// While a task is always ready the ring never waits, and need not enter the kernel for anything else.
#[test]
fn a_message_is_received_although_tasks_are_never_idle() {
    let Some(live) = live() else { return };
    let (ours, mut theirs) = connection(&live);
    theirs.write_all(b"now").unwrap();
    let busy = async {
        for _ in 0..1000 {
            live.runtime().yield_now().await;
        }
    };
    match live.runtime().block_on(select(pin!(word(&ours)), pin!(busy))) {
        Either::Left((said, _)) => assert_eq!(said, b"now"),
        Either::Right(_) => panic!("a thousand turns went by, and what lay there was not received"),
    }
}

#[test]
fn another_thread_is_heard_while_a_peer_is_silent() {
    let Some(live) = live() else { return };
    let (ours, mut theirs) = connection(&live);
    let alarm = Alarm::default();
    let rings = thread::spawn({
        let alarm = alarm.clone();
        move || {
            thread::sleep(MEANWHILE);
            alarm.raise();
        }
    });
    live.runtime().block_on(async {
        let (said, ()) = join(word(&ours), async {
            alarm.raised().await;
            theirs.write_all(b"heard").unwrap();
        })
        .await;
        assert_eq!(said, b"heard");
    });
    rings.join().unwrap();
}

/// Says a byte for each that it hears, at once, until it is told to stop or hears no more.
fn prompt(mut theirs: UnixStream, stop: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut byte = [0];
        while !stop.load(Relaxed) && theirs.write_all(&[1]).is_ok() && theirs.read_exact(&mut byte).is_ok() {}
        // Silent, and still there.
        while !stop.load(Relaxed) {
            thread::sleep(MEANWHILE);
        }
    })
}

/// The ring waits for a lone peer that is prompt by a call of its own, which neither another thread nor a new
/// connection ends.
#[test]
fn a_prompt_peer_keeps_nobody_else_waiting() {
    let Some(live) = live() else { return };
    for answers in [usize::MAX, 100] {
        let listener = Listener::tcp(&live, "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.tcp_address().unwrap();
        let (ours, theirs) = connection(&live);
        let stop = Arc::new(AtomicBool::new(false));
        let peer = prompt(theirs, Arc::clone(&stop));
        let alarm = Alarm::default();
        let others = thread::spawn({
            let alarm = alarm.clone();
            move || {
                thread::sleep(MEANWHILE);
                alarm.raise();
                let mut other = TcpStream::connect(address).unwrap();
                other.write_all(b"new").unwrap();
                other
            }
        });
        let talk = async {
            for _ in 0..answers {
                word(&ours).await;
                ours.send(vec![Parcel::head(vec![1])]).await.1.unwrap();
            }
            // It says one thing more, and from then on there is nothing to hear.
            word(&ours).await;
            word(&ours).await;
            panic!("a silent peer has said something");
        };
        let others_are_heard = async {
            alarm.raised().await;
            word(&listener.accept().await.unwrap()).await
        };
        match live.runtime().block_on(select(pin!(others_are_heard), pin!(talk))) {
            Either::Left((said, _)) => assert_eq!(said, b"new"),
            Either::Right(_) => unreachable!("it talks without end"),
        }
        stop.store(true, Relaxed);
        ours.stop_sending();
        peer.join().unwrap();
        drop(others.join().unwrap());
    }
}

#[test]
fn a_connection_is_accepted_while_others_are_silent_and_one_that_is_dropped_is_no_longer_waited_for() {
    let Some(live) = live() else { return };
    let listener = Listener::tcp(&live, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.tcp_address().unwrap();
    let (silent, silence) = connection(&live);
    let comes = thread::spawn(move || {
        thread::sleep(MEANWHILE);
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"hello").unwrap();
        stream
    });
    live.runtime().block_on(async {
        let mut waits = Box::pin(word(&silent));
        let accepts = pin!(listener.accept());
        let Either::Right((accepted, _)) = select(&mut waits, accepts).await else { panic!("nothing was said") };
        assert_eq!(word(&accepted.unwrap()).await, b"hello");
        drop(waits);
    });
    drop((silent, silence, comes.join().unwrap()));
    let (ours, mut theirs) = connection(&live);
    let says = thread::spawn(move || {
        thread::sleep(MEANWHILE);
        theirs.write_all(b"next").unwrap();
    });
    assert_eq!(live.runtime().block_on(word(&ours)), b"next");
    says.join().unwrap();
}

#[test]
fn requests_of_files_are_not_kept_waiting_by_a_silent_peer() {
    let Some(live) = live() else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = FileOptions::buffered().by(Engine::IoUring);
    let file = FileDevice::create(&live, &folder.path().join("a"), Bytes::mib(1), &options).unwrap();
    let (ours, mut theirs) = connection(&live);
    live.runtime().block_on(async {
        let (said, ()) = join(word(&ours), async {
            for block in 0..64 {
                let at = Bytes::kib(4) * block;
                file.submit(Request::write(at, Buffer::zeroed(Bytes::kib(4)).freeze())).await.result.unwrap();
                file.submit(Request::flush()).await.result.unwrap();
            }
            theirs.write_all(b"done").unwrap();
        })
        .await;
        assert_eq!(said, b"done");
    });
}

/// As that of a server which is stopped, or too busy to accept.
#[test]
fn a_socket_whose_queue_is_full_is_waited_for_so_long_and_no_longer() {
    let Some(live) = live() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _first = UnixStream::connect(&path).unwrap();
    let began = live.runtime().now();
    let refused = live.runtime().block_on(Socket::reach_unix(&live, &path, Duration::millis(100)));
    let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("queue was full for 100 ms"), "{said}");
    assert!(live.runtime().now().since(began) < Duration::seconds(5));
    // As soon as there is room it is taken, and what is received is waited for.
    let accepting = thread::spawn(move || {
        thread::sleep(MEANWHILE);
        let _ours = listener.accept().unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        thread::sleep(MEANWHILE);
        theirs.write_all(b"there").unwrap();
    });
    let socket = live.runtime().block_on(Socket::reach_unix(&live, &path, Duration::seconds(30))).unwrap();
    assert_eq!(live.runtime().block_on(word(&socket)), b"there");
    accepting.join().unwrap();
}
