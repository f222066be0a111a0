//! The injector, as its users meet it.

mod authority;
mod client;
mod cluster;
mod environment;
mod manifests;
mod serve;
mod webhook;
