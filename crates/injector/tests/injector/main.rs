//! Tests of the injector through its command line and server.

mod authority;
mod callers;
mod chart;
mod check;
mod client;
mod command_line;
mod environment;
mod http2;
mod installation;
#[expect(dead_code, reason = "shared with another package, and needed here in part")]
#[path = "../../../injection/tests/support/kubectl.rs"]
mod kubectl;
mod kubectl_reads;
mod large;
mod load;
mod manifests;
mod monitoring;
mod readme;
mod serve;
mod sessions;
mod tls;
mod upgrade;
mod watch;
mod webhook;

use testkit::command_line::Program;

const PROGRAM: Program = Program { path: env!("CARGO_BIN_EXE_sidecar-injector"), name: "sidecar-injector" };
