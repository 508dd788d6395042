//! A disk in a tree, on whatever carries commands to it: a SCSI string, which others share phase by phase, or SAS.

use crate::component::{Fast, Kind};
use crate::packet;
use crate::scsi::attached;

/// A disk.
pub const KIND: Kind = Kind {
    name: "disk",
    on: &["scsi-string", "scsi-adapter", "sas-hba", "sas-expander", "raid-controller", "disk-array"],
    fast: &[Fast {
        limit: "strings",
        values: &[
            "overhead.request",
            "pause.first-data-least",
            "pause.first-data-most",
            "pause.save-pointer-least",
            "pause.save-pointer-most",
            "pause.status",
            "pause.status-per-block",
        ],
    }],
    build: |site| if site.is_on("scsi-string") { attached::build(site) } else { packet::drive::disk(site) },
};
