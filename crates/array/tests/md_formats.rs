//! md's structures: what is written is read back, any bytes are borne, damage is noticed.

use array::geometry::{Copies, DoubleRotation, Level, Rotation, Spread, Zones};
use array::md::{
    BadBlock, BadBlocks, Bitmap, Features, JournalBlock, JournalError, JournalPayload, MemberRole, Numbers, PplEntry,
    PplHeader, Resync, Stamp, Superblock, SuperblockError, Uuid,
};
use proptest::prelude::*;
use units::Bytes;

fn sectors(below: u64) -> impl Strategy<Value = Bytes> {
    (0..below).prop_map(|sectors| Bytes::SECTOR * sectors)
}

fn any_superblock() -> impl Strategy<Value = Superblock> {
    let known = [0u32, 1, 2, 8, 16, 1 << 7, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 | 2 | 8];
    let a = (prop::sample::select(known.to_vec()), any::<[u8; 16]>(), any::<[u8; 32]>(), any::<u64>(), any::<i32>());
    let b = (any::<i32>(), sectors(1 << 54), 0..u32::MAX, 0..2000u32, any::<i32>(), any::<[u8; 28]>());
    let c = (sectors(1 << 54), sectors(1 << 54), any::<u64>(), any::<u32>(), any::<[u8; 16]>(), any::<[u8; 2]>());
    let d = (any::<u16>(), any::<i32>(), any::<u64>(), any::<u64>(), prop::option::of(sectors(1 << 54)));
    let roles = prop::collection::vec(any::<u16>(), 1..200);
    (a, b, c, d, roles, any::<prop::sample::Index>()).prop_map(|(a, b, c, d, roles, number)| Superblock {
        features: Features(a.0),
        array: Uuid(a.1),
        name: a.2,
        created: Stamp(a.3),
        level: a.4,
        layout: b.0,
        size: b.1,
        chunk: Bytes::SECTOR * u64::from(b.2),
        // No more than have roles, and events leave room for more.
        members: b.3 % 1921,
        bitmap_offset: b.4,
        reshape: b.5,
        data_offset: c.0,
        data_size: c.1,
        recovery: c.2,
        number: number.index(roles.len()) as u32,
        corrected_reads: c.3,
        member: Uuid(c.4),
        member_flags: c.5[0],
        bad_block_shift: c.5[1],
        bad_block_sectors: d.0,
        bad_block_offset: d.1,
        updated: Stamp(d.2),
        events: d.3 >> 1,
        resync: d.4.map_or(Resync::Clean, Resync::From),
        roles,
    })
}

proptest! {
    #[test]
    fn a_superblock_is_read_as_it_was_written(superblock in any_superblock()) {
        let bytes = superblock.to_bytes();
        prop_assert_eq!(bytes.len(), 4096);
        prop_assert_eq!(Superblock::parse(&bytes).unwrap(), superblock);
    }

    #[test]
    fn a_changed_word_of_a_superblock_is_noticed(
        superblock in any_superblock(), at: prop::sample::Index, change in 1..=255u8
    ) {
        let mut bytes = superblock.to_bytes();
        let length = 256 + 2 * superblock.roles.len();
        let at = at.index(length);
        bytes[at] ^= change;
        prop_assert!(Superblock::parse(&bytes).is_err(), "byte {at}");
    }

    #[test]
    fn any_bytes_are_borne(bytes in prop::collection::vec(any::<u8>(), 0..5000), shift: u8) {
        let array = Uuid([7; 16]);
        let _ = Superblock::parse(&bytes);
        let _ = Bitmap::parse(&bytes);
        let _ = PplHeader::parse(&bytes, array);
        let _ = JournalBlock::parse(&bytes, array);
        let _ = BadBlocks::parse(&bytes, shift);
    }

    /// Random bytes never get past magic and checksum; so damage valid ones and repair those two.
    #[test]
    fn damage_behind_a_good_checksum_is_borne(
        superblock in any_superblock(), hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9)
    ) {
        let array = Uuid([7; 16]);
        let damage = |mut bytes: Vec<u8>, from: usize| {
            for (at, value) in &hits {
                let at = from + at.index(bytes.len() - from);
                bytes[at] = *value;
            }
            bytes
        };
        let mut bytes = damage(superblock.to_bytes(), 8);
        let _ = Superblock::parse(&with_checksum(&mut bytes));
        let _ = Bitmap::parse(&damage(Bitmap::full(array, 1, Bytes::mib(64), Bytes::kib(64)).to_bytes(), 4));
        let mut bytes = damage(PplHeader::new(array, 3).to_bytes(), 520);
        bytes[532..536].fill(0);
        let sum = PplHeader::checksum(&bytes);
        bytes[532..536].copy_from_slice(&sum.to_le_bytes());
        let _ = PplHeader::parse(&bytes, array);
        let mut bytes = damage(journal_block().to_bytes(array).unwrap(), 9);
        bytes[4..8].fill(0);
        let sum = JournalBlock::checksum(array, &bytes);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        let _ = JournalBlock::parse(&bytes, array);
    }

    #[test]
    fn a_bitmap_is_read_as_it_was_written(
        covers in 1..100_000u64, shift in 9..20u32, marks in prop::collection::vec(any::<prop::sample::Index>(), 0..20)
    ) {
        let region = Bytes::new(1 << shift);
        let mut bitmap = Bitmap::full(Uuid([3; 16]), 9, Bytes::SECTOR * covers, region);
        let regions = bitmap.regions();
        prop_assert_eq!(bitmap.marked().count() as u64, regions);
        for mark in &marks {
            let region = mark.index(regions as usize) as u64;
            let was = bitmap.is_marked(region);
            prop_assert_eq!(bitmap.set(region, false), was);
        }
        let read = Bitmap::parse(&bitmap.to_bytes()).unwrap();
        prop_assert_eq!(&read, &bitmap);
        prop_assert!(marks.iter().all(|mark| !read.is_marked(mark.index(regions as usize) as u64)));
        prop_assert!(Bitmap::parse(&bitmap.to_bytes()[..255 + regions.div_ceil(8) as usize]).is_err());
    }

    #[test]
    fn a_partial_parity_log_is_read_as_it_was_written(
        generation in 0..=u64::MAX / 2, entries in prop::collection::vec((sectors(1 << 54), 0..1000u64, 0..1000u64, any::<u32>(), any::<u32>()), 0..149)
    ) {
        let array = Uuid([9; 16]);
        let mut header = PplHeader::new(array, generation);
        header.entries.extend(entries.into_iter().map(|(data_at, parity, data, parity_member, checksum)| PplEntry {
            data_at,
            parity_length: Bytes::SECTOR * parity,
            data_length: Bytes::SECTOR * data,
            parity_member,
            checksum,
        }));
        let bytes = header.to_bytes();
        prop_assert_eq!(PplHeader::parse(&bytes, array).unwrap(), header);
        prop_assert!(PplHeader::parse(&bytes, Uuid([8; 16])).is_err(), "another array's");
    }

    #[test]
    fn bad_blocks_are_read_as_they_were_written(ranges in prop::collection::vec((1..1u64 << 40, 1..3000u64), 0..60), shift in 0..4u8) {
        let ranges: Vec<BadBlock> = ranges
            .into_iter()
            .map(|(start, length)| BadBlock { offset: Bytes::SECTOR * start, length: Bytes::SECTOR * length })
            .collect();
        let log = BadBlocks { shift, ranges };
        let bytes = log.to_bytes(Bytes::kib(16)).unwrap();
        prop_assert_eq!(bytes.len(), 16 * 1024);
        let read = BadBlocks::parse(&bytes, shift).unwrap();
        // Every bad byte is still bad; and no more is, but for rounding to units.
        let unit = Bytes::SECTOR * (1 << shift);
        for range in &log.ranges {
            let mut at = range.offset;
            while at < range.offset + range.length {
                let covering = read.ranges.iter().find(|other| other.offset <= at && at < other.offset + other.length);
                prop_assert!(covering.is_some(), "{at:#}");
                at = covering.map(|other| other.offset + other.length).unwrap();
            }
        }
        let total = |log: &BadBlocks| log.ranges.iter().map(|range| range.length).sum::<Bytes>();
        prop_assert!(total(&read) <= total(&log) + unit * 2 * log.ranges.len() as u64);
    }
}

fn with_checksum(bytes: &mut [u8]) -> Vec<u8> {
    let count = u32::from_le_bytes(bytes[220..224].try_into().unwrap()) as usize;
    let length = (256 + 2 * count.min(1920)).min(bytes.len());
    bytes[216..220].fill(0);
    let words = bytes[..length].chunks(4);
    let sum: u64 = words.map(|w| w.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))).sum();
    let folded = (sum as u32).wrapping_add((sum >> 32) as u32);
    bytes[216..220].copy_from_slice(&folded.to_le_bytes());
    bytes.to_vec()
}

fn journal_block() -> JournalBlock {
    JournalBlock {
        sequence: 77,
        position: Bytes::kib(64),
        payloads: vec![
            JournalPayload::Data { at: Bytes::mib(3), checksums: vec![1] },
            JournalPayload::Data { at: Bytes::mib(4), checksums: vec![2, 3] },
            JournalPayload::Parity { at: Bytes::mib(1), checksums: vec![4, 5] },
            JournalPayload::Flush { stripes: vec![8, 16] },
        ],
    }
}

#[test]
fn a_journal_block_is_read_as_it_was_written() {
    let (array, block) = (Uuid([5; 16]), journal_block());
    let bytes = block.to_bytes(array).unwrap();
    assert_eq!(JournalBlock::parse(&bytes, array).unwrap(), block);
    assert!(JournalBlock::parse(&bytes, Uuid([6; 16])).is_err(), "another array's");
    let full =
        JournalBlock { payloads: vec![JournalPayload::Data { at: Bytes::ZERO, checksums: vec![0; 2000] }], ..block };
    assert_eq!(full.to_bytes(array), None, "it does not fit into one block");
}

#[test]
fn a_journal_block_of_what_is_no_page_or_of_the_end_of_all_numbers_is_refused() {
    let (array, sum) = (Uuid([5; 16]), vec![1]);
    let odd = Bytes::mib(3) + Bytes::SECTOR;
    let of = |payload| JournalBlock { payloads: vec![payload], ..journal_block() };
    for wrong in [
        of(JournalPayload::Data { at: odd, checksums: sum.clone() }),
        of(JournalPayload::Parity { at: odd, checksums: sum }),
        JournalBlock { sequence: u64::MAX, ..journal_block() },
    ] {
        let parsed = JournalBlock::parse(&wrong.to_bytes(array).unwrap(), array);
        assert!(matches!(parsed, Err(JournalError::Field { .. })), "{parsed:?}");
    }
}

#[test]
fn numbers_of_levels_are_those_of_md() {
    let of = |level| (Numbers::of(level).level, Numbers::of(level).layout);
    assert_eq!(of(Level::Raid5(Rotation::LeftSymmetric)), (5, 2));
    assert_eq!(of(Level::Raid6(DoubleRotation::DdfNContinue)), (6, 10));
    assert_eq!(of(Level::Raid10(Copies::near(2))), (10, 0x102));
    assert_eq!(of(Level::Raid10(Copies::far(2))), (10, 0x201));
    assert_eq!(of(Level::Raid10(Copies::offset(2))), (10, 0x10201));
    assert_eq!(of(Level::Raid0(Zones::Original)), (0, 1));
    assert_eq!(of(Level::Raid3), (4, 0));
    for level in -2..12 {
        for layout in [-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 0x102, 0x201, 0x10201, 0x20102]
        {
            if let Ok(known) = (Numbers { level, layout }).level() {
                assert_eq!(Numbers::of(known).level, level);
                let spread_of_near = matches!(known, Level::Raid10(Copies { far: 1, spread: Spread::Offset, .. }));
                // Linear and the old name of level 0 have one number less than names.
                // md does not look at the layout of level 4.
                if level > 0 && level != 4 && !spread_of_near {
                    assert_eq!(Numbers::of(known).layout, layout);
                }
            }
        }
    }
    assert!((Numbers { level: 10, layout: 0x20102 }).level().is_err(), "far sets are not understood");
    assert!((Numbers { level: 7, layout: 0 }).level().is_err());
}

#[test]
fn what_is_not_understood_is_named() {
    let mut block = Superblock::parse(&minimal().to_bytes()).unwrap();
    block.features = Features(1 << 2 | 1 << 8 | 1 << 20);
    let error = Superblock::parse(&block.to_bytes()).unwrap_err().to_string();
    assert_eq!(
        error,
        "the array uses reshape, clustered, feature bit 20, which is not supported here; finish or undo it with mdadm"
    );
    assert_eq!(
        Superblock::parse(&[0; 4096]).unwrap_err().to_string(),
        "there is no md superblock of version 1.2 (magic 0x00000000, not 0xa92b4efc); was the member part of an array?"
    );
    // Linux 6.19 puts the logical block size where older ones want zeroes; that alone does not change the meaning of
    // the rest.
    let mut bytes = minimal().to_bytes();
    bytes[224..228].copy_from_slice(&512u32.to_le_bytes());
    assert!(Superblock::parse(&with_checksum(&mut bytes)).is_ok());
    bytes[228] = 1;
    assert!(matches!(Superblock::parse(&with_checksum(&mut bytes)), Err(SuperblockError::Features(_))));
}

fn minimal() -> Superblock {
    Superblock {
        features: Features::default(),
        array: Uuid([1; 16]),
        name: [0; 32],
        created: Stamp(0),
        level: 5,
        layout: 2,
        size: Bytes::mib(8),
        chunk: Bytes::kib(64),
        members: 3,
        bitmap_offset: 0,
        reshape: [0; 28],
        data_offset: Bytes::mib(1),
        data_size: Bytes::mib(8),
        recovery: 0,
        number: 0,
        corrected_reads: 0,
        member: Uuid([2; 16]),
        member_flags: 0,
        bad_block_shift: 0,
        bad_block_sectors: 8,
        bad_block_offset: 16,
        updated: Stamp(0),
        events: 1,
        resync: Resync::Clean,
        roles: vec![0, 1, 2, MemberRole::Spare.number()],
    }
}
