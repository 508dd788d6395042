//! The shared drive files, when they stand beside the repository.

use std::path::PathBuf;

/// The folder of measured drives, or a printed word that the test is skipped.
pub fn drives() -> Option<PathBuf> {
    let shared = std::env::var_os("ARRAYLAB_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")), PathBuf::from);
    let drives = shared.join("drives");
    if drives.join("README.md").exists() {
        return Some(drives);
    }
    eprintln!("skipped: no {} (set ARRAYLAB_SHARED)", drives.display());
    None
}

/// Trace, drive file.
pub const DRIVES: [(&str, &str); 6] = [
    ("barracuda", "barracuda.diskspecs"),
    ("cheetah4LP", "cheetah4LP.diskspecs"),
    ("atlas10k", "atlas10k.diskspecs"),
    ("hp_c2247a", "hp_c2247a.diskspecs"),
    ("hp_c3323a", "hp_c3323a_validate.diskspecs"),
    ("dec_rz26", "dec_rz26.diskspecs"),
];
