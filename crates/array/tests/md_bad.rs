//! What one side could not rebuild, the other does not read: bad-block logs of ours and of md's. Skipped where there is
//! no md.

use crate::common;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use array::geometry::{Level, Rotation};
use array::md::{BadBlock, BadBlocks, Consistency, Features, SUPERBLOCK_AT, Superblock, Uuid};
use array::{Array, OpenOptions, Repair, format};
use common::image::{self, contents, data, read};
use common::{Peer, noise, settle, superblocks};
use device::filter::{Effect, Faulty, Rule};
use device::{Device, DeviceError, MemoryDevice, Operation, Request, Shape};
use runtime::Runtime;
use units::Bytes;

type Disk = Rc<Faulty<MemoryDevice>>;
const CHUNK: Bytes = Bytes::kib(32);
const MEMBER: Bytes = Bytes::mib(16);
const MEMBERS: usize = 4;

fn blank(runtime: &Runtime) -> Disk {
    Rc::new(Faulty::new(runtime, MemoryDevice::new(runtime, Shape::new("disk", MEMBER)), 1))
}

fn load(runtime: &Runtime, path: &Path) -> Disk {
    let disk = blank(runtime);
    image::load(runtime, &disk, path);
    disk
}

fn open(runtime: &Runtime, disks: &[Disk]) -> Array<Disk> {
    runtime.block_on(Array::open(runtime, "array", disks.to_vec(), OpenOptions::default())).unwrap()
}

/// Whether the superblock says that there are bad blocks, and which the log has.
fn bad_of(runtime: &Runtime, disk: &Disk) -> (bool, Vec<BadBlock>) {
    let superblock = Superblock::parse(&read(runtime, disk, SUPERBLOCK_AT, Bytes::kib(4))).unwrap();
    let room = Bytes::SECTOR * u64::from(superblock.bad_block_sectors);
    let log = read(runtime, disk, superblock.bad_blocks_at().unwrap(), room);
    let ranges = BadBlocks::parse(&log, superblock.bad_block_shift).unwrap().ranges;
    (superblock.features.has(Features::BAD_BLOCKS), ranges)
}

/// Disks of the virtual machine: the members, and one behind them for what is to be written or was read.
struct Disks {
    folder: tempfile::TempDir,
}

impl Disks {
    fn new() -> Disks {
        Disks { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, disk: usize) -> PathBuf {
        self.folder.path().join(disk.to_string())
    }

    fn all(&self) -> Vec<PathBuf> {
        (0..=MEMBERS).map(|disk| self.path(disk)).collect()
    }

    fn load(&self, runtime: &Runtime) -> Vec<Disk> {
        (0..MEMBERS).map(|member| load(runtime, &self.path(member))).collect()
    }

    fn store(&self, runtime: &Runtime, disks: &[Disk]) {
        for (member, disk) in disks.iter().enumerate() {
            image::store(runtime, disk.inner(), &self.path(member));
        }
    }
}

const ASSEMBLE: &str = "mdadm --assemble --run /dev/md0 $D0 $D1 $D2 $D3 > /tmp/log 2>&1 || { cat /tmp/log; exit 3; }";

/// Words that wait until md says on the members that the array is clean.
const CLEAN: &str = "while grep -q active /sys/block/md0/md/array_state; do sleep 0.1; done";

/// Words that print the bad sectors that md knows of, in lines of one range: `bad: FIRST COUNT`.
const BAD: &str = "sed 's/^/bad: /' /sys/block/md0/md/dev-*/bad_blocks";

/// What they print.
fn printed(out: &str) -> Vec<BadBlock> {
    let ranges = out.lines().filter_map(|line| line.trim().strip_prefix("bad: "));
    let range = |range: &str| {
        let mut sectors = range.split_whitespace().map(|number| Bytes::SECTOR * number.parse::<u64>().unwrap());
        BadBlock { offset: sectors.next().unwrap(), length: sectors.next().unwrap() }
    };
    ranges.map(range).collect()
}

#[test]
fn md_does_not_read_what_we_could_not_rebuild() {
    let Some(peer) = Peer::find() else { return };
    let (runtime, place) = (Runtime::simulated(), Disks::new());
    let level = Level::Raid5(Rotation::LeftSymmetric);
    let superblocks = superblocks((level, MEMBERS, Consistency::Resync), CHUNK, MEMBER, 0x51);
    let mut disks: Vec<Disk> = superblocks.iter().map(|_| blank(&runtime)).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    let array = open(&runtime, &disks);
    let (old, fresh) = (noise(1, array.geometry().size().as_usize()), noise(2, array.geometry().size().as_usize()));
    runtime.block_on(array.submit(Request::write(Bytes::ZERO, data(&old)))).result.unwrap();
    array.fail(1);
    // Parts of four rows, so that member 1 has its parity in one of them.
    let data_at = superblocks[0].data_offset;
    for row in 0..4u64 {
        let from = data_at + CHUNK * (10 + row) + Bytes::kib(4);
        let unreadable = DeviceError::Medium { offset: from, length: Bytes::SECTOR };
        disks[0].add(Rule::new(Effect::Fail(unreadable)).on(Operation::Read).within(from..from + Bytes::kib(8)));
    }
    let spare = blank(&runtime);
    let bad = runtime.block_on(array.rebuild(1, spare.clone(), data_at, Uuid([0xaa; 16]))).unwrap();
    assert!(!bad.is_empty());
    runtime.block_on(array.stop()).unwrap();
    disks[1] = spare;
    let (said, known) = bad_of(&runtime, &disks[1]);
    assert!(said && known.len() == 4, "{known:?}");
    place.store(&runtime, &disks);
    // The other member can be read again, so that md computes what is bad; were it to read it, it would find zeroes.
    std::fs::File::create(place.path(MEMBERS)).unwrap().set_len(old.len() as u64).unwrap();
    let out = peer.run(
        &place.all(),
        &[
            ASSEMBLE.into(),
            BAD.into(),
            format!("dd if=/dev/md0 of=$D{MEMBERS} bs=64k 2>&1; mdadm --stop /dev/md0 2>&1"),
        ],
    );
    assert_eq!(printed(&out), known, "{out}");
    assert!(std::fs::read(place.path(MEMBERS)).unwrap() == old, "{out}");
    // What was bad remains so on md's list when all is written: it goes on to compute it, and so must we.
    std::fs::write(place.path(MEMBERS), &fresh).unwrap();
    let out = peer.run(
        &place.all(),
        &[
            ASSEMBLE.into(),
            format!("dd if=$D{MEMBERS} of=/dev/md0 bs=1M 2>&1; sync; {}", settle(0)),
            format!("{BAD}; mdadm --stop /dev/md0 2>&1"),
        ],
    );
    let disks = place.load(&runtime);
    assert_eq!(bad_of(&runtime, &disks[1]).1, printed(&out), "{out}");
    let array = open(&runtime, &disks);
    assert!(contents(&runtime, &array) == fresh);
    let scrubbed = runtime.block_on(array.scrub(Repair::No)).unwrap();
    assert_eq!((scrubbed.mismatches, scrubbed.unreadable), (0, 0));
    runtime.block_on(array.stop()).unwrap();
    assert_eq!(bad_of(&runtime, &disks[1]), (false, Vec::new()));
}

#[test]
fn we_do_not_read_what_md_calls_bad_and_mend_it() {
    let Some(peer) = Peer::find() else { return };
    let (runtime, place) = (Runtime::simulated(), Disks::new());
    let old = noise(3, 64 << 20);
    (0..MEMBERS).for_each(|member| {
        std::fs::File::create(place.path(member)).unwrap().set_len(MEMBER.get()).unwrap();
    });
    std::fs::write(place.path(MEMBERS), &old).unwrap();
    // Of its data, in chunks of 64 sectors: a part of one, and one with parts of its neighbours.
    let bad = [(640 + 8, 16), (1280 - 24, 128)];
    let say = bad.map(|(from, count)| format!("echo $(( $(cat $M/offset) + {from} )) {count} > $M/bad_blocks"));
    let out = peer.run(
        &place.all(),
        &[
            format!(
                "mdadm --create /dev/md0 --run --metadata=1.2 --homehost=lab --name=t --level=5 --chunk=32 \
                 --raid-devices=4 $D0 $D1 $D2 $D3 > /tmp/log 2>&1 || {{ cat /tmp/log; exit 3; }}; {}",
                settle(0)
            ),
            format!("dd if=$D{MEMBERS} of=/dev/md0 bs=1M 2>/dev/null || true; sync"),
            format!("M=/sys/block/md0/md/dev-$(basename $D1); {CLEAN}; {}", say.join("; ")),
            // It stores its list with the next superblocks, and does not wait for that when it is stopped.
            format!("dd if=$D{MEMBERS} of=/dev/md0 bs=4k count=1 2>/dev/null; sync; {CLEAN}"),
            format!("{BAD}; mdadm --stop /dev/md0 2>&1"),
        ],
    );
    let known = printed(&out);
    assert_eq!(known.len(), bad.len(), "{out}");
    let disks = place.load(&runtime);
    assert_eq!(bad_of(&runtime, &disks[1]), (true, known.clone()), "{out}");
    for BadBlock { offset, length } in &known {
        let spoiled = data(&noise(4, length.as_usize()));
        runtime.block_on(disks[1].submit(Request::write(*offset, spoiled))).result.unwrap();
    }
    let array = open(&runtime, &disks);
    assert!(!array.bad_ranges().is_empty());
    assert!(old.starts_with(&contents(&runtime, &array)), "computed, not read");
    assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0);
    runtime.block_on(array.stop()).unwrap();
    assert_eq!(bad_of(&runtime, &disks[1]), (false, Vec::new()), "what was computed has been written in its place");
    place.store(&runtime, &disks);
    let check = format!("echo check > /sys/block/md0/md/sync_action; {}", settle(0));
    let count = "echo mismatches $(cat /sys/block/md0/md/mismatch_cnt)".into();
    let out = peer.run(&place.all(), &[ASSEMBLE.into(), BAD.into(), check, count]);
    assert!(out.contains("mismatches 0") && printed(&out).is_empty(), "{out}");
}
