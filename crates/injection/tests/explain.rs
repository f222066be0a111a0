//! Why pods are injected or not, as it is told.

use diagnose::plain;
use injection::configuration::{ConfigurationText, Texts};
use injection::explain::{
    DeployedInjector, Explained, InjectionQuestion, InjectionVerdict, explain, injected, text,
};
use injection::{Configuration, Namespaces};
use std::collections::BTreeMap;

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, LABELS}\nspec: {containers: [{name: web}]}\n";

fn ask(manifest: &str, labels: Option<&[(&str, &str)]>, revision: &str, everywhere: bool) -> Vec<Explained> {
    let labels = labels.map(|labels| {
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
    });
    let question = InjectionQuestion {
        manifests: &[("pod.yaml", manifest)],
        namespaces: Namespaces::new("default", labels, BTreeMap::new()),
        native_sidecars: false,
    };
    explain(&question, &[DeployedInjector::installed(revision, everywhere, Configuration::default())])
        .unwrap_or_else(|problems| panic!("{problems}"))
}

/// A pod with these labels, in a namespace with those: how it ends, the webhook that is called, the first remedy.
fn check(pod: &str, namespace: &[(&str, &str)], expected: (InjectionVerdict, Option<&str>, Option<&str>)) {
    let manifest = POD.replace("LABELS", pod);
    let found = ask(&manifest, Some(namespace), "default", false).remove(0);
    let called: Vec<&str> =
        found.webhooks.iter().filter(|query| query.called).map(|query| query.name.as_str()).collect();
    let remedy = found.remedies.first().map(String::as_str);
    assert_eq!((found.verdict, called.first().copied(), remedy), expected, "{pod} {namespace:?}");
    assert!(called.len() <= 1);
}

#[test]
fn who_is_called_and_what_would_change_it() {
    use InjectionVerdict::{Injected, NotCalled, Skipped};
    let enabled = &[("istio-injection", "enabled")];
    check("labels: {}", enabled, (Injected, Some("namespace"), None));
    check("labels: {}", &[("istio.io/rev", "default")], (Injected, Some("rev.namespace"), None));
    check("labels: {istio.io/rev: default}", &[], (Injected, Some("rev.object"), None));
    check("labels: {sidecar.istio.io/inject: 'true'}", &[], (Injected, Some("object"), None));
    let label = "kubectl label namespace shop istio.io/rev=default";
    check("labels: {}", &[], (NotCalled, None, Some(label)));
    let take = "take the label sidecar.istio.io/inject from the pod";
    check("labels: {sidecar.istio.io/inject: 'false'}", enabled, (NotCalled, None, Some(take)));
    let given = "take the annotation sidecar.istio.io/inject from the pod";
    check(
        "annotations: {sidecar.istio.io/inject: 'false'}",
        enabled,
        (Skipped, Some("namespace"), Some(given)),
    );
    let other = "namespace shop asks for revision blue: explain it with --revision blue";
    check("labels: {}", &[("istio.io/rev", "blue")], (NotCalled, None, Some(other)));
}

#[test]
fn a_named_revision_and_the_webhook_for_everybody() {
    let manifest = POD.replace("LABELS", "labels: {}");
    let blue = ask(&manifest, Some(&[("istio.io/rev", "blue")]), "blue", false).remove(0);
    assert_eq!(blue.verdict, InjectionVerdict::Injected);
    let auto = ask(&manifest, Some(&[]), "default", true).remove(0);
    assert_eq!(
        auto.webhooks.iter().find(|query| query.called).map(|query| query.name.as_str()),
        Some("auto")
    );
}

#[test]
fn explanations_name_their_reasons() {
    let manifest = POD.replace("LABELS", "labels: {}");
    let shown = plain(&text(&ask(&manifest, None, "default", false)));
    let expected = "\
Pod shop/web: not injected, because no webhook of revision default is called for it
  webhook     rev.namespace is not: the namespace has no label istio.io/rev; it has to be \"default\"
  webhook     rev.object is not: the pod has no label istio.io/rev; it has to be \"default\"
  webhook     namespace is not: the namespace has no label istio-injection; it has to be \"enabled\"
  webhook     object is not: the pod has no label sidecar.istio.io/inject; it has to be \"true\"
  decision    if one were called, it would be injected: the pod says nothing, so the policy decides
  note        the labels of namespace shop are unknown; set them with --namespace-labels
  to change   kubectl label namespace shop istio.io/rev=default
  or          give the pod the label istio.io/rev: \"default\"
  or          kubectl label namespace shop istio-injection=enabled
  or          give the pod the label sidecar.istio.io/inject: \"true\"
";
    assert_eq!(shown, expected);
    let host = manifest.replace("spec: {", "spec: {hostNetwork: true, ");
    let shown = plain(&text(&ask(&host, None, "default", false)));
    assert!(shown.contains("to change   take hostNetwork from the pod"), "{shown}");
    assert!(!shown.contains("kubectl"), "{shown}");
}

#[test]
fn namespaces_of_the_manifest_count_and_every_object_is_explained() {
    let manifest = "\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {istio-injection: enabled}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: shop}
  spec: {template: {spec: {containers: [{name: web}]}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: bad, namespace: shop}
  spec: {template: {metadata: {annotations: {sidecar.istio.io/interceptionMode: MAGIC}}, spec: {containers: [{name: web}]}}}
- {apiVersion: v1, kind: Pod, metadata: {name: own}, spec: {containers: [{name: web}]}}
";
    let found = ask(manifest, None, "default", false);
    let shown: Vec<(&str, InjectionVerdict)> =
        found.iter().map(|one| (one.title.as_str(), one.verdict)).collect();
    let expected = [
        ("Deployment shop/web", InjectionVerdict::Injected),
        ("Deployment shop/bad", InjectionVerdict::Refused),
        ("Pod default/own", InjectionVerdict::NotCalled),
    ];
    assert_eq!(shown, expected);
    let init = found[0].init.as_ref().expect("an init container");
    assert_eq!((init.name.as_str(), init.arguments[0].as_str()), ("istio-init", "istio-iptables"));
    assert_eq!(found[0].added[0].name, "istio-proxy");
    let object = found[0].injected.as_ref().expect("the object, injected");
    assert_eq!(object["kind"], "Deployment");
    assert_eq!(object["spec"]["template"]["spec"]["initContainers"][0]["name"], "istio-init");
    assert!(found[1].problems[0].contains("MAGIC"), "{:?}", found[1].problems);
    assert!(
        found[2].assumptions.iter().any(|shown| shown.contains("--namespace")),
        "{:?}",
        found[2].assumptions
    );
}

#[test]
fn problems_are_reported_where_no_webhook_is_called() {
    let manifest = POD.replace("LABELS", "annotations: {sidecar.istio.io/interceptionMode: HALF}");
    let found = ask(&manifest, None, "default", false).remove(0);
    assert_eq!((found.verdict, found.problems.len()), (InjectionVerdict::NotCalled, 1));
    let shown = plain(&text(&[found]));
    assert!(shown.contains("  problem     sidecar.istio.io/interceptionMode: \"HALF\""), "{shown}");
    assert!(
        shown.contains("if one were called, it would be refused: it has the problems above\n"),
        "{shown}"
    );
}

/// In a namespace with this label, with these values: how it ends, and what is told of it.
fn in_standard(standard: &str, values: &str) -> (InjectionVerdict, String) {
    let texts =
        Texts { values: Some(ConfigurationText { name: "values", text: values }), ..Texts::default() };
    let (configuration, problems) = Configuration::read_in_part(&texts);
    assert_eq!(problems, []);
    let labels = [("istio-injection", "enabled"), ("pod-security.kubernetes.io/enforce", standard)];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let question = InjectionQuestion {
        manifests: &[("pod.yaml", &POD.replace("LABELS", "labels: {}"))],
        namespaces: Namespaces::new("default", Some(labels.into()), BTreeMap::new()),
        native_sidecars: false,
    };
    let found = explain(&question, &[DeployedInjector::installed("default", false, configuration)]);
    let found = found.unwrap_or_else(|problems| panic!("{problems}")).remove(0);
    (found.verdict, plain(&text(&[found])))
}

#[test]
fn pod_security_standards_refuse_the_init_container() {
    let plugin = "pilot: {cni: {enabled: true}}\n";
    let (verdict, shown) = in_standard("baseline", "");
    assert_eq!(verdict, InjectionVerdict::Refused, "{shown}");
    for part in [
        "webhook namespace is called, and the Pod Security Standard baseline, which namespace shop enforces, refuses what it puts in",
        "problem     initContainers istio-init: it adds NET_ADMIN, NET_RAW\n",
        "to change   let the CNI plugin set the rules",
        "or          kubectl label namespace shop pod-security.kubernetes.io/enforce=privileged --overwrite",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("istio-proxy: it"), "{shown}");
    assert_eq!(in_standard("baseline", plugin).0, InjectionVerdict::Injected);
    assert_eq!(in_standard("privileged", "").0, InjectionVerdict::Injected);
    assert_eq!(in_standard("other", "").0, InjectionVerdict::Refused);
    let (verdict, shown) = in_standard("restricted", plugin);
    assert_eq!(verdict, InjectionVerdict::Refused, "{shown}");
    assert!(
        shown.contains("containers istio-proxy: neither it nor the pod has a seccompProfile\n"),
        "{shown}"
    );
    assert!(shown.contains("to change   give the pod securityContext.seccompProfile"), "{shown}");
    let both = format!("{plugin}global: {{proxy: {{seccompProfile: {{type: RuntimeDefault}}}}}}\n");
    let (verdict, shown) = in_standard("restricted", &both);
    assert_eq!(verdict, InjectionVerdict::Injected, "{shown}");
    let (_, shown) = in_standard("restricted", "");
    assert!(shown.contains("it may run as root"), "{shown}");
}

#[test]
fn what_the_api_server_cannot_read_is_refused_and_reported_once() {
    let manifest = POD.replace("LABELS", "labels: {sidecar.istio.io/inject: true}");
    let found = ask(&manifest, None, "default", false).remove(0);
    assert_eq!((found.verdict, found.problems.len()), (InjectionVerdict::Refused, 1), "{:?}", found.problems);
    assert!(found.problems[0].contains("is a boolean here"), "{:?}", found.problems);
    // No webhook is called for it, whatever one would say.
    let annotations = "annotations: {sidecar.istio.io/interceptionMode: MAGIC}";
    let manifest =
        POD.replace("LABELS", &format!("labels: {{sidecar.istio.io/inject: true}}, {annotations}"));
    let found = ask(&manifest, None, "default", false).remove(0);
    assert_eq!((&*found.because, found.problems.len()), ("the API server can't read it", 2));
    assert!(found.webhooks.iter().all(|webhook| !webhook.called), "{:?}", found.webhooks);
    let shown = plain(&text(&[found]));
    for part in
        ["  webhook     object would be called\n", "  decision    if one were called, it would be refused: "]
    {
        assert!(shown.contains(part), "{shown}");
    }
    let uncalled = ask(&POD.replace("LABELS", "labels: {app: true}"), None, "default", false).remove(0);
    assert_eq!(
        (uncalled.verdict, &*uncalled.because),
        (InjectionVerdict::Refused, "the API server can't read it")
    );
}

#[test]
fn names_move_no_cursor_and_begin_no_line() {
    let manifest =
        POD.replace("name: web, namespace: shop, LABELS", "name: \"a\\e[2J\\n::error::b\", namespace: shop");
    let shown = text(&ask(&manifest, None, "default", false));
    assert!(shown.contains("Pod shop/a\\u{1b}[2J\\n::error::b"), "{shown}");
    assert!(!shown.contains("\u{1b}[2J"), "{shown}");
}

#[test]
fn what_is_injected_again_names_its_containers() {
    let manifest = POD.replace("LABELS", "labels: {sidecar.istio.io/inject: 'true'}");
    let first = ask(&manifest, None, "default", false).remove(0);
    let again = injected(std::slice::from_ref(&first)).expect("an injected pod").to_string();
    let again = ask(&again, None, "default", false).remove(0);
    let without = ask(&POD.replace("LABELS", "labels: {}"), None, "default", false);
    assert_eq!(injected(&without), None);
    let names = |one: &Explained| one.added.iter().map(|added| added.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        (names(&first), names(&again)),
        (vec!["istio-proxy".to_owned()], vec!["istio-proxy".to_owned()])
    );
}

#[test]
fn what_describes_no_pod() {
    let check = |text: &str, expected: &str| {
        let question = InjectionQuestion {
            manifests: &[("x.yaml", text)],
            namespaces: Namespaces::default(),
            native_sidecars: false,
        };
        let injectors = [DeployedInjector::installed("default", false, Configuration::default())];
        let problems = explain(&question, &injectors).expect_err(text).to_string();
        assert!(problems.contains(expected), "{problems}");
    };
    check("a: [", "x.yaml: is not YAML or JSON");
    check("apiVersion: v1\nkind: Service\n", "x.yaml: describes no pod; expected a Pod");
    let rollout =
        "apiVersion: x/v1\nkind: Rollout\nmetadata: {name: a}\nspec: {template: {spec: {containers: []}}}\n";
    check(rollout, "Rollout (x/v1) a");
}

#[test]
fn each_object_of_each_file_is_explained_in_its_context() {
    let pod = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{{name}}}, spec: {{containers: [{{name: web}}]}}}}\n"
        )
    };
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop, labels: {app: web}}\n\
                      spec: {template: {spec: {containers: [{name: web}]}}}\n";
    let first = format!("{}---\n{deployment}", pod("name: a, namespace: shop"));
    let second = format!("{}---\n{}", pod("generateName: b-"), pod("namespace: other"));
    let labels = [("istio-injection".to_owned(), "enabled".to_owned())];
    let ask = |native_sidecars| {
        let question = InjectionQuestion {
            manifests: &[("first.yaml", &first), ("second.yaml", &second)],
            namespaces: Namespaces::new("default", Some(labels.clone().into()), BTreeMap::new()),
            native_sidecars,
        };
        let injector = DeployedInjector::installed("default", false, Configuration::default());
        explain(&question, &[injector]).unwrap_or_else(|problems| panic!("{problems}"))
    };
    let found = ask(true);
    let places = found.iter().map(|one| (one.title.as_str(), one.file.as_str(), one.document));
    let expected = [
        ("Pod shop/a", "first.yaml", 1),
        ("Deployment shop/web", "first.yaml", 2),
        ("Pod default/b-*", "second.yaml", 1),
        ("Pod other/without a name", "second.yaml", 2),
    ];
    assert_eq!(places.collect::<Vec<_>>(), expected);
    for (native, place) in [(true, "initContainers"), (false, "containers")] {
        let found = ask(native);
        assert_eq!((found[1].added[0].name.as_str(), found[1].added[0].place), ("istio-proxy", place));
        // The template's pods belong to the Deployment, in its namespace.
        let object = found[1].injected.as_ref().expect("injected");
        let containers = object["spec"]["template"]["spec"][place].as_array().expect("a list");
        let proxy = containers.iter().find(|container| container["name"] == "istio-proxy").expect("a proxy");
        let value = |name: &str| {
            let variables = proxy["env"].as_array().into_iter().flatten();
            variables
                .filter(|one| one["name"] == name)
                .filter_map(|one| one["value"].as_str())
                .collect::<String>()
        };
        assert_eq!(value("ISTIO_META_WORKLOAD_NAME"), "web");
        assert_eq!(value("ISTIO_META_OWNER"), "kubernetes://apis/apps/v1/namespaces/shop/deployments/web");
    }
}

#[test]
fn explanations_of_injected_and_skipped_pods_are_paragraphs() {
    let pod = POD.replace("LABELS", "annotations: {sidecar.istio.io/inject: yes it is}");
    let none = pod.replace("yes it is", "'false'");
    let off = pod.replace("sidecar.istio.io/inject: yes it is", "sidecar.istio.io/interceptionMode: NONE");
    let text_of = |manifest: &str| {
        plain(&text(&ask(manifest, Some(&[("istio-injection", "enabled")]), "default", false)))
    };
    let webhooks = "  \
  webhook     rev.namespace is not: the namespace has no label istio.io/rev; it has to be \"default\", and the namespace's label \
istio-injection is \"enabled\"; it must not be there
  webhook     rev.object is not: the namespace's label istio-injection is \"enabled\"; it must not be there, and the pod has no label \
istio.io/rev; it has to be \"default\"
  webhook     namespace is called
  webhook     object is not: the namespace's label istio-injection is \"enabled\"; it must not be there, and the pod has no label \
sidecar.istio.io/inject; it has to be \"true\"";
    let expected = format!(
        "\
Pod shop/web: injected, because webhook namespace is called, and the pod says nothing, so the policy decides
{webhooks}
  decision    yes: the pod says nothing, so the policy decides
  init        istio-init: istio-iptables -p 15001 -z 15006 -u 1337 -m REDIRECT -i '*' -x '' -b '*' -d 15090,15021,15020 \
--log_output_level=default:info
  container   istio-proxy in containers, from istio/proxyv2:latest
  warning     sidecar.istio.io/inject is \"yes it is\", which says neither true nor false, so the pod is injected, as if it said \
nothing; expected \"true\" or \"false\"

Pod shop/web: not injected, because webhook namespace is called, and its annotation sidecar.istio.io/inject says so
{webhooks}
  decision    no: its annotation sidecar.istio.io/inject says so
  to change   take the annotation sidecar.istio.io/inject from the pod
  or          give the pod the label sidecar.istio.io/inject: \"true\"

Pod shop/web: injected, because webhook namespace is called, and the pod says nothing, so the policy decides
{webhooks}
  decision    yes: the pod says nothing, so the policy decides
  init        none: nothing is captured
  container   istio-proxy in containers, from istio/proxyv2:latest
"
    );
    assert_eq!(text_of(&format!("{pod}---\n{none}---\n{off}")), expected);
}
