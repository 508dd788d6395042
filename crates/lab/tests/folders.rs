//! The studies of this project that are folders. All of their rows are read and checked here, and one of them is
//! judged; `arraylab reproduce` judges all, which takes minutes.

use std::collections::BTreeMap;

use lab::published::Role;
use lab::reproduce::{Status, judged};
use lab::study;

/// What a study printed, by kind: to model, to keep below, and to hold.
#[test]
fn all_rows_are_read_and_checked() {
    for (name, outputs, bounds, claims) in [("max", 30, 3, 16), ("scb", 8, 4, 34)] {
        let study = study(name, Vec::new()).unwrap_or_else(|error| panic!("{error}"));
        let mut counts: BTreeMap<Role, usize> = BTreeMap::new();
        study.rows().unwrap().iter().for_each(|row| *counts.entry(row.role).or_default() += 1);
        let of = |role| counts.get(&role).copied().unwrap_or(0);
        assert_eq!((of(Role::Output), of(Role::Bound), of(Role::Claim)), (outputs, bounds, claims), "{name}");
    }
}

#[test]
fn a_real_array_of_max_alone_is_as_fast_as_printed() {
    let study = study("max", Vec::new()).unwrap_or_else(|error| panic!("{error}"));
    let rows = judged(&*study, &["max/caveat/real-rate".to_owned()]).unwrap();
    assert_eq!((rows.len(), rows[0].status), (1, Status::Within5), "{rows:?}");
}
