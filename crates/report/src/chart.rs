//! Lines in a field with two axes, as SVG that stands in a page.
//!
//! Nothing moves and nothing is loaded: a report is read years later, from an archive, without a network. What a chart cannot show at its size is told when
//! the pointer rests on it.

use std::fmt::Write;
use std::ops::Range;

use crate::text::escaped;
use crate::ticks::step;

/// The picture's width, the field's margins and its height, in CSS pixels.
const WIDTH: f64 = 1100.0;
const LEFT: f64 = 100.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 46.0;
const HEIGHT: f64 = 190.0;
const BOTTOM: f64 = 44.0;

/// Told apart also by people who do not see all colours (M. Okabe and K. Ito, "Color universal design", 2002); the first is for what matters most.
const COLOURS: [&str; 8] = ["#1f2430", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a7a00"];

/// So many lines at most have a colour of their own.
pub(crate) const MOST_LINES: usize = COLOURS.len();

/// How values become places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From zero on.
    Linear,
    /// Decades; for values above zero.
    Log,
}

/// A line of a chart.
pub(crate) struct Line {
    pub name: String,
    /// In ascending order of their first number.
    pub points: Vec<(f64, f64)>,
}

/// A chart.
pub(crate) struct Chart<'a> {
    pub title: &'a str,
    /// What is written below the field.
    pub below: &'a str,
    /// From where to where the field reaches.
    pub across: Range<f64>,
    /// Where a number is written below the field, and which.
    pub ticks: Vec<(f64, String)>,
    pub scale: Scale,
    /// How a value is written, with its unit.
    pub value: &'a dyn Fn(f64) -> String,
    pub lines: Vec<Line>,
    /// What is shaded.
    pub shaded: Vec<Range<f64>>,
    /// Where something new begins.
    pub begins: Vec<f64>,
    /// What is told where.
    pub tips: Vec<(Range<f64>, String)>,
}

impl Chart<'_> {
    /// The picture. A chart without values is an empty field.
    pub fn svg(&self) -> String {
        let height = TOP + HEIGHT + BOTTOM;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" class=\"chart\">\n\
             <title>{0}</title>\n<text x=\"{LEFT}\" y=\"18\" class=\"title\">{0}</text>\n",
            escaped(self.title)
        );
        let bottom = TOP + HEIGHT;
        let width = WIDTH - LEFT - RIGHT;
        let length = (self.across.end - self.across.start).max(f64::MIN_POSITIVE);
        let x = |at: f64| LEFT + width * ((at - self.across.start) / length).clamp(0.0, 1.0);
        for range in &self.shaded {
            let (from, to) = (x(range.start), x(range.end));
            let _ = writeln!(
                svg,
                "<rect class=\"shaded\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{HEIGHT}\"/>",
                to - from
            );
        }
        let heights = self.heights();
        for value in &heights.written {
            let (at, label) = (heights.y(*value), (self.value)(*value));
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}h{width}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                escaped(&label)
            );
        }
        for (at, label) in &self.ticks {
            let at = x(*at);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{at:.1} {TOP}v{HEIGHT}\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 17.0,
                escaped(label)
            );
        }
        for at in &self.begins {
            let _ = writeln!(svg, "<path class=\"begins\" d=\"M{:.1} {TOP}v{HEIGHT}\"/>", x(*at));
        }
        let _ = writeln!(
            svg,
            "<text class=\"below\" x=\"{LEFT}\" y=\"{:.1}\">{}</text>",
            bottom + 36.0,
            escaped(self.below)
        );
        for (line, colour) in self.lines.iter().zip(COLOURS).rev() {
            let points = line.points.iter().enumerate();
            let path: String = points
                .map(|(index, (at, value))| {
                    format!("{}{:.1} {:.1}", if index == 0 { 'M' } else { 'L' }, x(*at), heights.y(*value))
                })
                .collect();
            // A single point has no length, and is drawn as a dot by its round ends.
            let dot = if line.points.len() == 1 { "h0.01" } else { "" };
            let _ = writeln!(svg, "<path class=\"line\" stroke=\"{colour}\" d=\"{path}{dot}\"/>");
        }
        self.legend(&mut svg);
        for (range, tip) in &self.tips {
            let (from, to) = (x(range.start), x(range.end));
            let _ = writeln!(
                svg,
                "<rect class=\"tip\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{HEIGHT}\"><title>{}</title></rect>",
                to - from,
                escaped(tip)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn legend(&self, svg: &mut String) {
        let mut at = LEFT;
        for (line, colour) in self.lines.iter().zip(COLOURS) {
            let _ = writeln!(
                svg,
                "<path class=\"line\" stroke=\"{colour}\" d=\"M{at:.1} 32h18\"/><text x=\"{:.1}\" y=\"36\">{}</text>",
                at + 24.0,
                escaped(&line.name)
            );
            at += 48.0 + 7.0 * line.name.chars().count() as f64;
        }
    }

    /// The field from bottom to top: all values fit, and it ends at round ones.
    fn heights(&self) -> Heights {
        let values = || self.lines.iter().flat_map(|line| line.points.iter().map(|(_, value)| *value));
        let most = values().fold(0.0, f64::max);
        match self.scale {
            Scale::Linear => {
                let step = step(most.max(f64::MIN_POSITIVE) / 5.0);
                let ticks = (most / step).ceil().max(1.0);
                let written = (0..=ticks as u32).map(|tick| f64::from(tick) * step);
                Heights { scale: self.scale, from: 0.0, to: ticks * step, written: written.collect() }
            }
            Scale::Log => {
                let least = values().filter(|value| *value > 0.0).fold(most.max(1.0), f64::min);
                let (from, to) = (least.log10().floor(), most.max(1.0).log10().ceil().max(least.log10().floor() + 1.0));
                // Two decades want numbers between them.
                let between: &[f64] = if to - from <= 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let decades = from as i32..to as i32;
                let written = decades.flat_map(|power| between.iter().map(move |factor| factor * 10f64.powi(power)));
                Heights { scale: self.scale, from, to, written: written.chain([10f64.powf(to)]).collect() }
            }
        }
    }
}

/// What is at the field's bottom and top, as values or as their decades, and which values are written beside it.
struct Heights {
    scale: Scale,
    from: f64,
    to: f64,
    written: Vec<f64>,
}

impl Heights {
    /// Where a value lies.
    fn y(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
        };
        TOP + HEIGHT * (1.0 - ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale, points: Vec<(f64, f64)>) -> String {
        let lines = vec![Line { name: "a < b".into(), points }];
        let chart = Chart {
            title: "t",
            below: "b",
            across: 0.0..10.0,
            ticks: vec![],
            scale,
            value: &|value| format!("{value:.0} u"),
            lines,
            shaded: vec![0.0..1.0],
            begins: vec![5.0],
            tips: vec![(0.0..10.0, "tip".into())],
        };
        chart.svg()
    }

    #[test]
    fn lines_lie_where_their_values_are() {
        let svg = chart(Scale::Linear, vec![(0.0, 0.0), (10.0, 100.0)]);
        assert!(svg.contains(&format!("M{LEFT:.1} {:.1}L{:.1} {TOP:.1}", TOP + HEIGHT, WIDTH - RIGHT)), "{svg}");
        for written in ["100 u", "a &lt; b", "tip"] {
            assert!(svg.contains(written), "{written}");
        }
        let svg = chart(Scale::Log, vec![(0.0, 10.0), (10.0, 100_000.0), (10.0, 1000.0)]);
        assert!(svg.contains(&format!("L{:.1} {:.1}\"", WIDTH - RIGHT, TOP + HEIGHT / 2.0)), "{svg}");
    }

    #[test]
    fn a_chart_of_nothing_has_no_numbers_that_are_none() {
        for scale in [Scale::Linear, Scale::Log] {
            for points in [vec![], vec![(1.0, 0.0)], vec![(1.0, 3.0)]] {
                let svg = chart(scale, points);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }
}
