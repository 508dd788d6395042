//! SSSE3: SSE2 with a byte shuffle, which multiplies half bytes by table look-up.

#![allow(unsafe_code)] // intrinsics; the processor is checked by `Kernel`

use std::arch::x86_64::*;

use crate::field::half_byte_products;
use crate::lanes::{Lanes, kernel};

#[derive(Clone, Copy)]
struct Ssse3(__m128i);

// SAFETY: SSSE3 and what it includes.
unsafe impl Lanes for Ssse3 {
    /// The products of the low and of the high half bytes.
    type Factor = (__m128i, __m128i);
    const WIDTH: usize = 16;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Ssse3 {
        // SAFETY: the caller's promise; the load is unaligned.
        Ssse3(unsafe { _mm_loadu_si128(from.cast()) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise; the store is unaligned.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller's promise, alignment included.
        unsafe { _mm_stream_si128(to.cast(), self.0) }
    }
    #[inline(always)]
    unsafe fn fence() {
        // SAFETY: SSE is part of x86-64.
        unsafe { _mm_sfence() }
    }
    #[inline(always)]
    unsafe fn xor(self, other: Ssse3) -> Ssse3 {
        // SAFETY: the caller has SSSE3.
        Ssse3(unsafe { _mm_xor_si128(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn double(self) -> Ssse3 {
        // SAFETY: the caller has SSSE3.
        unsafe {
            let carries = _mm_cmpgt_epi8(_mm_setzero_si128(), self.0);
            Ssse3(_mm_xor_si128(_mm_add_epi8(self.0, self.0), _mm_and_si128(carries, _mm_set1_epi8(0x1d))))
        }
    }
    #[inline(always)]
    unsafe fn factor(factor: u8) -> (__m128i, __m128i) {
        let (low, high) = half_byte_products(factor);
        // SAFETY: the tables are 16 bytes long.
        unsafe { (_mm_loadu_si128(low.as_ptr().cast()), _mm_loadu_si128(high.as_ptr().cast())) }
    }
    #[inline(always)]
    unsafe fn multiply(self, (low, high): (__m128i, __m128i)) -> Ssse3 {
        // SAFETY: the caller has SSSE3.
        unsafe {
            let half = _mm_set1_epi8(0x0f);
            let of_low = _mm_shuffle_epi8(low, _mm_and_si128(self.0, half));
            let of_high = _mm_shuffle_epi8(high, _mm_and_si128(_mm_srli_epi64::<4>(self.0), half));
            Ssse3(_mm_xor_si128(of_low, of_high))
        }
    }
}

kernel!("ssse3", Ssse3, "ssse3", is_x86_feature_detected!("ssse3"));
