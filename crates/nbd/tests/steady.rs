//! A server that is started anew, in virtual time: what it had acknowledged is there, whatever it lost, and who waits
//! long enough is served.

mod common;

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::rc::Rc;

use common::{export, house};
use device::evidence::Label;
use device::filter::WriteCache;
use device::{Buffer, Data, Device, DeviceError, MemoryDevice, Request, Shape, conformance};
use nbd::{Client, ClientError, Connect, House, PATIENCE, Pipe, Steady, Wire, converse};
use runtime::Runtime;
use units::{Bytes, Duration};
use uring::Parcel;

const SIZE: Bytes = Bytes::mib(4);

/// A pipe that somebody else can cut.
struct Cut(Rc<Pipe>);

impl Wire for Cut {
    async fn receive(&self, into: Buffer) -> (Buffer, io::Result<usize>) {
        self.0.receive(into).await
    }
    async fn send(&self, parcels: Vec<Parcel>) -> (Vec<Parcel>, io::Result<()>) {
        self.0.send(parcels).await
    }
    fn stop_receiving(&self) {
        self.0.stop_receiving();
    }
    fn stop_sending(&self) {
        self.0.stop_sending();
    }
}

/// A server with a volatile cache, that can be killed.
struct Server {
    house: Rc<House>,
    cache: Rc<WriteCache<MemoryDevice>>,
    pipes: RefCell<Vec<Rc<Pipe>>>,
    up: Cell<bool>,
}

#[derive(Clone)]
struct Way(Rc<Server>);

impl Connect for Way {
    type Wire = Cut;
    async fn connect(&self) -> Result<Client<Cut>, ClientError> {
        if !self.0.up.get() {
            return Err(ClientError::NoCertificates { uri: "nobody is there".into() });
        }
        let (ours, theirs) = Pipe::pair();
        let ours = Rc::new(ours);
        let serving = converse(Rc::clone(&self.0.house), Rc::new(theirs));
        self.0.house.runtime.spawn_detached(async move { _ = serving.await });
        self.0.pipes.borrow_mut().push(Rc::clone(&ours));
        let client = Client::over(&self.0.house.runtime, Cut(ours), "served", "", None).await;
        client.map_err(|source| ClientError::Greet { uri: "served".into(), source })
    }
}

impl Server {
    fn start(runtime: &Runtime, size: Bytes) -> Way {
        let cache = Rc::new(WriteCache::new(runtime, MemoryDevice::new(runtime, Shape::new("medium", size))));
        let house = house(runtime, export(Rc::clone(&cache)));
        Way(Rc::new(Server { house, cache, pipes: RefCell::default(), up: Cell::new(true) }))
    }

    /// Ends all connections; what was not flushed is lost.
    async fn kill(&self) {
        self.up.set(false);
        for pipe in self.pipes.take() {
            pipe.stop_receiving();
            pipe.stop_sending();
        }
        // What it had begun ends with it.
        self.house.runtime.sleep(Duration::millis(1)).await;
        self.cache.cut(|_, _| false).await.unwrap();
    }
}

fn block(value: u64) -> Data {
    let mut buffer = Buffer::zeroed(Bytes::kib(4));
    buffer.bytes_mut().unwrap().chunks_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
    buffer.freeze()
}

#[test]
fn it_is_a_device_like_any_other() {
    let runtime = Runtime::simulated();
    let way = Server::start(&runtime, Bytes::mib(16));
    let steady = runtime.block_on(Steady::over(&runtime, way)).unwrap_or_else(|error| panic!("{error}"));
    conformance::check(&runtime, &steady);
    assert_eq!(steady.reconnections(), 0);
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for() {
    let runtime = Runtime::simulated();
    // The other end is there, greets or not, and then says no more.
    for greeting in [&b""[..], b"NBDMAGICIHAVEOPT\0\x03"] {
        let (ours, theirs) = Pipe::pair();
        let began = runtime.now();
        let refused = runtime.block_on(async {
            theirs.send(vec![Parcel::head(greeting.to_vec())]).await.1.unwrap();
            Client::over(&runtime, ours, "silent", "disk", None).await.err().expect("nobody offers it")
        });
        let next = "see whether it is stopped or hangs, and start it anew";
        assert_eq!(refused.to_string(), format!("the server has not offered the export 'disk' within 10 s; {next}"));
        assert_eq!(runtime.now().since(began), Duration::seconds(10));
        // The connection has ended: the option that was sent, if any, and nothing behind it.
        runtime.block_on(async { while theirs.receive(Buffer::zeroed(Bytes::SECTOR)).await.1.unwrap() > 0 {} });
    }
}

#[test]
fn a_server_that_loses_what_was_not_flushed_gets_it_again() {
    let runtime = Runtime::simulated();
    let way = Server::start(&runtime, SIZE);
    let steady = Rc::new(runtime.block_on(Steady::over(&runtime, way.clone())).unwrap_or_else(|e| panic!("{e}")));
    let blocks = SIZE / Bytes::kib(4);
    let written = Rc::new(RefCell::new(vec![0u64; blocks as usize]));
    // Each writes its own blocks, over and over; every seventh write is durable, and there is a flush now and then.
    let writers: Vec<_> = (0..8u64)
        .map(|writer| {
            let (steady, written, runtime) = (Rc::clone(&steady), Rc::clone(&written), runtime.clone());
            runtime.clone().spawn(async move {
                for round in 1..400u64 {
                    let number = (round * 37 % (blocks / 8)) * 8 + writer;
                    let mut request = Request::write(Bytes::kib(4) * number, block(round));
                    request.fua = round % 7 == 0;
                    steady.submit(request).await.result.unwrap();
                    written.borrow_mut()[number as usize] = round;
                    if round % 50 == writer {
                        steady.submit(Request::flush()).await.result.unwrap();
                    }
                    runtime.sleep(Duration::micros(10)).await;
                }
            })
        })
        .collect();
    runtime.block_on(async {
        for times in 1..=5 {
            runtime.sleep(Duration::micros(700)).await;
            assert!(!steady.is_away());
            way.0.kill().await;
            runtime.sleep(Duration::seconds(7)).await;
            assert!(steady.is_away());
            way.0.up.set(true);
            while steady.reconnections() < times {
                runtime.sleep(Duration::micros(10)).await;
            }
            let away = steady.last_away();
            assert!(away >= Duration::seconds(7) && away < Duration::seconds(8), "{away}");
        }
        for writer in writers {
            writer.await;
        }
        steady.submit(Request::flush()).await.result.unwrap();
        way.0.kill().await;
        way.0.up.set(true);
        let written = written.take();
        for (number, value) in written.iter().enumerate() {
            let read = Request::read(Bytes::kib(4) * number as u64, Buffer::zeroed(Bytes::kib(4)));
            let reply = steady.submit(read).await;
            reply.result.unwrap();
            assert_eq!(reply.buffer.unwrap().bytes(), block(*value).bytes(), "block {number}");
        }
    });
    assert!(steady.reconnections() >= 5, "{} reconnections", steady.reconnections());
}

#[test]
fn what_was_durable_is_there_after_a_power_cut_that_follows_a_reconnection() {
    let runtime = Runtime::simulated();
    for (before, flushed) in [(false, false), (true, false), (false, true)] {
        let way = Server::start(&runtime, SIZE);
        let steady = runtime.block_on(Steady::over(&runtime, way.clone())).unwrap_or_else(|error| panic!("{error}"));
        runtime.block_on(async {
            let at = Bytes::kib(64);
            write(&steady, at, 1, before).await;
            write(&steady, at, 2, !flushed).await;
            if flushed {
                steady.submit(Request::flush()).await.result.unwrap();
            }
            way.0.kill().await;
            way.0.up.set(true);
            assert!(steady.submit(Request::read(at, Buffer::zeroed(Bytes::kib(4)))).await.result.is_ok());
            // Of what was written again since, the power cut keeps the oldest alone.
            let unflushed = way.0.cache.unflushed();
            let oldest = unflushed.first().map(|write| write.write);
            way.0.cache.cut(|write, _| Some(write.write) == oldest).await.unwrap();
            assert!(holds(&way, at, 2).await, "before: {before}, flushed: {flushed}");
        });
    }
}

#[test]
fn a_server_that_stays_away_is_gone() {
    let runtime = Runtime::simulated();
    let way = Server::start(&runtime, SIZE);
    let steady = runtime.block_on(Steady::over(&runtime, way.clone())).unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(async {
        way.0.kill().await;
        let began = runtime.now();
        let reply = steady.submit(Request::flush()).await;
        assert_eq!(reply.result, Err(DeviceError::Gone));
        let waited = runtime.now().since(began);
        assert!(waited <= PATIENCE && waited > PATIENCE - Duration::seconds(1), "{waited}");
        // Nobody waits a second time, even if it comes back: an array has gone on without it.
        way.0.up.set(true);
        assert_eq!(steady.submit(Request::flush()).await.result, Err(DeviceError::Gone));
    });
}

/// A way that leads to one server first, and to another from then on.
struct Both(Way, Way, Cell<bool>);

impl Connect for Both {
    type Wire = Cut;
    async fn connect(&self) -> Result<Client<Cut>, ClientError> {
        if self.2.replace(true) { self.1.connect().await } else { self.0.connect().await }
    }
}

/// A label of one block in front, described by its first byte.
struct First;

impl Label for First {
    fn range(&self) -> Range<Bytes> {
        Bytes::kib(4)..Bytes::kib(8)
    }
    fn difference(&self, known: &[u8], found: &[u8]) -> String {
        format!("it says {}, and said {}", found[0], known[0])
    }
}

async fn write(device: &impl Device, at: Bytes, value: u64, fua: bool) {
    let mut request = Request::write(at, block(value));
    request.fua = fua;
    device.submit(request).await.result.unwrap();
}

/// Whether not one byte was ever written to a server's medium but what the test put there.
async fn holds(way: &Way, at: Bytes, value: u64) -> bool {
    let read = way.0.cache.submit(Request::read(at, Buffer::zeroed(Bytes::kib(4)))).await;
    read.buffer.unwrap().bytes() == block(value).bytes()
}

#[test]
fn an_export_of_another_size_is_refused_at_once_and_named() {
    let runtime = Runtime::simulated();
    let way = Server::start(&runtime, SIZE);
    let both = Both(way.clone(), Server::start(&runtime, SIZE * 2), Cell::new(false));
    let steady = runtime.block_on(Steady::over(&runtime, both)).unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(async {
        way.0.kill().await;
        let began = runtime.now();
        assert_eq!(steady.submit(Request::flush()).await.result, Err(DeviceError::Exchanged));
        assert!(runtime.now().since(began) < Duration::seconds(1));
        assert_eq!(steady.exchanged().unwrap(), "its size is 8 MiB, and was 4 MiB");
    });
}

#[test]
fn an_export_that_comes_back_empty_gets_nothing_and_whoever_waits_is_told_at_once() {
    let runtime = Runtime::simulated();
    let (way, empty) = (Server::start(&runtime, SIZE), Server::start(&runtime, SIZE));
    let both = Both(way.clone(), empty.clone(), Cell::new(false));
    let steady = runtime.block_on(Steady::over(&runtime, both)).unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(async {
        write(&steady, Bytes::kib(64), 7, false).await;
        steady.submit(Request::flush()).await.result.unwrap();
        // This one would be written again, were the export the same.
        write(&steady, Bytes::kib(128), 8, false).await;
        way.0.kill().await;
        let began = runtime.now();
        let writing = steady.submit(Request::write(Bytes::kib(256), block(9)));
        let reading = steady.submit(Request::read(Bytes::kib(64), Buffer::zeroed(Bytes::kib(4))));
        let (written, read) = futures_util::join!(writing, reading);
        assert_eq!((written.result, read.result), (Err(DeviceError::Exchanged), Err(DeviceError::Exchanged)));
        assert!(runtime.now().since(began) < Duration::seconds(1));
        assert!(steady.exchanged().unwrap().starts_with("what was written durably at 64 KiB is not there"));
        for at in [Bytes::kib(128), Bytes::kib(256)] {
            assert!(holds(&empty, at, 0).await, "something was written at {at}");
        }
    });
}

#[test]
fn an_older_snapshot_is_found_by_what_was_flushed_since() {
    let runtime = Runtime::simulated();
    // What the server lost is all that was written after the snapshot, however durable it was said to be.
    for (fua, flush) in [(true, false), (false, true)] {
        let (way, snapshot) = (Server::start(&runtime, SIZE), Server::start(&runtime, SIZE));
        let both = Both(way.clone(), snapshot.clone(), Cell::new(false));
        let steady = runtime.block_on(Steady::over(&runtime, both)).unwrap_or_else(|error| panic!("{error}"));
        runtime.block_on(async {
            for number in 0..600u64 {
                let at = Bytes::kib(4) * number;
                write(&steady, at, number, true).await;
                write(&*snapshot.0.cache, at, number, true).await;
            }
            write(&steady, Bytes::kib(40), 1000, fua).await;
            if flush {
                steady.submit(Request::flush()).await.result.unwrap();
            }
            way.0.kill().await;
            assert_eq!(steady.submit(Request::flush()).await.result, Err(DeviceError::Exchanged));
            assert!(steady.exchanged().unwrap().contains("at 40 KiB"), "{:?}", steady.exchanged());
            // And never again, even if nobody asks which it is.
            assert_eq!(steady.submit(Request::flush()).await.result, Err(DeviceError::Exchanged));
        });
    }
}

#[test]
fn a_snapshot_from_after_the_last_flush_is_the_same_export_and_gets_what_it_lacks() {
    let runtime = Runtime::simulated();
    let (way, snapshot) = (Server::start(&runtime, SIZE), Server::start(&runtime, SIZE));
    let both = Both(way.clone(), snapshot.clone(), Cell::new(false));
    let steady = runtime.block_on(Steady::over(&runtime, both)).unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(async {
        write(&steady, Bytes::kib(40), 1, true).await;
        write(&*snapshot.0.cache, Bytes::kib(40), 1, true).await;
        write(&steady, Bytes::kib(80), 2, false).await;
        way.0.kill().await;
        steady.submit(Request::flush()).await.result.unwrap();
        assert!(holds(&snapshot, Bytes::kib(80), 2).await);
        assert_eq!(steady.exchanged(), None);
    });
}

#[test]
fn a_label_is_compared_with_what_was_written_last_or_was_being_written() {
    let runtime = Runtime::simulated();
    // What the label said, what it is told (and what the connection loses), what it says when it is back, and whether
    // that is it.
    for (told, lost, back, same) in
        [(None, None, 1, true), (Some(2), None, 2, true), (Some(2), None, 1, false), (None, None, 3, false)]
            .into_iter()
            .chain([(Some(2), Some(3), 2, true), (Some(2), Some(3), 3, true), (Some(2), Some(3), 1, false)])
    {
        let (way, other) = (Server::start(&runtime, SIZE), Server::start(&runtime, SIZE));
        let both = Both(way.clone(), other.clone(), Cell::new(false));
        runtime.block_on(async {
            write(&*way.0.cache, Bytes::kib(4), 1, true).await;
            write(&*other.0.cache, Bytes::kib(4), back, true).await;
            let steady = Steady::over(&runtime, both).await.unwrap_or_else(|error| panic!("{error}"));
            steady.recognise(First).await.unwrap();
            if let Some(value) = told {
                write(&steady, Bytes::kib(4), value, true).await;
            }
            way.0.kill().await;
            let mut request = Request::write(Bytes::kib(4), block(lost.unwrap_or(told.unwrap_or(1))));
            request.fua = true;
            let asked = match lost {
                Some(_) => steady.submit(request).await.result,
                None => steady.submit(Request::flush()).await.result,
            };
            let case = format!("told {told:?}, lost {lost:?}, back {back}");
            assert_eq!(asked, if same { Ok(()) } else { Err(DeviceError::Exchanged) }, "{case}");
            if !same {
                let said = format!("it says {back}, and said {}", told.unwrap_or(1));
                assert_eq!(steady.exchanged().unwrap(), said, "{case}");
                assert!(holds(&other, Bytes::kib(4), back).await, "it was written to");
            }
        });
    }
}
