//! Arrays of the real md that are unlike those it makes at once: what had another level before, and what md itself does
//! not start. Skipped where there is no md.

use crate::common;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use array::{Array, OpenOptions, Repair};
use common::image::{self, contents};
use common::{Peer, noise, settle};
use device::{MemoryDevice, Shape};
use runtime::Runtime;
use units::Bytes;

type Disk = Rc<MemoryDevice>;

/// Two arrays, and behind them what is written to both.
const MEMBERS: [u64; 6] = [8, 8, 8, 8, 12, 13];

fn load(runtime: &Runtime, path: &Path) -> Disk {
    let size = Bytes::new(std::fs::metadata(path).unwrap().len());
    let disk = MemoryDevice::new(runtime, Shape::new(path.display().to_string(), size));
    image::load(runtime, &disk, path);
    Rc::new(disk)
}

fn open(runtime: &Runtime, paths: &[PathBuf]) -> Result<Array<Disk>, String> {
    let disks: Vec<Disk> = paths.iter().map(|path| load(runtime, path)).collect();
    runtime.block_on(Array::open(runtime, "array", disks, OpenOptions::default())).map_err(|error| error.to_string())
}

#[test]
fn a_level_0_that_became_level_4_is_read_and_one_that_does_not_say_its_layout_is_refused_as_by_md() {
    let Some(peer) = Peer::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |disk: usize| folder.path().join(disk.to_string());
    for (disk, mib) in MEMBERS.iter().enumerate() {
        std::fs::File::create(path(disk)).unwrap().set_len(mib << 20).unwrap();
    }
    let pattern = noise(23, 40 << 20);
    std::fs::write(path(6), &pattern).unwrap();
    let all: Vec<PathBuf> = (0..7).map(path).collect();
    let create = "mdadm --create --run --metadata=1.2 --homehost=lab --name=x --level=0 --raid-devices=3";
    let refused = "if mdadm --assemble /dev/md1 $D3 $D4 $D5 2> /dev/null; then echo started; else echo refused; fi";
    let out = peer.run(
        &all,
        &[
            format!("{create} /dev/md0 --chunk=64 $D0 $D1 $D2 > /dev/null 2>&1"),
            // The third member is then the first that is missing: the parity's.
            format!("echo raid4 > /sys/block/md0/md/level; {}", settle(0)),
            "dd if=$D6 of=/dev/md0 bs=1M 2> /dev/null || true; sync; mdadm --stop /dev/md0 2> /dev/null".into(),
            format!("{create} /dev/md1 --chunk=64 --layout=alternate $D3 $D4 $D5 > /dev/null 2>&1"),
            "dd if=$D6 of=/dev/md1 bs=1M 2> /dev/null || true; sync; mdadm --stop /dev/md1 2> /dev/null".into(),
            "mdadm --assemble --update=layout-unspecified /dev/md1 $D3 $D4 $D5 2> /dev/null || true".into(),
            "mdadm --stop /dev/md1 2> /dev/null || true".into(),
            refused.into(),
        ],
    );
    assert_eq!(out.trim(), "refused");

    let runtime = Runtime::simulated();
    let array = open(&runtime, &all[..3]).unwrap();
    assert_eq!(array.geometry().level().to_string(), "level 4");
    let found = contents(&runtime, &array);
    assert!(found == pattern[..found.len()]);
    assert!(runtime.block_on(array.scrub(Repair::No)).is_err(), "there is no parity yet");

    let error = open(&runtime, &all[3..6]).err().expect("there are two ways to read it");
    assert!(error.contains("--update=layout-original"), "{error}");

    // What the sentence says is what helps.
    peer.run(&all, &["mdadm --assemble --update=layout-alternate /dev/md1 $D3 $D4 $D5 2> /dev/null; mdadm --stop /dev/md1 2> /dev/null".into()]);
    let array = open(&runtime, &all[3..6]).unwrap();
    let found = contents(&runtime, &array);
    assert!(found == pattern[..found.len()]);
}
