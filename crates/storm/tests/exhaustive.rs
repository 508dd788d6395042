//! Every sequence of one or two writes on two stripes, every state of a power cut. Three writes are `arraylab storm
//! --exhaustive`, or `ARRAYLAB_WRITES=3`.

use std::sync::atomic::{AtomicBool, AtomicU64};

use storm::exhaustive::{arrays, exhaust};

#[test]
fn no_state_that_a_power_cut_leaves_breaks_a_promise() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let writes: usize = std::env::var("ARRAYLAB_WRITES").map_or(2, |text| text.parse().expect("a number of writes"));
    for (_, level, members) in arrays() {
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let found = exhaust(level, members, writes, threads, &stop, &done);
        println!("{level}: {} sequences, {} states", found.sequences, found.states);
        assert!(found.violations.is_empty(), "{level}: {:#?}", found.violations);
        assert!(found.sequences >= 150 && found.states >= 10 * found.sequences, "{level}: {found:?}");
    }
}
