//! The command line: refusals, completions, the manual.

use crate::PROGRAM;
use testkit::command_line::SHELLS;

#[test]
fn a_refusal_has_the_style_of_all_programs() {
    let expected = "--format: \"jsn\" is not text, json or yaml; did you mean json?";
    let refused = PROGRAM.refused("explain -f x --format jsn");
    assert_eq!(refused, format!("error: 1 problem in the input\n  {expected}\n"));
}

/// Nothing is printed of a call that is refused, and the reason says what is expected.
#[test]
fn values_that_do_not_fit_are_refused_with_what_is_expected() {
    const INJECT: &str = "inject -f -";
    const MANIFESTS: &str = "manifests --image a/b:1 --proxy-image a/p:1";
    const MOVING: &str = "manifests --image a/b:latest --proxy-image istio/proxyv2";
    const MISSING: &str = "serve --tls-cert cert.pem --tls-key key.pem";
    let label = "expected up to 63 small letters";
    let path = "such as /inject/cluster/east";
    let number = "expected a whole number from 1 to 65535";
    let watch = "such as 5s, 500ms or 1m30s, from 1s to 294s";
    for (command, flags, code, expected) in [
        (INJECT, "-n Bad_NS", 2, label),
        (INJECT, "-r Bad_rev", 2, "small letters, digits and -"),
        (INJECT, "--path /foo", 2, path),
        (INJECT, "--path cluster/east", 2, path),
        (INJECT, "--path /injected", 2, path),
        (INJECT, "--path /inject:ENV:cluster=east", 2, path),
        (INJECT, "--injectConfigMapName x", 2, "give that with --inject-config"),
        (INJECT, "--webhookConfig x", 2, "give that with --inject-config"),
        (INJECT, "--meshConfigMapName x", 2, "give that with --mesh-config"),
        (INJECT, "--operatorFileName x", 2, "IstioOperators are not read"),
        (INJECT, "--context x", 2, "no cluster is asked"),
        (INJECT, "-i istio-system", 2, "no cluster is asked"),
        (INJECT, "--kubeconfig x", 2, "no cluster is asked"),
        (MANIFESTS, "--output xml", 1, "expected yaml, json, or kustomize FOLDER"),
        (MANIFESTS, "--output kustomize", 1, "expected a folder"),
        (MANIFESTS, "--namespace A --replicas 0", 1, "2 problems"),
        (MANIFESTS, "--env-label a", 2, "--environment-tag"),
        (MANIFESTS, "--replicas -1", 2, number),
        (MANIFESTS, "--replicas many", 2, number),
        (MANIFESTS, "--force", 1, "expected --output kustomize FOLDER"),
        ("manifests", "", 1, "2 problems"),
        ("manifests", "", 1, "--image: is missing; expected an image"),
        ("manifests", "", 1, "--proxy-image: is missing; expected an image"),
        (MOVING, "", 1, "--image: \"a/b:latest\" has the tag latest"),
        (MOVING, "", 1, "--proxy-image: \"istio/proxyv2\" has neither tag nor digest"),
        (MOVING, "", 1, "such as istio/proxyv2:"),
        ("serve", "", 1, "--tls-cert and --tls-key: expected both, or --self-signed"),
        (MISSING, "", 1, "--tls-cert cert.pem"),
        (MISSING, "", 1, "No such file"),
        (MISSING, "--watch-cluster=on", 1, "name the API server with --kubeconfig"),
        (MISSING, "--native-sidecars=maybe", 2, "is not auto, true or false"),
        (
            MISSING,
            "--kubeconfig missing.yaml --watch-cluster=off",
            1,
            "expected --watch-cluster auto or on, or --self-signed",
        ),
        ("serve --self-signed", "", 1, "not a pod of a cluster"),
        ("serve --self-signed", "--namespace Bad_X", 2, "--namespace: \"Bad_X\""),
        ("serve --self-signed", "--tls-cert x", 2, "contradicts"),
        ("serve --self-signed", "--kubeconfig missing.yaml", 1, "missing.yaml can't be read: "),
        ("serve", "--max-connections 0", 2, "1..=65535"),
        ("serve", "--timeout 0", 2, "expected more than 0"),
        ("environment routes", "-f - -n Bad_X", 2, "RFC 1123"),
        ("environment operator", "--namespace Bad_X", 2, "RFC 1123"),
        ("environment operator", "--lease-namespace bad.x", 2, "RFC 1123"),
        ("environment operator", "--lease Bad_X", 2, "RFC 1123"),
        // The client refuses longer watches.
        ("environment operator", "--watch-timeout 294001ms", 2, watch),
        ("environment operator", "--watch-timeout 999ms", 2, watch),
        ("check", "--kubeconfig missing.yaml", 1, "missing.yaml can't be read: "),
    ] {
        let call = format!("{command} {flags}");
        let words: Vec<&str> = call.split_whitespace().collect();
        let ended = PROGRAM.run(&words);
        assert_eq!((ended.code, &*ended.stdout), (Some(code), ""), "{call}: {ended:?}");
        assert!(ended.stderr.contains(expected), "{call}: {expected}: {}", ended.stderr);
    }
    // The cause is named once.
    let missing = PROGRAM.run(&["check", "--kubeconfig", "missing.yaml"]).stderr;
    assert_eq!(missing.matches("(os error 2)").count(), 1, "{missing}");
}

#[test]
fn shells_complete() {
    for shell in SHELLS.map(|name| PROGRAM.shell(name)) {
        for (line, expected) in [
            ("inj", &["inject"][..]),
            ("environment ", &["routes", "crd", "operator", "inspect", "help"]),
            ("completions ", &["bash", "zsh", "fish"]),
            ("explain --format ", &["text", "json", "yaml"]),
            ("explain --format=j", &["json"]),
            ("inject --fil", &["--filename"]),
            ("inject -f pod", &["pod.yaml"]),
            ("serve ", &[]),
        ] {
            shell.proposes(&format!("sidecar-injector {line}"), expected.iter().copied());
        }
    }
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let pages = PROGRAM.manual();
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["sidecar-injector.1", "sidecar-injector-inject.1", "sidecar-injector-environment-routes.1"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for (name, text) in pages.iter().filter(|(_, text)| text.contains("\nOPTIONS\n")) {
        if ["completions.1", "man.1"].iter().all(|own| !name.ends_with(own)) {
            assert!(text.contains("\nEXIT STATUS\n") && text.contains("\nEXAMPLES\n"), "{name}: {text}");
        }
    }
}
