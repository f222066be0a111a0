//! What `render -f` prints for a manifest is what the plugin sets for it.

use crate::cni::plugin::runtime::{Node, container, rules};
use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, Run};
use mesh::Mesh;
use mesh::pod::{self, CaptureMethod, EXCLUDED_NAMESPACES, ManifestObject, Pod, Reading};
use mesh::settings::{Setting, Topic};
use mesh::sources::Source;
use serde_json::{Map, Value, json};
use std::{fs, path::Path, process::Command};

/// What injectors leave in a pod, for those that have not met one yet: they are previewed as if they had.
const INJECTED: (&str, &str) =
    ("sidecar.istio.io/status", r#"{"initContainers":["istio-validation"],"containers":["istio-proxy"]}"#);

#[test]
fn a_pod_gets_what_its_manifest_promises() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/pods");
    let (mut captured, mut left_alone, mut refused) = (0, 0, 0);
    for entry in fs::read_dir(folder).expect("a folder of manifests") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a manifest");
        let printed = Command::new(BINARY).args(["render", "--format", "nft", "-f"]).arg(&path).outcome();
        if !printed.succeeded() {
            refused += 1;
            continue;
        }
        let scripts: Vec<&str> = printed.stdout.split("# nft -f\n").skip(1).collect();
        let objects = pod::objects("manifest", &text).expect("it was rendered");
        assert_eq!(scripts.len(), objects.len(), "{}", path.display());
        for (object, script) in objects.iter().zip(scripts) {
            let what = format!("{} of {}", object.origin.title, path.display());
            // What other meshes have added to a pod, its annotations don't tell.
            if pod::read(object, EXCLUDED_NAMESPACES).settings.raw.mesh() != Mesh::default() {
                continue;
            }
            // Headings are comments, and so is what no rule is made of.
            if script.lines().all(|line| line.is_empty() || line.starts_with('#')) {
                left_alone += usize::from(is_left_alone(object, &what));
            } else if matches!(pod::read(object, EXCLUDED_NAMESPACES).way, CaptureMethod::InitContainer(_)) {
                // It sets the rules itself.
                assert!(is_left_alone(object, &what), "{what}");
                left_alone += 1;
            } else {
                is_captured(object, script, &what);
                captured += 1;
            }
        }
    }
    assert!(captured >= 10 && left_alone >= 4 && refused >= 3, "{captured} {left_alone} {refused}");
}

/// What the runtime hands over, and what a network configuration says of the proxy that annotations don't.
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

/// With the addresses that the pod has, where its manifest names them, else with what is taken for granted: IPv4, and IPv6
/// where it asks for both.
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

/// The plugin leaves it alone wherever annotations are enough to know.
fn is_left_alone(object: &ManifestObject, what: &str) -> bool {
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
