//! ISA-L's parity, loaded from the system's library where there is one (Debian: `apt-get install libisal2`).

#![allow(unsafe_code)] // calls into a C library

use std::ffi::{c_int, c_void};

use libloading::Library;

/// `int xor_gen(int vects, int len, void **array)`, and `pq_gen` alike: sources first, then P, then Q.
type Generate = unsafe extern "C" fn(c_int, c_int, *mut *mut c_void) -> c_int;

/// The library and its two functions, which are there as long as it is loaded.
pub struct IsaL {
    xor: Generate,
    pq: Generate,
    _library: Library,
}

impl IsaL {
    /// Loads it, or says why not.
    pub fn load() -> Result<IsaL, libloading::Error> {
        // SAFETY: the library's initialisers choose functions by processor and do nothing else; the signatures are
        // those of raid.h.
        unsafe {
            let library = Library::new("libisal.so.2")?;
            let (xor, pq) = (*library.get::<Generate>(b"xor_gen")?, *library.get::<Generate>(b"pq_gen")?);
            Ok(IsaL { xor, pq, _library: library })
        }
    }

    /// Computes the last `parities` (one or two) blocks from those before them. Blocks must be aligned to 64 bytes.
    pub fn generate(&self, blocks: &mut [&mut [u8]], parities: usize) {
        let length = blocks[0].len();
        assert!(blocks.iter().all(|block| block.len() == length && block.as_ptr().addr().is_multiple_of(64)));
        let generate = if parities == 1 { self.xor } else { self.pq };
        let mut pointers: Vec<*mut c_void> = blocks.iter_mut().map(|block| block.as_mut_ptr().cast()).collect();
        // SAFETY: the pointers are as many as said, each to `length` bytes, aligned as asked.
        let failed = unsafe { generate(pointers.len() as c_int, length as c_int, pointers.as_mut_ptr()) };
        assert_eq!(failed, 0, "ISA-L refuses {} blocks of {length} bytes", pointers.len());
    }
}
