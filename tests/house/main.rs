//! The project's rules for code, documents and files.
//!
//! A program that links little: who changes a document or moves a file compiles and runs it in seconds.

mod ceiling;
mod code;
mod delivery;
mod documents;
mod headers;
mod layers;
mod repository;
mod tokens;
mod words;
