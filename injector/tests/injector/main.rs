//! The injector, as its users meet it.

mod authority;
mod client;
mod cluster;
mod environment;
mod inject;
mod serve;
mod webhook;
