//! Bytes behind a device that has only time, and the store that keeps none.

use device::filter::{Backed, Delay, Latency};
use device::{Buffer, Data, Device, Diskless, MemoryDevice, Operation, Payload, Request, Shape, conformance};
use runtime::Runtime;
use units::{Bytes, Duration, Instant};

const TIME: Duration = Duration::millis(7);

/// As models do: no memory is taken, nothing but reads, writes and flushes is known.
struct Model(Delay<MemoryDevice>);

impl Device for Model {
    fn shape(&self) -> &Shape {
        self.0.shape()
    }
    async fn submit(&self, request: Request) -> device::Reply {
        let phantom = match &request.payload {
            Payload::Into(buffer) => buffer.bytes().is_none(),
            Payload::From(data) => data.bytes().is_none(),
            Payload::None => request.operation == Operation::Flush,
        };
        assert!(phantom || self.shape().check(&request).is_err(), "{request:?}");
        self.0.submit(request).await
    }
}

fn model(runtime: &Runtime, size: Bytes) -> Model {
    Model(Delay::new(runtime, MemoryDevice::new(runtime, Shape::new("model", size)), Latency::Fixed(TIME), 1))
}

#[test]
fn a_model_with_a_store_does_what_every_device_does() {
    let runtime = Runtime::simulated();
    let size = conformance::SMALLEST;
    let store = MemoryDevice::new(&runtime, Shape::new("store", size));
    conformance::check(&runtime, &Backed::new(model(&runtime, size), store));
}

#[test]
fn time_is_the_model_s_and_zeroes_take_that_of_writes() {
    let runtime = Runtime::simulated();
    let size = Bytes::mib(16);
    let device = Backed::new(model(&runtime, size), MemoryDevice::new(&runtime, Shape::new("store", size)));
    let took = |request: Request| {
        let reply = runtime.block_on(device.submit(request));
        assert_eq!(reply.result, Ok(()));
        reply.stamps.service()
    };
    assert_eq!(took(Request::write(Bytes::ZERO, Buffer::zeroed(Bytes::kib(4)).freeze())), TIME);
    assert_eq!(took(Request::read(Bytes::ZERO, Buffer::phantom(Bytes::kib(4)))), TIME);
    // In pieces of 1 MiB, one after the other.
    assert_eq!(took(Request::write_zeroes(Bytes::ZERO, Bytes::mib(3) + Bytes::kib(4))), TIME * 4);
    assert_eq!(took(Request::discard(Bytes::ZERO, size)), Duration::ZERO);
    assert_eq!(runtime.now(), Instant::START + TIME * 6);
}

#[test]
fn a_diskless_store_keeps_the_first_512_bytes_and_nothing_else() {
    let runtime = Runtime::simulated();
    let device = Diskless::new(&runtime, Shape::new("diskless", Bytes::mib(1)));
    let read = |offset: u64, length: u64| {
        let into = Buffer::zeroed(Bytes::new(length));
        let reply = runtime.block_on(device.submit(Request::read(Bytes::new(offset), into)));
        assert_eq!(reply.result, Ok(()));
        reply.buffer.unwrap().bytes().unwrap().to_vec()
    };
    let write = |offset: u64, length: u64| {
        let mut from = Buffer::zeroed(Bytes::new(length));
        from.bytes_mut().unwrap().fill(7);
        let from: Data = from.freeze();
        assert_eq!(runtime.block_on(device.submit(Request::write(Bytes::new(offset), from))).result, Ok(()));
    };
    write(512, 4096);
    assert_eq!(read(0, 8192), [0; 8192]);
    write(0, 4096);
    assert_eq!(read(0, 4096), [&[7; 512][..], &[0; 3584]].concat());
    assert_eq!(read(512, 512), [0; 512]);
    runtime.block_on(device.submit(Request::write_zeroes(Bytes::ZERO, Bytes::SECTOR)));
    assert_eq!(read(0, 512), [0; 512]);
}
