//! Receiving: headers out of one buffer that holds many, payloads into memory of their own.
//!
//! One receive takes all that has arrived, so that at depth 32 thirty requests may cost one system call. A payload is copied out of the buffer
//! as far as it is there, into memory that is aligned as devices want it; the rest of a large one is received in place. When payloads are
//! large, headers are received with few bytes behind them, so that little is copied.

use std::io;
use std::rc::Rc;

use device::Buffer;
use units::Bytes;

use crate::wire::Wire;

/// What one receive may take.
const CAPACITY: usize = 256 * 1024;
/// From this on, the rest of a payload is received in place: a copy of less costs no more than another call.
const LARGE: usize = 32 * 1024;
/// What a receive takes behind a header while payloads are large.
const NARROW: usize = 4096;

/// The receiving side of a conversation.
pub struct Inlet<W> {
    wire: Rc<W>,
    /// Absent while it is being filled.
    memory: Option<Buffer>,
    /// What has been received and not consumed.
    start: usize,
    end: usize,
    /// The last payload was large.
    narrow: bool,
}

impl<W: Wire> Inlet<W> {
    /// Receives from a wire.
    pub fn new(wire: Rc<W>) -> Inlet<W> {
        let memory = Some(Buffer::zeroed(Bytes::new(CAPACITY as u64)));
        Inlet { wire, memory, start: 0, end: 0, narrow: false }
    }

    /// True if everything that has arrived was consumed.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Waits for `count` bytes, at most the capacity; false if the peer ended before the first of them.
    pub async fn wait_for(&mut self, count: usize) -> io::Result<bool> {
        assert!(count <= CAPACITY, "more than {CAPACITY} bytes are received in place");
        while self.end - self.start < count {
            if self.is_empty() {
                (self.start, self.end) = (0, 0);
            } else if self.start + count > CAPACITY {
                let (start, end) = (self.start, self.end);
                self.memory_mut().copy_within(start..end, 0);
                (self.start, self.end) = (0, end - start);
            }
            let room = if self.narrow { count.max(NARROW) } else { CAPACITY };
            let limit = CAPACITY.min(self.start + room.max(count));
            if self.fill(limit).await? == 0 {
                return if self.is_empty() { Ok(false) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
        Ok(true)
    }

    /// Bytes that have been waited for, consumed with this.
    pub fn take(&mut self, count: usize) -> &[u8] {
        assert!(count <= self.end - self.start, "what is taken has been waited for");
        self.start += count;
        let start = self.start;
        let memory = self.memory.as_ref().and_then(Buffer::bytes).expect("memory is there between receives");
        &memory[start - count..start]
    }

    /// Fills a buffer with what comes next.
    pub async fn read(&mut self, mut into: Buffer) -> io::Result<Buffer> {
        let length = into.len().as_usize();
        let mut done = 0;
        while done < length {
            let there = (self.end - self.start).min(length - done);
            if there > 0 {
                let bytes = into.bytes_mut().expect("payloads have memory");
                bytes[done..done + there].copy_from_slice(self.take(there));
                done += there;
            } else if length - done >= LARGE {
                let front = into.split_to(Bytes::new(done as u64));
                let (rest, received) = self.wire.receive(into).await;
                into = front;
                into.join(rest);
                match received? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => done += count,
                }
            } else if !self.wait_for((length - done).min(CAPACITY)).await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.narrow = length >= LARGE;
        Ok(into)
    }

    /// Passes over what comes next.
    pub async fn skip(&mut self, count: u64) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            if !self.wait_for(1).await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let there = ((self.end - self.start) as u64).min(left);
            self.take(there as usize);
            left -= there;
        }
        Ok(())
    }

    /// Receives once, behind what is there, up to `limit`.
    async fn fill(&mut self, limit: usize) -> io::Result<usize> {
        let mut front = self.memory.take().expect("memory is there between receives");
        let mut room = front;
        front = room.split_to(Bytes::new(self.end as u64));
        let room_ends = Bytes::new((limit - self.end) as u64);
        let part = room.split_to(room_ends);
        let (part, received) = self.wire.receive(part).await;
        // Neighbours in memory: joining moves nothing.
        let mut whole = front;
        whole.join(part);
        whole.join(room);
        self.memory = Some(whole);
        let received = received?;
        self.end += received;
        Ok(received)
    }

    fn memory_mut(&mut self) -> &mut [u8] {
        self.memory.as_mut().and_then(Buffer::bytes_mut).expect("memory is there between receives")
    }
}
