//! The suite that the memory device passes, on files: every engine, past the page cache and through it.

use std::path::Path;

use device::conformance;
use units::{Bytes, Duration};
use uring::{Engine, FileDevice, FileOptions, Live, LiveOptions, Mode, RingOptions};

/// Runs the suite on a new file in `folder`; false if the file system there has no direct I/O.
fn check(live: &Live, folder: &Path, options: &FileOptions) -> bool {
    let folder = tempfile::tempdir_in(folder).expect("the folder takes files");
    let device = match FileDevice::create(live, &folder.path().join("device"), Bytes::mib(16), options) {
        Ok(device) => device,
        Err(uring::OpenError::NoDirect { .. }) => return false,
        Err(error) => panic!("{error}"),
    };
    println!("{} by {}: {}", folder.path().display(), device.choice().engine, device.choice().reason);
    conformance::check(live.runtime(), &device);
    true
}

/// The build's own folder: on a disk, where `/tmp` may be memory.
fn disk() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// A ring, if this machine has one.
fn live(options: LiveOptions) -> Option<Live> {
    let live = Live::start(&options);
    if let Err(error) = live.ring() {
        println!("skipped: {error}");
        return None;
    }
    Some(live)
}

fn modes() -> [FileOptions; 3] {
    [FileOptions::direct(), FileOptions::buffered(), FileOptions::buffered().copying()]
}

/// What is mapped lies in the page cache.
fn fits(engine: Engine, options: &FileOptions) -> bool {
    engine != Engine::Mapped || options.mode == Mode::Buffered
}

#[test]
fn files_on_a_disk_by_io_uring() {
    let Some(live) = live(LiveOptions::default()) else { return };
    for options in modes() {
        if !check(&live, disk(), &options.by(Engine::IoUring)) {
            println!("skipped: no direct I/O in {}", disk().display());
        }
    }
}

/// Two places in the submission queue: the backlog must feed it piece by piece.
#[test]
fn a_ring_that_is_always_full() {
    let ring = RingOptions { entries: 2, ..RingOptions::default() };
    let Some(live) = live(LiveOptions { ring, ..LiveOptions::default() }) else { return };
    for options in modes() {
        check(&live, disk(), &options.by(Engine::IoUring));
    }
}

#[test]
fn a_ring_that_the_kernel_polls() {
    let ring = RingOptions { kernel_poll: Some(Duration::millis(5)), ..RingOptions::default() };
    let Some(live) = live(LiveOptions { ring, ..LiveOptions::default() }) else { return };
    for options in modes() {
        check(&live, disk(), &options.by(Engine::IoUring));
    }
}

#[test]
fn a_ring_that_gathers_completions() {
    let ring = RingOptions { gather: 16, ..RingOptions::default() };
    let Some(live) = live(LiveOptions { ring, ..LiveOptions::default() }) else { return };
    for options in modes() {
        check(&live, disk(), &options.by(Engine::IoUring));
    }
}

#[test]
fn files_on_a_disk_by_threads() {
    let live = Live::start(&LiveOptions { without_ring: true, ..LiveOptions::default() });
    for options in modes() {
        check(&live, disk(), &options);
    }
}

/// The workers' completions must reach a runtime that sleeps in a ring.
#[test]
fn threads_beside_a_ring() {
    let Some(live) = live(LiveOptions::default()) else { return };
    check(&live, disk(), &FileOptions::buffered().by(Engine::Threads));
}

#[test]
fn files_on_a_disk_in_the_task_s_own_thread() {
    let live = Live::start(&LiveOptions::default());
    for engine in [Engine::Sync, Engine::Mapped] {
        for options in modes().into_iter().filter(|options| fits(engine, options)) {
            check(&live, disk(), &options.by(engine));
        }
    }
}

#[test]
fn files_in_memory() {
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() {
        println!("skipped: no tmpfs at {}", memory.display());
        return;
    }
    let live = Live::start(&LiveOptions::default());
    for (_, engine) in Engine::ALL {
        if engine == Engine::IoUring && live.ring().is_err() {
            continue;
        }
        for options in modes().into_iter().filter(|options| fits(engine, options)) {
            check(&live, memory, &options.by(engine));
        }
    }
}
