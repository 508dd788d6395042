//! Parity beside ISA-L 2, the library that storage products use: the same blocks, in turns, in one run.
//!
//! In cache: one stripe over and over. From memory: a ring of stripes of 256 MiB in all, larger than any cache here, so
//! every block is fetched from memory and every parity written back. GB/s count the data blocks.
//!
//! The bar is ISA-L's rate. Where the two are equal, the median ratio of one run lies as often below 1 as above, so the
//! bar counts as missed only where the whole interval that holds the true median with 99.9 percent confidence lies
//! below. The interval is that of the order statistics, which asks for no distribution: of n sorted ratios those of
//! ranks n/2 ± z √n / 2 (the binomial distribution of how many lie below the median, as a normal one), z = 3.29. Who
//! goes first changes with every round.

use std::hint::black_box;

use parity::Kernel;

use crate::isal::IsaL;
use crate::measure::{amount, best, processor_seconds};
use crate::runs::Table;

const FROM_MEMORY: usize = amount(256 << 20, 4 << 20) as usize;
/// Both sides do this many bytes of data a round.
const ROUND: usize = amount(1 << 27, 1 << 22) as usize;
const ROUNDS: u32 = amount(101, 11);

/// Memory cut into blocks that lie one behind the other, the first on a page.
struct Stripes {
    memory: Vec<u8>,
    blocks: usize,
    length: usize,
}

impl Stripes {
    fn new(blocks: usize, length: usize, total: usize) -> Stripes {
        let count = (total / (blocks * length)).max(1);
        let mut memory = vec![0u8; count * blocks * length + 4096];
        for (index, byte) in memory.iter_mut().enumerate() {
            *byte = (index.wrapping_mul(0x9e37_79b9) >> 13) as u8;
        }
        Stripes { memory, blocks, length }
    }

    fn each(&mut self, mut work: impl FnMut(&mut [&mut [u8]])) {
        let start = self.memory.as_ptr().align_offset(4096);
        let bytes = self.blocks * self.length;
        for stripe in self.memory[start..].chunks_exact_mut(bytes) {
            work(&mut stripe.chunks_exact_mut(self.length).collect::<Vec<_>>());
        }
    }

    /// Goes through the stripes until a round's bytes are done; GB/s of data.
    fn rate(&mut self, parities: usize, mut work: impl FnMut(&mut [&mut [u8]])) -> f64 {
        let data = (self.blocks - parities) * self.length;
        let stripes = (self.memory.len() - 4096) / (self.blocks * self.length);
        let turns = (ROUND / (stripes * data)).max(1);
        let start = processor_seconds();
        (0..turns).for_each(|_| self.each(&mut work));
        let seconds = processor_seconds() - start;
        (turns * stripes * data) as f64 / seconds / 1e9
    }
}

fn ours(kernel: &Kernel, blocks: &mut [&mut [u8]], parities: usize) {
    let (data, parity) = blocks.split_at_mut(blocks.len() - parities);
    let sources: Vec<&[u8]> = data.iter().map(|block| &**block).collect();
    match parity {
        [p] => kernel.sum(&sources, p),
        [p, q] => kernel.both_parities(&sources, p, q),
        _ => unreachable!("one parity or two"),
    }
    black_box(parity);
}

/// The median of ratios, and the interval that holds the true one.
struct Ratios {
    median: f64,
    low: f64,
    high: f64,
}

impl Ratios {
    fn of(mut ratios: Vec<f64>) -> Option<Ratios> {
        ratios.sort_by(f64::total_cmp);
        let middle = ratios.len() / 2;
        let apart = (3.29 / 2.0 * (ratios.len() as f64).sqrt()).ceil() as usize;
        let at = |rank: usize| ratios.get(rank).copied();
        Some(Ratios { median: at(middle)?, low: at(middle.checked_sub(apart)?)?, high: at(middle + apart)? })
    }
}

impl std::fmt::Display for Ratios {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{:.3} ({:.3} to {:.3})", self.median, self.low, self.high)
    }
}

/// A result as it is kept.
fn row(name: &str, own: f64, theirs: f64, ratios: Option<&Ratios>) -> Vec<String> {
    let ratio = |of: fn(&Ratios) -> f64| ratios.map_or(String::new(), |ratios| format!("{:.3}", of(ratios)));
    let theirs = if ratios.is_some() { format!("{theirs:.1}") } else { String::new() };
    vec![name.into(), format!("{own:.1}"), theirs, ratio(|r| r.median), ratio(|r| r.low), ratio(|r| r.high)]
}

/// What a small write computes: old and new data, of 4 KiB, added to a parity, all in cache and each on a page.
/// Nanoseconds, with each kernel.
fn small_write() {
    let mut memory = Stripes::new(3, 4096, 0);
    memory.each(|blocks| {
        let [old, new, parity] = blocks else { panic!("a stripe of three blocks") };
        each_kernel(old, new, parity);
    });
}

fn each_kernel(old: &[u8], new: &[u8], parity: &mut [u8]) {
    const TIMES: u32 = amount(10_000, 100);
    let mut nanos = |kernel: &Kernel| {
        let cost = best(amount(50, 2), || {
            for _ in 0..TIMES {
                kernel.add(&[old, new], parity);
                black_box(&mut *parity);
            }
        });
        cost.cpu * 1e9 / f64::from(TIMES)
    };
    let each: Vec<String> =
        Kernel::available().map(|kernel| format!("{} {:.0}", kernel.name(), nanos(kernel))).collect();
    println!("  ns to add two blocks of 4 KiB to a third, in cache: {}", each.join(", "));
}

pub fn run() -> bool {
    let isal = IsaL::load();
    if let Err(error) = &isal {
        println!("  ISA-L is not compared: {error}; apt-get install libisal2");
    }
    let mut met = true;
    let mut table =
        Table::new("parity", &["blocks", "gb_per_s", "isal_gb_per_s", "median_ratio", "ratio_low", "ratio_high"]);
    println!("  {:<34} {:>8} {:>8}  {:<22} other kernels", "GB/s of data", "best", "ISA-L", "median ratio");
    for (data, parities) in [(4, 1), (8, 1), (8, 2), (10, 2)] {
        for (length, size) in [(32 << 10, "32 KiB"), (1 << 20, "1 MiB")] {
            for (total, place) in [(0, "in cache"), (FROM_MEMORY, "from memory")] {
                let mut stripes = Stripes::new(data + parities, length, total);
                let kernels: Vec<&Kernel> = Kernel::available().collect();
                let mut rates = vec![0f64; kernels.len()];
                let (mut theirs, mut ratios) = (0f64, Vec::new());
                // In turns, and the ratio taken within each: a neighbour's noise, which lasts longer than a turn, hits
                // both.
                for round in 0..ROUNDS {
                    let isal = isal.as_ref().ok();
                    let own =
                        |stripes: &mut Stripes| stripes.rate(parities, |blocks| ours(kernels[0], blocks, parities));
                    let other = |stripes: &mut Stripes| {
                        isal.map(|isal| stripes.rate(parities, |blocks| isal.generate(blocks, parities)))
                    };
                    let (own, other) = if round % 2 == 0 {
                        let own = own(&mut stripes);
                        (own, other(&mut stripes))
                    } else {
                        let other = other(&mut stripes);
                        (own(&mut stripes), other)
                    };
                    rates[0] = rates[0].max(own);
                    if let Some(other) = other {
                        theirs = theirs.max(other);
                        ratios.push(own / other);
                    }
                }
                for (kernel, rate) in kernels.iter().zip(&mut rates).skip(1) {
                    *rate = stripes.rate(parities, |blocks| ours(kernel, blocks, parities));
                }
                let others: Vec<String> = kernels
                    .iter()
                    .zip(&rates)
                    .skip(1)
                    .map(|(kernel, rate)| format!("{} {rate:.1}", kernel.name()))
                    .collect();
                let name = format!("{data}+{parities} of {size} {place}");
                let compared = Ratios::of(ratios);
                table.row(&row(&name, rates[0], theirs, compared.as_ref()));
                let missed = compared.as_ref().is_some_and(|ratios| ratios.high < 1.0);
                met &= !missed;
                let (verdict, ratio) = (if missed { "MISSED " } else { "" }, compared.map(|ratios| ratios.to_string()));
                let (own, ratio) = (rates[0], ratio.unwrap_or_default());
                println!("  {name:<34} {own:>8.1} {theirs:>8.1}  {ratio:<22} {verdict}{}", others.join(", "));
            }
        }
    }
    small_write();
    table.keep();
    met
}
