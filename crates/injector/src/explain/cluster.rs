//! Facts from a cluster: namespaces, injection webhooks, and their injectors' configuration.

use crate::api::{ApiServer, CONFIGURATIONS};
use crate::output::warn;
use crate::sources::{ConfigurationSources, SourceTexts, configuration};
use clap::Args;
use cluster::error::describe;
use injection::webhook::{DeployedInjector, InjectorIdentity, by_injector};
use injection::{Namespaces, offline::Surroundings, review::runs_native_sidecars};
use mesh::{InputProblem, pod::KubernetesObject};
use serde_json::Value;
use std::{collections::BTreeSet, path::PathBuf, time::Duration};

#[derive(Args)]
#[group(skip)]
pub(super) struct ExplainClusterFlags {
    /// Read namespaces, webhooks and configuration from this kubeconfig's cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Read from this context's cluster, in --kubeconfig or kubectl's configuration
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

const SILENCE: Duration = Duration::from_secs(20);

impl ExplainClusterFlags {
    pub(super) fn is_asked(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    pub(super) fn flag(&self) -> String {
        match (&self.context, &self.kubeconfig) {
            (Some(context), _) => format!("--context {context}"),
            (None, Some(path)) => format!("--kubeconfig {}", path.display()),
            (None, None) => "--kubeconfig".to_owned(),
        }
    }

    /// Returns the cluster's injectors; adds cluster facts to `around`, and configuration problems to `problems`.
    pub(super) async fn ask(
        &self,
        sources: &ConfigurationSources,
        manifests: &[(&str, &str)],
        around: &mut Surroundings,
        problems: &mut Vec<InputProblem>,
    ) -> Result<Vec<DeployedInjector>, String> {
        let connected =
            cluster::access::user_client(self.kubeconfig.as_deref(), self.context.as_deref(), SILENCE).await;
        let (client, _) = connected.map_err(|error| describe(&error))?;
        let api = ApiServer(client);
        for name in names(manifests, &around.namespaces) {
            match api.get(&format!("/api/v1/namespaces/{name}")).await {
                Ok(found) => found.iter().for_each(|namespace| around.namespaces.describe(namespace)),
                Err(error) => warn(format!("namespace {name} can't be read: {}", describe(&error))),
            }
        }
        let listed = api.list(CONFIGURATIONS).await;
        let listed = listed
            .map_err(|error| format!("webhook configurations can't be listed: {}", describe(&error)))?;
        let mut injectors = Vec::new();
        for (identity, webhooks) in by_injector(&listed) {
            let texts = texts(&api, &identity, self.flag()).await?;
            if !texts.has("config") && sources.config.is_none() {
                return Err(format!(
                    "namespace {} has no ConfigMap with the config of revision {}; give a file with --inject-config",
                    identity.namespace, identity.revision
                ));
            }
            let (configuration, found) = configuration(sources, Some(&texts), None);
            problems.extend(found);
            injectors.push(DeployedInjector { revision: identity.revision, webhooks, configuration });
        }
        if injectors.is_empty() {
            return Err(
                "the cluster has no webhook that injects: install one, or omit this flag to assume Istio's default webhooks"
                    .to_owned(),
            );
        }
        around.native_sidecars |= native_sidecars(&api).await;
        Ok(injectors)
    }
}

/// Namespaces of all objects with a pod template. Problems of manifests are reported later.
fn names(manifests: &[(&str, &str)], namespaces: &Namespaces) -> BTreeSet<String> {
    let objects = manifests.iter().filter_map(|(name, text)| KubernetesObject::all(name, text).ok());
    let holders = objects.flatten().filter(|object| object.template().is_some());
    holders.map(|holder| namespaces.of(holder.meta("namespace")).name).collect()
}

/// True if all kubelets support native sidecars: the webhook's condition for unscheduled pods.
async fn native_sidecars(api: &ApiServer) -> bool {
    let runs = |node: &Value| {
        let version = node["status"]["nodeInfo"]["kubeletVersion"].as_str().unwrap_or_default();
        runs_native_sidecars(version).unwrap_or(false)
    };
    match api.list("/api/v1/nodes").await {
        Ok(nodes) => !nodes.is_empty() && nodes.iter().all(runs),
        Err(error) => {
            warn(format!(
                "nodes can't be listed: {}; assuming no native sidecars (see --native-sidecars)",
                describe(&error)
            ));
            false
        }
    }
}

/// An injector's configuration: one ConfigMap named like its Service (ours), or Istio's two.
async fn texts(api: &ApiServer, identity: &InjectorIdentity, flag: String) -> Result<SourceTexts, String> {
    let InjectorIdentity { namespace, service, .. } = identity;
    let mut texts = SourceTexts::new(flag);
    for name in identity.config_maps().chain([identity.mesh_map()]) {
        let found = api.get(&format!("/api/v1/namespaces/{namespace}/configmaps/{name}")).await;
        let found = found
            .map_err(|error| format!("ConfigMap {namespace}/{name} can't be read: {}", describe(&error)))?;
        let data = found.map(|mut map| map["data"].take()).unwrap_or_default();
        let is_ours = name == *service;
        // Another program's ConfigMap may share the Service's name.
        if !is_ours || data["config"].is_string() {
            texts.add_map(&format!("{namespace}/{name}"), &data);
            if is_ours {
                break;
            }
        }
    }
    Ok(texts)
}
