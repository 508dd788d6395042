//! Requests: what is asked, and whether it may be.
//!
//! A pure function from a header to a command or to the error that the protocol wants for it. What passes fits the
//! device, so that an error of the device is one of the medium, not of the client; but for its blocks, which clients
//! need not know.

use units::Bytes;

use crate::export::Export;
use crate::haggle::Agreement;
use crate::protocol::{Errno, LARGEST_PAYLOAD, RequestHeader, command, flag};

/// A request that makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are those of the request
pub enum Command {
    /// Bytes to the client.
    Read { offset: Bytes, length: Bytes },
    /// Bytes from the client, which follow the header.
    Write { offset: Bytes, length: Bytes, fua: bool },
    /// The client is done: no reply.
    Disconnect,
    /// What was replied to becomes durable.
    Flush,
    /// A range may be forgotten.
    Trim { offset: Bytes, length: Bytes, fua: bool },
    /// A range reads as zeroes.
    WriteZeroes { offset: Bytes, length: Bytes, fua: bool, punch: bool },
    /// Which parts of a range are stored.
    BlockStatus { offset: Bytes, length: Bytes, one: bool },
}

/// The terms under which requests are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Size of the export.
    pub size: Bytes,
    /// What the device moves. Requests that do not start and end on it are completed.
    pub block: Bytes,
    /// Nothing is written.
    pub read_only: bool,
    /// Reads may be asked for in one piece.
    pub structured: bool,
    /// Status may be asked for.
    pub allocation: bool,
}

/// Why a request is not carried out: the number for the client's program and a sentence for its user.
pub type Refused = (Errno, &'static str);

impl Command {
    /// Whether it starts and ends on blocks of this size, a power of two.
    #[inline]
    pub fn fits(&self, block: Bytes) -> bool {
        match *self {
            Command::Disconnect | Command::Flush => true,
            Command::Read { offset, length }
            | Command::Write { offset, length, .. }
            | Command::Trim { offset, length, .. }
            | Command::WriteZeroes { offset, length, .. }
            | Command::BlockStatus { offset, length, .. } => (offset.get() | length.get()) & (block.get() - 1) == 0,
        }
    }
}

impl Terms {
    /// The terms of an agreement about an export.
    pub fn new(export: &Export, agreement: &Agreement) -> Terms {
        use device::Device;
        let shape = export.device().shape();
        Terms {
            size: shape.size,
            block: shape.logical_block,
            read_only: export.is_read_only(),
            structured: agreement.structured,
            allocation: agreement.allocation,
        }
    }

    /// Judges a request.
    pub fn judge(&self, header: &RequestHeader) -> Result<Command, Refused> {
        let (offset, length) = (Bytes::new(header.offset), Bytes::new(header.length.into()));
        let fua = header.flags & flag::FUA != 0;
        let particular = match header.command {
            command::READ if self.structured => flag::DF,
            command::WRITE_ZEROES => flag::NO_HOLE,
            command::BLOCK_STATUS => flag::REQ_ONE,
            _ => 0,
        };
        let known = [
            command::READ,
            command::WRITE,
            command::DISCONNECT,
            command::FLUSH,
            command::TRIM,
            command::WRITE_ZEROES,
            command::BLOCK_STATUS,
        ];
        if !known.contains(&header.command) {
            return Err((Errno::Inval, "this server does not know that request"));
        }
        if header.command == command::DISCONNECT {
            return Ok(Command::Disconnect);
        }
        // Durability may be asked of everything: clients are known to do it.
        if header.flags & !(flag::FUA | particular) != 0 {
            return Err((Errno::Inval, "the request has a flag that it may not have"));
        }
        if header.command == command::FLUSH {
            return match (header.offset, header.length) {
                (0, 0) => Ok(Command::Flush),
                _ => Err((Errno::Inval, "a flush is of the whole export: offset and length are zero")),
            };
        }
        let writes = matches!(header.command, command::WRITE | command::TRIM | command::WRITE_ZEROES);
        if writes && self.read_only {
            return Err((Errno::Perm, "the export is read-only"));
        }
        if offset.checked_add(length).is_none_or(|end| end > self.size) {
            let number = if header.command == command::WRITE { Errno::NoSpc } else { Errno::Inval };
            return Err((number, "the request reaches beyond the end of the export"));
        }
        let moves = matches!(header.command, command::READ | command::WRITE);
        if moves && header.length > LARGEST_PAYLOAD {
            return Err((Errno::Inval, "the request is larger than the largest that was agreed on"));
        }
        match header.command {
            command::READ => Ok(Command::Read { offset, length }),
            command::WRITE => Ok(Command::Write { offset, length, fua }),
            command::TRIM => Ok(Command::Trim { offset, length, fua }),
            command::WRITE_ZEROES => {
                Ok(Command::WriteZeroes { offset, length, fua, punch: header.flags & flag::NO_HOLE == 0 })
            }
            _ if !self.allocation => Err((Errno::Inval, "base:allocation was not negotiated")),
            _ if length.is_zero() => Err((Errno::Inval, "the status of nothing was asked for")),
            _ => Ok(Command::BlockStatus { offset, length, one: header.flags & flag::REQ_ONE != 0 }),
        }
    }
}
