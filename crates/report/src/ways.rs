//! The way of requests through the parts: one lane for each part, in which a request is a bar as long as it is there.
//!
//! It is the picture by which the study of PC file servers validated its models: up to 100 operations, one after the
//! other, each to be followed from part to part. Here each has a colour of its own for as far as there are colours, and
//! tells what it is when the pointer rests on it. Lanes are in the order in which requests first reach their parts.

use std::fmt::Write;

use record::{Row, Span, SpanLog};
use units::Instant;

use crate::lanes::{BOTTOM, GAP, LEFT, RIGHT, WIDTH, axis, label, stack};
use crate::text::escaped;

/// The height of a bar, in CSS pixels, and where the first begins.
const BAR: f64 = 10.0;
const TOP: f64 = 12.0;
/// So many colours there are (`--c1` and so on in the style of pages).
const COLOURS: usize = 7;

/// The picture; nothing if the log has no spans of these requests.
pub(crate) fn ways(log: &SpanLog, rows: &[Row], (begin, end): (Instant, Instant)) -> Option<String> {
    let mut order: Vec<&Row> = rows.iter().collect();
    order.sort_by_key(|row| (row.intended, row.request));
    let turn = |span: &Span| order.iter().position(|row| u64::from(row.request) == span.request);
    let mut spans: Vec<(usize, &Span)> = log.spans().iter().filter_map(|span| Some((turn(span)?, span))).collect();
    spans.retain(|(_, span)| span.start < span.end);
    spans.sort_by_key(|(_, span)| (span.start, span.end));
    let mut parts = Vec::new();
    for (_, span) in &spans {
        if !parts.contains(&span.part) {
            parts.push(span.part);
        }
    }
    if parts.is_empty() {
        return None;
    }
    let lane = |span: &Span| parts.iter().position(|part| *part == span.part).expect("each has its part");
    let bars: Vec<(usize, Instant, Instant)> =
        spans.iter().map(|(_, span)| (lane(span), span.start, span.end)).collect();
    let (places, heights) = stack(&bars, parts.len());
    let mut bottom = TOP;
    let mut tops = Vec::new();
    for rows in &heights {
        tops.push(bottom);
        bottom += f64::from(*rows) * (BAR + 1.0) + GAP;
    }
    let height = bottom + BOTTOM;
    let scale = (WIDTH - LEFT - RIGHT) / end.saturating_since(begin).as_nanos().max(1) as f64;
    let x = |at: Instant| LEFT + at.clamp(begin, end).since(begin).as_nanos() as f64 * scale;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-size=\"12\" class=\"lanes\">\n"
    );
    axis(&mut svg, (begin, end), &x, TOP - 4.0..bottom);
    for ((part, top), rows) in parts.iter().zip(&tops).zip(&heights) {
        label(&mut svg, log.part(*part), top + f64::from(*rows) * (BAR + 1.0) / 2.0 + 4.0);
    }
    for (((turn, span), (lane, from, until)), place) in spans.iter().zip(&bars).zip(places) {
        let (from, until, y) = (x(*from), x(*until), tops[*lane] + f64::from(place) * (BAR + 1.0));
        let row = order[*turn];
        let title = format!(
            "operation {}, a {} of {}: {}, {}",
            turn + 1,
            row.operation.name(),
            units::Bytes::new(row.length.into()),
            log.phase(span.phase),
            span.time()
        );
        let _ = writeln!(
            svg,
            "<rect x=\"{from:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{BAR}\" style=\"fill:var(--c{})\"><title>{}</title></rect>",
            (until - from).max(0.5),
            turn % COLOURS + 1,
            escaped(&title)
        );
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Operation, Phase, Spans};
    use units::Bytes;

    #[test]
    fn each_part_has_a_lane_in_the_order_in_which_requests_reach_it() {
        let at = |micros: u64| Instant::from_nanos(micros * 1000);
        let row = |request, from: u64, to: u64| Row {
            request,
            intended: at(from),
            submitted: at(from),
            completed: at(to),
            length: 8192,
            ..Row::new(Operation::Read, Phase::Measure)
        };
        let spans = Spans::on(Bytes::mib(1));
        let (ring, disk) = (spans.part("ring"), spans.part("disk <0>"));
        let (wait, work) = (spans.phase("wait"), spans.phase("transfer"));
        spans.keep(8, disk, wait, at(10), at(30));
        spans.keep(8, disk, work, at(30), at(30));
        spans.keep(8, ring, work, at(30), at(50));
        spans.keep(9, disk, work, at(20), at(40));
        spans.keep(7, ring, work, at(0), at(99));
        let log = spans.take().unwrap();
        let svg = ways(&log, &[row(9, 20, 40), row(8, 10, 50)], (at(10), at(50))).unwrap();
        assert_eq!(svg.matches("<rect").count(), 3, "a span of no length and one of no row are not shown: {svg}");
        assert!(svg.find("disk &lt;0&gt;").unwrap() < svg.find("ring").unwrap(), "{svg}");
        assert!(svg.contains("operation 1, a read of 8 KiB: wait, 20 us"), "{svg}");
        let heights: Vec<&str> =
            svg.match_indices("<rect").map(|(from, _)| svg[from..].split('"').nth(3).unwrap()).collect();
        assert_eq!(heights[..2], ["12.0", "23.0"], "two at once in one part stand below each other");
        assert_eq!(ways(&log, &[], (at(0), at(50))), None);
    }
}
