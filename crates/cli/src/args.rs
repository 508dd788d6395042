//! The words of the command line, and the help that explains them.

// Documentation of arguments is the text of the help, where brackets are no links.
#![allow(rustdoc::broken_intra_doc_links)]

mod array;
mod catalogue;
mod compare;
mod copy;
mod explain;
mod import;
mod maximum;
mod predict;
mod programs;
mod replay;
mod report;
mod serving;
mod set;
mod storm;
mod subject;
mod verify;
mod what_if;
mod zero;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use lab::find_limit::Bound;
use lab::hosts::Place;
use lab::{LANGUAGE, Setting, Target};
use machine::entry::Way;
use nbd::Address;
use units::{Bytes, Duration};

pub use array::{
    Add, Array, ArrayAction, Assemble, Create, Layout, Pace, Paths, Rebuild, Replace, Scrub, ServeArray, Set, Upkeep,
    Zero,
};
pub use catalogue::{Import, Parts, PartsAction, Systems, SystemsAction, Template, Validate};
pub use compare::Compare;
pub use copy::Copy;
pub use explain::Explain;
pub use import::{Format, Import as ImportJob};
pub use maximum::{Max, MaxMethod};
pub use predict::{Predict, PredictRounds, Predicted};
pub use programs::{Bsd, XddWords};
pub use replay::Replay;
pub use report::Report;
pub use serving::Bounds;
pub use storm::Storm;
pub use verify::Verify;
pub use what_if::WhatIf;

/// A laboratory for disk arrays.
///
/// arraylab says where the time of storage goes, what limits it, what the next limit is and what a change would bring.
#[derive(Parser)]
#[command(
    name = "arraylab",
    version,
    max_term_width = 100,
    after_long_help = "\
Examples:
  arraylab survey                          four files that it makes itself, and removes
  arraylab survey /dev/sdb /dev/sdc        two disks; nothing is written
  arraylab run load.toml --on /dev/sdb     a workload of your own
  arraylab run raid-i/figure-03            an experiment of a study, on the machine modelled
  arraylab explain runs/2026-02-14-load-1  what limited it, and on what evidence
  arraylab help run                        what a workload can say

Results go to standard output, everything else to standard error. With --json the result is one JSON document.

Exit codes:
  0  done
  1  the answer is no
  2  bad input
  3  the world failed (an I/O error, no permission), or Ctrl-C came before the end"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands; what each does stands above its words.
#[derive(Subcommand)]
pub enum Command {
    Survey(Survey),
    Max(Max),
    Run(Run),
    Verify(Verify),
    Copy(Copy),
    Import(ImportJob),
    Replay(Replay),
    Xdd(XddWords),
    Bsd(Bsd),
    Serve(Serve),
    Experiments(Experiments),
    Explain(Explain),
    Compare(Compare),
    WhatIf(WhatIf),
    Report(Report),
    Predict(Predict),
    Reproduce(Reproduce),
    Parts(Parts),
    Systems(Systems),
    Validate(Validate),
    Array(Array),
    Storm(Storm),
}

/// What every command that measures takes.
#[derive(Args)]
pub struct Common {
    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,

    /// Where run folders are made
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub runs: PathBuf,

    /// Allow writing to the devices named. What is on them is lost
    ///
    /// Mounted devices, swap, and devices that carry a file system, a partition table or a RAID superblock are refused
    /// all the same, unless they are named twice.
    #[arg(long)]
    pub destroy_data: bool,
}

/// What can be seen while a command goes on.
#[derive(Args)]
pub struct Seen {
    /// Print each second what every device does, which ones lag behind, and what limits so far; of real devices
    #[arg(long)]
    pub watch: bool,

    /// Answer Prometheus here meanwhile, at http://ADDRESS/metrics; of real devices
    ///
    /// The same figures are in the run folder meanwhile, in status.json.
    #[arg(long, value_name = "IP:PORT")]
    pub metrics: Option<std::net::SocketAddr>,
}

/// Find where the storage of this machine stops, and why
///
/// Each device is measured alone; then, for every part that several share (a disk, a link, an adapter, the host), they
/// are added one at a time. What they deliver together is compared with the sum of what each delivers alone, raw
/// (direct, asynchronous) and through the operating system (buffered, one process per device). Every point is measured
/// at least three times.
///
/// Without a path, four files are made in the present directory, surveyed, and removed. With --system, a modelled
/// machine is surveyed in the same way, and its ladder of bottlenecks derived: each part is made faster in turn.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab survey
  arraylab survey --dir /mnt/array            the file system mounted there, by four files on it
  arraylab survey /dev/nvme0n1 /dev/nvme1n1   nothing is written
  arraylab survey /dev/sd[b-i] --time 5min    longer, and so surer
  arraylab survey --json | jq '.ladder'
  arraylab survey --system raid-i             a modelled machine, in virtual time
  arraylab survey --system raid-i --set vme.rate=20MB/s

Ctrl-C, kill or an I/O error ends the survey early: files that it made are removed, what was
measured until then is kept and printed, the exit code is 3, and the JSON says
\"interrupted\": true.")]
pub struct Survey {
    /// Files or block devices of at least 16 MiB; they are only read, unless --destroy-data is given
    pub paths: Vec<PathBuf>,

    /// Where to make files when no path is given
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "paths")]
    pub dir: PathBuf,

    /// How many files to make when no path is given
    #[arg(long, value_name = "N", default_value_t = 4, conflicts_with = "paths",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub files: u32,

    /// How large each of them is [default: 256 MiB, less where there is little room]
    #[arg(long, value_name = "SIZE", conflicts_with = "paths")]
    pub size: Option<Bytes>,

    /// Survey a modelled machine: one that `arraylab systems` lists, or the path of a system file
    #[arg(long, value_name = "NAME", conflicts_with_all = ["paths", "dir", "files", "size", "time", "destroy_data"])]
    pub system: Option<String>,

    /// Change a value of a part of the modelled machine, such as vme.rate=20MB/s; may be given several times
    #[arg(long, value_name = "PART.VALUE=TEXT", requires = "system")]
    pub set: Vec<Setting>,

    /// Size of sequential requests to a modelled machine [default: 256 KiB, or 32 KiB if its drives take one command at
    /// a time]
    #[arg(long, value_name = "SIZE", requires = "system", value_parser = crate::model::request)]
    pub request: Option<Bytes>,

    /// Requests under way on each drive of a modelled machine [default: 4 in sequence and 32 at random, or 1 if its
    /// drives take one command at a time]
    #[arg(long, value_name = "N", requires = "system", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub depth: Option<u32>,

    /// About how long all measurements may take together
    #[arg(long, value_name = "TIME", default_value = "60 s")]
    pub time: Duration,

    /// How often each point is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub repeats: u32,

    /// While it goes on.
    #[command(flatten)]
    pub seen: Seen,

    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
}

/// Run a workload on files, disks or simulated devices, or on a modelled machine
///
/// The experiment is a TOML file: streams of requests, how long and how often they run, what is swept, and the modelled
/// machine they run on if they do not run on devices given by --on. A run folder keeps the experiment as it ran, every
/// request with its time stamps, the summary and the environment.
#[derive(Args)]
#[command(after_long_help = format!("\
Examples:
  arraylab run load.toml --on /dev/sdb,/dev/sdc
  arraylab run load.toml --on data.bin --set stream.readers.depth=8 --set run.measure=5s
  arraylab run load.toml --on memory:1GiB:100us        the same in virtual time
  arraylab run load.toml --on part:mg10-20tb           on a modelled drive of 20 TB
  arraylab run load.toml --on 'nbd+unix:///?socket=/run/a.sock'   the export of a server
  arraylab run load.toml --on /dev/sdb --destroy-data   a workload that writes
  arraylab run randread.fio                            a job file of fio, as fio would run it
  arraylab run randread.fio --format fio-json          the result as fio prints it
  arraylab run randread.fio --on part:mg10-20tb        the job on a modelled drive
  arraylab run load.toml --on /dev/sdb --trace         where time goes in the kernel
  arraylab run load.toml --on /dev/sdb --find-limit 'p99 <= 5 ms'   the highest rate that keeps it
  mpirun -n 4 --host a,b,c,d arraylab run load.toml --on /dev/sdb    four hosts, one result
  arraylab run raid-i/figure-03                        a figure of a study, on the machine modelled
  arraylab run raid-i/figure-07 --set vme.rate=20MB/s  the same with a faster backplane

Ctrl-C, kill or an I/O error ends the run early: what was recorded is kept and printed, the
exit code is 3, and the JSON says \"interrupted\": true. In a sweep, so are the points before.

The experiment:

{LANGUAGE}"))]
pub struct Run {
    /// The experiment's file, the name of one that comes with the program (`arraylab experiments`), or a job file of
    /// fio
    pub experiment: PathBuf,

    /// Devices: paths, NBD URIs, memory:SIZE[:DELAY] and part:NAME (simulated), null:SIZE (the generator alone); none
    /// where the experiment names a [system]
    ///
    /// The load of a modelled file server (`scb/heavy`, `nfs/load`) goes to what is named here instead, and so do the
    /// programs of a modelled file system (`vax/780`) and streams with through = "files", to directories. In a
    /// directory a file is made, which stays for the next run.
    #[arg(long, value_name = "PATH,...", value_delimiter = ',')]
    pub on: Vec<Target>,

    /// Change a value of the experiment, such as run.measure=5s or stream.NAME.depth=8, or of a part of its modelled
    /// machine, such as wren-iv.read-ahead.until=none; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Setting>,

    /// Print the result as one document in the shape of another program's
    #[arg(long, value_name = "SHAPE", value_enum, conflicts_with = "json")]
    pub format: Option<Format>,

    /// Refuse a job file of fio with options that are not kept to the letter
    #[arg(long)]
    pub strict: bool,

    /// Run a job file of fio without the options that are unknown or not supported, and list them
    #[arg(long, conflicts_with = "strict")]
    pub lenient: bool,

    /// Follow each request through the kernel's block layer, as root: `arraylab explain` then shows where its time went
    ///
    /// Reads the trace points of block devices that are opened past the page cache, through tracefs. What that costs,
    /// how many requests were followed and how many events were lost is said in the result. Where tracing is not
    /// permitted, the run goes on without, and says so.
    #[arg(long)]
    pub trace: bool,

    /// Find the highest rate of arrivals at which response times keep to a bound, such as "p99 <= 5 ms"
    ///
    /// All open loops of the experiment are run at one multiple of their rates after the other, until a rate that keeps
    /// the bound and one that breaks it are within 2 percent. Every run is shown and kept. Bounded can be mean, p50,
    /// p90, p99, p99.9 and max; exit code 1 if no rate keeps the bound.
    #[arg(long, value_name = "BOUND")]
    pub find_limit: Option<Bound>,

    /// Go on with a sweep that was ended early: its folder; points that were run to their end are not run again
    ///
    /// Experiment, --set, devices and program must be those that it was begun with.
    #[arg(long, value_name = "SWEEP")]
    pub resume: Option<PathBuf>,

    /// While it goes on.
    #[command(flatten)]
    pub seen: Seen,

    /// Where the ranks of a run on several hosts meet: a folder that all of them see, or HOST:PORT of rank 0 [default:
    /// the folder of --runs]
    ///
    /// Started by mpirun or srun, each process is a rank: it loads its own devices, all begin at one instant, and rank
    /// 0 prints one result. In paths {rank} and {host} stand for those of the rank.
    #[arg(long, value_name = "PLACE")]
    pub meet: Option<Place>,

    /// How long the ranks of a run wait for each other
    #[arg(long, value_name = "TIME", default_value = "2 min")]
    pub meet_within: Duration,

    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
}

/// Serve files, devices and modelled machines as network block devices
///
/// Clients are nbdcopy, qemu, fio, the kernel (nbd-client), another arraylab. It prints the URIs by which they find it,
/// and serves until Ctrl-C or SIGTERM; then it finishes what is under way, flushes, and removes its sockets.
///
/// A file in which nothing is recognised is served for reading and writing. One that carries a file system, a partition
/// table or a RAID superblock, and any device, needs --destroy-data, and is named twice where data were recognised; or
/// --read-only.
///
/// A modelled machine (--system) or drive (part:NAME) answers when the model says, in real time. It has no contents, as
/// the "diskless arrays" of the M.A.X. study: it reads as zeroes, and what is written is dropped, but for the first 512
/// bytes; unless a file holds them (--backing). At the end it says how late its answers were.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab serve disk.img --nbd unix:disk.sock
  arraylab serve disk.img --nbd tcp:127.0.0.1:10809 --read-only
  arraylab serve a.img b.img --nbd unix:/run/two.sock     two exports, a.img and b.img
  arraylab serve disk.img --nbd tcp:0.0.0.0:10809 --tls /etc/pki/nbd
  arraylab serve --system raid-i --nbd unix:raid.sock     a modelled array, with its timing
  arraylab serve --system raid-i --way raw --disks disk-0.0 --backing wren.img --nbd unix:wren.sock
  arraylab serve part:mg10-20tb --nbd unix:big.sock       a modelled drive
  nbdcopy 'nbd+unix:///?socket=disk.sock' copy.img        a client
  arraylab run load.toml --on 'nbd+unix:///?socket=disk.sock'

What is supported, and how it compares: docs/nbd.md")]
pub struct Serve {
    /// Files, block devices or modelled drives (part:NAME). One is the default export; several are exports under their
    /// file names
    #[arg(required_unless_present = "system")]
    pub paths: Vec<PathBuf>,

    /// Serve a modelled machine: one that `arraylab systems` lists, or the path of a system file
    #[arg(long, value_name = "NAME", conflicts_with = "paths")]
    pub system: Option<String>,

    /// How requests enter the modelled machine [default: its array if it has one, raw otherwise]
    ///
    /// no-copy, by the call that neither copies nor flushes; raw, as requests of processes; asynchronous, as requests
    /// that one program has under way; array, to the array that the system describes; files, to its network file
    /// server.
    #[arg(long, value_name = "WAY", requires = "system")]
    pub way: Option<Way>,

    /// Its disks that are served, or form the array, such as disk-0.0,disk-0.1 [default: all, or the array's]
    #[arg(long, value_name = "NODE,...", value_delimiter = ',', requires = "system")]
    pub disks: Vec<String>,

    /// Change a value of a part of the modelled machine, such as vme.rate=20MB/s; may be given several times
    #[arg(long, value_name = "PART.VALUE=TEXT", requires = "system")]
    pub set: Vec<Setting>,

    /// A file with the contents of the one modelled device that is served; made, sparse, where there is none
    #[arg(long, value_name = "FILE")]
    pub backing: Vec<PathBuf>,

    /// Where to listen: unix:PATH (for this user only), tcp:HOST:PORT, or systemd for the sockets that a socket unit
    /// passes; may be given several times
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub nbd: Vec<Address>,

    /// What clients may have.
    #[command(flatten)]
    pub bounds: Bounds,

    /// Refuse all writes
    #[arg(long, conflicts_with = "destroy_data")]
    pub read_only: bool,

    /// Past the page cache of this machine
    #[arg(long)]
    pub direct: bool,

    /// Speak only TLS, with the certificates in this folder: ca-cert.pem, server-cert.pem, server-key.pem
    ///
    /// Clients must show a certificate signed by that authority. Addresses that other machines can reach are served no
    /// other way.
    #[arg(long, value_name = "DIR")]
    pub tls: Option<PathBuf>,

    /// Print where it serves as one JSON document
    #[arg(long)]
    pub json: bool,

    /// Allow writing to devices, and to files that carry data
    #[arg(long)]
    pub destroy_data: bool,
}

/// List the experiments that come with the program, or show one
///
/// Those of a study are named by it and by the figure or table of the paper. What is shown is a file that `arraylab
/// run` takes: write it to disk, change it, and run it.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab experiments                         all of them, a line each
  arraylab experiments raid-i/figure-03        the file
  arraylab run raid-i/figure-03                runs it")]
pub struct Experiments {
    /// An experiment, or a study
    pub name: Option<String>,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Hold the modelled machines against what was published about the real ones
///
/// Every number and every claim of a study is printed beside what the model gives, with its relative error: within 5,
/// 10 or 25 percent, off, or not reproduced, which counts as off. Some numbers are shown and not scored: the study
/// contradicts itself, a value was fitted on them, they are printed a second time, or they are less than 5 percent of a
/// whole. Each table of parts is judged as a whole by its misplaced time: half the sum of the differences, divided by
/// the whole. Beside the score stand those of two models that know nothing: one answers zero, one the mean of the
/// study's other numbers of the quantity.
///
/// A study may be a folder of your own: what you measured on a machine, and what of its model each number is
/// (docs/studies.md).
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab reproduce raid-i
  arraylab reproduce raid-i --check                  exit code 1 if the model is not as good as promised
  arraylab reproduce raid-i --set vme.rate=20MB/s    the same tables from a machine with another backplane
  arraylab reproduce rounds --seed 2                 and from another draw
  arraylab reproduce rounds --repeat 8               and with less left to the draw
  arraylab reproduce my-server/                      a study of your own, see docs/studies.md
  arraylab reproduce --json | jq '.[].score'")]
pub struct Reproduce {
    /// The studies, by name or by folder; all that come with the program if none is named
    #[arg(value_name = "STUDY")]
    pub studies: Vec<String>,

    /// Exit with 1 if a study is reproduced less well than promised
    #[arg(long)]
    pub check: bool,

    /// Change a value of a part or of the system, such as wren-iv.read-ahead.until=none; may be given several times
    #[arg(long, value_name = "PART.VALUE=TEXT")]
    pub set: Vec<Setting>,

    /// Draw addresses, and what else is left to chance, from another seed than the experiments' own
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// Make so many times as many passes of each trial, so that less is left to chance; it takes as much longer
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub repeat: u16,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}
