//! I/O priorities of a stream's requests.
//!
//! All requests have one priority, or a share of them another, drawn request by request: of all reads or writes, or of
//! those of one size (fio's `cmdprio_percentage` and `cmdprio_bssplit`). A priority is a number as ioprio_set(2) writes
//! it: the class (1 real time, 2 best effort, 3 idle) in the upper three bits, the level below. What is made of it is
//! the kernel's affair, and its scheduler's: `none` and `mq-deadline` of old know no priorities.

use device::Operation;
use rand::RngExt;
use runtime::Random;
use units::Bytes;

use crate::Ask;

/// Which priorities requests have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Priorities {
    /// Of requests for which no other is drawn; 0 for that of the program.
    pub usual: u16,
    /// Others, of reads and of writes. Of each size shares come to a hundred percent at most.
    pub drawn: [Vec<Drawn>; 2],
}

/// A share of requests that has a priority of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    /// Of requests of this size; of all, if absent.
    pub size: Option<Bytes>,
    /// How many of them, in percent.
    pub percent: u8,
    /// Their priority.
    pub priority: u16,
}

impl Priorities {
    /// True if any request has a priority.
    pub fn any(&self) -> bool {
        self.usual != 0 || self.drawn.iter().any(|drawn| !drawn.is_empty())
    }

    /// The priority of a request. Discards have none but the usual.
    pub(crate) fn of(&self, ask: &Ask, random: &mut Random) -> u16 {
        let drawn = match ask.operation {
            Operation::Read => &self.drawn[0],
            Operation::Write => &self.drawn[1],
            _ => return self.usual,
        };
        let own = || drawn.iter().filter(|drawn| drawn.size.is_none_or(|size| size == ask.length));
        if own().next().is_none() {
            return self.usual;
        }
        let mut left = random.random_range(0..100u8);
        for drawn in own() {
            if left < drawn.percent {
                return drawn.priority;
            }
            left -= drawn.percent;
        }
        self.usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_drawn_by_direction_and_size() {
        let (high, low) = (1 << 13, 3 << 13 | 2);
        let of = |size, percent, priority| Drawn { size: Some(Bytes::kib(size)), percent, priority };
        let reads = vec![of(64, 25, high), of(64, 75, low), of(1024, 10, high)];
        let priorities = Priorities { usual: 2 << 13 | 7, drawn: [reads, Vec::new()] };
        let mut random = Random::new(5);
        let mut count = |operation, kib, wanted| {
            let ask = Ask { operation, offset: Bytes::ZERO, length: Bytes::kib(kib) };
            (0..10_000).filter(|_| priorities.of(&ask, &mut random) == wanted).count()
        };
        // Of 10,000 draws the share of one is known to 43, and four times that is not exceeded by chance.
        assert!(count(Operation::Read, 64, high).abs_diff(2500) < 180);
        assert_eq!(count(Operation::Read, 64, priorities.usual), 0);
        assert!(count(Operation::Read, 1024, high).abs_diff(1000) < 130);
        assert_eq!(count(Operation::Read, 4, priorities.usual), 10_000);
        assert_eq!(count(Operation::Write, 64, priorities.usual), 10_000);
    }
}
