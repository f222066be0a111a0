//! `serve`.

pub(crate) mod tls;

use clap::Args;
use std::{error::Error, process::ExitCode};

/// Its flags.
#[derive(Args)]
pub(crate) struct Flags {}

pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Box<dyn Error>> {
    let _ = flags;
    Err("not built yet".into())
}
