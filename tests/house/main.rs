//! The project's rules for code, documents and files, in a program with few dependencies, so changed documents are checked in
//! seconds. `readme.rs` needs root and belongs to `tests/privileged.rs`.

mod ceiling;
mod code;
mod delivery;
mod documents;
mod headers;
mod layers;
mod repository;
mod tokens;
mod words;
