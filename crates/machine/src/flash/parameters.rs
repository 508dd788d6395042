//! Everything that makes one flash drive differ from another, as its part file says it.

use units::{Bytes, Duration, Rate, Ratio};

use crate::part::{Part, PartError, Problem, Reader};

/// The parameters of a flash drive.
#[derive(Debug, Clone, PartialEq)]
pub struct FlashParameters {
    /// Maker and model.
    pub name: String,
    /// What the host sees.
    pub capacity: Bytes,
    /// What there is, spare blocks counted.
    pub physical: Bytes,
    /// How much of the capacity holds data; the rest was discarded or never written.
    pub filled: Ratio,
    /// Channels.
    pub channels: u32,
    /// Dies on each.
    pub dies_per_channel: u32,
    /// Planes of a die that are programmed together.
    pub planes: u32,
    /// What is read at a time.
    pub page: Bytes,
    /// Pages of a block on one plane.
    pub pages_per_block: u32,
    /// To read a page into the die's register.
    pub read: Duration,
    /// To program a page on all planes of a die.
    pub program: Duration,
    /// To erase a block on all planes of a die.
    pub erase: Duration,
    /// Until a program that is under way makes room for a read.
    pub suspend: Duration,
    /// Of one channel.
    pub channel: Rate,
    /// To the host, each way.
    pub link: Rate,
    /// Written data that are not on flash yet.
    pub write_buffer: Bytes,
    /// From one command to the next.
    pub command_interval: Duration,
    /// What the controller takes for a read, beyond flash and transfers.
    pub read_overhead: Duration,
    /// What it takes for a write.
    pub write_overhead: Duration,
    /// Commands that it has at a time, in all its queues.
    pub queue: u32,
}

/// Commands of one queue at most (NVM Express Base Specification 2.0, Section 3.3.1); a drive whose part says nothing
/// has room for so many.
const QUEUE: u32 = 65_535;

impl FlashParameters {
    /// Reads a part of kind `flash`.
    pub fn read(part: &Part) -> Result<FlashParameters, PartError> {
        let top = part.reader("flash")?;
        let (flash, controller) = (top.table("flash")?, top.table("controller")?);
        let parameters = FlashParameters {
            name: part.name.clone(),
            capacity: top.get("capacity")?,
            filled: top.get("filled")?,
            physical: flash.get("physical")?,
            channels: count(&flash, "channels", 256)?,
            dies_per_channel: count(&flash, "dies-per-channel", 1024)?,
            planes: count(&flash, "planes", 64)?,
            page: flash.get("page")?,
            pages_per_block: count(&flash, "pages-per-block", 1 << 20)?,
            read: time(&flash, "read")?,
            program: time(&flash, "program")?,
            erase: time(&flash, "erase")?,
            suspend: time(&flash, "suspend")?,
            channel: rate(&flash, "channel")?,
            link: rate(&controller, "link")?,
            write_buffer: controller.get("write-buffer")?,
            command_interval: time(&controller, "command-interval")?,
            read_overhead: time(&controller, "read-overhead")?,
            write_overhead: time(&controller, "write-overhead")?,
            queue: match controller.find::<u32>("queue")? {
                None => QUEUE,
                Some(_) => count(&controller, "queue", 1 << 30)?,
            },
        };
        let out_of_range = |accepted: String| Problem::OutOfRange { accepted };
        if parameters.capacity.is_zero() || !parameters.capacity.is_multiple_of(Bytes::SECTOR) {
            return Err(top.fault("capacity", out_of_range("a number of 512-byte blocks, at least one".into())));
        }
        if parameters.filled > Ratio::ONE {
            return Err(top.fault("filled", out_of_range("a share from 0 % to 100 %".into())));
        }
        let page = parameters.page;
        if !page.is_multiple_of(Bytes::SECTOR) || page.is_zero() || page > Bytes::mib(1) {
            return Err(flash.fault("page", out_of_range("a number of 512-byte blocks, from 512 B to 1 MiB".into())));
        }
        // With less to spare a drive would move fifty pages and more for each that is written.
        let least = parameters.capacity.get() as f64 * 1.01;
        if (parameters.physical.get() as f64) < least || parameters.physical > Bytes::gib(1 << 20) {
            let accepted = format!("at least 1 % more than the capacity, {}, and at most 1 PiB", parameters.capacity);
            return Err(flash.fault("physical", out_of_range(accepted)));
        }
        if parameters.write_buffer < parameters.unit() {
            let accepted = format!("at least {}, a page on each plane of a die", parameters.unit());
            return Err(controller.fault("write-buffer", out_of_range(accepted)));
        }
        flash.done()?;
        controller.done()?;
        top.done()?;
        Ok(parameters)
    }

    /// All dies.
    pub const fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// What is programmed at a time: a page on each plane of a die.
    pub fn unit(&self) -> Bytes {
        self.page * u64::from(self.planes)
    }

    /// How much holds data.
    pub fn mapped(&self) -> Bytes {
        Bytes::new((self.capacity.get() as f64 * self.filled.get()) as u64)
    }

    /// How long a die is busy with a unit, if `copies` units are written for it: the others are read first, and all
    /// have their share of an erase.
    pub fn programming(&self, copies: f64) -> Duration {
        let transfer = self.channel.time_for(self.unit()).as_seconds();
        let write = self.program.as_seconds() + transfer;
        let moving = self.read.as_seconds() + transfer;
        let erase = self.erase.as_seconds() / f64::from(self.pages_per_block);
        Duration::from_seconds(copies * (write + erase) + (copies - 1.0) * moving)
    }
}

fn count(table: &Reader, key: &'static str, most: u32) -> Result<u32, PartError> {
    let count: u32 = table.get(key)?;
    if count == 0 || count > most {
        return Err(table.fault(key, Problem::OutOfRange { accepted: format!("a number from 1 to {most}") }));
    }
    Ok(count)
}

fn time(table: &Reader, key: &'static str) -> Result<Duration, PartError> {
    let time: Duration = table.get(key)?;
    // No flash takes a second over anything; sums of such times stay within 64 bits.
    if time > Duration::seconds(1) {
        return Err(table.fault(key, Problem::OutOfRange { accepted: "at most 1 s".into() }));
    }
    Ok(time)
}

fn rate(table: &Reader, key: &'static str) -> Result<Rate, PartError> {
    let rate: Rate = table.get(key)?;
    // A gibibyte at the slowest of these takes a quarter of an hour.
    if rate.get() < 1e6 {
        return Err(table.fault(key, Problem::OutOfRange { accepted: "at least 1 MB/s".into() }));
    }
    Ok(rate)
}
