//! I/O priorities: those of all requests of a job (`prio`, `prioclass`), and those of a share of them (`cmdprio_*`).
//!
//! A priority is a number as ioprio_set(2) writes it: the class in the upper three bits, then a hint, then the level in
//! the lowest three. fio 3.33 takes shares for libaio and io_uring alone, makes their class real time where none is
//! named, and counts a level without a class as best effort. Later versions of fio know hints, which 3.33 reads over;
//! they are kept here, and a kernel before 6.5 refuses such requests.

use units::Bytes;

use crate::JobError;
use crate::job::Engine;
use crate::reader::Reader;
use crate::value;

/// The I/O priorities of a job's requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Priorities {
    /// Of all for which no other is drawn; 0 if none is named.
    pub usual: u16,
    /// Of a share of reads, and of writes. Shares of one size come to a hundred percent at most.
    pub drawn: [Vec<Drawn>; 2],
}

/// A share of requests with a priority of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    /// Of requests of this size alone: `cmdprio_bssplit`.
    pub size: Option<Bytes>,
    /// In percent.
    pub percent: u8,
    /// Its priority.
    pub priority: u16,
}

/// Best effort, where a level has no class.
const BEST_EFFORT: u16 = 2;
const REAL_TIME: u16 = 1;

fn number(class: u16, level: u16) -> u16 {
    (if class == 0 { BEST_EFFORT } else { class }) << 13 | level
}

impl Reader<'_> {
    pub fn priorities(&mut self, engine: Engine) -> Result<Priorities, JobError> {
        let below = |most: u16| move |text: &str| text.trim().parse::<u16>().ok().filter(|number| *number <= most);
        let level = self.read("prio", "a level from 0, the highest, to 7", below(7))?;
        let class = self.read("prioclass", "0, 1 (real time), 2 (best effort) or 3 (idle)", below(3))?;
        let usual = match (class, level) {
            (None, None) => 0,
            (class, level) => number(class.unwrap_or(0), level.unwrap_or(0)),
        };
        let shares =
            self.each_way("cmdprio_percentage", "percentages such as 20 or 20,5 of reads and writes", |text| {
                below(100)(text).map(|percent| percent as u8)
            })?;
        let classes = self.each_way("cmdprio_class", "1 (real time), 2 (best effort) or 3 (idle)", |text| {
            below(3)(text).filter(|class| *class > 0)
        })?;
        let levels = self.each_way("cmdprio", "a level from 0, the highest, to 7", below(7))?;
        let implied = |side: usize| number(classes[side].unwrap_or(REAL_TIME), levels[side].unwrap_or(0));
        let base = self.base;
        let accepted = "sizes with percentages, and perhaps class and level, such as 64k/25/1/0:64k/75/3/2";
        let split = self.each_way("cmdprio_bssplit", accepted, |text| by_size(text, base))?;
        let any = |shares: &[Option<u8>; 3]| shares.iter().flatten().any(|share| *share > 0);
        if any(&shares) && split.iter().any(Option::is_some) {
            let (what, next) = ("has shares of all sizes and of each", "leave out cmdprio_percentage");
            return Err(self.cannot("cmdprio_bssplit", what, next));
        }
        let drawn = [0, 1].map(|side| {
            let all = shares[side].filter(|percent| *percent > 0);
            let all = all.map(|percent| Drawn { size: None, percent, priority: implied(side) });
            let each = split[side].iter().flatten();
            let each = each.map(|(size, percent, given)| Drawn {
                size: Some(*size),
                percent: *percent,
                priority: given.unwrap_or(implied(side)),
            });
            all.into_iter().chain(each).filter(|drawn| drawn.percent > 0).collect()
        });
        let priorities = Priorities { usual, drawn };
        if !matches!(engine, Engine::Queue | Engine::Aio) && priorities.drawn.iter().any(|drawn| !drawn.is_empty()) {
            let option = if any(&shares) { "cmdprio_percentage" } else { "cmdprio_bssplit" };
            let next = "take ioengine=io_uring or libaio, or prioclass and prio for all requests";
            return Err(self.cannot(option, "gives single requests a priority, which its engine cannot", next));
        }
        Ok(priorities)
    }
}

/// `bs/percent`, `bs/percent/class/level` or `bs/percent/class/level/hint`, parted by colons. The shares of one size
/// come to a hundred at most.
type Split = Vec<(Bytes, u8, Option<u16>)>;

fn by_size(text: &str, base: value::Base) -> Option<Split> {
    let mut entries: Split = Vec::new();
    for entry in text.split(':') {
        let parts: Vec<&str> = entry.split('/').map(str::trim).collect();
        let size = value::size(parts[0], base).filter(|size| !size.is_zero())?;
        let part = |index: usize, most: u16| parts.get(index)?.parse::<u16>().ok().filter(|number| *number <= most);
        let percent = match parts.get(1) {
            None | Some(&"") => 0,
            Some(_) => part(1, 100)? as u8,
        };
        let priority = match parts.len() {
            1 | 2 => None,
            4 => Some(number(part(2, 3)?, part(3, 7)?)),
            5 => Some(number(part(2, 3)?, part(3, 7)?) | part(4, 1023)? << 3),
            _ => return None,
        };
        entries.push((size, percent, priority));
    }
    let sum = |size: Bytes| entries.iter().filter(|entry| entry.0 == size).map(|entry| u32::from(entry.1)).sum::<u32>();
    entries.iter().all(|entry| sum(entry.0) <= 100).then_some(entries)
}
