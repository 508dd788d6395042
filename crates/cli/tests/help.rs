//! The help, to the letter: people read it like a manual page.
//!
//! After a change that is meant: `TRYCMD=overwrite cargo test -p cli --test help`, and read the difference.

#[test]
fn the_help_is_what_it_was() {
    trycmd::TestCases::new().case("tests/help/*.trycmd");
}
