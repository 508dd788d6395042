//! What a job asks for: directions, order, sizes, skew, rates.

use units::{Bytes, Frequency, Rate, Ratio};

use crate::JobError;
use crate::job::{Direction, Order, Pace, Skew};
use crate::reader::Reader;
use crate::value;

impl Reader<'_> {
    pub fn direction(&mut self) -> Result<(Direction, Order), JobError> {
        const ACCEPTED: &str =
            "read, write, rw, trim, trimwrite, randread, randwrite, randrw, randtrim or randtrimwrite";
        let text = self.read("rw", ACCEPTED, |text| Some(text.to_owned()))?;
        let text = text.unwrap_or_else(|| "read".to_owned());
        let (kind, modifier) = text.split_once(':').map_or((text.as_str(), None), |(kind, rest)| (kind, Some(rest)));
        let percent = |text: &str| text.split(',').next()?.parse::<u32>().ok().filter(|n| *n <= 100);
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
                let (place, option) = (given.place.clone(), given.name.clone());
                return Err(JobError::Value { place, option, value: kind.to_owned(), accepted: ACCEPTED });
            }
        };
        if random {
            let runs =
                modifier.map_or(Some(1), |count| count.parse().ok().filter(|count| (1..1 << 40).contains(count)));
            let Some(runs) = runs else {
                return Err(self.cannot(
                    "rw",
                    "has no number of requests behind the colon",
                    "write one, such as rw=randread:8",
                ));
            };
            let jumps = self.read("percentage_random", "a percentage", percent)?.filter(|percent| *percent < 100);
            let jumps = jumps.map(|percent| Ratio::percent(f64::from(percent)));
            let once = !self.flag("norandommap")?.unwrap_or(false) && self.given("random_distribution").is_none();
            return Ok((direction, Order::Random { once, runs, jumps }));
        }
        let Some(modifier) = modifier else { return Ok((direction, Order::Sequential { gap: Bytes::ZERO })) };
        match value::size(modifier, self.base) {
            Some(gap) => Ok((direction, Order::Sequential { gap })),
            None => Err(self.cannot("rw", format!("has the gap '{modifier}'"), "write a size, such as rw=read:8k")),
        }
    }

    /// Sizes of reads, and of writes or what takes their place.
    pub fn sizes(&mut self, direction: Direction) -> Result<[Vec<(Bytes, u32)>; 2], JobError> {
        let base = self.base;
        let pair = |[read, write, trim]: [Vec<(Bytes, u32)>; 3]| {
            [read, if direction == Direction::Trim { trim } else { write }]
        };
        let one = |text: &str| value::size(text, base).filter(|size| !size.is_zero());
        if let Some(sizes) = self.read("bssplit", "sizes with percentages such as 4k/60:64k/40", |text| {
            value::triple(text, |one| value::split_sizes(one, base))
        })? {
            return Ok(pair(sizes));
        }
        let range = |text: &str| {
            let (low, high) = text.split_once('-')?;
            let (low, high) = (one(low)?, one(high)?);
            // Every multiple of the smallest, as fio draws them.
            let count = (high.get() / low.get()).clamp(1, 4096);
            (low <= high).then(|| (1..=count).map(|n| (low * n, 1)).collect::<Vec<_>>())
        };
        if let Some(sizes) = self.read("bsrange", "two sizes such as 4k-64k", |text| value::triple(text, range))? {
            return Ok(pair(sizes));
        }
        let sizes =
            self.read("bs", "a size such as 4k, or two for reads and writes: 4k,64k", |text| value::triple(text, one))?;
        Ok(pair(sizes.unwrap_or([Bytes::kib(4); 3]).map(|size| vec![(size, 1)])))
    }

    pub fn skew(&mut self) -> Result<Option<Skew>, JobError> {
        let skew = |text: &str| {
            let mut parts = text.splitn(2, ':');
            let (kind, rest) = (parts.next()?, parts.next());
            let number = |usual: f64| match rest {
                None => Some(usual),
                Some(rest) => rest.split([':', ',']).next()?.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0),
            };
            match kind {
                "random" => Some(None),
                "zipf" => number(1.1).filter(|theta| *theta <= 20.0).map(Skew::Zipf).map(Some),
                "pareto" => number(0.2).filter(|share| *share < 1.0).map(Skew::Pareto).map(Some),
                "normal" | "gauss" => number(50.0).filter(|percent| *percent <= 100.0).map(Skew::Normal).map(Some),
                "zoned" => {
                    let zones = rest?.split(',').next()?.split(':').map(|zone| {
                        let (access, range) = zone.split_once('/')?;
                        let percent =
                            |text: &str| text.trim().parse::<f64>().ok().filter(|n| (0.0..=100.0).contains(n));
                        Some((percent(access)?, percent(range)?))
                    });
                    let zones = zones.collect::<Option<Vec<(f64, f64)>>>()?;
                    let sum = |of: fn(&(f64, f64)) -> f64| zones.iter().map(of).sum::<f64>();
                    let fits = sum(|zone| zone.0) <= 100.0 && sum(|zone| zone.1) <= 100.0;
                    fits.then_some(Some(Skew::Zoned(zones)))
                }
                _ => None,
            }
        };
        let skew =
            self.read("random_distribution", "random, zipf:1.2, pareto:0.2, normal:20 or zoned:60/10:40/90", skew)?;
        Ok(skew.flatten())
    }

    /// How fast, both directions of a mixed job together. Of several rates that of requests counts.
    pub fn rate(&self, direction: Direction) -> Result<Option<Pace>, JobError> {
        let base = self.base;
        let sum = |[read, write, trim]: [u64; 3]| match direction {
            Direction::Read => read as f64,
            Direction::Write | Direction::TrimWrite => write as f64,
            Direction::Trim => trim as f64,
            Direction::Mixed(_) => (read + write) as f64,
        };
        let numbers = |text: &str| {
            let triple = value::triple(text, |one| value::number(one, base))?;
            triple.iter().all(|n| *n <= 1 << 50).then_some(triple)
        };
        let above_zero = |rates| Some(sum(rates)).filter(|rate| *rate > 0.0);
        if let Some(rates) = self.read("rate_iops", "requests a second, such as 1000 or 1000,500", numbers)? {
            return Ok(above_zero(rates).map(|rate| Pace::Requests(Frequency::per_second(rate))));
        }
        let rates = self.read("rate", "bytes a second, such as 10m", numbers)?;
        Ok(rates.and_then(above_zero).map(|rate| Pace::Bytes(Rate::bytes_per_second(rate))))
    }
}
