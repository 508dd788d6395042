//! Measurements that commits quote: `cargo run --release -p benchsuite -- NAME...`, or without a name for the list.
//!
//! One file per subject. A measurement prints what it measured, the bar, and whether it was met; the exit code is 1 if
//! one was not. The machine is shared: noise only adds to what is done alone, so such a figure is the best of several
//! rounds; what is compared is done by turns, and the figure is a median.

mod array;
mod compare;
mod drive;
mod engines;
mod examples;
mod executor;
mod explain;
mod fio;
mod isal;
mod jobs;
mod load;
mod machine;
mod measure;
mod parity;
mod phases;
mod record;
mod replay;
mod rounds;
mod runs;
mod serve;
mod trace;
mod verdicts;
mod verify;
mod what_if;

/// One subject.
struct Bench {
    name: &'static str,
    subject: &'static str,
    /// Prints its results; false if a bar was missed.
    run: fn() -> bool,
}

const BENCHES: &[Bench] = &[
    Bench { name: "array", subject: "level 5 over eight members in memory, beside what these cost", run: array::run },
    Bench {
        name: "compare",
        subject: "how often compare calls figures of one set-up different, and a true effect none (as root; nbdkit and a built arraylab are needed)",
        run: compare::run,
    },
    Bench {
        name: "engines",
        subject: "what a request costs on real devices, beside fio (as root; fio and 1 GiB of memory are needed)",
        run: engines::run,
    },
    Bench { name: "drive", subject: "modelled drives: alone, with a queue, on a trace", run: drive::run },
    Bench {
        name: "executor",
        subject: "what an event costs under the virtual clock, with a task for each request",
        run: executor::run,
    },
    Bench {
        name: "explain",
        subject: "what explaining ten million traced requests takes, and their page (a built arraylab is needed)",
        run: explain::run,
    },
    Bench {
        name: "jobs",
        subject: "job files beside fio, on a loop device, zram and a file (as root; fio and a built arraylab are needed)",
        run: jobs::run,
    },
    Bench {
        name: "machine",
        subject: "what a request costs on whole modelled machines, driven as devices are",
        run: machine::run,
    },
    Bench { name: "parity", subject: "P and P+Q beside ISA-L, in cache and from memory", run: parity::run },
    Bench {
        name: "phases",
        subject: "whether measured phases are those that were planted (as root; nbdkit, tracefs and a built arraylab are needed)",
        run: phases::run,
    },
    Bench {
        name: "record",
        subject: "what it costs to keep a row, and to write and sum up millions",
        run: record::run,
    },
    Bench {
        name: "replay",
        subject: "whether a trace of 20,000 requests a second is replayed at its times",
        run: replay::run,
    },
    Bench {
        name: "rounds",
        subject: "whether devices behind one link are found to convoy on the real clock, and devices with links of their own are not",
        run: rounds::run,
    },
    Bench {
        name: "serve",
        subject: "our NBD server beside nbdkit and qemu-nbd (they and fio with its nbd engine are needed)",
        run: serve::run,
    },
    Bench {
        name: "trace",
        subject: "what tracing costs, and how many requests are followed (as root; tracefs is needed)",
        run: trace::run,
    },
    Bench {
        name: "verdicts",
        subject: "whether explain names causes that are planted (as root; nbdkit, fio and a built arraylab are needed)",
        run: verdicts::run,
    },
    Bench {
        name: "verify",
        subject: "what verification costs over 10 GiB written and read, and that it finds nothing there",
        run: verify::run,
    },
    Bench {
        name: "what-if",
        subject: "whether what-if says what a faster drive brings, of modelled drives served (a built arraylab is needed)",
        run: what_if::run,
    },
];

fn main() -> std::process::ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let unknown = wanted.iter().any(|name| BENCHES.iter().all(|bench| bench.name != name));
    if wanted.is_empty() || unknown {
        eprintln!("usage: benchsuite NAME...\n");
        for Bench { name, subject, .. } in BENCHES {
            eprintln!("  {name:<10} {subject}");
        }
        return 2.into();
    }
    if measure::IS_FOR_TESTS {
        println!("built for tests: figures say nothing (measure with --release)");
    }
    let mut met = true;
    for bench in BENCHES.iter().filter(|bench| wanted.iter().any(|name| name == bench.name)) {
        println!("{}: {}", bench.name, bench.subject);
        met &= (bench.run)();
    }
    if met { 0.into() } else { 1.into() }
}
