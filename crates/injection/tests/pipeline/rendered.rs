//! Comparison with Kubernetes' own code: a random injected pod equals `kubectl`'s merge of the pod, the template with its values
//! filled in, and the author's settings for the same containers.

use super::cases::Setup;
use super::laws::plain;
use crate::support::kubectl::{patched, without};
use injection::InjectionOutcome;
use injection::pipeline::{OVERRIDES, STATUS};
use proptest::{collection::vec, strategy::Strategy, strategy::ValueTree, test_runner::TestRunner};
use serde_json::{Map, Value, json};

const PODS: usize = 32;

/// Template with container names that the pods have too (`a`, `d`), and an additional volume and secret. It has the pods' sources
/// and handlers: a strategic merge would keep two exclusive ones.
const TEMPLATE: &str = r#"
metadata:
  labels: {mesh: "of-{{ .ObjectMeta.Name }}"}
  annotations: {example/mine: "{{ .ProxyUID }}", example/ours: "yes"}
spec:
  hostname: null
  securityContext: {fsGroup: 1337}
  initContainers:
  - name: mesh-init
    image: "{{ .Values.global.hub }}/init:1"
    args: ["-u", "{{ .ProxyUID }}"]
  - name: d
    image: template
    env: [{name: C, value: template}]
  containers:
  - name: mesh
    image: "{{ .Values.global.hub }}/proxy:1"
    env: [{name: POD, value: "{{ .ObjectMeta.Name }}"}]
    volumeMounts: [{name: mesh, mountPath: /mesh}]
  - name: a
    image: template
    args: ["{{ .ObjectMeta.Name }}"]
    env: [{name: C, value: template}, {name: D, value: template}]
    ports: [{containerPort: 8080, protocol: TCP}, {containerPort: 9090}]
    volumeMounts: [{name: mesh, mountPath: /mesh}]
  volumes: [{name: mesh, emptyDir: {}}]
  imagePullSecrets: [{name: ours}]
"#;

fn rendered(pod: &Value) -> Value {
    let name = pod["metadata"]["name"].as_str().expect("a name");
    let text = [(".ObjectMeta.Name", name), (".ProxyUID", "1337"), (".Values.global.hub", "hub.example")]
        .iter()
        .fold(TEMPLATE.to_owned(), |text, (field, value)| text.replace(&format!("{{{{ {field} }}}}"), value));
    assert!(!text.contains("{{"), "{text}");
    mesh::pod::values("template", &text).expect("YAML").remove(0)
}

/// Without empty fields: `kubectl` prints its own types.
fn shown(value: Value) -> Value {
    without(value, |value| [json!(null), json!([]), json!({}), json!("")].contains(value))
}

fn expected(pods: &[Value]) -> Vec<Value> {
    let patch = rendered(&pods[0]);
    let merged = patched(pods, &patch).into_iter().map(|merged| merged.expect("a pod"));
    let with_own = merged.zip(pods).map(|(merged, pod)| match own_words(pod, &patch) {
        spec if spec.is_empty() => merged,
        spec => patched(&[merged], &json!({"spec": spec})).remove(0).expect("a pod"),
    });
    with_own.collect()
}

fn own_words(pod: &Value, template: &Value) -> Map<String, Value> {
    let mut spec = Map::new();
    for list in ["containers", "initContainers"] {
        let names = |of: &Value| {
            template["spec"][list].as_array().into_iter().flatten().any(|one| one["name"] == of["name"])
        };
        let own = pod["spec"][list].as_array().into_iter().flatten().filter(|own| names(own));
        let own: Vec<Value> = own
            .map(|own| {
                let mut own = shown(own.clone());
                if own["image"] == "auto" {
                    own.as_object_mut().map(|fields| fields.remove("image"));
                }
                own
            })
            .collect();
        if !own.is_empty() {
            spec.insert(list.to_owned(), own.into());
        }
    }
    spec
}

#[test]
fn injection_is_pasting_and_a_strategic_merge() {
    let head =
        json!({"config": {"templates": {"sidecar": TEMPLATE}}, "values": {"global": {"hub": "hub.example"}}});
    let setup = Setup::read(head.as_object().expect("a mapping"));
    let mut runner = TestRunner::deterministic();
    let mut with_own = 0;
    let pods = vec(plain(), PODS).new_tree(&mut runner).expect("pods").current();
    for (pod, expected) in pods.iter().zip(expected(&pods)) {
        let Ok(InjectionOutcome::Injected(done)) = setup.inject(pod) else {
            panic!("{pod}: {:?}", setup.inject(pod))
        };
        let mut injected = done.pod;
        let annotations = injected["metadata"]["annotations"].as_object_mut().expect("some");
        assert!(annotations.remove(STATUS).is_some());
        with_own += usize::from(annotations.remove(OVERRIDES).is_some());
        assert_eq!(shown(injected), shown(expected), "{pod}");
    }
    assert!(with_own > PODS / 4, "{with_own} pods had containers of the template's names");
}

#[test]
fn a_status_that_lists_all_containers_is_refused() {
    let pod = |listed: &str| {
        json!({
            "metadata": {"annotations": {STATUS: json!({"containers": [listed]}).to_string()}},
            "spec": {"containers": [{"name": "web", "image": "web"}, {"name": "istio-proxy", "image": "auto"}]},
        })
    };
    let refused = Setup::plain().inject(&pod("web")).expect_err("nothing would be left").to_string();
    assert!(refused.contains("\"web\" is listed with all other containers"), "{refused}");
    assert!(matches!(Setup::plain().inject(&pod("gone")), Ok(InjectionOutcome::Injected(_))));
}

#[test]
fn templates_get_the_namespace_of_a_pod_without_one() {
    let template = "metadata: {annotations: {seen: '{{ .ObjectMeta.Namespace }}'}}\n";
    let head = json!({"config": {"templates": {"sidecar": template}}, "namespace": {"name": "shop"}});
    let setup = Setup::read(head.as_object().expect("a mapping"));
    for (metadata, seen) in [(json!({}), "shop"), (json!({"namespace": "own"}), "own")] {
        let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "web", "image": "web"}]}});
        let Ok(InjectionOutcome::Injected(done)) = setup.inject(&pod) else { panic!("{pod}") };
        assert_eq!(done.pod["metadata"]["annotations"]["seen"], seen, "{pod}");
    }
}
