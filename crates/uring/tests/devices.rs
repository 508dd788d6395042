//! The suite on block devices: loop devices over files on a disk and in memory, and zram. They need root, and are skipped without.

use std::path::Path;

use device::{Buffer, Device, DeviceError, Request, conformance};
use host::Kernel;
use host::guard::{Consent, permit};
use scratch::{Loop, Refused, Zram};
use units::Bytes;
use uring::{Engine, FileDevice, FileOptions, Live, LiveOptions};

const CONSENT: Consent = Consent { destroy_data: true, times_named: 1 };

/// Every engine, past the page cache and through it.
fn check(path: &Path, chosen: Engine) {
    let permit = permit(&Kernel::running(), path, CONSENT).unwrap_or_else(|refusal| panic!("{refusal}"));
    for options in [FileOptions::direct(), FileOptions::buffered()] {
        // One runtime for each mode, which when it is dropped waits for the requests that the suite abandons. A direct write that ends after
        // the page cache holds something newer cannot drop it there, and the kernel has the next flush through the page cache fail with EIO.
        let live = Live::start(&LiveOptions::default());
        let open = |options: &FileOptions| {
            FileDevice::open_writable(&live, &permit, options).unwrap_or_else(|error| panic!("{error}"))
        };
        for (_, engine) in Engine::ALL {
            // Devices are not mapped.
            if engine == Engine::Mapped || engine == Engine::IoUring && live.ring().is_err() {
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
