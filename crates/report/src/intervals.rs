//! Intervals of effects, one below the other on one axis: what lies on one side of the line of no difference differs.

use std::fmt::Write;

use crate::text::escaped;
use crate::ticks::step;

/// An effect and where it lies, in percent.
pub(crate) struct Interval {
    pub name: String,
    pub low: f64,
    pub at: f64,
    pub high: f64,
    /// Whether a difference is shown.
    pub shown: bool,
    /// What is written above it.
    pub said: String,
}

/// The room, as in [`crate::chart`]: wide and narrow.
struct Sheet {
    class: &'static str,
    width: f64,
    left: f64,
    font: f64,
    letter: f64,
}

const WIDE: Sheet = Sheet { class: "wide", width: 1100.0, left: 130.0, font: 12.0, letter: 7.0 };
const NARROW: Sheet = Sheet { class: "narrow", width: 520.0, left: 150.0, font: 16.0, letter: 9.0 };

/// The picture, wide and narrow.
pub(crate) fn intervals(title: &str, below: &str, intervals: &[Interval]) -> String {
    let [wide, narrow] = [&WIDE, &NARROW].map(|sheet| drawn(title, intervals, sheet));
    format!("<figure>\n{wide}{narrow}<figcaption>{}</figcaption>\n</figure>\n", escaped(below))
}

fn drawn(title: &str, intervals: &[Interval], sheet: &Sheet) -> String {
    let &Sheet { class, width, left, font, letter } = sheet;
    let (row, top) = (3.2 * font, 2.0 * font + 10.0);
    let bottom = top + row * intervals.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {:.0}\" role=\"img\" class=\"chart {class}\">\n\
         <title>{2}</title>\n<text x=\"{left}\" y=\"{1:.1}\" class=\"title\">{2}</text>\n",
        bottom + 1.4 * font + 8.0,
        1.5 * font,
        escaped(title)
    );
    // No difference is always in the picture, with room at both ends.
    let low = intervals.iter().map(|one| one.low).fold(0.0, f64::min);
    let high = intervals.iter().map(|one| one.high).fold(0.0, f64::max);
    let span = (high - low).max(1e-3);
    let (low, span) = (low - 0.06 * span, 1.12 * span);
    let field = width - left - 2.0 * font;
    let x = |at: f64| left + field * ((at - low) / span).clamp(0.0, 1.0);
    let apart = step(span / (field / (10.0 * letter)));
    let digits = (-apart.log10().floor()).max(0.0) as usize;
    let first = (low / apart).ceil() as i64;
    for tick in (first..).take_while(|tick| *tick as f64 * apart <= low + span) {
        let (at, value) = (x(tick as f64 * apart), tick as f64 * apart);
        let label = if tick == 0 { "0 %".to_owned() } else { format!("{value:+.digits$} %") };
        let class = if tick == 0 { "begins" } else { "grid" };
        let _ = writeln!(
            svg,
            "<path class=\"{class}\" d=\"M{at:.1} {top}v{:.1}\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            bottom - top,
            bottom + 1.4 * font
        );
    }
    for (number, one) in intervals.iter().enumerate() {
        let y = top + row * (number as f64 + 0.68);
        let (from, at, to) = (x(one.low), x(one.at), x(one.high));
        let colour = if one.shown { "var(--c1)" } else { "var(--begins)" };
        // Text above an interval at the edge keeps within the field.
        let half = one.said.chars().count() as f64 * letter / 2.0;
        let middle = at.clamp(left + half.min(field / 2.0), left + field - half.min(field / 2.0));
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <path class=\"line\" style=\"stroke:{colour};stroke-width:3\" d=\"M{from:.1} {y:.1}L{to:.1} {y:.1}\"/>\
             <circle style=\"fill:{colour}\" cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"5\"/>\
             <text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            left - 10.0,
            y + font / 3.0,
            escaped(&one.name),
            y - 0.8 * font,
            escaped(&one.said)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(low: f64, at: f64, high: f64) -> Interval {
        Interval { name: "a < b".into(), low, at, high, shown: low > 0.0 || high < 0.0, said: "said".into() }
    }

    /// From -10 to 10 with 6 percent of room at both ends: no difference is in the middle of the field.
    #[test]
    fn no_difference_is_marked_where_it_is() {
        let svg = drawn("t", &[one(-10.0, 1.0, 10.0)], &WIDE);
        let middle = WIDE.left + (WIDE.width - WIDE.left - 2.0 * WIDE.font) / 2.0;
        assert!(svg.contains(&format!("<path class=\"begins\" d=\"M{middle:.1} ")), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("+6 %") && svg.contains(">0 %<"), "{svg}");
        assert!(svg.contains("stroke:var(--begins)"), "it holds no difference");
        assert!(drawn("t", &[one(2.0, 3.0, 4.0)], &WIDE).contains("stroke:var(--c1)"));
    }

    #[test]
    fn intervals_of_no_length_and_none_are_drawn() {
        for given in [vec![], vec![one(0.0, 0.0, 0.0)], vec![one(100.0, 100.0, 100.0)]] {
            let svg = intervals("t", "b", &given);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
