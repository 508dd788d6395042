//! The kernel: the operations on whole blocks, bound to an instruction set.

#![allow(unsafe_code)] // calls into code for certain processors; see `Kernel`'s invariant

use std::sync::LazyLock;

type Summed = unsafe fn(usize, &[&[u8]], *mut u8);
type Both = unsafe fn(usize, &[&[u8]], *mut u8, *mut u8);
type MultiplyAdd = unsafe fn(usize, u8, &[u8], *mut u8);
type Update = unsafe fn(usize, u8, &[u8], &[u8], *mut u8, *mut u8);

/// The parity operations for one instruction set.
///
/// Invariant: outside this module a `&Kernel` exists only if this processor has its instructions. All operations panic
/// if the blocks they are given differ in length or are none at all: our bug, never an input.
pub struct Kernel {
    name: &'static str,
    supported: fn() -> bool,
    sum: Summed,
    add: Summed,
    both: Both,
    multiply_add: MultiplyAdd,
    update: Update,
}

/// A kernel was asked for that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no parity kernel '{name}' on this processor; it has {}", available.join(", "))]
pub struct UnknownKernel {
    name: String,
    available: Vec<&'static str>,
}

/// What the `kernel!` macro builds.
pub(crate) const fn assemble(
    name: &'static str,
    supported: fn() -> bool,
    sum: Summed,
    add: Summed,
    both: Both,
    multiply_add: MultiplyAdd,
    update: Update,
) -> Kernel {
    Kernel { name, supported, sum, add, both, multiply_add, update }
}

/// All kernels of this build, fastest first.
static ALL: &[&Kernel] = &[
    #[cfg(target_arch = "x86_64")]
    &crate::gfni::KERNEL,
    #[cfg(target_arch = "x86_64")]
    &crate::avx512::KERNEL,
    #[cfg(target_arch = "x86_64")]
    &crate::avx2::KERNEL,
    #[cfg(target_arch = "x86_64")]
    &crate::ssse3::KERNEL,
    #[cfg(target_arch = "x86_64")]
    &crate::sse2::KERNEL,
    &crate::scalar::KERNEL,
];

static BEST: LazyLock<&Kernel> =
    LazyLock::new(|| Kernel::available().next().expect("the scalar kernel runs everywhere"));

impl Kernel {
    /// The fastest kernel of this processor.
    pub fn best() -> &'static Kernel {
        *BEST
    }

    /// The kernels this processor can run, fastest first.
    pub fn available() -> impl Iterator<Item = &'static Kernel> {
        ALL.iter().copied().filter(|kernel| (kernel.supported)())
    }

    /// A certain kernel: `gfni`, `avx512`, `avx2`, `ssse3`, `sse2` or `scalar`.
    pub fn named(name: &str) -> Result<&'static Kernel, UnknownKernel> {
        Kernel::available().find(|kernel| kernel.name == name).ok_or_else(|| UnknownKernel {
            name: name.to_owned(),
            available: Kernel::available().map(|kernel| kernel.name).collect(),
        })
    }

    /// The name by which it can be asked for.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// `into` becomes the sum (XOR) of the sources.
    pub fn sum(&self, sources: &[&[u8]], into: &mut [u8]) {
        assert!(!sources.is_empty(), "a sum of no blocks");
        same_length(sources, into);
        // SAFETY: by the invariant the processor has the instructions; the lengths are equal. So for all calls below.
        unsafe { (self.sum)(into.len(), sources, into.as_mut_ptr()) }
    }

    /// The sources are added (XOR) to what `into` holds. With the old and the new data it turns an old P into the new
    /// one.
    pub fn add(&self, sources: &[&[u8]], into: &mut [u8]) {
        same_length(sources, into);
        // SAFETY: as in `sum`.
        unsafe { (self.add)(into.len(), sources, into.as_mut_ptr()) }
    }

    /// P and Q of the data blocks, which are given in syndrome order.
    pub fn both_parities(&self, data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
        assert!((1..=255).contains(&data.len()), "P and Q protect 1 to 255 data blocks, not {}", data.len());
        same_length(data, p);
        same_length(data, q);
        // SAFETY: as in `sum`.
        unsafe { (self.both)(p.len(), data, p.as_mut_ptr(), q.as_mut_ptr()) }
    }

    /// `into` += `factor` * `source`.
    pub fn multiply_add(&self, factor: u8, source: &[u8], into: &mut [u8]) {
        same_length(&[source], into);
        // SAFETY: as in `sum`.
        unsafe { (self.multiply_add)(into.len(), factor, source, into.as_mut_ptr()) }
    }

    /// Turns the P and Q of a stripe into those after its data block number `index` has changed from `old` to `new`.
    pub fn update(&self, index: usize, old: &[u8], new: &[u8], p: &mut [u8], q: &mut [u8]) {
        assert!(index < 255, "data block {index} of at most 255");
        same_length(&[old, new], p);
        same_length(&[old, new], q);
        let factor = crate::power(index);
        // SAFETY: as in `sum`.
        unsafe { (self.update)(p.len(), factor, old, new, p.as_mut_ptr(), q.as_mut_ptr()) }
    }
}

fn same_length(blocks: &[&[u8]], into: &[u8]) {
    for block in blocks {
        assert_eq!(block.len(), into.len(), "the blocks of a stripe are equally long");
    }
}
