//! How often a page is written for each time that the host writes it.
//!
//! # Theory
//! Flash is erased by blocks of many pages. To reclaim a block, the pages in it that are still valid are written anew.
//! Let `T` pages be on the flash and `U` of them be valid, all equally likely to be overwritten next, and let the block
//! be reclaimed that was written longest ago. If a reclaimed block holds the share `v` of valid pages, each page that
//! is written costs `1 / (1 - v)` of them, so that between the writing and the reclaiming of a block the host writes `T
//! (1 - v)` pages; one of the block's pages is untouched by all of them with the probability `(1 - 1/U)^(T (1 - v))`.
//! So
//!
//! ```text
//!   v = exp(-a (1 - v)),   a = T / U,   amplification = 1 / (1 - v)
//! ```
//!
//! (Robinson 1996 for log-structured file systems; Desnoyers, "Analytic modeling of SSD write performance", SYSTOR
//! 2012, who gives it by Lambert's W.) Greedy choice of the emptiest block is a little better; wear levelling and hot
//! spots move it either way. A test holds the formula against a small log that is written at random.

use units::Bytes;

/// Copies of each page that is written at random, itself counted, on `physical` bytes of flash of which `valid` are.
///
/// # Panics
/// If not less is valid than there is: nothing could ever be reclaimed.
pub fn write_amplification(physical: Bytes, valid: Bytes) -> f64 {
    assert!(valid < physical, "some of the flash is spare");
    if valid.is_zero() {
        return 1.0;
    }
    let a = physical.get() as f64 / valid.get() as f64;
    // v = 1 solves the equation, too; the other root lies below 1 / a, where exp(-a (1 - v)) is as steep as v.
    let below = |v: f64| v < (-a * (1.0 - v)).exp();
    let (mut low, mut high) = (0.0, 1.0 - a.ln() / a);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if below(middle) { low = middle } else { high = middle }
    }
    1.0 / (1.0 - low)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of blocks, reclaimed in the order in which they were written, under random writes: pages written for each
    /// of the host's.
    fn log(blocks: usize, pages: usize, valid: u64) -> f64 {
        const NOWHERE: u64 = u64::MAX;
        let mut random = 7u64;
        let mut next = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % limit
        };
        // Where each page is, as a position in the log that only grows; the log's tail is what has not been reclaimed.
        let size = (blocks * pages) as u64;
        let mut place = vec![NOWHERE; valid as usize];
        let mut held = vec![NOWHERE; size as usize];
        let (mut head, mut tail, mut moved) = (0u64, 0u64, 0u64);
        let (mut host, mut written) = (0u64, 0u64);
        while host < valid * 40 {
            let page = if host < valid { host } else { next(valid) };
            let mut write = |page: u64, head: &mut u64, held: &mut [u64]| {
                place[page as usize] = *head;
                held[(*head % size) as usize] = page;
                *head += 1;
            };
            write(page, &mut head, &mut held);
            host += 1;
            while head - tail > size - pages as u64 {
                for position in tail..tail + pages as u64 {
                    let page = held[(position % size) as usize];
                    if place[page as usize] == position {
                        place[page as usize] = head;
                        held[(head % size) as usize] = page;
                        head += 1;
                        moved += 1;
                    }
                }
                tail += pages as u64;
            }
            if host == valid * 20 {
                (moved, written) = (0, host);
            }
        }
        1.0 + moved as f64 / (host - written) as f64
    }

    #[test]
    fn the_formula_is_what_a_log_does() {
        for spare in [1.15f64, 1.3, 2.0] {
            let valid = 40_000u64;
            let blocks = (valid as f64 * spare) as usize / 64;
            let formula = write_amplification(Bytes::new((blocks * 64) as u64), Bytes::new(valid));
            let log = log(blocks + 1, 64, valid);
            assert!((log / formula - 1.0).abs() < 0.03, "{spare}: a log {log:.3}, the formula {formula:.3}");
        }
    }

    #[test]
    fn more_spare_flash_is_less_to_move() {
        let of = |spare: u64| write_amplification(Bytes::new(1000 + spare), Bytes::new(1000));
        assert!(of(70) > of(280) && of(280) > of(1000) && of(100_000) < 1.001);
        assert_eq!(write_amplification(Bytes::new(10), Bytes::ZERO), 1.0);
    }
}
