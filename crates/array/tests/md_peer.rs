//! Arrays made by the real md are read here, and arrays written here are read by the real md: every level and layout.
//!
//! One virtual machine makes or checks several arrays, as many as its 15 disks hold. Skipped where there is none.

use crate::common;

use std::path::PathBuf;

use array::geometry::{Copies, DoubleRotation, Geometry, Level, Role, Rotation, Zones};
use array::md::{
    BadBlocks, Bitmap, Consistency, Features, NewArray, NewMember, Numbers, PplHeader, Resync, SUPERBLOCK_AT, Stamp,
    Superblock, Uuid, create,
};
use common::{Peer, copy_out, noise, settle, stay_dirty};
use parity::golden;
use units::Bytes;

/// An array of a test: mdadm's words for it, ours, and how large its members are.
struct Case {
    mdadm: &'static str,
    level: Level,
    mib: Vec<u64>,
}

fn case(mdadm: &'static str, level: Level, members: usize) -> Case {
    Case { mdadm, level, mib: vec![8; members] }
}

const CHUNK: Bytes = Bytes::kib(32);
/// What lies in one place on all levels, as chunks and members are multiples of it.
const BLOCK: Bytes = Bytes::kib(4);

fn batches() -> Vec<Vec<Case>> {
    use DoubleRotation::{DdfNContinue, DdfNRestart, DdfZeroRestart, LastQ, Together};
    use Rotation::*;
    let five = |mdadm, rotation, members| case(mdadm, Level::Raid5(rotation), members);
    let six = |mdadm, rotation, members| case(mdadm, Level::Raid6(rotation), members);
    let ten = |mdadm, copies, members| case(mdadm, Level::Raid10(copies), members);
    vec![
        vec![
            five("--level=5 --layout=left-symmetric", LeftSymmetric, 4),
            five("--level=5 --layout=right-asymmetric", RightAsymmetric, 4),
            five("--level=5 --layout=left-asymmetric", LeftAsymmetric, 3),
            five("--level=5 --layout=right-symmetric", RightSymmetric, 3),
        ],
        vec![
            six("--level=6 --layout=left-symmetric", Together(LeftSymmetric), 5),
            six("--level=6 --layout=left-asymmetric", Together(LeftAsymmetric), 5),
            case("--level=4", Level::Raid4, 4),
        ],
        vec![
            six("--level=6 --layout=right-symmetric", Together(RightSymmetric), 4),
            six("--level=6 --layout=right-asymmetric", Together(RightAsymmetric), 4),
            five("--level=5 --layout=parity-first", ParityFirst, 3),
            five("--level=5 --layout=parity-last", ParityLast, 3),
        ],
        vec![
            six("--level=6 --layout=ddf-zero-restart", DdfZeroRestart, 4),
            six("--level=6 --layout=ddf-N-restart", DdfNRestart, 5),
            six("--level=6 --layout=ddf-N-continue", DdfNContinue, 5),
        ],
        vec![
            six("--level=6 --layout=left-symmetric-6", LastQ(LeftSymmetric), 5),
            six("--level=6 --layout=parity-first", Together(ParityFirst), 4),
            six("--level=6 --layout=parity-last", Together(ParityLast), 4),
        ],
        vec![
            ten("--level=10 --layout=n2", Copies::near(2), 3),
            ten("--level=10 --layout=f2", Copies::far(2), 4),
            ten("--level=10 --layout=o2", Copies::offset(2), 4),
            ten("--level=10 --layout=n3", Copies::near(3), 3),
        ],
        vec![
            case("--level=0", Level::Raid0(Zones::Original), 3),
            Case { mdadm: "--level=0", level: Level::Raid0(Zones::Original), mib: vec![8, 12, 9] },
            case("--level=1", Level::Raid1, 2),
            Case { mdadm: "--level=linear", level: Level::Linear, mib: vec![8, 9] },
        ],
    ]
}

/// The members of the cases as files, and a disk with the pattern that fills every array.
struct Disks {
    _folder: tempfile::TempDir,
    members: Vec<Vec<PathBuf>>,
    pattern: PathBuf,
    contents: Vec<u8>,
}

impl Disks {
    fn new(cases: &[Case]) -> Disks {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: String, size: u64| {
            let path = folder.path().join(name);
            std::fs::File::create(&path).unwrap().set_len(size << 20).unwrap();
            path
        };
        let members = cases.iter().enumerate().map(|(index, case)| {
            case.mib.iter().enumerate().map(|(member, mib)| file(format!("{index}-{member}"), *mib)).collect()
        });
        let members = members.collect();
        let (pattern, contents) = (folder.path().join("pattern"), noise(17, 32 << 20));
        std::fs::write(&pattern, &contents).unwrap();
        Disks { _folder: folder, members, pattern, contents }
    }

    fn all(&self) -> Vec<PathBuf> {
        self.members.iter().flatten().cloned().chain([self.pattern.clone()]).collect()
    }

    /// `$D3 $D4 $D5`: the disks of a case in the machine.
    fn names(&self, case: usize) -> String {
        let first: usize = self.members[..case].iter().map(Vec::len).sum();
        (first..first + self.members[case].len()).map(|disk| format!("$D{disk} ")).collect()
    }

    fn pattern_name(&self) -> String {
        format!("$D{}", self.members.iter().flatten().count())
    }
}

/// The members of an array in order of their roles, with their superblocks.
fn load(paths: &[PathBuf]) -> Vec<(Superblock, Vec<u8>)> {
    let mut members: Vec<(Superblock, Vec<u8>)> = paths
        .iter()
        .map(|path| {
            let bytes = std::fs::read(path).unwrap();
            let superblock = Superblock::parse(&bytes[SUPERBLOCK_AT.as_usize()..][..4096]).unwrap();
            (superblock, bytes)
        })
        .collect();
    members.sort_by_key(|(superblock, _)| superblock.roles[superblock.number as usize]);
    members
}

/// What our superblock writes is, byte for byte, what md wrote.
fn assert_same_superblock(superblock: &Superblock, member: &[u8]) {
    let length = (256 + 2 * superblock.roles.len()).next_multiple_of(512);
    let theirs = &member[SUPERBLOCK_AT.as_usize()..][..length];
    let ours = superblock.to_bytes();
    let differ: Vec<usize> = (0..length).filter(|at| ours[*at] != theirs[*at]).collect();
    assert!(differ.is_empty(), "superblocks differ at {differ:?}: {superblock:#?}");
}

fn geometry_of(members: &[(Superblock, Vec<u8>)]) -> Geometry {
    let first = &members[0].0;
    let level = Numbers { level: first.level, layout: first.layout }.level().unwrap();
    let size = |superblock: &Superblock| if superblock.size.is_zero() { superblock.data_size } else { superblock.size };
    let sizes: Vec<Bytes> = members.iter().map(|(superblock, _)| size(superblock)).collect();
    Geometry::new(level, first.chunk, &sizes).unwrap()
}

/// Every block of every member is what the geometry says of the pattern: data, copies, P and Q.
fn assert_contents(geometry: &Geometry, members: &[(Superblock, Vec<u8>)], pattern: &[u8]) {
    let block = |member: usize, offset: Bytes| {
        let (superblock, bytes) = &members[member];
        &bytes[(superblock.data_offset + offset).as_usize()..][..BLOCK.as_usize()]
    };
    let mut checked = 0;
    for (member, (superblock, _)) in members.iter().enumerate() {
        assert!(superblock.data_size.get().is_multiple_of(BLOCK.get()), "{}", superblock.data_size);
        for number in 0..superblock.data_size / BLOCK {
            let offset = BLOCK * number;
            let parities = |row: u64| {
                let stripe = geometry.stripe(row);
                let mut blocks = vec![&[0u8; BLOCK.as_usize()][..]; stripe.powers()];
                for index in 0..stripe.data() {
                    let holder = stripe.data_member(index);
                    let power = if stripe.q().is_some() { stripe.power(holder) } else { index };
                    blocks[power] = block(holder, offset);
                }
                golden::p_and_q(&blocks)
            };
            match geometry.role(member, offset) {
                Role::Data(address) => {
                    assert!(block(member, offset) == &pattern[address.as_usize()..][..BLOCK.as_usize()], "{address}")
                }
                Role::P(row) => assert!(block(member, offset) == parities(row).0, "P of row {row}"),
                Role::Q(row) => assert!(block(member, offset) == parities(row).1, "Q of row {row}"),
                Role::Unused => continue,
            }
            checked += 1;
        }
    }
    assert!(checked > 1000, "{checked} blocks checked");
}

fn read_what_md_wrote(batch: usize) {
    let Some(peer) = Peer::find() else { return };
    let cases = batches().remove(batch);
    let disks = Disks::new(&cases);
    // The machine loads the levels it expects, and linear is not among them.
    let mut commands = vec!["modprobe -q linear || true".to_owned()];
    for (index, case) in cases.iter().enumerate() {
        let (names, members) = (disks.names(index), case.mib.len());
        let chunk = if case.level == Level::Raid1 { "" } else { "--chunk=32" };
        commands.push(format!(
            "mdadm --create /dev/md{index} --run --metadata=1.2 --homehost=lab --name=t{index} {} {chunk} \
             --raid-devices={members} {names} > /tmp/log 2>&1 || {{ cat /tmp/log; exit 3; }}",
            case.mdadm
        ));
        commands.push(settle(index));
        commands.push(format!("dd if={} of=/dev/md{index} bs=1M 2>/dev/null || true", disks.pattern_name()));
        commands.push(format!("sync; {}; mdadm --stop /dev/md{index} 2>&1", settle(index)));
    }
    peer.run(&disks.all(), &commands);
    for (index, case) in cases.iter().enumerate() {
        let members = load(&disks.members[index]);
        for (superblock, bytes) in &members {
            assert_same_superblock(superblock, bytes);
            assert_eq!(superblock.resync, Resync::Clean, "{}", case.mdadm);
            assert!(!superblock.features.has(Features::BAD_BLOCKS) && superblock.bad_blocks_at().is_some());
        }
        let geometry = geometry_of(&members);
        assert_eq!(geometry.level(), case.level, "{}", case.mdadm);
        assert_contents(&geometry, &members, &disks.contents);
    }
}

fn let_md_read_what_was_written_here(batch: usize) {
    let Some(peer) = Peer::find() else { return };
    let cases = batches().remove(batch);
    let disks = Disks::new(&cases);
    // In the place of the pattern goes what md finds, array by array.
    let (found, place) = (disks.members.iter().flatten().count(), disks.contents.len());
    std::fs::File::create(&disks.pattern).unwrap().set_len((cases.len() * place) as u64).unwrap();
    let mut sizes = Vec::new();
    // The machine loads the levels it expects, and linear is not among them.
    let mut commands = vec!["modprobe -q linear || true".to_owned()];
    for (index, case) in cases.iter().enumerate() {
        let members: Vec<NewMember> = case
            .mib
            .iter()
            .enumerate()
            .map(|(member, mib)| NewMember { size: Bytes::mib(*mib), member: Uuid([member as u8 + 1; 16]) })
            .collect();
        let new = NewArray {
            level: case.level,
            chunk: CHUNK,
            name: format!("lab:t{index}"),
            array: Uuid([index as u8 + 0x40; 16]),
            now: Stamp(1_700_000_000),
            consistency: Consistency::Resync,
            clean: true,
        };
        let (superblocks, geometry) = create(&new, &members).unwrap();
        write_members(&disks.members[index], &superblocks, &geometry, &disks.contents);
        let names = disks.names(index);
        let check = if case.level.losses_survived(case.mib.len()) > 0 {
            format!(
                "echo check > /sys/block/md{index}/md/sync_action; {}; \
                 echo mismatches $(cat /sys/block/md{index}/md/mismatch_cnt)",
                settle(index)
            )
        } else {
            "echo mismatches 0".to_owned()
        };
        commands
            .push(format!("mdadm --assemble /dev/md{index} {names} > /tmp/log 2>&1 || {{ cat /tmp/log; exit 3; }}"));
        commands.push(format!("echo sectors $(cat /sys/block/md{index}/size)"));
        commands.push(copy_out(index, found, (index * place) as u64 >> 20));
        commands.push(format!("{check}; mdadm --stop /dev/md{index} 2>/dev/null"));
        sizes.push(geometry.size());
    }
    let out = peer.run(&disks.all(), &commands);
    let lines: Vec<&str> = out.lines().collect();
    let found = std::fs::read(&disks.pattern).unwrap();
    for (index, (case, size)) in cases.iter().zip(&sizes).enumerate() {
        let sectors = format!("sectors {}", *size / Bytes::SECTOR);
        assert_eq!(lines[2 * index..][..2], [sectors.as_str(), "mismatches 0"], "{}:\n{out}", case.mdadm);
        let found = &found[index * place..][..size.as_usize()];
        assert!(found == &disks.contents[..size.as_usize()], "{}", case.mdadm);
    }
    assert_eq!(lines.len(), 2 * cases.len(), "{out}");
}

/// Writes superblocks, empty bad-block logs, data and parity.
fn write_members(paths: &[PathBuf], superblocks: &[Superblock], geometry: &Geometry, pattern: &[u8]) {
    let mut members: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    for (member, superblock) in superblocks.iter().enumerate() {
        members[member][SUPERBLOCK_AT.as_usize()..][..4096].copy_from_slice(&superblock.to_bytes());
        let log = BadBlocks { shift: 0, ranges: Vec::new() }.to_bytes(Bytes::kib(4)).unwrap();
        members[member][superblock.bad_blocks_at().unwrap().as_usize()..][..4096].copy_from_slice(&log);
    }
    assert!(geometry.size().get().is_multiple_of(BLOCK.get()), "{}", geometry.size());
    let length = BLOCK.as_usize();
    for number in 0..geometry.size() / BLOCK {
        let address = BLOCK * number;
        for copy in 0..geometry.copies() {
            let place = geometry.copy(address, copy);
            let at = (superblocks[place.member].data_offset + place.offset).as_usize();
            members[place.member][at..at + length].copy_from_slice(&pattern[address.as_usize()..][..length]);
        }
    }
    if geometry.level().parities() > 0 {
        let chunk = geometry.chunk().as_usize();
        for row in 0..geometry.rows() {
            let stripe = geometry.stripe(row);
            let at = |member: usize| superblocks[member].data_offset.as_usize() + row as usize * chunk;
            let mut blocks = vec![vec![0; chunk]; stripe.powers()];
            for index in 0..stripe.data() {
                let member = stripe.data_member(index);
                let power = if stripe.q().is_some() { stripe.power(member) } else { index };
                blocks[power] = members[member][at(member)..][..chunk].to_vec();
            }
            let (p, q) = golden::p_and_q(&blocks.iter().map(Vec::as_slice).collect::<Vec<_>>());
            members[stripe.p()][at(stripe.p())..][..chunk].copy_from_slice(&p);
            if let Some(member) = stripe.q() {
                members[member][at(member)..][..chunk].copy_from_slice(&q);
            }
        }
    }
    for (path, bytes) in paths.iter().zip(members) {
        std::fs::write(path, bytes).unwrap();
    }
}

macro_rules! batch {
    ($number:literal, $reads:ident, $writes:ident) => {
        #[test]
        fn $reads() {
            read_what_md_wrote($number);
        }
        #[test]
        fn $writes() {
            let_md_read_what_was_written_here($number);
        }
    };
}
batch!(0, level_5_of_md_is_read, level_5_is_read_by_md);
batch!(1, levels_4_and_6_of_md_are_read, levels_4_and_6_are_read_by_md);
batch!(2, right_hand_layouts_of_md_are_read, right_hand_layouts_are_read_by_md);
batch!(3, ddf_layouts_of_md_are_read, ddf_layouts_are_read_by_md);
batch!(4, still_parities_of_md_are_read, still_parities_are_read_by_md);
batch!(5, level_10_of_md_is_read, level_10_is_read_by_md);
batch!(6, levels_0_1_and_linear_of_md_are_read, levels_0_1_and_linear_are_read_by_md);

#[test]
fn bitmap_and_partial_parity_log_of_md_are_read() {
    let Some(peer) = Peer::find() else { return };
    let level = Level::Raid5(Rotation::LeftSymmetric);
    let cases = [Case { mdadm: "", level, mib: vec![16; 3] }, Case { mdadm: "", level, mib: vec![16; 3] }];
    let disks = Disks::new(&cases);
    let create = |index: usize, options: &str| {
        format!(
            "mdadm --create /dev/md{index} --run --metadata=1.2 --homehost=lab --name=t --level=5 --chunk=32 {options} \
             --raid-devices=3 {} > /tmp/log 2>&1 || {{ cat /tmp/log; exit 3; }}; {}",
            disks.names(index),
            settle(index)
        )
    };
    let write = |index: usize, chunk: u64| {
        format!("dd if={} of=/dev/md{index} bs=4k seek={chunk} count=1 oflag=direct 2>/dev/null", disks.pattern_name())
    };
    let commands = vec![
        create(0, "--bitmap=internal --bitmap-chunk=64"),
        create(1, "--consistency-policy=ppl"),
        // When all is tidy a write, and the power goes before md tidies up: the bit is set, the log holds the write.
        "until mdadm -X $D0 | grep -q ' 0 dirty'; do sleep 0.5; done".into(),
        stay_dirty(0),
        stay_dirty(1),
        write(0, 100),
        write(1, 100),
        "powercut".into(),
    ];
    peer.run(&disks.all(), &commands);
    for (superblock, bytes) in load(&disks.members[0]) {
        assert_same_superblock(&superblock, &bytes);
        assert_eq!(superblock.resync, Resync::From(Bytes::ZERO), "dirty");
        let at = superblock.bitmap_at().expect("there is a bitmap").as_usize();
        let bitmap = Bitmap::parse(&bytes[at..]).unwrap();
        assert_eq!((bitmap.array, bitmap.region, bitmap.covers), (superblock.array, Bytes::kib(64), superblock.size));
        // Block 100 of 4 KiB lies in row 6 of 32 KiB chunks with two data chunks a row: bytes 192 to 224 KiB of the
        // members.
        assert_eq!(bitmap.marked().collect::<Vec<u64>>(), [3]);
        let ours = bitmap.to_bytes();
        assert_eq!(ours, bytes[at..at + ours.len()], "byte for byte");
    }
    let mut newest = 0;
    for (superblock, bytes) in load(&disks.members[1]) {
        assert_same_superblock(&superblock, &bytes);
        assert!(superblock.features.has(Features::PPLS));
        let (at, size) = superblock.ppl_at().expect("there is a log");
        assert_eq!(size, Bytes::mib(1));
        let mut at = at.as_usize();
        while let Ok(header) = PplHeader::parse(&bytes[at..], superblock.array) {
            assert_eq!(header.to_bytes(), bytes[at..at + 4096], "byte for byte");
            let mut behind = at + 4096;
            for entry in &header.entries {
                let parity = &bytes[behind..behind + entry.parity_length.as_usize()];
                assert_eq!(PplHeader::checksum(parity), entry.checksum);
                behind += parity.len();
            }
            newest += header.entries.iter().filter(|entry| entry.data_at == Bytes::kib(400)).count();
            at += header.extent().as_usize();
        }
    }
    assert!(newest >= 1, "the write of block 100 is in the log");
}
