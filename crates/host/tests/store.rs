//! Which paths hold the same bytes: on recorded machines, of real files, and (as root) of real loop devices.

mod trees;

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use host::Kernel;
use host::store::Extents;
use trees::Tree;
use units::Bytes;

fn shared(kernel: &Kernel, one: &Path, other: &Path) -> Option<String> {
    Extents::of(kernel, one).shared_with(&Extents::of(kernel, other)).map(|shared| shared.to_string())
}

#[test]
fn a_file_is_one_store_by_every_name() {
    let desk = tempfile::tempdir().unwrap();
    let path = |name: &str| desk.path().join(name);
    let kernel = Kernel::running();
    std::fs::write(path("a"), [1; 4096]).unwrap();
    std::fs::write(path("b"), [1; 4096]).unwrap();
    symlink(path("a"), path("link")).unwrap();
    std::fs::hard_link(path("a"), path("hard")).unwrap();
    for other in ["a", "link", "hard", "../a"] {
        let other = if other == "../a" { path(".").join(".").join("a") } else { path(other) };
        let said = shared(&kernel, &path("a"), &other).expect("it is the same file");
        assert!(said.starts_with("bytes 0 to 4096 of "), "{said}");
    }
    assert_eq!(shared(&kernel, &path("a"), &path("b")), None);
    assert_eq!(shared(&kernel, &path("a"), &path("nothing")), None);
}

/// Of two disks and their partitions, of which one is reached by two paths.
#[test]
fn a_partition_shares_its_disk_and_no_other_partition() {
    let tree = Tree::new();
    for (name, number) in [("sda", "8:0"), ("sdb", "8:16")] {
        let major = number.split(':').next_back().unwrap().parse::<u32>().unwrap();
        tree.disk("virtual/block", name, number, Bytes::gib(1));
        tree.partition(
            &format!("virtual/block/{name}"),
            &format!("{name}1"),
            &format!("8:{}", major + 1),
            1,
            Bytes::mib(256),
        );
        tree.partition(
            &format!("virtual/block/{name}"),
            &format!("{name}2"),
            &format!("8:{}", major + 2),
            2,
            Bytes::mib(256),
        );
        // The first ends where the second begins.
        tree.file(&format!("sys/devices/virtual/block/{name}/{name}2/start"), &(2048 + 256 * 2048).to_string());
    }
    let kernel = tree.kernel();
    let of = |name: &str| Extents::of_device(&kernel, name);
    let is_one = |one: &str, other: &str| of(one).shared_with(&of(other)).is_some();
    assert!(is_one("sda", "sda1") && is_one("sda2", "sda") && is_one("sda1", "sda1"));
    assert!(!is_one("sda1", "sda2") && !is_one("sda", "sdb") && !is_one("sda1", "sdb1"));
    let said = of("sda2").shared_with(&of("sda")).unwrap().to_string();
    assert_eq!(said, format!("bytes {} to {} of /dev/sda", (1 + 256) << 20, (1 + 512) << 20));
    // Two paths to one unit, and a device over both; then with serial numbers that differ.
    for name in ["sda", "sdb"] {
        tree.file(&format!("sys/devices/virtual/block/{name}/device/wwid"), "naa.5000c500a1b2c3d4");
    }
    assert!(is_one("sda", "sdb") && is_one("sda1", "sdb") && is_one("sda1", "sdb1") && !is_one("sda1", "sdb2"));
    tree.dm("dm-0", "253:0", "mpatha", "mpath-35000c500a1b2c3d4", &["sda", "sdb"]);
    assert!(is_one("dm-0", "sda") && is_one("sdb2", "dm-0"));
    tree.file("sys/devices/virtual/block/sdb/device/serial", "one of many with that name");
    assert!(!is_one("sda", "sdb"));
}

#[test]
fn loop_devices_over_one_file_are_one_store_where_they_overlap() {
    let desk = tempfile::tempdir().unwrap();
    let file = desk.path().join("file");
    std::fs::write(&file, vec![0; 8 << 20]).unwrap();
    let over = |words: &[&str]| {
        let made = Command::new("losetup").args(["--find", "--show"]).args(words).arg(&file).output().ok()?;
        made.status.success().then(|| String::from_utf8(made.stdout).unwrap().trim().to_owned())
    };
    let all = [over(&[]), over(&[]), over(&["--offset", "4194304"]), over(&["--sizelimit", "4194304"])];
    let devices: Vec<&String> = all.iter().flatten().collect();
    if let [whole, again, second, first] = devices[..] {
        let kernel = Kernel::running();
        let is_one = |one: &str, other: &str| shared(&kernel, Path::new(one), Path::new(other)).is_some();
        assert!(is_one(whole, again) && is_one(whole, second) && is_one(first, whole));
        assert!(!is_one(first, second));
        assert!(is_one(whole, file.to_str().unwrap()) && is_one(file.to_str().unwrap(), second));
    } else {
        eprintln!("skipped: there are no loop devices here; it would compare four over one file");
    }
    for device in devices {
        assert!(Command::new("losetup").args(["--detach", device]).status().unwrap().success());
    }
}
