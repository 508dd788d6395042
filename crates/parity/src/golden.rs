//! The golden reference: the formulas of the crate's page, one byte at a time, in Russian-peasant multiplication.
//!
//! Slow on purpose: nothing here is shared with the kernels, so that they cannot be wrong together. Tests and the
//! storm's oracle use it, the array does not.

/// a times b: shift and add, reduced by 0x11d wherever bit 8 appears.
pub fn product(a: u8, b: u8) -> u8 {
    let mut sum = (0..8).filter(|bit| b >> bit & 1 == 1).fold(0u16, |sum, bit| sum ^ (u16::from(a) << bit));
    for bit in (8..16).rev() {
        if sum >> bit & 1 == 1 {
            sum ^= 0x11d << (bit - 8);
        }
    }
    sum as u8
}

/// P and Q of data blocks of equal length.
pub fn p_and_q(data: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
    let length = data.first().map_or(0, |block| block.len());
    let (mut p, mut q) = (vec![0; length], vec![0; length]);
    let mut coefficient = 1;
    for block in data {
        for (index, byte) in block.iter().enumerate() {
            p[index] ^= byte;
            q[index] ^= product(coefficient, *byte);
        }
        coefficient = product(coefficient, 2);
    }
    (p, q)
}
