//! The injector, as its users meet it.

mod authority;
mod callers;
mod check;
mod check_templates;
mod client;
mod command_line;
mod environment;
mod explain;
mod explain_cluster;
mod http2;
mod inject;
mod installation;
mod large;
mod lint;
mod load;
mod manifests;
mod manifests_report;
mod monitoring;
mod readme;
mod serve;
mod tls;
mod upgrade;
mod watch;
mod webhook;
