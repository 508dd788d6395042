//! An array with a partial parity log that md knows nothing of, at levels 4 and 6: md opens it, writes and is cut off,
//! and neither of the two believes what the other did not say. Skipped where there is no md.

use crate::common;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use array::geometry::{DoubleRotation, Level, Rotation};
use array::md::{Consistency, SUPERBLOCK_AT, Superblock};
use array::{Array, OpenError, OpenOptions, Repair, format};
use common::image::{self, contents, data, store};
use common::{Peer, noise, settle, stay_dirty, superblocks};
use device::{Device, MemoryDevice, Request, Shape};
use runtime::Runtime;
use units::Bytes;

type Disk = Rc<MemoryDevice>;
const CHUNK: Bytes = Bytes::kib(32);
const MEMBER: Bytes = Bytes::mib(8);
const ARRAYS: [(Level, usize, Consistency); 2] = [
    (Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric)), 5, Consistency::Ppl),
    (Level::Raid4, 4, Consistency::Ppl),
];

fn blank(runtime: &Runtime) -> Disk {
    Rc::new(MemoryDevice::new(runtime, Shape::new("disk", MEMBER)))
}

fn load(runtime: &Runtime, paths: &[PathBuf]) -> Vec<Disk> {
    let disk = |path: &PathBuf| {
        let disk = blank(runtime);
        image::load(runtime, &disk, path);
        disk
    };
    paths.iter().map(disk).collect()
}

fn open(runtime: &Runtime, disks: &[Disk]) -> Result<Array<Disk>, OpenError> {
    runtime.block_on(Array::open(runtime, "array", disks.to_vec(), OpenOptions::default()))
}

fn write(runtime: &Runtime, array: &Array<Disk>, at: usize, bytes: &[u8]) {
    runtime.block_on(array.submit(Request::write(Bytes::new(at as u64), data(bytes)))).result.unwrap();
}

fn superblock(runtime: &Runtime, disk: &Disk) -> Superblock {
    Superblock::parse(&image::read(runtime, disk, SUPERBLOCK_AT, Bytes::kib(4))).unwrap()
}

/// Small writes all over an array, which are made to a model of it, too.
fn write_small(runtime: &Runtime, array: &Array<Disk>, model: &mut [u8], seed: u64) {
    for number in 0..60 {
        let at = (number * 7919 + seed as usize * 13) % (model.len() / 4096) * 4096;
        let bytes = noise(seed + number as u64, 4096);
        write(runtime, array, at, &bytes);
        model[at..at + 4096].copy_from_slice(&bytes);
    }
}

fn assemble(array: usize, first: usize, members: usize) -> String {
    let disks: String = (first..first + members).map(|disk| format!("$D{disk} ")).collect();
    format!("mdadm --assemble --run /dev/md{array} {disks} > /tmp/log 2>&1 || {{ cat /tmp/log; exit 3; }}")
}

#[test]
fn md_opens_what_has_a_log_of_our_own_and_neither_believes_what_is_of_another_time() {
    let Some(peer) = Peer::find() else { return };
    for (case, seed) in ARRAYS.into_iter().zip(1..) {
        goes_to_md_and_back(&peer, case, seed);
    }
}

fn goes_to_md_and_back(peer: &Peer, case: (Level, usize, Consistency), seed: u64) {
    let (level, members) = (case.0, case.1);
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..members).map(|disk| folder.path().join(disk.to_string())).collect();
    let runtime = Runtime::simulated();

    // Ours makes it, writes, and is cut off.
    let superblocks = superblocks(case, CHUNK, MEMBER, 0x61);
    let disks: Vec<Disk> = (0..members).map(|_| blank(&runtime)).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    let array = open(&runtime, &disks).unwrap();
    let mut model = noise(seed, array.geometry().size().as_usize());
    write(&runtime, &array, 0, &model);
    write_small(&runtime, &array, &mut model, seed * 100);
    drop(array);
    let to_disk = |disks: &[Disk]| disks.iter().zip(&paths).for_each(|(disk, path)| store(&runtime, disk, path));
    to_disk(&disks);

    // md makes it fit, finds what was written, writes, and stops it.
    let (found, fresh) = (folder.path().join("found"), folder.path().join("fresh"));
    let md_writes = noise(seed + 50, 300 << 10);
    let room = model.len().next_multiple_of(1 << 20);
    let exchange = |commands: &[String]| {
        let sized = |path: &Path, bytes: &[u8], length: usize| {
            std::fs::write(path, bytes).unwrap();
            std::fs::File::options().write(true).open(path).unwrap().set_len(length as u64).unwrap();
        };
        sized(&found, &[], room);
        sized(&fresh, &md_writes, 1 << 20);
        let all: Vec<PathBuf> = paths.iter().cloned().chain([found.clone(), fresh.clone()]).collect();
        peer.run(&all, commands)
    };
    let (to, from) = (format!("$D{members}"), format!("$D{}", members + 1));
    let out = exchange(&[
        format!("{}; {}", assemble(0, 0, members), settle(0)),
        format!("dd if=/dev/md0 of={to} bs=64k 2>/dev/null"),
        format!("dd if={from} of=/dev/md0 bs=4k seek=25 count=75 conv=notrunc 2>/dev/null; sync"),
        format!("echo check > /sys/block/md0/md/sync_action; {}", settle(0)),
        "echo mismatches $(cat /sys/block/md0/md/mismatch_cnt); mdadm --stop /dev/md0 2>/dev/null".into(),
    ]);
    assert!(std::fs::read(&found).unwrap()[..model.len()] == model, "{level}: md finds what was written");
    assert!(out.contains("mismatches 0"), "{level}: {out}");
    model[25 * 4096..100 * 4096].copy_from_slice(&md_writes[..75 * 4096]);

    // Ours sees that md was there, and its log begins anew: after a cut it is relied on, and with it as many members
    // are spared as there are parities.
    let disks = load(&runtime, &paths);
    for disk in &disks {
        let superblock = superblock(&runtime, disk);
        assert!(superblock.own_ppl_at().is_some(), "{level}: md keeps the note");
        assert_eq!(superblock.recovery, 0, "{level}: md breaks the seal");
    }
    let array = open(&runtime, &disks).unwrap();
    assert!(!array.needs_resync() && contents(&runtime, &array) == model, "{level}");
    write_small(&runtime, &array, &mut model, seed * 1000);
    drop(array);
    let without: Vec<Vec<u8>> = disks.iter().map(|disk| contents(&runtime, &**disk)).collect();
    let array = open(&runtime, &disks[level.parities()..]).unwrap();
    assert!(contents(&runtime, &array) == model, "{level}: what was written before the cut is there");
    drop(array);
    disks.iter().zip(&without).for_each(|(disk, bytes)| {
        runtime.block_on(disk.submit(Request::write(Bytes::ZERO, data(bytes)))).result.unwrap();
    });
    let array = open(&runtime, &disks).unwrap();
    assert!(runtime.block_on(array.resync()).unwrap());
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    to_disk(&disks);

    // md is cut off while it writes: our log says nothing of that.
    exchange(&[
        format!("{}; {}; {}", assemble(0, 0, members), settle(0), stay_dirty(0)),
        format!("dd if={from} of=/dev/md0 bs=4k seek=25 count=75 oflag=direct conv=notrunc 2>/dev/null; powercut"),
    ]);
    let disks = load(&runtime, &paths);
    assert!(superblock(&runtime, &disks[0]).own_ppl_at().is_some());
    let refused = open(&runtime, &disks[1..]).err();
    assert!(matches!(refused, Some(OpenError::DirtyDegraded { .. })), "{level}: {refused:?}");
    let array = open(&runtime, &disks).unwrap();
    assert!(array.needs_resync() && runtime.block_on(array.resync()).unwrap(), "{level}");
    model[25 * 4096..100 * 4096].copy_from_slice(&md_writes[..75 * 4096]);
    assert!(contents(&runtime, &array) == model, "{level}");
    assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0, "{level}");
}
