//! When requests are made, as the file of an experiment writes it: loops, arrivals, rates to keep to.

use serde::Deserialize;
use toml::Spanned;
use units::{Duration, Frequency, Rate, Ratio};
use workload::{Arrivals, Distances, Load, RateLimit};

use crate::file::time;
use crate::source::{Source, SourceError};

/// Requests of one stream under way on one device that can be counted in a row of the record.
pub(crate) const MOST_UNDER_WAY: u32 = 65_535;
/// Arrivals a second on one device that can be told apart, and the slowest that anybody waits for.
pub(crate) const RATES: std::ops::RangeInclusive<f64> = 1e-3..=1e8;

/// `arrivals`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FileArrivals {
    Constant(Frequency),
    Poisson(Frequency),
    HyperExponential(FileHyperExponential),
    Distances(Spanned<Vec<FileDistance>>),
    Bursts(FileBursts),
}

/// A point of the distribution of distances.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FileDistance {
    within: Duration,
    share: Ratio,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FileHyperExponential {
    rate: Frequency,
    variation: Spanned<Ratio>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FileBursts {
    rate: Frequency,
    on: Spanned<Duration>,
    off: Spanned<Duration>,
}

/// `rate-limit`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FileRateLimit {
    requests: Option<Spanned<Frequency>>,
    bytes: Option<Spanned<Rate>>,
    burst: Option<Spanned<Duration>>,
}

impl FileRateLimit {
    /// The limit, or what is wrong with it.
    pub fn check(given: Spanned<FileRateLimit>, source: &Source) -> Result<RateLimit, SourceError> {
        let place = given.span();
        let FileRateLimit { requests, bytes, burst } = given.into_inner();
        if requests.is_none() && bytes.is_none() {
            return Err(source
                .error(place, "this limits nothing")
                .help("give `requests`, such as \"1000/s\", or `bytes`, such as \"10 MB/s\", or both"));
        }
        if let Some(requests) = requests.as_ref().filter(|rate| !RATES.contains(&rate.get_ref().get())) {
            return Err(source.error(requests.span(), "the rate must be from 0.001/s to 100000000/s"));
        }
        if let Some(bytes) = bytes.as_ref().filter(|rate| rate.get_ref().get() < 1.0) {
            return Err(source.error(bytes.span(), "the rate must be at least 1 B/s"));
        }
        Ok(RateLimit {
            requests: requests.map(Spanned::into_inner),
            bytes: bytes.map(Spanned::into_inner),
            burst: time(source, "burst", &burst)?.unwrap_or(Duration::ZERO),
        })
    }
}

impl FileArrivals {
    fn check(self, source: &Source) -> Result<Arrivals, SourceError> {
        Ok(match self {
            FileArrivals::Constant(rate) => Arrivals::Constant(rate),
            FileArrivals::Poisson(rate) => Arrivals::Poisson(rate),
            FileArrivals::HyperExponential(FileHyperExponential { rate, variation }) => {
                let place = variation.span();
                let variation = variation.into_inner();
                if !(1.0..=100.0).contains(&variation.get()) {
                    return Err(source
                        .error(place, "the coefficient of variation must be from 100 % to 10000 %")
                        .help("100 % is a Poisson process; for distances that vary less take `constant`"));
                }
                Arrivals::HyperExponential { rate, variation }
            }
            FileArrivals::Distances(points) => {
                let place = points.span();
                let points: Vec<_> = points.into_inner().iter().map(|point| (point.within, point.share)).collect();
                let distances = Distances::new(&points).ok_or_else(|| {
                    let most = Distances::MOST;
                    let message = format!(
                        "distances need 1 to {most} points whose times and shares rise, and no share of 0 % or 100 %"
                    );
                    source.error(place, message).help(
                        "such as [{ within = \"3 ms\", share = \"50 %\" }, { within = \"10 ms\", share = \"84 %\" }]",
                    )
                })?;
                Arrivals::Distances(distances)
            }
            FileArrivals::Bursts(FileBursts { rate, on, off }) => {
                if on.get_ref().is_zero() {
                    return Err(source.error(on.span(), "a burst must last longer than nothing"));
                }
                let (burst, silence) = (Some(on), Some(off));
                let on = time(source, "on", &burst)?.unwrap_or_default();
                Arrivals::Bursts { rate, on, off: time(source, "off", &silence)?.unwrap_or_default() }
            }
        })
    }
}

/// The loop of a stream.
pub(crate) fn check_load(
    source: &Source,
    depth: Option<Spanned<u32>>,
    think: Option<Spanned<Duration>>,
    arrivals: Option<Spanned<FileArrivals>>,
    outstanding: Option<Spanned<u32>>,
) -> Result<Load, SourceError> {
    let count = |what: &str, given: &Spanned<u32>| {
        let n = *given.get_ref();
        if (1..=MOST_UNDER_WAY).contains(&n) {
            return Ok(n);
        }
        Err(source.error(given.span(), format!("`{what}` must be from 1 to {MOST_UNDER_WAY}")))
    };
    let Some(arrivals) = arrivals else {
        if let Some(outstanding) = outstanding {
            return Err(source
                .error(outstanding.span(), "`outstanding` belongs to an open loop")
                .help("add `arrivals`, or take `depth` for a closed loop"));
        }
        let depth = depth.as_ref().map_or(Ok(1), |depth| count("depth", depth))?;
        return Ok(Load::Closed { depth, think: time(source, "think", &think)?.unwrap_or(Duration::ZERO) });
    };
    let closed = depth.as_ref().map(|depth| ("depth", depth.span())).or(think.as_ref().map(|t| ("think", t.span())));
    if let Some((what, place)) = closed {
        return Err(source
            .error(place, format!("`{what}` belongs to a closed loop, and this stream has `arrivals`"))
            .help("take `outstanding` to bound the requests under way, or drop `arrivals`"));
    }
    let place = arrivals.span();
    let arrivals = arrivals.into_inner().check(source)?;
    if !RATES.contains(&arrivals.rate().get()) {
        return Err(source.error(place, "the rate must be from 0.001/s to 100000000/s"));
    }
    let outstanding = outstanding.as_ref().map_or(Ok(256), |n| count("outstanding", n))?;
    Ok(Load::Open { arrivals, outstanding })
}
