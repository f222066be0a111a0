//! Pods injected by linkerd and Kuma with only the init container's image replaced: its arguments, user and capabilities are the
//! manifest's. The plugin excludes these pods.

use crate::cni::plugin::runtime::rules;
use crate::{
    cni::runtimes::{
        containerd::{Containerd, Sandbox},
        cri::message::{
            Capability, ContainerConfig, ContainerStatusResponse, Id, ImageSpec, LinuxContainerConfig,
            LinuxContainerSecurityContext, Metadata, Mount, Number,
        },
        image,
        stage::until,
        traffic::{Case, In, KUMA, LINKERD, Out, Proxy},
    },
    support::pod::Answerer::{Destination, Inbound, Outbound},
};
use mesh::pod::{Container, objects};
use serde_json::json;
use std::fs;

/// The first init container of the named pod in a manifest.
fn init_container(manifest: &str, pod: &str) -> Container {
    let objects = objects("the manifest", manifest).expect("a valid manifest");
    let found = objects.into_iter().find(|object| object.pod.name == pod).expect("the pod");
    found.pod.spec.expect("a spec").init_containers.remove(0)
}

/// Runs an init container, which must succeed. Both meshes' charts give it these capabilities.
fn run(sandbox: &Sandbox<'_>, containerd: &Containerd, init: &Container, image: &str, mounts: Vec<Mount>) {
    let user = init.run_as_user.as_deref().map(|user| user.parse().expect("a number"));
    let rights = ["NET_ADMIN", "NET_RAW"].map(str::to_owned).into();
    let security_context = LinuxContainerSecurityContext {
        capabilities: Some(Capability { add: rights, drop: vec!["ALL".to_owned()] }),
        run_as_user: user.map(|value| Number { value }),
        readonly_rootfs: true,
        no_new_privs: true,
    };
    let log = format!("{}.log", init.name);
    let id = sandbox.run(ContainerConfig {
        metadata: Some(Metadata { name: init.name.clone(), ..Metadata::default() }),
        image: Some(ImageSpec { image: image.to_owned() }),
        command: init.command.clone(),
        args: init.args.clone(),
        mounts,
        log_path: log.clone(),
        linux: Some(LinuxContainerConfig { security_context: Some(security_context) }),
    });
    let ended = until(|| {
        let request = Id { id: id.clone() };
        let answer: ContainerStatusResponse = containerd.request("ContainerStatus", &request);
        answer.status.filter(|status| status.finished_at != 0)
    });
    let output = fs::read_to_string(containerd.stage.folder.join("logs").join(log)).unwrap_or_default();
    assert_eq!(ended.map(|status| status.exit_code), Some(0), "{}: {output}", init.name);
}

#[test]
#[ignore = "needs a container runtime"]
fn pod_with_the_replaced_init_image_is_captured() {
    const LINKERDS: &str = include_str!("../../support/pods/linkerd-injected.yaml");
    const KUMAS: &str = include_str!("../../support/pods/kuma-injected.yaml");
    let containerd = Containerd::new("containerd-init", json!({ "exclude_namespaces": ["shop"] }));
    image::pack_tool(&containerd.stage.folder);
    containerd.import("tool.tar");
    let file = containerd.stage.folder.file("config.yaml");
    let configuration = objects("the manifest", KUMAS).expect("a valid manifest").remove(0).pod.annotations;
    fs::write(&file, &configuration["traffic.kuma.io/transparent-proxy-config"]).expect("a file");
    let mount = Mount {
        container_path: "/tmp/transparent-proxy/config.yaml".to_owned(),
        host_path: file,
        readonly: true,
    };
    type Swapped<'a> = (&'a str, &'a str, &'a str, Vec<Mount>, Proxy, &'a [Case]);
    let pods: [Swapped<'_>; 3] = [
        (
            LINKERDS,
            "web-6b7f9c7d5f-x2k4p",
            image::PROXY_INIT,
            Vec::new(),
            LINKERD,
            &[(Out, 80, Outbound), (Out, 4567, Destination), (In, 8080, Inbound), (In, 4191, Destination)],
        ),
        (
            LINKERDS,
            "own-image",
            image::TOOL,
            Vec::new(),
            LINKERD,
            &[(Out, 80, Outbound), (In, 8080, Inbound), (In, 22, Destination)],
        ),
        (
            KUMAS,
            "web-7d4b9c6f5-kq8zt",
            image::TOOL,
            vec![mount],
            KUMA,
            &[(Out, 80, Outbound), (Out, 5432, Destination), (In, 8080, Inbound), (In, 9001, Destination)],
        ),
    ];
    for (manifest, pod, image, mounts, proxy, cases) in pods {
        let sandbox = containerd.sandbox(pod, &[]);
        assert_eq!(rules(&sandbox.inside), "", "the plugin excludes the pod");
        run(&sandbox, &containerd, &init_container(manifest, pod), image, mounts);
        sandbox.check_of(proxy, &sandbox.start(), cases);
        sandbox.stop();
        sandbox.remove();
    }
}
