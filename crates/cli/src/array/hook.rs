//! `--on-event PROGRAM`: a program that is told what happens to a served array, by the words of mdadm.
//!
//! `mdadm --monitor --program` runs `PROGRAM EVENT DEVICE [COMPONENT]`, and so is this: a script that was written for
//! md works. Which event is which is from mdadm's manual (mdadm(8), MONITOR MODE) and `Monitor.c`: any upkeep that
//! begins is `RebuildStarted`, a resync or a scrub as well as a rebuild; `RebuildNN` comes at each 20 percent;
//! `DegradedArray` is for an array that is degraded when it is first seen, and not for one that becomes so, which is
//! `Fail`.
//!
//! A thread runs one program at a time, in the order of the events, so that a script never sees the end of a rebuild
//! before its beginning. One that has not ended within [`PATIENCE`] is killed with its process group. What is served
//! waits for none of this: if [`WAITING`] events wait, further ones are dropped, and counted.

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use raid::{Event, Upkeep};
use serde_json::json;

use crate::fail::Failure;
use crate::systemd::ENVIRONMENT;

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Events that may wait for programs.
const WAITING: usize = 256;
/// How long the server waits for them at its end.
const AT_THE_END: Duration = Duration::from_secs(35);
/// Percent between two events of an upkeep.
const STEP: u64 = 20;

/// What a program is told.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    event: String,
    component: Option<String>,
    /// The event as `--json` prints it, where there is one.
    document: Option<String>,
}

/// Runs a program at each event.
pub struct Hook {
    calls: Option<SyncSender<Call>>,
    dropped: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    known: Known,
}

/// What has been told of the array.
#[derive(Default)]
struct Known {
    /// What fills a member's place, by the member's number.
    filling: HashMap<usize, String>,
    /// The step that the upkeep under way has passed.
    passed: u64,
}

impl Hook {
    /// Of a program and an array.
    pub fn new(program: PathBuf, array: String) -> Result<Hook, Failure> {
        let (calls, taken) = sync_channel::<Call>(WAITING);
        let dropped: Arc<AtomicU64> = Arc::default();
        let lost = Arc::clone(&dropped);
        let running = std::thread::Builder::new().name("on-event".into()).spawn(move || {
            for call in taken {
                run(&program, &array, &call);
                let lost = lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    say(&format!(
                        "--on-event: {lost} events were not told, as {WAITING} waited for {}",
                        program.display()
                    ));
                }
            }
        });
        let thread = running.map_err(|error| Failure::world(anyhow::anyhow!("--on-event: {error}")))?;
        Ok(Hook { calls: Some(calls), dropped, thread: Some(thread), known: Known::default() })
    }

    /// The array begins to be served.
    pub fn begins(&mut self, is_degraded: bool, test: bool) {
        if test {
            self.call("TestMessage", None, None);
        }
        self.call("NewArray", None, None);
        if is_degraded {
            self.call("DegradedArray", None, None);
        }
    }

    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        let document = json!(event).to_string();
        for (name, component) in self.known.names(event) {
            self.call(&name, component, Some(document.clone()));
        }
    }

    /// How far the upkeep under way is.
    pub fn progress(&mut self, upkeep: Option<&Upkeep>) {
        if let Some(name) = self.known.progress(upkeep) {
            self.call(&name, None, upkeep.map(|upkeep| json!(upkeep).to_string()));
        }
    }

    /// The array is served no more. Waits for the programs, for a while.
    pub fn end(mut self) {
        self.call("DeviceDisappeared", None, None);
        self.calls = None;
        let Some(thread) = self.thread.take() else { return };
        let deadline = Instant::now() + AT_THE_END;
        while !thread.is_finished() {
            if Instant::now() > deadline {
                return say("--on-event: the last events were not told, as the program takes too long");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn call(&self, event: &str, component: Option<String>, document: Option<String>) {
        let call = Call { event: event.into(), component, document };
        if self.calls.as_ref().is_some_and(|calls| calls.try_send(call).is_err()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Known {
    /// The events of mdadm that an event is, and whom they are about.
    fn names(&mut self, event: &Event) -> Vec<(String, Option<String>)> {
        let named = |name: &str, component: Option<String>| (name.to_owned(), component);
        let finished = || named("RebuildFinished", None);
        match event {
            Event::MemberFailed { member, device, .. } => {
                let name = if self.filling.remove(member).is_some() { "FailSpare" } else { "Fail" };
                vec![named(name, Some(device.clone()))]
            }
            Event::RebuildBegan { member, device } | Event::ReplaceBegan { member, device } => {
                self.filling.insert(*member, device.clone());
                self.passed = 0;
                vec![named("RebuildStarted", None)]
            }
            Event::RebuildDone { member, .. } | Event::ReplaceDone { member, .. } => {
                vec![finished(), named("SpareActive", self.filling.remove(member))]
            }
            Event::RebuildFailed { member, .. } | Event::ReplaceFailed { member, .. } => {
                self.filling.remove(member);
                vec![finished()]
            }
            Event::ResyncBegan | Event::ScrubBegan => {
                self.passed = 0;
                vec![named("RebuildStarted", None)]
            }
            Event::ResyncDone | Event::ResyncFailed { .. } | Event::ScrubFailed { .. } => vec![finished()],
            Event::ScrubDone { mismatches, .. } | Event::ScrubEnded { mismatches, .. } => {
                let found = (*mismatches > 0).then(|| format!("mismatches found: {mismatches}"));
                vec![named("RebuildFinished", found)]
            }
            Event::JournalFailed => vec![named("Fail", None)],
            // md knows none of these; that more failed than the array survives is told by `Fail` of the last.
            _ => Vec::new(),
        }
    }

    fn progress(&mut self, upkeep: Option<&Upkeep>) -> Option<String> {
        let Upkeep { done, of, .. } = upkeep.filter(|upkeep| !upkeep.of.is_zero())?;
        let step = done.get().saturating_mul(100) / of.get() / STEP * STEP;
        if step <= self.passed || step >= 100 {
            return None;
        }
        self.passed = step;
        Some(format!("Rebuild{step:02}"))
    }
}

/// Runs the program once, to its end or to that of its time.
fn run(program: &PathBuf, array: &str, call: &Call) {
    let mut command = Command::new(program);
    command.arg(&call.event).arg(array).args(&call.component);
    for name in ENVIRONMENT {
        command.env_remove(name);
    }
    if let Some(document) = &call.document {
        command.env("ARRAYLAB_EVENT", document);
    }
    // Standard output is the server's own, which programs read.
    command.stdin(Stdio::null()).stdout(std::io::stderr()).process_group(0);
    let about = || format!("--on-event {}, told of {}", program.display(), call.event);
    match command.spawn() {
        Ok(child) => match wait(child) {
            Ok(Some(status)) if status.success() => {}
            Ok(Some(status)) => say(&format!("{}: {status}", about())),
            Ok(None) => say(&format!("{}: it had not ended after {} s, and was killed", about(), PATIENCE.as_secs())),
            Err(error) => say(&format!("{}: {error}", about())),
        },
        Err(error) => say(&format!("{}: {error}; name a program that can be run", about())),
    }
}

/// Waits for the end of a program; `None` if it had to be killed.
fn wait(mut child: Child) -> std::io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > deadline {
            // With what it started itself.
            host::group::kill_group(&mut child);
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// If the terminal is gone, there is nobody to tell.
fn say(words: &str) {
    use std::io::Write;
    _ = writeln!(std::io::stderr(), "{words}");
}
