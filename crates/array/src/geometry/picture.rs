//! A layout as text: a column a member, a line a row.

use super::{Geometry, Level, Role};

/// Draws the first `rows` rows. Data chunks carry their number in the array; at level 6 with the power of the generator
/// under which they enter Q, as `4:g2`; a copy looks like its original; what the array does not use is a dot.
pub fn picture(geometry: &Geometry, rows: u64) -> String {
    let cell = |member: usize, row: u64| {
        let offset = geometry.chunk() * row;
        match geometry.role(member, offset) {
            Role::P(_) => "P".to_owned(),
            Role::Q(_) => "Q".to_owned(),
            Role::Unused => ".".to_owned(),
            Role::Data(address) => {
                let number = address / geometry.chunk();
                match geometry.level() {
                    Level::Raid6(_) => format!("{number}:g{}", geometry.stripe(row).power(member)),
                    _ => number.to_string(),
                }
            }
        }
    };
    let mut lines = vec![vec!["row".to_owned()]];
    lines[0].extend((0..geometry.members()).map(|member| format!("m{member}")));
    for row in 0..rows {
        let cells = (0..geometry.members()).map(|member| cell(member, row));
        lines.push(std::iter::once(row.to_string()).chain(cells).collect());
    }
    let width = lines.iter().flatten().map(String::len).max().unwrap_or(0);
    let text = |line: Vec<String>| {
        let cells: Vec<String> = line.iter().map(|cell| format!("{cell:>width$}")).collect();
        cells.join("  ") + "\n"
    };
    lines.into_iter().map(text).collect()
}
