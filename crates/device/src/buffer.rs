//! Memory for payloads: aligned for direct I/O, splittable without a copy, or absent.
//!
//! Built on `bytes`: a [`Buffer`] is a `BytesMut` whose first byte lies on a 4 KiB boundary when it is made, a [`Data`]
//! is a `Bytes`. Splitting a buffer gives disjoint parts of one allocation, which a RAID hands to several members and
//! joins again; freezing it gives data that many requests share.
//!
//! A *phantom* buffer has a length and no memory. Simulations of timing use it: what is not looked at is not moved.

use bytes::{Buf, Bytes as Shared, BytesMut};
use units::Bytes;

/// Direct I/O wants memory aligned to the logical block; a page satisfies every device and needs one translation.
pub(crate) const ALIGNMENT: Bytes = Bytes::kib(4);
/// From this size on the C library asks the kernel for memory (glibc's `M_MMAP_THRESHOLD`).
const LARGE: usize = 128 * 1024;

/// Memory that a read fills. Owned by one place at a time.
#[derive(Debug)]
pub struct Buffer(Memory<BytesMut>);

/// Bytes that a write stores; clones share them.
#[derive(Debug, Clone)]
pub struct Data(Memory<Shared>);

#[derive(Debug, Clone)]
enum Memory<M> {
    Real(M),
    Phantom(Bytes),
}

impl<M: AsRef<[u8]>> Memory<M> {
    fn len(&self) -> Bytes {
        match self {
            Memory::Real(memory) => Bytes::new(memory.as_ref().len() as u64),
            Memory::Phantom(length) => *length,
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Memory::Real(memory) => Some(memory.as_ref()),
            Memory::Phantom(_) => None,
        }
    }
}

impl Buffer {
    /// Zeroed memory that starts on a page.
    pub fn zeroed(length: Bytes) -> Buffer {
        let (length, room) = (length.as_usize(), (length + ALIGNMENT).as_usize());
        // The kernel's fresh pages are zero already; what is small comes from memory that was used, and only what is
        // given is cleared.
        let mut memory = if length < LARGE { BytesMut::with_capacity(room) } else { BytesMut::zeroed(room) };
        let skip = memory.as_ptr().align_offset(ALIGNMENT.as_usize());
        memory.resize(skip + length, 0);
        memory.advance(skip);
        assert!(memory.as_ptr().addr().is_multiple_of(ALIGNMENT.as_usize()), "direct I/O needs aligned memory");
        Buffer(Memory::Real(memory))
    }

    /// As [`zeroed`](Buffer::zeroed), for memory that is written and [reclaimed](Data::reclaim) again and again: who
    /// shares it is counted from the start, in one place, where it would be made with each [`freeze`](Buffer::freeze)
    /// and freed with each `reclaim`.
    pub(crate) fn reusable(length: Bytes) -> Buffer {
        let mut buffer = Buffer::zeroed(length);
        // Memory that was split once is counted from then on.
        drop(buffer.split_to(Bytes::ZERO));
        buffer
    }

    /// A length without memory.
    pub fn phantom(length: Bytes) -> Buffer {
        Buffer(Memory::Phantom(length))
    }

    /// How many bytes it holds, or stands for.
    pub fn len(&self) -> Bytes {
        self.0.len()
    }

    /// True if it holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.len().is_zero()
    }

    /// The bytes; `None` for a phantom.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.0.bytes()
    }

    /// The bytes, to be filled; `None` for a phantom.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.0 {
            Memory::Real(memory) => Some(memory),
            Memory::Phantom(_) => None,
        }
    }

    /// Cuts the first `length` bytes off and returns them; both parts lie in the same allocation. Panics if it is
    /// shorter.
    pub fn split_to(&mut self, length: Bytes) -> Buffer {
        match &mut self.0 {
            Memory::Real(memory) => Buffer(Memory::Real(memory.split_to(length.as_usize()))),
            Memory::Phantom(whole) => {
                *whole = *whole - length;
                Buffer(Memory::Phantom(length))
            }
        }
    }

    /// Puts a part back that [`split_to`](Buffer::split_to) cut off in front of `rest`; free of cost if they are
    /// neighbours in memory.
    pub fn join(&mut self, rest: Buffer) {
        match (&mut self.0, rest.0) {
            (Memory::Real(memory), Memory::Real(rest)) => memory.unsplit(rest),
            (Memory::Phantom(length), Memory::Phantom(rest)) => *length += rest,
            _ => panic!("real memory and a phantom do not join"),
        }
    }

    /// Bytes to be written, shared from now on.
    pub fn freeze(self) -> Data {
        Data(match self.0 {
            Memory::Real(memory) => Memory::Real(memory.freeze()),
            Memory::Phantom(length) => Memory::Phantom(length),
        })
    }
}

impl Data {
    /// The data, of which nothing is left here.
    pub fn take(&mut self) -> Data {
        std::mem::replace(self, Data::phantom(Bytes::ZERO))
    }

    /// A length without bytes.
    pub fn phantom(length: Bytes) -> Data {
        Data(Memory::Phantom(length))
    }

    /// How many bytes it holds, or stands for.
    pub fn len(&self) -> Bytes {
        self.0.len()
    }

    /// True if it holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.len().is_zero()
    }

    /// The bytes; `None` for a phantom.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.0.bytes()
    }

    /// The memory, to be filled again, if nobody else holds any of it.
    pub fn reclaim(self) -> Option<Buffer> {
        match self.0 {
            Memory::Real(memory) => memory.try_into_mut().ok().map(|memory| Buffer(Memory::Real(memory))),
            Memory::Phantom(_) => None,
        }
    }

    /// The part from `start`, `length` bytes long; shares the memory. Panics if it reaches beyond the end.
    pub fn slice(&self, start: Bytes, length: Bytes) -> Data {
        let end = start + length;
        assert!(end <= self.len(), "a slice to {end:#} of {:#}", self.len());
        Data(match &self.0 {
            Memory::Real(memory) => Memory::Real(memory.slice(start.as_usize()..end.as_usize())),
            Memory::Phantom(_) => Memory::Phantom(length),
        })
    }
}
