//! An installation that is known by its names: what `check` and `uninstall` need of the flags of `manifests`.

use crate::manifests::NAMESPACE;
use clap::Args;
use injection::manifests::{InstallOptions, Installation};
use mesh::Problems;

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

/// Images are no part of names.
const ANY_IMAGE: &str = "any/image:1";

impl InstalledFlags {
    /// The installation with these names.
    pub(crate) fn installation(
        &self,
        names_namespace: bool,
        has_environment_tag: bool,
        has_operator: bool,
    ) -> Result<Installation, Problems> {
        Installation::read(&InstallOptions {
            namespace: &self.namespace,
            image: Some(ANY_IMAGE),
            revision: &self.revision,
            tags: &self.tags,
            auto: false,
            replicas: 1,
            environment_labels: has_environment_tag.then_some("virtual-env"),
            operator: has_operator,
            allow_hosts: &[],
            proxy_image: Some(ANY_IMAGE),
            init_image: None,
            priority_class: None,
            network_policy: true,
            names_namespace,
            istio_names: self.istio_names,
        })
    }
}
