//! What a drive does on a string, parameter by parameter: when it lets go of the bus, when it thinks, how fast it
//! sends.

use std::cell::RefCell;

use machine::kit::Kit;
use machine::lines::Lines;
use machine::os::command;
use machine::scsi::protocol::Passage;
use machine::scsi::string::{Channel, Claim};
use machine::trace::Trace;
use runtime::Runtime;
use units::{Bytes, Duration};

/// Two reads of a drive that nobody else disturbs, one behind the other with time to read ahead: what they did on the
/// bus, and how long the second took.
fn two_reads(settings: &[(&str, &str)]) -> ([Passage; 2], Duration) {
    let mut kit = Kit::load("sparc20-wren7").unwrap();
    // Nothing is drawn: what differs is what was changed.
    let plain = [
        ("wren-7.pause.block-least", "0 us"),
        ("wren-7.pause.block-most", "0 us"),
        ("wren-7.pause.block-filling", "0 us"),
        ("wren-7.pause.first-data-most", "185 us"),
        ("wren-7.pause.thinks-off-bus", "false"),
    ];
    for (key, value) in plain.iter().chain(settings) {
        kit.set(key, value).unwrap();
    }
    let runtime = Runtime::simulated();
    let trace = Trace::default();
    let machine = kit.build(&runtime, 1, &trace).unwrap();
    let unit = &machine.drive("disk-0.0").unwrap().endpoint;
    runtime.block_on(async {
        let mut passages = Vec::new();
        let mut took = Duration::ZERO;
        for index in 0..2 {
            let from = runtime.now();
            let mut ledger = trace.open(from);
            let read = command(false, Bytes::kib(64) * index, Bytes::kib(64));
            passages.push(unit.execute(read, Lines::Flushed, &mut ledger).await);
            ledger.close(runtime.now());
            took = runtime.now().since(from);
            runtime.sleep(Duration::millis(300)).await;
        }
        ([passages[0], passages[1]], took)
    })
}

/// The fence at one sector, so that a drive has the bus while it reads.
const FIRST_SECTOR: (&str, &str) = ("wren-7.buffer.read-fill", "0.1953125 %");

#[test]
fn a_drive_keeps_the_bus_as_long_as_its_hold_and_no_longer() {
    let disconnects = |hold| two_reads(&[FIRST_SECTOR, ("wren-7.buffer.hold", hold)]).0[0].disconnects;
    let (none, within_a_track, over_switches) = (disconnects("0 us"), disconnects("1 ms"), disconnects("5 ms"));
    // 128 blocks of tracks of 75: once at least the heads are switched, which takes 2.1 ms.
    assert_eq!(over_switches, 1, "only while the arm was on its way");
    assert!((2..=3).contains(&within_a_track), "and once for each switch of heads: {within_a_track}");
    assert!(none > 20, "after each few blocks: {none}");
}

#[test]
fn a_drive_that_pauses_after_each_block_takes_that_much_longer() {
    let took = |pause| two_reads(&[("wren-7.pause.block-least", pause), ("wren-7.pause.block-most", pause)]);
    let ((plain, quick), (paused, slow)) = (took("0 us"), took("50 us"));
    let more = Duration::micros(50) * 128;
    let longer = slow.saturating_sub(quick);
    assert!(
        longer.saturating_sub(more).max(more.saturating_sub(longer)) < Duration::micros(1),
        "{longer}, to the rounding of its pieces"
    );
    assert_eq!(paused[1].target_pauses - plain[1].target_pauses, more);
}

#[test]
fn pauses_after_blocks_are_drawn_within_their_range() {
    let range = [("wren-7.pause.block-least", "10 us"), ("wren-7.pause.block-most", "60 us")];
    let ([first, second], _) = two_reads(&range);
    let plain = two_reads(&[]).0;
    let pace = |with: &Passage, without: &Passage| (with.target_pauses - without.target_pauses).as_nanos() / 128;
    let (a, b) = (pace(&first, &plain[0]), pace(&second, &plain[1]));
    assert!([a, b].iter().all(|pace| (10_000..=60_000).contains(pace)), "{a} and {b} ns");
    assert_ne!(a, b, "drawn once for each command");
}

#[test]
fn a_drive_sends_more_slowly_while_its_medium_fills_the_buffer() {
    let longer = |until| {
        let until = ("wren-7.read-ahead.until", until);
        let (plain, filling) = (two_reads(&[until]).0, two_reads(&[until, ("wren-7.pause.block-filling", "100 us")]).0);
        filling[0].target_pauses - plain[0].target_pauses
    };
    // The first read waits for its last block, and the medium goes on behind it: past the end of the transfer, but for
    // switches of heads.
    let all = Duration::micros(100) * 128;
    assert!((all / 2..=all).contains(&longer("segment full")), "{} of {all}", longer("segment full"));
    assert_eq!(longer("none"), Duration::ZERO, "a medium that rests takes nothing from the bus");
}

#[test]
fn a_pause_whose_most_is_below_its_least_is_refused() {
    let mut kit = Kit::load("sparc20-wren7").unwrap();
    kit.set("wren-7.pause.block-least", "90 us").unwrap();
    let problem = kit.build(&Runtime::simulated(), 1, &Trace::default()).map(|_| ()).unwrap_err().to_string();
    assert!(problem.contains("block-most") && problem.contains("at least 90 us"), "{problem}");
    let mut kit = Kit::load("sparc20-wren7").unwrap();
    kit.set("sparc20.context-switch", "9 ms").unwrap();
    let problem = kit.build(&Runtime::simulated(), 1, &Trace::default()).map(|_| ()).unwrap_err().to_string();
    assert!(problem.contains("context-switch-most") && problem.contains("at least 9 ms"), "{problem}");
}

#[test]
fn a_drive_that_thinks_off_the_bus_leaves_it_free_meanwhile() {
    let ([_, on], quick) = two_reads(&[]);
    let ([_, off], slow) = two_reads(&[("wren-7.pause.thinks-off-bus", "true")]);
    // A read that the buffer serves: data at once, or after a disconnection.
    assert_eq!((on.disconnects, off.disconnects), (0, 1));
    // Of its 600 us it keeps the bus for 300, to take the command in.
    assert!(on.target_pauses.saturating_sub(off.target_pauses) >= Duration::micros(300), "thinking is off the bus");
    assert!(slow > quick, "and coming back takes a little");
    let ([_, none], _) = two_reads(&[("wren-7.pause.thinks-off-bus", "true"), ("wren-7.pause.command", "0 us")]);
    assert_eq!(
        off.target_pauses.saturating_sub(none.target_pauses),
        Duration::micros(300),
        "the part that is on the bus"
    );
}

/// In which order an adapter sends commands to four disks that all want one while the bus is held, and then again.
fn order(in_turn: &str) -> Vec<usize> {
    let mut kit = Kit::load("sparc20-wren7").unwrap();
    kit.set("esp.in-turn", in_turn).unwrap();
    let runtime = Runtime::simulated();
    let trace = Trace::default();
    let machine = kit.build(&runtime, 1, &trace).unwrap();
    let order = RefCell::new(Vec::new());
    runtime.block_on(async {
        let string = &machine.part::<Channel>("string-0").unwrap().string;
        let mut ledger = trace.open(runtime.now());
        let tenure = string.acquire(Claim::at_once(7, Duration::ZERO), &mut ledger).await;
        // They come in the order 2, 0, 3, 1. Before anybody was served, it is as if disk 0 had been.
        let wait = |disk: usize, after: u64| {
            let (order, runtime, trace) = (&order, &runtime, &trace);
            async move {
                runtime.sleep(Duration::micros(after)).await;
                let mut ledger = trace.open(runtime.now());
                let turn = (in_turn == "true").then_some(disk as u8);
                let claim = Claim { id: 7, gives_way: true, turn, delay: Duration::micros(1) };
                let tenure = string.acquire(claim, &mut ledger).await;
                order.borrow_mut().push(disk);
                runtime.sleep(Duration::micros(10)).await;
                drop(tenure);
                ledger.close(runtime.now());
            }
        };
        let release = async {
            runtime.sleep(Duration::micros(50)).await;
            drop(tenure);
        };
        futures_util::join!(release, wait(2, 1), wait(0, 2), wait(3, 3), wait(1, 4));
        ledger.close(runtime.now());
    });
    order.into_inner()
}

#[test]
fn commands_go_out_as_they_came_or_to_one_disk_after_the_other() {
    assert_eq!(order("false"), [2, 0, 3, 1]);
    assert_eq!(order("true"), [1, 2, 3, 0]);
}
