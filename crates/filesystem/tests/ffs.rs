//! The fast file system against its rules: what newfs lays out, where the allocator puts a file, and fsck's invariants
//! after any operations.

use filesystem::ffs::{Ffs, FfsError, Geometry, InodeNumber, Parameters, ParametersError, ROOT, check};
use filesystem::{How, What};
use proptest::prelude::*;
use units::Bytes;

/// A Fujitsu Eagle, of which disktab says 3900 rpm.
const EAGLE: Geometry = Geometry { sectors: 48, tracks: 20, cylinders: 842, turns: 65 };
/// A small disk, so that it fills quickly.
const SMALL: Geometry = Geometry { sectors: 32, tracks: 4, cylinders: 64, turns: 60 };

fn eagle(block: u64, delay: u64) -> Ffs {
    let parameters = Parameters::newfs(EAGLE, Bytes::new(block), Bytes::new(1024));
    Ffs::new(Parameters { rotational_delay: delay, ..parameters }).expect("an Eagle takes it")
}

/// The file of the study's script, `foo/tst2`, of so many bytes in calls of 8192; where its blocks lie.
fn written(ffs: &mut Ffs, bytes: u64) -> (InodeNumber, Vec<u64>) {
    let (directory, _) = ffs.make_directory(ROOT, "foo").unwrap();
    let (file, _) = ffs.create(directory, "tst2").unwrap();
    let block = ffs.parameters.block.get();
    for number in 0..bytes / block {
        ffs.place(file, number, block).unwrap();
    }
    check(ffs).unwrap();
    (file, ffs.blocks(file).iter().map(|extent| extent.fragment).collect())
}

/// The first fragment, then steps, each with how often it is taken: "7712 -32 +16x2".
fn steps(at: &[u64]) -> String {
    let steps: Vec<i64> = at.windows(2).map(|pair| pair[1] as i64 - pair[0] as i64).collect();
    let runs = steps.chunk_by(|a, b| a == b).map(|run| match run.len() {
        1 => format!("{:+}", run[0]),
        times => format!("{:+}x{times}", run[0]),
    });
    std::iter::once(at[0].to_string()).chain(runs).collect::<Vec<_>>().join(" ")
}

/// Worked by hand. Group 1 begins at 7680, a cylinder has 480 fragments, a track 24. `foo` has the fewest directories
/// beside it in group 1, and its name is in fragment 7688. The tables of group 1 are a track into it: 7720 to 7991.
///
/// Blocks of 8 KB: three to a track, at the positions 0, 2 and 5 of 8. The first wants 7688, which is broken up, and
/// gets the next block at position 2 of the cylinder, 7712. The next wants 16 further (a gap of 6.24 fragments is
/// rounded up to a block, for 2 ms and for 4): a table is there, at position 0, and 7680 is the first block at that
/// position. Then 7696 is free; 16 further is 7712 again, in use, and the next at position 2 behind the tables is
/// 8000. From there each block finds its place, to the twelfth. The indirect block goes to the next group with the
/// average, group 2, and the first block that it lists with it, in the same way.
#[test]
fn a_file_lies_where_the_allocator_worked_by_hand_puts_it() {
    let first = |block, delay| steps(&written(&mut eagle(block, delay), 20 * block).1);
    assert_eq!(first(8192, 2), "7712 -32 +16 +304 +16x8 +7264 +16 -32 +40 -56 +40 +304 +16");
    assert_eq!(first(8192, 4), first(8192, 2), "the gap is a block for either delay");
    // Blocks of 4 KB: six to a track. A gap of 3.12 fragments is one block, one of 6.24 is two.
    assert_eq!(first(4096, 2), "7708 +8 -16 +296 +8x8 +32 +8x7");
    assert_eq!(first(4096, 4), "7708 -12 +300 +12x9 +36 +12x7");
}

#[test]
fn a_large_file_moves_on_from_group_to_group() {
    let (groups, of) = {
        let mut ffs = eagle(8192, 4);
        let (_, at) = written(&mut ffs, 8 << 20);
        let groups: Vec<u64> = at.iter().map(|fragment| fragment / 7680).collect();
        let of = groups.chunk_by(|a, b| a == b).map(<[u64]>::len).collect::<Vec<_>>();
        (groups, of)
    };
    // Twelve blocks from the inode, then 256 (maxbpg) of the indirect block's from each group.
    assert_eq!(of, [12, 256, 256, 256, 244]);
    assert_eq!(groups[0], 1, "beside its directory");
}

#[test]
fn the_gap_is_the_rotational_delay_in_fragments_rounded_up_to_blocks() {
    let (_, at) = written(&mut eagle(4096, 0), 12 * 4096);
    assert!(at.windows(2).filter(|pair| pair[1] == pair[0] + 4).count() >= 8, "without a delay blocks adjoin: {at:?}");
}

#[test]
fn what_must_not_be_lost_is_written_while_the_caller_waits() {
    let mut ffs = eagle(8192, 4);
    let (file, touches) = ffs.create(ROOT, "a").unwrap();
    let waits: Vec<What> =
        touches.iter().filter(|touch| touch.how == How::Synchronous).map(|touch| touch.what).collect();
    assert_eq!(waits, [What::Inodes, What::Directory], "the inode is there before its name");
    let placed = ffs.place(file, 12, 8192).unwrap();
    let waits = placed.touches.iter().filter(|touch| touch.how == How::Synchronous);
    assert_eq!(waits.map(|touch| touch.what).collect::<Vec<_>>(), [What::Indirect]);
    let touches = ffs.remove(ROOT, "a").unwrap();
    let waits: Vec<What> =
        touches.iter().filter(|touch| touch.how == How::Synchronous).map(|touch| touch.what).collect();
    assert_eq!(waits, [What::Directory, What::Inodes], "the name is gone before its inode");
}

#[test]
fn fragments_of_a_short_file_grow_into_a_block() {
    let mut ffs = eagle(8192, 4);
    let (file, _) = ffs.create(ROOT, "a").unwrap();
    let sizes: Vec<(u64, bool)> = [1000, 2048, 4096, 4097, 8192]
        .map(|bytes| {
            let placed = ffs.place(file, 0, bytes).unwrap();
            check(&ffs).unwrap();
            (placed.extent.fragments, placed.allocated)
        })
        .to_vec();
    assert_eq!(sizes, [(1, true), (2, true), (4, true), (5, true), (8, true)]);
    assert!(!ffs.place(file, 0, 8192).unwrap().allocated, "a rewrite allocates nothing");
}

#[test]
fn a_full_file_system_refuses_and_keeps_what_it_has() {
    let mut ffs = Ffs::new(Parameters::newfs(SMALL, Bytes::new(4096), Bytes::new(1024))).unwrap();
    let (file, _) = ffs.create(ROOT, "a").unwrap();
    let mut blocks = 0;
    let error = loop {
        match ffs.place(file, blocks, 4096) {
            Ok(_) => blocks += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, FfsError::NoSpace);
    check(&ffs).unwrap();
    let all = SMALL.sectors * SMALL.tracks * SMALL.cylinders * 512 / 4096;
    assert!(blocks > all * 7 / 10 && blocks < all * 9 / 10, "a tenth is the superuser's: {blocks} of {all}");
    assert_eq!(ffs.size(file), blocks * 4096, "the file is as long as its last write that was done");
    ffs.remove(ROOT, "a").unwrap();
    let (again, _) = ffs.create(ROOT, "b").unwrap();
    for block in 0..blocks {
        ffs.place(again, block, 4096).unwrap();
    }
}

#[test]
fn sizes_that_the_file_system_does_not_allow_are_refused() {
    let with = |block, fragment| Ffs::new(Parameters::newfs(EAGLE, Bytes::new(block), Bytes::new(fragment))).err();
    assert!(matches!(with(6144, 1024), Some(ParametersError::Block { .. })));
    assert!(matches!(with(2048, 1024), Some(ParametersError::Block { .. })));
    assert!(matches!(with(8192, 512), Some(ParametersError::Fragment { .. })), "at most eight to a block");
    assert!(matches!(with(8192, 16384), Some(ParametersError::Fragment { .. })));
    assert!(matches!(with(4096, 256), Some(ParametersError::Fragment { .. })));
    assert!(with(8192, 8192).is_none() && with(4096, 512).is_none());
    let small = Geometry { cylinders: 1, tracks: 1, ..SMALL };
    let small = Ffs::new(Parameters::newfs(small, Bytes::new(8192), Bytes::new(1024)));
    assert!(matches!(small, Err(ParametersError::Small { .. })));
    let never = Parameters { group_cylinders: 33, ..Parameters::newfs(EAGLE, Bytes::new(8192), Bytes::new(1024)) };
    assert!(matches!(Ffs::new(never), Err(ParametersError::Range { .. })));
}

/// What somebody does to the file system.
#[derive(Debug, Clone)]
enum Act {
    Create(u8, u8),
    Directory(u8, u8),
    Remove(u8),
    Append(u8, u16),
    Rewrite(u8),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (any::<u8>(), any::<u8>()).prop_map(|(directory, name)| Act::Create(directory, name)),
        (any::<u8>(), any::<u8>()).prop_map(|(directory, name)| Act::Directory(directory, name)),
        any::<u8>().prop_map(Act::Remove),
        (any::<u8>(), 1..40_000_u16).prop_map(|(file, bytes)| Act::Append(file, bytes)),
        any::<u8>().prop_map(Act::Rewrite),
    ]
}

/// Writes on at the end of a file, block by block, as a program does.
fn append(ffs: &mut Ffs, file: InodeNumber, bytes: u64) -> Result<(), FfsError> {
    let block = ffs.parameters.block.get();
    let end = ffs.size(file) + bytes;
    while ffs.size(file) < end {
        let (at, size) = (ffs.size(file) / block, ffs.size(file));
        let upto = (end - at * block).min(block);
        let placed = ffs.place(file, at, upto)?;
        assert!(placed.extent.fragments * ffs.parameters.fragment.get() >= upto, "there is room for what is written");
        assert!(ffs.size(file) > size, "the file grows");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn fsck_finds_nothing_after_any_operations(
        (block, fragment) in prop::sample::select(vec![(4096, 512), (4096, 1024), (8192, 1024), (8192, 8192)]),
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let mut ffs = Ffs::new(Parameters::newfs(SMALL, Bytes::new(block), Bytes::new(fragment))).unwrap();
        let (mut directories, mut files) = (vec![ROOT], Vec::new());
        for act in acts {
            let before = ffs.clone();
            let pick = |from: &[InodeNumber], which: u8| from[which as usize % from.len()];
            let failed = match act {
                Act::Create(directory, name) => {
                    let in_ = pick(&directories, directory);
                    ffs.create(in_, &format!("f{name}")).map(|(file, _)| files.push((in_, format!("f{name}"), file))).err()
                }
                Act::Directory(directory, name) => {
                    let in_ = pick(&directories, directory);
                    ffs.make_directory(in_, &format!("d{name}")).map(|(new, _)| directories.push(new)).err()
                }
                Act::Remove(which) if !files.is_empty() => {
                    let (in_, name, file) = files.remove(which as usize % files.len());
                    prop_assert_eq!(ffs.look_up(in_, &name).unwrap().0, file);
                    ffs.remove(in_, &name).err()
                }
                Act::Append(which, bytes) if !files.is_empty() => {
                    let file = files[which as usize % files.len()].2;
                    append(&mut ffs, file, u64::from(bytes)).err()
                }
                Act::Rewrite(which) if !files.is_empty() => {
                    let file = files[which as usize % files.len()].2;
                    let blocks = ffs.blocks(file);
                    if ffs.size(file) > 0 {
                        ffs.place(file, 0, 1).unwrap();
                    }
                    prop_assert_eq!(ffs.blocks(file), blocks, "a rewrite moves nothing");
                    None
                }
                _ => None,
            };
            prop_assert!(check(&ffs).is_ok(), "{:?}", check(&ffs));
            match failed {
                Some(FfsError::Exists { .. }) => prop_assert_eq!(ffs.free_blocks(), before.free_blocks()),
                Some(FfsError::NoSpace) | None => (),
                Some(other) => prop_assert!(false, "{}", other),
            }
        }
        // All that was made can be removed, and then as much is free as at first.
        for (in_, name, _) in files {
            ffs.remove(in_, &name).unwrap();
        }
        check(&ffs).unwrap();
    }
}
