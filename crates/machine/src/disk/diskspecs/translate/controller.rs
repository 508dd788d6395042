//! Buffer, read-ahead, writes, overheads, bus and queue: what DiskSim's drive file itself says.

use super::block::Params;
use super::value::{flag, milliseconds, milliseconds_scaled, name, number, numeric, share, time_text, whole};
use crate::disk::diskspecs::ImportError;
use crate::disk::diskspecs::syntax::Item;
use crate::part::{Table, Value};

/// What a controller parameter becomes.
type Convert = fn(&Item) -> Result<Value, String>;

pub(super) fn controller(disk: &Params, values: &mut Table, notes: &mut Vec<String>) -> Result<(), ImportError> {
    let line = disk.block.line;
    let fresh = || Table::new(disk.place(line)).sourced(disk.source(line, line));

    let mut buffer = fresh();
    for (ours, theirs, convert) in BUFFER {
        disk.copy(&mut buffer, ours, theirs, convert)?;
    }
    values.set("buffer", disk.node(line, Value::Table(buffer)));

    let mut read_ahead = fresh();
    for (ours, theirs, convert) in READ_AHEAD {
        disk.copy(&mut read_ahead, ours, theirs, convert)?;
    }
    values.set("read-ahead", disk.node(line, Value::Table(read_ahead)));

    let mut write = fresh();
    for (ours, theirs, convert) in WRITE {
        disk.copy(&mut write, ours, theirs, convert)?;
    }
    values.set("write", disk.node(line, Value::Table(write)));

    // All overheads are scaled by one factor; the part has them scaled.
    let scale = number(&disk.entry("Time scale for overheads")?.item).filter(|scale| (0.0..=1e6).contains(scale));
    let scale =
        scale.ok_or_else(|| disk.wrong(disk.entry("Time scale for overheads").expect("just found"), "a factor"))?;
    let mut overhead = fresh();
    for (ours, theirs) in OVERHEADS {
        disk.copy(&mut overhead, ours, theirs, |item| milliseconds_scaled(item, scale))?;
    }
    values.set("overhead", disk.node(line, Value::Table(overhead)));

    bus(disk, values, notes)?;

    let mut queue = fresh();
    disk.copy(&mut queue, "depth", "Max queue length", whole)?;
    let scheduler = disk.block("Scheduler", "disksim_ioqueue")?;
    let scheduler = Params::new(&disk.file, scheduler);
    scheduler.copy(&mut queue, "policy", "Scheduling policy", policy)?;
    values.set("queue", disk.node(line, Value::Table(queue)));
    // Statistics, and what DiskSim itself does not read.
    for unread in ["Print stats", "Avg sectors per cylinder", "Calc sector by sector"] {
        disk.find(unread);
    }
    Ok(())
}

/// The bus of a drive: its own, or that of the machine in which it was measured.
fn bus(disk: &Params, values: &mut Table, notes: &mut Vec<String>) -> Result<(), ImportError> {
    let entry = disk.entry("Bulk sector transfer time")?;
    let own = number(&entry.item).ok_or_else(|| disk.wrong(entry, "a time in milliseconds"))?;
    let mut bus = Table::new(disk.place(entry.line)).sourced(disk.source(entry.line, entry.line));
    let (read, write) = if own > 0.0 {
        (own, own)
    } else if let Some((_, read, write, source)) =
        BUSES.iter().find(|(name, ..)| disk.block.name.trim_end_matches("_validate") == *name)
    {
        bus.source = Some((*source).to_owned());
        (*read, *write)
    } else {
        bus.source = Some("assumed: SCSI-2 at 10 MB/s, as the drive file gives no time".into());
        notes.push(format!("{}: no bus time is given; 10 MB/s is assumed, change [bus] if it was another", disk.file));
        (0.0512, 0.0512)
    };
    bus.set("read-block", disk.node(entry.line, time_text(read)));
    bus.set("write-block", disk.node(entry.line, time_text(write)));
    values.set("bus", disk.node(entry.line, Value::Table(bus)));
    Ok(())
}

/// Bus time of a 512-byte block in the machines in which DiskSim's oldest drives were measured: drive, read ms, write
/// ms, source. It is a property of that machine's SCSI adapter; the drive files say 0. The variants of a drive
/// ("_validate") were measured in one machine.
const BUSES: [(&str, f64, f64, &str); 5] = [
    ("HP_C2247A", 0.17010, 0.18686, "DiskSim 4.0 valid/hp_c2247a.parv, BUS1"),
    ("HP_C3323A", 0.14550, 0.14550, "DiskSim 4.0 valid/hp_c3323a.parv, BUS1"),
    ("DEC_RZ26", 0.07069, 0.07069, "DiskSim 4.0 valid/dec_rz26.parv, BUS1"),
    ("HP_C2490A", 0.14841, 0.14841, "DiskSim 4.0 valid/hp_c2490a.parv, BUS1"),
    ("Seagate_ST41601N", 0.09552, 0.09552, "DiskSim 4.0 valid/st41601n.parv, BUS1"),
];

const BUFFER: [(&str, &str, Convert); 11] = [
    ("segments", "Number of buffer segments", whole),
    ("segment-blocks", "Segment size (in blks)", whole),
    ("write-segments", "Maximum number of write segments", whole),
    ("separate-write-segment", "Use separate write segment", flag),
    ("caching", "Enable caching in buffer", flag),
    ("read-hits-on-written", "Allow read hits on write data", flag),
    ("hit-on-block-being-read", "Allow almost read hits", flag),
    ("read-fill", "High (read) water mark", share),
    ("marks-by-request", "Set watermark by reqsize", flag),
    ("never-disconnect", "Never disconnect", flag),
    ("partial-hit-at-once", "Immed transfer partial hit", flag),
];

const READ_AHEAD: [(&str, &str, Convert); 8] = [
    ("until", "Buffer continuous read", |item| {
        name(item, &["none", "end of track", "end of cylinder", "segment full", "next track"])
    }),
    ("least", "Minimum read-ahead (blks)", whole),
    ("most", "Maximum read-ahead (blks)", whole),
    ("over-requested", "Read-ahead over requested", |item| match number(item) {
        Some(-1.0) => Ok(Value::Text("dropped".into())),
        _ => name(item, &["kept", "overwritten"]),
    }),
    ("on-hit", "Read-ahead on idle hit", flag),
    ("any-free-blocks", "Read any free blocks", flag),
    ("zero-latency", "Immediate buffer read", flag),
    ("stops-in-sector", "Stop prefetch in sector", flag),
];

const WRITE: [(&str, &str, Convert); 6] = [
    ("back", "Fast write level", |item| name(item, &["none", "appending", "always"])),
    ("combine", "Combine seq writes", flag),
    ("zero-latency", "Immediate buffer write", flag),
    ("extra-disconnect", "Extra write disconnect", flag),
    ("least-seek", "Minimum seek delay", milliseconds),
    ("preseek", "Preseeking level", |item| name(item, &["after completion", "during completion", "before completion"])),
];

const OVERHEADS: [(&str, &str); 22] = [
    ("request", "Per-request overhead time"),
    ("read-hit-after-read", "Read hit over. after read"),
    ("read-hit-after-write", "Read hit over. after write"),
    ("read-miss-after-read", "Read miss over. after read"),
    ("read-miss-after-write", "Read miss over. after write"),
    ("write-hit-after-read", "Write hit over. after read"),
    ("write-hit-after-write", "Write hit over. after write"),
    ("write-miss-after-read", "Write miss over. after read"),
    ("write-miss-after-write", "Write miss over. after write"),
    ("read-completion", "Read completion overhead"),
    ("write-completion", "Write completion overhead"),
    ("data-preparation", "Data preparation overhead"),
    ("first-reselect", "First reselect overhead"),
    ("other-reselect", "Other reselect overhead"),
    ("read-disconnect-after-read", "Read disconnect afterread"),
    ("read-disconnect-after-write", "Read disconnect afterwrite"),
    ("write-disconnect", "Write disconnect overhead"),
    ("extra-command", "Extradisc command overhead"),
    ("extra-disconnect", "Extradisc disconnect overhead"),
    ("extra-between", "Extradisc inter-disconnect delay"),
    ("extra-second-disconnect", "Extradisc 2nd disconnect overhead"),
    ("extra-seek", "Extradisc seek delta"),
];

/// DiskSim's scheduling policies, by the numbers of its manual's table; of the variants of one idea (by block or by
/// cylinder, with ageing or the cache taken into account) the one that is here.
fn policy(item: &Item) -> Result<Value, String> {
    let name = match numeric(item)? as i64 {
        1 => "fcfs",
        2 | 5 | 17..=19 => "scan",
        3 | 6 => "clook",
        4 | 7 => "sstf",
        8..=16 | 20..=30 => "sptf",
        _ => return Err("a number from 1 to 30".into()),
    };
    Ok(Value::Text(name.into()))
}
