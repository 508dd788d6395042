//! The requests under way to one disk in one direction, and whose an event is.
//!
//! The rules stand in `join`: sectors are counted, each of an event is of one request only, and among several that may
//! pass a point the one that was seen first has its turn.

use std::collections::BTreeMap;

use host::tracefs::{BlockEvent, Point};
use units::Instant;

use super::Passed;
use super::join::SLACK;
use super::ring::Call;

/// A request under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    /// The sector behind its last.
    end: u64,
    /// When it was submitted, and when its completion was seen.
    submitted: u64,
    pub seen: u64,
    pub whose: Whose,
    /// Sectors that have passed each point.
    queued: u32,
    issued: u32,
    done: u32,
    queued_at: u64,
    issued_at: u64,
    /// Sectors of it that its disk has passed on, and how many parts of them are still under way.
    pub passed: u32,
    pub away: u32,
    /// Of what was passed on of it, what was done last so far.
    pub lower: Option<u32>,
    /// The call of a ring that it came with.
    pub call: Option<Call>,
}

/// Why a request is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// A row asked for it, by its place.
    Row(u32),
    /// A device that stands on this one passed it on: the place of that request among all that are so known.
    Passed(u32),
}

/// Its first sector, and the order in which they were submitted.
pub(super) type Key = (u64, u32);

impl Flight {
    /// One that was submitted and seen at these times, and ends before a sector.
    pub fn new(end: u64, (submitted, seen): (u64, u64), whose: Whose) -> Flight {
        let [queued, issued, done, passed, away] = [0; 5];
        let (queued_at, issued_at, lower, call) = (0, 0, None, None);
        Flight { end, submitted, seen, whose, queued, issued, done, queued_at, issued_at, passed, away, lower, call }
    }

    /// As a device passes it on: it is queued from then on.
    pub fn passed_on(self, sectors: u32) -> Flight {
        Flight { queued: sectors, queued_at: self.submitted, ..self }
    }
}

/// Requests under way to one disk in one direction.
#[derive(Debug, Default)]
pub(super) struct Under {
    /// Where each is kept, by its key: a tree of small values is gone through faster.
    places: BTreeMap<Key, u32>,
    flights: Vec<Flight>,
    /// Places of those that are over.
    free: Vec<u32>,
    /// The longest that there ever is, in sectors.
    longest: u64,
    /// The disk has requests of its own. Then those say when it has done something, and the ends of bios say nothing.
    has_requests: bool,
}

impl Under {
    /// One more is under way.
    pub fn insert(&mut self, key: Key, flight: Flight) {
        self.longest = self.longest.max(flight.end - key.0);
        let place = self.free.pop().unwrap_or(self.flights.len() as u32);
        match self.flights.get_mut(place as usize) {
            Some(free) => *free = flight,
            None => self.flights.push(flight),
        }
        self.places.insert(key, place);
    }

    /// The one of this key, if it is still under way.
    pub fn get(&mut self, key: &Key) -> Option<&mut Flight> {
        self.places.get(key).map(|place| &mut self.flights[*place as usize])
    }

    /// Forgets those that were seen before.
    pub fn forget(&mut self, before: u64) {
        let Under { places, flights, free, .. } = self;
        places.retain(|_, place| {
            let is_over = flights[*place as usize].seen < before;
            free.extend(is_over.then_some(*place));
            !is_over
        });
    }

    /// An event, and the call that it came with. Requests that it completes go to `over`.
    pub fn pass(&mut self, event: &BlockEvent, call: Option<Call>, over: &mut Vec<(Flight, Passed)>) {
        self.has_requests |= event.point == Point::Issued;
        if event.point == Point::BioCompleted && self.has_requests {
            return;
        }
        self.each(event, |(first, _), flight, _, sectors| {
            match event.point {
                Point::Queued => {
                    if flight.queued == 0 {
                        (flight.queued_at, flight.call) = (event.at, call);
                    }
                    flight.queued += sectors;
                }
                Point::Issued => {
                    if flight.issued == 0 {
                        flight.issued_at = event.at;
                    }
                    flight.issued += sectors;
                }
                Point::Requeued => flight.issued = flight.issued.saturating_sub(sectors),
                Point::Returned => {
                    flight.queued = flight.queued.saturating_sub(sectors);
                    (flight.passed, flight.away) = (0, 0);
                }
                Point::Completed | Point::BioCompleted => flight.done += sectors,
                Point::Left | Point::Handed => unreachable!("what is passed on passes no point here"),
            }
            let all = flight.end - first;
            // Device mapper cuts its bio shorter with each part that it passes on, so only the last part ends.
            let is_rest = event.point == Point::BioCompleted && event.end() == flight.end;
            let is_back = is_rest && u64::from(flight.passed) >= all && flight.away == 0;
            let is_over = u64::from(flight.done) >= all || is_back;
            if is_over {
                let instant = Instant::from_nanos;
                let issued = (event.point == Point::Completed).then(|| instant(flight.issued_at));
                let (queued, completed) = (instant(flight.queued_at), instant(event.at));
                let lower = flight.lower;
                over.push((*flight, Passed { taken: None, queued, issued, completed, posted: None, lower }));
            }
            is_over
        });
    }

    /// Goes through those that have the sectors of an event: which, from which of its sectors on, and how many. Those
    /// for which `visit` is true are under way no more.
    pub fn each(&mut self, event: &BlockEvent, mut visit: impl FnMut(Key, &mut Flight, u64, u32) -> bool) {
        let (mut at, end) = (event.sector, event.end());
        while at < end {
            let Some((key, place)) = self.owner(at, event) else {
                // Nobody has this sector; somebody may have one behind it.
                let Some(next) = self.places.range((at + 1, 0)..(end, 0)).next() else { return };
                at = next.0.0;
                continue;
            };
            let flight = &mut self.flights[place as usize];
            let until = end.min(flight.end);
            if visit(key, flight, at, (until - at) as u32) {
                self.places.remove(&key);
                self.free.push(place);
            }
            at = until;
        }
    }

    /// Of those that have a sector and may pass this point with it, the one whose turn it is, and where it is kept.
    fn owner(&self, sector: u64, event: &BlockEvent) -> Option<(Key, u32)> {
        let from = (sector + 1).saturating_sub(self.longest);
        let known = |(key, place): (&Key, &u32)| (*key, *place, &self.flights[*place as usize]);
        let may = |((first, _), _, flight): &(Key, u32, &Flight)| {
            let passes = match event.point {
                Point::Queued => u64::from(flight.queued) < flight.end - first,
                Point::Issued => flight.issued < flight.queued,
                Point::Requeued => flight.issued > flight.done,
                Point::Returned => flight.queued > flight.issued.max(flight.done),
                Point::Completed => flight.done < flight.issued,
                Point::BioCompleted => flight.issued == 0 && flight.done < flight.queued,
                Point::Left | Point::Handed => flight.queued > 0,
            };
            passes && flight.end > sector && flight.seen + SLACK >= event.at
        };
        let all = self.places.range((from, 0)..(sector + 1, 0)).map(known).filter(may);
        let other = |((first, _), _, flight): &(Key, u32, &Flight)| (*first, flight.end) != (event.sector, event.end());
        let outside = |flight: &Flight| event.at < flight.submitted || event.at > flight.seen;
        let one = match event.point {
            // Of several, the last that got so far goes back.
            Point::Requeued | Point::Returned => all.max_by_key(|one| (!other(one), one.2.seen)),
            _ => all.min_by_key(|one| (other(one), outside(one.2), one.2.seen)),
        };
        one.map(|(key, place, _)| (key, place))
    }
}
