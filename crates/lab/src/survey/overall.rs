//! How a survey stands while it goes on: its measurements one after the other, as one run of all its devices.

use std::sync::Mutex;

use units::Duration;

use crate::pulse::Beat;
use crate::runner::{Progress, Tick};

/// Adds up what measurements show.
pub(crate) struct Overall<'a> {
    progress: &'a dyn Progress,
    begun: std::time::Instant,
    state: Mutex<State>,
}

struct State {
    /// By device of the survey: what the measurements before have come to.
    before: Vec<Beat>,
    /// By device of the measurement: which device of the survey it is, and what it did so far.
    now: Vec<(usize, Beat)>,
}

impl<'a> Overall<'a> {
    /// Of so many devices, shown to `progress`.
    pub fn new(devices: usize, progress: &'a dyn Progress) -> Overall<'a> {
        let state = State { before: vec![Beat::default(); devices], now: Vec::new() };
        Overall { progress, begun: std::time::Instant::now(), state: Mutex::new(state) }
    }

    /// A measurement of these devices begins.
    pub fn measure(&self, devices: &[usize]) {
        let mut state = self.state.lock().expect("no panic under this lock");
        for (device, beat) in std::mem::take(&mut state.now) {
            state.before[device] = state.before[device].plus(&beat).at_rest();
        }
        state.now = devices.iter().map(|device| (*device, Beat::default())).collect();
    }
}

impl Progress for Overall<'_> {
    fn tick(&self, tick: &Tick) {
        let mut state = self.state.lock().expect("no panic under this lock");
        for ((_, now), beat) in state.now.iter_mut().zip(&tick.devices) {
            now.clone_from(beat);
        }
        let mut devices = state.before.clone();
        for (device, beat) in &state.now {
            devices[*device] = devices[*device].plus(beat);
        }
        drop(state);
        let elapsed = Duration::nanos(self.begun.elapsed().as_nanos() as u64);
        self.progress.tick(&Tick::of(elapsed, None, devices, tick.generator));
    }
}
