//! Requests to what Linux builds of disks are followed to the disks: arrays of md and volumes of device mapper, in a
//! virtual machine, as few kernels that a test meets have both. Skipped, with the reason, where there is none.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Desk, READS, skip};
use serde_json::Value;

/// Arrays and volumes: a name for the test, the node of the device, and the command that makes it of the disks.
const MADE: [(&str, &str, &str); 8] = [
    ("stripes", "/dev/md0", "mdadm -CR /dev/md0 -l0 -n4 -c16 $D0 $D1 $D2 $D3"),
    ("mirror", "/dev/md0", "mdadm -CR /dev/md0 -l1 -n2 --assume-clean --bitmap=none $D0 $D1"),
    ("parity", "/dev/md0", "mdadm -CR /dev/md0 -l5 -n4 -c16 --assume-clean --bitmap=none $D0 $D1 $D2 $D3"),
    ("both", "/dev/md0", "mdadm -CR /dev/md0 -l10 -n4 -c16 --assume-clean --bitmap=none $D0 $D1 $D2 $D3"),
    ("volume", "/dev/dm-0", "printf '0 32768 striped 2 32 %s 0 %s 64\\n' $D0 $D1 | dmsetup create volume"),
    (
        "volume-on-array",
        "/dev/dm-0",
        "mdadm -CR /dev/md0 -l1 -n2 --assume-clean --bitmap=none $D0 $D1; \
         echo 0 32768 linear /dev/md0 2048 | dmsetup create volume",
    ),
    // As LUKS has it, with a key that is none of anybody's: 64 digits for each of two AES keys of 256 bits.
    (
        "encrypted",
        "/dev/dm-0",
        "printf '0 32768 crypt aes-xts-plain64 %064d%064d 0 %s 0\n' 1 2 $D0 | dmsetup create volume",
    ),
    (
        "paths",
        "/dev/dm-0",
        "printf '0 32768 multipath 0 0 1 1 round-robin 0 2 1 %s 1 %s 1\n' $D0 $D0 | dmsetup create volume",
    ),
];

/// Modules that these want and the machine does not bring along, in the order in which they are loaded.
const MODULES: [&str; 5] =
    ["crypto/xts", "crypto/ecb", "drivers/md/dm-crypt", "drivers/md/dm-multipath", "drivers/md/dm-round-robin"];

/// The files of [`MODULES`], where the machine's kernel was unpacked.
fn modules() -> Option<Vec<PathBuf>> {
    let cache = std::env::var_os("MDVM_CACHE").map_or(PathBuf::from("/var/tmp/mdvm-cache"), PathBuf::from);
    let kernel = std::fs::read_dir(cache.join("cloud/lib/modules")).ok()?.next()?.ok()?.path().join("kernel");
    let files = MODULES.iter().map(|name| kernel.join(format!("{name}.ko")));
    let files: Vec<PathBuf> = files.filter(|file| file.exists()).collect();
    (files.len() == MODULES.len()).then_some(files)
}

/// Requests of several chunks, so that some go to several disks; so many, however slow the machine is.
fn load(operation: &str) -> String {
    let reads = READS.replace("[run]\nmeasure = \"200 ms\"\n", "");
    reads.replace("\"read\"", &format!("\"{operation}\"")).replace("4 KiB", "24 KiB") + "limit = { requests = 200 }\n"
}

/// The program without what only a debugger needs, to be carried into the machine.
fn program(desk: &Desk) -> PathBuf {
    let (built, small) = (env!("CARGO_BIN_EXE_arraylab"), desk.path().join("arraylab"));
    let stripped = Command::new("strip").arg("-o").arg(&small).arg(built).status();
    if !stripped.is_ok_and(|status| status.success()) {
        std::fs::copy(built, &small).unwrap();
    }
    small
}

/// The folder of the virtual machine, ready to run.
fn machine() -> Result<PathBuf, String> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("ARRAYLAB_SHARED").map_or(beside, PathBuf::from).join("md-peer");
    if !folder.join("run.sh").exists() {
        return Err(format!("there is no {}; set ARRAYLAB_SHARED to the folder that holds md-peer", folder.display()));
    }
    let output = Command::new(folder.join("setup.sh")).env("MDVM_LANES", "tcg").output();
    let output = output.map_err(|error| error.to_string())?;
    let said = || format!("no virtual machine runs here: {}", String::from_utf8_lossy(&output.stderr));
    output.status.success().then_some(folder).ok_or_else(said)
}

#[test]
fn requests_to_arrays_and_volumes_are_followed_to_their_disks() {
    let machine = match machine() {
        Ok(machine) => machine,
        Err(why) => return skip(&why),
    };
    let desk = Desk::new("");
    let mut command = Command::new(machine.join("run.sh"));
    command.args(["-b", "tcg", "-c", "2", "-m", "1500", "-t", "400", "-o"]).arg(desk.path().join("out"));
    for disk in 0..4 {
        command.arg("-d").arg(desk.file(&format!("disk-{disk}"), 24 << 20));
    }
    for operation in ["read", "write"] {
        desk.write(&format!("{operation}.toml"), &load(operation));
        command.arg("-i").arg(desk.path().join(format!("{operation}.toml")));
    }
    let modules = modules();
    for file in modules.iter().flatten() {
        command.arg("-i").arg(file);
    }
    command.arg("-x").arg("dmsetup").arg("-x").arg(program(&desk)).arg("--");
    command.arg("mount -t tracefs tracefs /sys/kernel/tracing");
    command.arg("for m in raid0 raid1 raid10 raid456 dm_mod; do modprobe $m; done");
    if modules.is_none() {
        eprintln!("encrypted volumes and several paths are left out: their modules are not with the machine's kernel");
    }
    for file in modules.iter().flatten() {
        command.arg(format!("insmod /job/in/{}", file.file_name().unwrap().to_str().unwrap()));
    }
    let made = if modules.is_some() { &MADE[..] } else { &MADE[..MADE.len() - 2] };
    for (name, device, make) in made {
        command.arg(format!("{{ {make}; }} > /dev/null 2>&1"));
        for operation in ["read", "write"] {
            // A volume upon an array shows the marks of the array's disks.
            let run = format!("arraylab run /job/in/{operation}.toml --on {device},{device} --trace --json");
            let run = format!("{run} --destroy-data --runs /tmp/{name}-{operation} > /out/{name}-{operation}.json");
            let explain =
                format!("arraylab explain /tmp/{name}-{operation}/* --json > /out/{name}-{operation}-why.json");
            command.arg(run).arg(explain);
        }
        command.arg("dmsetup remove volume 2> /dev/null || true; mdadm -S /dev/md0 2> /dev/null || true");
        command.arg("for d in $DISKS; do dd if=/dev/zero of=$d bs=64k count=1 2> /dev/null; done");
    }
    let output = command.output().expect("the script starts");
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat();
    assert!(output.status.success(), "{}: {said}", output.status);

    let read = |name: &str| -> Value {
        let text = std::fs::read_to_string(desk.path().join("out").join(format!("{name}.json"))).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
    };
    for &(name, device, _) in made {
        for operation in ["read", "write"] {
            let case = format!("{name}-{operation}");
            let tally = &read(&case)["timeline"];
            let number = |key: &str| tally[key].as_f64().unwrap_or_else(|| panic!("{case}: {key}: {tally:#}"));
            assert!(number("requests") == 200.0 && number("lost") == 0.0, "{case}: {tally:#}");
            assert!(number("joined") >= 0.995 * number("requests"), "{case}: {tally:#}");
            assert!(number("below") >= 0.98 * number("joined"), "{case}: {tally:#}");
            let why = read(&format!("{case}-why"));
            let parts: Vec<&str> =
                why["timeline"].as_array().unwrap().iter().map(|part| part["part"].as_str().unwrap()).collect();
            assert!(parts.contains(&device), "{case}: {parts:?}");
            let disks = parts.iter().filter(|part| part.starts_with("vd")).count();
            let all = match name {
                "stripes" | "parity" | "both" => 4,
                "encrypted" | "paths" => 1,
                _ => 2,
            };
            // Of two mirrors the one counts that was done last, which may be the same one each time.
            let is_mirrored = matches!(name, "mirror" | "both" | "volume-on-array");
            let least = if is_mirrored { all / 2 } else { all };
            assert!((least..=all).contains(&disks), "{case}: {parts:?}");
            assert_eq!(parts.contains(&"md0"), name == "volume-on-array", "{case}: {parts:?}");
        }
    }
}
