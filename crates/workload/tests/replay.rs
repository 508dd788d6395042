//! Traces, replayed on devices whose behaviour is known.

mod common;

use std::cell::RefCell;

use common::{Server, context};
use device::{Data, Operation};
use proptest::prelude::*;
use record::Row;
use runtime::Runtime;
use units::{Bytes, Duration, Instant};
use workload::{Ask, Context, Control, Due, Phantoms, Replay, Script, Tally};

fn due(micros: u64, operation: Operation) -> Due {
    Due { at: Duration::micros(micros), ask: Ask { operation, offset: Bytes::kib(4) * micros, length: Bytes::kib(4) } }
}

fn replay(script: &Script, servers: u32, time: Duration) -> Vec<Row> {
    let runtime = Runtime::simulated();
    let device = Server::new(&runtime, servers, time);
    let control = Control::new(Instant::START + Duration::millis(1), Duration::ZERO, Duration::ZERO, 1);
    let rows = RefCell::new(Vec::new());
    let observer = RefCell::new(|row: &Row| rows.borrow_mut().push(*row));
    let (tally, data) = (Tally::default(), Data::phantom(Bytes::kib(4)));
    let context = Context { memory: &Phantoms, ..context(&runtime, &device, &control, &observer, &tally, &data) };
    let replay = Replay { context, script };
    assert_eq!(runtime.block_on(replay.run()), None);
    assert!(control.end().is_some(), "the replay says when it is done");
    rows.into_inner()
}

fn script(dues: Vec<Due>, timed: bool, outstanding: u32) -> Script {
    Script { dues, timed, outstanding, awake: Duration::ZERO }
}

#[test]
fn every_request_is_made_when_it_was_made_then() {
    use Operation::{Discard, Flush, Read, Write};
    let times = [(0, Read), (10, Write), (10, Flush), (500, Discard), (501, Read)];
    let script = script(times.map(|(at, operation)| due(at, operation)).to_vec(), true, 8);
    let mut rows = replay(&script, 8, Duration::micros(100));
    rows.sort_by_key(|row| (row.intended, row.operation as u8));
    let begin = Instant::START + Duration::millis(1);
    let made: Vec<_> = rows.iter().map(|row| (row.intended.since(begin).as_nanos() / 1000, row.operation)).collect();
    assert_eq!(made, times);
    assert!(rows.iter().all(|row| row.submitted == row.intended && row.errno == 0));
}

/// 10,000 a second for 1000 requests on a device that does 5000: all are made, the last nearly 100 ms late, and that
/// counts.
#[test]
fn what_finds_no_place_is_late_and_its_wait_counts() {
    let script = script((0..1000).map(|n| due(n * 100, Operation::Read)).collect(), true, 2);
    let rows = replay(&script, 1, Duration::micros(200));
    assert_eq!(rows.len(), 1000);
    let last = rows.iter().max_by_key(|row| row.intended).unwrap();
    let late = last.wait().as_millis();
    assert!((99.0..=100.0).contains(&late), "{late} ms");
    assert_eq!(last.response(), last.wait() + last.service());
}

#[test]
fn as_fast_as_possible_keeps_the_order_and_not_the_times() {
    let script = script((0..100).map(|n| due(n * 1_000_000, Operation::Read)).collect(), false, 4);
    let rows = replay(&script, 4, Duration::millis(1));
    assert!(rows.is_sorted_by_key(|row| row.offset), "in the order of the trace");
    // A hundred of a millisecond each, four at a time, instead of a hundred seconds.
    assert_eq!(rows.last().unwrap().completed, Instant::START + Duration::millis(1 + 25));
}

proptest! {
    #[test]
    fn all_is_asked_once_and_nothing_early(times in prop::collection::vec(0..50_000u64, 1..200), places in 1..20u32) {
        let mut times = times;
        times.sort();
        let dues: Vec<Due> = times.iter().map(|at| due(*at, Operation::Write)).collect();
        let mut rows = replay(&script(dues.clone(), true, places), 3, Duration::micros(300));
        rows.sort_by_key(|row| row.offset);
        prop_assert_eq!(rows.iter().map(|row| row.offset).collect::<Vec<_>>(), dues.iter().map(|due| due.ask.offset).collect::<Vec<_>>());
        prop_assert!(rows.iter().all(|row| row.submitted >= row.intended));
        prop_assert!(rows.iter().all(|row| u32::from(row.depth) <= places));
    }
}
