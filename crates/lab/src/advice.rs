//! What about a run should not be trusted: the facts that the analysis needs besides the rows, put together.

use analysis::{Advice, Facts, Load, PageCache, advise};
use analysis::{Occupancies, Series, Summarizer, Summary, trend};
use host::Kernel;
use host::environment::Memory;
use record::{Phase, RawError, Recording};
use units::{Bytes, Duration, Frequency, Instant};
use uring::Mode;
use workload::Mix;

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
        let mix = plan.stream.mix;
        let asked = [mix != Mix::WRITES, mix.has_writes()];
        let each_way = plan.rates.iter().zip(asked).all(|(rate, asked)| rate.is_some() || !asked);
        if plan.rate_limit.or(experiment.run.rate_limit).is_some() || each_way {
            return Load::Held;
        }
        match plan.stream.load {
            workload::Load::Closed { think, .. } => {
                let each = if plan.flushes.alone { 1 } else { plan.stream.least_under_way() };
                Load::Closed { depth: (each * on).min(plan.stream.turns.unwrap_or(u32::MAX)), think }
            }
            workload::Load::Open { arrivals, .. } => {
                let offered = Frequency::per_second(arrivals.rate().get() * f64::from(on));
                Load::Open { offered, variation: arrivals.variation() }
            }
        }
    };
    experiment.streams.iter().map(of).collect()
}

/// What the page cache may hold of a run that goes through it; simulated devices have none.
fn page_cache(experiment: &Experiment, sizes: &[Bytes]) -> Option<PageCache> {
    let memory = Memory::read(&Kernel::running()).total?;
    let is_buffered = match &experiment.devices[..] {
        [] => experiment.io.mode == Mode::Buffered,
        devices => devices.iter().any(|device| device.io.mode == Mode::Buffered && !device.files.is_empty()),
    };
    is_buffered.then(|| PageCache { regions: regions(experiment, sizes), memory })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::plan;

    /// What a job of sixteen places in its queue asks for.
    fn load(options: &str) -> Load {
        let surroundings =
            fio::Surroundings { variable: &|_| None, keyword: &|_| None, include: &|_, _| Err("none".into()) };
        let text = format!("[j]\nfilename=absent\nsize=1m\niodepth=16\n{options}\n");
        let file = fio::read("test.fio", &text, &surroundings, fio::Rigour::Strict).unwrap();
        loads(&plan("test", &file, &[]).unwrap()[0].experiment, 1)[0]
    }

    /// Requests that the load itself holds back are not missing from the queue at the device.
    #[test]
    fn a_queue_is_to_be_as_full_as_its_load_keeps_it() {
        let closed = |depth| Load::Closed { depth, think: Duration::ZERO };
        assert_eq!(load("ioengine=libaio\ndirect=1"), closed(16));
        assert_eq!(load("ioengine=libaio"), closed(1), "the page cache takes one at a time");
        assert_eq!(load("ioengine=posixaio\ndirect=1"), closed(1));
        assert_eq!(load("ioengine=io_uring\niodepth_low=4"), closed(4));
        assert_eq!(load("ioengine=io_uring\nserialize_overlap=1"), closed(1));
        assert_eq!(load("ioengine=libaio\ndirect=1\nrw=write\nfdatasync=1"), closed(1), "a flush holds up the job");
        assert_eq!(load("ioengine=io_uring\nrate_iops=100"), Load::Held);
        assert_eq!(load("ioengine=io_uring\nrw=randrw\nrate_iops=100,50"), Load::Held);
        assert_eq!(load("ioengine=io_uring\nrw=randrw\nrate_iops=,50"), closed(16), "reads have no rate");
    }
}
