//! Which events of the block layer are of which request.
//!
//! An event says device, sectors and direction, and no number of ours. A request is under way between two stamps of its
//! row, `submitted` and `completed`, which lie on the same clock; so an event is of a request that is under way at its
//! time, on its disk, in its direction, and whose sectors it touches. Rows and events are gone through once, in order
//! of time, with the requests under way in a tree by their first sector. Which way a request went through its ring is
//! found in `ring`.
//!
//! - **Splits**: each part of a request that is issued or completed counts its sectors. The request is issued with its
//!   first part and complete with its last.
//! - **Merges**: an event goes through its sectors from the first; whoever has a sector takes those that it has, then
//!   it is the next one's turn.
//! - **The same sectors twice under way**: each sector of an event is of one request only, of one with just its sectors
//!   if there is one, and among several of the one that was seen first. If any assignment has each request pass its
//!   points in order between its stamps, this one does: where another request got the earlier event, the two can be
//!   exchanged from there on (as for unit jobs with deadlines: the earliest deadline first).
//! - **Requeued** by the driver: it waits again, and the next issue counts. **Returned** by the block layer, because it
//!   was not to wait: the next time counts at which it is queued.
//!
//! The kernel reads its clock without a lock and may be some nanoseconds off. So an event may lie [`SLACK`] outside the
//! stamps of a request, if it lies between those of no other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use device::Operation;
use host::tracefs::{BlockEvent, DeviceCode, Event, Point, Way};
use record::Row;
use units::{Bytes, Instant};

use super::Passed;
use super::ring::{Call, Rings};
use crate::live::Followed;

/// By how much stamps of the kernel and of the program may disagree, in nanoseconds.
pub(super) const SLACK: u64 = 2_000;
/// Requests that were not followed to their end are forgotten after so many events.
const FORGET: usize = 1 << 16;

/// The direction of an operation that has sectors.
pub(super) fn way(operation: Operation) -> Option<Way> {
    match operation {
        Operation::Read => Some(Way::Read),
        Operation::Write => Some(Way::Write),
        Operation::Discard => Some(Way::Discard),
        Operation::Flush | Operation::WriteZeroes => None,
    }
}

/// A request under way.
#[derive(Debug, Clone, Copy)]
struct Flight {
    /// The sector behind its last.
    end: u64,
    /// When it was submitted, and when its completion was seen.
    submitted: u64,
    seen: u64,
    /// The place of its row.
    row: u32,
    /// Sectors that have passed each point.
    queued: u64,
    issued: u64,
    done: u64,
    queued_at: u64,
    issued_at: u64,
    /// The call of a ring that it came with.
    call: Option<Call>,
}

/// Requests under way to one disk in one direction, by their first sector and the order in which they were submitted.
#[derive(Debug, Default)]
struct Under {
    flights: BTreeMap<(u64, u32), Flight>,
    /// The longest that there ever is, in sectors.
    longest: u64,
    /// The disk has requests of its own. Then those say when it has done something, and the ends of bios say nothing.
    has_requests: bool,
}

/// Where a request is.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Its first sector, and the one behind its last.
    first: u64,
    end: u64,
    /// The place of its disk among all.
    disk: usize,
    way: Way,
}

/// Goes through rows and events.
pub(super) struct Joiner<'r> {
    rows: &'r [Row],
    /// Those that have a place, by when they were submitted.
    order: Vec<(Instant, u32)>,
    /// By device of the run: its way down, and the place of the disk at its end among all.
    routes: Vec<Option<(Vec<&'r Followed>, usize)>>,
    /// The places of disks by the numbers under which they are known; few enough to look through.
    codes: Vec<(DeviceCode, usize)>,
    /// By disk, three directions each.
    under: Vec<[Under; 3]>,
    /// How many of the rows are or were under way.
    next: usize,
}

impl<'r> Joiner<'r> {
    /// Of rows with sectors, on devices whose disk is known, or what it stands on `level` storeys below. Devices that
    /// stand on less have no requests there.
    pub fn new(rows: &'r [Row], disks: &'r [Option<Followed>], level: usize) -> Joiner<'r> {
        let (mut codes, mut under): (Vec<(DeviceCode, usize)>, Vec<[Under; 3]>) = (Vec::new(), Vec::new());
        let mut route = |followed: &'r Followed| {
            let way: Vec<&Followed> = followed.levels().take(level + 1).collect();
            let disk = &way.get(level)?.disk;
            let known = codes.iter().find(|(code, _)| *code == disk.disk.into()).map(|(_, place)| *place);
            let place = known.unwrap_or(under.len());
            under.resize_with(under.len().max(place + 1), Default::default);
            codes.extend(disk.codes().map(|code| (code, place)));
            Some((way, place))
        };
        let routes = disks.iter().map(|disk| disk.as_ref().and_then(&mut route)).collect();
        let mut joiner = Joiner { rows, order: Vec::with_capacity(rows.len()), routes, codes, under, next: 0 };
        for (row, index) in rows.iter().zip(0..) {
            let Some(Place { first, end, disk, way }) = joiner.place(row) else { continue };
            let longest = &mut joiner.under[disk][way as usize].longest;
            *longest = (*longest).max(end - first);
            joiner.order.push((row.submitted, index));
        }
        joiner.order.sort_unstable();
        joiner
    }

    /// Where a request is; `None` of one that does not lie in one piece of its file, or goes nowhere here.
    fn place(&self, row: &Row) -> Option<Place> {
        let (levels, disk) = self.routes[usize::from(row.device)].as_ref()?;
        let way = way(row.operation).expect("only requests with sectors were given");
        let length = Bytes::new(u64::from(row.length));
        let begin = levels.iter().try_fold(row.offset, |at, followed| followed.place(at, length))?;
        let first = begin.get() / Bytes::SECTOR.get();
        let end = (begin + length).get().div_ceil(Bytes::SECTOR.get());
        Some(Place { first, end, disk: *disk, way })
    }

    /// Gives each request that was followed to its end to `take`, by the place of its row. Events are in order of time,
    /// each with its processor; of equal times the order is that of a request's way.
    pub fn join(&mut self, events: impl Iterator<Item = (usize, Event)>, mut take: impl FnMut(u32, Passed)) {
        let mut rings = Rings::default();
        for (nth, (processor, event)) in events.enumerate() {
            self.submit_until(event.at().saturating_add(SLACK));
            if nth % FORGET == FORGET - 1 {
                let over = |flight: &Flight| flight.seen + SLACK < event.at();
                self.under.iter_mut().flatten().for_each(|under| under.flights.retain(|_, flight| !over(flight)));
                rings.forget(event.at(), &mut take);
            }
            match event {
                Event::Taken(call) => rings.taken(processor, &call, &mut take),
                Event::Posted(call) => rings.posted(&call, &mut take),
                Event::Block(event) if event.way == Way::Other => {}
                Event::Block(event) => {
                    let place = self.codes.iter().find(|(code, _)| *code == event.device);
                    let Some((_, disk)) = place else { continue };
                    let call = rings.call(processor, &event);
                    let rows = self.rows;
                    self.under[*disk][event.way as usize].pass(&event, call, |row, call, passed| {
                        rings.completed(call, row, rows[row as usize].completed, passed, &mut take);
                    });
                }
            }
        }
        rings.forget(u64::MAX, &mut take);
    }

    /// Puts those under way that were submitted by then.
    fn submit_until(&mut self, at: u64) {
        while let Some((_, index)) = self.order.get(self.next).filter(|(from, _)| from.as_nanos() <= at) {
            let row = &self.rows[*index as usize];
            let Place { first, end, disk, way } = self.place(row).expect("only requests with a place are in order");
            let (submitted, seen) = (row.submitted.as_nanos(), row.completed.as_nanos());
            let turn = self.next as u32;
            let (row, [queued, issued, done, queued_at, issued_at]) = (*index, [0; 5]);
            let flight = Flight { end, submitted, seen, row, queued, issued, done, queued_at, issued_at, call: None };
            self.under[disk][way as usize].flights.insert((first, turn), flight);
            self.next += 1;
        }
    }
}

/// The events of all processors in order of time, each with the place of its processor. Those of one are in order
/// already.
pub(super) fn merged(processors: &[Vec<Event>]) -> impl Iterator<Item = (usize, Event)> {
    let mut rest: Vec<&[Event]> = processors.iter().map(Vec::as_slice).collect();
    let head =
        |(index, events): (usize, &&[Event])| events.first().map(|event| Reverse((event.at(), turn(event), index)));
    let mut heads: BinaryHeap<_> = rest.iter().enumerate().filter_map(head).collect();
    // Mostly many events of one processor follow each other: the first, and how many more.
    let mut run = (0, 0);
    std::iter::from_fn(move || {
        if run.1 == 0 {
            let Reverse((_, _, index)) = heads.pop()?;
            let events = rest[index];
            let before_others =
                |event: &Event| heads.peek().is_none_or(|Reverse(other)| (event.at(), turn(event), index) < *other);
            let length = events.iter().take_while(|event| before_others(event)).count().max(1);
            run = (index, length);
        }
        let (index, left) = run;
        let (event, behind) = rest[index].split_first().expect("a run has events");
        (rest[index], run) = (behind, (index, left - 1));
        if left == 1 {
            heads.extend(head((index, &rest[index])));
        }
        Some((index, *event))
    })
}

/// The place of an event among those of one time: into the ring, through the block layer, and back.
fn turn(event: &Event) -> u8 {
    match event {
        Event::Taken(_) => 0,
        Event::Block(event) => 1 + event.point as u8,
        Event::Posted(_) => u8::MAX,
    }
}

impl Under {
    /// An event, the call that it came with, and whom it completes.
    fn pass(&mut self, event: &BlockEvent, call: Option<Call>, mut complete: impl FnMut(u32, Option<Call>, Passed)) {
        self.has_requests |= event.point == Point::Issued;
        if event.point == Point::BioCompleted && self.has_requests {
            return;
        }
        let (mut at, end) = (event.sector, event.sector.saturating_add(u64::from(event.sectors)));
        while at < end {
            let Some((key, flight)) = self.owner(at, event) else {
                // Nobody has this sector; somebody may have one behind it.
                let Some(next) = self.flights.range((at + 1, 0)..(end, 0)).next() else { return };
                at = next.0.0;
                continue;
            };
            let until = end.min(flight.end);
            let taken = until - at;
            at = until;
            match event.point {
                Point::Queued => {
                    if flight.queued == 0 {
                        (flight.queued_at, flight.call) = (event.at, call);
                    }
                    flight.queued += taken;
                }
                Point::Issued => {
                    if flight.issued == 0 {
                        flight.issued_at = event.at;
                    }
                    flight.issued += taken;
                }
                Point::Requeued => flight.issued = flight.issued.saturating_sub(taken),
                Point::Returned => flight.queued = flight.queued.saturating_sub(taken),
                Point::Completed | Point::BioCompleted => {
                    flight.done += taken;
                    if flight.done >= flight.end - key.0 {
                        let instant = Instant::from_nanos;
                        let issued = (event.point == Point::Completed).then(|| instant(flight.issued_at));
                        let (queued, completed) = (instant(flight.queued_at), instant(event.at));
                        let passed = Passed { taken: None, queued, issued, completed, posted: None };
                        let (row, call) = (flight.row, flight.call);
                        self.flights.remove(&key);
                        complete(row, call, passed);
                    }
                }
            }
        }
    }

    /// Of those that have a sector and may pass this point with it, the one whose turn it is.
    fn owner(&mut self, sector: u64, event: &BlockEvent) -> Option<((u64, u32), &mut Flight)> {
        let from = (sector + 1).saturating_sub(self.longest);
        let may = |((first, _), flight): &(&(u64, u32), &mut Flight)| {
            let all = flight.end - first;
            let passes = match event.point {
                Point::Queued => flight.queued < all,
                Point::Issued => flight.issued < flight.queued,
                Point::Requeued => flight.issued > flight.done,
                Point::Returned => flight.queued > flight.issued.max(flight.done),
                Point::Completed => flight.done < flight.issued,
                Point::BioCompleted => flight.issued == 0 && flight.done < flight.queued,
            };
            passes && flight.end > sector && flight.seen + SLACK >= event.at
        };
        let all = self.flights.range_mut((from, 0)..(sector + 1, 0)).filter(may);
        let behind = event.sector.saturating_add(u64::from(event.sectors));
        let other = |((first, _), flight): &(&(u64, u32), &mut Flight)| (*first, flight.end) != (event.sector, behind);
        let outside = |flight: &Flight| event.at < flight.submitted || event.at > flight.seen;
        let one = match event.point {
            // Of several, the last that got so far goes back.
            Point::Requeued | Point::Returned => all.max_by_key(|one| (!other(one), one.1.seen)),
            _ => all.min_by_key(|one| (other(one), outside(one.1), one.1.seen)),
        };
        one.map(|(key, flight)| (*key, flight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::block::DeviceNumber;
    use host::tracefs::TracedDisk;
    use proptest::prelude::*;
    use record::Phase;

    const DISK: DeviceNumber = DeviceNumber { major: 7, minor: 1 };
    const PARTITION: DeviceNumber = DeviceNumber { major: 8, minor: 2 };

    fn disks() -> [Option<Followed>; 2] {
        let whole = DeviceNumber { major: 8, minor: 0 };
        let disks = [
            TracedDisk { device: DISK, disk: DISK, first: 0 },
            TracedDisk { device: PARTITION, disk: whole, first: 2048 },
        ];
        disks.map(|disk| Some(followed(disk)))
    }

    fn followed(disk: TracedDisk) -> Followed {
        let (name, from) = (disk.device.to_string(), Bytes::ZERO);
        Followed { disk, name, from, file: None, extents: None, below: None }
    }

    /// A read of `sectors` from `first` on, under way from one microsecond to another.
    fn row(request: u32, device: u16, (first, sectors): (u64, u32), (from, to): (u64, u64)) -> Row {
        Row {
            request,
            device,
            offset: Bytes::new(first * 512),
            length: sectors * 512,
            intended: Instant::from_nanos(from * 1000),
            submitted: Instant::from_nanos(from * 1000),
            completed: Instant::from_nanos(to * 1000),
            ..Row::new(Operation::Read, Phase::Measure)
        }
    }

    fn event(at: u64, point: Point, (sector, sectors): (u64, u32)) -> BlockEvent {
        BlockEvent { at: at * 1000, sector, sectors, device: DISK.into(), point, way: Way::Read }
    }

    /// Request, and the microseconds at which it was queued, issued and completed.
    fn joined(rows: &[Row], events: &[BlockEvent]) -> Vec<(u32, u64, Option<u64>, u64)> {
        let mut found = Vec::new();
        // Each as if it were of a processor of its own.
        let events: Vec<Vec<Event>> = events.iter().map(|event| vec![Event::Block(*event)]).collect();
        Joiner::new(rows, &disks(), 0).join(merged(&events), |row, passed| {
            let micros = |at: Instant| at.as_nanos() / 1000;
            found.push((
                rows[row as usize].request,
                micros(passed.queued),
                passed.issued.map(micros),
                micros(passed.completed),
            ));
        });
        found.sort_unstable();
        found
    }

    #[test]
    fn a_request_of_another_program_and_another_direction_are_nobodys() {
        let rows = [row(1, 0, (8, 8), (10, 90))];
        let own =
            [(20, Point::Queued), (30, Point::Issued), (40, Point::Completed)].map(|(at, p)| event(at, p, (8, 8)));
        assert_eq!(joined(&rows, &own), [(1, 20, Some(30), 40)]);
        let mut all = own.to_vec();
        all.extend(
            [(15, Point::Queued), (17, Point::Issued), (19, Point::Completed)].map(|(at, p)| event(at, p, (64, 8))),
        );
        all.extend(own.map(|one| BlockEvent { at: one.at - 7000, way: Way::Write, ..one }));
        all.extend(own.map(|one| BlockEvent { at: one.at - 7000, device: DeviceCode(1), ..one }));
        all.extend(own.map(|one| BlockEvent { at: one.at + 100_000, ..one }));
        assert_eq!(joined(&rows, &all), [(1, 20, Some(30), 40)]);
    }

    #[test]
    fn a_split_request_is_issued_with_its_first_part_and_complete_with_its_last() {
        let rows = [row(1, 0, (0, 64), (0, 90))];
        let events = [
            event(10, Point::Queued, (0, 64)),
            event(20, Point::Issued, (0, 32)),
            event(25, Point::Issued, (32, 32)),
            event(40, Point::Completed, (32, 32)),
            event(60, Point::Completed, (0, 16)),
            event(70, Point::Completed, (16, 16)),
        ];
        assert_eq!(joined(&rows, &events), [(1, 10, Some(20), 70)]);
        assert_eq!(joined(&rows, &events[..5]), [], "its last sectors were never completed");
        // Two bios of one request: queued with the first.
        let two = [event(10, Point::Queued, (0, 32)), event(12, Point::Queued, (32, 32))];
        assert_eq!(joined(&rows, &[&two[..], &events[1..]].concat()), [(1, 10, Some(20), 70)]);
    }

    #[test]
    fn merged_requests_share_what_carries_them() {
        let rows = [row(1, 0, (0, 8), (0, 90)), row(2, 0, (8, 8), (1, 91)), row(3, 0, (24, 8), (2, 92))];
        let queued = [(5, 0), (6, 8), (7, 24)].map(|(at, first)| event(at, Point::Queued, (first, 8)));
        // One request over all, also over sectors of another program in between.
        let carried = [event(10, Point::Issued, (0, 32)), event(50, Point::Completed, (0, 32))];
        let expected = [(1, 5, Some(10), 50), (2, 6, Some(10), 50), (3, 7, Some(10), 50)];
        assert_eq!(joined(&rows, &[&queued[..], &carried].concat()), expected);
    }

    #[test]
    fn two_requests_for_one_sector_are_told_apart_in_order() {
        let rows = [row(1, 0, (0, 8), (0, 50)), row(2, 0, (0, 8), (5, 90))];
        let points = [(7, Point::Queued), (8, Point::Queued), (10, Point::Issued), (20, Point::Issued)];
        let mut events = points.map(|(at, point)| event(at, point, (0, 8))).to_vec();
        events.extend([(40, Point::Completed), (70, Point::Completed)].map(|(at, point)| event(at, point, (0, 8))));
        assert_eq!(joined(&rows, &events), [(1, 7, Some(10), 40), (2, 8, Some(20), 70)]);
        // The second is seen first: it was completed first.
        let rows = [row(1, 0, (0, 8), (0, 90)), row(2, 0, (0, 8), (5, 50))];
        assert_eq!(joined(&rows, &events), [(1, 8, Some(20), 70), (2, 7, Some(10), 40)]);
        // The second was all over before the first was queued.
        let rows = [row(1, 0, (0, 8), (0, 90)), row(2, 0, (0, 8), (5, 20))];
        let points = [Point::Queued, Point::Issued, Point::Completed];
        let times = [[6, 7, 15], [30, 40, 80]];
        let events = times.map(|times| [0, 1, 2].map(|at| event(times[at], points[at], (0, 8)))).concat();
        assert_eq!(joined(&rows, &events), [(1, 30, Some(40), 80), (2, 6, Some(7), 15)]);
    }

    #[test]
    fn of_a_requeued_request_the_last_issue_counts() {
        let rows = [row(1, 0, (0, 8), (0, 90))];
        let points = [(5, Point::Queued), (10, Point::Issued), (11, Point::Requeued), (30, Point::Issued)];
        let mut events = points.map(|(at, point)| event(at, point, (0, 8))).to_vec();
        events.push(event(50, Point::Completed, (0, 8)));
        assert_eq!(joined(&rows, &events), [(1, 5, Some(30), 50)]);
    }

    #[test]
    fn what_was_returned_at_once_is_queued_when_it_is_queued_again() {
        let rows = [row(1, 0, (0, 64), (0, 90))];
        let events = [
            event(5, Point::Queued, (0, 32)),
            event(6, Point::Returned, (0, 32)),
            event(20, Point::Queued, (0, 32)),
            event(21, Point::Issued, (0, 32)),
            event(22, Point::Queued, (32, 32)),
            event(23, Point::Issued, (32, 32)),
            event(50, Point::Completed, (0, 32)),
            event(60, Point::Completed, (32, 32)),
        ];
        assert_eq!(joined(&rows, &events), [(1, 20, Some(21), 60)]);
    }

    #[test]
    fn a_partition_is_queued_by_its_own_number_and_issued_by_the_disks() {
        let rows = [row(1, 1, (0, 8), (0, 90))];
        let [part, whole] = [PARTITION, DeviceNumber { major: 8, minor: 0 }].map(DeviceCode::from);
        let on = |device, one: BlockEvent| BlockEvent { device, ..one };
        let events = [
            on(part, event(5, Point::Queued, (2048, 8))),
            on(whole, event(6, Point::Issued, (2048, 8))),
            on(whole, event(7, Point::Completed, (2048, 8))),
        ];
        assert_eq!(joined(&rows, &events), [(1, 5, Some(6), 7)]);
    }

    #[test]
    fn a_device_without_requests_of_its_own_has_two_points() {
        let rows = [row(1, 0, (0, 8), (0, 90))];
        let events = [event(5, Point::Queued, (0, 8)), event(9, Point::BioCompleted, (0, 8))];
        assert_eq!(joined(&rows, &events), [(1, 5, None, 9)]);
    }

    #[test]
    fn what_a_loop_device_passes_on_is_found_where_its_file_lies() {
        let (mut top, lower) =
            (followed(TracedDisk { device: DISK, disk: DISK, first: 0 }), disks()[1].clone().unwrap());
        // The loop device begins a MiB into the partition, which begins a MiB into its disk.
        top.below = Some(Box::new(Followed { from: Bytes::mib(1), ..lower }));
        let rows = [row(1, 0, (8, 8), (0, 90))];
        let whole = DeviceCode::from(DeviceNumber { major: 8, minor: 0 });
        let points = [(20, Point::Queued), (25, Point::Issued), (60, Point::Completed)];
        let below = points.map(|(at, point)| BlockEvent { device: whole, ..event(at, point, (4096 + 8, 8)) });
        let disks = [Some(top), None];
        let mut found = Vec::new();
        for level in 0..3 {
            Joiner::new(&rows, &disks, level)
                .join(below.map(|event| (0, Event::Block(event))).into_iter(), |row, passed| {
                    found.push((level, row, passed))
                });
        }
        let [(1, 0, passed)] = found[..] else { panic!("{found:?}") };
        assert_eq!((passed.queued.as_nanos(), passed.completed.as_nanos()), (20_000, 60_000));
    }

    proptest! {
        /// Any load on few sectors, of which the kernel tells all: each request is joined, and passes its points in
        /// order.
        #[test]
        fn whatever_is_told_whole_is_joined_whole(
            requests in proptest::collection::vec(
                (0u64..40, 1u32..8, 0u64..400, 1u64..60, 1u64..60, 1u64..60, 1u64..60),
                1..60,
            ),
        ) {
            let (mut rows, mut events) = (Vec::new(), Vec::new());
            for (index, (first, length, from, a, b, c, d)) in requests.iter().copied().enumerate() {
                // Several begin at one sector, with one length or several, and are under way at once.
                let place = (first * 8, length);
                let from = from + index as u64 * 1000 / 8;
                rows.push(row(index as u32 + 1, 0, place, (from, from + a + b + c + d)));
                let points = [(a, Point::Queued), (a + b, Point::Issued), (a + b + c, Point::Completed)];
                events.extend(points.map(|(at, point)| event(from + at, point, place)));
            }
            let found = joined(&rows, &events);
            prop_assert_eq!(found.len(), rows.len());
            for (request, queued, issued, completed) in found {
                let row = &rows[request as usize - 1];
                let [from, to] = [row.submitted, row.completed].map(|at| at.as_nanos() / 1000);
                let stamps = [from, queued, issued.unwrap(), completed, to];
                prop_assert!(stamps.is_sorted(), "{:?}", stamps);
            }
        }
    }
}
