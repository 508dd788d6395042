//! Opening: whom to believe, and whom not.

use crate::common;

use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::{self, BadBlock, BadBlocks, Consistency, Features, Resync, SUPERBLOCK_AT, Superblock, Uuid};
use array::{Array, MemberState, OpenOptions, Repair, format};
use common::superblocks;
use device::filter::{Effect, Faulty, Rule};
use device::{Buffer, Data, Device, DeviceError, MemoryDevice, Operation, Request, Shape};
use runtime::Runtime;
use units::{Bytes, Duration};

type Disk = Rc<Faulty<MemoryDevice>>;
const CHUNK: Bytes = Bytes::kib(4);
/// 300 chunks of data behind 1 MiB of metadata: a rebuild passes a mark on its way.
const SIZE: Bytes = Bytes::kib(1024 + 1200);
const DATA_AT: Bytes = Bytes::mib(1);

fn disk(runtime: &Runtime) -> Disk {
    Rc::new(Faulty::new(runtime, MemoryDevice::new(runtime, Shape::new("disk", SIZE)), 1))
}

/// Formatted disks of a new array.
fn disks(runtime: &Runtime, level: Level, members: usize, array: u8) -> Vec<Disk> {
    disks_with(runtime, level, members, array, Consistency::Resync)
}

fn disks_with(runtime: &Runtime, level: Level, members: usize, array: u8, consistency: Consistency) -> Vec<Disk> {
    let superblocks = superblocks((level, members, consistency), CHUNK, SIZE, array);
    let disks: Vec<Disk> = (0..members).map(|_| disk(runtime)).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    disks
}

fn open(runtime: &Runtime, disks: &[Disk]) -> Result<Array<Disk>, String> {
    let opened = runtime.block_on(Array::open(runtime, "array", disks.to_vec(), OpenOptions::default()));
    opened.map_err(|error| error.to_string())
}

fn data(fill: u8, length: Bytes) -> Data {
    let mut buffer = Buffer::zeroed(length);
    buffer.bytes_mut().unwrap().fill(fill);
    buffer.freeze()
}

fn write(runtime: &Runtime, array: &Array<Disk>, fill: u8) -> Result<(), DeviceError> {
    let size = array.geometry().size();
    runtime.block_on(array.submit(Request::write(Bytes::ZERO, data(fill, size)))).result
}

fn reads(runtime: &Runtime, array: &Array<Disk>, fill: u8) -> bool {
    let request = Request::read(Bytes::ZERO, Buffer::zeroed(array.geometry().size()));
    let reply = runtime.block_on(array.submit(request));
    reply.result.is_ok() && reply.buffer.unwrap().bytes().unwrap().iter().all(|byte| *byte == fill)
}

fn superblock(runtime: &Runtime, disk: &Disk) -> Superblock {
    let reply = runtime.block_on(disk.submit(Request::read(SUPERBLOCK_AT, Buffer::zeroed(Bytes::kib(4)))));
    Superblock::parse(reply.buffer.unwrap().bytes().unwrap()).unwrap()
}

fn put_superblock(runtime: &Runtime, disk: &Disk, superblock: &Superblock) {
    runtime.block_on(format(std::slice::from_ref(disk), std::slice::from_ref(superblock))).unwrap();
}

const FIVE: Level = Level::Raid5(Rotation::LeftSymmetric);

#[test]
fn members_are_taken_in_any_order() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, FIVE, 3, 1);
    write(&runtime, &open(&runtime, &disks).unwrap(), 7).unwrap();
    let turned = [disks[2].clone(), disks[0].clone(), disks[1].clone()];
    assert!(reads(&runtime, &open(&runtime, &turned).unwrap(), 7));
}

#[test]
fn the_members_say_dirty_before_the_first_write_and_clean_after_a_stop() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, FIVE, 3, 1);
    let array = open(&runtime, &disks).unwrap();
    assert!(!array.is_dirty());
    // Writes of data are refused: what is on the members afterwards was there before any of them.
    for disk in &disks {
        disk.add(Rule::new(Effect::Hang).on(Operation::Write).within(DATA_AT..SIZE));
    }
    let given_up = async {
        let late = Box::pin(runtime.sleep(units::Duration::seconds(1)));
        let write = Box::pin(array.submit(Request::write(Bytes::ZERO, data(1, CHUNK))));
        futures_util::future::select(write, late).await;
    };
    runtime.block_on(given_up);
    assert!(disks.iter().all(|disk| {
        disk.resume();
        disk.clear_rules();
        superblock(&runtime, disk).resync == Resync::From(Bytes::ZERO)
    }));
    let array = open(&runtime, &disks).unwrap();
    assert!(array.is_dirty());
    runtime.block_on(array.stop()).unwrap();
    assert!(open(&runtime, &disks).unwrap().is_dirty(), "not clean before a resync");
    assert!(runtime.block_on(array.resync()).unwrap());
    runtime.block_on(array.stop()).unwrap();
    assert!(!open(&runtime, &disks).unwrap().is_dirty());
}

#[test]
fn a_failed_member_is_known_as_such_before_the_write_is_acknowledged() {
    let runtime = Runtime::simulated();
    for (level, members) in [(FIVE, 3), (Level::Raid1, 2)] {
        let disks = disks(&runtime, level, members, 1);
        let array = open(&runtime, &disks).unwrap();
        write(&runtime, &array, 1).unwrap();
        disks[1].add(Rule::new(Effect::Fail(DeviceError::Kernel { errno: 5 })).on(Operation::Write));
        write(&runtime, &array, 2).unwrap();
        disks[1].clear_rules();
        // The power goes without a word; the stale member is back, and answers.
        drop(array);
        let options = OpenOptions { force_dirty_degraded: true };
        let array = runtime.block_on(Array::open(&runtime, "array", disks.clone(), options)).unwrap();
        assert_eq!(array.state(1), MemberState::Failed);
        assert!(reads(&runtime, &array, 2), "{level:?}");
    }
}

#[test]
fn dirty_and_degraded_is_refused_where_parity_would_be_believed() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, FIVE, 3, 1);
    write(&runtime, &open(&runtime, &disks).unwrap(), 1).unwrap();
    assert_eq!(
        open(&runtime, &disks[1..]).err().unwrap(),
        "the array was not stopped, and members [0] are missing or not rebuilt: parity may not match where a write was in flight, so their \
         data may be computed wrongly there. Use --force to accept that"
    );
    let mirror = self::disks(&runtime, Level::Raid1, 2, 2);
    write(&runtime, &open(&runtime, &mirror).unwrap(), 1).unwrap();
    assert!(open(&runtime, &mirror[1..]).is_ok(), "a mirror has no parity to believe");
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let runtime = Runtime::simulated();
    let (a, b) = (disks(&runtime, FIVE, 3, 1), disks(&runtime, FIVE, 3, 2));
    let refused = |disks: &[&Disk]| {
        let disks: Vec<Disk> = disks.iter().map(|disk| Disk::clone(disk)).collect();
        open(&runtime, &disks).err().unwrap()
    };
    assert_eq!(
        refused(&[&a[0], &b[1], &a[2]]),
        "device 1 belongs to another array (02020202:02020202:02020202:02020202, not 01010101:01010101:01010101:01010101); \
         give the members of one array"
    );
    assert_eq!(
        refused(&[&a[0], &a[1], &a[1]]),
        "devices 1 and 2 both claim role 1 of the array with equal event counts: one is a copy of the other. Omit one of them"
    );
    assert_eq!(
        refused(&[&a[0]]),
        "2 of 3 members are missing or stale, and level 5 survives the loss of 1. Name more of them"
    );
    assert!(
        refused(&[&disk(&runtime)])
            .starts_with("no device has a usable superblock; the first says: there is no md superblock")
    );
    let mut with_journal = superblock(&runtime, &a[0]);
    with_journal.features = with_journal.features.with(Features::JOURNAL);
    with_journal.events += 1;
    put_superblock(&runtime, &a[0], &with_journal);
    let without_journal = refused(&[&a[0], &a[1], &a[2]]);
    assert!(
        without_journal.starts_with("the array has a journal, and none of the devices is its current journal"),
        "{without_journal}"
    );
}

#[test]
fn halves_that_went_on_alone_are_not_joined() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, Level::Raid1, 2, 1);
    for half in [0, 1] {
        let array = open(&runtime, &disks[half..=half]).unwrap();
        write(&runtime, &array, half as u8).unwrap();
        runtime.block_on(array.stop()).unwrap();
    }
    assert_eq!(
        open(&runtime, &disks).err().unwrap(),
        "split brain: devices 0 and 1 call each other failed, and each was used without the other. Keep one, and omit the other"
    );
}

#[test]
fn a_member_that_was_away_during_a_write_is_stale() {
    let runtime = Runtime::simulated();
    let cases = [(FIVE, 3, true), (Level::Raid1, 2, true), (FIVE, 3, false), (Level::Raid1, 2, false)];
    for (level, members, stopped) in cases {
        let disks = disks(&runtime, level, members, 1);
        let array = open(&runtime, &disks).unwrap();
        write(&runtime, &array, 1).unwrap();
        if stopped {
            runtime.block_on(array.stop()).unwrap();
        }
        // One write without member 0, and the power goes: it is at most one event behind.
        let options = OpenOptions { force_dirty_degraded: true };
        let array = runtime.block_on(Array::open(&runtime, "array", disks[1..].to_vec(), options)).unwrap();
        write(&runtime, &array, 2).unwrap();
        drop(array);
        let array = runtime.block_on(Array::open(&runtime, "array", disks.clone(), options)).unwrap();
        assert_eq!(array.state(0), MemberState::Failed, "{level:?}");
        assert!(reads(&runtime, &array, 2), "{level:?}");
    }
}

#[test]
fn a_rebuild_is_recorded_and_goes_on_where_it_was() {
    let runtime = Runtime::simulated();
    let mut disks = disks(&runtime, FIVE, 3, 1);
    let array = open(&runtime, &disks).unwrap();
    write(&runtime, &array, 5).unwrap();
    array.fail(1);
    write(&runtime, &array, 6).unwrap();
    runtime.block_on(array.stop()).unwrap();
    // The new disk stops answering behind the mark at 256 chunks, and everything is dropped.
    let new = disk(&runtime);
    let late = DATA_AT + CHUNK * 280;
    new.add(Rule::new(Effect::Hang).on(Operation::Write).within(late..SIZE));
    let cut_short = async {
        let rebuild = Box::pin(array.rebuild(1, new.clone(), DATA_AT, Uuid([77; 16])));
        futures_util::future::select(rebuild, Box::pin(runtime.sleep(units::Duration::seconds(1)))).await;
    };
    runtime.block_on(cut_short);
    drop(array);
    new.resume();
    new.clear_rules();
    disks[1] = new.clone();
    let array = open(&runtime, &disks).unwrap();
    assert_eq!(array.state(1), MemberState::Rebuilding(CHUNK * 256), "the mark");
    assert!(reads(&runtime, &array, 6), "what lies behind the mark is computed");
    // What lies before the mark is not written again.
    new.add(Rule::new(Effect::Fail(DeviceError::ReadOnly)).on(Operation::Write).within(DATA_AT..DATA_AT + CHUNK * 256));
    assert_eq!(runtime.block_on(array.resume_rebuild(1)), Ok(Vec::new()));
    new.clear_rules();
    assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0);
    runtime.block_on(array.stop()).unwrap();
    let array = open(&runtime, &disks).unwrap();
    assert!((0..3).all(|member| array.state(member) == MemberState::Active) && reads(&runtime, &array, 6));
}

#[test]
fn the_old_device_of_a_replaced_member_is_not_taken_back() {
    let runtime = Runtime::simulated();
    let mut disks = disks(&runtime, FIVE, 3, 1);
    let array = open(&runtime, &disks).unwrap();
    write(&runtime, &array, 5).unwrap();
    array.fail(1);
    let new = disk(&runtime);
    assert_eq!(runtime.block_on(array.rebuild(1, new.clone(), DATA_AT, Uuid([77; 16]))), Ok(Vec::new()));
    write(&runtime, &array, 6).unwrap();
    runtime.block_on(array.stop()).unwrap();
    disks.push(new);
    let array = open(&runtime, &disks).unwrap();
    assert!(reads(&runtime, &array, 6) && (0..3).all(|member| array.state(member) == MemberState::Active));
}

/// Lets the array tend itself for a while.
fn tend(runtime: &Runtime, array: &Array<Disk>, time: units::Duration) {
    let tending = Box::pin(array.tend());
    runtime.block_on(futures_util::future::select(tending, Box::pin(runtime.sleep(time))));
}

#[test]
fn an_idle_array_says_that_it_is_clean() {
    let runtime = Runtime::simulated();
    for consistency in [Consistency::Resync, Consistency::Bitmap] {
        let disks = disks_with(&runtime, FIVE, 3, 1, consistency);
        let array = open(&runtime, &disks).unwrap();
        write(&runtime, &array, 1).unwrap();
        assert!(array.is_dirty() && disks.iter().all(|disk| superblock(&runtime, disk).resync != Resync::Clean));
        tend(&runtime, &array, units::Duration::millis(500));
        assert!(!array.is_dirty() && disks.iter().all(|disk| superblock(&runtime, disk).resync == Resync::Clean));
        write(&runtime, &array, 2).unwrap();
        assert!(array.is_dirty() && disks.iter().all(|disk| superblock(&runtime, disk).resync != Resync::Clean));
        drop(array);
        assert!(open(&runtime, &disks).unwrap().is_dirty());
    }
}

#[test]
fn a_resync_with_a_bitmap_is_of_what_was_being_written() {
    let runtime = Runtime::simulated();
    let disks = disks_with(&runtime, FIVE, 3, 1, Consistency::Bitmap);
    let array = open(&runtime, &disks).unwrap();
    write(&runtime, &array, 1).unwrap();
    tend(&runtime, &array, units::Duration::seconds(12));
    assert_eq!(array.marked_regions(), Some((0, 19)), "1200 KiB in regions of 64 KiB");
    // Chunk 40 lies in row 20, at 80 KiB of the members; then parity goes wrong there and elsewhere, and the power
    // goes.
    runtime.block_on(array.submit(Request::write(CHUNK * 40, data(2, CHUNK)))).result.unwrap();
    assert_eq!(array.marked_regions(), Some((1, 19)));
    drop(array);
    for row in [20, 200] {
        let parity = open(&runtime, &disks).unwrap().geometry().stripe(row).p();
        let garbage = Request::write(DATA_AT + CHUNK * row, data(77, CHUNK));
        runtime.block_on(disks[parity].submit(garbage)).result.unwrap();
    }
    let array = open(&runtime, &disks).unwrap();
    assert_eq!(array.marked_regions(), Some((1, 19)));
    assert!(runtime.block_on(array.resync()).unwrap());
    assert_eq!(
        runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches,
        8,
        "row 200, which nobody had been writing"
    );
    runtime.block_on(array.stop()).unwrap();
    assert_eq!(array.marked_regions(), Some((0, 19)));
    // A bitmap that does not belong to the superblocks says nothing: everything is suspect.
    write(&runtime, &array, 3).unwrap();
    drop(array);
    let mut ahead = superblock(&runtime, &disks[0]);
    ahead.events += 5;
    disks.iter().for_each(|disk| {
        let own = superblock(&runtime, disk);
        put_superblock(&runtime, disk, &Superblock { events: ahead.events, ..own });
    });
    assert_eq!(open(&runtime, &disks).unwrap().marked_regions(), Some((19, 19)));
}

/// Where the bitmap is, and what it holds, by member.
fn bitmaps(runtime: &Runtime, disks: &[Disk]) -> Vec<(Bytes, Data)> {
    let page = |disk: &Disk| {
        let at = superblock(runtime, disk).bitmap_at().unwrap();
        let reply = runtime.block_on(disk.submit(Request::read(at, Buffer::zeroed(Bytes::kib(4)))));
        (at, reply.buffer.unwrap().freeze())
    };
    disks.iter().map(page).collect()
}

/// A mark that not all members have, or that stands for one that could not be read, is not relied on by the next write.
#[test]
fn a_write_finds_its_mark_on_every_member_whatever_the_cut_left_of_their_bitmaps() {
    let runtime = Runtime::simulated();
    let at_row = |row: u64| Request::write(CHUNK * 2 * row, data(2, CHUNK));
    let set_up = || {
        let disks = disks_with(&runtime, FIVE, 3, 1, Consistency::Bitmap);
        let array = open(&runtime, &disks).unwrap();
        write(&runtime, &array, 1).unwrap();
        tend(&runtime, &array, units::Duration::seconds(12));
        runtime.block_on(array.submit(at_row(20))).result.unwrap();
        let before = bitmaps(&runtime, &disks);
        runtime.block_on(array.submit(at_row(200))).result.unwrap();
        (disks, before)
    };
    // The mark of row 200 is known after the start; a write there must bring it to all members.
    let marked_by_all = |disks: &[Disk], marked: u64| {
        let array = open(&runtime, disks).unwrap();
        assert_eq!(array.marked_regions(), Some((marked, 19)));
        assert!(runtime.block_on(array.resync()).unwrap());
        runtime.block_on(array.submit(at_row(200))).result.unwrap();
        for (member, (_, page)) in bitmaps(&runtime, disks).into_iter().enumerate() {
            let bitmap = md::Bitmap::parse(page.bytes().unwrap()).unwrap();
            assert!(bitmap.is_marked(CHUNK * 200 / bitmap.region), "member {member} has no mark of what is written");
        }
    };
    // The cut met the write of the mark: only the first member has it.
    let (disks, before) = set_up();
    for (disk, (at, page)) in disks.iter().zip(before).skip(1) {
        runtime.block_on(disk.submit(Request::write(at, page))).result.unwrap();
    }
    marked_by_all(&disks, 2);
    // One bitmap is damaged, the others come from before: all is taken as marked, which none of them says.
    let (disks, before) = set_up();
    for (member, (disk, (at, page))) in disks.iter().zip(before).enumerate() {
        let page = if member == 1 { data(0, Bytes::kib(4)) } else { page };
        runtime.block_on(disk.submit(Request::write(at, page))).result.unwrap();
    }
    marked_by_all(&disks, 19);
}

#[test]
fn what_a_hung_member_was_asked_late_is_not_held_against_what_takes_its_place() {
    for consistency in [Consistency::Resync, Consistency::Bitmap] {
        let runtime = Runtime::simulated();
        let disks = disks_with(&runtime, Level::Raid1, 2, 1, consistency);
        let array = open(&runtime, &disks).unwrap();
        write(&runtime, &array, 1).unwrap();
        let seconds = units::Duration::seconds;
        array.set_time_limit(seconds(7));
        disks[1].add(Rule::new(Effect::Hang).on(Operation::Write));
        let writes = async |after: u64, at: Bytes| {
            runtime.sleep(seconds(after)).await;
            array.submit(Request::write(at, data(2, CHUNK))).await.result
        };
        let rebuilt = async {
            while array.state(1) != MemberState::Failed {
                runtime.sleep(units::Duration::millis(10)).await;
            }
            array.rebuild(1, disk(&runtime), DATA_AT, Uuid([9; 16])).await
        };
        // The second write is given up three seconds after the other device came.
        let both = async { futures_util::join!(writes(0, Bytes::ZERO), writes(3, Bytes::kib(512)), rebuilt) };
        assert_eq!(runtime.block_on(both), (Ok(()), Ok(()), Ok(Vec::new())));
        assert_eq!(array.state(1), MemberState::Active, "{consistency:?}");
        assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0);
        // What hangs itself is lost all the same.
        array.device(1).unwrap().add(Rule::new(Effect::Hang).on(Operation::Write));
        write(&runtime, &array, 3).unwrap();
        assert_eq!(array.failure(1), Some(DeviceError::TimedOut(seconds(7))));
    }
}

#[test]
fn a_member_that_hangs_fails_and_is_known_as_such() {
    let runtime = Runtime::simulated();
    for (level, members, consistency) in
        [(FIVE, 3, Consistency::Resync), (Level::Raid1, 2, Consistency::Bitmap), (FIVE, 3, Consistency::Ppl)]
    {
        for operation in [Operation::Write, Operation::Read, Operation::Flush] {
            let disks = disks_with(&runtime, level, members, 1, consistency);
            let array = open(&runtime, &disks).unwrap();
            write(&runtime, &array, 1).unwrap();
            disks[1].add(Rule::new(Effect::Hang).on(operation));
            let before = runtime.now();
            array.set_time_limit(units::Duration::seconds(7));
            match operation {
                Operation::Write => write(&runtime, &array, 2).unwrap(),
                Operation::Read => {
                    assert!(reads(&runtime, &array, 1));
                    // At level 1 nothing need have been read from it: two reads at once are on both copies.
                    let read = || array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(CHUNK)));
                    runtime.block_on(async { futures_util::join!(read(), read()) }).1.result.unwrap();
                    write(&runtime, &array, 2).unwrap();
                }
                _ => {
                    runtime.block_on(array.submit(Request::flush())).result.unwrap();
                    write(&runtime, &array, 2).unwrap();
                }
            }
            assert_eq!(array.state(1), MemberState::Failed, "{level:?} {operation:?}");
            let waited = runtime.now().since(before);
            assert!(units::Duration::seconds(7) <= waited && waited < units::Duration::seconds(15), "{waited}");
            // It comes back, does what it was told so long ago, and is not believed.
            disks[1].resume();
            disks[1].clear_rules();
            runtime.block_on(runtime.sleep(units::Duration::seconds(1)));
            assert!(reads(&runtime, &array, 2));
            drop(array);
            let options = OpenOptions { force_dirty_degraded: true };
            let array = runtime.block_on(Array::open(&runtime, "array", disks.clone(), options)).unwrap();
            assert_eq!(array.state(1), MemberState::Failed, "{level:?} {operation:?}");
            assert!(reads(&runtime, &array, 2));
        }
    }
}

#[test]
fn what_a_rebuild_could_not_compute_is_known_after_the_next_start() {
    let runtime = Runtime::simulated();
    let mut disks = disks(&runtime, FIVE, 3, 1);
    let array = open(&runtime, &disks).unwrap();
    write(&runtime, &array, 5).unwrap();
    array.fail(1);
    // Two sectors of row 7 cannot be read on another member.
    let lost = DATA_AT + CHUNK * 7 + Bytes::SECTOR * 2;
    let unreadable = DeviceError::Medium { offset: lost, length: Bytes::SECTOR };
    disks[0].add(Rule::new(Effect::Fail(unreadable)).on(Operation::Read).within(lost..lost + Bytes::SECTOR * 2));
    let new = disk(&runtime);
    let bad = runtime.block_on(array.rebuild(1, new.clone(), DATA_AT, Uuid([77; 16]))).unwrap();
    disks[1] = new;
    let stripe = array.geometry().stripe(7);
    assert_eq!(bad.len(), usize::from(stripe.p() != 1), "row 7 of member 1 holds data or parity");
    assert_eq!(array.bad_ranges(), bad);
    assert_eq!(array.state(1), MemberState::Active);
    runtime.block_on(array.stop()).unwrap();
    disks[0].clear_rules();
    let array = open(&runtime, &disks).unwrap();
    assert_eq!(array.bad_ranges(), bad, "the member's own log says so");
    assert!(reads(&runtime, &array, 5), "the other member can be read again, so that it is computed, and mended");
    assert_eq!(array.bad_ranges(), []);
    runtime.block_on(array.stop()).unwrap();
    let array = open(&runtime, &disks).unwrap();
    assert_eq!(array.bad_ranges(), []);
}

/// Of two copies side by side on four members, 0 and 1 hold the same, and 2 and 3.
#[test]
fn level_10_survives_the_loss_of_members_that_hold_no_chunk_together() {
    let level = Level::Raid10(Copies::near(2));
    for consistency in [Consistency::Resync, Consistency::Bitmap] {
        for (lost, stopped) in [([0, 2], true), ([0, 2], false), ([3, 1], true), ([3, 1], false)] {
            let runtime = Runtime::simulated();
            let mut disks = disks_with(&runtime, level, 4, 1, consistency);
            let array = open(&runtime, &disks).unwrap();
            write(&runtime, &array, 5).unwrap();
            lost.iter().for_each(|member| array.fail(*member));
            assert!(!array.is_broken() && array.losses_left() == Some(0));
            write(&runtime, &array, 6).unwrap();
            assert!(reads(&runtime, &array, 6));
            runtime.block_on(array.submit(Request::flush())).result.unwrap();
            if stopped {
                runtime.block_on(array.stop()).unwrap();
            }
            drop(array);
            // The stale ones are there again, and are not believed.
            let array = open(&runtime, &disks).unwrap();
            assert_eq!(lost.map(|member| array.state(member)), [MemberState::Failed; 2]);
            assert!(reads(&runtime, &array, 6));
            write(&runtime, &array, 7).unwrap();
            for (member, identity) in lost.into_iter().zip([77, 78]) {
                disks[member] = disk(&runtime);
                let rebuilt = array.rebuild(member, disks[member].clone(), DATA_AT, Uuid([identity; 16]));
                assert_eq!(runtime.block_on(rebuilt).unwrap(), []);
            }
            assert!(array.is_complete() && reads(&runtime, &array, 7));
            runtime.block_on(array.stop()).unwrap();
            // Only those that were rebuilt, and then all.
            let rebuilt = lost.map(|member| disks[member].clone());
            assert!(reads(&runtime, &open(&runtime, &rebuilt).unwrap(), 7));
        }
    }
}

#[test]
fn level_10_without_all_copies_of_a_chunk_is_broken() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, Level::Raid10(Copies::near(2)), 4, 1);
    let array = open(&runtime, &disks).unwrap();
    write(&runtime, &array, 5).unwrap();
    array.fail(2);
    assert!(array.needs_any_of(&[3]) && !array.needs_any_of(&[0]) && array.needs_any_of(&[0, 1]));
    array.fail(3);
    assert!(array.is_broken() && array.losses_left().is_none());
    // Not even where both copies could be stored: nobody could record who is lost.
    let refused = runtime.block_on(array.submit(Request::write(Bytes::ZERO, data(6, CHUNK)))).result;
    assert_eq!(refused, Err(DeviceError::Gone));
    drop(array);
    let refused = open(&runtime, &disks[..2]).err().unwrap();
    assert_eq!(
        refused,
        "2 of 4 members are missing or stale, and level 10 survives the loss of any 1, and of more that leave a copy of every \
         chunk. Name more of them"
    );
}

/// What lies where a rebuild could not compute anything is zeroes, and a scrub that believed them would compute the
/// parity from them.
#[test]
fn a_scrub_mends_what_could_not_be_rebuilt_and_does_not_believe_it() {
    let six = Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric));
    for (level, members) in [(FIVE, 3), (six, 5), (Level::Raid1, 2)] {
        for repair in [Repair::No, Repair::WhatIsWrong, Repair::BelieveData] {
            let runtime = Runtime::simulated();
            let mut disks = disks(&runtime, level, members, 1);
            let array = open(&runtime, &disks).unwrap();
            write(&runtime, &array, 5).unwrap();
            array.fail(1);
            // Every row of a few, so that member 1 has data in some and parity in others, and as many members as make
            // it impossible.
            let lost = DATA_AT + CHUNK * 4..DATA_AT + CHUNK * 12;
            let unreadable = DeviceError::Medium { offset: lost.start, length: Bytes::SECTOR };
            let others = [0, 2].into_iter().take(level.losses_survived(members));
            for other in others.clone() {
                disks[other].add(Rule::new(Effect::Fail(unreadable.clone())).on(Operation::Read).within(lost.clone()));
            }
            let new = disk(&runtime);
            let bad = runtime.block_on(array.rebuild(1, new.clone(), DATA_AT, Uuid([77; 16]))).unwrap();
            disks[1] = new;
            assert!(!bad.is_empty() && array.bad_ranges() == bad, "{level:?}");
            for other in others {
                disks[other].clear_rules();
            }
            let scrubbed = runtime.block_on(array.scrub(repair)).unwrap();
            assert_eq!((scrubbed.mismatches, scrubbed.unreadable), (0, 0), "{level:?} {repair:?}");
            assert!(array.bad_ranges().is_empty() && reads(&runtime, &array, 5), "{level:?} {repair:?}");
        }
    }
}

#[test]
fn a_rebuild_goes_on_around_much_that_cannot_be_read() {
    let runtime = Runtime::simulated();
    let mut disks = disks(&runtime, FIVE, 3, 1);
    let array = open(&runtime, &disks).unwrap();
    write(&runtime, &array, 5).unwrap();
    array.fail(1);
    // 2048 sectors: many times what the log has entries for, if each were one.
    let lost = DATA_AT + CHUNK * 10..DATA_AT + CHUNK * 266;
    let unreadable = DeviceError::Medium { offset: lost.start, length: Bytes::SECTOR };
    disks[0].add(Rule::new(Effect::Fail(unreadable)).on(Operation::Read).within(lost));
    let new = disk(&runtime);
    let bad = runtime.block_on(array.rebuild(1, new.clone(), DATA_AT, Uuid([77; 16]))).unwrap();
    disks[1] = new;
    assert!(!bad.is_empty());
    assert_eq!(array.state(1), MemberState::Active);
    let of_array = array.bad_ranges();
    runtime.block_on(array.stop()).unwrap();
    disks[0].clear_rules();
    assert!(superblock(&runtime, &disks[1]).features.has(Features::BAD_BLOCKS));
    let array = open(&runtime, &disks).unwrap();
    assert_eq!(array.bad_ranges(), of_array);

    // What has been written since is bad no more, and the member says so: it may come back by the bitmap, should it be
    // lost again.
    write(&runtime, &array, 6).unwrap();
    runtime.block_on(array.stop()).unwrap();
    assert!(!superblock(&runtime, &disks[1]).features.has(Features::BAD_BLOCKS));
    let array = open(&runtime, &disks).unwrap();
    assert!(array.bad_ranges().is_empty() && reads(&runtime, &array, 6));
}

/// What the bad-block log of a disk says.
fn bad_of(runtime: &Runtime, disk: &Disk) -> Vec<BadBlock> {
    let superblock = superblock(runtime, disk);
    let (at, room) = (superblock.bad_blocks_at().unwrap(), Bytes::SECTOR * u64::from(superblock.bad_block_sectors));
    let reply = runtime.block_on(disk.submit(Request::read(at, Buffer::zeroed(room))));
    BadBlocks::parse(reply.buffer.unwrap().bytes().unwrap(), superblock.bad_block_shift).unwrap().ranges
}

#[test]
fn what_was_bad_is_durable_before_the_log_says_that_it_is_bad_no_more() {
    let runtime = Runtime::simulated();
    let mut disks = disks(&runtime, Level::Raid1, 3, 1);
    let array = open(&runtime, &disks).unwrap();
    write(&runtime, &array, 5).unwrap();
    array.fail(1);
    let lost = DATA_AT + CHUNK * 10..DATA_AT + CHUNK * 12;
    let unreadable = DeviceError::Medium { offset: lost.start, length: Bytes::SECTOR };
    for source in [0, 2] {
        disks[source].add(Rule::new(Effect::Fail(unreadable.clone())).on(Operation::Read).within(lost.clone()));
    }
    disks[1] = disk(&runtime);
    runtime.block_on(array.rebuild(1, disks[1].clone(), DATA_AT, Uuid([77; 16]))).unwrap();
    [0, 2].into_iter().for_each(|source| disks[source].clear_rules());
    let marked = bad_of(&runtime, &disks[1]);
    assert!(!marked.is_empty());

    disks[1].add(Rule::new(Effect::Fail(DeviceError::Gone)).on(Operation::Flush));
    write(&runtime, &array, 6).unwrap();
    array.fail(2);
    write(&runtime, &array, 7).unwrap();
    disks[1].clear_rules();
    assert_eq!(bad_of(&runtime, &disks[1]), marked, "it could lose all that it was given");
    assert_eq!((array.state(1), reads(&runtime, &array, 7)), (MemberState::Failed, true));
}

#[test]
fn upkeep_is_held_to_its_rate_and_goes_in_parts() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, FIVE, 3, 1);
    let array = open(&runtime, &disks).unwrap();
    write(&runtime, &array, 5).unwrap();
    // 2400 KiB at 200 KiB a second.
    array.limit(Some(units::Rate::bytes_per_second(204_800.0)));
    let before = runtime.now();
    let found = runtime.block_on(array.scrub(Repair::No)).unwrap();
    let took = runtime.now().since(before).as_seconds();
    assert!((11.9..12.5).contains(&took), "{took} s");
    // Only what lies ahead goes at another rate, and what others keep it from is not made up for: here a row waits for
    // 10 s.
    let slow = Rule::new(Effect::Stall(Duration::seconds(10))).on(Operation::Read).times(1);
    disks[0].add(slow.within(DATA_AT + CHUNK * 50..DATA_AT + CHUNK * 51));
    array.limit(Some(units::Rate::bytes_per_second(1_228_800.0)));
    let before = runtime.now();
    let half_way = async {
        runtime.sleep(Duration::seconds(11)).await;
        array.limit(Some(units::Rate::bytes_per_second(409_600.0)));
    };
    runtime.block_on(async { futures_util::join!(array.scrub(Repair::No), half_way) }).0.unwrap();
    let took = runtime.now().since(before).as_seconds();
    assert!((13.9..14.5).contains(&took), "{took} s");
    // However slow it is, it is ended soon after somebody has said so.
    array.limit(Some(units::Rate::bytes_per_second(512.0)));
    array.watch({
        let (runtime, ending) = (runtime.clone(), runtime.now() + Duration::millis(2_500));
        move |_| runtime.now() < ending
    });
    let before = runtime.now();
    let ended = runtime.block_on(array.scrub(Repair::No)).unwrap();
    assert!(ended.upto < array.geometry().size());
    array.fail(1);
    runtime.block_on(array.rebuild(1, disk(&runtime), DATA_AT, Uuid([78; 16]))).unwrap();
    assert!(matches!(array.state(1), MemberState::Rebuilding(_)), "it was ended");
    let took = runtime.now().since(before).as_seconds();
    assert!((2.5..5.0).contains(&took), "{took} s");
    array.watch(|_| true);
    array.limit(None);
    runtime.block_on(array.resume_rebuild(1)).unwrap();
    let garbage = Request::write(DATA_AT + CHUNK * 9, data(77, CHUNK));
    runtime.block_on(disks[0].submit(garbage)).result.unwrap();
    let size = array.geometry().size();
    let (odd, mut sum) = (Bytes::kib(44) + Bytes::SECTOR, 0);
    let mut at = Bytes::ZERO;
    while at < size {
        let end = (at + odd).min(size);
        sum += runtime.block_on(array.scrub_range(Repair::No, at..end)).unwrap().mismatches;
        at = end;
    }
    assert_eq!((found.mismatches, sum), (0, 8), "each row is looked at once, wherever the parts begin");
}

/// A list of bad blocks that cannot be read makes an end of its member, not of the array, and is called what was given.
#[test]
fn a_member_whose_bad_blocks_cannot_be_read_is_as_good_as_missing() {
    let runtime = Runtime::simulated();
    for (level, members) in [(Level::Raid1, 2), (FIVE, 3)] {
        let disks = disks(&runtime, level, members, 1);
        let mut superblock = superblock(&runtime, &disks[1]);
        superblock.features = superblock.features.with(Features::BAD_BLOCKS);
        put_superblock(&runtime, &disks[1], &superblock);
        let at = superblock.bad_blocks_at().unwrap();
        disks[1].add(Rule::new(Effect::Fail(DeviceError::Gone)).on(Operation::Read).within(at..at + Bytes::kib(4)));
        let array = open(&runtime, &disks).unwrap();
        assert_eq!((array.state(0), array.state(1)), (MemberState::Active, MemberState::Failed), "{level}");
        write(&runtime, &array, 5).unwrap();
        assert!(reads(&runtime, &array, 5), "{level}");
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        // It can be read again, and is stale. Without it no other may be missing.
        disks[1].clear_rules();
        assert_eq!(open(&runtime, &disks).unwrap().state(1), MemberState::Failed, "{level}");
    }
    let disks = disks(&runtime, FIVE, 3, 1);
    let mut superblock = superblock(&runtime, &disks[2]);
    superblock.features = superblock.features.with(Features::BAD_BLOCKS);
    put_superblock(&runtime, &disks[2], &superblock);
    let at = superblock.bad_blocks_at().unwrap();
    disks[2].add(Rule::new(Effect::Fail(DeviceError::Gone)).on(Operation::Read).within(at..at + Bytes::kib(4)));
    let refused = open(&runtime, &[Rc::clone(&disks[2]), Rc::clone(&disks[0])]).err().expect("two are missing");
    assert!(refused.starts_with("device 0 cannot be read"), "{refused}");
}

/// Found by a storm (seed 1113610): a rebuild's record said that there is no journal any more, and not that parity may
/// not fit.
#[test]
fn an_array_opened_without_its_journal_is_dirty_until_the_resync_has_passed() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, Level::Raid5(Rotation::LeftSymmetric), 3, 7);
    for disk in &disks {
        let mut superblock = superblock(&runtime, disk);
        superblock.features = superblock.features.with(Features::JOURNAL);
        put_superblock(&runtime, disk, &superblock);
    }
    let by_force = |disks: &[Disk]| {
        let options = OpenOptions { force_dirty_degraded: true };
        runtime.block_on(Array::open(&runtime, "array", disks.to_vec(), options)).unwrap()
    };
    let refused = open(&runtime, &disks).err().expect("nobody knows what the journal held");
    assert!(refused.starts_with("the array has a journal"), "{refused}");
    let array = by_force(&disks);
    assert!(array.is_dirty() && array.needs_resync());
    array.fail(1);
    runtime.block_on(array.submit(Request::flush())).result.unwrap();
    drop(array);
    // The power went before anything was made to fit.
    let left = [Rc::clone(&disks[0]), Rc::clone(&disks[2])];
    let refused = open(&runtime, &left).err().expect("it was not stopped, and lacks a member");
    assert!(!refused.starts_with("the array has a journal"), "{refused}");
    let array = by_force(&left);
    assert!(array.is_dirty() && array.needs_resync());
}

#[test]
fn a_level_0_of_unequal_members_that_does_not_say_its_layout_is_refused() {
    use array::geometry::Zones;
    let runtime = Runtime::simulated();
    // The first alone is smaller: two take turns behind its end. Of the others the last is alone there, and no rule is
    // needed.
    for (smaller, ambiguous) in [(&[0][..], true), (&[0, 1], false), (&[], false)] {
        let disks: Vec<Disk> = (0..3).map(|_| disk(&runtime)).collect();
        let level = Level::Raid0(Zones::Original);
        let mut superblocks = superblocks((level, 3, Consistency::Resync), CHUNK, SIZE, 1);
        for (member, superblock) in superblocks.iter_mut().enumerate() {
            superblock.features = superblock.features.without(Features::ZONES);
            // What older mdadm left in the field says nothing.
            superblock.layout = 2;
            if smaller.contains(&member) {
                superblock.data_size = superblock.data_size - CHUNK * 10;
            }
        }
        runtime.block_on(format(&disks, &superblocks)).unwrap();
        assert_eq!(open(&runtime, &disks).is_err_and(|error| error.contains("layout-alternate")), ambiguous);
        for (superblock, disk) in superblocks.iter_mut().zip(&disks) {
            superblock.features = superblock.features.with(Features::ZONES);
            put_superblock(&runtime, disk, superblock);
        }
        assert_eq!(open(&runtime, &disks).unwrap().geometry().level(), Level::Raid0(Zones::Alternate));
    }
}
