//! The table of magic numbers: where each format says that it is there.
//!
//! Offsets and bytes are facts of the formats. Each group names the file of libblkid (util-linux,
//! `libblkid/src/superblocks` and `libblkid/src/partitions`) that has them too, or its specification; a test holds
//! those that need nothing but the magic number against the `blkid` program. Bindings to libblkid itself were left: it
//! is a C library that is not everywhere, and what protects data must not be an optional part.

use serde::Serialize;
use units::Bytes;

/// What a signature says is on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// A file system.
    FileSystem,
    /// Swap space, or an image of memory in it.
    Swap,
    /// A partition table.
    PartitionTable,
    /// A member of an array.
    Raid,
    /// A part of a volume manager, a cache or a storage service.
    Volume,
    /// An encrypted volume.
    Encryption,
    /// A disk image or an archive.
    Image,
}

/// One magic number.
#[derive(Debug, Clone, Copy)]
pub struct Magic {
    /// The name of the format.
    pub name: &'static str,
    /// What it is.
    pub content: Content,
    /// Where it stands.
    pub place: Place,
    /// What stands there.
    pub bytes: &'static [u8],
}

/// An address on a device of any size.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    /// Bytes from the start.
    Start(u64),
    /// `back` bytes before the end, the end being rounded down to a multiple of `unit`.
    End {
        /// The unit.
        unit: u64,
        /// How far before the end.
        back: u64,
    },
}

impl Place {
    /// The address on a device of `size`; none if the device is too small to have it.
    pub fn on(self, size: Bytes) -> Option<Bytes> {
        match self {
            Place::Start(offset) => Some(Bytes::new(offset)),
            Place::End { unit, back } => (size.get() - size.get() % unit).checked_sub(back).map(Bytes::new),
        }
    }
}

const fn start(name: &'static str, content: Content, offset: u64, bytes: &'static [u8]) -> Magic {
    Magic { name, content, place: Place::Start(offset), bytes }
}

const fn end(name: &'static str, content: Content, unit: u64, back: u64, bytes: &'static [u8]) -> Magic {
    Magic { name, content, place: Place::End { unit, back }, bytes }
}

const KIB: u64 = 1024;
const SECTOR: u64 = 512;
/// Version 1 of md writes its magic number and its major version little-endian, wherever it runs.
const MD_1: &[u8] = b"\xfc\x4e\x2b\xa9\x01\0\0\0";

use Content::*;

/// All formats that a magic number alone tells. MBR, FAT and ZFS need a look at more; they are in `signature`.
pub const MAGICS: &[Magic] = &[
    // ext.c, xfs.c, btrfs.c, f2fs.c, nilfs.c, jfs.c, reiserfs.c, gfs.c, ocfs.c, zonefs.c
    start("ext2/ext3/ext4", FileSystem, 0x438, b"\x53\xef"),
    start("XFS", FileSystem, 0, b"XFSB"),
    start("btrfs", FileSystem, 64 * KIB + 0x40, b"_BHRfS_M"),
    start("F2FS", FileSystem, KIB, b"\x10\x20\xf5\xf2"),
    start("NILFS2", FileSystem, KIB + 6, b"\x34\x34"),
    start("JFS", FileSystem, 32 * KIB, b"JFS1"),
    start("ReiserFS", FileSystem, 64 * KIB + 0x34, b"ReIsEr"),
    start("ReiserFS", FileSystem, 8 * KIB + 0x34, b"ReIsEr"),
    start("Reiser4", FileSystem, 64 * KIB, b"ReIsEr4"),
    start("GFS2", FileSystem, 64 * KIB, b"\x01\x16\x19\x70"),
    start("OCFS2", FileSystem, KIB, b"OCFSV2"),
    start("OCFS2", FileSystem, 2 * KIB, b"OCFSV2"),
    start("OCFS2", FileSystem, 4 * KIB, b"OCFSV2"),
    start("OCFS2", FileSystem, 8 * KIB, b"OCFSV2"),
    start("zonefs", FileSystem, 0, b"SFOZ"),
    // bcache.c: bcachefs began with the magic number of bcache, so the two cannot be told apart by it
    start(
        "bcache or bcachefs",
        Volume,
        4 * KIB + 0x18,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
    ),
    start("bcachefs", FileSystem, 4 * KIB + 0x18, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    // ntfs.c, exfat.c, refs.c, bitlocker.c, hfs.c, apfs.c
    start("NTFS", FileSystem, 3, b"NTFS    "),
    start("exFAT", FileSystem, 3, b"EXFAT   "),
    start("ReFS", FileSystem, 0, b"\0\0\0ReFS\0"),
    start("BitLocker", Encryption, 3, b"-FVE-FS-"),
    start("HFS+", FileSystem, KIB, b"H+"),
    start("HFSX", FileSystem, KIB, b"HX"),
    start("HFS", FileSystem, KIB, b"BD"),
    start("APFS", FileSystem, 32, b"NXSB"),
    // iso9660.c, udf.c, squashfs.c, erofs.c, cramfs.c, romfs.c
    start("ISO 9660", FileSystem, 32 * KIB + 1, b"CD001"),
    start("ISO 9660", FileSystem, 32 * KIB + 9, b"CDROM"),
    start("UDF", FileSystem, 32 * KIB + 1, b"BEA01"),
    start("UDF", FileSystem, 32 * KIB + 1, b"NSR02"),
    start("UDF", FileSystem, 32 * KIB + 1, b"NSR03"),
    start("SquashFS", FileSystem, 0, b"hsqs"),
    start("SquashFS", FileSystem, 0, b"sqsh"),
    start("EROFS", FileSystem, KIB, b"\xe2\xe1\xf5\xe0"),
    start("cramfs", FileSystem, 0, b"\x45\x3d\xcd\x28"),
    start("cramfs", FileSystem, 0, b"\x28\xcd\x3d\x45"),
    start("romfs", FileSystem, 0, b"-rom1fs-"),
    // minix.c, bfs.c, ufs.c (UFS 1 and 2, in both byte orders, at the places where BSD and Solaris put it), vxfs.c,
    // vmfs.c
    start("MINIX", FileSystem, KIB + 0x10, b"\x7f\x13"),
    start("MINIX", FileSystem, KIB + 0x10, b"\x8f\x13"),
    start("MINIX", FileSystem, KIB + 0x10, b"\x68\x24"),
    start("MINIX", FileSystem, KIB + 0x10, b"\x78\x24"),
    start("MINIX", FileSystem, KIB + 0x18, b"\x5a\x4d"),
    start("BFS", FileSystem, 0, b"\xce\xfa\xad\x1b"),
    start("UFS", FileSystem, 8 * KIB + 0x55c, b"\x54\x19\x01\x00"),
    start("UFS", FileSystem, 8 * KIB + 0x55c, b"\x00\x01\x19\x54"),
    start("UFS", FileSystem, 64 * KIB + 0x55c, b"\x19\x01\x54\x19"),
    start("UFS", FileSystem, 64 * KIB + 0x55c, b"\x19\x54\x01\x19"),
    start("VxFS", FileSystem, KIB, b"\xf5\xfc\x01\xa5"),
    start("VxFS", FileSystem, 8 * KIB, b"\xa5\x01\xfc\xf5"),
    start("VMFS", FileSystem, 2048 * KIB, b"\x5e\xf1\xab\x2f"),
    start("VMFS volume", Volume, 1024 * KIB, b"\x0d\xd0\x01\xc0"),
    // swap.c: the last ten bytes of the first page, whose size is that of the machine that made it
    start("swap", Swap, 4 * KIB - 10, b"SWAPSPACE2"),
    start("swap", Swap, 8 * KIB - 10, b"SWAPSPACE2"),
    start("swap", Swap, 16 * KIB - 10, b"SWAPSPACE2"),
    start("swap", Swap, 32 * KIB - 10, b"SWAPSPACE2"),
    start("swap", Swap, 64 * KIB - 10, b"SWAPSPACE2"),
    start("swap", Swap, 4 * KIB - 10, b"SWAP-SPACE"),
    start("suspended machine", Swap, 4 * KIB - 10, b"S1SUSPEND"),
    start("suspended machine", Swap, 4 * KIB - 10, b"S2SUSPEND"),
    start("suspended machine", Swap, 4 * KIB - 10, b"ULSUSPEND"),
    start("suspended machine", Swap, 4 * KIB - 10, b"LINHIB0001"),
    // linux_raid.c: four places, by version; 0.90 in the byte order of the machine
    end("Linux md 0.90", Raid, 64 * KIB, 64 * KIB, b"\xfc\x4e\x2b\xa9"),
    end("Linux md 0.90", Raid, 64 * KIB, 64 * KIB, b"\xa9\x2b\x4e\xfc"),
    end("Linux md 1.0", Raid, 4 * KIB, 8 * KIB, MD_1),
    start("Linux md 1.1", Raid, 0, MD_1),
    start("Linux md 1.2", Raid, 4 * KIB, MD_1),
    // isw_raid.c, ddf_raid.c, lsi_raid.c, nvidia_raid.c: what adapters and firmware write at the end
    end("Intel Matrix RAID", Raid, SECTOR, 2 * SECTOR, b"Intel Raid ISM Cfg Sig. "),
    end("Intel Matrix RAID", Raid, 4 * KIB, 8 * KIB, b"Intel Raid ISM Cfg Sig. "),
    end("DDF RAID", Raid, SECTOR, SECTOR, b"\xde\x11\xde\x11"),
    end("DDF RAID", Raid, SECTOR, SECTOR, b"\x11\xde\x11\xde"),
    end("DDF RAID", Raid, SECTOR, 257 * SECTOR, b"\xde\x11\xde\x11"),
    end("DDF RAID", Raid, SECTOR, 257 * SECTOR, b"\x11\xde\x11\xde"),
    end("LSI MegaRAID", Raid, SECTOR, SECTOR, b"$XIDE$"),
    end("NVIDIA RAID", Raid, SECTOR, 2 * SECTOR, b"NVIDIA"),
    // drbd.c: versions 8, 8.4 not shut down, 9; the magic number is the 16th word of the last 4 KiB
    end("DRBD", Raid, 1, 4 * KIB - 60, b"\x83\x74\x02\x6b"),
    end("DRBD", Raid, 1, 4 * KIB - 60, b"\x83\x74\x02\x6c"),
    end("DRBD", Raid, 1, 4 * KIB - 60, b"\x83\x74\x02\x6d"),
    // lvm.c: the label is in one of the first four sectors
    start("LVM2", Volume, 0x018, b"LVM2 001"),
    start("LVM2", Volume, SECTOR + 0x018, b"LVM2 001"),
    start("LVM2", Volume, 2 * SECTOR + 0x018, b"LVM2 001"),
    start("LVM2", Volume, 3 * SECTOR + 0x018, b"LVM2 001"),
    start("device-mapper snapshot", Volume, 0, b"SnAp"),
    start("dm-integrity", Volume, 0, b"integrt\0"),
    start("dm-verity", Volume, 0, b"verity\0\0"),
    // bluestore.c, vdo.c, stratis.c, ocfs.c
    start("Ceph BlueStore", Volume, 0, b"bluestore block device"),
    start("VDO", Volume, 0, b"dmvdo001"),
    start("Stratis", Volume, SECTOR + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    start("Stratis", Volume, 9 * SECTOR + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    start("Oracle ASM", Volume, 32, b"ORCLDISK"),
    // luks.c: the second header of version 2 has its letters reversed and one of nine places
    start("LUKS", Encryption, 0, b"LUKS\xba\xbe"),
    start("LUKS", Encryption, 16 * KIB, b"SKUL\xba\xbe"),
    start("LUKS", Encryption, 32 * KIB, b"SKUL\xba\xbe"),
    start("LUKS", Encryption, 64 * KIB, b"SKUL\xba\xbe"),
    start("LUKS", Encryption, 128 * KIB, b"SKUL\xba\xbe"),
    start("LUKS", Encryption, 256 * KIB, b"SKUL\xba\xbe"),
    start("LUKS", Encryption, 512 * KIB, b"SKUL\xba\xbe"),
    start("LUKS", Encryption, 1024 * KIB, b"SKUL\xba\xbe"),
    start("LUKS", Encryption, 2048 * KIB, b"SKUL\xba\xbe"),
    start("LUKS", Encryption, 4096 * KIB, b"SKUL\xba\xbe"),
    // gpt.c: the header in the second block and its copy in the last, for both sizes of block
    start("GPT", PartitionTable, SECTOR, b"EFI PART"),
    start("GPT", PartitionTable, 4 * KIB, b"EFI PART"),
    end("GPT", PartitionTable, SECTOR, SECTOR, b"EFI PART"),
    end("GPT", PartitionTable, 4 * KIB, 4 * KIB, b"EFI PART"),
    // mac.c, sun.c, sgi.c, bsd.c, and the "dynamic disks" of Windows (libparted, ldm.c)
    start("Apple partition map", PartitionTable, SECTOR, b"PM\0\0"),
    start("Sun disk label", PartitionTable, 508, b"\xda\xbe"),
    start("SGI disk label", PartitionTable, 0, b"\x0b\xe5\xa9\x41"),
    start("BSD disk label", PartitionTable, 64, b"\x57\x45\x56\x82"),
    start("BSD disk label", PartitionTable, SECTOR, b"\x57\x45\x56\x82"),
    start("Windows dynamic disk", PartitionTable, 6 * SECTOR, b"PRIVHEAD"),
    // POSIX.1 pax; QEMU docs/interop/qcow2.txt; VMware and VirtualBox disk formats; MS-VHDX 2.2.1: what a file may be,
    // or a device that an image or an archive was copied to
    start("tar archive", Image, 257, b"ustar"),
    start("qcow2 image", Image, 0, b"QFI\xfb"),
    start("VMDK image", Image, 0, b"KDMV"),
    start("VDI image", Image, 64, b"\x7f\x10\xda\xbe"),
    start("VHDX image", Image, 0, b"vhdxfile"),
];
