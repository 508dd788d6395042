//! One array, two engines: md makes it, ours writes, loses and rebuilds a member, md checks it, writes without a
//! member, ours notices, rebuilds, and md checks again. Skipped where there is no md.

use crate::common;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use array::md::{SUPERBLOCK_AT, Superblock, Uuid};
use array::{Array, MemberState, OpenOptions, Repair};
use common::image::{self, data};
use common::{Peer, copy_out, noise, settle};
use device::{Buffer, Device, MemoryDevice, Request, Shape};
use runtime::Runtime;
use units::Bytes;

const MEMBER: u64 = 8 << 20;
/// How much lies between what is found in two arrays, on the disk with the pattern and behind it.
const PLACE: usize = 32 << 20;
const ARRAYS: [(&str, usize); 4] = [
    ("--level=5 --chunk=32", 4),
    ("--level=6 --chunk=32", 5),
    ("--level=10 --layout=n2 --chunk=32", 3),
    ("--level=1", 2),
];

type Disk = Rc<MemoryDevice>;

fn load(runtime: &Runtime, path: &Path) -> Disk {
    let disk = MemoryDevice::new(runtime, Shape::new(path.display().to_string(), Bytes::new(MEMBER)));
    image::load(runtime, &disk, path);
    Rc::new(disk)
}

fn open(runtime: &Runtime, disks: &[Disk]) -> Array<Disk> {
    runtime.block_on(Array::open(runtime, "array", disks.to_vec(), OpenOptions::default())).unwrap()
}

fn assert_holds(runtime: &Runtime, array: &Array<Disk>, model: &[u8]) {
    let whole = Request::read(Bytes::ZERO, Buffer::zeroed(array.geometry().size()));
    let reply = runtime.block_on(array.submit(whole));
    reply.result.unwrap();
    let bytes = reply.buffer.unwrap();
    let wrong = bytes.bytes().unwrap().chunks(512).zip(model.chunks(512)).position(|(a, b)| a != b);
    assert_eq!(wrong, None, "{:?}", array.geometry().level());
}

/// A fresh disk in the place of `member`, with data where the others have them.
fn rebuild(runtime: &Runtime, array: &Array<Disk>, disks: &mut [Disk], member: usize, file: usize) {
    let sibling = &disks[(file + 1) % disks.len()];
    let reply = runtime.block_on(sibling.submit(Request::read(SUPERBLOCK_AT, Buffer::zeroed(Bytes::kib(4)))));
    let data_offset = Superblock::parse(reply.buffer.unwrap().bytes().unwrap()).unwrap().data_offset;
    let fresh = Rc::new(MemoryDevice::new(runtime, Shape::new("fresh", Bytes::new(MEMBER))));
    let bad = runtime.block_on(array.rebuild(member, Rc::clone(&fresh), data_offset, Uuid([0xaa; 16]))).unwrap();
    assert!(bad.is_empty());
    disks[file] = fresh;
    assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0);
}

#[test]
fn an_array_goes_back_and_forth_between_md_and_us() {
    let Some(peer) = Peer::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: String| folder.path().join(name);
    let files: Vec<Vec<PathBuf>> = ARRAYS
        .iter()
        .enumerate()
        .map(|(array, (_, members))| (0..*members).map(|member| path(format!("{array}-{member}"))).collect())
        .collect();
    for file in files.iter().flatten() {
        std::fs::File::create(file).unwrap().set_len(MEMBER).unwrap();
    }
    let (pattern, mut model) = (path("pattern".into()), noise(5, PLACE));
    let lay = |model: &[u8]| {
        std::fs::write(&pattern, model).unwrap();
        let file = std::fs::File::options().write(true).open(&pattern).unwrap();
        file.set_len((PLACE * (1 + ARRAYS.len())) as u64).unwrap();
    };
    lay(&model);
    let all: Vec<PathBuf> = files.iter().flatten().cloned().chain([pattern.clone()]).collect();
    let first = |array: usize| files[..array].iter().map(Vec::len).sum::<usize>();
    let names = |array: usize| {
        (first(array)..first(array) + files[array].len()).map(|disk| format!("$D{disk} ")).collect::<String>()
    };
    let (last, source) = (all.len() - 1, format!("$D{}", all.len() - 1));
    let find = |array: usize| copy_out(array, last, (PLACE * (1 + array)) as u64 >> 20);
    let assert_found = |sizes: &[Bytes], model: &[u8]| {
        let disk = std::fs::read(&pattern).unwrap();
        for (array, size) in sizes.iter().enumerate() {
            let found = &disk[PLACE * (1 + array)..][..size.as_usize()];
            assert!(found == &model[..size.as_usize()], "{}", ARRAYS[array].0);
        }
    };

    // md makes the arrays and fills them.
    let mut commands = Vec::new();
    for (array, (options, members)) in ARRAYS.iter().enumerate() {
        commands.push(format!(
            "mdadm --create /dev/md{array} --run --metadata=1.2 --homehost=lab --name=x {options} --raid-devices={members} {} \
             > /tmp/log 2>&1 || {{ cat /tmp/log; exit 3; }}; {}",
            names(array),
            settle(array)
        ));
        commands.push(format!(
            "dd if={source} of=/dev/md{array} bs=1M 2>/dev/null || true; sync; mdadm --stop /dev/md{array} 2>&1"
        ));
    }
    peer.run(&all, &commands);

    // Ours writes, loses member 1, writes, rebuilds, stops.
    let runtime = Runtime::simulated();
    let mut sizes = Vec::new();
    let writes: Vec<(u64, u64)> = (0..60).map(|number| (number * 7919 % 13_000, number % 50 + 1)).collect();
    for files in &files {
        let mut disks: Vec<Disk> = files.iter().map(|file| load(&runtime, file)).collect();
        let array = open(&runtime, &disks);
        assert!(!array.is_dirty());
        sizes.push(array.geometry().size());
        assert_holds(&runtime, &array, &model);
        let mut after = model.clone();
        for (number, (sector, sectors)) in writes.iter().enumerate() {
            if number == 30 {
                // The file whose role is 1: with md that need not be the second.
                array.fail(1);
            }
            let bytes = noise(number as u64 + 100, (*sectors * 512) as usize);
            runtime.block_on(array.submit(Request::write(Bytes::SECTOR * *sector, data(&bytes)))).result.unwrap();
            after[(*sector * 512) as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        let file = disks.iter().position(|disk| Rc::ptr_eq(disk, &array.device(1).unwrap())).unwrap();
        rebuild(&runtime, &array, &mut disks, 1, file);
        assert_holds(&runtime, &array, &after);
        runtime.block_on(array.stop()).unwrap();
        disks.iter().zip(files).for_each(|(disk, file)| image::store(&runtime, disk, file));
    }
    for (number, (sector, sectors)) in writes.iter().enumerate() {
        let bytes = noise(number as u64 + 100, (*sectors * 512) as usize);
        model[(*sector * 512) as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    lay(&model);

    // md finds the same, complete and fitting; then it loses a member and writes without it.
    let mut commands = Vec::new();
    for (array, _) in ARRAYS.iter().enumerate() {
        commands.push(format!(
            "mdadm --assemble /dev/md{array} {} > /tmp/log 2>&1 || {{ cat /tmp/log; exit 3; }}",
            names(array)
        ));
        commands.push(format!(
            "{}; echo degraded $(cat /sys/block/md{array}/md/degraded); echo check > /sys/block/md{array}/md/sync_action; {}; \
             echo mismatches $(cat /sys/block/md{array}/md/mismatch_cnt)",
            find(array),
            settle(array)
        ));
        commands.push(format!(
            "mdadm /dev/md{array} --fail $D{} > /dev/null 2>&1; dd if=/dev/zero of=/dev/md{array} bs=4k seek=50 count=300 2>/dev/null; \
             sync; mdadm --stop /dev/md{array} 2>&1 || true",
            first(array)
        ));
    }
    let out = peer.run(&all, &commands);
    let lines: Vec<&str> = out.lines().filter(|line| !line.starts_with("mdadm")).collect();
    assert_eq!(lines, ["degraded 0", "mismatches 0"].repeat(ARRAYS.len()), "{out}");
    assert_found(&sizes, &model);

    // Ours takes the failed member for stale, and rebuilds it.
    model[50 * 4096..350 * 4096].fill(0);
    lay(&model);
    for files in &files {
        let mut disks: Vec<Disk> = files.iter().map(|file| load(&runtime, file)).collect();
        let array = open(&runtime, &disks);
        let failed: Vec<usize> =
            (0..disks.len()).filter(|member| array.state(*member) == MemberState::Failed).collect();
        assert_eq!(failed.len(), 1, "{:?}", array.geometry().level());
        assert_holds(&runtime, &array, &model);
        rebuild(&runtime, &array, &mut disks, failed[0], 0);
        runtime.block_on(array.stop()).unwrap();
        disks.iter().zip(files).for_each(|(disk, file)| image::store(&runtime, disk, file));
    }
    let mut commands = Vec::new();
    for (array, _) in ARRAYS.iter().enumerate() {
        commands.push(format!(
            "mdadm --assemble /dev/md{array} {} > /tmp/log 2>&1 || {{ cat /tmp/log; exit 3; }}",
            names(array)
        ));
        commands.push(format!(
            "{}; echo degraded $(cat /sys/block/md{array}/md/degraded); echo check > /sys/block/md{array}/md/sync_action; {}; \
             echo mismatches $(cat /sys/block/md{array}/md/mismatch_cnt); mdadm --stop /dev/md{array} 2>/dev/null",
            find(array),
            settle(array)
        ));
    }
    let out = peer.run(&all, &commands);
    let lines: Vec<&str> = out.lines().filter(|line| !line.starts_with("mdadm")).collect();
    assert_eq!(lines, ["degraded 0", "mismatches 0"].repeat(ARRAYS.len()), "{out}");
    assert_found(&sizes, &model);
}
