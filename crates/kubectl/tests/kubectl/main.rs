//! The plugin as its users meet it: with a kubectl that answers from files, and with the real one against a played API server.

mod answers;
mod cluster;
mod command_line;
mod failures;
mod fake;
mod kernel;
mod lint;
mod played;
mod services;
