//! The memory device under both clocks.

use device::{MemoryDevice, Shape, conformance};
use runtime::Runtime;
use units::Bytes;

#[test]
fn memory_under_the_virtual_clock() {
    let runtime = Runtime::simulated();
    conformance::check(&runtime, &MemoryDevice::new(&runtime, Shape::new("memory", conformance::SMALLEST)));
}

#[test]
fn memory_under_the_live_clock() {
    let runtime = Runtime::live_timers();
    let mut shape = Shape::new("memory of 4 KiB blocks", Bytes::mib(64));
    shape.logical_block = Bytes::kib(4);
    conformance::check(&runtime, &MemoryDevice::new(&runtime, shape));
}
