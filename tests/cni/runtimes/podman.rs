//! podman with its CNI backend. It passes no annotations, so the network configuration defines the capture.

use crate::cni::plugin::runtime::rules;
use crate::support::rows::rows;
use crate::{
    cni::runtimes::{
        image,
        network::{self, Addresses, Attachment, V4, V6},
        stage::Stage,
        traffic::{Case, Container, ISTIO, In, Out},
        verbs,
    },
    support::{
        namespace::Namespace,
        pod::Answerer::{Destination, Inbound, Outbound},
    },
};
use serde_json::json;
use std::{fs, path::Path};

struct Podman {
    stage: Stage,
    configuration: String,
}

impl Podman {
    fn new(name: &str, plugin: &str, addresses: Addresses) -> Self {
        crate::cni::runtimes::need(&["podman", "conmon", "runc"]);
        let stage = Stage::new(name, |folder| {
            let capture = json!({
                "istio-inbound-ports": "*",
                "istio-local-exclude-ports": [9090],
                "istio-local-outbound-ports-exclude": "5432",
                "istio-service-cidr": "*",
            });
            network::write(folder, plugin, addresses, json!({ "capture": capture }));
            image::pack(folder);
            fs::write(folder.join("containers.conf"), settings(folder)).expect("a file");
            ["sleep", "infinity"].map(str::to_owned).into()
        });
        let configuration = stage.folder.file("containers.conf");
        let podman = Self { stage, configuration };
        podman.call(&["load", "--quiet", "--input", &podman.stage.folder.file("image.tar")]);
        podman
    }

    fn call(&self, arguments: &[&str]) -> String {
        let [root, run, volatile] = ["root", "run", "volatile"].map(|name| self.stage.folder.file(name));
        let places = ["--root", &root, "--runroot", &run, "--tmpdir", &volatile];
        let call =
            [&["podman"], &places[..], &["--storage-driver", "vfs", "--events-backend", "none"], arguments];
        self.stage.stdout(&call.concat(), &[("CONTAINERS_CONF", &self.configuration)])
    }

    fn start(&self, name: &str) -> String {
        let parent = format!("/{}", self.stage.name);
        let limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];
        let run = ["run", "--detach", "--name", name, "--cap-drop", "all", "--pull", "never"];
        self.call(&[&run, &limits[..], &["--cgroup-parent", &parent, image::NAME]].concat())
    }

    /// Removes a container without SIGTERM, which its first process ignores.
    fn remove(&self, name: &str) {
        self.call(&["rm", "--force", "--time", "0", name]);
    }
}

/// `containers.conf(5)`.
fn settings(folder: &Path) -> String {
    let (plugins, configuration) = (network::plugins(folder), network::configuration(folder));
    format!(
        "[network]\nnetwork_backend = \"cni\"\ncni_plugin_dirs = [{plugins:?}]\n\
         network_config_dir = {configuration:?}\ndefault_network = {:?}\n\
         [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\n",
        network::NAME
    )
}

const CASES: [Case; 4] =
    [(Out, 80, Outbound), (Out, 5432, Destination), (In, 8080, Inbound), (In, 9090, Destination)];

fn check(podman: &Podman, attachment: &Attachment, inside: &Namespace, cases: &[Case]) {
    let container = Container {
        stage: &podman.stage,
        inside,
        address: attachment.address().parse().expect("an address"),
        proxy: ISTIO,
        run: &|command| podman.call(&[&["exec", "one"], command].concat()),
    };
    container.check(cases);
}

/// Life of a container: captured, tampered with, restarted, removed.
fn lives(podman: &Podman) {
    let stage = &podman.stage;
    let id = podman.start("one");
    let attachment = Attachment::of(stage, &id);
    let inside = stage.namespace(&attachment.netns);
    check(podman, &attachment, &inside, &CASES);
    verbs::check_finds_tampering(stage, &attachment, &inside);
    check(podman, &attachment, &inside, &CASES);
    podman.call(&["restart", "--time", "0", "one"]);
    assert_eq!(rules(&inside), "", "{}", stage.logs());
    let attachment = Attachment::of(stage, &id);
    let inside = stage.namespace(&attachment.netns);
    check(podman, &attachment, &inside, &CASES);
    podman.remove("one");
    verbs::is_gone(stage, &attachment, &inside);
}

rows! {
    #[ignore = "needs a container runtime"]
    a_container_is_captured_until_it_is_removed: lives(&Podman::new("podman", "sidecar-init", V4));
    #[ignore = "needs a container runtime"]
    a_container_with_only_ipv6_is_captured_until_it_is_removed: lives(&Podman::new("podman-v6", "sidecar-cni", V6));
}
