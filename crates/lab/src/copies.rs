//! Several streams from one description: `copies = 4`.
//!
//! fio's `numjobs`, xdd's `-queuedepth` with `-seek stagger` or `interleave`. How the copies share the region is said
//! by `spread`:
//!
//! ```text
//! shared       each over all of it        |0..........|  |1..........|
//! staggered    each in a part of its own  |0...|1...|2...|3...|
//! interleaved  every fourth request each  |0123012301230123...|
//! ```

use serde::Deserialize;
use toml::Spanned;
use units::Bytes;
use workload::{Pattern, Share, Stream};

use crate::experiment::StreamPlan;
use crate::source::{Source, SourceError};

/// How copies of a stream share its region.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Spread {
    Shared,
    Staggered,
    Interleaved,
}

/// What a stream says of its copies.
pub(crate) struct Copies {
    pub number: Option<Spanned<u32>>,
    pub spread: Option<Spanned<Spread>>,
}

/// More streams than this are a slip of the hand.
const MOST: u32 = 1024;

impl Copies {
    /// The streams, each with a name of its own; the stream itself if there is one.
    pub fn of(self, source: &Source, plan: StreamPlan) -> Result<Vec<StreamPlan>, SourceError> {
        let Some(number) = self.number else {
            return match self.spread {
                Some(spread) => {
                    Err(source.error(spread.span(), "`spread` says how copies share a region; add `copies`"))
                }
                None => Ok(vec![plan]),
            };
        };
        let n = *number.get_ref();
        if !(1..=MOST).contains(&n) {
            return Err(source.error(number.span(), format!("`copies` must be from 1 to {MOST}")));
        }
        let place = self.spread.as_ref().map_or(number.span(), Spanned::span);
        let spread = self.spread.map_or(Spread::Shared, Spanned::into_inner);
        if n > 1 && spread == Spread::Shared && plan.stream.mix.has_writes() {
            return Err(source
                .error(
                    place,
                    "copies that write must not share their region: what is stored there would depend on luck",
                )
                .help("take `spread = \"staggered\"` or `spread = \"interleaved\"`"));
        }
        (0..n)
            .map(|index| copy(&plan, index, n, spread).map_err(|message| source.error(place.clone(), message)))
            .collect()
    }
}

/// One of `n` copies.
fn copy(plan: &StreamPlan, index: u32, n: u32, spread: Spread) -> Result<StreamPlan, &'static str> {
    let stream = &plan.stream;
    let mut copy = Stream { name: format!("{}-{index}", stream.name), ..stream.clone() };
    match spread {
        Spread::Shared => {}
        Spread::Staggered if stream.share.is_some() => return Err("a stream with a `share` has no staggered copies"),
        Spread::Staggered => copy.share = Some(Share { part: index, of: n }),
        Spread::Interleaved => {
            let (Pattern::Sequential { from }, Some(size)) = (&stream.pattern, stream.sizes.single()) else {
                return Err("only sequential streams of one size interleave");
            };
            let step = size.round_up(stream.align);
            let stride =
                step.get().checked_mul(n.into()).map(Bytes::new).ok_or("such strides do not fit any device")?;
            let first = from.checked_add(step * u64::from(index)).ok_or("such strides do not fit any device")?;
            copy.pattern = Pattern::Strided { stride, from: first };
        }
    }
    Ok(StreamPlan {
        stream: copy,
        on: plan.on.clone(),
        rate_limit: plan.rate_limit,
        rates: plan.rates,
        through: plan.through,
        script: None,
        flushes: plan.flushes,
    })
}
