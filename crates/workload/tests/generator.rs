//! What streams ask for, whatever they are.

use std::collections::{HashMap, HashSet};

use device::{Operation, Shape};
use proptest::prelude::*;
use runtime::Random;
use units::{Bytes, Duration, Frequency, Instant, Ratio};
use workload::{
    Arrivals, Clockwork, Generator, Jump, Law, Mix, Pattern, Permutation, Region, Sizes, Skew, Stream, StreamError,
    Zoned,
};

fn stream(pattern: Pattern, size: Bytes) -> Stream {
    Stream::closed("test", Mix::READS, pattern, size, 1)
}

fn skews() -> impl Strategy<Value = Law> {
    let percent = |n: u32| Ratio::percent(f64::from(n));
    prop_oneof![
        (1..400u32).prop_map(|hundredths| Law::Zipf { exponent: f64::from(hundredths) / 100.0 }),
        (1..100u32).prop_map(move |n| Law::Pareto { blocks: percent(n) }),
        (1..=100u32, 0..=100u32).prop_map(move |(deviation, centre)| Law::Normal {
            deviation: percent(deviation),
            centre: percent(centre)
        }),
        (1..=100u32, 10..50u32, 0..50u32).prop_map(move |(requests, space, at)| Law::HotSpot {
            requests: percent(requests),
            space: percent(space),
            at: percent(at)
        }),
    ]
}

proptest! {
    #[test]
    fn a_permutation_gives_every_number_once(n in 1..5000u64, seed: u64) {
        let order = Permutation::new(n, seed);
        let seen: HashSet<_> = (0..n).map(|index| order.at(index)).collect();
        prop_assert_eq!(seen.len() as u64, n);
        prop_assert!(seen.iter().all(|number| *number < n));
    }

    #[test]
    fn requests_stay_in_their_region_and_on_their_alignment(
        pattern in prop_oneof![
            (0..64u64).prop_map(|n| Pattern::Sequential { from: Bytes::SECTOR * n }),
            (1..64u64, 0..64u64)
                .prop_map(|(n, from)| Pattern::Strided { stride: Bytes::SECTOR * n, from: Bytes::SECTOR * from }),
            prop_oneof![Just(Jump::Never), (1..9u64).prop_map(Jump::After), Just(Jump::Chance(Ratio::percent(30.0)))]
                .prop_map(Pattern::Jumping),
            (skews(), any::<bool>()).prop_map(|(law, scattered)| Pattern::Skewed(Skew { law, scattered })),
            Just(Pattern::Mixed(vec![(Pattern::Random, 3), (Pattern::Sequential { from: Bytes::ZERO }, 1)])),
            Just(Pattern::Random),
        ],
        sizes in prop::collection::vec((1..32u64, 1..9u32), 1..4),
        align in 1..9u64, start in 0..100u64, extra in 0..1000u64, seed: u64,
    ) {
        let mut stream = stream(pattern.clone(), Bytes::SECTOR);
        stream.sizes = Sizes::weighted(sizes.iter().map(|(n, weight)| (Bytes::SECTOR * *n, *weight))).unwrap();
        stream.align = Bytes::SECTOR * align;
        stream.mix = Mix { reads: Ratio::percent(50.0) };
        let length = Bytes::SECTOR * (extra + 64 + 32); // the furthest step and the largest request
        stream.region = Region { start: Bytes::SECTOR * start, length: Some(length) };
        let device = Shape::new("d", stream.region.start + length);
        stream.check(&device).unwrap();
        let mut generator = Generator::new(&stream, device.size, seed);
        let again = Generator::new(&stream, device.size, seed);
        let asks: Vec<_> = (0..500).map(|_| generator.next_ask()).collect();
        for ask in &asks {
            prop_assert!(ask.offset >= stream.region.start && ask.offset + ask.length <= device.size);
            if matches!(pattern, Pattern::Random | Pattern::Skewed(_) | Pattern::Jumping(_)) {
                prop_assert!((ask.offset - stream.region.start).is_multiple_of(stream.align));
            }
            prop_assert!(stream.sizes.each().any(|size| size == ask.length));
        }
        let mut again = again;
        prop_assert!(asks.iter().all(|ask| *ask == again.next_ask()), "the same seed asks the same");
    }

    #[test]
    fn random_once_visits_every_block_once_a_round(blocks in 1..800u64, tail in 0..8u64, seed: u64) {
        let size = Bytes::kib(4);
        let device = size * blocks + Bytes::SECTOR * tail;
        let mut generator = Generator::new(&stream(Pattern::RandomOnce, size), device, seed);
        for _round in 0..3 {
            let seen: HashSet<_> = (0..blocks).map(|_| generator.next_ask().offset).collect();
            prop_assert_eq!(seen.len() as u64, blocks);
        }
    }
}

#[test]
fn sequential_requests_follow_each_other_and_wrap() {
    let mut generator =
        Generator::new(&stream(Pattern::Sequential { from: Bytes::kib(8) }, Bytes::kib(4)), Bytes::new(18 * 1024), 1);
    let offsets: Vec<_> = (0..6).map(|_| generator.next_ask().offset.get() / 1024).collect();
    assert_eq!(offsets, [8, 12, 0, 4, 8, 12], "the last 2 KiB do not hold a request");
}

#[test]
fn strided_requests_leave_gaps() {
    let mut generator = Generator::new(
        &stream(Pattern::Strided { stride: Bytes::kib(16), from: Bytes::ZERO }, Bytes::kib(4)),
        Bytes::kib(48),
        1,
    );
    let offsets: Vec<_> = (0..5).map(|_| generator.next_ask().offset.get() / 1024).collect();
    assert_eq!(offsets, [0, 16, 32, 0, 16]);
}

/// Shares within five standard deviations of a binomial.
#[test]
fn mixes_and_sizes_keep_their_shares() {
    let mut stream = stream(Pattern::Random, Bytes::kib(4));
    stream.mix = Mix { reads: Ratio::percent(70.0) };
    stream.sizes = Sizes::weighted([(Bytes::kib(4), 6), (Bytes::kib(64), 3), (Bytes::kib(256), 1)]).unwrap();
    let mut generator = Generator::new(&stream, Bytes::gib(1), 7);
    let n = 100_000;
    let (mut reads, mut sizes) = (0, HashMap::new());
    for _ in 0..n {
        let ask = generator.next_ask();
        reads += u32::from(ask.operation == Operation::Read);
        *sizes.entry(ask.length).or_insert(0) += 1;
    }
    let agrees = |count: u32, share: f64| {
        let expected = share * f64::from(n);
        let deviation = (expected * (1.0 - share)).sqrt();
        assert!((f64::from(count) - expected).abs() < 5.0 * deviation, "{count} of {n}, expected {expected}");
    };
    agrees(reads, 0.7);
    agrees(sizes[&Bytes::kib(4)], 0.6);
    agrees(sizes[&Bytes::kib(64)], 0.3);
    agrees(sizes[&Bytes::kib(256)], 0.1);
}

/// Random addresses are uniform: chi-square over 64 equal parts, 99.99 percent quantile for 63 degrees of freedom.
#[test]
fn random_addresses_are_uniform() {
    let mut generator = Generator::new(&stream(Pattern::Random, Bytes::kib(4)), Bytes::mib(256), 3);
    let (n, parts) = (64_000u32, 64);
    let mut counts = vec![0u32; parts];
    for _ in 0..n {
        counts[(generator.next_ask().offset.get() * parts as u64 / (256 << 20)) as usize] += 1;
    }
    let expected = f64::from(n) / parts as f64;
    let chi: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
    assert!(chi < 113.5, "chi-square {chi}");
}

#[test]
fn poisson_arrivals_have_their_rate_and_no_memory() {
    let rate = Frequency::per_second(3000.0);
    let mut clockwork = Clockwork::new(Arrivals::Poisson(rate), Instant::START, Random::new(5));
    let n = 200_000;
    let (mut last, mut sum, mut squares) = (Instant::START, 0.0, 0.0);
    for _ in 0..n {
        let arrival = clockwork.next_arrival();
        let gap = arrival.since(last).as_seconds();
        (last, sum, squares) = (arrival, sum + gap, squares + gap * gap);
    }
    let mean = sum / f64::from(n);
    let variation = (squares / f64::from(n) - mean * mean).sqrt() / mean;
    assert!((mean * rate.get() - 1.0).abs() < 5.0 / f64::from(n).sqrt(), "mean distance {mean}");
    assert!((variation - 1.0).abs() < 0.02, "coefficient of variation {variation}");
}

#[test]
fn constant_arrivals_are_evenly_spaced_from_the_start() {
    let arrivals = Arrivals::Constant(Frequency::per_second(1000.0));
    let start = Instant::START + Duration::seconds(1);
    let mut clockwork = Clockwork::new(arrivals, start, Random::new(1));
    assert_eq!(clockwork.next_arrival(), start);
    assert_eq!(clockwork.next_arrival(), start + Duration::millis(1));
}

/// 3000/s is no whole number of nanoseconds; after 17 minutes not one arrival is missing or too many.
#[test]
fn a_constant_rate_does_not_drift() {
    let arrivals = Arrivals::Constant(Frequency::per_second(3000.0));
    let mut clockwork = Clockwork::new(arrivals, Instant::START, Random::new(1));
    let after_1000_s = (0..3_000_001).map(|_| clockwork.next_arrival()).last();
    assert_eq!(after_1000_s, Some(Instant::START + Duration::seconds(1000)));
}

#[test]
fn streams_that_do_not_fit_are_refused_in_words() {
    let device = Shape::new("sdb", Bytes::mib(1));
    let mut beyond = stream(Pattern::Random, Bytes::kib(4));
    beyond.region = Region { start: Bytes::kib(512), length: Some(Bytes::mib(1)) };
    assert_eq!(
        beyond.check(&device).unwrap_err().to_string(),
        "stream 'test' uses 1 MiB from 512 KiB, but sdb ends at 1 MiB; shorten `region` or take a larger device"
    );
    let huge = stream(Pattern::Random, Bytes::mib(2));
    assert!(matches!(huge.check(&device), Err(StreamError::RequestBeyondRegion { .. })));
    let late = stream(Pattern::Sequential { from: Bytes::mib(1) }, Bytes::kib(4));
    assert_eq!(
        late.check(&device).unwrap_err().to_string(),
        "stream 'test' has `from` 1 MiB, which with one request leaves its region of 1 MiB on sdb; take less, or a larger region"
    );
    let wide = stream(Pattern::Strided { stride: Bytes::new(u64::MAX - 511), from: Bytes::ZERO }, Bytes::kib(4));
    assert!(matches!(wide.check(&device), Err(StreamError::PatternBeyondRegion { .. })));
    let crooked = stream(Pattern::Random, Bytes::new(1000));
    assert!(matches!(crooked.check(&device), Err(StreamError::Misaligned { .. })));
    let mut writer = stream(Pattern::Random, Bytes::kib(4));
    writer.mix = Mix::WRITES;
    assert!(matches!(writer.check_overlap(&writer, &device), Err(StreamError::OverlappingWrites { .. })));
    let mut elsewhere = writer.clone();
    elsewhere.region = Region { start: Bytes::kib(512), length: None };
    writer.region.length = Some(Bytes::kib(512));
    writer.check_overlap(&elsewhere, &device).unwrap();
}

#[test]
fn writes_have_sizes_of_their_own() {
    let mut stream = stream(Pattern::Random, Bytes::kib(4));
    stream.mix = Mix { reads: Ratio::percent(30.0) };
    stream.write_sizes = Sizes::weighted([(Bytes::kib(8), 3), (Bytes::kib(64), 1)]);
    assert_eq!(stream.largest(), Bytes::kib(64));
    let mut generator = Generator::new(&stream, Bytes::mib(16), 5);
    let mut counts: HashMap<(Operation, Bytes), u32> = HashMap::new();
    (0..20_000)
        .map(|_| generator.next_ask())
        .for_each(|ask| *counts.entry((ask.operation, ask.length)).or_default() += 1);
    assert_eq!(counts.len(), 3, "reads of one size, writes of two: {counts:?}");
    let share = |operation, kib| f64::from(counts[&(operation, Bytes::kib(kib))]) / 20_000.0;
    for (found, expected) in [
        (share(Operation::Read, 4), 0.3),
        (share(Operation::Write, 8), 0.7 * 0.75),
        (share(Operation::Write, 64), 0.7 * 0.25),
    ] {
        // Five standard deviations of 20,000 draws.
        assert!((found - expected).abs() < 0.018, "{found} for {expected}");
    }
}

#[test]
fn only_streams_that_both_say_so_write_the_same_blocks() {
    let device = Shape::new("d", Bytes::mib(1));
    let mut one = stream(Pattern::Random, Bytes::kib(4));
    one.mix = Mix::WRITES;
    let mut other = one.clone();
    other.overlap = true;
    assert!(matches!(one.check_overlap(&other, &device), Err(StreamError::OverlappingWrites { .. })));
    one.overlap = true;
    assert_eq!(one.check_overlap(&other, &device), Ok(()));
}

#[test]
fn zones_have_their_turns_and_each_begins_anew() {
    let kib = Bytes::kib;
    let addresses = |within: Pattern, size, range, skip, count| {
        let pattern = Pattern::Zoned(Box::new(Zoned { within, size: kib(size), range: kib(range), skip: kib(skip) }));
        let stream = Stream::closed("zones", Mix::READS, pattern, kib(16), 1);
        let mut generator = Generator::new(&stream, kib(1024), 1);
        (0..count).map(|_| generator.next_ask().offset.get() / 16384).collect::<Vec<u64>>()
    };
    let sequential = || Pattern::Sequential { from: Bytes::ZERO };
    // As fio 3.33 goes through 1 MiB by 16 KiB.
    assert_eq!(addresses(sequential(), 64, 64, 64, 10), [0, 1, 2, 3, 8, 9, 10, 11, 16, 17]);
    assert_eq!(addresses(sequential(), 64, 128, 64, 10), [0, 1, 2, 3, 12, 13, 14, 15, 24, 25]);
    assert_eq!(addresses(sequential(), 128, 64, 64, 10), [0, 1, 2, 3, 0, 1, 2, 3, 8, 9]);
    assert_eq!(addresses(sequential(), 64, 64, 64, 34)[32..], [0, 1]);
    let mut random = addresses(Pattern::RandomOnce, 64, 64, 64, 64);
    assert_ne!(random[..4], random[32..36], "another order in the second turn");
    random.chunks_mut(4).for_each(|zone| zone.sort());
    assert_eq!(random, addresses(sequential(), 64, 64, 64, 64));
}

#[test]
fn a_list_of_blocks_comes_again_or_moves_on() {
    let addresses = |stride| {
        let pattern = Pattern::Listed { blocks: vec![2, 0, 1], stride };
        let mut generator = Generator::new(&stream(pattern, Bytes::kib(4)), Bytes::kib(28), 1);
        (0..9).map(|_| generator.next_ask().offset.get() / 4096).collect::<Vec<u64>>()
    };
    assert_eq!(addresses(false), [2, 0, 1, 2, 0, 1, 2, 0, 1]);
    // There are seven blocks.
    assert_eq!(addresses(true), [2, 0, 1, 5, 3, 4, 1, 6, 0]);
}
