//! Tests of the plugin's command line: with a kubectl that reads files, and with the real kubectl and a simulated API server.

mod cluster;
mod object;
mod sessions;
