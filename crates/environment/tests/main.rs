//! Tests of this crate, in one program: routes, and the writes that lead to them.

mod changes;
mod laws;
mod routes;
mod scene;
