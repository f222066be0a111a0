//! Properties of every pod: its user's parts stay, injecting twice equals injecting once, and no input does harm.

use super::cases::{Case, Setup};
use crate::support::{keyed, object, rfc6902::apply};
use injection::patch::between;
use injection::pipeline::{OVERRIDES, PROXY, STATUS};
use injection::{Injected, InjectionOutcome};
use proptest::{
    collection::vec, option, prelude::*, sample::select, strategy::ValueTree, test_runner::TestRunner,
};
use serde_json::{Value, json};
use std::sync::LazyLock;
use testkit::scope;

fn port() -> impl Strategy<Value = Value> {
    prop_oneof![(1..65535_u16).prop_map(Value::from), Just(json!("http"))]
}

fn handler() -> impl Strategy<Value = Value> {
    prop_oneof![
        port().prop_map(|port| json!({"httpGet": {"path": "/x", "port": port}})),
        port().prop_map(|port| json!({"tcpSocket": {"port": port}})),
        Just(json!({"exec": {"command": ["true"]}})),
    ]
}

fn container(names: Vec<&'static str>) -> BoxedStrategy<Value> {
    let variable = (select(vec!["A", "B", "POD_NAME", "ISTIO_META_CLUSTER_ID"]), option::of("[a-z]{0,3}"))
        .prop_map(|(name, value)| match value {
            Some(value) => json!({"name": name, "value": value}),
            None => json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}),
        });
    let mount = select(vec!["a", "b", "istio-data"])
        .prop_map(|name| json!({"name": name, "mountPath": format!("/mnt/{name}")}));
    let hooks = (option::of(handler()), option::of(handler()))
        .prop_map(|(start, stop)| object(vec![("postStart", start), ("preStop", stop)]));
    let context = (option::of(select(vec![0, 1000, 1337, 2000])), option::of(any::<bool>())).prop_map(
        |(user, root)| {
            object(vec![("runAsUser", user.map(Value::from)), ("runAsNonRoot", root.map(Value::from))])
        },
    );
    (
        select(names),
        option::of(select(vec!["auto", "example/x:1"])),
        option::of(vec(variable, 0..3).prop_map(|items| keyed(items, "name"))),
        option::of(vec(mount, 0..3).prop_map(|items| keyed(items, "name"))),
        option::of(handler()),
        option::of(handler()),
        option::of(hooks),
        option::of(context),
        option::of(vec("[a-z]{1,3}", 0..3)),
    )
        .prop_map(|(name, image, env, mounts, ready, live, hooks, context, args)| {
            object(vec![
                ("name", Some(name.into())),
                ("image", image.map(Value::from)),
                ("ports", Some(json!([{"name": "http", "containerPort": 8080}]))),
                ("env", env),
                ("volumeMounts", mounts),
                ("readinessProbe", ready),
                ("livenessProbe", live),
                ("lifecycle", hooks),
                ("securityContext", context),
                ("args", args.map(Value::from)),
            ])
        })
        .boxed()
}

fn annotations() -> impl Strategy<Value = Value> {
    let known = vec![
        ("sidecar.istio.io/interceptionMode", "TPROXY"),
        ("sidecar.istio.io/interceptionMode", "NONE"),
        ("sidecar.istio.io/nativeSidecar", "true"),
        ("traffic.sidecar.istio.io/excludeInboundPorts", "7"),
        ("traffic.sidecar.istio.io/includeOutboundPorts", ""),
        ("sidecar.istio.io/rewriteAppHTTPProbers", "true"),
        ("prometheus.istio.io/merge-metrics", "true"),
        ("prometheus.io/port", "9090"),
        ("prometheus.io/scrape", "true"),
        ("proxy.istio.io/config", "holdApplicationUntilProxyStarts: true"),
        ("sidecar.istio.io/userVolume", r#"{"logs":{"emptyDir":{}}}"#),
        ("sidecar.istio.io/userVolumeMount", r#"[{"name":"logs","mountPath":"/var/log"}]"#),
        ("example/mine", "x"),
    ];
    vec(select(known), 0..4).prop_map(|pairs| {
        Value::Object(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    })
}

fn pod(
    running: Vec<&'static str>,
    starting: Vec<&'static str>,
    volumes: Vec<&'static str>,
) -> impl Strategy<Value = Value> {
    let volume = (select(volumes), any::<bool>()).prop_map(|(name, memory)| {
        let content = if memory { json!({"medium": "Memory"}) } else { json!({}) };
        json!({"name": name, "emptyDir": content})
    });
    (
        annotations(),
        vec(container(running), 0..3).prop_map(|mut containers| {
            containers.push(json!({"name": "app", "image": "example/app:1"}));
            keyed(containers, "name")
        }),
        option::of(vec(container(starting), 0..3).prop_map(|items| keyed(items, "name"))),
        option::of(vec(volume, 0..4).prop_map(|items| keyed(items, "name"))),
        option::of(
            vec(select(vec!["a", "ours"]).prop_map(|name| json!({"name": name})), 0..2)
                .prop_map(|items| keyed(items, "name")),
        ),
    )
        .prop_map(|(annotations, containers, starting, volumes, secrets)| {
            let meta = json!({"name": "web", "labels": {"app": "web"}, "annotations": annotations});
            let spec = object(vec![
                ("containers", Some(containers)),
                ("initContainers", starting),
                ("volumes", volumes),
                ("imagePullSecrets", secrets),
                ("hostname", Some("web".into())),
            ]);
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        })
}

pub(crate) fn plain() -> impl Strategy<Value = Value> {
    pod(vec!["a", "b", "c"], vec!["d", "e"], vec!["x", "y"])
}

pub(crate) fn entangled() -> impl Strategy<Value = Value> {
    let running = vec!["a", "b", PROXY, "logs"];
    pod(
        running,
        vec!["d", "e", "istio-init", "istio-validation"],
        vec!["x", "istio-data", "istio-envoy", "logs"],
    )
}

fn defaults() -> &'static Setup {
    static DEFAULTS: LazyLock<Setup> = LazyLock::new(Setup::plain);
    &DEFAULTS
}

fn injected(setup: &Setup, pod: &Value) -> Option<Injected> {
    match setup.inject(pod) {
        Ok(InjectionOutcome::Injected(injected)) => Some(*injected),
        Ok(InjectionOutcome::Skipped(_)) | Err(_) => None,
    }
}

const WORDS: &str = "metadata spec labels annotations containers initContainers volumes imagePullSecrets name namespace generateName \
                     ownerReferences env ports readinessProbe httpGet lifecycle preStop securityContext runAsUser volumeMounts \
                     image args sidecar.istio.io/inject $patch";

fn anything() -> impl Strategy<Value = Value> {
    let texts = vec![
        "true",
        "auto",
        "a",
        PROXY,
        "istio-init",
        "{}",
        "[]",
        "null",
        "1",
        r#"{"containers":["istio-proxy","a"],"initContainers":["istio-init"],"volumes":["a"]}"#,
        r#"{"containers":[{"name":"a"}]}"#,
        r#"{"containers":null}"#,
        "delete",
        "replace",
    ];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(texts).prop_map(Value::from),
    ];
    let key = select([WORDS.split(' ').collect(), vec![STATUS, OVERRIDES]].concat());
    let inner = scalar.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((key.clone(), inner), 0..6).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    });
    let container = inner.clone().prop_map(|mut value| {
        if let Some(fields) = value.as_object_mut() {
            let name = fields.entry("name").or_insert("a".into());
            if !name.is_string() {
                *name = "a".into();
            }
        }
        value
    });
    (inner.clone(), option::of((inner, vec(container, 0..3)))).prop_map(|(anything, pod)| match pod {
        None => anything,
        Some((meta, containers)) => json!({"metadata": meta, "spec": {"containers": containers}}),
    })
}

/// OpenTelemetry attributes name the first container; injection moves a pod's own proxy last, as in Istio.
fn without_first_name(mut pod: Value) -> Value {
    let lists = pod["spec"].as_object_mut().into_iter().flat_map(serde_json::Map::values_mut);
    for container in lists.filter_map(Value::as_array_mut).flatten() {
        if let Some(variables) = container.get_mut("env").and_then(Value::as_array_mut) {
            variables.retain(|variable| variable["name"] != "OTEL_RESOURCE_ATTRIBUTES");
        }
    }
    pod
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scope::runs(200, 50), failure_persistence: None, ..ProptestConfig::default() })]

    /// The default setup redirects no probes.
    #[test]
    fn the_users_parts_stay(pod in plain()) {
        let mut pod = pod;
        pod["metadata"]["annotations"]["sidecar.istio.io/rewriteAppHTTPProbers"] = "false".into();
        let done = injected(defaults(), &pod).expect("good annotations").pod;
        for list in ["containers", "initContainers", "volumes", "imagePullSecrets"] {
            let names = |pod: &Value| pod["spec"][list].as_array().cloned().unwrap_or_default();
            let before = names(&pod);
            let kept: Vec<Value> = names(&done).into_iter().filter(|item| before.contains(item)).collect();
            prop_assert_eq!(kept, before);
        }
        prop_assert_eq!(&done["metadata"]["labels"]["app"], "web");
        prop_assert_eq!(&done["spec"]["hostname"], &pod["spec"]["hostname"]);
        for (name, value) in pod["metadata"]["annotations"].as_object().expect("some") {
            if !name.starts_with("prometheus.io/") {
                prop_assert_eq!(&done["metadata"]["annotations"][name], value);
            }
        }
    }

    #[test]
    fn patches_only_add(pod in plain()) {
        let mut pod = pod;
        pod["metadata"]["annotations"] = json!({"a": "b"});
        let done = injected(defaults(), &pod).expect("good annotations").pod;
        for operation in serde_json::to_value(between(&pod, &done)).expect("JSON").as_array().expect("a list") {
            let emptied = operation["path"].as_str().and_then(|path| pod.pointer(path)).is_some_and(|value| *value == json!([]));
            prop_assert!(operation["op"] == "add" || emptied, "{}", operation);
        }
    }

    #[test]
    fn twice_is_once(pod in entangled(), at in any::<prop::sample::Index>()) {
        let setup = at.get(Case::all()).setup();
        if let Some(once) = injected(setup, &pod) {
            let patch = serde_json::to_value(between(&pod, &once.pod)).expect("JSON");
            prop_assert_eq!(apply(&pod, &patch), Ok(once.pod.clone()));
            let twice = injected(setup, &once.pod).expect("injected again");
            let has_own_proxy = pod["spec"]["containers"].to_string().contains(PROXY);
            let compared = |pod| if has_own_proxy { without_first_name(pod) } else { pod };
            prop_assert_eq!(compared(twice.pod), compared(once.pod));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scope::runs(2000, 400), failure_persistence: None, ..ProptestConfig::default() })]

    /// Any JSON is either injected, with a patch that produces the result, or refused.
    #[test]
    fn nothing_does_harm(sent in anything(), at in any::<prop::sample::Index>()) {
        if let Some(done) = injected(at.get(Case::all()).setup(), &sent) {
            let patch = serde_json::to_value(between(&sent, &done.pod)).expect("JSON");
            prop_assert_eq!(apply(&sent, &patch), Ok(done.pod));
        }
    }
}

/// Precondition of the properties above, which skip refused pods.
#[test]
fn most_random_pods_are_injected() {
    let mut runner = TestRunner::deterministic();
    let pods: Vec<Value> =
        (0..100).map(|_| entangled().new_tree(&mut runner).expect("a pod").current()).collect();
    let setups = Case::all().iter().map(Case::setup).cycle();
    let refused: Vec<String> = pods
        .iter()
        .zip(setups)
        .filter_map(|(pod, setup)| match setup.inject(pod) {
            Ok(InjectionOutcome::Injected(_)) => None,
            other => Some(format!("{other:?}")),
        })
        .collect();
    assert!(refused.len() < 20, "{refused:#?}");
}
