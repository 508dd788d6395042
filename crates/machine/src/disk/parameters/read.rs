//! The parameters of a disk, read out of its part.
//!
//! What a drive has not may be left out: switches are off and times are zero then.

use units::{Duration, Frequency, Ratio};

use super::{Buffer, Bus, Overhead, Parameters, Policy, Preseek, Queue, ReadAhead, Requested, Until, Write, WriteBack};
use crate::disk::geometry::{Geometry, Layout, Mapping, Sparing, ZoneLayout};
use crate::disk::mechanism::Mechanism;
use crate::disk::rotation::Spindle;
use crate::disk::seek::SeekCurve;
use crate::part::{FromValue, Part, PartError, Problem, Reader, Value};

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
        let (speed, speed_error) = (rotation.get::<Frequency>("speed")?, rotation.get::<Ratio>("speed-error")?);
        if !(1.0..=1e6).contains(&(speed.get() * 60.0)) {
            return Err(
                rotation.fault("speed", Problem::OutOfRange { accepted: "a speed from 1 to 1000000 rpm".into() })
            );
        }
        if speed_error.get() > 0.5 {
            return Err(rotation.fault("speed-error", Problem::OutOfRange { accepted: "at most 50 %".into() }));
        }
        rotation.done()?;

        let arm = top.table("arm")?;
        let (head_switch, write_settle_ns) = (time(&arm, "head-switch")?, arm.get::<Signed>("write-settle")?.0);
        let seek = whole(&arm, "seek", |table| read_seek(table, &layout))?;
        if seek.time(layout.cylinders) > LONGEST {
            return Err(arm.fault("seek", Problem::OutOfRange { accepted: "a curve that stays below a minute".into() }));
        }
        arm.done()?;

        let mechanism = Mechanism { geometry, seek, spindle: Spindle::new(speed), head_switch, write_settle_ns };
        let parameters = Parameters {
            name: part.name.clone(),
            mechanism,
            speed,
            speed_error,
            bus: whole(&top, "bus", read_bus)?,
            buffer: whole(&top, "buffer", read_buffer)?,
            read_ahead: whole(&top, "read-ahead", read_read_ahead)?,
            write: whole(&top, "write", read_write)?,
            overhead: whole(&top, "overhead", read_overhead)?,
            queue: whole(&top, "queue", read_queue)?,
        };
        // What its processor does on a string is for those who put it on one.
        top.find_table("pause")?;
        top.done()?;
        Ok(parameters)
    }
}

/// A table within another, every key of which means something.
fn whole<T>(
    above: &Reader,
    key: &'static str,
    read: impl FnOnce(&Reader) -> Result<T, PartError>,
) -> Result<T, PartError> {
    let table = above.table(key)?;
    let found = read(&table)?;
    table.done()?;
    Ok(found)
}

/// A time that may be negative.
struct Signed(i64);

impl FromValue for Signed {
    const ACCEPTED: &'static str = "a time such as \"0.5 ms\" or \"-0.5 ms\"";
    fn from_value(value: &Value) -> Result<Signed, Problem> {
        let Value::Text(text) = value else { return Err(Problem::wrong(Self::ACCEPTED, value)) };
        let (sign, text) = text.trim().strip_prefix('-').map_or((1, text.as_str()), |rest| (-1, rest));
        let time: Duration = text.parse()?;
        if time > LONGEST {
            return Err(Problem::OutOfRange { accepted: "at most a minute".into() });
        }
        Ok(Signed(sign * time.as_nanos() as i64))
    }
}

/// Nothing that a drive does takes a minute, and sums of such times stay within 64 bits.
const LONGEST: Duration = Duration::seconds(60);

/// A time that is zero if it is left out.
fn time(table: &Reader, key: &'static str) -> Result<Duration, PartError> {
    let time = table.find(key)?.unwrap_or_default();
    if time > LONGEST {
        return Err(table.fault(key, Problem::OutOfRange { accepted: "at most a minute".into() }));
    }
    Ok(time)
}

/// A switch that is off if it is left out.
fn on(table: &Reader, key: &'static str) -> Result<bool, PartError> {
    Ok(table.find(key)?.unwrap_or_default())
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
    let range = table.find::<u32>("sparing-range")?.unwrap_or(1);
    if range == 0 {
        return Err(
            table.fault("sparing-range", Problem::OutOfRange { accepted: "a number of cylinders from 1 on".into() })
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
            first_cylinder: zone.get("first-cylinder")?,
            last_cylinder: zone.get("last-cylinder")?,
            sectors: zone.get("sectors")?,
            offset: zone.find("offset")?.unwrap_or(0.0),
            reserved: zone.find("reserved")?.unwrap_or(0),
            track_skew: zone.get("track-skew")?,
            cylinder_skew: zone.get("cylinder-skew")?,
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
            short_base: table.get("short-base")?,
            short_root: table.get("short-root")?,
            long_base: table.get("long-base")?,
            long_slope: table.get("long-slope")?,
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
    for key in ["read-block", "write-block"] {
        // 50 KB/s: a slower bus never was, and the whole drive sent over it stays within 64 bits.
        if time(table, key)? > Duration::millis(10) {
            return Err(table.fault(key, Problem::OutOfRange { accepted: "at most 10 ms".into() }));
        }
    }
    Ok(Bus { read_block: time(table, "read-block")?, write_block: time(table, "write-block")? })
}

fn read_buffer(table: &Reader) -> Result<Buffer, PartError> {
    let buffer = Buffer {
        segments: table.get("segments")?,
        segment_blocks: table.get("segment-blocks")?,
        write_segments: table.get("write-segments")?,
        separate_write_segment: on(table, "separate-write-segment")?,
        caching: on(table, "caching")?,
        read_hits_on_written: on(table, "read-hits-on-written")?,
        hit_on_block_being_read: on(table, "hit-on-block-being-read")?,
        read_fill: table.find("read-fill")?.unwrap_or_default(),
        write_empty: table.find("write-empty")?.unwrap_or_default(),
        hold: time(table, "hold")?,
        piece: table.find("piece")?.unwrap_or(1),
        marks_by_request: on(table, "marks-by-request")?,
        never_disconnect: on(table, "never-disconnect")?,
        partial_hit_at_once: on(table, "partial-hit-at-once")?,
    };
    if buffer.segments == 0 || buffer.segments > 1 << 16 {
        return Err(table.fault("segments", Problem::OutOfRange { accepted: "a number from 1 to 65536".into() }));
    }
    if buffer.segment_blocks == 0 || buffer.segment_blocks > 1 << 32 {
        return Err(
            table.fault("segment-blocks", Problem::OutOfRange { accepted: "a number of blocks from 1 on".into() })
        );
    }
    if buffer.piece == 0 {
        return Err(table.fault("piece", Problem::OutOfRange { accepted: "a number of blocks from 1 on".into() }));
    }
    for (key, share) in [("read-fill", buffer.read_fill), ("write-empty", buffer.write_empty)] {
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
                ("end of cylinder, unless sequential", Until::CylinderAtFirst),
                ("segment full", Until::Segment),
                ("next track", Until::NextTrack),
            ],
        )?,
        least: table.get("least")?,
        most: table.get("most")?,
        requested: table.choose(
            "over-requested",
            &[("kept", Requested::Kept), ("overwritten", Requested::Overwritten), ("dropped", Requested::Dropped)],
        )?,
        on_hit: on(table, "on-hit")?,
        any_free_blocks: on(table, "any-free-blocks")?,
        zero_latency: on(table, "zero-latency")?,
        stops_in_sector: on(table, "stops-in-sector")?,
        recalibrates: on(table, "recalibrates")?,
    })
}

fn read_write(table: &Reader) -> Result<Write, PartError> {
    let first = table.find("first")?;
    if first == Some(0) {
        return Err(table.fault("first", Problem::OutOfRange { accepted: "a number of blocks from 1 on".into() }));
    }
    Ok(Write {
        back: table.choose(
            "back",
            &[("none", WriteBack::Never), ("appending", WriteBack::Appending), ("always", WriteBack::Always)],
        )?,
        first,
        combine: on(table, "combine")?,
        zero_latency: on(table, "zero-latency")?,
        extra_disconnect: on(table, "extra-disconnect")?,
        least_seek: time(table, "least-seek")?,
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
        request: time(table, "request")?,
        stop_read_ahead: time(table, "stop-read-ahead")?,
        read_hit_after_read: time(table, "read-hit-after-read")?,
        read_hit_after_write: time(table, "read-hit-after-write")?,
        read_miss_after_read: time(table, "read-miss-after-read")?,
        read_miss_after_write: time(table, "read-miss-after-write")?,
        write_hit_after_read: time(table, "write-hit-after-read")?,
        write_hit_after_write: time(table, "write-hit-after-write")?,
        write_miss_after_read: time(table, "write-miss-after-read")?,
        write_miss_after_write: time(table, "write-miss-after-write")?,
        read_completion: time(table, "read-completion")?,
        write_completion: time(table, "write-completion")?,
        data_preparation: time(table, "data-preparation")?,
        first_reselect: time(table, "first-reselect")?,
        other_reselect: time(table, "other-reselect")?,
        read_disconnect_after_read: time(table, "read-disconnect-after-read")?,
        read_disconnect_after_write: time(table, "read-disconnect-after-write")?,
        write_disconnect: time(table, "write-disconnect")?,
        extra_command: time(table, "extra-command")?,
        extra_disconnect: time(table, "extra-disconnect")?,
        extra_between: time(table, "extra-between")?,
        extra_second_disconnect: time(table, "extra-second-disconnect")?,
        extra_seek: time(table, "extra-seek")?,
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
    let depth = table.get("depth")?;
    if depth == 0 {
        return Err(table.fault("depth", Problem::OutOfRange { accepted: "a number of requests from 1 on".into() }));
    }
    let age_limit = table.find::<Duration>("age-limit")?.map(|_| time(table, "age-limit")).transpose()?;
    Ok(Queue { depth, policy, age_limit })
}
