//! Tests pods as a source of configuration: manifests in the repository's `tests/support/pods` against `pods/shared.txt`,
//! each manifest in `pods/own.txt` against the next section, and each row of the annotation table.
//!
//! `UPDATE_GOLDENS=1 cargo test --package sidecar-mesh --test pods` updates both files.

use mesh::pod::mapping::{FIELDS, TABLE, VARIABLES};
use mesh::pod::{
    Application, Container, EXCLUDED_NAMESPACES, Id, KubernetesObject, Pod, Spec, Variable, annotated,
    configured, objects, read,
};
use mesh::settings::{self, Setting};
use mesh::sources::{Given, NullHost, Raw, RemoteHost, Source};
use mesh::{Capture, visible};
use proptest::prelude::*;
use rules::finding::Finding;
use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn manifests() -> BTreeMap<String, String> {
    let entries = fs::read_dir(format!("{ROOT}/../../tests/support/pods")).expect("the manifests");
    let read = |entry: io::Result<DirEntry>| {
        let path = entry.expect("an entry").path();
        (path.file_name().expect("a name").display().to_string(), fs::read_to_string(path).expect("UTF-8"))
    };
    entries.map(read).collect()
}

fn report(text: &str) -> String {
    let objects = match objects("manifest", text) {
        Ok(objects) => objects,
        Err(problems) => return format!("{problems}\n"),
    };
    let mut printed = String::new();
    for object in &objects {
        let reading = read(object, EXCLUDED_NAMESPACES);
        printed.push_str(&format!("{}{}: {:?}\n", object.origin.start(""), object.origin.title, reading.way));
        if let Some(skip) = &reading.skip {
            printed.push_str(&format!("  skipped: {skip}\n"));
        }
        for Finding { level, code, text, .. } in &reading.warnings {
            printed.push_str(&format!("  {} {code}: {}\n", level.name(), visible(text)));
        }
        for Application { container, user, group } in &reading.applications {
            let id = |id: &Option<Id>| {
                let id = id.as_ref()?;
                Some(format!("{} of the {}", id.number, if id.is_of_pod { "pod" } else { "container" }))
            };
            let ids = [id(user), id(group)].map(|id| id.unwrap_or_else(|| "unknown".to_owned()));
            printed.push_str(&format!("  application {container}, user {}, group {}\n", ids[0], ids[1]));
        }
        for (setting, Given { value, source }) in reading.settings.raw.iter() {
            printed.push_str(&format!("  {} {value:?} by {source}\n", setting.row().name()));
        }
        let facts = Raw::of_flags([ADDRESS]);
        match reading.settings.clone().over(facts.into()).resolve(&NullHost) {
            Ok(resolved) => {
                resolved.warnings.iter().for_each(|warning| printed.push_str(&format!("  odd: {warning}\n")));
            }
            Err(problems) => {
                problems.0.iter().for_each(|problem| printed.push_str(&format!("  problem: {problem}\n")));
            }
        }
    }
    printed
}

const ADDRESS: (Setting, &str) = (Setting::PodIps, "10.1.2.3");

#[test]
fn manifests_are_read_as_in_their_sections() {
    let shared = manifests();
    assert!(shared.len() >= 30, "manifests are missing");
    let found = shared.into_iter().map(|(name, text)| (name, report(&text)));
    testkit::sections::golden(format!("{ROOT}/tests/pods/shared.txt"), found);

    testkit::sections::answers(format!("{ROOT}/tests/pods/own.txt"), ".expected", report);
}

fn pod(annotations: &[(&str, &str)]) -> Pod {
    let annotations = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Pod::annotated("web", "shop", annotations.collect())
}

fn captured(pod: &Pod) -> Result<Capture, String> {
    let settings = annotated(pod, "Pod shop/web", &Raw::of_flags([ADDRESS]));
    settings.resolve(&NullHost).map(|resolved| resolved.capture).map_err(|problems| problems.to_string())
}

fn flagged(flags: &[(Setting, &str)]) -> Capture {
    let raw = Raw::of_flags(flags.iter().copied().chain([ADDRESS]));
    mesh::resolve(&raw, &NullHost, Vec::new()).expect("good flags").capture
}

const DEFAULTS: [(Setting, &str); 7] = [
    (Setting::InterceptionMode, "REDIRECT"),
    (Setting::ServiceCidr, "*"),
    (Setting::InboundPorts, "*"),
    (Setting::InboundPortsExclude, "15020,15021,15090"),
    (Setting::OutboundPortsExclude, "15020"),
    (Setting::ProxyUid, "1337"),
    (Setting::ProxyGid, "1337"),
];

#[test]
fn pod_without_settings_has_the_tables_defaults() {
    assert_eq!(captured(&pod(&[])), Ok(flagged(&DEFAULTS)));
}

#[test]
fn every_annotation_is_its_flag() {
    // Values for annotation and flag, and a refused value with the faulty part.
    let cases = [
        (Setting::InterceptionMode, "TPROXY", "TPROXY", "SOMETIMES", "SOMETIMES"),
        (Setting::ServiceCidr, "10.0.0.0/8,fd00::/8", "10.0.0.0/8,fd00::/8", "10.0.0.0/8,1.1.1.1", "1.1.1.1"),
        (Setting::ServiceExcludeCidr, "10.1.0.0/16", "10.1.0.0/16", "*", "*"),
        (Setting::InboundPorts, "80, 443", "80,443", "80,http", "http"),
        (Setting::InboundPortsExclude, "7,15021", "7,15021,15020,15090", "7-9", "7-9"),
        (Setting::OutboundPorts, "3306", "3306", "65536", "65536"),
        (Setting::OutboundPortsExclude, "", "", "1,,2", ""),
        (Setting::VmInterfaces, "vnet0,vnet1", "vnet0,vnet1", "vnet+", "vnet+"),
        (Setting::ExcludeInterfaces, "eth1", "eth1", "sixteen-letters-", "sixteen-letters-"),
    ];
    for row in TABLE {
        let (_, annotation, flag, bad, item) =
            cases.iter().find(|case| case.0 == row.setting).unwrap_or_else(|| panic!("no case for {row:?}"));
        let without = DEFAULTS.into_iter().filter(|(setting, _)| *setting != row.setting);
        let expected = flagged(&without.chain([(row.setting, *flag)]).collect::<Vec<_>>());
        assert!(row.setting.row().annotations.iter().any(|name| name.contains("istio.io/")), "{row:?}");
        for name in row.setting.row().annotations {
            assert_eq!(captured(&pod(&[(name, annotation)])).as_ref(), Ok(&expected), "{name}");
            let printed = captured(&pod(&[(name, bad)])).expect_err(name);
            let blamed = format!("Pod shop/web: {name}: {item:?} ");
            assert_eq!(printed.matches(&blamed).count(), 1, "{blamed}in {printed}");
            assert!(printed.starts_with("Pod shop/web: "), "{printed}");
        }
    }
}

#[test]
fn proxy_container_gives_other_settings() {
    let with = |change: &dyn Fn(&mut Container)| {
        let mut proxy = Container { name: "istio-proxy".to_owned(), ..Container::default() };
        change(&mut proxy);
        captured(&Pod { spec: Some(Spec { containers: vec![proxy], ..Spec::default() }), ..pod(&[]) })
    };
    let plain = flagged(&DEFAULTS);
    assert_eq!(with(&|_| ()).as_ref(), Ok(&plain));
    for (name, _) in VARIABLES {
        let variable = |value| Variable { name: (*name).to_owned(), value };
        let set = |value: &str| Some(value.to_owned());
        let of_row: Vec<(Setting, &str)> = VARIABLES
            .iter()
            .filter(|(other, _)| other == name)
            .map(|(_, setting)| (*setting, "true"))
            .collect();
        let expected = flagged(&[&DEFAULTS[..], &of_row].concat());
        assert_eq!(with(&|proxy| proxy.env = vec![variable(set("true"))]), Ok(expected), "{name}");
        assert_eq!(with(&|proxy| proxy.env = vec![variable(set(""))]).as_ref(), Ok(&plain), "{name}");
        let printed = with(&|proxy| proxy.env = vec![variable(set("maybe"))]).expect_err(name);
        assert!(
            printed.contains(&format!("container istio-proxy: {name}: \"maybe\" is not a boolean")),
            "{printed}"
        );
        let printed = with(&|proxy| proxy.env = vec![variable(None)]).expect_err(name);
        assert!(printed.contains(&format!("{name}: comes from valueFrom")), "{printed}");
    }
    for (_, setting) in FIELDS {
        let id = |text: &'static str| {
            with(&|proxy: &mut Container| match *setting {
                Setting::ProxyUid => proxy.run_as_user = Some(text.to_owned()),
                _ => proxy.run_as_group = Some(text.to_owned()),
            })
        };
        let without = DEFAULTS.into_iter().filter(|(other, _)| other != setting);
        let expected = flagged(&without.chain([(*setting, "2000")]).collect::<Vec<_>>());
        assert_eq!(id("2000"), Ok(expected));
        assert_eq!(id("0").as_ref(), Ok(&plain), "root counts as the default");
        assert!(id("-5").is_err());
    }
}

#[test]
fn injected_pod_is_istios_with_any_defaults() {
    let defaults = Raw::of_flags([(Setting::Mesh, "linkerd"), ADDRESS]);
    let mesh =
        |annotations: &[(&str, &str)]| annotated(&pod(annotations), "Pod shop/web", &defaults).raw.mesh();
    assert_eq!(mesh(&[]), mesh::Mesh::Linkerd);
    assert_eq!(mesh(&[("sidecar.istio.io/status", "{}")]), mesh::Mesh::Istio);
}

#[test]
fn every_capture_setting_has_a_sidecar_init_annotation() {
    let annotations: Vec<String> =
        settings::of(mesh::Mesh::default()).filter_map(mesh::settings::SettingRow::annotation).collect();
    assert!(annotations.len() > 20, "{annotations:?}");
    for name in &annotations {
        let settings = annotated(&pod(&[(name, "x")]), "Pod", &Raw::default());
        assert!(
            settings.raw.iter().any(|(_, given)| given.source == Source::Annotation(name.clone())),
            "{name}"
        );
    }
}

#[test]
fn an_object_without_a_text_is_read_the_same_way() {
    let object = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "annotations": {"a": 1, "b": null, "c": "d"}},
        "spec": {"hostNetwork": true, "securityContext": {"runAsUser": -1}, "containers": []},
    });
    let written = objects("review", &object.to_string()).expect("a pod").remove(0);
    let pod = KubernetesObject::of(object)[0].pod().expect("a pod");
    assert_eq!((&pod.origin.title, &pod.pod), (&written.origin.title, &written.pod));
    let spec = pod.pod.spec.as_ref().expect("a spec");
    assert_eq!((spec.host_network, spec.run_as_user.as_deref()), (true, Some("-1")));
    let problem = "metadata.annotations.a: \"1\" is a number; expected a string; quote it";
    assert_eq!([&pod.problems[0], &written.problems[0]].map(ToString::to_string), [problem; 2]);
    assert_eq!([&pod, &written].map(|one| one.origin.start("a")), ["", "review:1: "]);
}

#[test]
fn lists_are_read_eight_deep() {
    let nested = |depth: usize| {
        let pod = serde_json::json!({"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": []}});
        let list = |items| serde_json::json!({"kind": "List", "items": [items]});
        objects("review", &(0..depth).fold(pod, |items, _| list(items)).to_string())
    };
    assert_eq!(nested(8).map(|found| found[0].origin.title.clone()), Ok("Pod web".to_owned()));
    let problems = nested(9).expect_err("too deep").to_string();
    assert!(problems.ends_with("review: describes no pod, but only List without a name"), "{problems}");
}

#[test]
fn a_network_configuration_names_settings_as_flags_do() {
    let read = |values: &[(&str, &str)]| {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        configured("capture", &values.collect())
    };
    let given = |values: &[(&str, &str)]| {
        let settings = read(values);
        let given = settings.raw.iter().map(|(_, given)| format!("{} by {}", given.value, given.source));
        let problems =
            settings.problems().iter().map(|problem| format!("problem: {problem}")).collect::<Vec<_>>();
        given.chain(problems).collect::<Vec<_>>()
    };
    assert_eq!(
        given(&[("proxy-uid", "7"), ("istio-outbound-owner-groups", "5")]),
        ["7 by capture.proxy-uid", "5 by capture.istio-outbound-owner-groups"]
    );
    assert_eq!(
        given(&[("proxy-ui", "7"), ("zzz", "1"), ("kuma-dp-user", "1")]),
        [
            "problem: capture.kuma-dp-user: unknown setting; expected the name of a flag, such as proxy-uid",
            "problem: capture.proxy-ui: unknown setting; did you mean proxy-uid?",
            "problem: capture.zzz: unknown setting; expected the name of a flag, such as proxy-uid",
        ]
    );
    assert_eq!(
        given(&[("mesh", " kuma "), ("kuma-dp-user", "1")]),
        ["1 by capture.kuma-dp-user", " kuma  by capture.mesh"]
    );
}

#[test]
fn names_of_users_are_valid_only_within_the_pod() {
    let named = pod(&[("sidecar-init/proxy-uid", "istio-proxy"), ("sidecar-init/proxy-gid", "istio-proxy")]);
    let settings = annotated(&named, "Pod shop/web", &Raw::of_flags([ADDRESS]));
    let proxy = settings.resolve_within(&RemoteHost::Open).expect("known names").capture.proxy();
    assert_eq!((proxy.uids[0].number(), proxy.gids[0].number()), (1337, 1337));
    let problems = settings.resolve(&RemoteHost::Open).expect_err("names").to_string();
    let advice = "names on the node may differ from those in the pod; give the number";
    assert!(problems.contains(&format!("\"istio-proxy\" is not a user number; {advice}")), "{problems}");
    assert!(problems.contains(&format!("\"istio-proxy\" is not a group number; {advice}")), "{problems}");
    let mesh = ("sidecar-init/mesh", "kuma");
    let kuma = annotated(&pod(&[mesh, ("sidecar-init/kuma-dp-user", "kuma-dp")]), "Pod", &Raw::default());
    let problems = kuma.resolve(&RemoteHost::Open).expect_err("a name").to_string();
    assert!(problems.contains(&format!("\"kuma-dp\" is not a user number; {advice}")), "{problems}");
}

proptest! {
    #[test]
    fn random_text_does_not_panic(text in "\\PC{0,200}") {
        report(&text);
    }

    /// Manifest pieces in any order are closer to YAML than random strings.
    #[test]
    fn random_manifests_do_not_panic(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..60)) {
        report(&pieces.concat());
    }
}

const PIECES: &[&str] = &[
    "kind: Pod\n",
    "kind: List\n",
    "items:\n",
    "- ",
    "metadata:\n",
    "  annotations:\n",
    "    sidecar-init/proxy-uid: ",
    "spec:\n",
    "  containers:\n",
    "  initContainers:\n",
    "  - name: istio-init\n",
    "    args: ",
    "    env: ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    ": ",
    "&a ",
    "*a",
    "<<: ",
    "\"$(X)\"",
    "-b",
    "\"*\"",
    "|\n",
    ">-\n",
    "---\n",
    "...\n",
    "#",
    "\t",
    "\r\n",
    "!!str ",
    "? ",
    "01337",
    "~",
    "true",
    "\n",
    "  ",
    "{name: X, valueFrom: {}}",
    "'",
    "\"",
    "\\",
    "é",
];
