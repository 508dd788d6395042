//! Writes that wait for a row are carried out together.
//!
//! A row is written by one at a time. Who writes it in small pieces, many at once, would pay for each of them with old
//! data and old parity, and with a log write where there is a log. So whoever gets the row's lock takes along the
//! pieces that wait for it and adjoin its own, as one write: of 48 writes of 4 KiB that fill a row of three chunks of
//! 64 KiB the first is a read-modify-write, and the others one write that reads next to nothing.
//!
//! - Nobody waits for pieces that may yet come, as Linux does ("plugging"): a write that is alone would pay for others
//!   that are not there.
//! - Pieces that wait never overlap: those have their [turns](crate::order) one after the other.
//! - What fails together is done again piece by piece, so that each has its own result.
//! - Beside a partial parity log only pieces of one chunk go together. Were a member lost in the same power cut, what
//!   it held of a write over several chunks may be neither old nor new (`ppl`), and a write of one chunk is not to come
//!   to that by its neighbours. A journal has no such gap.
//! - Where a modelled host is charged for parity nothing goes together: the drivers that are modelled knew nothing of
//!   it.

use std::cell::RefCell;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;

use device::{Data, Device, DeviceError};
use futures_util::future::{Either, select};
use runtime::Signal;
use rustc_hash::FxHashMap;
use units::Bytes;

use crate::array::Array;
use crate::lock::UnitLock;

/// The pieces that wait for rows, in the order in which they came.
#[derive(Default)]
pub(crate) struct Gathering {
    rows: RefCell<FxHashMap<u64, Vec<Rc<Piece>>>>,
}

/// A write within one row that waits for its lock.
struct Piece {
    at: Bytes,
    data: Data,
    fua: bool,
    result: RefCell<Option<Result<(), DeviceError>>>,
    done: Signal,
}

impl Piece {
    fn range(&self) -> Range<Bytes> {
        self.at..self.at + self.data.len()
    }

    fn end(&self, result: Result<(), DeviceError>) {
        *self.result.borrow_mut() = Some(result);
        self.done.notify();
    }
}

/// Who gives up waiting is nobody's neighbour any more.
struct InLine<'a> {
    gathering: &'a Gathering,
    row: u64,
    piece: Rc<Piece>,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut rows = self.gathering.rows.borrow_mut();
        if let Some(line) = rows.get_mut(&self.row) {
            line.retain(|other| !Rc::ptr_eq(other, &self.piece));
            if line.is_empty() {
                rows.remove(&self.row);
            }
        }
    }
}

impl Gathering {
    fn join(&self, row: u64, piece: Rc<Piece>) -> InLine<'_> {
        self.rows.borrow_mut().entry(row).or_default().push(Rc::clone(&piece));
        InLine { gathering: self, row, piece }
    }

    /// Those in a row's line that adjoin a piece, or each other, within these bounds; in the order of addresses, the
    /// piece among them. They stay in line: if whoever takes them along gives up, each has its turn.
    fn neighbours(&self, row: u64, own: &Rc<Piece>, bounds: &Range<Bytes>) -> Vec<Rc<Piece>> {
        let rows = self.rows.borrow();
        let waits = |piece: &&Rc<Piece>| !Rc::ptr_eq(piece, own) && piece.result.borrow().is_none();
        let mut line: Vec<Rc<Piece>> = rows[&row].iter().filter(waits).cloned().collect();
        let mut taken = vec![Rc::clone(own)];
        while let Some(index) = next_of(&line, &hull(&taken), bounds) {
            let piece = line.remove(index);
            let place = if piece.at < taken[0].at { 0 } else { taken.len() };
            taken.insert(place, piece);
        }
        taken
    }
}

/// What pieces that follow each other cover.
fn hull(pieces: &[Rc<Piece>]) -> Range<Bytes> {
    pieces[0].range().start..pieces[pieces.len() - 1].range().end
}

/// The first in line that adjoins a range within bounds.
fn next_of(line: &[Rc<Piece>], taken: &Range<Bytes>, bounds: &Range<Bytes>) -> Option<usize> {
    line.iter().position(|piece| {
        let range = piece.range();
        assert!(
            range.end <= taken.start || taken.end <= range.start,
            "who overlaps another waits for its turn, not here"
        );
        let adjoins = range.end == taken.start || range.start == taken.end;
        adjoins && bounds.start <= range.start && range.end <= bounds.end
    })
}

impl<D: Device> Array<D> {
    /// Writes data that lie within one row, alone or together with others.
    pub(crate) async fn write_row(&self, at: Bytes, data: Data, fua: bool, id: u64) -> Result<(), DeviceError> {
        let row = self.unit(at).0;
        if let Some(_lock) = self.locks.try_lock(row) {
            return self.write_locked(row, at, data, fua, id).await;
        }
        if self.is_charged() {
            let _lock = self.locks.lock(row).await;
            return self.write_locked(row, at, data, fua, id).await;
        }
        let piece = Rc::new(Piece { at, data, fua, result: RefCell::default(), done: Signal::default() });
        let _line = self.gathering.join(row, Rc::clone(&piece));
        let _lock: UnitLock<'_> = {
            let included = pin!(piece.done.wait_until(|| piece.result.borrow().is_some()));
            match select(included, pin!(self.locks.lock(row))).await {
                Either::Left(_) => return piece.result.take().expect("it is done"),
                Either::Right((lock, _)) => lock,
            }
        };
        if let Some(result) = piece.result.take() {
            return result;
        }
        let taken = self.gathering.neighbours(row, &piece, &self.bounds_of(&piece));
        if taken.len() > 1 {
            self.write_together(row, &taken, id).await;
            return piece.result.take().expect("its own is among them");
        }
        self.write_locked(row, at, piece.data.clone(), fua, id).await
    }

    /// How far others may reach that go together with a piece.
    fn bounds_of(&self, piece: &Piece) -> Range<Bytes> {
        let Range { start, end } = piece.range();
        if self.ppl.is_none() {
            return Bytes::ZERO..Bytes::new(u64::MAX);
        }
        let chunk = self.geometry.chunk();
        let from = start.round_down(chunk);
        if end <= from + chunk { from..from + chunk } else { start..end }
    }

    /// Writes pieces that follow each other, and tells each what became of it.
    async fn write_together(&self, row: u64, pieces: &[Rc<Piece>], id: u64) {
        let Range { start, end } = hull(pieces);
        let mut all = self.used_memory(end - start, pieces[0].data.bytes().is_none());
        if let Some(mut to) = all.bytes_mut() {
            for piece in pieces {
                let bytes = piece.data.bytes().expect("memory is real everywhere or nowhere");
                let (place, rest) = to.split_at_mut(bytes.len());
                place.copy_from_slice(bytes);
                to = rest;
            }
            assert!(to.is_empty(), "pieces follow each other");
        }
        let (all, fua) = (all.freeze(), pieces.iter().any(|piece| piece.fua));
        let together = self.write_locked(row, start, all.clone(), fua, id).await;
        self.pool.take_back(all);
        for piece in pieces {
            piece.end(match together {
                Ok(()) => Ok(()),
                // It may be one of them only that cannot be written.
                Err(_) => self.write_locked(row, piece.at, piece.data.clone(), piece.fua, id).await,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places of those that go together with the first of these, which came in this order.
    fn together(ranges: &[(u64, u64)], bounds: Range<u64>) -> Vec<u64> {
        let gathering = Gathering::default();
        let piece = |(at, end): &(u64, u64)| {
            let (at, data) = (Bytes::new(*at), Data::phantom(Bytes::new(end - at)));
            Rc::new(Piece { at, data, fua: false, result: RefCell::default(), done: Signal::default() })
        };
        let lines: Vec<InLine<'_>> = ranges.iter().map(|range| gathering.join(3, piece(range))).collect();
        let bounds = Bytes::new(bounds.start)..Bytes::new(bounds.end);
        let taken = gathering.neighbours(3, &lines[0].piece, &bounds);
        drop(lines);
        assert!(gathering.rows.borrow().is_empty(), "who waits no more is not in line");
        taken.iter().map(|piece| piece.at.get()).collect()
    }

    #[test]
    fn neighbours_go_together_on_both_sides_however_they_came() {
        let scattered = [(40, 50), (60, 70), (50, 60), (20, 30), (30, 40), (90, 99)];
        assert_eq!(together(&scattered, 0..99), [20, 30, 40, 50, 60]);
        assert_eq!(together(&scattered, 30..60), [30, 40, 50]);
        assert_eq!(together(&[(40, 50)], 0..99), [40]);
    }
}
