//! An explanation as people read it: the limit first, then what it rests on.

use analysis::ErrorCount;
use analysis::explain::{Explanation, Formulas, Limit, LimitKind, PartTime};
use analysis::rounds::{Deltas, Rounds};
use units::{Duration, Rate, Ratio};

use crate::Table;
use crate::text::{sentence, wrapped};

/// Phases of a modelled machine's parts, at most so many; the rest is less than the least of them.
const PHASES: usize = 20;

/// The whole explanation as text.
pub fn explanation(explanation: &Explanation) -> String {
    let mut text = wrapped(limit(explanation).trim_end());
    next(explanation).iter().for_each(|line| text.push_str(&wrapped(line)));
    if !explanation.excluded.is_empty() {
        text.push_str("\nWhat does not limit\n\n");
        excluded(explanation).for_each(|line| text.push_str(&wrapped(&format!("* {line}"))));
    }
    if !explanation.devices.is_empty() {
        text.push_str(&format!("\nWhere the time of requests went\n\n{}", devices(explanation)));
        failures(explanation).for_each(|line| text.push_str(&format!("\n{}", wrapped(&line))));
        text.push_str(&generator(explanation).map_or(String::new(), |said| format!("\n{said}\n")));
    }
    if !explanation.timeline.is_empty() {
        text.push_str(&format!("\nThe way through the kernel\n\n{}", timeline(&explanation.timeline)));
    }
    if !explanation.shared.is_empty() {
        text.push_str("\nWhat they share\n\n");
        shared(explanation).for_each(|line| text.push_str(&wrapped(&line)));
    }
    match (&explanation.rounds, &explanation.no_rounds) {
        (Some(rounds), _) => {
            text.push_str(&self::rounds(rounds));
            if let Some(beside) = &explanation.formulas {
                let about = wrapped(&about_formulas(beside));
                text.push_str(&format!("\nRounds by formulas\n\n{}{about}", formulas(beside)));
            }
        }
        (None, Some(why)) => text.push_str(&wrapped(&format!("\nRounds: {why}"))),
        (None, None) => {}
    }
    if !explanation.parts.is_empty() {
        text.push_str(&format!("\nParts\n\n{}", phases(&explanation.parts)));
    }
    if !explanation.ladder.is_empty() {
        text.push_str(&format!("\nWhat each part allows if it alone limits\n\n{}", ladder(explanation)));
    }
    if !explanation.what_if.is_empty() {
        text.push_str("\nWhat a change would bring\n\n");
        changes(explanation).for_each(|line| text.push_str(&wrapped(&format!("* {line}"))));
    }
    if !explanation.worst.is_empty() {
        text.push_str(&format!("\nThe longest requests\n\n{}", worst(explanation)));
    }
    for remark in &explanation.remarks {
        text.push_str(&format!("\n{}", wrapped(remark)));
    }
    advice(explanation).for_each(|line| text.push_str(&format!("\n{}", wrapped(&format!("advice: {line}")))));
    text
}

/// What limits, and on what evidence.
pub(crate) fn limit(explanation: &Explanation) -> String {
    let limit = &explanation.limit;
    // Of these the share is one of time or of bytes, which the evidence says.
    let is_use = !matches!(limit.kind, LimitKind::Neighbour | LimitKind::Stall | LimitKind::Cache | LimitKind::Holes);
    let used = limit.utilization.filter(|_| is_use).map_or(String::new(), |used| format!(" ({used} used)"));
    let evidence: Vec<String> = limit.evidence.iter().map(|one| sentence(one)).collect();
    format!("What limits: {}{used}. {} {}", limit.part, evidence.join(" "), sureness(limit))
}

/// How sure a verdict is.
fn sureness(limit: &Limit) -> String {
    match limit.confidence.get() {
        none if none <= 0.0 => String::new(),
        half if half <= 0.5 => "The verdict is open.".to_owned(),
        _ => format!("The verdict is {} sure.", limit.confidence),
    }
}

/// What limits next.
pub(crate) fn next(explanation: &Explanation) -> Option<String> {
    explanation.next.as_ref().map(|next| format!("What limits next: {}", next.part))
}

/// What does not limit, and why.
pub(crate) fn excluded(explanation: &Explanation) -> impl Iterator<Item = String> {
    explanation.excluded.iter().map(|excluded| format!("{}: {}", name(excluded.kind), excluded.because))
}

/// A kind of limit in words.
fn name(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::Load => "the load",
        LimitKind::Depth => "the depth",
        LimitKind::Device => "a device",
        LimitKind::Shared => "a shared part",
        LimitKind::Processors => "the processors",
        LimitKind::Generator => "the generator",
        LimitKind::Throttle => "a throttle",
        LimitKind::Cache => "the page cache",
        LimitKind::Holes => "holes",
        LimitKind::Neighbour => "other programs' I/O",
        LimitKind::Stall => "stalls",
        LimitKind::None => "nothing",
    }
}

/// What failed, device by device.
pub(crate) fn failures(explanation: &Explanation) -> impl Iterator<Item = String> {
    explanation.devices.iter().filter(|device| device.errors > 0).map(|device| {
        let named = |error: &ErrorCount| {
            let name = std::io::Error::from_raw_os_error(i32::from(error.errno));
            if device.errors_by_errno.len() > 1 { format!("{} by {name}", error.count) } else { name.to_string() }
        };
        let each: Vec<String> = device.errors_by_errno.iter().map(named).collect();
        format!(
            "{} of {} requests to {} failed: {}. They count in no rate and in no round.",
            device.errors,
            device.errors + device.requests,
            device.device,
            each.join(", ")
        )
    })
}

/// What the generator used, if that is known.
pub(crate) fn generator(explanation: &Explanation) -> Option<String> {
    let busy = explanation.generator_busy.map(Ratio::new);
    busy.map(|busy| format!("The generator used {busy} of its processor."))
}

/// Who shares what.
pub(crate) fn shared(explanation: &Explanation) -> impl Iterator<Item = String> {
    explanation.shared.iter().map(|shared| {
        let all = shared.devices.len() == explanation.devices.len();
        let who = if all { "all devices".to_owned() } else { shared.devices.join(", ") };
        format!("{who}: {}", shared.part)
    })
}

/// What a change would bring.
pub(crate) fn changes(explanation: &Explanation) -> impl Iterator<Item = String> {
    let changes = explanation.what_if.iter();
    changes
        .map(|change| format!("{}: {:.2} times as much at most ({})", change.change, change.high.get(), change.source))
}

/// What should be measured otherwise.
pub(crate) fn advice(explanation: &Explanation) -> impl Iterator<Item = String> {
    explanation.advice.iter().map(|advice| {
        let option = advice.option.as_ref().map_or(String::new(), |option| format!(" (change {option})"));
        format!("{}{option}", advice.message)
    })
}

/// What each part of a modelled machine allows.
pub(crate) fn ladder(explanation: &Explanation) -> Table {
    let mut table = Table::new(["", "busy", "bandwidth", "requests/s"]);
    for rung in &explanation.ladder {
        let requests = format!("{:.0}", rung.iops.get());
        table.row([rung.part.clone(), rung.utilization.to_string(), rung.bandwidth.to_string(), requests]);
    }
    table
}

/// Where the time of each device's requests went.
pub(crate) fn devices(explanation: &Explanation) -> Table {
    let headings = ["device", "requests", "busy", "under way", "waiting", "at the device", "Little's law"];
    let mut table = Table::new(headings);
    for device in &explanation.devices {
        table.row([
            device.device.clone(),
            device.requests.to_string(),
            device.busy.to_string(),
            format!("{:.2}", device.mean_depth),
            device.wait.to_string(),
            device.service.to_string(),
            if device.imbalance.get() <= 0.05 { "holds".to_owned() } else { format!("off by {}", device.imbalance) },
        ]);
    }
    table
}

fn rounds(rounds: &Rounds) -> String {
    let how = threshold(rounds);
    let order = wrapped(&order(rounds));
    let strays = rounds.strays().map_or(String::new(), |said| wrapped(&format!("{said}.")));
    format!("\n{}{strays}\n{}{how}\n\n{}{order}", wrapped(&verdict(rounds)), deltas(rounds), service(rounds))
}

/// Whether there are rounds, and the evidence.
pub(crate) fn verdict(rounds: &Rounds) -> String {
    let verdict = if rounds.found { "Rounds: yes" } else { "Rounds: no" };
    format!("{verdict}. {}", sentence(&rounds.evidence))
}

/// Large and small deltas.
pub(crate) fn deltas(rounds: &Rounds) -> Table {
    let mut table = Table::new(["delta", "count", "mean", "deviation", "least", "greatest"]);
    for (name, deltas) in [("large", &rounds.large), ("small", &rounds.small)] {
        table.row(cells(name, deltas));
    }
    table
}

/// What tells them apart.
pub(crate) fn threshold(rounds: &Rounds) -> String {
    let how = if rounds.threshold_given { "as given" } else { "found in the deltas" };
    format!("threshold {}, {how}", rounds.threshold)
}

/// In which order devices are served.
pub(crate) fn service(rounds: &Rounds) -> Table {
    let mut table = Table::new(["device", "served", "share", "first in a round", "mean place"]);
    for device in &rounds.devices {
        let place = device.mean_place.map_or("-".to_owned(), |place| format!("{place:.2}"));
        table.row([
            device.device.clone(),
            device.completions.to_string(),
            device.share.to_string(),
            device.first.to_string(),
            place,
        ]);
    }
    for stray in &rounds.left_out {
        let none = "-".to_owned();
        table.row([stray.device.clone(), stray.completions.to_string(), stray.share.to_string(), none.clone(), none]);
    }
    table
}

/// How evenly, and how much alike from round to round.
pub(crate) fn order(rounds: &Rounds) -> String {
    format!(
        "fairness {:.3} (1: all are served equally often); {} of rounds repeat the order of the one before",
        rounds.fairness.get(),
        rounds.order_repeats
    )
}

/// What the formulas are.
pub(crate) fn about_formulas(beside: &Formulas) -> String {
    let bus = &beside.predicted.constants;
    let whole = |rate: Rate| Rate::bytes_per_second(rate.get().round());
    format!(
        "The formulas are those of `arraylab predict rounds`, with the constants of the modelled machine, which differ from its defaults, the study's printed ones: {bus}. \
         The same again: arraylab predict rounds --disks {} --block '{:#}' --rate '{:#}' --media '{:#}' --revolution '{:#}' --seek-least '{:#}' --seek-mean '{:#}' --seek-greatest '{:#}' --fence '{}' --overhead '{:#}'",
        bus.disks,
        bus.block,
        whole(bus.rate),
        whole(bus.media),
        bus.revolution,
        bus.seek.least,
        bus.seek.mean,
        bus.seek.greatest,
        bus.fence.as_percent().to_string() + " %",
        bus.overhead
    )
}

/// What the formulas give beside what was measured.
pub(crate) fn formulas(beside: &Formulas) -> Table {
    let predicted = &beside.predicted;
    let mut table = Table::new(["", "measured", "formulas"]);
    let time = |time: Option<Duration>| time.map_or("-".to_owned(), |time| time.to_string());
    let none = "-".to_owned();
    for (name, measured, formula) in [
        ("large delta", time(beside.large), predicted.large.to_string()),
        ("small delta", time(beside.small), predicted.transfer.to_string()),
        ("a round", beside.round.to_string(), predicted.round.to_string()),
        ("least positioning time", none.clone(), predicted.positioning_min.to_string()),
        ("bandwidth", beside.bandwidth.to_string(), predicted.bandwidth.to_string()),
        ("if no disk waited for others", none.clone(), predicted.independent.to_string()),
        ("pipelined at best", none, predicted.pipelined.to_string()),
    ] {
        table.row([name.to_owned(), measured, formula]);
    }
    table
}

fn cells(name: &str, deltas: &Deltas) -> [String; 6] {
    let time = |time: Option<Duration>| time.map_or("-".to_owned(), |time| time.to_string());
    [
        name.to_owned(),
        deltas.count.to_string(),
        time(deltas.mean),
        time(deltas.deviation),
        time(deltas.least),
        time(deltas.greatest),
    ]
}

/// Where the time went in the parts of a modelled machine.
pub(crate) fn phases(parts: &[PartTime]) -> Table {
    let mut table = Table::new(["part", "phase", "busy", "count", "mean", "share of all time"]).left(1);
    let mut all: Vec<_> = parts.iter().flat_map(|part| part.phases.iter().map(move |phase| (part, phase))).collect();
    all.sort_by(|a, b| b.1.share.get().total_cmp(&a.1.share.get()));
    for (part, phase) in all.into_iter().take(PHASES) {
        table.row([
            part.part.clone(),
            phase.phase.clone(),
            part.busy.to_string(),
            phase.count.to_string(),
            phase.mean.to_string(),
            phase.share.to_string(),
        ]);
    }
    table
}

/// Where live requests were on their way through the kernel, in the order of that way.
pub(crate) fn timeline(devices: &[PartTime]) -> Table {
    let mut table = Table::new(["device", "phase", "count", "mean", "share of all time"]).left(1);
    for (device, phase) in devices.iter().flat_map(|device| device.phases.iter().map(move |phase| (device, phase))) {
        table.row([
            device.part.clone(),
            phase.phase.clone(),
            phase.count.to_string(),
            phase.mean.to_string(),
            phase.share.to_string(),
        ]);
    }
    table
}

/// The requests that took longest.
pub(crate) fn worst(explanation: &Explanation) -> Table {
    let mut table =
        Table::new(["due at", "device", "operation", "offset", "size", "waited", "at the device"]).left(1).left(2);
    for worst in &explanation.worst {
        table.row([
            worst.at.to_string(),
            worst.device.clone(),
            worst.operation.to_owned(),
            worst.offset.to_string(),
            worst.length.to_string(),
            worst.wait.to_string(),
            worst.service.to_string(),
        ]);
    }
    table
}
