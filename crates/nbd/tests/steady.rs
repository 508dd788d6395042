//! A server that is started anew, in virtual time: what it had acknowledged is there, whatever it lost, and who waits long enough is served.

mod common;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use common::{export, house};
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

#[test]
fn another_export_in_its_place_is_not_taken_for_it() {
    let runtime = Runtime::simulated();
    let way = Server::start(&runtime, SIZE);
    struct Both(Way, Way, Cell<bool>);
    impl Connect for Both {
        type Wire = Cut;
        async fn connect(&self) -> Result<Client<Cut>, ClientError> {
            if self.2.replace(true) { self.1.connect().await } else { self.0.connect().await }
        }
    }
    let both = Both(way.clone(), Server::start(&runtime, SIZE * 2), Cell::new(false));
    let steady = runtime.block_on(Steady::over(&runtime, both)).unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(async {
        way.0.kill().await;
        assert_eq!(steady.submit(Request::flush()).await.result, Err(DeviceError::Gone));
    });
}
