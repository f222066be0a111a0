//! `inject` as somebody with manifests meets it: what it prints, what it says of mistakes, and what kubectl makes of it.

use crate::{PROGRAM, kubectl::without};
use serde_json::Value;
use std::{fs, path::Path, process::Command};
use testkit::{command_line::ended_with, folder::Folder};

/// The status, what is printed, what is told.
fn inject(words: &[&str], input: &str) -> (i32, String, String) {
    let ended = PROGRAM.run_with(&[&["inject"], words].concat(), input);
    (ended.code.expect("a status"), ended.stdout, ended.stderr)
}

fn injected(words: &[&str], input: &str) -> String {
    let (status, printed, shown) = inject(words, input);
    assert_eq!(status, 0, "{shown}");
    printed
}

fn values(text: &str) -> Vec<Value> {
    mesh::pod::values("printed", text).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

const SHOP: &str = "\
# The shop.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web      # as its Service calls it
  namespace: shop
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels:
        app: web   # the selector's
    spec:
      containers:
      # The application.
      - name: app
        image: example/app
        ports: [{containerPort: 8080}]
---
apiVersion: v1
kind: Service
metadata: {name: web}   # left as it is
spec: { ports: [ {port: 80} ] }
";

#[test]
fn pods_are_injected_and_every_other_line_stays() {
    let printed = injected(&["-f", "-"], SHOP);
    let mut lines = printed.lines();
    for line in SHOP.lines() {
        assert!(lines.any(|other| other == line), "{line:?} is lost:\n{printed}");
    }
    let pod = &values(&printed)[0]["spec"]["template"];
    let names = |list: &str| -> Vec<String> {
        let items = pod["spec"][list].as_array().expect("a list").iter();
        items.map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names("containers"), ["app", "istio-proxy"]);
    assert_eq!(names("initContainers"), ["istio-init"]);
    assert_eq!(injected(&["-f", "-"], &printed), printed, "once is enough");
}

/// An object as kubectl reads it, which drops what is null and adds what types have: without all that is empty.
fn without_empty(object: &Value) -> Value {
    without(object.clone(), |value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Object(fields) => fields.is_empty(),
        other => *other == 0,
    })
}

#[test]
fn kubectl_reads_the_intended_objects() {
    let files = ["deployment.yaml", "injected.yaml", "cron-job.yaml", "windows.yaml", "list.json"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support/pods");
    for file in files {
        let printed = injected(&["-f", &root.join(file).display().to_string()], "");
        let words = ["patch", "--local", "-o", "json", "--type=merge", "-p", "{}", "-f", "-"];
        let read = values(&ended_with(Command::new("kubectl").args(words), &printed).with(0).stdout);
        let target = values(&printed).into_iter().filter(|value| !value.is_null());
        let target: Vec<Value> = target
            .flat_map(|value| match value.get("items") {
                Some(Value::Array(items)) => items.clone(),
                _ => vec![value],
            })
            .collect();
        assert_eq!(read.len(), target.len(), "{file}");
        read.iter()
            .zip(&target)
            .for_each(|(read, target)| assert_eq!(without_empty(read), without_empty(target)));
    }
}

#[test]
fn skipped_documents_are_reported_and_stay_byte_for_byte() {
    let pod = |name: &str, more: &str| {
        format!("apiVersion: v1\nkind:  Pod\nmetadata: {{name: {name}{more}\n  containers: [ {{name: a}} ]\n")
    };
    let text = [
        pod("host", "}\nspec:\n  hostNetwork: true"),
        pod("shy", ", labels: {sidecar.istio.io/inject: 'false'}}\nspec:"),
        pod("dns", ", namespace: kube-system}\nspec:"),
        "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: r}\nspec: {template: {spec: {containers: []}}}\n".to_owned(),
        "# nothing\n".to_owned(),
    ]
    .join("---\r\n");
    let (status, printed, shown) = inject(&["-f", "-", "--namespace", "shop"], &text);
    assert_eq!((status, printed), (0, text), "{shown}");
    let expected = "\
===> Skipping injection because Pod \"shop/host\" has host networking enabled
===> Skipping injection because Pod \"shop/shy\" has sidecar injection disabled
===> Skipping injection because Pod \"kube-system/dns\" is in a namespace of the cluster's own
warning: input: document 4: Rollout (argoproj.io/v1alpha1) r holds a pod's template, but is of no kind that is known; left as it is
";
    assert_eq!(shown, expected);
}

#[test]
fn a_full_disk_behind_standard_error_was_a_panic_before_the_output() {
    let folder = Folder::new("full");
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: host}\nspec: {hostNetwork: true, containers: [{name: a}]}\n---\n\
                apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: r}\nspec: {template: {spec: {containers: []}}}\n";
    let file = folder.write("pods.yaml", text);
    let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let output =
        Command::new(PROGRAM.path).args(["inject", "-f", &file]).stderr(full).output().expect("the injector");
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stdout)), (Some(0), text));
}

#[test]
fn all_problems_are_told_at_once_with_their_lines_and_nothing_is_printed() {
    let folder = Folder::new("problems");
    let good = folder.write("good.yaml", SHOP);
    let bad = SHOP.replace(
        "      labels:\n",
        "      annotations:\n        sidecar.istio.io/interceptionMode: HALF\n        \
         sidecar.istio.io/proxyImag: x\n        \
         traffic.sidecar.istio.io/excludeOutboundPorts: 80,x\n        sidecar.istio.io/inject: true\n      labels:\n",
    );
    let bad = folder.write("bad.yaml", &bad);
    let output = folder.file("out.yaml");
    let (status, printed, shown) =
        inject(&["-f", &good, "-f", &bad, "-f", "missing.yaml", "-o", &output], "");
    assert_eq!((status, printed.as_str()), (1, ""), "{shown}");
    assert!(shown.starts_with("warning: "), "what is odd is told too: {shown}");
    for part in [
        "missing.yaml\" can't be read",
        "bad.yaml: document 1, Deployment shop/web, line 12: sidecar.istio.io/interceptionMode: \"HALF\"",
        "bad.yaml: document 1, Deployment shop/web, line 14: traffic.sidecar.istio.io/excludeOutboundPorts: \"x\"",
        "bad.yaml: document 1, Deployment shop/web: line 15, column 34: metadata.annotations.sidecar.istio.io/inject: \"true\" \
         is a boolean here, where Kubernetes takes a text; write it in quotes",
    ] {
        assert!(shown.contains(part), "{part}\nis not in\n{shown}");
    }
    assert!(!Path::new(&output).exists(), "half of it would be worse than nothing");
}

#[test]
fn a_file_is_replaced_at_once_and_files_are_joined() {
    let folder = Folder::new("output");
    let one = folder.write("one.yaml", SHOP.trim_end());
    let two = folder.write("two.yaml", "apiVersion: v1\nkind: Secret\n");
    let link = folder.join("link.yaml");
    std::os::unix::fs::symlink(&one, &link).expect("a link");
    let link = link.display().to_string();
    assert_eq!(injected(&["-f", &one, "-f", &two, "-o", &link], ""), "");
    let written = fs::read_to_string(&one).expect("the file behind the link");
    assert!(
        written.contains("istio-proxy") && written.ends_with("\n---\napiVersion: v1\nkind: Secret\n"),
        "{written}"
    );
    assert_eq!(fs::read_dir(&*folder).expect("a folder").count(), 3, "nothing is left beside it");
}

#[test]
fn a_pipe_is_written_to() {
    let secret = "apiVersion: v1\nkind: Secret\n";
    assert_eq!(injected(&["-f", "-", "-o", "/proc/self/fd/1"], secret), secret);
}

#[test]
fn a_difference_is_what_patch_applies() {
    let folder = Folder::new("diff");
    let file = folder.write("shop.yaml", SHOP);
    let (status, plain, _) = inject(&["-f", &file, "--diff"], "");
    assert_eq!(status, 1, "{plain}");
    let (_, coloured, _) = inject(&["-f", &file, "--diff", "--color", "always"], "");
    assert!(coloured.contains('\u{1b}') && !plain.contains('\u{1b}'));
    assert_eq!(diagnose::plain(&coloured), plain);
    ended_with(Command::new("patch").args(["-s", "-p0", "-d", "/"]), &plain).with(0);
    let patched = fs::read_to_string(&file).expect("the file");
    assert_eq!(patched, injected(&["-f", "-"], SHOP));
    let (status, nothing, _) = inject(&["-f", &file, "--diff"], "");
    assert_eq!((status, nothing.as_str()), (0, ""), "it is injected already");
    assert_eq!(inject(&["-f", "-", "--diff"], "a: [").0, 2, "1 says that something differs");
}

#[test]
fn configuration_comes_from_texts_or_from_config_maps() {
    let folder = Folder::new("sources");
    let values = "global:\n  network: one\n  proxy: {image: example/proxy}\n";
    let indented = values.replace('\n', "\n    ");
    let map = format!(
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: istio-sidecar-injector}}\n  data:\n    \
         config: \"policy: disabled\"\n    values: |\n      {}\n",
        indented.trim_end().replace("\n    ", "\n      ")
    );
    let (map, values) = (folder.write("map.yaml", &map), folder.write("values.yaml", values));
    let by_map = injected(&["-f", "-", "--inject-config", &map], SHOP);
    assert!(
        by_map.contains("topology.istio.io/network: one") && by_map.contains("image: example/proxy"),
        "{by_map}"
    );
    assert_eq!(injected(&["-f", "-", "--valuesFile", &values], SHOP), by_map);
    let revised = injected(&["-f", "-", "--values", &values, "--revision", "canary"], SHOP);
    assert!(revised.contains("istio.io/rev: canary"), "{revised}");
    let second = folder.write("second.yaml", "---\n---\nglobal: {network: two}\n");
    let revised = injected(&["-f", "-", "--values", &second, "--revision", "canary"], SHOP);
    for part in ["istio.io/rev: canary", "topology.istio.io/network: two"] {
        assert!(revised.contains(part), "{part} is lost: {revised}");
    }
    let several = folder.write("several.yaml", "global: {network: one}\n---\nglobal: {network: two}\n");
    let (status, _, shown) = inject(&["-f", "-", "--values", &several, "--revision", "canary"], SHOP);
    assert!(status == 1 && shown.contains("holds several documents"), "{shown}");
    let (status, _, shown) = inject(&["-f", "-", "--mesh-config", &map], SHOP);
    assert!(status == 1 && shown.contains("holds ConfigMaps, but none with \"mesh\""), "{shown}");
}

#[test]
fn what_is_known_around_a_pod_reaches_it() {
    let words =
        ["-f", "-", "--path", "/inject/cluster/east/net/two", "--native-sidecars", "--namespace", "shop"];
    let pod = &values(&injected(&words, SHOP))[0]["spec"]["template"];
    let proxy = &pod["spec"]["initContainers"].as_array().expect("a list")[1];
    assert_eq!((&proxy["name"], &proxy["restartPolicy"]), (&"istio-proxy".into(), &"Always".into()));
    let has = |name: &str, value: &str| {
        let mut env = proxy["env"].as_array().expect("a list").iter();
        assert!(
            env.any(|variable| variable["name"] == name && variable["value"] == value),
            "{name}: {proxy}"
        );
    };
    has("ISTIO_META_CLUSTER_ID", "east");
    has("ISTIO_META_NETWORK", "two");
    has("ISTIO_META_WORKLOAD_NAME", "web");
}

#[test]
fn what_manifests_and_flags_say_of_namespaces_counts_for_all_of_them() {
    let range = |range: &str| format!("openshift.io/sa.scc.uid-range={range}");
    let user = |words: &[&str], input: &str| {
        let printed = injected(words, input);
        let pod =
            values(&printed).into_iter().find(|value| value["kind"] == "Deployment").expect("the object");
        let arguments = pod["spec"]["template"]["spec"]["initContainers"][0]["args"].clone();
        let arguments: Vec<String> = serde_json::from_value(arguments).expect("texts");
        let at = arguments.iter().position(|word| word == "-u").expect("a user");
        arguments[at + 1].clone()
    };
    assert_eq!(user(&["-f", "-", "--namespace-annotations", &range("1000/100")], SHOP), "1099");
    let namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: {openshift.io/sa.scc.uid-range: 2000/100}}\n";
    assert_eq!(user(&["-f", "-"], &format!("{SHOP}{namespace}")), "2099");
    let folder = Folder::new("namespaces");
    let beside = folder.write("namespace.yaml", namespace);
    assert_eq!(user(&["-f", "-", "-f", &beside], SHOP), "2099");
    let flag = range("1000/100");
    let words = ["-f", "-", "-f", &beside, "--namespace-annotations", &flag];
    assert_eq!(user(&words, SHOP), "1099", "flags win");
}

#[test]
fn a_configuration_of_another_kind_is_refused_and_hides_no_problem_of_the_manifest() {
    let folder = Folder::new("kinds");
    let one = folder.write("one.yaml", SHOP.split("---\n").next().expect("a Deployment"));
    for flag in ["--inject-config", "--values", "--mesh-config"] {
        let bad = SHOP.replace(
            "      labels:\n",
            "      annotations: {sidecar.istio.io/interceptionMode: HALF}\n      labels:\n",
        );
        let (status, _, shown) = inject(&["-f", "-", flag, &one], &bad);
        assert_eq!(status, 1, "{shown}");
        assert!(shown.contains("is an object of Kubernetes, Deployment; expected"), "{shown}");
        assert!(shown.contains("\"HALF\"") && shown.contains("2 problems"), "{shown}");
    }
    // A template that can't be read is not a reason to say that there is none of its name.
    let config = folder.write("config.yaml", "polic: enabled\ntemplates: {own: {sidecar: []}}\n");
    let asks = SHOP
        .replace("      labels:\n", "      annotations: {inject.istio.io/templates: own}\n      labels:\n");
    let (_, _, shown) = inject(&["-f", "-", "--inject-config", &config], &asks);
    assert!(shown.contains("polic is not one of its keys"), "{shown}");
    assert!(shown.contains("1 problem in") && shown.contains("templates.own"), "{shown}");
}
