//! Distribution curves of response times, as an SVG.
//!
//! A panel shows the share of requests that took at most so long, measured and modelled. The horizontal distance of the
//! two lines is what a demerit sums up. An SVG opens in any browser, scales, and is small: a curve has 401 points,
//! however many requests there were. The axis ends behind the largest 99.9th percentile, as one straggler would press
//! all the rest into a corner.

use std::fmt::Write as _;

use units::Duration;

use crate::text::escaped;
use crate::ticks::step;

/// A sample of response times.
#[derive(Debug, Clone, Copy)]
pub struct Curve<'a> {
    /// What it is called.
    pub name: &'a str,
    /// In ascending order; at least one.
    pub sorted: &'a [Duration],
}

/// Two curves in one field.
#[derive(Debug, Clone, Copy)]
pub struct Panel<'a> {
    /// What stands above it.
    pub title: &'a str,
    /// A full line, and a dashed one.
    pub curves: [Curve<'a>; 2],
}

const WIDTH: f64 = 760.0;
const FIELD: (f64, f64) = (660.0, 200.0);
const LEFT: f64 = 64.0;
const HEAD: f64 = 44.0;
/// A panel with its title and the numbers of its axis.
const PANEL: f64 = 290.0;
/// Told apart by people who do not see red from green, and by the dashes in print.
const COLOURS: [&str; 2] = ["#1b6ca8", "#c2410c"];
/// Steps of a curve.
const STEPS: usize = 400;

/// The document. Panics on a curve without a time.
pub fn distributions(title: &str, panels: &[Panel]) -> String {
    let height = HEAD + PANEL * panels.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n\
         <title>{0}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"26\" font-size=\"16\">{0}</text>\n",
        escaped(title)
    );
    for (index, panel) in panels.iter().enumerate() {
        draw(&mut svg, panel, HEAD + PANEL * index as f64);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, panel: &Panel, top: f64) {
    let (width, height) = FIELD;
    let (top, bottom) = (top + 24.0, top + 24.0 + height);
    let ends = panel.curves.map(|curve| quantile(curve.sorted, 0.999));
    // Five to ten of them.
    let step = step(ends[0].max(ends[1]).max(0.001) / 10.0);
    let ticks = (ends[0].max(ends[1]) / step).ceil().max(1.0);
    let x = |ms: f64| LEFT + width * ms / (ticks * step);
    let y = |share: f64| bottom - height * share;
    let _ =
        writeln!(svg, "<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>", top - 8.0, escaped(panel.title));
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let at = y(share);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {at:.1}h{width}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{} %</text>",
            LEFT - 6.0,
            at + 4.0,
            share * 100.0
        );
    }
    for tick in 0..=ticks as u32 {
        let ms = f64::from(tick) * step;
        let label = format!("{ms:.3}");
        let label = label.trim_end_matches('0').trim_end_matches('.');
        let _ = writeln!(
            svg,
            "<path d=\"M{:.1} {bottom:.1}v-{height}\" stroke=\"#eee\"/><text x=\"{0:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            x(ms),
            bottom + 16.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">response time, ms; share of requests that took at most so long</text>",
        LEFT + width,
        bottom + 32.0
    );
    for (index, curve) in panel.curves.iter().enumerate() {
        let mut path = String::new();
        for k in 0..=STEPS {
            let share = k as f64 / STEPS as f64;
            let ms = quantile(curve.sorted, share);
            if ms > ticks * step {
                break;
            }
            let _ = write!(path, "{}{:.1} {:.1}", if k == 0 { 'M' } else { 'L' }, x(ms), y(share));
        }
        let dashes = if index == 0 { "" } else { " stroke-dasharray=\"6 4\"" };
        let style = format!("fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"{dashes}", COLOURS[index]);
        let (key, line) = (LEFT + width - 130.0, bottom - 34.0 + 18.0 * index as f64);
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" {style}/>\n<path d=\"M{key:.1} {line:.1}h28\" {style}/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            key + 34.0,
            line + 4.0,
            escaped(curve.name)
        );
    }
}

/// In milliseconds, between the two nearest times.
fn quantile(sorted: &[Duration], share: f64) -> f64 {
    assert!(!sorted.is_empty(), "a curve has a time");
    let rank = share * (sorted.len() - 1) as f64;
    let (below, part) = (rank.floor() as usize, rank.fract());
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below].as_millis() + (sorted[above].as_millis() - sorted[below].as_millis()) * part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_curves_stand_in_each_panel_and_names_are_escaped() {
        let (short, long): (Vec<_>, Vec<_>) = (1..=100).map(|n| (Duration::millis(n), Duration::millis(n * 2))).unzip();
        let curves = [Curve { name: "measured", sorted: &short }, Curve { name: "a < b", sorted: &long }];
        let panels = [Panel { title: "all", curves }, Panel { title: "reads & more", curves }];
        let svg = distributions("drive", &panels);
        assert_eq!(svg.matches("stroke-dasharray").count(), 4, "a curve and its key, in two panels");
        assert!(svg.contains("a &lt; b") && svg.contains("reads &amp; more") && svg.ends_with("</svg>\n"));
        // The axis goes to 200 ms, so the measured median stands at a quarter of it and the modelled one at half.
        for x in [LEFT + FIELD.0 * 50.5 / 200.0, LEFT + FIELD.0 * 101.0 / 200.0] {
            let point = format!("L{x:.1} {:.1}", HEAD + 24.0 + FIELD.1 / 2.0);
            assert!(svg.contains(&point), "{point}");
        }
    }

    #[test]
    fn one_time_is_a_curve() {
        let one = [Duration::micros(1)];
        let curve = Curve { name: "x", sorted: &one };
        assert!(!distributions("t", &[Panel { title: "p", curves: [curve; 2] }]).contains("NaN"));
    }
}
