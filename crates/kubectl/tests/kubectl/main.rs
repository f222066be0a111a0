//! The plugin as its users meet it: with a kubectl that answers from files, and with the real one against a played API server.

mod cluster;
mod object;
mod sessions;
