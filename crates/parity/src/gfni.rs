//! GFNI with AVX-512: 64 bytes, and any product in one instruction.
//!
//! `gf2p8mulb` knows only the polynomial 0x11b of AES. But a product with a constant is linear over bits, so it is an 8
//! x 8 matrix of bits, and `gf2p8affineqb` applies one to every byte, whatever the polynomial was.

#![allow(unsafe_code)] // intrinsics; the processor is checked by `Kernel`

use std::arch::x86_64::*;

use crate::field::multiply;
use crate::lanes::{Lanes, kernel};

#[derive(Clone, Copy)]
struct Gfni(__m512i);

/// The matrix of a product: bit j of row i says whether bit i of `factor` * 2^j is set. Row i is byte 7 - i of the
/// word.
const fn matrix(factor: u8) -> i64 {
    let (mut word, mut row) = (0u64, 0);
    while row < 8 {
        let (mut bits, mut column) = (0u64, 0);
        while column < 8 {
            bits |= ((multiply(factor, 1 << column) >> row & 1) as u64) << column;
            column += 1;
        }
        word |= bits << (8 * (7 - row));
        row += 1;
    }
    word as i64
}

// SAFETY: GFNI and AVX-512 F and BW.
unsafe impl Lanes for Gfni {
    /// The product's matrix, once for each 8 bytes.
    type Factor = __m512i;
    const WIDTH: usize = 64;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Gfni {
        // SAFETY: the caller's promise; the load is unaligned.
        Gfni(unsafe { _mm512_loadu_si512(from.cast()) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise; the store is unaligned.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller's promise, alignment included.
        unsafe { _mm512_stream_si512(to.cast(), self.0) }
    }
    #[inline(always)]
    unsafe fn fence() {
        // SAFETY: SSE is part of x86-64.
        unsafe { _mm_sfence() }
    }
    #[inline(always)]
    unsafe fn xor(self, other: Gfni) -> Gfni {
        // SAFETY: the caller has AVX-512.
        Gfni(unsafe { _mm512_xor_si512(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn double(self) -> Gfni {
        const DOUBLE: i64 = matrix(2);
        // SAFETY: the caller has GFNI and AVX-512.
        unsafe { self.multiply(_mm512_set1_epi64(DOUBLE)) }
    }
    #[inline(always)]
    unsafe fn factor(factor: u8) -> __m512i {
        // SAFETY: the caller has AVX-512.
        unsafe { _mm512_set1_epi64(matrix(factor)) }
    }
    #[inline(always)]
    unsafe fn multiply(self, matrix: __m512i) -> Gfni {
        // SAFETY: the caller has GFNI and AVX-512.
        Gfni(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self.0, matrix) })
    }
}

kernel!(
    "gfni",
    Gfni,
    "gfni,avx512f,avx512bw",
    is_x86_feature_detected!("gfni") && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
);
