//! Requests that are sent again to a device that was away: [`Again`] is one of them, [`Kept`] those that a device has
//! acknowledged and may lose.
//!
//! A server that is started anew may have lost what it acknowledged since the last flush, and a later flush would not
//! say so. So each write is kept until a flush that was sent after its acknowledgement has been answered (as NFS
//! clients keep unstable writes until a COMMIT, RFC 1813, 4.11), and is written again when the server is back.

use std::collections::VecDeque;

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
#[derive(Default)]
pub struct Kept {
    /// Each with its number here, and that among the evidence.
    writes: VecDeque<(u64, u64, Again)>,
    next: u64,
    bytes: Bytes,
}

impl Kept {
    /// Keeps a write that was acknowledged, with its number among the evidence. Also one that was written durably:
    /// something older to the same block may be written again, and it after that.
    pub fn keep(&mut self, number: u64, write: &Again) {
        self.bytes += write.data.as_ref().map_or(Bytes::ZERO, Data::len);
        self.writes.push_back((self.next, number, Again { fua: false, id: 0, ..write.clone() }));
        self.next += 1;
    }

    /// A flush is about to be sent: what was kept until now is [forgotten](Kept::forget) when it is answered.
    pub fn mark(&self) -> u64 {
        self.next
    }

    /// What was acknowledged before `mark` is durable.
    pub fn forget(&mut self, mark: u64, evidence: &mut Evidence) {
        while self.writes.front().is_some_and(|(number, ..)| *number < mark) {
            let (_, number, write) = self.writes.pop_front().expect("there is a front");
            self.bytes = self.bytes - write.data.as_ref().map_or(Bytes::ZERO, Data::len);
            evidence.settled(number, write.offset, write.data.as_ref());
        }
    }

    /// How many bytes it keeps.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// What is to be written again, in order.
    pub fn writes(&self) -> Vec<Request> {
        self.writes.iter().map(|(.., write)| write.request(None)).collect()
    }
}
