//! Who may write where: the decision over all facts, recorded machines, real files, and (as root) real loop devices.

mod trees;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use host::guard::{Consent, Facts, Subject, create, judge, permit, times_named};
use host::signature::{Content, Signature};
use host::usage::Use;
use host::{Kernel, Refusal};
use proptest::prelude::*;
use units::Bytes;

const NO: Consent = Consent { destroy_data: false, times_named: 1 };
const ONCE: Consent = Consent { destroy_data: true, times_named: 1 };
const TWICE: Consent = Consent { destroy_data: true, times_named: 2 };

fn facts(subject: Subject) -> Facts {
    Facts { path: "/dev/sdx".into(), subject, held: false, uses: vec![], found: vec![] }
}

fn xfs() -> Signature {
    Signature { name: "XFS", content: Content::FileSystem, at: Bytes::ZERO }
}

fn mounted() -> Use {
    Use::Mounted { device: "sdx1".into(), at: "/data".into() }
}

fn refusal(facts: &Facts, consent: Consent) -> String {
    judge(facts, consent).expect_err("a refusal").to_string()
}

#[test]
fn an_empty_device_needs_consent_and_no_more() {
    let empty = facts(Subject::Device(Bytes::gib(4)));
    assert_eq!(
        refusal(&empty, NO),
        "/dev/sdx: writing would destroy what is there (a device of 4 GiB with nothing that is recognised); add \
         --destroy-data if that is meant"
    );
    judge(&empty, ONCE).expect("permitted");
}

#[test]
fn a_recognised_device_must_be_named_twice() {
    let with_data = Facts { found: vec![xfs()], ..facts(Subject::Device(Bytes::gib(4))) };
    assert_eq!(
        refusal(&with_data, NO),
        "/dev/sdx: writing would destroy what is there (it carries XFS file system (at 0 B)); add --destroy-data if that \
         is meant, and name the path twice"
    );
    assert_eq!(
        refusal(&with_data, ONCE),
        "/dev/sdx is not written with --destroy-data alone: it carries XFS file system (at 0 B); name it a second time, \
         spelled the same, if that may be lost"
    );
    judge(&with_data, TWICE).expect("permitted");
    // Naming it twice without the option is no consent.
    judge(&with_data, Consent { destroy_data: false, times_named: 2 }).expect_err("refused");
}

#[test]
fn what_the_kernel_holds_stays_refused() {
    let held = Facts { held: true, uses: vec![mounted()], ..facts(Subject::Device(Bytes::gib(4))) };
    for consent in [NO, ONCE, TWICE] {
        assert_eq!(
            refusal(&held, consent),
            "/dev/sdx is in use and stays refused, however often it is named: sdx1 is mounted at /data; unmount it first \
             (umount /data)"
        );
    }
    let swap = Facts { uses: vec![Use::Swap { device: "sdx2".into() }], ..held.clone() };
    assert!(refusal(&swap, TWICE).ends_with("sdx2 is swap space; end that first (swapoff /dev/sdx2)"));
    let array = Facts { uses: vec![Use::Held { device: "sdx".into(), by: "md0".into() }], ..held.clone() };
    assert!(refusal(&array, TWICE).ends_with("sdx belongs to md0; take md0 down first, or write to /dev/md0 instead"));
    let unknown = Facts { uses: vec![], ..held };
    assert!(refusal(&unknown, TWICE).contains("a program has opened it exclusively"));
}

#[test]
fn a_use_that_the_kernel_does_not_hold_needs_naming_twice() {
    let used = Facts { uses: vec![mounted()], ..facts(Subject::File(Bytes::gib(4))) };
    assert!(refusal(&used, ONCE).contains("sdx1 is mounted at /data"));
    judge(&used, TWICE).expect("permitted");
}

proptest! {
    /// Over all facts and consents: nothing that is held is permitted; nothing with contents is without consent;
    /// nothing that is used or recognised is by one naming; and what is permitted stays so with more consent.
    #[test]
    fn no_combination_of_facts_slips_through(
        held: bool, used: bool, recognised: bool, device: bool, empty: bool, destroy_data: bool, times_named in 0u32..4,
    ) {
        let size = if empty { Bytes::ZERO } else { Bytes::mib(1) };
        let subject = if device { Subject::Device(size) } else { Subject::File(size) };
        // An empty file holds nothing that could be recognised.
        let found = if recognised && (device || !empty) { vec![xfs()] } else { vec![] };
        let uses = if used { vec![mounted()] } else { vec![] };
        let facts = Facts { path: PathBuf::from("/x"), subject, held, uses, found: found.clone() };
        let permitted = judge(&facts, Consent { destroy_data, times_named }).is_ok();
        if permitted {
            prop_assert!(!held);
            prop_assert!(destroy_data || (subject == Subject::File(Bytes::ZERO) && !used));
            prop_assert!(times_named >= 2 || (!used && found.is_empty()));
            prop_assert!(judge(&facts, TWICE).is_ok(), "more consent");
        }
        if !held {
            prop_assert!(judge(&facts, TWICE).is_ok(), "there is a way for everything else");
        }
    }
}

#[test]
fn naming_counts_equal_spellings_only() {
    let paths = ["/dev/sda", "/dev/disk/by-id/x", "/dev/sda", "/dev/../dev/sda"].map(PathBuf::from);
    let named: Vec<(String, u32)> =
        times_named(&paths).into_iter().map(|(path, times)| (path.display().to_string(), times)).collect();
    assert_eq!(named, [("/dev/sda".into(), 2), ("/dev/disk/by-id/x".into(), 1), ("/dev/../dev/sda".into(), 1)]);
}

#[test]
fn uses_are_found_through_partitions_and_storeys() {
    let tree = trees::sata_machine();
    tree.md("md0", "9:0", "raid5", &["sda1", "sdb1", "sdc1"]);
    tree.dm("dm-0", "253:0", "vg-home", "LVM-bb", &["md0"]);
    tree.mounts(&[("253:0", "/", "xfs", "/dev/mapper/vg-home", "rw"), ("0:41", "/b", "btrfs", "/dev/sdd1", "rw")]);
    tree.file("proc/swaps", "Filename Type Size Used Priority\n/dev/sdd partition 1 0 -2\n/my\\040swap file 1 0 -3");
    let uses = |number: &str| host::usage::of_device(&tree.kernel(), number.parse().expect("a number")).expect("uses");
    let texts: Vec<String> = uses("8:0").iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["sda1 belongs to md0", "md0 belongs to dm-0", "dm-0 is mounted at /"]);
    assert_eq!(uses("8:33").len(), 3, "a member partition");
    let texts: Vec<String> = uses("8:48").iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["sdd is swap space", "sdd1 is mounted at /b"]);
    let file = host::usage::of_file(&tree.kernel(), Path::new("/my swap")).expect("uses");
    assert_eq!(file, [Use::Swap { device: "/my swap".into() }]);
}

#[test]
fn a_file_behind_a_mounted_loop_device_is_used() {
    let tree = trees::virtual_machine();
    tree.loop_device("loop0", "7:0", "/images/a");
    tree.mounts(&[("254:0", "/", "ext4", "/dev/vda", "rw"), ("7:0", "/mnt", "ext4", "/dev/loop0", "rw")]);
    let uses = host::usage::of_file(&tree.kernel(), Path::new("/images/a")).expect("uses");
    let texts: Vec<String> = uses.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["/images/a belongs to loop0", "loop0 is mounted at /mnt"]);
}

/// The kernel ends what a killed program had under way in its own time, and then lets go of its files.
#[test]
fn who_lets_go_within_a_moment_is_waited_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let held = create(&path).expect("a file that did not exist");
    held.file().write_all_at(&[7; 4096], 0).expect("a write");
    let lets_go = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(held);
    });
    permit(&Kernel::running(), &path, ONCE).expect("it is free a moment later");
    lets_go.join().expect("no panic");
}

#[test]
fn files_are_made_freely_and_overwritten_with_consent() {
    let directory = tempfile::tempdir().expect("a directory");
    let kernel = Kernel::running();
    let path = directory.path().join("data");
    let made = create(&path).expect("a file that did not exist");
    assert!(made.created());
    made.file().write_all_at(&[7; 4096], 0).expect("a write");
    assert!(matches!(create(&path), Err(Refusal::Exists { .. })));
    assert!(matches!(permit(&kernel, &path, ONCE), Err(Refusal::Locked { .. })), "while the first permit lives");
    drop(made);
    let refused = permit(&kernel, &path, NO).expect_err("it has contents").to_string();
    assert!(
        refused.ends_with("writing would destroy what is there (a file of 4 KiB); add --destroy-data if that is meant")
    );
    let permitted = permit(&kernel, &path, ONCE).expect("consent is enough for a plain file");
    assert!(!permitted.created());
    let again = permitted.reopen(OpenOptions::new().write(true)).expect("the same file");
    assert!(permitted.covers(&again).expect("a comparison"));
    assert!(!permitted.covers(&File::open("/dev/null").expect("another")).expect("a comparison"));
    drop(permitted);
    File::create(&path).expect("emptied");
    permit(&kernel, &path, NO).expect("an empty file has nothing to lose");
}

#[test]
fn an_image_in_a_file_is_data_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("image");
    let file = File::create(&path).expect("a file");
    file.set_len(1 << 20).expect("a size");
    file.write_all_at(b"EFI PART", 512).expect("a partition table");
    let refused = permit(&Kernel::running(), &path, ONCE).expect_err("a partition table");
    assert!(matches!(&refused, Refusal::HoldsData { found, .. } if found[0].name == "GPT"), "{refused}");
    permit(&Kernel::running(), &path, TWICE).expect("named twice");
}

#[test]
fn what_is_no_place_for_data_is_refused() {
    let kernel = Kernel::running();
    let refused = |path: &str| permit(&kernel, Path::new(path), TWICE).expect_err("refused").to_string();
    assert_eq!(
        refused("/dev/null"),
        "/dev/null is neither a regular file nor a block device; name a block device or a regular file"
    );
    assert_eq!(refused("/tmp"), "/tmp is a directory; name a block device or a regular file");
    assert_eq!(refused("/no/such"), "/no/such: there is no such file or device; name one that exists");
}

#[test]
fn a_file_that_a_virtual_machine_has_locked_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("disk");
    std::fs::write(&path, "x").expect("a file");
    // QEMU locks ranges of bytes of its images; a shared lock on one byte is the least of them.
    let script = "import fcntl,sys; f=open(sys.argv[1],'rb'); fcntl.lockf(f,fcntl.LOCK_SH,1,100); print('locked',flush=True); sys.stdin.read()";
    let child = Command::new("python3")
        .args(["-c", script])
        .arg(&path)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("skipped: python3 cannot be run");
        return;
    };
    let mut line = String::new();
    let mut output = std::io::BufReader::new(child.stdout.take().expect("its output"));
    std::io::BufRead::read_line(&mut output, &mut line).expect("a line");
    assert_eq!(line, "locked\n");
    let refused = permit(&Kernel::running(), &path, TWICE);
    drop(child.stdin.take());
    child.wait().expect("its end");
    assert!(matches!(refused, Err(Refusal::Locked { .. })), "{refused:?}");
    permit(&Kernel::running(), &path, TWICE).expect("permitted once it is gone");
}

/// A loop device over a file of zeros; detached when dropped.
struct Loop {
    device: String,
    directory: tempfile::TempDir,
}

impl Loop {
    /// None, with a message, where loop devices cannot be made.
    fn new() -> Option<Loop> {
        let directory = tempfile::tempdir().expect("a directory");
        let file = File::create(directory.path().join("image")).expect("a file");
        file.set_len(32 << 20).expect("a size");
        match Command::new("losetup").args(["-f", "--show"]).arg(directory.path().join("image")).output() {
            Ok(output) if output.status.success() => {
                let device = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                Some(Loop { device, directory })
            }
            Ok(output) => {
                println!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                println!("skipped: losetup cannot be run: {error}");
                None
            }
        }
    }

    fn permit(&self, consent: Consent) -> Result<host::guard::WritePermit, Refusal> {
        permit(&Kernel::running(), Path::new(&self.device), consent)
    }

    fn image(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    fn run(&self, program: &str, arguments: &[&str]) -> bool {
        Command::new(program).args(arguments).output().expect("a program of every Linux system").status.success()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let mount = self.directory.path().join("mount");
        if mount.exists() {
            let _ = Command::new("umount").arg(mount).output();
        }
        let _ = Command::new("losetup").args(["-d", &self.device]).output();
    }
}

#[test]
fn a_real_device_is_protected_from_the_first_look_to_the_last_write() {
    let Some(device) = Loop::new() else { return };
    // Zeros: consent is needed and enough.
    assert!(matches!(device.permit(NO), Err(Refusal::NoConsent { .. })));
    let held = device.permit(ONCE).expect("a device of zeros");
    // While the permit lives the device belongs to it.
    assert!(matches!(device.permit(TWICE), Err(Refusal::InUse { .. })));
    held.file().write_all_at(&[1; 512], 1 << 20).expect("a write");
    drop(held);
    // A file system: named twice. (mke2fs zeroes what it must.)
    assert!(device.run("mkfs.ext4", &["-q", "-F", &device.device]), "mkfs.ext4 on {}", device.device);
    assert!(matches!(device.permit(ONCE), Err(Refusal::HoldsData { .. })));
    let held = device.permit(TWICE).expect("named twice");
    let mount = device.directory.path().join("mount");
    std::fs::create_dir(&mount).expect("a directory");
    let mount = mount.display().to_string();
    assert!(!device.run("mount", &[&device.device, &mount]), "the permit keeps others from mounting it");
    drop(held);
    // Mounted: refused, whatever is said, by the device and by the file behind it.
    if !device.run("mount", &[&device.device, &mount]) {
        println!("skipped: mounting is not permitted here");
        return;
    }
    let refused = device.permit(TWICE).expect_err("mounted").to_string();
    assert!(refused.contains(&format!("is mounted at {mount}; unmount it first (umount {mount})")), "{refused}");
    let file = permit(&Kernel::running(), &device.image(), TWICE).expect_err("behind a mounted loop device");
    assert!(matches!(file, Refusal::InUse { .. }), "{file}");
    assert!(device.run("umount", &[&mount]));
    // Attached, but not in use: the file behind it can be had by naming it twice.
    let file = permit(&Kernel::running(), &device.image(), ONCE).expect_err("behind a loop device");
    assert!(matches!(file, Refusal::HoldsData { .. }), "{file}");
    permit(&Kernel::running(), &device.image(), TWICE).expect("named twice");
}

#[test]
fn the_disk_that_this_machine_runs_from_is_refused() {
    let kernel = Kernel::running();
    let root = host::topology::Target::find(&kernel, Path::new("/")).expect("a root file system");
    let Some(disk) = root.disks().first().map(|disk| Path::new("/dev").join(&disk.name)).filter(|path| path.exists())
    else {
        println!("skipped: the root file system lies on no device that can be seen");
        return;
    };
    let refused = permit(&kernel, &disk, TWICE).expect_err("the disk with the root file system");
    assert!(matches!(refused, Refusal::InUse { .. }), "{refused}");
    println!("{refused}");
}

/// Not even root makes files in sysfs.
#[test]
fn who_may_not_make_a_file_is_told_of_the_folder() {
    let refused = create(Path::new("/sys/kernel/x")).expect_err("sysfs takes no files");
    assert!(!refused.is_input());
    let said = refused.to_string();
    assert!(said.starts_with("/sys/kernel/x: no permission to make a file in the folder /sys/kernel; "), "{said}");
    assert!(said.ends_with("(see `ls -ld /sys/kernel`)"), "{said}");
}
