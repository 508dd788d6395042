//! Which events of the block layer are of which request.
//!
//! An event says device, sectors and direction, and no number of ours. A request is under way between two stamps of its
//! row, `submitted` and `completed`, which lie on the same clock; so an event is of a request that is under way at its
//! time, on its disk, in its direction, and whose sectors it touches. Rows and events are gone through once, in order
//! of time, with the requests under way in a tree by their first sector (`under`). Which way a request went through its
//! ring is found in `ring`.
//!
//! - **Splits**: each part of a request that is issued or completed counts its sectors. The request is issued with its
//!   first part and complete with its last.
//! - **Merges**: an event goes through its sectors from the first; whoever has a sector takes those that it has, then
//!   it is the next one's turn.
//! - **The same sectors twice under way**: each sector of an event is of one request only, of one with just its sectors
//!   if there is one, and among several of the one that was seen first. If any assignment has each request pass its
//!   points in order between its stamps, this one does: where another request got the earlier event, the two can be
//!   exchanged from there on (as for unit jobs with deadlines: the earliest deadline first).
//! - **Passed on** by md or device mapper: each part is a request of its own to the device that gets it, and may be
//!   passed on again. Of a request that was, what counts below is the part that was done last: the one it waited for.
//!   Device mapper cuts its bio shorter with each part, and tells the end of the last part only: all of a request ends
//!   with it, if all parts are back.
//! - **Requeued** by the driver: it waits again, and the next issue counts. **Returned** by the block layer, because it
//!   was not to wait: the next time counts at which it is queued.
//!
//! The kernel reads its clock without a lock and may be some nanoseconds off. So an event may lie [`SLACK`] outside the
//! stamps of a request, if it lies between those of no other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use device::Operation;
use host::tracefs::{BlockEvent, DeviceCode, Event, Point, TracedDisk, Way};
use record::Row;
use units::Bytes;

use super::Passed;
use super::ring::Rings;
use super::under::{Flight, Key, Under, Whose};
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

/// Where a row's request goes, in order of when it was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    submitted: u64,
    /// The place of its row.
    row: u32,
    /// How many sectors, from which on.
    sectors: u32,
    first: u64,
}

/// The disks that events may be of, by their places.
#[derive(Debug, Default)]
struct Disks<'r> {
    names: Vec<&'r str>,
    /// The numbers under which they are known, and the sector at which what has the number begins; few enough to look
    /// through.
    codes: Vec<(DeviceCode, usize, u64)>,
}

impl<'r> Disks<'r> {
    fn known(&self, code: DeviceCode) -> Option<(usize, u64)> {
        self.codes.iter().find(|(known, ..)| *known == code).map(|(_, place, first)| (*place, *first))
    }

    /// The place of one, which may be known already.
    fn add(&mut self, disk: &TracedDisk, name: &'r str) -> usize {
        let place = self.known(disk.disk.into()).map_or(self.names.len(), |(place, _)| place);
        if place == self.names.len() {
            self.names.push(name);
        }
        let first = |code| if code == DeviceCode::from(disk.device) { disk.first } else { 0 };
        self.codes.extend(disk.codes().map(|code| (code, place, first(code))));
        place
    }
}

/// A request that a device passed on, seen from above.
#[derive(Debug, Clone, Copy)]
struct Parent {
    /// The disk that passed it on, and the request there.
    disk: usize,
    way: Way,
    key: Key,
    /// The disk that it went to.
    to: usize,
}

/// Goes through rows and events.
pub(super) struct Joiner<'r> {
    rows: &'r [Row],
    /// Those that have a place, by when they were submitted.
    order: Vec<Asked>,
    /// By device of the run: its way down, and the place of the disk at its end among all.
    routes: Vec<Option<(Vec<&'r Followed>, usize)>>,
    disks: Disks<'r>,
    /// By disk, three directions each.
    under: Vec<[Under; 3]>,
    /// How many of the rows are or were under way.
    next: usize,
    /// All that was passed on.
    parents: Vec<Parent>,
    /// What was done of it: on which disk, and when.
    lower: Vec<(usize, Passed)>,
    /// By processor: what is just passed on there.
    left: Vec<Option<(usize, BlockEvent)>>,
}

impl<'r> Joiner<'r> {
    /// Of rows with sectors, on devices whose disk is known, or what it stands on `level` storeys below. Devices that
    /// stand on less have no requests there.
    pub fn new(rows: &'r [Row], disks: &'r [Option<Followed>], level: usize) -> Joiner<'r> {
        let mut known = Disks::default();
        let mut route = |followed: &'r Followed| {
            let way: Vec<&Followed> = followed.levels().take(level + 1).collect();
            let here = way.get(level)?;
            let place = known.add(&here.disk, &here.name);
            for member in &here.members {
                known.add(&member.disk, &member.name);
            }
            Some((way, place))
        };
        let routes = disks.iter().map(|disk| disk.as_ref().and_then(&mut route)).collect();
        let mut under = Vec::new();
        under.resize_with(known.names.len(), Default::default);
        let mut joiner = Joiner {
            rows,
            order: Vec::with_capacity(rows.len()),
            routes,
            disks: known,
            under,
            next: 0,
            parents: Vec::new(),
            lower: Vec::new(),
            left: Vec::new(),
        };
        for (row, index) in rows.iter().zip(0..) {
            let Some(begin) = joiner.place(row) else { continue };
            let first = begin.get() / Bytes::SECTOR.get();
            let end = (begin.get() + u64::from(row.length)).div_ceil(Bytes::SECTOR.get());
            let (submitted, sectors) = (row.submitted.as_nanos(), (end - first) as u32);
            joiner.order.push(Asked { submitted, row: index, sectors, first });
        }
        // Rows of one thread are in order but for a few.
        joiner.order.sort();
        joiner
    }

    /// The names of the disks, by their places.
    pub fn names(&self) -> &[&'r str] {
        &self.disks.names
    }

    /// Where on its disk a request is; `None` of one that does not lie in one piece of its file, or goes nowhere here.
    fn place(&self, row: &Row) -> Option<Bytes> {
        let (levels, _) = self.routes[usize::from(row.device)].as_ref()?;
        let length = Bytes::new(u64::from(row.length));
        levels.iter().try_fold(row.offset, |at, followed| followed.place(at, length))
    }

    /// Gives each request that was followed to its end to `take`, by the place of its row: how it passed its disk, and
    /// those that this passed it on to, each with the place of the disk. Events are in order of time, each with its
    /// processor; of equal times the order is that of a request's way.
    pub fn join(
        &mut self,
        events: impl Iterator<Item = (usize, Event)>,
        mut take: impl FnMut(u32, &[(usize, Passed)]),
    ) {
        let (mut rings, mut over, mut way) = (Rings::default(), Vec::new(), Vec::new());
        let (rows, disks) = (self.rows, self.homes());
        let disk = |row: u32| disks[usize::from(rows[row as usize].device)].expect("it has a place");
        let mut told = |row, passed: Passed, lower: &[(usize, Passed)]| {
            way.clear();
            way.push((disk(row), passed));
            while let Some(next) = way.last().and_then(|(_, passed)| passed.lower) {
                way.push(lower[next as usize]);
            }
            take(row, &way);
        };
        for (nth, (processor, event)) in events.enumerate() {
            self.submit_until(event.at().saturating_add(SLACK));
            if nth % FORGET == FORGET - 1 {
                self.under.iter_mut().flatten().for_each(|under| under.forget(event.at().saturating_sub(SLACK)));
                rings.forget(event.at(), &mut |row, passed| told(row, passed, &self.lower));
            }
            match event {
                Event::Taken(call) => rings.taken(processor, &call, &mut |row, passed| told(row, passed, &self.lower)),
                Event::Posted(call) => rings.posted(&call, &mut |row, passed| told(row, passed, &self.lower)),
                Event::Block(event) if event.way == Way::Other => {}
                Event::Block(event) if matches!(event.point, Point::Left | Point::Handed) => {
                    self.pass_on(processor, event);
                }
                Event::Block(event) => {
                    let Some((disk, _)) = self.disks.known(event.device) else { continue };
                    let call = rings.call(processor, &event);
                    self.under[disk][event.way as usize].pass(&event, call, &mut over);
                    for (flight, passed) in over.drain(..) {
                        match flight.whose {
                            Whose::Row(row) => {
                                let seen = rows[row as usize].completed;
                                let lower = &self.lower;
                                rings.completed(flight.call, row, seen, passed, &mut |row, passed| {
                                    told(row, passed, lower);
                                });
                            }
                            Whose::Passed(parent) => self.done_below(parent, passed),
                        }
                    }
                }
            }
        }
        rings.forget(u64::MAX, &mut |row, passed| told(row, passed, &self.lower));
    }

    /// A device passes a request on, or parts of several.
    fn pass_on(&mut self, processor: usize, event: BlockEvent) {
        let known = self.disks.known(event.device);
        self.left.resize(self.left.len().max(processor + 1), None);
        if event.point == Point::Left {
            self.left[processor] = known.map(|(disk, _)| (disk, event));
            return;
        }
        let (Some((from, left)), Some((to, begin))) = (self.left[processor].take(), known) else { return };
        if from == to {
            return;
        }
        let way = event.way;
        let mut parts = Vec::new();
        self.under[from][way as usize].each(&left, |key, flight, at, sectors| {
            flight.passed = flight.passed.saturating_add(sectors);
            flight.away += 1;
            parts.push((Parent { disk: from, way, key, to }, at - left.sector, sectors, flight.seen));
            false
        });
        let under = &mut self.under[to][way as usize];
        for (parent, skipped, sectors, seen) in parts {
            let first = event.sector.saturating_add(begin).saturating_add(skipped);
            let (end, turn) = (first.saturating_add(u64::from(sectors)), self.parents.len() as u32);
            let flight = Flight::new(end, (event.at, seen), Whose::Passed(turn)).passed_on(sectors);
            // Turns of rows count from 0 on.
            under.insert((first, u32::MAX - turn), flight);
            self.parents.push(parent);
        }
    }

    /// A part that was passed on is done. The request above notes it as the last so far.
    fn done_below(&mut self, parent: u32, passed: Passed) {
        let Parent { disk, way, key, to } = self.parents[parent as usize];
        if let Some(above) = self.under[disk][way as usize].get(&key) {
            above.away = above.away.saturating_sub(1);
            above.lower = Some(self.lower.len() as u32);
            self.lower.push((to, passed));
        }
    }

    /// By device of the run: the place of the disk that its requests go to.
    fn homes(&self) -> Vec<Option<usize>> {
        self.routes.iter().map(|route| Some(route.as_ref()?.1)).collect()
    }

    /// Puts those under way that were submitted by then.
    fn submit_until(&mut self, at: u64) {
        while let Some(Asked { submitted, row, sectors, first }) = self.order.get(self.next).copied()
            && submitted <= at
        {
            let Row { device, operation, completed, .. } = &self.rows[row as usize];
            let (_, disk) = self.routes[usize::from(*device)].as_ref().expect("only what has a place is in order");
            let way = way(*operation).expect("only requests with sectors were given");
            let times = (submitted, completed.as_nanos());
            let flight = Flight::new(first + u64::from(sectors), times, Whose::Row(row));
            self.under[*disk][way as usize].insert((first, self.next as u32), flight);
            self.next += 1;
        }
    }
}

/// The events of all processors in order of time, each with the place of its processor. Those of one are in order
/// already.
pub(super) fn merged(processors: &[Vec<Event>]) -> impl Iterator<Item = (usize, Event)> {
    let mut rest: Vec<&[Event]> = processors.iter().map(Vec::as_slice).collect();
    let head = |index: usize, event: &Event| (event.at(), turn(event), index);
    let first = |(index, events): (usize, &&[Event])| Some(Reverse(head(index, events.first()?)));
    // The processor whose event comes next, and the first events of all others. Mostly several events of one processor
    // follow each other, and then the others are only looked at.
    let (mut current, mut others) = (0, rest.iter().enumerate().skip(1).filter_map(first).collect::<BinaryHeap<_>>());
    std::iter::from_fn(move || {
        loop {
            if let Some((event, behind)) = rest.get(current)?.split_first() {
                let here = Reverse(head(current, event));
                if others.peek().is_none_or(|other| here > *other) {
                    rest[current] = behind;
                    return Some((current, *event));
                }
                others.push(here);
            }
            Reverse((.., current)) = others.pop()?;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Member;
    use host::block::DeviceNumber;
    use proptest::prelude::*;
    use record::Phase;
    use units::Instant;

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
        Followed { disk, name, from, file: None, extents: None, members: Vec::new(), below: None }
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
        Joiner::new(rows, &disks(), 0).join(merged(&events), |row, way| {
            let (_, passed) = way[0];
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
                .join(below.map(|event| (0, Event::Block(event))).into_iter(), |row, way| {
                    found.push((level, row, way[0].1))
                });
        }
        let [(1, 0, passed)] = found[..] else { panic!("{found:?}") };
        assert_eq!((passed.queued.as_nanos(), passed.completed.as_nanos()), (20_000, 60_000));
    }

    /// A volume upon an array of a partition and of a disk.
    #[test]
    fn of_what_is_passed_on_the_part_counts_that_was_done_last() {
        let number = |major, minor| DeviceNumber { major, minor };
        let whole = |device| TracedDisk { device, disk: device, first: 0 };
        let [array, disk] = [number(9, 0), number(8, 16)];
        let part = disks()[1].clone().unwrap().disk;
        let member = |name: &str, disk| Member { disk, name: name.to_owned() };
        let members = vec![member("md0", whole(array)), member("sda2", part), member("sdb", whole(disk))];
        let top = Followed { members, ..followed(whole(number(253, 0))) };
        // 16 sectors of the volume, which begins 100 sectors into the array, which stripes by 8 sectors.
        let rows = [row(1, 0, (0, 16), (0, 90)), row(2, 0, (64, 8), (0, 90))];
        let on = |device: DeviceNumber, one: BlockEvent| BlockEvent { device: device.into(), ..one };
        let passed = |at, from: (DeviceNumber, u64), to: (DeviceNumber, u64), sectors| {
            let side = |point, (device, sector)| on(device, event(at, point, (sector, sectors)));
            [side(Point::Left, from), side(Point::Handed, to)]
        };
        let (volume, sda) = (number(253, 0), number(8, 0));
        let mut events = vec![on(volume, event(5, Point::Queued, (0, 16)))];
        events.extend(passed(6, (volume, 0), (array, 100), 16));
        events.push(on(array, event(7, Point::Queued, (100, 16))));
        events.extend(passed(8, (array, 100), (part.device, 1000), 8));
        // A partition passes it on to its disk, which is nothing new.
        events.extend(passed(9, (part.device, 1000), (sda, 3048), 8));
        events.push(on(part.device, event(10, Point::Queued, (3048, 8))));
        events.extend(passed(11, (array, 108), (disk, 1000), 8));
        events.push(on(disk, event(12, Point::Queued, (1000, 8))));
        events.push(on(sda, event(20, Point::Issued, (3048, 8))));
        events.push(on(disk, event(21, Point::Issued, (1000, 8))));
        events.push(on(disk, event(30, Point::Completed, (1000, 8))));
        events.push(on(sda, event(40, Point::Completed, (3048, 8))));
        events.push(on(array, event(41, Point::BioCompleted, (100, 16))));
        events.push(on(volume, event(42, Point::BioCompleted, (0, 16))));
        let processor: Vec<Event> = events.into_iter().map(Event::Block).collect();
        let (mut found, disks) = (Vec::new(), [Some(top), None]);
        let mut joiner = Joiner::new(&rows, &disks, 0);
        let names: Vec<String> = joiner.names().iter().map(|name| (*name).to_owned()).collect();
        joiner.join(merged(&[processor]), |row, way| {
            let micros = |at: Instant| at.as_nanos() / 1000;
            let storey = |(disk, passed): &(usize, Passed)| {
                (names[*disk].clone(), micros(passed.queued), passed.issued.map(micros), micros(passed.completed))
            };
            found.push((row, way.iter().map(storey).collect::<Vec<_>>()));
        });
        let way = [("253:0", 5, None, 42), ("md0", 6, None, 41), ("sda2", 8, Some(20), 40)];
        assert_eq!(found, [(0, way.map(|(name, a, b, c)| (name.to_owned(), a, b, c)).to_vec())]);
    }

    #[test]
    fn a_volume_of_stripes_ends_with_the_end_of_its_last_part() {
        let number = |minor| DeviceNumber { major: 8, minor };
        let whole = |device| TracedDisk { device, disk: device, first: 0 };
        let members = [0, 16].map(|minor| Member { disk: whole(number(minor)), name: format!("sd{minor}") });
        let volume = Followed { members: members.to_vec(), ..followed(whole(DISK)) };
        let (rows, disks) = ([row(1, 0, (0, 16), (0, 90))], [Some(volume)]);
        let on = |minor, one: BlockEvent| BlockEvent { device: number(minor).into(), ..one };
        let events = |ends: [(u64, u64); 2]| {
            let mut events = vec![event(5, Point::Queued, (0, 16))];
            for (minor, from) in [(0, 0), (16, 8)] {
                events.push(event(6, Point::Left, (from, 8)));
                events.push(on(minor, event(6, Point::Handed, (100, 8))));
                events.push(on(minor, event(7, Point::Issued, (100, 8))));
            }
            events.extend([0, 16].map(|minor| on(minor, event(30, Point::Completed, (100, 8)))));
            events.extend(ends.map(|(at, from)| event(at, Point::BioCompleted, (from, 8))));
            vec![events.into_iter().map(Event::Block).collect::<Vec<Event>>()]
        };
        let ended = |events: &[Vec<Event>]| {
            let mut found = Vec::new();
            Joiner::new(&rows, &disks, 0).join(merged(events), |_, way| found.push(way[0].1.completed.as_nanos()));
            found
        };
        // Device mapper tells the end of the last part, md those of both.
        let both = events([(40, 0), (41, 8)]);
        assert_eq!(ended(&both), [41_000]);
        let last = vec![both[0].iter().copied().filter(|event| event.at() != 40_000).collect()];
        assert_eq!(ended(&last), [41_000]);
        let part = |event: &Event| !matches!(event, Event::Block(one) if one.device == number(16).into());
        let lost = vec![last[0].iter().copied().filter(part).collect()];
        assert!(ended(&lost).is_empty(), "a part of which nothing is known may still be under way");
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
