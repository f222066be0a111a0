//! The injector, as its users meet it.

mod authority;
mod client;
mod cluster;
mod environment;
mod load;
mod serve;
mod tls;
mod webhook;
