//! `arraylab serve` as its user meets it, and the programs of others as its clients: nbdinfo, nbdcopy, qemu-img, fio.

mod common;

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use common::{Desk, Loop, READS, Running, Said, of, skip, writes};
use serde_json::Value;

const MIB: usize = 1 << 20;

/// A server that has said where it is.
struct Server {
    child: Running,
    said: Value,
}

impl Server {
    fn start(desk: &Desk, words: &[&str]) -> Option<Server> {
        let mut child = desk.start(&[&["serve", "--json"], words].concat());
        let stdout = child.stdout.as_mut().unwrap();
        match serde_json::Deserializer::from_reader(stdout).into_iter::<Value>().next() {
            Some(Ok(said)) => Some(Server { child, said }),
            _ => {
                let said = of(child.wait_with_output().unwrap());
                assert!(said.stderr.contains("io_uring"), "{}", said.stderr);
                skip(&said.stderr);
                None
            }
        }
    }

    /// The URI of an export at an address.
    fn uri(&self, export: usize, address: usize) -> String {
        self.said["exports"][export]["uris"][address].as_str().unwrap().to_owned()
    }

    fn signal(&self, name: &str) {
        let kill = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.child.id())]).status().unwrap();
        assert!(kill.success());
    }

    /// Ends it as `kill` does, and what it said then.
    fn stop(self) -> Said {
        self.signal("TERM");
        of(self.child.wait_with_output().unwrap())
    }
}

/// What a program of others prints; `None`, and said, where it is absent.
fn peer(program: &str, words: &[&str]) -> Option<String> {
    match Command::new(program).args(words).output() {
        Ok(output) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success(), "{program} {words:?}: {stdout}{stderr}");
            Some(stdout)
        }
        Err(_) => {
            skip(&format!("there is no {program}; apt-get install libnbd-bin qemu-utils fio"));
            None
        }
    }
}

/// Bytes that differ everywhere.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64 / 8).flat_map(|n| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect()
}

#[test]
fn the_socket_is_this_user_s_and_goes_away_with_the_server() {
    let desk = Desk::new(READS);
    desk.file("disk.img", MIB);
    let Some(server) = Server::start(&desk, &["disk.img", "--nbd", "unix:s.sock"]) else { return };
    let socket = desk.path().join("s.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let expected = format!("nbd+unix:///?socket={}", socket.display());
    assert_eq!(server.uri(0, 0), expected);
    let second = desk.arraylab(&["serve", "disk.img", "--read-only", "--nbd", "unix:s.sock"]);
    assert_eq!(second.code, 2);
    let who = format!("a server is listening there (process {}); stop it, or name another path", server.child.id());
    assert!(second.stderr.contains(&who), "{}", second.stderr);
    let said = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    // The second one had to ask whether somebody is there, which counts as a connection if the server came to it before
    // its end.
    assert!(said.stderr.contains(", 0 requests: 0 B read"), "{}", said.stderr);
    assert!(!socket.exists());
}

#[test]
fn a_socket_at_which_nobody_listens_is_replaced_and_nothing_else_is() {
    let desk = Desk::new(READS);
    let disk = desk.file("disk.img", MIB);
    let said = desk.arraylab(&["serve", "disk.img", "--nbd", "unix:disk.img"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("is no socket") && disk.exists(), "{}", said.stderr);
    let said = desk.arraylab(&["serve", "disk.img", "--nbd", "unix:no/such/folder.sock"]);
    assert_eq!(said.code, 3);
    assert!(said.stderr.contains("name a path in a folder that you may write to"), "{}", said.stderr);
    drop(UnixListener::bind(desk.path().join("stale.sock")).unwrap());
    let Some(server) = Server::start(&desk, &["disk.img", "--nbd", "unix:stale.sock"]) else { return };
    assert!(std::os::unix::net::UnixStream::connect(desk.path().join("stale.sock")).is_ok());
    assert_eq!(server.stop().code, 0);
    assert!(!desk.path().join("stale.sock").exists());
}

#[test]
fn other_machines_are_served_by_tls_or_not_at_all() {
    let desk = Desk::new(READS);
    desk.file("disk.img", MIB);
    let said = desk.arraylab(&["serve", "disk.img", "--nbd", "tcp:0.0.0.0:0"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("add --tls DIR, or listen on tcp:127.0.0.1:0"), "{}", said.stderr);
    let said = desk.arraylab(&["serve", "disk.img", "--nbd", "tcp:0.0.0.0:0", "--tls", "."]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("ca-cert.pem cannot be read"), "{}", said.stderr);
}

/// The guard's rules, except that a file which was named to be served needs no consent while nothing is recognised in
/// it.
#[test]
fn data_are_not_written_by_accident() {
    let desk = Desk::new(READS);
    let disk = desk.file("disk.img", 4 * MIB);
    let file = std::fs::File::options().write(true).open(&disk).unwrap();
    // The magic number of ext4.
    file.write_all_at(&[0x53, 0xef], 1024 + 56).unwrap();
    let words = ["serve", "disk.img", "--nbd", "unix:s.sock"];
    let refused = |more: &[&str], next: &str| {
        let said = desk.arraylab(&[&words, more].concat());
        assert_eq!(said.code, 2, "{}", said.stderr);
        assert!(said.stderr.contains(next) && said.stderr.contains("--read-only"), "{}", said.stderr);
    };
    refused(&[], "add --destroy-data if that is meant, and name the path twice");
    refused(&["--destroy-data"], "name it a second time");
    for more in [&["--read-only"][..], &["--destroy-data", "disk.img"]] {
        let Some(server) = Server::start(&desk, &[&words[1..], more].concat()) else { return };
        assert_eq!(server.said["exports"].as_array().unwrap().len(), 1);
        assert_eq!(server.stop().code, 0);
    }
}

#[test]
fn our_own_client_loads_a_served_file() {
    let desk = Desk::new(READS);
    desk.file("disk.img", 4 * MIB);
    let Some(server) = Server::start(&desk, &["disk.img", "--nbd", "unix:s.sock", "--nbd", "tcp:127.0.0.1:0"]) else {
        return;
    };
    let (unix, tcp) = (server.uri(0, 0), server.uri(0, 1));
    let said = desk.arraylab(&["run", "load.toml", "--json", "--on", &format!("{unix},{tcp}")]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let total = &said.json()["total"];
    assert!(total["requests"].as_u64().unwrap() > 100 && total["errors"] == 0, "{total}");
    desk.write("load.toml", &writes());
    let said = desk.arraylab(&["run", "load.toml", "--on", &unix]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("add --destroy-data"), "{}", said.stderr);
    let said = desk.arraylab(&["run", "load.toml", "--json", "--destroy-data", "--on", &unix]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = server.stop();
    assert!(said.stderr.contains("3 connections") || said.stderr.contains("4 connections"), "{}", said.stderr);
    let said = desk.arraylab(&["run", "load.toml", "--on", &unix]);
    assert_eq!(said.code, 2, "consent comes first");
    let said = desk.arraylab(&["run", "load.toml", "--on", &unix, "--destroy-data"]);
    assert_eq!(said.code, 3);
    assert!(said.stderr.contains("is the server running"), "{}", said.stderr);
}

#[test]
fn nbdinfo_sees_what_is_offered() {
    let desk = Desk::new(READS);
    desk.file("one.img", 4 * MIB);
    std::fs::File::create(desk.path().join("two.img")).unwrap().set_len(8 << 20).unwrap();
    let words = ["one.img", "two.img", "--nbd", "unix:s.sock", "--nbd", "tcp:127.0.0.1:0"];
    let Some(server) = Server::start(&desk, &words) else { return };
    let tcp = server.uri(0, 1);
    let Some(list) = peer("nbdinfo", &["--list", "--json", tcp.strip_suffix("one.img").unwrap()]) else { return };
    let list: Value = serde_json::from_str(&list).unwrap();
    let exports = list["exports"].as_array().unwrap();
    assert_eq!(exports.len(), 2);
    let two = &exports[1];
    assert_eq!((&two["export-name"], &two["export-size"]), (&"two.img".into(), &(8 << 20).into()));
    for can in ["can_flush", "can_fua", "can_trim", "can_zero", "can_df", "can_multi_conn"] {
        assert_eq!(two[can], true, "{can}");
    }
    assert_eq!((&two["is_read_only"], &two["can_cache"]), (&false.into(), &false.into()));
    assert_eq!(two["block_size_minimum"], 1);
    assert_eq!(two["contexts"][0], "base:allocation");
    let map = peer("nbdinfo", &["--map", "--json", &server.uri(1, 0)]).unwrap();
    let map: Value = serde_json::from_str(&map).unwrap();
    assert_eq!((&map[0]["length"], &map[0]["type"]), (&(8 << 20).into(), &3.into()), "all of it is a hole");
    assert_eq!(server.stop().code, 0);
}

#[test]
fn nbdcopy_and_qemu_img_copy_to_and_from_a_served_file() {
    let desk = Desk::new(READS);
    let size = 24 * MIB;
    let from = desk.path().join("from.img");
    std::fs::write(&from, pattern(size)).unwrap();
    let disk = desk.file("disk.img", size);
    let Some(server) = Server::start(&desk, &["disk.img", "--nbd", "unix:s.sock"]) else { return };
    let (uri, there) = (server.uri(0, 0), desk.path().join("there.img"));
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    if peer("nbdcopy", &["--flush", &path(&from), &uri]).is_some() {
        assert!(std::fs::read(&disk).unwrap() == pattern(size), "what nbdcopy wrote is in the file");
        peer("nbdcopy", &["--connections=4", &uri, &path(&there)]);
        assert!(std::fs::read(&there).unwrap() == pattern(size), "and what it reads");
    }
    let qcow = path(&desk.path().join("q.qcow2"));
    if peer("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, &qcow]).is_some() {
        peer("qemu-img", &["compare", "-f", "qcow2", "-F", "raw", &qcow, &uri]);
        desk.file("disk.img", size);
        peer("qemu-img", &["convert", "-n", "-f", "qcow2", "-O", "raw", &qcow, &uri]);
        peer("qemu-img", &["compare", "-f", "qcow2", "-F", "raw", &qcow, &path(&disk)]);
    }
    let said = server.stop();
    assert!(said.code == 0 && said.stderr.contains(" 0 errors"), "{}", said.stderr);
}

#[test]
fn fio_verifies_what_it_wrote() {
    let desk = Desk::new(READS);
    desk.file("disk.img", 16 * MIB);
    let Some(server) = Server::start(&desk, &["disk.img", "--nbd", "unix:s.sock"]) else { return };
    let uri = format!("--uri={}", server.uri(0, 0));
    let words = [
        "--name=verify",
        "--ioengine=nbd",
        &uri,
        "--rw=randrw",
        "--bsrange=512-128k",
        "--size=16m",
        "--iodepth=16",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--fsync=50",
        "--verify_state_save=0",
    ];
    if peer("fio", &words).is_some() {
        let said = server.stop();
        assert!(said.code == 0 && said.stderr.contains(" 0 errors"), "{}", said.stderr);
    }
}

/// The server is ended under load: nothing that was answered is lost, as the file holds it all.
#[test]
fn a_server_that_is_ended_under_load_ends_well() {
    let desk = Desk::new(&writes().replace("200 ms", "20 s"));
    desk.file("disk.img", 4 * MIB);
    let Some(server) = Server::start(&desk, &["disk.img", "--nbd", "unix:s.sock"]) else { return };
    let uri = server.uri(0, 0);
    let before = std::fs::read(desk.path().join("disk.img")).unwrap();
    let load = desk.start(&["run", "load.toml", "--json", "--destroy-data", "--on", &uri]);
    // A busy machine takes seconds to start the load: it is under way when something is written.
    let bytes = || std::fs::read(desk.path().join("disk.img")).unwrap();
    let written = || bytes() != before;
    for _ in 0..600 {
        if written() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let said = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(!said.stderr.contains("left unanswered"), "{}", said.stderr);
    let load = of(load.wait_with_output().unwrap());
    assert_eq!(load.code, 3, "{}", load.stderr);
    let remarks = load.json()["remarks"].to_string();
    assert!(remarks.contains("the device is gone"), "{remarks}");
}

#[test]
fn a_block_device_is_served_like_a_file() {
    let desk = Desk::new(READS);
    let Some(device) = Loop::over(&desk.file("behind.img", 8 * MIB)) else { return };
    let said = desk.arraylab(&["serve", &device.node, "--nbd", "unix:s.sock"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    let Some(server) = Server::start(&desk, &[&device.node, "--nbd", "unix:s.sock", "--destroy-data"]) else { return };
    let from = desk.path().join("from.img");
    std::fs::write(&from, pattern(8 * MIB)).unwrap();
    if peer("nbdcopy", &["--flush", from.to_str().unwrap(), &server.uri(0, 0)]).is_some() {
        assert!(std::fs::read(&device.node).unwrap() == pattern(8 * MIB));
    }
    assert_eq!(server.stop().code, 0);
}

/// Two programs that know nothing of each other's certificates do not talk; with one authority they do.
#[test]
fn encrypted_connections() {
    let desk = Desk::new(READS);
    desk.file("disk.img", 4 * MIB);
    let script = "set -e
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority -keyout ca-key.pem -out ca-cert.pem
        for side in server client; do
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -keyout $side-key.pem -out $side.csr
            printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > $side.ext
            openssl x509 -req -in $side.csr -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile $side.ext -out $side-cert.pem
        done";
    let folder = desk.path().join("pki");
    std::fs::create_dir(&folder).unwrap();
    let made = Command::new("sh").args(["-c", script]).current_dir(&folder).output().unwrap();
    if !made.status.success() {
        return skip(&format!("no certificates: {}", String::from_utf8_lossy(&made.stderr)));
    }
    let words = ["disk.img", "--nbd", "unix:s.sock", "--nbd", "tcp:0.0.0.0:0", "--tls", "pki"];
    let Some(server) = Server::start(&desk, &words) else { return };
    let certificates = format!("tls-certificates={}", folder.display());
    let unix = format!("{}&{certificates}", server.uri(0, 0));
    let tcp = format!("{}?{certificates}", server.uri(0, 1).replace("0.0.0.0", "127.0.0.1"));
    for uri in [&unix, &tcp] {
        let said = desk.arraylab(&["run", "load.toml", "--json", "--on", uri]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let total = &said.json()["total"];
        assert!(total["requests"].as_u64().unwrap() > 10 && total["errors"] == 0, "{total}");
    }
    let plain = server.uri(0, 0).replace("nbds", "nbd");
    let said = desk.arraylab(&["run", "load.toml", "--on", &plain]);
    assert_eq!(said.code, 3);
    assert!(said.stderr.contains("speaks only encrypted"), "{}", said.stderr);
    if peer("nbdinfo", &["--size", &tcp]).is_some_and(|size| size.trim() == (4 * MIB).to_string()) {
        // A client without a certificate of the authority is not let in.
        let alone = desk.path().join("alone");
        std::fs::create_dir(&alone).unwrap();
        std::fs::copy(folder.join("ca-cert.pem"), alone.join("ca-cert.pem")).unwrap();
        let uri = tcp.replace(folder.to_str().unwrap(), alone.to_str().unwrap());
        let refused = Command::new("nbdinfo").args(["--size", &uri]).output().unwrap();
        assert!(!refused.status.success());
    }
    let there = desk.path().join("there.img");
    if peer("nbdcopy", &[&tcp, there.to_str().unwrap()]).is_some() {
        assert!(std::fs::read(&there).unwrap() == std::fs::read(desk.path().join("disk.img")).unwrap());
    }
    assert_eq!(server.stop().code, 0);
}

/// A modelled machine has its timing and no contents, but for the first 512 bytes; and says how late it was.
#[test]
fn a_modelled_machine_is_served_with_its_timing() {
    let desk = Desk::new(READS);
    let Some(server) = Server::start(&desk, &["--system", "raid-i", "--nbd", "unix:s.sock"]) else { return };
    let export = &server.said["exports"][0];
    assert_eq!(export["engine"], "a model");
    assert!(export["model"].as_str().unwrap().contains("left-symmetric over 4 disks"), "{export}");
    let load = "[run]\nmeasure = \"1 s\"\n[[stream]]\noperation = \"read\"\npattern = \"random\"\nsize = \"4 KiB\"\ndepth = 1\n";
    desk.write("load.toml", load);
    let said = desk.arraylab(&["run", "load.toml", "--json", "--on", &server.uri(0, 0)]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let total = said.json()["total"].clone();
    // A disk of 1990 takes some 30 ms for a seek, half a turn, and the way through the host; none is faster than its
    // overheads.
    let mean = total["latency_ns"]["mean"].as_f64().unwrap() / 1e6;
    assert!(mean > 15.0 && total["errors"] == 0, "{total}");
    let said = server.stop();
    assert!(said.stderr.contains("by the model on the average, and came"), "{}", said.stderr);
}

/// Its own last flush takes no time by the model, so that it was late by any measure.
#[test]
fn a_modelled_drive_to_which_nobody_came_is_not_said_to_be_late() {
    let desk = Desk::new("");
    let Some(server) = Server::start(&desk, &["part:flash-nvme-3.84tb", "--nbd", "unix:s.sock"]) else { return };
    let said = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("0 requests") && !said.stderr.contains(" by the model"), "{}", said.stderr);
}

#[test]
fn a_modelled_drive_keeps_what_a_file_holds_for_it() {
    let desk = Desk::new(READS);
    let words = ["part:flash-nvme-3.84tb", "--nbd", "unix:s.sock", "--backing", "big.img"];
    let Some(server) = Server::start(&desk, &words) else { return };
    let size = server.said["exports"][0]["size_bytes"].as_u64().unwrap();
    let file = desk.path().join("big.img");
    assert_eq!(std::fs::metadata(&file).unwrap().len(), size, "a sparse file of the drive's size");
    desk.write("small.bin", "what is written is there");
    let uri = server.uri(0, 0);
    if peer("qemu-io", &["-f", "raw", "-c", "write -P 0x5a 1M 8k", "-c", "read -P 0x5a 1M 8k", "-c", "flush", &uri])
        .is_some()
    {
        let mut bytes = [0; 8192];
        std::fs::File::open(&file).unwrap().read_exact_at(&mut bytes, 1 << 20).unwrap();
        assert_eq!(bytes, [0x5a; 8192]);
    }
    assert_eq!(server.stop().code, 0);
}

#[test]
fn what_of_a_model_cannot_be_served_is_refused() {
    let desk = Desk::new(READS);
    desk.file("small.img", MIB);
    let cases: [(&[&str], &str); 6] = [
        (&["--system", "raid-ii"], "there is no such system"),
        (&["--system", "raid-i", "--disks", "disk-9.0"], "there is no drive 'disk-9.0' in raid-i; there are: disk-0.0"),
        (&["--system", "raid-i", "--way", "raw", "--backing", "b.img"], "28 are served; choose one with --disks"),
        (&["--system", "raid-i", "--disks", "disk-0.0"], "level 5"),
        (&["part:wren"], "there is no part 'wren'"),
        (&["--system", "raid-i", "--backing", "small.img"], "holds 1"),
    ];
    for (words, message) in cases {
        let said = desk.arraylab(&[&["serve", "--nbd", "unix:s.sock"], words].concat());
        if said.stderr.contains("io_uring") {
            return skip(&said.stderr);
        }
        assert_eq!((said.code, &*said.stdout), (2, ""), "{words:?}: {}", said.stderr);
        assert!(said.stderr.contains(message), "{words:?}: {}", said.stderr);
    }
    assert!(!desk.path().join("b.img").exists());
}
