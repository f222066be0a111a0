//! `render -f` prints the rules that the plugin sets for the manifest.

use crate::cni::plugin::runtime::{Node, container, rules};
use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, Run};
use mesh::Mesh;
use mesh::pod::{self, CaptureMethod, EXCLUDED_NAMESPACES, ManifestObject, Pod, Reading};
use mesh::settings::{Setting, Topic};
use mesh::sources::Source;
use serde_json::{Map, Value, json};
use std::{fs, path::Path, process::Command};

/// Injectors' annotation, added to pods that lack it: previews assume injection.
const INJECTED: (&str, &str) =
    ("sidecar.istio.io/status", r#"{"initContainers":["istio-validation"],"containers":["istio-proxy"]}"#);

#[test]
fn plugin_sets_the_rules_of_the_preview() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/pods");
    let (mut captured, mut skipped, mut refused) = (0, 0, 0);
    for entry in fs::read_dir(folder).expect("a folder of manifests") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a manifest");
        let printed = Command::new(BINARY).args(["render", "--output", "nft", "-f"]).arg(&path).outcome();
        if !printed.succeeded() {
            refused += 1;
            continue;
        }
        let scripts: Vec<&str> = printed.stdout.split("# nft -f\n").skip(1).collect();
        let objects = pod::objects("manifest", &text).expect("it was rendered");
        assert_eq!(scripts.len(), objects.len(), "{}", path.display());
        for (object, script) in objects.iter().zip(scripts) {
            let what = format!("{} of {}", object.origin.title, path.display());
            // Annotations lack settings that other meshes add to a pod.
            if pod::read(object, EXCLUDED_NAMESPACES).settings.raw.mesh() != Mesh::default() {
                continue;
            }
            // A preview without rules has only comments.
            if script.lines().all(|line| line.is_empty() || line.starts_with('#')) {
                skipped += usize::from(is_skipped(object, &what));
            } else if matches!(pod::read(object, EXCLUDED_NAMESPACES).way, CaptureMethod::InitContainer(_)) {
                assert!(is_skipped(object, &what), "{what}");
                skipped += 1;
            } else {
                is_captured(object, script, &what);
                captured += 1;
            }
        }
    }
    assert!(captured >= 10 && skipped >= 4 && refused >= 3, "{captured} {skipped} {refused}");
}

/// A network configuration with the runtime's annotations, and the proxy settings that annotations lack.
fn configuration(node: &Node, object: &ManifestObject) -> Value {
    let mut annotations = object.pod.annotations.clone();
    annotations.entry(INJECTED.0.to_owned()).or_insert(INJECTED.1.to_owned());
    let Reading { settings, .. } = pod::read(object, EXCLUDED_NAMESPACES);
    let of_proxy = settings.raw.iter().filter(|(setting, given)| {
        let is_known = matches!(given.source, Source::Annotation(_) | Source::Preset(_));
        setting.row().topic == Topic::Capture && !is_known
    });
    let defaults: Map<String, Value> =
        of_proxy.map(|(setting, given)| (setting.row().name().to_owned(), json!(given.value))).collect();
    node.configuration(&json!({
        "defaults": defaults,
        "runtimeConfig": {"io.kubernetes.cri.pod-annotations": annotations},
    }))
}

fn is_captured(object: &ManifestObject, script: &str, what: &str) {
    let (node, promised, pod) = (Node::new(), Namespace::new(), namespace(object));
    promised.load(script);
    node.does("ADD", &configuration(&node, object), &pod.path());
    assert_eq!(rules(&pod), rules(&promised), "{what}");
}

/// A namespace with the pod's addresses if its manifest has them, otherwise with the assumed ones: IPv4, and IPv6 for dual-stack
/// pods.
fn namespace(object: &ManifestObject) -> Namespace {
    let Reading { settings, .. } = pod::read(object, EXCLUDED_NAMESPACES);
    let Some(addresses) = settings.raw.get(Setting::PodIps) else {
        let namespace = container();
        if settings.raw.is_on(Setting::DualStack) {
            namespace.ip("addr add 2001:db8::1/128 dev lo nodad");
        }
        return namespace;
    };
    let namespace = Namespace::new();
    for address in addresses.value.split(',') {
        let length = if address.contains(':') { 128 } else { 32 };
        namespace.ip(&format!("addr add {address}/{length} dev lo"));
    }
    namespace
}

/// Checks and returns true if annotations alone make the plugin skip the pod.
fn is_skipped(object: &ManifestObject, what: &str) -> bool {
    let Pod { name, namespace, annotations, .. } = &object.pod;
    let known = Pod::annotated(name, namespace, annotations.clone());
    let is_known = pod::skip(&known, EXCLUDED_NAMESPACES).is_some();
    if is_known {
        let (node, pod) = (Node::new(), container());
        let mut configuration = configuration(&node, object);
        configuration["runtimeConfig"]["io.kubernetes.cri.pod-annotations"] = json!(annotations);
        node.does("ADD", &configuration, &pod.path());
        assert_eq!(rules(&pod), "", "{what}");
    }
    is_known
}
