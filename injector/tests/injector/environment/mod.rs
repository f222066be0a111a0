//! `environment`, as its users meet it.

mod offline;
