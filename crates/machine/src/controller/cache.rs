//! What a controller's cache holds: lines of what was read, least recently used first out, and ranges that are dirty.
//!
//! Dirty bytes are counted from when room was reserved for them until they are on the drives. Ranges that touch are
//! one. A range that is being written to the drives stays readable; what is written to it meanwhile is dirty once more.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use units::Bytes;

/// The cache of one controller. Addresses are bytes.
pub(crate) struct Cache {
    size: u64,
    line: u64,
    /// When each line was last used.
    lines: HashMap<u64, u64>,
    /// Lines by when they were last used.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
    /// Ranges that wait to be written, by where they begin.
    dirty: BTreeMap<u64, u64>,
    /// Ranges that are being written.
    leaving: Vec<Range<u64>>,
    /// Reserved, dirty and leaving.
    bytes: u64,
    most: u64,
}

impl Cache {
    /// An empty one.
    pub fn new(size: Bytes, line: Bytes) -> Cache {
        Cache {
            size: size.get(),
            line: line.get(),
            lines: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            dirty: BTreeMap::new(),
            leaving: Vec::new(),
            bytes: 0,
            most: 0,
        }
    }

    /// Bytes that are not on the drives yet, or have room reserved.
    pub fn dirty(&self) -> u64 {
        self.bytes
    }

    /// The most of them that there were.
    pub fn most_dirty(&self) -> u64 {
        self.most
    }

    /// Keeps room for a write.
    pub fn reserve(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.most = self.most.max(self.bytes);
        self.evict();
    }

    /// A write for which room was reserved is here.
    pub fn write(&mut self, range: Range<u64>) {
        assert!(!range.is_empty() && self.bytes >= range.end - range.start, "room was reserved");
        let (mut start, mut end) = (range.start, range.end);
        // What overlaps or touches becomes one, and what is written over is dirty once.
        while let Some((from, to)) = self.dirty.range(..=end).next_back().map(|(from, to)| (*from, *to)) {
            if to < start {
                break;
            }
            self.dirty.remove(&from);
            self.bytes -= to.min(range.end).saturating_sub(from.max(range.start));
            (start, end) = (start.min(from), end.max(to));
        }
        self.dirty.insert(start, end);
    }

    /// Whether something waits to be written.
    pub fn has_unwritten(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Takes the next range to be written from `arm` on, and round again: of one stripe at most.
    pub fn next(&mut self, arm: u64, stripe: u64) -> Range<u64> {
        let from = self.dirty.range(..arm).next_back().filter(|(_, to)| **to > arm).map(|(from, _)| *from);
        let from = from.or_else(|| self.dirty.range(arm..).next().map(|(from, _)| *from));
        let from = from.or_else(|| self.dirty.keys().next().copied()).expect("something waits to be written");
        let to = self.dirty.remove(&from).expect("it was found");
        let start = if (from..to).contains(&arm) { arm } else { from };
        let end = to.min((start / stripe + 1) * stripe);
        for (rest, upto) in [(from, start), (end, to)] {
            if rest < upto {
                self.dirty.insert(rest, upto);
            }
        }
        self.leaving.push(start..end);
        start..end
    }

    /// A range is on the drives; it stays as what was read does.
    pub fn written(&mut self, range: Range<u64>) {
        let at = self.leaving.iter().position(|leaving| *leaving == range).expect("it was being written");
        self.leaving.swap_remove(at);
        self.bytes -= range.end - range.start;
        self.keep(range);
    }

    /// Whether all of a range is here. Its lines were used.
    pub fn hits(&mut self, range: Range<u64>) -> bool {
        let mut all = true;
        for line in self.lines_of(&range) {
            let part = range.start.max(line * self.line)..range.end.min((line + 1) * self.line);
            match self.lines.contains_key(&line) {
                true => self.touch(line),
                false => all &= self.is_unwritten(&part),
            }
        }
        all
    }

    /// What was read, or written to the drives, stays for a while: the lines of which all is in the range.
    pub fn keep(&mut self, range: Range<u64>) {
        for line in self.lines_of(&range) {
            if range.start <= line * self.line && (line + 1) * self.line <= range.end || self.lines.contains_key(&line)
            {
                self.touch(line);
            }
        }
        self.evict();
    }

    fn lines_of(&self, range: &Range<u64>) -> Range<u64> {
        range.start / self.line..range.end.div_ceil(self.line)
    }

    fn is_unwritten(&self, part: &Range<u64>) -> bool {
        let holds = |range: Range<u64>| range.start <= part.start && part.end <= range.end;
        let before = self.dirty.range(..=part.start).next_back();
        before.is_some_and(|(from, to)| holds(*from..*to)) || self.leaving.iter().cloned().any(holds)
    }

    fn touch(&mut self, line: u64) {
        self.uses += 1;
        if let Some(before) = self.lines.insert(line, self.uses) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.uses, line);
    }

    /// Forgets lines until those that are left have room beside what is dirty.
    fn evict(&mut self) {
        while self.lines.len() as u64 * self.line + self.bytes > self.size {
            let Some((_, line)) = self.by_use.pop_first() else { return };
            self.lines.remove(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRIPE: u64 = 4096;

    fn cache() -> Cache {
        Cache::new(Bytes::new(16 * 1024), Bytes::new(1024))
    }

    fn written(cache: &mut Cache, range: Range<u64>) {
        cache.reserve(range.end - range.start);
        cache.write(range);
    }

    #[test]
    fn writes_that_touch_become_one_and_leave_a_stripe_at_a_time() {
        let mut cache = cache();
        for start in [1024, 3072, 2048, 0, 4096, 1024] {
            written(&mut cache, start..start + 1024);
        }
        assert_eq!(cache.dirty(), 5120, "what is written over is dirty once");
        assert_eq!(cache.next(0, STRIPE), 0..4096);
        assert_eq!(cache.next(4096, STRIPE), 4096..5120);
        assert!(!cache.has_unwritten() && cache.hits(0..5120), "what is leaving is still here");
        cache.written(0..4096);
        assert_eq!((cache.dirty(), cache.most_dirty()), (1024, 6144));
        assert!(cache.hits(0..5120) && !cache.hits(0..8192));
    }

    #[test]
    fn the_elevator_goes_on_where_it_stands_and_begins_anew_at_the_end() {
        let mut cache = cache();
        written(&mut cache, 0..512);
        written(&mut cache, 8192..9216);
        assert_eq!(cache.next(8704, STRIPE), 8704..9216);
        assert_eq!(cache.next(9216, STRIPE), 0..512);
        assert_eq!(cache.next(512, STRIPE), 8192..8704);
    }

    #[test]
    fn the_least_recently_used_line_is_forgotten_first_and_dirty_bytes_take_room() {
        let mut cache = cache();
        cache.keep(0..16 * 1024);
        assert!(cache.hits(0..1024));
        cache.keep(20 * 1024..21 * 1024);
        assert!(cache.hits(0..1024) && !cache.hits(1024..2048), "the second line was the oldest");
        cache.reserve(15 * 1024);
        assert!(cache.hits(0..1024) && cache.lines.len() == 1, "what was used last stays");
        cache.keep(100..1000);
        assert_eq!(cache.lines.len(), 1, "a part of a line is none");
    }
}
