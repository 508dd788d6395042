//! The values of a file server.
//!
//! ```toml
//! kind = "file-server"
//! protocol = "locate"           # or "move"
//! outstanding = 1               # commands at a disk at a time; others wait in its driver
//! [cache]
//! size = "4 MiB"
//! block = "8 KiB"               # a smaller read that misses loads one
//! hit-ratio = "60 %"            # where a study gives it; without it the cache decides
//! [write-buffer]
//! size = "128 KiB"
//! merged = "10 %"               # writes that go to the disk with another
//! [pipe]                        # of "move"
//! size = "4 KiB"
//! element = "64 B"
//! [instructions]
//! receive = 6000                # a frame, up to the server
//! file-system = 6000            # a request, cache included
//! send = 6000                   # a frame
//! element = 500                 # of "move": to build one
//! ```

use units::{Bytes, Ratio};

use crate::part::{PartError, Problem, Reader};
use crate::scsi::target::BLOCK;

/// How the host and its adapters speak with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Commands of the host, interrupts of the adapters, data through memory.
    Locate,
    /// Pipes between all of them, data from adapter to adapter.
    Move,
}

/// What distinguishes one file server from another. Steps are in instructions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServerParameters {
    /// How host and adapters speak.
    pub protocol: Protocol,
    /// Commands at a disk at a time.
    pub outstanding: u32,
    /// Packets that are going out at the network adapter at a time.
    pub sending: u32,
    /// All of the file cache.
    pub cache: Bytes,
    /// A block of it.
    pub block: Bytes,
    /// Reads that are in it, if that is given.
    pub hit_ratio: Option<Ratio>,
    /// What waits to be written.
    pub write_buffer: Bytes,
    /// Writes that are joined with another there.
    pub merged: Ratio,
    /// Pipes: the bytes of one, and of an element in it.
    pub pipe: Option<(Bytes, Bytes)>,
    /// A frame comes in.
    pub receive: u64,
    /// A request in the file system.
    pub file_system: u64,
    /// A frame goes out.
    pub send: u64,
    /// An element is built.
    pub element: u64,
}

impl ServerParameters {
    /// Reads a part of kind `file-server`.
    pub fn read(reader: &Reader) -> Result<ServerParameters, PartError> {
        let protocol = reader.choose("protocol", &[("locate", Protocol::Locate), ("move", Protocol::Move)])?;
        let (cache, buffer, steps) =
            (reader.table("cache")?, reader.table("write-buffer")?, reader.table("instructions")?);
        let (size, block): (Bytes, Bytes) = (cache.get("size")?, cache.get("block")?);
        if block.is_zero() || !block.is_multiple_of(BLOCK) || block > size {
            let accepted = format!("whole 512-byte blocks, at least one, at most the cache's {size}");
            return Err(cache.fault("block", Problem::OutOfRange { accepted }));
        }
        let share = |reader: &Reader, key: &'static str| -> Result<Option<Ratio>, PartError> {
            let share: Option<Ratio> = reader.find(key)?;
            match share.filter(|share| !(0.0..=1.0).contains(&share.get())) {
                Some(_) => Err(reader.fault(key, Problem::OutOfRange { accepted: "a share from 0 % to 100 %".into() })),
                None => Ok(share),
            }
        };
        let write_buffer: Bytes = buffer.get("size")?;
        if write_buffer.is_zero() {
            return Err(buffer.fault("size", Problem::OutOfRange { accepted: "a size above zero".into() }));
        }
        let pipe = match protocol {
            Protocol::Locate => None,
            Protocol::Move => {
                let pipe = reader.table("pipe")?;
                let (all, element): (Bytes, Bytes) = (pipe.get("size")?, pipe.get("element")?);
                if element.is_zero() || element > all {
                    let accepted = format!("above zero and at most the pipe's {all}");
                    return Err(pipe.fault("element", Problem::OutOfRange { accepted }));
                }
                pipe.done()?;
                Some((all, element))
            }
        };
        let parameters = ServerParameters {
            protocol,
            outstanding: reader.count("outstanding", 65_536)?,
            sending: match reader.find::<u32>("sending")? {
                Some(_) => reader.count("sending", 65_536)?,
                None => 1,
            },
            cache: size,
            block,
            hit_ratio: share(&cache, "hit-ratio")?,
            write_buffer,
            merged: share(&buffer, "merged")?.unwrap_or(Ratio::ZERO),
            pipe,
            receive: steps.get("receive")?,
            file_system: steps.get("file-system")?,
            send: steps.get("send")?,
            element: if protocol == Protocol::Move { steps.get("element")? } else { 0 },
        };
        for table in [&cache, &buffer, &steps] {
            table.done()?;
        }
        Ok(parameters)
    }
}
