//! What is asked of a device, and what comes back.

use units::{Bytes, Duration, Instant};

use crate::{Buffer, Data};

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Bytes from the device to memory.
    Read,
    /// Bytes from memory to the device.
    Write,
    /// Everything replied to before is made durable. Offset and length are zero.
    Flush,
    /// The range may be forgotten; what a later read gives is undefined.
    Discard,
    /// The range reads as zeroes from now on; see [`Request::punch`].
    WriteZeroes,
}

impl Operation {
    /// All of them, in the order of their numbers (`operation as u8`), which files rely on.
    pub const ALL: [Operation; 5] =
        [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard, Operation::WriteZeroes];

    /// Its name in results and files.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
            Operation::WriteZeroes => "write-zeroes",
        }
    }
}

/// The memory that goes with a request.
#[derive(Debug)]
pub enum Payload {
    /// For operations that move no bytes.
    None,
    /// Where a read puts what it finds. Comes back with the reply.
    Into(Buffer),
    /// What a write stores.
    From(Data),
}

/// The steps of sync_file_range(2), in this order. It makes nothing durable: neither what describes the file nor the
/// disk's own cache is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Writeback {
    /// Pages that are being written are waited for.
    pub wait_before: bool,
    /// Dirty pages are given to the disk.
    pub write: bool,
    /// All that is being written then is waited for.
    pub wait_after: bool,
}

/// One request to a device.
#[derive(Debug)]
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// Byte address of the first byte.
    pub offset: Bytes,
    /// How many bytes. Equals the payload's length where there is one.
    pub length: Bytes,
    /// The memory concerned.
    pub payload: Payload,
    /// The write is durable when it is replied to ("force unit access").
    pub fua: bool,
    /// Of zeroes: the room that they take may be freed. Without it, later writes to the range find room.
    pub punch: bool,
    /// Of a flush: times and attributes of the file, too, as fsync(2) and not fdatasync(2). Devices that are no files
    /// know no difference.
    pub metadata: bool,
    /// Of a flush: only the page cache is written back, in the request's range, as sync_file_range(2) and not as
    /// fdatasync(2). Devices without a page cache of their own make a plain flush.
    pub writeback: Option<Writeback>,
    /// The I/O priority of this one, as ioprio_set(2) writes it: the class in the upper three bits; 0 for that of the
    /// program. Devices that are no files of this machine know none.
    pub priority: u16,
    /// The number under which records and spans know this request. Requests caused by it carry it on; 0 if nobody
    /// asked.
    pub id: u64,
}

impl Request {
    /// Reads `into.len()` bytes.
    pub fn read(offset: Bytes, into: Buffer) -> Request {
        Request::new(Operation::Read, offset, into.len(), Payload::Into(into))
    }
    /// Writes `from.len()` bytes.
    pub fn write(offset: Bytes, from: Data) -> Request {
        Request::new(Operation::Write, offset, from.len(), Payload::From(from))
    }
    /// Makes durable what was replied to before.
    pub fn flush() -> Request {
        Request::new(Operation::Flush, Bytes::ZERO, Bytes::ZERO, Payload::None)
    }
    /// Forgets a range.
    pub fn discard(offset: Bytes, length: Bytes) -> Request {
        Request::new(Operation::Discard, offset, length, Payload::None)
    }
    /// Zeroes a range.
    pub fn write_zeroes(offset: Bytes, length: Bytes) -> Request {
        Request::new(Operation::WriteZeroes, offset, length, Payload::None)
    }

    fn new(operation: Operation, offset: Bytes, length: Bytes, payload: Payload) -> Request {
        Request {
            operation,
            offset,
            length,
            payload,
            fua: false,
            punch: false,
            metadata: false,
            writeback: None,
            priority: 0,
            id: 0,
        }
    }

    /// The same request, durable when replied to.
    pub fn with_fua(mut self) -> Request {
        self.fua = true;
        self
    }
    /// The same zeroes, perhaps as a hole.
    pub fn with_punch(mut self) -> Request {
        self.punch = true;
        self
    }
    /// The same flush, of times and attributes of the file, too.
    pub fn with_metadata(mut self) -> Request {
        self.metadata = true;
        self
    }
    /// The same flush, of so much of the page cache alone.
    pub fn with_writeback(mut self, steps: Writeback, offset: Bytes, length: Bytes) -> Request {
        (self.writeback, self.offset, self.length) = (Some(steps), offset, length);
        self
    }
    /// The same request with an I/O priority of its own.
    pub fn with_priority(mut self, priority: u16) -> Request {
        self.priority = priority;
        self
    }
    /// The same request under a number.
    pub fn with_id(mut self, id: u64) -> Request {
        self.id = id;
        self
    }
    /// The reply to a request that was refused before anything happened.
    pub fn refuse(self, error: DeviceError, now: Instant) -> Reply {
        self.answer(Err(error), Stamps { submitted: now, completed: now })
    }
    /// The reply to this request; a read's buffer goes back with it.
    pub fn answer(self, result: Result<(), DeviceError>, stamps: Stamps) -> Reply {
        let buffer = match self.payload {
            Payload::Into(buffer) => Some(buffer),
            Payload::From(_) | Payload::None => None,
        };
        Reply { result, stamps, buffer }
    }
}

/// When a request was under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamps {
    /// When the device (live: the kernel) was given it.
    pub submitted: Instant,
    /// When its completion was seen.
    pub completed: Instant,
}

impl Stamps {
    /// Time at the device: fio's "clat" as far as the kernel is the device.
    pub fn service(&self) -> Duration {
        self.completed.since(self.submitted)
    }
}

/// What became of a request.
#[derive(Debug)]
pub struct Reply {
    /// Whether all of it was done. After an error, parts of a write may have taken effect.
    pub result: Result<(), DeviceError>,
    /// When.
    pub stamps: Stamps,
    /// A read's buffer, filled if the result is good.
    pub buffer: Option<Buffer>,
}

/// In what a rate is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaceUnit {
    /// B/s.
    Bytes,
    /// Requests/s.
    Requests,
}

impl std::fmt::Display for PaceUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            PaceUnit::Bytes => "B/s",
            PaceUnit::Requests => "requests/s",
        })
    }
}

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum DeviceError {
    /// Beyond the end.
    #[error("{length} at {offset:#} reach beyond the device's end at {size:#}")]
    OutOfRange { offset: Bytes, length: Bytes, size: Bytes },
    /// Not on a block boundary.
    #[error("{length:#} at {offset:#} do not start and end on a {block:#} block of the device")]
    Misaligned { offset: Bytes, length: Bytes, block: Bytes },
    /// The medium cannot give these bytes back (a latent sector error), or does not take them; others may be fine.
    #[error("the medium failed within {length:#} at {offset:#}")]
    Medium { offset: Bytes, length: Bytes },
    /// The device does not take writes.
    #[error("the device is read-only")]
    ReadOnly,
    /// The device cannot do this operation.
    #[error("the device does not support this operation")]
    Unsupported,
    /// The device is there no more. Nothing sent to it will succeed.
    #[error("the device is gone")]
    Gone,
    /// It came back as another device, or without what it had promised to keep. Nothing is sent to it any more.
    #[error("the device came back with other contents")]
    Exchanged,
    /// No reply in time. The operation may still take effect.
    #[error("the device did not answer within {0}")]
    TimedOut(Duration),
    /// Its medium fails too often to be relied on. Said by who uses a device (an array, of a member); no device says it
    /// of itself.
    #[error("its medium could not give {reads} reads, most of them within an hour")]
    Worn { reads: u64 },
    /// Slower than its user will have it. Said by who uses a device; no device says it of itself.
    #[error("it did {got} {unit} where {least} {unit} were the least")]
    Slow { got: u64, least: u64, unit: PaceUnit },
    /// One request took longer than its user will have it.
    #[error("a request took {took} where {most} was the most")]
    Late { took: Duration, most: Duration },
    /// The store behind the device is full.
    #[error("no space is left behind the device")]
    NoSpace,
    /// The kernel's word for anything else.
    #[error("the kernel reports {}", std::io::Error::from_raw_os_error(*errno))]
    Kernel { errno: i32 },
}

impl DeviceError {
    /// From an `errno` of a system call on `length` bytes at `offset`.
    pub fn from_errno(errno: i32, offset: Bytes, length: Bytes) -> DeviceError {
        // Linux numbers: EIO 5, ENXIO 6, ENODEV 19, ENOSPC 28, EROFS 30, EOPNOTSUPP 95, EDQUOT 122; ENODATA 61 and
        // EREMOTEIO 121 are what the block layer makes of medium and target errors.
        match errno {
            5 | 61 | 121 => DeviceError::Medium { offset, length },
            6 | 19 => DeviceError::Gone,
            28 | 122 => DeviceError::NoSpace,
            30 => DeviceError::ReadOnly,
            95 => DeviceError::Unsupported,
            _ => DeviceError::Kernel { errno },
        }
    }

    /// The `errno` under which records keep this error; never 0.
    pub fn errno(&self) -> i32 {
        match self {
            DeviceError::OutOfRange { .. } | DeviceError::Misaligned { .. } => 22,
            DeviceError::Medium { .. } | DeviceError::Worn { .. } | DeviceError::Slow { .. } => 5,
            DeviceError::ReadOnly => 30,
            DeviceError::Unsupported => 95,
            DeviceError::Gone => 19,
            // ESTALE.
            DeviceError::Exchanged => 116,
            DeviceError::TimedOut(_) | DeviceError::Late { .. } => 110,
            DeviceError::NoSpace => 28,
            DeviceError::Kernel { errno } => *errno,
        }
    }
}
