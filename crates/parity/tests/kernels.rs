//! Every kernel against the golden reference: all geometries, lengths, alignments and losses.

use parity::{Kernel, Parities, Verdict, golden, inverse, locate, multiply, power, recover};
use proptest::prelude::*;

/// Bytes that look random and are the same every time (an xorshift generator).
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A stripe of `data` blocks, each starting `shift` bytes after an arbitrary address, with its golden P and Q behind.
fn stripe(data: usize, length: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut blocks: Vec<Vec<u8>> = (0..data as u64).map(|index| noise(seed + 31 * index + 1, length)).collect();
    let (p, q) = golden::p_and_q(&slices(&blocks));
    blocks.extend([p, q]);
    blocks
}

fn slices(blocks: &[Vec<u8>]) -> Vec<&[u8]> {
    blocks.iter().map(Vec::as_slice).collect()
}

/// Around every vector width and the number of vectors done at once, a piece of recovery, and where streaming starts.
const LENGTHS: [usize; 25] = [
    0,
    1,
    7,
    8,
    9,
    15,
    16,
    31,
    33,
    63,
    64,
    65,
    127,
    129,
    255,
    256,
    257,
    300,
    512,
    1000,
    4096,
    4097,
    32768,
    32769,
    65536 + 64,
];

#[test]
fn the_field_is_a_field() {
    for a in 0..=255 {
        for b in 0..=255 {
            assert_eq!(multiply(a, b), golden::product(a, b));
        }
        assert!(a == 0 || multiply(a, inverse(a)) == 1);
    }
    let mut powers: Vec<u8> = (0..255).map(power).collect();
    assert_eq!(power(8), 0x1d, "x^8 = x^4 + x^3 + x^2 + 1");
    powers.sort_unstable();
    powers.dedup();
    assert_eq!(powers.len(), 255, "2 generates all elements but zero");
}

#[test]
fn this_processor_has_the_kernels_it_says() {
    let names: Vec<&str> = Kernel::available().map(Kernel::name).collect();
    assert_eq!(names.last(), Some(&"scalar"));
    assert_eq!(Kernel::best().name(), names[0]);
    assert!(names.iter().all(|name| Kernel::named(name).unwrap().name() == *name));
    let message = Kernel::named("mmx").err().unwrap().to_string();
    assert_eq!(message, format!("there is no parity kernel 'mmx' on this processor; it has {}", names.join(", ")));
    #[cfg(target_arch = "x86_64")]
    assert!(names.contains(&"sse2"));
}

#[test]
fn p_and_q_agree_with_the_golden_ones() {
    for kernel in Kernel::available() {
        for data in 1..=16 {
            for length in LENGTHS {
                let blocks = stripe(data, length, 7);
                let sources = slices(&blocks[..data]);
                let (mut p, mut q, mut sum) = (vec![0xaa; length], vec![0xbb; length], vec![0xcc; length]);
                kernel.both_parities(&sources, &mut p, &mut q);
                kernel.sum(&sources, &mut sum);
                assert!(p == blocks[data] && q == blocks[data + 1], "{} {data}+2 of {length}", kernel.name());
                assert_eq!(sum, p, "{} {data}+1 of {length}", kernel.name());
            }
        }
    }
}

#[test]
fn the_largest_stripe_works() {
    for kernel in Kernel::available() {
        let blocks = stripe(255, 70, 3);
        let (mut p, mut q) = (vec![0; 70], vec![0; 70]);
        kernel.both_parities(&slices(&blocks[..255]), &mut p, &mut q);
        assert!(p == blocks[255] && q == blocks[256], "{}", kernel.name());
    }
}

#[test]
fn alignment_does_not_matter() {
    for kernel in Kernel::available() {
        for shift in 0..64 {
            let (data, length) = (3, 321);
            let blocks = stripe(data, length, 11);
            // Block i starts shift + i bytes into its own allocation; so do P and Q.
            let moved: Vec<Vec<u8>> =
                (0..data).map(|index| [&vec![0; shift + index][..], &blocks[index]].concat()).collect();
            let sources: Vec<&[u8]> = (0..data).map(|index| &moved[index][shift + index..]).collect();
            let (mut p, mut q) = (vec![0; shift + 5 + length], vec![0; shift + length]);
            kernel.both_parities(&sources, &mut p[shift + 5..], &mut q[shift..]);
            assert!(p[shift + 5..] == blocks[data] && q[shift..] == blocks[data + 1], "{} {shift}", kernel.name());
            assert!(p[..shift + 5].iter().chain(&q[..shift]).all(|byte| *byte == 0), "nothing else is written");
        }
    }
}

/// Aligned parities of long blocks are streamed past the caches.
#[test]
fn streamed_parities_are_the_same() {
    for kernel in Kernel::available() {
        for length in [32 << 10, (32 << 10) + 1, 64 << 10, (64 << 10) + 65] {
            let blocks = stripe(5, length, 41);
            let sources = slices(&blocks[..5]);
            let mut memory = vec![0; 3 * (length + 128)];
            let mut aligned = memory.chunks_exact_mut(length + 128).map(|room| {
                let start = room.as_ptr().align_offset(64);
                &mut room[start..start + length]
            });
            let (p, q, sum) = (aligned.next().unwrap(), aligned.next().unwrap(), aligned.next().unwrap());
            kernel.both_parities(&sources, p, q);
            kernel.sum(&sources, sum);
            assert!(p == blocks[5] && q == blocks[6] && sum == blocks[5], "{} of {length}", kernel.name());
        }
    }
}

#[test]
fn every_product_is_right_in_every_kernel() {
    let source: Vec<u8> = (0..=255).chain(0..77).collect();
    for kernel in Kernel::available() {
        for factor in 0..=255 {
            let mut into = noise(5, source.len());
            let expected: Vec<u8> =
                source.iter().zip(&into).map(|(byte, old)| golden::product(factor, *byte) ^ old).collect();
            kernel.multiply_add(factor, &source, &mut into);
            assert_eq!(into, expected, "{} times {factor}", kernel.name());
        }
    }
}

#[test]
fn any_number_of_sources_is_added() {
    for kernel in Kernel::available() {
        for sources in 1..=5 {
            for length in [1, 64, 257, 4096] {
                let blocks = stripe(sources, length, 23);
                let mut into = noise(7, length);
                let expected: Vec<u8> = (0..length)
                    .map(|at| blocks[..sources].iter().fold(into[at], |sum, block| sum ^ block[at]))
                    .collect();
                kernel.add(&slices(&blocks[..sources]), &mut into);
                assert_eq!(into, expected, "{} of {sources}", kernel.name());
            }
        }
    }
}

#[test]
fn an_update_gives_the_parities_of_the_new_data() {
    for kernel in Kernel::available() {
        for data in 2..=16 {
            for index in 0..data {
                for length in [1, 64, 257, 512] {
                    let mut blocks = stripe(data, length, 17);
                    let (mut p, mut q) = (blocks[data].clone(), blocks[data + 1].clone());
                    let mut p_alone = p.clone();
                    let new = noise(99, length);
                    kernel.update(index, &blocks[index], &new, &mut p, &mut q);
                    kernel.add(&[&blocks[index], &new], &mut p_alone);
                    blocks[index] = new;
                    let expected = golden::p_and_q(&slices(&blocks[..data]));
                    assert!((&p, &q) == (&expected.0, &expected.1), "{} {index} of {data}", kernel.name());
                    assert_eq!(p_alone, p);
                }
            }
        }
    }
}

/// Destroys the blocks in `lost`, recovers them and compares.
fn lose(kernel: &Kernel, whole: &[Vec<u8>], parities: Parities, lost: &[usize]) {
    let mut damaged = whole.to_vec();
    for index in lost {
        damaged[*index].fill(0x5a);
    }
    let mut blocks: Vec<&mut [u8]> = damaged.iter_mut().map(Vec::as_mut_slice).collect();
    recover(kernel, &mut blocks, parities, lost);
    assert!(damaged == whole, "{} {} blocks, {parities:?}, lost {lost:?}", kernel.name(), whole.len());
}

#[test]
fn every_loss_of_one_or_two_is_made_good() {
    for kernel in Kernel::available() {
        for data in 1..=16 {
            for length in [1, 65, 512, 4096 + 100] {
                let whole = stripe(data, length, 23);
                for a in 0..data + 2 {
                    if a <= data {
                        lose(kernel, &whole[..=data], Parities::P, &[a]);
                    }
                    lose(kernel, &whole, Parities::PAndQ, &[a]);
                    for b in (0..data + 2).filter(|b| *b != a) {
                        lose(kernel, &whole, Parities::PAndQ, &[a, b]);
                    }
                }
            }
        }
    }
}

#[test]
fn nothing_lost_changes_nothing() {
    lose(Kernel::best(), &stripe(4, 512, 1), Parities::PAndQ, &[]);
}

#[test]
#[should_panic(expected = "cannot make that good")]
fn more_losses_than_parities_are_refused() {
    lose(Kernel::best(), &stripe(4, 512, 1)[..5], Parities::P, &[0, 1]);
}

#[test]
#[should_panic(expected = "equally long")]
fn blocks_of_different_length_are_refused() {
    Kernel::best().sum(&[&[1, 2], &[3]], &mut [0, 0]);
}

fn judge(blocks: &[Vec<u8>]) -> Verdict {
    let data = blocks.len() - 2;
    locate(Kernel::best(), &slices(&blocks[..data]), &blocks[data], &blocks[data + 1])
}

#[test]
fn a_single_wrong_block_is_found() {
    for data in 1..=16 {
        let whole = stripe(data, 512, 29);
        assert_eq!(judge(&whole), Verdict::Consistent);
        for wrong in 0..data + 2 {
            let mut damaged = whole.clone();
            damaged[wrong][100] ^= 0x40;
            damaged[wrong][400] ^= 0x33;
            assert_eq!(judge(&damaged), Verdict::Wrong(wrong), "{data}+2");
        }
    }
}

#[test]
fn wrong_bytes_in_two_blocks_are_not_blamed_on_one() {
    for data in 2..=16 {
        let whole = stripe(data, 512, 31);
        for a in 0..data + 2 {
            for b in a + 1..data + 2 {
                let mut damaged = whole.clone();
                damaged[a][10] ^= 1;
                damaged[b][20] ^= 1;
                assert_eq!(judge(&damaged), Verdict::Unlocatable, "{data}+2: {a} and {b}");
            }
        }
    }
}

proptest! {
    #[test]
    fn kernels_agree_with_one_another(data in 1usize..20, length in 0usize..3000, seed: u64) {
        let blocks: Vec<Vec<u8>> = (0..data as u64).map(|index| noise(seed ^ index, length)).collect();
        let expected = golden::p_and_q(&slices(&blocks));
        for kernel in Kernel::available() {
            let (mut p, mut q) = (vec![0; length], vec![0; length]);
            kernel.both_parities(&slices(&blocks), &mut p, &mut q);
            prop_assert_eq!((&p, &q), (&expected.0, &expected.1));
        }
    }
}
