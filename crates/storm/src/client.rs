//! The clients of an array: each writes, flushes and reads sectors of its own, one thing at a time, and believes
//! nothing. A write may be several requests at once. Beside them others read whatever is there, also where it is being
//! written.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use array::{Array, MemberState};
use device::{Buffer, Device, DeviceError, Operation, Request};
use futures_util::future::join_all;
use rand::RngExt;
use rand::seq::SliceRandom;
use runtime::Random;
use units::{Bytes, Duration};

use crate::bug::data_of;
use crate::disk::Disk;
use crate::oracle::sectors_of;
use crate::world::World;

/// How many work at once.
pub const CLIENTS: usize = 4;

/// Members that the array knows to be lost, or fills.
fn lost(world: &World, array: &Array<Rc<Disk>>) -> Vec<usize> {
    (0..world.members()).filter(|member| array.state(*member) != MemberState::Active).collect()
}

/// What is written in several pieces at once, as often as not; some of it perhaps twice.
fn in_pieces(random: &mut Random, touched: Range<u64>, block: u64) -> Vec<Range<u64>> {
    if random.random_bool(0.5) {
        return vec![touched];
    }
    let blocks = (touched.end - touched.start) / block;
    let cuts = (0..random.random_range(1..6)).map(|_| touched.start + random.random_range(0..blocks) * block);
    let mut cuts: Vec<u64> = cuts.chain([touched.start, touched.end]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut pieces: Vec<Range<u64>> = cuts.array_windows().map(|[from, to]| *from..*to).collect();
    pieces.shuffle(random);
    if random.random_bool(0.2) {
        let first = random.random_range(0..blocks);
        let last = random.random_range(first..blocks);
        let again = touched.start + first * block..touched.start + (last + 1) * block;
        // Sent last, it overlaps some of them, and is to win.
        pieces.push(again);
    }
    pieces
}

/// Works until `over`. Errors are broken promises: a storm never takes more than the level survives. Only where room is
/// short may a write be refused for that, and where the journal is lost are
/// writes refused, and in an outage anything; what the client wrote then may be there or not, and it ends.
pub async fn client(
    world: &World,
    array: &Array<Rc<Disk>>,
    mut random: Random,
    number: usize,
    own: Range<u64>,
    pauses: bool,
    over: &Cell<bool>,
) -> Result<(), String> {
    let oracle = &world.oracle;
    while !over.get() {
        if pauses {
            world.runtime.sleep(Duration::millis(random.random_range(0..2000))).await;
        }
        // Whole blocks, each of one sector or of several.
        let block = world.block / Bytes::SECTOR;
        let blocks = own.start / block..own.end / block;
        let first = random.random_range(blocks.clone());
        let most = if random.random_bool(0.2) { 64 } else { 12 };
        let count = random.random_range(1..=(blocks.end - first).min(most)) * block;
        let from = first * block;
        let touched = from..from + count;
        let failed = |what: &str, error| format!("{what} of sectors {touched:?} failed: {error}");
        // A write that is sent while room is short may be refused.
        let (before, is_short) = (oracle.borrow().known(touched.clone()), world.short.get());
        let lacked = |error: &DeviceError| is_short && *error == DeviceError::NoSpace;
        let may_write = |sectors: Range<u64>, value: u64| {
            oracle.borrow_mut().may_write(sectors.clone(), value);
            if is_short {
                oracle.borrow_mut().may_be_refused(sectors, value);
            }
        };
        let refused = |writes: &[(Range<u64>, u64, bool)]| {
            oracle.borrow_mut().refused(touched.clone(), &before, writes);
            world.outcome.borrow_mut().lacked += 1;
        };
        match random.random_range(0..20) {
            0..11 => {
                let fua = random.random_bool(0.2);
                let (mut writes, mut pieces) = (Vec::new(), Vec::new());
                for (index, piece) in in_pieces(&mut random, touched.clone(), block).into_iter().enumerate() {
                    let value = oracle.borrow_mut().fresh();
                    may_write(piece.clone(), value);
                    let (from, count) = (piece.start, piece.end - piece.start);
                    let mut request = Request::write(Bytes::SECTOR * from, data_of(&sectors_of(value, count)));
                    request.fua = fua;
                    let number = number + CLIENTS * index;
                    pieces.push((piece.clone(), value));
                    oracle.borrow_mut().begin(number, piece.clone(), lost(world, array));
                    writes.push(async move {
                        let result = array.submit(request).await.result;
                        // Taken back, it is under way no more.
                        if result.as_ref().err().is_some_and(lacked) {
                            oracle.borrow_mut().end(number);
                        }
                        result?;
                        oracle.borrow_mut().end(number);
                        oracle.borrow_mut().answered(piece.clone(), value);
                        if fua {
                            oracle.borrow_mut().must_hold(piece, &vec![value; count as usize]);
                        }
                        Ok(())
                    });
                }
                let results: Vec<Result<(), DeviceError>> = join_all(writes).await;
                let fate = |((range, value), result): ((Range<u64>, u64), &Result<(), DeviceError>)| {
                    (range, value, result.is_ok())
                };
                let fates: Vec<(Range<u64>, u64, bool)> = pieces.into_iter().zip(&results).map(fate).collect();
                if let Some(error) =
                    results.iter().filter_map(|result| result.clone().err()).find(|error| !lacked(error))
                {
                    let excused = array.has_lost_journal() || world.is_out(array);
                    return if excused { Ok(()) } else { Err(failed("a write", error)) };
                }
                oracle.borrow_mut().decided(touched.clone());
                if results.iter().any(Result::is_err) {
                    refused(&fates);
                }
            }
            11 => {
                may_write(touched.clone(), 0);
                let request = Request::write_zeroes(Bytes::SECTOR * from, Bytes::SECTOR * count);
                oracle.borrow_mut().begin(number, touched.clone(), lost(world, array));
                let written = array.submit(request).await.result;
                if written.as_ref().err().is_none_or(lacked) {
                    oracle.borrow_mut().end(number);
                }
                oracle.borrow_mut().decided(touched.clone());
                if written.as_ref().err().is_some_and(lacked) {
                    refused(&[(touched.clone(), 0, false)]);
                    continue;
                }
                if let Err(error) = written {
                    let excused = array.has_lost_journal() || world.is_out(array);
                    return if excused { Ok(()) } else { Err(failed("a write of zeroes", error)) };
                }
                oracle.borrow_mut().answered(touched.clone(), 0);
            }
            12 => {
                // What it discards it writes anew, so that the oracle knows what is newest: in between there may be
                // zeroes, or what was there.
                let value = oracle.borrow_mut().fresh();
                may_write(touched.clone(), 0);
                may_write(touched.clone(), value);
                oracle.borrow_mut().begin(number, touched.clone(), lost(world, array));
                let at = Bytes::SECTOR * from;
                let write = Request::write(at, data_of(&sectors_of(value, count)));
                let mut written = Ok(());
                for request in [Request::discard(at, write.length), write] {
                    let what = if request.operation == Operation::Discard { "a discard" } else { "a write" };
                    written = array.submit(request).await.result;
                    if written.as_ref().err().is_some_and(lacked) {
                        refused(&[(touched.clone(), 0, false), (touched.clone(), value, false)]);
                        break;
                    }
                    if let Err(error) = written {
                        let excused = array.has_lost_journal() || world.is_out(array);
                        return if excused { Ok(()) } else { Err(failed(what, error)) };
                    }
                }
                oracle.borrow_mut().end(number);
                oracle.borrow_mut().decided(touched.clone());
                if written.is_err() {
                    continue;
                }
                oracle.borrow_mut().answered(touched.clone(), value);
            }
            13..16 => {
                // What has been answered by now is promised when the flush is answered. Clients have sectors of their
                // own and one request at a time, so all that this client wrote has been answered.
                let now = oracle.borrow().known(own.clone());
                let flushed = array.submit(Request::flush()).await.result;
                if flushed.as_ref().err().is_some_and(lacked) {
                    continue;
                }
                if let Err(error) = flushed {
                    return if world.is_out(array) { Ok(()) } else { Err(failed("a flush", error)) };
                }
                oracle.borrow_mut().flushed(own.clone(), &now);
            }
            _ => {
                if !look_at(world, array, touched).await? {
                    return Ok(());
                }
            }
        }
        world.outcome.borrow_mut().operations += 1;
    }
    Ok(())
}

/// Reads sectors and holds them against the oracle. False if an outage has broken the array: then it promises nothing.
async fn look_at(world: &World, array: &Array<Rc<Disk>>, sectors: Range<u64>) -> Result<bool, String> {
    let known = world.oracle.borrow().known(sectors.clone());
    let length = Bytes::SECTOR * (sectors.end - sectors.start);
    let reply = array.submit(Request::read(Bytes::SECTOR * sectors.start, Buffer::zeroed(length))).await;
    match reply.result {
        _ if world.is_out(array) => return Ok(false),
        Ok(()) => {}
        Err(error) => return Err(format!("a read of sectors {sectors:?} failed: {error}")),
    }
    let buffer = reply.buffer.expect("a read gives its buffer back");
    world.oracle.borrow_mut().read(sectors.start, &known, buffer.bytes().expect("it is real"))?;
    world.outcome.borrow_mut().operations += 1;
    Ok(true)
}

/// Reads a few of these sectors again and again until `over`, whoever writes them.
pub async fn watcher(
    world: &World,
    array: &Array<Rc<Disk>>,
    mut random: Random,
    all: Range<u64>,
    pauses: bool,
    over: &Cell<bool>,
) -> Result<(), String> {
    let block = world.block / Bytes::SECTOR;
    let blocks = all.start / block..all.end / block;
    while !over.get() {
        if pauses {
            world.runtime.sleep(Duration::millis(random.random_range(0..1000))).await;
        }
        let first = random.random_range(blocks.clone());
        let count = random.random_range(1..=(blocks.end - first).min(16));
        for _ in 0..random.random_range(1..6) {
            if !look_at(world, array, first * block..(first + count) * block).await? {
                return Ok(());
            }
        }
    }
    Ok(())
}
