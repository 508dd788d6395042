//! A job: what a section asks for, with fio's defaults where it says nothing.

use std::collections::BTreeMap;

use units::{Bytes, Duration, Frequency, Rate, Ratio};

use crate::option::Note;
use crate::reader::Reader;
use crate::syntax::Section;
use crate::value::Amount;
use crate::{JobError, Made, Piece, Place, Priorities, Reporting, Rules};

/// One job section.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// What it is called in results: `name` of its own, or its section. A `name` in `[global]` is nobody's.
    pub name: String,
    /// Its section, after which its files are called.
    pub section: String,
    /// Where it begins.
    pub place: Place,
    /// Reads or writes: `rw`, `rwmixread`.
    pub direction: Direction,
    /// In which order reads come, and writes or trims: the other half of `rw`, and `percentage_random`. In fio each has
    /// a position of its own.
    pub order: [Order; 2],
    /// How reads are skewed, and writes or trims, of random orders: `random_distribution`.
    pub skew: [Option<Skew>; 2],
    /// Sizes of reads and of writes, with weights that are not all zero: `bs`, `bssplit`, `bsrange`.
    pub sizes: [Vec<(Bytes, u32)>; 2],
    /// On which boundary reads begin, and writes, if not on that of their size: `ba`.
    pub align: [Option<Bytes>; 2],
    /// Zones of which each has its turn: `zonemode=strided`.
    pub zones: Option<Zones>,
    /// Files that are not there are made: `allow_file_create`.
    pub creates: bool,
    /// Requests with a rate are asked for at their times, whatever the device does: `io_submit_mode=offload`.
    pub offload: bool,
    /// The memory nodes whose processors it runs on: `numa_cpu_nodes`.
    pub nodes: Vec<u32>,
    /// The memory nodes that its memory is of: `numa_mem_policy`.
    pub memory_nodes: Vec<u32>,
    /// How requests reach the kernel: `ioengine`.
    pub engine: Engine,
    /// Past the page cache: `direct`, `buffered`.
    pub direct: bool,
    /// Requests under way; 1 of engines that wait for each: `iodepth`.
    pub depth: u32,
    /// Completions that are awaited before more requests are made; 1 if they are seen one by one:
    /// `iodepth_batch_complete_min`.
    pub gather: u32,
    /// How many of this job there are: `numjobs`.
    pub copies: u32,
    /// Files and devices; empty if none is named: `filename`.
    pub files: Vec<String>,
    /// Where they are; copies of the job take them in turn: `directory`.
    pub directories: Vec<String>,
    /// How files without a name are called: `filename_format`.
    pub name_format: Option<String>,
    /// How many files there are, where they are not named: `nrfiles`.
    pub file_count: u32,
    /// How large a file is: `filesize`.
    pub file_size: Option<Bytes>,
    /// The part of the files that is used, and how much is moved: `offset`, `size`, `io_size`.
    pub extent: Extent,
    /// How often all of it is moved: `loops`.
    pub loops: u32,
    /// After how many requests it is over, whatever they moved: `number_ios`.
    pub requests: Option<u64>,
    /// After what time it is over: `runtime`.
    pub runtime: Option<Duration>,
    /// Only that ends it: `time_based`.
    pub time_based: bool,
    /// Load before anything counts: `ramp_time`.
    pub ramp: Duration,
    /// Before its first request, at least and at most; each copy draws its own: `startdelay`.
    pub delay: [Duration; 2],
    /// It begins when all before it have ended: `stonewall`.
    pub stonewall: bool,
    /// One result for the whole group: `group_reporting`.
    pub group_reporting: bool,
    /// A group of its own: `new_group`.
    pub new_group: bool,
    /// The seed: `randseed`.
    pub seed: Option<u64>,
    /// Without a seed, each run asks for the same addresses: `randrepeat`, `allrandrepeat`.
    pub repeatable: bool,
    /// Its files are made, and no request: `create_only`.
    pub create_only: bool,
    /// Files are filled before they are written: `overwrite`.
    pub overwrite: bool,
    /// It writes until no room is left, which is no error; its files grow as they are written: `fill_device`.
    pub fills: bool,
    /// Its files have no room reserved, and grow as they are written: `fallocate=none`.
    pub unreserved: bool,
    /// I/O priorities of its requests: `prio`, `prioclass`, `cmdprio_*`.
    pub priorities: Priorities,
    /// The kernel is told how the file is read: `fadvise_hint`.
    pub advises: bool,
    /// Begins when this job has ended: `wait_for`.
    pub wait_for: Option<String>,
    /// What holds it back, or ends it before its limits.
    pub rules: Rules,
    /// Every write is durable when it is answered: `sync`.
    pub durable: bool,
    /// A flush after so many writes: `fsync`; 0 for none.
    pub fsync: u32,
    /// A flush of data alone after so many writes: `fdatasync`; 0 for none.
    pub fdatasync: u32,
    /// A writeback of the page cache after so many writes, 0 for none, and its steps: `wait_before`, `write`,
    /// `wait_after` of `sync_file_range`.
    pub writeback: (u32, [bool; 3]),
    /// A flush after the last write: `end_fsync`, `fsync_on_close`.
    pub flush_at_end: bool,
    /// From a completion to the next request: `thinktime`.
    pub think: Duration,
    /// How fast reads are, and writes or trims: `rate_iops`, `rate`.
    pub rate: [Option<Pace>; 2],
    /// At random times with that rate: `rate_process=poisson`.
    pub poisson: bool,
    /// The processors: `cpus_allowed`.
    pub cpus: Vec<u32>,
    /// What is written: `zero_buffers`, `buffer_pattern`, `buffer_compress_percentage`, `dedupe_percentage`.
    pub fill: Fill,
    /// Files that were made are removed: `unlink`.
    pub unlink: bool,
    /// What the page cache holds is dropped first: `invalidate`.
    pub invalidate: bool,
    /// What is written says what it is, and is read again: `verify`, `do_verify`, `verify_backlog`.
    pub verify: Option<Check>,
    /// The pattern that verified blocks hold: `verify_pattern`.
    pub known: Option<Known>,
    /// The first mismatch ends it: `verify_fatal`.
    pub fatal: bool,
    /// The requests of a trace in place of its own: `read_iolog`, `replay_*`.
    pub replay: Option<Replay>,
    /// What is reported of it.
    pub reporting: Reporting,
    /// Its own options as they were given, and those of `[global]`.
    pub options: [BTreeMap<String, String>; 2],
}

/// A rate that a job keeps to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// `rate_iops`.
    Requests(Frequency),
    /// `rate`.
    Bytes(Rate),
}

/// Reads or writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Direction {
    /// `read`, `randread`.
    Read,
    /// `write`, `randwrite`.
    Write,
    /// `rw`, `randrw`: this share of reads.
    Mixed(Ratio),
    /// `trim`, `randtrim`: discards.
    Trim,
    /// `trimwrite`, `randtrimwrite`: each block discarded, then written.
    TrimWrite,
}

impl Job {
    /// Whether its requests are carried out one by one, however many it has made.
    pub fn is_made_singly(&self) -> bool {
        self.engine.makes_singly(self.direct)
    }

    /// The mean size of a request, by the shares of sizes and of directions. Never zero.
    pub fn mean_size(&self) -> f64 {
        let mean = |sizes: &[(Bytes, u32)]| {
            let weights: f64 = sizes.iter().map(|(_, weight)| f64::from(*weight)).sum();
            sizes.iter().map(|(size, weight)| size.get() as f64 * f64::from(*weight)).sum::<f64>() / weights
        };
        let [read, write] = [mean(&self.sizes[0]), mean(&self.sizes[1])];
        match self.direction {
            Direction::Read => read,
            Direction::Write | Direction::Trim | Direction::TrimWrite => write,
            Direction::Mixed(reads) => read * reads.get() + write * (1.0 - reads.get()),
        }
    }
}

/// When what was written is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// When all is written.
    AtEnd,
    /// Not now: `do_verify=0`.
    Later,
    /// After so many later writes: `verify_backlog`.
    Behind(u32),
}

/// A pattern that is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// Blocks are the pattern and nothing else, from their first byte on: `verify=pattern`.
    Whole(Vec<Piece>),
    /// It stands behind what each sector says of itself.
    Behind(Vec<Piece>),
}

/// A trace whose requests are made.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// Traces; of several, each copy of the job takes the next. Never empty.
    pub files: Vec<String>,
    /// How much faster than it was recorded: `replay_time_scale`; nothing for as fast as possible: `replay_no_stall`.
    pub speed: Option<f64>,
    /// Where all of it goes, if not to the files that it names: `replay_redirect`.
    pub redirect: Option<String>,
    /// Requests are rounded outward to whole blocks of this: `replay_align`.
    pub align: Bytes,
}

/// In which order addresses come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    /// One after the other, with a gap: `rw=read:8k`.
    Sequential {
        /// What is left out after each request.
        gap: Bytes,
        /// By so much each begins before the last one's end: `rw=read:-8k`.
        back: bool,
    },
    /// Anywhere.
    Random {
        /// Every block once before any comes twice; without `norandommap`.
        once: bool,
        /// So many in sequence after each that is random: `rw=randread:8`.
        runs: u64,
        /// The share that is random, the rest in sequence: `percentage_random`.
        jumps: Option<Ratio>,
    },
}

impl Order {
    /// True if addresses do not just follow each other.
    pub fn is_random(self) -> bool {
        matches!(self, Order::Random { .. })
    }
}

/// How often which blocks are asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Skew {
    /// `sequence:2,0,1`: these blocks in this order, and with `random_sequence_stride` as many blocks further each
    /// time.
    Sequence(Vec<u64>, bool),
    /// `zipf:theta`.
    Zipf(f64),
    /// `pareto:h`.
    Pareto(f64),
    /// `normal:deviation` in percent.
    Normal(f64),
    /// `zoned:access/range:...` in percent.
    Zoned(Vec<(f64, f64)>),
    /// `zoned_abs:access/size:...`; of no size, what is left.
    ZonedBytes(Vec<(f64, Bytes)>),
}

/// `zonemode=strided`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zones {
    /// So much of one zone, then comes the next: `zonesize`.
    pub size: Bytes,
    /// How long a zone is: `zonerange`.
    pub range: Bytes,
    /// What lies between two zones: `zoneskip`.
    pub skip: Bytes,
}

/// How requests reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// `io_uring`: many under way.
    Queue,
    /// `libaio`: many under way, of direct requests. Through the page cache io_submit(2) carries out each request
    /// before it returns.
    Aio,
    /// `posixaio`: many wait, and one is under way, as the C library serves each file with one thread.
    Posix,
    /// `sync`, `psync`, `vsync`, `pvsync`, `pvsync2`: one system call after the other.
    Sync,
    /// `mmap`.
    Mmap,
    /// `null`: none at all.
    Null,
}

impl Engine {
    /// Whether several requests may have been made, so that there is a depth.
    pub fn is_queue(self) -> bool {
        matches!(self, Engine::Queue | Engine::Aio | Engine::Posix)
    }

    /// Whether it carries requests out one by one. fio 3.33, 16 deep on a loop device: 262,000/s of `libaio` with
    /// `direct=1` and 50,000/s without, 60,000/s of `posixaio`.
    pub fn makes_singly(self, direct: bool) -> bool {
        self == Engine::Posix || self == Engine::Aio && !direct
    }
}

/// The part of its files that a job uses, and how much it moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    /// Where it begins.
    pub offset: Amount,
    /// What each further copy begins later.
    pub increment: Bytes,
    /// How much it covers; what there is, if absent.
    pub size: Option<Amount>,
    /// How much it moves; as much as it covers, if absent.
    pub moved: Option<Amount>,
}

/// What is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fill {
    /// Random bytes.
    Random,
    /// Zeroes.
    Zero,
    /// What each write is made of.
    Made(Made),
}

/// The jobs of sections, and what of them is not kept. Each line is noted once, however many jobs inherit it.
pub fn jobs(sections: &[Section]) -> Result<(Vec<Job>, Vec<Note>), JobError> {
    let (mut jobs, mut notes) = (Vec::new(), Vec::new());
    for section in sections {
        let mut reader = Reader::new(section, &mut notes);
        jobs.push(reader.job()?);
    }
    notes.sort_by(|a: &Note, b: &Note| {
        (a.fate, &a.place.file, a.place.line).cmp(&(b.fate, &b.place.file, b.place.line))
    });
    Ok((jobs, notes))
}
