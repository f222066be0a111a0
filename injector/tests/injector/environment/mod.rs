//! `environment`, as its users meet it.

mod faults;
mod inspect;
mod offline;
mod operator;
mod program;
