//! Which call of which ring a request of the block layer came with, and when its result was posted.
//!
//! A call of io_uring is known by its ring and a number that the program gives again once the result is posted, so
//! neither says which row it is of. But the kernel asks the block layer right where it takes the call out of the ring:
//! what is queued next on the same processor, at once, is of that call. A request that would have to wait is queued by
//! a thread of the kernel later; its ring is not known then. Nor is it where the result seems to be posted before the
//! device was done, which shows that the two do not belong together.

use host::tracefs::{BlockEvent, Point, RingCall};
use units::Instant;

use super::Passed;
use super::join::SLACK;

/// From the ring to the block layer takes some microseconds; whoever comes later came another way.
const AT_ONCE: u64 = 50_000;

/// A call that was taken out of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    ring: u64,
    number: u64,
    /// When, in nanoseconds.
    taken: u64,
}

/// A request that the device has done, and whose result is not yet posted.
#[derive(Debug, Clone, Copy)]
struct Done {
    row: u32,
    seen: u64,
    passed: Passed,
}

/// The calls under way.
#[derive(Debug, Default)]
pub(super) struct Rings {
    /// By processor: the last call that it took.
    taken: Vec<Option<Call>>,
    /// The rings with which requests came, and what each has done, by the number of the call: programs give small ones.
    done: Vec<(u64, Vec<Option<Done>>)>,
}

/// A call of a larger number is none of ours: a ring has no more at once.
const NUMBERS: u64 = 1 << 16;

impl Rings {
    /// A call is taken on a processor. A request that waits for its result by the same number goes to `take` without.
    pub fn taken(&mut self, processor: usize, call: &RingCall, take: &mut impl FnMut(u32, Passed)) {
        if let Some(Done { row, passed, .. }) = self.done(call.ring, call.call) {
            take(row, without(passed));
        }
        self.taken.resize_with(self.taken.len().max(processor + 1), Default::default);
        self.taken[processor] = Some(Call { ring: call.ring, number: call.call, taken: call.at });
    }

    /// The result of a call is posted: its request goes to `take`.
    pub fn posted(&mut self, call: &RingCall, take: &mut impl FnMut(u32, Passed)) {
        let Some(Done { row, seen, passed }) = self.done(call.ring, call.call) else { return };
        let at = Instant::from_nanos(call.at);
        let is_its = call.at + SLACK >= passed.completed.as_nanos() && call.at <= seen + SLACK;
        take(row, if is_its { Passed { posted: Some(at), ..passed } } else { without(passed) });
    }

    /// Takes out what was done of a call.
    fn done(&mut self, ring: u64, number: u64) -> Option<Done> {
        let (_, done) = self.done.iter_mut().find(|(known, _)| *known == ring)?;
        done.get_mut(usize::try_from(number).ok()?)?.take()
    }

    /// The call with which a request came that is queued on a processor.
    pub fn call(&self, processor: usize, event: &BlockEvent) -> Option<Call> {
        let call = self.taken.get(processor).copied().flatten()?;
        let at_once = event.point == Point::Queued && event.at - call.taken.min(event.at) <= AT_ONCE;
        (at_once && call.number < NUMBERS).then_some(call)
    }

    /// A request was done by its device. One of a ring waits for its result, until it was `seen` by the program.
    pub fn completed(
        &mut self,
        call: Option<Call>,
        row: u32,
        seen: Instant,
        passed: Passed,
        take: &mut impl FnMut(u32, Passed),
    ) {
        let Some(call) = call else { return take(row, passed) };
        let passed = Passed { taken: Some(Instant::from_nanos(call.taken)), ..passed };
        let done = Done { row, seen: seen.as_nanos(), passed };
        if let Some(before) = self.done(call.ring, call.number) {
            take(before.row, without(before.passed));
        }
        let known = self.done.iter().position(|(ring, _)| *ring == call.ring);
        let place = known.unwrap_or_else(|| {
            self.done.push((call.ring, Vec::new()));
            self.done.len() - 1
        });
        let (calls, number) = (&mut self.done[place].1, call.number as usize);
        calls.resize_with(calls.len().max(number + 1), Default::default);
        calls[number] = Some(done);
    }

    /// Gives up waiting for results that the program has long had.
    pub fn forget(&mut self, now: u64, take: &mut impl FnMut(u32, Passed)) {
        for done in self.done.iter_mut().flat_map(|(_, done)| done) {
            if let Some(Done { row, passed, .. }) = done.take_if(|done| done.seen + SLACK < now) {
                take(row, without(passed));
            }
        }
    }
}

/// The request without stamps of its ring.
fn without(passed: Passed) -> Passed {
    Passed { taken: None, posted: None, ..passed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::tracefs::{DeviceCode, Way};

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    fn ring(micros: u64, call: u64) -> RingCall {
        RingCall { at: micros * 1000, ring: 7, call }
    }

    fn queued(micros: u64) -> BlockEvent {
        let (device, point, way) = (DeviceCode(1), Point::Queued, Way::Read);
        BlockEvent { at: micros * 1000, sector: 0, sectors: 8, device, point, way }
    }

    /// A request that was queued and done at these microseconds, and seen at 100.
    fn done(rings: &mut Rings, call: Option<Call>, row: u32, times: (u64, u64), told: &mut Vec<(u32, Passed)>) {
        let passed = Passed {
            taken: None,
            queued: at(times.0),
            issued: None,
            completed: at(times.1),
            posted: None,
            lower: None,
        };
        rings.completed(call, row, at(100), passed, &mut |row, passed| told.push((row, passed)));
    }

    #[test]
    fn a_request_is_of_the_call_that_its_processor_has_just_taken() {
        let (mut rings, mut told) = (Rings::default(), Vec::new());
        let mut nobody = |_, _| panic!("nothing is done yet");
        rings.taken(0, &ring(10, 3), &mut nobody);
        rings.taken(1, &ring(11, 4), &mut nobody);
        let [one, other] = [(0, 12), (1, 13)].map(|(processor, micros)| rings.call(processor, &queued(micros)));
        assert_eq!((one.unwrap().number, other.unwrap().number), (3, 4));
        assert_eq!(rings.call(0, &queued(90)), None, "much later");
        assert_eq!(rings.call(2, &queued(12)), None, "a processor that took none");
        done(&mut rings, one, 1, (12, 40), &mut told);
        done(&mut rings, other, 2, (13, 50), &mut told);
        for posted in [ring(60, 4), ring(70, 3)] {
            rings.posted(&posted, &mut |row, passed| told.push((row, passed)));
        }
        let stamps: Vec<_> = told.iter().map(|(row, passed)| (*row, passed.taken, passed.posted)).collect();
        assert_eq!(stamps, [(2, Some(at(11)), Some(at(60))), (1, Some(at(10)), Some(at(70)))]);
    }

    #[test]
    fn what_cannot_belong_together_is_not_joined() {
        let (mut rings, mut told) = (Rings::default(), Vec::new());
        rings.taken(0, &ring(10, 3), &mut |_, _| panic!("nothing is done yet"));
        let call = rings.call(0, &queued(12));
        // Posted before the device was done, or after the program has seen it, or taken again, or never posted.
        for (row, micros) in [(1, 30), (2, 120)] {
            done(&mut rings, call, row, (12, 40), &mut told);
            rings.posted(&ring(micros, 3), &mut |row, passed| told.push((row, passed)));
        }
        done(&mut rings, call, 3, (12, 40), &mut told);
        rings.taken(0, &ring(50, 3), &mut |row, passed| told.push((row, passed)));
        done(&mut rings, call, 4, (12, 40), &mut told);
        rings.forget(99_000, &mut |_, _| panic!("it may still come"));
        rings.forget(u64::MAX, &mut |row, passed| told.push((row, passed)));
        let without: Vec<_> = told.iter().map(|(row, passed)| (*row, passed.taken, passed.posted)).collect();
        assert_eq!(without, [1, 2, 3, 4].map(|row| (row, None, None)), "and none is lost");
        // Without a ring it is told at once.
        done(&mut rings, None, 5, (12, 40), &mut told);
        assert_eq!(told.len(), 5);
    }
}
