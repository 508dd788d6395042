//! What the processors did for a command in its first seconds: `cargo run -p host --example cpu -- SECONDS COMMAND
//! [ARGUMENT...]`.

use std::process::{Command, ExitCode};

use host::Kernel;
use host::cpu::{Shares, Snapshot, Thread};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(seconds), Some(program)) = (arguments.first().and_then(|text| text.parse().ok()), arguments.get(1))
    else {
        eprintln!("name a number of seconds and a command");
        return ExitCode::from(2);
    };
    let mut child = match Command::new(program).args(&arguments[2..]).spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("{program}: {error}");
            return ExitCode::from(3);
        }
    };
    let kernel = Kernel::running();
    let before = Snapshot::of(&kernel, child.id());
    std::thread::sleep(std::time::Duration::from_secs(seconds));
    let after = Snapshot::of(&kernel, child.id());
    let _ = child.wait();
    let (Ok(before), Ok(after)) = (before, after) else {
        eprintln!("{program} ended before its time");
        return ExitCode::from(3);
    };
    let usage = before.until(&after);
    let process = &usage.process;
    println!(
        "process  {} ({} of one CPU), user {}, system {}",
        process.time, process.share, process.user, process.system
    );
    println!("         of that io_uring's workers and pollers {}", process.ring_workers);
    print("thread", &process.threads);
    print("kernel", &usage.kernel_threads);
    println!("with the kernel's threads {}", usage.with_helpers());
    show("all CPUs", &usage.machine);
    usage.cpus.iter().for_each(|cpu| show(&format!("CPU {}", cpu.cpu), &cpu.shares));
    ExitCode::SUCCESS
}

fn print(what: &str, threads: &[Thread]) {
    threads
        .iter()
        .take(5)
        .for_each(|thread| println!("{what}   {:16} {:8} {}", thread.name, thread.time, thread.share));
}

fn show(what: &str, shares: &Shares) {
    let Shares { user, system, iowait, irq, softirq, steal, guest, idle } = shares;
    println!(
        "{what}: user {user}, system {system}, iowait {iowait}, irq {irq}, softirq {softirq}, steal {steal}, guest {guest}, idle {idle}"
    );
}
