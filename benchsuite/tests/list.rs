//! The program itself: it is built with the tests, so that `.ci/run` can run the fast benches without another build.

use std::process::Command;

#[test]
fn without_a_name_or_with_an_unknown_one_the_benches_are_listed() {
    for words in [&[][..], &["parity", "speed"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_benchsuite")).args(words).output().unwrap();
        let listed = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "nothing is measured: {listed}");
        for line in ["usage: benchsuite NAME...", "  parity     P and P+Q beside ISA-L", "  serve      our NBD server"]
        {
            assert!(listed.contains(line), "{line} is not in {listed}");
        }
    }
}
