//! The scoreboard of the first study holds what the project promises.

use studies::reproduce::{Judged, Status, judged, reproduce};
use studies::study;

#[test]
fn the_model_is_as_good_as_promised() {
    let report = reproduce(&*study("raid-i", Vec::new()).unwrap()).unwrap();
    assert_eq!(report.rows.len(), 482 + 61, "no output and no claim is left out");
    assert_eq!(report.score.claims_not_tested, 0);
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
    let row = row_with("vme.rate", "4 MiB/s", "raid-i/fig-19/no-copy");
    assert!(row.modelled.unwrap() < 4.1, "{row:?}");
}

/// A row of the study on a system that was changed.
fn row_with(key: &str, value: &str, id: &str) -> Judged {
    let changed = study("raid-i", vec![(key.to_owned(), value.to_owned())]).unwrap();
    judged(&*changed, &[id.to_owned()]).unwrap().remove(0)
}

#[test]
fn a_machine_that_cannot_make_a_trial_leaves_its_rows_without_a_number() {
    // Disks that a trial needs are not there; or no request is done before the trial is over.
    for (key, value, says) in
        [("system.node.6.count", "1", "has no drive 'disk-0.1'"), ("scsi-1.byte-time", "1 ms", "no request was done")]
    {
        let row = row_with(key, value, "raid-i/fig-03/disk2");
        assert_eq!((row.status, row.modelled), (Status::NotReproduced, None), "{row:?}");
        assert!(row.remark.contains(says), "{row:?}");
    }
}
