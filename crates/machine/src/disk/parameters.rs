//! Everything that makes one drive differ from another, as its part file says it.

use units::{Duration, Frequency, Ratio};

use super::geometry::{Geometry, Layout, Mapping, Sparing, ZoneLayout};
use super::mechanism::Mechanism;
use super::rotation::Spindle;
use super::seek::SeekCurve;
use crate::part::{Part, PartError, Problem, Reader};

/// The parameters of a drive.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// Maker and model.
    pub name: String,
    /// The moving parts, at nominal speed.
    pub mechanism: Mechanism,
    /// Nominal speed.
    pub speed: Frequency,
    /// How far a drive's speed may be off the nominal, either way.
    pub speed_error: Ratio,
    /// The bus.
    pub bus: Bus,
    /// The buffer and its segments.
    pub buffer: Buffer,
    /// Reading on after a request.
    pub read_ahead: ReadAhead,
    /// How writes are done.
    pub write: Write,
    /// What the controller takes its time for.
    pub overhead: Overhead,
    /// The command queue.
    pub queue: Queue,
}

/// Time of one 512-byte block on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bus {
    /// From the drive.
    pub read_block: Duration,
    /// To the drive.
    pub write_block: Duration,
}

/// The buffer: segments of one size, each holding consecutive blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Buffer {
    /// How many segments.
    pub segments: u32,
    /// Blocks of a segment.
    pub segment_blocks: u64,
    /// Segments that may hold written data at one time.
    pub write_segments: u32,
    /// One segment is kept for writes.
    pub separate_write_segment: bool,
    /// Segments keep their blocks after the transfer.
    pub caching: bool,
    /// Reads may hit written blocks.
    pub read_hits_on_written: bool,
    /// A read whose first block is the one that the read-ahead is reading counts as a hit.
    pub hit_on_block_being_read: bool,
    /// A read asks for the bus when this share is in the buffer.
    pub read_fill: Ratio,
    /// A write asks for the bus again when only this share is left in the buffer.
    pub write_empty: Ratio,
    /// The shares are of the request (but at most the segment), not of the segment.
    pub marks_by_request: bool,
    /// The bus is held until a read is done, even when the buffer has run dry.
    pub hold_bus_read: bool,
    /// The bus is held until a write is in the buffer, even when that is full.
    pub hold_bus_write: bool,
    /// The bus is held from command to completion.
    pub never_disconnect: bool,
    /// A full hit is served while another request moves the arm.
    pub hits_pass_by: bool,
    /// A read with its first blocks in the buffer transfers them at once.
    pub partial_hit_at_once: bool,
}

/// How far a drive reads on after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Not at all.
    Nothing,
    /// To the end of the request's last track.
    Track,
    /// To the end of the request's last cylinder.
    Cylinder,
    /// Until the segment is full.
    Segment,
    /// To the end of the track; to the end of the next one if the segment shows that the track before was read.
    NextTrack,
}

/// Blocks of the request itself, once they have been given to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requested {
    /// They stay; the read-ahead stops before it would overwrite them.
    Kept,
    /// The read-ahead overwrites them when the segment is full.
    Overwritten,
    /// They leave the segment at once.
    Dropped,
}

/// Reading on after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadAhead {
    /// How far.
    pub until: Until,
    /// Blocks that are read on before another request is served.
    pub least: u64,
    /// Blocks that are read on at most; 0 for no limit but the segment.
    pub most: u64,
    /// What becomes of the request's own blocks.
    pub requested: Requested,
    /// A full hit starts it again.
    pub on_hit: bool,
    /// Blocks of the track that pass before the request's first are kept too.
    pub any_free_blocks: bool,
    /// Blocks are taken in the order in which they pass.
    pub zero_latency: bool,
    /// It stops within a sector; otherwise at the next sector's start.
    pub stops_in_sector: bool,
}

/// When a write is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteBack {
    /// When it is on the medium.
    Never,
    /// When it is in the buffer; another request waits until it is on the medium, unless it is a write that goes on behind it.
    Appending,
    /// When it is in the buffer, also between other requests.
    Always,
}

/// When the arm may leave for the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preseek {
    /// When the host has the completion.
    AfterCompletion,
    /// When the completion is on its way.
    DuringCompletion,
    /// When the last block has been read or written.
    BeforeCompletion,
}

/// How writes are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// When they are complete.
    pub back: WriteBack,
    /// A write that goes on behind another shares its segment.
    pub combine: bool,
    /// Blocks are written in the order in which they pass.
    pub zero_latency: bool,
    /// A write of blocks that are being read ahead stops the read-ahead.
    pub hit_stops_read_ahead: bool,
    /// Data of waiting writes are fetched while another request moves the arm.
    pub prebuffer: bool,
    /// The bus is released during the seek.
    pub disconnect_in_seek: bool,
    /// The bus is released between command and data.
    pub extra_disconnect: bool,
    /// A write that does not go on behind another waits at least so long before it reaches the medium.
    pub least_seek: Duration,
    /// When the arm may leave.
    pub preseek: Preseek,
}

/// What the controller takes its time for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each is the time of what its name says, after a request of the named kind
pub struct Overhead {
    pub request: Duration,
    pub read_hit_after_read: Duration,
    pub read_hit_after_write: Duration,
    pub read_miss_after_read: Duration,
    pub read_miss_after_write: Duration,
    pub write_hit_after_read: Duration,
    pub write_hit_after_write: Duration,
    pub write_miss_after_read: Duration,
    pub write_miss_after_write: Duration,
    pub read_completion: Duration,
    pub write_completion: Duration,
    pub data_preparation: Duration,
    pub first_reselect: Duration,
    pub other_reselect: Duration,
    pub read_disconnect_after_read: Duration,
    pub read_disconnect_after_write: Duration,
    pub write_disconnect: Duration,
    pub extra_command: Duration,
    pub extra_disconnect: Duration,
    pub extra_between: Duration,
    pub extra_second_disconnect: Duration,
    pub extra_seek: Duration,
}

/// Which waiting request comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The oldest.
    Fcfs,
    /// The nearest cylinder.
    Sstf,
    /// Up to the last, down to the first, and so on.
    Scan,
    /// Up to the last, then back to the first.
    CLook,
    /// The one whose first sector can be reached soonest.
    Sptf,
}

/// The command queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Requests that the drive takes at a time.
    pub depth: u32,
    /// The order in which it serves them.
    pub policy: Policy,
}

impl Parameters {
    /// Reads the parameters of a disk out of its part.
    pub fn read(part: &Part) -> Result<Parameters, PartError> {
        let top = part.reader("disk")?;
        let layout = read_layout(&top)?;
        let geometry = Geometry::new(&layout).map_err(|error| {
            let problem = Problem::Contradiction(error.to_string());
            let zones = top.tables("zone").unwrap_or_default();
            match error.zone().and_then(|zone| zones.into_iter().nth(zone)) {
                Some(zone) => zone.fault("", problem),
                None => top.fault("layout", problem),
            }
        })?;

        let rotation = top.table("rotation")?;
        let (speed, speed_error) = (rotation.get::<Frequency>("speed")?, rotation.get::<Ratio>("speed_error")?);
        if !(1.0..=1e6).contains(&(speed.get() * 60.0)) {
            return Err(
                rotation.fault("speed", Problem::OutOfRange { accepted: "a speed from 1 to 1000000 rpm".into() })
            );
        }
        if speed_error.get() > 0.5 {
            return Err(rotation.fault("speed_error", Problem::OutOfRange { accepted: "at most 50 %".into() }));
        }
        rotation.done()?;

        let arm = top.table("arm")?;
        let (head_switch, write_settle_ns) = (arm.get("head_switch")?, arm.get::<Signed>("write_settle")?.0);
        let seek = read_seek(&arm.table("seek")?, &layout)?;
        arm.done()?;

        let mechanism = Mechanism { geometry, seek, spindle: Spindle::new(speed), head_switch, write_settle_ns };
        let parameters = Parameters {
            name: part.name.clone(),
            mechanism,
            speed,
            speed_error,
            bus: read_bus(&top.table("bus")?)?,
            buffer: read_buffer(&top.table("buffer")?)?,
            read_ahead: read_read_ahead(&top.table("read_ahead")?)?,
            write: read_write(&top.table("write")?)?,
            overhead: read_overhead(&top.table("overhead")?)?,
            queue: read_queue(&top.table("queue")?)?,
        };
        top.done()?;
        Ok(parameters)
    }
}

/// A time that may be negative.
struct Signed(i64);

impl crate::part::FromValue for Signed {
    const ACCEPTED: &'static str = "a time such as \"0.5 ms\" or \"-0.5 ms\"";
    fn from_value(value: &crate::part::Value) -> Result<Signed, Problem> {
        let crate::part::Value::Text(text) = value else { return Err(Problem::wrong(Self::ACCEPTED, value)) };
        let (sign, text) = text.trim().strip_prefix('-').map_or((1, text.as_str()), |rest| (-1, rest));
        let time: Duration = text.parse()?;
        // An hour in nanoseconds is far inside 63 bits.
        if time > Duration::seconds(3600) {
            return Err(Problem::OutOfRange { accepted: "less than an hour".into() });
        }
        Ok(Signed(sign * time.as_nanos() as i64))
    }
}

fn read_layout(top: &Reader) -> Result<Layout, PartError> {
    let table = top.table("layout")?;
    let mapping = table.choose(
        "mapping",
        &[
            ("straight", Mapping::Straight),
            ("serpentine per zone", Mapping::SerpentinePerZone),
            ("serpentine", Mapping::Serpentine),
        ],
    )?;
    let range = table.find::<u32>("sparing_range")?.unwrap_or(1);
    if range == 0 {
        return Err(
            table.fault("sparing_range", Problem::OutOfRange { accepted: "a number of cylinders from 1 on".into() })
        );
    }
    let sparing = table.choose(
        "sparing",
        &[
            ("none", Sparing::None),
            ("tracks per zone", Sparing::Track),
            ("sectors per cylinder", Sparing::SectorsPerCylinder),
            ("sectors per track", Sparing::SectorsPerTrack),
            ("sectors per cylinder, slips to the end", Sparing::SectorsPerCylinderSlipToEnd),
            ("sectors in front of each cylinder", Sparing::SectorsAtFront),
            ("sectors in front of each cylinder, slips to the end", Sparing::SectorsAtFrontSlipToEnd),
            ("none in the zone, slips to the end", Sparing::SectorsAtEnd),
            ("sectors per range", Sparing::SectorsPerRange(range)),
            ("sectors per zone", Sparing::SectorsPerZone),
            ("sectors per zone, slips to the end", Sparing::SectorsPerZoneSlipToEnd),
        ],
    )?;
    let (surfaces, cylinders, blocks) = (table.get("surfaces")?, table.get("cylinders")?, table.get("blocks")?);
    table.done()?;
    let mut zones = Vec::new();
    for zone in top.tables("zone")? {
        zones.push(ZoneLayout {
            first_cylinder: zone.get("first_cylinder")?,
            last_cylinder: zone.get("last_cylinder")?,
            sectors: zone.get("sectors")?,
            offset: zone.find("offset")?.unwrap_or(0.0),
            reserved: zone.find("reserved")?.unwrap_or(0),
            track_skew: zone.get("track_skew")?,
            cylinder_skew: zone.get("cylinder_skew")?,
            spares: zone.find("spares")?.unwrap_or(0),
            slips: zone.find("slips")?.unwrap_or_default(),
            remaps: zone.find("remaps")?.unwrap_or_default(),
        });
        zone.done()?;
    }
    Ok(Layout { surfaces, cylinders, blocks, mapping, sparing, zones })
}

fn read_seek(table: &Reader, layout: &Layout) -> Result<SeekCurve, PartError> {
    #[derive(Clone, Copy)]
    enum Kind {
        Points,
        Roots,
        Lee,
        ThreePoints,
        Constant,
    }
    let kind = table.choose(
        "kind",
        &[
            ("points", Kind::Points),
            ("roots", Kind::Roots),
            ("lee", Kind::Lee),
            ("three points", Kind::ThreePoints),
            ("constant", Kind::Constant),
        ],
    )?;
    let sheet =
        || Ok::<_, PartError>((table.get("single")?, table.get("average")?, table.get("full")?, layout.cylinders));
    Ok(match kind {
        Kind::Points => SeekCurve::points(table.get("points")?)
            .map_err(|error| table.fault("points", Problem::Contradiction(error.to_string())))?,
        Kind::Roots => SeekCurve::Roots {
            first: table.find("first")?.unwrap_or_default(),
            boundary: table.get("boundary")?,
            short_base: table.get("short_base")?,
            short_root: table.get("short_root")?,
            long_base: table.get("long_base")?,
            long_slope: table.get("long_slope")?,
        },
        Kind::Lee => {
            let (single, average, full, cylinders) = sheet()?;
            SeekCurve::lee(single, average, full, cylinders)
        }
        Kind::ThreePoints => {
            let (single, average, full, cylinders) = sheet()?;
            SeekCurve::three_points(single, average, full, cylinders)
        }
        Kind::Constant => SeekCurve::Constant(table.get("time")?),
    })
}

fn read_bus(table: &Reader) -> Result<Bus, PartError> {
    Ok(Bus { read_block: table.get("read_block")?, write_block: table.get("write_block")? })
}

fn read_buffer(table: &Reader) -> Result<Buffer, PartError> {
    let buffer = Buffer {
        segments: table.get("segments")?,
        segment_blocks: table.get("segment_blocks")?,
        write_segments: table.get("write_segments")?,
        separate_write_segment: table.get("separate_write_segment")?,
        caching: table.get("caching")?,
        read_hits_on_written: table.get("read_hits_on_written")?,
        hit_on_block_being_read: table.get("hit_on_block_being_read")?,
        read_fill: table.get("read_fill")?,
        write_empty: table.get("write_empty")?,
        marks_by_request: table.get("marks_by_request")?,
        hold_bus_read: table.get("hold_bus_read")?,
        hold_bus_write: table.get("hold_bus_write")?,
        never_disconnect: table.get("never_disconnect")?,
        hits_pass_by: table.get("hits_pass_by")?,
        partial_hit_at_once: table.get("partial_hit_at_once")?,
    };
    if buffer.segments == 0 || buffer.segments > 1 << 16 {
        return Err(table.fault("segments", Problem::OutOfRange { accepted: "a number from 1 to 65536".into() }));
    }
    if buffer.segment_blocks == 0 || buffer.segment_blocks > 1 << 32 {
        return Err(
            table.fault("segment_blocks", Problem::OutOfRange { accepted: "a number of blocks from 1 on".into() })
        );
    }
    for (key, share) in [("read_fill", buffer.read_fill), ("write_empty", buffer.write_empty)] {
        if share > Ratio::ONE {
            return Err(table.fault(key, Problem::OutOfRange { accepted: "a share from 0 % to 100 %".into() }));
        }
    }
    Ok(buffer)
}

fn read_read_ahead(table: &Reader) -> Result<ReadAhead, PartError> {
    Ok(ReadAhead {
        until: table.choose(
            "until",
            &[
                ("none", Until::Nothing),
                ("end of track", Until::Track),
                ("end of cylinder", Until::Cylinder),
                ("segment full", Until::Segment),
                ("next track", Until::NextTrack),
            ],
        )?,
        least: table.get("least")?,
        most: table.get("most")?,
        requested: table.choose(
            "over_requested",
            &[("kept", Requested::Kept), ("overwritten", Requested::Overwritten), ("dropped", Requested::Dropped)],
        )?,
        on_hit: table.get("on_hit")?,
        any_free_blocks: table.get("any_free_blocks")?,
        zero_latency: table.get("zero_latency")?,
        stops_in_sector: table.get("stops_in_sector")?,
    })
}

fn read_write(table: &Reader) -> Result<Write, PartError> {
    Ok(Write {
        back: table.choose(
            "back",
            &[("none", WriteBack::Never), ("appending", WriteBack::Appending), ("always", WriteBack::Always)],
        )?,
        combine: table.get("combine")?,
        zero_latency: table.get("zero_latency")?,
        hit_stops_read_ahead: table.get("hit_stops_read_ahead")?,
        prebuffer: table.get("prebuffer")?,
        disconnect_in_seek: table.get("disconnect_in_seek")?,
        extra_disconnect: table.get("extra_disconnect")?,
        least_seek: table.get("least_seek")?,
        preseek: table.choose(
            "preseek",
            &[
                ("after completion", Preseek::AfterCompletion),
                ("during completion", Preseek::DuringCompletion),
                ("before completion", Preseek::BeforeCompletion),
            ],
        )?,
    })
}

fn read_overhead(table: &Reader) -> Result<Overhead, PartError> {
    Ok(Overhead {
        request: table.get("request")?,
        read_hit_after_read: table.get("read_hit_after_read")?,
        read_hit_after_write: table.get("read_hit_after_write")?,
        read_miss_after_read: table.get("read_miss_after_read")?,
        read_miss_after_write: table.get("read_miss_after_write")?,
        write_hit_after_read: table.get("write_hit_after_read")?,
        write_hit_after_write: table.get("write_hit_after_write")?,
        write_miss_after_read: table.get("write_miss_after_read")?,
        write_miss_after_write: table.get("write_miss_after_write")?,
        read_completion: table.get("read_completion")?,
        write_completion: table.get("write_completion")?,
        data_preparation: table.get("data_preparation")?,
        first_reselect: table.get("first_reselect")?,
        other_reselect: table.get("other_reselect")?,
        read_disconnect_after_read: table.get("read_disconnect_after_read")?,
        read_disconnect_after_write: table.get("read_disconnect_after_write")?,
        write_disconnect: table.get("write_disconnect")?,
        extra_command: table.get("extra_command")?,
        extra_disconnect: table.get("extra_disconnect")?,
        extra_between: table.get("extra_between")?,
        extra_second_disconnect: table.get("extra_second_disconnect")?,
        extra_seek: table.get("extra_seek")?,
    })
}

fn read_queue(table: &Reader) -> Result<Queue, PartError> {
    let policy = table.choose(
        "policy",
        &[
            ("fcfs", Policy::Fcfs),
            ("sstf", Policy::Sstf),
            ("scan", Policy::Scan),
            ("clook", Policy::CLook),
            ("sptf", Policy::Sptf),
        ],
    )?;
    Ok(Queue { depth: table.get("depth")?, policy })
}
