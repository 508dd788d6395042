//! All tests of analyses, in one program: each file is a module of it. A file that is not named here is not run
//! (`tests/manners.rs` looks). A program for each file would compile the same generic code again for each.

mod advice;
mod bend;
mod course;
mod estimate;
mod explain;
mod knee;
mod maximum;
mod occupancy;
mod rounds;
mod rounds_model;
mod summary;
mod survey;
mod verdicts;
