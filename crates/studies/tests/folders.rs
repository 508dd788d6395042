//! The studies of this project that are folders: all of their rows are read and checked, with every experiment, point
//! and expression. `arraylab reproduce` judges them, which takes minutes in a build for tests.

use std::collections::BTreeMap;

use lab::published::Role;
use studies::study;

/// What a study printed, by kind: to model, to keep below, and to hold. What scb says that no machine exceeds is said
/// like a claim.
#[test]
fn all_rows_are_read_and_checked() {
    for (name, outputs, bounds, claims) in [("max", 30, 3, 16), ("scb", 8, 1, 37), ("vax", 318, 0, 20)] {
        let study = study(name, Vec::new()).unwrap_or_else(|error| panic!("{error}"));
        let mut counts: BTreeMap<Role, usize> = BTreeMap::new();
        study.rows().unwrap().iter().for_each(|row| *counts.entry(row.role).or_default() += 1);
        let of = |role| counts.get(&role).copied().unwrap_or(0);
        assert_eq!((of(Role::Output), of(Role::Bound), of(Role::Claim)), (outputs, bounds, claims), "{name}");
    }
}
