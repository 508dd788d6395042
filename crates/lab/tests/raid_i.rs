//! The scoreboard of the first study holds what the project promises.

use lab::raid_i::RaidI;
use lab::reproduce::{Status, reproduce};

#[test]
fn the_model_is_as_good_as_promised() {
    let report = reproduce(&RaidI::default()).unwrap();
    assert_eq!(report.rows.len(), 482 + 61, "no output and no claim is left out");
    assert!(report.passes, "{}", report.summary());
    // Every modelled number says how sure it is: its trials have several passes. Few are known to worse than a quarter.
    let sure = report.rows.iter().filter_map(|row| Some((row.modelled?, row.confidence_95)));
    let (mut numbers, mut wide) = (0, 0);
    for (modelled, interval) in sure {
        numbers += 1;
        wide += usize::from(interval.expect("three passes have an interval") > modelled.abs() / 4.0);
    }
    assert!(numbers > 300 && wide * 20 < numbers, "{wide} of {numbers} are wide");
    // What cannot be reproduced says why.
    for row in report.rows.iter().filter(|row| row.status == Status::NotReproduced) {
        assert!(row.remark.len() > 20, "{}", row.id);
    }
}

#[test]
fn a_change_of_a_part_shows() {
    // With a backplane of half the rate the array must be worse off, and the row must say so.
    let half = RaidI::with(vec![("vme.rate".to_owned(), "4 MiB/s".to_owned())]);
    let report = reproduce(&half).unwrap();
    let row = report.rows.iter().find(|row| row.id == "raid-i/fig-19/no-copy").unwrap();
    assert!(row.modelled.unwrap() < 4.1, "{row:?}");
}
