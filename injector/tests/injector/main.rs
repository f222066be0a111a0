//! The injector, as its users meet it.

mod authority;
mod client;
mod cluster;
mod environment;
mod explain;
mod serve;
mod webhook;
