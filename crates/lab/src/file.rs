//! The file of an experiment as it is written, and the checks by which it becomes an [`Experiment`].
//!
//! Every value that a check may refuse keeps its place in the text (`Spanned`), so that the message can point there.

use std::collections::BTreeMap;
use std::ops::Range;

use device::Device;
use host::precaution::Precautions;
use machine::entry::{Entry, Way};
use serde::Deserialize;
use toml::Spanned;
use units::{Bytes, Duration, Ratio};
use uring::{Engine, Mode};
use workload::{
    Discards, Fill, Flushes, Limits, Load, Mix, OnError, Priorities, ReadBehind, Region, Rules, Share, Sizes, Stream,
    Verify,
};

use crate::copies::{Copies, Spread};
use crate::described::{Described, FileDescribed};
use crate::experiment::{Experiment, Io, Run, StreamPlan, Through};
use crate::offered::{FileArrivals, FileRateLimit, check_load};
use crate::pattern::{Around, FileFrom, FilePattern};
use crate::slow::FileSlow;
use crate::source::{Source, SourceError};
use crate::steady::{FilePrecondition, FileSteady};
use crate::system::{FileSystem, System};

/// The file as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct File {
    name: Option<String>,
    #[serde(default = "one")]
    seed: u64,
    published: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    run: FileRun,
    precondition: Option<FilePrecondition>,
    system: Option<FileSystem>,
    #[serde(default)]
    device: Vec<Spanned<FileDescribed>>,
    #[serde(default)]
    io: Io,
    #[serde(default)]
    care: FileCare,
    #[serde(default)]
    slow: Vec<Spanned<FileSlow>>,
    #[serde(default)]
    stream: Vec<Spanned<FileStream>>,
    /// Already applied; here only so that it is a known key.
    #[serde(default, rename = "sweep")]
    _sweep: BTreeMap<String, toml::Value>,
    /// Likewise.
    #[serde(rename = "gain")]
    _gain: Option<toml::Value>,
}

/// The keys of an experiment.
pub(crate) const KEYS: [&str; 13] = [
    "name",
    "seed",
    "published",
    "run",
    "precondition",
    "system",
    "device",
    "io",
    "care",
    "slow",
    "stream",
    "sweep",
    "gain",
];

fn one() -> u64 {
    1
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FileRun {
    passes: Option<Spanned<u16>>,
    steady: Option<Spanned<FileSteady>>,
    start_up: Option<Spanned<Duration>>,
    measure: Option<Spanned<Duration>>,
    cool_down: Option<Spanned<Duration>>,
    on_error: Option<OnError>,
    devices: Option<Spanned<usize>>,
    rate_limit: Option<Spanned<FileRateLimit>>,
    #[serde(default)]
    trace: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct FileCare {
    lock_memory: bool,
    real_time: Option<Spanned<i64>>,
    cpus: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FileStream {
    name: Option<Spanned<String>>,
    on: Option<Spanned<Vec<usize>>>,
    operation: FileOperation,
    pattern: Spanned<FilePattern>,
    size: Spanned<FileSize>,
    write_size: Option<Spanned<FileSize>>,
    write_pattern: Option<Spanned<FilePattern>>,
    write_from: Option<Spanned<FileFrom>>,
    align: Option<Spanned<Bytes>>,
    write_align: Option<Spanned<Bytes>>,
    region: Option<FileRegion>,
    share: Option<Spanned<FileShare>>,
    from: Option<Spanned<FileFrom>>,
    copies: Option<Spanned<u32>>,
    spread: Option<Spanned<Spread>>,
    delay: Option<Spanned<Duration>>,
    ramp: Option<Spanned<Duration>>,
    apart: Option<Spanned<Duration>>,
    depth: Option<Spanned<u32>>,
    think: Option<Spanned<Duration>>,
    arrivals: Option<Spanned<FileArrivals>>,
    outstanding: Option<Spanned<u32>>,
    rate_limit: Option<Spanned<FileRateLimit>>,
    read_rate_limit: Option<Spanned<FileRateLimit>>,
    write_rate_limit: Option<Spanned<FileRateLimit>>,
    limit: Option<Spanned<FileLimit>>,
    fill: Option<Spanned<Fill>>,
    verify: Option<Spanned<Verify>>,
    pipeline: Option<Spanned<bool>>,
    turns: Option<Spanned<u32>>,
    lock_step: Option<Spanned<bool>>,
    #[serde(default)]
    one_at_a_time: bool,
    #[serde(default)]
    overlap: bool,
    file: Option<Spanned<FileState>>,
    through: Option<Spanned<FileThrough>>,
}

/// `through` as it is written.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum FileThrough {
    Files,
}

/// Whether the file that a stream asks for is there when the run begins.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum FileState {
    There,
    Absent,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FileOperation {
    Read,
    Write,
    Reads(Spanned<Ratio>),
    ReadBehind(u32),
    Mixed(FileMix),
    Discard,
    DiscardAndWrite,
}

/// Reads and writes, of which writes are read again.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FileMix {
    reads: Spanned<Ratio>,
    read_behind: u32,
    lap: Option<Spanned<Bytes>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FileRegion {
    start: Option<Bytes>,
    length: Option<Spanned<Bytes>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FileShare {
    part: u32,
    of: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FileLimit {
    requests: Option<u64>,
    bytes: Option<Bytes>,
    time: Option<Spanned<Duration>>,
    laps: Option<u32>,
    #[serde(default)]
    end_all: bool,
    #[serde(default)]
    stop: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FileChoice {
    size: Bytes,
    weight: u32,
}

/// A table of sizes by its name, which is changed: `times` makes all sizes larger, `large` makes the large ones more
/// frequent.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FileTable {
    table: String,
    times: Option<Ratio>,
    large: Option<Ratio>,
}

impl FileTable {
    /// The sizes, to the nearest whole sector.
    fn sizes(&self) -> Result<Vec<(Bytes, u32)>, String> {
        let names = Sizes::NAMED.join(", ");
        let named = Sizes::named(&self.table);
        let named = named.ok_or_else(|| format!("there is no table '{}'; there are: {names}", self.table))?;
        let named = self.large.map_or(Ok(named.clone()), |times| {
            named.with_large(times).map_err(|most| format!("`large` is from 1 % to {most} of this table, not {times}"))
        })?;
        let times = self.times.unwrap_or(Ratio::ONE);
        if !(0.01..=100.0).contains(&times.get()) {
            return Err(format!("`times` is from 1 % to 10000 %, not {times}"));
        }
        let scaled = |(size, weight): (Bytes, u32)| {
            let sectors = (size.get() as f64 * times.get() / Bytes::SECTOR.get() as f64).round();
            (Bytes::SECTOR * (sectors as u64).max(1), weight)
        };
        Ok(named.choices().map(scaled).collect())
    }
}

/// One size as text, a list of sizes with weights, or what all members of a modelled array have side by side.
enum FileSize {
    Sizes(Vec<(Bytes, u32)>),
    Stripe,
}

impl<'de> Deserialize<'de> for FileSize {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<FileSize, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = FileSize;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                let names = Sizes::NAMED.join(", ");
                write!(
                    f,
                    "a size such as \"4 KiB\", a list such as [{{ size = \"4 KiB\", weight = 3 }}], \"stripe\" of a modelled array, a table by its name: {names}, or a table with larger ones, such as {{ table = \"laddis-reads\", times = \"125 %\" }}, or with large ones more often, such as {{ table = \"laddis-reads\", large = \"150 %\" }}"
                )
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<FileSize, E> {
                if text == "stripe" {
                    return Ok(FileSize::Stripe);
                }
                if let Some(named) = Sizes::named(text) {
                    return Ok(FileSize::Sizes(named.choices().collect()));
                }
                Ok(FileSize::Sizes(vec![(text.parse().map_err(E::custom)?, 1)]))
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<FileSize, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<FileSize, A::Error> {
                let table = FileTable::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                table.sizes().map(FileSize::Sizes).map_err(serde::de::Error::custom)
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<FileSize, A::Error> {
                let mut choices = Vec::new();
                while let Some(choice) = list.next_element::<FileChoice>()? {
                    choices.push((choice.size, choice.weight));
                }
                Ok(FileSize::Sizes(choices))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A larger request would not be one request: the kernel cuts at 2 GiB, and memory for a queue of them runs out first.
pub(crate) const LARGEST_REQUEST: Bytes = Bytes::gib(1);
/// A longer part of a run is a slip of the unit; and sums of such times stay far below the 584 years that a clock can
/// count.
const LONGEST: Duration = Duration::seconds(365 * 24 * 3600);

/// A time of the file, if it is there and not absurd.
pub(crate) fn time(
    source: &Source,
    what: &str,
    given: &Option<Spanned<Duration>>,
) -> Result<Option<Duration>, SourceError> {
    match given {
        Some(time) if *time.get_ref() > LONGEST => {
            Err(source.error(time.span(), format!("`{what}` must be at most a year, 8760 h")))
        }
        given => Ok(given.as_ref().map(|time| *time.get_ref())),
    }
}

impl File {
    /// The experiment, or what is wrong with it.
    pub fn check(self, source: &Source) -> Result<Experiment, SourceError> {
        let stem = std::path::Path::new(&source.name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = self.name.or(stem).unwrap_or_else(|| "experiment".to_owned());
        let run = self.run.check(source)?;
        let care = self.care.check(source)?;
        if self.stream.is_empty() {
            return Err(source.error(None, "there is no load").help(
                "add a stream:\n[[stream]]\noperation = \"read\"\npattern = \"random\"\nsize = \"4 KiB\"\ndepth = 1",
            ));
        }
        let (system, devices) = self.system.map(|system| system.check(source)).transpose()?.unzip();
        let devices: Vec<Entry> = devices.unwrap_or_default();
        if let (Some(_), Some(device)) = (&system, self.device.first()) {
            return Err(source
                .error(device.span(), "a modelled machine has devices of its own; leave out [[device]], or [system]"));
        }
        let described = self.device.into_iter().map(|device| FileDescribed::check(device, source, self.io));
        let described = described.collect::<Result<Vec<_>, _>>()?;
        let sync = self.io.engine == Some(Engine::Sync);
        let mut streams: Vec<StreamPlan> = Vec::new();
        let mut made: Option<Range<usize>> = None;
        let mut places: Vec<Range<usize>> = Vec::new();
        for (index, stream) in self.stream.into_iter().enumerate() {
            let place = stream.span();
            let name = stream.get_ref().name.clone();
            if let Some(given) = stream.get_ref().lock_step.as_ref().filter(|given| sync && *given.get_ref()) {
                return Err(source
                    .error(given.span(), "`lock-step` has the requests of all devices under way in one thread, and `engine = \"sync\"` only one")
                    .help("take `engine = \"io-uring\"` or `engine = \"threads\"`"));
            }
            if let Some(given) = stream.get_ref().turns.as_ref().filter(|_| sync) {
                return Err(source
                    .error(
                        given.span(),
                        "`turns` go round all devices in one thread, and `engine = \"sync\"` has one for each",
                    )
                    .help("take `engine = \"io-uring\"` or `engine = \"threads\"`"));
            }
            let mut stream = stream.into_inner();
            if let Some(stripe) = devices.first().and_then(Entry::stripe) {
                let sizes = std::iter::once(&mut stream.size).chain(&mut stream.write_size);
                for size in sizes.map(Spanned::get_mut).filter(|size| matches!(size, FileSize::Stripe)) {
                    *size = FileSize::Sizes(vec![(stripe, 1)]);
                }
            }
            let through = stream.through(source, system.as_ref())?;
            let words = stream.through.as_ref().map(Spanned::span).or(stream.file.as_ref().map(Spanned::span));
            places.extend(words);
            if let Some(verify) = stream.verify.as_ref().filter(|_| through == Through::NewFile) {
                return Err(source
                    .error(
                        verify.span(),
                        "a file that is made anew before each pass has lost what the pass before wrote",
                    )
                    .help("leave out `verify`, or file = \"absent\""));
            }
            if through == Through::NewFile {
                made = made.or(stream.file.as_ref().map(Spanned::span));
            }
            let copies = Copies { number: stream.copies.take(), spread: stream.spread.take() };
            for plan in copies.of(source, stream.check(source, index, run.measure)?)? {
                if streams.iter().any(|other| other.stream.name == plan.stream.name) {
                    let place = name.map_or(place, |name| name.span());
                    let message = format!("two streams are called '{}'", plan.stream.name);
                    return Err(source.error(place, message).help("give each its own `name`"));
                }
                // What a modelled machine has is known before it runs.
                for (_, device) in devices.iter().enumerate().filter(|(index, _)| plan.runs_on(*index)) {
                    if let Some((most, why)) = device.largest().filter(|(most, _)| plan.stream.largest() > *most) {
                        let message =
                            format!("a request of {} is too large for the file server: {why}", plan.stream.largest());
                        return Err(source.error(place, message).help(format!("take requests of at most {most}")));
                    }
                    let check = plan.stream.check(device.shape());
                    check.map_err(|error| source.error(place.clone(), error.to_string()))?;
                    let mapped = device.check(plan.stream.largest());
                    mapped.map_err(|error| source.error(place.clone(), error.to_string()))?;
                }
                streams.push(StreamPlan { through, ..plan });
            }
        }
        if let Some(place) = made {
            check_made(source, place, &streams, devices.len())?;
        }
        if system.is_none() {
            check_through(source, &streams, &described, &places)?;
        }
        let slow = FileSlow::check(self.slow, source)?;
        let published = check_published(source, self.published)?;
        let precondition = self.precondition.map(|given| given.check(source)).transpose()?;
        Ok(Experiment {
            name,
            seed: self.seed,
            run,
            precondition,
            system,
            devices: described,
            io: self.io,
            care,
            published,
            slow,
            streams,
        })
    }
}

/// Refuses a mixture: a device is opened in one way, so all streams go through files, or none does. Described devices
/// must then be files that are opened through the page cache. `places` are those of `through` and `file` in the text.
fn check_through(
    source: &Source,
    streams: &[StreamPlan],
    devices: &[Described],
    places: &[Range<usize>],
) -> Result<(), SourceError> {
    let Some(place) = places.first().cloned() else { return Ok(()) };
    if let Some(other) = streams.iter().find(|plan| plan.through == Through::Device) {
        let said = format!("stream '{}' does not go through files, and another does", other.stream.name);
        return Err(source.error(place, said).help("say through = \"files\" of all streams, or of none"));
    }
    match devices.iter().find(|device| device.files.is_empty() || device.io.mode != Mode::Buffered) {
        Some(device) => Err(source
            .error(place, format!("through = \"files\" is through the page cache, and {} is not", device.name()))
            .help("say mode = \"buffered\" of the device, or leave out `through`")),
        None => Ok(()),
    }
}

/// A file that the run makes is only written: a read would find nothing where nothing was written yet.
fn check_made(source: &Source, place: Range<usize>, streams: &[StreamPlan], devices: usize) -> Result<(), SourceError> {
    let writes = |plan: &StreamPlan| {
        plan.makes_its_file() && plan.stream.mix.reads == Ratio::ZERO && plan.stream.behind.is_none()
    };
    for device in 0..devices {
        let mut on: Vec<&StreamPlan> = streams.iter().filter(|plan| plan.runs_on(device)).collect();
        if on.iter().any(|plan| plan.makes_its_file()) {
            on.retain(|plan| !writes(plan));
            if let Some(other) = on.first() {
                let said =
                    format!("the file is absent when the run begins, and stream '{}' needs it", other.stream.name);
                return Err(source.error(place.clone(), said).help(
                    "all streams on a drive with an absent file write, with file = \"absent\"; to read, leave out `file`",
                ));
            }
        }
    }
    Ok(())
}

/// Each names rows that there are.
fn check_published(source: &Source, given: Option<Spanned<Vec<String>>>) -> Result<Vec<String>, SourceError> {
    let Some(given) = given else { return Ok(Vec::new()) };
    for id in given.get_ref() {
        let study = id.split('/').next().unwrap_or_default();
        let rows = crate::published::read(study).map_err(|error| source.error(given.span(), error.to_string()))?;
        if !rows.iter().any(|row| row.is_within(id)) {
            return Err(source.error(given.span(), format!("no row of published/{study}.csv begins with '{id}'")));
        }
    }
    Ok(given.into_inner())
}

impl FileRun {
    fn check(self, source: &Source) -> Result<Run, SourceError> {
        let above_zero = |what: &str, span, good: bool| {
            if good { Ok(()) } else { Err(source.error(span, format!("`{what}` must be above zero"))) }
        };
        if let Some(passes) = &self.passes {
            above_zero("passes", passes.span(), *passes.get_ref() > 0)?;
        }
        if let Some(measure) = &self.measure {
            above_zero("measure", measure.span(), !measure.get_ref().is_zero())?;
        }
        if let Some(devices) = &self.devices {
            above_zero("devices", devices.span(), *devices.get_ref() > 0)?;
        }
        let steady = self.steady.as_ref().map(|steady| steady.get_ref().check(source)).transpose()?;
        if let (Some(passes), Some(_)) = (&self.passes, &steady) {
            return Err(source
                .error(passes.span(), "`steady` decides how many passes there are")
                .help("leave out `passes`; steady = { rounds = 25 } is the most there may be"));
        }
        Ok(Run {
            passes: steady.map_or(self.passes.map_or(1, Spanned::into_inner), |(_, rounds)| rounds),
            steady: steady.map(|(steady, _)| steady),
            start_up: time(source, "start-up", &self.start_up)?.unwrap_or(Duration::ZERO),
            measure: time(source, "measure", &self.measure)?,
            cool_down: time(source, "cool-down", &self.cool_down)?.unwrap_or(Duration::ZERO),
            on_error: self.on_error.unwrap_or(OnError::Stop),
            devices: self.devices.map(Spanned::into_inner),
            trace: self.trace,
            rate_limit: self.rate_limit.map(|limit| FileRateLimit::check(limit, source)).transpose()?,
        })
    }
}

impl FileCare {
    fn check(self, source: &Source) -> Result<Precautions, SourceError> {
        let real_time = self.real_time.map(|priority| match u8::try_from(*priority.get_ref()) {
            Ok(value) if (1..=99).contains(&value) => Ok(value),
            _ => Err(source.error(priority.span(), "`real-time` must be from 1, the lowest, to 99")),
        });
        // Whether a processor exists is the machine's to say, when the run asks for it.
        Ok(Precautions { lock_memory: self.lock_memory, real_time: real_time.transpose()?, cpus: self.cpus })
    }
}

impl FileStream {
    /// Whether its requests go to the device or through a file. `file` implies `through = "files"`.
    fn through(&self, source: &Source, system: Option<&System>) -> Result<Through, SourceError> {
        let by_server = system.is_some_and(System::is_file_server);
        let through = match (&self.file, &self.through) {
            (None, None) => return Ok(Through::Device),
            (Some(file), _) if by_server => {
                return Err(source
                    .error(file.span(), "the files of a file server are there, and are not made by a run")
                    .help("leave out `file`"));
            }
            (Some(file), _) if *file.get_ref() == FileState::Absent => Through::NewFile,
            _ => Through::File,
        };
        let place = self.file.as_ref().map(Spanned::span).or(self.through.as_ref().map(Spanned::span));
        match system.filter(|system| system.way != Way::Files) {
            Some(_) => Err(source.error(place, "the requests of this machine go through no files").help(
                "take a system with a node of kind 'file-system' and way = \"files\", or leave out `file` and `through`",
            )),
            None => Ok(through),
        }
    }

    fn check(self, source: &Source, index: usize, measure: Option<Duration>) -> Result<StreamPlan, SourceError> {
        let name = self.name.map_or_else(|| format!("stream-{index}"), Spanned::into_inner);
        let sizes = check_sizes(source, self.size)?;
        let write_sizes = self.write_size.map(|sizes| check_sizes(source, sizes)).transpose()?;
        let all = || sizes.each().chain(write_sizes.iter().flat_map(Sizes::each));
        let (smallest, largest) =
            all().fold((Bytes::new(u64::MAX), Bytes::ZERO), |(least, most), size| (least.min(size), most.max(size)));
        for (what, align) in [("align", &self.align), ("write-align", &self.write_align)] {
            if let Some(align) = align.as_ref().filter(|align| align.get_ref().is_zero()) {
                return Err(source.error(align.span(), format!("`{what}` must be above zero")));
            }
        }
        let align = self.align.as_ref().map_or(smallest, |align| *align.get_ref());
        let write_align = self.write_align.as_ref().map(|align| *align.get_ref());
        if let (Some(given), None) = (&self.write_align, &self.write_pattern) {
            return Err(source
                .error(given.span(), "`write-align` is of writes with a `write-pattern` of their own")
                .help("add `write-pattern`, or take `align`"));
        }
        let pattern_place = self.pattern.span();
        let around = Around { source, sizes: &sizes, align, from: &self.from };
        let pattern = around.pattern(self.pattern)?;
        let around = Around {
            source,
            sizes: write_sizes.as_ref().unwrap_or(&sizes),
            align: write_align.unwrap_or(align),
            from: &self.write_from,
        };
        let write_pattern = self.write_pattern.map(|pattern| around.pattern(pattern)).transpose()?;
        let region = match &self.region {
            None => Region::WHOLE,
            Some(region) => {
                if let Some(length) = &region.length
                    && *length.get_ref() < largest
                {
                    let message = format!("a region of {:#} does not hold a request", length.get_ref());
                    return Err(source.error(length.span(), message));
                }
                let length = region.length.as_ref().map(|length| *length.get_ref());
                Region { start: region.start.unwrap_or(Bytes::ZERO), length }
            }
        };
        let share = match &self.share {
            Some(share) if share.get_ref().part >= share.get_ref().of => {
                return Err(source.error(share.span(), "`part` counts from 0 and must be below `of`"));
            }
            share => share.as_ref().map(|share| Share { part: share.get_ref().part, of: share.get_ref().of }),
        };
        let load = check_load(source, self.depth, self.think, self.arrivals, self.outstanding)?;
        let closed = |what: &str, given: &Option<Spanned<bool>>| match given {
            Some(given) if *given.get_ref() && matches!(load, Load::Open { .. }) => Err(source
                .error(given.span(), format!("`{what}` belongs to a closed loop, and this stream has `arrivals`"))
                .help("take `depth` in place of `arrivals`")),
            given => Ok(given.as_ref().is_some_and(|given| *given.get_ref())),
        };
        let (pipeline, lock_step) = (closed("pipeline", &self.pipeline)?, closed("lock-step", &self.lock_step)?);
        let turns = match (&self.turns, &load) {
            (None, _) => None,
            (Some(given), Load::Open { .. }) => {
                return Err(source
                    .error(given.span(), "`turns` belongs to a closed loop, and this stream has `arrivals`")
                    .help("take `depth` in place of `arrivals`"));
            }
            (Some(given), _) if *given.get_ref() == 0 => {
                return Err(source.error(given.span(), "with no turns nothing is asked").help("take 1 or more"));
            }
            (Some(given), _) => Some(*given.get_ref()),
        };
        let mut limits = match &self.limit {
            None => Limits::NONE,
            Some(limit) => {
                let FileLimit { requests, bytes, time: longest, laps, end_all, stop } = limit.get_ref();
                Limits {
                    requests: *requests,
                    bytes: *bytes,
                    time: time(source, "time", longest)?,
                    laps: *laps,
                    end_all: *end_all,
                    stop: *stop,
                }
            }
        };
        if limits.are_none() && measure.is_none() {
            return Err(source.error(pattern_place, format!("nothing ends the stream '{name}'")).help(
                "set `measure` in [run], or `limit` in the stream: { requests = …, bytes = …, time = …, laps = … }",
            ));
        }
        limits.time = match (limits.time, measure) {
            (Some(own), Some(run)) => Some(own.min(run)),
            (own, run) => own.or(run),
        };
        let operation = self.operation;
        let mix = match operation {
            FileOperation::Read => Mix::READS,
            FileOperation::Write
            | FileOperation::ReadBehind(_)
            | FileOperation::Discard
            | FileOperation::DiscardAndWrite => Mix::WRITES,
            FileOperation::Reads(ref reads) | FileOperation::Mixed(FileMix { ref reads, .. })
                if *reads.get_ref() > Ratio::ONE =>
            {
                let share = reads.get_ref();
                return Err(source
                    .error(reads.span(), format!("{share} of the requests cannot be reads"))
                    .help("give a share from \"0 %\" to \"100 %\"; the rest are writes"));
            }
            FileOperation::Reads(ref reads) | FileOperation::Mixed(FileMix { ref reads, .. }) => {
                Mix { reads: *reads.get_ref() }
            }
        };
        let discards = match operation {
            FileOperation::Discard => Discards::Only,
            FileOperation::DiscardAndWrite => Discards::BeforeWrites,
            _ => Discards::Never,
        };
        if let (Some(verify), true) = (&self.verify, discards != Discards::Never) {
            return Err(source
                .error(verify.span(), "what is discarded cannot be verified: nobody says what is read there")
                .help("leave out `verify`, or take `operation = \"write\"`"));
        }
        let behind = match operation {
            FileOperation::ReadBehind(lag) => Some(ReadBehind { lag, lap: None }),
            FileOperation::Mixed(FileMix { lap: Some(ref lap), .. }) if lap.get_ref().is_zero() => {
                return Err(source.error(lap.span(), "a `lap` must be above zero").help("leave it out for none"));
            }
            FileOperation::Mixed(FileMix { read_behind: lag, ref lap, .. }) => {
                Some(ReadBehind { lag, lap: lap.as_ref().map(|lap| *lap.get_ref()) })
            }
            _ => None,
        };
        let only_writes = mix == Mix::WRITES && behind.is_none();
        if let (true, Some(given), true) = (pipeline, &self.pipeline, only_writes) {
            return Err(source
                .error(given.span(), "`pipeline` makes disks read ahead, and this stream only writes")
                .help("take `operation = \"read\"`, or leave it out"));
        }
        if let (Some(fill), true, true) = (&self.fill, self.verify.is_some(), mix.has_writes()) {
            return Err(source
                .error(fill.span(), "what this stream writes is decided by `verify`: blocks that say what they are")
                .help("leave out `fill`, or `verify`"));
        }
        let fill = self.fill.map_or(Fill::Random, Spanned::into_inner);
        let verify = self.verify.map(Spanned::into_inner);
        let delay = time(source, "delay", &self.delay)?.unwrap_or(Duration::ZERO);
        let ramp = time(source, "ramp", &self.ramp)?.unwrap_or(Duration::ZERO);
        let apart = time(source, "apart", &self.apart)?.unwrap_or(Duration::ZERO);
        let on = self.on.map(Spanned::into_inner);
        let limit =
            |limit: Option<Spanned<FileRateLimit>>| limit.map(|limit| FileRateLimit::check(limit, source)).transpose();
        let rate_limit = limit(self.rate_limit)?;
        let rates = [limit(self.read_rate_limit)?, limit(self.write_rate_limit)?];
        Ok(StreamPlan {
            stream: Stream {
                name,
                mix,
                behind,
                pattern,
                write_pattern,
                sizes,
                write_sizes,
                region,
                share,
                align,
                write_align,
                load,
                delay,
                ramp,
                apart,
                limits,
                fill,
                verify,
                discards,
                pipeline,
                turns,
                lock_step,
                one_at_a_time: self.one_at_a_time,
                overlap: self.overlap,
                priorities: Priorities::default(),
                known: None,
                rules: Rules::default(),
                content: None,
            },
            on,
            rate_limit,
            rates,
            through: Through::Device,
            script: None,
            flushes: Flushes::NONE,
        })
    }
}

/// Sizes of requests, if there are any and none is absurd.
fn check_sizes(source: &Source, given: Spanned<FileSize>) -> Result<Sizes, SourceError> {
    let place = given.span();
    let FileSize::Sizes(choices) = given.into_inner() else {
        let message =
            "a stripe is of a modelled array: take `way = \"array\"` in [system], or a size such as \"4 KiB\"";
        return Err(source.error(place, message));
    };
    let sizes = Sizes::weighted(choices).ok_or_else(|| {
        source.error(place.clone(), "there must be at least one size above zero with a weight above zero")
    })?;
    if sizes.largest() > LARGEST_REQUEST {
        let message = format!("a request of {} is too large; at most {LARGEST_REQUEST}", sizes.largest());
        return Err(source.error(place, message));
    }
    Ok(sizes)
}
