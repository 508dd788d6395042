//! The buffer as a cache: segments of consecutive blocks.
//!
//! A segment is a ring: blocks enter at its end, from the medium or from the host, and push the oldest out when it is
//! full. What is found, which segment is given up, and which may be given up are the rules that the drive files
//! describe (CMU-PDL-08-101, section "disks"): a read prefers the segment that holds its first block, freshest data
//! first; without one it takes an empty segment, or the one that has not been used for longest.

/// Consecutive blocks in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segment {
    /// The first block that is still there.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// They came from the host.
    pub written: bool,
    /// When it was used last; larger is later.
    used: u64,
}

impl Segment {
    /// Nothing is in it.
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }
    /// It holds a block.
    pub const fn holds(&self, block: u64) -> bool {
        self.start <= block && block < self.end
    }
    /// It shares a block with a range.
    pub const fn overlaps(&self, first: u64, after: u64) -> bool {
        self.start < after && first < self.end
    }
}

/// All segments of a buffer.
#[derive(Debug, Clone)]
pub struct Segments {
    segments: Vec<Segment>,
    size: u64,
    clock: u64,
}

impl Segments {
    /// `count` empty segments of `size` blocks. Panics if either is zero.
    pub fn new(count: u32, size: u64) -> Segments {
        assert!(count > 0 && size > 0, "{count} segments of {size} blocks");
        Segments { segments: vec![Segment::default(); count as usize], size, clock: 0 }
    }

    /// Blocks of a segment.
    pub const fn size(&self) -> u64 {
        self.size
    }
    /// A segment.
    pub fn get(&self, index: usize) -> &Segment {
        &self.segments[index]
    }

    /// The segment that holds `block`, the one that reaches furthest beyond it if there are several.
    pub fn find(&self, block: u64, accept: impl Fn(&Segment) -> bool) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (index, segment) in self.segments.iter().enumerate() {
            if segment.holds(block) && accept(segment) && best.is_none_or(|best| segment.end > self.segments[best].end)
            {
                best = Some(index);
            }
        }
        best
    }

    /// The segment to be given up: an empty one, or the one that has not been used for longest.
    pub fn oldest(&self, accept: impl Fn(usize) -> bool) -> Option<usize> {
        // One number, as this is asked for each read: empty ones first, then by when they were used.
        let age = |segment: &Segment| u64::from(!segment.is_empty()) << 63 | segment.used;
        let candidates = self.segments.iter().enumerate().filter(|(index, _)| accept(*index));
        candidates.min_by_key(|(_, segment)| age(segment)).map(|(index, _)| index)
    }

    /// Marks a segment as just used.
    pub fn touch(&mut self, index: usize) {
        self.clock += 1;
        self.segments[index].used = self.clock;
    }

    /// The segment used last.
    pub fn latest(&self) -> usize {
        (0..self.segments.len()).max_by_key(|index| self.segments[*index].used).unwrap_or(0)
    }

    /// Empties a segment and begins it anew at `block`.
    pub fn restart(&mut self, index: usize, block: u64, written: bool) {
        let segment = &mut self.segments[index];
        (segment.start, segment.end, segment.written) = (block, block, written);
    }

    /// Appends blocks up to `end`; what no longer fits falls out at the start.
    pub fn extend(&mut self, index: usize, end: u64) {
        let size = self.size;
        let segment = &mut self.segments[index];
        if end > segment.end {
            segment.end = end;
            segment.start = segment.start.max(end.saturating_sub(size));
        }
    }

    /// Sets a segment's first block, which must not be behind its end.
    pub fn begin(&mut self, index: usize, start: u64) {
        let segment = &mut self.segments[index];
        assert!(start <= segment.end, "a segment does not begin behind its end");
        segment.start = start.max(segment.end.saturating_sub(self.size));
    }

    /// Forgets blocks that are being overwritten, in all segments but one: a segment that shares any is emptied.
    pub fn invalidate(&mut self, first: u64, after: u64, but: usize) {
        for (index, segment) in self.segments.iter_mut().enumerate() {
            if index != but && segment.overlaps(first, after) {
                segment.start = segment.end;
            }
        }
    }
}
