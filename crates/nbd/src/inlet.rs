//! Receiving: headers out of one buffer that holds many, payloads into memory of their own.
//!
//! One receive takes all that has arrived, so that at depth 32 thirty requests may cost one system call. A payload is
//! copied out of the buffer as far as it is there, into memory that is aligned as devices want it; the rest of a large
//! one is received in place. When payloads are large, headers are received with few bytes behind them, so that little
//! is copied.
//!
//! A peer that has much to send fills the kernel's memory of its connection, some 200 KB, with a request of 128 KiB and
//! a half, and sleeps. So while payloads are large, what has arrived is received before the request in hand is carried
//! out, one or two requests ahead: the peer sends on meanwhile, and is not waited for afterwards. 29,500 for 23,100
//! sequential writes of 128 KiB a second at depth 8, at 33 for 42 us of the server's processor time, and 97,000 for
//! 78,000 of 32 KiB at depth 16 (two builds in 11 turns and 5; `benchsuite serve` has the first load). Who waits for
//! each answer gains nothing: depth 1 costs one percent, the attempt in vain, and depth 2 some 5, as both requests are
//! received before the first is answered. Rejected: the same for payloads of 1 MiB, which then came in smaller pieces,
//! at nine tenths of the rate.

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
/// What is received at most without letting others go on, other connections and the requests that were received.
const AHEAD: usize = 256 * 1024;

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
    /// Bytes that were received since others could go on.
    ahead: usize,
}

impl<W: Wire> Inlet<W> {
    /// Receives from a wire.
    pub fn new(wire: Rc<W>) -> Inlet<W> {
        let memory = Some(Buffer::zeroed(Bytes::new(CAPACITY as u64)));
        Inlet { wire, memory, start: 0, end: 0, narrow: false, ahead: 0 }
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
                let (rest, received) = self.receive(into).await;
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
        let (part, received) = self.receive(part).await;
        // Neighbours in memory: joining moves nothing.
        let mut whole = front;
        whole.join(part);
        whole.join(room);
        self.memory = Some(whole);
        let received = received?;
        self.end += received;
        Ok(received)
    }

    /// Receives at least one byte, or none at the end; while payloads are large, what has arrived without waiting for
    /// more.
    async fn receive(&mut self, mut into: Buffer) -> (Buffer, io::Result<usize>) {
        let small = into.len().as_usize() < AHEAD;
        if self.narrow
            && small
            && self.ahead < AHEAD
            && let Some(received) = self.wire.receive_arrived(&mut into)
        {
            self.ahead += received.as_ref().map_or(0, |count| *count);
            return (into, received);
        }
        self.ahead = 0;
        self.wire.receive(into).await
    }

    fn memory_mut(&mut self) -> &mut [u8] {
        self.memory.as_mut().and_then(Buffer::bytes_mut).expect("memory is there between receives")
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use runtime::Runtime;
    use uring::Parcel;

    use super::*;

    /// A peer that always has more to send.
    #[derive(Default)]
    struct Endless {
        /// Bytes taken at once since the last receive that lets others go on.
        ahead: Cell<usize>,
        most: Cell<usize>,
    }

    impl Wire for Endless {
        async fn receive(&self, into: Buffer) -> (Buffer, io::Result<usize>) {
            self.ahead.set(0);
            let count = into.len().as_usize();
            (into, Ok(count))
        }
        fn receive_arrived(&self, into: &mut Buffer) -> Option<io::Result<usize>> {
            let count = into.len().as_usize();
            self.ahead.set(self.ahead.get() + count);
            self.most.set(self.most.get().max(self.ahead.get()));
            Some(Ok(count))
        }
        async fn send(&self, parcels: Vec<Parcel>) -> (Vec<Parcel>, io::Result<()>) {
            (parcels, Ok(()))
        }
        fn stop_receiving(&self) {}
        fn stop_sending(&self) {}
    }

    /// What is received at most at once of a peer whose payloads are this large.
    fn most_at_once(payload: usize) -> usize {
        let wire = Rc::new(Endless::default());
        let mut inlet = Inlet::new(Rc::clone(&wire));
        Runtime::simulated().block_on(async {
            for _ in 0..100 {
                assert!(inlet.wait_for(28).await.unwrap());
                inlet.take(28);
                inlet.read(Buffer::zeroed(Bytes::new(payload as u64))).await.unwrap();
            }
        });
        wire.most.get()
    }

    #[test]
    fn who_sends_without_end_lets_others_go_on() {
        for payload in [LARGE, CAPACITY / 2] {
            let most = most_at_once(payload);
            assert!(most >= payload, "{payload}: a request is received ahead, not only {most} bytes");
            assert!(most < AHEAD + payload, "{payload}: {most} bytes were received while others waited");
        }
    }

    #[test]
    fn small_payloads_and_huge_ones_are_received_as_they_come() {
        for payload in [4096, 1 << 20] {
            let most = most_at_once(payload);
            assert!(most <= NARROW, "{payload}: {most} bytes were received at once");
        }
    }
}
