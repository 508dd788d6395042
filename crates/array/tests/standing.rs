//! Where devices stand in their array, by what their superblocks say.

use crate::common;

use array::geometry::{Level, Rotation};
use array::md::{Consistency, Features, MemberRole, Superblock, Uuid};
use array::standing::{Standing, newest, split_brain, went_on_without};
use units::Bytes;

const FAULTY: u16 = 0xfffe;

/// Three members of a level 5, of as many events each.
fn three(events: [u64; 3]) -> Vec<Superblock> {
    let kind = (Level::Raid5(Rotation::LeftSymmetric), 3, Consistency::Resync);
    let superblocks = common::superblocks(kind, Bytes::kib(4), Bytes::mib(4), 1);
    superblocks.into_iter().zip(events).map(|(superblock, events)| Superblock { events, ..superblock }).collect()
}

fn standing(of: &[Superblock]) -> Vec<Standing> {
    let all: Vec<&Superblock> = of.iter().collect();
    let newest = newest(&all).expect("there are some");
    of.iter().map(|it| Standing::of(it, newest)).collect()
}

#[test]
fn one_event_behind_is_current_and_two_are_stale() {
    assert_eq!(standing(&three([8, 7, 8])), [0, 1, 2].map(Standing::Member));
    assert_eq!(standing(&three([8, 6, 8])), [Standing::Member(0), Standing::Stale, Standing::Member(2)]);
}

#[test]
fn of_as_many_events_those_count_that_nobody_calls_failed() {
    for alone in 0..3 {
        let mut all = three([8; 3]);
        for (number, superblock) in all.iter_mut().enumerate() {
            // The others went on without one; the record that calls one of them failed is on that one alone.
            superblock.roles[if number == alone { (alone + 1) % 3 } else { alone }] = FAULTY;
        }
        let expected = [0, 1, 2].map(|it| if it == alone { Standing::Stale } else { Standing::Member(it) });
        assert_eq!(standing(&all), expected);
        // It counts on the other one that calls it failed: it did not go on without both.
        assert_eq!(split_brain(&all.iter().collect::<Vec<_>>()), None);
    }
}

/// The power cut met the record that made members of two for one place, one to replace the other, which was lost with
/// it. The others were told of that under the same number; a spare was not, and of the others perhaps only the one that
/// is `told`.
#[test]
fn of_as_many_events_those_know_more_that_call_another_failed() {
    for told in [vec![1, 2], vec![2], vec![1]] {
        let mut all = three([8; 3]);
        let mut spare = Superblock { number: 4, ..all[0].clone() };
        let twin = Superblock { number: 3, ..all[0].clone() };
        all.push(twin);
        for superblock in all.iter_mut().chain([&mut spare]) {
            superblock.roles.truncate(3);
            superblock.roles.extend([0, MemberRole::Spare.number()]);
        }
        told.iter().chain(&[3]).for_each(|member: &usize| all[*member].roles[0] = FAULTY);
        all.push(spare);
        for first in 0..all.len() {
            let mut given = all.clone();
            given.rotate_left(first);
            let stands = standing(&given);
            let of = |number: u32| &stands[given.iter().position(|it| it.number == number).expect("it is given")];
            assert_eq!(*of(0), Standing::Stale, "{told:?}, {first}");
            assert_eq!([3, 1, 2].map(of), [0, 1, 2].map(Standing::Member).each_ref(), "{told:?}, {first}");
            assert_eq!(*of(4), Standing::Spare);
        }
    }
}

#[test]
fn halves_that_call_each_other_failed_are_found() {
    let kind = (Level::Raid1, 2, Consistency::Resync);
    let mut halves = common::superblocks(kind, Bytes::ZERO, Bytes::mib(4), 1);
    (halves[0].roles[1], halves[1].roles[0]) = (FAULTY, FAULTY);
    assert_eq!(split_brain(&halves.iter().collect::<Vec<_>>()), Some((0, 1)));
}

/// The record that put a device in the place that it was to have reached one member only, which was lost with the
/// power: that one counts on it, and did not go on without it.
#[test]
fn who_counts_on_one_that_was_to_replace_another_is_no_half() {
    let mut all = three([8, 8, 5]);
    all.push(Superblock { number: 3, features: all[0].features.with(Features::REPLACEMENT), ..all[0].clone() });
    for (superblock, roles) in
        all.iter_mut().zip([[0, FAULTY, FAULTY, 0], [0, 1, 2, 0], [FAULTY, 1, 2, 0], [0, FAULTY, FAULTY, 0]])
    {
        superblock.roles.splice(..4, roles);
    }
    all.remove(1);
    assert_eq!(split_brain(&all.iter().collect::<Vec<_>>()), None);
    assert_eq!(standing(&all), [Standing::Member(0), Standing::Stale, Standing::Replacing(0)]);
    // Where both had that place, it could do without the second.
    all[1].roles.truncate(4);
    all[1].roles.push(0);
    assert_eq!(split_brain(&all.iter().collect::<Vec<_>>()), Some((0, 1)));
}

#[test]
fn who_had_the_number_of_another_before_is_no_half() {
    let kind = (Level::Raid1, 2, Consistency::Resync);
    let mut all = common::superblocks(kind, Bytes::ZERO, Bytes::mib(4), 1);
    // Long ago the second saw somebody fail who had the first one's number. It was replaced since, and so was, now, who
    // got its own number.
    let later = Superblock { events: 59, member: Uuid([9; 16]), ..all[1].clone() };
    (all[0].events, all[1].events) = (60, 5);
    (all[0].roles[1], all[1].roles[0]) = (FAULTY, FAULTY);
    assert_eq!(split_brain(&all.iter().collect::<Vec<_>>()), Some((0, 1)), "nobody says that the number is another's");
    all.push(later);
    assert_eq!(split_brain(&all.iter().collect::<Vec<_>>()), None);
    assert_eq!(standing(&all)[0], Standing::Member(0));
}

#[test]
fn what_is_no_member_is_judged_by_the_newest_too() {
    let mut all = three([8, 8, 8]);
    let mut other = Superblock { number: 3, ..all[0].clone() };
    let say = |all: &mut Vec<Superblock>, role: MemberRole| {
        all.iter_mut().for_each(|it| {
            it.roles.truncate(3);
            it.roles.push(role.number());
        });
    };
    let stands = |all: &[Superblock], other: &Superblock| Standing::of(other, &all[0]);

    say(&mut all, MemberRole::Spare);
    other.roles.clone_from(&all[0].roles);
    assert_eq!(stands(&all, &other), Standing::Spare);
    // A spare has nothing that could be stale; a former member has, whose number a spare has by now.
    other.events = 1;
    assert_eq!(stands(&all, &other), Standing::Spare);
    other.roles[3] = MemberRole::Active(1).number();
    assert_eq!(stands(&all, &other), Standing::Stale);

    say(&mut all, MemberRole::Active(1));
    other.features = other.features.with(Features::REPLACEMENT);
    assert_eq!(stands(&all, &other), Standing::Stale);
    other.events = 7;
    assert_eq!(stands(&all, &other), Standing::Replacing(1));

    // A journal counts as long as the array has one.
    say(&mut all, MemberRole::Journal);
    assert_eq!(stands(&all, &other), Standing::Stale);
    all[0].features = all[0].features.with(Features::JOURNAL);
    assert_eq!(stands(&all, &other), Standing::Journal);
    other.events = 6;
    assert_eq!(stands(&all, &other), Standing::Stale);

    // Nobody knows its number, or its place does not exist.
    all[0].roles.truncate(3);
    assert_eq!(stands(&all, &other), Standing::Stale);
    other.events = 8;
    say(&mut all, MemberRole::Active(3));
    assert_eq!(stands(&all, &other), Standing::Stale);
}

#[test]
fn who_was_used_without_the_members_in_use_says_so() {
    let without = |it: &Superblock, current: &[&Superblock]| went_on_without(it, current);
    let all = three([8; 3]);
    let [mut here, mut both, mut away] = [0, 1, 2].map(|it| all[it].clone());
    // Its users went on without the first two, whatever these say.
    (away.roles[0], away.roles[1]) = (FAULTY, FAULTY);
    assert_eq!(without(&away, &[&here, &both]), [0, 1]);
    (here.roles[2], both.roles[2]) = (FAULTY, FAULTY);
    assert_eq!(without(&away, &[&here, &both]), [0, 1]);
    // It saw one of them fail, who has come back since, and was used with the other.
    away.roles[1] = 1;
    assert_eq!(without(&away, &[&here, &both]), [0; 0]);
    assert_eq!(without(&away, &[&here]), [0]);
    // What it does not know of joined when it was gone.
    let late =
        Superblock { number: 9, roles: [[0, FAULTY, FAULTY].to_vec(), vec![FAULTY; 6], vec![1]].concat(), ..both };
    away.roles.truncate(3);
    assert_eq!(without(&away, &[&late]), [0; 0]);
}

#[test]
fn of_members_that_are_an_older_copy_others_are_ahead() {
    let all = three([8; 3]);
    let ahead = |events| went_on_without(&Superblock { events, ..all[2].clone() }, &[&all[0], &all[1]]);
    // A record that the power cut met.
    assert_eq!(ahead(9), [0; 0]);
    assert_eq!(ahead(10), [0, 1]);
}
