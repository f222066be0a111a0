//! The injector, as its users meet it.

mod cluster;
mod environment;
