//! SSE2: 16 bytes, on every x86-64 processor. No byte shuffle, so products are made of doublings.

#![allow(unsafe_code)] // intrinsics; the processor is checked by `Kernel`

use std::arch::x86_64::*;

use crate::lanes::{Lanes, kernel};

#[derive(Clone, Copy)]
struct Sse2(__m128i);

// SAFETY: SSE2 only.
unsafe impl Lanes for Sse2 {
    type Factor = u8;
    const WIDTH: usize = 16;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Sse2 {
        // SAFETY: the caller's promise; the load is unaligned.
        Sse2(unsafe { _mm_loadu_si128(from.cast()) })
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
    unsafe fn xor(self, other: Sse2) -> Sse2 {
        // SAFETY: the caller has SSE2.
        Sse2(unsafe { _mm_xor_si128(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn double(self) -> Sse2 {
        // SAFETY: the caller has SSE2.
        unsafe {
            let carries = _mm_cmpgt_epi8(_mm_setzero_si128(), self.0);
            Sse2(_mm_xor_si128(_mm_add_epi8(self.0, self.0), _mm_and_si128(carries, _mm_set1_epi8(0x1d))))
        }
    }
    #[inline(always)]
    unsafe fn factor(factor: u8) -> u8 {
        factor
    }
    #[inline(always)]
    unsafe fn multiply(self, factor: u8) -> Sse2 {
        // SAFETY: the caller has SSE2.
        unsafe {
            let (mut product, mut shifted) = (_mm_setzero_si128(), self);
            for bit in 0..8 {
                let taken = _mm_set1_epi8(-((factor >> bit & 1) as i8));
                product = _mm_xor_si128(product, _mm_and_si128(taken, shifted.0));
                shifted = shifted.double();
            }
            Sse2(product)
        }
    }
}

kernel!("sse2", Sse2, "sse2", is_x86_feature_detected!("sse2"));
