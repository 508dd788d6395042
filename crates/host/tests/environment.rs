//! The environment of recorded machines, the clock of this one, and the precautions that it grants.

mod trees;

use host::Kernel;
use host::clock::Clock;
use host::environment::{Build, Environment, Naming};
use host::precaution::Precautions;
use host::throttle::throttles;
use trees::Tree;
use units::{Bytes, Duration, Frequency};

fn read(tree: &Tree) -> Environment {
    let build = Build { version: "0.1.0".into(), commit: Some("abc1234".into()) };
    Environment::read(&tree.kernel(), build, Naming::Name)
}

/// A server with two processors, in a container.
fn server() -> Tree {
    let tree = Tree::new();
    tree.file("proc/sys/kernel/hostname", "store7");
    tree.file("proc/sys/kernel/ostype", "Linux");
    tree.file("proc/sys/kernel/osrelease", "6.12.1");
    tree.file("proc/sys/kernel/version", "#1 SMP");
    let processor =
        |n: u32| format!("processor\t: {n}\nmodel name\t: Some Processor 2.4GHz\nflags\t\t: fpu hypervisor sse2\n\n");
    tree.file("proc/cpuinfo", &[processor(0), processor(1)].concat());
    tree.file("proc/meminfo", "MemTotal:       16384 kB\nMemAvailable:    8192 kB\nSwapTotal:  4096 kB\nSwapFree:  1024 kB\nHugePages_Total: 0");
    tree.file("proc/cmdline", "root=UUID=secret mitigations=off nvme.poll_queues=4 hostkey=secret isolcpus=1");
    tree.file("proc/loadavg", "0.10 0.20 0.30 1/100 4711");
    tree.file("proc/sys/vm/dirty_ratio", "20");
    tree.file("proc/sys/kernel/io_uring_disabled", "2");
    tree.file("sys/class/dmi/id/sys_vendor", "Maker Inc.");
    tree.file("sys/class/dmi/id/product_name", "Server 2");
    tree.file("sys/devices/system/cpu/online", "0-1");
    tree.file("sys/devices/system/cpu/smt/active", "1");
    for (cpu, governor, frequency) in [(0, "performance", "2400000"), (1, "powersave", "3600000")] {
        tree.file(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"), governor);
        tree.file(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_driver"), "intel_pstate");
        tree.file(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq"), frequency);
    }
    tree.file("sys/devices/system/cpu/cpufreq/policy0/x", "not a processor");
    tree.file("sys/devices/system/cpu/intel_pstate/no_turbo", "1");
    tree.file("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected");
    tree.file("sys/devices/system/cpu/vulnerabilities/spectre_v2", "Mitigation: IBRS");
    tree.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
    tree.file("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet");
    tree
}

#[test]
fn a_server_is_described() {
    let environment = read(&server());
    assert_eq!(environment.host, "store7");
    assert_eq!(environment.kernel, format!("Linux 6.12.1 #1 SMP {}", std::env::consts::ARCH));
    assert_eq!(environment.machine.as_deref(), Some("Maker Inc. Server 2"));
    assert_eq!(
        environment.boot,
        ["mitigations=off", "nvme.poll_queues=4", "isolcpus=1"],
        "and nothing that is private"
    );
    let processor = &environment.processor;
    assert_eq!((processor.model.as_deref(), processor.count), (Some("Some Processor 2.4GHz"), 2));
    assert_eq!(processor.governors, ["performance", "powersave"]);
    assert_eq!(processor.highest_frequency, Some(Frequency::per_second(3.6e9)));
    assert_eq!((processor.boost, processor.threads_share_cores), (Some(false), true));
    let memory = &environment.memory;
    assert_eq!((memory.total, memory.available), (Some(Bytes::mib(16)), Some(Bytes::mib(8))));
    assert_eq!((memory.swap, memory.swapped), (Some(Bytes::mib(4)), Some(Bytes::mib(3))));
    assert_eq!(memory.huge_pages.as_deref(), Some("madvise"));
    assert_eq!(
        environment.flaws.iter().collect::<Vec<_>>(),
        [(&"spectre_v2".to_owned(), &"Mitigation: IBRS".to_owned())]
    );
    assert_eq!(environment.settings.get("kernel.io_uring_disabled").map(String::as_str), Some("2"));
    assert_eq!(environment.settings.len(), 2, "a setting that a kernel does not have is absent");
    assert_eq!(environment.load.as_deref(), Some("0.10 0.20 0.30"));
    assert_eq!(environment.clock.source.as_deref(), Some("hpet"));
    assert_eq!(environment.virtualization, ["the processor says that it runs under a hypervisor"]);
    assert!(environment.date.ends_with('Z') && environment.date.len() == 20, "{}", environment.date);
}

#[test]
fn a_hashed_name_is_the_same_every_time_and_hides_the_name() {
    let hashed = |tree: &Tree| Environment::read(&tree.kernel(), Build::default(), Naming::Hash).host;
    let tree = server();
    assert_eq!(hashed(&tree), "host-d1b79bc0ae52615b");
    tree.file("proc/sys/kernel/hostname", "store8");
    assert_ne!(hashed(&tree), "host-d1b79bc0ae52615b");
}

#[test]
fn limits_of_the_second_version_hold_from_the_group_up_to_the_root() {
    let tree = Tree::new();
    tree.file("proc/self/cgroup", "0::/system.slice/docker-1.scope");
    tree.file("sys/fs/cgroup/system.slice/docker-1.scope/cpu.max", "150000 100000");
    tree.file("sys/fs/cgroup/system.slice/docker-1.scope/memory.max", "max");
    tree.file(
        "sys/fs/cgroup/system.slice/io.max",
        "8:0 rbps=1048576 wbps=max riops=max wiops=max\n8:16 rbps=max wbps=max riops=2000 wiops=max",
    );
    let environment = read(&tree);
    let limits = |name: &str| environment.limits.get(name).map(String::as_str);
    assert_eq!(limits("system.slice/docker-1.scope/cpu.max"), Some("150000 100000"));
    assert_eq!(
        limits("system.slice/io.max"),
        Some("8:0 rbps=1048576 wbps=max riops=max wiops=max; 8:16 rbps=max wbps=max riops=2000 wiops=max")
    );
    assert_eq!(environment.limits.keys().filter(|name| !name.starts_with("RLIMIT_")).count(), 2);
    assert_eq!(environment.virtualization, ["a control group of docker"]);
}

#[test]
fn limits_of_the_first_version_are_found_by_controller() {
    let tree = Tree::new();
    tree.file("proc/self/cgroup", "7:blkio:/bench\n2:cpu,cpuacct:/\n4:memory:/bench\n0::/");
    tree.file("sys/fs/cgroup/blkio/bench/blkio.throttle.read_iops_device", "7:0 2000");
    tree.file("sys/fs/cgroup/blkio/bench/blkio.throttle.read_bps_device", "");
    tree.file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
    tree.file("sys/fs/cgroup/memory/bench/memory.limit_in_bytes", "9223372036854771712");
    tree.file("sys/fs/cgroup/unified/cpu.max", "max 100000");
    let environment = read(&tree);
    let groups: Vec<_> = environment.limits.iter().filter(|(name, _)| !name.starts_with("RLIMIT_")).collect();
    assert_eq!(groups, [(&"blkio/bench/blkio.throttle.read_iops_device".to_owned(), &"7:0 2000".to_owned())]);
}

#[test]
fn throttles_are_known_for_the_devices_that_a_path_stands_on() {
    let tree = trees::virtual_machine();
    tree.loop_device("loop0", "7:0", "/images/a");
    tree.file("proc/self/cgroup", "7:blkio:/bench/deep\n0::/user.slice\n3:name=systemd:/x");
    tree.file("sys/fs/cgroup/blkio/bench/blkio.throttle.read_iops_device", "7:0 2000\n8:0 10");
    tree.file("sys/fs/cgroup/blkio/bench/deep/blkio.throttle.write_bps_device", "254:0 1048576");
    tree.file(
        "sys/fs/cgroup/unified/user.slice/io.max",
        "254:0 rbps=2000000 wbps=max riops=max wiops=50\n8:16 rbps=max",
    );
    let found = throttles(&tree.kernel());
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "writes of 254:0 are limited to 1.05 MB/s by control group blkio/bench/deep",
            "reads of 7:0 are limited to 2000 /s by control group blkio/bench",
            "reads of 8:0 are limited to 10 /s by control group blkio/bench",
            "reads of 254:0 are limited to 2 MB/s by control group unified/user.slice",
            "writes of 254:0 are limited to 50 /s by control group unified/user.slice",
        ]
    );
    let holding = |target: &host::topology::Target| found.iter().filter(|t| t.holds_for(target)).count();
    assert_eq!(holding(&tree.device_target("/dev/loop0", "7:0")), 4, "its own, and those of the disk below");
    assert_eq!(holding(&tree.file_target("/data")), 3);
    assert_eq!(holding(&tree.file_target("/tmp/memory/data")), 0);
}

#[test]
fn a_machine_that_tells_nothing_is_described_by_little() {
    let environment = read(&Tree::new());
    assert_eq!(environment.host, "unnamed");
    assert_eq!((environment.processor.count, environment.memory.total, environment.load.clone()), (0, None, None));
    serde_json::to_string(&environment).expect("even that can be written to a run folder");
}

#[test]
fn this_machine_has_processors_memory_and_a_clock_that_moves() {
    let environment = Environment::read(&Kernel::running(), Build::default(), Naming::Hash);
    assert!(environment.processor.count >= 1);
    assert!(environment.memory.total.expect("memory") > Bytes::mib(1));
    let Clock { resolution, step, reading, .. } = environment.clock;
    assert!(resolution <= Duration::millis(20) && !resolution.is_zero());
    assert!(step <= Duration::millis(20) && !step.is_zero());
    assert!(reading <= Duration::micros(100), "{reading}");
    assert!(environment.limits.contains_key("RLIMIT_NOFILE"));
}

/// In a thread of its own, which takes its priority and its processor with it when it ends.
fn taken(precautions: Precautions) -> Vec<(String, bool, Option<String>)> {
    let take = move || precautions.take().into_iter().map(|p| (p.asked, p.taken, p.remark)).collect();
    std::thread::spawn(take).join().expect("no precaution panics")
}

#[test]
fn nothing_is_taken_that_was_not_asked_for() {
    assert_eq!(taken(Precautions::default()), []);
}

#[test]
fn what_cannot_be_had_is_refused_with_the_reason() {
    let wrong = taken(Precautions { real_time: Some(0), cpus: vec![1023, 5000], ..Precautions::default() });
    assert_eq!(
        wrong,
        [
            ("processors 1023, 5000".into(), false, Some("there is no processor 5000".into())),
            ("real-time priority 0".into(), false, Some("real-time priorities are 1 (the lowest) to 99".into())),
        ]
    );
    let absent = taken(Precautions { cpus: vec![1023], ..Precautions::default() });
    assert!(!absent[0].1, "no machine of ours has 1024 processors");
    assert!(absent[0].2.as_deref().expect("a reason").contains("this process may run on"), "{absent:?}");
}

#[test]
fn what_is_granted_is_in_force() {
    // Precautions are for the thread that takes them, so it must be the one that looks.
    let in_force = std::thread::spawn(|| {
        let precautions = Precautions { lock_memory: true, real_time: Some(1), cpus: vec![0] };
        let taken = precautions.take();
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("its status");
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("its stat");
        (taken, status, stat)
    });
    let (taken, status, stat) = in_force.join().expect("no precaution panics");
    let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
    let [memory, processor, priority] = taken.as_slice() else { panic!("three were asked for: {taken:?}") };
    assert_eq!(memory.taken, of("VmLck:") != "0 kB", "{memory:?}");
    assert_eq!(processor.taken, of("Cpus_allowed_list:") == "0", "{processor:?}");
    // Field 41 of stat is the policy (1: SCHED_FIFO), field 40 the priority; the name before may hold blanks.
    let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
    assert_eq!(priority.taken, fields[41 - 3] == "1" && fields[40 - 3] == "1", "{priority:?}");
    for precaution in taken.iter().filter(|precaution| !precaution.taken) {
        println!("refused here: {} ({})", precaution.asked, precaution.remark.as_deref().expect("a reason"));
    }
}
