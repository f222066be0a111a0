//! containerd, through the kubelet's socket. It passes a pod's annotations to plugins.

use crate::{
    cni::runtimes::{
        cri::{
            self,
            message::{
                Capability, ContainerConfig, CreateContainerRequest, ExecSyncRequest, ExecSyncResponse, Id,
                ImageSpec, LinuxContainerConfig, LinuxContainerSecurityContext, LinuxPodSandboxConfig,
                Metadata, Nothing, PodSandboxConfig, PodSandboxStatusResponse, RunPodSandboxRequest,
                StatusResponse,
            },
        },
        image,
        network::{self, Attachment, V4},
        stage::{Stage, until},
        traffic::{Case, Container, ISTIO, In, Out, Proxy},
        verbs,
    },
    support::{
        namespace::Namespace,
        pod::Answerer::{Destination, Inbound, Outbound},
        program::BINARY,
    },
};
use prost::Message;
use serde_json::{Value, json};
use std::{error::Error, fs, path::Path};

const INJECTED: (&str, &str) =
    ("sidecar.istio.io/status", r#"{"initContainers":["istio-validation"],"containers":["istio-proxy"]}"#);
const INBOUND_PORTS: &str = "traffic.sidecar.istio.io/includeInboundPorts";
const NOT_OUTBOUND_PORTS: &str = "traffic.sidecar.istio.io/excludeOutboundPorts";

pub(crate) struct Containerd {
    pub(crate) stage: Stage,
}

impl Containerd {
    /// Starts containerd with the plugin, whose entry has these additional keys, and imports an image.
    pub(crate) fn new(name: &str, ours: Value) -> Self {
        crate::cni::runtimes::need(&["containerd", "containerd-shim-runc-v2", "ctr", "runc"]);
        let stage = Stage::new(name, |folder| {
            network::write(folder, "sidecar-cni", V4, ours);
            image::pack(folder);
            let settings = folder.join("containerd.toml");
            fs::write(&settings, self::settings(folder)).expect("a file");
            vec!["containerd".to_owned(), "--config".to_owned(), settings.to_string_lossy().into_owned()]
        });
        let containerd = Self { stage };
        let ready = until(|| containerd.is_ready().ok().filter(|ready| *ready));
        assert_eq!(ready, Some(true), "containerd does not get ready: {}", containerd.stage.logs());
        containerd.import("image.tar");
        containerd
    }

    pub(crate) fn import(&self, archive: &str) {
        let [socket, archive] = ["socket", archive].map(|name| self.stage.folder.file(name));
        let import = ["images", "import", "--snapshotter", "native", &archive];
        self.stage.stdout(&[&["ctr", "--address", &socket, "-n", "k8s.io"], &import[..]].concat(), &[]);
    }

    fn call<Q: Message, A: Message + Default>(
        &self,
        method: &str,
        question: &Q,
    ) -> Result<A, Box<dyn Error>> {
        cri::call(&self.stage.folder.join("socket"), method, question)
    }

    pub(crate) fn request<Q: Message, A: Message + Default>(&self, method: &str, question: &Q) -> A {
        self.call(method, question)
            .unwrap_or_else(|error| panic!("{method} failed: {error}\n{}", self.stage.logs()))
    }

    fn is_ready(&self) -> Result<bool, Box<dyn Error>> {
        let answer: StatusResponse = self.call("Status", &Nothing {})?;
        let conditions = answer.status.unwrap_or_default().conditions;
        Ok(conditions.len() >= 2 && conditions.iter().all(|condition| condition.holds))
    }

    fn run(&self, config: &PodSandboxConfig) -> Result<String, Box<dyn Error>> {
        let answer: Id =
            self.call("RunPodSandbox", &RunPodSandboxRequest { config: Some(config.clone()) })?;
        Ok(answer.id)
    }

    pub(crate) fn sandbox(&self, name: &str, annotations: &[(&str, &str)]) -> Sandbox<'_> {
        let config = self.pod(name, annotations);
        let id = self.run(&config).unwrap_or_else(|error| panic!("{error}\n{}", self.stage.logs()));
        let attachment = Attachment::of(&self.stage, &id);
        let inside = self.stage.namespace(&attachment.netns);
        Sandbox { containerd: self, id, config, attachment, inside }
    }

    fn pod(&self, name: &str, annotations: &[(&str, &str)]) -> PodSandboxConfig {
        let metadata =
            Metadata { name: name.to_owned(), uid: format!("{name}-uid"), namespace: "shop".to_owned() };
        let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        PodSandboxConfig {
            metadata: Some(metadata),
            hostname: name.to_owned(),
            log_directory: self.stage.folder.file("logs"),
            annotations: annotations.iter().map(text).collect(),
            linux: Some(LinuxPodSandboxConfig { cgroup_parent: format!("/{}", self.stage.name) }),
        }
    }
}

/// `containerd-config.toml(5)` and the CRI plugin's settings.
fn settings(folder: &Path) -> String {
    let path = |name: &str| folder.join(name);
    let (plugins, configuration) = (network::plugins(folder), network::configuration(folder));
    // Some machines lack AppArmor or may not set the OOM score.
    format!(
        "version = 2\nroot = {:?}\nstate = {:?}\n[debug]\nlevel = \"warn\"\n[grpc]\naddress = {:?}\n\
         [plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = {:?}\n\
         disable_apparmor = true\nrestrict_oom_score_adj = true\n\
         [plugins.\"io.containerd.grpc.v1.cri\".containerd]\nsnapshotter = \"native\"\n\
         [plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = {plugins:?}\nconf_dir = {configuration:?}\n",
        path("root"),
        path("volatile"),
        path("socket"),
        image::NAME,
    )
}

pub(crate) struct Sandbox<'a> {
    containerd: &'a Containerd,
    id: String,
    config: PodSandboxConfig,
    attachment: Attachment,
    pub(crate) inside: Namespace,
}

impl Sandbox<'_> {
    pub(crate) fn start(&self) -> String {
        let capabilities = Capability { drop: vec!["ALL".to_owned()], ..Capability::default() };
        let security_context = LinuxContainerSecurityContext {
            capabilities: Some(capabilities),
            ..LinuxContainerSecurityContext::default()
        };
        self.run(ContainerConfig {
            metadata: Some(Metadata { name: "app".to_owned(), ..Metadata::default() }),
            image: Some(ImageSpec { image: image::NAME.to_owned() }),
            linux: Some(LinuxContainerConfig { security_context: Some(security_context) }),
            ..ContainerConfig::default()
        })
    }

    pub(crate) fn run(&self, config: ContainerConfig) -> String {
        let request = CreateContainerRequest {
            pod_sandbox_id: self.id.clone(),
            config: Some(config),
            sandbox_config: Some(self.config.clone()),
        };
        let container: Id = self.containerd.request("CreateContainer", &request);
        let Nothing {} = self.containerd.request("StartContainer", &container);
        container.id
    }

    fn check(&self, container: &str, cases: &[Case]) {
        self.check_of(ISTIO, container, cases);
    }

    /// The same check with another mesh's proxy.
    pub(crate) fn check_of(&self, proxy: Proxy, container: &str, cases: &[Case]) {
        let run = |command: &[&str]| {
            let request = ExecSyncRequest {
                container_id: container.to_owned(),
                command: command.iter().map(|word| (*word).to_owned()).collect(),
                timeout: 30,
            };
            let answer: ExecSyncResponse = self.containerd.request("ExecSync", &request);
            String::from_utf8(answer.stdout).expect("UTF-8").trim().to_owned()
        };
        let status = Id { id: self.id.clone() };
        let status: PodSandboxStatusResponse = self.containerd.request("PodSandboxStatus", &status);
        let address = status.status.and_then(|status| status.network).unwrap_or_default().ip;
        let container = Container {
            stage: &self.containerd.stage,
            inside: &self.inside,
            address: address.parse().expect("an address"),
            proxy,
            run: &run,
        };
        container.check(cases);
    }

    pub(crate) fn stop(&self) {
        let Nothing {} = self.containerd.request("StopPodSandbox", &Id { id: self.id.clone() });
    }

    pub(crate) fn remove(&self) {
        let Nothing {} = self.containerd.request("RemovePodSandbox", &Id { id: self.id.clone() });
    }
}

#[test]
#[ignore = "needs a container runtime"]
fn a_pod_is_captured_by_its_annotations_until_it_is_stopped() {
    let containerd = Containerd::new("containerd", json!({}));
    let annotations = [INJECTED, (INBOUND_PORTS, "8080"), (NOT_OUTBOUND_PORTS, "5432")];
    let sandbox = containerd.sandbox("captured", &annotations);
    let attachment = &sandbox.attachment;
    for (name, value) in annotations {
        assert_eq!(attachment.annotation(name), Some(value), "containerd passes annotations");
    }
    let container = sandbox.start();
    let cases = [(Out, 80, Outbound), (Out, 5432, Destination), (In, 8080, Inbound), (In, 9090, Destination)];
    sandbox.check(&container, &cases);
    verbs::check_finds_tampering(&containerd.stage, attachment, &sandbox.inside);
    sandbox.check(&container, &cases);
    // containerd's files are not at the default paths: the shim leads there.
    let seen = containerd.stage.output(&[BINARY, "status", "--all", "--output", "json"], &[], "").stdout;
    let seen: Value = serde_json::from_str(&seen).expect("JSON");
    assert_eq!(seen["namespaces"][0]["pod"], json!({ "namespace": "shop", "name": "captured" }), "{seen}");
    assert_eq!(seen["namespaces"][0]["name"], "shop/captured", "{seen}");
    sandbox.stop();
    verbs::is_gone(&containerd.stage, attachment, &sandbox.inside);
    sandbox.remove();
}

#[test]
#[ignore = "needs a container runtime"]
fn a_pod_with_a_bad_annotation_does_not_start() {
    let containerd = Containerd::new("containerd-bad", json!({}));
    let pod = containerd.pod("bad", &[INJECTED, (INBOUND_PORTS, "8080,http")]);
    let error = containerd.run(&pod).expect_err("its traffic could bypass the proxy").to_string();
    for part in [INBOUND_PORTS, "http"] {
        assert!(error.contains(part), "{error}");
    }
    let mended = containerd.sandbox("bad", &[INJECTED, (INBOUND_PORTS, "8080")]);
    mended.check(&mended.start(), &[(In, 8080, Inbound)]);
    mended.stop();
    mended.remove();
}

/// After a machine restart or a removal, the namespace is gone before the pod.
#[test]
#[ignore = "needs a container runtime"]
fn pod_without_its_namespace_is_removed() {
    let containerd = Containerd::new("containerd-gone", json!({}));
    let stage = &containerd.stage;
    let sandbox = containerd.sandbox("gone", &[INJECTED]);
    assert!(sandbox.attachment.is_remembered(stage));
    stage.stdout(&["umount", "--lazy", &sandbox.attachment.netns], &[]);
    stage.stdout(&["rm", &sandbox.attachment.netns], &[]);
    sandbox.stop();
    assert!(!sandbox.attachment.is_remembered(stage), "{}", stage.logs());
    assert!(
        stage.logs().contains("no namespace was given"),
        "containerd gives an empty one: {}",
        stage.logs()
    );
    sandbox.remove();
}
