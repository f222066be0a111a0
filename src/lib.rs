//! `sidecar-init`: sets the rules that send a pod's traffic through its service mesh proxy.
//!
//! This file is the table of contents. Data flows one way: what was said ([`cli`]) is understood
//! ([`config`]), turned into rules ([`capture`], in the vocabulary of the crate `rules`), compared with
//! what is there and committed ([`operations`], through a [`backend`], which uses [`sys`]).

pub mod backend;
pub mod capture;
pub mod cli;
pub mod config;
pub mod explain;
pub mod lint;
pub mod operations;
pub mod sys;
pub mod trace;
