//! Eight bytes in a 64-bit register: every processor has it, and it is the fallback where nothing better is known.

#![allow(unsafe_code)] // unaligned loads and stores of words

use crate::lanes::{Lanes, kernel};

/// The top bit of each byte.
const TOP: u64 = 0x8080_8080_8080_8080;

// SAFETY: no special instructions.
unsafe impl Lanes for u64 {
    type Factor = u8;
    const WIDTH: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> u64 {
        // SAFETY: the caller's promise; the read is unaligned.
        unsafe { from.cast::<u64>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise; the write is unaligned.
        unsafe { to.cast::<u64>().write_unaligned(self) }
    }
    /// There is no such store in portable code.
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.store(to) }
    }
    #[inline(always)]
    unsafe fn fence() {}
    #[inline(always)]
    unsafe fn xor(self, other: u64) -> u64 {
        self ^ other
    }
    /// Shifts each byte; a byte whose top bit falls out gets the polynomial's low byte, 0x1d, added.
    #[inline(always)]
    unsafe fn double(self) -> u64 {
        ((self & !TOP) << 1) ^ ((self & TOP) >> 7).wrapping_mul(0x1d)
    }
    #[inline(always)]
    unsafe fn factor(factor: u8) -> u8 {
        factor
    }
    /// By doubling and adding, as there is no table look-up within a word.
    #[inline(always)]
    unsafe fn multiply(self, factor: u8) -> u64 {
        let (mut product, mut shifted) = (0, self);
        for bit in 0..8 {
            product ^= shifted * u64::from(factor >> bit & 1);
            // SAFETY: no special instructions.
            shifted = unsafe { shifted.double() };
        }
        product
    }
}

kernel!("scalar", u64,, true);
