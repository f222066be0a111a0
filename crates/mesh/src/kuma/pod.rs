//! Pods of Kuma: how its injector leaves them, and by which annotations they speak (`traffic.kuma.io/`).

use super::{Kuma, keys};
use crate::pod::mesh::Form;
use crate::pod::{GivenSettings, Pod};
use crate::sources::{Given, Source, boolean};

/// The annotation that holds a whole configuration, as YAML.
const CONFIGURATION: &str = "traffic.kuma.io/transparent-proxy-config";

pub(crate) const FORM: Form = Form {
    init_containers: &["kuma-init"],
    commands: &["transparent-proxy", "kuma-init", "kumactl"],
    // Its arguments name the file into which the annotation is projected.
    init_reads_annotations: true,
    unsaid: &[],
    idle: &[(Kuma::DryRun, "it prints the rules and sets none (--dry-run)")],
    proxy: Some("kuma-sidecar"),
    signs: &[("kuma.io/sidecar-injection", &["enabled", "true"]), (CONFIGURATION, &[])],
    domains: &["kuma.io"],
    refusals: &[
        ("kuma.io/sidecar-injection", &["disabled", "false"]),
        ("kuma.io/sidecar-injected", &["false"]),
    ],
    injected: &[("kuma.io/sidecar-injected", &["true"])],
    presets: &[],
    added_to: &[],
    more,
};

/// A whole configuration in one annotation, into which the injector has merged the single annotations; a gateway, which
/// accepts inbound connections itself; and the port at which the proxy answers probes.
fn more(pod: &Pod, settings: &mut GivenSettings) {
    if let Some(text) = pod.annotations.get(CONFIGURATION) {
        let file =
            keys::read(CONFIGURATION, text, |key| Source::Annotation(format!("{CONFIGURATION}: {key}")));
        for (setting, given) in file.given {
            if settings.raw.get(setting).is_none_or(|known| !known.source.is_of_pod()) {
                settings.set(setting, given.value, given.source);
            }
        }
        settings.add_problems(file.problems);
    }
    let gateway = "kuma.io/gateway";
    if pod.annotations.get(gateway).is_some_and(|value| matches!(value.trim(), "enabled" | "true")) {
        settings.set(Kuma::RedirectInbound, "false", Source::Annotation(gateway.to_owned()));
    }
    exclude_probe_port(pod, settings);
}

/// Excludes the port at which the proxy answers probes, as the injector does where inbound connections are captured.
fn exclude_probe_port(pod: &Pod, settings: &mut GivenSettings) {
    let probes = "kuma.io/application-probe-proxy-port";
    let port = pod.annotations.get(probes).map_or(PROBE_PROXY, |text| text.trim());
    let redirects = settings.raw.get(Kuma::RedirectInbound).and_then(|given| boolean(given.value.trim()));
    // With port 0, the proxy answers no probes.
    if port == "0" || redirects == Some(false) {
        return;
    }
    let setting = Kuma::InboundPortsExclude;
    match settings.raw.get(setting).cloned() {
        None => settings.set(setting, port, Source::Preset(probes.to_owned())),
        // The injector has added the port to a whole configuration.
        Some(Given { source: Source::Annotation(name), .. }) if name.starts_with(CONFIGURATION) => {}
        Some(Given { value, .. }) if value.split(',').any(|item| item.trim() == port) => {}
        Some(Given { value, source }) => settings.set(setting, format!("{value},{port}"), source),
    }
}

/// Where the proxy answers the kubelet's probes in the place of the application, never captured.
const PROBE_PROXY: &str = "9001";

/// What its injector reads or writes (`pkg/plugins/runtime/k8s/metadata`), beside the annotations of the settings.
pub(crate) const ANNOTATIONS: &[&str] = &[
    "k8s.kuma.io/is-headless-service",
    "k8s.kuma.io/service-account",
    "k8s.kuma.io/service-name",
    "k8s.kuma.io/spire-support",
    "kuma.io/application-probe-proxy-port",
    "kuma.io/builtin-dns",
    "kuma.io/builtin-dns-port",
    "kuma.io/container-patches",
    "kuma.io/direct-access-services",
    "kuma.io/envoy-admin-port",
    "kuma.io/envoy-component-log-level",
    "kuma.io/envoy-log-level",
    "kuma.io/gateway",
    "kuma.io/ignore",
    "kuma.io/init-first",
    "kuma.io/mesh",
    "kuma.io/protocol",
    "kuma.io/reachable-backends",
    "kuma.io/service",
    "kuma.io/service-account-token-volume",
    "kuma.io/sidecar-drain-time",
    "kuma.io/sidecar-env-vars",
    "kuma.io/sidecar-injected",
    "kuma.io/sidecar-injection",
    "kuma.io/sidecar-proxy-concurrency",
    "kuma.io/sidecar-uid",
    "kuma.io/tags",
    "kuma.io/transparent-proxying",
    "kuma.io/transparent-proxying-ebpf",
    "kuma.io/transparent-proxying-ebpf-bpf-fs-path",
    "kuma.io/transparent-proxying-ebpf-cgroup-path",
    "kuma.io/transparent-proxying-ebpf-instance-ip-env-var-name",
    "kuma.io/transparent-proxying-ebpf-programs-source-path",
    "kuma.io/transparent-proxying-ebpf-tc-attach-iface",
    "kuma.io/transparent-proxying-inbound-port",
    "kuma.io/transparent-proxying-inbound-v6-port",
    "kuma.io/transparent-proxying-outbound-port",
    "kuma.io/transparent-proxying-reachable-services",
    "kuma.io/virtual-probes",
    "kuma.io/virtual-probes-port",
    "kuma.io/wait-for-dataplane-ready",
    "kuma.io/workload",
    "kuma.io/zone",
    "traffic.kuma.io/transparent-proxy-config",
    "traffic.kuma.io/transparent-proxy-configmap-name",
];
