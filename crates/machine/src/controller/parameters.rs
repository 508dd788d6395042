//! The values of a RAID controller.
//!
//! ```toml
//! kind = "raid-controller"
//! lane = "1.2 GB/s"             # of a SAS lane, after 8b/10b
//! ports = 16                    # drives and wide ports that can be plugged in
//! queue = 900                   # commands of the host that it has at a time
//! command = "1 us"              # its processor takes a command of the host in
//! completion = "1 us"           # and completes it
//! member = "500 ns"             # its processor sends a command to a drive, and once more when it completes
//! buffer = "12 GB/s"            # its memory: all that goes to drives or to the host, or comes from there
//! parity = "8 GB/s"             # its engine, in bytes that it reads
//! [link]                        # to the host, as of a switch
//! [array]
//! level = 6
//! layout = "left-symmetric"     # without it, the level's default
//! stripe-unit = "256 KiB"
//! writes = "reconstruct"        # new parity from all data of the row; without it by the fewest reads
//! # failed, rebuild-rate, scrub-rate: see raid/upkeep.rs
//! [cache]
//! size = "4 GiB"
//! line = "64 KiB"               # what is kept of reads, and forgotten, at a time
//! write-back = true             # writes are complete when they are in the cache
//! dirty-most = "50 %"           # of the cache; writes wait beyond
//! destages = 16                 # writes to the drives at a time
//! read-hits = "20 %"            # reads that it has; without it the cache decides
//! parity-hits = "60 %"          # likewise of reads for new parity, which are never in the cache without it
//! ```

use array::geometry::Level;
use units::{Bytes, Duration, Rate, Ratio};

use crate::packet::sas::HbaParameters;
use crate::part::{PartError, Problem, Reader};
use crate::raid::parameters::layout;
use crate::raid::upkeep::Upkeep;

/// What distinguishes one controller from another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ControllerParameters {
    /// What it has in common with an adapter without an array: link, lanes, ports, queue, and its processor's times for
    /// a command of the host.
    pub adapter: HbaParameters,
    /// Its processor sends a command to a drive, or completes it.
    pub member: Duration,
    /// Its memory.
    pub buffer: Rate,
    /// Its engine, in bytes of sources.
    pub parity: Rate,
    /// Level and stripe unit.
    pub layout: (Level, Bytes),
    /// Whether new parity is computed from all data of the row wherever they can be read.
    pub reconstructs: bool,
    /// Failed drives, and the rebuild or scrub beside the requests.
    pub upkeep: Upkeep,
    /// Its cache.
    pub cache: CacheParameters,
}

/// The cache of a controller.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CacheParameters {
    /// All of it; none is kept of reads if it is zero.
    pub size: Bytes,
    /// What is kept and forgotten at a time.
    pub line: Bytes,
    /// Writes are complete when they are in it.
    pub write_back: bool,
    /// The most that may be dirty, in bytes.
    pub dirty_most: u64,
    /// Writes to the drives at a time.
    pub destages: u32,
    /// The share of reads that it has, if that is given.
    pub read_hits: Option<Ratio>,
    /// The share of reads for parity that it has, if that is given.
    pub parity_hits: Option<Ratio>,
}

impl ControllerParameters {
    /// Reads a part of kind `raid-controller`.
    pub fn read(reader: &Reader) -> Result<ControllerParameters, PartError> {
        let (array, cache) = (reader.table("array")?, reader.table("cache")?);
        let parameters = ControllerParameters {
            adapter: HbaParameters::read(reader)?,
            member: reader.get("member")?,
            buffer: reader.rate("buffer")?,
            parity: reader.rate("parity")?,
            layout: layout(&array)?,
            reconstructs: match array.find::<String>("writes")? {
                None => false,
                Some(_) => array.choose("writes", &[("reconstruct", true), ("fewest-reads", false)])?,
            },
            upkeep: Upkeep::read(&array)?,
            cache: CacheParameters::read(&cache)?,
        };
        array.done()?;
        cache.done()?;
        Ok(parameters)
    }
}

impl CacheParameters {
    fn read(reader: &Reader) -> Result<CacheParameters, PartError> {
        let (size, line): (Bytes, Bytes) = (reader.get("size")?, reader.get("line")?);
        if line.is_zero() || !line.is_multiple_of(Bytes::SECTOR) {
            let accepted = "whole 512-byte blocks, at least one".into();
            return Err(reader.fault("line", Problem::OutOfRange { accepted }));
        }
        let write_back = reader.get("write-back")?;
        let most: Ratio = reader.get("dirty-most")?;
        let dirty_most = (size.get() as f64 * most.get()) as u64;
        if !(0.0..=1.0).contains(&most.get()) || (write_back && dirty_most < line.get()) {
            let accepted = "a part of the cache: at least a line of it with write-back, at most 100 %".into();
            return Err(reader.fault("dirty-most", Problem::OutOfRange { accepted }));
        }
        let destages = reader.count("destages", 65_536)?;
        let share = |key: &'static str| -> Result<Option<Ratio>, PartError> {
            let share: Option<Ratio> = reader.find(key)?;
            match share {
                Some(share) if !(0.0..=1.0).contains(&share.get()) => {
                    Err(reader.fault(key, Problem::OutOfRange { accepted: "a share from 0 % to 100 %".into() }))
                }
                share => Ok(share),
            }
        };
        let (read_hits, parity_hits) = (share("read-hits")?, share("parity-hits")?);
        Ok(CacheParameters { size, line, write_back, dirty_most, destages, read_hits, parity_hits })
    }
}
