//! What programs of others do with an array that is served: they copy, verify and keep file systems on it, while it
//! fails, is rebuilt and scrubbed.

mod common;
#[path = "common/served.rs"]
mod served;

use std::path::Path;
use std::process::Command;

use common::{Desk, Running, is_root, names, of, pattern, peer, skip, wait_for};
use serde_json::{Value, json};
use served::{Server, done, say};

const MIB: usize = 1 << 20;

#[test]
fn programs_copy_to_and_from_arrays_that_lose_a_member() {
    let desk = Desk::new("");
    let size = 16 * MIB;
    let from = desk.path().join("from.img");
    std::fs::write(&from, pattern(size)).unwrap();
    let path = |name: &str| desk.path().join(name).to_str().unwrap().to_owned();
    for (level, members, lost) in [("5", "a b c", "b"), ("6", "d e f g", "d"), ("1", "h i", "i"), ("10", "j k l", "j")]
    {
        done(&desk, &format!("array create --level {level} --size 24MiB {members}"));
        let Some(server) = Server::start(&desk, members) else { return };
        let uri = server.uri();
        if !peer("nbdcopy", &["--flush", &path("from.img"), &uri]) {
            return;
        }
        done(&desk, &format!("array fail --member {lost} {members}"));
        let there = path("there.img");
        assert!(peer("nbdcopy", &["--connections=4", &uri, &there]));
        assert!(std::fs::read(&there).unwrap()[..size] == pattern(size), "level {level}");
        let qcow = path("q.qcow2");
        if peer("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, &qcow]) {
            peer("qemu-img", &["convert", "-n", "-f", "qcow2", "-O", "raw", &qcow, &uri]);
            peer("qemu-img", &["compare", "-f", "qcow2", "-F", "raw", &qcow, &uri]);
        }
        let (said, events) = server.stop();
        assert!(said.code == 0 && said.stderr.contains(" 0 errors"), "{}", said.stderr);
        assert_eq!(names(&events), ["member-failed"], "{events:?}");
    }
}

/// What is copied in holes takes no room on the members, and is a hole for who copies from there; what is discarded
/// takes none any more.
#[test]
fn holes_are_copied_to_and_from_an_array_without_parity() {
    use std::os::unix::fs::MetadataExt;
    let desk = Desk::new("");
    let path = |name: &str| desk.path().join(name).to_str().unwrap().to_owned();
    let stored = |name: &str| std::fs::metadata(path(name)).unwrap().blocks() as usize * 512;
    let from = std::fs::File::create(path("from.img")).unwrap();
    std::io::Write::write_all(&mut &from, &pattern(8 * MIB)).unwrap();
    from.set_len(40 << 20).unwrap();
    drop(from);
    for (level, members) in [("0", "a b"), ("1", "c d"), ("10", "e f g")] {
        // Files that it makes have all their room.
        members.split(' ').for_each(|name| std::fs::File::create(path(name)).unwrap().set_len(64 << 20).unwrap());
        done(&desk, &format!("array create --level {level} {members} --destroy-data"));
        let Some(server) = Server::start(&desk, members) else { return };
        let uri = server.uri();
        if !peer("nbdcopy", &["--flush", &path("from.img"), &uri]) {
            return;
        }
        let on_members = || members.split(' ').map(stored).sum::<usize>();
        let copies = if level == "0" { 1 } else { 2 };
        // Beside the data there are superblocks and a bitmap.
        let copied = on_members();
        assert!((8 * copies * MIB..(8 * copies + 2) * MIB).contains(&copied), "level {level}: {copied} B");
        let there = path("there.img");
        assert!(peer("nbdcopy", &[&uri, &there]));
        assert!(std::fs::read(&there).unwrap()[..40 * MIB] == std::fs::read(path("from.img")).unwrap()[..]);
        assert!(stored("there.img") < 9 * MIB, "{} B", stored("there.img"));
        if peer("qemu-io", &["-f", "raw", "-c", "discard 0 8M", "-c", "read -P 0 0 8M", &uri]) {
            assert!(on_members() + 8 * copies * MIB <= copied, "level {level}: {} of {copied} B", on_members());
        }
        let (said, _) = server.stop();
        assert!(said.code == 0 && said.stderr.contains(" 0 errors"), "{}", said.stderr);
        if level != "0" {
            let found = done(&desk, &format!("array scrub {members}"));
            assert!(found.contains("0 blocks did not fit"), "{found}");
        }
    }
}

#[test]
fn what_fio_writes_is_there_while_a_member_fails_and_is_rebuilt_and_all_is_scrubbed() {
    let desk = Desk::new("");
    done(&desk, "array create --level 6 --stripe-unit 16KiB --size 12MiB a b c d e");
    let Some(server) = Server::start(&desk, "a b c d e") else { return };
    let uri = format!("--uri={}", server.uri());
    let words = [
        "--name=verify",
        "--ioengine=nbd",
        &uri,
        "--rw=randrw",
        "--bsrange=512-128k",
        "--size=32m",
        "--iodepth=8",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--fsync=50",
        "--verify_state_save=0",
        "--rate=4m,4m",
        "--loops=2",
    ];
    let load = std::thread::spawn({
        let words = words.map(str::to_owned);
        move || peer("fio", &words.each_ref().map(String::as_str))
    });
    let all = "a b c d e";
    done(&desk, &format!("array fail --member c {all}"));
    assert_eq!(say(&desk, &format!("array scrub {all}")).code, 2, "parity is compared with all data only");
    done(&desk, &format!("array rebuild --onto f --size 12MiB {all} --rate 20MB/s"));
    let all = "a b d e f";
    done(&desk, &format!("array scrub {all}"));
    done(&desk, &format!("array replace --member a --onto g --size 12MiB {all}"));
    let all = "b d e f g";
    done(&desk, &format!("array scrub {all} --repair"));
    let status: Value = serde_json::from_str(&done(&desk, &format!("array status --json {all}"))).unwrap();
    assert_eq!(status["not_whole"], serde_json::json!([]), "{status}");
    assert_eq!(status["served"]["process"], server.child.id());
    if !load.join().unwrap() {
        return;
    }
    let (said, events) = server.stop();
    assert!(said.code == 0 && said.stderr.contains(" 0 errors"), "{}", said.stderr);
    for name in ["rebuild-done", "replace-done"] {
        assert!(names(&events).contains(&name), "{events:?}");
    }
    let fits = json!({ "event": "scrub-done", "mismatches": 0 });
    assert!(events.iter().filter(|event| **event == fits).count() >= 2, "{events:?}");
    assert_eq!(serde_json::from_str::<Value>(&done(&desk, "array scrub --json b d e f g")).unwrap()["mismatches"], 0);
}

/// Detaches a mount of FUSE, whatever became of the test.
struct Mounted<'p>(&'p Path, Running);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
        let _ = self.1.wait();
    }
}

/// What is served, as a file; nothing, and said, where that cannot be.
fn as_file<'p>(server: &Server, image: &'p Path) -> Option<Mounted<'p>> {
    if !is_root() || !Path::new("/dev/fuse").exists() {
        skip("mounting needs root and /dev/fuse");
        return None;
    }
    std::fs::write(image, "").unwrap();
    let Ok(fuse) = Command::new("nbdfuse").arg(image).arg(server.uri()).spawn() else {
        skip("there is no nbdfuse; apt-get install libnbd-bin");
        return None;
    };
    let fuse = Mounted(image, Running::of(fuse));
    let size = server.said["size_bytes"].as_u64().unwrap();
    wait_for("nbdfuse mounts", || std::fs::metadata(image).is_ok_and(|file| file.len() == size));
    Some(fuse)
}

/// A file system on a new array of the desk's `a b c d`, as a file.
fn file_system<'p>(desk: &Desk, image: &'p Path) -> Option<(Server, Mounted<'p>)> {
    done(desk, "array create --level 5 --size 16MiB a b c d");
    let server = Server::start(desk, "a b c d")?;
    let fuse = as_file(&server, image)?;
    peer("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]).then_some((server, fuse))
}

/// `e2fsck` and `tune2fs` write parts of sectors, and nbdfuse hands them on as they are.
#[test]
fn a_file_system_is_mended_by_programs_that_write_single_bytes() {
    let desk = Desk::new("");
    let image = desk.path().join("array.img");
    let Some((server, fuse)) = file_system(&desk, &image) else { return };
    let file = image.to_str().unwrap();
    peer("e2fsck", &["-f", "-y", file]);
    peer("tune2fs", &["-L", "mended", file]);
    // A count of free blocks that is wrong: there is something to mend.
    peer("debugfs", &["-w", "-R", "set_super_value free_blocks_count 7", file]);
    let mended = of(Command::new("e2fsck").args(["-f", "-y", file]).output().unwrap());
    assert_eq!(mended.code, 1, "{}{}", mended.stdout, mended.stderr);
    peer("e2fsck", &["-f", "-n", file]);
    drop(fuse);
    let (said, _) = server.stop();
    assert!(said.code == 0 && said.stderr.contains(" 0 errors"), "{}", said.stderr);
    done(&desk, "array scrub a b c d");
}

#[test]
fn a_file_system_lives_on_an_array_that_loses_a_member() {
    let desk = Desk::new("");
    let image = desk.path().join("array.img");
    let Some((server, fuse)) = file_system(&desk, &image) else { return };
    let file = image.to_str().unwrap();
    let (folder, contents) = (desk.path().join("mnt"), pattern(6 * MIB));
    std::fs::create_dir(&folder).unwrap();
    let mounted = Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&folder).status();
    if mounted.is_ok_and(|status| status.success()) {
        std::fs::write(folder.join("before"), &contents).unwrap();
        done(&desk, "array fail --member d a b c d");
        std::fs::write(folder.join("after"), &contents).unwrap();
        done(&desk, "array rebuild --onto e --size 16MiB a b c");
        assert!(Command::new("umount").arg(&folder).status().unwrap().success());
        peer("e2fsck", &["-f", "-n", file]);
        done(&desk, "array fail --member a a b c e");
        assert!(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&folder).status().unwrap().success());
        for name in ["before", "after"] {
            assert!(std::fs::read(folder.join(name)).unwrap() == contents, "{name}");
        }
        assert!(Command::new("umount").arg(&folder).status().unwrap().success());
    } else {
        skip("loop devices are refused here: the file system is made and checked, not mounted");
    }
    peer("e2fsck", &["-f", "-n", file]);
    drop(fuse);
    let (said, _) = server.stop();
    assert!(said.code == 0 && said.stderr.contains(" 0 errors"), "{}", said.stderr);
}
