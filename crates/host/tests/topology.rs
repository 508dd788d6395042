//! Stacks of machines that we do not have, from recorded trees.

mod trees;

use std::collections::BTreeSet;
use std::fmt::{self, Formatter};

use host::block::Transport;
use host::hardware::HopKind;
use host::topology::{Node, Target, TopologyError, What};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use trees::*;
use units::{Bytes, Rate};

/// The names of the layers from the path down, where the stack is a chain.
fn chain(target: &Target) -> Vec<&str> {
    let mut names = Vec::new();
    let mut layer = Some(&target.top);
    while let Some(here) = layer {
        names.push(here.name.as_str());
        assert!(here.below.len() <= 1, "{} is no chain below {}", target.path.display(), here.name);
        layer = here.below.first();
    }
    names
}

fn hardware(target: &Target) -> Vec<(HopKind, &str)> {
    let What::Disk { hardware } = &target.disks()[0].what else { panic!("a disk at the bottom") };
    hardware.iter().map(|hop| (hop.kind, hop.name.as_str())).collect()
}

#[test]
fn a_file_stands_on_its_file_system_and_that_on_the_disk() {
    let tree = virtual_machine();
    let target = tree.file_target("/home/user/data");
    assert_eq!(chain(&target), ["/home/user/data", "ext4 on /", "vda"]);
    assert_eq!(target.size(), Some(Bytes::mib(256)));
    assert_eq!(target.file_system().map(|mount| mount.options.as_str()), Some("rw,relatime,discard"));
    let block = target.block().expect("a device below");
    assert_eq!((block.transport, block.size), (Transport::Virtio, Bytes::gib(256)));
    assert_eq!((block.logical_block, block.physical_block), (Bytes::new(512), Bytes::kib(4)));
    assert_eq!(block.scheduler.as_deref(), Some("mq-deadline"));
    assert_eq!(block.serial.as_deref(), Some("root-disk"));
    assert_eq!(
        hardware(&target),
        [(HopKind::HostBridge, "pci0000:00"), (HopKind::PciFunction, "0000:00:02.0"), (HopKind::Virtio, "virtio1")]
    );
}

#[test]
fn a_file_in_memory_stands_on_nothing_more() {
    let target = virtual_machine().file_target("/tmp/memory/data");
    assert_eq!(chain(&target), ["/tmp/memory/data", "tmpfs on /tmp/memory"]);
    assert!(target.disks().is_empty());
    assert!(target.block().is_none());
}

#[test]
fn a_sas_disk_knows_its_ports_and_its_expander() {
    let tree = sas_machine();
    let target = tree.device_target("/dev/sdd", "8:48");
    let kinds: Vec<HopKind> = hardware(&target).iter().map(|(kind, _)| *kind).collect();
    use HopKind::*;
    assert_eq!(
        kinds,
        [HostBridge, PciBridge, PciFunction, ScsiHost, SasPort, SasExpander, SasPort, SasDevice, ScsiAddress]
    );
    let What::Disk { hardware } = &target.top.what else { panic!("a disk") };
    let adapter = &hardware[2];
    assert_eq!(adapter.driver.as_deref(), Some("mpt3sas"));
    // 8 lanes of 8 GT/s with 128b/130b: 7.877 GB/s.
    assert_eq!(adapter.limit.map(|rate| rate.to_string()), Some("7.88 GB/s".into()));
    assert_eq!(hardware[4].link.as_deref(), Some("12 Gbit/s x4"));
    assert_eq!(hardware[4].limit, Some(Rate::bytes_per_second(4.8e9)));
    let block = target.block().expect("a device");
    assert_eq!(block.transport, Transport::Sas);
    assert_eq!(block.model.as_deref(), Some("SEAGATE ST4000NM0025"));
    assert_eq!(block.serial.as_deref(), Some("ZC1A2B3C"));
    assert_eq!(block.wwn.as_deref(), Some("naa.5000c500a1b2c3sdd"));
    assert_eq!((block.rotational, block.numa_node), (Some(true), Some(1)));
}

#[test]
fn an_nvme_drive_behind_a_switch_has_every_port_in_its_chain() {
    let tree = nvme_machine();
    let target = tree.device_target("/dev/nvme1n1", "259:1");
    assert_eq!(
        hardware(&target),
        [
            (HopKind::HostBridge, "pci0000:00"),
            (HopKind::PciBridge, "0000:00:01.0"),
            (HopKind::PciBridge, "0000:01:00.0"),
            (HopKind::PciBridge, "0000:02:01.0"),
            (HopKind::PciFunction, "0000:04:00.0"),
            (HopKind::NvmeController, "nvme1"),
        ]
    );
    let block = target.block().expect("a device");
    assert_eq!((block.transport, block.model.as_deref()), (Transport::Nvme, Some("Modern Drive 960")));
}

#[test]
fn an_nvme_namespace_with_native_multipath_hangs_from_its_controllers() {
    let tree = Tree::new();
    for (i, function) in
        ["pci0000:00/0000:00:1d.0/0000:05:00.0", "pci0000:00/0000:00:1e.0/0000:06:00.0"].iter().enumerate()
    {
        tree.pci(function.rsplit_once('/').expect("a port").0, "0x060400", "16.0 GT/s PCIe", "4");
        tree.pci(function, "0x010802", "16.0 GT/s PCIe", "4");
        tree.file(&format!("sys/devices/{function}/nvme/nvme{i}/address"), "x");
        tree.link(
            &format!("sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme{i}"),
            &format!("sys/devices/{function}/nvme/nvme{i}"),
        );
    }
    tree.disk("virtual/nvme-subsystem/nvme-subsys0", "nvme0n1", "259:0", Bytes::gib(960));
    let two = tree.device_target("/dev/nvme0n1", "259:0");
    assert_eq!(hardware(&two), [(HopKind::HostBridge, "pci0000:00"), (HopKind::NvmeSubsystem, "nvme-subsys0")]);
    // With one controller the chain goes on to it.
    std::fs::remove_file(tree.path("sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme1")).expect("a link");
    let one = tree.device_target("/dev/nvme0n1", "259:0");
    assert_eq!(hardware(&one).last(), Some(&(HopKind::NvmeController, "nvme0")));
}

#[test]
fn a_partition_stands_on_its_disk_and_has_its_queue() {
    let tree = sata_machine();
    let target = tree.device_target("/dev/sdb1", "8:17");
    assert_eq!(chain(&target), ["sdb1", "sdb"]);
    assert!(matches!(target.top.what, What::Partition { number: 1, start } if start == Bytes::mib(1)));
    let block = target.block().expect("a device");
    assert_eq!((block.size, block.transport), (Bytes::gib(999), Transport::Sata));
    assert_eq!(block.model.as_deref(), Some("Desktop Disk"), "ATA is not the vendor");
    let What::Disk { hardware } = &target.disks()[0].what else { panic!("a disk") };
    let port = hardware.iter().find(|hop| hop.kind == HopKind::AtaPort).expect("a port");
    assert_eq!(port.limit, Some(Rate::bytes_per_second(600e6)));
    assert!(!hardware.iter().any(|hop| hop.kind == HopKind::ScsiHost), "libata's host is book-keeping");
}

#[test]
fn a_volume_on_an_encrypted_array_branches_at_the_array() {
    let tree = sata_machine();
    tree.md("md0", "9:0", "raid5", &["sda1", "sdb1", "sdc1", "sdd1"]);
    tree.dm("dm-0", "253:0", "luks", "CRYPT-LUKS2-aa", &["md0"]);
    tree.dm("dm-1", "253:1", "vg-home", "LVM-bb", &["dm-0"]);
    tree.mounts(&[("253:1", "/", "xfs", "/dev/mapper/vg-home", "rw")]);
    let target = tree.file_target("/data");
    let array = &target.top.below[0].below[0].below[0].below[0];
    assert_eq!(array.name, "md0");
    assert_eq!(
        array.below.iter().map(|layer| layer.name.as_str()).collect::<Vec<_>>(),
        ["sda1", "sdb1", "sdc1", "sdd1"]
    );
    assert!(
        matches!(&array.what, What::Raid { level, devices: 4, chunk: Some(chunk), missing: 0 } if level == "raid5" && *chunk == Bytes::kib(512))
    );
    let names: Vec<&str> = target.disks().iter().map(|disk| disk.name.as_str()).collect();
    assert_eq!(names, ["sda", "sdb", "sdc", "sdd"]);
    let makers: Vec<_> = [&target.top.below[0].below[0], &target.top.below[0].below[0].below[0]]
        .iter()
        .map(|layer| match &layer.what {
            What::Mapped { name, maker } => (name.as_str(), maker.as_deref()),
            _ => panic!("a mapped device"),
        })
        .collect();
    assert_eq!(makers, [("vg-home", Some("LVM")), ("luks", Some("CRYPT"))]);
}

/// JSON in which no object names a field twice. Readers that know their fields refuse the others.
struct Unambiguous;

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Unambiguous, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Unambiguous;

            fn expecting(&self, f: &mut Formatter) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unambiguous, A::Error> {
                let mut known = BTreeSet::new();
                while let Some(key) = map.next_key::<String>()? {
                    map.next_value::<Unambiguous>()?;
                    if let Some(twice) = known.replace(key) {
                        return Err(A::Error::custom(format!("{twice} is named twice")));
                    }
                }
                Ok(Unambiguous)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Unambiguous, A::Error> {
                while list.next_element::<Unambiguous>()?.is_some() {}
                Ok(Unambiguous)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Unambiguous, E> {
                Ok(Unambiguous)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Unambiguous, E> {
                Ok(Unambiguous)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Unambiguous, E> {
                Ok(Unambiguous)
            }

            fn visit_str<E>(self, _: &str) -> Result<Unambiguous, E> {
                Ok(Unambiguous)
            }

            fn visit_unit<E>(self) -> Result<Unambiguous, E> {
                Ok(Unambiguous)
            }
        }
        json.deserialize_any(Any)
    }
}

#[test]
fn whatever_a_path_stands_on_is_told_in_fields_of_different_names() {
    let tree = sata_machine();
    tree.md("md0", "9:0", "raid5", &["sda1", "sdb1", "sdc1", "sdd1"]);
    tree.dm("dm-0", "253:0", "luks", "CRYPT-LUKS2-aa", &["md0"]);
    tree.mounts(&[("253:0", "/", "xfs", "/dev/mapper/luks", "rw")]);
    tree.loop_device("loop0", "7:0", "/images/disk.img");
    for target in [tree.device_target("/dev/loop0", "7:0"), tree.file_target("/data")] {
        let json = serde_json::to_string(&target).unwrap();
        serde_json::from_str::<Unambiguous>(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
        assert!(json.contains(r#""name":"dm-0","is":"mapped","volume":"luks""#), "{json}");
    }
    assert!(serde_json::from_str::<Unambiguous>(r#"[{"a": 1, "b": {}, "a": null}]"#).is_err());
}

#[test]
fn a_loop_device_stands_on_its_file_and_all_below() {
    let tree = virtual_machine();
    tree.loop_device("loop0", "7:0", "/var/images/disk.img (deleted)");
    let target = tree.device_target("/dev/loop0", "7:0");
    assert_eq!(chain(&target), ["loop0", "/var/images/disk.img", "ext4 on /", "vda"]);
    assert!(matches!(target.top.what, What::Loop { direct: true, offset: Bytes::ZERO }));
    assert_eq!(target.block().map(|block| block.transport), Some(Transport::Loop));
}

#[test]
fn a_loop_device_that_lies_on_itself_ends() {
    let tree = Tree::new();
    tree.loop_device("loop0", "7:0", "/mnt/disk.img");
    tree.mounts(&[("7:0", "/", "ext4", "/dev/loop0", "rw")]);
    let target = tree.device_target("/dev/loop0", "7:0");
    assert!(chain(&target).len() < 100);
}

#[test]
fn a_btrfs_over_two_disks_has_both_below_it() {
    let tree = sata_machine();
    tree.mounts(&[("0:33", "/", "btrfs", "/dev/sda1", "rw,subvol=/@")]);
    for device in ["sda1", "sdc1"] {
        tree.link(&format!("sys/fs/btrfs/a-b-c/devices/{device}"), &format!("sys/class/block/{device}"));
    }
    let target = tree.file_target("/data");
    assert_eq!(target.disks().iter().map(|disk| disk.name.as_str()).collect::<Vec<_>>(), ["sda", "sdc"]);
}

#[test]
fn an_overlay_stands_on_its_upper_directory_if_that_can_be_seen() {
    let tree = virtual_machine();
    tree.mounts(&[
        ("254:0", "/", "ext4", "/dev/vda", "rw"),
        ("0:60", "/merged", "overlay", "overlay", "rw,lowerdir=/l,upperdir=/up/diff,workdir=/up/work"),
    ]);
    assert_eq!(chain(&tree.file_target("/merged/f")), ["/merged/f", "overlay on /merged", "ext4 on /", "vda"]);
    // In a container the path of the upper directory is that of another mount namespace: here it leads back to the
    // overlay.
    tree.mounts(&[("0:60", "/", "overlay", "overlay", "rw,lowerdir=/l,upperdir=/up/diff,workdir=/up/work")]);
    assert_eq!(chain(&tree.file_target("/f")), ["/f", "overlay on /"]);
}

#[test]
fn a_network_file_system_ends_the_stack() {
    let tree = Tree::new();
    tree.mounts(&[("0:70", "/", "nfs4", "server:/export", "rw,vers=4.2")]);
    assert_eq!(chain(&tree.file_target("/data")), ["/data", "nfs4 on /"]);
}

#[test]
fn zram_and_virtio_over_memory_mapped_io_have_no_pci_function() {
    let tree = Tree::new();
    tree.disk("virtual/block", "zram0", "252:0", Bytes::gib(4));
    tree.disk("platform/a003e00.virtio_mmio/virtio0/block", "vda", "254:0", Bytes::gib(8));
    let zram = tree.device_target("/dev/zram0", "252:0");
    assert_eq!(zram.block().map(|block| block.transport), Some(Transport::Zram));
    assert!(hardware(&zram).is_empty());
    assert_eq!(hardware(&tree.device_target("/dev/vda", "254:0")), [(HopKind::Virtio, "virtio0")]);
}

#[test]
fn usb_parallel_scsi_iscsi_and_fibre_channel_disks_are_told_apart() {
    let tree = Tree::new();
    let usb = "pci0000:00/0000:00:14.0/usb2/2-1/2-1.4/2-1.4:1.0/host6/target6:0:0/6:0:0:0/block";
    tree.file("sys/devices/pci0000:00/0000:00:14.0/class", "0x0c0330");
    tree.file("sys/devices/pci0000:00/0000:00:14.0/usb2/speed", "10000");
    tree.file("sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/speed", "5000");
    tree.disk(usb, "sda", "8:0", Bytes::gib(64));
    tree.file("sys/devices/pci0000:00/0000:02:04.0/class", "0x010000");
    tree.disk("pci0000:00/0000:02:04.0/host2/target2:0:5/2:0:5:0/block", "sdb", "8:16", Bytes::gib(2));
    tree.disk("platform/host3/session1/target3:0:0/3:0:0:1/block", "sdc", "8:32", Bytes::gib(10));
    tree.file("sys/devices/pci0000:00/0000:06:00.0/class", "0x0c0400");
    let fabric = "pci0000:00/0000:06:00.0/host5/rport-5:0-0/target5:0:0/5:0:0:1/block";
    tree.disk(fabric, "sdd", "8:48", Bytes::gib(10));
    let target = tree.device_target("/dev/sdd", "8:48");
    assert_eq!(target.block().map(|block| block.transport), Some(Transport::FibreChannel));
    assert!(hardware(&target).contains(&(HopKind::FibreChannelPort, "rport-5:0-0")));
    assert!(!hardware(&target).iter().any(|(kind, _)| *kind == HopKind::ScsiChannel), "a fabric is no bus");
    let target = tree.device_target("/dev/sda", "8:0");
    assert_eq!(target.block().map(|block| block.transport), Some(Transport::Usb));
    let names: Vec<&str> = hardware(&target).iter().map(|(_, name)| *name).collect();
    assert_eq!(names, ["pci0000:00", "0000:00:14.0", "usb2", "2-1", "2-1.4", "6:0:0:0"]);
    let What::Disk { hardware: hops } = &target.top.what else { panic!("a disk") };
    assert_eq!(hops[3].limit, Some(Rate::bytes_per_second(500e6)));
    let target = tree.device_target("/dev/sdb", "8:16");
    assert_eq!(target.block().map(|block| block.transport), Some(Transport::Scsi));
    assert!(hardware(&target).contains(&(HopKind::ScsiChannel, "channel2:0")));
    let target = tree.device_target("/dev/sdc", "8:32");
    assert_eq!(target.block().map(|block| block.transport), Some(Transport::Iscsi));
}

#[test]
fn what_is_no_storage_is_refused_with_what_would_be_accepted() {
    let kernel = host::Kernel::running();
    let missing = Target::find(&kernel, "/no/such/path".as_ref()).expect_err("nothing there");
    assert_eq!(
        missing.to_string(),
        "/no/such/path: there is no such file or device; name a block device, a regular file or a directory"
    );
    let null = Target::find(&kernel, "/dev/null".as_ref()).expect_err("no storage");
    assert_eq!(null.to_string(), "/dev/null is a character device; name a block device, a regular file or a directory");
    let tree = Tree::new();
    let node = Node::Device("8:0".parse().expect("a number"));
    let unlisted = Target::describe(&tree.kernel(), "/dev/sda".as_ref(), "/dev/sda".as_ref(), node);
    assert!(matches!(unlisted, Err(TopologyError::Unlisted { .. })));
}

#[test]
fn a_file_of_this_machine_stands_on_something() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    std::fs::write(&path, [0u8; 4096]).expect("a file");
    let target = Target::find(&host::Kernel::running(), &path).expect("a target");
    assert_eq!(target.size(), Some(Bytes::kib(4)));
    let mount = target.file_system().expect("every file lies on a mounted file system");
    assert!(path.canonicalize().expect("a path").starts_with(&mount.at));
    serde_json::to_string(&target).expect("a target can be written to a run folder");
}
