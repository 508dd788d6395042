//! Tables for terminals and for files: columns aligned with blanks, a rule under the heading, nothing that a copy into a mail would spoil.

use comfy_table::{CellAlignment, ContentArrangement, Row, presets};

/// A table of text; the first column is aligned left, the others right, as numbers are compared by their last digit.
#[derive(Debug)]
pub struct Table {
    inner: comfy_table::Table,
    columns: usize,
}

impl Table {
    /// A table with these headings.
    pub fn new<H: Into<String>>(headings: impl IntoIterator<Item = H>) -> Table {
        let headings: Vec<String> = headings.into_iter().map(Into::into).collect();
        let mut inner = comfy_table::Table::new();
        inner.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let columns = headings.len();
        inner.set_header(headings);
        for (index, column) in inner.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            column.set_cell_alignment(if index == 0 { CellAlignment::Left } else { CellAlignment::Right });
        }
        Table { inner, columns }
    }

    /// Aligns a column of words left.
    pub fn left(mut self, column: usize) -> Table {
        self.inner.column_mut(column).expect("a column of this table").set_cell_alignment(CellAlignment::Left);
        self
    }

    /// Adds a row. Panics if it has not one cell for each heading.
    pub fn row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert_eq!(cells.len(), self.columns, "a row has a cell for each heading");
        self.inner.add_row(Row::from(cells));
    }

    /// True if it has no rows.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let text = self.inner.to_string();
        let width = text.lines().map(|line| line.trim_end().chars().count()).max().unwrap_or(0);
        for (index, line) in text.lines().enumerate() {
            writeln!(f, "{}", line.trim_end())?;
            if index == 0 {
                writeln!(f, "{}", "-".repeat(width))?;
            }
        }
        Ok(())
    }
}
