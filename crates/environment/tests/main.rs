//! Tests of this crate in one program.

mod changes;
mod laws;
mod routes;
mod scene;
