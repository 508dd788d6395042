//! What the oracle lets a read say, after crashes and after writes that were refused.

use storm::{Oracle, sectors_of};

/// A sector of which the power cut left either the zeroes of before or 56.
fn left() -> Oracle {
    let mut oracle = Oracle::new(1);
    oracle.may_write(0..1, 56);
    oracle.crash(false);
    oracle
}

fn read(oracle: &mut Oracle, value: u64) -> Result<(), String> {
    let known = oracle.known(0..1);
    oracle.read(0, &known, &sectors_of(value, 1))
}

#[test]
fn zeroes_that_a_crash_left_stay_once_they_are_read() {
    let mut oracle = left();
    assert_eq!(read(&mut oracle, 0), Ok(()));
    oracle.crash(false);
    assert!(read(&mut oracle, 56).is_err());
}

#[test]
fn a_refused_write_is_there_or_not_and_the_first_read_afterwards_decides() {
    let mut oracle = Oracle::new(1);
    let before = oracle.known(0..1);
    oracle.may_write(0..1, 7);
    oracle.may_be_refused(0..1, 7);
    let beside = oracle.known(0..1);
    // It is being taken back.
    assert_eq!(read(&mut oracle, 7), Ok(()));
    assert_eq!(read(&mut oracle, 0), Ok(()));
    oracle.decided(0..1);
    oracle.refused(0..1, &before, &[(0..1, 7, false)]);
    // Sent while it was under way, and answered now.
    assert_eq!(oracle.read(0, &beside, &sectors_of(7, 1)), Ok(()));
    assert_eq!(read(&mut oracle, 0), Ok(()));
    assert!(read(&mut oracle, 7).is_err());
    // The power may undo the taking back.
    oracle.crash(false);
    assert_eq!(read(&mut oracle, 7), Ok(()));
    assert!(read(&mut oracle, 0).is_err());
}

#[test]
fn zeroes_that_may_be_a_write_since_the_crash_decide_nothing() {
    let mut oracle = left();
    oracle.may_write(0..1, 0);
    assert_eq!(read(&mut oracle, 0), Ok(()));
    // The write was not answered, nor flushed: the power takes it.
    oracle.crash(false);
    assert_eq!(read(&mut oracle, 56), Ok(()));
    assert!(read(&mut oracle, 0).is_err());
}
