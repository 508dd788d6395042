//! The parts and systems that come with the program, so that it works wherever it lies.

/// Part files: name and text.
pub const PARTS: &[(&str, &str)] = &[
    ("jaguar", include_str!("../../../parts/jaguar.toml")),
    ("scsi-1", include_str!("../../../parts/scsi-1.toml")),
    ("sprite", include_str!("../../../parts/sprite.toml")),
    ("sun4-280", include_str!("../../../parts/sun4-280.toml")),
    ("sun4-280-memory", include_str!("../../../parts/sun4-280-memory.toml")),
    ("vme", include_str!("../../../parts/vme.toml")),
    ("wren-iv", include_str!("../../../parts/wren-iv.toml")),
];

/// System files: name and text.
pub const SYSTEMS: &[(&str, &str)] = &[("raid-i", include_str!("../../../systems/raid-i.toml"))];
