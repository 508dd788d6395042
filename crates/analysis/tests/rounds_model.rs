//! The analytic model against theory and against what the study measured.

use analysis::rounds::model::{Bus, ModelError, Seek};
use units::{Bytes, Duration, Rate, Ratio};

const MIB: f64 = 1024.0 * 1024.0;

/// The study's disks (section 3). The medium's rate is fitted on its Tables 1 to 3.
fn wren_7(disks: u32, kib: u64) -> Bus {
    let millis = |millis: f64| Duration::from_seconds(millis / 1e3);
    Bus {
        disks,
        block: Bytes::kib(kib),
        rate: Rate::bytes_per_second(3.3 * MIB),
        media: Rate::bytes_per_second(1.86 * MIB),
        revolution: millis(50.0 / 3.0),
        seek: Seek { least: millis(2.5), mean: millis(15.0), greatest: millis(34.0) },
        fence: Ratio::ONE,
        buffer: None,
        overhead: Duration::ZERO,
    }
}

#[test]
fn the_least_positioning_time_falls_with_the_number_of_disks() {
    for (disks, millis) in [(1, 23.33), (2, 18.4), (3, 16.0), (4, 14.6), (5, 13.5), (6, 12.7), (7, 12.1)] {
        let least = wren_7(disks, 32).predict().unwrap().positioning_min.as_millis();
        assert!((least - millis).abs() < 0.06, "{disks} disks: {least} ms");
    }
}

#[test]
fn rotation_alone_leaves_its_nth_part() {
    let zero = Duration::ZERO;
    for disks in [1, 3, 9] {
        let bus = Bus { seek: Seek { least: zero, mean: zero, greatest: zero }, ..wren_7(disks, 32) };
        let least = bus.predict().unwrap().positioning_min.as_millis();
        assert!((least - 50.0 / 3.0 / f64::from(disks + 1)).abs() < 0.01, "{disks} disks: {least} ms");
    }
}

/// Large + (D - 1) small of the study's Tables 1 to 4, whole milliseconds. Its 128 KB were not fitted on.
#[test]
fn rounds_last_as_long_as_measured() {
    let measured = [(32, [54, 72, 96]), (64, [93, 127, 176]), (96, [127, 180, 256]), (128, [165, 234, 351])];
    for (kib, rounds) in measured {
        for (disks, measured) in [2, 4, 7].into_iter().zip(rounds) {
            let round = wren_7(disks, kib).predict().unwrap().round.as_millis();
            let error = round / f64::from(measured) - 1.0;
            assert!(error.abs() < 0.065, "{kib} KiB, {disks} disks: {round} ms against {measured}");
        }
    }
}

#[test]
fn a_low_fence_is_at_best_one_transfer_shorter() {
    for disks in [2, 4, 7] {
        let (high, low) = (wren_7(disks, 64), Bus { fence: Ratio::ZERO, ..wren_7(disks, 64) });
        let (high, low) = (high.predict().unwrap(), low.predict().unwrap());
        assert!(low.round <= high.round && low.round + high.transfer >= high.round, "{disks} disks");
    }
}

#[test]
fn ignoring_rounds_promises_too_much_and_pipelining_no_less_than_rounds() {
    for disks in [4, 7] {
        let prediction = wren_7(disks, 32).predict().unwrap();
        assert!(prediction.bandwidth < prediction.independent, "{prediction:?}");
        assert!(prediction.bandwidth < prediction.pipelined, "{prediction:?}");
        assert!(prediction.pipelined.get() <= 3.3 * MIB + 1.0);
    }
}

#[test]
fn what_no_disk_can_be_is_refused() {
    let bus = wren_7(7, 32);
    let refused = |bus: Bus| bus.predict().unwrap_err().to_string();
    assert_eq!(Bus { disks: 0, ..bus }.predict(), Err(ModelError::Disks(0)));
    assert_eq!(refused(Bus { media: Rate::bytes_per_second(0.0), ..bus }), "the medium's rate must be above zero");
    let seek = Seek { mean: Duration::millis(30), ..bus.seek };
    assert_eq!(
        refused(Bus { seek, ..bus }),
        "no seek curve rises from 2.5 ms to 34 ms with a mean of 30 ms: between random addresses it takes between 13 ms and 19.3 ms"
    );
    assert_eq!(
        refused(Bus { fence: Ratio::percent(150.0), ..bus }),
        "the fence is a share of the request, at most 100 %, not 150 %"
    );
}
