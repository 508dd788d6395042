//! All tests of arrays, in one program: each file is a module of it. A file that is not named here is not run
//! (`tests/manners.rs` looks). Rejected: a program for each file, cargo's usual way. Each compiled an array of its own
//! again, which took 8 minutes of two processors for 41 of them; this one takes 5 minutes of one.

mod common;

mod areas;
mod array;
mod blocks;
mod conformance;
mod cost;
mod creation;
mod dropped;
mod force;
mod foreign;
mod geometry;
mod integrity;
mod integrity_join;
mod integrity_return;
mod join;
mod joint;
mod journal;
mod md_bad;
mod md_exchange;
mod md_force;
mod md_formats;
mod md_join;
mod md_logs;
mod md_odd;
mod md_own_log;
mod md_peer;
mod md_random;
mod md_settings;
mod open;
mod pictures;
mod ppl;
mod ranges;
mod replace;
mod resync;
mod rival;
mod room;
mod settings;
mod small;
mod standing;
mod tend;
mod unsynced;
mod worn;
mod zero;
