//! What a cluster says of the question: its namespaces, the webhooks that inject, and what their injectors go by.

use crate::output::warn;
use crate::serve::kubelet_runs_native_sidecars;
use crate::sources::ConfigurationSources;
use crate::sources::{Maps, configuration_over};
use clap::Args;
use cluster::error::describe;
use injection::{Namespaces, explain::DeployedInjector, webhook};
use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration,
    core::v1::{ConfigMap, Namespace, Node},
};
use kube::{Api, Client, api::ListParams};
use mesh::{InputProblem, pod::holders};
use serde_json::{Value, json};
use std::{collections::BTreeSet, error::Error, path::PathBuf, time::Duration};
use tokio::runtime::Builder;

#[derive(Args)]
#[group(skip)]
pub(super) struct ExplainClusterFlags {
    /// Read namespaces, webhooks and configuration from the cluster of this kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The same, with this context of --kubeconfig or of kubectl's configuration
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// How long the API server may stay silent.
const SILENCE: Duration = Duration::from_secs(20);
/// Where Istio is, the default for a webhook that calls a URL.
const ISTIO: &str = "istio-system";

/// What identifies an injector: its Service's namespace and name, and its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InjectorIdentity {
    namespace: String,
    service: String,
    revision: String,
}

#[derive(Default)]
pub(super) struct ClusterInjectors {
    pub(super) injectors: Vec<DeployedInjector>,
    /// Whether every kubelet runs native sidecars.
    pub(super) native_sidecars: bool,
}

impl ExplainClusterFlags {
    pub(super) fn is_asked(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// The injectors of the cluster and whether its kubelets run native sidecars, with everything that is wrong with the
    /// configuration; `namespaces` gets what the cluster knows.
    pub(super) fn ask(
        &self,
        sources: &ConfigurationSources,
        manifests: &[(&str, &str)],
        namespaces: &mut Namespaces,
    ) -> (ClusterInjectors, Vec<InputProblem>) {
        let named = names(manifests, namespaces);
        let answer = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())
            .and_then(|runtime| runtime.block_on(self.fetch(sources, &named)));
        match answer {
            Ok((found, answer, problems)) => {
                found.iter().for_each(|namespace| namespaces.describe(namespace));
                (answer, problems)
            }
            Err(text) => (ClusterInjectors::default(), vec![InputProblem::of(&self.flag(), text)]),
        }
    }

    fn flag(&self) -> String {
        match (&self.context, &self.kubeconfig) {
            (Some(context), _) => format!("--context {context}"),
            (None, Some(path)) => format!("--kubeconfig {}", path.display()),
            (None, None) => "--kubeconfig".to_owned(),
        }
    }

    async fn fetch(
        &self,
        sources: &ConfigurationSources,
        named: &BTreeSet<String>,
    ) -> Result<(Vec<Value>, ClusterInjectors, Vec<InputProblem>), String> {
        let connected =
            cluster::access::user_client(self.kubeconfig.as_deref(), self.context.as_deref(), SILENCE).await;
        let (client, _) = connected.map_err(|error| describe(&error))?;
        let mut namespaces = Vec::new();
        for name in named {
            namespaces.extend(namespace(&client, name).await);
        }
        let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let listed = api.list(&ListParams::default()).await;
        let listed = listed.map_err(|error| refused("webhook configurations can't be listed", &error))?;
        let (mut injectors, mut problems) = (Vec::new(), Vec::new());
        for (identity, webhooks) in grouped(listed.items) {
            let maps = maps(&client, &identity, &self.flag()).await?;
            let has_config = maps.maps.iter().any(|(_, data)| data["config"].is_string());
            if !has_config && sources.config.is_none() {
                return Err(format!(
                    "namespace {} has no ConfigMap with the config of revision {}; name a file with --inject-config",
                    identity.namespace, identity.revision
                ));
            }
            let (configuration, found) = configuration_over(sources, &maps);
            problems.extend(found);
            injectors.push(DeployedInjector { revision: identity.revision, webhooks, configuration });
        }
        if injectors.is_empty() {
            return Err(
                "the cluster has no webhook that injects: install one, or leave this flag out to ask what \
                        Istio's usual ones would do"
                    .to_owned(),
            );
        }
        let native_sidecars = native_sidecars(&client).await;
        Ok((namespaces, ClusterInjectors { injectors, native_sidecars }, problems))
    }
}

/// The namespaces of all objects that describe pods. Problems of manifests are reported later.
fn names(manifests: &[(&str, &str)], namespaces: &Namespaces) -> BTreeSet<String> {
    let documents = manifests.iter().filter_map(|(name, text)| holders(name, text).ok()).flatten();
    let holders = documents.flat_map(|document| document.holders);
    holders.map(|holder| namespaces.of(&holder.namespace).name).collect()
}

fn refused(what: &str, error: &kube::Error) -> String {
    format!("{what}: {}", describe(error as &(dyn Error + 'static)))
}

/// A namespace as a manifest would describe it. One that can't be read is warned of.
async fn namespace(client: &Client, name: &str) -> Option<Value> {
    let api: Api<Namespace> = Api::all(client.clone());
    match api.get_opt(name).await {
        Ok(found) => {
            let metadata = found?.metadata;
            Some(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": {
                "name": name, "labels": metadata.labels, "annotations": metadata.annotations } }))
        }
        Err(error) => {
            warn(refused(&format!("namespace {name} can't be read"), &error));
            None
        }
    }
}

/// Whether every kubelet runs native sidecars, as the webhook asks for pods that have no node yet.
async fn native_sidecars(client: &Client) -> bool {
    let api: Api<Node> = Api::all(client.clone());
    match api.list(&ListParams::default()).await {
        Ok(nodes) => !nodes.items.is_empty() && nodes.items.into_iter().all(kubelet_runs_native_sidecars),
        Err(error) => {
            let refused = refused("nodes can't be listed", &error);
            warn(format!(
                "{refused}; assuming that they don't run native sidecars: --native-sidecars if they do"
            ));
            false
        }
    }
}

/// The webhooks that inject, by the injectors that they call.
fn grouped(
    configurations: Vec<MutatingWebhookConfiguration>,
) -> Vec<(InjectorIdentity, Vec<webhook::Webhook>)> {
    let mut groups: Vec<(InjectorIdentity, Vec<webhook::Webhook>)> = Vec::new();
    for configuration in configurations {
        let configuration = serde_json::to_value(configuration).unwrap_or_default();
        let webhooks = webhook::read(&configuration);
        if webhooks.is_empty() {
            continue;
        }
        for conditional in webhook::conditional(&configuration) {
            warn(format!("webhook {conditional} has matchConditions, which are not evaluated here"));
        }
        let labels = &configuration["metadata"]["labels"];
        let mut services = configuration["webhooks"].as_array().into_iter().flatten();
        let service =
            services.find_map(|webhook| webhook["clientConfig"].get("service")).unwrap_or(&Value::Null);
        let text = |value: &Value, otherwise: &str| value.as_str().unwrap_or(otherwise).to_owned();
        let identity = InjectorIdentity {
            namespace: text(&service["namespace"], ISTIO),
            service: text(&service["name"], ""),
            revision: text(&labels[webhook::REVISION], "default"),
        };
        match groups.iter_mut().find(|(known, _)| *known == identity) {
            Some((_, known)) => known.extend(webhooks),
            None => groups.push((identity, webhooks)),
        }
    }
    groups
}

/// The ConfigMaps of an injector: one of the name of its Service, as ours is, or Istio's two.
async fn maps(client: &Client, identity: &InjectorIdentity, flag: &str) -> Result<Maps, String> {
    let InjectorIdentity { namespace, service, revision } = identity;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let suffix = if revision == "default" { String::new() } else { format!("-{revision}") };
    let (config, mesh) = (format!("istio-sidecar-injector{suffix}"), format!("istio{suffix}"));
    let mut maps = Maps { name: flag.to_owned(), maps: Vec::new() };
    for name in [service, &config, &mesh] {
        if name.is_empty() {
            continue;
        }
        let found = api.get_opt(name).await;
        let found =
            found.map_err(|error| refused(&format!("ConfigMap {namespace}/{name} can't be read"), &error))?;
        let data = found.and_then(|map| map.data).unwrap_or_default();
        let is_ours = name == service && data.contains_key("config");
        if is_ours || (name != service && !data.is_empty()) {
            maps.maps.push((format!("{namespace}/{name}"), json!(data)));
        }
        if is_ours {
            break;
        }
    }
    Ok(maps)
}
