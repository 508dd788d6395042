//! Recorded machines, built in a temporary directory: the parts of `/sys` and `/proc` that the host crate reads.
#![allow(dead_code)] // each test file uses some of it

use std::fs;
use std::path::{Path, PathBuf};

use host::Kernel;
use host::topology::{Node, Target};
use tempfile::TempDir;
use units::Bytes;

/// A machine under construction.
pub struct Tree {
    root: TempDir,
}

impl Tree {
    pub fn new() -> Tree {
        let tree = Tree { root: TempDir::new().expect("a temporary directory") };
        for directory in ["sys/class/block", "sys/dev/block", "sys/devices/virtual/block", "proc/self"] {
            fs::create_dir_all(tree.path(directory)).expect("a directory");
        }
        tree.file("proc/self/mountinfo", "");
        tree.file("proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
        tree
    }

    pub fn kernel(&self) -> Kernel {
        Kernel::recorded(self.root.path())
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    /// A file with `text` and the line feed that sysfs adds.
    pub fn file(&self, path: &str, text: &str) -> &Tree {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, if text.is_empty() { String::new() } else { format!("{}\n", text.trim_end()) })
            .expect("a file");
        self
    }

    /// A symbolic link to another path of the tree.
    pub fn link(&self, link: &str, target: &str) -> &Tree {
        let link = self.path(link);
        fs::create_dir_all(link.parent().expect("a parent")).expect("a directory");
        std::os::unix::fs::symlink(self.path(target), link).expect("a link");
        self
    }

    /// A whole disk at `at` (below `sys/devices`, without its own name), with the attributes that every queue has.
    pub fn disk(&self, at: &str, name: &str, number: &str, size: Bytes) -> &Tree {
        let directory = format!("sys/devices/{at}/{name}");
        self.device(&directory, name, number, size);
        for (attribute, value) in [
            ("rotational", "0"),
            ("logical_block_size", "512"),
            ("physical_block_size", "4096"),
            ("optimal_io_size", "0"),
            ("max_sectors_kb", "1280"),
            ("scheduler", "none [mq-deadline] kyber"),
            ("write_cache", "write back"),
            ("nr_requests", "256"),
            ("zoned", "none"),
        ] {
            self.file(&format!("{directory}/queue/{attribute}"), value);
        }
        self
    }

    fn device(&self, directory: &str, name: &str, number: &str, size: Bytes) {
        self.file(&format!("{directory}/dev"), number);
        self.file(&format!("{directory}/size"), &(size / Bytes::SECTOR).to_string());
        self.file(&format!("{directory}/ro"), "0");
        fs::create_dir_all(self.path(&format!("{directory}/holders"))).expect("a directory");
        fs::create_dir_all(self.path(&format!("{directory}/slaves"))).expect("a directory");
        self.link(&format!("sys/class/block/{name}"), directory);
        self.link(&format!("sys/dev/block/{number}"), directory);
    }

    /// A partition of the disk at `disk` (below `sys/devices`, with the disk's name).
    pub fn partition(&self, disk: &str, name: &str, number: &str, index: u32, size: Bytes) -> &Tree {
        let directory = format!("sys/devices/{disk}/{name}");
        self.device(&directory, name, number, size);
        self.file(&format!("{directory}/partition"), &index.to_string());
        self.file(&format!("{directory}/start"), "2048")
    }

    /// A device without hardware of its own, such as `md0`, over others.
    pub fn over(&self, name: &str, number: &str, size: Bytes, below: &[&str]) -> &Tree {
        self.disk("virtual/block", name, number, size);
        for slave in below {
            let directory = fs::canonicalize(self.path("sys/class/block").join(slave)).expect("the device below");
            let directory =
                directory.strip_prefix(fs::canonicalize(self.root.path()).expect("the root")).expect("inside");
            let directory = directory.display();
            self.link(&format!("sys/devices/virtual/block/{name}/slaves/{slave}"), &directory.to_string());
            self.link(&format!("{directory}/holders/{name}"), &format!("sys/devices/virtual/block/{name}"));
        }
        self
    }

    pub fn md(&self, name: &str, number: &str, level: &str, below: &[&str]) -> &Tree {
        self.over(name, number, Bytes::gib(100), below);
        self.file(&format!("sys/devices/virtual/block/{name}/md/level"), level);
        self.file(&format!("sys/devices/virtual/block/{name}/md/raid_disks"), &below.len().to_string());
        self.file(&format!("sys/devices/virtual/block/{name}/md/chunk_size"), "524288");
        self.file(&format!("sys/devices/virtual/block/{name}/md/degraded"), "0")
    }

    pub fn dm(&self, name: &str, number: &str, mapped: &str, uuid: &str, below: &[&str]) -> &Tree {
        self.over(name, number, Bytes::gib(50), below);
        self.file(&format!("sys/devices/virtual/block/{name}/dm/name"), mapped);
        self.file(&format!("sys/devices/virtual/block/{name}/dm/uuid"), uuid)
    }

    pub fn loop_device(&self, name: &str, number: &str, file: &str) -> &Tree {
        self.disk("virtual/block", name, number, Bytes::gib(1));
        self.file(&format!("sys/devices/virtual/block/{name}/loop/backing_file"), file);
        self.file(&format!("sys/devices/virtual/block/{name}/loop/offset"), "0");
        self.file(&format!("sys/devices/virtual/block/{name}/loop/dio"), "1")
    }

    /// A PCI function or bridge.
    pub fn pci(&self, at: &str, class: &str, speed: &str, width: &str) -> &Tree {
        self.file(&format!("sys/devices/{at}/class"), class);
        self.file(&format!("sys/devices/{at}/current_link_speed"), speed);
        self.file(&format!("sys/devices/{at}/current_link_width"), width);
        self.file(&format!("sys/devices/{at}/numa_node"), "1")
    }

    /// Mounts as (device number, mount point, type, source, options of the file system); the first is the root.
    pub fn mounts(&self, mounts: &[(&str, &str, &str, &str, &str)]) -> &Tree {
        let line = |(i, (number, at, kind, source, options)): (usize, &(&str, &str, &str, &str, &str))| {
            let parent = if i == 0 { 1 } else { 100 };
            format!("{} {parent} {number} / {at} rw,relatime shared:{i} - {kind} {source} {options}", 100 + i)
        };
        let text: Vec<String> = mounts.iter().enumerate().map(line).collect();
        self.file("proc/self/mountinfo", &text.join("\n"))
    }

    pub fn device_target(&self, path: &str, number: &str) -> Target {
        let node = Node::Device(number.parse().expect("a device number"));
        Target::describe(&self.kernel(), Path::new(path), Path::new(path), node).expect("a target")
    }

    pub fn file_target(&self, path: &str) -> Target {
        let node = Node::File(Bytes::mib(256));
        Target::describe(&self.kernel(), Path::new(path), Path::new(path), node).expect("a target")
    }
}

/// A virtual machine with one virtio disk, the root file system on it.
pub fn virtual_machine() -> Tree {
    let tree = Tree::new();
    tree.pci("pci0000:00/0000:00:02.0", "0x018000", "Unknown", "0");
    tree.disk("pci0000:00/0000:00:02.0/virtio1/block", "vda", "254:0", Bytes::gib(256));
    tree.file("sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda/serial", "root-disk");
    tree.mounts(&[("254:0", "/", "ext4", "/dev/vda", "rw,discard"), ("0:40", "/tmp/memory", "tmpfs", "tmpfs", "rw")]);
    tree
}

/// A SAS adapter with an expander of four disks on a wide port, and a fifth disk on a port of its own.
pub fn sas_machine() -> Tree {
    let tree = Tree::new();
    let adapter = "pci0000:00/0000:00:01.0/0000:01:00.0";
    tree.pci("pci0000:00/0000:00:01.0", "0x060400", "8.0 GT/s PCIe", "8");
    tree.pci(adapter, "0x010700", "8.0 GT/s PCIe", "8");
    tree.link(&format!("sys/devices/{adapter}/driver"), "sys/bus/pci/drivers/mpt3sas");
    let host = format!("{adapter}/host0");
    let phy = |at: &str, number: &str| {
        tree.file(&format!("sys/devices/{at}/phy-{number}/sas_phy/phy-{number}/negotiated_linkrate"), "12.0 Gbit");
    };
    for number in ["0:0", "0:1", "0:2", "0:3"] {
        phy(&format!("{host}/port-0:0"), number);
    }
    phy(&format!("{host}/port-0:1"), "0:4");
    for slot in 0..4 {
        let port = format!("{host}/port-0:0/expander-0:0/port-0:0:{slot}");
        phy(&port, &format!("0:0:{slot}"));
        let letter = ['a', 'b', 'c', 'd'][slot];
        let address = format!("{port}/end_device-0:0:{slot}/target0:0:{slot}/0:0:{slot}:0");
        sas_disk(&tree, &address, &format!("sd{letter}"), &format!("8:{}", slot * 16));
    }
    sas_disk(&tree, &format!("{host}/port-0:1/end_device-0:1/target0:0:9/0:0:9:0"), "sde", "8:64");
    tree
}

fn sas_disk(tree: &Tree, address: &str, name: &str, number: &str) {
    tree.disk(&format!("{address}/block"), name, number, Bytes::new(4_000_787_030_016));
    let disk = format!("sys/devices/{address}/block/{name}");
    tree.file(&format!("{disk}/queue/rotational"), "1");
    tree.file(&format!("sys/devices/{address}/vendor"), "SEAGATE ");
    tree.file(&format!("sys/devices/{address}/model"), "ST4000NM0025    ");
    tree.file(&format!("sys/devices/{address}/wwid"), &format!("naa.5000c500a1b2c3{name}"));
    tree.link(&format!("{disk}/device"), &format!("sys/devices/{address}"));
    // Page 0x80: a header of four bytes, the last the length, then ASCII.
    fs::write(tree.path(&format!("sys/devices/{address}/vpd_pg80")), b"\0\x80\0\x14ZC1A2B3C            ")
        .expect("a page");
}

/// Two NVMe drives behind a PCIe switch and one on a root port of its own.
pub fn nvme_machine() -> Tree {
    let tree = Tree::new();
    let switch = "pci0000:00/0000:00:01.0/0000:01:00.0";
    tree.pci("pci0000:00/0000:00:01.0", "0x060400", "8.0 GT/s PCIe", "4");
    tree.pci(switch, "0x060400", "8.0 GT/s PCIe", "4");
    for (i, (port, function)) in [("0000:02:00.0", "0000:03:00.0"), ("0000:02:01.0", "0000:04:00.0")].iter().enumerate()
    {
        tree.pci(&format!("{switch}/{port}"), "0x060400", "8.0 GT/s PCIe", "4");
        nvme_disk(&tree, &format!("{switch}/{port}/{function}"), i);
    }
    tree.pci("pci0000:00/0000:00:1d.0", "0x060400", "16.0 GT/s PCIe", "4");
    nvme_disk(&tree, "pci0000:00/0000:00:1d.0/0000:05:00.0", 2);
    tree
}

fn nvme_disk(tree: &Tree, function: &str, index: usize) {
    tree.pci(function, "0x010802", "8.0 GT/s PCIe", "4");
    let controller = format!("{function}/nvme/nvme{index}");
    tree.disk(&controller, &format!("nvme{index}n1"), &format!("259:{index}"), Bytes::gib(960));
    tree.file(&format!("sys/devices/{controller}/model"), "Modern Drive 960");
    tree.file(&format!("sys/devices/{controller}/serial"), &format!("S{index}"));
    tree.link(&format!("sys/devices/{controller}/nvme{index}n1/device"), &format!("sys/devices/{controller}"));
}

/// Four SATA disks on the ports of one AHCI adapter, each with one partition.
pub fn sata_machine() -> Tree {
    let tree = Tree::new();
    let adapter = "pci0000:00/0000:00:17.0";
    tree.file(&format!("sys/devices/{adapter}/class"), "0x010601");
    for i in 0..4 {
        let letter = ['a', 'b', 'c', 'd'][i];
        let port = format!("{adapter}/ata{}", i + 1);
        tree.file(&format!("sys/devices/{port}/link{0}/ata_link/link{0}/sata_spd", i + 1), "6.0 Gbps");
        let address = format!("{port}/host{i}/target{i}:0:0/{i}:0:0:0");
        tree.disk(&format!("{address}/block"), &format!("sd{letter}"), &format!("8:{}", i * 16), Bytes::gib(1000));
        tree.partition(
            &format!("{address}/block/sd{letter}"),
            &format!("sd{letter}1"),
            &format!("8:{}", i * 16 + 1),
            1,
            Bytes::gib(999),
        );
        tree.file(&format!("sys/devices/{address}/vendor"), "ATA     ");
        tree.file(&format!("sys/devices/{address}/model"), "Desktop Disk");
        tree.link(&format!("sys/devices/{address}/block/sd{letter}/device"), &format!("sys/devices/{address}"));
    }
    tree
}
