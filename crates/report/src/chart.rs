//! Lines in a field with two axes, as SVG that stands in a page.
//!
//! Nothing moves and nothing is loaded: a report is read years later, from an archive, without a network. What a chart
//! cannot show at its size is told when the pointer rests on it.

use std::fmt::Write;
use std::ops::Range;

use crate::text::escaped;
use crate::ticks::step;

/// The room that a drawing has, in units of its own: a page shows it as wide as the screen is.
struct Sheet {
    class: &'static str,
    width: f64,
    /// Left and right of the field.
    left: f64,
    right: f64,
    /// Of the field.
    height: f64,
    /// The size of letters, as the page's style has it, and their width on average.
    font: f64,
    letter: f64,
    /// Whether more is told when a pointer rests on the field: a finger does not.
    tips: bool,
}

/// For a window on a desk, and for paper.
const WIDE: Sheet = Sheet {
    class: "wide",
    width: 1100.0,
    left: 100.0,
    right: 20.0,
    height: 190.0,
    font: 12.0,
    letter: 7.0,
    tips: true,
};

/// For a telephone, 360 pixels wide: letters are of 11 pixels there.
const NARROW: Sheet = Sheet {
    class: "narrow",
    width: 520.0,
    left: 116.0,
    right: 24.0,
    height: 240.0,
    font: 16.0,
    letter: 9.0,
    tips: false,
};

/// So many lines at most have a colour of their own.
///
/// The colours are told apart also by people who do not see all of them (M. Okabe and K. Ito, "Color universal design",
/// 2002); the first is for what matters most. They stand in the page's style as `--c0` and so on, once for light pages
/// and once for dark ones.
pub(crate) const MOST_LINES: usize = 8;

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
    /// Whether each point is marked: where there are few, and the lines between them are drawn for the eye alone.
    pub dots: bool,
}

impl Chart<'_> {
    /// The picture, wide and narrow. A chart without values is an empty field.
    pub fn svg(&self) -> String {
        let (wide, narrow) = (self.drawn(&WIDE), self.drawn(&NARROW));
        format!("<figure>\n{wide}{narrow}<figcaption>{}</figcaption>\n</figure>\n", escaped(self.below))
    }

    fn drawn(&self, sheet: &Sheet) -> String {
        let &Sheet { width: whole, left, height, font, letter, .. } = sheet;
        let (legend, rows) = self.legend(sheet);
        // The title, the legend's rows, the field, and the numbers below it.
        let row = 1.5 * font;
        let top = row * (1 + rows) as f64 + 10.0;
        let bottom = top + height;
        let field = whole - left - sheet.right;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {whole} {:.0}\" role=\"img\" class=\"chart {}\">\n\
             <title>{2}</title>\n<text x=\"{left}\" y=\"{row}\" class=\"title\">{2}</text>\n",
            bottom + 1.4 * font + 8.0,
            sheet.class,
            escaped(self.title)
        );
        let length = (self.across.end - self.across.start).max(f64::MIN_POSITIVE);
        let x = |at: f64| left + field * ((at - self.across.start) / length).clamp(0.0, 1.0);
        for range in &self.shaded {
            let (from, to) = (x(range.start), x(range.end));
            let _ = writeln!(
                svg,
                "<rect class=\"shaded\" x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{height}\"/>",
                to - from
            );
        }
        let heights = self.heights();
        let y = |value: f64| top + height * (1.0 - heights.share(value));
        for value in &heights.written {
            let (at, label) = (y(*value), (self.value)(*value));
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{left} {at:.1}h{field}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                at + font / 3.0,
                escaped(&label)
            );
        }
        let mut free = f64::MIN;
        for (at, label) in &self.ticks {
            let (at, half) = (x(*at), label.chars().count() as f64 * letter / 2.0);
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{at:.1} {top}v{height}\"/>");
            // A number that would stand on the one before is left out.
            if at - half >= free {
                free = at + half + letter;
                let below = bottom + 1.4 * font;
                let label = escaped(label);
                let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{label}</text>");
            }
        }
        for at in &self.begins {
            let _ = writeln!(svg, "<path class=\"begins\" d=\"M{:.1} {top}v{height}\"/>", x(*at));
        }
        for (number, line) in self.lines.iter().take(MOST_LINES).enumerate().rev() {
            let points = line.points.iter().enumerate();
            let path: String = points
                .map(|(index, (at, value))| {
                    format!("{}{:.1} {:.1}", if index == 0 { 'M' } else { 'L' }, x(*at), y(*value))
                })
                .collect();
            // A single point has no length, and is drawn as a dot by its round ends.
            let dot = if line.points.len() == 1 { "h0.01" } else { "" };
            let _ = writeln!(svg, "<path class=\"line\" style=\"stroke:var(--c{number})\" d=\"{path}{dot}\"/>");
            for (at, value) in line.points.iter().filter(|_| self.dots) {
                let (x, y) = (x(*at), y(*value));
                let _ =
                    writeln!(svg, "<circle style=\"fill:var(--c{number})\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>");
            }
        }
        svg.push_str(&legend);
        for (range, tip) in self.tips.iter().filter(|_| sheet.tips) {
            let (from, to) = (x(range.start), x(range.end));
            let _ = writeln!(
                svg,
                "<rect class=\"tip\" x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{height}\"><title>{}</title></rect>",
                to - from,
                escaped(tip)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// The names of the lines below the title, and in how many rows they stand. A line without a name is the only one.
    fn legend(&self, sheet: &Sheet) -> (String, usize) {
        let (mut svg, mut at, mut row) = (String::new(), sheet.left, 1);
        for (number, line) in self.lines.iter().take(MOST_LINES).enumerate().filter(|(_, line)| !line.name.is_empty()) {
            let ends = at + 24.0 + sheet.letter * line.name.chars().count() as f64;
            if ends > sheet.width && at > sheet.left {
                (at, row) = (sheet.left, row + 1);
            }
            let base = 1.5 * sheet.font * (1 + row) as f64;
            let _ = writeln!(
                svg,
                "<path class=\"line\" style=\"stroke:var(--c{number})\" d=\"M{at:.1} {:.1}h18\"/><text x=\"{:.1}\" y=\"{base:.1}\">{}</text>",
                base - sheet.font / 3.0,
                at + 24.0,
                escaped(&line.name)
            );
            at += 48.0 + sheet.letter * line.name.chars().count() as f64;
        }
        (svg, if self.lines.iter().all(|line| line.name.is_empty()) { 0 } else { row })
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
    /// Where a value lies, from the bottom, as a share of the field's height.
    fn share(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
        };
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale, points: Vec<(f64, f64)>) -> Chart<'static> {
        Chart {
            title: "t",
            below: "b",
            across: 0.0..10.0,
            ticks: (0..=20).map(|tick| (f64::from(tick) / 2.0, format!("{tick} units"))).collect(),
            scale,
            value: &|value| format!("{value:.0} u"),
            lines: vec![Line { name: "a < b".into(), points }],
            shaded: vec![0.0..1.0],
            begins: vec![5.0],
            tips: vec![(0.0..10.0, "tip".into())],
            dots: false,
        }
    }

    /// Left, right, top and bottom of the field with one row of names.
    fn field(sheet: &Sheet) -> (f64, f64, f64, f64) {
        let top = 3.0 * sheet.font + 10.0;
        (sheet.left, sheet.width - sheet.right, top, top + sheet.height)
    }

    #[test]
    fn lines_lie_where_their_values_are() {
        for sheet in [&WIDE, &NARROW] {
            let (left, right, top, bottom) = field(sheet);
            let svg = chart(Scale::Linear, vec![(0.0, 0.0), (10.0, 100.0)]).drawn(sheet);
            assert!(svg.contains(&format!("M{left:.1} {bottom:.1}L{right:.1} {top:.1}")), "{svg}");
            for written in ["100 u", "a &lt; b"] {
                assert!(svg.contains(written), "{written}");
            }
            assert_eq!(svg.contains("tip"), sheet.tips);
            let svg = chart(Scale::Log, vec![(0.0, 10.0), (10.0, 100_000.0), (10.0, 1000.0)]).drawn(sheet);
            assert!(svg.contains(&format!("L{right:.1} {:.1}\"", (top + bottom) / 2.0)), "{svg}");
        }
    }

    #[test]
    fn a_chart_of_nothing_has_no_numbers_that_are_none() {
        for scale in [Scale::Linear, Scale::Log] {
            for points in [vec![], vec![(1.0, 0.0)], vec![(1.0, 3.0)]] {
                let svg = chart(scale, points).svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    /// 21 numbers of 7 or 8 letters: a desk has room for 14 or so, a telephone for 5.
    #[test]
    fn numbers_below_the_field_do_not_stand_on_each_other() {
        let written = |sheet| chart(Scale::Linear, vec![(1.0, 1.0)]).drawn(sheet).matches(" units").count();
        let (wide, narrow) = (written(&WIDE), written(&NARROW));
        assert!((10..=16).contains(&wide) && (4..=6).contains(&narrow), "{wide} and {narrow}");
    }

    #[test]
    fn names_that_do_not_fit_into_a_row_take_another() {
        let mut chart = chart(Scale::Linear, vec![(1.0, 1.0)]);
        let line = |number: usize| Line { name: format!("a line that is number {number}"), points: vec![(1.0, 1.0)] };
        chart.lines = (0..4).map(line).collect();
        assert_eq!((chart.legend(&WIDE).1, chart.legend(&NARROW).1), (1, 4));
        chart.lines = vec![Line { name: String::new(), points: vec![(1.0, 1.0)] }];
        assert_eq!(chart.legend(&WIDE), (String::new(), 0));
        chart.dots = true;
        assert_eq!(chart.svg().matches("<circle").count(), 2, "wide and narrow");
    }
}
