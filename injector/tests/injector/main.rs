//! The injector, as its users meet it.

mod authority;
mod client;
mod cluster;
mod environment;
mod inject;
mod load;
mod manifests;
mod readme;
mod serve;
mod tls;
mod webhook;
