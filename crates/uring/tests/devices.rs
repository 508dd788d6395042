//! The suite on block devices: loop devices over files on a disk and in memory, and zram. They need root, and are
//! skipped without.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;

use device::{Buffer, Data, Device, DeviceError, Request, conformance};
use host::Kernel;
use host::guard::{Consent, permit};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use scratch::{Loop, Refused, Zram};
use units::Bytes;
use uring::{Engine, FileDevice, FileOptions, Live, LiveOptions, Mode};

const CONSENT: Consent = Consent { destroy_data: true, times_named: 1 };

/// Every engine, past the page cache and through it.
fn check(path: &Path, chosen: Engine) {
    let permit = permit(&Kernel::running(), path, CONSENT).unwrap_or_else(|refusal| panic!("{refusal}"));
    for options in [FileOptions::direct(), FileOptions::buffered()] {
        // One runtime for each mode, which when it is dropped waits for the requests that the suite abandons. A direct
        // write that ends after the page cache holds something newer cannot drop it there, and the kernel has the next
        // flush through the page cache fail with EIO.
        let live = Live::start(&LiveOptions::default());
        let open = |options: &FileOptions| {
            FileDevice::open_writable(&live, &permit, options).unwrap_or_else(|error| panic!("{error}"))
        };
        for (_, engine) in Engine::ALL {
            let mapped_past_the_cache = engine == Engine::Mapped && options.mode == Mode::Direct;
            if mapped_past_the_cache || engine == Engine::IoUring && live.ring().is_err() {
                continue;
            }
            println!("{engine}, {:?}", options.mode);
            conformance::check(live.runtime(), &open(&options.clone().by(engine)));
        }
        let device = open(&options);
        println!("{} by {}: {}", path.display(), device.choice().engine, device.choice().reason);
        if live.ring().is_ok() {
            assert_eq!(device.choice().engine, chosen);
        }
    }
    let live = Live::start(&LiveOptions::default());
    let device =
        FileDevice::open_read_only(&live, path, &FileOptions::direct()).unwrap_or_else(|error| panic!("{error}"));
    let block = device.shape().logical_block;
    let write = Request::write(Bytes::ZERO, Buffer::zeroed(block).freeze());
    assert_eq!(live.runtime().block_on(device.submit(write)).result, Err(DeviceError::ReadOnly));
}

fn made<T>(device: Result<T, Refused>) -> Option<T> {
    device.inspect_err(|refused| println!("skipped: {refused}")).ok()
}

#[test]
fn a_loop_device_over_a_file_on_a_disk() {
    let Some(device) = made(Loop::over(env!("CARGO_TARGET_TMPDIR").as_ref(), Bytes::mib(16), false)) else { return };
    check(device.path(), Engine::IoUring);
}

#[test]
fn a_loop_device_over_a_file_in_memory() {
    let Some(device) = made(Loop::over("/dev/shm".as_ref(), Bytes::mib(16), false)) else { return };
    check(device.path(), Engine::IoUring);
}

#[test]
fn zram() {
    let Some(device) = made(Zram::new(Bytes::mib(16))) else { return };
    check(&device.path(), Engine::Sync);
}

/// A loop device over memory, which takes no writes any more once it is sealed.
fn over_memory() -> Option<(Loop, OwnedFd)> {
    let memory = memfd_create("arraylab-test", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&memory, 16 << 20).unwrap();
    let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
    made(Loop::over_file(path.as_ref())).map(|device| (device, memory))
}

fn block(with: u8) -> Data {
    let mut block = Buffer::zeroed(Bytes::kib(4));
    block.bytes_mut().unwrap().fill(with);
    block.freeze()
}

/// Writes a block, which cannot be stored any more; then asks again and again for durability, in both ways.
fn lose(live: &Live, device: &FileDevice, memory: &OwnedFd, first: Request) {
    let ask = |request| live.runtime().block_on(device.submit(request)).result;
    let engine = device.choice().engine;
    assert_eq!(ask(Request::write(Bytes::ZERO, block(1)).with_fua()), Ok(()), "{engine}");
    fcntl_add_seals(memory, SealFlags::WRITE).unwrap();
    assert_eq!(ask(Request::write(Bytes::kib(8), block(2))), Ok(()), "{engine}: it is in the page cache");
    let told = ask(first).expect_err("it was not stored");
    assert!(matches!(told, DeviceError::Medium { .. }), "{engine}: {told}");
    for _ in 0..4 {
        assert_eq!(ask(Request::flush()), Err(told.clone()), "{engine}: it is lost, whoever asks");
        assert_eq!(ask(Request::write(Bytes::ZERO, block(3)).with_fua()), Err(told.clone()), "{engine}");
    }
    assert_eq!(ask(Request::write(Bytes::ZERO, block(4))), Ok(()), "{engine}: that promises nothing");
}

/// The kernel says so once.
#[test]
fn what_a_device_could_not_store_is_told_to_every_flush() {
    let firsts = [Request::flush, || Request::write(Bytes::kib(16), block(5)).with_fua()];
    for (_, engine) in Engine::ALL {
        for first in firsts {
            let live = Live::start(&LiveOptions::default());
            if engine == Engine::IoUring && live.ring().is_err() {
                continue;
            }
            let Some((device, memory)) = over_memory() else { return };
            let permit = permit(&Kernel::running(), device.path(), CONSENT).unwrap();
            let options = FileOptions::buffered().by(engine);
            let file = FileDevice::open_writable(&live, &permit, &options).unwrap();
            lose(&live, &file, &memory, first());
        }
    }
}

/// A load writes back what is dirty between two passes, and so may be told first.
#[test]
fn what_could_not_be_stored_when_the_cache_is_dropped_is_told_to_flushes() {
    let live = Live::start(&LiveOptions::default());
    let Some((device, memory)) = over_memory() else { return };
    let permit = permit(&Kernel::running(), device.path(), CONSENT).unwrap();
    let file = FileDevice::open_writable(&live, &permit, &FileOptions::buffered()).unwrap();
    fcntl_add_seals(&memory, SealFlags::WRITE).unwrap();
    live.runtime().block_on(file.submit(Request::write(Bytes::kib(8), block(2)))).result.unwrap();
    assert!(file.drop_cache().is_err());
    let told = live.runtime().block_on(file.submit(Request::flush())).result;
    assert!(matches!(told, Err(DeviceError::Medium { .. })), "{told:?}");
}

#[test]
fn what_a_file_system_could_not_store_is_told_to_every_flush() {
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        let done = output.as_ref().is_ok_and(|output| output.status.success());
        if !done {
            println!("skipped: {program}: {output:?}");
        }
        done
    };
    for options in
        [FileOptions::buffered(), FileOptions::buffered().copying(), FileOptions::buffered().by(Engine::Threads)]
    {
        let Some((device, memory)) = over_memory() else { return };
        let device = device.path().to_str().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().to_str().unwrap();
        // One without a journal goes on when writing fails.
        if !run("mkfs.ext2", &["-q", device]) || !run("mount", &[device, there]) {
            return;
        }
        let live = Live::start(&LiveOptions::default());
        let path = folder.path().join("file");
        let made = FileDevice::create(&live, &path, Bytes::mib(1), &options)
            .map(|file| (file, std::fs::write(&path, [7; 1 << 20])));
        // It is there until the file is closed.
        assert!(run("umount", &["--lazy", there]));
        lose(&live, &made.unwrap().0, &memory, Request::flush());
    }
}
