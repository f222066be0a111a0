//! The injector, as its users meet it.

mod client;
mod cluster;
mod serve;
mod webhook;
