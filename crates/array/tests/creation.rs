//! Which devices are one array, by what their superblocks say of its creation.

use crate::common;

use array::creation::{Belonging, Disagreement, sort};
use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::{Consistency, MemberRole, Resync, Stamp, Superblock};
use array::{Array, OpenError, OpenOptions};
use common::image::{contents, data};
use common::rig::{BLOCK, SIZE, block, disks, edit, open, superblock, write_all};
use device::{Buffer, Device, Request};
use rand::RngExt;
use runtime::{Random, Runtime};
use units::Bytes;

const FIVE: (Level, usize, Consistency) = (Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Resync);

fn made(case: (Level, usize, Consistency)) -> Vec<Superblock> {
    common::superblocks(case, Bytes::kib(4), SIZE, 1)
}

fn sorted(of: &[Superblock]) -> Result<Belonging, Disagreement> {
    sort(&of.iter().collect::<Vec<_>>())
}

/// Of another creation, at this second.
fn created(it: &Superblock, at: u64) -> Superblock {
    Superblock { created: Stamp(at), ..it.clone() }
}

#[test]
fn an_earlier_creation_that_could_not_open_is_foreign_whatever_its_events() {
    for events in [1, 7, 1000] {
        let mut all = made(FIVE);
        for it in &mut all[..3] {
            *it = Superblock { events: 5, ..created(it, 100) };
        }
        all[3] = Superblock { events, ..created(&all[3], 50) };
        assert_eq!(sorted(&all), Ok(Belonging { own: vec![0, 1, 2], foreign: vec![3] }), "{events} events");
        all.rotate_right(1);
        assert_eq!(sorted(&all), Ok(Belonging { own: vec![1, 2, 3], foreign: vec![0] }), "{events} events");
    }
}

#[test]
fn creations_of_which_several_open_or_the_latest_does_not_are_refused_with_each_device() {
    let mirror = (Level::Raid1, 2, Consistency::Bitmap);
    let two_mirrors: Vec<Superblock> = {
        let all = made(mirror);
        vec![Superblock { events: 90, ..created(&all[0], 50) }, Superblock { events: 2, ..created(&all[1], 100) }]
    };
    // A slip of yesterday, or the array that counts: one member of the later creation beside all that the earlier one
    // needs.
    let mut later = made(FIVE);
    later[2] = Superblock { events: 1, ..created(&later[2], 100) };
    // Neither has enough.
    let mut halves = made(FIVE);
    halves[0].created = Stamp(9);
    halves[1].created = Stamp(9);
    for all in [two_mirrors, later, halves] {
        let Err(said @ Disagreement::Created(_)) = sorted(&all) else { panic!("{:?}", sorted(&all)) };
        let text = said.to_string();
        assert!(text.starts_with("these devices disagree about the array's creation time"), "{text}");
        for (device, superblock) in all.iter().enumerate() {
            let it = format!("device {device} ({} events, last written 0 s", superblock.events);
            assert!(text.contains(&it), "{text}");
        }
        assert!(text.contains("Give only the devices of one creation"), "{text}");
    }
}

#[test]
fn microseconds_are_part_of_a_creation_time() {
    let mut all = made((Level::Raid1, 2, Consistency::Resync));
    all[1].created = Stamp(all[0].created.0 | 1 << 40);
    assert!(matches!(sorted(&all), Err(Disagreement::Created(_))));
}

#[test]
fn a_spare_and_a_journal_of_an_earlier_creation_are_foreign() {
    let case = (FIVE.0, FIVE.1, Consistency::Journal);
    let mut all: Vec<Superblock> = made((case.0, case.1 + 1, Consistency::Resync));
    for it in &mut all {
        it.members = 4;
        it.roles[4] = MemberRole::Spare.number();
        it.created = Stamp(100);
    }
    all[4].created = Stamp(7);
    assert_eq!(sorted(&all).unwrap().foreign, [4]);
    all[4].roles[4] = MemberRole::Journal.number();
    assert_eq!(sorted(&all).unwrap().foreign, [4]);
    // Of a later one they are too few, and it is not known which counts.
    all[4].created = Stamp(200);
    assert!(matches!(sorted(&all), Err(Disagreement::Created(_))));
}

#[test]
fn devices_of_one_creation_that_are_laid_out_differently_are_refused_by_the_field() {
    type Change = fn(&mut Superblock);
    let changes: [(&str, Change); 5] = [
        ("level: 5 on device 0, device 2, device 3; 6 on device 1", |it| (it.level, it.layout) = (6, 2)),
        ("layout: 2 on device 0, device 2, device 3; 3 on device 1", |it| it.layout = 3),
        ("chunk: 4 KiB on device 0, device 2, device 3; 8 KiB on device 1", |it| it.chunk = Bytes::kib(8)),
        ("number of members: 4 on device 0, device 2, device 3; 5 on device 1", |it| it.members = 5),
        ("size used of each member: ", |it| it.size = it.size - Bytes::kib(4)),
    ];
    for (words, change) in changes {
        for events in [0, 1] {
            let mut all = made(FIVE);
            all.iter_mut().for_each(|it| it.events = 7);
            change(&mut all[1]);
            // One event behind it could be a record that a power cut met; only a growth changes something by one, and
            // makes it more.
            all[1].events += events;
            let text = sorted(&all).expect_err(words).to_string();
            assert!(text.contains("disagree about the array's") && text.contains(words), "{words}: {text}");
            assert!(text.contains("device 1"), "{text}");
        }
    }
}

#[test]
fn a_growth_whose_record_was_met_by_a_power_cut_and_a_stale_member_of_before_it_are_no_disagreement() {
    let mut all = made(FIVE);
    for (it, (events, more)) in all.iter_mut().zip([(8, 4), (7, 0), (8, 4), (3, 0)]) {
        it.events = events;
        it.size += Bytes::kib(more);
        it.data_size += Bytes::kib(more);
    }
    assert_eq!(sorted(&all).map(|it| it.foreign), Ok(Vec::new()));
}

/// The first cut met the record of a growth. Who opened the array then said the old size again, until a second cut:
/// both sizes have one number of events.
#[test]
fn a_growth_that_is_called_off_by_halves_is_no_disagreement_and_another_size_is_one() {
    let mut all = made(FIVE);
    let before = all[0].size;
    for (it, (events, more, resync)) in all.iter_mut().zip([
        (8, 0, Resync::From(Bytes::ZERO)),
        (7, 0, Resync::Clean),
        (8, 4, Resync::From(before)),
        (8, 4, Resync::From(before)),
    ]) {
        (it.events, it.resync) = (events, resync);
        it.size += Bytes::kib(more);
        it.data_size += Bytes::kib(more);
    }
    assert_eq!(sorted(&all).map(|it| it.foreign), Ok(Vec::new()));
    // Dirty, but not from where it would have grown.
    all[3].resync = Resync::From(Bytes::ZERO);
    let field = "size used of each member";
    assert!(matches!(sorted(&all), Err(Disagreement::Field { field: named, .. }) if named == field));
}

#[test]
fn a_foreign_member_is_neither_read_nor_written_and_the_array_opens_without_it() {
    let cases = [
        FIVE,
        (Level::Raid4, 4, Consistency::Ppl),
        (Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric)), 5, Consistency::Ppl),
        (Level::Raid10(Copies::near(2)), 4, Consistency::Bitmap),
    ];
    for case in cases {
        for foreign in 0..case.1 {
            let runtime = Runtime::simulated();
            let disks = disks(&runtime, case);
            let array = open(&runtime, &disks);
            let model = common::rig::model(&array);
            write_all(&runtime, &array, &model, 1);
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            for (number, disk) in disks.iter().enumerate() {
                // Whose events are higher counts for nothing.
                edit(&runtime, disk, |it| match number == foreign {
                    true => it.events += 50,
                    false => it.created = Stamp(it.created.0 + 10),
                });
            }
            let before = superblock(&runtime, &disks[foreign]);
            let array = open(&runtime, &disks);
            assert_eq!(array.state(foreign), array::MemberState::Failed);
            common::rig::assert_holds(&runtime, &array, &model);
            write_all(&runtime, &array, &model, 1000);
            assert!(array.returning().is_empty(), "it does not come back");
            assert_eq!(array.may_return(&before), None);
            runtime.block_on(array.submit(Request::flush())).result.unwrap();
            runtime.block_on(array.stop()).unwrap();
            assert_eq!(superblock(&runtime, &disks[foreign]), before);
            drop(array);
            let opened = runtime.block_on(Array::open(
                &runtime,
                "array",
                disks[foreign..=foreign].to_vec(),
                OpenOptions::default(),
            ));
            assert!(matches!(opened, Err(OpenError::TooFew { .. })), "the other creation by itself has too few");
        }
    }
}

/// Whether an array of these disks opens and gives what was stored; `None` if it is refused.
fn gives(runtime: &Runtime, disks: &[common::rig::Disk], model: &common::rig::Model) -> Option<bool> {
    let opened = Array::open(runtime, "array", disks.to_vec(), OpenOptions::default());
    let array = runtime.block_on(opened).ok()?;
    let read = |number: usize| {
        let request = Request::read(BLOCK * number as u64, Buffer::zeroed(BLOCK));
        let reply = runtime.block_on(array.submit(request));
        reply.buffer.expect("a read gives its buffer back").bytes().unwrap().to_vec()
    };
    let right = |(number, value): (usize, &u64)| read(number) == block(*value).bytes().unwrap();
    Some(model.borrow().iter().enumerate().all(right))
}

/// An old disk returns with what it held before the array was created anew, under any number of events. With the
/// creation time hidden, which is the planted fault, the same disk is believed, and the reads tell.
#[test]
fn an_old_disk_never_spoils_what_is_read_and_one_whose_creation_time_is_hidden_does() {
    let mut spoilt = 0;
    for seed in 0..24 {
        let random = &mut Random::named(seed, "twins");
        let cases = [
            (Level::Raid1, 2, Consistency::Bitmap),
            FIVE,
            (Level::Raid10(Copies::near(2)), 4, Consistency::Bitmap),
            (Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric)), 5, Consistency::Ppl),
        ];
        let case = cases[random.random_range(0..cases.len())];
        let old = random.random_range(0..case.1);
        let runtime = Runtime::simulated();
        let disks = disks(&runtime, case);
        let array = open(&runtime, &disks);
        let model = common::rig::model(&array);
        write_all(&runtime, &array, &model, 1);
        runtime.block_on(array.stop()).unwrap();
        let before = contents(&runtime, &disks[old]);
        write_all(&runtime, &array, &model, 100_000);
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        let current = superblock(&runtime, &disks[old]);
        runtime.block_on(disks[old].submit(Request::write(Bytes::ZERO, data(&before)))).result.unwrap();
        let events = random.random_range(1..2000);
        for (number, disk) in disks.iter().enumerate() {
            edit(&runtime, disk, |it| match number == old {
                true => it.events = events,
                false => it.created = Stamp(77),
            });
        }
        // A mirror that could be either is refused; elsewhere the old disk is foreign.
        let expected = (case.0 != Level::Raid1).then_some(true);
        assert_eq!(gives(&runtime, &disks, &model), expected, "seed {seed}: {case:?}");
        edit(&runtime, &disks[old], |it| {
            let number = it.number;
            *it = Superblock { created: Stamp(77), ..current.clone() };
            assert_eq!(it.number, number);
        });
        spoilt += u64::from(gives(&runtime, &disks, &model) == Some(false));
    }
    assert!(spoilt > 12, "the planted fault was seen {spoilt} times");
}
