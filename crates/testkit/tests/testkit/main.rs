//! Tests of the test helpers.

mod golden;
