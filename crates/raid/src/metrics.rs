//! How a served array is, for Prometheus.
//!
//! Two sets of families. `node_md_*` are those of node_exporter's mdadm collector (`collector/mdadm_linux.go`, version
//! 1.9), name by name with its labels and its help: boards and alerts that were made for md know the array. `device` is
//! the array's name in its superblocks, or its identity where that says none. Blocks are of 1 KiB, as in
//! `/proc/mdstat`, and so is what is synced: during a rebuild blocks of the member, as there. In one thing they differ:
//! a place that nothing fills counts among the failed disks, where md forgets a disk that was removed.
//!
//! `arraylab_array_*` are what md does not know: requests of clients, what they take, what their memory is, and each
//! member's own requests. Units are seconds and bytes, counters end in `_total`
//! (<https://prometheus.io/docs/practices/naming/>).

use std::cell::Cell;
use std::rc::Rc;

use array::MemberState;
use device::Device;
use nbd::{BOUNDS, OPERATIONS, Tally, Totals};
use report::exposition::{Exposition, label};
use units::{Bytes, Instant};

use crate::counted::KINDS;
use crate::keeper::Keeper;

/// What is told of an array, again and again.
pub struct Meter {
    keeper: Rc<Keeper>,
    totals: Rc<Totals>,
    /// What the array is called, and its identity: no member may be left to say so.
    device: String,
    identity: String,
    /// How far an upkeep was, and when; and how fast it went then.
    last: Cell<Option<(Instant, Bytes)>>,
    speed: Cell<f64>,
}

impl Meter {
    /// Of a kept array, whose server counts in these totals.
    pub fn new(keeper: &Rc<Keeper>, totals: &Rc<Totals>) -> Meter {
        let identity = keeper.array.identity().map_or("-".into(), |identity| identity.to_string());
        Meter {
            keeper: Rc::clone(keeper),
            totals: Rc::clone(totals),
            device: label(&keeper.name()),
            identity,
            last: Cell::new(None),
            speed: Cell::new(0.0),
        }
    }

    /// The document as it is now.
    pub fn text(&self) -> String {
        let mut text = Exposition::default();
        let device = &self.device[..];
        self.as_md(&mut text, device);
        self.array(&mut text, device);
        self.clients(&mut text, device);
        self.members(&mut text, device);
        text.text()
    }

    fn as_md(&self, text: &mut Exposition, device: &str) {
        let array = &self.keeper.array;
        let members = array.geometry().members();
        let (mut active, mut failed) = (0, 0);
        for member in 0..members {
            match array.state(member) {
                MemberState::Active => active += 1,
                MemberState::Failed => failed += 1,
                MemberState::Rebuilding(_) => {}
            }
        }
        let upkeep = self.keeper.upkeep();
        let state = match upkeep.as_ref().map(|upkeep| &upkeep.what[..]) {
            _ if array.is_broken() => "inactive",
            Some("resync") => "resync",
            Some("scrub") => "check",
            Some(_) => "recovering",
            None => "active",
        };
        let blocks = |bytes: Bytes| bytes.get() / 1024;
        let size = array.shape().size;
        let synced = upkeep.map_or(size, |upkeep| upkeep.done);
        let one = |value: u64| vec![format!("{{device=\"{device}\"}} {value}")];
        let by_state = |states: &[(&str, u64)]| -> Vec<String> {
            states.iter().map(|(state, value)| format!("{{device=\"{device}\",state=\"{state}\"}} {value}")).collect()
        };
        let states =
            ["active", "check", "inactive", "recovering", "resync"].map(|name| (name, u64::from(name == state)));
        let disks = [("active", active), ("failed", failed), ("spare", array.spares().len() as u64)];
        let mut gauge = |name: &str, help: &str, samples: Vec<String>| text.family(name, "gauge", help, samples);
        gauge("node_md_blocks", "Total number of blocks on device.", one(blocks(size)));
        gauge("node_md_blocks_synced", "Number of blocks synced on device.", one(blocks(synced)));
        gauge("node_md_degraded", "Number of degraded disks on device.", one(members as u64 - active));
        gauge("node_md_disks", "Number of active/failed/spare disks of device.", by_state(&disks));
        gauge("node_md_disks_required", "Total number of disks of device.", one(members as u64));
        gauge("node_md_raid_disks", "Number of raid disks on device.", one(members as u64));
        gauge("node_md_state", "Indicates the state of md-device.", by_state(&states));
    }

    fn array(&self, text: &mut Exposition, device: &str) {
        let (keeper, array) = (&self.keeper, &self.keeper.array);
        let one = |value: f64| vec![format!("{{device=\"{device}\"}} {value}")];
        let identity = &self.identity;
        let info =
            format!("{{device=\"{device}\",array=\"{identity}\",level=\"{}\"}} 1", label(&keeper.level().to_string()));
        let mut gauge = |name: &str, help: &str, samples: Vec<String>| text.family(name, "gauge", help, samples);
        gauge("arraylab_array_info", "The array, always 1.", vec![info]);
        gauge("arraylab_array_size_bytes", "What the array stores.", one(array.shape().size.get() as f64));
        gauge(
            "arraylab_array_survivable_losses",
            "Members that may be lost still, whichever they are.",
            one(keeper.survives() as f64),
        );
        gauge(
            "arraylab_array_broken",
            "1 if more members are lost than the level survives.",
            one(f64::from(u8::from(array.is_broken()))),
        );
        gauge(
            "arraylab_array_dirty",
            "1 if the members do not say that redundancy fits.",
            one(f64::from(u8::from(array.is_dirty()))),
        );
        let Some(upkeep) = keeper.upkeep() else {
            self.last.set(None);
            return;
        };
        let now = keeper.live.runtime().now();
        if let Some((then, done)) = self.last.replace(Some((now, upkeep.done))) {
            let time = now.saturating_since(then).as_seconds();
            let more = upkeep.done.saturating_sub(done).get() as f64;
            self.speed.set(if time > 0.0 { more / time } else { self.speed.get() });
        } else {
            self.speed.set(0.0);
        }
        let what = |value: f64| vec![format!("{{device=\"{device}\",what=\"{}\"}} {value}", upkeep.what)];
        gauge("arraylab_array_upkeep_done_bytes", "How far the upkeep under way is.", what(upkeep.done.get() as f64));
        gauge(
            "arraylab_array_upkeep_size_bytes",
            "All that the upkeep under way has to do.",
            what(upkeep.of.get() as f64),
        );
        gauge(
            "arraylab_array_upkeep_bytes_per_second",
            "How fast the upkeep under way went since the last look.",
            what(self.speed.get()),
        );
    }

    fn clients(&self, text: &mut Exposition, device: &str) {
        let totals = &self.totals;
        let all = || OPERATIONS.iter().zip(&totals.by_operation);
        let each = |value: fn(&Tally) -> u64| -> Vec<String> {
            all()
                .map(|(name, tally)| format!("{{device=\"{device}\",operation=\"{name}\"}} {}", value(tally)))
                .collect()
        };
        let one = |value: u64| vec![format!("{{device=\"{device}\"}} {value}")];
        text.family(
            "arraylab_array_requests_total",
            "counter",
            "Requests of clients that were answered.",
            each(|tally| tally.requests.get()),
        );
        text.family(
            "arraylab_array_bytes_total",
            "counter",
            "Bytes of those that were answered without an error.",
            each(|tally| tally.bytes.get()),
        );
        text.family(
            "arraylab_array_errors_total",
            "counter",
            "Requests of clients that were answered with an error.",
            each(|tally| tally.errors.get()),
        );
        let name = "arraylab_array_request_duration_seconds";
        let mut lines = Vec::new();
        for (operation, tally) in all() {
            let labels = format!("device=\"{device}\",operation=\"{operation}\"");
            let mut below = 0;
            for (count, bound) in tally.within.iter().zip(BOUNDS.iter().map(Some).chain([None])) {
                below += count.get();
                let bound = bound.map_or("+Inf".into(), |bound| bound.as_seconds().to_string());
                lines.push(format!("_bucket{{{labels},le=\"{bound}\"}} {below}"));
            }
            lines.push(format!("_sum{{{labels}}} {}", tally.time.get().as_seconds()));
            lines.push(format!("_count{{{labels}}} {below}"));
        }
        text.family(name, "histogram", "Time from a request, with its payload, to its reply.", lines);
        text.family(
            "arraylab_array_requests_in_flight",
            "gauge",
            "Requests of clients that are being carried out.",
            one(totals.under_way.get()),
        );
        text.family("arraylab_array_connections", "gauge", "Clients that are connected.", one(totals.present.get()));
        text.family("arraylab_array_connections_total", "counter", "Clients that came.", one(totals.connections.get()));
        text.family(
            "arraylab_array_refused_total",
            "counter",
            "Clients that were sent away.",
            one(totals.refused.get()),
        );
        text.family(
            "arraylab_array_client_memory_bytes",
            "gauge",
            "Memory that requests and replies take.",
            one(totals.held.get()),
        );
    }

    fn members(&self, text: &mut Exposition, device: &str) {
        let (keeper, array) = (&self.keeper, &self.keeper.array);
        let all: Vec<(usize, String, String)> = (0..array.geometry().members())
            .map(|member| {
                let name = array.device(member).map_or("-".into(), |device| device.shape().name.clone());
                let labels = format!("device=\"{device}\",member=\"{member}\",path=\"{}\"", label(&name));
                (member, name, labels)
            })
            .collect();
        let counts = |value: fn(array::MemberCounts) -> u64| -> Vec<String> {
            all.iter().map(|(member, _, labels)| format!("{{{labels}}} {}", value(array.counts(*member)))).collect()
        };
        let mut states = Vec::new();
        for (member, _, labels) in &all {
            let is = array.state(*member);
            let named = [
                ("active", is == MemberState::Active),
                ("failed", is == MemberState::Failed),
                ("rebuilding", matches!(is, MemberState::Rebuilding(_))),
            ];
            states.extend(named.map(|(name, is)| format!("{{{labels},state=\"{name}\"}} {}", u8::from(is))));
        }
        text.family("arraylab_array_member_state", "gauge", "1 for the state that a member is in.", states);
        text.family(
            "arraylab_array_member_medium_errors_total",
            "counter",
            "Reads that failed on the medium.",
            counts(|counts| counts.medium_errors),
        );
        text.family(
            "arraylab_array_member_corrected_total",
            "counter",
            "Ranges that were computed from the other members and written again.",
            counts(|counts| counts.rewritten),
        );
        text.family(
            "arraylab_array_member_corrupt_blocks_total",
            "counter",
            "Blocks that did not fit their checksum.",
            counts(|counts| counts.corrupt),
        );
        let held = keeper.held.borrow();
        let (mut requests, mut bytes, mut errors, mut again) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (_, name, labels) in &all {
            again.extend(
                held.iter().find_map(|held| held.reconnections(name)).map(|times| format!("{{{labels}}} {times}")),
            );
            let Some(tally) = held.iter().find_map(|held| held.tally(name)) else { continue };
            for (place, kind) in KINDS.iter().enumerate() {
                let labels = format!("{labels},operation=\"{kind}\"");
                requests.push(format!("{{{labels}}} {}", tally.requests[place].get()));
                bytes.push(format!("{{{labels}}} {}", tally.bytes[place].get()));
                errors.push(format!("{{{labels}}} {}", tally.errors[place].get()));
            }
        }
        text.family(
            "arraylab_array_member_reconnections_total",
            "counter",
            "Times that a member was connected again.",
            again,
        );
        text.family(
            "arraylab_array_member_requests_total",
            "counter",
            "Requests that were sent to a member, and answered.",
            requests,
        );
        text.family("arraylab_array_member_bytes_total", "counter", "Bytes of those without an error.", bytes);
        text.family(
            "arraylab_array_member_errors_total",
            "counter",
            "Requests that a member answered with an error.",
            errors,
        );
        let found = keeper.mismatches.get().map(|found| format!("{{device=\"{device}\"}} {found}"));
        text.family(
            "arraylab_array_scrub_mismatches",
            "gauge",
            "Blocks whose redundancy did not fit in the last scrub.",
            found,
        );
    }
}
