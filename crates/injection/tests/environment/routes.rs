//! The routes of a namespace: each row of the table, and each change of it.

use super::scene::{Scene, environment, shop};
use injection::environment::routes::{RouteDisposition, UnroutedReason};
use injection::environment::table::table;
use serde_json::{Value, json};

const H: &str = "X-Virtual-Env";

fn changed(change: impl FnOnce(&mut Scene)) -> Scene {
    let mut scene = shop();
    change(&mut scene);
    scene
}

#[test]
fn routes_stand_in_order() {
    let scene = shop();
    let expected =
        [format!("{H}=base.red:80>base-red"), format!("{H}=base.red.x:80>base-red"), ":80>base".to_owned()];
    assert_eq!(scene.routes("cart"), expected);
    let expected = [
        format!("{H}=base.blue:80>base-blue"),
        format!("{H}=base.red.x:80>base-red-x"),
        ":80>base".to_owned(),
    ];
    assert_eq!(scene.routes("pay"), expected);
    assert_eq!(scene.disposition("mail"), RouteDisposition::Unrouted(UnroutedReason::OneWay));
}

#[test]
fn objects_are_those_of_istio() {
    let (virtual_service, destination_rule) = shop().objects("cart").expect("routes");
    let owner = json!({
        "apiVersion": "env.alibaba.com/v1alpha2", "kind": "VirtualEnvironment", "name": "demo", "uid": "u-demo", "controller": true,
    });
    let metadata = json!({
        "name": "cart", "namespace": "shop", "labels": {"app.kubernetes.io/managed-by": "sidecar-injector"}, "ownerReferences": [owner],
    });
    let destination = |subset: &str| json!([{"destination": {"host": "cart", "subset": subset, "port": {"number": 80}}, "weight": 100}]);
    let expected = json!({
        "apiVersion": "networking.istio.io/v1beta1", "kind": "VirtualService", "metadata": metadata,
        "spec": {"hosts": ["cart"], "gateways": ["mesh"], "http": [
            {"match": [{"headers": {H: {"exact": "base.red"}}, "port": 80}], "route": destination("base-red")},
            {"match": [{"headers": {H: {"exact": "base.red.x"}}, "port": 80}], "route": destination("base-red")},
            {"match": [{"port": 80}], "route": destination("base")},
        ]},
    });
    assert_eq!(virtual_service, expected);
    let expected = json!({
        "apiVersion": "networking.istio.io/v1beta1", "kind": "DestinationRule", "metadata": metadata,
        "spec": {"host": "cart", "subsets": [
            {"name": "base", "labels": {"virtual-env": "base"}}, {"name": "base-red", "labels": {"virtual-env": "base.red"}},
        ]},
    });
    assert_eq!(destination_rule, expected);
    assert_eq!(shop().objects("pay").expect("routes").1["spec"]["subsets"].as_array().map(Vec::len), Some(3));
}

#[test]
fn without_a_default_any_pod_gets_what_names_none() {
    let scene = changed(|scene| scene.environment = environment(&json!({})));
    let expected: Vec<String> = ["base", "base.blue", "base.red", "base.red.x"]
        .iter()
        .map(|value| format!("{H}={value}:80>base"))
        .chain([":80>any".to_owned()])
        .collect();
    assert_eq!(scene.routes("mail"), expected);
    assert_eq!(scene.plan().warnings, [""; 0]);
}

#[test]
fn gateways_and_hosts_keep_a_single_route() {
    let scene = changed(|scene| {
        scene.annotate("mail", "kt-virtual-environment/gateways", "gw1");
        scene.annotate("mail", "kt-virtual-environment/hosts", " m.example ,");
    });
    let (virtual_service, _) = scene.objects("mail").expect("kept");
    assert_eq!(virtual_service["spec"]["gateways"], json!(["mesh", "gw1"]));
    assert_eq!(virtual_service["spec"]["hosts"], json!(["mail", "m.example"]));
    assert_eq!(scene.routes("mail"), [":80>base"]);
}

#[test]
fn ports_decide_by_their_protocol() {
    let ports = |ports: Value| changed(|scene| scene.service("mail")["spec"]["ports"] = ports);
    let two = ports(json!([{"name": "http-admin", "port": 8080}, {"name": "http", "port": 80}]));
    assert_eq!(two.routes("mail"), [":80>base", ":8080>base"]);
    for port in [json!({"port": 80}), json!({"name": "http", "port": 80, "protocol": "UDP"})] {
        let scene = changed(|scene| scene.service("cart")["spec"]["ports"] = json!([port]));
        assert_eq!(
            scene.disposition("cart"),
            RouteDisposition::Unrouted(UnroutedReason::NoHttpPort),
            "{port}"
        );
    }
    let scene = changed(|scene| {
        scene.service("cart")["spec"]["ports"] = json!([{"port": 80, "appProtocol": "http"}]);
    });
    assert_eq!(scene.routes("cart").len(), 3);
}

#[test]
fn another_splitter() {
    let mut scene = changed(|scene| {
        scene.environment = environment(&json!({"envLabel": {"defaultSubset": "base", "splitter": "-"}}));
        scene.workloads.clear();
    });
    for (service, value) in [("cart", "base"), ("cart", "base-red"), ("pay", "base"), ("pay", "base-red-q")] {
        scene.workload(service, value);
    }
    let expected =
        [format!("{H}=base-red:80>base-red"), format!("{H}=base-red-q:80>base-red"), ":80>base".to_owned()];
    assert_eq!(scene.routes("cart"), expected);
    scene.environment = environment(&json!({"envLabel": {"splitter": "/"}}));
    assert!(scene.plan().warnings[0].contains("spec.envLabel.splitter: no label can hold '/'"));
}

#[test]
fn two_environments_of_one_subset_are_refused() {
    let scene = changed(|scene| {
        scene.workload("cart", "a_b");
        scene.workload("cart", "a.b");
    });
    let RouteDisposition::Refused(problems) = scene.disposition("cart") else { panic!("taken") };
    let text = problems.to_string();
    assert!(
        text.contains("Service shop/cart") && text.contains("a.b and a_b would both be the subset a-b"),
        "{text}"
    );
    // The others are served.
    assert!(scene.objects("pay").is_some());
}

#[test]
fn aliases_come_after_the_header() {
    let with = |alias: Value| {
        changed(|scene| {
            scene.environment = environment(
                &json!({"envHeader": {"aliases": [alias]}, "envLabel": {"defaultSubset": "base"}}),
            );
        })
    };
    let pattern =
        with(json!({"name": "Cookie", "pattern": ".*;env=(@);.*", "placeholder": "(@)"})).routes("cart");
    assert_eq!(pattern[0], format!("{H}=base.red:80>base-red"));
    assert_eq!(pattern[1], format!("{H}=base.red.x:80>base-red"));
    assert_eq!(pattern[2], "Cookie~.*;env=base\\.red;.*:80>base-red");
    assert_eq!(pattern[3], "Cookie~.*;env=base\\.red\\.x;.*:80>base-red");
    assert_eq!(pattern[4..], [":80>base"]);
    assert_eq!(with(json!({"name": "Cookie", "pattern": ".*;env=(@);.*"})).routes("cart"), pattern);
    let exact = with(json!({"name": "X-Env"})).routes("cart");
    assert_eq!(exact[2], "X-Env=base.red:80>base-red");
}

/// A request may name several environments: by the header, by the first alias, by the second.
#[test]
fn of_several_aliases_the_first_wins_and_the_header_before_all() {
    let scene = changed(|scene| {
        scene.environment = environment(&json!({
            "envHeader": {"aliases": [
                {"name": "X-Z"}, {"name": "Cookie", "pattern": "env=(@)"}, {"name": "x-virtual-env", "pattern": "v1:(@)"},
            ]},
            "envLabel": {"defaultSubset": "base"},
        }));
    });
    let order: Vec<String> = scene
        .routes("cart")
        .into_iter()
        .map(|route| route.split(':').next().map(str::to_owned).unwrap_or_default())
        .collect();
    let expected = [
        "X-Virtual-Env=base.red",
        "X-Virtual-Env=base.red.x",
        "X-Z=base.red",
        "X-Z=base.red.x",
        "Cookie~env=base\\.red",
        "Cookie~env=base\\.red\\.x",
        "x-virtual-env~v1",
        "x-virtual-env~v1",
        "",
    ];
    assert_eq!(order, expected);
    // Who names the default is not sent elsewhere by an alias.
    let (virtual_service, _) = scene.objects("cart").expect("routes");
    let without = |at: usize| virtual_service["spec"]["http"][at]["match"][0]["withoutHeaders"].clone();
    assert_eq!([without(0), without(8)], [Value::Null, Value::Null]);
    assert_eq!(without(2), json!({"X-Virtual-Env": {}}));
    assert_eq!(without(4), json!({"X-Virtual-Env": {}, "X-Z": {}}));
    assert_eq!(without(6), json!({"X-Z": {}}), "a header is not without itself");
}

#[test]
fn a_rule_lies_under_every_route() {
    let scene = changed(|scene| {
        let rule = r#"{"Rewrite":{"Uri":"/v2"},"Match":[{"Uri":{"Prefix":"/v1"}}]}"#;
        scene.annotate("cart", "kt-virtual-environment/rule", rule);
    });
    let (virtual_service, _) = scene.objects("cart").expect("routes");
    let routes = virtual_service["spec"]["http"].as_array().expect("routes");
    assert_eq!(scene.routes("cart"), shop().routes("cart"));
    for route in routes {
        assert_eq!(route["match"][0]["uri"], json!({"prefix": "/v1"}));
        assert_eq!(route["rewrite"], json!({"uri": "/v2"}));
        assert_eq!(route["match"].as_array().map(Vec::len), Some(1));
    }
    let bad = changed(|scene| scene.annotate("cart", "kt-virtual-environment/rule", "{\"rewrit\": 1}"));
    let RouteDisposition::Refused(problems) = bad.disposition("cart") else { panic!("taken") };
    assert!(
        problems.to_string().contains("Service shop/cart, annotation kt-virtual-environment/rule: rewrit"),
        "{problems}"
    );
}

#[test]
fn what_gets_no_routes() {
    let scene = changed(|scene| scene.service("cart")["spec"]["selector"] = Value::Null);
    assert_eq!(scene.disposition("cart"), RouteDisposition::Unrouted(UnroutedReason::NoSelector));
    let scene = changed(|scene| scene.service("cart")["spec"]["type"] = json!("ExternalName"));
    assert_eq!(scene.disposition("cart"), RouteDisposition::Unrouted(UnroutedReason::NoSelector));
    let scene = changed(|scene| scene.service("cart")["metadata"]["name"] = json!("kubernetes"));
    assert_eq!(scene.disposition("kubernetes"), RouteDisposition::Unrouted(UnroutedReason::ApiServer));
    let scene = changed(|scene| scene.workloads.clear());
    assert_eq!(scene.disposition("cart"), RouteDisposition::Unrouted(UnroutedReason::NoWorkload));
    let scene = changed(|scene| {
        scene.environment = environment(&json!({"envLabel": {"name": "team-env"}}));
    });
    assert_eq!(scene.disposition("cart"), RouteDisposition::Unrouted(UnroutedReason::NoEnvironment));
    assert_eq!(scene.plan().warnings, [""; 0], "pods without an environment are nothing odd");
    let scene = changed(|scene| scene.service("cart")["metadata"]["namespace"] = json!("other"));
    assert_eq!(scene.plan().services.len(), 2);
}

#[test]
fn a_default_without_pods_is_none() {
    let scene =
        changed(|scene| scene.workloads.retain(|workload| workload["metadata"]["name"] != "cart-base"));
    assert_eq!(scene.routes("cart").last().map(String::as_str), Some(":80>any"));
    let [warning] = &scene.plan().warnings[..] else { panic!("one warning") };
    assert!(warning.contains("shop/cart") && warning.contains("default environment base"), "{warning}");
}

#[test]
fn workloads_without_pods_attract_nothing() {
    let mut scene = shop();
    scene.workloads[0]["spec"]["replicas"] = json!(0);
    assert_eq!(scene.disposition("cart"), RouteDisposition::Unrouted(UnroutedReason::OneWay));
    let [warning] = &scene.plan().warnings[..] else { panic!("one warning") };
    assert!(warning.contains("Deployment shop/cart-base.red: it is to have no pods"), "{warning}");
    scene.workloads[0]["spec"]["replicas"] = json!(1);
    scene.workloads[0]["kind"] = json!("StatefulSet");
    assert_eq!(scene.routes("cart").len(), 3);
    scene.workloads[0]["spec"]["template"]["metadata"]["labels"]["virtual-env"] = json!("");
    assert!(scene.plan().warnings[0].contains("virtual-env is empty"));
}

#[test]
fn a_table_shows_it() {
    let expected = "\
X-Virtual-Env  cart      mail  pay
(none)         base      base  base
base           base      base  base
base.blue      base      base  base-blue
base.red       base-red  base  base
base.red.x     base-red  base  base-red-x
(another)      base      base  base
";
    let plan = shop().plan();
    assert_eq!(table(&plan, H, 80), expected);
    let narrow = table(&plan, H, 32);
    assert!(narrow.lines().all(|line| line.len() <= 32), "{narrow}");
    assert_eq!(narrow.lines().filter(|line| line.starts_with(H)).count(), 2);
    let mut quoted = plan.clone();
    quoted.services[0].name = "a\u{1b}[2J\n::error::b".to_owned();
    let shown = table(&quoted, H, 80);
    assert!(shown.starts_with(&format!("{H}  a\\u{{1b}}[2J\\n::error::b  mail")), "{shown}");
}

#[test]
fn a_label_that_is_misspelt_was_passed_over_in_silence() {
    let scene = changed(|scene| {
        let labels = &mut scene.workloads[0]["spec"]["template"]["metadata"]["labels"];
        *labels = json!({"app": "cart", "virtual-evn": "base.red"});
    });
    let expected = "Deployment shop/cart-base.red: it has no label virtual-env, so nothing is routed to it, but virtual-evn; \
                    did you mean virtual-env?";
    assert_eq!(scene.plan().warnings, [expected]);
}

#[test]
fn an_annotation_that_is_misspelt_was_passed_over_in_silence() {
    let scene = changed(|scene| scene.annotate("cart", "kt-virtual-environment/gatewayz", "gw1"));
    let [warning] = &scene.plan().warnings[..] else { panic!("one warning") };
    assert!(
        warning.starts_with("Service shop/cart, annotation kt-virtual-environment/gatewayz: "),
        "{warning}"
    );
    assert!(warning.ends_with("did you mean kt-virtual-environment/gateways?"), "{warning}");
    assert_eq!(scene.objects("cart"), shop().objects("cart"), "it has its routes all the same");
}

#[test]
fn a_label_that_is_no_value_attracts_nothing() {
    let scene = changed(|scene| {
        scene.workloads[0]["spec"]["template"]["metadata"]["labels"]["virtual-env"] = json!("a b");
    });
    let expected =
        "Deployment shop/cart-base.red: its label virtual-env says \"a b\", which is not a label value";
    assert_eq!(scene.plan().warnings, [expected]);
    assert_eq!(scene.disposition("cart"), RouteDisposition::Unrouted(UnroutedReason::OneWay));
}

#[test]
fn gateways_lead_to_http_alone() {
    let scene = changed(|scene| {
        scene.annotate("mail", "kt-virtual-environment/gateways", "gw1");
        scene.service("mail")["spec"]["ports"] = json!([{"port": 25}]);
    });
    let expected = "Service shop/mail: it names gateways, but none of its ports is HTTP; expected a name such as http or \
                    http-web, or appProtocol: http";
    assert_eq!(scene.plan().warnings, [expected]);
}

#[test]
fn each_reason_for_no_routes_has_its_words_and_some_are_suspicious() {
    for (reason, words, is_suspicious) in [
        (UnroutedReason::ApiServer, "it is the API server's", false),
        (UnroutedReason::NoSelector, "it selects no pods", true),
        (UnroutedReason::NoWorkload, "it selects none of the namespace's workloads", true),
        (UnroutedReason::NoEnvironment, "none of its workloads with pods has an environment", true),
        (
            UnroutedReason::NoHttpPort,
            "none of its ports is HTTP; expected a name such as http or http-web, or appProtocol: http",
            true,
        ),
        (UnroutedReason::OneWay, "all requests go the same way", false),
    ] {
        assert_eq!((reason.to_string().as_str(), reason.is_suspicious()), (words, is_suspicious));
    }
}
