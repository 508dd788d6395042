//! xdd's command line, as an experiment.
//!
//! xdd (T. M. Ruwart; described in "A 500 MegaByte/Second Disk Array", Ruwart and O'Keefe, 1994) starts a thread for
//! each target, which makes so many requests of one size, as often as there are passes, all targets beginning each pass
//! together. Here a target is a device and each pass one of the run. Sizes of requests are in blocks (`-blocksize`,
//! 1024 bytes), rates in 10^6 bytes a second.
//!
//! Words are those of xdd 7: `-op`, `-targets N a b c`, `-reqsize`, `-blocksize`, `-numreqs`, `-mbytes`, `-kbytes`,
//! `-bytes`, `-passes`, `-timelimit`, `-queuedepth`, `-rwratio`, `-dio`, `-seek random|stagger|none`, `-range`,
//! `-startoffset`, `-passoffset` (refused), `-ts output FILE`, `-maxpri`, `-plock`, `-maxall`, `-id`, `-verbose`. Of
//! words that only changed how xdd went about it there are none here: an unknown word is refused with those that there
//! are.

mod tables;

use std::path::PathBuf;
use std::str::FromStr;

use units::{Bytes, Duration, Ratio};
use uring::Mode;
use workload::{Flushes, Limits, Mix, OnError, Pattern, Region, Stream};

use crate::experiment::{Experiment, StreamPlan, Through};
use crate::file::LARGEST_REQUEST;
use crate::offered::MOST_UNDER_WAY;
use crate::target::{Target, TargetError};

pub use tables::{lines, stamps};
pub(crate) use tables::{lines_of, stamps_of};

/// What the words came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Xdd {
    /// The run.
    pub experiment: Experiment,
    /// On what.
    pub targets: Vec<Target>,
    /// Bytes of a request.
    pub request: Bytes,
    /// Requests of a pass on each target, if they are counted.
    pub requests: Option<u64>,
    /// Where the time stamps go.
    pub stamps: Option<PathBuf>,
}

/// What is wrong with the words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum XddError {
    #[error(
        "xdd has no option '{0}' here; there are -op, -targets, -reqsize, -blocksize, -numreqs, -mbytes, -kbytes, -bytes, -passes, -timelimit, -queuedepth, -rwratio, -dio, -seek, -range, -startoffset, -ts, -maxall, -maxpri, -plock, -id, -verbose"
    )]
    Unknown(String),
    #[error("{option} is '{value}'; write {accepted}")]
    Value { option: String, value: String, accepted: &'static str },
    #[error("{option} needs a value; write {accepted}")]
    Missing { option: String, accepted: &'static str },
    #[error("there are no targets; write -targets 2 /dev/sdb /dev/sdc")]
    NoTargets,
    #[error("nothing says how much is moved; write -numreqs 1000, -mbytes 100 or -timelimit 10")]
    NoEnd,
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// Reads the words behind `arraylab xdd`.
pub fn read(words: &[String]) -> Result<Xdd, XddError> {
    let mut said = Said::default();
    let mut words = words.iter().map(String::as_str);
    while let Some(option) = words.next() {
        said.option(option, &mut words)?;
    }
    said.settle()
}

/// The words as they are read.
#[derive(Default)]
struct Said {
    targets: Vec<Target>,
    reads: Option<Ratio>,
    ratio: Option<Ratio>,
    block: Option<u64>,
    reqsize: Option<u64>,
    numreqs: Option<u64>,
    bytes: Option<u64>,
    passes: Option<u16>,
    time: Option<Duration>,
    depth: Option<u32>,
    direct: bool,
    random: bool,
    stagger: bool,
    range: Option<u64>,
    start: u64,
    stamps: Option<PathBuf>,
    lock: bool,
    priority: bool,
}

/// The value of an option, or what would be one.
fn value<'w>(
    option: &str,
    accepted: &'static str,
    words: &mut impl Iterator<Item = &'w str>,
) -> Result<&'w str, XddError> {
    words.next().ok_or_else(|| XddError::Missing { option: option.to_owned(), accepted })
}

fn number<'w, T: FromStr + PartialOrd + From<u8>>(
    option: &str,
    words: &mut impl Iterator<Item = &'w str>,
) -> Result<T, XddError> {
    const ACCEPTED: &str = "a whole number from 1 on";
    let word = value(option, ACCEPTED, words)?;
    let parsed = word.parse::<T>().ok().filter(|n| *n >= T::from(1));
    parsed.ok_or_else(|| XddError::Value { option: option.to_owned(), value: word.to_owned(), accepted: ACCEPTED })
}

impl Said {
    fn option<'w>(&mut self, option: &str, words: &mut impl Iterator<Item = &'w str>) -> Result<(), XddError> {
        let wrong =
            |word: &str, accepted| XddError::Value { option: option.to_owned(), value: word.to_owned(), accepted };
        match option {
            "-op" | "-operation" => {
                const ACCEPTED: &str = "read or write";
                self.reads = Some(match value(option, ACCEPTED, words)? {
                    "read" => Ratio::ONE,
                    "write" => Ratio::ZERO,
                    other => return Err(wrong(other, ACCEPTED)),
                });
            }
            "-targets" => {
                let count: u16 = number(option, words)?;
                for _ in 0..count {
                    let name = value(option, "as many targets as were announced", words)?;
                    self.targets.push(name.parse()?);
                }
            }
            "-reqsize" => self.reqsize = Some(number(option, words)?),
            "-blocksize" => self.block = Some(number(option, words)?),
            "-numreqs" => self.numreqs = Some(number(option, words)?),
            "-mbytes" => self.bytes = Some(number::<u64>(option, words)?.saturating_mul(1 << 20)),
            "-kbytes" => self.bytes = Some(number::<u64>(option, words)?.saturating_mul(1 << 10)),
            "-bytes" => self.bytes = Some(number(option, words)?),
            "-passes" => self.passes = Some(number(option, words)?),
            "-queuedepth" | "-qd" => self.depth = Some(number(option, words)?),
            "-timelimit" => {
                const ACCEPTED: &str = "seconds, such as 10";
                let word = value(option, ACCEPTED, words)?;
                let seconds = word.parse::<f64>().ok().filter(|seconds| (1e-3..=1e7).contains(seconds));
                self.time = Some(Duration::from_seconds(seconds.ok_or_else(|| wrong(word, ACCEPTED))?));
            }
            "-rwratio" => {
                const ACCEPTED: &str = "the percentage of reads, from 0 to 100";
                let word = value(option, ACCEPTED, words)?;
                let share = word.parse::<f64>().ok().filter(|share| (0.0..=100.0).contains(share));
                self.ratio = Some(Ratio::percent(share.ok_or_else(|| wrong(word, ACCEPTED))?));
            }
            "-seek" => {
                const ACCEPTED: &str = "random, stagger, none, or range N";
                match value(option, ACCEPTED, words)? {
                    "random" => self.random = true,
                    "stagger" | "staggered" => self.stagger = true,
                    "none" | "sequential" => {}
                    "range" => self.range = Some(number(option, words)?),
                    other => return Err(wrong(other, ACCEPTED)),
                }
            }
            "-range" => self.range = Some(number(option, words)?),
            "-startoffset" => {
                let word = value(option, "a number of blocks", words)?;
                self.start = word.parse().map_err(|_| wrong(word, "a number of blocks"))?;
            }
            "-ts" | "-timestamp" => {
                const ACCEPTED: &str = "output FILE";
                match value(option, ACCEPTED, words)? {
                    "output" | "dump" => self.stamps = Some(value(option, ACCEPTED, words)?.into()),
                    other => return Err(wrong(other, ACCEPTED)),
                }
            }
            "-dio" => self.direct = true,
            "-plock" => self.lock = true,
            "-maxpri" => self.priority = true,
            "-maxall" => (self.lock, self.priority) = (true, true),
            "-verbose" => {}
            "-id" => drop(value(option, "a text", words)?),
            other => return Err(XddError::Unknown(other.to_owned())),
        }
        Ok(())
    }

    fn settle(self) -> Result<Xdd, XddError> {
        if self.targets.is_empty() {
            return Err(XddError::NoTargets);
        }
        let block = self.block.unwrap_or(1024);
        let of = |blocks: u64| Bytes::new(block.saturating_mul(blocks).min(1 << 62));
        // xdd's default is a request of 128 blocks.
        let request = of(self.reqsize.unwrap_or(128));
        if request > LARGEST_REQUEST {
            let value = format!("{} blocks of {block} bytes", self.reqsize.unwrap_or(128));
            return Err(XddError::Value { option: "-reqsize".into(), value, accepted: "requests of at most 1 GiB" });
        }
        let requests = self.numreqs.or(self.bytes.map(|bytes| bytes.div_ceil(request.get())));
        if requests.is_none() && self.time.is_none() {
            return Err(XddError::NoEnd);
        }
        let mix = Mix { reads: self.ratio.or(self.reads).unwrap_or(Ratio::ONE) };
        let pattern = if self.random { Pattern::Random } else { Pattern::Sequential { from: Bytes::ZERO } };
        let depth = self.depth.unwrap_or(1);
        if depth > MOST_UNDER_WAY {
            let (option, value) = ("-queuedepth".to_owned(), depth.to_string());
            return Err(XddError::Value { option, value, accepted: "a depth from 1 to 65535" });
        }
        let mut stream = Stream::closed("xdd", mix, pattern, request, depth);
        if self.stagger {
            let (Some(requests), Some(range)) = (requests, self.range) else {
                let (option, value) = ("-seek".to_owned(), "stagger".to_owned());
                let accepted = "-range and -numreqs or -mbytes beside it: what is spread, and over how much";
                return Err(XddError::Value { option, value, accepted });
            };
            // Spread evenly over the range, none next to the other.
            let step = of(range) / requests.max(1);
            stream.pattern =
                Pattern::Strided { stride: step.max(request).round_down(Bytes::SECTOR), from: Bytes::ZERO };
            stream.align = Bytes::SECTOR;
        }
        let length = self.range.map(of);
        stream.region = Region { start: of(self.start), length };
        stream.limits = Limits { requests, time: self.time, stop: true, ..Limits::NONE };
        let mut experiment = Experiment::empty("xdd".to_owned());
        experiment.streams.push(StreamPlan {
            stream,
            on: None,
            rate_limit: None,
            rates: [None; 2],
            through: Through::Device,
            script: None,
            flushes: Flushes::NONE,
        });
        experiment.run.passes = self.passes.unwrap_or(1);
        // xdd counts errors and goes on.
        experiment.run.on_error = OnError::Continue;
        experiment.io.mode = if self.direct { Mode::Direct } else { Mode::Buffered };
        experiment.care.lock_memory = self.lock;
        experiment.care.real_time = self.priority.then_some(50);
        Ok(Xdd { experiment, targets: self.targets, request, requests, stamps: self.stamps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Result<Xdd, XddError> {
        read(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line_of_the_study_is_understood() {
        let xdd = said("-op read -targets 2 a b -reqsize 512 -numreqs 100 -passes 3 -timelimit 10 -dio -queuedepth 4")
            .unwrap();
        let stream = &xdd.experiment.streams[0].stream;
        assert_eq!((xdd.targets.len(), xdd.request, xdd.requests), (2, Bytes::kib(512), Some(100)));
        assert_eq!((xdd.experiment.run.passes, stream.lanes(), stream.mix), (3, 4, Mix::READS));
        assert_eq!((stream.limits.requests, stream.limits.time), (Some(100), Some(Duration::seconds(10))));
        assert_eq!(xdd.experiment.io.mode, Mode::Direct);
        assert!(xdd.experiment.to_toml().contains("512 KiB"));
    }

    #[test]
    fn amounts_are_requests() {
        let xdd = said("-op write -targets 1 a -blocksize 512 -reqsize 8 -mbytes 1").unwrap();
        assert_eq!((xdd.request, xdd.requests), (Bytes::kib(4), Some(256)));
        assert_eq!(xdd.experiment.streams[0].stream.mix, Mix::WRITES);
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_accepted() {
        for (words, part) in [
            ("-op eat -targets 1 a -numreqs 1", "-op is 'eat'; write read or write"),
            ("-targets 2 a", "-targets needs a value; write as many targets as were announced"),
            ("-op read -numreqs 1", "there are no targets"),
            ("-targets 1 a", "nothing says how much is moved"),
            ("-targets 1 a -numreqs 0", "-numreqs is '0'; write a whole number from 1 on"),
            ("-targets 1 a -numreqs 1 -speed", "no option '-speed'"),
            (
                "-targets 1 a -numreqs 1 -seek stagger",
                "-seek is 'stagger'; write -range and -numreqs or -mbytes beside it",
            ),
            ("-targets 1 a -timelimit 1 -seek stagger -range 9", "-seek is 'stagger'; write -range and -numreqs"),
            ("-targets 1 a -numreqs 1 -queuedepth 100000", "-queuedepth is '100000'; write a depth from 1 to 65535"),
        ] {
            let error = said(words).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
