//! Prints a study's rows, published against modelled; until the command `arraylab reproduce` does.
//!
//! `cargo run --release -p lab --example scoreboard [-- PART.VALUE=TEXT ...]`

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut settings = Vec::new();
    for argument in std::env::args().skip(1) {
        let (key, value) = argument.split_once('=').ok_or("a change is written PART.VALUE=TEXT")?;
        settings.push((key.to_owned(), value.to_owned()));
    }
    let study = lab::raid_i::RaidI::with(settings);
    print!("{}", lab::reproduce::reproduce(&study)?.text());
    Ok(())
}
