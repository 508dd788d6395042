//! The description of one source of load on one device.

use device::{Data, Request, Writeback};
use rand::Rng;
use runtime::Random;
use units::{Bytes, Duration, Ratio};

use crate::cursor::Ground;
use crate::{Arrivals, Content, Limits, Memory, Pattern, Priorities, ReadBehind, Rules, Sizes};

/// Direct I/O wants page-aligned memory, so writes take their bytes from page boundaries.
pub(crate) const PAGE: Bytes = Bytes::kib(4);

/// Between so many starting pages a write chooses.
pub(crate) const FILL_PAGES: u64 = 64;

/// One source of load, as it runs on each of its devices.
///
/// Checked against a device by [`Stream::check`]; the rest of the crate relies on that.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// What it is called in results.
    pub name: String,
    /// Reads and writes.
    pub mix: Mix,
    /// The stream reads what it writes again, besides what `mix` has of reads.
    pub behind: Option<ReadBehind>,
    /// Where requests go.
    pub pattern: Pattern,
    /// Where writes go, if they have a place of their own: then `pattern` is the reads'.
    pub write_pattern: Option<Pattern>,
    /// How large they are; where [`write_sizes`](Stream::write_sizes) is given, the reads.
    pub sizes: Sizes,
    /// How large writes are, where they differ from reads.
    pub write_sizes: Option<Sizes>,
    /// The part of the device that is used.
    pub region: Region,
    /// The part of the region that is used, if not all of it.
    pub share: Option<Share>,
    /// Requests start on a multiple of this, counted from the start of the region.
    pub align: Bytes,
    /// So do writes, where they have a [place of their own](Stream::write_pattern); on that of all if absent.
    pub write_align: Option<Bytes>,
    /// When they are issued.
    pub load: Load,
    /// From the beginning of the pass to the first request.
    pub delay: Duration,
    /// Load from the first request on that does not count, besides that of the run. Limits of requests and bytes count
    /// it all the same.
    pub ramp: Duration,
    /// On each further device of the run, the first request comes so much later: as from programs that are started one
    /// after the other.
    pub apart: Duration,
    /// When the stream has done its part of a pass, besides the end of the run's measuring time.
    pub limits: Limits,
    /// What writes store.
    pub fill: Fill,
    /// What writes store in place of that, made for each of them.
    pub content: Option<Content>,
    /// Writes store sectors that say what they are, and reads are held against what was written.
    pub verify: Option<Verify>,
    /// The pattern that what is verified holds, if any.
    pub known: Option<Known>,
    /// What becomes of its writes: a discard in place of each, or before it.
    pub discards: Discards,
    /// Each read is announced while the one before it is under way, by a read of the sector that precedes it. A disk
    /// with read-ahead then positions, and fills its buffer, while others transfer; without read-ahead it costs a
    /// sector and gains nothing. Closed loops only.
    pub pipeline: bool,
    /// At most so many of the stream's requests are under way at a time, over all of its devices; lanes take turns in
    /// the order in which they come to ask. What `pipeline` announces is not counted. Closed loops only.
    pub turns: Option<u32>,
    /// No request before those of all other lanes, on all devices of the stream, have completed. Closed loops only.
    pub lock_step: bool,
    /// One request is at the device at a time, and the others wait in the order in which they were asked for. Their
    /// wait is part of their response time, unlike that for [`turns`](Stream::turns).
    pub one_at_a_time: bool,
    /// Other streams that say so, too, may write the same blocks; what is stored there in the end depends on luck.
    pub overlap: bool,
    /// I/O priorities of its requests.
    pub priorities: Priorities,
    /// What else holds it back, or ends it.
    pub rules: Rules,
}

/// The share of reads; the rest are writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    /// 100 % reads only, 0 % writes only.
    pub reads: Ratio,
}

/// A range of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Byte address of its first byte.
    pub start: Bytes,
    /// How long it is; `None` for all that follows.
    pub length: Option<Bytes>,
}

/// One of several equal parts of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Which one, counted from 0.
    pub part: u32,
    /// Of how many; above `part`.
    pub of: u32,
}

/// When requests are issued.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    /// The next request follows a completion.
    Closed {
        /// Requests under way on each device.
        depth: u32,
        /// Time from a completion to the next request in its place.
        think: Duration,
    },
    /// Requests follow a schedule.
    Open {
        /// The schedule, for each device.
        arrivals: Arrivals,
        /// At most so many are under way on each device; further arrivals wait, and their wait counts.
        outstanding: u32,
    },
}

/// What writes store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// Random bytes, which no device can compress or deduplicate.
    Random,
    /// Zeroes.
    Zero,
}

/// When what was written is read and held against that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// The stream's own reads are checked, whoever wrote what they read.
    Reads,
    /// So are they, and after the last pass all that was written is read.
    End,
    /// Nothing is checked now; what was written is kept for a later run.
    Later,
}

/// A pattern in verified blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// They are it, from the first byte of each request on, and say nothing of themselves.
    Whole(Vec<u8>),
    /// It stands behind what each sector says of itself.
    Behind(Vec<u8>),
}

/// Flushes that a stream makes between its requests: rows of their own, in the place of the queue whose request they
/// follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flushes {
    /// One of data, times and attributes (fsync) after so many writes; 0 for none.
    pub full: u32,
    /// One of data (fdatasync) after so many writes; 0 for none. Where both are due, the full one is made.
    pub data: u32,
    /// A writeback of what was written since the last flush (sync_file_range) after so many writes, and its steps; 0
    /// for none. It gives way to the other two.
    pub range: (u32, Writeback),
    /// Whether one that is due after a write is due after each read up to the next write, too.
    pub after_reads: bool,
    /// Whether the last request that the limits allow is followed by one, if one is due then.
    pub after_last: bool,
    /// Whether the stream makes no request while one is under way, as where the thread that makes the requests waits in
    /// fsync(2).
    pub alone: bool,
}

impl Flushes {
    /// None.
    pub const NONE: Flushes = Flushes {
        full: 0,
        data: 0,
        range: (0, Writeback { wait_before: false, write: false, wait_after: false }),
        after_reads: false,
        after_last: false,
        alone: false,
    };

    /// The flush that is due when so many writes were made, the last request having been one or not. What a writeback
    /// is of is filled in when it is asked for.
    pub(crate) fn due(&self, writes: u64, wrote: bool) -> Option<Request> {
        let due = |every: u32| every > 0 && writes > 0 && writes.is_multiple_of(every.into());
        match wrote || self.after_reads {
            true if due(self.full) => Some(Request::flush().with_metadata()),
            true if due(self.data) => Some(Request::flush()),
            true if due(self.range.0) => Some(Request::flush().with_writeback(self.range.1, Bytes::ZERO, Bytes::ZERO)),
            _ => None,
        }
    }
}

/// Discards (TRIM, `BLKDISCARD`; of a file a hole is punched): who reads a discarded block later finds zeroes, or
/// anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discards {
    /// None are made.
    #[default]
    Never,
    /// In place of each write.
    Only,
    /// Before each write, of the same blocks; the write follows when it has completed.
    BeforeWrites,
}

/// Why a stream cannot run on a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum StreamError {
    #[error(
        "stream '{stream}' uses {length} from {start:#}, but {device} ends at {size:#}; shorten `region` or take a larger device"
    )]
    RegionBeyondEnd { stream: String, device: String, start: Bytes, length: Bytes, size: Bytes },
    #[error(
        "stream '{stream}' asks for {request:#} in a region of {length:#} on {device}; take smaller requests or a larger region"
    )]
    RequestBeyondRegion { stream: String, device: String, request: Bytes, length: Bytes },
    #[error(
        "stream '{stream}' has {what} {value:#}, which with one request leaves its region of {length:#} on {device}; take less, or a larger region"
    )]
    PatternBeyondRegion { stream: String, device: String, what: &'static str, value: Bytes, length: Bytes },
    #[error(
        "stream '{stream}' has a {what} of {value:#}, which is no multiple of the {block:#} blocks of {device}; take a multiple"
    )]
    Misaligned { stream: String, device: String, what: &'static str, value: Bytes, block: Bytes },
    #[error(
        "stream '{verifying}' verifies a part of {device} that stream '{writing}' writes without saying what; give both `verify`, or regions that do not overlap"
    )]
    Unverified { verifying: String, writing: String, device: String },
    #[error(
        "stream '{stream}' cannot be drawn from its {blocks} blocks on {device}: {why}; change its pattern, or take a larger region"
    )]
    Skew { stream: String, device: String, blocks: u64, why: &'static str },
    #[error(
        "stream '{stream}' asks for every block once, which for several sizes needs an `align` of the smallest of them, {smallest:#}, and has {align:#}; leave `align` out, or take `pattern = \"random\"`"
    )]
    SeveralSizes { stream: String, align: Bytes, smallest: Bytes },
    #[error(
        "streams '{first}' and '{second}' both write {device} from {start:#} to {end:#}; give them regions that do not overlap, or both `overlap = true`"
    )]
    OverlappingWrites { first: String, second: String, device: String, start: Bytes, end: Bytes },
}

impl Mix {
    /// Reads only.
    pub const READS: Mix = Mix { reads: Ratio::ONE };
    /// Writes only.
    pub const WRITES: Mix = Mix { reads: Ratio::ZERO };

    /// True if any read can occur.
    pub fn has_reads(self) -> bool {
        self.reads > Ratio::ZERO
    }

    /// True if any write can occur.
    pub fn has_writes(self) -> bool {
        self.reads < Ratio::ONE
    }
}

impl Region {
    /// The whole device.
    pub const WHOLE: Region = Region { start: Bytes::ZERO, length: None };

    /// Its length on a device of the given size; zero if it starts beyond the end.
    pub fn length_on(&self, size: Bytes) -> Bytes {
        self.length.unwrap_or(size.saturating_sub(self.start))
    }
}

impl Stream {
    /// A closed-loop stream over the whole device; the caller changes what differs.
    pub fn closed(name: impl Into<String>, mix: Mix, pattern: Pattern, size: Bytes, depth: u32) -> Stream {
        Stream {
            name: name.into(),
            mix,
            behind: None,
            pattern,
            write_pattern: None,
            sizes: Sizes::fixed(size),
            write_sizes: None,
            region: Region::WHOLE,
            share: None,
            align: size,
            write_align: None,
            load: Load::Closed { depth, think: Duration::ZERO },
            delay: Duration::ZERO,
            ramp: Duration::ZERO,
            apart: Duration::ZERO,
            limits: Limits::NONE,
            fill: Fill::Random,
            content: None,
            verify: None,
            known: None,
            discards: Discards::Never,
            pipeline: false,
            turns: None,
            lock_step: false,
            one_at_a_time: false,
            overlap: false,
            priorities: Priorities::default(),
            rules: Rules::default(),
        }
    }

    /// Where the part of a device of `size` begins that this stream uses, and how long it is.
    pub fn range_on(&self, size: Bytes) -> (Bytes, Bytes) {
        let (start, length) = (self.region.start, self.region.length_on(size));
        let Some(Share { part, of }) = self.share else { return (start, length) };
        assert!(part < of, "part {part} of {of}");
        let each = (length / u64::from(of)).round_down(self.align);
        (start + each * u64::from(part), each)
    }

    /// How many bytes whole requests find room for, one after the other, on a device of `size`.
    pub fn lap(&self, size: Bytes) -> Bytes {
        let (_, length) = self.range_on(size);
        let Some(one) = self.sizes.single().filter(|_| self.write_sizes.is_none()) else { return length };
        if one > length { Bytes::ZERO } else { one * ((length - one) / one.round_up(self.align) + 1) }
    }

    /// All sizes that can occur.
    pub fn each_size(&self) -> impl Iterator<Item = Bytes> {
        self.sizes.each().chain(self.write_sizes.iter().flat_map(Sizes::each))
    }

    /// The largest request.
    pub fn largest(&self) -> Bytes {
        self.each_size().max().expect("there is a size")
    }

    /// The most requests that can be under way on one device.
    pub fn lanes(&self) -> u32 {
        match self.load {
            Load::Closed { depth, .. } => depth,
            Load::Open { outstanding, .. } => outstanding,
        }
    }

    /// How many requests a closed loop keeps under way on one device, at least: fewer than its [lanes](Stream::lanes)
    /// where it holds requests back itself. What is missing of them at the device is somebody else's doing.
    pub fn least_under_way(&self) -> u32 {
        let Rules { serial, search, flow, low, .. } = &self.rules;
        match (self.one_at_a_time || *serial || search.is_some() || flow.is_some(), low) {
            (true, _) => 1,
            (false, Some(low)) => self.lanes().min(*low),
            (false, None) => self.lanes(),
        }
    }

    /// What writes of this stream store: some pages more than its largest request, so that each write can begin at one
    /// of several pages and the device does not see the same bytes each time. Empty for a stream that only reads.
    pub fn data(&self, memory: &dyn Memory, random: &mut Random) -> Data {
        if !self.mix.has_writes() {
            return Data::phantom(Bytes::ZERO);
        }
        let mut buffer = memory.take(self.largest().round_up(PAGE) + PAGE * (FILL_PAGES - 1));
        match (&self.content, self.fill, buffer.bytes_mut()) {
            (Some(content), _, Some(bytes)) => content.repeat(bytes),
            (None, Fill::Random, Some(bytes)) => random.fill_bytes(bytes),
            _ => {}
        }
        buffer.freeze()
    }

    /// Refuses a device on which this stream cannot run.
    pub fn check(&self, device: &device::Shape) -> Result<(), StreamError> {
        let (stream, name) = (|| self.name.clone(), || device.name.clone());
        let length = self.region.length_on(device.size);
        match self.region.start.checked_add(length) {
            Some(end) if end <= device.size => {}
            _ => {
                let (start, size) = (self.region.start, device.size);
                return Err(StreamError::RegionBeyondEnd { stream: stream(), device: name(), start, length, size });
            }
        }
        let (_, length) = self.range_on(device.size);
        if self.largest() > length {
            let request = self.largest();
            return Err(StreamError::RequestBeyondRegion { stream: stream(), device: name(), request, length });
        }
        for pattern in self.pattern.parts() {
            self.check_pattern(pattern, (self.sizes_at(false), self.align), device, length)?;
        }
        for pattern in self.write_pattern.iter().flat_map(Pattern::parts) {
            let align = self.write_align.unwrap_or(self.align);
            self.check_pattern(pattern, (self.sizes_at(true), align), device, length)?;
        }
        // Sectors are stamped whole.
        let block = device.logical_block.max(if self.verify.is_some() { Bytes::SECTOR } else { Bytes::new(1) });
        let write_align = self.write_align.unwrap_or(self.align);
        let aligned = [("region start", self.region.start), ("alignment", self.align), ("alignment", write_align)]
            .into_iter()
            .chain(self.each_size().map(|size| ("request size", size)));
        for (what, value) in aligned {
            if !value.is_multiple_of(block) {
                return Err(StreamError::Misaligned { stream: stream(), device: name(), what, value, block });
            }
        }
        Ok(())
    }

    /// The sizes of the requests that a pattern places: of writes with a place of their own, or of those that `pattern`
    /// places.
    pub(crate) fn sizes_at(&self, writes: bool) -> &Sizes {
        if writes { self.write_sizes.as_ref().unwrap_or(&self.sizes) } else { &self.sizes }
    }

    fn check_pattern(
        &self,
        pattern: &Pattern,
        (sizes, align): (&Sizes, Bytes),
        device: &device::Shape,
        length: Bytes,
    ) -> Result<(), StreamError> {
        let steps = match pattern {
            Pattern::Backward { from, .. } => vec![("`from`", *from)],
            Pattern::Sequential { from } => vec![("`from`", *from)],
            Pattern::Strided { stride, from } => vec![("a stride of", *stride), ("`from`", *from)],
            _ => Vec::new(),
        };
        let apart = self.write_pattern.is_some();
        let largest = if apart { sizes.largest() } else { self.largest() };
        if *pattern == Pattern::RandomOnce && (self.write_sizes.is_some() && !apart || sizes.single().is_none()) {
            let of_all = || self.each_size().filter(|_| !apart).chain(sizes.each());
            let smallest = of_all().min().unwrap_or(align);
            if smallest != align {
                return Err(StreamError::SeveralSizes { stream: self.name.clone(), align, smallest });
            }
        }
        // Such a stream would quietly begin, or stay, at the start of its region.
        let beyond = |value: &Bytes| value.checked_add(largest).is_none_or(|end| end > length);
        if let Some((what, value)) = steps.into_iter().find(|(_, value)| beyond(value)) {
            let (stream, device) = (self.name.clone(), device.name.clone());
            return Err(StreamError::PatternBeyondRegion { stream, device, what, value, length });
        }
        if let Pattern::Skewed(skew) = pattern {
            let blocks = Ground { length, align, largest, single: None }.blocks();
            let refused =
                |why| StreamError::Skew { stream: self.name.clone(), device: device.name.clone(), blocks, why };
            skew.law.check(blocks, align).map_err(refused)?;
        }
        Ok(())
    }

    /// Refuses two streams that write the same blocks of one device: what is stored there would depend on luck.
    pub fn check_overlap(&self, other: &Stream, device: &device::Shape) -> Result<(), StreamError> {
        let range = |stream: &Stream| {
            let (start, length) = stream.range_on(device.size);
            start..start + length
        };
        let (mine, theirs) = (range(self), range(other));
        let (start, end) = (mine.start.max(theirs.start), mine.end.min(theirs.end));
        for (verifying, writing) in [(self, other), (other, self)] {
            if verifying.verify.is_some() && writing.mix.has_writes() && writing.verify.is_none() && start < end {
                let (verifying, writing) = (verifying.name.clone(), writing.name.clone());
                return Err(StreamError::Unverified { verifying, writing, device: device.name.clone() });
            }
        }
        let meant = self.is_interleaved_with(other) || (self.overlap && other.overlap);
        if self.mix.has_writes() && other.mix.has_writes() && start < end && !meant {
            let (first, second) = (self.name.clone(), other.name.clone());
            return Err(StreamError::OverlappingWrites { first, second, device: device.name.clone(), start, end });
        }
        Ok(())
    }

    /// True if both go through one region by one stride and never meet.
    fn is_interleaved_with(&self, other: &Stream) -> bool {
        let (Pattern::Strided { stride, from: mine }, Pattern::Strided { stride: same, from: theirs }) =
            (&self.pattern, &other.pattern)
        else {
            return false;
        };
        // From my block on to the other's, and from there on to my next.
        let (mine, theirs) = (mine.get() % stride.get(), theirs.get() % stride.get());
        let ahead = (theirs + stride.get() - mine) % stride.get();
        let apart = ahead >= self.largest().get() && stride.get() - ahead >= other.largest().get();
        (self.region.start, self.share) == (other.region.start, other.share) && stride == same && apart
    }
}
