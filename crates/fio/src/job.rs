//! A job: what a section asks for, with fio's defaults where it says nothing.

use std::collections::BTreeMap;

use units::{Bytes, Duration, Frequency, Ratio};

use crate::option::{Fate, Note, canonical, fate};
use crate::syntax::{Given, Section};
use crate::value::{self, Amount, Base};
use crate::{JobError, Place};

/// One job section.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// What it is called.
    pub name: String,
    /// Where it begins.
    pub place: Place,
    /// Reads or writes: `rw`, `rwmixread`.
    pub direction: Direction,
    /// In which order: the other half of `rw`.
    pub order: Order,
    /// How reads and writes are skewed, of random orders: `random_distribution`.
    pub skew: Option<Skew>,
    /// Sizes of reads and of writes, with weights: `bs`, `bssplit`, `bsrange`.
    pub sizes: [Vec<(Bytes, u32)>; 2],
    /// On which boundary requests begin, if not on that of their size: `ba`.
    pub align: Option<Bytes>,
    /// How requests reach the kernel: `ioengine`.
    pub engine: Engine,
    /// Past the page cache: `direct`, `buffered`.
    pub direct: bool,
    /// Requests under way; 1 of engines that wait for each: `iodepth`.
    pub depth: u32,
    /// How many of this job there are: `numjobs`.
    pub copies: u32,
    /// Files and devices, if they are named: `filename`.
    pub files: Vec<String>,
    /// Where they are: `directory`.
    pub directory: Option<String>,
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
    /// Before its first request: `startdelay`.
    pub delay: Duration,
    /// It begins when all before it have ended: `stonewall`.
    pub stonewall: bool,
    /// One result for the whole group: `group_reporting`.
    pub group_reporting: bool,
    /// A group of its own: `new_group`.
    pub new_group: bool,
    /// The seed: `randseed`.
    pub seed: Option<u64>,
    /// Every write is durable when it is answered: `sync`.
    pub durable: bool,
    /// A flush after so many writes: `fsync`, `fdatasync`; 0 for none.
    pub flush_every: u32,
    /// A flush after the last write: `end_fsync`, `fsync_on_close`.
    pub flush_at_end: bool,
    /// From a completion to the next request: `thinktime`.
    pub think: Duration,
    /// Requests a second: `rate_iops`, or `rate` over the size.
    pub rate: Option<Frequency>,
    /// At random times with that rate: `rate_process=poisson`.
    pub poisson: bool,
    /// The processors: `cpus_allowed`.
    pub cpus: Vec<u32>,
    /// What is written: `zero_buffers`.
    pub fill: Fill,
    /// Files that were made are removed: `unlink`.
    pub unlink: bool,
    /// What the page cache holds is dropped first: `invalidate`.
    pub invalidate: bool,
    /// Its own options as they were given, and those of `[global]`.
    pub options: [BTreeMap<String, String>; 2],
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
}

/// In which order addresses come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    /// One after the other, with a gap: `rw=read:8k`.
    Sequential {
        /// What is left out after each request.
        gap: Bytes,
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

/// How often which blocks are asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Skew {
    /// `zipf:theta`.
    Zipf(f64),
    /// `pareto:h`.
    Pareto(f64),
    /// `normal:deviation` in percent.
    Normal(f64),
    /// `zoned:access/range:...` in percent.
    Zoned(Vec<(f64, f64)>),
}

/// How requests reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// `libaio`, `io_uring`, `posixaio`: many under way.
    Queue,
    /// `sync`, `psync`, `vsync`, `pvsync`, `pvsync2`: one system call after the other.
    Sync,
    /// `mmap`.
    Mmap,
    /// `null`: none at all.
    Null,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Random bytes.
    Random,
    /// Zeroes.
    Zero,
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

/// A section while it is read.
struct Reader<'s> {
    section: &'s Section,
    /// By name, the last of each.
    given: BTreeMap<&'s str, &'s Given>,
    base: Base,
    notes: &'s mut Vec<Note>,
}

/// More would be a slip of the pen.
const MOST_COPIES: u64 = 4096;
const MOST_DEPTH: u64 = 65_535;
const MOST_FILES: u64 = 4096;

impl<'s> Reader<'s> {
    fn new(section: &'s Section, notes: &'s mut Vec<Note>) -> Reader<'s> {
        let given: BTreeMap<&str, &Given> =
            section.options.iter().map(|given| (canonical(&given.name), given)).collect();
        let mut reader = Reader { section, given, base: Base::Binary, notes };
        for given in &section.options {
            if let Some((fate, what)) = fate(canonical(&given.name)) {
                reader.note(given, fate, what);
            }
        }
        reader
    }

    fn note(&mut self, given: &Given, fate: Fate, what: &'static str) {
        let note = Note { place: given.place.clone(), option: given.name.clone(), fate, what };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes an option of this name if it is given.
    fn not_kept(&mut self, name: &str, what: &'static str) {
        if let Some(given) = self.given.get(name).copied() {
            self.note(given, Fate::NotKept, what);
        }
    }

    fn cannot(&self, option: &str, what: impl Into<String>, next: &'static str) -> JobError {
        let place = self.given.get(option).map_or(&self.section.place, |given| &given.place).clone();
        JobError::Cannot { place, job: self.section.name.clone(), what: what.into(), next }
    }

    /// The value of an option by `read`, or what would be accepted.
    fn read<T>(
        &self,
        name: &str,
        accepted: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, JobError> {
        let Some(given) = self.given.get(name) else { return Ok(None) };
        let (place, option) = (given.place.clone(), given.name.clone());
        match given.value.as_deref().filter(|value| !value.is_empty()) {
            None => Err(JobError::NoValue { place, option, accepted }),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(JobError::Value { place, option, value: value.to_owned(), accepted }),
            },
        }
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, JobError> {
        let Some(given) = self.given.get(name) else { return Ok(None) };
        value::flag(given.value.as_deref()).map(Some).ok_or_else(|| JobError::Value {
            place: given.place.clone(),
            option: given.name.clone(),
            value: given.value.clone().unwrap_or_default(),
            accepted: "0 or 1, or the bare word for 1",
        })
    }

    fn size(&self, name: &str) -> Result<Option<Bytes>, JobError> {
        self.read(name, "a size such as 4k, 1m or 10g", |text| value::size(text, self.base))
    }

    fn amount(&self, name: &str) -> Result<Option<Amount>, JobError> {
        self.read(name, "a size such as 1g, or a share such as 20%", |text| value::amount(text, self.base))
    }

    fn time(&self, name: &str, unit: Duration) -> Result<Option<Duration>, JobError> {
        self.read(name, "a time such as 30, 30s, 5m or 1h", |text| value::time(text, unit))
    }

    fn number(&self, name: &str, most: u64) -> Result<Option<u64>, JobError> {
        let number = |text: &str| value::number(text, self.base).filter(|number| (1..=most).contains(number));
        self.read(name, "a whole number from 1 on, and none absurdly large", number)
    }

    fn job(&mut self) -> Result<Job, JobError> {
        if let Some(base) = self.read("kb_base", "1024 or 1000", |text| match text {
            "1024" => Some(Base::Binary),
            "1000" => Some(Base::Decimal),
            _ => None,
        })? {
            self.base = base;
        }
        if self.given.contains_key("read_iolog") {
            return Err(self.cannot("read_iolog", "replays a trace", "run `arraylab replay TRACE --on PATH`"));
        }
        self.not_kept("verify", "what was written is not verified");
        self.not_kept("exec_prerun", "no other programs are run");
        self.not_kept("zonesize", "zones within a file are not made");
        self.not_kept("zoneskip", "zones within a file are not made");
        let (direction, order) = self.direction()?;
        let engine = self.engine()?;
        let direct = match (self.flag("direct")?, self.flag("buffered")?) {
            (Some(direct), _) => direct,
            (None, Some(buffered)) => !buffered,
            (None, None) => false,
        };
        let sizes = self.sizes()?;
        let depth = self.number("iodepth", MOST_DEPTH)?.unwrap_or(1) as u32;
        let depth = if engine == Engine::Queue || engine == Engine::Null { depth } else { 1 };
        let think = self.time("thinktime", Duration::micros(1))?.unwrap_or(Duration::ZERO);
        if !think.is_zero() && depth > 1 {
            self.not_kept("thinktime", "each of the requests under way pauses by itself, not the job as a whole");
        }
        self.not_kept("thinktime_blocks", "the pause comes after each request");
        let (time_based, runtime) =
            (self.flag("time_based")?.unwrap_or(false), self.time("runtime", Duration::seconds(1))?);
        let runtime = runtime.filter(|runtime| !runtime.is_zero());
        if time_based && runtime.is_none() {
            return Err(self.cannot("time_based", "is to end by time alone", "add runtime=30"));
        }
        let sync = self.read("sync", "0, 1, none, sync or dsync", |text| match text {
            "0" | "none" => Some(false),
            "1" | "sync" | "dsync" => Some(true),
            _ => None,
        })?;
        let flush_every =
            ["fsync", "fdatasync"].into_iter().filter_map(|name| self.given.get(name).map(|_| name)).next();
        let flush_every = match flush_every {
            Some(name) => {
                self.read(name, "a number of writes; 0 for none", |text| text.parse::<u32>().ok())?.unwrap_or(0)
            }
            None => 0,
        };
        let at_end = self.flag("end_fsync")?.unwrap_or(false) || self.flag("fsync_on_close")?.unwrap_or(false);
        Ok(Job {
            name: self
                .given
                .get("name")
                .and_then(|given| given.value.clone())
                .unwrap_or_else(|| self.section.name.clone()),
            place: self.section.place.clone(),
            direction,
            order,
            skew: self.skew()?,
            align: self
                .read("ba", "a size such as 4k", |text| value::triple(text, |one| value::size(one, self.base)))?
                .map(|[read, write, _]| if direction == Direction::Write { write } else { read })
                .filter(|align| !align.is_zero()),
            engine,
            direct,
            depth,
            copies: self.number("numjobs", MOST_COPIES)?.unwrap_or(1) as u32,
            files: self.files(),
            directory: self.text("directory"),
            file_count: self.number("nrfiles", MOST_FILES)?.unwrap_or(1) as u32,
            file_size: self.file_size()?,
            extent: Extent {
                offset: self.amount("offset")?.unwrap_or(Amount::Bytes(Bytes::ZERO)),
                increment: self.size("offset_increment")?.unwrap_or(Bytes::ZERO),
                size: self.amount("size")?.filter(|size| *size != Amount::Bytes(Bytes::ZERO)),
                moved: self.amount("io_size")?.filter(|size| *size != Amount::Bytes(Bytes::ZERO)),
            },
            loops: self.number("loops", u64::from(u32::MAX))?.unwrap_or(1) as u32,
            requests: self.number("number_ios", u64::MAX / 2)?,
            runtime,
            time_based,
            ramp: self.time("ramp_time", Duration::seconds(1))?.unwrap_or(Duration::ZERO),
            delay: self.delay()?,
            stonewall: self.flag("stonewall")?.unwrap_or(false),
            group_reporting: self.flag("group_reporting")?.unwrap_or(false),
            new_group: self.flag("new_group")?.unwrap_or(false),
            seed: self.read("randseed", "a whole number", |text| text.parse::<u64>().ok())?,
            durable: sync.unwrap_or(false),
            flush_every,
            flush_at_end: at_end,
            think,
            rate: self.rate(direction, &sizes)?,
            poisson: self
                .read("rate_process", "linear or poisson", |text| match text {
                    "linear" => Some(false),
                    "poisson" => Some(true),
                    _ => None,
                })?
                .unwrap_or(false),
            cpus: self.cpus()?,
            fill: if self.flag("zero_buffers")?.unwrap_or(false) { Fill::Zero } else { Fill::Random },
            unlink: self.flag("unlink")?.unwrap_or(false),
            invalidate: self.flag("invalidate")?.unwrap_or(true),
            options: self.options(),
            sizes,
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        self.given.get(name).and_then(|given| given.value.clone()).filter(|value| !value.is_empty())
    }

    fn direction(&mut self) -> Result<(Direction, Order), JobError> {
        const ACCEPTED: &str = "read, write, rw, randread, randwrite or randrw";
        let text = self.read("rw", ACCEPTED, |text| Some(text.to_owned()))?;
        let text = text.unwrap_or_else(|| "read".to_owned());
        let (kind, modifier) = text.split_once(':').map_or((text.as_str(), None), |(kind, rest)| (kind, Some(rest)));
        let percent = |text: &str| text.split(',').next()?.parse::<u32>().ok().filter(|n| *n <= 100);
        let reads =
            match (self.read("rwmixread", "a percentage", percent)?, self.read("rwmixwrite", "a percentage", percent)?)
            {
                (Some(reads), _) => reads,
                (None, Some(writes)) => 100 - writes,
                (None, None) => 50,
            };
        let mixed = Direction::Mixed(Ratio::percent(f64::from(reads)));
        let (direction, random) = match kind {
            "read" => (Direction::Read, false),
            "write" => (Direction::Write, false),
            "rw" | "readwrite" => (mixed, false),
            "randread" => (Direction::Read, true),
            "randwrite" => (Direction::Write, true),
            "randrw" => (mixed, true),
            "trim" | "randtrim" | "trimwrite" | "randtrimwrite" => {
                return Err(self.cannot(
                    "rw",
                    format!("asks for '{kind}', and discards are not made"),
                    "take read, write, rw, or a random one of them",
                ));
            }
            _ => {
                let given = self.given["rw"];
                let (place, option) = (given.place.clone(), given.name.clone());
                return Err(JobError::Value { place, option, value: kind.to_owned(), accepted: ACCEPTED });
            }
        };
        if random {
            let runs =
                modifier.map_or(Some(1), |count| count.parse().ok().filter(|count| (1..1 << 40).contains(count)));
            let Some(runs) = runs else {
                return Err(self.cannot(
                    "rw",
                    "has no number of requests behind the colon",
                    "write one, such as rw=randread:8",
                ));
            };
            let jumps = self.read("percentage_random", "a percentage", percent)?.filter(|percent| *percent < 100);
            let jumps = jumps.map(|percent| Ratio::percent(f64::from(percent)));
            let once = !self.flag("norandommap")?.unwrap_or(false) && !self.given.contains_key("random_distribution");
            return Ok((direction, Order::Random { once, runs, jumps }));
        }
        let Some(modifier) = modifier else { return Ok((direction, Order::Sequential { gap: Bytes::ZERO })) };
        match value::size(modifier, self.base) {
            Some(gap) => Ok((direction, Order::Sequential { gap })),
            None => Err(self.cannot("rw", format!("has the gap '{modifier}'"), "write a size, such as rw=read:8k")),
        }
    }

    fn engine(&mut self) -> Result<Engine, JobError> {
        // The engine of fio's default is psync.
        let Some(name) = self.text("ioengine") else { return Ok(Engine::Sync) };
        Ok(match name.as_str() {
            "libaio" | "io_uring" | "posixaio" | "linuxaio" => Engine::Queue,
            "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" | "sg" | "splice" => Engine::Sync,
            "mmap" => Engine::Mmap,
            "null" => Engine::Null,
            other => {
                let what = format!("wants the engine '{other}'");
                return Err(self.cannot("ioengine", what, "there are libaio, io_uring, posixaio, sync, psync, vsync, pvsync, pvsync2, mmap and null; all of a kind are one here"));
            }
        })
    }

    /// Sizes of reads and of writes.
    fn sizes(&mut self) -> Result<[Vec<(Bytes, u32)>; 2], JobError> {
        let base = self.base;
        let one = |text: &str| value::size(text, base).filter(|size| !size.is_zero());
        if let Some([read, write, _]) = self.read("bssplit", "sizes with percentages such as 4k/60:64k/40", |text| {
            value::triple(text, |one| value::split_sizes(one, base))
        })? {
            return Ok([read, write]);
        }
        let range = |text: &str| {
            let (low, high) = text.split_once('-')?;
            let (low, high) = (one(low)?, one(high)?);
            // Every multiple of the smallest, as fio draws them.
            let count = (high.get() / low.get()).clamp(1, 4096);
            (low <= high).then(|| (1..=count).map(|n| (low * n, 1)).collect::<Vec<_>>())
        };
        if let Some([read, write, _]) =
            self.read("bsrange", "two sizes such as 4k-64k", |text| value::triple(text, range))?
        {
            return Ok([read, write]);
        }
        let sizes =
            self.read("bs", "a size such as 4k, or two for reads and writes: 4k,64k", |text| value::triple(text, one))?;
        let [read, write, _] = sizes.unwrap_or([Bytes::kib(4); 3]);
        Ok([vec![(read, 1)], vec![(write, 1)]])
    }

    /// `filename=a:b:c`, in which `\:` is a colon.
    fn files(&self) -> Vec<String> {
        let Some(text) = self.text("filename") else { return Vec::new() };
        let (mut files, mut file, mut escaped) = (Vec::new(), String::new(), false);
        for c in text.chars() {
            match c {
                '\\' if !escaped => escaped = true,
                ':' if !escaped => files.push(std::mem::take(&mut file)),
                c => {
                    file.push(c);
                    escaped = false;
                }
            }
        }
        files.push(file);
        files.retain(|file| !file.is_empty());
        files
    }

    /// The largest, of a range: what `filesize=4k-8k` draws is not worth a class of its own.
    fn file_size(&mut self) -> Result<Option<Bytes>, JobError> {
        let base = self.base;
        let range = self
            .given
            .get("filesize")
            .is_some_and(|given| given.value.as_deref().is_some_and(|value| value.contains('-')));
        if range {
            self.not_kept("filesize", "all files are of the largest size of the range");
        }
        self.read("filesize", "a size such as 1g", |text| value::size(text.rsplit('-').next()?, base))
    }

    fn delay(&mut self) -> Result<Duration, JobError> {
        let range = self
            .given
            .get("startdelay")
            .is_some_and(|given| given.value.as_deref().is_some_and(|value| value.contains('-')));
        if range {
            self.not_kept("startdelay", "all copies begin at the end of the range");
        }
        let delay = self.read("startdelay", "a time such as 5 or 5s", |text| {
            value::time(text.rsplit('-').next()?, Duration::seconds(1))
        })?;
        Ok(delay.unwrap_or(Duration::ZERO))
    }

    fn skew(&mut self) -> Result<Option<Skew>, JobError> {
        let skew = |text: &str| {
            let mut parts = text.splitn(2, ':');
            let (kind, rest) = (parts.next()?, parts.next());
            let number = |usual: f64| match rest {
                None => Some(usual),
                Some(rest) => rest.split([':', ',']).next()?.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0),
            };
            match kind {
                "random" => Some(None),
                "zipf" => number(1.1).filter(|theta| *theta <= 20.0).map(Skew::Zipf).map(Some),
                "pareto" => number(0.2).filter(|share| *share < 1.0).map(Skew::Pareto).map(Some),
                "normal" | "gauss" => number(50.0).filter(|percent| *percent <= 100.0).map(Skew::Normal).map(Some),
                "zoned" => {
                    let zones = rest?.split(',').next()?.split(':').map(|zone| {
                        let (access, range) = zone.split_once('/')?;
                        let percent =
                            |text: &str| text.trim().parse::<f64>().ok().filter(|n| (0.0..=100.0).contains(n));
                        Some((percent(access)?, percent(range)?))
                    });
                    let zones = zones.collect::<Option<Vec<(f64, f64)>>>()?;
                    let sum = |of: fn(&(f64, f64)) -> f64| zones.iter().map(of).sum::<f64>();
                    let fits = sum(|zone| zone.0) <= 100.0 && sum(|zone| zone.1) <= 100.0;
                    fits.then_some(Some(Skew::Zoned(zones)))
                }
                _ => None,
            }
        };
        let skew =
            self.read("random_distribution", "random, zipf:1.2, pareto:0.2, normal:20 or zoned:60/10:40/90", skew)?;
        Ok(skew.flatten())
    }

    /// Requests a second, both directions of a mixed job together.
    fn rate(&self, direction: Direction, sizes: &[Vec<(Bytes, u32)>; 2]) -> Result<Option<Frequency>, JobError> {
        let base = self.base;
        let sum = |[read, write, _]: [u64; 3]| match direction {
            Direction::Read => read as f64,
            Direction::Write => write as f64,
            Direction::Mixed(_) => (read + write) as f64,
        };
        let numbers = |text: &str| {
            let triple = value::triple(text, |one| value::number(one, base))?;
            triple.iter().all(|n| *n <= 1 << 50).then_some(triple)
        };
        if let Some(rates) = self.read("rate_iops", "requests a second, such as 1000 or 1000,500", numbers)? {
            return Ok(Some(sum(rates)).filter(|rate| *rate > 0.0).map(Frequency::per_second));
        }
        let Some(rates) = self.read("rate", "bytes a second, such as 10m", numbers)? else { return Ok(None) };
        let mean = |sizes: &[(Bytes, u32)]| {
            let weights: f64 = sizes.iter().map(|(_, weight)| f64::from(*weight)).sum();
            sizes.iter().map(|(size, weight)| size.get() as f64 * f64::from(*weight)).sum::<f64>() / weights.max(1.0)
        };
        let [read, write] = [mean(&sizes[0]), mean(&sizes[1])];
        let size = match direction {
            Direction::Read => read,
            Direction::Write => write,
            Direction::Mixed(reads) => read * reads.get() + write * (1.0 - reads.get()),
        };
        Ok(Some(sum(rates) / size).filter(|rate| *rate > 0.0).map(|rate| Frequency::per_second(rate.max(1e-3))))
    }

    /// `0,2-3`.
    fn cpus(&self) -> Result<Vec<u32>, JobError> {
        let list = |text: &str| {
            let mut cpus = Vec::new();
            for part in text.split([',', ':']) {
                let (from, to) = part.split_once('-').unwrap_or((part, part));
                let (from, to): (u32, u32) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
                if from > to || to >= 65_536 {
                    return None;
                }
                cpus.extend(from..=to);
            }
            Some(cpus)
        };
        Ok(self.read("cpus_allowed", "processors such as 0,2-3", list)?.unwrap_or_default())
    }

    fn options(&self) -> [BTreeMap<String, String>; 2] {
        let text =
            |given: &Given| (canonical(&given.name).to_owned(), given.value.clone().unwrap_or_else(|| "1".to_owned()));
        let (global, own) = self.section.options.split_at(self.section.inherited);
        [own.iter().map(text).collect(), global.iter().map(text).collect()]
    }
}
