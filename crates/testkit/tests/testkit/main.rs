//! What tests share is tried itself.

mod golden;
