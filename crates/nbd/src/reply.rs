//! Replies as they go to the client.

use device::{Buffer, DeviceError, Extent};
use units::Bytes;
use uring::{Body, Parcel};

use crate::protocol::{CHUNK_MAGIC, Errno, SIMPLE_REPLY_MAGIC, allocation, chunk};

/// How replies to one request begin.
#[derive(Debug, Clone, Copy)]
pub struct Heading {
    /// By which the client knows the request.
    pub cookie: u64,
    /// Replies with contents, and errors, come as chunks.
    pub structured: bool,
}

/// What went wrong with a request, for a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// For the client's program.
    pub number: Errno,
    /// For its user.
    pub message: String,
    /// Where, if it is one place.
    pub at: Option<Bytes>,
}

impl Heading {
    /// It was done, and there is nothing else to say.
    pub fn done(&self) -> Parcel {
        // Also with structured replies: to anything but a read.
        Parcel::head(self.simple(0))
    }

    /// What was read.
    pub fn contents(&self, offset: Bytes, contents: Buffer) -> Parcel {
        let head = match (self.structured, contents.is_empty()) {
            (false, _) => self.simple(0),
            (true, true) => self.chunk(chunk::NONE, 0),
            (true, false) => {
                let mut head = self.chunk(chunk::OFFSET_DATA, 8 + contents.len().get() as u32);
                head.extend(offset.get().to_be_bytes());
                head
            }
        };
        Parcel { head, body: Body::Buffer(contents) }
    }

    /// Which parts of a range are stored. Only for clients with structured replies.
    pub fn status(&self, extents: &[Extent]) -> Parcel {
        assert!(
            self.structured && !extents.is_empty(),
            "status is asked for of something, and by those who were told how"
        );
        let mut head = self.chunk(chunk::BLOCK_STATUS, 4 + 8 * extents.len() as u32);
        head.extend(allocation::ID.to_be_bytes());
        for extent in extents {
            let hole = if extent.hole { allocation::HOLE } else { 0 };
            let zero = if extent.zero { allocation::ZERO } else { 0 };
            head.extend((extent.length.get() as u32).to_be_bytes());
            head.extend((hole | zero).to_be_bytes());
        }
        Parcel::head(head)
    }

    /// It was not done.
    pub fn failed(&self, problem: &Problem) -> Parcel {
        if !self.structured {
            return Parcel::head(self.simple(problem.number as u32));
        }
        let message = &problem.message.as_bytes()[..problem.message.floor_char_boundary(1024)];
        let (kind, place) = match problem.at {
            Some(_) => (chunk::ERROR_OFFSET, 8),
            None => (chunk::ERROR, 0),
        };
        let mut head = self.chunk(kind, 6 + message.len() as u32 + place);
        head.extend((problem.number as u32).to_be_bytes());
        head.extend((message.len() as u16).to_be_bytes());
        head.extend(message);
        if let Some(at) = problem.at {
            head.extend(at.get().to_be_bytes());
        }
        Parcel::head(head)
    }

    fn simple(&self, error: u32) -> Vec<u8> {
        let mut head = Vec::with_capacity(16);
        head.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
        head.extend(error.to_be_bytes());
        head.extend(self.cookie.to_be_bytes());
        head
    }

    /// The beginning of a chunk that is the only one of its reply.
    fn chunk(&self, kind: u16, length: u32) -> Vec<u8> {
        let mut head = Vec::with_capacity(28);
        head.extend(CHUNK_MAGIC.to_be_bytes());
        head.extend(chunk::DONE.to_be_bytes());
        head.extend(kind.to_be_bytes());
        head.extend(self.cookie.to_be_bytes());
        head.extend(length.to_be_bytes());
        head
    }
}

impl Problem {
    /// A request that was refused.
    pub fn refused((number, message): crate::command::Refused) -> Problem {
        Problem { number, message: message.to_owned(), at: None }
    }

    /// What the device said of a request on a range.
    pub fn of(error: &DeviceError, offset: Bytes, length: Bytes) -> Problem {
        let number = match error {
            DeviceError::OutOfRange { .. } | DeviceError::Misaligned { .. } => Errno::Inval,
            DeviceError::ReadOnly => Errno::Perm,
            DeviceError::Unsupported => Errno::NotSup,
            DeviceError::NoSpace => Errno::NoSpc,
            // Linux numbers: EPERM 1, ENOMEM 12, EACCES 13, EFBIG 27, EDQUOT 122.
            DeviceError::Kernel { errno: 1 | 13 } => Errno::Perm,
            DeviceError::Kernel { errno: 12 } => Errno::NoMem,
            DeviceError::Kernel { errno: 27 | 122 } => Errno::NoSpc,
            DeviceError::Medium { .. }
            | DeviceError::Worn { .. }
            | DeviceError::Slow { .. }
            | DeviceError::Late { .. }
            | DeviceError::Gone
            | DeviceError::Exchanged
            | DeviceError::TimedOut(_)
            | DeviceError::Kernel { .. } => Errno::Io,
        };
        let at = match error {
            // A place within the request, as the protocol demands; a device of devices may speak of other addresses.
            DeviceError::Medium { offset: at, .. } if offset <= *at && *at < offset + length => Some(*at),
            _ => None,
        };
        Problem { number, message: error.to_string(), at }
    }
}
