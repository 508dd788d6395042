//! The rules of the verdict, one for each kind of limit; [`judge`](super::judge) has their order.

pub mod device;
pub mod interference;
pub mod load;
pub mod machine;
