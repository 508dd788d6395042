//! The memory device against an array of bytes; buffers that split and join.

use device::{Buffer, Device, DeviceError, MemoryDevice, NullDevice, Request, Shape};
use proptest::prelude::*;
use runtime::Runtime;
use units::Bytes;

const SIZE: u64 = 512 * 1024;

fn write(device: &impl Device, runtime: &Runtime, sector: u64, bytes: &[u8]) {
    let mut buffer = Buffer::zeroed(Bytes::new(bytes.len() as u64));
    buffer.bytes_mut().unwrap().copy_from_slice(bytes);
    let request = Request::write(Bytes::SECTOR * sector, buffer.freeze());
    runtime.block_on(device.submit(request)).result.unwrap();
}

fn read(device: &impl Device, runtime: &Runtime, sector: u64, sectors: u64) -> Vec<u8> {
    let request = Request::read(Bytes::SECTOR * sector, Buffer::zeroed(Bytes::SECTOR * sectors));
    let reply = runtime.block_on(device.submit(request));
    reply.result.unwrap();
    reply.buffer.unwrap().bytes().unwrap().to_vec()
}

proptest! {
    #[test]
    fn behaves_like_an_array_of_bytes(
        steps in prop::collection::vec((0..3u8, 0..SIZE / 512, 1..300u64, any::<u8>()), 1..40)
    ) {
        let runtime = Runtime::simulated();
        let device = MemoryDevice::new(&runtime, Shape::new("memory", Bytes::new(SIZE)));
        let mut model = vec![0u8; SIZE as usize];
        for (verb, sector, sectors, fill) in steps {
            let sectors = sectors.min(SIZE / 512 - sector);
            let range = (sector * 512) as usize..((sector + sectors) * 512) as usize;
            match verb {
                0 => {
                    model[range.clone()].fill(fill);
                    write(&device, &runtime, sector, &model[range]);
                }
                1 => prop_assert_eq!(&read(&device, &runtime, sector, sectors), &model[range]),
                _ => {
                    model[range].fill(0);
                    let zero = Request::write_zeroes(Bytes::SECTOR * sector, Bytes::SECTOR * sectors);
                    runtime.block_on(device.submit(zero)).result.unwrap();
                }
            }
        }
        prop_assert_eq!(read(&device, &runtime, 0, SIZE / 512), model);
    }

    #[test]
    fn a_buffer_splits_and_joins(length in 1..20_000u64, cut: prop::sample::Index) {
        let cut = Bytes::new(cut.index(length as usize + 1) as u64);
        for mut back in [Buffer::zeroed(Bytes::new(length)), Buffer::phantom(Bytes::new(length))] {
            let mut front = back.split_to(cut);
            prop_assert_eq!((front.len(), back.len()), (cut, Bytes::new(length) - cut));
            front.join(back);
            prop_assert_eq!(front.len(), Bytes::new(length));
        }
    }
}

#[test]
fn requests_that_do_not_fit_are_refused() {
    let runtime = Runtime::simulated();
    let device = NullDevice::new(&runtime, Shape::new("null", Bytes::kib(64)));
    let refused = |offset: u64, length: u64| {
        let request = Request::read(Bytes::new(offset), Buffer::phantom(Bytes::new(length)));
        let reply = runtime.block_on(device.submit(request));
        assert!(reply.buffer.is_some(), "a refused read hands its buffer back");
        reply.result.unwrap_err()
    };
    assert_eq!(refused(65536, 512).to_string(), "512 B at 64 KiB reach beyond the device's end at 64 KiB");
    assert!(matches!(refused(u64::MAX - 511, 512), DeviceError::OutOfRange { .. }));
    assert!(matches!(refused(100, 512), DeviceError::Misaligned { .. }));
}
