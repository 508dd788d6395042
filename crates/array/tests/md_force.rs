//! An array that lost members one after the other: md does not assemble it, and does after force here, with the same
//! data. Skipped where there is no md.

use crate::common;

use std::path::PathBuf;
use std::rc::Rc;

use array::force::{Given, plan, tell};
use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::{MemberRole, SUPERBLOCK_AT, Superblock};
use array::{Array, OpenOptions, format, md::Consistency};
use common::image::{data, read, store};
use common::{Peer, copy_out, noise};
use device::{Device, MemoryDevice, Request, Shape};
use runtime::Runtime;
use units::Bytes;

const SIZE: Bytes = Bytes::mib(8);
const COMPARED: usize = 4 << 20;

type Disk = Rc<MemoryDevice>;

fn superblock(runtime: &Runtime, disk: &Disk) -> Superblock {
    Superblock::parse(&read(runtime, disk, SUPERBLOCK_AT, Bytes::kib(4))).unwrap()
}

/// Has members leave one after the other; those that stay know of all.
fn drop_out(runtime: &Runtime, disks: &[Disk], gone: &[usize]) {
    for (number, disk) in disks.iter().enumerate() {
        let mut it = superblock(runtime, disk);
        let at = gone.iter().position(|who| *who == number);
        it.events += 10 * (at.unwrap_or(gone.len()) as u64 + 1);
        for who in &gone[..at.unwrap_or(gone.len())] {
            it.roles[*who] = MemberRole::Faulty.number();
        }
        runtime.block_on(disk.submit(Request::write(SUPERBLOCK_AT, data(&it.to_bytes())))).result.unwrap();
    }
}

#[test]
fn what_is_forced_here_md_opens_with_the_same_data() {
    let Some(peer) = Peer::find() else { return };
    let contents = noise(11, COMPARED);
    for (level, members, consistency, gone) in [
        (Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Bitmap, vec![1, 3]),
        (Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric)), 5, Consistency::Bitmap, vec![0, 4, 2]),
        (Level::Raid10(Copies::near(2)), 4, Consistency::Resync, vec![2, 3]),
    ] {
        let runtime = Runtime::simulated();
        let superblocks = common::superblocks((level, members, consistency), Bytes::kib(32), SIZE, 9);
        let disk = |_| Rc::new(MemoryDevice::new(&runtime, Shape::new("disk", SIZE)));
        let disks: Vec<Disk> = superblocks.iter().map(disk).collect();
        runtime.block_on(format(&disks, &superblocks)).unwrap();
        let opened = Array::open(&runtime, "array", disks.clone(), OpenOptions::default());
        let array = runtime.block_on(opened).unwrap();
        runtime.block_on(array.submit(Request::write(Bytes::ZERO, data(&contents)))).result.unwrap();
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        drop_out(&runtime, &disks, &gone);
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..members).map(|disk| folder.path().join(format!("d{disk}"))).collect();
        let out = folder.path().join("out");
        std::fs::File::create(&out).unwrap().set_len(64 << 20).unwrap();
        let store_all = || disks.iter().zip(&paths).for_each(|(disk, path)| store(&runtime, disk, path));
        let all: Vec<PathBuf> = paths.iter().cloned().chain([out.clone()]).collect();
        let names: String = (0..members).map(|disk| format!("$D{disk} ")).collect();
        store_all();
        let assemble = format!("mdadm --assemble --run /dev/md0 {names} > /tmp/log 2>&1");
        let said = peer.run(&all, &[format!("if {assemble}; then echo opened; else echo refused; fi")]);
        assert!(said.contains("refused"), "{level}: md needs force, too: {said}");
        let said: Vec<Superblock> = disks.iter().map(|disk| superblock(&runtime, disk)).collect();
        let given: Vec<Given> =
            said.iter().map(|superblock| Given { superblock, size: SIZE, block: Bytes::SECTOR }).collect();
        let plan = plan(&given).unwrap();
        let last = *gone.last().unwrap();
        assert_eq!(plan.believed, [(last, last)], "{level}");
        for (index, now) in plan.superblocks.iter().enumerate() {
            if let Some(now) = now {
                runtime.block_on(tell(&disks[index], &said[index], now)).unwrap();
            }
        }
        store_all();
        let show = "cat /tmp/log; dmesg | tail -5; exit 3";
        peer.run(
            &all,
            &[format!("{assemble} || {{ {show}; }}"), copy_out(0, members, 0), "mdadm --stop /dev/md0".into()],
        );
        let found = std::fs::read(&out).unwrap();
        assert!(found[..COMPARED] == contents[..], "{level}: md reads what was stored");
    }
}
