//! `uninstall`: prints what is to be deleted, in order, for `kubectl delete -f -`. It needs no cluster.

use crate::installed::InstalledFlags;
use crate::output::{document, print};
use clap::{Args, ValueEnum};
use injection::manifests::removed;
use serde_json::json;
use std::{error::Error, process::ExitCode};

#[derive(Args, Debug)]
pub(crate) struct UninstallFlags {
    #[command(flatten)]
    installed: InstalledFlags,
    /// Also delete the namespace, with everything in it
    #[arg(long)]
    delete_namespace: bool,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = RemovalFormat::Yaml)]
    output: RemovalFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RemovalFormat {
    Yaml,
    Json,
}

pub(crate) fn run(flags: &UninstallFlags) -> Result<ExitCode, Box<dyn Error>> {
    let objects = removed(&flags.installed.installation(flags.delete_namespace, false, false)?);
    print(&match flags.output {
        RemovalFormat::Yaml => objects.iter().map(document).collect::<Vec<_>>().join("---\n"),
        RemovalFormat::Json => {
            format!("{:#}\n", json!({ "apiVersion": "v1", "kind": "List", "items": objects }))
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
