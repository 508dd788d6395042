//! AVX2: 32 bytes.

#![allow(unsafe_code)] // intrinsics; the processor is checked by `Kernel`

use std::arch::x86_64::*;

use crate::field::half_byte_products;
use crate::lanes::{Lanes, kernel};

#[derive(Clone, Copy)]
struct Avx2(__m256i);

// SAFETY: AVX2 and what it includes.
unsafe impl Lanes for Avx2 {
    /// The products of the low and of the high half bytes, in both halves of the register: the shuffle works within
    /// halves.
    type Factor = (__m256i, __m256i);
    const WIDTH: usize = 32;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Avx2 {
        // SAFETY: the caller's promise; the load is unaligned.
        Avx2(unsafe { _mm256_loadu_si256(from.cast()) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise; the store is unaligned.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller's promise, alignment included.
        unsafe { _mm256_stream_si256(to.cast(), self.0) }
    }
    #[inline(always)]
    unsafe fn fence() {
        // SAFETY: SSE is part of x86-64.
        unsafe { _mm_sfence() }
    }
    #[inline(always)]
    unsafe fn xor(self, other: Avx2) -> Avx2 {
        // SAFETY: the caller has AVX2.
        Avx2(unsafe { _mm256_xor_si256(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn double(self) -> Avx2 {
        // SAFETY: the caller has AVX2.
        unsafe {
            let carries = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let reduced = _mm256_and_si256(carries, _mm256_set1_epi8(0x1d));
            Avx2(_mm256_xor_si256(_mm256_add_epi8(self.0, self.0), reduced))
        }
    }
    #[inline(always)]
    unsafe fn factor(factor: u8) -> (__m256i, __m256i) {
        let (low, high) = half_byte_products(factor);
        // SAFETY: the tables are 16 bytes long, and the caller has AVX2.
        unsafe {
            let both = |table: &[u8; 16]| _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            (both(&low), both(&high))
        }
    }
    #[inline(always)]
    unsafe fn multiply(self, (low, high): (__m256i, __m256i)) -> Avx2 {
        // SAFETY: the caller has AVX2.
        unsafe {
            let half = _mm256_set1_epi8(0x0f);
            let of_low = _mm256_shuffle_epi8(low, _mm256_and_si256(self.0, half));
            let of_high = _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), half));
            Avx2(_mm256_xor_si256(of_low, of_high))
        }
    }
}

kernel!("avx2", Avx2, "avx2", is_x86_feature_detected!("avx2"));
