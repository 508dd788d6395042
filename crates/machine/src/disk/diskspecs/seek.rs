//! The seek file: `Seek distances measured: N`, then N lines `distance, milliseconds`.

use std::sync::Arc;

use super::{ImportError, Trouble};

/// Distance, milliseconds as they are written, line.
pub(super) type Point = (u32, f64, u32);

/// More distances than any drive has cylinders.
const MOST: usize = 1 << 24;

pub(super) fn parse(file: &Arc<str>, text: &str) -> Result<Vec<Point>, ImportError> {
    let error = |line, trouble| ImportError { file: Arc::clone(file), line, trouble };
    let mut lines = (1u32..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let wanted = "'Seek distances measured: N' on the first line";
    let (line, head) = lines.next().ok_or_else(|| error(1, Trouble::Ends { wanted }))?;
    let count = head
        .trim()
        .strip_prefix("Seek distances measured:")
        .and_then(|count| count.trim().parse::<usize>().ok())
        .ok_or_else(|| error(line, Trouble::NotA { found: shorten(head), wanted }))?;
    if count == 0 || count > MOST {
        return Err(error(
            line,
            Trouble::NotA { found: count.to_string(), wanted: "a number of seek distances from 1 on" },
        ));
    }
    let mut points = Vec::new();
    let mut last = line;
    for (line, text) in lines {
        let wanted = "'distance in cylinders, time in ms', distances ascending from 1";
        let parsed = text.split_once(',').and_then(|(distance, time)| {
            let (distance, time) = (distance.trim().parse::<u32>().ok()?, time.trim().parse::<f64>().ok()?);
            ((0.0..1e6).contains(&time)).then_some((distance, time))
        });
        let (distance, time) = parsed.ok_or_else(|| error(line, Trouble::NotA { found: shorten(text), wanted }))?;
        if distance <= points.last().map_or(0, |(before, _, _)| *before) {
            return Err(error(line, Trouble::NotA { found: shorten(text), wanted }));
        }
        points.push((distance, time, line));
        last = line;
    }
    if points.len() != count {
        return Err(error(last, Trouble::SeekCount { said: count, found: points.len() }));
    }
    Ok(points)
}

fn shorten(text: &str) -> String {
    text.trim().chars().take(40).collect()
}
