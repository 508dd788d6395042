//! The words of `array` and `storm`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use lab::raid::{Consistency, Place};
use nbd::{Address, Portion};
use storm::Choice;
use units::{Bytes, Duration, Rate};

/// Make and keep up RAID arrays that Linux md opens, too
///
/// An array is named by its members: files, block devices, or exports of NBD servers (nbd://HOST/EXPORT, nbd+unix:///?socket=PATH). Each
/// command opens it from them, acts and stops it, so that between two commands the members say all there is to say; the format is md's,
/// version 1.2. While an array is served, the same commands find its server by any of the members, and it does what they say.
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

/// What can be done with an array.
#[derive(Subcommand)]
pub enum ArrayAction {
    /// Make an array of files or block devices
    Create(Create),
    /// Print what the superblocks of members say
    Examine(Paths),
    /// Print what the members say of their array
    Status(Paths),
    /// Serve an array to any program, as a network block device
    Serve(ServeArray),
    /// Take a member out of use
    Fail(Fail),
    /// Add a spare, or have a former member come back
    Add(Add),
    /// Replace a member while it still serves
    Replace(Replace),
    /// Fill the place of a missing member; go on with what was ended
    Rebuild(Rebuild),
    /// Compare everything with its redundancy; exit code 1 if it does not fit and was not repaired
    Scrub(Scrub),
    /// Use all the room of members that have become larger
    Grow(Upkeep),
    /// Make an array clean that was not stopped
    Stop(Stop),
    /// Draw which chunk lies where at a level
    Layout(Layout),
}

/// Make an array of files or block devices
///
/// Members that do not exist are made as files of --size; what exists and carries data is written only with --destroy-data. Where
/// members existed before, the redundancy is computed from what is on them, with a progress bar; Ctrl-C ends that, and
/// `arraylab array stop` goes on.
#[derive(Args)]
pub struct Create {
    /// Files or block devices, in the order of their places
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<Place>,

    /// linear, 0, 1, 3, 4, 5, 6 or 10
    #[arg(long)]
    pub level: String,

    /// The layout within the level, such as left-symmetric, or n2, f2, o2 at level 10 [default: the level's]
    #[arg(long)]
    pub layout: Option<String>,

    /// What lies on one member before the next takes over (the chunk) [default: 64 KiB; 4 KiB at level 3, the smallest that md has]
    #[arg(long, value_name = "SIZE")]
    pub stripe_unit: Option<Bytes>,

    /// How large members, journal and spares are that do not exist yet
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,

    /// What is done about the write hole and about resyncs [default: ppl at levels with parity, a bitmap at others with redundancy]
    ///
    /// A journal on a device of its own is one more way: --journal PATH.
    #[arg(long, conflicts_with = "journal")]
    pub consistency: Option<Way>,

    /// A device of its own for a journal, which closes the write hole at levels 4, 5 and 6. From then on it is named among the members
    #[arg(long, value_name = "PATH")]
    pub journal: Option<Place>,

    /// A device that waits for a member to fail; may be given several times. From then on it is named among the members
    #[arg(long, value_name = "PATH")]
    pub spare: Vec<Place>,

    /// The array's name
    #[arg(long, default_value = "array")]
    pub name: String,

    /// Do not compute the redundancy of what is on the members now
    #[arg(long)]
    pub assume_clean: bool,

    /// Keep a checksum of every block: what a disk gives wrongly is found when it is read, and healed. Takes 0.8 percent of each member
    #[arg(long)]
    pub integrity: bool,

    /// Allow writing to members that carry data. What is on them is lost
    #[arg(long)]
    pub destroy_data: bool,

    /// How it goes.
    #[command(flatten)]
    pub pace: Pace,
}

/// What is done about the write hole and about resyncs.
#[derive(Clone, Copy, ValueEnum)]
pub enum Way {
    /// Nothing: everything is compared after a power cut
    Resync,
    /// A bitmap of what is being written bounds that
    Bitmap,
    /// The partial parity log closes the write hole (levels 3 to 6; but for 5 beside a bitmap)
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
        Ok(rate) if rate.is_zero() => Err("at this rate it never ends; leave --rate away for no limit".into()),
        rate => rate.map_err(|error| error.to_string()),
    }
}

/// How a command goes that may take long.
#[derive(Args)]
pub struct Pace {
    /// No faster than this, such as 50MB/s
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

/// Make an array clean that was not stopped
#[derive(Args)]
pub struct Stop {
    /// The array.
    #[command(flatten)]
    pub array: Upkeep,

    /// Do without a journal that is gone, and accept that what is missing may be computed wrongly where a power cut met a write
    #[arg(long)]
    pub force: bool,
}

/// Serve an array to any program, as a network block device
///
/// Clients are nbdcopy, qemu, fio, the kernel (nbd-client), nbdfuse, another arraylab. It prints the URIs by which they find the array and
/// serves until Ctrl-C or SIGTERM; then it finishes what is under way and stops the array. An array that was not stopped is made
/// to fit meanwhile, and a rebuild that was ended goes on. Members that fail, and what is done about it, are printed as lines.
///
/// An array that lacks members is served as long as its level allows, and says so; leave the member away that is lost.
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
    /// All members of the array that are there, in any order
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<Place>,

    /// Where to listen: unix:PATH (for this user only) or tcp:HOST:PORT; may be given several times
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub nbd: Vec<Address>,

    /// What clients get under which name: NAME for all of the array, NAME=FROM..TO for a part [default: all of it, without a name]
    ///
    /// May be given several times. Each part is a device of its own with its own size; a bound that is left away is the array's. With
    /// ,read-only behind it an export takes no writes. Exports share bytes only where none of them takes writes. Clients that name no
    /// export get the one whose NAME is empty.
    #[arg(long, value_name = "EXPORT")]
    pub export: Vec<Portion>,

    /// Refuse all writes of clients. The array itself is kept up all the same
    #[arg(long)]
    pub read_only: bool,

    /// Accept that what is missing may be computed wrongly where a power cut met a write
    #[arg(long)]
    pub force: bool,

    /// No resync or rebuild goes faster than this, such as 50MB/s
    #[arg(long, value_name = "RATE", value_parser = some_rate)]
    pub rate: Option<Rate>,

    /// How long a member may take for a request before it counts as failed
    #[arg(long, value_name = "TIME", default_value = "30 s")]
    pub time_limit: Duration,

    /// Speak only TLS, with the certificates in this folder: ca-cert.pem, server-cert.pem, server-key.pem
    ///
    /// Clients must show a certificate signed by that authority. Addresses that other machines can reach are served no other way.
    #[arg(long, value_name = "DIR")]
    pub tls: Option<PathBuf>,

    /// Print where it serves as one JSON document, and then each event as a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Take a member out of use: the others say that it has failed
///
/// Of a device that is to replace a member, that is called off: the member stays.
#[derive(Args)]
pub struct Fail {
    /// The member to take out, or the device that is to replace one
    #[arg(long, value_name = "PATH")]
    pub member: Place,

    /// The array.
    #[command(flatten)]
    pub array: Upkeep,
}

/// Add a spare, or have a former member come back
///
/// A device that was a member and missed nothing but what the bitmap marks (it was away for a while) takes its place again, and only what
/// was written meanwhile is copied. Anything else becomes a spare; if a member is missing, the spare takes its place at once. While an
/// array is served, a member that fails is rebuilt on a spare without a word.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array add --device e --size 1GiB a b c d     a new file as a spare
  arraylab array add --device b a c d                   b was away
  arraylab array add --destroy-data --device /dev/sdf --device /dev/sdf a b c d
                                                        what /dev/sdf carries is lost")]
pub struct Add {
    /// What is added; given twice if it carries data that are recognised, and these may be lost
    #[arg(long, value_name = "PATH", required = true)]
    pub device: Vec<Place>,

    /// How large a file is made for it, if there is none
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,

    /// Allow the device to be something that carries data. What is on it is lost
    #[arg(long)]
    pub destroy_data: bool,

    /// The array.
    #[command(flatten)]
    pub array: Upkeep,
}

/// Replace a member while it still serves
///
/// It is copied, and what it cannot give is computed from the others; it stays in use until the copy is whole and takes its place, so the
/// array has its full redundancy all the time. Then the old one is a member no more. Ctrl-C ends it; the mark is on the members, and the same
/// command with the new one among the members, and neither --member nor --onto, goes on. While the array is served, Ctrl-C ends the watching
/// only: the server goes on, until `fail` calls it off.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array replace --member b --onto e --size 1GiB a b c d
  arraylab array replace a b c d e                      goes on")]
pub struct Replace {
    /// The member to replace; not needed to go on
    #[arg(long, value_name = "PATH", requires = "onto")]
    pub member: Option<Place>,

    /// What takes its place; given twice if it carries data that are recognised, and these may be lost
    #[arg(long, value_name = "PATH", requires = "member")]
    pub onto: Vec<Place>,

    /// How large a file is made for --onto, if there is none
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,

    /// Allow --onto to be something that carries data. What is on it is lost
    #[arg(long)]
    pub destroy_data: bool,

    /// The array.
    #[command(flatten)]
    pub array: Upkeep,
}

/// Draw which chunk lies where at a level
///
/// A column is a member, a line a row of chunks, a number the place of a chunk in the array. P and Q are parity; at level 6 a chunk has the
/// power of the generator under which it enters Q. The drawing comes from the code that places the data; docs/levels/ has one for
/// each layout, with what it is good for.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab array layout --level 5 --members 4
  arraylab array layout --level 6 --layout ddf-zero-restart --members 5
  arraylab array layout --level 10 --layout f2 --members 4 --rows 8")]
pub struct Layout {
    /// linear, 0, 1, 3, 4, 5, 6 or 10
    #[arg(long)]
    pub level: String,

    /// The layout within the level, such as left-symmetric, or n2, f2, o2 at level 10 [default: the level's]
    #[arg(long)]
    pub layout: Option<String>,

    /// How many members the array has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub members: u16,

    /// How many rows of chunks each member has [default: as many as there are members]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rows: Option<u16>,
}

/// Fill the place of a missing member; go on with what was ended
///
/// Without --onto a former member among those named comes back (see `add`), or else a spare takes the place. Ctrl-C ends it; the mark is on the members, and the same
/// command with the new member among the others goes on from there. While the array is served, Ctrl-C ends the watching only: the server goes on.
#[derive(Args)]
pub struct Rebuild {
    /// What takes the place; not needed to go on, nor where there is a spare. Given twice if it carries data that are recognised, and these
    /// may be lost
    #[arg(long, value_name = "PATH")]
    pub onto: Vec<Place>,

    /// How large a file is made for --onto, if there is none
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,

    /// Accept that what is missing may be computed wrongly where a power cut met a write
    #[arg(long)]
    pub force: bool,

    /// Allow --onto to be something that carries data. What is on it is lost
    #[arg(long)]
    pub destroy_data: bool,

    /// The array.
    #[command(flatten)]
    pub array: Upkeep,
}

/// Compare everything with its redundancy
///
/// Sectors that cannot be read are computed and written anew on the way. An array that was not stopped is made to fit first. Ctrl-C ends it, and it says
/// where: no member does, so the next one begins there only with --from.
#[derive(Args)]
pub struct Scrub {
    /// Begin at this address of the array, such as 12GiB: where a scrub was ended
    #[arg(long, value_name = "ADDRESS")]
    pub from: Option<Bytes>,

    /// Make it fit: at level 6 by mending what is wrong, elsewhere by believing the data
    #[arg(long)]
    pub repair: bool,

    /// The array.
    #[command(flatten)]
    pub array: Upkeep,
}

/// Run the array's code through power cuts and failing members, in virtual time
///
/// Each seed is a storm: an array in memory, clients that write, flush and read, members that fail, vanish, hang and lose sectors, and
/// power cuts that keep any part of what was not flushed, also inside recovery. An oracle knows for each sector what may be there. A
/// promise that is broken is printed with the command that replays it; the exit code is then 1.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab storm --seeds 0..20000
  arraylab storm --seeds 0..1000 --level 6
  arraylab storm --seeds 4711..4712          once more
  arraylab storm --exhaustive --level 5      every crash of every short sequence of writes
  arraylab storm --scenario write-error      one of the known ways to break, on purpose")]
pub struct Storm {
    /// The seeds, from..to; the last is not among them
    #[arg(long, value_name = "FROM..TO", default_value = "0..2000", value_parser = seeds)]
    pub seeds: std::ops::Range<u64>,

    /// Only arrays of this level
    #[arg(long)]
    pub level: Option<Choice>,

    /// Instead of seeds: every sequence of a few writes on two stripes, and every state a power cut can leave
    #[arg(long, conflicts_with = "seeds")]
    pub exhaustive: bool,

    /// Instead of seeds: one of the known ways in which an array can break
    #[arg(long, value_name = "NAME", conflicts_with_all = ["seeds", "level", "exhaustive"])]
    pub scenario: Option<String>,

    /// The scenarios there are
    #[arg(long, conflicts_with_all = ["seeds", "level", "exhaustive", "scenario"])]
    pub list: bool,

    /// How many writes a sequence has at most
    #[arg(long, value_name = "N", default_value_t = 2, requires = "exhaustive", value_parser = clap::value_parser!(u8).range(1..=3))]
    pub writes: u8,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}

fn seeds(text: &str) -> Result<std::ops::Range<u64>, String> {
    let range = text.split_once("..").and_then(|(from, to)| Some(from.trim().parse().ok()?..to.trim().parse().ok()?));
    match range {
        Some(range) if range.start < range.end => Ok(range),
        _ => Err("seeds are two numbers, the second larger, such as 0..2000".into()),
    }
}
