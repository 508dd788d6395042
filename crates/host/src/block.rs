//! A block device, by its attributes in sysfs (`Documentation/ABI/stable/sysfs-block` of the kernel).

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use units::Bytes;

use crate::hardware::{Hop, HopKind};
use crate::kernel::{Kernel, flag, number, text};

/// The number by which the kernel knows a device, printed `major:minor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceNumber {
    /// The driver.
    pub major: u32,
    /// The device among those of the driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// From the `st_dev` or `st_rdev` of a file.
    pub fn from_raw(raw: u64) -> DeviceNumber {
        DeviceNumber { major: rustix::fs::major(raw), minor: rustix::fs::minor(raw) }
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DeviceNumber {
    type Err = NotADeviceNumber;
    fn from_str(text: &str) -> Result<DeviceNumber, NotADeviceNumber> {
        let (major, minor) = text.split_once(':').ok_or(NotADeviceNumber)?;
        let number = |part: &str| part.parse().map_err(|_| NotADeviceNumber);
        Ok(DeviceNumber { major: number(major)?, minor: number(minor)? })
    }
}

/// The text is not two numbers with a colon between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a device number is written major:minor, such as 8:0")]
pub struct NotADeviceNumber;

impl Serialize for DeviceNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How a device is reached: by which protocol, or by which driver of the kernel if there is no hardware of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // the names are those of the protocols
pub enum Transport {
    Virtio,
    Nvme,
    Sata,
    Sas,
    Scsi,
    Usb,
    FibreChannel,
    Iscsi,
    Mmc,
    Pmem,
    Xen,
    Nbd,
    /// Compressed memory.
    Zram,
    /// Memory.
    Ram,
    Loop,
    Md,
    Dm,
    Unknown,
}

/// What a block device says about itself. A partition has the queue of its disk.
#[derive(Debug, Clone, Serialize)]
pub struct Block {
    /// The kernel's name, such as `sda1`.
    pub name: String,
    /// Its number.
    pub number: DeviceNumber,
    /// Its size.
    pub size: Bytes,
    /// How it is reached.
    pub transport: Transport,
    /// Writing is refused by the kernel.
    pub read_only: bool,
    /// Vendor and model, without the blanks that fill them up.
    pub model: Option<String>,
    /// The serial number.
    pub serial: Option<String>,
    /// The world-wide name, such as `naa.5000c500a1b2c3d4`.
    pub wwn: Option<String>,
    /// It has, or claims to have, moving parts. Virtual disks usually claim it without knowing.
    pub rotational: Option<bool>,
    /// The unit of addressing: offsets and lengths of direct I/O are multiples of it.
    pub logical_block: Bytes,
    /// The unit in which the device writes; less costs it a read first.
    pub physical_block: Bytes,
    /// The unit the device likes best, such as the stripe of an array.
    pub optimal_io: Option<Bytes>,
    /// The largest request that the block layer sends; larger ones are split.
    pub largest_io: Option<Bytes>,
    /// The I/O scheduler in use; `none` for none.
    pub scheduler: Option<String>,
    /// `write back` if a completed write may still be in the device's volatile cache, `write through` if not.
    pub write_cache: Option<String>,
    /// How many requests the block layer keeps for it; more wait.
    pub requests: Option<u32>,
    /// `host-managed` or `host-aware` where it is written in zones, otherwise `none`.
    pub zoned: Option<String>,
    /// The memory node its adapter is attached to.
    pub numa_node: Option<u32>,
}

impl Block {
    /// Reads the attributes of the device whose directory in sysfs is `device`; `queue` is the directory of the whole
    /// disk.
    pub(crate) fn read(device: &Path, disk: &Path, hardware: &[Hop]) -> Option<Block> {
        let name = device.file_name()?.to_string_lossy().into_owned();
        let queue = disk.join("queue");
        let bytes = |attribute: &str| number(queue.join(attribute)).map(Bytes::new);
        let nonzero = |amount: &Bytes| !amount.is_zero();
        let logical_block = bytes("logical_block_size").unwrap_or(Bytes::SECTOR);
        Some(Block {
            number: text(device.join("dev"))?.parse().ok()?,
            // Always in units of 512 bytes, whatever the block size.
            size: Bytes::new(number::<u64>(device.join("size"))?.checked_mul(512)?),
            transport: transport(&disk.file_name()?.to_string_lossy(), hardware),
            read_only: flag(device.join("ro")),
            model: model(disk),
            serial: serial(disk),
            wwn: text(disk.join("wwid")).or_else(|| text(disk.join("device/wwid"))),
            rotational: number::<u8>(queue.join("rotational")).map(|n| n == 1),
            logical_block,
            physical_block: bytes("physical_block_size").unwrap_or(logical_block),
            optimal_io: bytes("optimal_io_size").filter(nonzero),
            largest_io: number::<u64>(queue.join("max_sectors_kb")).map(Bytes::kib),
            scheduler: text(queue.join("scheduler")).map(|list| chosen(&list)),
            write_cache: text(queue.join("write_cache")),
            requests: number(queue.join("nr_requests")),
            zoned: text(queue.join("zoned")),
            // Minus one stands for "no node in particular", which is no number.
            numa_node: hardware.iter().rev().find_map(|hop| hop.numa_node),
            name,
        })
    }
}

/// The directory in sysfs of the block device `name`, with its links resolved; a name of several parts (`cciss!c0d0`)
/// is as in sysfs.
pub(crate) fn directory(kernel: &Kernel, name: &str) -> Option<std::path::PathBuf> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return None;
    }
    std::fs::canonicalize(kernel.sys("class/block").join(name)).ok()
}

/// The one in brackets: `none [mq-deadline] kyber`.
pub(crate) fn chosen(list: &str) -> String {
    let inside = list.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(inside, _)| inside);
    inside.unwrap_or(list).to_owned()
}

fn model(disk: &Path) -> Option<String> {
    let model = text(disk.join("device/model")).or_else(|| text(disk.join("device/name")))?;
    match text(disk.join("device/vendor")) {
        // libata names itself in the place of the vendor; virtio and NVMe have a PCI number there.
        Some(vendor) if vendor != "ATA" && !vendor.starts_with("0x") => Some(format!("{vendor} {model}")),
        _ => Some(model),
    }
}

pub(crate) fn serial(disk: &Path) -> Option<String> {
    // Vital product data page 0x80 of SCSI: four bytes of header, then the number in ASCII (SPC-5, 7.7.20).
    let page_80 = || {
        let page = std::fs::read(disk.join("device/vpd_pg80")).ok()?;
        let number = String::from_utf8_lossy(page.get(4..)?).trim().to_owned();
        (!number.is_empty()).then_some(number)
    };
    text(disk.join("serial")).or_else(|| text(disk.join("device/serial"))).or_else(page_80)
}

/// From the driver's naming where it has no hardware of its own, otherwise from the hardware on the way.
fn transport(disk: &str, hardware: &[Hop]) -> Transport {
    const BY_NAME: [(&str, Transport); 12] = [
        ("loop", Transport::Loop),
        ("zram", Transport::Zram),
        ("md", Transport::Md),
        ("dm-", Transport::Dm),
        ("nvme", Transport::Nvme),
        ("nbd", Transport::Nbd),
        ("ram", Transport::Ram),
        ("mmcblk", Transport::Mmc),
        ("pmem", Transport::Pmem),
        ("xvd", Transport::Xen),
        ("vd", Transport::Virtio),
        ("bcache", Transport::Unknown),
    ];
    if let Some((_, transport)) = BY_NAME.iter().find(|(prefix, _)| disk.starts_with(prefix)) {
        return *transport;
    }
    let by_hardware = hardware.iter().rev().find_map(|hop| match hop.kind {
        HopKind::UsbDevice => Some(Transport::Usb),
        HopKind::AtaPort => Some(Transport::Sata),
        HopKind::SasPort | HopKind::SasExpander | HopKind::SasDevice => Some(Transport::Sas),
        HopKind::FibreChannelPort => Some(Transport::FibreChannel),
        HopKind::IscsiSession => Some(Transport::Iscsi),
        HopKind::NvmeController => Some(Transport::Nvme),
        HopKind::Virtio => Some(Transport::Virtio),
        _ => None,
    });
    let is_scsi = || hardware.iter().any(|hop| hop.kind == HopKind::ScsiHost);
    by_hardware.unwrap_or(if is_scsi() { Transport::Scsi } else { Transport::Unknown })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_parse_and_print() {
        let number: DeviceNumber = "254:16".parse().expect("a device number");
        assert_eq!(number, DeviceNumber { major: 254, minor: 16 });
        assert_eq!(number.to_string(), "254:16");
        for wrong in ["", "8", "8:", ":0", "8:x", "-1:0"] {
            assert_eq!(wrong.parse::<DeviceNumber>(), Err(NotADeviceNumber), "{wrong}");
        }
    }

    #[test]
    fn the_scheduler_is_the_one_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber bfq"), "mq-deadline");
        assert_eq!(chosen("[none]"), "none");
        assert_eq!(chosen("none"), "none");
    }
}
