//! What a job asks for: directions, order, sizes, skew, rates.

use units::{Bytes, Frequency, Rate, Ratio};

use crate::JobError;
use crate::job::{Direction, Order, Pace, Skew, Zones};
use crate::reader::Reader;
use crate::value;

impl Reader<'_> {
    pub fn direction(&mut self) -> Result<(Direction, [Order; 2]), JobError> {
        const ACCEPTED: &str =
            "read, write, rw, trim, trimwrite, randread, randwrite, randrw, randtrim or randtrimwrite";
        let text = self.read("rw", ACCEPTED, |text| Some(text.to_owned()))?;
        let text = text.unwrap_or_else(|| "read".to_owned());
        let (kind, modifier) = text.split_once(':').map_or((text.as_str(), None), |(kind, rest)| (kind, Some(rest)));
        let percent = |text: &str| text.parse::<u32>().ok().filter(|n| *n <= 100);
        let reads =
            match (self.read("rwmixread", "a percentage", percent)?, self.read("rwmixwrite", "a percentage", percent)?)
            {
                (Some(reads), _) => reads,
                (None, Some(writes)) => 100 - writes,
                (None, None) => 50,
            };
        let mixed = Direction::Mixed(Ratio::percent(f64::from(reads)));
        let (direction, random) = match kind {
            "read" => (Direction::Read, false),
            "write" => (Direction::Write, false),
            "rw" | "readwrite" => (mixed, false),
            "randread" => (Direction::Read, true),
            "randwrite" => (Direction::Write, true),
            "randrw" => (mixed, true),
            "trim" => (Direction::Trim, false),
            "randtrim" => (Direction::Trim, true),
            "trimwrite" => (Direction::TrimWrite, false),
            "randtrimwrite" => (Direction::TrimWrite, true),
            _ => {
                let given = self.given("rw").expect("the default of rw is a direction");
                let (place, option, unset) = (given.place.clone(), given.name.clone(), given.unset.clone());
                return Err(JobError::Value { place, option, value: kind.to_owned(), unset, accepted: ACCEPTED });
            }
        };
        // The generator of fio's `lfsr` comes to each block once, without a map of them.
        let lfsr = self.read("random_generator", "tausworthe, tausworthe64 or lfsr", |text| match text {
            "tausworthe" | "tausworthe64" => Some(false),
            "lfsr" => Some(true),
            _ => None,
        })?;
        if random {
            let base = self.base;
            let runs = modifier.map_or(Some(1), |count| {
                value::number(count, base).filter(|count| (1..=u64::from(u32::MAX)).contains(count))
            });
            let Some(runs) = runs else {
                return Err(self.cannot(
                    "rw",
                    "has no number of requests behind the colon",
                    "write one, such as rw=randread:8",
                ));
            };
            let jumps =
                self.each_way("percentage_random", "percentages such as 50, or 100,0 of reads and writes", percent)?;
            let mapped = lfsr.unwrap_or(false) || !self.flag("norandommap")?.unwrap_or(false);
            let once = mapped && self.given("random_distribution").is_none();
            let order = |jumps: Option<u32>| match jumps.filter(|percent| *percent < 100) {
                Some(0) => Order::Sequential { gap: Bytes::ZERO, back: false },
                jumps => Order::Random { once, runs, jumps: jumps.map(|percent| Ratio::percent(f64::from(percent))) },
            };
            return Ok((direction, pair(direction, jumps).map(order)));
        }
        let Some(modifier) = modifier else {
            return Ok((direction, [Order::Sequential { gap: Bytes::ZERO, back: false }; 2]));
        };
        let (back, size) = modifier.strip_prefix('-').map_or((false, modifier), |size| (true, size));
        match value::size(size, self.base) {
            Some(gap) => Ok((direction, [Order::Sequential { gap, back: back && !gap.is_zero() }; 2])),
            None => Err(self.cannot(
                "rw",
                format!("has the gap '{modifier}'"),
                "write a size, such as rw=read:8k, or rw=read:-8k for backward",
            )),
        }
    }

    /// Sizes of reads, and of writes or what takes their place.
    pub fn sizes(&mut self, direction: Direction) -> Result<[Vec<(Bytes, u32)>; 2], JobError> {
        let base = self.base;
        let mut sizes: [Vec<(Bytes, u32)>; 2] = std::array::from_fn(|_| vec![(Bytes::kib(4), 1)]);
        let mut put = |given: [Option<Vec<(Bytes, u32)>>; 3]| {
            for (sizes, given) in sizes.iter_mut().zip(pair(direction, given)) {
                *sizes = given.unwrap_or_else(|| std::mem::take(sizes));
            }
        };
        let one = |text: &str| value::size(text, base).filter(|size| !size.is_zero());
        put(self.each_way("bs", "a size such as 4k, or one for reads and one for writes: 4k,64k", |text| {
            one(text).map(|size| vec![(size, 1)])
        })?);
        let range = |text: &str| {
            let (low, high) = text.split_once('-').or(text.split_once(':'))?;
            let (a, b) = (one(low)?, one(high)?);
            let (low, high) = (a.min(b), a.max(b));
            // Every multiple of the smallest, as fio draws them.
            let count = (high.get() / low.get()).clamp(1, 4096);
            Some((1..=count).map(|n| (low * n, 1)).collect::<Vec<_>>())
        };
        put(self.each_way("bsrange", "two sizes such as 4k-64k", range)?);
        put(self
            .each_way("bssplit", "sizes with percentages such as 4k/60:64k/40", |one| value::split_sizes(one, base))?);
        Ok(sizes)
    }

    pub fn skew(&mut self, direction: Direction) -> Result<[Option<Skew>; 2], JobError> {
        const ACCEPTED: &str =
            "random, zipf:1.2, pareto:0.2, normal:20, zoned:60/10:40/90, zoned_abs:60/1m:40/3m or sequence:2,0,1";
        let base = self.base;
        let given = self.given("random_distribution").and_then(|given| given.value.as_deref());
        let (kind, rest) = given.and_then(|given| given.split_once(':')).unwrap_or((given.unwrap_or("random"), ""));
        if kind == "zoned" || kind == "zoned_abs" {
            // Zones are a list by direction; behind the name of the law.
            let zones = |text: &str| {
                let text = text.strip_prefix(kind).and_then(|text| text.strip_prefix(':')).unwrap_or(text);
                if kind == "zoned" { zones(text) } else { zones_of_bytes(text, base) }
            };
            return Ok(pair(direction, self.each_way("random_distribution", ACCEPTED, zones)?));
        }
        let strides = self.flag("random_sequence_stride")?.unwrap_or(false);
        let sequence = || {
            let blocks = rest.split(',').map(|block| block.trim().parse().ok()).collect::<Option<Vec<u64>>>()?;
            (blocks.len() <= 64 && blocks.iter().all(|block| *block < 1 << 40))
                .then_some(Skew::Sequence(blocks, strides))
        };
        let skew = |_: &str| {
            let number = |usual: f64| match rest {
                "" => Some(usual),
                // A centre of the law, behind another colon, is another law.
                rest => rest.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0),
            };
            match kind {
                "random" => Some(None),
                "sequence" => sequence().map(Some),
                "zipf" => number(1.1).filter(|theta| *theta <= 20.0).map(Skew::Zipf).map(Some),
                "pareto" => number(0.2).filter(|share| *share < 1.0).map(Skew::Pareto).map(Some),
                "normal" | "gauss" => number(50.0).filter(|percent| *percent <= 100.0).map(Skew::Normal).map(Some),
                _ => None,
            }
        };
        let skew = self.read("random_distribution", ACCEPTED, skew)?.flatten();
        Ok([skew.clone(), skew])
    }

    /// Zones of `zonemode=strided`. Those of `zbd` are the device's own, and no engine here resets them.
    pub fn zones(&mut self, direction: Direction) -> Result<Option<Zones>, JobError> {
        let mode = self.read("zonemode", "none, strided or zbd", |text| {
            ["none", "strided", "zbd"].contains(&text).then(|| text.to_owned())
        })?;
        let (size, range) = (self.size("zonesize")?, self.size("zonerange")?);
        let skip = self.size("zoneskip")?.unwrap_or(Bytes::ZERO);
        let above_zero = |size: Option<Bytes>| size.filter(|size| !size.is_zero());
        let (size, range) = (above_zero(size), above_zero(range));
        match mode.as_deref() {
            Some("zbd") => Err(self.cannot(
                "zonemode",
                "is for a zoned block device, and its zones are not written nor reset here",
                "take zonemode=strided, or leave it out",
            )),
            Some("strided") => {
                let Some(size) = size else {
                    return Err(self.cannot("zonemode", "has zones of no size", "add zonesize=256m"));
                };
                if let Direction::Mixed(_) | Direction::TrimWrite = direction {
                    let next = "take rw=read, write or trim, or their random kin";
                    return Err(self.cannot("zonemode", "has one place in its zones for two directions", next));
                }
                Ok(Some(Zones { size, range: range.unwrap_or(size), skip }))
            }
            _ if size.is_some() => Err(self.cannot(
                "zonesize",
                "has zones that are not used",
                "add zonemode=strided, or leave zonesize out",
            )),
            _ => Ok(None),
        }
    }

    /// How fast each direction is.
    pub fn rate(&self, direction: Direction) -> Result<[Option<Pace>; 2], JobError> {
        let base = self.base;
        let number = |text: &str| value::number(text, base).filter(|n| *n <= 1 << 50);
        let requests = self.each_way("rate_iops", "requests a second, such as 1000 or 1000,500", number)?;
        let bytes = self.each_way("rate", "bytes a second, such as 10m or 10m,5m", number)?;
        let above_zero = |rates: [Option<u64>; 3]| {
            pair(direction, rates).map(|rate| rate.filter(|rate| *rate > 0).map(|rate| rate as f64))
        };
        let (requests, bytes) = (above_zero(requests), above_zero(bytes));
        if requests != [None; 2] && bytes != [None; 2] {
            return Err(self.cannot("rate_iops", "has both rate and rate_iops", "leave out one of them"));
        }
        let pace = |index: usize| {
            let by_count = requests[index].map(|rate| Pace::Requests(Frequency::per_second(rate)));
            by_count.or(bytes[index].map(|rate| Pace::Bytes(Rate::bytes_per_second(rate))))
        };
        Ok([pace(0), pace(1)])
    }
}

/// What holds of reads, and what of writes or of the trims that take their place.
pub(crate) fn pair<T>(direction: Direction, [read, write, trim]: [T; 3]) -> [T; 2] {
    [read, if direction == Direction::Trim { trim } else { write }]
}

/// `access/range:...` in percent. Accesses come to a hundred, as fio demands; ranges that are not given divide what is
/// left.
fn zones(text: &str) -> Option<Skew> {
    let percent = |text: &str| text.trim().parse::<f64>().ok().filter(|n| (0.0..=100.0).contains(n));
    let mut zones = Vec::new();
    for zone in text.split(':') {
        let (access, range) = zone.split_once('/').unwrap_or((zone, ""));
        let range = if range.trim().is_empty() { None } else { Some(percent(range)?).filter(|range| *range > 0.0) };
        zones.push((percent(access)?, range));
    }
    let given: f64 = zones.iter().filter_map(|(_, range)| *range).sum();
    let silent = zones.iter().filter(|(_, range)| range.is_none()).count();
    let fits = zones.iter().map(|(access, _)| access).sum::<f64>() == 100.0 && given <= 100.0;
    let rest = (100.0 - given) / silent.max(1) as f64;
    fits.then(|| Skew::Zoned(zones.into_iter().map(|(access, range)| (access, range.unwrap_or(rest))).collect()))
}

/// `access/size:...`. Without a size a zone is what is left.
fn zones_of_bytes(text: &str, base: value::Base) -> Option<Skew> {
    let mut zones = Vec::new();
    for zone in text.split(':') {
        let (access, size) = zone.split_once('/').unwrap_or((zone, "0"));
        let access = access.trim().parse::<f64>().ok().filter(|n| (0.0..=100.0).contains(n))?;
        zones.push((access, value::size(size, base)?));
    }
    (zones.iter().map(|(access, _)| access).sum::<f64>() == 100.0).then_some(Skew::ZonedBytes(zones))
}
