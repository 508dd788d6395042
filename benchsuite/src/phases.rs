//! Whether measured phases are those that were planted: a served model whose drive takes longer, a server that waits
//! before it answers, one that lets so many bytes pass, and a control group that holds requests back in the kernel.
//!
//! What a request takes besides (the socket, the server's own work, and how late its timer wakes it) is measured on the
//! same set-up with a wait that is shorter by what is planted, and taken off. Without any wait there is no timer: then
//! some 0.15 ms of nbdkit's were taken for ours. A processor that sleeps takes up to 300 us to wake, the longer it
//! slept; so meanwhile programs that want nothing but a processor, and give way to all others, keep all of them awake.
//! The bar: within 5 percent or 5 us of what was planted.

use std::path::Path;
use std::process::{Child, Command};

use serde_json::Value;

use crate::jobs::arraylab;
use crate::runs::Table;
use crate::verdicts::json;
use crate::verdicts::plant::{Ground, Planted};

const SHARE: f64 = 0.05;
const MICROS: f64 = 5.0;

const READS: &str = "operation = \"read\"\npattern = \"random\"\nsize = \"4 KiB\"\n";
const LARGE: &str = "operation = \"read\"\npattern = \"sequential\"\nsize = \"64 KiB\"\n";
const ONE: &str = "depth = 1\n";
const FOUR: &str = "depth = 4\n";
/// The rate that [`Ground::throttled`] allows, a second.
const ALLOWED: f64 = 1000.0;
/// 64 KiB at the 40 Mbit/s of [`Ground::one_link`], in microseconds.
const PASSES: f64 = 65_536.0 * 8.0 / 40.0;

type Plant = fn(&Ground) -> Result<Planted, String>;

/// A plant: with it, without it, and the microseconds that it adds to a phase.
struct Case {
    name: &'static str,
    /// The phase, by the name of the kernel timeline; `None` for all that passes at the device.
    phase: Option<&'static str>,
    with: Plant,
    without: Plant,
    /// From the mean response of the set-up without.
    planted: fn(f64) -> f64,
}

const CASES: [Case; 7] = [
    Case {
        name: "0.5 ms in a modelled drive",
        phase: None,
        with: |g| g.modelled("1500us", READS, ONE),
        without: |g| g.modelled("1ms", READS, ONE),
        planted: |_| 500.0,
    },
    Case {
        name: "2 ms in a modelled drive",
        phase: None,
        with: |g| g.modelled("3ms", READS, ONE),
        without: |g| g.modelled("1ms", READS, ONE),
        planted: |_| 2_000.0,
    },
    Case {
        name: "2 ms before an answer",
        phase: None,
        with: |g| g.servers(&[&["rdelay=3ms"]], READS, ONE),
        without: |g| g.servers(&[&["rdelay=1ms"]], READS, ONE),
        planted: |_| 2_000.0,
    },
    Case {
        name: "5 ms before an answer",
        phase: None,
        with: |g| g.servers(&[&["rdelay=6ms"]], READS, ONE),
        without: |g| g.servers(&[&["rdelay=1ms"]], READS, ONE),
        planted: |_| 5_000.0,
    },
    Case {
        name: "20 ms before an answer",
        phase: None,
        with: |g| g.servers(&[&["rdelay=21ms"]], READS, ONE),
        without: |g| g.servers(&[&["rdelay=1ms"]], READS, ONE),
        planted: |_| 20_000.0,
    },
    Case {
        name: "40 Mbit/s for two",
        phase: None,
        with: |g| g.one_link(LARGE, ONE),
        without: |g| g.servers(&[&["rdelay=0"], &["rdelay=0"]], LARGE, ONE),
        // Both take turns, so each waits for two transfers. The machine's own time passes meanwhile.
        planted: |without| 2.0 * PASSES - without,
    },
    Case {
        name: "1000/s in a control group",
        phase: Some("submit to queue"),
        with: |g| g.throttled(READS, FOUR),
        without: |g| g.device(READS, FOUR),
        // By Little's law four under way take 4 ms; what they take without the limit passes in other phases.
        planted: |without| 4e6 / ALLOWED - without,
    },
];

/// Programs that keep the processors awake until it is dropped.
struct Awake(Vec<Child>);

impl Awake {
    fn now() -> Awake {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let spin = || Command::new("chrt").args(["--idle", "0", "sh", "-c", "while :; do :; done"]).spawn().ok();
        Awake((0..processors).filter_map(|_| spin()).collect())
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Measures all.
pub fn run() -> bool {
    let Some(ours) = arraylab() else {
        println!("  skipped: there is no arraylab beside the benchsuite; build it with cargo build --release -p cli");
        return true;
    };
    let _awake = Awake::now();
    let mut table = Table::new("phases", &["plant", "planted_us", "measured_us"]);
    let mut met = true;
    for case in &CASES {
        match measured(&ours, case) {
            Ok((planted, measured)) => {
                let near = (measured - planted).abs() <= (SHARE * planted).max(MICROS);
                met &= near;
                let apart = (measured / planted - 1.0) * 100.0;
                let verdict = if near { "met" } else { "MISSED" };
                println!(
                    "  {:<28} planted {planted:>8.1} us, measured {measured:>8.1} us ({apart:+.2} %): {verdict}",
                    case.name
                );
                table.row(&[case.name.to_owned(), format!("{planted:.1}"), format!("{measured:.1}")]);
            }
            Err(why) => println!("  {:<28} skipped: {}", case.name, why.trim()),
        }
    }
    table.keep();
    met
}

/// What was planted, and what the measurement says of it, in microseconds.
fn measured(ours: &Path, case: &Case) -> Result<(f64, f64), String> {
    let (without, _) = once(ours, case.without, None)?;
    let (with, phase) = once(ours, case.with, case.phase)?;
    let planted = (case.planted)(without);
    Ok((planted, phase.unwrap_or(with - without)))
}

/// The mean response of a set-up, and that of a phase where one is asked for.
fn once(ours: &Path, plant: Plant, phase: Option<&str>) -> Result<(f64, Option<f64>), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let planted = plant(&Ground::new(folder.path()))?;
    let file = folder.path().join("load.toml");
    std::fs::write(&file, &planted.experiment).map_err(|error| error.to_string())?;
    let runs = folder.path().join("runs");
    let mut command = planted.command(ours);
    command.arg("run").arg(&file).args(["--json", "--on", &planted.targets.join(","), "--runs"]).arg(&runs);
    if phase.is_some() {
        command.arg("--trace");
    }
    let run = json(&mut command)?;
    let micros = |value: &Value| value.as_f64().map(|nanos| nanos / 1e3).ok_or("a run has requests".to_owned());
    let mean = micros(&run["total"]["service_ns"]["mean"])?;
    let Some(phase) = phase else { return Ok((mean, None)) };
    let explained = json(Command::new(ours).args(["explain", run["run"].as_str().unwrap_or_default(), "--json"]))?;
    let mut phases = explained["timeline"][0]["phases"].as_array().into_iter().flatten();
    let found = phases.find(|one| one["phase"] == phase).ok_or("the run was not traced; is tracefs mounted?")?;
    Ok((mean, Some(micros(&found["mean_ns"])?)))
}
