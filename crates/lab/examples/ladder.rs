//! Prints the two ladders of RAID-I; until the command `arraylab survey --system raid-i` does.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bench = lab::raid_i::bench::Bench::default();
    for (name, rungs) in [
        ("32 KB sequential reads", lab::raid_i::ladder::bandwidth(&bench)?),
        ("4 KB random reads", lab::raid_i::ladder::requests(&bench)?),
    ] {
        println!("{name}, 28 disks, through the operating system");
        for rung in rungs {
            let doublings: Vec<String> =
                rung.doublings.iter().map(|(part, gain)| format!("{part} {gain:.2}")).collect();
            println!(
                "  {:<20} {:>6.2} MB/s {:>7.1} /s   twice as fast: {}",
                rung.part,
                rung.bandwidth,
                rung.rate,
                doublings.join(", ")
            );
        }
    }
    Ok(())
}
