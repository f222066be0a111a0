//! Strategic merge equals `kubectl patch --type=strategic`, for random pods and patches.

use crate::support::{
    keyed,
    kubectl::{patched, without},
    object,
};
use injection::merge::{SchemaKind, merge};
use mesh::pod::values;
use proptest::{
    collection::vec,
    option,
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Map, Value, json};
use testkit::scope;

const PODS: usize = 10;

fn name() -> impl proptest::strategy::Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "d", "e"]).prop_map(str::to_owned)
}

/// A value or, in a patch, possibly a null that removes it.
fn word(nulls: bool) -> BoxedStrategy<Value> {
    let words = name().prop_map(Value::from);
    if nulls { prop_oneof![4 => words, 1 => Just(Value::Null)].boxed() } else { words.boxed() }
}

fn directive(of_patch: bool) -> BoxedStrategy<Option<Value>> {
    if of_patch {
        prop_oneof![24 => Just(None), 1 => Just(Some(json!("delete"))), 1 => Just(Some(json!("replace")))]
            .boxed()
    } else {
        Just(None).boxed()
    }
}

fn env(of_patch: bool) -> BoxedStrategy<Value> {
    let item =
        (name(), option::of(word(of_patch)), directive(of_patch)).prop_map(|(name, value, directive)| {
            object(vec![("name", Some(name.into())), ("value", value), ("$patch", directive)])
        });
    vec(item, 0..4).prop_map(|items| keyed(items, "name")).boxed()
}

fn container(of_patch: bool) -> BoxedStrategy<Value> {
    let port = (80..84_u16, option::of(word(of_patch)))
        .prop_map(|(port, name)| object(vec![("containerPort", Some(port.into())), ("name", name)]));
    let mount = (name(), option::of(word(of_patch))).prop_map(|(path, name)| {
        object(vec![("mountPath", Some(format!("/{path}").into())), ("name", name)])
    });
    let security = (option::of(word(of_patch)), option::of(any::<bool>())).prop_map(|(level, root)| {
        object(vec![("procMount", level), ("runAsNonRoot", root.map(Value::from))])
    });
    (
        name(),
        option::of(word(of_patch)),
        option::of(env(of_patch)),
        option::of(vec(port, 0..3).prop_map(|items| keyed(items, "containerPort"))),
        option::of(vec(mount, 0..3).prop_map(|items| keyed(items, "mountPath"))),
        option::of(vec(word(false), 0..3).prop_map(Value::from)),
        option::of(security),
        directive(of_patch),
    )
        .prop_map(|(name, image, env, ports, mounts, args, security, directive)| {
            object(vec![
                ("name", Some(name.into())),
                ("image", image),
                ("env", env),
                ("ports", ports),
                ("volumeMounts", mounts),
                ("args", args),
                ("securityContext", security),
                ("$patch", directive),
            ])
        })
        .boxed()
}

fn pod(of_patch: bool) -> BoxedStrategy<Value> {
    let containers =
        move || option::of(vec(container(of_patch), 0..4).prop_map(|items| keyed(items, "name")));
    let volume =
        (name(), option::of(word(false)), directive(of_patch)).prop_map(|(name, medium, directive)| {
            let source = object(vec![("medium", medium)]);
            object(vec![("name", Some(name.into())), ("emptyDir", Some(source)), ("$patch", directive)])
        });
    let aliases = (0..3_u8, vec(word(false), 0..2))
        .prop_map(|(ip, names)| json!({"ip": format!("10.0.0.{ip}"), "hostnames": names}));
    let tolerations = vec(word(false).prop_map(|key| json!({"key": key})), 0..3).prop_map(Value::from);
    let meta = (option::of(vec((name(), word(of_patch)), 0..3)), option::of(vec(name(), 0..3))).prop_map(
        |(labels, finalizers)| {
            let labels = labels.map(|labels| Value::Object(labels.into_iter().collect()));
            let finalizers = finalizers.map(|mut names| {
                names.sort();
                names.dedup();
                Value::from(names)
            });
            object(vec![("name", Some("pod".into())), ("labels", labels), ("finalizers", finalizers)])
        },
    );
    let spec = (
        containers(),
        containers(),
        option::of(vec(volume, 0..4).prop_map(|items| keyed(items, "name"))),
        option::of(vec(aliases, 0..3).prop_map(|items| keyed(items, "ip"))),
        option::of(tolerations),
        option::of(word(of_patch)),
    )
        .prop_map(|(containers, init, volumes, aliases, tolerations, account)| {
            object(vec![
                ("containers", containers),
                ("initContainers", init),
                ("volumes", volumes),
                ("hostAliases", aliases),
                ("tolerations", tolerations),
                ("serviceAccountName", account),
            ])
        });
    (meta, spec)
        .prop_map(move |(meta, spec)| {
            let mut pod = json!({"metadata": meta, "spec": spec});
            if !of_patch {
                pod["apiVersion"] = "v1".into();
                pod["kind"] = "Pod".into();
            }
            pod
        })
        .boxed()
}

fn is_empty(value: &Value) -> bool {
    value.is_null()
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(Map::is_empty)
}

#[test]
fn random_pairs_merge_as_kubectl_merges_them() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (pods, patches) = (vec(pod(false), PODS), pod(true));
    let (mut compared, count) = (0, scope::runs(500, 32));
    for _ in 0..count {
        let pods = pods.new_tree(&mut runner).expect("pods").current();
        let patch = patches.new_tree(&mut runner).expect("a patch").current();
        compared += compare(&pods, &patch);
    }
    assert!(compared > count * PODS * 3 / 4, "{compared} of {} pairs were merged", count * PODS);
}

/// Number of pods that both implementations merge, with equal results.
fn compare(pods: &[Value], patch: &Value) -> usize {
    let mut compared = 0;
    for (pod, theirs) in pods.iter().zip(patched(pods, patch)) {
        let ours = merge(pod.clone(), patch, SchemaKind::Pod);
        assert_eq!(ours.is_ok(), theirs.is_some(), "{pod}\n{patch}\n{ours:?}\n{theirs:?}");
        let (Ok(ours), Some(theirs)) = (ours, theirs) else { continue };
        // kubectl keeps directives in new objects whose API types lack a field for them; here they apply.
        if !theirs.to_string().contains("$patch") {
            assert_eq!(without(ours, is_empty), without(theirs, is_empty), "{pod}\n{patch}");
            compared += 1;
        }
    }
    compared
}

/// Object and list directives in the cases of `merge.txt`: a patch of the first section's pod, and kubectl's result.
#[test]
fn directives_match_kubectl() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/merge.txt");
    let read = |text: &str| values("case", text).expect("YAML").remove(0);
    let pod = read(&testkit::sections::read(file).remove(0).1);
    testkit::sections::answers(file, ", merged", |patch| {
        let patch = read(patch);
        let merged = merge(pod.clone(), &patch, SchemaKind::Pod);
        // Directives of kubectl that templates do not need.
        let untaken = ["$retainKeys", "$deleteFromPrimitiveList", "$setElementOrder"];
        let text = patch.to_string();
        if untaken.iter().any(|directive| text.contains(directive)) {
            assert!(merged.is_err(), "{patch}");
        } else {
            let count = usize::from(merged.is_ok());
            assert_eq!(compare(std::slice::from_ref(&pod), &patch), count, "{patch}");
        }
        merged.map_or_else(
            |error| format!("{error}\n"),
            |pod| format!("{}\n{}\n", pod["metadata"], pod["spec"]),
        )
    });
    let error = merge(json!([]), &json!({}), SchemaKind::Pod).expect_err("no object");
    assert_eq!((error.at.as_str(), error.what.as_str()), ("", "both must be objects"));
}
