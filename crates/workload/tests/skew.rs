//! Skewed, jumping, mixed and divided addresses, against the theory. Seeds are fixed; bounds are quantiles of the
//! statistic.

use std::collections::{HashMap, HashSet};

use device::{Operation, Shape};
use units::{Bytes, Ratio};
use workload::{Generator, Jump, Law, Limits, Mix, Pattern, ReadBehind, Share, Skew, Space, Stream, StreamError, Zone};

const BLOCK: Bytes = Bytes::kib(4);

fn stream(pattern: Pattern) -> Stream {
    Stream::closed("test", Mix::READS, pattern, BLOCK, 1)
}

fn skewed(law: Law, scattered: bool) -> Stream {
    stream(Pattern::Skewed(Skew { law, scattered }))
}

/// How often each of `blocks` blocks is asked for in `n` requests.
fn counts(stream: &Stream, blocks: u64, n: u64, seed: u64) -> Vec<u64> {
    let mut generator = Generator::new(stream, BLOCK * blocks, seed);
    let mut counts = vec![0; blocks as usize];
    for _ in 0..n {
        counts[(generator.next_ask().offset / BLOCK) as usize] += 1;
    }
    counts
}

/// Pearson's statistic against these shares, in cells pooled until each expects 10; and its 99.99 % quantile, by Wilson
/// and Hilferty.
fn chi_square(counts: &[u64], shares: &[f64]) -> (f64, f64) {
    let n = counts.iter().sum::<u64>() as f64;
    let (mut statistic, mut cells, mut seen, mut expected) = (0.0, 0, 0.0, 0.0);
    for (count, share) in counts.iter().zip(shares) {
        seen += *count as f64;
        expected += share * n;
        if expected >= 10.0 {
            statistic += f64::powi(seen - expected, 2) / expected;
            (cells, seen, expected) = (cells + 1, 0.0, 0.0);
        }
    }
    let freedom = f64::from(cells - 1);
    let width = 2.0 / (9.0 * freedom);
    (statistic, freedom * (1.0 - width + 3.719 * width.sqrt()).powi(3))
}

fn agrees(what: &str, counts: &[u64], shares: &[f64]) {
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{what}: the shares are a whole");
    let (statistic, bound) = chi_square(counts, shares);
    assert!(statistic < bound, "{what}: chi-square {statistic} of at most {bound}");
}

fn zipf(exponent: f64, blocks: u64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=blocks).map(|k| (k as f64).powf(-exponent)).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

#[test]
fn zipf_gives_each_rank_its_share() {
    for exponent in [0.5, 0.99, 1.0, 1.2, 2.5] {
        let counts = counts(&skewed(Law::Zipf { exponent }, false), 1000, 200_000, 11);
        agrees(&format!("exponent {exponent}"), &counts, &zipf(exponent, 1000));
    }
}

/// Another exponent would be noticed: the test above has power.
#[test]
fn a_neighbouring_exponent_is_told_apart() {
    let counts = counts(&skewed(Law::Zipf { exponent: 1.2 }, false), 1000, 200_000, 11);
    let (statistic, bound) = chi_square(&counts, &zipf(1.22, 1000));
    assert!(statistic > bound, "{statistic} of {bound}");
}

/// Scattered ranks are the same shares on other blocks, the same ones for every seed, and not side by side.
#[test]
fn scattering_moves_ranks_and_keeps_shares() {
    let law = Law::Zipf { exponent: 1.2 };
    let [first, second] = [1, 2].map(|seed| counts(&skewed(law.clone(), true), 1000, 200_000, seed));
    let by_rank = |counts: &[u64]| {
        let mut blocks: Vec<usize> = (0..counts.len()).collect();
        blocks.sort_by_key(|block| std::cmp::Reverse(counts[*block]));
        blocks
    };
    let (one, two) = (by_rank(&first), by_rank(&second));
    assert_eq!(one[..5], two[..5], "the most wanted blocks are the same for every seed");
    assert!(one[..5].windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 1), "{:?}", &one[..5]);
    // The ranks by another seed's counts, so that no rank is chosen by what is tested.
    let ranked: Vec<u64> = two.iter().map(|block| first[*block]).collect();
    agrees("the top 20 and the rest", &pooled(&ranked, 20), &pooled(&zipf(1.2, 1000), 20));
}

fn pooled<T: Copy + std::iter::Sum<T>>(values: &[T], top: usize) -> Vec<T> {
    values[..top].iter().copied().chain([values[top..].iter().copied().sum()]).collect()
}

/// 80 % of the requests go to 20 % of the blocks, and of those 80 % to 20 % of these.
#[test]
fn pareto_is_self_similar() {
    let blocks = 10_000;
    let counts = counts(&skewed(Law::Pareto { blocks: Ratio::percent(20.0) }, false), blocks, 200_000, 5);
    let share = |part: f64| counts[..(blocks as f64 * part) as usize].iter().sum::<u64>() as f64 / 200_000.0;
    for (part, expected) in [(0.2, 0.8), (0.04, 0.64), (0.008, 0.512)] {
        let deviation = (expected * (1.0 - expected) / 200_000f64).sqrt();
        assert!((share(part) - expected).abs() < 4.0 * deviation, "{part}: {} of {expected}", share(part));
    }
    let distribution = |k: f64| (k / blocks as f64).powf(0.8f64.ln() / 0.2f64.ln());
    let shares: Vec<f64> = (0..blocks).map(|k| distribution(k as f64 + 1.0) - distribution(k as f64)).collect();
    agrees("pareto", &counts, &shares);
}

#[test]
fn a_bell_is_cut_at_the_ends_of_the_region() {
    use statrs::distribution::{ContinuousCDF, Normal};
    for (deviation, centre) in [(10.0, 50.0), (30.0, 0.0), (5.0, 100.0)] {
        let (deviation, centre) = (Ratio::percent(deviation), Ratio::percent(centre));
        let counts = counts(&skewed(Law::Normal { deviation, centre }, false), 1000, 100_000, 9);
        let normal = Normal::new(centre.get() * 1000.0, deviation.get() * 1000.0).unwrap();
        let inside = normal.cdf(1000.0) - normal.cdf(0.0);
        let share = |k: usize| (normal.cdf(k as f64 + 1.0) - normal.cdf(k as f64)) / inside;
        agrees("normal", &counts, &(0..1000).map(share).collect::<Vec<_>>());
    }
}

#[test]
fn hot_spots_and_zones_get_what_they_are_given() {
    let percent = Ratio::percent;
    let even = |parts: &[(f64, usize)]| -> Vec<f64> {
        parts.iter().flat_map(|(share, blocks)| std::iter::repeat_n(share / *blocks as f64, *blocks)).collect()
    };
    let hot = Law::HotSpot { requests: percent(90.0), space: percent(10.0), at: percent(50.0) };
    let expected = even(&[(0.1 * 50.0 / 90.0, 50), (0.9, 10), (0.1 * 40.0 / 90.0, 40)]);
    agrees("hot spot", &counts(&skewed(hot, false), 100, 100_000, 3), &expected);
    // fio's example, and what is left of the requests in what is left of the region.
    let zone = |requests, space| Zone { requests: percent(requests), space };
    let zones = Law::Zones(vec![
        zone(60.0, Space::Share(percent(10.0))),
        zone(30.0, Space::Size(BLOCK * 20)),
        zone(0.0, Space::Share(percent(30.0))),
    ]);
    let counts = counts(&skewed(zones, false), 100, 100_000, 3);
    assert_eq!(counts[30..60].iter().sum::<u64>(), 0, "a zone without requests is left alone");
    agrees("zones", &counts, &even(&[(0.6, 10), (0.3, 20), (0.0, 30), (0.1, 40)]));
}

#[test]
fn zones_that_cannot_be_are_refused_in_words() {
    let device = Shape::new("sdb", BLOCK * 100);
    let zones = |zones: &[(f64, Bytes)]| {
        let zone =
            |(requests, size): &(f64, Bytes)| Zone { requests: Ratio::percent(*requests), space: Space::Size(*size) };
        skewed(Law::Zones(zones.iter().map(zone).collect()), false).check(&device).unwrap_err()
    };
    assert_eq!(
        zones(&[(50.0, BLOCK * 101)]).to_string(),
        "stream 'test' cannot be drawn from its 100 blocks on sdb: its zones are larger than the region; change its pattern, or take a larger region"
    );
    assert!(matches!(zones(&[(50.0, BLOCK * 100)]), StreamError::Skew { .. }), "the other half has no block to go to");
    assert!(matches!(zones(&[(50.0, Bytes::ZERO)]), StreamError::Skew { .. }));
    assert!(matches!(zones(&[(80.0, BLOCK), (30.0, BLOCK)]), StreamError::Skew { .. }));
}

#[test]
fn runs_are_as_long_as_they_are_said_to_be() {
    let mut generator = Generator::new(&stream(Pattern::Jumping(Jump::After(8))), BLOCK * 1_000_000, 4);
    let offsets: Vec<u64> = (0..8000).map(|_| generator.next_ask().offset / BLOCK).collect();
    let jumps: Vec<usize> = (1..8000).filter(|index| offsets[*index] != offsets[index - 1] + 1).collect();
    assert_eq!(jumps.len(), 999);
    assert!(jumps.iter().all(|index| index % 8 == 0));
}

#[test]
fn jumps_come_with_their_chance_and_a_random_start_wraps_round() {
    let mut generator =
        Generator::new(&stream(Pattern::Jumping(Jump::Chance(Ratio::percent(30.0)))), BLOCK * 1_000_000, 4);
    let offsets: Vec<u64> = (0..100_000).map(|_| generator.next_ask().offset / BLOCK).collect();
    let jumps = offsets.windows(2).filter(|pair| pair[1] != pair[0] + 1).count() as f64;
    assert!((jumps - 30_000.0).abs() < 5.0 * (100_000f64 * 0.3 * 0.7).sqrt(), "{jumps} jumps");

    let starts: HashSet<u64> = (0..100)
        .map(|seed| {
            let mut generator = Generator::new(&stream(Pattern::Jumping(Jump::Never)), BLOCK * 50, seed);
            let offsets: Vec<u64> = (0..100).map(|_| generator.next_ask().offset / BLOCK).collect();
            assert!(offsets.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 50), "{offsets:?}");
            offsets[0]
        })
        .collect();
    assert!(starts.len() > 30, "100 beginnings on 50 blocks: {}", starts.len());
}

/// Three in four requests are random; the fourth goes on where the last fourth one ended.
#[test]
fn a_mixture_keeps_its_shares_and_each_part_its_place() {
    let mixed = Pattern::Mixed(vec![(Pattern::Random, 3), (Pattern::Sequential { from: Bytes::ZERO }, 1)]);
    let mut generator = Generator::new(&stream(mixed), BLOCK * 1_000_000_000, 4);
    let mut next = Bytes::ZERO;
    let sequential = (0..40_000).filter(|_| {
        let hit = generator.next_ask().offset == next;
        next = if hit { next + BLOCK } else { next };
        hit
    });
    let sequential = sequential.count() as f64;
    assert!((sequential - 10_000.0).abs() < 5.0 * (40_000f64 * 0.25 * 0.75).sqrt(), "{sequential} in sequence");
}

/// Four copies, staggered or interleaved, touch every block once a lap, between them.
#[test]
fn divided_regions_are_whole() {
    let device = Shape::new("d", BLOCK * 64);
    let staggered =
        |part| Stream { share: Some(Share { part, of: 4 }), ..stream(Pattern::Sequential { from: Bytes::ZERO }) };
    let interleaved = |part| stream(Pattern::Strided { stride: BLOCK * 4, from: BLOCK * u64::from(part) });
    for divided in [&staggered as &dyn Fn(u32) -> Stream, &interleaved] {
        let mut seen = HashMap::new();
        for part in 0..4 {
            let mut writer = divided(part);
            writer.mix = Mix::WRITES;
            writer.check(&device).unwrap();
            (0..part).for_each(|other| {
                writer.check_overlap(&Stream { mix: Mix::WRITES, ..divided(other) }, &device).unwrap();
            });
            let mut generator = Generator::new(&writer, device.size, 1);
            (0..48).for_each(|_| *seen.entry(generator.next_ask().offset / BLOCK).or_insert(0) += 1);
        }
        assert_eq!(seen.len(), 64);
        assert!(seen.values().all(|times| *times == 3), "three laps");
    }
    let close = Stream { mix: Mix::WRITES, ..stream(Pattern::Strided { stride: BLOCK * 4, from: Bytes::new(2048) }) };
    let first = Stream { mix: Mix::WRITES, ..interleaved(0) };
    assert!(matches!(first.check_overlap(&close, &device), Err(StreamError::OverlappingWrites { .. })));
}

#[test]
fn a_lap_is_what_whole_requests_find_room_for() {
    let lap = |size: Bytes, align: Bytes, device: Bytes| {
        let stream = Stream { align, ..Stream::closed("l", Mix::READS, Pattern::Random, size, 1) };
        stream.lap(device)
    };
    assert_eq!(lap(BLOCK, BLOCK, BLOCK * 10 + Bytes::SECTOR), BLOCK * 10);
    assert_eq!(lap(Bytes::SECTOR, BLOCK, BLOCK * 10), Bytes::SECTOR * 10);
    assert_eq!(Limits::NONE.laps, None);
}

/// What is read was written, and completed, with at least the lag of writes completed after it.
#[test]
fn reads_stay_behind_writes() {
    let mut both = stream(Pattern::RandomOnce);
    (both.mix, both.behind) = (Mix::WRITES, Some(ReadBehind { lag: 5, lap: None }));
    let mut generator = Generator::new(&both, BLOCK * 1000, 8);
    let (mut written, mut under_way, mut reads) = (Vec::new(), Vec::new(), 0);
    for turn in 0..1000 {
        let ask = generator.next_ask();
        match ask.operation {
            Operation::Read => {
                assert_eq!(written[reads], ask.offset, "in the order of completion");
                assert!(written.len() - reads > 5);
                reads += 1;
            }
            _ => under_way.push(ask),
        }
        // Completions come in bunches, out of order.
        if turn % 3 == 0 {
            for done in under_way.drain(..).rev() {
                generator.ended(&done, true);
                written.push(done.offset);
            }
        }
    }
    assert!(reads > 450, "as many reads as writes once the lag is there: {reads}");
}
