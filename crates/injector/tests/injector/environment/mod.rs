//! `environment`, tested through its command line.

mod envoy;
mod faults;
mod inspect;
mod operator;
mod ownership;
mod program;
mod races;
mod roles;
mod storms;
