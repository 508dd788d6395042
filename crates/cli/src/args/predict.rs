//! The words of `predict`.

use clap::{Args, Subcommand};
use units::{Bytes, Duration, Rate, Ratio};

/// Reckon with a formula what a machine would give
#[derive(Args)]
pub struct Predict {
    /// What to reckon.
    #[command(subcommand)]
    pub what: Predicted,
}

/// What can be reckoned; each is explained above its words.
#[derive(Subcommand)]
pub enum Predicted {
    Rounds(PredictRounds),
}

/// Several disks on one bus that serve random reads in rounds
///
/// Each disk has one random read under way. In a round all position while the bus is idle, then all transfer, one after
/// the other. A line for each block size and number of disks: the least positioning time of all disks, one transfer,
/// the large delta of completions, the round, and what passes; beside it what disks that do not wait for each other
/// would give, and what pipelined reads could give at best.
///
/// The defaults are the Wren-7 of the rounds study on a Sparc 20; the rate of its medium is not printed there, but
/// fitted on its tables.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  arraylab predict rounds
  arraylab predict rounds --disks 7 --block 64KiB --fence '0 %'
  arraylab predict rounds --disks 1,2,4,8 --block 128KiB --rate 18MB/s --media 9MB/s \\
    --revolution 8.33ms --seek-least 0.8ms --seek-mean 9ms --seek-greatest 19ms
  arraylab predict rounds --json | jq '.[].bandwidth_bytes_per_s'

With D disks, blocks of B, the bus's rate b, the medium's m, T = B / b, positioning times P:
  round               overhead + E[end of the last transfer], disk after disk in order of P: each
                      begins when the bus is free and its fence is reached, and does not end before
                      its medium has read the block
  large delta         overhead + E[least P] + B / m + T
  bandwidth           D B / round
  if independent      min(b, D B / (E[P] + B / m + T))
  pipelined at best   D B / max(D T, E[P] + B / m)")]
pub struct PredictRounds {
    /// How many disks share the bus
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "2,4,7")]
    pub disks: Vec<u32>,

    /// How much each read asks for
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "32KiB,64KiB,96KiB,128KiB")]
    pub block: Vec<Bytes>,

    /// What the bus moves, host adapter and disk controller included
    #[arg(long, value_name = "RATE", default_value = "3.3MiB/s")]
    pub rate: Rate,

    /// What passes under a disk's head
    #[arg(long, value_name = "RATE", default_value = "1.86MiB/s")]
    pub media: Rate,

    /// The time of a revolution
    #[arg(long, value_name = "TIME", default_value = "16.67ms")]
    pub revolution: Duration,

    /// The shortest seek
    #[arg(long, value_name = "TIME", default_value = "2.5ms")]
    pub seek_least: Duration,

    /// The mean seek between random addresses
    #[arg(long, value_name = "TIME", default_value = "15ms")]
    pub seek_mean: Duration,

    /// The longest seek
    #[arg(long, value_name = "TIME", default_value = "34ms")]
    pub seek_greatest: Duration,

    /// The share of a request that a disk buffers before it asks for the bus ("buffer full ratio")
    #[arg(long, value_name = "SHARE", default_value = "100 %")]
    pub fence: Ratio,

    /// The disk's buffer, where it is smaller than that share
    #[arg(long, value_name = "SIZE")]
    pub buffer: Option<Bytes>,

    /// What each round costs besides
    #[arg(long, value_name = "TIME", default_value = "0 s")]
    pub overhead: Duration,

    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
}
