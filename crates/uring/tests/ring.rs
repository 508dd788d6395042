//! What the ring adds to the suite: registered memory, overflowing queues, other threads, files that go away.

use std::path::{Path, PathBuf};
use std::task::Poll;

use device::{Buffer, Data, Device, Request};
use futures_util::FutureExt;
use futures_util::future::join_all;
use units::{Bytes, Duration};
use uring::{Engine, FileDevice, FileOptions, Live, LiveOptions, RingOptions};

fn live() -> Option<Live> {
    let ring = RingOptions { entries: 64, ..RingOptions::default() };
    let live = Live::start(&LiveOptions { ring, ..LiveOptions::default() });
    match live.ring() {
        Ok(_) => Some(live),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// A folder on a disk that removes itself.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build's folder takes files")
}

fn file(live: &Live, path: &Path) -> FileDevice {
    let options = FileOptions::buffered().by(Engine::IoUring);
    FileDevice::create(live, path, Bytes::mib(8), &options).unwrap_or_else(|error| panic!("{error}"))
}

fn filled(length: Bytes, with: u8) -> Data {
    let mut buffer = Buffer::zeroed(length);
    buffer.bytes_mut().unwrap().fill(with);
    buffer.freeze()
}

#[test]
fn registered_buffers_carry_reads_and_writes() {
    let Some(live) = live() else { return };
    let folder = folder();
    let device = file(&live, &folder.path().join("a"));
    let (buffers, registered) = live.buffers(10, Bytes::new(6000 / 512 * 512));
    registered.unwrap_or_else(|error| panic!("{error}"));
    live.runtime().block_on(async {
        let writes = buffers.into_iter().zip(0..).map(|(mut buffer, n)| {
            assert!(buffer.bytes().unwrap().as_ptr().addr().is_multiple_of(4096));
            buffer.bytes_mut().unwrap().fill(n + 1);
            device.submit(Request::write(buffer.len() * u64::from(n), buffer.freeze()))
        });
        for reply in join_all(writes).await {
            reply.result.unwrap();
        }
        let (buffers, registered) = live.buffers(10, Bytes::new(5632));
        registered.unwrap_or_else(|error| panic!("{error}"));
        let reads = buffers.into_iter().zip(0..).map(|(mut buffer, n)| {
            // Parts of a registered buffer are registered.
            let rest = buffer.split_to(Bytes::SECTOR);
            let at = Bytes::new(5632) * n;
            join_all(
                [(at, rest), (at + Bytes::SECTOR, buffer)].map(|(at, into)| device.submit(Request::read(at, into))),
            )
        });
        for (replies, n) in join_all(reads).await.into_iter().zip(1..) {
            for reply in replies {
                reply.result.unwrap();
                assert!(reply.buffer.unwrap().bytes().unwrap().iter().all(|byte| *byte == n));
            }
        }
    });
}

#[test]
fn another_thread_wakes_a_ring_that_sleeps() {
    let Some(live) = live() else { return };
    for delay in [0, 1, 20] {
        let (sender, receiver) = std::sync::mpsc::channel::<std::task::Waker>();
        let thread = std::thread::spawn(move || {
            let waker = receiver.recv().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(delay));
            waker.wake();
        });
        let mut sent = false;
        live.runtime().block_on(std::future::poll_fn(|context| {
            if std::mem::replace(&mut sent, true) {
                return Poll::Ready(());
            }
            sender.send(context.waker().clone()).unwrap();
            Poll::Pending
        }));
        thread.join().unwrap();
    }
}

#[test]
fn timers_and_requests_wait_together() {
    let Some(live) = live() else { return };
    let folder = folder();
    let device = file(&live, &folder.path().join("a"));
    let runtime = live.runtime();
    runtime.block_on(async {
        let before = runtime.now();
        let ticks = async {
            for _ in 0..20 {
                runtime.sleep(Duration::millis(1)).await;
            }
        };
        let reads = async {
            for n in 0..200 {
                device.submit(Request::read(Bytes::SECTOR * n, Buffer::zeroed(Bytes::SECTOR))).await.result.unwrap();
            }
        };
        futures_util::join!(ticks, reads);
        assert!(runtime.now().since(before) >= Duration::millis(20));
    });
}

/// The place of a closed file is not given to another while requests that nobody waits for are on their way to it.
#[test]
fn abandoned_writes_reach_the_file_they_were_for() {
    let Some(live) = live() else { return };
    let folder = folder();
    let runtime = live.runtime();
    let paths: Vec<PathBuf> = (0..8).map(|n| folder.path().join(n.to_string())).collect();
    for path in &paths {
        let device = file(&live, path);
        for n in 0..64 {
            let write = device.submit(Request::write(Bytes::SECTOR * n, filled(Bytes::SECTOR, 0xbb)));
            let mut write = Box::pin(write);
            assert!(write.as_mut().now_or_never().is_none());
            if n % 2 == 0 {
                // Some are in the kernel when they are abandoned, some only in the backlog.
                runtime.block_on(runtime.yield_now());
            }
        }
        drop(device);
        let next = file(&live, &path.with_extension("next"));
        runtime.block_on(async {
            let reply = next.submit(Request::read(Bytes::ZERO, Buffer::zeroed(Bytes::mib(1)))).await;
            reply.result.unwrap();
            assert!(reply.buffer.unwrap().bytes().unwrap().iter().all(|byte| *byte == 0), "a write went astray");
        });
    }
}

#[test]
fn a_ring_is_dropped_with_requests_under_way() {
    for _ in 0..20 {
        let Some(live) = live() else { return };
        let folder = folder();
        let device = file(&live, &folder.path().join("a"));
        for n in 0..100 {
            let write = device.submit(Request::write(Bytes::kib(64) * n, filled(Bytes::kib(64), 1)));
            assert!(Box::pin(write).as_mut().now_or_never().is_none());
            if n == 50 {
                live.runtime().block_on(live.runtime().yield_now());
            }
        }
        drop((device, live));
    }
}
