//! All tests of modelled machines, in one program: each file is a module of it. A file that is not named here is not
//! run (`tests/manners.rs` looks). A program for each file would compile the same generic code again for each.

mod common;
mod loops;

mod buffer;
mod controller;
mod disk_array;
mod entry;
mod geometry;
mod import;
mod library;
mod packet;
mod properties;
mod queue;
mod raid;
mod raid_i;
mod server;
mod standalone;
mod steps;
mod string_drive;
mod tree;
mod validation;
mod vax;
