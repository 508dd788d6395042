//! Settings changed here, and md opens what became of the array, also where a cut left the last words of some members
//! unwritten. Skipped where there is no md.

use crate::common;

use std::path::PathBuf;

use array::geometry::{Level, Rotation};
use array::md::{Consistency, SUPERBLOCK_AT, WRITE_MOSTLY};
use array::{Array, OpenOptions, Settings, format};
use common::image::{self, data};
use common::{Peer, copy_out, noise, settle, superblocks};
use device::{Device, MemoryDevice, Request, Shape};
use runtime::Runtime;
use std::rc::Rc;
use units::Bytes;

const MEMBER: Bytes = Bytes::mib(8);
const CHUNK: Bytes = Bytes::kib(32);
const FIVE: Level = Level::Raid5(Rotation::LeftSymmetric);
/// How much lies between what is found in two arrays.
const PLACE: usize = 32 << 20;

/// What the array was, what it became, what mdadm calls that, and whether a cut met the last words.
const CASES: [(Level, usize, Consistency, Consistency, &str, bool); 6] = [
    (FIVE, 3, Consistency::Bitmap, Consistency::Ppl, "ppl", false),
    (FIVE, 3, Consistency::Ppl, Consistency::Bitmap, "bitmap", false),
    (FIVE, 3, Consistency::Resync, Consistency::Ppl, "ppl", false),
    (FIVE, 3, Consistency::Ppl, Consistency::Resync, "resync", true),
    (Level::Raid1, 2, Consistency::Resync, Consistency::Bitmap, "bitmap", true),
    (Level::Raid1, 2, Consistency::Bitmap, Consistency::Resync, "resync", false),
];

#[test]
fn md_opens_an_array_whose_settings_were_changed() {
    let Some(peer) = Peer::find() else { return };
    // The machine takes 15 disks.
    CASES.chunks(3).for_each(|cases| open_in_md(&peer, cases));
}

fn open_in_md(peer: &Peer, cases: &[(Level, usize, Consistency, Consistency, &str, bool)]) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::simulated();
    let (mut files, mut commands, mut sizes): (Vec<PathBuf>, Vec<String>, Vec<usize>) = Default::default();
    let out = cases.iter().map(|case| case.1).sum::<usize>();
    for (number, (level, members, before, after, called, cut)) in cases.iter().copied().enumerate() {
        let made = superblocks((level, members, before), CHUNK, MEMBER, number as u8 + 1);
        let disks: Vec<Rc<MemoryDevice>> =
            made.iter().map(|_| Rc::new(MemoryDevice::new(&runtime, Shape::new("disk", MEMBER)))).collect();
        runtime.block_on(format(&disks, &made)).unwrap();
        let open = || runtime.block_on(Array::open(&runtime, "array", disks.clone(), OpenOptions::default())).unwrap();
        let array = open();
        let size = array.geometry().size().as_usize();
        let whole = Request::write(Bytes::ZERO, data(&noise(number as u64 + 1, size)));
        runtime.block_on(array.submit(whole)).result.unwrap();
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        let said = image::read(&runtime, &disks[1], SUPERBLOCK_AT, Bytes::kib(4));
        let flags = if level == Level::Raid1 { vec![(1, WRITE_MOSTLY, true)] } else { Vec::new() };
        let settings = Settings { name: Some("changed".into()), consistency: Some(after), region: None, flags };
        runtime.block_on(open().set(&settings)).unwrap();
        if cut {
            runtime.block_on(disks[1].submit(Request::write(SUPERBLOCK_AT, data(&said)))).result.unwrap();
        }
        let names: String = (files.len()..files.len() + members).map(|disk| format!("$D{disk} ")).collect();
        for disk in &disks {
            files.push(folder.path().join(format!("{}", files.len())));
            image::store(&runtime, disk, files.last().unwrap());
        }
        sizes.push(size);
        commands.push(format!(
            "mdadm --assemble --run /dev/md{number} {names} > /tmp/log 2>&1 || {{ cat /tmp/log; dmesg | tail -5; exit 3; }}"
        ));
        commands.push(format!(
            "echo {number} $(cat /sys/block/md{number}/md/consistency_policy) degraded $(cat /sys/block/md{number}/md/degraded) \
             $(mdadm --detail /dev/md{number} | grep -c writemostly) {called}"
        ));
        commands.push(copy_out(number, out, (PLACE * number) as u64 >> 20));
        commands.push(format!("echo check > /sys/block/md{number}/md/sync_action; {}", settle(number)));
        commands.push(format!(
            "echo mismatches $(cat /sys/block/md{number}/md/mismatch_cnt); mdadm --stop /dev/md{number} 2>/dev/null"
        ));
    }
    let found = folder.path().join("found");
    std::fs::File::create(&found).unwrap().set_len((PLACE * cases.len()) as u64).unwrap();
    files.push(found.clone());
    let said = peer.run(&files, &commands);
    let copied = std::fs::read(&found).unwrap();
    for (number, (level, _, _, _, called, cut)) in cases.iter().copied().enumerate() {
        let mostly = usize::from(level == Level::Raid1 && !cut);
        let line = format!("{number} {called} degraded 0 {mostly} {called}");
        assert!(said.contains(&line), "{line}: {said}");
        assert!(copied[PLACE * number..][..sizes[number]] == noise(number as u64 + 1, sizes[number]), "array {number}");
    }
    assert_eq!(said.matches("mismatches 0").count(), cases.len(), "{said}");
}
