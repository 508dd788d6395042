//! The parts and systems that come with the program, so that it works wherever it lies; and those that a path names.

use std::path::Path;

use crate::part::{Part, PartError};

/// Part files: name and text.
pub const PARTS: &[(&str, &str)] = &[
    ("4.2bsd", include_str!("../../../parts/4.2bsd.toml")),
    ("4.2bsd-files", include_str!("../../../parts/4.2bsd-files.toml")),
    ("challenge-memory", include_str!("../../../parts/challenge-memory.toml")),
    ("cmi", include_str!("../../../parts/cmi.toml")),
    ("ddr4-8-channels", include_str!("../../../parts/ddr4-8-channels.toml")),
    ("eagle", include_str!("../../../parts/eagle.toml")),
    ("epyc-32-core", include_str!("../../../parts/epyc-32-core.toml")),
    ("esp", include_str!("../../../parts/esp.toml")),
    ("ethernet-2x10g", include_str!("../../../parts/ethernet-2x10g.toml")),
    ("flash-nvme-3.84tb", include_str!("../../../parts/flash-nvme-3.84tb.toml")),
    ("hp-driver", include_str!("../../../parts/hp-driver.toml")),
    ("i386-25", include_str!("../../../parts/i386-25.toml")),
    ("i486-50", include_str!("../../../parts/i486-50.toml")),
    ("io4", include_str!("../../../parts/io4.toml")),
    ("irix-5.2", include_str!("../../../parts/irix-5.2.toml")),
    ("irix-lv", include_str!("../../../parts/irix-lv.toml")),
    ("jaguar", include_str!("../../../parts/jaguar.toml")),
    ("lan-clients", include_str!("../../../parts/lan-clients.toml")),
    ("linux-6-direct", include_str!("../../../parts/linux-6-direct.toml")),
    ("linux-6-files", include_str!("../../../parts/linux-6-files.toml")),
    ("mg10-20tb", include_str!("../../../parts/mg10-20tb.toml")),
    ("micro-channel-13", include_str!("../../../parts/micro-channel-13.toml")),
    ("micro-channel-40", include_str!("../../../parts/micro-channel-40.toml")),
    ("nfs-clients", include_str!("../../../parts/nfs-clients.toml")),
    ("nfsd", include_str!("../../../parts/nfsd.toml")),
    ("nfsd-peer", include_str!("../../../parts/nfsd-peer.toml")),
    ("nic-2x10g", include_str!("../../../parts/nic-2x10g.toml")),
    ("os2-2.1", include_str!("../../../parts/os2-2.1.toml")),
    ("os2-server-locate", include_str!("../../../parts/os2-server-locate.toml")),
    ("os2-server-move", include_str!("../../../parts/os2-server-move.toml")),
    ("os2-server-raid", include_str!("../../../parts/os2-server-raid.toml")),
    ("pcie-4-root", include_str!("../../../parts/pcie-4-root.toml")),
    ("pcie-4-switch", include_str!("../../../parts/pcie-4-switch.toml")),
    ("powerpath-2", include_str!("../../../parts/powerpath-2.toml")),
    ("ps2-70-memory", include_str!("../../../parts/ps2-70-memory.toml")),
    ("ps2-95-memory", include_str!("../../../parts/ps2-95-memory.toml")),
    ("ps2-disk-540mb", include_str!("../../../parts/ps2-disk-540mb.toml")),
    ("ps2-raid", include_str!("../../../parts/ps2-raid.toml")),
    ("ps2-scsi-2", include_str!("../../../parts/ps2-scsi-2.toml")),
    ("ps2-token-ring", include_str!("../../../parts/ps2-token-ring.toml")),
    ("r4400-150", include_str!("../../../parts/r4400-150.toml")),
    ("ra81", include_str!("../../../parts/ra81.toml")),
    ("raid-sas3", include_str!("../../../parts/raid-sas3.toml")),
    ("rf6710", include_str!("../../../parts/rf6710.toml")),
    ("rf6710-diskless", include_str!("../../../parts/rf6710-diskless.toml")),
    ("sas3-expander", include_str!("../../../parts/sas3-expander.toml")),
    ("sas3-hba", include_str!("../../../parts/sas3-hba.toml")),
    ("sbi", include_str!("../../../parts/sbi.toml")),
    ("sbus", include_str!("../../../parts/sbus.toml")),
    ("sc750", include_str!("../../../parts/sc750.toml")),
    ("sc780", include_str!("../../../parts/sc780.toml")),
    ("scsi-1", include_str!("../../../parts/scsi-1.toml")),
    ("scsi-1-5mb", include_str!("../../../parts/scsi-1-5mb.toml")),
    ("scsi-2-fast-wide", include_str!("../../../parts/scsi-2-fast-wide.toml")),
    ("si9900", include_str!("../../../parts/si9900.toml")),
    ("solaris", include_str!("../../../parts/solaris.toml")),
    ("sparc20", include_str!("../../../parts/sparc20.toml")),
    ("sparc20-memory", include_str!("../../../parts/sparc20-memory.toml")),
    ("sprite", include_str!("../../../parts/sprite.toml")),
    ("st12400n", include_str!("../../../parts/st12400n.toml")),
    ("sun4-280", include_str!("../../../parts/sun4-280.toml")),
    ("sun4-280-memory", include_str!("../../../parts/sun4-280-memory.toml")),
    ("token-ring-16", include_str!("../../../parts/token-ring-16.toml")),
    ("uda-driver", include_str!("../../../parts/uda-driver.toml")),
    ("uda50", include_str!("../../../parts/uda50.toml")),
    ("unibus", include_str!("../../../parts/unibus.toml")),
    ("vax-750", include_str!("../../../parts/vax-750.toml")),
    ("vax-750-memory", include_str!("../../../parts/vax-750-memory.toml")),
    ("vax-780", include_str!("../../../parts/vax-780.toml")),
    ("vax-780-memory", include_str!("../../../parts/vax-780-memory.toml")),
    ("vme", include_str!("../../../parts/vme.toml")),
    ("wren-7", include_str!("../../../parts/wren-7.toml")),
    ("wren-iv", include_str!("../../../parts/wren-iv.toml")),
];

/// System files: name and text.
pub const SYSTEMS: &[(&str, &str)] = &[
    ("max", include_str!("../../../systems/max.toml")),
    ("nfs-10g", include_str!("../../../systems/nfs-10g.toml")),
    ("nfs-10g-peer", include_str!("../../../systems/nfs-10g-peer.toml")),
    ("nvme-24", include_str!("../../../systems/nvme-24.toml")),
    ("raid-i", include_str!("../../../systems/raid-i.toml")),
    ("raid6-12", include_str!("../../../systems/raid6-12.toml")),
    ("sas-60", include_str!("../../../systems/sas-60.toml")),
    ("scb-locate", include_str!("../../../systems/scb-locate.toml")),
    ("scb-locate-i386", include_str!("../../../systems/scb-locate-i386.toml")),
    ("scb-move", include_str!("../../../systems/scb-move.toml")),
    ("scb-raid5", include_str!("../../../systems/scb-raid5.toml")),
    ("sparc20-wren7", include_str!("../../../systems/sparc20-wren7.toml")),
    ("vax-750-sc750", include_str!("../../../systems/vax-750-sc750.toml")),
    ("vax-750-uda50", include_str!("../../../systems/vax-750-uda50.toml")),
    ("vax-780-sc780", include_str!("../../../systems/vax-780-sc780.toml")),
    ("vax-780-si9900", include_str!("../../../systems/vax-780-si9900.toml")),
    ("vax-780-uda50", include_str!("../../../systems/vax-780-uda50.toml")),
];

/// What a library holds: a part or a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shelf {
    /// `parts/`.
    Parts,
    /// `systems/`.
    Systems,
}

impl Shelf {
    /// Names and texts of what comes with the program.
    pub const fn texts(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Shelf::Parts => PARTS,
            Shelf::Systems => SYSTEMS,
        }
    }

    /// What one of it is called.
    pub const fn noun(self) -> &'static str {
        match self {
            Shelf::Parts => "part",
            Shelf::Systems => "system",
        }
    }

    /// All that comes with the program, by name.
    pub fn all(self) -> Vec<(&'static str, Part)> {
        self.texts().iter().map(|(name, text)| (*name, self.own(name, text))).collect()
    }

    /// What `name` means: something that comes with the program, or else the file of that path.
    pub fn find(self, name: &str) -> Result<Part, LibraryError> {
        if let Some((name, text)) = self.texts().iter().find(|(known, _)| *known == name) {
            return Ok(self.own(name, text));
        }
        let path = Path::new(name);
        if !path.exists() {
            let names: Vec<&str> = self.texts().iter().map(|(known, _)| *known).collect();
            let (name, noun, known) = (name.to_owned(), self.noun(), names.join(", "));
            return Err(LibraryError::Unknown { name, noun, known });
        }
        let part = Part::load(path)?;
        // A system is a part whose values name other parts.
        if (part.kind == "system") != (self == Shelf::Systems) {
            let (name, noun, kind) = (name.to_owned(), self.noun(), part.kind);
            return Err(LibraryError::OtherShelf { name, noun, kind });
        }
        Ok(part)
    }

    fn own(self, name: &str, text: &str) -> Part {
        Part::parse(&format!("{}s/{name}.toml", self.noun()), text)
            .expect("a test reads all that comes with the program")
    }
}

/// Why a part or system is not found.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum LibraryError {
    #[error("there is no {noun} '{name}', and no file of that path; {noun}s that come with the program: {known}")]
    Unknown { name: String, noun: &'static str, known: String },
    #[error("{name} is of kind '{kind}' and no {noun}; see `arraylab parts` and `arraylab systems`")]
    OtherShelf { name: String, noun: &'static str, kind: String },
    #[error(transparent)]
    Part(#[from] PartError),
}
