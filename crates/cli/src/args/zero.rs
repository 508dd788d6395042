//! The words of `array zero`.

use clap::Args;
use raid::Place;

/// Erase the md superblocks of former members
///
/// Erases the superblock of every md version (0.90, 1.0, 1.1, 1.2), and with it the headers of its bitmap, log, journal
/// and checksums, as `mdadm --zero-superblock` does. Everything else on the device stays as it is. The array loses
/// these members for good. The command is refused while the array is served, or while a device is in use. A device
/// without a superblock is left alone.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array zero --destroy-data a b c d
  arraylab array zero --destroy-data /dev/sdf       one former member")]
pub struct Zero {
    /// Devices to erase; members of a stopped array
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<Place>,

    /// Destroy the array: its members cannot be assembled again
    #[arg(long)]
    pub destroy_data: bool,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}
