//! Units: what one header covers, from the log write until the data and parity of all its entries are durable.
//!
//! md replays the newest header alone, so in its log a unit keeps the turn, and the next waits for its end. In
//! arraylab's own log, a [`Ring`], units are under way side by side: each header names the oldest generation that is
//! not over yet, and the replay takes all from that one on.
//!
//! What the newest header names must be there, or an entry that is over could be taken for the newest of its block. So
//! the place of a unit is free not when the unit is over, but when a header that is durable says so. There is always
//! room for one header more, without entries, that can say it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use runtime::{Grant, Signal};
use units::Bytes;

use super::HEADER;

/// The units of a member's own log.
pub(crate) struct Ring {
    size: Bytes,
    /// Where the next one goes.
    next: Cell<Bytes>,
    /// Where those lie that the newest header names, by generation, and whether they are over.
    places: RefCell<BTreeMap<u64, (Range<Bytes>, bool)>>,
    pub over: Signal,
}

impl Ring {
    pub fn new(size: Bytes) -> Ring {
        Ring { size, next: Cell::new(Bytes::ZERO), places: RefCell::default(), over: Signal::default() }
    }

    /// Where a header with entries goes, and what is behind it: behind the last one, or at the start, on a page. `None`
    /// while something lies there, or it would not leave room for a header without entries.
    pub fn place(&self, extent: Bytes) -> Option<Range<Bytes>> {
        let place = self.room_behind(self.next.get(), extent.round_up(HEADER));
        let gap = self.room_behind(place.end, HEADER);
        let apart = gap.end <= place.start || place.end <= gap.start;
        (apart && self.is_free(&place) && self.is_free(&gap)).then_some(place)
    }

    /// Where a header without entries goes.
    pub fn header_place(&self) -> Range<Bytes> {
        let place = self.room_behind(self.next.get(), HEADER);
        assert!(self.is_free(&place), "there is always room for a header");
        place
    }

    fn room_behind(&self, at: Bytes, length: Bytes) -> Range<Bytes> {
        let at = if at + length <= self.size { at } else { Bytes::ZERO };
        at..at + length
    }

    fn is_free(&self, place: &Range<Bytes>) -> bool {
        self.places.borrow().values().all(|(other, _)| other.end <= place.start || place.end <= other.start)
    }

    /// Begins a unit, as its header is about to be written.
    pub fn begin(self: &Rc<Ring>, generation: u64, place: Range<Bytes>) -> Rc<Unit> {
        self.next.set(place.end);
        self.places.borrow_mut().insert(generation, (place, false));
        Rc::new(Unit { of: Some((Rc::clone(self), generation)), _turn: None })
    }

    /// The unit of the newest header goes on, or is under way again.
    pub fn resume(self: &Rc<Ring>, generation: u64) -> Rc<Unit> {
        self.places.borrow_mut().get_mut(&generation).expect("the newest header names itself").1 = false;
        Rc::new(Unit { of: Some((Rc::clone(self), generation)), _turn: None })
    }

    /// The oldest generation that is not over.
    pub fn oldest(&self) -> Option<u64> {
        self.places.borrow().iter().find(|(_, (_, over))| !over).map(|(generation, _)| *generation)
    }

    /// Whether a header without entries would make room.
    pub fn is_stale(&self) -> bool {
        let places = self.places.borrow();
        let first = places.first_key_value().map(|(_, (place, over))| (*over, place.end - place.start > HEADER));
        first.is_some_and(|(over, large)| over && (large || places.len() > 1))
    }

    /// A header is durable that names this one as the oldest.
    pub fn declared(&self, oldest: u64) {
        self.places.borrow_mut().retain(|generation, _| *generation >= oldest);
    }

    /// Begins with these places, which the newest header names, the last of them its own: those of units of before,
    /// which are over. Units that are under way are none of it any more. Says whether there is room for a header, as
    /// there always is where these are not a stranger's.
    pub fn restart(&self, named: impl IntoIterator<Item = (u64, Range<Bytes>)>) -> bool {
        let mut places = self.places.borrow_mut();
        places.clear();
        places.extend(named.into_iter().map(|(generation, place)| (generation, (place, true))));
        self.next.set(places.last_key_value().map_or(Bytes::ZERO, |(_, (place, _))| place.end));
        let inside = places.values().all(|(place, _)| place.end <= self.size);
        drop(places);
        self.over.notify();
        inside && self.is_free(&self.room_behind(self.next.get(), HEADER))
    }
}

/// Kept by each write that its header covers.
pub(crate) struct Unit {
    of: Option<(Rc<Ring>, u64)>,
    _turn: Option<Grant>,
}

impl Unit {
    /// One that nobody else may begin beside.
    pub fn alone(turn: Grant) -> Rc<Unit> {
        Rc::new(Unit { of: None, _turn: Some(turn) })
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        let Some((ring, generation)) = &self.of else { return };
        if let Some((_, over)) = ring.places.borrow_mut().get_mut(generation) {
            *over = true;
        }
        ring.over.notify();
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use runtime::Random;

    use super::*;

    #[test]
    fn places_that_a_stranger_named_are_believed_only_if_a_header_finds_room_beside_them() {
        let ring = Ring::new(HEADER * 8);
        assert!(ring.restart([(6, HEADER * 2..HEADER * 4), (7, HEADER * 4..HEADER * 5)]));
        assert!(!ring.restart([(7, Bytes::ZERO..HEADER * 9)]), "beyond the end");
        assert!(!ring.restart([(6, Bytes::ZERO..HEADER * 4), (7, HEADER * 4..HEADER * 8)]), "full");
    }

    /// What the newest durable header names is never written over, and a header always finds room, whichever units end
    /// first.
    #[test]
    fn there_is_always_room_for_a_header_and_what_the_newest_names_is_left_alone() {
        for seed in 0..200 {
            let mut random = Random::named(seed, "ring");
            let size = HEADER * (6 + random.random_range(0..20));
            let ring = Rc::new(Ring::new(size));
            // As `Ppl::longest` has it.
            let longest = (size / 4).max(HEADER * 2) / Bytes::SECTOR;
            let (mut units, mut named): (Vec<Rc<Unit>>, Vec<Range<Bytes>>) = (Vec::new(), Vec::new());
            for generation in 1..400 {
                let wanted = Bytes::SECTOR * random.random_range(HEADER / Bytes::SECTOR..=longest);
                let found = ring.place(wanted);
                let place = found.clone().unwrap_or_else(|| {
                    while !ring.is_stale() {
                        assert!(!units.is_empty(), "nothing is under way, and there is no room");
                        units.swap_remove(random.random_range(0..units.len()));
                    }
                    ring.header_place()
                });
                assert!(named.iter().all(|other| other.end <= place.start || place.end <= other.start), "seed {seed}");
                let unit = ring.begin(generation, place);
                let oldest = ring.oldest().expect("it has just begun");
                ring.declared(oldest);
                named = ring.places.borrow().values().map(|(place, _)| place.clone()).collect();
                units.extend(found.map(|_| unit));
                while !units.is_empty() && random.random_bool(0.45) {
                    units.swap_remove(random.random_range(0..units.len()));
                }
            }
        }
    }
}
