//! The walk along a member: a rebuild, and the filling of a twin.
//!
//! Unit by unit in order of addresses, each under its lock, with a mark behind which everything counts. Several units
//! are under way at a time, so that the members that are read and the one that is written all have something to do; but
//! the mark passes them in order, and a unit stays locked until it has: what is written there before goes only where
//! the mark says, and would be missing.
//!
//! Whoever holds locks and waits for more may wait for somebody who waits for him, and the units of a member are in no
//! order that others keep: far and offset copies go back and forth. So a walk waits for a lock only while it holds
//! none. One that somebody else has it tries again when the next unit is done.
//!
//! Every so often nothing is under way, and the mark is recorded: nobody holds a lock while the members are flushed.

use std::cell::Cell;
use std::future::pending;
use std::ops::Range;
use std::pin::pin;

use device::{Device, DeviceError};
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesOrdered, StreamExt};
use units::Bytes;

use crate::array::Array;
use crate::geometry::Role;
use crate::lock::UnitLock;
use crate::md::Superblock;
use crate::pace::Walk;

/// Units between two records of the mark.
const MARK_EVERY: u64 = 256;
/// Of the member, under way at a time, but from 2 to 16 units: enough for the next reads to be there while the last
/// ones are written. With chunks of 64 KiB (16 units) a rebuild goes at 99 percent of the rate of a copy, by
/// `benchsuite array`; other sizes were not measured.
const UNDER_WAY: Bytes = Bytes::mib(1);

impl<D: Device> Array<D> {
    /// Goes along a member from an address on. `fill` brings a unit up to date, or says that it need not, and something
    /// about it, `pass` is told of that and of the mark's new place, in order, and `record` makes durable that it is
    /// there. Says whether it came to the end, or whoever [watches](Array::watch) ended it, after the mark was
    /// recorded.
    pub(crate) async fn along_member<T>(
        &self,
        member: usize,
        from: Bytes,
        fill: impl AsyncFn(Range<Bytes>, &Walk) -> Result<T, DeviceError>,
        mut pass: impl FnMut(Bytes, T) -> Result<(), DeviceError>,
        record: impl AsyncFn(Bytes) -> Result<(), DeviceError>,
    ) -> Result<bool, DeviceError> {
        let (needed, step) = (self.geometry.used_of(member), self.step());
        assert!(from.is_multiple_of(step) || from == needed, "a mark lies between units, or at the end");
        assert!(from <= needed, "a mark lies behind the end");
        let at_once = (UNDER_WAY / step).clamp(2, 16) as usize;
        let walk = self.walk(from, needed);
        let (mut at, goes_on) = (from, Cell::new(true));
        while at < needed {
            let stretch = at..(at + step * MARK_EVERY).min(needed);
            let (walk, fill) = (&walk, &fill);
            let begin = |unit: Range<Bytes>, lock| async move { (unit.end, fill(unit, walk).await, lock) };
            let mut units = Self::pieces(stretch, |at| at + step).into_iter().peekable();
            let mut under_way = FuturesOrdered::new();
            let mut failed = None;
            loop {
                let next = units.peek().filter(|_| goes_on.get() && under_way.len() < at_once);
                let may_wait = under_way.is_empty();
                let next_locked = async {
                    let Some(next) = next else { return pending().await };
                    match self.pace(walk, next.start, at).await {
                        true => Some(self.lock_behind(member, next.start, may_wait).await),
                        false => None,
                    }
                };
                if may_wait && next.is_none() {
                    break;
                }
                let done = match may_wait {
                    true => Either::Left(next_locked.await),
                    // Those first: what need not be brought up to date says so at once, and the next one need not wait
                    // for its time.
                    false => match select(under_way.next(), pin!(next_locked)).await {
                        Either::Left((done, _)) => Either::Right(done.expect("units are under way")),
                        Either::Right((lock, _)) => Either::Left(lock),
                    },
                };
                let (end, filled, _lock) = match done {
                    Either::Left(None) => {
                        goes_on.set(false);
                        continue;
                    }
                    Either::Left(Some(lock)) => {
                        under_way.push_back(begin(units.next().expect("it was looked at"), lock));
                        continue;
                    }
                    Either::Right(done) => done,
                };
                // What was under way when the walk was ended, or failed, is waited for, and done again by the next.
                if !goes_on.get() {
                    continue;
                }
                match filled.and_then(|filled| pass(end, filled)) {
                    Ok(()) => {
                        at = end;
                        goes_on.set(self.goes_on(walk, at));
                    }
                    Err(error) => {
                        failed = Some(error);
                        goes_on.set(false);
                    }
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
            if goes_on.get() {
                goes_on.set(self.pace(walk, at, at).await);
            }
            if at < needed {
                record(at).await?;
            }
            if !goes_on.get() {
                break;
            }
        }
        Ok(at == needed)
    }

    /// How far a device that has a member's place, or is to have it, is filled by what its superblock says: in whole
    /// units, as md's marks lie anywhere. A mark behind the end is not to be believed.
    pub(crate) fn filled_upto(&self, member: usize, superblock: &Superblock) -> Bytes {
        let sectors = superblock.recovery.min(1 << 54);
        let upto = Some(Bytes::SECTOR * sectors).filter(|upto| *upto <= self.geometry.used_of(member));
        upto.unwrap_or(Bytes::ZERO).round_down(self.step())
    }

    /// The lock of what lies at an address of a member, if anything does; never, if somebody has it and it may not be
    /// waited for.
    async fn lock_behind(&self, member: usize, at: Bytes, may_wait: bool) -> Option<UnitLock<'_>> {
        let unit = match self.geometry.role(member, at) {
            Role::Data(address) => self.unit(address).0,
            Role::P(row) | Role::Q(row) => row,
            Role::Unused => return None,
        };
        match self.locks.try_lock(unit) {
            None if may_wait => Some(self.locks.lock(unit).await),
            None => pending().await,
            lock => lock,
        }
    }
}
