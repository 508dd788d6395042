//! The tree of levels over recorded machines, and the order in which a survey activates the paths.

mod trees;

use host::level::{Group, Kind, group, round_robin};
use host::topology::Target;
use proptest::prelude::*;
use trees::*;
use units::{Bytes, Rate};

/// The tree in text: one line per group, indented by depth.
fn drawn(group: &Group) -> String {
    fn draw(group: &Group, depth: usize, out: &mut String) {
        out.push_str(&format!("{}{}: {group}\n", "  ".repeat(depth), group.part.kind));
        group.below.iter().for_each(|below| draw(below, depth + 1, out));
    }
    let mut out = String::new();
    draw(group, 0, &mut out);
    out
}

fn devices(tree: &Tree, devices: &[(&str, &str)]) -> Vec<Target> {
    devices.iter().map(|(path, number)| tree.device_target(path, number)).collect()
}

fn five_sas_disks(tree: &Tree) -> Vec<Target> {
    let disks =
        [("/dev/sda", "8:0"), ("/dev/sdb", "8:16"), ("/dev/sdc", "8:32"), ("/dev/sdd", "8:48"), ("/dev/sde", "8:64")];
    devices(tree, &disks)
}

#[test]
fn four_files_on_one_virtual_disk_share_a_store() {
    let tree = virtual_machine();
    let targets: Vec<Target> = (0..4).map(|i| tree.file_target(&format!("/tmp/file{i}"))).collect();
    let levels = group(&targets);
    assert_eq!(
        drawn(&levels),
        "store: ext4 on / on vda, virtio1, PCI 0000:00:02.0, host bridge pci0000:00, the host
  disk: /tmp/file0
  disk: /tmp/file1
  disk: /tmp/file2
  disk: /tmp/file3
"
    );
    assert_eq!(levels.order(), [0, 1, 2, 3]);
}

#[test]
fn one_path_is_a_single_group_that_names_the_whole_way() {
    let tree = virtual_machine();
    let levels = group(&[tree.device_target("/dev/vda", "254:0")]);
    assert_eq!(drawn(&levels), "disk: /dev/vda on virtio1, PCI 0000:00:02.0, host bridge pci0000:00, the host\n");
    assert_eq!(levels.path, Some(0));
}

#[test]
fn a_disk_and_a_file_on_it_share_the_disk() {
    let tree = virtual_machine();
    let levels = group(&[tree.device_target("/dev/vda", "254:0"), tree.file_target("/tmp/file")]);
    assert_eq!(levels.part.kind, Kind::Store);
    assert_eq!(levels.part.name, "vda");
    assert_eq!(levels.below.len(), 2);
}

#[test]
fn two_loop_devices_share_the_file_system_of_their_files() {
    let tree = virtual_machine();
    tree.loop_device("loop0", "7:0", "/images/a").loop_device("loop1", "7:1", "/images/b");
    let levels = group(&devices(&tree, &[("/dev/loop0", "7:0"), ("/dev/loop1", "7:1")]));
    assert_eq!(
        drawn(&levels),
        "store: ext4 on / on vda, virtio1, PCI 0000:00:02.0, host bridge pci0000:00, the host
  disk: /dev/loop0 on /images/a
  disk: /dev/loop1 on /images/b
"
    );
}

#[test]
fn files_of_one_file_system_share_it_wherever_it_is_mounted() {
    let tree = virtual_machine();
    tree.mounts(&[("254:0", "/", "ext4", "/dev/vda", "rw"), ("254:0", "/other", "ext4", "/dev/vda", "rw")]);
    let levels = group(&[tree.file_target("/a"), tree.file_target("/other/b")]);
    assert_eq!(levels.part.name, "ext4 on /");
}

#[test]
fn sas_disks_meet_at_the_expander_and_then_at_the_adapter() {
    let tree = sas_machine();
    let levels = group(&five_sas_disks(&tree));
    assert_eq!(
        drawn(&levels),
        "adapter: PCI 0000:01:00.0 (mpt3sas) on PCI port 0000:00:01.0, host bridge pci0000:00, the host
  link: expander-0:0 on port-0:0
    disk: /dev/sda on port-0:0:0
    disk: /dev/sdb on port-0:0:1
    disk: /dev/sdc on port-0:0:2
    disk: /dev/sdd on port-0:0:3
  disk: /dev/sde on port-0:1
"
    );
    // The disk on a link of its own comes second: as late as possible do two share a link.
    assert_eq!(levels.order(), [0, 4, 1, 2, 3]);
    let link = &levels.below[0];
    assert_eq!(link.on[0].limit, Some(Rate::bytes_per_second(4.8e9)), "four phys of 12 Gbit/s");
    let kinds: Vec<Kind> =
        levels.all().iter().filter(|group| group.path.is_none()).map(|group| group.part.kind).collect();
    assert_eq!(kinds, [Kind::Link, Kind::Adapter], "a level comes after those below it");
}

#[test]
fn nvme_drives_meet_at_the_switch_and_then_at_the_host_bridge() {
    let tree = nvme_machine();
    let drives = [("/dev/nvme0n1", "259:0"), ("/dev/nvme1n1", "259:1"), ("/dev/nvme2n1", "259:2")];
    let levels = group(&devices(&tree, &drives));
    assert_eq!(
        drawn(&levels),
        "backplane: host bridge pci0000:00 on the host
  backplane: PCI port 0000:01:00.0 on PCI port 0000:00:01.0
    disk: /dev/nvme0n1 on nvme0, PCI 0000:03:00.0, PCI port 0000:02:00.0
    disk: /dev/nvme1n1 on nvme1, PCI 0000:04:00.0, PCI port 0000:02:01.0
  disk: /dev/nvme2n1 on nvme2, PCI 0000:05:00.0, PCI port 0000:00:1d.0
"
    );
    assert_eq!(levels.order(), [0, 2, 1]);
}

#[test]
fn sata_disks_meet_at_the_adapter_and_partitions_at_their_disk() {
    let tree = sata_machine();
    let all = [("/dev/sda1", "8:1"), ("/dev/sdb", "8:16"), ("/dev/sda", "8:0")];
    assert_eq!(
        drawn(&group(&devices(&tree, &all))),
        "adapter: PCI 0000:00:17.0 on host bridge pci0000:00, the host
  store: sda on ata1
    disk: /dev/sda1
    disk: /dev/sda
  disk: /dev/sdb on ata2
"
    );
}

#[test]
fn disks_on_two_adapters_meet_at_the_host_bridge_or_at_the_host() {
    let tree = sas_machine();
    tree.disk("pci0000:40/0000:40:02.0/virtio1/block", "vda", "254:0", Bytes::gib(10));
    tree.file("sys/devices/pci0000:40/0000:40:02.0/class", "0x010000");
    let levels = group(&devices(&tree, &[("/dev/sda", "8:0"), ("/dev/vda", "254:0")]));
    assert_eq!((levels.part.kind, levels.part.name.as_str()), (Kind::Host, "the host"));
    assert_eq!(levels.below.len(), 2);
}

#[test]
fn arrays_over_the_same_disks_share_them_and_one_over_other_disks_does_not() {
    let tree = sata_machine();
    for (i, disk) in ["sda", "sdb"].iter().enumerate() {
        let at = format!("pci0000:00/0000:00:17.0/ata{0}/host{1}/target{1}:0:0/{1}:0:0:0/block/{disk}", i + 1, i);
        tree.partition(&at, &format!("{disk}2"), &format!("8:{}", i * 16 + 2), 2, Bytes::gib(1));
    }
    tree.md("md0", "9:0", "raid1", &["sda1", "sdb1"]).md("md1", "9:1", "raid0", &["sda2", "sdb2"]);
    tree.md("md2", "9:2", "raid0", &["sdc1", "sdd1"]);
    let levels = group(&devices(&tree, &[("/dev/md0", "9:0"), ("/dev/md1", "9:1"), ("/dev/md2", "9:2")]));
    assert_eq!(
        drawn(&levels),
        "adapter: PCI 0000:00:17.0 on host bridge pci0000:00, the host
  store: sda, sdb
    disk: /dev/md0 on md0 (raid1)
    disk: /dev/md1 on md1 (raid0)
  disk: /dev/md2 on md2 (raid0)
"
    );
}

#[test]
fn an_array_and_one_of_its_disks_share_that_disk() {
    let tree = sata_machine();
    tree.md("md0", "9:0", "raid1", &["sda1", "sdb1"]);
    let levels = group(&devices(&tree, &[("/dev/md0", "9:0"), ("/dev/sdb", "8:16"), ("/dev/sdd", "8:48")]));
    assert_eq!(levels.below[0].part.name, "sda, sdb");
    assert_eq!(levels.below[0].order(), [0, 1]);
    assert_eq!(levels.order(), [0, 2, 1]);
}

#[test]
fn files_in_memory_share_nothing_but_the_host_with_those_on_a_disk() {
    let tree = virtual_machine();
    let levels = group(&[tree.file_target("/tmp/memory/a"), tree.file_target("/tmp/memory/b"), tree.file_target("/c")]);
    assert_eq!(
        drawn(&levels),
        "host: the host
  store: tmpfs on /tmp/memory
    disk: /tmp/memory/a
    disk: /tmp/memory/b
  disk: /c on ext4 on /, vda, virtio1, PCI 0000:00:02.0, host bridge pci0000:00
"
    );
}

#[test]
fn a_path_named_twice_is_two_paths_in_one_store() {
    let tree = sas_machine();
    let levels = group(&devices(&tree, &[("/dev/sda", "8:0"), ("/dev/sda", "8:0")]));
    assert_eq!((levels.part.kind, levels.order()), (Kind::Store, vec![0, 1]));
}

#[test]
fn round_robin_takes_from_each_in_turn() {
    assert_eq!(round_robin(vec![vec![0, 1, 2], vec![3], vec![4, 5]]), [0, 3, 4, 1, 5, 2]);
    assert!(round_robin::<u8>(vec![]).is_empty());
    assert_eq!(round_robin(vec![vec![], vec![7]]), [7]);
}

proptest! {
    /// Every element once, and at no point has one list given two more than another that still has some.
    #[test]
    fn round_robin_is_a_fair_permutation(lengths in prop::collection::vec(0usize..8, 0..6)) {
        let lists: Vec<Vec<(usize, usize)>> =
            lengths.iter().enumerate().map(|(list, length)| (0..*length).map(|i| (list, i)).collect()).collect();
        let order = round_robin(lists.clone());
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, lists.concat());
        let mut taken = vec![0usize; lengths.len()];
        for (list, i) in order {
            prop_assert_eq!(taken[list], i, "a list keeps its order");
            taken[list] += 1;
            for other in 0..lengths.len() {
                prop_assert!(taken[list] <= taken[other] + 1 || taken[other] == lengths[other]);
            }
        }
    }
}
