//! The words of `arraylab xdd` and `arraylab bsd`.

use std::path::PathBuf;

use clap::Args;
use units::Bytes;

/// Run xdd's command line: requests of one size on several targets, pass by pass
///
/// Its words are those of xdd 7, behind which comes a line for each pass and target, their averages, and for each
/// target the line that the M.A.X. study describes. Options of arraylab stand before them.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab xdd -op read -targets 2 /dev/sdb /dev/sdc -reqsize 1024 -numreqs 1000 -passes 3 -dio
  arraylab xdd -op read -targets 1 part:mg10-20tb -reqsize 512 -mbytes 64 -seek random -range 1000000
  arraylab xdd --destroy-data -op write -targets 1 /dev/sdb -reqsize 4096 -timelimit 10 -ts output stamps.txt

Words:
  -op read|write           -rwratio PERCENT of reads        -targets N TARGET...
  -reqsize BLOCKS          -blocksize BYTES (1024)          -queuedepth N
  -numreqs N               -mbytes N, -kbytes N, -bytes N   -passes N
  -timelimit SECONDS       -seek random|stagger|none        -range BLOCKS
  -startoffset BLOCKS      -dio                             -ts output FILE
  -maxall, -maxpri, -plock (priority, locked memory)        -id TEXT, -verbose")]
pub struct XddWords {
    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,

    /// Where run folders are made
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub runs: PathBuf,

    /// Allow writing to the targets. What is on them is lost
    #[arg(long)]
    pub destroy_data: bool,

    /// xdd's words
    #[arg(value_name = "WORDS", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// Run the four programs of the 4.2BSD study in a directory, or in two at once
///
/// read_8192, write_4096, write_8192 and rewrite_8192 read and write 8 MiB of a file through the file system, three
/// times each, of which the first is not shown; printed are 1024-byte units a second and the percentage of a processor,
/// as in the tables of the study. The file is made in the directory, and removed.
///
/// With DIR2, each run starts the program in both directories at the same time, each on its own file. The rate is the
/// bytes of both programs divided by the time until the later one ends. (The study does not say how it made one rate of
/// two.) The percentage is the CPU time of both programs divided by that time, so it can exceed 100. With --json,
/// `each` holds the rate of each program. A warning is printed if both directories are on one device.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab bsd .
  arraylab bsd /mnt/array --size 1GiB --cold --sync     the disk, not the memory
  arraylab bsd /mnt/a /mnt/b --size 1GiB --sync         two drives at once
  arraylab bsd /mnt/array --json | jq '.programs'")]
pub struct Bsd {
    /// Where the file is made
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Also run each program in DIR2, at the same time
    #[arg(value_name = "DIR2")]
    pub second: Option<PathBuf>,

    /// How large it is
    #[arg(long, value_name = "SIZE", default_value = "8 MiB", value_parser = size)]
    pub size: Bytes,

    /// How often each is run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub repeats: u32,

    /// Drop what the page cache holds of the file before each run
    #[arg(long)]
    pub cold: bool,

    /// Count the time until what was written is on the disk
    #[arg(long)]
    pub sync: bool,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}

fn size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    let good = size >= Bytes::kib(8) && size.is_multiple_of(Bytes::kib(8));
    if good { Ok(size) } else { Err("write a multiple of 8 KiB, the size of a request".to_owned()) }
}
