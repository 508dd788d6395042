//! The loops, written once for every width of vector.
//!
//! A file per instruction set implements [`Lanes`] for its register and, with [`kernel!`], instantiates the loops in
//! functions that enable its instructions. Everything in between is `inline(always)`, so the compiler sees each loop
//! whole and with the instructions enabled; the `memchr` crate is built the same way. The bytes left over by the last
//! whole vector go one by one.

#![allow(unsafe_code)] // raw loads and stores; each says why its pointers are good

/// A vector register full of bytes.
///
/// # Safety
/// The methods may be called only where the processor has the instructions of the implementation. Loads need `WIDTH`
/// readable bytes, stores `WIDTH` writable ones, at any alignment.
#[allow(clippy::missing_safety_doc)] // stated above, once for all
pub(crate) unsafe trait Lanes: Copy {
    /// What is needed to multiply with a constant.
    type Factor: Copy;
    /// Bytes in it.
    const WIDTH: usize;

    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    /// Stores past the caches, to an address aligned to `WIDTH`; ordered only by [`fence`](Lanes::fence).
    unsafe fn stream(self, to: *mut u8);
    /// Makes streamed stores visible before whatever follows.
    unsafe fn fence();
    /// The sum in the field.
    unsafe fn xor(self, other: Self) -> Self;
    /// The product with 2.
    unsafe fn double(self) -> Self;
    unsafe fn factor(factor: u8) -> Self::Factor;
    unsafe fn multiply(self, factor: Self::Factor) -> Self;
}

/// One byte, for what is left over. Safe on every processor.
// SAFETY: no special instructions.
unsafe impl Lanes for u8 {
    type Factor = u8;
    const WIDTH: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> u8 {
        // SAFETY: the caller's promise.
        unsafe { *from }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { *to = self }
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.store(to) }
    }
    #[inline(always)]
    unsafe fn fence() {}
    #[inline(always)]
    unsafe fn xor(self, other: u8) -> u8 {
        self ^ other
    }
    #[inline(always)]
    unsafe fn double(self) -> u8 {
        crate::field::double(self)
    }
    #[inline(always)]
    unsafe fn factor(factor: u8) -> u8 {
        factor
    }
    #[inline(always)]
    unsafe fn multiply(self, factor: u8) -> u8 {
        crate::field::multiply(self, factor)
    }
}

/// What is done to `N` vectors from byte `at` on.
pub(crate) trait Step {
    /// # Safety
    /// As for [`Lanes`]; and `at + N * WIDTH` must not be above the length of any block of the step.
    unsafe fn step<L: Lanes, const N: usize>(&self, at: usize, factor: L::Factor);
}

/// Does `step` to every byte of blocks of `length`.
///
/// Four vectors at once hide the latency of dependent doublings and still fit into 16 registers with P, Q and a
/// constant. Eight lost a tenth from memory, as did software prefetching, by more.
///
/// # Safety
/// The processor must have the instructions of `L`, and every block of the step must be `length` bytes long.
#[inline(always)]
pub(crate) unsafe fn walk<L: Lanes>(length: usize, factor: u8, step: &impl Step) {
    const AT_ONCE: usize = 4;
    let mut at = 0;
    // SAFETY: the processor is the caller's promise, and each condition keeps the step within the length.
    unsafe {
        let wide = L::factor(factor);
        while length - at >= AT_ONCE * L::WIDTH {
            step.step::<L, AT_ONCE>(at, wide);
            at += AT_ONCE * L::WIDTH;
        }
        while length - at >= L::WIDTH {
            step.step::<L, 1>(at, wide);
            at += L::WIDTH;
        }
        while at < length {
            step.step::<u8, 1>(at, factor);
            at += 1;
        }
    }
}

#[inline(always)]
unsafe fn load<L: Lanes, const N: usize>(from: *const u8, at: usize) -> [L; N] {
    // SAFETY: the caller's step lies within the block that starts at `from`.
    unsafe {
        let mut vectors = [L::load(from.add(at)); N];
        for (index, vector) in vectors.iter_mut().enumerate().skip(1) {
            *vector = L::load(from.add(at + index * L::WIDTH));
        }
        vectors
    }
}

#[inline(always)]
unsafe fn store<L: Lanes, const N: usize>(vectors: [L; N], to: *mut u8, at: usize) {
    for (index, vector) in vectors.into_iter().enumerate() {
        // SAFETY: the caller's step lies within the block that starts at `to`.
        unsafe { vector.store(to.add(at + index * L::WIDTH)) };
    }
}

/// As `store`; with `STREAM` past the caches.
#[inline(always)]
unsafe fn put<L: Lanes, const N: usize, const STREAM: bool>(vectors: [L; N], to: *mut u8, at: usize) {
    for (index, vector) in vectors.into_iter().enumerate() {
        // SAFETY: the caller's step lies within the block that starts at `to`, which is aligned if this streams.
        unsafe {
            let to = to.add(at + index * L::WIDTH);
            if STREAM { vector.stream(to) } else { vector.store(to) }
        }
    }
}

#[inline(always)]
unsafe fn add<L: Lanes, const N: usize>(into: &mut [L; N], other: [L; N]) {
    for (vector, other) in into.iter_mut().zip(other) {
        // SAFETY: the processor has the instructions.
        *vector = unsafe { vector.xor(other) };
    }
}

/// `into` = the sum of the sources, from the last one down, as `BothParities`.
///
/// From the first one up, eight sources of 1 MiB in cache came to half of ISA-L's rate on an EPYC of family 26, and
/// from memory to 0.90 of it; from the last down to 1.04 and 1.14 (`benchsuite parity`). Why is not known: with the
/// order alone changed, it was seen with every number of vectors at once, and most where stores stream.
pub(crate) struct Sum<'a, const STREAM: bool> {
    pub sources: &'a [&'a [u8]],
    pub into: *mut u8,
}

impl<const STREAM: bool> Step for Sum<'_, STREAM> {
    #[inline(always)]
    unsafe fn step<L: Lanes, const N: usize>(&self, at: usize, _: L::Factor) {
        // SAFETY: the step lies within all blocks; `sources` is not empty, as `Kernel` has asserted.
        unsafe {
            let last = self.sources.len() - 1;
            let mut sum = load::<L, N>(self.sources.get_unchecked(last).as_ptr(), at);
            for source in self.sources.get_unchecked(..last).iter().rev() {
                add(&mut sum, load(source.as_ptr(), at));
            }
            put::<L, N, STREAM>(sum, self.into, at);
        }
    }
}

/// `into` += the sum of the sources. Of an array of them, unlike of a slice, it is known which comes next (`benchsuite
/// parity`).
pub(crate) struct Add<S> {
    pub sources: S,
    pub into: *mut u8,
}

impl<'a, S: AsRef<[&'a [u8]]>> Step for Add<S> {
    #[inline(always)]
    unsafe fn step<L: Lanes, const N: usize>(&self, at: usize, _: L::Factor) {
        // SAFETY: the step lies within all blocks.
        unsafe {
            let mut sum = load::<L, N>(self.into, at);
            for source in self.sources.as_ref() {
                add(&mut sum, load(source.as_ptr(), at));
            }
            store(sum, self.into, at);
        }
    }
}

/// `p` and `q` of the data, by Horner's rule from the last block down.
pub(crate) struct BothParities<'a, const STREAM: bool> {
    pub data: &'a [&'a [u8]],
    pub p: *mut u8,
    pub q: *mut u8,
}

impl<const STREAM: bool> Step for BothParities<'_, STREAM> {
    #[inline(always)]
    unsafe fn step<L: Lanes, const N: usize>(&self, at: usize, _: L::Factor) {
        // SAFETY: the step lies within all blocks; `data` is not empty, as `Kernel` has asserted.
        unsafe {
            let last = self.data.len() - 1;
            let mut p = load::<L, N>(self.data.get_unchecked(last).as_ptr(), at);
            let mut q = p;
            for block in self.data.get_unchecked(..last).iter().rev() {
                let data = load(block.as_ptr(), at);
                add(&mut p, data);
                for vector in &mut q {
                    *vector = vector.double();
                }
                add(&mut q, data);
            }
            put::<L, N, STREAM>(p, self.p, at);
            put::<L, N, STREAM>(q, self.q, at);
        }
    }
}

/// Parities of blocks from these lengths on bypass the caches: P alone, and both.
///
/// A parity is next seen by a device, not by us, and writing past the caches spares reading the lines that are to be
/// overwritten. On an EPYC of family 25, beside ISA-L (which always streams), it gained 10 to 20 percent from memory at
/// all lengths measured; P alone at 32 KiB lost 6 percent in cache, so it starts one step later. Shorter parities are
/// those of small writes, and a journal or a checksum does look at them.
pub(crate) const SUM_STREAMS_FROM: usize = 64 << 10;
pub(crate) const BOTH_STREAM_FROM: usize = 32 << 10;

/// Whether a parity of `length` bytes at `to` is worth streaming, and may be.
#[inline(always)]
pub(crate) fn streams<L: Lanes>(length: usize, from: usize, to: *mut u8) -> bool {
    length >= from && to.addr().is_multiple_of(L::WIDTH)
}

/// `into` += factor * `source`.
pub(crate) struct MultiplyAdd<'a> {
    pub source: &'a [u8],
    pub into: *mut u8,
}

impl Step for MultiplyAdd<'_> {
    #[inline(always)]
    unsafe fn step<L: Lanes, const N: usize>(&self, at: usize, factor: L::Factor) {
        // SAFETY: the step lies within both blocks.
        unsafe {
            let mut sum = load::<L, N>(self.into, at);
            for (sum, vector) in sum.iter_mut().zip(load::<L, N>(self.source.as_ptr(), at)) {
                *sum = sum.xor(vector.multiply(factor));
            }
            store(sum, self.into, at);
        }
    }
}

/// `p` += old + new, `q` += factor * (old + new), in one pass.
pub(crate) struct Update<'a> {
    pub old: &'a [u8],
    pub new: &'a [u8],
    pub p: *mut u8,
    pub q: *mut u8,
}

impl Step for Update<'_> {
    #[inline(always)]
    unsafe fn step<L: Lanes, const N: usize>(&self, at: usize, factor: L::Factor) {
        // SAFETY: the step lies within all four blocks.
        unsafe {
            let mut change = load::<L, N>(self.old.as_ptr(), at);
            add(&mut change, load(self.new.as_ptr(), at));
            let mut p = load(self.p, at);
            add(&mut p, change);
            store(p, self.p, at);
            let mut q = load::<L, N>(self.q, at);
            for (q, change) in q.iter_mut().zip(change) {
                *q = q.xor(change.multiply(factor));
            }
            store(q, self.q, at);
        }
    }
}

/// A `Kernel` named `$name` whose loops run over `$lanes` with the instructions `$features` enabled.
macro_rules! kernel {
    ($name:literal, $lanes:ty, $($features:literal)?, $supported:expr) => {
        pub(crate) static KERNEL: crate::Kernel = {
            use crate::lanes::*;

            // SAFETY of all five: `Kernel` hands itself out only where `$supported` holds, and asserts that the blocks
            // of a call are `length` bytes long; that is all that `walk` asks for.
            $(#[target_feature(enable = $features)])?
            unsafe fn sum(length: usize, sources: &[&[u8]], into: *mut u8) {
                // SAFETY: above; streamed stores are aligned and fenced.
                unsafe {
                    if streams::<$lanes>(length, SUM_STREAMS_FROM, into) {
                        walk::<$lanes>(length, 0, &Sum::<true> { sources, into });
                        <$lanes>::fence();
                    } else {
                        walk::<$lanes>(length, 0, &Sum::<false> { sources, into });
                    }
                }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn add(length: usize, sources: &[&[u8]], into: *mut u8) {
                // SAFETY: above.
                unsafe {
                    match *sources {
                        // The old data and the new ones of a small write.
                        [old, new] => walk::<$lanes>(length, 0, &Add { sources: [old, new], into }),
                        _ => walk::<$lanes>(length, 0, &Add { sources, into }),
                    }
                }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn both(length: usize, data: &[&[u8]], p: *mut u8, q: *mut u8) {
                // SAFETY: above; streamed stores are aligned and fenced.
                unsafe {
                    if [p, q].into_iter().all(|to| streams::<$lanes>(length, BOTH_STREAM_FROM, to)) {
                        walk::<$lanes>(length, 0, &BothParities::<true> { data, p, q });
                        <$lanes>::fence();
                    } else {
                        walk::<$lanes>(length, 0, &BothParities::<false> { data, p, q });
                    }
                }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn multiply_add(length: usize, factor: u8, source: &[u8], into: *mut u8) {
                // SAFETY: above.
                unsafe { walk::<$lanes>(length, factor, &MultiplyAdd { source, into }) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn update(length: usize, factor: u8, old: &[u8], new: &[u8], p: *mut u8, q: *mut u8) {
                // SAFETY: above.
                unsafe { walk::<$lanes>(length, factor, &Update { old, new, p, q }) }
            }
            crate::kernel::assemble($name, || $supported, sum, add, both, multiply_add, update)
        };
    };
}
pub(crate) use kernel;
