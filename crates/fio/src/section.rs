//! A section as a job: its options put together, with fio's defaults where it says nothing.

use std::collections::BTreeMap;

use units::{Bytes, Duration};

use crate::JobError;
use crate::job::{Check, Direction, Engine, Extent, Job, Known, Replay};
use crate::load::pair;
use crate::option::canonical;
use crate::reader::Reader;
use crate::syntax::Given;
use crate::value::{self, Amount, Base};

/// More would be a slip of the pen.
const MOST_COPIES: u64 = 4096;
const MOST_DEPTH: u64 = 65_535;
const MOST_FILES: u64 = 4096;

impl Reader<'_> {
    pub fn job(&mut self) -> Result<Job, JobError> {
        if let Some(base) = self.read("kb_base", "1024 or 1000", |text| match text {
            "1024" => Some(Base::Binary),
            "1000" => Some(Base::Decimal),
            _ => None,
        })? {
            self.base = base;
        }
        self.not_kept("exec_prerun", "no other programs are run");
        let (direction, order) = self.direction()?;
        let engine = self.engine()?;
        // Before sizes in zones of a device are read, which are sizes of no other.
        let zones = self.zones(direction)?;
        let direct = match (self.flag("direct")?, self.flag("buffered")?) {
            (Some(direct), _) => direct,
            (None, Some(buffered)) => !buffered,
            (None, None) => false,
        };
        let sizes = self.sizes(direction)?;
        let rate = self.rate(direction)?;
        let depth = self.number("iodepth", MOST_DEPTH)?.unwrap_or(1) as u32;
        let depth = if engine.is_queue() || engine == Engine::Null { depth } else { 1 };
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
        let writes = |name| self.read(name, "a number of writes; 0 for none", |text| text.parse::<u32>().ok());
        let (fsync, fdatasync) = (writes("fsync")?.unwrap_or(0), writes("fdatasync")?.unwrap_or(0));
        let (verify, known) = self.verify(direction)?;
        if verify.is_some() {
            for option in ["buffer_pattern", "buffer_compress_percentage", "dedupe_percentage"] {
                self.not_kept(option, "what is verified says what it is, in a way of our own");
            }
        }
        let at_end = self.flag("end_fsync")?.unwrap_or(false) || self.flag("fsync_on_close")?.unwrap_or(false);
        Ok(Job {
            name: self.own("name").and_then(|own| own.value.clone()).unwrap_or_else(|| self.section.name.clone()),
            section: self.section.name.clone(),
            place: self.section.place.clone(),
            direction,
            order,
            skew: self.skew(direction)?,
            align: pair(
                direction,
                self.each_way("ba", "a size such as 4k, or one for reads and one for writes: 4k,8k", |text| {
                    value::size(text, self.base)
                })?,
            )
            .map(|align| align.filter(|align| !align.is_zero())),
            engine,
            direct,
            depth,
            gather: self.gather(engine, direct, depth)?,
            copies: self.number("numjobs", MOST_COPIES)?.unwrap_or(1) as u32,
            files: self.files()?,
            directories: self.text("directory")?.map(|text| list(&text)).unwrap_or_default(),
            name_format: self.text("filename_format")?,
            file_count: self.number("nrfiles", MOST_FILES)?.unwrap_or(1) as u32,
            file_size: self.file_size()?,
            extent: Extent {
                offset: self.amount("offset")?.unwrap_or(Amount::Bytes(Bytes::ZERO)),
                increment: self.size("offset_increment")?.unwrap_or(Bytes::ZERO),
                size: self.amount("size")?.filter(|size| *size != Amount::Bytes(Bytes::ZERO)),
                moved: self.amount("io_size")?.filter(|size| *size != Amount::Bytes(Bytes::ZERO)),
            },
            loops: self.number("loops", u64::from(u32::MAX))?.unwrap_or(1) as u32,
            requests: self.none_at_zero("number_ios", u64::MAX / 4)?,
            runtime,
            time_based,
            ramp: self.time("ramp_time", Duration::seconds(1))?.unwrap_or(Duration::ZERO),
            delay: self.delay()?,
            stonewall: self.flag("stonewall")?.unwrap_or(false),
            group_reporting: self.flag("group_reporting")?.unwrap_or(false),
            new_group: self.flag("new_group")?.unwrap_or(false),
            seed: self.read("randseed", "a whole number", |text| text.parse::<u64>().ok())?,
            repeatable: self.flag("randrepeat")?.unwrap_or(true),
            create_only: self.flag("create_only")?.unwrap_or(false),
            overwrite: self.flag("overwrite")?.unwrap_or(false),
            fills: self.flag("fill_device")?.unwrap_or(false)
                && !matches!(direction, Direction::Read | Direction::Trim),
            unreserved: self.unreserved(direction)?,
            priorities: self.priorities(engine)?,
            advises: self.advises()?,
            wait_for: self.text("wait_for")?,
            rules: self.rules(direction)?,
            durable: sync.unwrap_or(false),
            fsync,
            fdatasync,
            writeback: self.writeback()?,
            flush_at_end: at_end,
            think,
            rate,
            poisson: self
                .read("rate_process", "linear or poisson", |text| match text {
                    "linear" => Some(false),
                    "poisson" => Some(true),
                    _ => None,
                })?
                .unwrap_or(false),
            cpus: self.cpus()?,
            fill: self.fill()?,
            zones,
            creates: self.flag("allow_file_create")?.unwrap_or(true),
            offload: self.offload()?,
            nodes: self.nodes()?,
            memory_nodes: self.memory_nodes()?,
            unlink: self.flag("unlink")?.unwrap_or(false),
            invalidate: self.flag("invalidate")?.unwrap_or(true),
            verify,
            known,
            fatal: self.flag("verify_fatal")?.unwrap_or(false),
            replay: self.replay()?,
            reporting: self.reporting()?,
            options: self.options(),
            sizes,
        })
    }

    /// Whatever the checksum: what is written says what it is in a way of our own, but for a pattern that is all there
    /// is. As in fio, a pattern without a checksum is that.
    fn verify(&mut self, direction: Direction) -> Result<(Option<Check>, Option<Known>), JobError> {
        if self.flag("verify_only")?.unwrap_or(false) {
            return Err(self.cannot(
                "verify_only",
                "is to verify what an earlier run wrote",
                "run `arraylab verify RUN` with that run's folder",
            ));
        }
        let verify = self.read("verify", "md5, crc32c, sha256, xxhash, meta, pattern or another of fio's", |text| {
            Some(match text {
                "0" | "none" | "null" => None,
                text => Some(["pattern", "pattern_hdr"].iter().position(|name| *name == text)),
            })
        })?;
        let pattern = self.verify_pattern()?;
        let verify = verify.or(pattern.as_ref().map(|_| Some(Some(0))));
        let known = match (verify.flatten(), pattern) {
            (Some(Some(_)), None) => {
                let next = "add verify_pattern=0xdeadbeef";
                return Err(self.cannot("verify", "is to find a pattern, and names none", next));
            }
            (Some(Some(0)), Some(pattern)) => Some(Known::Whole(pattern)),
            (Some(_), Some(pattern)) => Some(Known::Behind(pattern)),
            _ => None,
        };
        if let (Some(Known::Whole(_)), Direction::Mixed(_)) = (&known, direction) {
            let next = "take rw=write or rw=read, or a checksum such as verify=crc32c beside verify_pattern";
            return Err(self.cannot("verify_pattern", "begins anew in each block, and reads go elsewhere", next));
        }
        let at_end = self.flag("do_verify")?.unwrap_or(true);
        let behind = self.none_at_zero("verify_backlog", u64::from(u32::MAX) >> 1)?.map(|lag| lag as u32);
        if verify.flatten().is_none() {
            return Ok((None, None));
        }
        let check = match (direction, behind) {
            (Direction::Trim | Direction::TrimWrite, _) => Err(self.cannot(
                "verify",
                "discards, and nobody says what is read of what was discarded",
                "take rw=write, or leave verify out",
            )),
            (Direction::Write | Direction::Mixed(_), Some(lag)) => Ok(Check::Behind(lag)),
            _ => Ok(if at_end { Check::AtEnd } else { Check::Later }),
        };
        Ok((Some(check?), known))
    }

    fn replay(&mut self) -> Result<Option<Replay>, JobError> {
        let Some(text) = self.text("read_iolog")? else { return Ok(None) };
        let percent = |text: &str| text.parse::<u32>().ok().filter(|percent| *percent > 0);
        let scale = self.read("replay_time_scale", "a percentage above 0, such as 200", percent)?.unwrap_or(100);
        let align = self.size("replay_align")?.unwrap_or(Bytes::SECTOR);
        if !align.get().is_power_of_two() || align < Bytes::SECTOR {
            return Err(self.cannot("replay_align", "is no whole block", "write a power of two from 512 on"));
        }
        self.not_kept("replay_scale", "addresses stay as they are");
        self.not_kept("replay_skip", "requests of all kinds are made");
        let stalls = !self.flag("replay_no_stall")?.unwrap_or(false);
        let files: Vec<String> = text.split(':').filter(|file| !file.is_empty()).map(str::to_owned).collect();
        if files.is_empty() {
            return Err(self.cannot("read_iolog", "names no trace", "write read_iolog=FILE"));
        }
        let redirect = self.text("replay_redirect")?;
        Ok(Some(Replay { files, speed: stalls.then(|| f64::from(scale) / 100.0), redirect, align }))
    }

    fn engine(&mut self) -> Result<Engine, JobError> {
        // The engine of fio's default is psync.
        let Some(name) = self.text("ioengine")? else { return Ok(Engine::Sync) };
        Ok(match name.as_str() {
            "io_uring" => Engine::Queue,
            "libaio" | "linuxaio" => Engine::Aio,
            "posixaio" => Engine::Posix,
            "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" | "sg" | "splice" => Engine::Sync,
            "mmap" => Engine::Mmap,
            "null" => Engine::Null,
            other => {
                let what = format!("wants the engine '{other}'");
                return Err(self.cannot("ioengine", what, "there are libaio, io_uring, posixaio, sync, psync, vsync, pvsync, pvsync2, mmap and null; all of a kind are one here"));
            }
        })
    }

    /// How many completions fio waits for when its queue is full. Of none it waits for one all the same.
    fn gather(&mut self, engine: Engine, direct: bool, depth: u32) -> Result<u32, JobError> {
        let least = self.read("iodepth_batch_complete_min", "a number of requests", |text| text.parse::<u32>().ok())?;
        let gather = least.unwrap_or(1).min(depth).max(1);
        if gather > 1 && engine.makes_singly(direct) {
            self.not_kept("iodepth_batch_complete_min", "its engine carries requests out one by one, and each is seen");
        }
        Ok(gather)
    }

    /// `filename=a:b:c`.
    pub fn files(&self) -> Result<Vec<String>, JobError> {
        let Some(text) = self.text("filename")? else { return Ok(Vec::new()) };
        let files = list(&text);
        match files.is_empty() {
            true => Err(self.cannot("filename", "names no file", "write filename=FILE, or leave it out")),
            false => Ok(files),
        }
    }

    /// `0` or `none` for no advice.
    fn advises(&mut self) -> Result<bool, JobError> {
        let advice = self.read("fadvise_hint", "1, 0, none, random or sequential", |text| match text {
            "0" | "none" => Some(Some(false)),
            "1" => Some(Some(true)),
            "random" | "sequential" => Some(None),
            _ => None,
        })?;
        if advice == Some(None) {
            self.not_kept("fadvise_hint", "the kernel is told how the job goes, or nothing");
        }
        Ok(advice.flatten().unwrap_or(true))
    }

    /// A file that is made has its blocks before the first request, unless a job that only writes does without. One
    /// that reads has them in fio, too, as its files are written first.
    fn unreserved(&mut self, direction: Direction) -> Result<bool, JobError> {
        let before = self.read("fallocate", "none, posix, native, keep, truncate, 0 or 1", |text| match text {
            "none" | "0" => Some(Some(false)),
            "posix" | "native" | "keep" | "1" => Some(Some(true)),
            "truncate" => Some(None),
            _ => None,
        })?;
        let filled = self.flag("overwrite")?.unwrap_or(false);
        match (before, direction) {
            (Some(Some(false)), Direction::Write) => return Ok(!filled),
            (Some(Some(false)), Direction::TrimWrite) | (Some(None), Direction::Write | Direction::TrimWrite) => {
                self.not_kept(
                    "fallocate",
                    "files have their blocks before the first request, or grow as they are written",
                );
            }
            _ => {}
        }
        Ok(false)
    }

    /// `wait_before,write:8`: after each 8 writes.
    fn writeback(&self) -> Result<(u32, [bool; 3]), JobError> {
        let accepted =
            "some of wait_before, write and wait_after, and after how many writes, such as wait_before,write:8";
        let given = self.read("sync_file_range", accepted, |text| {
            let (steps, every) = text.split_once(':').unwrap_or((text, "1"));
            let mut wanted = [false; 3];
            for step in steps.split(',') {
                wanted[["wait_before", "write", "wait_after"].iter().position(|name| *name == step.trim())?] = true;
            }
            Some((every.trim().parse().ok()?, wanted))
        })?;
        Ok(given.unwrap_or_default())
    }

    /// The largest, of a range: what `filesize=4k-8k` draws is not worth a class of its own.
    fn file_size(&mut self) -> Result<Option<Bytes>, JobError> {
        let base = self.base;
        let range =
            self.given("filesize").is_some_and(|given| given.value.as_deref().is_some_and(|value| value.contains('-')));
        if range {
            self.not_kept("filesize", "all files are of the largest size of the range");
        }
        self.read("filesize", "a size such as 1g", |text| value::size(text.rsplit('-').next()?, base))
    }

    /// One time, or a range of which each copy draws its own.
    fn delay(&mut self) -> Result<[Duration; 2], JobError> {
        let delay = self.read("startdelay", "a time such as 5 or 5s, or a range of them such as 5-10", |text| {
            let (low, high) = text.split_once('-').unwrap_or((text, text));
            let time = |text| value::time(text, Duration::seconds(1));
            Some([time(low)?, time(high)?]).filter(|[low, high]| low <= high)
        })?;
        Ok(delay.unwrap_or([Duration::ZERO; 2]))
    }

    fn offload(&mut self) -> Result<bool, JobError> {
        let offload = self.read("io_submit_mode", "inline or offload", |text| match text {
            "inline" => Some(false),
            "offload" => Some(true),
            _ => None,
        })?;
        Ok(offload.unwrap_or(false))
    }

    fn nodes(&mut self) -> Result<Vec<u32>, JobError> {
        let nodes = self.read("numa_cpu_nodes", "memory nodes such as 0 or 0-1", numbers)?;
        Ok(nodes.unwrap_or_default())
    }

    /// `default` and `local` are what the kernel does in any case.
    fn memory_nodes(&mut self) -> Result<Vec<u32>, JobError> {
        let nodes = self.read("numa_mem_policy", "default, local, prefer:0, bind:0-1 or interleave:0,1", |text| {
            match text.split_once(':').unwrap_or((text, "")) {
                ("default" | "local", _) => Some(Vec::new()),
                ("prefer" | "bind" | "interleave", nodes) => numbers(nodes),
                _ => None,
            }
        })?;
        Ok(nodes.unwrap_or_default())
    }

    /// `0,2-3`.
    fn cpus(&self) -> Result<Vec<u32>, JobError> {
        Ok(self.read("cpus_allowed", "processors such as 0,2-3", numbers)?.unwrap_or_default())
    }

    fn options(&self) -> [BTreeMap<String, String>; 2] {
        // A bare word has no value, and fio does not repeat it.
        let text = |given: &Given| Some((canonical(&given.name).to_owned(), given.value.clone()?));
        let (global, own) = self.section.options.split_at(self.section.inherited);
        [own.iter().filter_map(text).collect(), global.iter().filter_map(text).collect()]
    }
}

/// `0,2-3`.
fn numbers(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.split([',', ':']) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        if from > to || to >= 65_536 {
            return None;
        }
        numbers.extend(from..=to);
    }
    Some(numbers)
}

/// `a:b:c`, in which `\:` is a colon.
fn list(text: &str) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    for c in text.chars() {
        match c {
            ':' if part.ends_with('\\') => {
                part.pop();
                part.push(':');
            }
            ':' => parts.push(std::mem::take(&mut part)),
            c => part.push(c),
        }
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    parts
}
