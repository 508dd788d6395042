//! Geometry: both ways for every level, and against Linux's own arithmetic written down a second time.

use array::geometry::{Copies, DoubleRotation, Geometry, GeometryError, Level, Role, Rotation, Spread, Zones};
use proptest::prelude::*;
use units::Bytes;

const ROTATIONS: [Rotation; 6] = [
    Rotation::LeftAsymmetric,
    Rotation::RightAsymmetric,
    Rotation::LeftSymmetric,
    Rotation::RightSymmetric,
    Rotation::ParityFirst,
    Rotation::ParityLast,
];

fn double_rotations() -> impl Iterator<Item = DoubleRotation> {
    let ddf = [DoubleRotation::DdfZeroRestart, DoubleRotation::DdfNRestart, DoubleRotation::DdfNContinue];
    ROTATIONS.into_iter().flat_map(|r| [DoubleRotation::Together(r), DoubleRotation::LastQ(r)]).chain(ddf)
}

fn chunks(sizes: &[u64], chunk: Bytes) -> Vec<Bytes> {
    sizes.iter().map(|chunks| chunk * *chunks).collect()
}

fn any_level() -> impl Strategy<Value = Level> {
    let doubles: Vec<DoubleRotation> = double_rotations().collect();
    prop_oneof![
        Just(Level::Linear),
        Just(Level::Raid0(Zones::Original)),
        Just(Level::Raid0(Zones::Alternate)),
        Just(Level::Raid1),
        Just(Level::Raid3),
        Just(Level::Raid4),
        prop::sample::select(&ROTATIONS[..]).prop_map(Level::Raid5),
        prop::sample::select(doubles).prop_map(Level::Raid6),
        (1..5u32, 1..5u32).prop_map(|(near, far)| Level::Raid10(Copies { near, far, spread: Spread::Far })),
        (1..5u32, 2..5u32).prop_map(|(near, far)| Level::Raid10(Copies { near, far, spread: Spread::Offset })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn array_and_member_addresses_are_one_to_one(
        level in any_level(), sectors in 1..5u64, sizes in prop::collection::vec(1..24u64, 2..17)
    ) {
        let chunk = Bytes::SECTOR * sectors;
        let made = Geometry::new(level, chunk, &chunks(&sizes, chunk));
        prop_assume!(made.is_ok());
        let geometry = made.unwrap();
        // From the array to its copies and back.
        for sector in 0..geometry.size() / Bytes::SECTOR {
            let address = Bytes::SECTOR * sector;
            let mut members = Vec::new();
            for copy in 0..geometry.copies() {
                let place = geometry.copy(address, copy);
                prop_assert_eq!(geometry.role(place.member, place.offset), Role::Data(address));
                prop_assert!(place.offset + place.run <= chunk * sizes[place.member], "on the member");
                // The last byte of the run is where the run says.
                let last = place.run - Bytes::new(1);
                let end = geometry.copy(address + last, copy);
                prop_assert_eq!((end.member, end.offset), (place.member, place.offset + last));
                members.push(place.member);
            }
            members.sort_unstable();
            members.dedup();
            prop_assert_eq!(members.len(), geometry.copies(), "copies lie on different members");
        }
        // From the members to the array and back; and everything the array stores is found once per copy.
        let mut found = 0;
        for (member, size) in sizes.iter().enumerate() {
            for sector in 0..size * sectors {
                let offset = Bytes::SECTOR * sector;
                if let Role::Data(address) = geometry.role(member, offset) {
                    found += 1;
                    let back = (0..geometry.copies()).map(|copy| geometry.copy(address, copy));
                    prop_assert!(back.into_iter().any(|place| (place.member, place.offset) == (member, offset)));
                }
            }
        }
        prop_assert_eq!(found, geometry.size() / Bytes::SECTOR * geometry.copies() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// Against every address: of each a copy must be left; with parity and without it the number of losses decides.
    #[test]
    fn what_survives_is_what_leaves_every_byte(
        level in any_level(), members in 2..13usize, rows in 1..9u64, gone in prop::collection::vec(any::<bool>(), 12)
    ) {
        let made = Geometry::new(level, Bytes::SECTOR, &vec![Bytes::SECTOR * rows; members]);
        prop_assume!(made.as_ref().is_ok_and(|geometry| !geometry.size().is_zero()));
        let geometry = made.unwrap();
        let lost = |member: usize| gone[member];
        let number = (0..members).filter(|member| lost(*member)).count();
        let copies_left = |sector: u64| {
            let places = (0..geometry.copies()).map(|copy| geometry.copy(Bytes::SECTOR * sector, copy));
            places.filter(|place| !lost(place.member)).count()
        };
        let fewest = (0..geometry.size() / Bytes::SECTOR).map(copies_left).min().unwrap();
        let left = match level.parities() {
            0 if geometry.copies() > 1 => fewest.checked_sub(1),
            parities => parities.checked_sub(number),
        };
        prop_assert_eq!(geometry.losses_left(lost), left);
        prop_assert_eq!(geometry.survives(lost), left.is_some());
        // And whatever is lost besides, so many of them are survived.
        if let Some(more) = left {
            let others: Vec<usize> = (0..members).filter(|member| !lost(*member)).take(more).collect();
            prop_assert!(geometry.survives(|member| lost(member) || others.contains(&member)));
        }
    }
}

/// `raid5_compute_sector` and `raid6_idx_to_slot` of Linux 6.1: P, Q, and member and power of each data chunk.
#[allow(clippy::type_complexity)]
fn linux_stripe(level: i32, layout: i32, disks: usize, row: u64) -> (usize, Option<usize>, Vec<(usize, usize)>) {
    let data = disks - if level == 6 { 2 } else { 1 };
    let turn = |row: u64, of: usize| (row % of as u64) as usize;
    let mut ddf = false;
    let mut members = Vec::new();
    let (mut p, mut q) = (0, None);
    for index in 0..data {
        let mut dd = index;
        if level == 5 {
            match layout {
                0 | 1 => {
                    p = if layout == 0 { data - turn(row, disks) } else { turn(row, disks) };
                    if dd >= p {
                        dd += 1;
                    }
                }
                2 | 3 => {
                    p = if layout == 2 { data - turn(row, disks) } else { turn(row, disks) };
                    dd = (p + 1 + dd) % disks;
                }
                4 => {
                    p = 0;
                    dd += 1;
                }
                _ => p = data,
            }
        } else {
            let asymmetric = |p: usize, dd: usize| {
                if p == disks - 1 {
                    (0, dd + 1)
                } else if dd >= p {
                    (p + 1, dd + 2)
                } else {
                    (p + 1, dd)
                }
            };
            let (of_q, of_d);
            match layout {
                0 | 1 | 8 | 9 => {
                    ddf = layout >= 8;
                    p = match layout {
                        0 => disks - 1 - turn(row, disks),
                        9 => disks - 1 - turn(row + 1, disks),
                        _ => turn(row, disks),
                    };
                    (of_q, of_d) = asymmetric(p, dd);
                }
                2 | 3 => {
                    p = if layout == 2 { disks - 1 - turn(row, disks) } else { turn(row, disks) };
                    (of_q, of_d) = ((p + 1) % disks, (p + 2 + dd) % disks);
                }
                4 => (of_q, of_d) = (1, dd + 2),
                5 => {
                    p = data;
                    (of_q, of_d) = (data + 1, dd);
                }
                10 => {
                    ddf = true;
                    p = disks - 1 - turn(row, disks);
                    (of_q, of_d) = ((p + disks - 1) % disks, (p + 1 + dd) % disks);
                }
                16 | 17 => {
                    p = if layout == 16 { data - turn(row, disks - 1) } else { turn(row, disks - 1) };
                    (of_q, of_d) = (disks - 1, if dd >= p { dd + 1 } else { dd });
                }
                18 | 19 => {
                    p = if layout == 18 { data - turn(row, disks - 1) } else { turn(row, disks - 1) };
                    (of_q, of_d) = (disks - 1, (p + 1 + dd) % (disks - 1));
                }
                _ => (of_q, of_d) = (disks - 1, dd + 1),
            }
            (q, dd) = (Some(of_q), of_d);
        }
        members.push(dd);
    }
    // The walk that hands out slots of the syndrome, from the disk behind Q or, in DDF, from the first.
    let first = if ddf { 0 } else { q.map_or(0, |q| if q == disks - 1 { 0 } else { q + 1 }) };
    let (mut count, mut powers) = (0, vec![0; disks]);
    for step in 0..disks {
        let disk = (first + step) % disks;
        powers[disk] = count;
        if ddf || (disk != p && Some(disk) != q) {
            count += 1;
        }
    }
    (p, q, members.into_iter().map(|member| (member, powers[member])).collect())
}

fn assert_like_linux(level: Level, md_level: i32, md_layout: i32, disks: usize) {
    let chunk = Bytes::kib(4);
    let geometry = Geometry::new(level, chunk, &vec![chunk * 40; disks]).unwrap();
    for row in 0..40 {
        let stripe = geometry.stripe(row);
        let ours: Vec<(usize, usize)> = (0..stripe.data())
            .map(|index| stripe.data_member(index))
            .map(|member| (member, if stripe.q().is_some() { stripe.power(member) } else { 0 }))
            .collect();
        let (p, q, mut data) = linux_stripe(md_level, md_layout, disks, row);
        if q.is_none() {
            data.iter_mut().for_each(|(_, power)| *power = 0);
        }
        assert_eq!((stripe.p(), stripe.q(), ours), (p, q, data), "{level:?}, {disks} disks, row {row}");
        assert!((0..stripe.data()).all(|index| stripe.data_index(stripe.data_member(index)) == index));
    }
}

#[test]
fn levels_4_5_and_6_are_as_linux_has_them() {
    for disks in 2..=16 {
        for (number, rotation) in ROTATIONS.into_iter().enumerate() {
            assert_like_linux(Level::Raid5(rotation), 5, number as i32, disks);
        }
        assert_like_linux(Level::Raid4, 5, 5, disks);
        if disks < 4 {
            continue;
        }
        for (number, rotation) in ROTATIONS.into_iter().enumerate() {
            assert_like_linux(Level::Raid6(DoubleRotation::Together(rotation)), 6, number as i32, disks);
        }
        for (number, rotation) in ROTATIONS[..5].iter().enumerate() {
            assert_like_linux(Level::Raid6(DoubleRotation::LastQ(*rotation)), 6, 16 + number as i32, disks);
        }
        for (number, rotation) in
            [(8, DoubleRotation::DdfZeroRestart), (9, DoubleRotation::DdfNRestart), (10, DoubleRotation::DdfNContinue)]
        {
            assert_like_linux(Level::Raid6(rotation), 6, number, disks);
        }
    }
}

/// `__raid10_find_phys` of Linux 6.1 with the stride of `calc_sectors`, in chunks: the copies of a chunk.
fn linux_copies(near: u64, far: u64, offset: bool, disks: u64, rows: u64, chunk: u64) -> Vec<(usize, u64)> {
    let used = (rows / far * disks / near * near * far).div_ceil(disks);
    let stride = if offset { 1 } else { used / far };
    let position = chunk * near;
    let (mut row, mut disk) = (position / disks, position % disks);
    if offset {
        row *= far;
    }
    let mut copies = Vec::new();
    for _ in 0..near {
        let (mut d, mut r) = (disk, row);
        copies.push((d as usize, r));
        for _ in 1..far {
            d = (d + near) % disks;
            r += stride;
            copies.push((d as usize, r));
        }
        disk += 1;
        if disk >= disks {
            disk = 0;
            // Linux goes on by one chunk even in the offset layout, where it means the next row of the same group.
            row += 1;
        }
    }
    copies
}

#[test]
fn level_10_is_as_linux_has_it() {
    for disks in 2..=16u64 {
        for near in 1..=3u64 {
            for far in 1..=3u64 {
                for offset in [false, true] {
                    // Near copies that wrap into the next row of an offset layout collide there: md has no use for them
                    // either.
                    let wraps = offset && near > 1 && disks % near != 0;
                    if near * far > disks || (offset && far < 2) || wraps {
                        continue;
                    }
                    let spread = if offset { Spread::Offset } else { Spread::Far };
                    let copies = Copies { near: near as u32, far: far as u32, spread };
                    let chunk = Bytes::kib(4);
                    let geometry =
                        Geometry::new(Level::Raid10(copies), chunk, &vec![chunk * 13; disks as usize]).unwrap();
                    assert_eq!(geometry.size() / chunk, 13 / far * disks / near);
                    for number in 0..geometry.size() / chunk {
                        let ours: Vec<(usize, u64)> = (0..geometry.copies())
                            .map(|copy| geometry.copy(chunk * number, copy))
                            .map(|place| (place.member, place.offset / chunk))
                            .collect();
                        let linux = linux_copies(near, far, offset, disks, 13, number);
                        assert_eq!(ours, linux, "{copies:?} on {disks}, chunk {number}");
                    }
                }
            }
        }
    }
}

#[test]
fn only_left_symmetric_spreads_consecutive_chunks_over_all_members() {
    for members in 3..=16usize {
        for rotation in ROTATIONS {
            let chunk = Bytes::kib(4);
            let geometry = Geometry::new(Level::Raid5(rotation), chunk, &vec![chunk * 64; members]).unwrap();
            let all_differ = |first: u64| {
                let mut on: Vec<usize> =
                    (first..first + members as u64).map(|number| geometry.place(chunk * number).member).collect();
                on.sort_unstable();
                on.dedup();
                on.len() == members
            };
            let always = (0..2 * members as u64).all(all_differ);
            assert_eq!(always, rotation == Rotation::LeftSymmetric, "{rotation:?} on {members}");
        }
    }
}

#[test]
fn level_0_uses_unequal_members_wholly() {
    let chunk = Bytes::kib(64);
    let geometry = Geometry::new(Level::Raid0(Zones::Original), chunk, &chunks(&[2, 5, 4], chunk)).unwrap();
    assert_eq!(geometry.size(), chunk * 11);
    let members: Vec<usize> = (0..11).map(|number| geometry.place(chunk * number).member).collect();
    // Two rows of three; then members 1 and 2 for two rows; then member 1 alone.
    assert_eq!(members, [0, 1, 2, 0, 1, 2, 1, 2, 1, 2, 1]);
    // Three chunks in the first zone of three members: the second zone's count starts odd, and the rules part.
    let three = chunks(&[1, 3, 3], chunk);
    let second = |zones| Geometry::new(Level::Raid0(zones), chunk, &three).unwrap().place(chunk * 3).member;
    assert_eq!((second(Zones::Original), second(Zones::Alternate)), (2, 1));
}

#[test]
fn linear_members_follow_one_another() {
    let geometry = Geometry::new(Level::Linear, Bytes::ZERO, &[Bytes::kib(10), Bytes::kib(3), Bytes::kib(7)]).unwrap();
    let place = geometry.place(Bytes::kib(12));
    assert_eq!((place.member, place.offset, place.run), (1, Bytes::kib(2), Bytes::kib(1)));
    assert_eq!(geometry.size(), Bytes::kib(20));
    assert_eq!(geometry.role(2, Bytes::kib(1)), Role::Data(Bytes::kib(14)));
}

#[test]
fn what_cannot_be_an_array_is_refused_with_what_can() {
    let refused = |level, chunk, sizes: &[u64]| {
        let sizes: Vec<Bytes> = sizes.iter().map(|kib| Bytes::kib(*kib)).collect();
        Geometry::new(level, chunk, &sizes).unwrap_err().to_string()
    };
    let k64 = Bytes::kib(64);
    let six = Level::Raid6(DoubleRotation::default());
    assert_eq!(refused(six, k64, &[1024; 3]), "level 6 needs 4 members or more, not 3");
    assert_eq!(refused(six, k64, &[1024; 300]), "level 6 has room for 257 members, not 300");
    assert_eq!(
        refused(Level::Raid4, k64, &[1024, 32]),
        "member 1 has 32 KiB for data, less than one chunk of 64 KiB; take a larger member or a smaller chunk"
    );
    assert_eq!(
        refused(Level::Raid4, Bytes::new(1000), &[64, 64]),
        "a chunk of 1000 B is not a whole number of 512-byte sectors; 64 KiB would do"
    );
    assert_eq!(
        refused(Level::Raid10(Copies { near: 2, far: 3, spread: Spread::Far }), k64, &[1024; 5]),
        "2 near times 3 far copies do not fit on 5 members; the product may be at most 5"
    );
    assert_eq!(
        refused(Level::Raid10(Copies { near: 2, far: 1, spread: Spread::Offset }), k64, &[1024; 4]),
        "an offset layout needs two far copies or more"
    );
    let huge = Bytes::new(u64::MAX).round_down(Bytes::SECTOR);
    assert_eq!(Geometry::new(Level::Linear, Bytes::ZERO, &[huge, huge]), Err(GeometryError::TooLarge));
}
