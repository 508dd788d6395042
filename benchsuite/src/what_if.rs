//! Whether `arraylab what-if` is right where the truth is known: modelled drives, served in real time, of which one is
//! slow; and the same machine with that drive faster.
//!
//! Four drives of one machine have their requests in step. The run goes over NBD to the served machine, `what-if` is
//! asked what the slow drive would bring, and the truth is what the served machine brings when that drive's value is
//! changed. The model itself says the same in virtual time, and is shown beside. In the second set-up requests queue
//! behind a drive's controller, which takes one command at a time.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::jobs::arraylab;
use crate::measure::{IS_FOR_TESTS, line};
use crate::runs::Table;
use crate::verdicts::json;
use crate::verdicts::plant::DRIVE;

/// The most by which the answer may differ from the truth, in percent.
const BAR: f64 = 10.0;
const SECONDS: u32 = if IS_FOR_TESTS { 1 } else { 4 };

/// A set-up: which value of a drive decides its speed; what it is of the three others and of the slow one; and what
/// makes the slow one faster by the factor `times`.
struct SetUp {
    name: &'static str,
    value: &'static str,
    others: &'static str,
    slow: &'static str,
    faster: &'static str,
    times: &'static str,
    depth: u32,
}

const SET_UPS: [SetUp; 3] = [
    SetUp {
        name: "latency",
        value: "read-overhead",
        others: "4ms",
        slow: "9ms",
        faster: "4.5ms",
        times: "2",
        depth: 1,
    },
    SetUp {
        name: "a little",
        value: "read-overhead",
        others: "4ms",
        slow: "9ms",
        faster: "7.2ms",
        times: "1.25",
        depth: 1,
    },
    SetUp {
        name: "queue",
        value: "command-interval",
        others: "1ms",
        slow: "3ms",
        faster: "1.5ms",
        times: "2",
        depth: 4,
    },
];

/// Asks, and compares.
pub fn run() -> bool {
    let Some(ours) = arraylab() else {
        println!("  skipped: there is no arraylab beside the benchsuite; build it with cargo build --release -p cli");
        return true;
    };
    let mut table = Table::new("what-if", &["set_up", "said", "truth", "model"]);
    let mut met = true;
    for set_up in &SET_UPS {
        match one(&ours, set_up) {
            Ok((said, truth, model)) => {
                println!(
                    "  {}: said {said:.3} times the rate, {truth:.3} in truth, {model:.3} by the model",
                    set_up.name
                );
                let apart = (said / truth - 1.0).abs() * 100.0;
                met &= line("apart", apart, "%", Some(BAR)) || IS_FOR_TESTS;
                let shown = [said, truth, model].map(|value| format!("{value:.4}"));
                table.row(&[&[set_up.name.to_owned()][..], &shown].concat());
            }
            Err(why) => println!("  {}: skipped: {why}", set_up.name),
        }
    }
    table.keep();
    met
}

/// What is said, what is, and what the model says.
fn one(ours: &Path, set_up: &SetUp) -> Result<(f64, f64, f64), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).map(|()| path).map_err(|error| error.to_string())
    };
    let system = write("four.toml", &format!("{DRIVE}count = 4\n"))?;
    let load = format!(
        "[run]\nmeasure = \"{SECONDS} s\"\nstart-up = \"200 ms\"\n[[stream]]\nname = \"load\"\noperation = \"read\"\npattern = \"random\"\n\
         size = \"4 KiB\"\nregion = {{ length = \"1 GiB\" }}\ndepth = {}\nlock-step = true\n",
        set_up.depth
    );
    let live = write("live.toml", &load)?;
    let modelled = write("modelled.toml", &format!("[system]\nname = \"four.toml\"\nway = \"asynchronous\"\n{load}"))?;
    let value = |drive: u32| format!("drive-{drive}.controller.{}", set_up.value);
    let values = |slow: &str| -> Vec<String> {
        let others = (0..3).map(|drive| format!("{}={}", value(drive), set_up.others));
        others.chain([format!("{}={slow}", value(3))]).collect()
    };
    let rate = |document: &Value| document["total"]["iops"].as_f64().ok_or("a run has a rate".to_owned());
    let runs = folder.path().join("runs");
    let model = |slow: &str| {
        let mut command = Command::new(ours);
        command.arg("run").arg(&modelled).arg("--json").arg("--runs").arg(&runs).current_dir(folder.path());
        values(slow).iter().for_each(|value| {
            command.args(["--set", &format!("system.parts.{value}")]);
        });
        rate(&json(&mut command)?)
    };
    let by_model = model(set_up.faster)? / model(set_up.slow)?;
    let served = |slow: &str| Served::start(ours, &system, &folder.path().join(format!("{slow}.sock")), &values(slow));
    let run = |server: &Served| {
        let mut command = Command::new(ours);
        command.arg("run").arg(&live).args(["--on", &server.targets, "--json", "--runs"]).arg(&runs);
        json(&mut command)
    };
    let fast = served(set_up.faster)?;
    let faster = rate(&run(&fast)?)?;
    drop(fast);
    let slow = served(set_up.slow)?;
    let was = run(&slow)?;
    let part = slow.targets.rsplit(',').next().unwrap_or_default();
    let mut command = Command::new(ours);
    command.arg("what-if").arg(was["run"].as_str().unwrap_or_default());
    command.args(["--part", part, "--times", set_up.times, "--json", "--runs"]).arg(&runs);
    let said = json(&mut command)?["parts"][0]["metrics"][0]["effect"].as_f64().ok_or("a part has an effect")?;
    Ok((said, faster / rate(&was)?, by_model))
}

/// The machine, served.
struct Served {
    server: Child,
    /// Its four drives.
    targets: String,
}

impl Served {
    fn start(ours: &Path, system: &Path, socket: &Path, values: &[String]) -> Result<Served, String> {
        let mut command = Command::new(ours);
        command.arg("serve").arg("--system").arg(system).args(["--way", "asynchronous", "--nbd"]);
        command.arg(format!("unix:{}", socket.display()));
        values.iter().for_each(|value| {
            command.args(["--set", value]);
        });
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let server = command.spawn().map_err(|error| error.to_string())?;
        let target = |drive: u32| format!("nbd+unix:///drive-{drive}?socket={}", socket.display());
        let served = Served { server, targets: (0..4).map(target).collect::<Vec<_>>().join(",") };
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            if std::os::unix::net::UnixStream::connect(socket).is_ok() {
                return Ok(served);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("the server did not begin to listen".to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
