//! Which block of a level-6 stripe is wrong, if one is.
//!
//! Let `p` and `q` be what the parities of the data differ by from those stored. If only data block z is wrong, by an
//! error e, then `p = e` and `q = g^z e` in every byte, so `q / p = g^z` gives z (Anvin, section 4). If P alone is
//! wrong, `q` is zero, and the reverse. With two wrong blocks the quotients are as good as random: the more bytes are
//! compared, the less likely they agree on a block that exists. md computes the same and then trusts the data blindly
//! on repair; here the caller learns which one to mend.

use crate::field::power;
use crate::kernel::Kernel;

/// What the parities say about a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Data, P and Q belong together.
    Consistent,
    /// All differences are explained by this block alone being wrong: data in syndrome order, then P, then Q.
    Wrong(usize),
    /// More than one block is wrong.
    Unlocatable,
}

/// Judges a stripe, whose data blocks are given in syndrome order. Shorter blocks judge more finely: errors in two
/// members are both located if they lie in different 512-byte sectors and sectors are judged one by one.
pub fn locate(kernel: &Kernel, data: &[&[u8]], p: &[u8], q: &[u8]) -> Verdict {
    let (mut of_p, mut of_q) = (vec![0; p.len()], vec![0; q.len()]);
    kernel.both_parities(data, &mut of_p, &mut of_q);
    if of_p == p && of_q == q {
        return Verdict::Consistent;
    }
    kernel.add(&[p], &mut of_p);
    kernel.add(&[q], &mut of_q);
    let mut wrong = None;
    for (&p, &q) in of_p.iter().zip(&of_q).filter(|(p, q)| (**p, **q) != (0, 0)) {
        let here = match (p, q) {
            (_, 0) => Some(data.len()),
            (0, _) => Some(data.len() + 1),
            _ => (0..data.len()).find(|z| crate::multiply(power(*z), p) == q),
        };
        match (here, wrong) {
            (None, _) => return Verdict::Unlocatable,
            (Some(here), Some(before)) if here != before => return Verdict::Unlocatable,
            (here, _) => wrong = here,
        }
    }
    Verdict::Wrong(wrong.expect("there is a difference"))
}
