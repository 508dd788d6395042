//! A part of a device is a device, and reaches nothing beside itself.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::{done, filled, fills, memory, try_read};
use device::filter::{Damage, Effect, Event, Faulty, Medium, Recorder, Rule, Slice, SliceError};
use device::{Device, DeviceError, Extent, Operation, Request, Shape, conformance};
use runtime::Runtime;
use units::Bytes;

/// Where the slices of these tests begin.
const START: Bytes = Bytes::kib(320);

#[test]
fn a_slice_does_what_every_device_does_and_leaves_its_neighbours_alone() {
    for runtime in [Runtime::simulated(), Runtime::live_timers()] {
        let behind = memory(&runtime, START + conformance::SMALLEST + Bytes::kib(64));
        let (before, after) = (START / Bytes::SECTOR, (START + conformance::SMALLEST) / Bytes::SECTOR);
        assert_eq!(done(&runtime, &behind, filled(0, before, 7)), Ok(()));
        assert_eq!(done(&runtime, &behind, filled(after, 128, 9)), Ok(()));
        let slice = Slice::new(&runtime, &behind, START..START + conformance::SMALLEST).unwrap();
        conformance::check(&runtime, &slice);
        assert_eq!(done(&runtime, &slice, Request::discard(Bytes::ZERO, slice.shape().size)), Ok(()));
        assert!(fills(&runtime, &behind, 0, before).iter().all(|fill| *fill == 7));
        assert!(fills(&runtime, &behind, after, 128).iter().all(|fill| *fill == 9));
    }
}

#[test]
fn ranges_are_moved_and_flushes_are_of_the_whole() {
    let runtime = Runtime::simulated();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let note = Rc::clone(&seen);
    let behind = Recorder::new(&runtime, memory(&runtime, Bytes::mib(1)), move |event: &Event| {
        if event.ended.is_none() {
            note.borrow_mut().push((event.operation, event.offset, event.length, event.fua, event.id));
        }
    });
    let slice = Slice::new(&runtime, behind, START..START + Bytes::kib(64)).unwrap();
    let at = Bytes::kib(4);
    for request in [
        filled(8, 1, 1).with_fua().with_id(5),
        Request::write_zeroes(at, Bytes::kib(8)),
        Request::discard(Bytes::ZERO, Bytes::kib(64)),
        Request::flush(),
    ] {
        assert_eq!(done(&runtime, &slice, request), Ok(()));
    }
    // Refused here, and not carried out on a neighbour.
    let beyond = Request::discard(Bytes::kib(60), Bytes::kib(8));
    let wanted = DeviceError::OutOfRange { offset: Bytes::kib(60), length: Bytes::kib(8), size: Bytes::kib(64) };
    assert_eq!(done(&runtime, &slice, beyond), Err(wanted));
    let wanted = [
        (Operation::Write, START + at, Bytes::SECTOR, true, 5),
        (Operation::WriteZeroes, START + at, Bytes::kib(8), false, 0),
        (Operation::Discard, START, Bytes::kib(64), false, 0),
        (Operation::Flush, Bytes::ZERO, Bytes::ZERO, false, 0),
    ];
    assert_eq!(*seen.borrow(), wanted);
}

#[test]
fn errors_are_told_in_the_slice_s_addresses() {
    let runtime = Runtime::simulated();
    let behind = Medium::new(&runtime, memory(&runtime, Bytes::mib(1)));
    let bad = START + Bytes::kib(8);
    behind.damage(bad..bad + Bytes::SECTOR, Damage::Unreadable);
    let slice = Slice::new(&runtime, behind, START..Bytes::mib(1)).unwrap();
    let found = try_read(&runtime, &slice, 0, 64).unwrap_err();
    assert_eq!(found, DeviceError::Medium { offset: Bytes::kib(8), length: Bytes::SECTOR });
    // Another place than was asked for is one of a device further behind: all of the request is in doubt.
    let elsewhere = DeviceError::Medium { offset: Bytes::ZERO, length: Bytes::SECTOR };
    let behind = Faulty::new(&runtime, memory(&runtime, Bytes::mib(1)), 1);
    behind.add(Rule::new(Effect::Fail(elsewhere)).on(Operation::Read).times(1));
    let slice = Slice::new(&runtime, behind, START..Bytes::mib(1)).unwrap();
    let found = try_read(&runtime, &slice, 16, 8).unwrap_err();
    assert_eq!(found, DeviceError::Medium { offset: Bytes::kib(8), length: Bytes::kib(4) });
    assert!(try_read(&runtime, &slice, 16, 8).is_ok());
}

#[test]
fn extents_are_those_of_the_device_behind_and_end_with_the_slice() {
    let runtime = Runtime::simulated();
    // Pages of 64 KiB.
    let behind = memory(&runtime, Bytes::mib(16));
    let page = Bytes::kib(64);
    done(&runtime, &behind, filled(page * 5 / Bytes::SECTOR, 1, 1)).unwrap();
    let slice = Slice::new(&runtime, &behind, page * 4..page * 8).unwrap();
    let size = slice.shape().size;
    assert_eq!(slice.extent(Bytes::ZERO, size), Extent::hole(page));
    assert_eq!(slice.extent(page, size - page), Extent::data(page));
    assert_eq!(slice.extent(page * 2, page * 2), Extent::hole(page * 2));
}

#[test]
fn what_is_no_part_of_a_device_is_refused() {
    let runtime = Runtime::simulated();
    let shape =
        Shape { logical_block: Bytes::kib(4), physical_block: Bytes::kib(192), ..Shape::new("m", Bytes::mib(1)) };
    let behind = device::MemoryDevice::new(&runtime, shape);
    let refused = |from: Bytes, to: Bytes| Slice::new(&runtime, &behind, from..to).err().map(|error| error.to_string());
    let kib = Bytes::kib;
    assert_eq!(
        refused(kib(8), kib(8)).unwrap(),
        "from 8 KiB to 8 KiB there is nothing; the end must lie behind the beginning"
    );
    assert_eq!(refused(kib(0), kib(1028)).unwrap(), "0 B to 1028 KiB reach beyond the end of m at 1 MiB");
    let wanted = "2 KiB to 8 KiB do not begin and end on a block of m; give multiples of 4 KiB";
    assert_eq!(refused(kib(2), kib(8)).unwrap(), wanted);
    assert!(matches!(
        Slice::new(&runtime, &behind, kib(4)..kib(6)).err(),
        Some(SliceError::Misaligned { block, .. }) if block == kib(4)
    ));
    assert_eq!(refused(kib(0), Bytes::mib(1)), None);
}
