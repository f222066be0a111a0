//! `explain`, as somebody asks it who wonders where his proxy is.

use crate::PROGRAM;
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};
use testkit::{command_line::Ended, folder::Folder};

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: example/web}]}
";

fn explain(manifest: &str, flags: &[&str]) -> Ended {
    PROGRAM.run(&[&["explain", "-f", manifest], flags].concat())
}

#[test]
fn exit_codes_say_how_it_ends() {
    let folder = Folder::new("codes");
    let web = folder.write("web.yaml", DEPLOYMENT);
    let refused =
        DEPLOYMENT.replace("{labels: ", "{annotations: {sidecar.istio.io/interceptionMode: MAGIC}, labels: ");
    let refused = folder.write("refused.yaml", &refused);
    let both =
        folder.write("both.yaml", &format!("{DEPLOYMENT}---\n{DEPLOYMENT}").replacen("shop", "other", 1));
    let enabled = ["--namespace-labels", "istio-injection=enabled"];
    let check = |file: &str, flags: &[&str], code: i32, out: &str| {
        let shown = explain(file, flags).with(code).shown();
        assert!(shown.contains(out), "{flags:?}: {out}: {shown}");
    };
    check(&web, &enabled, 0, "Deployment shop/web: injected, because webhook namespace is called");
    check(&web, &[], 3, "or          kubectl label namespace shop istio-injection=enabled");
    check(&web, &["--auto"], 0, "webhook     auto is called");
    check(
        &web,
        &["--revision", "blue", "--namespace-labels", "istio.io/rev=blue"],
        0,
        "rev.namespace is called",
    );
    check(&both, &enabled, 0, "Deployment other/web: injected");
    check(&refused, &enabled, 1, "sidecar.istio.io/interceptionMode: \"MAGIC\"");
    check(
        &folder.file("none.yaml"),
        &["--namespace-labels", "nonsense"],
        1,
        "is not a label; expected KEY=VALUE",
    );
    check(&folder.file("none.yaml"), &["--namespace-labels", "nonsense"], 1, "can't be read");
    check(&web, &["--format", "picture"], 2, "picture");
    check(&web, &["--revision", "Bad rev"], 2, "small letters");
    check(&refused, &[], 3, "if one were called, it would be refused");
    let other = folder.write("other.yaml", &DEPLOYMENT.replace("shop", "other"));
    let namespace =
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: other, labels: {istio-injection: enabled}}\n";
    let namespace = folder.write("namespace.yaml", namespace);
    let more = ["-f", &other, "-f", &namespace];
    check(&web, &more, 3, "Deployment other/web: injected, because webhook namespace is called");
    check(&web, &["--color", "always", "--auto"], 0, "\u{1b}[");
}

#[test]
fn whoever_has_read_enough_is_no_error() {
    let folder = Folder::new("pipe");
    let web = folder.write("web.yaml", &DEPLOYMENT.repeat(50).replace("apiVersion", "---\napiVersion"));
    for format in ["text", "json", "yaml"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
            .args(["explain", "--auto", "--format", format, "-f"])
            .arg(&web)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the injector");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn programs_get_the_same_explanation() {
    let folder = Folder::new("formats");
    let web = folder.write("web.yaml", DEPLOYMENT);
    let json = explain(&web, &["--format", "json", "--namespace-labels", "istio-injection=enabled"]);
    let json = json.json();
    assert_eq!((&json[0]["verdict"], &json[0]["init"]["name"]), (&"injected".into(), &"istio-init".into()));
    let yaml = explain(&web, &["--format", "yaml", "--namespace-labels", "istio-injection=enabled"]);
    let yaml = mesh::pod::values("explain", &yaml.stdout).expect("YAML");
    assert_eq!(yaml[0], json);
}

#[test]
fn the_injected_pods_go_on_to_the_tool() {
    let folder = Folder::new("on");
    let web = folder.write("web.yaml", DEPLOYMENT);
    // Stands for the tool: tells its arguments, and what it is given.
    let tool = folder.write("tool", "#!/bin/sh\necho \"$@\"\ncat\nexit 9\n");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("a program");
    let flags = ["--auto", "--sidecar-init", &tool, "--explain", "8080", "--uid", "1000"];
    let shown = explain(&web, &flags).with(9).stdout;
    assert!(shown.contains("explain -f - 8080 --uid 1000\n"), "{shown}");
    let given = shown.lines().find(|line| line.starts_with('{')).expect("the pods");
    let given: Value = serde_json::from_str(given).expect("JSON");
    let pod = &given["items"][0]["spec"]["template"]["spec"];
    assert_eq!(
        (&pod["initContainers"][0]["name"], &pod["containers"][1]["name"]),
        (&"istio-init".into(), &"istio-proxy".into())
    );
    let nobody = explain(&web, &["--auto", "--sidecar-init", "/nonexistent/tool", "--explain"]);
    let nobody = nobody.with(1).stderr;
    assert!(nobody.contains("say where it is with --sidecar-init"), "{nobody}");
    // The text can be asked for by name, as in the command that is printed for a cluster.
    let named = explain(&web, &[&["--format", "text"][..], &flags].concat());
    assert_eq!(named.with(9).stdout, shown);
    let json = explain(&web, &[&["--format", "json"][..], &flags].concat());
    let json = json.with(1);
    assert!(json.stdout.is_empty() && json.stderr.contains("--explain: prints text"), "{json:?}");
    // Nothing is injected, so there is nothing to go on with.
    explain(&web, &["--sidecar-init", &tool, "--explain"]).with(3);
}
