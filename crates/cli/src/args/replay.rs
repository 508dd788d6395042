//! The words of `arraylab replay`.

use std::path::PathBuf;

use clap::Args;
use lab::Target;
use record::TraceFormat;
use units::Bytes;

use super::Common;

/// Make the requests of a trace once more, at their own times
///
/// Each request is asked when it was asked then, whatever the device does; one that finds too many under way is asked
/// late, and how late is in the result. Devices are real or modelled, as for `run`. With one device all of the trace
/// goes there; otherwise each device of the trace has its own, in the order in which the trace names them.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab replay runs/2026-02-14-load-1 --on /dev/sdb     what a run asked, on another disk
  arraylab replay trace.txt --on part:mg10-20tb            what blkparse printed, on a modelled drive
  arraylab replay usr_0.csv --on disk.img --wrap --speed 10 --destroy-data
  arraylab replay job.iolog --on /dev/sdb --as-fast-as-possible

Traces (told from their text):
  run folders and records.parquet of arraylab
  blkparse    what blkparse prints
  fio-log     a latency log of fio with log_issue_time=1 and log_offset=1
  fio-iolog   what fio's write_iolog writes, versions 2 and 3
  msr         CSV of the SNIA's Microsoft Research Cambridge traces
  spc         CSV of the SPC and UMass traces: unit, block, bytes, R or W, seconds
  disksim     ASCII of DiskSim: ms, device, block, blocks, flags; and its validation traces")]
pub struct Replay {
    /// The trace; several files are one trace
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,

    /// Devices: paths, NBD URIs, memory:SIZE[:DELAY], part:NAME (simulated), null:SIZE (the generator alone)
    #[arg(long, value_name = "PATH,...", value_delimiter = ',', required = true)]
    pub on: Vec<Target>,

    /// What the trace is [default: told from its text]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<TraceFormat>,

    /// How much faster than it was recorded
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,

    /// Each request as soon as there is a place for it, in the order of the trace
    #[arg(long, conflicts_with = "speed")]
    pub as_fast_as_possible: bool,

    /// At most so many requests of a device are under way
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub outstanding: u32,

    /// Round requests outward to whole blocks of this; for direct I/O on devices of 4 KiB blocks, 4KiB
    #[arg(long, value_name = "SIZE", default_value = "512 B", value_parser = block)]
    pub block: Bytes,

    /// Let requests beyond the end of a device go round to its beginning
    #[arg(long)]
    pub wrap: bool,

    /// Through the page cache
    #[arg(long)]
    pub buffered: bool,

    /// Count errors and go on
    #[arg(long)]
    pub go_on: bool,

    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.trim_end_matches('x').parse::<f64>().ok().filter(|speed| (1e-6..=1e6).contains(speed));
    speed.ok_or_else(|| "write a factor such as 2 or 0.5".to_owned())
}

fn block(text: &str) -> Result<Bytes, String> {
    let block: Bytes = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    let good = block >= Bytes::SECTOR && block <= Bytes::mib(1) && block.get().is_power_of_two();
    if good { Ok(block) } else { Err("write a power of two from 512 B to 1 MiB".to_owned()) }
}
