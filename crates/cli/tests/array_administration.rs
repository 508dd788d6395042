//! What an administrator of arrays does besides making and serving them, as it is typed.

mod common;
#[path = "common/served.rs"]
mod served;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use common::{Desk, Loop};
use served::{Server, done, say};

const MIB: usize = 1 << 20;

fn write(desk: &Desk, name: &str, at: u64, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().write(true).open(desk.path().join(name)).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

fn bytes(desk: &Desk, name: &str) -> Vec<u8> {
    std::fs::read(desk.path().join(name)).unwrap()
}

#[test]
fn two_names_of_one_store_are_found_before_anything_is_written() {
    let desk = Desk::new("");
    let file = desk.file("f", 16 * MIB);
    let before = bytes(&desk, "f");
    std::fs::hard_link(&file, desk.path().join("hard")).unwrap();
    std::os::unix::fs::symlink(&file, desk.path().join("link")).unwrap();
    done(&desk, "array create --level 1 --size 16MiB a b");
    let members = bytes(&desk, "a");
    let refused = |words: &str| {
        let said = say(&desk, words);
        let is_said = said.stderr.contains("are one store") || said.stderr.contains("are the same");
        assert!(said.code == 2 && is_said, "{words}: {} {}{}", said.code, said.stdout, said.stderr);
        assert!(bytes(&desk, "f") == before && bytes(&desk, "a") == members, "{words}");
    };
    for other in ["hard", "link"] {
        refused(&format!("array create --level 1 --destroy-data f {other}"));
        refused(&format!("array create --level 5 --destroy-data --size 16MiB --journal {other} f x y"));
    }
    let (Some(one), Some(other)) = (Loop::over(&file), Loop::over(&file)) else {
        return common::skip("there are no loop devices; it would make an array of two over one file");
    };
    let (one, other) = (&one.node, &other.node);
    for pair in [format!("{one} {other}"), format!("{one} f")] {
        refused(&format!("array create --level 1 --destroy-data {pair}"));
        refused(&format!("array create --level 1 --destroy-data --size 16MiB --spare {pair} x"));
    }
    // And of a member in use, at rest and served.
    let Some(under) = Loop::over(&desk.path().join("a")) else { return };
    for words in ["add --device", "replace --member b --onto"] {
        refused(&format!("array {words} {} --destroy-data a b", under.node));
    }
    drop(under);
    let Some(server) = Server::start(&desk, "a b") else { return };
    let under = Loop::over(&desk.path().join("a")).expect("there was one before");
    let under = &under.node;
    let said = say(&desk, &format!("array add --destroy-data --device {under} --device {under} a b"));
    assert!(said.code == 2 && said.stderr.contains("are one store"), "{}", said.stderr);
    assert_eq!(server.stop().0.code, 0);
}

#[test]
fn two_exports_of_one_file_are_one_store() {
    let desk = Desk::new("");
    desk.file("f", 16 * MIB);
    let before = bytes(&desk, "f");
    let uri = |name: &str| format!("nbd+unix:///?socket={}", desk.path().join(name).display());
    let mut servers = Vec::new();
    for name in ["n.sock", "m.sock"] {
        let socket = desk.path().join(name);
        let mut server = Command::new("nbdkit");
        server.args(["--foreground", "--exit-with-parent", "-U"]).arg(&socket).arg("file").arg(desk.path().join("f"));
        let Ok(server) = server.spawn() else {
            return common::skip("there is no nbdkit; it would offer one file twice");
        };
        servers.push(server);
        common::wait_for("its socket", || socket.exists());
    }
    let said = say(&desk, &format!("array create --level 1 --destroy-data {} {}", uri("n.sock"), uri("m.sock")));
    assert!(said.code == 2 && said.stderr.contains("are one store"), "{}", said.stderr);
    assert!(bytes(&desk, "f") == before);
    // A new member that is the store of one in use, by another address.
    done(&desk, "array create --level 1 --destroy-data --size 16MiB a f");
    let members = bytes(&desk, "f");
    let device = uri("n.sock");
    let said = say(&desk, &format!("array add --destroy-data --device {device} --device {device} a f"));
    assert!(said.code == 2 && said.stderr.contains("are one store"), "{}", said.stderr);
    assert!(bytes(&desk, "f") == members);
    for mut server in servers {
        server.kill().unwrap();
        server.wait().unwrap();
    }
}

#[test]
fn whatever_is_no_member_is_named_with_the_command_that_goes_on() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 8MiB a b");
    let size = 8 * MIB as u64;
    let md = |version: u64| {
        let mut superblock = vec![0u8; 256];
        superblock[..8].copy_from_slice(b"\xfc\x4e\x2b\xa9\x01\0\0\0");
        superblock[144..152].copy_from_slice(&version.to_le_bytes());
        superblock
    };
    let cases: [(&str, u64, Vec<u8>, &str, &str); 8] = [
        ("old", size - 65536, b"\xfc\x4e\x2b\xa9\0\0\0\0\x5a\0\0\0".to_vec(), "version 0.90", "mdadm --examine old"),
        ("one", size - 8192, md((size - 8192) / 512), "version 1.0", "mdadm --examine one"),
        ("first", 0, md(0), "version 1.1", "mdadm --assemble --scan"),
        ("ddf", size - 512, b"\xde\x11\xde\x11".to_vec(), "member of a DDF array", "mdadm --examine ddf"),
        ("imsm", size - 1024, b"Intel Raid ISM Cfg Sig. 1.3.00".to_vec(), "Intel Matrix RAID", "IMSM_NO_PLATFORM=1"),
        ("imsm4k", size - 8192, b"Intel Raid ISM Cfg Sig. 1.3.00".to_vec(), "Intel Matrix RAID", "mdadm --examine"),
        ("luks", 0, b"LUKS\xba\xbe\0\x02".to_vec(), "LUKS encrypted volume", "cryptsetup luksDump luks"),
        ("pv", 512, b"LABELONE\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0LVM2 001".to_vec(), "LVM2 volume", "pvs pv"),
    ];
    for (name, at, bytes, what, next) in cases {
        desk.write(name, "");
        std::fs::OpenOptions::new().write(true).open(desk.path().join(name)).unwrap().set_len(size).unwrap();
        write(&desk, name, at, &bytes);
        let said = say(&desk, &format!("array examine a {name}"));
        assert_eq!(said.code, 2, "{name}: {}", said.stderr);
        assert!(said.stderr.contains(what) && said.stderr.contains(next), "{name}: {}", said.stderr);
        assert!(said.stdout.starts_with("a\n") && said.stdout.contains("  state "), "{}", said.stdout);
        let document = say(&desk, &format!("array examine --json a {name}")).json();
        assert_eq!((document[0]["role"].as_str(), document[1]["path"].as_str()), (Some("member"), Some(name)));
        assert!(document[1]["error"].as_str().unwrap().contains(what), "{document}");
        // Beside members it is what one of them has become.
        let status = say(&desk, &format!("array status --json a {name}"));
        assert_eq!(status.code, 0, "{}", status.stderr);
        assert!(status.json()["others"][0]["error"].as_str().unwrap().contains(what), "{}", status.stdout);
    }
}

#[test]
fn a_disk_whose_partition_is_the_member_is_told_from_an_empty_one() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 8MiB a b");
    let member = bytes(&desk, "a");
    let disk = [vec![0; MIB], member].concat();
    std::fs::write(desk.path().join("disk"), disk).unwrap();
    let mut table = vec![0; 66];
    // The first of four entries, as written by fdisk: Linux raid, from 1 MiB on.
    table[4] = 0xfd;
    table[8..12].copy_from_slice(&2048u32.to_le_bytes());
    table[12..16].copy_from_slice(&(8 * 2048u32).to_le_bytes());
    table[64..].copy_from_slice(&[0x55, 0xaa]);
    write(&desk, "disk", 446, &table);
    let said = say(&desk, "array examine disk");
    let next =
        "losetup --find --show --partscan disk; then, if that prints /dev/loop0: arraylab array examine /dev/loop0p1";
    assert!(
        said.code == 2 && said.stderr.contains("its partition 1 is a member of a Linux md array"),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains(next), "{}", said.stderr);
    let made = Command::new("losetup").args(["--find", "--show", "--partscan"]).arg(desk.path().join("disk")).output();
    let Some(device) = made.ok().filter(|made| made.status.success()) else {
        return common::skip("there are no loop devices; it would examine a partition");
    };
    let device = String::from_utf8(device.stdout).unwrap().trim().to_owned();
    let said = say(&desk, &format!("array examine {device}"));
    assert!(said.stderr.contains(&format!("next: arraylab array examine {device}p1")), "{}", said.stderr);
    if Path::new(&format!("{device}p1")).exists() {
        assert_eq!(say(&desk, &format!("array examine {device}p1")).code, 0);
        let both =
            say(&desk, &format!("array create --level 1 --destroy-data {device} {device} {device}p1 {device}p1"));
        assert!(both.code == 2 && both.stderr.contains("are one store"), "{}", both.stderr);
    }
    assert!(Command::new("losetup").args(["--detach", &device]).status().unwrap().success());
}

#[test]
fn status_answers_for_the_array_when_a_named_member_is_empty_or_gone() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 8MiB a b c");
    std::fs::File::create(desk.path().join("blank")).unwrap().set_len(8 << 20).unwrap();
    desk.write("tiny", "x");
    let ask = |other: &str, why: &str| {
        let status = say(&desk, &format!("array status --json a b {other}"));
        assert_eq!(status.code, 0, "{other}: {}", status.stderr);
        let document = status.json();
        let others = document["others"].as_array().unwrap().iter().chain(document["members"].as_array().unwrap());
        let said: Vec<&str> = others.filter_map(|it| it["error"].as_str()).collect();
        assert!(said.len() == 1 && said[0].contains(why), "{other}: {}", status.stdout);
    };
    let all = |ask: &dyn Fn(&str, &str)| {
        ask("gone", "no such file or device");
        ask("blank", "it is empty, or was wiped");
        ask("tiny", "less than one block");
        ask(".", "directory");
    };
    all(&ask);
    let Some(server) = Server::start(&desk, "a b c") else { return };
    all(&ask);
    // A member of the served array that says nothing any more, and the only one named.
    write(&desk, "c", 0, &[0; 16384]);
    ask("c", "no md superblock");
    let status = say(&desk, "array status c");
    assert!(
        status.code == 0 && status.stdout.contains("served        by process"),
        "{}{}",
        status.stdout,
        status.stderr
    );
    assert!(status.stdout.contains("active      c: it has no md superblock"), "{}", status.stdout);
    server.stop();
}

/// At byte 184 of the superblock: 1 write-mostly, 2 failfast.
#[test]
fn a_member_that_failed_and_is_added_keeps_its_flags() {
    for (level, members, others) in [("1", "a b", "a"), ("5", "a b c", "a c")] {
        for is_served in [false, true] {
            let desk = Desk::new("");
            done(&desk, &format!("array create --level {level} --size 8MiB {members}"));
            flag(&desk, "b", 3);
            let server = is_served.then(|| Server::start(&desk, members));
            if server.as_ref().is_some_and(Option::is_none) {
                return;
            }
            done(&desk, &format!("array fail --member b {members}"));
            done(&desk, &format!("array add --device b {others}"));
            if let Some(Some(server)) = server {
                assert_eq!(server.stop().0.code, 0);
            }
            let said = say(&desk, "array examine --json a b").json();
            let of = |member: usize| (said[member]["write_mostly"].as_bool(), said[member]["failfast"].as_bool());
            assert_eq!((of(0), of(1)), ((Some(false), Some(false)), (Some(true), Some(true))), "level {level}");
            let status = say(&desk, &format!("array status {members}")).stdout;
            assert!(status.contains("active      b, write-mostly, failfast"), "{status}");
        }
    }
}

/// Sets the flags of a member, as mdadm writes them.
fn flag(desk: &Desk, name: &str, flags: u8) {
    let mut all = bytes(desk, name);
    let superblock = &mut all[4096..8192];
    superblock[184] = flags;
    let length = 256 + 2 * u32::from_le_bytes(superblock[220..224].try_into().unwrap()) as usize;
    superblock[216..220].fill(0);
    let words = superblock[..length].chunks_exact(4);
    let sum: u64 = words.map(|word| u64::from(u32::from_le_bytes(word.try_into().unwrap()))).sum();
    superblock[216..220].copy_from_slice(&((sum as u32).wrapping_add((sum >> 32) as u32)).to_le_bytes());
    std::fs::write(desk.path().join(name), all).unwrap();
}

#[test]
fn superblocks_are_erased_and_nothing_else() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --consistency bitmap --size 8MiB a b c");
    desk.file("other", 8 * MIB);
    let before: Vec<Vec<u8>> = ["a", "b", "c", "other"].map(|name| bytes(&desk, name)).to_vec();
    let unchanged = || ["a", "b", "c", "other"].iter().zip(&before).all(|(name, before)| bytes(&desk, name) == *before);
    let said = say(&desk, "array zero a b c");
    assert!(said.code == 2 && said.stderr.contains("array zero --destroy-data a b c"), "{}", said.stderr);
    let said = say(&desk, "array zero --destroy-data other");
    assert!(said.code == 2 && said.stderr.contains("no md superblock on other"), "{}", said.stderr);
    if let Some(server) = Server::start(&desk, "a b c") {
        let said = say(&desk, "array zero --destroy-data b");
        assert!(said.code == 2 && said.stderr.contains("is being served by process"), "{}", said.stderr);
        assert_eq!(server.stop().0.code, 0);
    }
    assert!(unchanged());
    if let Some(over) = Loop::over(&desk.path().join("a")) {
        // A loop device is a use of the file; the device itself is not in use.
        let said = say(&desk, "array zero --destroy-data a b");
        assert!(said.code == 2 && said.stderr.contains(&over.node[5..]), "{}", said.stderr);
        assert!(unchanged());
    }
    let said = done(&desk, "array zero --destroy-data a b other");
    assert_eq!(
        said,
        "a: erased md superblock of version 1.2, 4 KiB at 4 KiB\na: erased header of a bitmap, 256 B at 8 KiB\n\
         b: erased md superblock of version 1.2, 4 KiB at 4 KiB\nb: erased header of a bitmap, 256 B at 8 KiB\n\
         other: no md superblock; nothing erased\n"
    );
    for (name, before) in ["a", "b"].iter().zip(&before) {
        let now = bytes(&desk, name);
        let differs = |at: &usize| now[*at] != before[*at];
        assert!((0..now.len()).filter(differs).all(|at| (4096..8448).contains(&at)), "{name}");
    }
    assert!(bytes(&desk, "c") == before[2] && bytes(&desk, "other") == before[3]);
    let status = say(&desk, "array status a b c");
    assert!(status.stdout.contains("broken: 2 members are not whole"), "{}", status.stdout);
    // Given again, as somebody would whose first command was killed.
    let again = say(&desk, "array zero --json --destroy-data a b c").json();
    let erased: Vec<usize> =
        again.as_array().unwrap().iter().map(|it| it["erased"].as_array().unwrap().len()).collect();
    assert_eq!(erased, [0, 0, 2], "{again}");
    // They are what any file is now.
    done(&desk, "array create --level 1 --destroy-data a b");
}

#[test]
fn the_settings_of_a_stopped_array_change() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 16MiB --name old a b");
    let of = |words: &str| say(&desk, words).json();
    let set = of("array set --json --name new --write-mostly b --failfast a --consistency resync a b");
    assert_eq!((set["name"].as_str(), set["consistency"].as_str()), (Some("new"), Some("resync")), "{set}");
    assert_eq!(set["members"][1]["flags"].as_str(), Some("write-mostly"), "{set}");
    assert_eq!(set["members"][0]["flags"].as_str(), Some("failfast"), "{set}");
    let set = of("array set --json --no-write-mostly ./b --no-failfast a --consistency bitmap --bitmap-chunk 1MiB a b");
    assert!(set["members"][0]["flags"].is_null() && set["members"][1]["flags"].is_null(), "{set}");
    assert_eq!((set["consistency"].as_str(), set["clean"].as_bool()), (Some("bitmap"), Some(true)));
    let refused = |words: &str, why: &str| {
        let said = say(&desk, words);
        assert!(said.code == 2 && said.stderr.contains(why), "{words}: {} {}{}", said.code, said.stdout, said.stderr);
    };
    refused("array set a b", "required arguments were not provided");
    refused("array set --name x a", "Name all members of the array");
    refused("array set --consistency ppl a b", "level 1");
    refused("array set --write-mostly c a b", "c is not a member in use");
    refused("array set --write-mostly a --no-write-mostly ./a a b", "name it with one of them");
    refused("array set --bitmap-chunk 3MiB a b", "a power of two");
    if let Some(server) = Server::start(&desk, "a b") {
        refused("array set --name x a b", "is being served by process");
        assert_eq!(server.stop().0.code, 0);
    }
    done(&desk, "array create --level 5 --size 16MiB --journal j c d e");
    refused("array set --consistency ppl c d e j", "array stop --force");
    done(&desk, "array set --name x c d e j");
    // Checksums know the superblocks beside which they count: they are told of the new ones.
    done(&desk, "array create --level 5 --integrity --size 16MiB k l m");
    done(&desk, "array scrub k l m");
    done(&desk, "array set --consistency bitmap --name x k l m");
    done(&desk, "array scrub k l m");
    let examined = of("array examine --json k l m");
    let renewed = |member: usize| examined[member]["checksums"]["renewed"].as_u64();
    assert!((0..3).all(|member| renewed(member) == Some(0)), "{examined}");
    done(&desk, "array create --level 6 --size 16MiB f g h i");
    for way in ["resync", "ppl", "bitmap", "ppl"] {
        let set = of(&format!("array set --json --consistency {way} f g h i"));
        let expected = if way == "ppl" { "partial parity log and bitmap" } else { way };
        assert_eq!(set["consistency"].as_str(), Some(expected), "{set}");
        done(&desk, "array scrub f g h i");
    }
}
