//! What is recognised: against images that the real programs make, against `blkid`, and byte by byte.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use host::signature::{Content, MAGICS, Place, Signature, recognise};
use proptest::prelude::*;
use units::Bytes;

const SIZE: Bytes = Bytes::mib(96);

/// A device of zeros with some bytes set.
struct Sparse {
    size: Bytes,
    set: Vec<(Bytes, Vec<u8>)>,
}

impl Sparse {
    fn new(size: Bytes) -> Sparse {
        Sparse { size, set: Vec::new() }
    }

    fn with(mut self, at: Bytes, bytes: &[u8]) -> Sparse {
        self.set.push((at, bytes.to_vec()));
        self
    }

    fn read_at(&self, at: Bytes, buffer: &mut [u8]) -> io::Result<()> {
        assert!(at + Bytes::new(buffer.len() as u64) <= self.size, "no read goes past the end");
        assert!(at.is_multiple_of(Bytes::kib(64)), "reads are aligned");
        buffer.fill(0);
        for (start, bytes) in &self.set {
            for (i, byte) in bytes.iter().enumerate() {
                let address = start.get() + i as u64;
                if let Some(inside) = address.checked_sub(at.get()).filter(|inside| *inside < buffer.len() as u64) {
                    buffer[inside as usize] = *byte;
                }
            }
        }
        Ok(())
    }

    fn recognised(&self) -> Vec<Signature> {
        recognise(self.size, |at, buffer| self.read_at(at, buffer)).expect("nothing fails here")
    }

    fn names(&self) -> Vec<&'static str> {
        self.recognised().iter().map(|signature| signature.name).collect()
    }
}

fn recognised_in(path: &Path) -> Vec<Signature> {
    let file = File::open(path).expect("an image");
    let size = Bytes::new(file.metadata().expect("its size").len());
    recognise(size, |at, buffer| file.read_exact_at(buffer, at.get())).expect("an image that can be read")
}

/// An image in `directory` after `program` has worked on it; none, with a message, where the program is missing or
/// refuses.
fn made_by(directory: &Path, size: Bytes, program: &str, arguments: &[&str]) -> Option<PathBuf> {
    let path = directory.join(program);
    File::create(&path).and_then(|file| file.set_len(size.get())).expect("an image");
    let status = Command::new(program).args(arguments).arg(&path).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Some(path),
        Ok(status) => panic!("{program} {arguments:?}: {status}"),
        Err(error) => {
            println!("skipped: {program} cannot be run: {error}");
            None
        }
    }
}

#[test]
fn images_of_the_real_programs_are_recognised() {
    let directory = tempfile::tempdir().expect("a directory");
    let programs: [(&str, &[&str], &str); 9] = [
        ("mkfs.ext2", &["-q"], "ext2/ext3/ext4"),
        ("mkfs.ext4", &["-q", "-F"], "ext2/ext3/ext4"),
        ("mkfs.xfs", &["-q"], "XFS"),
        ("mkfs.btrfs", &["-q"], "btrfs"),
        ("mkfs.vfat", &[], "FAT"),
        ("mkfs.f2fs", &["-q"], "F2FS"),
        ("mkfs.minix", &[], "MINIX"),
        ("mkfs.bfs", &[], "BFS"),
        ("mkswap", &[], "swap"),
    ];
    let mut made = 0;
    for (program, arguments, name) in programs {
        let size = if program == "mkfs.xfs" { Bytes::mib(400) } else { Bytes::mib(128) };
        let Some(image) = made_by(directory.path(), size, program, arguments) else { continue };
        let found: Vec<&str> = recognised_in(&image).iter().map(|signature| signature.name).collect();
        assert!(found.contains(&name), "{program}: {found:?}");
        made += 1;
    }
    println!("{made} of {} programs were there", programs.len());
}

#[test]
fn partition_tables_of_the_real_programs_are_recognised() {
    let directory = tempfile::tempdir().expect("a directory");
    for (label, name) in [("gpt", "GPT"), ("dos", "MBR"), ("sun", "Sun disk label"), ("sgi", "SGI disk label")] {
        let path = directory.path().join(label);
        File::create(&path).and_then(|file| file.set_len(SIZE.get())).expect("an image");
        let script = format!("printf 'label: {label}\\n,8M\\n' | sfdisk -q {}", path.display());
        match Command::new("sh").args(["-c", &format!("command -v sfdisk && {script}")]).output() {
            Ok(output) if output.status.success() => {
                let found: Vec<&str> = recognised_in(&path).iter().map(|signature| signature.name).collect();
                assert_eq!(found, [name]);
            }
            _ => println!("skipped: sfdisk is not there"),
        }
    }
}

/// The formats that `blkid` (2.38) tells by the magic number alone, with its names for them. The others it checks
/// further.
const AS_BLKID: [(&str, &str); 33] = [
    ("ext2/ext3/ext4", "ext2"),
    ("btrfs", "btrfs"),
    ("F2FS", "f2fs"),
    ("Reiser4", "reiser4"),
    ("OCFS2", "ocfs2"),
    ("zonefs", "zonefs"),
    ("exFAT", "exfat"),
    ("ReFS", "ReFS"),
    ("SquashFS", "squashfs3"),
    ("EROFS", "erofs"),
    ("cramfs", "cramfs"),
    ("romfs", "romfs"),
    ("BFS", "bfs"),
    ("UFS", "ufs"),
    ("VxFS", "vxfs"),
    ("VMFS", "VMFS"),
    ("VMFS volume", "VMFS_volume_member"),
    ("suspended machine", "swsuspend"),
    ("Linux md 0.90", "linux_raid_member"),
    ("Linux md 1.1", "linux_raid_member"),
    ("Intel Matrix RAID", "isw_raid_member"),
    ("DDF RAID", "ddf_raid_member"),
    ("LSI MegaRAID", "lsi_mega_raid_member"),
    ("NVIDIA RAID", "nvidia_raid_member"),
    ("DRBD", "drbd"),
    ("device-mapper snapshot", "DM_snapshot_cow"),
    ("Ceph BlueStore", "ceph_bluestore"),
    ("VDO", "vdo"),
    ("Oracle ASM", "oracleasm"),
    ("LUKS", "crypto_LUKS"),
    // Of several magic numbers of these, some are enough for blkid.
    ("swap", "swap"),
    ("ISO 9660", "iso9660"),
    ("MINIX", "minix"),
];

#[test]
fn the_table_agrees_with_blkid() {
    if let Err(error) = Command::new("blkid").arg("-V").output() {
        println!("skipped: blkid cannot be run: {error}");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("image");
    let mut agreed = Vec::new();
    for magic in MAGICS {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path).expect("an image");
        file.set_len(SIZE.get()).expect("its size");
        file.write_all_at(magic.bytes, magic.place.on(SIZE).expect("room for it").get()).expect("a magic number");
        let output =
            Command::new("blkid").args(["-p", "-o", "value", "-s", "TYPE"]).arg(&path).output().expect("blkid runs");
        let kind = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if kind.is_empty() {
            continue;
        }
        assert!(AS_BLKID.contains(&(magic.name, kind.as_str())), "{} is {kind} for blkid", magic.name);
        agreed.push(magic.name);
    }
    // Newer versions of blkid check more, so fewer may be told by the magic number alone; but never none.
    assert!(agreed.len() > 20, "blkid tells only {agreed:?}");
    println!("blkid tells {} of {} magic numbers", agreed.len(), MAGICS.len());
}

#[test]
fn every_magic_number_is_found_where_it_stands_and_only_there() {
    for magic in MAGICS {
        let at = magic.place.on(SIZE).expect("room for it");
        let found = Sparse::new(SIZE).with(at, magic.bytes).recognised();
        assert!(
            found.iter().any(|s| s.name == magic.name && s.content == magic.content && s.at == at),
            "{}",
            magic.name
        );
        // One wrong bit, or the number beside its place, is nothing.
        let mut wrong = magic.bytes.to_vec();
        wrong[0] ^= 0x01;
        let wrong = Sparse::new(SIZE).with(at, &wrong).recognised();
        assert!(!wrong.iter().any(|s| s.name == magic.name), "{} with a wrong bit", magic.name);
        if matches!(magic.place, Place::Start(_)) {
            let beside = Sparse::new(SIZE).with(at + Bytes::new(7), magic.bytes).recognised();
            assert!(!beside.iter().any(|s| s.name == magic.name && s.at == at), "{} beside its place", magic.name);
        }
    }
}

#[test]
fn nothing_is_recognised_in_zeros_of_any_size() {
    for size in [0, 1, 511, 512, 4095, 4096, 65_535, 65_536, 1 << 20, (64 << 20) + 12_345] {
        assert_eq!(Sparse::new(Bytes::new(size)).recognised(), []);
    }
}

#[test]
fn md_superblocks_stand_where_the_kernel_puts_them() {
    // A device that is no multiple of anything: 0.90 goes 64 KiB before the last whole 64 KiB, 1.0 at 8 KiB before the
    // last 4 KiB.
    let size = Bytes::new(100 * 1024 * 1024 + 37 * 512);
    let magic = 0xa92b_4efc_u32.to_le_bytes();
    let at_0_90 = Bytes::mib(100) - Bytes::kib(64);
    assert_eq!(Sparse::new(size).with(at_0_90, &magic).names(), ["Linux md 0.90"]);
    let at_1_0 = Bytes::new((size.get() & !0xfff) - 0x2000);
    let version_1 = [magic, 1u32.to_le_bytes()].concat();
    assert_eq!(Sparse::new(size).with(at_1_0, &version_1).names(), ["Linux md 1.0"]);
    assert_eq!(Sparse::new(size).with(Bytes::ZERO, &version_1).names(), ["Linux md 1.1"]);
    assert_eq!(Sparse::new(size).with(Bytes::kib(4), &version_1).names(), ["Linux md 1.2"]);
}

#[test]
fn zfs_is_recognised_by_any_label_in_either_byte_order() {
    let size = Bytes::mib(100) + Bytes::kib(100);
    for label in [Bytes::ZERO, Bytes::kib(256), Bytes::mib(100) - Bytes::kib(512), Bytes::mib(100) - Bytes::kib(256)] {
        let slot = label + Bytes::kib(128 + 127);
        assert_eq!(Sparse::new(size).with(slot, &0x00ba_b10c_u64.to_le_bytes()).names(), ["ZFS"]);
        assert_eq!(Sparse::new(size).with(slot, &0x00ba_b10c_u64.to_be_bytes()).names(), ["ZFS"]);
    }
}

/// A first sector that ends as a boot sector does.
fn boot_sector(change: impl Fn(&mut [u8; 512])) -> [u8; 512] {
    let mut sector = [0; 512];
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    change(&mut sector);
    sector
}

#[test]
fn boot_sectors_are_told_apart() {
    let names = |sector: &[u8]| Sparse::new(SIZE).with(Bytes::ZERO, sector).names();
    assert_eq!(names(&boot_sector(|_| {})), ["boot sector or empty MBR"]);
    let partition = |sector: &mut [u8; 512]| {
        sector[446] = 0x80;
        sector[450] = 0x83;
        sector[458..462].copy_from_slice(&204_800u32.to_le_bytes());
    };
    assert_eq!(names(&boot_sector(partition)), ["MBR"]);
    // FAT12 as on a floppy disk, without the type string that most tools look for.
    let fat = boot_sector(|sector| {
        sector[..3].copy_from_slice(&[0xeb, 0x3c, 0x90]);
        sector[11..13].copy_from_slice(&512u16.to_le_bytes());
        sector[13] = 1;
        sector[14] = 1;
        sector[16] = 2;
        sector[21] = 0xf0;
    });
    assert_eq!(names(&fat), ["FAT"]);
    let gpt = Sparse::new(SIZE).with(Bytes::ZERO, &boot_sector(partition)).with(Bytes::SECTOR, b"EFI PART");
    assert_eq!(gpt.names(), ["GPT"], "the protective MBR is a part of GPT");
}

#[test]
fn several_formats_on_one_device_are_all_named() {
    let magic = [0xa92b_4efc_u32.to_le_bytes(), 1u32.to_le_bytes()].concat();
    let both = Sparse::new(SIZE).with(Bytes::new(0x438), b"\x53\xef").with(SIZE - Bytes::kib(8), &magic);
    let texts: Vec<String> = both.recognised().iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["ext2/ext3/ext4 file system (at 1080 B)", "Linux md 1.0 array member (at 98296 KiB)"]);
    assert_eq!(both.recognised()[1].content, Content::Raid);
}

#[test]
fn a_place_that_cannot_be_read_ends_the_search() {
    let broken = recognise(SIZE, |at, _| if at.is_zero() { Ok(()) } else { Err(io::Error::from_raw_os_error(5)) });
    assert!(broken.is_err());
}

#[test]
fn few_places_are_read_and_each_once() {
    let mut places = Vec::new();
    let found = recognise(Bytes::gib(8192), |at, buffer| {
        places.push((at, buffer.len()));
        buffer.fill(0);
        Ok(())
    });
    assert_eq!(found.expect("zeros"), []);
    let read: usize = places.iter().map(|(_, length)| length).sum();
    let count = places.len();
    places.sort_unstable();
    places.dedup();
    println!("{count} places, {} KiB", read >> 10);
    assert_eq!(places.len(), count);
    assert!(count <= 32 && read <= 2 << 20, "{count} places, {read} bytes");
}

proptest! {
    /// Devices of any size with anything in them: no panic, no read past the end (checked in `Sparse`).
    #[test]
    fn any_content_is_looked_at_without_harm(
        size in 0u64..300_000,
        content in prop::collection::vec((0u64..300_000, prop::collection::vec(any::<u8>(), 0..64)), 0..8),
    ) {
        let mut device = Sparse::new(Bytes::new(size));
        for (at, bytes) in content {
            device = device.with(Bytes::new(at), &bytes);
        }
        device.recognised();
    }
}
