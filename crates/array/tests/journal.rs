//! A journal that fails: what it alone holds must be on the members before they say so.

mod common;

use std::rc::Rc;

use array::geometry::{Level, Rotation};
use array::md::{Consistency, SUPERBLOCK_AT};
use array::{Array, OpenOptions, format};
use device::filter::{Effect, Faulty, Rule, WriteCache};
use device::{Buffer, Data, Device, MemoryDevice, Operation, Request, Shape};
use runtime::Runtime;
use units::Bytes;

const SIZE: Bytes = Bytes::mib(4);
const BLOCK: Bytes = Bytes::kib(4);

type Disk = Rc<Faulty<WriteCache<MemoryDevice>>>;

fn disk(runtime: &Runtime) -> Disk {
    let memory = MemoryDevice::new(runtime, Shape::new("disk", SIZE));
    Rc::new(Faulty::new(runtime, WriteCache::new(runtime, memory), 1))
}

fn block(value: u8) -> Data {
    let mut buffer = Buffer::zeroed(BLOCK);
    buffer.bytes_mut().unwrap().fill(value);
    buffer.freeze()
}

/// The journal does not take the record that a member has failed. Were the members to go on without it, it would be two records behind, and stale.
#[test]
fn what_a_journal_holds_is_on_the_members_before_they_record_what_it_does_not_know() {
    let runtime = Runtime::simulated();
    let level = Level::Raid5(Rotation::LeftSymmetric);
    let superblocks = common::superblocks((level, 4, Consistency::Journal), Bytes::kib(4), SIZE, 1);
    let disks: Vec<Disk> = superblocks.iter().map(|_| disk(&runtime)).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    runtime.block_on(async {
        for disk in &disks {
            disk.submit(Request::flush()).await.result.unwrap();
        }
    });
    let open = |disks: &[Disk]| {
        let options = OpenOptions { force_dirty_degraded: true };
        runtime.block_on(Array::open(&runtime, "array", disks.to_vec(), options)).unwrap()
    };
    let array = open(&disks);
    let at = |number: u64| BLOCK * number;
    runtime.block_on(async {
        for number in 0..6 {
            array.submit(Request::write(at(number), block(number as u8 + 1))).await.result.unwrap();
        }
        array.submit(Request::flush()).await.result.unwrap();
    });
    let unflushed = |number: usize| disks[number].inner().unflushed().len();
    assert!((0..3).all(|member| unflushed(member) > 0), "the journal alone has made it durable");

    disks[3].add(Rule::new(Effect::Vanish).on(Operation::Write).within(SUPERBLOCK_AT..SUPERBLOCK_AT + BLOCK));
    array.fail(0);
    // It makes nothing durable itself, but waits until the others have said who has failed.
    runtime.block_on(array.submit(Request::flush())).result.unwrap();
    assert!(array.has_lost_journal());
    drop(array);

    runtime.block_on(async {
        for disk in &disks {
            disk.clear_rules();
            disk.inner().cut(|_, _| false).await.unwrap();
        }
    });
    let array = open(&disks);
    for number in 0..6 {
        let reply = runtime.block_on(array.submit(Request::read(at(number), Buffer::zeroed(BLOCK))));
        reply.result.unwrap();
        assert!(reply.buffer.unwrap().bytes() == block(number as u8 + 1).bytes(), "block {number} is lost");
    }
}
