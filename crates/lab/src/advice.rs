//! What about a run should not be trusted: the facts that the analysis needs besides the rows, put together.

use analysis::{Advice, Facts, Load, PageCache, advise};
use analysis::{Occupancies, Series, Summarizer, Summary, trend};
use host::Kernel;
use host::environment::Memory;
use record::{Phase, RawError, Recording};
use units::{Bytes, Duration, Frequency, Instant};
use uring::Mode;

use crate::experiment::{Experiment, StreamPlan};
use crate::runner::{Conclusion, since};
use crate::steady::Rounds;

/// Counted time is cut into so many intervals, twenty of which a trend needs.
const INTERVALS: u64 = 100;

/// The remarks on a run of `devices` devices of these sizes.
pub(crate) fn on(
    experiment: &Experiment,
    sizes: &[Bytes],
    summarizer: &Summarizer,
    summary: &Summary,
    recording: &Recording,
    conclusion: &Conclusion,
) -> Result<Vec<Advice>, RawError> {
    let first = conclusion.rounds.as_ref().map_or(0, Rounds::first_pass);
    let windows = windows(recording, first)?;
    let mut occupancies = Occupancies::new(summarizer);
    let shortest = windows.iter().map(|(begin, end)| end.saturating_since(*begin)).min().unwrap_or(Duration::ZERO);
    let interval = (shortest / INTERVALS).max(Duration::millis(1));
    let mut series = Series::new(interval, sizes.len());
    recording.visit(|rows| {
        let rows = &since(rows, first);
        occupancies.add(rows);
        series.add(rows);
        Ok::<(), RawError>(())
    })?;
    let trends: Vec<_> = windows.iter().filter_map(|window| trend(&series, *window)).collect();
    let facts = Facts {
        loads: loads(experiment, sizes.len()),
        generator_busy: conclusion.processors.map(|(_, generator)| generator),
        page_cache: page_cache(experiment, sizes).filter(|_| conclusion.processors.is_some()),
        hollow: conclusion.hollow.clone(),
        rows_lost: recording.loss().rows,
        late_chunks: recording.late_chunks(),
    };
    Ok(advise(summary, &occupancies.finish(), &trends, &facts))
}

/// What each stream asks for, on all devices together.
pub(crate) fn loads(experiment: &Experiment, devices: usize) -> Vec<Load> {
    let of = |plan: &StreamPlan| {
        // Ranks that load one device load it several times.
        let on = plan.on.as_ref().map_or(devices, Vec::len) as u32;
        if plan.rate_limit.or(experiment.run.rate_limit).is_some() {
            return Load::Held;
        }
        match plan.stream.load {
            workload::Load::Closed { depth, think } => Load::Closed { depth: depth * on, think },
            workload::Load::Open { arrivals, .. } => {
                Load::Open { offered: Frequency::per_second(arrivals.rate().get() * f64::from(on)) }
            }
        }
    };
    experiment.streams.iter().map(of).collect()
}

/// What the page cache may hold of a run that goes through it; simulated devices have none.
fn page_cache(experiment: &Experiment, sizes: &[Bytes]) -> Option<PageCache> {
    let memory = Memory::read(&Kernel::running()).total?;
    (experiment.io.mode == Mode::Buffered).then(|| PageCache { regions: regions(experiment, sizes), memory })
}

/// From the first counted request to the last counted completion, pass by pass from `first` on.
fn windows(recording: &Recording, first: u16) -> Result<Vec<(Instant, Instant)>, RawError> {
    let mut windows: Vec<(Instant, Instant)> = Vec::new();
    recording.visit(|rows| {
        for row in since(rows, first).iter().filter(|row| row.phase == Phase::Measure) {
            let pass = usize::from(row.pass);
            windows.resize(windows.len().max(pass + 1), (Instant::NEVER, Instant::START));
            let (begin, end) = &mut windows[pass];
            *begin = (*begin).min(row.intended);
            *end = (*end).max(row.completed);
        }
        Ok::<(), RawError>(())
    })?;
    windows.retain(|(begin, end)| begin < end);
    Ok(windows)
}

/// What all streams read and write on all devices.
fn regions(experiment: &Experiment, sizes: &[Bytes]) -> Bytes {
    let by_device = experiment.by_device(sizes.len());
    let on_device = |(device, size): (usize, &Bytes)| {
        let streams = by_device[device].iter().map(|stream| &experiment.streams[*stream].stream);
        streams.map(|stream| stream.range_on(*size).1).sum::<Bytes>().min(*size)
    };
    sizes.iter().enumerate().map(on_device).sum()
}
