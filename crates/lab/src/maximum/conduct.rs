//! Making the measurements, in which order and for how long.

use analysis::maximum::{Direction, Findings, Kind, Loaded, Method, Sample};
use rand::Rng;
use runtime::Random;
use units::Duration;

use super::{Load, Plan};

/// A measurement shorter than this says little: the start of all streams alone takes milliseconds.
const SHORTEST: Duration = Duration::millis(200);
/// Longer ones are better spent on more repeats.
const LONGEST: Duration = Duration::seconds(5);

/// All measurements of one repeat, in the order of the result: what each device does alone stands among those of
/// independent access, whatever the methods, and so does what all do in one direction, where some read while others
/// write.
fn loads(plan: &Plan, devices: usize) -> Vec<Load> {
    let mut loads: Vec<(Kind, Loaded)> = Vec::new();
    for kind in plan.kinds() {
        let one_way = |direction| Kind { method: Method::Independent, direction, ..kind };
        let alone = |direction| (0..devices).map(move |device| (one_way(direction), Loaded::Alone(device)));
        match kind.method {
            Method::Independent => {
                loads.extend(alone(kind.direction));
                loads.extend((1..=devices).map(|count| (kind, Loaded::First(count))));
            }
            Method::Volume => {
                loads.extend(alone(kind.direction));
                loads.extend((2..=devices).map(|count| (kind, Loaded::First(count))));
            }
            Method::Simultaneous => {
                let pairs = (2..=devices).step_by(2).map(Loaded::First);
                loads.extend(pairs.clone().map(|loaded| (one_way(Direction::Read), loaded)));
                loads.extend(pairs.clone().map(|loaded| (one_way(Direction::Write), loaded)));
                loads.extend(pairs.map(|loaded| (kind, loaded)));
            }
        }
    }
    let mut once: Vec<(Kind, Loaded)> = Vec::new();
    loads.into_iter().for_each(|load| {
        if !once.contains(&load) {
            once.push(load);
        }
    });
    let measurements = once.len() as u64 * u64::from(plan.repeats);
    let time = (plan.budget / measurements.max(1)).max(SHORTEST).min(LONGEST);
    once.into_iter().map(|(kind, loaded)| Load { kind, loaded, time }).collect()
}

/// Makes all measurements, or those until the first that fails. `progress` is told what is about to be done, how many
/// measurements are behind and how many there are in all.
pub fn conduct<E>(
    plan: &Plan,
    devices: &[String],
    measure: &mut dyn FnMut(&Load) -> Result<Sample, E>,
    progress: &mut dyn FnMut(&Load, usize, usize),
) -> (Findings, Option<E>) {
    let mut findings = Findings { devices: devices.to_vec(), ..Findings::default() };
    let loads = loads(plan, devices.len());
    let whole = loads.len() * plan.repeats as usize;
    let mut done = 0;
    for repeat in 0..plan.repeats {
        for load in shuffled(&loads, plan.seed, repeat) {
            progress(&load, done, whole);
            match measure(&load) {
                Ok(sample) => findings.samples.entry((load.kind, load.loaded)).or_default().push(sample),
                Err(error) => return (findings, Some(error)),
            }
            done += 1;
        }
    }
    (findings, None)
}

/// In an order of this repeat's own (R. Fisher and F. Yates, 1938).
fn shuffled(loads: &[Load], seed: u64, repeat: u32) -> Vec<Load> {
    let mut random = Random::named(seed, &format!("order {repeat}"));
    let mut loads = loads.to_vec();
    for place in (1..loads.len()).rev() {
        loads.swap(place, (random.next_u64() % (place as u64 + 1)) as usize);
    }
    loads
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Bytes, Rate};

    fn plan(methods: &[Method], writes: bool) -> Plan {
        let sizes = vec![Bytes::kib(64), Bytes::mib(4)];
        Plan { sizes, methods: methods.to_vec(), writes, repeats: 5, budget: Duration::seconds(60), seed: 1 }
    }

    fn sample() -> Sample {
        Sample { read: Rate::bytes_per_second(1e6), ..Sample::default() }
    }

    #[test]
    fn each_method_asks_for_what_its_result_is_made_of() {
        let count = |methods: &[Method], writes| loads(&plan(methods, writes), 4).len();
        // Four alone, one to four together.
        assert_eq!(count(&[Method::Independent], false), 2 * 8);
        assert_eq!(count(&[Method::Independent], true), 2 * 16);
        // What is measured already is not measured again: the volume adds two to four.
        assert_eq!(count(&[Method::Independent, Method::Volume], false), 2 * 11);
        // Two and four, read, written, and both.
        assert_eq!(count(&[Method::Simultaneous], true), 2 * 6);
        assert_eq!(count(&[Method::Independent, Method::Volume, Method::Simultaneous], true), 2 * (16 + 6 + 2));
    }

    #[test]
    fn each_repeat_has_an_order_of_its_own_which_the_seed_decides() {
        let plan = plan(&[Method::Independent], false);
        let orders = |seed| {
            let (mut order, names) = (Vec::new(), ["a", "b", "c", "d"].map(str::to_owned));
            let mut measure = |load: &Load| {
                order.push((load.kind, load.loaded));
                Ok::<Sample, ()>(sample())
            };
            let (findings, broken) = conduct(&Plan { seed, ..plan.clone() }, &names, &mut measure, &mut |_, _, _| ());
            assert!(broken.is_none() && findings.samples.values().all(|samples| samples.len() == 5));
            order
        };
        let first = orders(1);
        let repeats: Vec<_> = first.chunks(16).collect();
        assert!(repeats.windows(2).all(|two| two[0] != two[1]), "no repeat is like the one before");
        assert_eq!(orders(1), first);
        assert_ne!(orders(2), first);
    }

    #[test]
    fn what_was_measured_before_an_error_is_kept_and_time_keeps_to_the_budget() {
        let plan = plan(&[Method::Independent], false);
        let (mut made, mut time) = (0, Duration::ZERO);
        let mut measure = |load: &Load| {
            made += 1;
            time += load.time;
            if made == 20 { Err("gone") } else { Ok(sample()) }
        };
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        let (findings, broken) = conduct(&plan, &names, &mut measure, &mut |_, _, _| ());
        assert_eq!((broken, findings.samples.values().map(Vec::len).sum::<usize>()), (Some("gone"), 19));
        assert!(time <= Duration::seconds(60) / 4, "{time}");
    }
}
