//! Arrays go to and fro between md and us by chance: either writes, loses a member, takes it back or fills its place,
//! or is cut off in the middle of writes; then the other finds every byte that was acknowledged, and in the end
//! everything fits. Skipped where there is no md.
//!
//! One seed runs with the tests; `ARRAYLAB_MD_SEEDS=100..200` runs others, at 10 to 30 s each.

use crate::common;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use array::md::{SUPERBLOCK_AT, Superblock, Uuid};
use array::{Array, MemberState, OpenOptions, Repair};
use common::image::{self, contents, data, read};
use common::{Peer, copy_out, noise, settle};
use device::{Device, MemoryDevice, Request, Shape};
use runtime::Runtime;
use units::Bytes;

type Disk = Rc<MemoryDevice>;

const MEMBER: u64 = 6 << 20;
/// How much lies between what is found in two arrays, on the disk behind that with the source.
const PLACE: usize = 24 << 20;
/// Arrays of one virtual machine, which has 15 disks at most.
const ARRAYS: usize = 3;
const MEMBERS: usize = 4;
const SECTOR: usize = 512;

/// What mdadm is told, whether parity would be believed without a member after a cut, and whether there is redundancy.
/// With a partial parity log md wants more room.
const KINDS: [(&str, bool, bool); 11] = [
    ("--level=0 --chunk=32", false, false),
    ("--level=1 --bitmap=internal", false, true),
    ("--level=4 --chunk=16 --bitmap=none", true, true),
    ("--level=5 --chunk=32 --layout=ra --bitmap=internal --bitmap-chunk=64", true, true),
    ("--level=5 --chunk=64 --layout=parity-first --bitmap=none", true, true),
    ("--level=5 --chunk=8 --consistency-policy=ppl", false, true),
    ("--level=6 --chunk=16 --layout=ddf-N-continue --bitmap=internal --bitmap-chunk=64", true, true),
    ("--level=6 --chunk=32 --layout=left-symmetric-6 --bitmap=none", true, true),
    ("--level=10 --layout=n3 --chunk=16 --bitmap=internal --bitmap-chunk=64", false, true),
    ("--level=10 --layout=f2 --chunk=32 --bitmap=none", false, true),
    ("--level=10 --layout=o2 --chunk=64 --bitmap=none", false, true),
];

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// An array, and what it must hold.
struct Exchanged {
    kind: (&'static str, bool, bool),
    files: Vec<PathBuf>,
    /// In the order of the virtual machine.
    first: usize,
    bytes: Vec<u8>,
    /// Sectors of writes that were cut off: what they would hold.
    perhaps: BTreeMap<usize, Vec<u8>>,
    /// The file that is no member now.
    away: Option<usize>,
}

impl Exchanged {
    fn wrote(&mut self, sector: usize, bytes: &[u8]) {
        self.bytes[sector * SECTOR..][..bytes.len()].copy_from_slice(bytes);
        (sector..sector + bytes.len() / SECTOR).for_each(|at| _ = self.perhaps.remove(&at));
    }

    /// What was found is what was acknowledged, or was under way; from now on it is known.
    fn found(&mut self, bytes: &[u8], by: &str) {
        for (sector, found) in bytes.chunks(SECTOR).enumerate().take(self.bytes.len() / SECTOR) {
            let own = &mut self.bytes[sector * SECTOR..][..SECTOR];
            let allowed = found == own || self.perhaps.get(&sector).is_some_and(|other| found == other);
            assert!(allowed, "{}: sector {sector}, found by {by}, was not written so", self.kind.0);
            own.copy_from_slice(found);
        }
        self.perhaps.clear();
    }

    fn disks(&self) -> String {
        (self.first..self.first + MEMBERS).map(|disk| format!("$D{disk} ")).collect()
    }

    fn write(&self, chance: &mut Chance) -> (usize, usize) {
        let sectors = [1, 3, 8, 64, 200][chance.below(5) as usize];
        (chance.below((self.bytes.len() / SECTOR - sectors) as u64) as usize, sectors)
    }
}

fn load(runtime: &Runtime, path: &Path) -> Disk {
    let disk = MemoryDevice::new(runtime, Shape::new(path.display().to_string(), Bytes::new(MEMBER)));
    image::load(runtime, &disk, path);
    Rc::new(disk)
}

/// One turn of ours.
fn ours(it: &mut Exchanged, chance: &mut Chance, last: bool) {
    let runtime = Runtime::simulated();
    let mut disks: Vec<Disk> = it.files.iter().map(|file| load(&runtime, file)).collect();
    let options = OpenOptions::default();
    let array = runtime.block_on(Array::open(&runtime, "a", disks.clone(), options));
    let array = array.unwrap_or_else(|error| panic!("{}: {error}", it.kind.0));
    assert!(runtime.block_on(array.resync()).unwrap());
    if it.bytes.is_empty() {
        it.bytes = vec![0; array.geometry().size().as_usize()];
    }
    it.found(&contents(&runtime, &array), "us");
    let place = |array: &Array<Disk>, disks: &[Disk], member: usize| {
        let device = array.device(member).unwrap();
        disks.iter().position(|disk| Rc::ptr_eq(disk, &device)).unwrap()
    };
    for _ in 0..1 + chance.below(3) {
        for _ in 0..chance.below(20) {
            let (sector, sectors) = it.write(chance);
            let bytes = noise(chance.below(u64::MAX), sectors * SECTOR);
            let write = Request::write(Bytes::SECTOR * sector as u64, data(&bytes));
            runtime.block_on(array.submit(write)).result.unwrap();
            it.wrote(sector, &bytes);
        }
        let missing = (0..MEMBERS).find(|member| array.state(*member) == MemberState::Failed);
        match (missing, chance.below(3)) {
            (None, 0) if it.kind.2 => {
                let member = chance.below(MEMBERS as u64) as usize;
                it.away = Some(place(&array, &disks, member));
                array.fail(member);
            }
            (Some(member), 0 | 1) => {
                let file = it.away.take().expect("somebody is away");
                let brought = runtime.block_on(array.bring_back(member));
                if brought.map(Result::unwrap).is_none() {
                    let superblock = read(&runtime, &disks[(file + 1) % MEMBERS], SUPERBLOCK_AT, Bytes::kib(4));
                    let data_offset = Superblock::parse(&superblock).unwrap().data_offset;
                    disks[file] = Rc::new(MemoryDevice::new(&runtime, Shape::new("fresh", Bytes::new(MEMBER))));
                    let identity = Uuid([chance.below(256) as u8; 16]);
                    let filled = runtime.block_on(array.rebuild(member, disks[file].clone(), data_offset, identity));
                    assert!(filled.unwrap().is_empty());
                }
            }
            _ => {}
        }
    }
    if it.kind.2 && it.away.is_none() {
        assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0, "{}", it.kind.0);
    }
    // Or it is not stopped, as if the server had been killed.
    let killed = chance.below(3) == 0 && !(it.kind.1 && it.away.is_some());
    if last || !killed {
        runtime.block_on(array.stop()).unwrap();
    }
    drop(array);
    disks.iter().zip(&it.files).for_each(|(disk, file)| image::store(&runtime, disk, file));
}

/// One turn of md's: all arrays in one machine.
fn theirs(peer: &Peer, all: &mut [Exchanged], folder: &Path, chance: &mut Chance, last: bool) {
    let (source, found) = (folder.join("source"), folder.join("found"));
    let fresh = noise(chance.below(u64::MAX), PLACE);
    std::fs::write(&source, &fresh).unwrap();
    std::fs::File::create(&found).unwrap().set_len((PLACE * ARRAYS) as u64).unwrap();
    let disks: Vec<PathBuf> = all.iter().flat_map(|it| it.files.clone()).chain([source, found.clone()]).collect();
    let (from, to) = (format!("$D{}", disks.len() - 2), disks.len() - 1);
    let dd = |array: usize, (sector, sectors): (usize, usize), flag: &str| {
        format!("dd if={from} of=/dev/md{array} skip={sector} seek={sector} count={sectors} {flag} 2>/dev/null")
    };
    // No array that a cut would make one which neither opens.
    let cut = !last && chance.below(2) == 0;
    let (mut words, mut after, mut written) = (Vec::new(), Vec::new(), Vec::new());
    for (array, it) in all.iter_mut().enumerate() {
        words.push(format!(
            "mdadm --assemble --run /dev/md{array} {} > /tmp/log 2>&1 || {{ cat /tmp/log; exit 3; }}; {}; {}; sync",
            it.disks(),
            settle(array),
            copy_out(array, to, (PLACE * array) as u64 >> 20)
        ));
        let before: Vec<_> = (0..3).map(|_| it.write(chance)).collect();
        words.extend(before.iter().map(|range| dd(array, *range, "conv=fsync")));
        match it.away {
            Some(file) => {
                let disk = format!("$D{}", it.first + file);
                let again = format!(
                    "mdadm /dev/md{array} --re-add {disk} || {{ mdadm --zero-superblock {disk}; mdadm /dev/md{array} --add {disk}; }}"
                );
                // Who failed in the record before is started with the others, and counts as failed.
                words.push(format!("mdadm /dev/md{array} --remove {disk} > /dev/null 2>&1 || true"));
                words.push(format!("{{ {again}; }} > /dev/null 2>&1; sleep 0.2; {}", settle(array)));
                it.away = None;
            }
            None if it.kind.2 && !last && !cut => {
                let file = chance.below(MEMBERS as u64) as usize;
                words.push(format!("mdadm /dev/md{array} --fail $D{} > /dev/null 2>&1", it.first + file));
                it.away = Some(file);
            }
            None => {}
        }
        let behind: Vec<_> = (0..3).map(|_| it.write(chance)).collect();
        words.extend(behind.iter().map(|range| dd(array, *range, "conv=fsync")));
        written.extend(before.into_iter().chain(behind).map(|range| (array, range)));
        if cut {
            let ranges: Vec<_> = (0..4).map(|_| it.write(chance)).collect();
            let each: Vec<String> = ranges.iter().map(|range| dd(array, *range, "oflag=direct")).collect();
            words.push(format!("(while :; do {}; done) &", each.join("; ")));
            after.extend(ranges.into_iter().map(|range| (array, range)));
        }
    }
    for (array, it) in all.iter().enumerate().filter(|_| !cut) {
        if last && it.kind.2 {
            let action = format!("/sys/block/md{array}/md/sync_action");
            let mismatches = format!("echo mismatches $(cat /sys/block/md{array}/md/mismatch_cnt)");
            words.push(format!("echo check > {action}; {}; {mismatches}", settle(array)));
        }
        words.push(format!("mdadm --stop /dev/md{array} > /dev/null 2>&1"));
    }
    if cut {
        words.push("sleep 0.3; powercut".to_owned());
    }
    let out = peer.run(&disks, &words);
    assert!(out.lines().all(|line| line == "mismatches 0"), "{out}");
    let found = std::fs::read(&found).unwrap();
    for (array, it) in all.iter_mut().enumerate() {
        it.found(&found[PLACE * array..], "md");
    }
    for (array, (sector, sectors)) in written {
        all[array].wrote(sector, &fresh[sector * SECTOR..][..sectors * SECTOR]);
    }
    for (array, (sector, sectors)) in after {
        (sector..sector + sectors)
            .for_each(|at| _ = all[array].perhaps.insert(at, fresh[at * SECTOR..][..SECTOR].to_vec()));
    }
}

fn exchange(peer: &Peer, seed: u64) {
    eprintln!("seed {seed}");
    let mut chance = Chance((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let folder = tempfile::tempdir().unwrap();
    let mut all: Vec<Exchanged> = (0..ARRAYS)
        .map(|array| {
            let kind = KINDS[chance.below(KINDS.len() as u64) as usize];
            let files = (0..MEMBERS).map(|member| folder.path().join(format!("{array}-{member}"))).collect();
            Exchanged { kind, files, first: array * MEMBERS, bytes: Vec::new(), perhaps: BTreeMap::new(), away: None }
        })
        .collect();
    let mut words = Vec::new();
    for (array, it) in all.iter().enumerate() {
        it.files.iter().for_each(|file| std::fs::File::create(file).unwrap().set_len(MEMBER).unwrap());
        words.push(format!(
            "mdadm --create /dev/md{array} --run --metadata=1.2 --homehost=lab --name=x {} --raid-devices={MEMBERS} {} \
             > /tmp/log 2>&1 || {{ cat /tmp/log; exit 3; }}; {}; mdadm --stop /dev/md{array} > /dev/null 2>&1",
            it.kind.0,
            it.disks(),
            settle(array)
        ));
    }
    let disks: Vec<PathBuf> = all.iter().flat_map(|it| it.files.clone()).collect();
    peer.run(&disks, &words);
    for turn in 0..3 {
        all.iter_mut().for_each(|it| ours(it, &mut chance, false));
        theirs(peer, &mut all, folder.path(), &mut chance, turn == 2);
    }
    all.iter_mut().for_each(|it| ours(it, &mut chance, true));
}

/// `FROM..TO` of the environment, or one.
fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("ARRAYLAB_MD_SEEDS") else { return 0..1 };
    let (from, to) = text.split_once("..").expect("ARRAYLAB_MD_SEEDS is as 100..200");
    from.parse().expect("a number stands before the dots")..to.parse().expect("a number stands behind the dots")
}

#[test]
fn arrays_go_to_and_fro_by_chance_and_lose_nothing() {
    let Some(peer) = Peer::find() else { return };
    seeds().for_each(|seed| exchange(&peer, seed));
}
