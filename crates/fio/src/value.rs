//! Values of options: sizes, times, shares, lists.

use units::{Bytes, Duration};

/// A size or a share of the file or device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// So much.
    Bytes(Bytes),
    /// So many hundredths of what is there.
    Percent(f64),
}

/// What a `k` is, and a `KiB` the other of the two: `kb_base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Base {
    /// `k`, `kb` and `ki` are 1024, `kib` is 1000: fio's default.
    #[default]
    Binary,
    /// `k`, `kb` and `ki` are 1000, `kib` is 1024.
    Decimal,
}

/// Digits and what follows them.
fn split(text: &str) -> (&str, String) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].to_ascii_lowercase())
}

/// A pebibyte: no file is larger, and sums and multiples of such sizes stay within 64 bits.
const MOST: u64 = 1 << 50;

/// `4k`, `1m`, `128mb`, `1Gi`, `4096`, `0x1000`.
pub fn size(text: &str, base: Base) -> Option<Bytes> {
    let text = text.trim();
    if let Some(digits) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).ok().filter(|size| *size <= MOST).map(Bytes::new);
    }
    let (number, unit) = split(text);
    let number: u64 = number.parse().ok()?;
    let (usual, other) = match base {
        Base::Binary => (1024u64, 1000u64),
        Base::Decimal => (1000, 1024),
    };
    let power = match unit.chars().next() {
        None | Some('b') => 0,
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some('p') => 5,
        Some(_) => return None,
    };
    let factor = match unit.get(1..).unwrap_or_default() {
        "" | "b" | "i" => usual,
        "ib" => other,
        _ => return None,
    };
    let factor = factor.checked_pow(power)?;
    number.checked_mul(factor).filter(|size| *size <= MOST).map(Bytes::new)
}

/// A size, or `20%`.
pub fn amount(text: &str, base: Base) -> Option<Amount> {
    match text.trim().strip_suffix('%') {
        Some(share) => share.trim().parse().ok().filter(|share| (0.0..=100.0).contains(share)).map(Amount::Percent),
        None => size(text, base).map(Amount::Bytes),
    }
}

/// `30`, `30s`, `5m`, `1h`, `100ms`, `50us`; a bare number counts `unit`s. A fraction is refused.
pub fn time(text: &str, unit: Duration) -> Option<Duration> {
    let (number, suffix) = split(text.trim());
    // fio reads 1.5s as 1 s; who wants either can say it.
    let number = number.parse::<u64>().ok()? as f64;
    let unit = match suffix.as_str() {
        "" => unit,
        "d" => Duration::seconds(86_400),
        "h" => Duration::seconds(3600),
        "m" => Duration::seconds(60),
        "s" | "sec" => Duration::seconds(1),
        "ms" | "msec" => Duration::millis(1),
        "us" | "usec" => Duration::micros(1),
        "ns" | "nsec" => Duration::nanos(1),
        _ => return None,
    };
    let nanos = number * unit.as_nanos() as f64;
    // A hundred years, so that sums of times stay far below what a clock can count.
    (nanos <= 3.2e18).then(|| Duration::nanos(nanos.round() as u64))
}

/// A whole number, which may carry a `k` as sizes do.
pub fn number(text: &str, base: Base) -> Option<u64> {
    size(text, base).map(Bytes::get)
}

/// A yes or no: a bare word is a yes.
pub fn flag(text: Option<&str>) -> Option<bool> {
    match text.map(str::trim) {
        None | Some("1" | "true" | "yes") => Some(true),
        Some("0" | "false" | "no") => Some(false),
        Some(other) => other.parse::<u32>().ok().map(|number| number != 0),
    }
}

/// `4k/10:64k/50:32k/40`: sizes with their shares in percent; those without one, or with 0, divide what is left. As in
/// fio the last of the largest share takes what shares leave open that do not come to a hundred. Some share is above
/// zero.
pub fn split_sizes(text: &str, base: Base) -> Option<Vec<(Bytes, u32)>> {
    let mut parts = Vec::new();
    for part in text.split(':') {
        let (one, share) = match part.split_once('/') {
            Some((one, share)) if !share.trim().is_empty() => {
                (one, Some(share.trim().parse::<u32>().ok().filter(|share| *share <= 100)?).filter(|share| *share > 0))
            }
            Some((one, _)) => (one, None),
            None => (part, None),
        };
        parts.push((size(one, base).filter(|size| !size.is_zero())?, share));
    }
    let said: u32 = parts.iter().filter_map(|(_, share)| *share).sum();
    let silent = parts.iter().filter(|(_, share)| share.is_none()).count() as u32;
    let rest = 100u32.checked_sub(said)?;
    // Weights of a hundred for each percent, so that what is left can be divided without a remainder that matters.
    let share = |share: Option<u32>| share.map_or_else(|| rest * 100 / silent.max(1), |percent| percent * 100);
    let mut shares: Vec<(Bytes, u32)> = parts.into_iter().map(|(size, percent)| (size, share(percent))).collect();
    if silent == 0 && rest > 0 {
        shares.iter_mut().max_by_key(|(_, weight)| *weight)?.1 += rest * 100;
    }
    // Of shares that are all nothing, no size is ever drawn.
    shares.iter().any(|(_, weight)| *weight > 0).then_some(shares)
}
