//! What kubectl reports becomes one sentence: the command, its exit status, its last line, and the remedy.

use crate::fake::Fake;
use std::time::{Duration, Instant};

fn failed(pattern: &str, stderr: &str) -> String {
    let mut fake = Fake::new();
    fake.fails(pattern, stderr);
    fake.object("get pod web-0*", &crate::fake::pod("web-0"));
    fake.object("get pods -l *", &crate::fake::list(&[crate::fake::agent()]));
    fake.run(&["explain", "web-0", "reviews:80"]).with(1).stderr
}

#[test]
fn failures_name_the_command_and_the_remedy() {
    for (pattern, stderr, expected) in [
        (
            "get pod web-0*",
            "E1 noise\nError from server (NotFound): pods \"web-0\" not found\n",
            "error: kubectl get pod web-0 -o json: failed with exit status 1: Error from server (NotFound): pods \"web-0\" not \
             found; check the name, and the namespace (-n)\n",
        ),
        (
            "get pod web-0*",
            "Error from server (Forbidden): pods \"web-0\" is forbidden: User \"a\" cannot get resource\n",
            "; grant your user get pods, as role sidecar-capture of docker/kubectl/clusterrole.yaml does\n",
        ),
        (
            "get service *",
            "Error from server (Forbidden): services \"reviews\" is forbidden\n",
            "; grant your user get services, as role sidecar-capture of docker/kubectl/clusterrole.yaml does\n",
        ),
        (
            "get pod web-0*",
            "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?\n",
            "; check the connection to the cluster and the --context (kubectl cluster-info)\n",
        ),
        (
            "get pod web-0*",
            "Unable to connect to the server: dial tcp: lookup x: no such host\n",
            "; check the connection to the cluster and the --context (kubectl cluster-info)\n",
        ),
        (
            "get pod web-0*",
            "error: You must be logged in to the server (Unauthorized)\n",
            "; log in to the cluster, or select another --context or --user\n",
        ),
        (
            "get pod web-0*",
            "Error in configuration: context was not found for specified context: x\n",
            "; check --context, --cluster, --user and --kubeconfig (kubectl config get-contexts)\n",
        ),
    ] {
        let error = failed(pattern, stderr);
        assert!(error.ends_with(expected) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn failures_in_agents_name_what_they_need() {
    for (stderr, expected) in [
        (
            "Error from server (Forbidden): pods \"x\" is forbidden: cannot create resource \"pods/exec\"\n",
            "grant your user get pods, create pods/exec, get pods/exec, as role sidecar-capture-agent of \
             docker/kubectl/clusterrole.yaml does\n",
        ),
        (
            "OCI runtime exec failed: exec failed: unable to start container process: exec: \
             \"/usr/local/bin/sidecar-init\": stat /usr/local/bin/sidecar-init: no such file or directory: unknown\n\
             command terminated with exit code 126\n",
            "update the node agents: their image holds sidecar-init",
        ),
    ] {
        let mut fake = Fake::with_agent();
        fake.fails("exec *", stderr);
        fake.run(&["status", "web-0"]).with(1).tells(expected);
    }
    let mut fake = Fake::without_agent();
    fake.fails("debug *", "error: unknown flag: --profile\n");
    fake.run(&["status", "web-0", "--image", "x", "--yes"]).with(1).tells("needs kubectl 1.27 or newer");
    let mut fake = Fake::without_agent();
    fake.fails(
        "debug *",
        "Error from server (Forbidden): pods \"web-0\" is forbidden: violates PodSecurity \"baseline:latest\": non-default \
         capabilities (container \"x\" must not include \"NET_ADMIN\" in securityContext.capabilities.add)\n",
    );
    let ran = fake.run(&["status", "web-0", "--image", "x", "--yes"]).with(1);
    let expected = "; install the node agents, or let the namespace's admission policies accept NET_ADMIN";
    assert!(ran.stderr.contains(expected) && !ran.stderr.contains("grant"), "{}", ran.stderr);
}

#[test]
fn objects_that_are_none_are_refused() {
    for (output, expected) in [
        ("no JSON", "printed no JSON"),
        ("{\"kind\":\"Node\"}", "printed something else than a pod"),
        ("{\"kind\":\"Pod\",\"metadata\":{\"name\":\"x\"}}", "printed a pod without name or namespace"),
        (
            "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"x\",\"namespace\":\"y\"},\"status\":{\"containerStatuses\":[{\"name\":\"a\",\
             \"containerID\":\"containerd:///etc\",\"state\":{\"running\":{}}}]}}",
            "printed a pod whose container a has the id \"containerd:///etc\", expected RUNTIME://DIGITS",
        ),
    ] {
        let mut fake = Fake::new();
        fake.answer("get pod *", output, "", 0);
        let ran = fake.run(&["status", "x"]).with(1);
        assert!(ran.stderr.contains(expected), "{output}: {}", ran.stderr);
    }
}

#[test]
fn a_kubectl_that_hangs_is_ended() {
    let fake = Fake::new();
    std::fs::write(fake.file("kubectl"), "#!/bin/sh\necho $$ >\"$(dirname \"$0\")/id\"\nexec sleep 60\n")
        .expect("written");
    let start = Instant::now();
    let ran = fake.run(&["status", "web-0", "--timeout", "500ms"]).with(1);
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(
        ran.stderr.contains("did not end within 500ms; check the connection, or raise --timeout"),
        "{}",
        ran.stderr
    );
    let id = std::fs::read_to_string(fake.file("id")).expect("it ran");
    assert!(!std::path::Path::new(&format!("/proc/{}", id.trim())).exists(), "it still runs");
}
