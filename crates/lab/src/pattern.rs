//! Patterns as they are written: from TOML to a checked [`Pattern`], and back.

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use toml::{Spanned, Table, Value};
use units::{Bytes, Ratio};
use workload::{Jump, Law, Pattern, Sizes, Skew, Space, Zone};

use crate::source::{Source, SourceError};
use crate::written::{one, text};

/// One pattern, or a list of patterns with weights.
pub(crate) enum FilePattern {
    One(FilePart),
    Mixed(Vec<FileWeighted>),
}

/// A pattern that is not a mixture.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FilePart {
    Sequential,
    Random,
    RandomOnce,
    Strided(Spanned<Bytes>),
    Backward(Spanned<Bytes>),
    Runs(Spanned<u64>),
    Jumps(Spanned<Ratio>),
    Zipf(Spanned<FileZipf>),
    Pareto(Spanned<FilePareto>),
    Normal(Spanned<FileNormal>),
    HotSpot(Spanned<FileHotSpot>),
    Zones(Spanned<Vec<FileZone>>),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FileWeighted {
    pattern: Spanned<FilePart>,
    weight: Spanned<u32>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected an exponent such as 1.2, or { exponent = 1.2, scattered = false }")]
pub(crate) enum FileZipf {
    Short(f64),
    #[serde(rename_all = "kebab-case")]
    Long {
        exponent: f64,
        #[serde(default = "yes")]
        scattered: bool,
    },
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a share of the blocks such as \"20 %\", or { blocks = \"20 %\", scattered = false }"
)]
pub(crate) enum FilePareto {
    Short(Ratio),
    #[serde(rename_all = "kebab-case")]
    Long {
        blocks: Ratio,
        #[serde(default = "yes")]
        scattered: bool,
    },
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a standard deviation such as \"10 %\", or { deviation = \"10 %\", centre = \"50 %\" }"
)]
pub(crate) enum FileNormal {
    Short(Ratio),
    #[serde(rename_all = "kebab-case")]
    Long {
        deviation: Ratio,
        centre: Option<Ratio>,
        #[serde(default)]
        scattered: bool,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FileHotSpot {
    requests: Ratio,
    space: Ratio,
    at: Option<Ratio>,
    #[serde(default)]
    scattered: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FileZone {
    requests: Ratio,
    space: FileSpace,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a share of the region such as \"10 %\", or a size such as \"20 GiB\"")]
enum FileSpace {
    Share(Ratio),
    Size(Bytes),
}

/// Where a sequential or strided stream begins.
#[derive(Deserialize, Clone, Copy)]
#[serde(untagged, expecting = "expected an address such as \"1 MiB\", or \"random\"")]
pub(crate) enum FileFrom {
    Random(Anywhere),
    At(Bytes),
}

/// The word for it.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Anywhere {
    Random,
}

fn yes() -> bool {
    true
}

impl<'de> Deserialize<'de> for FilePattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<FilePattern, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = FilePattern;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a pattern such as \"random\" or { zipf = 1.2 }, or a list such as [{ pattern = \"random\", weight = 3 }]")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<FilePattern, E> {
                FilePart::deserialize(StrDeserializer::new(text)).map(FilePattern::One)
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<FilePattern, A::Error> {
                FilePart::deserialize(MapAccessDeserializer::new(map)).map(FilePattern::One)
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<FilePattern, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = list.next_element()? {
                    parts.push(part);
                }
                Ok(FilePattern::Mixed(parts))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// What a pattern is checked against.
pub(crate) struct Around<'a> {
    pub source: &'a Source,
    pub sizes: &'a Sizes,
    pub align: Bytes,
    pub from: &'a Option<Spanned<FileFrom>>,
}

impl Around<'_> {
    /// The pattern, or what is wrong with it.
    pub fn pattern(&self, file: Spanned<FilePattern>) -> Result<Pattern, SourceError> {
        let place = file.span();
        let pattern = match file.into_inner() {
            FilePattern::One(part) => self.part(Spanned::new(place, part))?,
            FilePattern::Mixed(parts) => {
                let mut mixed = Vec::new();
                for part in parts {
                    if *part.weight.get_ref() == 0 {
                        return Err(self.source.error(part.weight.span(), "`weight` must be above zero"));
                    }
                    mixed.push((self.part(part.pattern)?, part.weight.into_inner()));
                }
                if mixed.is_empty() {
                    return Err(self.source.error(place, "there must be at least one pattern in the list"));
                }
                Pattern::Mixed(mixed)
            }
        };
        let begins = |part: &Pattern| {
            matches!(
                part,
                Pattern::Sequential { .. }
                    | Pattern::Strided { .. }
                    | Pattern::Backward { .. }
                    | Pattern::Jumping(Jump::Never)
            )
        };
        let any = match &pattern {
            Pattern::Mixed(parts) => parts.iter().any(|(part, _)| begins(part)),
            one => begins(one),
        };
        match self.from {
            Some(from) if !any => Err(self
                .source
                .error(from.span(), "`from` is where a sequential or strided stream begins")
                .help("take `pattern = \"sequential\"`, or a `region`")),
            _ => Ok(pattern),
        }
    }

    fn part(&self, part: Spanned<FilePart>) -> Result<Pattern, SourceError> {
        let error = |place, message: &str| Err(self.source.error(place, message));
        let place = part.span();
        let share = |what: &str, place: &std::ops::Range<usize>, ratio: Ratio, low: f64, high: f64| {
            let good = ratio.get() > low && ratio.get() < high;
            let message = format!("{what} must be above {} % and below {} %", low * 100.0, high * 100.0);
            if good { Ok(ratio) } else { Err(self.source.error(place.clone(), message)) }
        };
        // "At most 100 %", said as "below" the next number.
        const WHOLE: f64 = 1.0 + f64::EPSILON;
        Ok(match part.into_inner() {
            FilePart::Sequential => match self.from.as_ref().map(|from| *from.get_ref()) {
                None => Pattern::Sequential { from: Bytes::ZERO },
                Some(FileFrom::At(from)) => Pattern::Sequential { from },
                Some(FileFrom::Random(Anywhere::Random)) => Pattern::Jumping(Jump::Never),
            },
            FilePart::Random => Pattern::Random,
            FilePart::RandomOnce if self.sizes.single().is_none() && self.sizes.each().min() != Some(self.align) => {
                let message =
                    format!("every block once needs an `align` of the smallest size, and it is {:#}", self.align);
                return Err(self
                    .source
                    .error(place, message)
                    .help("take `pattern = \"random\"`, or leave `align` out"));
            }
            FilePart::RandomOnce => Pattern::RandomOnce,
            FilePart::Strided(stride) => {
                if stride.get_ref().is_zero() || !stride.get_ref().is_multiple_of(self.align) {
                    let message = format!("the stride must be a multiple of the alignment, {:#}", self.align);
                    return Err(self.source.error(stride.span(), message));
                }
                let from = match self.from.as_ref().map(|from| (from.span(), *from.get_ref())) {
                    None => Bytes::ZERO,
                    Some((_, FileFrom::At(from))) if from.is_multiple_of(self.align) => from,
                    Some((place, FileFrom::At(_))) => {
                        let message = format!("`from` must be a multiple of the alignment, {:#}", self.align);
                        return Err(self.source.error(place, message));
                    }
                    Some((place, FileFrom::Random(_))) => {
                        return error(
                            place,
                            "a strided stream begins at an address; only a sequential one at a random one",
                        );
                    }
                };
                Pattern::Strided { stride: *stride.get_ref(), from }
            }
            FilePart::Backward(stride) => match self.from.as_ref().map(|from| *from.get_ref()) {
                Some(FileFrom::At(from)) => Pattern::Backward { stride: *stride.get_ref(), from },
                _ => return error(stride.span(), "a backward stream needs `from`, the address that it begins at"),
            },
            FilePart::Runs(run) if *run.get_ref() == 0 => return error(run.span(), "`runs` must be above zero"),
            FilePart::Runs(run) => Pattern::Jumping(Jump::After(*run.get_ref())),
            FilePart::Jumps(chance) => Pattern::Jumping(Jump::Chance(share(
                "the chance of a jump",
                &chance.span(),
                *chance.get_ref(),
                -1.0,
                WHOLE,
            )?)),
            FilePart::Zipf(zipf) => {
                let (exponent, scattered) = match *zipf.get_ref() {
                    FileZipf::Short(exponent) => (exponent, true),
                    FileZipf::Long { exponent, scattered } => (exponent, scattered),
                };
                if !(exponent > 0.0 && exponent <= Law::STEEPEST) {
                    let message = format!("the exponent of Zipf's law must be above 0 and at most {}", Law::STEEPEST);
                    return Err(self.source.error(zipf.span(), message));
                }
                Pattern::Skewed(Skew { law: Law::Zipf { exponent }, scattered })
            }
            FilePart::Pareto(pareto) => {
                let (blocks, scattered) = match *pareto.get_ref() {
                    FilePareto::Short(blocks) => (blocks, true),
                    FilePareto::Long { blocks, scattered } => (blocks, scattered),
                };
                let blocks = share("the share of the blocks", &pareto.span(), blocks, 0.0, 1.0)?;
                Pattern::Skewed(Skew { law: Law::Pareto { blocks }, scattered })
            }
            FilePart::Normal(normal) => {
                let (deviation, centre, scattered) = match *normal.get_ref() {
                    FileNormal::Short(deviation) => (deviation, None, false),
                    FileNormal::Long { deviation, centre, scattered } => (deviation, centre, scattered),
                };
                let deviation = share("the deviation", &normal.span(), deviation, 0.0, WHOLE)?;
                let centre = share("the centre", &normal.span(), centre.unwrap_or(Ratio::new(0.5)), -1.0, WHOLE)?;
                Pattern::Skewed(Skew { law: Law::Normal { deviation, centre }, scattered })
            }
            FilePart::HotSpot(spot) => {
                let FileHotSpot { requests, space, at, scattered } = *spot.get_ref();
                let requests = share("the share of the requests", &spot.span(), requests, 0.0, WHOLE)?;
                let space = share("the share of the space", &spot.span(), space, 0.0, WHOLE)?;
                let at = at.unwrap_or(Ratio::ZERO);
                if at.get() + space.get() > WHOLE {
                    return error(
                        spot.span(),
                        "the hot spot ends beyond the region; `at` and `space` may add up to 100 %",
                    );
                }
                Pattern::Skewed(Skew { law: Law::HotSpot { requests, space, at }, scattered })
            }
            FilePart::Zones(zones) => {
                let sum: f64 = zones.get_ref().iter().map(|zone| zone.requests.get()).sum();
                if zones.get_ref().is_empty() || sum > 1.0 + 1e-9 {
                    return error(zones.span(), "there must be a zone, and their `requests` may add up to 100 %");
                }
                let zone = |zone: &FileZone| {
                    let space = match zone.space {
                        FileSpace::Share(share) => Space::Share(share),
                        FileSpace::Size(size) => Space::Size(size),
                    };
                    Zone { requests: zone.requests, space }
                };
                let zones = zones.get_ref().iter().map(zone).collect();
                Pattern::Skewed(Skew { law: Law::Zones(zones), scattered: false })
            }
        })
    }
}

/// A pattern in the language it is read in, and where it begins, if it says so.
pub(crate) fn written(pattern: &Pattern) -> (Value, Option<Value>) {
    match pattern {
        Pattern::Sequential { from } => ("sequential".into(), Some(text(from))),
        Pattern::Jumping(Jump::Never) => ("sequential".into(), Some("random".into())),
        Pattern::Jumping(Jump::After(run)) => (one("runs", Value::Integer(run.cast_signed())), None),
        Pattern::Jumping(Jump::Chance(chance)) => (one("jumps", text(chance)), None),
        Pattern::Strided { stride, from } => (one("strided", text(stride)), Some(text(from))),
        Pattern::Backward { stride, from } => (one("backward", text(stride)), Some(text(from))),
        Pattern::Random => ("random".into(), None),
        Pattern::RandomOnce => ("random-once".into(), None),
        Pattern::Skewed(skew) => (skewed(skew), None),
        // For who reads along: no experiment says it.
        Pattern::Listed { blocks, stride } => {
            let blocks = blocks.iter().map(|block| Value::Integer(block.cast_signed())).collect();
            let list = [("blocks", Value::Array(blocks)), ("stride", (*stride).into())];
            (one("listed", table(list)), None)
        }
        Pattern::Zoned(zones) => {
            let (within, from) = written(&zones.within);
            let sizes = [("size", text(zones.size)), ("range", text(zones.range)), ("skip", text(zones.skip))];
            let mut zones = Table::from_iter(sizes.map(|(key, value)| (key.to_owned(), value)));
            zones.insert("within".into(), within);
            (one("zoned", Value::Table(zones)), from)
        }
        Pattern::Mixed(parts) => {
            let from = parts.iter().find_map(|(part, _)| written(part).1);
            let part = |(part, weight): &(Pattern, u32)| {
                table([("pattern", written(part).0), ("weight", i64::from(*weight).into())])
            };
            (Value::Array(parts.iter().map(part).collect()), from)
        }
    }
}

fn skewed(skew: &Skew) -> Value {
    let scattered = ("scattered", skew.scattered.into());
    match &skew.law {
        Law::Zipf { exponent } => one("zipf", table([("exponent", (*exponent).into()), scattered])),
        Law::Pareto { blocks } => one("pareto", table([("blocks", text(blocks)), scattered])),
        Law::Normal { deviation, centre } => {
            one("normal", table([("deviation", text(deviation)), ("centre", text(centre)), scattered]))
        }
        Law::HotSpot { requests, space, at } => {
            let shares = [("requests", text(requests)), ("space", text(space)), ("at", text(at)), scattered];
            one("hot-spot", table(shares))
        }
        Law::Zones(zones) => {
            let space = |zone: &Zone| match zone.space {
                Space::Share(share) => text(share),
                Space::Size(size) => text(size),
            };
            let zone = |zone: &Zone| table([("requests", text(zone.requests)), ("space", space(zone))]);
            one("zones", Value::Array(zones.iter().map(zone).collect()))
        }
    }
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Table(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Table>())
}
