//! The place of the next request: a pattern at work.

use rand::RngExt;
use runtime::Random;
use units::Bytes;

use crate::cover::Cover;
use crate::skew::Sampler;
use crate::{Jump, Pattern, Permutation, Sizes, Zoned};

/// The ground that requests may lie on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ground {
    /// Where they end at the latest; they begin at zero.
    pub length: Bytes,
    /// They begin on a multiple of this.
    pub align: Bytes,
    /// The largest of them.
    pub largest: Bytes,
    /// The size of all of them, if it is one.
    pub single: Option<Bytes>,
}

impl Ground {
    /// How many places hold any request.
    pub fn blocks(&self) -> u64 {
        (self.length - self.largest) / self.align + 1
    }

    /// How many requests of the largest size find room side by side.
    fn blocks_of_largest(&self) -> u64 {
        (self.length - self.largest) / self.largest.round_up(self.align) + 1
    }

    /// Any place that holds a request of `length`.
    fn anywhere(&self, length: Bytes, random: &mut Random) -> Bytes {
        self.align * random.random_range(0..=(self.length - length) / self.align)
    }
}

/// Where a pattern stands.
#[derive(Debug)]
pub(crate) enum Cursor {
    /// Where the next request begins.
    At(Bytes),
    /// The same; `None` before the first. How many requests come before the next jump.
    Jumping { next: Option<Bytes>, left: u64, jump: Jump },
    /// Where the next request begins, how far from it the one after it, and what each turn begins with.
    Striding { next: Bytes, stride: Bytes, turn: Bytes },
    /// Where the next request begins, how far before it the one after it, and what each turn begins with.
    Retreating { next: Option<Bytes>, stride: Bytes, from: Bytes },
    /// No memory of the last request.
    Anywhere,
    /// Which block of which order comes next.
    Shuffled { order: Permutation, index: u64, blocks: u64, seed: u64 },
    /// Which blocks have not come yet, of requests of several sizes.
    Covering(Cover),
    /// No memory either, but preferences.
    Skewed(Sampler),
    /// How many requests were asked for, of this list.
    Listed { blocks: Vec<u64>, stride: bool, asked: u64 },
    /// In which zone, how much of it has been asked for, and where within it.
    InZone { zones: Zoned, sizes: Sizes, base: Bytes, asked: Bytes, within: Option<Box<Cursor>>, seed: u64 },
    /// One of several, with the running sum of their weights.
    Mixed(Vec<(u64, Cursor)>),
}

impl Cursor {
    /// Where `pattern` begins on this ground, for requests of these sizes.
    pub fn new(pattern: &Pattern, sizes: &Sizes, ground: Ground, seed: u64) -> Cursor {
        match pattern {
            Pattern::Sequential { from } => Cursor::At(from.round_down(ground.align)),
            Pattern::Jumping(jump) => Cursor::Jumping { next: None, left: 0, jump: *jump },
            Pattern::Strided { stride, from } => {
                let turn = Bytes::new(from.get() % stride.get());
                Cursor::Striding { next: *from, stride: *stride, turn }
            }
            Pattern::Backward { stride, from } => {
                Cursor::Retreating { next: Some(*from), stride: *stride, from: *from }
            }
            Pattern::Random => Cursor::Anywhere,
            Pattern::RandomOnce => match ground.single {
                Some(block) => {
                    let blocks = (ground.length - block) / block.round_up(ground.align) + 1;
                    Cursor::Shuffled { order: Permutation::new(blocks, seed), index: 0, blocks, seed }
                }
                None => Cursor::Covering(Cover::new(ground.length, ground.align)),
            },
            Pattern::Listed { blocks, stride } => Cursor::Listed { blocks: blocks.clone(), stride: *stride, asked: 0 },
            Pattern::Zoned(zones) => Cursor::InZone {
                zones: (**zones).clone(),
                sizes: sizes.clone(),
                base: Bytes::ZERO,
                asked: Bytes::ZERO,
                within: None,
                seed,
            },
            Pattern::Skewed(skew) => Cursor::Skewed(Sampler::new(skew, ground.blocks(), ground.align)),
            Pattern::Mixed(parts) => {
                let sums = parts.iter().scan(0, |sum, (_, weight)| {
                    *sum += u64::from(*weight);
                    Some(*sum)
                });
                let cursors = parts.iter().map(|(part, _)| Cursor::new(part, sizes, ground, seed));
                Cursor::Mixed(sums.zip(cursors).collect())
            }
        }
    }

    /// Where a request of `length` goes, and how much of it is left: less where blocks of it have come already, and no
    /// block is to come twice.
    pub fn next(&mut self, length: Bytes, ground: Ground, random: &mut Random) -> (Bytes, Bytes) {
        let at = match self {
            Cursor::Covering(cover) => return cover.next(length, random),
            Cursor::At(next) => {
                let at = if *next + length <= ground.length { *next } else { Bytes::ZERO };
                *next = (at + length).round_up(ground.align);
                at
            }
            Cursor::Jumping { next, left, jump } => {
                let jumps = match jump {
                    Jump::Never => false,
                    Jump::After(_) => *left == 0,
                    Jump::Chance(chance) => random.random_bool(chance.get().min(1.0)),
                };
                let at = match (*next, *jump) {
                    (Some(at), _) if !jumps && at + length <= ground.length => at,
                    (Some(_), Jump::Never) => Bytes::ZERO,
                    _ => {
                        *left = if let Jump::After(run) = jump { *run } else { 0 };
                        ground.anywhere(length, random)
                    }
                };
                *left = left.saturating_sub(1);
                *next = Some((at + length).round_up(ground.align));
                at
            }
            Cursor::Striding { next, stride, turn } => {
                let at = if *next + length <= ground.length { *next } else { *turn };
                *next = at + *stride;
                at
            }
            Cursor::Retreating { next, stride, from } => {
                let at = next.unwrap_or(*from);
                *next = (at >= *stride).then(|| at - *stride);
                at
            }
            Cursor::Anywhere => ground.anywhere(length, random),
            Cursor::Shuffled { order, index, blocks, seed } => {
                if *index == *blocks {
                    *seed = seed.wrapping_add(1);
                    *order = Permutation::new(*blocks, *seed);
                    *index = 0;
                }
                let block = order.at(*index);
                *index += 1;
                length.round_up(ground.align) * block
            }
            Cursor::Listed { blocks, stride, asked } => {
                let count = blocks.len() as u64;
                let turn = if *stride { *asked / count * count } else { 0 };
                let block = turn + blocks[(*asked % count) as usize];
                *asked += 1;
                ground.largest.round_up(ground.align) * (block % ground.blocks_of_largest())
            }
            Cursor::InZone { zones, sizes, base, asked, within, seed } => {
                if *asked >= zones.size {
                    (*asked, *within) = (Bytes::ZERO, None);
                    *base = *base + zones.range + zones.skip;
                }
                // What no longer holds a request is no zone.
                if *base + ground.largest > ground.length {
                    *base = Bytes::ZERO;
                }
                let zone = Ground { length: zones.range.min(ground.length - *base).max(ground.largest), ..ground };
                let cursor = within.get_or_insert_with(|| {
                    *seed = seed.wrapping_add(1);
                    Box::new(Cursor::new(&zones.within, sizes, zone, *seed))
                });
                *asked += length;
                let (at, length) = cursor.next(length, zone, random);
                return (*base + at, length);
            }
            Cursor::Skewed(sampler) => ground.align * sampler.draw(random),
            Cursor::Mixed(cursors) => {
                let total = cursors.last().expect("a mixture is not empty").0;
                let point = random.random_range(0..total);
                let (_, cursor) = cursors.iter_mut().find(|(sum, _)| point < *sum).expect("a point below the sum");
                return cursor.next(length, ground, random);
            }
        };
        (at, length)
    }
}
