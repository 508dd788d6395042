//! Several files as one device.
//!
//! Blocks go round the files (`chunk`), as the requests of a fio job with several files do, or fill one after the
//! other. What crosses from one to the next becomes two requests. A flush is of all files.

use std::cell::Cell;

use device::{Device, Operation, Payload, Reply, Request, Shape};
use futures_util::future::join_all;
use runtime::Runtime;
use units::Bytes;

use crate::described::Described;

/// Devices that are one.
pub(crate) struct Ensemble<D> {
    shape: Shape,
    parts: Vec<D>,
    chunk: Option<Bytes>,
    /// Every write is durable when it is answered.
    durable: bool,
    /// The page cache is emptied of it after so many bytes.
    refresh: Option<Bytes>,
    /// How many of them have been asked for.
    asked: Cell<Bytes>,
    runtime: Runtime,
}

/// What the page cache holds of a device can be dropped.
pub(crate) trait Forget {
    /// Drops what is clean. Nothing is said where that cannot be: it is a hint.
    fn forget(&self);
}

/// A stretch of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    part: usize,
    offset: Bytes,
    length: Bytes,
}

impl<D: Device + Forget> Ensemble<D> {
    /// Puts parts together, of which there is at least one.
    pub fn new(runtime: &Runtime, name: String, parts: Vec<D>, how: &Described) -> Ensemble<D> {
        assert!(!parts.is_empty(), "an ensemble has parts");
        let chunk = how.chunk.filter(|_| parts.len() > 1);
        let sizes = || parts.iter().map(|part| part.shape().size);
        let size = match chunk {
            // What the smallest does not have, none is asked for.
            Some(chunk) => sizes().min().expect("there are parts").round_down(chunk) * parts.len() as u64,
            None => sizes().sum(),
        };
        let most = |of: fn(&Shape) -> Bytes| parts.iter().map(|part| of(part.shape())).max().expect("there are parts");
        let logical_block = most(|shape| shape.logical_block);
        let physical_block = most(|shape| shape.physical_block);
        let shape = Shape { name, size, logical_block, physical_block };
        let (refresh, asked) = (how.refresh, Cell::new(Bytes::ZERO));
        Ensemble { shape, parts, chunk, durable: how.durable, refresh, asked, runtime: runtime.clone() }
    }

    /// What it consists of.
    pub fn parts(&self) -> &[D] {
        &self.parts
    }

    /// Makes all of it durable, or writes a range back in the parts that have some of it. The reply is that of the
    /// first part that failed, or of the first.
    ///
    /// # Panics
    /// If a writeback has no range: of no length, it would go to the end of each file (sync_file_range(2)).
    async fn flush(&self, asked: &Request) -> Reply {
        assert!(asked.writeback.is_none() || !asked.length.is_zero(), "a writeback has a range");
        let stretches = self.stretches(asked.offset, asked.length);
        let flush = |index: usize| {
            let flush = Request { metadata: asked.metadata, priority: asked.priority, ..Request::flush() };
            let Some(steps) = asked.writeback else { return Some(flush) };
            let own = || stretches.iter().filter(|stretch| stretch.part == index);
            let start = own().map(|stretch| stretch.offset).min()?;
            let end = own().map(|stretch| stretch.offset + stretch.length).max()?;
            Some(flush.with_writeback(steps, start, end - start))
        };
        let parts = self.parts.iter().enumerate();
        let mut replies = join_all(parts.filter_map(|(index, part)| Some(part.submit(flush(index)?)))).await;
        let submitted = replies.iter().map(|reply| reply.stamps.submitted).min();
        let completed = replies.iter().map(|reply| reply.stamps.completed).max();
        let failed = replies.iter().position(|reply| reply.result.is_err());
        let mut whole = replies.swap_remove(failed.unwrap_or(0));
        whole.stamps.submitted = submitted.expect("there are parts");
        whole.stamps.completed = completed.expect("there are parts");
        whole
    }

    /// Where a range lies, piece by piece.
    fn stretches(&self, mut offset: Bytes, mut length: Bytes) -> Vec<Stretch> {
        let mut stretches = Vec::with_capacity(1);
        while !length.is_zero() {
            let (part, inner, room) = self.locate(offset);
            let piece = length.min(room);
            stretches.push(Stretch { part, offset: inner, length: piece });
            offset += piece;
            length = length.saturating_sub(piece);
        }
        stretches
    }

    /// The part that holds an address, where in it, and how much follows there.
    fn locate(&self, offset: Bytes) -> (usize, Bytes, Bytes) {
        let Some(chunk) = self.chunk else {
            let mut rest = offset;
            for (index, part) in self.parts.iter().enumerate() {
                let size = part.shape().size;
                if rest < size {
                    return (index, rest, size - rest);
                }
                rest = rest - size;
            }
            unreachable!("a checked request lies within the parts");
        };
        let (row, parts) = (offset / chunk, self.parts.len() as u64);
        let inside = offset - chunk * row;
        ((row % parts) as usize, chunk * (row / parts) + inside, chunk - inside)
    }

    async fn pieces(&self, request: Request, stretches: &[Stretch]) -> Reply {
        let (fua, priority, operation) = (request.fua, request.priority, request.operation);
        let length = |stretch: &Stretch| stretch.length;
        let (mut rest, data) = match request.payload {
            Payload::Into(buffer) => (Some(buffer), None),
            Payload::From(data) => (None, Some(data)),
            Payload::None => (None, None),
        };
        let mut at = Bytes::ZERO;
        let mut asked = Vec::new();
        for (index, stretch) in stretches.iter().enumerate() {
            let mut piece = match (operation, &data) {
                (Operation::Read, _) => {
                    let whole = rest.take().expect("a read has its buffer");
                    let buffer = match index + 1 == stretches.len() {
                        true => whole,
                        false => {
                            let mut whole = whole;
                            let first = whole.split_to(length(stretch));
                            rest = Some(whole);
                            first
                        }
                    };
                    Request::read(stretch.offset, buffer)
                }
                (_, Some(data)) => Request::write(stretch.offset, data.slice(at, length(stretch))),
                (Operation::Discard, None) => Request::discard(stretch.offset, length(stretch)),
                (_, None) => Request::write_zeroes(stretch.offset, length(stretch)),
            };
            (piece.fua, piece.priority) = (fua, priority);
            at += length(stretch);
            asked.push(self.parts[stretch.part].submit(piece));
        }
        let mut replies = join_all(asked).await.into_iter();
        let mut whole = replies.next().expect("a request has a first piece");
        for reply in replies {
            whole.stamps.submitted = whole.stamps.submitted.min(reply.stamps.submitted);
            whole.stamps.completed = whole.stamps.completed.max(reply.stamps.completed);
            whole.result = whole.result.and(reply.result);
            if let (Some(first), Some(next)) = (&mut whole.buffer, reply.buffer) {
                first.join(next);
            }
        }
        whole
    }
}

impl<D: Device + Forget> Device for Ensemble<D> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, mut request: Request) -> Reply {
        let writes = matches!(request.operation, Operation::Write | Operation::WriteZeroes);
        request.fua |= self.durable && writes;
        if let Some(lap) = self.refresh {
            self.asked.update(|asked| asked + request.length);
            if self.asked.get() > lap {
                self.asked.set(request.length);
                self.parts.iter().for_each(D::forget);
            }
        }
        match &self.parts[..] {
            [only] => only.submit(request).await,
            _ => match (request.operation, self.shape.check(&request)) {
                (Operation::Flush, _) => self.flush(&request).await,
                (_, Err(error)) => request.refuse(error, self.runtime.now()),
                (_, Ok(())) => {
                    let stretches = self.stretches(request.offset, request.length);
                    self.pieces(request, &stretches).await
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use device::{Stamps, Writeback};

    use super::*;
    use crate::experiment::Io;

    /// Notes which flushes it is asked for.
    struct Part(Shape, Rc<std::cell::RefCell<Vec<(String, Bytes, Bytes)>>>);

    impl Device for Part {
        fn shape(&self) -> &Shape {
            &self.0
        }
        async fn submit(&self, request: Request) -> Reply {
            self.1.borrow_mut().push((self.0.name.clone(), request.offset, request.length));
            let at = units::Instant::START;
            request.answer(Ok(()), Stamps { submitted: at, completed: at })
        }
    }

    impl Forget for Part {
        fn forget(&self) {}
    }

    #[test]
    fn a_part_without_any_of_a_range_is_not_written_back() {
        let runtime = Runtime::simulated();
        let asked = Rc::new(std::cell::RefCell::new(Vec::new()));
        let part = |name: &str| Part(Shape::new(name.to_owned(), Bytes::kib(64)), Rc::clone(&asked));
        let parts = ["a", "b", "c"].map(part).into();
        let ensemble = Ensemble::new(&runtime, "abc".into(), parts, &Described::files(Vec::new(), Io::default()));
        let steps = Writeback { write: true, ..Writeback::default() };
        let range = Request::flush().with_writeback(steps, Bytes::kib(60), Bytes::kib(12));
        assert_eq!(runtime.block_on(ensemble.submit(range)).result, Ok(()));
        let kib = |name: &str, from, length| (name.to_owned(), Bytes::kib(from), Bytes::kib(length));
        assert_eq!(asked.take(), [kib("a", 60, 4), kib("b", 0, 8)]);
        assert_eq!(runtime.block_on(ensemble.submit(Request::flush())).result, Ok(()));
        assert_eq!(asked.take(), ["a", "b", "c"].map(|name| kib(name, 0, 0)));
    }
}
