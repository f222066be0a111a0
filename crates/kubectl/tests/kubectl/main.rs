//! Tests of the plugin by its command line: with a kubectl that reads files, and with the real one and a simulated API server.

mod cluster;
mod object;
mod sessions;
