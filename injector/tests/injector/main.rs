//! The injector, as its users meet it.

mod authority;
mod client;
mod cluster;
mod environment;
mod inject;
mod manifests;
mod readme;
mod serve;
mod webhook;
