//! What tests share is tried itself.

mod cluster;
mod golden;
