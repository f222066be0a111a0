//! `uninstall`: prints the objects to delete, in order, for `kubectl delete -f -`. It needs no cluster.

use crate::output::{self, ObjectFormat, print};
use clap::Args;
use injection::manifests::{Installation, NAMESPACE, removed};
use mesh::Problems;
use serde_json::json;
use std::{error::Error, process::ExitCode};

/// Flags of `manifests` that decide about names of an installation, for `check` and `uninstall`.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct InstalledFlags {
    /// Namespace of the injector
    #[arg(long, value_name = "NAME", default_value = NAMESPACE)]
    pub(crate) namespace: String,
    /// Revision of the injector
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) revision: String,
    /// Another name of the revision, as for manifests; repeatable
    #[arg(long = "tag", value_name = "NAME")]
    pub(crate) tags: Vec<String>,
    /// The webhook configurations have istiod's names, as with manifests --istio-names
    #[arg(long)]
    pub(crate) istio_names: bool,
}

/// Placeholder: names don't depend on images.
const ANY_IMAGE: &str = "any/image:1";

impl InstalledFlags {
    pub(crate) fn installation(
        &self,
        names_namespace: bool,
        has_environment_tag: bool,
        has_operator: bool,
    ) -> Result<Installation, Problems> {
        let values = json!({
            "image": ANY_IMAGE, "proxyImage": ANY_IMAGE, "revision": self.revision, "tags": self.tags,
            "environmentLabels": Vec::from_iter(has_environment_tag.then_some("virtual-env")),
            "operator": { "enabled": has_operator }, "istioNames": self.istio_names,
        });
        Installation::read(&self.namespace, names_namespace, values)
    }
}

#[derive(Args, Debug)]
pub(crate) struct UninstallFlags {
    #[command(flatten)]
    installed: InstalledFlags,
    /// Also delete the namespace, with everything in it
    #[arg(long)]
    delete_namespace: bool,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = ObjectFormat::Yaml)]
    output: ObjectFormat,
}

pub(crate) fn run(flags: &UninstallFlags) -> Result<ExitCode, Box<dyn Error>> {
    let objects = removed(&flags.installed.installation(flags.delete_namespace, false, false)?);
    print(&output::objects(&objects, flags.output))?;
    Ok(ExitCode::SUCCESS)
}
