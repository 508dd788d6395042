//! Host memory behind a virtually addressed cache, shared by DMA, copies, flushes and instruction fetch.
//!
//! # Theory
//! Everything that misses the cache moves whole lines over one memory bus, and a line takes the same time whoever wants
//! it; the rate at which dirty lines are flushed gives that time. So
//!
//! - flushing dirty lines uses the whole bus, clean lines almost nothing but the processor;
//! - copying what is not cached moves two lines (source and destination) for each line copied;
//! - the idle loop lives in the cache: what delays it is DMA to the cache, not traffic on the bus;
//! - DMA into lines that are not cached has to make room and move lines while the adapter waits; into cached lines it
//!   only takes the cache away from the processor for a moment.
//!
//! How much of a copy is cached follows from what else went through the cache since its lines were last used: in a
//! cache of `C` bytes whose lines are replaced without regard to use, a line survives the passage of `F` other bytes
//! with probability `exp(-F / C)`. A fraction `h` that survives is copied at the cached rate, the rest at the uncached
//! one.
//!
//! Memory may be *interleaved*: each way moves so much, and together they are the bus. What is asked of it beyond that
//! makes requests meet in the same ways, and the loss ([`crate::flow::Law::loss`]) grows with it: M.A.X. saw 392 MB/s
//! with 27 devices and 310 with 31.
//!
//! # Sources
//! Rates and cache size: UCB/CSD 90/574 Sections 2.4.1 and 4.7. That the memory bus is what saturates: Sections 4.1.2
//! and 4.4.

use std::cell::Cell;
use std::rc::Rc;

use record::PartName;
use units::{Bytes, Duration, Rate};

use crate::component::{Component, Fast, Kind};
use crate::flow::{Demand, Flows, Law, Link};
use crate::lines::Lines;
use crate::load::{Gauges, Reading};
use crate::part::{PartError, Problem, Reader};
use crate::trace::Trace;

/// Host memory: the root of everything that moves data to it.
pub const KIND: Kind = Kind {
    name: "memory",
    on: &[],
    fast: &[Fast {
        limit: "host memory system",
        values: &["copy-cached", "copy-uncached", "flush-dirty", "flush-clean", "dma-miss", "dma-hit", "bus", "way"],
    }],
    build: |site| {
        let parameters = site.parameters(MemoryParameters::read)?;
        Ok(Rc::new(Memory::new(site.flows, site.trace, site.name, parameters)))
    },
};

impl Component for Memory {
    fn gauges(&self, gauges: &mut Gauges) {
        gauges.put("", Reading::Busy(self.busy()));
    }
    fn rate(&self) -> Option<Rate> {
        let (_, busy) = self.dma_cost(Lines::Flushed);
        (busy > 0.0).then(|| Rate::bytes_per_second(1.0 / busy))
    }
}

/// What distinguishes one memory system from another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryParameters {
    /// The cache.
    pub cache: Bytes,
    /// A line of it.
    pub line: Bytes,
    /// Copying with source and destination in the cache.
    pub copy_cached: Rate,
    /// Copying with neither.
    pub copy_uncached: Rate,
    /// Flushing dirty lines.
    pub flush_dirty: Rate,
    /// Flushing clean lines.
    pub flush_clean: Rate,
    /// What its bus moves, for all together: what a flush of dirty lines does, if nothing else is said.
    pub bus: Rate,
    /// What it loses of that for what is asked beyond it.
    pub saturation_loss: f64,
    /// Flushes come in units of this.
    pub flush_unit: Bytes,
    /// How long an adapter waits for a line that DMA finds flushed.
    pub dma_miss: Duration,
    /// How many line times of the memory bus such a line takes.
    pub dma_miss_lines: f64,
    /// For how long DMA to a cached line keeps the processor from the cache.
    pub dma_hit: Duration,
    /// What the system itself touches between two uses of a buffer.
    pub system_footprint: Bytes,
}

impl MemoryParameters {
    /// Reads a part of kind `memory`.
    pub fn read(reader: &Reader) -> Result<MemoryParameters, PartError> {
        let size = |key: &'static str| -> Result<Bytes, PartError> {
            let size: Bytes = reader.get(key)?;
            if size.is_zero() {
                return Err(reader.fault(key, Problem::OutOfRange { accepted: "a size above zero".into() }));
            }
            Ok(size)
        };
        let rate = |key: &'static str| -> Result<Rate, PartError> {
            let rate: Rate = reader.get(key)?;
            if rate.is_zero() {
                return Err(reader.fault(key, Problem::OutOfRange { accepted: "a rate above zero".into() }));
            }
            Ok(rate)
        };
        Ok(MemoryParameters {
            cache: size("cache")?,
            line: size("line")?,
            copy_cached: rate("copy-cached")?,
            copy_uncached: rate("copy-uncached")?,
            flush_dirty: rate("flush-dirty")?,
            flush_clean: rate("flush-clean")?,
            bus: match (reader.find::<Rate>("bus")?, reader.find::<u32>("interleave")?) {
                (None, None) => rate("flush-dirty")?,
                (Some(_), None) => rate("bus")?,
                (None, Some(_)) => rate("way")? * f64::from(reader.count("interleave", 64)?),
                (Some(_), Some(_)) => {
                    let message =
                        "interleaved memory moves what its ways do; leave 'bus' away, or 'interleave' and 'way'";
                    return Err(reader.fault("interleave", Problem::Contradiction(message.to_owned())));
                }
            },
            saturation_loss: match reader.find::<f64>("saturation-loss")? {
                Some(loss) if !(0.0..=10.0).contains(&loss) => {
                    let accepted = "0 (a full bus stays full) to 10".into();
                    return Err(reader.fault("saturation-loss", Problem::OutOfRange { accepted }));
                }
                loss => loss.unwrap_or(0.0),
            },
            flush_unit: size("flush-unit")?,
            dma_miss: reader.get("dma-miss")?,
            dma_miss_lines: reader.get("dma-miss-lines")?,
            dma_hit: reader.get("dma-hit")?,
            system_footprint: reader.get("system-footprint")?,
        })
    }
}

/// The memory system.
pub struct Memory {
    /// What it is.
    pub parameters: MemoryParameters,
    flows: Flows,
    link: Link,
    cache: Link,
    part: PartName,
    passed: Cell<u64>,
}

impl Memory {
    /// Idle, with a cold cache.
    pub fn new(flows: &Flows, trace: &Trace, name: &str, parameters: MemoryParameters) -> Memory {
        Memory {
            parameters,
            flows: flows.clone(),
            link: flows.link_with(Law { loss: parameters.saturation_loss, wait: 0.0 }),
            cache: flows.link(),
            part: trace.part(name),
            passed: Cell::new(0),
        }
    }
    /// The memory bus.
    pub fn link(&self) -> Link {
        self.link
    }
    /// The cache, which DMA takes from the processor for a moment with each line.
    pub fn cache(&self) -> Link {
        self.cache
    }
    /// Cache time of one byte of DMA, seconds.
    pub fn cache_cost(&self, lines: Lines) -> f64 {
        match lines {
            Lines::Elsewhere => 0.0,
            Lines::Cached | Lines::Flushed => self.parameters.dma_hit.as_seconds() / self.parameters.line.get() as f64,
        }
    }
    /// Its number in spans.
    pub fn part(&self) -> PartName {
        self.part
    }
    /// For how long its bus was in use.
    pub fn busy(&self) -> Duration {
        self.flows.busy(self.link)
    }

    /// Bus time of one byte of a line that moves, seconds.
    fn byte_time(&self) -> f64 {
        1.0 / self.parameters.bus.get()
    }

    /// What one byte of DMA costs in seconds: for how long it makes the adapter wait, and for how long it takes the
    /// memory bus.
    pub fn dma_cost(&self, lines: Lines) -> (f64, f64) {
        let line = self.parameters.line.get() as f64;
        match lines {
            Lines::Cached | Lines::Elsewhere => (0.0, 0.0),
            Lines::Flushed => {
                (self.parameters.dma_miss.as_seconds() / line, self.byte_time() * self.parameters.dma_miss_lines)
            }
        }
    }

    /// What share of a buffer is still cached after `others` bytes went through the cache.
    pub fn survival(&self, others: Bytes) -> f64 {
        (-(others.get() as f64) / self.parameters.cache.get() as f64).exp()
    }

    /// A copy of `bytes` after `others` bytes went through the cache since the buffers were last used, at its own
    /// speed: the rate, and the memory bus time of a byte.
    pub fn copy(&self, others: Bytes) -> (f64, f64) {
        let cached = self.survival(others);
        let seconds = cached / self.parameters.copy_cached.get() + (1.0 - cached) / self.parameters.copy_uncached.get();
        // Two lines move for each line copied, but the bus cannot be busy for longer than the copy takes.
        let bus = ((1.0 - cached) * 2.0 * self.byte_time()).min(seconds);
        (1.0 / seconds, bus)
    }

    /// A flush of the lines of `bytes`, in whole units: the rate of a byte of them, and its memory bus time. Of a unit
    /// only what was transferred can be dirty.
    pub fn flush(&self, bytes: Bytes, dirty: bool) -> (Bytes, f64, f64) {
        let amount = bytes.round_up(self.parameters.flush_unit);
        let dirty = if dirty { bytes } else { Bytes::ZERO };
        let (dirty, clean) = (dirty.get() as f64, (amount - dirty).get() as f64);
        let seconds = dirty / self.parameters.flush_dirty.get() + clean / self.parameters.flush_clean.get();
        let whole = amount.get() as f64;
        (amount, whole / seconds, dirty * self.byte_time() / whole)
    }

    /// How much has gone through the cache since the start.
    pub fn passed(&self) -> Bytes {
        Bytes::new(self.passed.get())
    }
    /// So much goes through the cache.
    pub fn pass(&self, bytes: Bytes) {
        self.passed.set(self.passed.get() + bytes.get());
    }

    /// A demand that uses the memory bus.
    pub fn demand(&self, amount: f64, rate: f64, class: u8, bus: f64) -> Demand {
        Demand::new(amount, rate, class).over(self.link, bus)
    }
}
