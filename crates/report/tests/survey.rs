//! The survey as people read it: golden output for a machine that is made up, writes and all.

use std::collections::HashMap;

use analysis::survey::{Access, Curve, Findings, Kind, Part, Point, Processors, Question, Sample, Survey, Tier};
use units::{Bytes, Frequency, Rate, Ratio};

/// Three disks on one link that carries two of them; every repeat a little different.
#[test]
fn a_survey_reads_like_table_32() {
    let disks: Vec<Part> =
        (0..3).map(|index| Part::device(index, format!("/dev/sd{}", ['b', 'c', 'd'][index]))).collect();
    let tree = Part {
        tier: Tier::Link,
        name: "SCSI 0:0".into(),
        on: vec!["PCI 0000:03:00.0 (mpt3sas)".into(), "the host".into()],
        below: disks,
        order: vec![0, 1, 2],
        limits: vec![],
        modelled: false,
    };
    let sample = |kind: &Kind, devices: usize, repeat: usize| {
        let rate = [200e6, 400e6, 405e6][devices - 1] * (1.0 + 0.004 * (repeat as f64 - 1.0));
        let rate = match kind.access {
            Access::Raw => rate,
            Access::Os => 0.7 * rate,
            Access::Process => 0.4 * rate,
        };
        let rate = if kind.writes { 0.9 * rate } else { rate };
        let share = |percent: f64| Ratio::percent(percent * devices as f64);
        Sample {
            bandwidth: Rate::bytes_per_second(rate),
            requests: Frequency::per_second(rate / 1e6),
            processors: Some(Processors {
                user: share(1.0),
                system: share(3.0),
                iowait: share(9.0),
                softirq: share(0.5),
                own: share(4.0),
            }),
            generator: Ratio::percent(8.0),
        }
    };
    let kinds: Vec<Kind> = [false, true]
        .into_iter()
        .flat_map(|writes| {
            [
                (Access::Raw, Question::Bandwidth),
                (Access::Raw, Question::Requests),
                (Access::Os, Question::Bandwidth),
                (Access::Os, Question::Requests),
                (Access::Process, Question::Bandwidth),
                (Access::Process, Question::Requests),
            ]
            .map(|(access, question)| Kind { access, question, writes })
        })
        .collect();
    let point = |devices: Vec<usize>| {
        let repeats = |kind: &Kind| (0..3).map(|repeat| sample(kind, devices.len(), repeat)).collect();
        let samples: HashMap<_, _> = kinds.iter().map(|kind| (*kind, repeats(kind))).collect();
        Point { devices: devices.clone(), samples }
    };
    let curves = tree.all().into_iter().map(|(path, part)| Curve {
        path,
        points: (1..=part.order.len()).map(|n| point(part.order[..n].to_vec())).collect(),
    });
    let findings = Findings { request: Bytes::mib(1), tried: vec![], curves: curves.collect() };
    insta::assert_snapshot!(report::survey(&Survey::of(&tree, &findings)));
}
