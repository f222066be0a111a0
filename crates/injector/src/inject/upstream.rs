//! Flags of `istioctl kube-inject` that ask a cluster. They are refused with the replacement.

use clap::Args;

#[derive(Args)]
pub(super) struct OfCluster {
    #[arg(long = "injectConfigMapName", hide = true, value_parser = injector)]
    config_map: Option<String>,
    #[arg(long = "webhookConfig", hide = true, value_parser = injector)]
    webhook: Option<String>,
    #[arg(long = "meshConfigMapName", hide = true, value_parser = mesh)]
    mesh_config_map: Option<String>,
    #[arg(long = "operatorFileName", hide = true, value_parser = operator)]
    operator: Option<String>,
    #[arg(short = 'c', long, hide = true, value_parser = cluster)]
    kubeconfig: Option<String>,
    #[arg(long, hide = true, value_parser = cluster)]
    context: Option<String>,
    #[arg(short = 'i', long = "istioNamespace", hide = true, value_parser = cluster)]
    istio_namespace: Option<String>,
}

/// No value is right.
type Never = Result<String, String>;

fn injector(_: &str) -> Never {
    Err("no cluster is asked; write its ConfigMap istio-sidecar-injector into a file and give that with \
         --inject-config"
        .to_owned())
}

fn mesh(_: &str) -> Never {
    Err("no cluster is asked; write its ConfigMap istio into a file and give that with --mesh-config"
        .to_owned())
}

fn operator(_: &str) -> Never {
    Err("IstioOperators are not read; give values with --values and a MeshConfig with --mesh-config"
        .to_owned())
}

fn cluster(_: &str) -> Never {
    Err("no cluster is asked; write its ConfigMaps into files and give those with --inject-config and --mesh-config"
        .to_owned())
}
