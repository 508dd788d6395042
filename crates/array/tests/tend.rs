//! What an array does by itself while it serves may be dropped at any instant, as at the end of a server.

use crate::common;

use array::md::{Resync, SUPERBLOCK_AT, Stamp};
use common::rig::*;
use device::filter::{Effect, Rule};
use device::{Device, Operation, Request};
use runtime::Runtime;
use units::{Bytes, Duration};

/// Saying that the array is clean takes a flush and a record; it is dropped somewhere in between. What follows is a
/// stop, or a power cut beside a write.
#[test]
fn an_array_whose_tending_is_dropped_is_said_to_be_clean_by_stopping_it_and_not_before() {
    let mut clean_before = 0;
    for case in LEVELS {
        for step in 0..30u64 {
            let runtime = Runtime::simulated();
            let disks = disks(&runtime, case);
            let array = open(&runtime, &disks);
            // As servers do: then a record begins with a look at what is there.
            array.look_out(Stamp(7));
            let write = |number: u64| array.submit(Request::write(BLOCK * number, block(number)));
            runtime.block_on(write(1)).result.unwrap();
            // So that some members say it earlier than others.
            let (own, later) = (SUPERBLOCK_AT..SUPERBLOCK_AT + BLOCK, Effect::Stall(Duration::micros(40)));
            disks[0].add(Rule::new(later).on(Operation::Write).within(own));
            // The first look finds that there was no other write.
            let instant = Duration::millis(200) + Duration::micros(7 * step);
            assert!(!drop_after(&runtime, instant, array.tend()), "it is tended for ever");
            let say_clean = || disks.iter().filter(|disk| superblock(&runtime, disk).resync == Resync::Clean).count();
            clean_before += u64::from(say_clean() > 0);
            if step % 2 == 0 {
                runtime.block_on(array.stop()).unwrap();
                assert_eq!(say_clean(), disks.len(), "{case:?}, step {step}: it was stopped");
                continue;
            }
            // Under way to the members, which must say by then that redundancy may not fit.
            let slow = &disks[array.geometry().place(Bytes::ZERO).member];
            let data = data_offset(&array)..SIZE;
            slow.add(Rule::new(Effect::Stall(Duration::seconds(5))).within(data));
            assert!(!drop_after(&runtime, Duration::seconds(1), write(0)), "{case:?}, step {step}");
            assert_eq!(say_clean(), 0, "{case:?}, step {step}: something is being written");
        }
    }
    assert!(clean_before > 20, "{clean_before} times some said so already");
}
