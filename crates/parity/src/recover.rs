//! Lost blocks, computed from those that are left.
//!
//! With the lost data blocks taken as zero, let P' and Q' be the parities of the rest. Then, for lost data `x < y`:
//!
//! | lost | computed as |
//! |---|---|
//! | P, Q or both | from the data |
//! | D_x | P + P' |
//! | D_x and P | D_x = (Q + Q') g^-x, then P from the data |
//! | D_x and Q | D_x = P + P', then Q from the data |
//! | D_x and D_y | D_x = ((Q + Q') g^-x + (P + P') g^(y-x)) / (1 + g^(y-x)), D_y = D_x + P + P' |
//!
//! The last row is the solution of `D_x + D_y = P + P'` and `g^x D_x + g^y D_y = Q + Q'`; 1 + g^(y-x) is not zero,
//! since g^i repeats only after 255.

use crate::field::{inverse, multiply, power};
use crate::kernel::Kernel;

/// Which parities a stripe has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Parities {
    /// P alone: levels 3, 4 and 5.
    P,
    /// P and Q: level 6.
    PAndQ,
}

impl Parities {
    /// How many, and so how many losses they make good.
    pub fn count(self) -> usize {
        match self {
            Parities::P => 1,
            Parities::PAndQ => 2,
        }
    }
}

/// Blocks are worked on in pieces of this size, so that what one pass leaves the next finds in the first-level cache.
const PIECE: usize = 4096;
static ZEROES: [u8; PIECE] = [0; PIECE];

/// Computes the blocks whose numbers are in `lost`; what they held does not matter.
///
/// `blocks` are the data in syndrome order, then P, then Q if there is one. Panics if more are lost than there are
/// parities, if one is named twice or is not there, or if the blocks differ in length: whoever plans a read has to know
/// these.
pub fn recover(kernel: &Kernel, blocks: &mut [&mut [u8]], parities: Parities, lost: &[usize]) {
    let data = blocks.len().checked_sub(parities.count()).filter(|data| *data > 0).expect("a stripe has data");
    assert!(lost.len() <= parities.count(), "{lost:?} are lost, {parities:?} cannot make that good");
    let mut lost = lost.to_vec();
    lost.sort_unstable();
    assert!(lost.windows(2).all(|pair| pair[0] != pair[1]), "{lost:?} names a block twice");
    assert!(lost.iter().all(|index| *index < blocks.len()), "{lost:?} of {} blocks", blocks.len());
    let length = blocks[0].len();
    assert!(blocks.iter().all(|block| block.len() == length), "the blocks of a stripe are equally long");
    // Taken out, so that the others can be shared while these are written.
    let mut taken: Vec<&mut [u8]> = lost.iter().map(|index| std::mem::take(&mut blocks[*index])).collect();
    for start in (0..length).step_by(PIECE) {
        let end = length.min(start + PIECE);
        let rest: Vec<&[u8]> = blocks
            .iter()
            .map(|block| if block.is_empty() { &ZEROES[..end - start] } else { &block[start..end] })
            .collect();
        let mut wanted: Vec<&mut [u8]> = taken.iter_mut().map(|block| &mut block[start..end]).collect();
        piece(kernel, &rest, data, parities, &lost, &mut wanted);
    }
    for (index, block) in lost.into_iter().zip(taken) {
        blocks[index] = block;
    }
}

/// One piece: `rest` are all blocks, the lost ones as zeroes; `wanted` are the lost ones, in order.
fn piece(kernel: &Kernel, rest: &[&[u8]], data: usize, parities: Parities, lost: &[usize], wanted: &mut [&mut [u8]]) {
    let (p, q) = (data, data + 1);
    match (lost, wanted, parities) {
        ([], _, _) => {}
        ([lost_p], [into], _) if *lost_p == p => kernel.sum(&rest[..data], into),
        // A sum of all data but the lost one, and P: P is in `rest` behind the data.
        ([x], [into], _) if *x < p => kernel.sum(&rest[..=data], into),
        ([lost_q], [into], Parities::PAndQ) if *lost_q == q => {
            kernel.both_parities(&rest[..data], &mut vec![0; into.len()], into);
        }
        ([_, _], [into_p, into_q], Parities::PAndQ) if lost[0] == p => {
            kernel.both_parities(&rest[..data], into_p, into_q);
        }
        ([x, lost_p], [into_x, into_p], Parities::PAndQ) if *lost_p == p => {
            // P' and Q' of the rest; then D_x from Q; then P' + D_x is P.
            let mut change = vec![0; into_x.len()];
            kernel.both_parities(&rest[..data], into_p, &mut change);
            kernel.add(&[rest[q]], &mut change);
            into_x.fill(0);
            kernel.multiply_add(inverse(power(*x)), &change, into_x);
            kernel.add(&[into_x], into_p);
        }
        ([x, lost_q], [into_x, into_q], Parities::PAndQ) if *lost_q == q => {
            // P' and Q' of the rest; P + P' is D_x; then Q' + g^x D_x is Q.
            kernel.both_parities(&rest[..data], into_x, into_q);
            kernel.add(&[rest[p]], into_x);
            kernel.multiply_add(power(*x), into_x, into_q);
        }
        ([x, y], [into_x, into_y], Parities::PAndQ) => {
            let divisor = inverse(1 ^ power(y - x));
            let (of_p, of_q) = (multiply(power(y - x), divisor), multiply(inverse(power(*x)), divisor));
            let mut change = vec![0; into_x.len()];
            kernel.both_parities(&rest[..data], into_y, &mut change);
            kernel.add(&[rest[p]], into_y);
            kernel.add(&[rest[q]], &mut change);
            into_x.fill(0);
            kernel.multiply_add(of_p, into_y, into_x);
            kernel.multiply_add(of_q, &change, into_x);
            kernel.add(&[into_x], into_y);
        }
        (lost, _, parities) => unreachable!("{lost:?} of {data} data blocks with {parities:?}"),
    }
}
