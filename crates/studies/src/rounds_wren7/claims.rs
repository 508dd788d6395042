//! The study's sentences, each as a test on the model.
//!
//! "About" and "nearly" are within 15 percent, unless the sentence says what it means. A claim is judged by what the
//! modelled machine does; what is said of causes is tested by taking the cause away.

use analysis::rounds::model::{Bus, Seek};
use units::{Bytes, Duration, Rate, Ratio};

use super::printed::{BLOCKS, DISKS, LARGEST, TABLES, transfer};
use super::reads::Reads;
use super::{Deltas, clusters, delta_statistics, table};
use crate::bench::{Bench, Outcome, TrialError, megabytes};
use crate::reproduce::Answer;

type Verdict = Result<(bool, String), TrialError>;
type Test = fn(&Bench) -> Verdict;

/// Tests the claim of that name.
pub(super) fn test(bench: &Bench, id: &str) -> Result<Answer, TrialError> {
    let Some((_, test)) = CLAIMS.iter().find(|(name, _)| *name == id) else {
        return Ok(Answer::Nothing { reason: "no test is written for this claim".to_owned() });
    };
    let (kept, evidence) = test(bench)?;
    Ok(Answer::Claim { kept, evidence })
}

const CLAIMS: &[(&str, Test)] = &[
    ("params/claim/invariant", invariant),
    ("s4/claim/one-block-per-disk", one_block_per_disk),
    ("s4/claim/order", order),
    ("s4/claim/idle", idle),
    ("s4/claim/host-defers", host_defers),
    ("s4/claim/fairness", fairness),
    ("s4/claim/small-blocks", small_blocks),
    ("s4.1/claim/two-clusters", two_clusters),
    ("s4.1/claim/issue-gap", issue_gap),
    ("s4.2/claim/small-is-transfer", small_is_transfer),
    ("s4.2/claim/large-composition", large_composition),
    ("s4.2/claim/growth", growth),
    ("s4.2/claim/d2-spread", d2_spread),
    ("s4.2/claim/128k-small", small_at_128k),
    ("s4.2/claim/128k-large", large_at_128k),
    ("s4.2/claim/128k-slower-d7", slower_at_128k),
    ("s4.2/claim/128k-slower-only-d7", slower_with_seven_only),
    ("s4.2/claim/same-io-events", same_io_events),
    ("s4.3/claim/rounds-persist", rounds_persist),
    ("s4.3/claim/spread", fence_spread),
    ("s4.3/claim/media-rate-tail", media_rate_tail),
    ("s4.3/claim/interleave", interleave),
    ("s2/claim/fence-tradeoff", fence_tradeoff),
    ("s4.4/claim/no-large", no_large),
    ("s4.4/claim/same-as-small", same_as_small),
    ("s4.4/claim/128k-three-clusters", three_clusters),
    ("s5/claim/general", general),
    ("s3/claim/upper-bound", upper_bound),
    ("s3/claim/needs-large", needs_large),
    ("s1/claim/sequential-easy", sequential_easy),
];

fn about(a: f64, b: f64) -> bool {
    (a - b).abs() <= 0.15 * b.abs()
}

fn deltas(bench: &Bench, disks: usize, kib: u64) -> Result<Deltas, TrialError> {
    table(bench, &Reads::random(disks, kib))
}

/// MB/s of the study, 2^20 bytes.
fn bandwidth(bench: &Bench, reads: &Reads) -> Result<f64, TrialError> {
    Ok(megabytes(bench.run(reads)?.bandwidth))
}

/// KB/ms of reads that find their block in the disk's buffer, which is the study's bus bandwidth.
fn bus_rate(bench: &Bench, kib: u64) -> Result<f64, TrialError> {
    let outcome = bench.run(&Reads::buffered(kib))?;
    let read = outcome.mean(|_, phase| phase != "between-calls").as_millis();
    Ok(kib as f64 / read)
}

/// Milliseconds in a round in which the string is free.
fn free_per_round(outcome: &Outcome) -> f64 {
    let free = outcome.elapsed.as_millis() * (1.0 - outcome.string_utilization(0));
    free / (outcome.requests as f64 / outcome.disks.len() as f64)
}

/// The formulas for the modelled drives on the study's bus. The media rate is the drives' own, head switches included.
pub(super) fn formulas(
    bench: &Bench,
    disks: usize,
    kib: u64,
) -> Result<analysis::rounds::model::Prediction, TrialError> {
    let bus = Bus {
        disks: disks as u32,
        block: Bytes::kib(kib),
        rate: rate(bus_rate(bench, 96)? * 1024.0 * 1000.0, "the bus")?,
        media: media_rate(bench)?,
        revolution: Duration::from_seconds(1.0 / 60.0),
        seek: Seek { least: Duration::micros(2_500), mean: Duration::millis(15), greatest: Duration::millis(34) },
        fence: Ratio::ONE,
        buffer: None,
        overhead: Duration::ZERO,
    };
    bus.predict().map_err(TrialError::nothing)
}

/// What passes under a head in the long run: from how much longer a single random read of 96 KB takes than one of 32
/// KB, transfers taken off.
fn media_rate(bench: &Bench) -> Result<Rate, TrialError> {
    let read = |kib| -> Result<f64, TrialError> {
        Ok(bench.run(&Reads::random(1, kib))?.mean(|_, phase| phase == "media").as_seconds())
    };
    rate(64.0 * 1024.0 / (read(96)? - read(32)?), "the medium")
}

/// Bytes a second, if a changed machine gives any that the formulas can reckon with.
fn rate(bytes_a_second: f64, of: &str) -> Result<Rate, TrialError> {
    if bytes_a_second > 0.0 && bytes_a_second.is_finite() {
        return Ok(Rate::bytes_per_second(bytes_a_second));
    }
    Err(TrialError::nothing(format!(
        "as the machine was changed, its trials of one disk give {of} no rate for the formulas; change less of it"
    )))
}

fn invariant(bench: &Bench) -> Verdict {
    let rates = [32, 64, 96].map(|kib| bus_rate(bench, kib));
    let [a, b, c] = [rates[0].clone()?, rates[1].clone()?, rates[2].clone()?];
    let (alone, together) = (deltas(bench, 4, 96)?.small_mean, deltas(bench, 7, 96)?.small_mean);
    let kept = about(a, c) && about(b, c) && about(alone, together);
    let mb = |rate: f64| rate * 1000.0 / 1024.0;
    Ok((
        kept,
        format!(
            "a buffered block comes at {:.2}, {:.2}, {:.2} MB/s with 32, 64, 96 KB; small deltas of 96 KB are {alone:.1} ms with 4 disks and {together:.1} ms with 7",
            mb(a),
            mb(b),
            mb(c)
        ),
    ))
}

fn one_block_per_disk(bench: &Bench) -> Verdict {
    let shares = [deltas(bench, 4, 64)?.good_percent(), deltas(bench, 7, 64)?.good_percent()];
    Ok((
        shares.iter().all(|share| *share > 90.0),
        format!("{:.0} and {:.0} percent of I/O in rounds with 4 and 7 disks, 64 KB", shares[0], shares[1]),
    ))
}

fn order(bench: &Bench) -> Verdict {
    let found = delta_statistics(&*bench.run(&Reads::random(7, 64))?)?;
    let firsts: Vec<f64> = found.devices.iter().map(|device| device.first.get()).collect();
    let (least, most) = (firsts.iter().copied().fold(1.0, f64::min), firsts.iter().copied().fold(0.0, f64::max));
    let kept = found.order_repeats.get() < 0.01 && least > 0.5 / 7.0 && most < 2.0 / 7.0;
    Ok((
        kept,
        format!(
            "each disk is first in {:.0} to {:.0} percent of rounds; {:.1} percent repeat the order of the round before",
            least * 100.0,
            most * 100.0,
            found.order_repeats.as_percent()
        ),
    ))
}

fn idle(bench: &Bench) -> Verdict {
    // With the fence at zero nothing but positioning keeps the bus idle.
    let outcome = bench.run(&Reads::random(7, 64).fence_zero())?;
    let (free, least) = (free_per_round(&outcome), formulas(bench, 7, 64)?.positioning_min.as_millis());
    Ok((
        (free - least).abs() <= 0.25 * least,
        format!(
            "the bus is free for {free:.1} ms of a round with the fence at zero; the least of seven positioning times is {least:.1} ms on average"
        ),
    ))
}

fn host_defers(bench: &Bench) -> Verdict {
    let (with, without) = (bench.run(&Reads::random(7, 64))?, bench.run(&Reads::random(7, 64).without_policy())?);
    let (rounds, none) = (delta_statistics(&with)?, delta_statistics(&without)?);
    let gain = without.bandwidth.get() / with.bandwidth.get();
    Ok((
        rounds.found && !none.found,
        format!(
            "with the policy {:.0} percent of I/O in rounds, without {:.0}; bandwidth {:.2} times as high without",
            rounds.share.as_percent(),
            none.share.as_percent(),
            gain
        ),
    ))
}

fn fairness(bench: &Bench) -> Verdict {
    let spread = |reads: Reads| -> Result<f64, TrialError> {
        let counts = bench.run(&reads)?.completions.clone();
        let (least, most) = (counts.iter().min(), counts.iter().max());
        Ok(least.zip(most).map_or(0.0, |(least, most)| *most as f64 / (*least).max(1) as f64))
    };
    let (large, small) = (spread(Reads::random(7, 64))?, spread(Reads::of(7, Bytes::SECTOR))?);
    Ok((
        large < 1.05 && small < 1.05,
        format!(
            "the disk served most gets {large:.3} times the reads of the one served least with 64 KB, {small:.3} times with 512 bytes"
        ),
    ))
}

fn small_blocks(bench: &Bench) -> Verdict {
    let outcome = bench.run(&Reads::of(7, Bytes::SECTOR))?;
    let found = delta_statistics(&outcome)?;
    let busy = outcome.string_utilization(0);
    Ok((
        !found.found && busy < 0.5,
        format!(
            "{:.0} percent of I/O in rounds, the bus busy for {:.0} percent of the time",
            found.share.as_percent(),
            busy * 100.0
        ),
    ))
}

fn two_clusters(bench: &Bench) -> Verdict {
    let (mut kept, mut worst) = (true, f64::MAX);
    for (disks, kib) in [4, 7].into_iter().flat_map(|disks| TABLES.map(|kib| (disks, kib))) {
        let found = deltas(bench, disks, kib)?;
        let apart = (found.large_mean - found.small_mean) / (found.large_std + found.small_std);
        worst = worst.min(apart);
        kept &= apart > 2.0 && found.good_percent() > 50.0;
    }
    Ok((
        kept,
        format!(
            "the kinds' means are at least {worst:.1} times the sum of their deviations apart, 4 and 7 disks, 32 to 128 KB"
        ),
    ))
}

fn issue_gap(bench: &Bench) -> Verdict {
    let gap = bench.run(&Reads::random(7, 64))?.mean(|_, phase| phase == "between-calls");
    Ok((gap < Duration::micros(20), format!("{gap} between a return and the next call")))
}

fn small_is_transfer(bench: &Bench) -> Verdict {
    let (mut kept, mut worst) = (true, 0.0f64);
    for (disks, kib) in [4, 7].into_iter().flat_map(|disks| BLOCKS.map(|kib| (disks, kib))) {
        let off = (deltas(bench, disks, kib)?.small_mean / transfer(kib)? - 1.0).abs();
        worst = worst.max(off);
        kept &= off <= 0.15;
    }
    Ok((kept, format!("small deltas differ from the transfer times by up to {:.0} percent", worst * 100.0)))
}

fn large_composition(bench: &Bench) -> Verdict {
    let (mut kept, mut worst) = (true, 0.0f64);
    for (disks, kib) in [4, 7].into_iter().flat_map(|disks| BLOCKS.map(|kib| (disks, kib))) {
        let off = deltas(bench, disks, kib)?.large_mean / formulas(bench, disks, kib)?.large.as_millis() - 1.0;
        worst = if off.abs() > worst.abs() { off } else { worst };
        kept &= off.abs() <= 0.15;
    }
    Ok((kept, format!("large deltas differ from the sum by up to {:+.0} percent", worst * 100.0)))
}

fn growth(bench: &Bench) -> Verdict {
    let mut shares = [[0.0; 3]; 3];
    for (row, disks) in shares.iter_mut().zip(DISKS) {
        for (share, kib) in row.iter_mut().zip(BLOCKS) {
            *share = deltas(bench, disks, kib)?.good_percent();
        }
    }
    // With 32 KB the study itself has fewer rounds with four disks than with two. A run begins and ends within a round,
    // and of 380 rounds two are half a percent.
    let with_block = shares.iter().all(|row| row.windows(2).all(|pair| pair[1] >= pair[0] - 1.0));
    let with_disks = (1..3).all(|block| shares.windows(2).all(|pair| pair[1][block] >= pair[0][block] - 1.0));
    let kept = with_block && with_disks && shares[2][0] > shares[0][0];
    let text = |row: [f64; 3]| row.map(|share| format!("{share:.0}")).join(", ");
    Ok((
        kept,
        format!(
            "32, 64, 96 KB: {} percent with 2 disks; {} with 4; {} with 7",
            text(shares[0]),
            text(shares[1]),
            text(shares[2])
        ),
    ))
}

fn d2_spread(bench: &Bench) -> Verdict {
    let mut kept = true;
    let mut off = Vec::new();
    for kib in BLOCKS {
        let [two, four, seven] = [deltas(bench, 2, kib)?, deltas(bench, 4, kib)?, deltas(bench, 7, kib)?];
        kept &=
            two.large_std > four.large_std.max(seven.large_std) && two.small_std > four.small_std.max(seven.small_std);
        off.push(two.small_mean / seven.small_mean - 1.0);
    }
    kept &= off.windows(2).all(|pair| pair[1] < pair[0]);
    Ok((
        kept,
        format!(
            "with two disks both deviations are larger; small deltas are {:.0}, {:.0}, {:.0} percent longer than with seven for 32, 64, 96 KB",
            off[0] * 100.0,
            off[1] * 100.0,
            off[2] * 100.0
        ),
    ))
}

fn small_at_128k(bench: &Bench) -> Verdict {
    let [two, four, seven] = [deltas(bench, 2, LARGEST)?, deltas(bench, 4, LARGEST)?, deltas(bench, 7, LARGEST)?];
    let quarter = transfer(LARGEST)? / 4.0;
    let far = [two, four, seven].iter().all(|deltas| deltas.small_mean < quarter);
    let kept = far && two.outliers > 0.0 && two.small_std > two.small_mean;
    Ok((
        kept,
        format!(
            "{:.1}, {:.1}, {:.1} ms with 2, 4, 7 disks: the second piece of a read; with two disks {:.0} outliers make a deviation of {:.1} ms",
            two.small_mean, four.small_mean, seven.small_mean, two.outliers, two.small_std
        ),
    ))
}

fn large_at_128k(bench: &Bench) -> Verdict {
    let mut kept = true;
    let mut text = Vec::new();
    for disks in DISKS {
        let formula = formulas(bench, disks, LARGEST)?;
        let sum = formula.positioning_min.as_millis()
            + (formula.large - formula.positioning_min - formula.transfer).as_millis()
            + disks as f64 * transfer(LARGEST)?;
        let large = deltas(bench, disks, LARGEST)?.large_mean;
        kept &= about(large, sum);
        text.push(format!("{large:.0} ms for {sum:.0}"));
    }
    Ok((kept, format!("{} with 2, 4, 7 disks", text.join(", "))))
}

fn two_bandwidths(bench: &Bench, disks: usize) -> Result<[f64; 2], TrialError> {
    Ok([bandwidth(bench, &Reads::random(disks, 96))?, bandwidth(bench, &Reads::random(disks, LARGEST))?])
}

fn slower_at_128k(bench: &Bench) -> Verdict {
    let [smaller, larger] = two_bandwidths(bench, 7)?;
    Ok((larger < smaller, format!("{smaller:.2} MB/s with 96 KB, {larger:.2} with 128 KB")))
}

fn slower_with_seven_only(bench: &Bench) -> Verdict {
    let (two, four) = (two_bandwidths(bench, 2)?, two_bandwidths(bench, 4)?);
    Ok((
        two[1] > two[0] && four[1] > four[0],
        format!("{:.2} and {:.2} MB/s with two disks, {:.2} and {:.2} with four", two[0], two[1], four[0], four[1]),
    ))
}

fn same_io_events(bench: &Bench) -> Verdict {
    let reselections = |kib| -> Result<[f64; 2], TrialError> {
        let outcome = bench.run(&Reads::random(7, kib))?;
        let passages = &outcome.load.passages;
        Ok([passages.disconnects as f64 / passages.commands as f64, free_per_round(&outcome)])
    };
    let ([often, free], [often_128, free_128]) = (reselections(96)?, reselections(LARGEST)?);
    // Reading 32 KB more from the medium takes longer.
    let longer = 32.0 * 1024.0 / media_rate(bench)?.get() * 1e3;
    let kept = about(often, often_128) && about(free + longer, free_128);
    Ok((
        kept,
        format!(
            "a read comes back to the bus {often:.2} times with 96 KB and {often_128:.2} times with 128 KB; the bus is free for {free:.0} and {free_128:.0} ms of a round, {longer:.0} of them for the longer block"
        ),
    ))
}

fn zero(bench: &Bench, disks: usize, kib: u64) -> Result<Deltas, TrialError> {
    table(bench, &Reads::random(disks, kib).fence_zero())
}

fn rounds_persist(bench: &Bench) -> Verdict {
    let mut kept = true;
    let mut text = Vec::new();
    for disks in [4, 7] {
        for kib in [32, 64] {
            let share = zero(bench, disks, kib)?.good_percent();
            kept &= share > 50.0;
            text.push(format!("{share:.0} percent ({disks} disks, {kib} KB)"));
        }
    }
    Ok((kept, format!("with the fence at zero {} of I/O in rounds", text.join(", "))))
}

fn fence_spread(bench: &Bench) -> Verdict {
    let (low, high) = (zero(bench, 7, 64)?, deltas(bench, 7, 64)?);
    let whole = transfer(64)?;
    let off = |deltas: &Deltas| (deltas.small_mean / whole - 1.0).abs();
    let kept = low.large_std > high.large_std && low.small_std > high.small_std && off(&low) > off(&high);
    Ok((
        kept,
        format!(
            "deviations {:.1} and {:.1} ms against {:.1} and {:.1}; small deltas {:.1} against {:.1} ms, seven disks, 64 KB",
            low.large_std, low.small_std, high.large_std, high.small_std, low.small_mean, high.small_mean
        ),
    ))
}

/// Milliseconds of data transfer in a read.
fn data_time(bench: &Bench, reads: &Reads) -> Result<f64, TrialError> {
    Ok(bench.run(reads)?.mean(|_, phase| phase == "data-transfer").as_millis())
}

fn media_rate_tail(bench: &Bench) -> Verdict {
    let (alone, low, high) = (
        data_time(bench, &Reads::random(1, 64).fence_zero())?,
        data_time(bench, &Reads::random(7, 64).fence_zero())?,
        data_time(bench, &Reads::random(7, 64))?,
    );
    let kept = high < low && low < alone;
    Ok((
        kept,
        format!(
            "a block is on the bus for {alone:.1} ms if its disk is alone, {low:.1} ms among seven, {high:.1} ms with the fence at its maximum"
        ),
    ))
}

fn interleave(bench: &Bench) -> Verdict {
    let often = |reads: &Reads| -> Result<f64, TrialError> {
        let passages = bench.run(reads)?.load.passages;
        Ok(passages.disconnects as f64 / passages.commands as f64)
    };
    let (low, high) = (often(&Reads::random(7, 64).fence_zero())?, often(&Reads::random(7, 64))?);
    Ok((
        low > 1.2 && high < 1.05,
        format!(
            "a read of 64 KB lets go of the bus {low:.2} times with the fence at zero, {high:.2} times at its maximum"
        ),
    ))
}

fn fence_tradeoff(bench: &Bench) -> Verdict {
    let read = |reads: &Reads| -> Result<f64, TrialError> {
        Ok(bench.run(reads)?.mean(|_, phase| phase != "between-calls").as_millis())
    };
    let (low, high) = (read(&Reads::random(1, 64).fence_zero())?, read(&Reads::random(1, 64))?);
    let mut lost = Vec::new();
    for (disks, kib) in DISKS.into_iter().flat_map(|disks| BLOCKS.map(|kib| (disks, kib))) {
        let change = bandwidth(bench, &Reads::random(disks, kib).fence_zero())?
            / bandwidth(bench, &Reads::random(disks, kib))?
            - 1.0;
        lost.push((change, disks, kib));
    }
    lost.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (change, disks, kib) = lost[0];
    // In rounds the bus idles anyway. The sentence is of disks in general: what keeps the bus at the medium's rate
    // costs where others want it.
    let busy = |reads: &Reads| bandwidth(bench, &reads.clone().without_policy());
    let without = busy(&Reads::random(7, 64).fence_zero())? / busy(&Reads::random(7, 64))? - 1.0;
    Ok((
        low < high && change.min(without) < 0.0,
        format!(
            "a lone disk answers in {low:.1} ms instead of {high:.1}; throughput changes by {:+.1} percent at least in rounds ({disks} disks, {kib} KB), and by {:+.1} percent without them (7 disks, 64 KB, the adapter's policy off)",
            change * 100.0,
            without * 100.0
        ),
    ))
}

fn no_large(bench: &Bench) -> Verdict {
    let mut most: f64 = 0.0;
    for (disks, kib) in [4, 7].into_iter().flat_map(|disks| [16, 32, 64].map(|kib| (disks, kib))) {
        let outcome = bench.run(&Reads::sequential(disks, kib))?;
        let limit = Deltas::of(&outcome, Duration::MAX, Duration::MAX)?.small_mean + 10.0;
        let above = Deltas::of(&outcome, Duration::from_seconds(limit / 1e3), Duration::MAX)?;
        most = most.max(above.large_count / above.reads);
    }
    Ok((most < 0.01, format!("at most {:.2} percent of deltas are 10 ms longer than the mean", most * 100.0)))
}

fn same_as_small(bench: &Bench) -> Verdict {
    let mut worst: f64 = 0.0;
    for (disks, kib) in [4, 7].into_iter().flat_map(|disks| [32, 64].map(|kib| (disks, kib))) {
        let sequential =
            Deltas::of(&*bench.run(&Reads::sequential(disks, kib))?, Duration::MAX, Duration::MAX)?.small_mean;
        worst = worst.max((sequential / deltas(bench, disks, kib)?.small_mean - 1.0).abs());
    }
    Ok((
        worst <= 0.2,
        format!("they differ by up to {:.0} percent with 4 and 7 disks; by 20 in the study's tables", worst * 100.0),
    ))
}

fn three_clusters(bench: &Bench) -> Verdict {
    let [large, medium, small] = clusters(&*bench.run(&Reads::sequential(7, LARGEST))?);
    let near = |count: f64, wanted: f64| (count - wanted).abs() <= 0.5;
    let kept = near(large.1, 1.0) && near(medium.1, 2.0) && near(small.1, 4.0);
    Ok((
        kept,
        format!(
            "in a round {:.1} deltas of {:.0} ms, {:.1} of {:.0} ms, {:.1} of {:.1} ms",
            large.1, large.0, medium.1, medium.0, small.1, small.0
        ),
    ))
}

fn general(bench: &Bench) -> Verdict {
    let mut shares = Vec::new();
    // Another address, a slow board, a fast bus: what the adapters have in common is the policy.
    for (key, value) in [("esp.id", "0"), ("esp.command-setup", "500 us"), ("scsi-1-5mb.byte-time", "100 ns")] {
        let outcome = bench.run(&Reads::random(7, 64).with(key, value))?;
        shares.push(delta_statistics(&outcome)?);
    }
    let text = shares.iter().map(|rounds| format!("{:.0}", rounds.share.as_percent())).collect::<Vec<_>>().join(", ");
    Ok((
        shares.iter().all(|rounds| rounds.found),
        format!(
            "{text} percent of I/O in rounds with an adapter of the lowest address, a slower one, and a bus of 10 MB/s"
        ),
    ))
}

fn upper_bound(bench: &Bench) -> Verdict {
    let bus = bus_rate(bench, 96)? * 1000.0 / 1024.0;
    let mut best: f64 = 0.0;
    for (disks, kib) in DISKS.into_iter().flat_map(|disks| TABLES.map(|kib| (disks, kib))) {
        best = best.max(bandwidth(bench, &Reads::random(disks, kib))?);
    }
    Ok((best < bus, format!("random reads come to {best:.2} MB/s at most, the bus to {bus:.2}")))
}

fn needs_large(bench: &Bench) -> Verdict {
    let bus = bus_rate(bench, 96)? * 1000.0 / 1024.0;
    let [small, few, many] = [
        bandwidth(bench, &Reads::of(7, Bytes::SECTOR))?,
        bandwidth(bench, &Reads::random(2, 96))?,
        bandwidth(bench, &Reads::random(7, 96))?,
    ];
    Ok((
        small < 0.2 * bus && few < 0.6 * bus && many > 0.7 * bus,
        format!(
            "{small:.2} MB/s with 512 bytes, {few:.2} with 96 KB and two disks, {many:.2} with seven; the bus gives {bus:.2}"
        ),
    ))
}

fn sequential_easy(bench: &Bench) -> Verdict {
    let bus = bus_rate(bench, 96)? * 1000.0 / 1024.0;
    let rate = bandwidth(bench, &Reads::sequential(7, 64))?;
    Ok((rate > 0.9 * bus, format!("{rate:.2} MB/s of {bus:.2}")))
}
