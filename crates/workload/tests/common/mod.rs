//! A device whose behaviour is known, and a loop that loads one.
#![allow(dead_code)] // each test file uses its part

use std::cell::{Cell, RefCell};

use device::{Data, Device, DeviceError, Reply, Request, Shape, Stamps};
use record::Row;
use runtime::{Random, Resource, Runtime};
use units::{Bytes, Duration};
use workload::{Context, Control, Drive, Heap, Observer, OnError, Stream, Tally};

/// A device with some servers, each of which takes a time for a request.
pub struct Server {
    runtime: Runtime,
    shape: Shape,
    servers: Resource,
    service: Box<dyn Fn() -> Duration>,
    /// From the request after this one on, this comes of each.
    pub fails_after: Option<(u64, DeviceError)>,
    served: Cell<u64>,
}

impl Server {
    /// Servers that take the same time for each request.
    pub fn new(runtime: &Runtime, servers: u32, time: Duration) -> Server {
        Server::serving(runtime, servers, move || time)
    }

    /// Servers that ask `service` each time.
    pub fn serving(runtime: &Runtime, servers: u32, service: impl Fn() -> Duration + 'static) -> Server {
        let (shape, service) = (Shape::new("server", Bytes::gib(64)), Box::new(service));
        let (runtime, servers) = (runtime.clone(), Resource::new(runtime, servers));
        Server { runtime, shape, servers, service, fails_after: None, served: Cell::default() }
    }
}

impl Device for Server {
    fn shape(&self) -> &Shape {
        &self.shape
    }
    async fn submit(&self, request: Request) -> Reply {
        let submitted = self.runtime.now();
        let _place = self.servers.acquire(0).await;
        self.runtime.sleep((self.service)()).await;
        self.served.update(|n| n + 1);
        let result = match &self.fails_after {
            Some((n, error)) if self.served.get() > *n => Err(error.clone()),
            _ => Ok(()),
        };
        request.answer(result, Stamps { submitted, completed: self.runtime.now() })
    }
}

/// Stream 0 on device 5 in pass 1: rates of streams are counted by their index.
pub fn context<'a, D: Device, O: Observer>(
    runtime: &'a Runtime,
    device: &'a D,
    control: &'a Control,
    observer: &'a RefCell<O>,
    tally: &'a Tally,
    data: &'a Data,
) -> Context<'a, D, O> {
    let context = Context::new(runtime, device, control, observer, tally, &Heap, data);
    Context { device_index: 5, pass: 1, ..context }
}

/// Runs a stream through a pass; its rows.
pub fn load(
    (runtime, device): (&Runtime, &impl Device),
    stream: &Stream,
    control: &Control,
    seed: u64,
    (on_error, tally): (OnError, &Tally),
) -> Vec<Row> {
    let rows = RefCell::new(Vec::new());
    let observer = RefCell::new(|row: &Row| rows.borrow_mut().push(*row));
    let data = stream.data(&Heap, &mut Random::new(1));
    let context = Context { on_error: [on_error; 2], ..context(runtime, device, control, &observer, tally, &data) };
    runtime.block_on(Drive::new(context, stream, seed).run());
    assert_eq!(tally.under_way.get(), 0, "a pass ends when its last request has completed");
    assert_eq!(tally.requests.get() as usize, rows.borrow().len());
    rows.into_inner()
}
