//! The hardware between a disk and the host, from the path of the device in sysfs.
//!
//! The kernel hangs each device below the one it is reached through, so the path *is* the chain:
//!
//! ```text
//! pci0000:00/0000:00:01.0/0000:01:00.0/host0/port-0:0/expander-0:0/port-0:0:3/end_device-0:0:3/target0:0:3/0:0:3:0/block/sdd
//! bridge     root port    adapter            SAS port  expander     its port   the disk's end   SCSI address
//! ```
//!
//! Each part becomes a [`Hop`]; parts that are only the kernel's book-keeping are left out. Where the hop has a link
//! that negotiates its speed, [`Hop::limit`] is what that link can carry after line coding, before the headers of its
//! packets: an upper bound that no measurement behind it can exceed.

use std::path::Path;

use serde::Serialize;
use units::Rate;

use crate::kernel::{Kernel, link_name, names, number, text};

/// One part of the way, the nearest to the host first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hop {
    /// What it is.
    pub kind: HopKind,
    /// The kernel's name for it, such as `0000:01:00.0` or `expander-0:0`.
    pub name: String,
    /// The driver that serves it.
    pub driver: Option<String>,
    /// How its link runs, such as `16.0 GT/s PCIe x4`.
    pub link: Option<String>,
    /// What that link can carry.
    pub limit: Option<Rate>,
    /// PCI class (base class, subclass, interface), such as `0x010802` for NVMe.
    pub class: Option<String>,
    /// The memory node it is attached to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
}

/// What a part of the way is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HopKind {
    /// Where a PCI hierarchy begins: the root complex.
    HostBridge,
    /// A root port, or a port of a PCIe switch, or a PCI bridge.
    PciBridge,
    /// A function of a PCI device: an adapter.
    PciFunction,
    /// A virtio device: the link to the hypervisor.
    Virtio,
    /// A port of a SATA adapter.
    AtaPort,
    /// A SCSI host: what the driver of an adapter registers.
    ScsiHost,
    /// A channel of a SCSI host: one bus, where SCSI is a bus.
    ScsiChannel,
    /// A port of a SAS adapter or expander: one or more phys that work as one link.
    SasPort,
    /// A SAS expander.
    SasExpander,
    /// The disk's end of a SAS link.
    SasDevice,
    /// A port on the fabric.
    FibreChannelPort,
    /// A session with an iSCSI target.
    IscsiSession,
    /// An NVMe controller.
    NvmeController,
    /// Several NVMe controllers that lead to the same namespaces.
    NvmeSubsystem,
    /// A USB bus, hub or device.
    UsbDevice,
    /// The address host:channel:target:unit of a SCSI device.
    ScsiAddress,
}

/// The way to the block device with the directory `device`, nearest to the host first. Empty where there is no
/// hardware.
pub(crate) fn chain(kernel: &Kernel, device: &Path) -> Vec<Hop> {
    let Ok(devices) = std::fs::canonicalize(kernel.sys("devices")) else { return Vec::new() };
    let Ok(inside) = device.strip_prefix(&devices) else { return Vec::new() };
    let parent = device.parent().unwrap_or(device);
    // With native multipath the namespace hangs below its subsystem, beside links to the controllers that lead to it.
    if parent.file_name().is_some_and(|name| name.to_string_lossy().starts_with("nvme-subsys")) {
        return multipath(kernel, parent);
    }
    let mut hops: Vec<Hop> = Vec::new();
    let mut here = devices;
    let parts: Vec<_> = inside.components().collect();
    // The last part is the block device itself.
    for part in &parts[..parts.len().saturating_sub(1)] {
        here.push(part);
        let name = part.as_os_str().to_string_lossy();
        if let Some(kind) = classify(&name, &here) {
            let has = |kinds: &[HopKind]| hops.iter().any(|hop| kinds.contains(&hop.kind));
            // Behind these, the SCSI host is one per port and says nothing more; a channel is a bus only where SCSI is
            // one.
            let no_host = [HopKind::AtaPort, HopKind::UsbDevice];
            let no_bus = [HopKind::SasPort, HopKind::FibreChannelPort, HopKind::IscsiSession];
            let needless = match kind {
                HopKind::ScsiHost => has(&no_host),
                HopKind::ScsiChannel => has(&no_host) || has(&no_bus),
                _ => false,
            };
            if !needless {
                hops.push(hop(kind, &name, &here));
            }
        }
    }
    hops
}

/// The common part of the ways through all controllers of an NVMe subsystem.
fn multipath(kernel: &Kernel, subsystem: &Path) -> Vec<Hop> {
    let is_controller = |name: &String| name.strip_prefix("nvme").is_some_and(digits);
    let mut ways: Vec<Vec<Hop>> = Vec::new();
    for name in names(subsystem).iter().filter(|name| is_controller(name)) {
        let Ok(controller) = std::fs::canonicalize(subsystem.join(name)) else { continue };
        // The chain to a namespace of that controller, whatever its name.
        ways.push(chain(kernel, &controller.join("namespace")));
    }
    let count = ways.len();
    let Some(first) = ways.first() else { return Vec::new() };
    let shared = |i: &usize| ways.iter().all(|way| way.get(*i).is_some_and(|hop| hop.name == first[*i].name));
    let mut hops: Vec<Hop> = (0..first.len()).take_while(shared).map(|i| first[i].clone()).collect();
    if count > 1 {
        let name = subsystem.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut subsystem = hop(HopKind::NvmeSubsystem, &name, subsystem);
        subsystem.link = Some(format!("{count} controllers"));
        hops.push(subsystem);
    }
    hops
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn classify(name: &str, directory: &Path) -> Option<HopKind> {
    let after = |prefix: &str| name.strip_prefix(prefix);
    let numbered = |prefix: &str| after(prefix).is_some_and(digits);
    let hexadecimal = |text: &str, length: usize| text.len() >= length && text.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some((domain, bus)) = after("pci").and_then(|rest| rest.split_once(':')) {
        return (hexadecimal(domain, 4) && hexadecimal(bus, 2)).then_some(HopKind::HostBridge);
    }
    // domain:bus:device.function
    if let Some((address, function)) = name.split_once('.')
        && digits(function)
        && address.split(':').count() == 3
        && address.split(':').all(|part| hexadecimal(part, 2))
    {
        let class = text(directory.join("class")).unwrap_or_default();
        return Some(if class.starts_with("0x06") { HopKind::PciBridge } else { HopKind::PciFunction });
    }
    let kind = match name {
        _ if numbered("virtio") => HopKind::Virtio,
        _ if numbered("ata") => HopKind::AtaPort,
        _ if numbered("host") => HopKind::ScsiHost,
        _ if numbered("nvme") => HopKind::NvmeController,
        _ if numbered("session") => HopKind::IscsiSession,
        _ if numbered("usb") => HopKind::UsbDevice,
        _ if name.starts_with("port-") => HopKind::SasPort,
        _ if name.starts_with("expander-") => HopKind::SasExpander,
        _ if name.starts_with("end_device-") => HopKind::SasDevice,
        _ if name.starts_with("rport-") => HopKind::FibreChannelPort,
        _ if name.starts_with("target") => HopKind::ScsiChannel,
        _ if name.split(':').count() == 4 && name.split(':').all(digits) => HopKind::ScsiAddress,
        // A device is bus-port.port; with a colon it is one of its interfaces.
        _ if name.split_once('-').is_some_and(|(bus, ports)| digits(bus) && ports.split('.').all(digits)) => {
            HopKind::UsbDevice
        }
        _ => return None,
    };
    Some(kind)
}

fn hop(kind: HopKind, name: &str, directory: &Path) -> Hop {
    let (link, limit) = match kind {
        HopKind::PciBridge | HopKind::PciFunction => pcie_link(directory),
        HopKind::AtaPort => sata_link(directory),
        HopKind::SasPort => sas_link(directory),
        HopKind::UsbDevice => usb_link(directory),
        _ => None,
    }
    .unzip();
    Hop {
        kind,
        // A target is host:channel:id; disks on one bus differ only in the id.
        name: match kind {
            HopKind::ScsiChannel => name.rsplit_once(':').map_or(name, |(bus, _)| bus).replace("target", "channel"),
            _ => name.to_owned(),
        },
        driver: link_name(directory.join("driver")),
        link,
        limit,
        class: text(directory.join("class")).filter(|class| class.starts_with("0x")),
        numa_node: number(directory.join("numa_node")),
    }
}

/// The number at the start of `8.0 GT/s PCIe` or `12.0 Gbit`.
fn leading_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0)
}

/// `giga` * 10^9 transfers of one bit a second on each of `lanes`, of which the line code leaves `share` for data.
fn line_rate(giga: f64, lanes: f64, share: f64) -> Rate {
    Rate::bytes_per_second(giga * 1e9 * lanes * share / 8.0)
}

fn pcie_link(directory: &Path) -> Option<(String, Rate)> {
    let speed = text(directory.join("current_link_speed"))?;
    // 0 and 255 are what an absent link reads as.
    let width = number::<u32>(directory.join("current_link_width")).filter(|width| (1..=32).contains(width))?;
    let giga = leading_number(&speed)?;
    // PCI Express Base Specification 6.0: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, then 236 of the 256 bytes of a
    // flit.
    let share = match giga {
        ..=5.0 => 8.0 / 10.0,
        ..=32.0 => 128.0 / 130.0,
        _ => 236.0 / 256.0,
    };
    Some((format!("{speed} x{width}"), line_rate(giga, f64::from(width), share)))
}

fn sata_link(directory: &Path) -> Option<(String, Rate)> {
    let link = names(directory).into_iter().find(|name| name.strip_prefix("link").is_some_and(digits))?;
    let speed = text(directory.join(&link).join("ata_link").join(&link).join("sata_spd"))?;
    // Serial ATA 3.5: 8b/10b at all its speeds.
    let rate = line_rate(leading_number(&speed)?, 1.0, 8.0 / 10.0);
    Some((speed, rate))
}

fn sas_link(directory: &Path) -> Option<(String, Rate)> {
    let phys: Vec<f64> = names(directory)
        .iter()
        .filter(|name| name.starts_with("phy-"))
        .filter_map(|phy| text(directory.join(phy).join("sas_phy").join(phy).join("negotiated_linkrate")))
        .filter_map(|rate| leading_number(&rate))
        .collect();
    let slowest = phys.iter().copied().reduce(f64::min)?;
    // SPL-4: 8b/10b up to 12 Gbit/s; 22.5 Gbit/s carries 128 bits of data in each 150.
    let share = if slowest <= 12.0 { 8.0 / 10.0 } else { 128.0 / 150.0 };
    Some((format!("{slowest} Gbit/s x{}", phys.len()), line_rate(phys.iter().sum(), 1.0, share)))
}

fn usb_link(directory: &Path) -> Option<(String, Rate)> {
    let mega: f64 = number(directory.join("speed")).filter(|speed: &f64| speed.is_finite() && *speed > 0.0)?;
    // USB 3.2: 8b/10b at 5 Gbit/s, 128b/132b above; USB 2 only stuffs bits.
    let share = match mega {
        ..=480.0 => 1.0,
        ..=5000.0 => 8.0 / 10.0,
        _ => 128.0 / 132.0,
    };
    Some((format!("{mega} Mbit/s"), line_rate(mega / 1000.0, 1.0, share)))
}
