//! Requests that are sent again to a device that was away: [`Again`] is one of them, [`Kept`] those that a device has
//! acknowledged and may lose.
//!
//! A server that is started anew may have lost what it acknowledged since the last flush, and a later flush would not
//! say so. So each write is kept until a flush that was sent after its acknowledgement has been answered (as NFS
//! clients keep unstable writes until a COMMIT, RFC 1813, 4.11), and is written again when the server is back.

use std::collections::VecDeque;
use std::ops::Range;

use units::Bytes;

use crate::evidence::{Evidence, Put};
use crate::{Buffer, Data, Operation, Payload, Request};

/// What is needed to send a request any number of times: all of it but the buffer of a read.
#[derive(Clone)]
pub struct Again {
    operation: Operation,
    offset: Bytes,
    length: Bytes,
    fua: bool,
    punch: bool,
    metadata: bool,
    id: u64,
    data: Option<Data>,
}

impl Again {
    /// Takes note of a request.
    pub fn of(request: &Request) -> Again {
        let &Request { operation, offset, length, fua, punch, metadata, id, .. } = request;
        let data = match &request.payload {
            Payload::From(data) => Some(data.clone()),
            Payload::None | Payload::Into(_) => None,
        };
        Again { operation, offset, length, fua, punch, metadata, id, data }
    }

    /// The request; that of a read with the buffer that came back with its reply.
    pub fn request(&self, into: Option<Buffer>) -> Request {
        let request = match (self.operation, &self.data, into) {
            (Operation::Read, _, Some(buffer)) => Request::read(self.offset, buffer),
            (Operation::Write, Some(data), _) => Request::write(self.offset, data.clone()),
            (Operation::Flush, ..) => Request::flush(),
            (Operation::Discard, ..) => Request::discard(self.offset, self.length),
            (Operation::WriteZeroes, ..) => Request::write_zeroes(self.offset, self.length),
            (operation, ..) => panic!("a {operation:?} without what it moves"),
        };
        Request { fua: self.fua, punch: self.punch, metadata: self.metadata, id: self.id, ..request }
    }

    /// What it does.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Whether it changes what is on the device.
    pub fn is_write(&self) -> bool {
        !matches!(self.operation, Operation::Read | Operation::Flush)
    }

    /// The bytes of a write.
    pub fn data(&self) -> Option<&Data> {
        self.data.as_ref()
    }

    /// What it puts into its range, if it is a write of some kind.
    pub fn put(&self) -> Put<'_> {
        match (&self.data, self.operation) {
            (Some(data), _) => Put::Bytes(data),
            (None, Operation::WriteZeroes) => Put::Zeroes,
            (None, _) => Put::Anything,
        }
    }
}

/// What was written, and is not known to be durable, in the order of acknowledgement.
///
/// A write that was made durable by itself (FUA) is not lost with the server. But what was acknowledged *before it was
/// sent*, and is written again in its place, would lie over it until it were written again, too; and a second loss of
/// power would find the older bytes there. So such a write takes what is older out of what is kept, and is kept itself
/// only where a write was under way beside it; then it is written again durably.
#[derive(Default)]
pub struct Kept {
    writes: VecDeque<Write>,
    next: u64,
    bytes: Bytes,
}

/// A write that is kept, or what a later one left of it.
struct Write {
    /// Its number here.
    number: u64,
    /// The one that it has among the evidence.
    evidence: u64,
    again: Again,
}

impl Write {
    fn range(&self) -> Range<Bytes> {
        self.again.offset..self.again.offset + self.again.length
    }

    fn bytes(&self) -> Bytes {
        self.again.data.as_ref().map_or(Bytes::ZERO, Data::len)
    }

    /// What lies in a range of it.
    fn part(&self, range: Range<Bytes>) -> Option<Write> {
        let length = range.end.saturating_sub(range.start);
        let data = || Some(self.again.data.as_ref()?.slice(range.start - self.again.offset, length));
        let again = || Again { offset: range.start, length, data: data(), ..self.again.clone() };
        (!length.is_zero()).then(|| Write { again: again(), ..*self })
    }
}

impl Kept {
    /// Keeps a write that was acknowledged, with its number among the evidence, and what was the [mark](Kept::mark)
    /// when it was sent.
    pub fn keep(&mut self, number: u64, sent: u64, write: &Again) {
        let own = Write { number: self.next, evidence: number, again: Again { id: 0, ..write.clone() } };
        self.next += 1;
        if write.fua {
            self.take_out(sent, own.range());
            if !self.writes.iter().any(|other| meet(&other.range(), &own.range())) {
                return;
            }
        }
        self.bytes += own.bytes();
        self.writes.push_back(own);
    }

    /// Takes a range out of all that was acknowledged before a mark.
    fn take_out(&mut self, before: u64, range: Range<Bytes>) {
        if !self.writes.iter().any(|write| write.number < before && meet(&write.range(), &range)) {
            return;
        }
        let left = |write: Write| {
            let Range { start, end } = write.range();
            match write.number < before && meet(&write.range(), &range) {
                true => [write.part(start..range.start.max(start)), write.part(range.end.min(end)..end)],
                false => [Some(write), None],
            }
        };
        self.writes = self.writes.drain(..).flat_map(left).flatten().collect();
        self.bytes = self.writes.iter().fold(Bytes::ZERO, |sum, write| sum + write.bytes());
    }

    /// The number of the next write that is kept. Whoever sends a write takes it first, for [`keep`](Kept::keep);
    /// whoever sends a flush, for [`forget`](Kept::forget).
    pub fn mark(&self) -> u64 {
        self.next
    }

    /// What was acknowledged before `mark` is durable.
    pub fn forget(&mut self, mark: u64, evidence: &mut Evidence) {
        while let Some(write) = self.writes.pop_front_if(|write| write.number < mark) {
            self.bytes = self.bytes - write.bytes();
            evidence.settled(write.evidence, write.again.offset, write.again.data.as_ref());
        }
    }

    /// How many bytes it keeps.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// What is to be written again, in order.
    pub fn writes(&self) -> Vec<Request> {
        self.writes.iter().map(|write| write.again.request(None)).collect()
    }
}

fn meet(one: &Range<Bytes>, other: &Range<Bytes>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write of sectors, each of which holds a value.
    fn write(sectors: Range<u64>, value: u8, fua: bool) -> Again {
        let mut buffer = Buffer::zeroed(Bytes::SECTOR * (sectors.end - sectors.start));
        buffer.bytes_mut().unwrap().fill(value);
        let request = Request::write(Bytes::SECTOR * sectors.start, buffer.freeze());
        Again::of(&Request { fua, ..request })
    }

    /// What is written again: which sectors, which value, and whether durably.
    fn again(kept: &Kept) -> Vec<(Range<u64>, Option<u8>, bool)> {
        let of = |request: Request| {
            let value = match &request.payload {
                Payload::From(data) => Some(data.bytes().unwrap()[0]),
                _ => None,
            };
            let (start, end) = (request.offset / Bytes::SECTOR, (request.offset + request.length) / Bytes::SECTOR);
            (start..end, value, request.fua)
        };
        kept.writes().into_iter().map(of).collect()
    }

    #[test]
    fn what_is_durable_by_itself_is_written_over_by_nothing_older() {
        let mut kept = Kept::default();
        let mut keep = |write: &Again| kept.keep(0, kept.mark(), write);
        keep(&write(0..8, 1, false));
        keep(&Again::of(&Request::write_zeroes(Bytes::SECTOR * 6, Bytes::SECTOR * 6)));
        keep(&write(4..7, 2, true));
        keep(&write(5..6, 3, false));
        assert_eq!(
            again(&kept),
            [(0..4, Some(1), false), (7..8, Some(1), false), (7..12, None, false), (5..6, Some(3), false)]
        );
        assert_eq!(kept.bytes(), Bytes::SECTOR * 6);
        kept.keep(0, kept.mark(), &write(0..16, 4, true));
        assert_eq!((again(&kept), kept.bytes()), (vec![], Bytes::ZERO));
    }

    #[test]
    fn what_is_durable_by_itself_is_written_again_durably_behind_what_was_under_way_beside_it() {
        let mut kept = Kept::default();
        kept.keep(0, kept.mark(), &write(0..2, 1, false));
        let sent = kept.mark();
        kept.keep(0, sent, &write(1..4, 2, false));
        kept.keep(0, sent, &write(0..3, 3, true));
        assert_eq!(again(&kept), [(1..4, Some(2), false), (0..3, Some(3), true)]);
        kept.forget(kept.mark(), &mut Evidence::default());
        assert_eq!((again(&kept), kept.bytes()), (vec![], Bytes::ZERO));
    }
}
