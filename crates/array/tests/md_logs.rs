//! What a power cut leaves in a log on one side is completed on the other. Skipped where there is no md.

use crate::common;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use array::geometry::{Level, Rotation};
use array::md::{self, Consistency, NewArray, NewMember, Stamp, Uuid};
use array::{Array, MemberState, OpenOptions, Repair, format};
use common::image::{self, contents, data};
use common::{Peer, noise, settle};
use device::filter::{Effect, Faulty, Rule};
use device::{Device, MemoryDevice, Operation, Request, Shape};
use runtime::Runtime;
use units::{Bytes, Duration};

type Disk = Rc<Faulty<MemoryDevice>>;
const CHUNK: Bytes = Bytes::kib(32);
const MEMBER: u64 = 16 << 20;

fn blank(runtime: &Runtime) -> Disk {
    let memory = MemoryDevice::new(runtime, Shape::new("disk", Bytes::new(MEMBER)));
    Rc::new(Faulty::new(runtime, memory, 1))
}

fn load(runtime: &Runtime, path: &Path) -> Disk {
    let disk = blank(runtime);
    image::load(runtime, &disk, path);
    disk
}

/// Four members, and a journal behind them where there is one.
fn devices(consistency: Consistency) -> u8 {
    if consistency == Consistency::Journal { 5 } else { 4 }
}

/// A new array of ours, full of noise, whose last writes were cut off: of each, some members have their part.
fn cut_off(consistency: Consistency, writes: &[(u64, u64)]) -> (Vec<Disk>, Vec<u8>, Vec<u8>) {
    let runtime = Runtime::simulated();
    let level = Level::Raid5(Rotation::LeftSymmetric);
    let (array, name) = (Uuid([0x51; 16]), "lab:log".into());
    let new = NewArray { level, chunk: CHUNK, name, array, now: Stamp(1_700_000_000), consistency, clean: true };
    let sized: Vec<NewMember> = (0..devices(consistency))
        .map(|member| NewMember { size: Bytes::new(MEMBER), member: Uuid([member + 1; 16]) })
        .collect();
    let (superblocks, geometry) = md::create(&new, &sized).unwrap();
    let disks: Vec<Disk> = superblocks.iter().map(|_| blank(&runtime)).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    let array = runtime.block_on(Array::open(&runtime, "a", disks.clone(), OpenOptions::default())).unwrap();
    let old = noise(1, geometry.size().as_usize());
    runtime.block_on(array.submit(Request::write(Bytes::ZERO, data(&old)))).result.unwrap();
    let fresh = noise(2, old.len());
    // Two members take nothing of their data areas any more, as if it were under way when the power goes.
    for disk in &disks[1..3] {
        let area = superblocks[0].data_offset..Bytes::new(MEMBER);
        disk.add(Rule::new(Effect::Stall(Duration::seconds(1000))).on(Operation::Write).within(area));
    }
    let writes = writes.iter().map(|(block, blocks)| {
        let (at, length) = ((block * 4096) as usize, (blocks * 4096) as usize);
        array.submit(Request::write(Bytes::new(at as u64), data(&fresh[at..at + length])))
    });
    let writes = Box::pin(futures_util::future::join_all(writes));
    runtime.block_on(futures_util::future::select(writes, Box::pin(runtime.sleep(Duration::seconds(1)))));
    drop(array);
    (disks, old, fresh)
}

/// Small writes in rows with every place of the parity, and one of several chunks.
const WRITES: [(u64, u64); 6] = [(3, 1), (24 + 9, 2), (48 + 17, 1), (72 + 1, 3), (96 + 4, 1), (240, 24)];

/// Every block is old or new; gives how many are new.
fn old_or_new(found: &[u8], old: &[u8], fresh: &[u8]) -> usize {
    let mut new = 0;
    for (block, bytes) in found.chunks(4096).enumerate() {
        let at = block * 4096;
        let is_new = bytes == &fresh[at..at + bytes.len()];
        assert!(is_new || bytes == &old[at..at + bytes.len()], "block {block} is neither old nor new");
        new += usize::from(is_new);
    }
    new
}

#[test]
fn what_we_logged_is_completed_by_md_and_by_us_with_any_member_missing() {
    both_complete(Consistency::Ppl, &[None, Some(0), Some(1), Some(2), Some(3)]);
}

#[test]
fn what_we_journaled_is_completed_by_md_and_by_us_with_any_member_missing() {
    both_complete(Consistency::Journal, &[None, Some(0), Some(1), Some(3)]);
}

#[test]
fn what_we_marked_is_resynced_by_md_and_by_us() {
    both_complete(Consistency::Bitmap, &[None]);
}

fn both_complete(consistency: Consistency, missing: &[Option<usize>]) {
    let small = &WRITES[..5];
    for missing in missing.iter().copied() {
        let runtime = Runtime::simulated();
        let (disks, old, fresh) = cut_off(consistency, small);
        let folder = tempfile::tempdir().unwrap();
        let all = usize::from(devices(consistency));
        let paths: Vec<PathBuf> = (0..all).map(|disk| folder.path().join(disk.to_string())).collect();
        disks.iter().zip(&paths).for_each(|(disk, path)| image::store(&runtime, disk.inner(), path));
        let there = |member: &usize| Some(*member) != missing;
        let disks: Vec<Disk> = (0..all).filter(there).map(|member| load(&runtime, &paths[member])).collect();
        let array = runtime.block_on(Array::open(&runtime, "a", disks, OpenOptions::default())).unwrap();
        let ours = contents(&runtime, &array);
        assert!(old_or_new(&ours, &old, &fresh) > 0, "something of the last writes is there");
        if missing.is_none() {
            assert!(runtime.block_on(array.resync()).unwrap());
            assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0);
        }
        let Some(peer) = Peer::find() else { continue };
        let given: Vec<String> = (0..all).filter(there).map(|member| format!("$D{member}")).collect();
        let found = folder.path().join("found");
        std::fs::File::create(&found).unwrap().set_len(ours.len() as u64).unwrap();
        let out = peer.run(
            &paths.iter().cloned().chain([found.clone()]).collect::<Vec<_>>(),
            &[
                format!(
                    "mdadm --assemble --run /dev/md0 {} > /tmp/log 2>&1 || {{ cat /tmp/log; exit 3; }}",
                    given.join(" ")
                ),
                format!("{}; dd if=/dev/md0 of=$D{all} bs=64k 2>/dev/null; sync", settle(0)),
                format!("echo check > /sys/block/md0/md/sync_action || true; {}", settle(0)),
                "echo mismatches $(cat /sys/block/md0/md/mismatch_cnt); mdadm --stop /dev/md0 2>/dev/null".into(),
            ],
        );
        let theirs = std::fs::read(&found).unwrap();
        old_or_new(&theirs, &old, &fresh);
        assert!(ours == theirs, "with {missing:?} missing md completes the same writes");
        assert!(out.contains("mismatches 0"), "{out}");
    }
}

#[test]
fn what_md_logged_is_completed_by_us_with_any_member_missing() {
    we_complete("--consistency-policy=ppl", 4, &[None, Some(0), Some(1), Some(2), Some(3)]);
}

#[test]
fn what_md_journaled_is_completed_by_us_with_any_member_missing() {
    we_complete("--write-journal $D4", 5, &[None, Some(0), Some(1), Some(2), Some(3)]);
}

#[test]
fn what_md_marked_is_resynced_by_us() {
    we_complete("--bitmap=internal --bitmap-chunk=64", 4, &[None]);
}

/// So many writes, each of another block, md acknowledges before the power goes.
const CUT_AFTER: usize = 200;

fn we_complete(options: &str, all: usize, missing: &[Option<usize>]) {
    let Some(peer) = Peer::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..all).map(|disk| folder.path().join(disk.to_string())).collect();
    for path in &paths {
        std::fs::File::create(path).unwrap().set_len(MEMBER).unwrap();
    }
    let (old, fresh) = (noise(3, 48 << 20), noise(4, 48 << 20));
    let (old_path, fresh_path) = (folder.path().join("old"), folder.path().join("new"));
    std::fs::write(&old_path, &old).unwrap();
    std::fs::write(&fresh_path, &fresh).unwrap();
    let every: Vec<PathBuf> = paths.iter().cloned().chain([old_path, fresh_path]).collect();
    peer.run(
        &every,
        &[
            format!(
                "mdadm --create /dev/md0 --run --metadata=1.2 --homehost=lab --name=t --level=5 --chunk=32 {options} \
                 --raid-devices=4 $D0 $D1 $D2 $D3 > /tmp/log 2>&1 || {{ cat /tmp/log; exit 3; }}; {}",
                settle(0)
            ),
            format!("dd if=$D{all} of=/dev/md0 bs=1M 2>/dev/null || true; sync"),
            "written() { awk '{ print $5 }' /sys/block/md0/stat; }; before=$(written)".into(),
            format!(
                "for w in 1 2 3 4 5 6; do (i=0; while :; do b=$(( (i*6+w)*7919 % 10000 )); dd if=$D{} of=/dev/md0 \
                 bs=4k count=1 skip=$b seek=$b oflag=direct conv=notrunc 2>/dev/null; i=$((i+1)); done) & done",
                all + 1
            ),
            format!("while [ $(($(written) - before)) -lt {CUT_AFTER} ]; do sleep 0.1; done; powercut"),
        ],
    );
    for missing in missing.iter().copied() {
        let runtime = Runtime::simulated();
        let disks = (0..all).filter(|member| Some(*member) != missing).map(|member| load(&runtime, &paths[member]));
        let array = runtime.block_on(Array::open(&runtime, "a", disks.collect(), OpenOptions::default())).unwrap();
        assert!(array.is_dirty() || all == 5, "with a journal redundancy fits");
        if let Some((marked, all)) = array.marked_regions() {
            assert!(0 < marked && marked <= all, "{marked} of {all} regions are marked");
        }
        assert!(missing.is_some() || runtime.block_on(array.resync()).unwrap());
        let found = contents(&runtime, &array);
        let new = old_or_new(&found, &old[..found.len()], &fresh[..found.len()]);
        assert!(new >= CUT_AFTER, "with {missing:?} missing, {new} of {CUT_AFTER} acknowledged writes are there");
        let failed = (0..4).filter(|member| array.state(*member) == MemberState::Failed).count();
        assert_eq!(failed, usize::from(missing.is_some()));
        if missing.is_none() {
            assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0);
        }
    }
}
