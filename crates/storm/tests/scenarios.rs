//! Every case of the list by its name, where it is not held elsewhere.

use storm::{SCENARIOS, Scenario};

macro_rules! scenarios {
    ($($test:ident = $name:literal,)*) => {
        const NAMES: &[&str] = &[$($name),*];
        $(
            #[test]
            fn $test() {
                let scenario = Scenario::named($name).expect("the list has it");
                scenario.run().unwrap_or_else(|what| panic!("{}: {what}", scenario.what));
            }
        )*
    };
}

scenarios! {
    cut_at_every_write = "cut-at-every-write",
    cut_with_any_subset = "cut-with-any-subset",
    torn_write = "torn-write",
    cut_inside_recovery = "cut-inside-recovery",
    cut_and_member_lost = "cut-and-member-lost",
    lying_flush = "lying-flush",
    read_error = "read-error",
    write_error = "write-error",
    metadata_error = "metadata-error",
    latent_in_rebuild = "latent-in-rebuild",
    hung_member = "hung-member",
    bit_rot = "bit-rot",
    lost_and_misdirected = "lost-and-misdirected",
    corrupt_metadata = "corrupt-metadata",
    stale_member = "stale-member",
    split_brain = "split-brain",
    too_many_lost = "too-many-lost",
    strangers = "strangers",
    unknown_feature = "unknown-feature",
    wrong_size = "wrong-size",
    restart_in_upkeep = "restart-in-upkeep",
    rebuild_under_load = "rebuild-under-load",
    degraded_write_and_cut = "degraded-write-and-cut",
    overlapping_writes = "overlapping-writes",
    seeded_bugs = "seeded-bugs",
}

#[test]
fn every_case_is_a_test_here_or_says_where_it_is_held() {
    for (number, scenario) in (1..).zip(SCENARIOS) {
        assert_eq!(scenario.case, number, "{}", scenario.name);
        assert_eq!(NAMES.contains(&scenario.name), scenario.elsewhere().is_none(), "{}", scenario.name);
    }
}
