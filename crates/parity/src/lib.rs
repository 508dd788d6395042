//! Parity: what an array keeps so that it can lose members.
//!
//! # Theory
//! A stripe has data blocks `D_0 .. D_{n-1}` and up to two parity blocks, computed byte by byte:
//!
//! ```text
//! P = D_0 + D_1 + ... + D_{n-1}              addition is XOR
//! Q = g^0 D_0 + g^1 D_1 + ... + g^{n-1} D_{n-1}
//! ```
//!
//! in GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d) and the generator g = 2, as H. P. Anvin,
//! "The mathematics of RAID-6", and Linux md have it: arrays are exchanged with md, so nothing else is possible. Any
//! one block follows from P, any two from P and Q, for up to 255 data blocks, as g^i are then all different.
//!
//! Q is computed by Horner's rule, `Q = (..(D_{n-1} g + D_{n-2}) g + ..) g + D_0`: only doublings, no multiplications.
//! A product with a constant, needed for updates and recovery, is two table look-ups of half bytes (`pshufb`) or one
//! affine map (GFNI).
//!
//! # Kernels
//! One [`Kernel`] per instruction set, each the same loops (`lanes`) over a different vector (`scalar`, `sse2`, `avx2`
//! ..). [`Kernel::best`] takes the first that this processor has, [`Kernel::named`] a certain one. The golden reference
//! they are all tested against is `golden`: the formulas above, byte by byte, with a multiplication that does not share
//! a line with theirs.
//!
//! Rejected: assembler (no faster than what the compiler makes of the intrinsics, see `benchsuite`); log tables (one
//! byte at a time); Vandermonde or Cauchy codes for more parities (md has none).

mod field;
pub mod golden;
mod kernel;
mod lanes;
mod locate;
mod recover;
mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod gfni;
#[cfg(target_arch = "x86_64")]
mod sse2;
#[cfg(target_arch = "x86_64")]
mod ssse3;

pub use field::{inverse, multiply, power};
pub use kernel::{Kernel, UnknownKernel};
pub use locate::{Verdict, locate};
pub use recover::{Parities, recover};
