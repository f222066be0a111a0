//! `environment`, as its users meet it.

mod envoy;
mod faults;
mod inspect;
mod offline;
mod operator;
mod program;
mod races;
mod storms;
