//! Bad parameters, and what is said of them.

use filesystem::lfs::{Log, Parameters};
use units::Bytes;

use super::small;

#[track_caller]
fn refused(parameters: Parameters, text: &str) {
    let error = parameters.check().expect_err("it is refused");
    assert_eq!(error.to_string(), text);
    assert_eq!(Log::new(parameters).expect_err("it is refused, too"), error);
}

#[test]
fn each_bad_parameter_is_refused_with_what_is_accepted() {
    refused(
        Parameters { block: Bytes::new(1000), ..small() },
        "a block of 1000 B; accepted is a power of two from 512 B to 64 KiB",
    );
    refused(
        Parameters { segment: Bytes::kib(4), ..small() },
        "a segment of 4 KiB; accepted is a multiple of the block of 512 B, from 8 KiB to 32 MiB",
    );
    refused(
        Parameters { segment: Bytes::new(16_500), ..small() },
        "a segment of 16500 B; accepted is a multiple of the block of 512 B, from 8 KiB to 32 MiB",
    );
    refused(Parameters { inodes: 1, ..small() }, "1 inodes; accepted is 2 to 16777216");
    refused(
        Parameters { clean_below: 4, ..small() },
        "cleaning starts below 4 clean segments; accepted is 5 or more, since copies need room",
    );
    refused(
        Parameters { clean_until: 5, ..small() },
        "cleaning stops at 5 clean segments; accepted is more than 5, where it starts",
    );
    refused(Parameters { cleaned_at_once: 0, ..small() }, "0 segments are cleaned at once; accepted is 1 or more");
    refused(
        Parameters { disk: Bytes::kib(100), ..small() },
        "the disk of 100 KiB has 6 segments; accepted is 13 or more; enlarge the disk or take smaller segments",
    );
    refused(
        Parameters { disk: Bytes::gib(4096), ..small() },
        "the disk of 4 TiB has more than 2^32 blocks; take larger blocks",
    );
}

#[test]
fn thresholds_past_all_segments_are_refused() {
    refused(
        Parameters { clean_until: u64::MAX, ..small() },
        "the disk of 385 KiB has 24 segments; accepted is 18446744073709551615 or more; \
         enlarge the disk or take smaller segments",
    );
}

#[test]
fn the_smallest_disk_that_is_accepted_holds_a_file() {
    let parameters = Parameters { disk: Bytes::kib(16 * 13 + 1), ..small() };
    assert_eq!(parameters.check(), Ok(()));
    let mut log = Log::new(parameters).unwrap();
    let file = log.create("file").unwrap();
    (0..20).for_each(|block| log.write(file, block).unwrap());
    log.checkpoint().unwrap();
    assert!(log.taken() < log.capacity());
}

#[test]
fn the_usual_parameters_fit_disks_of_many_sizes() {
    for size in [Bytes::mib(16), Bytes::mib(300), Bytes::gib(4), Bytes::gib(100)] {
        assert_eq!(Parameters::new(size).check(), Ok(()), "{size:#}");
    }
}
