//! The words of `array`.

mod assemble;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use assemble::Assemble;
use clap::{Args, Subcommand, ValueEnum};

pub use super::set::Set;
pub use super::zero::Zero;

use nbd::{Address, Portion};
use raid::{Consistency, Place};
use units::{Bytes, Duration, Rate};

use super::serving::{Bounds, some_time};

/// Create and maintain RAID arrays in Linux md's on-disk format
///
/// Name an array by its members: files, block devices, or exports of NBD servers (nbd://HOST/EXPORT,
/// nbd+unix:///?socket=PATH). Each command opens the array, acts, and stops it again. All state is on the members, in
/// md's format, version 1.2. While an array is served, the same commands find its server by any of the members, and the
/// server carries them out.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array create --level 5 --size 1GiB a b c d      four new files
  arraylab array status a b c d
  arraylab array fail --member b a b c d
  arraylab array rebuild --onto e --size 1GiB a c d
  arraylab array replace --member a --onto f --size 1GiB a c d e
  arraylab array scrub f c d e --repair
  arraylab array serve a c d e --nbd unix:array.sock
  arraylab array create --level 6 --stripe-unit 64KiB --destroy-data /dev/sd[b-f]")]
pub struct Array {
    /// What to do.
    #[command(subcommand)]
    pub action: ArrayAction,
}

/// What can be done with an array. The help of a variant that has no comment is that of its arguments: a comment here
/// would hide it.
#[derive(Subcommand)]
#[allow(missing_docs)] // see above
pub enum ArrayAction {
    Create(Create),
    /// Print what each member's superblock says
    ///
    /// Reads only. Each MEMBER is described by itself, so they may belong to several arrays. A device that is not a
    /// member of version 1.2 is named for what it is: md 0.90, 1.0 or 1.1, DDF, Intel Matrix RAID, LVM, LUKS, ZFS, a
    /// file system, a partition table. The exit code is then 2.
    #[command(after_long_help = "\
Examples:
  arraylab array examine /dev/sdb
  arraylab array examine --json a b c d")]
    Examine(Paths),
    /// Print the state of an array
    ///
    /// Reads only. Shows the level, whether the array is clean, which members are missing or stale, and how many more
    /// losses it survives. A named device that is empty, gone or unreadable is listed with the reason. The exit code is
    /// 0 whenever the question is answered, also for a degraded array; see `not_whole` and `broken` in the JSON.
    #[command(after_long_help = "\
Examples:
  arraylab array status a b c d
  arraylab array status --json a b c d")]
    Status(Paths),
    Assemble(Assemble),
    Serve(ServeArray),
    Fail(Fail),
    Add(Add),
    Replace(Replace),
    Rebuild(Rebuild),
    Scrub(Scrub),
    /// Grow an array to the full size of its members
    ///
    /// After each member has been enlarged (or replaced by a larger one), the array uses the new space. The redundancy
    /// of the new space is computed with a progress bar; Ctrl-C pauses it, and the same command resumes it. A served
    /// array cannot grow: stop the server first.
    #[command(after_long_help = "\
Examples:
  arraylab array grow a b c d
  arraylab array grow --rate 50MB/s a b c d")]
    Grow(Upkeep),
    Stop(Stop),
    Set(Set),
    Zero(Zero),
    Layout(Layout),
}

/// Create an array
///
/// A member that does not exist is created as a file of --size. A member with contents is overwritten only with
/// --destroy-data. Where members existed before, parity or copies are computed from their contents with a progress bar.
/// Ctrl-C pauses that, and `arraylab array stop` resumes it.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array create --level 5 --size 1GiB a b c d
  arraylab array create --level 6 --spare /dev/sdg --destroy-data /dev/sd[b-f]
  arraylab array create --level 5 --journal j --size 1GiB a b c d")]
pub struct Create {
    /// Files or block devices, in the order of their roles
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<Place>,

    /// RAID level: linear, 0, 1, 3, 4, 5, 6 or 10
    #[arg(long)]
    pub level: String,

    /// Layout within the level, such as left-symmetric, or n2, f2, o2 at level 10 [default: the level's usual one]
    #[arg(long)]
    pub layout: Option<String>,

    /// Chunk size: contiguous data on one member before the next [default: 64 KiB; 4 KiB at level 3, md's smallest]
    #[arg(long, value_name = "SIZE")]
    pub stripe_unit: Option<Bytes>,

    /// Size of each member, journal and spare that is created as a file
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,

    /// How redundancy survives a power cut [default: ppl at levels with parity, bitmap at levels 1 and 10]
    ///
    /// --journal PATH is the fourth way.
    #[arg(long, conflicts_with = "journal")]
    pub consistency: Option<Way>,

    /// Log writes on a journal device, which closes the write hole at levels 4, 5 and 6. Name it among the members from
    /// then on
    #[arg(long, value_name = "PATH")]
    pub journal: Option<Place>,

    /// Add a hot spare; may be repeated. Name it among the members from then on
    #[arg(long, value_name = "PATH")]
    pub spare: Vec<Place>,

    /// Name of the array, at most 32 bytes
    #[arg(long, default_value = "array")]
    pub name: String,

    /// Skip the initial resync: assume that parity or copies already match
    #[arg(long)]
    pub assume_clean: bool,

    /// Store a checksum of every block, so that reads detect and heal silent corruption. Takes 0.8 percent of each
    /// member
    #[arg(long)]
    pub integrity: bool,

    /// Overwrite members that carry data. Their contents are lost
    #[arg(long)]
    pub destroy_data: bool,

    /// How it goes.
    #[command(flatten)]
    pub pace: Pace,
}

/// How redundancy survives a power cut.
#[derive(Clone, Copy, ValueEnum)]
pub enum Way {
    /// Resync everything after a power cut; the write hole stays open
    Resync,
    /// Write-intent bitmap: resync only what was being written
    Bitmap,
    /// Partial parity log: close the write hole (levels 3 to 6; at 3, 4 and 6 beside a bitmap)
    Ppl,
}

impl From<Way> for Consistency {
    fn from(way: Way) -> Consistency {
        match way {
            Way::Resync => Consistency::Resync,
            Way::Bitmap => Consistency::Bitmap,
            Way::Ppl => Consistency::Ppl,
        }
    }
}

/// Members that are only read.
#[derive(Args)]
pub struct Paths {
    /// Members of one array
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<Place>,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// A rate that comes to an end. Nothing a second would never, and is not what was meant by no limit.
fn some_rate(text: &str) -> Result<Rate, String> {
    match text.parse::<Rate>() {
        Ok(rate) if rate.is_zero() => Err("a rate of 0 never ends; omit --rate for no limit".into()),
        rate => rate.map_err(|error| error.to_string()),
    }
}

/// How a command goes that may take long.
#[derive(Args)]
pub struct Pace {
    /// Limit the speed, such as 50MB/s [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = some_rate)]
    pub rate: Option<Rate>,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// An array and how to go about it.
#[derive(Args)]
pub struct Upkeep {
    /// All members of the array, in any order
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<Place>,

    /// How it goes.
    #[command(flatten)]
    pub pace: Pace,
}

/// Mark an uncleanly stopped array clean, resyncing if needed
///
/// After a power cut or `kill -9`, parity or copies are resynced where a write may have been in flight; a log or bitmap
/// bounds that. Missing members stay missing. Ctrl-C pauses the resync, and the same command resumes it. A served array
/// is stopped by its server: end that.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array stop a b c d
  arraylab array stop --force a b c d        the journal is lost")]
pub struct Stop {
    /// The array.
    #[command(flatten)]
    pub array: Upkeep,

    /// Drop a lost journal. Accept that a missing member may be computed wrongly where a power cut hit a write
    #[arg(long)]
    pub force: bool,
}

/// Serve an array as a network block device (NBD)
///
/// Clients are nbdcopy, qemu, fio, the kernel (nbd-client), nbdfuse, another arraylab. The command prints the URIs that
/// clients connect to, and serves until Ctrl-C or SIGTERM. Then it finishes requests in flight and stops the array.
/// While serving, it resyncs an array that was not stopped, resumes an interrupted rebuild, and prints a line for each
/// failed member and each repair.
///
/// A degraded array is served as long as its level allows; omit the lost member.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array serve a b c d --nbd unix:array.sock
  arraylab array serve a b c d --nbd tcp:127.0.0.1:10809 --nbd unix:array.sock
  arraylab array serve /dev/sd[b-e] --nbd tcp:0.0.0.0:10809 --tls /etc/pki/nbd
  arraylab array serve a nbd://host/b c --nbd unix:array.sock      a member on another machine
  arraylab array serve a b c d --nbd unix:array.sock --export home=0..100GiB --export rest=100GiB..
  arraylab array serve a b c --nbd unix:a.sock --export all,read-only --export top=..1GiB,read-only

While it serves, in another terminal:
  mkfs.ext4 ... ; nbdfuse array.img 'nbd+unix:///?socket=array.sock'
  arraylab array status a b c d
  arraylab array fail --member b a b c d
  arraylab array rebuild --onto e --size 1GiB a c d --rate 50MB/s
  arraylab array scrub a c d e")]
pub struct ServeArray {
    /// All available members of the array, in any order
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<Place>,

    /// Listen at unix:PATH (for this user only), tcp:HOST:PORT, or the sockets of a socket unit (systemd); may be
    /// repeated
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub nbd: Vec<Address>,

    /// What clients may have.
    #[command(flatten)]
    pub bounds: Bounds,

    /// Export the array as NAME, or a part of it as NAME=FROM..TO; may be repeated [default: the whole array, with an
    /// empty name]
    ///
    /// Each part is a device with its own size. An omitted bound is the array's start or end. Append ,read-only to
    /// refuse writes. Exports may overlap only if none of them takes writes. Clients that name no export get the one
    /// with the empty name.
    #[arg(long, value_name = "EXPORT")]
    pub export: Vec<Portion>,

    /// Refuse writes from clients, and write nothing to the members, which may be write-protected. Logs are replayed in
    /// memory
    #[arg(long)]
    pub read_only: bool,

    /// Accept that a missing member may be computed wrongly where a power cut hit a write
    #[arg(long)]
    pub force: bool,

    /// Limit the speed of resync and rebuild, such as 50MB/s [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = some_rate)]
    pub rate: Option<Rate>,

    /// Fail a member that does not answer a request within this time
    #[arg(long, value_name = "TIME", default_value = "30 s")]
    pub time_limit: Duration,

    /// Require TLS, with the certificates in this folder: ca-cert.pem, server-cert.pem, server-key.pem
    ///
    /// Clients must present a certificate signed by that authority. TLS is mandatory at addresses that other machines
    /// can reach.
    #[arg(long, value_name = "DIR")]
    pub tls: Option<PathBuf>,

    /// Answer Prometheus over HTTP at this address: http://IP:PORT/metrics
    #[arg(long, value_name = "IP:PORT")]
    pub metrics: Option<SocketAddr>,

    /// Write the metrics to a file for node_exporter's textfile collector; remove it at the end
    #[arg(long, value_name = "PATH.prom")]
    pub metrics_file: Option<PathBuf>,

    /// Write that file this often
    #[arg(long, value_name = "TIME", default_value = "15 s", value_parser = some_time, requires = "metrics_file")]
    pub metrics_interval: Duration,

    /// Run PROGRAM EVENT ARRAY [COMPONENT] at each event, as mdadm --monitor does (docs/service.md)
    #[arg(long, value_name = "PROGRAM")]
    pub on_event: Option<PathBuf>,

    /// Run PROGRAM TestMessage ARRAY first
    #[arg(long, requires = "on_event")]
    pub test_event: bool,

    /// Print the addresses as one JSON document, then each event as one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Mark a member failed
///
/// The other members record that it has failed, and the array goes on degraded. A hot spare takes its place. If PATH is
/// a replacement in progress, the replacement is cancelled and the old member stays.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array fail --member b a b c d
  arraylab array add --device b a c d        bring it back")]
pub struct Fail {
    /// Member to fail, or replacement to cancel
    #[arg(long, value_name = "PATH")]
    pub member: Place,

    /// The array.
    #[command(flatten)]
    pub array: Upkeep,
}

/// Add a hot spare, or re-add a former member
///
/// A former member returns to its role if the bitmap marks everything written since it left; only that is copied. Any
/// other device becomes a spare. If a member is missing, the spare takes its place at once. A former member keeps
/// write-mostly and failfast.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array add --device e --size 1GiB a b c d     a new file as a spare
  arraylab array add --device b a c d                   b returns
  arraylab array add --destroy-data --device /dev/sdf --device /dev/sdf a b c d
                                                        what /dev/sdf carries is lost")]
pub struct Add {
    /// Device to add. Give it twice, with --destroy-data, if it carries recognised data that may be lost
    #[arg(long, value_name = "PATH", required = true)]
    pub device: Vec<Place>,

    /// Size of the file to create if the device does not exist
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,

    /// Overwrite a device that carries data. Its contents are lost
    #[arg(long)]
    pub destroy_data: bool,

    /// The array.
    #[command(flatten)]
    pub array: Upkeep,
}

/// Replace a member while it stays in use
///
/// The member is copied to the new device; blocks that it cannot read are computed from the others. The array keeps
/// full redundancy throughout. When the copy is complete, the new device takes the role and the old one leaves the
/// array.
///
/// Ctrl-C pauses the copy. To resume it, give the same command with old and new device among the members, without
/// --member and --onto. While the array is served, Ctrl-C ends only the watching; `arraylab array fail --member NEW`
/// cancels the replacement.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array replace --member b --onto e --size 1GiB a b c d
  arraylab array replace a b c d e                      resume")]
pub struct Replace {
    /// Member to replace; omit it to resume
    #[arg(long, value_name = "PATH", requires = "onto")]
    pub member: Option<Place>,

    /// Device that takes its role. Give it twice, with --destroy-data, if it carries recognised data that may be lost
    #[arg(long, value_name = "PATH", requires = "member")]
    pub onto: Vec<Place>,

    /// Size of the file to create if --onto does not exist
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,

    /// Overwrite an --onto device that carries data. Its contents are lost
    #[arg(long)]
    pub destroy_data: bool,

    /// The array.
    #[command(flatten)]
    pub array: Upkeep,
}

/// Draw where each chunk lies
///
/// A column is a member, a line is a row of chunks, a number is the chunk's index in the array. P and Q are parity. At
/// level 6 each chunk also shows its exponent in Q. The drawing comes from the code that places the data; docs/levels/
/// has one for each layout.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array layout --level 5 --members 4
  arraylab array layout --level 6 --layout ddf-zero-restart --members 5
  arraylab array layout --level 10 --layout f2 --members 4 --rows 8")]
pub struct Layout {
    /// RAID level: linear, 0, 1, 3, 4, 5, 6 or 10
    #[arg(long)]
    pub level: String,

    /// Layout within the level, such as left-symmetric, or n2, f2, o2 at level 10 [default: the level's usual one]
    #[arg(long)]
    pub layout: Option<String>,

    /// Number of members
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub members: u16,

    /// Rows of chunks to draw [default: the number of members]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rows: Option<u16>,
}

/// Rebuild a missing member, or resume an interrupted rebuild
///
/// Without --onto, a former member among those named is re-added (see `add`), or else a spare takes the missing role.
/// Ctrl-C pauses the rebuild. To resume it, give the same command with the new member among the others, without --onto.
/// While the array is served, Ctrl-C ends only the watching; the rebuild goes on in the server.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array rebuild --onto e --size 1GiB a c d
  arraylab array rebuild a c d e                        resume, or rebuild onto spare e
  arraylab array rebuild --destroy-data --onto /dev/sdf --onto /dev/sdf /dev/sd[b-d]")]
pub struct Rebuild {
    /// Device to rebuild onto; omit it to resume, or to use a spare. Give it twice, with --destroy-data, if it carries
    /// recognised data that may be lost
    #[arg(long, value_name = "PATH")]
    pub onto: Vec<Place>,

    /// Size of the file to create if --onto does not exist
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,

    /// Accept that the missing member may be computed wrongly where a power cut hit a write
    #[arg(long)]
    pub force: bool,

    /// Overwrite an --onto device that carries data. Its contents are lost
    #[arg(long)]
    pub destroy_data: bool,

    /// The array.
    #[command(flatten)]
    pub array: Upkeep,
}

/// Check all data against its redundancy
///
/// Reads every member and compares parity, copies and checksums. Unreadable sectors are computed and rewritten. An
/// array that was not stopped is resynced first. The exit code is 1 if mismatches are left. Ctrl-C ends the scrub and
/// prints the address it reached; --from resumes there.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array scrub a b c d
  arraylab array scrub --repair --rate 50MB/s a b c d
  arraylab array scrub --from 12GiB a b c d")]
pub struct Scrub {
    /// Start at this address of the array, such as 12GiB [default: 0]
    #[arg(long, value_name = "ADDRESS")]
    pub from: Option<Bytes>,

    /// Repair mismatches: at level 6 rewrite the wrong block, elsewhere trust the data and rewrite its redundancy
    #[arg(long)]
    pub repair: bool,

    /// The array.
    #[command(flatten)]
    pub array: Upkeep,
}
