//! Journals, spares and replacements made here are opened by the real md, and md's are opened here. Skipped where there
//! is no md.

use crate::common;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use array::geometry::{DoubleRotation, Level, Rotation};
use array::md::{self, Consistency, NewArray, NewMember, Stamp, Uuid};
use array::{Array, MemberState, OpenOptions, Repair, format};
use common::image::{self, data};
use common::{Peer, copy_out, noise, settle};
use device::{Buffer, Device, MemoryDevice, Request, Shape};
use runtime::Runtime;
use units::Bytes;

const MEMBER: u64 = 8 << 20;
/// What is written and compared of each array.
const COMPARED: usize = 6 << 20;
/// How much lies between what is found in two arrays, on the disk with the pattern and behind it.
const PLACE: usize = 64 << 20;

type Disk = Rc<MemoryDevice>;

fn fresh(runtime: &Runtime, name: &str) -> Disk {
    Rc::new(MemoryDevice::new(runtime, Shape::new(name, Bytes::new(MEMBER))))
}

fn load(runtime: &Runtime, path: &Path) -> Disk {
    let disk = fresh(runtime, &path.display().to_string());
    image::load(runtime, &disk, path);
    disk
}

fn open(runtime: &Runtime, disks: &[Disk]) -> Array<Disk> {
    let opened = runtime.block_on(Array::open(runtime, "array", disks.to_vec(), OpenOptions::default()));
    opened.unwrap_or_else(|error| panic!("{error}"))
}

fn write(runtime: &Runtime, array: &Array<Disk>, bytes: &[u8]) {
    runtime.block_on(array.submit(Request::write(Bytes::ZERO, data(bytes)))).result.unwrap();
}

fn holds(runtime: &Runtime, array: &Array<Disk>, bytes: &[u8]) -> bool {
    let reply =
        runtime.block_on(array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(Bytes::new(bytes.len() as u64)))));
    reply.result.unwrap();
    reply.buffer.unwrap().bytes().unwrap() == bytes
}

/// Files of the disks of a machine, and a pattern behind them.
struct Files {
    _folder: tempfile::TempDir,
    disks: Vec<PathBuf>,
    pattern: PathBuf,
}

impl Files {
    fn new(disks: usize, contents: &[u8]) -> Files {
        let folder = tempfile::tempdir().unwrap();
        let disks: Vec<PathBuf> = (0..disks).map(|disk| folder.path().join(format!("d{disk}"))).collect();
        for disk in &disks {
            std::fs::File::create(disk).unwrap().set_len(MEMBER).unwrap();
        }
        let pattern = folder.path().join("pattern");
        std::fs::write(&pattern, contents).unwrap();
        // The pattern's place, and four behind it.
        std::fs::File::options().write(true).open(&pattern).unwrap().set_len(5 * PLACE as u64).unwrap();
        Files { _folder: folder, disks, pattern }
    }

    /// Words that copy what an array holds behind the pattern, to one of several places.
    fn find(&self, array: usize, place: usize) -> String {
        copy_out(array, self.disks.len(), (PLACE * (1 + place)) as u64 >> 20)
    }

    /// How many of the places hold the contents.
    fn found(&self, places: usize, contents: &[u8]) -> usize {
        let disk = std::fs::read(&self.pattern).unwrap();
        (1..=places).filter(|place| disk[PLACE * place..].starts_with(contents)).count()
    }

    fn all(&self) -> Vec<PathBuf> {
        self.disks.iter().cloned().chain([self.pattern.clone()]).collect()
    }
}

/// md's words to put an array together of disks `from..to`, and to say what it is made of.
fn assemble(number: usize, from: usize, to: usize) -> String {
    let names: String = (from..to).map(|disk| format!("$D{disk} ")).collect();
    format!(
        "mdadm --assemble --run /dev/md{number} {names} > /tmp/log 2>&1 || {{ cat /tmp/log; dmesg | tail -5; exit 3; }}; \
         mdadm --detail /dev/md{number} | grep -E 'active sync|spare|journal|faulty|removed' | sed -e 's/^ *//' -e 's/  */ /g' \
         -e 's/^[0-9]* [0-9]* [0-9]* //'"
    )
}

#[test]
fn journals_and_spares_and_replacements_made_here_are_md_s() {
    let Some(peer) = Peer::find() else { return };
    let contents = noise(3, COMPARED);
    let files = Files::new(13, &contents);
    let runtime = Runtime::simulated();
    let new = |level, consistency, number: u8| NewArray {
        level,
        chunk: Bytes::kib(32),
        name: "lab:x".into(),
        array: Uuid([number; 16]),
        now: Stamp(1_700_000_000),
        consistency,
        clean: true,
    };
    let made = |new: &NewArray, disks: &[Disk]| {
        let sized: Vec<NewMember> = (0..disks.len())
            .map(|n| NewMember { size: Bytes::new(MEMBER), member: Uuid([new.array.0[0] * 16 + n as u8; 16]) })
            .collect();
        let (superblocks, _) = md::create(new, &sized).unwrap();
        runtime.block_on(format(disks, &superblocks)).unwrap();
    };
    let five = Level::Raid5(Rotation::LeftSymmetric);
    // 0-3: three members and a journal. 4-7: three members and a spare. 8-12: members 8, 9, 10, 11; 12 is replacing 9,
    // half done.
    let disks: Vec<Disk> = (0..13).map(|n| fresh(&runtime, &format!("d{n}"))).collect();
    made(&new(five, Consistency::Journal, 1), &disks[..4]);
    let array = open(&runtime, &disks[..4]);
    write(&runtime, &array, &contents);
    runtime.block_on(array.stop()).unwrap();
    made(&new(five, Consistency::Bitmap, 2), &disks[4..7]);
    let array = open(&runtime, &disks[4..7]);
    runtime.block_on(array.add_spare(Rc::clone(&disks[7]), Uuid([77; 16]))).unwrap();
    write(&runtime, &array, &contents);
    runtime.block_on(array.stop()).unwrap();
    made(&new(Level::Raid6(DoubleRotation::default()), Consistency::Bitmap, 3), &disks[8..12]);
    let array = open(&runtime, &disks[8..12]);
    write(&runtime, &array, &contents);
    array.watch(|progress| progress.done < progress.of / 2);
    let offset = array.member_layout().unwrap().data_offset;
    runtime.block_on(array.replace(1, Rc::clone(&disks[12]), offset, Uuid([99; 16]))).unwrap();
    assert!(array.replacing().is_some());
    runtime.block_on(array.stop()).unwrap();
    disks.iter().zip(&files.disks).for_each(|(disk, file)| image::store(&runtime, disk, file));
    let out = peer.run(
        &files.all(),
        &[
            assemble(0, 0, 4),
            files.find(0, 0),
            assemble(1, 4, 8),
            files.find(1, 1),
            "mdadm /dev/md1 --fail $D5 > /dev/null 2>&1".into(),
            "while grep -qv 0 /sys/block/md1/md/degraded; do sleep 0.1; done".into(),
            settle(1),
            "mdadm --detail /dev/md1 | grep -c 'active sync'".into(),
            files.find(1, 2),
            assemble(2, 8, 13),
            settle(2),
            "mdadm --detail /dev/md2 | grep -c 'active sync'".into(),
            files.find(2, 3),
            "for n in 0 1 2; do mdadm --stop /dev/md$n > /dev/null 2>&1; done".into(),
        ],
    );
    println!("{out}");
    assert_eq!(files.found(4, &contents), 4, "{out}");
    assert!(out.contains("journal") && out.contains("spare"), "{out}");
    assert_eq!(out.lines().filter(|line| ["3", "4"].contains(&line.trim())).count(), 2, "{out}");
    // What md made of them is opened here: the spare is a member, and so is the replacement.
    let disks: Vec<Disk> = files.disks.iter().map(|file| load(&runtime, file)).collect();
    for (range, members) in [(0..4, 3), (4..8, 3), (8..13, 4)] {
        let array = open(&runtime, &disks[range.clone()]);
        assert!((0..members).all(|member| array.state(member) == MemberState::Active), "{range:?}");
        assert!(array.replacing().is_none(), "{range:?}");
        assert!(holds(&runtime, &array, &contents), "{range:?}");
        assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0, "{range:?}");
    }
}

#[test]
fn md_s_journals_and_spares_and_replacements_are_opened_here() {
    let Some(peer) = Peer::find() else { return };
    let contents = noise(4, COMPARED);
    let files = Files::new(13, &contents);
    let pattern = files.disks.len();
    let create = |number: usize, words: &str| {
        format!(
            "mdadm --create /dev/md{number} --run --metadata=1.2 --homehost=lab --name=x --chunk=32 {words} > /tmp/log 2>&1 \
             || {{ cat /tmp/log; exit 3; }}; {}; dd if=$D{pattern} of=/dev/md{number} bs=1M count={} 2>/dev/null; sync",
            settle(number),
            COMPARED >> 20
        )
    };
    peer.run(
        &files.all(),
        &[
            create(0, "--level=5 --raid-devices=3 --write-journal $D3 $D0 $D1 $D2"),
            create(1, "--level=5 --bitmap=internal --raid-devices=3 --spare-devices=1 $D4 $D5 $D6 $D7"),
            create(2, "--level=6 --bitmap=internal --raid-devices=4 $D8 $D9 $D10 $D11"),
            // As slow as md goes, and then stopped in the middle.
            "echo 1 > /sys/block/md2/md/sync_speed_min; echo 1 > /sys/block/md2/md/sync_speed_max".into(),
            "mdadm /dev/md2 --add $D12 > /dev/null 2>&1; mdadm /dev/md2 --replace $D9 --with $D12 > /dev/null 2>&1; sleep 1".into(),
            "for n in 0 1 2; do mdadm --stop /dev/md$n 2>&1; done".into(),
        ],
    );
    let runtime = Runtime::simulated();
    let disks: Vec<Disk> = files.disks.iter().map(|file| load(&runtime, file)).collect();
    let journaled = open(&runtime, &disks[..4]);
    assert!(holds(&runtime, &journaled, &contents), "with a journal");
    runtime.block_on(journaled.stop()).unwrap();
    let spared = open(&runtime, &disks[4..8]);
    assert_eq!(spared.spares().len(), 1);
    let member = 1;
    spared.fail(member);
    runtime.block_on(spared.rebuild_on_spare(member)).expect("there is a spare").unwrap();
    assert!(holds(&runtime, &spared, &contents), "with a spare");
    runtime.block_on(spared.stop()).unwrap();
    let replaced = open(&runtime, &disks[8..13]);
    // md may have been quicker than the second it was given.
    if let Some((member, _)) = replaced.replacing() {
        assert_eq!(member, 1);
        runtime.block_on(replaced.resume_replace(member)).unwrap();
    } else {
        println!("md had replaced it before it was stopped");
    }
    assert!(holds(&runtime, &replaced, &contents), "with a replacement");
    runtime.block_on(replaced.stop()).unwrap();
    disks.iter().zip(&files.disks).for_each(|(disk, file)| image::store(&runtime, disk, file));
    // And back again: md finds what was done here.
    let out = peer.run(
        &files.all(),
        &[
            assemble(0, 0, 4),
            files.find(0, 0),
            assemble(1, 4, 8),
            files.find(1, 1),
            assemble(2, 8, 13),
            files.find(2, 2),
            "for n in 1 2; do echo check > /sys/block/md$n/md/sync_action; done".into(),
            settle(1),
            settle(2),
            "for n in 1 2; do echo mismatches $(cat /sys/block/md$n/md/mismatch_cnt); done".into(),
            "for n in 0 1 2; do mdadm --stop /dev/md$n > /dev/null 2>&1; done".into(),
        ],
    );
    assert_eq!(files.found(3, &contents), 3, "{out}");
    assert_eq!(out.matches("mismatches 0").count(), 2, "{out}");
}
