//! `manifests`: valid objects, matching selectors, and minimal but sufficient roles.

use super::installation::{Kubelet, create_pod};
use crate::PROGRAM;
use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration,
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};
use testkit::cluster::{Access, Cluster, grants, security, selects};
use testkit::{until, word};

pub(super) const MANIFESTS: [&str; 5] =
    ["manifests", "--image", "example/sidecar-injector:1", "--proxy-image", "example/proxy:1"];

fn printed(flags: &[&str]) -> String {
    PROGRAM.printed(&[&MANIFESTS[..], flags].concat())
}

pub(super) fn objects(flags: &[&str]) -> Vec<Value> {
    let words = [&MANIFESTS[..], flags, &["-o", "json"]].concat();
    let list = PROGRAM.run(&words).with(0).json();
    list["items"].as_array().expect("a list").clone()
}

fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

const EVERYTHING: [&str; 11] = [
    "--auto",
    "--tag",
    "prod",
    "--environment-tag",
    "--env-label",
    "virtual-env,team-env",
    "--operator",
    "--replicas",
    "3",
    "--priority-class",
    "system-cluster-critical",
];

/// Parses an object as its type and serializes it again: no field may be unknown to the type.
fn is_typed<T: Serialize + DeserializeOwned>(object: &Value) {
    let typed: T =
        serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object:#}"));
    assert_eq!(serde_json::to_value(typed).expect("JSON"), *object);
}

#[test]
fn every_object_is_of_its_type_and_has_no_other_field() {
    for flags in [&EVERYTHING[..], &[], &["--revision", "r1", "--environment-tag"]] {
        for object in objects(flags) {
            match object["kind"].as_str().expect("a kind") {
                "Namespace" => is_typed::<Namespace>(&object),
                "ServiceAccount" => is_typed::<ServiceAccount>(&object),
                "Role" => is_typed::<Role>(&object),
                "RoleBinding" => is_typed::<RoleBinding>(&object),
                "ClusterRole" => is_typed::<ClusterRole>(&object),
                "ClusterRoleBinding" => is_typed::<ClusterRoleBinding>(&object),
                "ConfigMap" => is_typed::<ConfigMap>(&object),
                "Deployment" => is_typed::<Deployment>(&object),
                "Service" => is_typed::<Service>(&object),
                "NetworkPolicy" => is_typed::<NetworkPolicy>(&object),
                "PodDisruptionBudget" => is_typed::<PodDisruptionBudget>(&object),
                "MutatingWebhookConfiguration" => is_typed::<MutatingWebhookConfiguration>(&object),
                "CustomResourceDefinition" => is_typed::<CustomResourceDefinition>(&object),
                other => panic!("an object of unknown kind: {other}"),
            }
        }
    }
}

#[test]
fn yaml_json_and_kustomize_have_equal_objects() {
    let target = objects(&EVERYTHING);
    let read: Vec<Value> = serde_saphyr::from_multiple(&printed(&EVERYTHING)).expect("YAML");
    assert_eq!(read, target);

    let cluster = Cluster::start();
    let folder = cluster.file("installation");
    for _ in 0..2 {
        printed(&[&EVERYTHING[..], &["-o", "kustomize", word(&folder)]].concat());
    }
    let (succeeded, built) = cluster.kubectl(&["kustomize", word(&folder)]);
    assert!(succeeded, "{built}");
    let built: Vec<Value> = serde_saphyr::from_multiple(&built).expect("YAML");
    let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
    let by_name = |objects: &[Value]| -> BTreeMap<String, Value> {
        objects.iter().map(|object| (name(object), object.clone())).collect()
    };
    assert_eq!(by_name(&built), by_name(&target));
    assert!(
        fs::read_dir(&folder)
            .expect("a folder")
            .flatten()
            .all(|entry| { entry.file_name().to_str().is_some_and(|name| name.ends_with(".yaml")) })
    );
}

#[test]
fn a_second_apply_by_kubectl_changes_nothing() {
    let cluster = Cluster::start();
    let file = cluster.file("all.yaml");
    fs::write(&file, printed(&EVERYTHING)).expect("written");
    for how in [&["apply"][..], &["apply", "--server-side", "--force-conflicts"]] {
        let words = [how, &["--validate=false", "-f", word(&file)]].concat();
        let (succeeded, shown) = cluster.kubectl(&words);
        assert!(succeeded, "{shown}");
        let (succeeded, shown) = cluster.kubectl(&words);
        // kubectl sends a budget's selector each time: its patch strategy is `replace`.
        let ends = [" unchanged", " serverside-applied"];
        let is_same = |line: &str| {
            line.starts_with("poddisruptionbudget") || ends.iter().any(|end| line.ends_with(end))
        };
        assert!(succeeded && shown.lines().all(is_same), "{shown}");
    }
    assert_eq!(cluster.all("deployments").len(), 2);
    assert_eq!(cluster.all("customresourcedefinitions").len(), 1);
}

fn webhooks(objects: &[Value], start: &str) -> Vec<Value> {
    let configurations = of_kind(objects, "MutatingWebhookConfiguration")
        .filter(|object| object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(start)));
    configurations.filter_map(|object| object["webhooks"].as_array()).flatten().cloned().collect()
}

/// Counts each webhook's calls over all label combinations: absent, matching or other namespace revision, namespace injection and
/// pod revision; absent, true or false pod injection.
fn called(webhooks: &[Value], revision: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let values = |matching: &str| [Value::Null, matching.into(), "other".into()];
    let labels = |pairs: [(&str, &Value); 2]| -> Value {
        let given = pairs.iter().filter(|(_, value)| !value.is_null());
        given
            .map(|(key, value)| ((*key).to_owned(), (*value).clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    for of_namespace in &values(revision) {
        for injection in &values("enabled") {
            let mut namespace = labels([("istio.io/rev", of_namespace), ("istio-injection", injection)]);
            namespace["kubernetes.io/metadata.name"] = "shop".into();
            for inject in &[Value::Null, "true".into(), "false".into()] {
                for of_pod in &values(revision) {
                    let pod = labels([("sidecar.istio.io/inject", inject), ("istio.io/rev", of_pod)]);
                    let query: Vec<&Value> = webhooks
                        .iter()
                        .filter(|webhook| {
                            selects(&webhook["namespaceSelector"], &namespace)
                                && selects(&webhook["objectSelector"], &pod)
                        })
                        .collect();
                    assert!(query.len() <= 1, "{namespace} {pod}: {query:?}");
                    for webhook in query {
                        let name = webhook["name"].as_str().expect("a name");
                        *counts
                            .entry(name.trim_end_matches(".sidecar-injector.istio.io").to_owned())
                            .or_default() += 1;
                    }
                }
            }
        }
    }
    counts
}

#[test]
fn at_most_one_printed_webhook_is_called_in_each_of_the_81_rows() {
    let counts = |pairs: &[(&str, usize)]| -> BTreeMap<String, usize> {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    };
    let four = [("rev.namespace", 6), ("rev.object", 2), ("namespace", 18), ("object", 1)];
    let of =
        |flags: &[&str], start: &str, revision: &str| called(&webhooks(&objects(flags), start), revision);
    let default = of(&[], "sidecar-injector", "default");
    assert_eq!(default, counts(&four));
    assert_eq!(default.values().sum::<usize>(), 27);
    let auto = of(&["--auto"], "sidecar-injector", "default");
    assert_eq!(auto, counts(&[&four[..], &[("auto", 1)]].concat()));
    let two = counts(&four[..2]);
    assert_eq!(of(&["--revision", "r1"], "sidecar-injector-r1", "r1"), two);
    assert_eq!(of(&["--tag", "prod"], "sidecar-injector-revision-tag-prod", "prod"), two);
    assert_eq!(of(&["--istio-names"], "istio-sidecar-injector", "default"), default);
    assert_eq!(of(&["--istio-names", "--tag", "prod"], "istio-revision-tag-prod", "prod"), two);
    let tagged = of(
        &["--revision", "r1", "--tag", "default", "--auto"],
        "sidecar-injector-revision-tag-default",
        "default",
    );
    assert_eq!(tagged, auto);
}

#[test]
fn pods_are_hardened_and_selected_by_their_own_objects() {
    let all = objects(&EVERYTHING);
    let templates: Vec<&Value> =
        of_kind(&all, "Deployment").map(|object| &object["spec"]["template"]).collect();
    assert_eq!(templates.len(), 2);
    for template in &templates {
        let (spec, container) = (&template["spec"], &template["spec"]["containers"][0]);
        assert_eq!(security::refused(spec), security::Refused::default());
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        // No webhook can answer when these pods start.
        let labels = &template["metadata"]["labels"];
        for webhook in webhooks(&all, "") {
            assert!(!selects(&webhook["objectSelector"], labels), "{labels} {webhook:#}");
        }
        let account = &spec["serviceAccountName"];
        assert!(of_kind(&all, "ServiceAccount").any(|object| object["metadata"]["name"] == *account));
    }
    for kind in ["Service", "PodDisruptionBudget", "Deployment"] {
        for object in of_kind(&all, kind) {
            let selector = &object["spec"]["selector"];
            let selector =
                if kind == "Service" { json!({ "matchLabels": selector }) } else { selector.clone() };
            let chosen =
                templates.iter().filter(|template| selects(&selector, &template["metadata"]["labels"]));
            assert_eq!(chosen.count(), 1, "{kind} {selector}");
        }
    }
}

/// A program's rules in the printed roles, with the role's kind; one resource, verb and name each.
fn granted(objects: &[Value], name: &str) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for role in objects.iter().filter(|object| object["metadata"]["name"] == name) {
        let kind = || role["kind"].as_str().expect("a kind").to_owned();
        for rule in role["rules"].as_array().into_iter().flatten() {
            let list = |field: &str| rule[field].as_array().cloned();
            let names =
                list("resourceNames").map(|names| names.into_iter().map(|name| json!([name])).collect());
            for resource in list("resources").expect("resources") {
                for verb in list("verbs").expect("verbs") {
                    for name in names.clone().unwrap_or_else(|| vec![Value::Null]) {
                        all.push((
                            kind(),
                            json!({ "apiGroups": rule["apiGroups"], "resources": [resource], "verbs": [verb],
                                "resourceNames": name }),
                        ));
                    }
                }
            }
        }
    }
    all
}

#[test]
fn an_installation_injects_and_its_roles_are_sufficient_and_minimal() {
    let cluster = Cluster::start();
    let all = objects(&["--tag", "prod", "--environment-tag"]);
    let (webhooks, others): (Vec<Value>, Vec<Value>) =
        all.iter().cloned().partition(|object| object["kind"] == "MutatingWebhookConfiguration");
    for object in others.iter().chain(&webhooks) {
        cluster.put(object);
    }
    cluster.namespace("shop", &json!({ "istio.io/rev": "prod", "environment-tag-injection": "enabled" }));
    cluster.state().requests.clear();
    let mut kubelet = Kubelet::default();
    kubelet.follow(&cluster);
    // An emptied Secret is rewritten too.
    cluster.put(&json!({ "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "sidecar-injector-ca", "namespace": "sidecar-injector" } }));
    until("it is whole again", || cluster.count("update", "secrets") > 0);

    let query = || -> BTreeSet<Access> {
        cluster.state().requests.iter().map(|(access, _)| access.clone()).collect()
    };
    let rules = granted(&all, "sidecar-injector");
    for (kind, rule) in &rules {
        let uses = |access: &Access| (kind == "Role") != access.namespace.is_empty() && grants(rule, access);
        until(&format!("{kind} {rule} is used"), || query().iter().any(uses));
    }
    for access in &query() {
        let kind = if access.namespace.is_empty() { "ClusterRole" } else { "Role" };
        let grants = |(of, rule): &(String, Value)| of == kind && grants(rule, access);
        assert!(rules.iter().any(grants), "not granted: {access:?}");
    }

    let labels = json!({ "virtual-env": "dev.red" });
    let pod = create_pod(&cluster, &json!({ "name": "web", "namespace": "shop", "labels": labels }));
    let called: Vec<String> = cluster.state().reviews.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(
        called,
        ["rev.namespace.sidecar-injector.istio.io", "environment-tag.sidecar-injector.istio.io"],
        "the tag is passed to the injected proxy"
    );
    let proxy =
        pod["spec"]["containers"].as_array().expect("a list").iter().find(|one| one["name"] == "istio-proxy");
    let shown = proxy.expect("a proxy")["env"].as_array().expect("a list").iter();
    let shown: Vec<&Value> = shown.filter(|one| one["name"] == "VIRTUAL_ENVIRONMENT_TAG").collect();
    assert_eq!(shown, [&json!({ "name": "VIRTUAL_ENVIRONMENT_TAG", "value": "dev.red" })]);
}
