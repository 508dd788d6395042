//! What happened.
//!
//! One row per request, the same whether the request was real or modelled: `analysis` cannot tell them apart except by a
//! label. Rows are plain numbers of fixed size, so that keeping one costs a few stores, and files are written after the run.

mod row;

pub use row::{Phase, Row};
