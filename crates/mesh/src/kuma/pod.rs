//! Kuma pods: the form of injected pods, and annotations with settings (`traffic.kuma.io/`).

use super::settings::{Kuma, TABLE};
use crate::pod::mesh::{Argument, Form, KeySource};
use crate::pod::{GivenSettings, Pod};
use crate::sources::{Source, boolean, keys};
use crate::{mesh::KnownAnnotations, settings::Setting};

const CONFIGURATION: &str = "traffic.kuma.io/transparent-proxy-config";
const GATEWAY: &str = "kuma.io/gateway";
const PROBES: &str = "kuma.io/application-probe-proxy-port";

pub(crate) const FORM: Form = Form {
    init_containers: &["kuma-init"],
    commands: &["transparent-proxy", "kuma-init", "kumactl"],
    // The arguments name the file into which the annotation is projected.
    init_reads_annotations: true,
    implied: &[],
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
    switches: &[("enabled", "true"), ("yes", "true"), ("disabled", "false"), ("no", "false")],
    argument,
    added_to: &[],
    more,
};

fn argument(pod: &Pod, setting: Setting, text: &str, source: KeySource<'_>) -> Option<Argument> {
    match setting {
        Kuma::Config if keys::is_text(text) => {
            let name = source("").to_string();
            let keys::File { given, problems } = keys::read(TABLE, name.trim_end_matches(": "), text, source);
            Some(Argument::Settings(given, problems))
        }
        // A single file is the projected annotation, already read.
        Kuma::Config | Kuma::ConfigFile
            if text.contains(',') || !pod.annotations.contains_key(CONFIGURATION) =>
        {
            Some(Argument::Unread("is a file in the container"))
        }
        _ => None,
    }
}

/// Applies a whole configuration; turns off inbound capture for a gateway, which accepts connections itself; otherwise excludes
/// the proxy's probe port, as the injector does.
fn more(pod: &Pod, settings: &mut GivenSettings) {
    if let Some(text) = pod.annotations.get(CONFIGURATION) {
        let source = |key: &str| Source::Annotation(format!("{CONFIGURATION}: {key}"));
        let file = keys::read(TABLE, CONFIGURATION, text, source);
        for (setting, given) in file.given {
            if settings.raw.get(setting).is_none_or(|known| !known.source.is_of_pod()) {
                settings.set(setting, given.value, given.source);
            }
        }
        settings.add_problems(file.problems);
    }
    let word = |name: &str| pod.annotations.get(name).map(|text| text.trim().to_ascii_lowercase());
    let is = |name: &str, words: [&str; 3]| word(name).is_some_and(|word| words.contains(&&*word));
    if is(GATEWAY, ["enabled", "true", "yes"]) {
        settings.set(Kuma::RedirectInbound, "false", Source::Annotation(GATEWAY.to_owned()));
    }
    // Injectors before 2.9 wrote the port of virtual probes instead.
    let is_off = is("kuma.io/virtual-probes", ["disabled", "false", "no"]);
    let off = |port| if is_off { "0".to_owned() } else { port };
    let port = word(PROBES).or_else(|| word("kuma.io/virtual-probes-port").map(off));
    let port = port.unwrap_or_else(|| "9001".to_owned());
    let redirects = settings.raw.get(Kuma::RedirectInbound).and_then(|given| boolean(given.value.trim()));
    let setting = Kuma::InboundPortsExclude;
    match settings.raw.get(setting).map(|given| &given.source) {
        // With port 0, the proxy answers no probes.
        _ if port == "0" || redirects == Some(false) => {}
        None => settings.set(setting, port, Source::Preset(PROBES.to_owned())),
        // The injector has added the port to a whole configuration.
        Some(Source::Annotation(name)) if name.starts_with(CONFIGURATION) => {}
        Some(_) => settings.add_items(setting, &[&port]),
    }
}

/// Annotations that Kuma's injector reads or writes (`pkg/plugins/runtime/k8s/metadata`), except settings.
pub(crate) const ANNOTATIONS: KnownAnnotations = KnownAnnotations {
    deciding: &[
        "kuma.io/application-probe-proxy-port gateway sidecar-injected sidecar-injection virtual-probes \
            virtual-probes-port",
        "traffic.kuma.io/transparent-proxy-config",
    ],
    others: &[&[
        "k8s.kuma.io/is-headless-service service-account service-name spire-support",
        "kuma.io/ignore mesh protocol service tags workload zone direct-access-services envoy-admin-port \
            envoy-component-log-level envoy-log-level reachable-backends sidecar-drain-time \
            sidecar-proxy-concurrency transparent-proxying-reachable-services container-patches init-first \
            service-account-token-volume sidecar-env-vars wait-for-dataplane-ready transparent-proxying \
            transparent-proxying-ebpf-bpf-fs-path transparent-proxying-ebpf-cgroup-path \
            transparent-proxying-ebpf-instance-ip-env-var-name transparent-proxying-ebpf-programs-source-path \
            transparent-proxying-ebpf-tc-attach-iface transparent-proxying-inbound-v6-port",
        "traffic.kuma.io/transparent-proxy-configmap-name",
    ]],
};
