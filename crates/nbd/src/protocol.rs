//! The numbers of the protocol, and its fixed headers as bytes.
//!
//! Source: `doc/proto.md` of the reference implementation (NetworkBlockDevice/nbd), whose names are kept. All numbers
//! travel with their most significant byte first.

/// First eight bytes of a server: `NBDMAGIC`.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Before each option, and second in the server's greeting: `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before each request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before each simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before each chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Flags of the greeting, by both sides.
pub mod greeting {
    /// Options are answered.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No padding after the reply to `EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 2;
}

/// What a client may ask for before it reads and writes.
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options; those of errors have the highest bit set.
pub mod answer {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERROR: u32 = 1 << 31;
    pub const ERR_UNSUP: u32 = ERROR + 1;
    pub const ERR_POLICY: u32 = ERROR + 2;
    pub const ERR_INVALID: u32 = ERROR + 3;
    pub const ERR_TLS_REQD: u32 = ERROR + 5;
    pub const ERR_UNKNOWN: u32 = ERROR + 6;
    pub const ERR_BLOCK_SIZE_REQD: u32 = ERROR + 8;
    pub const ERR_TOO_BIG: u32 = ERROR + 9;
}

/// Kinds of information about an export.
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// What may be done with an export ("transmission flags").
pub mod transmission {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Requests.
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub mod flag {
    /// Durable when replied to.
    pub const FUA: u16 = 1;
    /// Zeroes that have a place.
    pub const NO_HOLE: u16 = 1 << 1;
    /// The reply in one piece.
    pub const DF: u16 = 1 << 2;
    /// One extent is enough.
    pub const REQ_ONE: u16 = 1 << 3;
}

/// Chunks of structured replies.
pub mod chunk {
    /// Flag: the last of its reply.
    pub const DONE: u16 = 1;
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = (1 << 15) + 1;
    pub const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// What `base:allocation` says of an extent.
pub mod allocation {
    /// The name of the context.
    pub const CONTEXT: &str = "base:allocation";
    /// The number under which we select it.
    pub const ID: u32 = 1;
    pub const HOLE: u32 = 1;
    pub const ZERO: u32 = 2;
}

/// Errors, as the protocol numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Not permitted: a write to what is read-only.
    Perm = 1,
    /// The device failed.
    Io = 5,
    /// The server is out of memory.
    NoMem = 12,
    /// The request makes no sense.
    Inval = 22,
    /// Beyond the end, or the store is full.
    NoSpc = 28,
    /// The device cannot do this.
    NotSup = 95,
}

/// The longest name or message.
pub const LONGEST_STRING: usize = 4096;

/// The largest payload of one request: what clients may count on (32 MiB).
pub const LARGEST_PAYLOAD: u32 = 32 << 20;

/// Length of [`RequestHeader`] as bytes.
pub const REQUEST_HEADER: usize = 28;

/// What comes before each request's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// Flags of the request.
    pub flags: u16,
    /// What is asked.
    pub command: u16,
    /// By which the client knows the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// How many.
    pub length: u32,
}

impl RequestHeader {
    /// Reads a header; `None` if it does not begin as one must.
    pub fn parse(bytes: &[u8; REQUEST_HEADER]) -> Option<RequestHeader> {
        let mut rest = Reader(bytes);
        if rest.u32()? != REQUEST_MAGIC {
            return None;
        }
        Some(RequestHeader {
            flags: rest.u16()?,
            command: rest.u16()?,
            cookie: rest.u64()?,
            offset: rest.u64()?,
            length: rest.u32()?,
        })
    }

    /// The header as bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(REQUEST_HEADER);
        bytes.extend(REQUEST_MAGIC.to_be_bytes());
        bytes.extend(self.flags.to_be_bytes());
        bytes.extend(self.command.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(self.offset.to_be_bytes());
        bytes.extend(self.length.to_be_bytes());
        bytes
    }
}

/// Takes numbers and strings off the front of some bytes; `None` where they end too early.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }
    /// Sixteen bits.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }
    /// Thirty-two bits.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }
    /// Sixty-four bits.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
    /// A string after its length: text without NUL of at most [`LONGEST_STRING`] bytes.
    pub fn string(&mut self) -> Option<&'a str> {
        let length = self.u32()? as usize;
        self.bytes(length).and_then(text)
    }
}

/// Bytes as the protocol's text.
pub fn text(bytes: &[u8]) -> Option<&str> {
    let text = str::from_utf8(bytes).ok()?;
    (text.len() <= LONGEST_STRING && !text.contains('\0')).then_some(text)
}
