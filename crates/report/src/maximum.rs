//! How much a host takes, as text of 80 columns: rates by number of devices, the curve, its knee, and what reading
//! while writing costs.

use analysis::knee::{Knee, KneeVerdict, Value};
use analysis::maximum::{Curve, Direction, Interference, Maximum, Method, Point};
use units::{Rate, Ratio};

use crate::Table;
use crate::text::wrapped_to;

/// Columns of a terminal.
const WIDTH: usize = 80;
/// Sizes beside each other in a table.
const ABREAST: usize = 3;
/// Letters of the longest bar.
const BAR: f64 = 50.0;
/// Stalls that are listed.
const STALLS: usize = 6;
/// A point of so few requests is quoted with a warning: each is more than 5 percent of it.
const FEW: u64 = 20;
/// From this share of its time on, the busiest thread of the generator, or all processors, may be the limit.
const SATURATED: f64 = 0.9;

/// The whole result, and what a reader must know besides.
pub fn maximum(maximum: &Maximum, remarks: &[String]) -> String {
    if maximum.curves.is_empty() {
        return "nothing was measured before the end\n".to_owned();
    }
    let devices = maximum.devices.iter().zip(1..).map(|(device, number)| format!("{number} {device}"));
    let devices = devices.collect::<Vec<_>>().join(", ");
    let mut text = wrapped_to(&format!("Devices, in the order in which they are added: {devices}"), WIDTH);
    text.push('\n');
    for of in groups(maximum) {
        text.push_str(&format!("{}\n\n", heading(of[0])));
        rates(&of).iter().for_each(|table| text.push_str(&format!("{table}\n")));
        text.push_str(&curve(of[0].method, best(&of)));
        text.push('\n');
        of.iter().for_each(|curve| text.push_str(&wrapped_to(&format!("* {}", verdict(curve)), WIDTH)));
        text.push('\n');
    }
    if !maximum.interference.is_empty() {
        text.push_str(&format!("Reading while writing\n\n{}\n", interference(&maximum.interference)));
        text.push_str(&wrapped_to(INTERFERENCE, WIDTH));
        text.push('\n');
    }
    if !maximum.stalls.is_empty() {
        text.push_str("Stalls: single requests that took much longer than the others\n\n");
        text.push_str(&format!("{}\n", stalls(maximum)));
        if maximum.stalls.len() > STALLS {
            text.push_str(&format!("and {} more, in the JSON\n\n", maximum.stalls.len() - STALLS));
        }
    }
    advice(maximum).iter().for_each(|line| text.push_str(&wrapped_to(&format!("advice: {line}"), WIDTH)));
    remarks.iter().for_each(|line| text.push_str(&wrapped_to(&format!("remark: {line}"), WIDTH)));
    text.push_str(&wrapped_to(LEGEND, WIDTH));
    text
}

/// What the words mean.
pub(crate) const LEGEND: &str =
    "Each rate is the median of its repeats. loss: what is missing from the sum of what the devices do alone.";

pub(crate) const INTERFERENCE: &str = "expected: half of what all devices do reading, and half of what they do writing. lost: what is missing from that, with its 95 % interval; below zero it is more.";

/// The curves of a method and direction together, by size.
pub(crate) fn groups(maximum: &Maximum) -> Vec<Vec<&Curve>> {
    let mut groups: Vec<Vec<&Curve>> = Vec::new();
    for curve in &maximum.curves {
        match groups.last_mut().filter(|group| (group[0].method, group[0].direction) == (curve.method, curve.direction))
        {
            Some(group) => group.push(curve),
            None => groups.push(vec![curve]),
        }
    }
    groups
}

/// What a curve is of.
pub(crate) fn heading(curve: &Curve) -> String {
    let direction = match curve.direction {
        Direction::Read => "reads",
        Direction::Write => "writes",
        Direction::Both => "reads of the first half and writes of the second",
    };
    match curve.method {
        Method::Independent => format!("Independent {direction}, one request under way on each device"),
        Method::Volume => format!("Logical volume, {direction} of one step for each device at a time"),
        Method::Simultaneous => format!("Simultaneous {direction}"),
    }
}

/// Rates and losses by number of devices, so many sizes beside each other.
pub(crate) fn rates(curves: &[&Curve]) -> Vec<Table> {
    let table = |curves: &[&Curve]| {
        let sizes = curves.iter().flat_map(|curve| [curve.request.to_string(), "loss".to_owned()]);
        let mut table = Table::new(std::iter::once("devices".to_owned()).chain(sizes));
        let mut counts: Vec<usize> = curves.iter().flat_map(|curve| &curve.points).map(|point| point.devices).collect();
        counts.sort_unstable();
        counts.dedup();
        for count in counts {
            let cells =
                curves.iter().flat_map(|curve| match curve.points.iter().find(|point| point.devices == count) {
                    Some(point) => [point.bandwidth.to_string(), point.loss.map_or(String::new(), percent)],
                    None => ["-".to_owned(), String::new()],
                });
            table.row(std::iter::once(count.to_string()).chain(cells));
        }
        table
    };
    curves.chunks(ABREAST).map(table).collect()
}

/// The curve with the highest rate.
pub(crate) fn best<'c>(curves: &[&'c Curve]) -> &'c Curve {
    let most = |curve: &Curve| curve.points.iter().map(|point| point.bandwidth.get()).fold(0.0, f64::max);
    curves.iter().copied().max_by(|a, b| most(a).total_cmp(&most(b))).expect("a group has a curve")
}

/// A bar a point, and dots up to the sum of what the devices do alone.
fn curve(method: Method, curve: &Curve) -> String {
    let reach = |point: &Point| point.bandwidth.get().max(point.expected.unwrap_or(0.0));
    let most = curve.points.iter().map(reach).fold(f64::MIN_POSITIVE, f64::max);
    let letters = |rate: f64| (rate / most * BAR).round() as usize;
    let alone = if method == Method::Simultaneous { "" } else { ", .... the sum of what they do alone" };
    let mut text = format!("By {}: #### measured{alone}\n", curve.request);
    for point in &curve.points {
        let measured = letters(point.bandwidth.get());
        let missing = letters(point.expected.unwrap_or(0.0)).saturating_sub(measured);
        let bar = format!("{}{}", "#".repeat(measured), ".".repeat(missing));
        text.push_str(&format!("{:>7}  {bar:<width$}  {}\n", point.devices, point.bandwidth, width = BAR as usize));
    }
    text
}

/// What is to be said of a curve.
pub(crate) fn verdict(curve: &Curve) -> String {
    let last = curve.points.last().expect("a curve has points");
    let size = curve.request;
    let Some(knee) = &curve.knee else {
        let together = format!("{size}: {} with {} devices", last.bandwidth, last.devices);
        return match curve.direction {
            Direction::Both => together,
            _ => format!("{together}; no knee is looked for with fewer than three points or without repeats"),
        };
    };
    let kept = shares(knee.efficiency);
    let said = match knee.verdict {
        KneeVerdict::Knee { devices, rate, further, confidence } => {
            let behind = match further {
                0.0 => "a further device brings nothing".to_owned(),
                further if further < 0.0 => {
                    format!("a further device takes {} of its own rate from the others", percent(-further))
                }
                further => format!("a further device brings {} of its own rate", percent(further)),
            };
            format!(
                "the knee is at {:.1} devices ({:.1} to {:.1}) and {} ({} to {}), {}: behind it {behind}{}",
                devices.value,
                devices.low,
                devices.high,
                amount(rate.value),
                amount(rate.low),
                amount(rate.high),
                sure(confidence),
                generator(last)
            )
        }
        KneeVerdict::None => {
            format!("no knee up to {} devices, which together do {kept} of what they do alone", last.devices)
        }
        KneeVerdict::Loss { share } => format!(
            "no knee up to {} devices, but each further one costs {} of the rate of one: together they do {kept} of what they do alone{}",
            last.devices,
            percent(share),
            generator(last)
        ),
        KneeVerdict::Unclear { repeats } => format!(
            "unclear: single measurements scatter by {}, and {} devices do {kept} of what they do alone; take --repeats {repeats}, or find what else uses the devices",
            knee.noise, last.devices
        ),
    };
    format!("{size}: {said}. {}", beyond(knee))
}

/// What limits may be the measuring program itself.
fn generator(last: &Point) -> String {
    if last.generator.get() >= SATURATED {
        return format!(
            "; but the load generator was busy for {} of the time: the limit may be its own",
            last.generator
        );
    }
    match last.processors.filter(|busy| *busy >= SATURATED) {
        Some(busy) => {
            format!(
                "; but the processors were busy for {} of the time, with this and other programs: the limit may be theirs",
                percent(busy)
            )
        }
        None => String::new(),
    }
}

fn beyond(knee: &Knee) -> String {
    let each = knee.beyond.iter().map(|beyond| {
        let Value { value, low, high } = beyond.rate;
        format!("{} would do {} ({} to {})", beyond.devices, amount(value), amount(low), amount(high))
    });
    format!("If nothing else limits before, {}", each.collect::<Vec<_>>().join(", "))
}

fn shares(value: Value) -> String {
    format!("{} ({} to {})", percent(value.value), percent(value.low), percent(value.high))
}

/// Half of the devices read, half write.
pub(crate) fn interference(of: &[Interference]) -> Table {
    let mut table = Table::new(["request", "devices", "read", "written", "expected", "lost", "from", "to"]);
    for one in of {
        table.row([
            one.request.to_string(),
            one.devices.to_string(),
            one.read.to_string(),
            one.written.to_string(),
            one.expected.to_string(),
            percent(one.lost.value),
            percent(one.lost.low),
            percent(one.lost.high),
        ]);
    }
    table
}

/// What cost the most. Devices are named by their number in the list, as a path may be longer than a line.
pub(crate) fn stalls(maximum: &Maximum) -> Table {
    let headings = ["device", "devices", "request", "requests", "longest", "usual", "its number", "of the loss"];
    let mut table = Table::new(headings);
    for stall in maximum.stalls.iter().take(STALLS) {
        let number = maximum.devices.iter().position(|device| *device == stall.device);
        table.row([
            number.map_or(String::new(), |number| (number + 1).to_string()),
            stall.devices.to_string(),
            stall.request.to_string(),
            stall.count.to_string(),
            stall.longest.to_string(),
            stall.usual.to_string(),
            stall.number.to_string(),
            stall.share_of_loss.map_or("no loss".to_owned(), percent),
        ]);
    }
    table
}

/// What about the measurements should not be trusted, and which option to change.
pub(crate) fn advice(maximum: &Maximum) -> Vec<String> {
    let points = maximum.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
    let fewest = points.min_by_key(|(_, point)| point.fewest);
    let few = fewest.filter(|(_, point)| point.fewest < FEW).map(|(curve, point)| {
        format!(
            "with requests of {} and {} devices a repeat counted only {} on one of them, and each is more than 5 % of its rate; give more --time, or smaller --sizes",
            curve.request, point.devices, point.fewest
        )
    });
    few.into_iter().collect()
}

fn percent(share: f64) -> String {
    // A ratio is never below zero.
    let sign = if share < 0.0 { "-" } else { "" };
    format!("{sign}{}", Ratio::new(share.abs()))
}

fn amount(rate: f64) -> Rate {
    Rate::bytes_per_second(rate.max(0.0))
}

fn sure(confidence: Ratio) -> String {
    if confidence.get() > 0.99 { "over 99 % sure".to_owned() } else { format!("{confidence} sure") }
}
