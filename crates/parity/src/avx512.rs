//! AVX-512 (foundation and byte/word): 64 bytes.

#![allow(unsafe_code)] // intrinsics; the processor is checked by `Kernel`

use std::arch::x86_64::*;

use crate::field::half_byte_products;
use crate::lanes::{Lanes, kernel};

#[derive(Clone, Copy)]
struct Avx512(__m512i);

// SAFETY: AVX-512 F and BW.
unsafe impl Lanes for Avx512 {
    /// The products of the low and of the high half bytes, in all quarters of the register: the shuffle works within
    /// quarters.
    type Factor = (__m512i, __m512i);
    const WIDTH: usize = 64;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Avx512 {
        // SAFETY: the caller's promise; the load is unaligned.
        Avx512(unsafe { _mm512_loadu_si512(from.cast()) })
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
    unsafe fn xor(self, other: Avx512) -> Avx512 {
        // SAFETY: the caller has AVX-512.
        Avx512(unsafe { _mm512_xor_si512(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn double(self) -> Avx512 {
        // SAFETY: the caller has AVX-512.
        unsafe {
            let reduced = _mm512_maskz_mov_epi8(_mm512_movepi8_mask(self.0), _mm512_set1_epi8(0x1d));
            Avx512(_mm512_xor_si512(_mm512_add_epi8(self.0, self.0), reduced))
        }
    }
    #[inline(always)]
    unsafe fn factor(factor: u8) -> (__m512i, __m512i) {
        let (low, high) = half_byte_products(factor);
        // SAFETY: the tables are 16 bytes long, and the caller has AVX-512.
        unsafe {
            let all = |table: &[u8; 16]| _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            (all(&low), all(&high))
        }
    }
    #[inline(always)]
    unsafe fn multiply(self, (low, high): (__m512i, __m512i)) -> Avx512 {
        // SAFETY: the caller has AVX-512.
        unsafe {
            let half = _mm512_set1_epi8(0x0f);
            let of_low = _mm512_shuffle_epi8(low, _mm512_and_si512(self.0, half));
            let of_high = _mm512_shuffle_epi8(high, _mm512_and_si512(_mm512_srli_epi64::<4>(self.0), half));
            Avx512(_mm512_xor_si512(of_low, of_high))
        }
    }
}

kernel!(
    "avx512",
    Avx512,
    "avx512f,avx512bw",
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
);
