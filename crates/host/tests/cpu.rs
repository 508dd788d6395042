//! CPU time: of recorded machines exactly, of this one by comparison with work of a known amount.

mod trees;

use std::process::{Command, Stdio};
use std::time::{Duration as Real, Instant as Clock};

use host::Kernel;
use host::cpu::{Snapshot, Usage};
use trees::Tree;
use units::{Duration, Ratio};

/// A line of `/proc/<id>/stat`: name, flags, ticks in user mode and in the kernel.
fn stat(id: u32, name: &str, flags: u32, user: u64, system: u64) -> String {
    format!("{id} ({name}) S 1 1 1 0 -1 {flags} 0 0 0 0 {user} {system} 0 0 20 0 1 0 4711 0 0")
}

fn recorded(cpus: &str, process: (u64, u64), worker: Option<(u64, &str)>, kworker: u64) -> Tree {
    let tree = Tree::new();
    tree.file("proc/stat", cpus);
    tree.file("proc/self/stat", &stat(100, "arraylab) (x", 0x40_0000, process.0, process.1));
    tree.file("proc/self/task/100/stat", &stat(100, "arraylab) (x", 0x40_0000, process.0, process.1));
    tree.file("proc/self/task/100/schedstat", &format!("{} 5 6", process.0 * 10_000_000 + 123));
    if let Some((nanoseconds, name)) = worker {
        tree.file("proc/self/task/101/stat", &stat(101, name, 0x40_0010, 0, 1));
        tree.file("proc/self/task/101/schedstat", &format!("{nanoseconds} 0 0"));
    }
    tree.file("proc/7/stat", &stat(7, "kworker/0:1-loop0", 0x20_8060, 0, kworker));
    tree.file("proc/8/stat", &stat(8, "someone else", 0x40_0000, 500, 500));
    tree
}

fn used(before: &Tree, after: &Tree) -> Usage {
    // Of a recorded tree only the ticks are of interest: the exact clock is that of this process.
    let snapshot = |tree: &Tree| Snapshot::take(&tree.kernel()).expect("a snapshot");
    snapshot(before).until(&snapshot(after))
}

#[test]
fn shares_are_disjoint_and_add_up() {
    let before =
        recorded("cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0", (0, 0), None, 0);
    // User time contains the guests': 30 + 5 of which 10 + 5 were guests.
    let after = recorded(
        "cpu  30 5 20 25 10 2 3 5 10 5\ncpu0 10 0 20 10 0 0 10 0 0 0\ncpu5 1 1 1 1 1 1 1 1 0 0\nintr 5",
        (0, 0),
        None,
        0,
    );
    let usage = used(&before, &after);
    let machine = usage.machine;
    assert_eq!(machine.user, Ratio::percent(20.0));
    assert_eq!(machine.guest, Ratio::percent(15.0));
    assert_eq!(machine.system, Ratio::percent(20.0));
    assert_eq!(
        (machine.iowait, machine.irq, machine.softirq),
        (Ratio::percent(10.0), Ratio::percent(2.0), Ratio::percent(3.0))
    );
    assert_eq!((machine.steal, machine.idle), (Ratio::percent(5.0), Ratio::percent(25.0)));
    assert!((machine.busy().get() - 0.60).abs() < 1e-12, "neither idle nor iowait nor what was stolen");
    // A CPU that was not online at both moments has no share.
    assert_eq!(usage.cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>(), [0]);
    assert_eq!(usage.cpus[0].shares.softirq, Ratio::percent(20.0));
}

#[test]
fn the_process_has_its_ring_workers_and_the_kernel_its_own_threads() {
    let cpus = "cpu  1 0 0 1 0 0 0 0 0 0";
    let before = recorded(cpus, (10, 20), Some((1_000, "iou-wrk-100")), 5);
    let after = recorded(cpus, (15, 40), Some((251_000, "iou-wrk-100")), 9);
    let usage = used(&before, &after);
    assert_eq!((usage.process.user, usage.process.system), (Duration::millis(50), Duration::millis(200)));
    assert_eq!(usage.process.ring_workers, Duration::micros(250));
    let names: Vec<(&str, Duration)> = usage.process.threads.iter().map(|t| (t.name.as_str(), t.time)).collect();
    assert_eq!(names, [("arraylab) (x", Duration::millis(50)), ("iou-wrk-100", Duration::micros(250))]);
    let kernel: Vec<(&str, Duration)> = usage.kernel_threads.iter().map(|t| (t.name.as_str(), t.time)).collect();
    assert_eq!(kernel, [("kworker/0:1-loop0", Duration::millis(40))], "programs are no threads of the kernel");
    assert_eq!(usage.with_helpers(), usage.process.time + Duration::millis(40));
}

#[test]
fn a_worker_that_is_new_has_used_all_its_time() {
    let cpus = "cpu  1 0 0 1 0 0 0 0 0 0";
    let usage = used(&recorded(cpus, (0, 0), None, 0), &recorded(cpus, (0, 0), Some((70_000, "iou-sqp-100")), 0));
    assert_eq!(usage.process.ring_workers, Duration::micros(70));
}

#[test]
fn counters_that_go_back_are_no_time() {
    let before = recorded("cpu  10 0 10 100 50 0 0 0 0 0", (10, 10), None, 10);
    let after = recorded("cpu  20 0 10 90 40 0 0 0 0 0", (9, 9), None, 9);
    let usage = used(&before, &after);
    assert_eq!(usage.machine.user, Ratio::ONE);
    assert_eq!(usage.process.user, Duration::ZERO);
    assert!(usage.kernel_threads.is_empty());
}

#[test]
fn a_machine_without_counters_is_an_error_and_not_a_panic() {
    let tree = Tree::new();
    assert!(Snapshot::take(&tree.kernel()).is_err());
    tree.file("proc/stat", "cpu  1 2 x");
    assert!(Snapshot::take(&tree.kernel()).is_err());
}

fn spin(time: Real) {
    let end = Clock::now() + time;
    while Clock::now() < end {
        std::hint::black_box(0u64);
    }
}

#[test]
fn work_of_this_process_is_seen_in_all_its_threads() {
    let kernel = Kernel::running();
    let before = Snapshot::take(&kernel).expect("a snapshot");
    let worker = std::thread::Builder::new().name("short-lived".into()).spawn(|| spin(Real::from_millis(150)));
    spin(Real::from_millis(150));
    worker.expect("a thread").join().expect("its end");
    let usage = before.until(&Snapshot::take(&kernel).expect("a snapshot"));
    // On a busy machine the threads get less than their 150 ms of CPU time each, but the clock that they watch goes on.
    let time = usage.process.time;
    assert!(time > Duration::millis(1) && time <= Duration::millis(150) * 8, "{time}");
    assert!(usage.elapsed >= Duration::millis(150));
    let split = usage.process.user + usage.process.system;
    let difference = if split > time { split - time } else { time - split };
    // Rounding to ticks, and what the other tests use between the two readings.
    assert!(difference <= Duration::millis(100), "{split} in ticks, {time} exactly");
    assert!(!usage.process.threads.iter().any(|thread| thread.name == "short-lived"), "it has ended");
    assert!(!usage.cpus.is_empty());
    serde_json::to_string(&usage).expect("a usage can be written to a run folder");
}

#[test]
fn a_child_can_be_watched_too() {
    let kernel = Kernel::running();
    let script = "while :; do :; done";
    let Ok(mut child) = Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn() else {
        println!("skipped: sh cannot be run");
        return;
    };
    let before = Snapshot::of(&kernel, child.id());
    std::thread::sleep(Real::from_millis(300));
    let after = Snapshot::of(&kernel, child.id());
    child.kill().expect("our child");
    child.wait().expect("its end");
    let usage = before.expect("a snapshot").until(&after.expect("a snapshot"));
    assert!(usage.process.time >= Duration::millis(20), "{}", usage.process.time);
    assert!(usage.process.share.get() < 1.5, "one thread");
}
