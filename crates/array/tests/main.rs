//! All tests of arrays, in one program: each file is a module of it. In programs of their own they were compiled 41 times over,
//! each with an array of its own disks, which took longer than to run them.

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
