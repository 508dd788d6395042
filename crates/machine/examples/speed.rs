//! How many simulated requests a second of CPU time: one disk through the no-copy call, and the whole machine under its system.

use machine::trial::{Issue, Pattern, Trial, run};
use units::Bytes;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let whole = (0..14).map(|disk| (disk % 4 * 2, disk / 4)).collect::<Vec<_>>();
    for (name, disks, issue, spans) in
        [("one Wren IV", vec![(0, 0)], Issue::NoCopy, false), ("RAID-I, 14 disks, spans", whole, Issue::Raw, true)]
    {
        let trial = Trial {
            system: "raid-i".into(),
            settings: Vec::new(),
            disks,
            issue,
            write: false,
            pattern: Pattern::Random,
            request: Bytes::kib(4),
            processes: 1,
            ahead: 0,
            requests: 200_000,
            warm_up: 10,
            seed: 1,
            spans,
        };
        let begun = std::time::Instant::now();
        let outcome = run(&trial)?;
        let seconds = begun.elapsed().as_secs_f64();
        println!("{name}: {:.0} requests a second ({} simulated)", outcome.requests as f64 / seconds, outcome.elapsed);
    }
    Ok(())
}
