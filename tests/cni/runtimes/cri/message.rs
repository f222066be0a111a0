//! CRI messages, as far as the tests use them: fields with `runtime.v1` numbers from the published `api.proto` (k8s.io/cri-api).
//! Missing fields have their defaults.

use prost::Message;
use std::collections::HashMap;

/// Defines a type for each message: its fields, each with its encoding and number.
macro_rules! messages {
    ($($(#[$about:meta])* $name:ident {
        $($(#[$about_field:meta])* $field:ident: $of:ty = ($($form:tt)+) $number:tt,)*
    })+) => {$(
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, Message)]
        pub(crate) struct $name {
            $($(#[$about_field])* #[prost($($form)+, tag = $number)] pub(crate) $field: $of,)*
        }
    )+};
}

messages! {
    Nothing {}

    StatusResponse {
        status: Option<RuntimeStatus> = (message, optional) "1",
    }

    RuntimeStatus {
        conditions: Vec<RuntimeCondition> = (message, repeated) "1",
    }

    RuntimeCondition {
        holds: bool = (bool) "2",
    }

    /// Metadata of sandboxes, and of containers, which have only a name.
    Metadata {
        name: String = (string) "1",
        uid: String = (string) "2",
        namespace: String = (string) "3",
    }

    PodSandboxConfig {
        metadata: Option<Metadata> = (message, optional) "1",
        hostname: String = (string) "2",
        log_directory: String = (string) "3",
        annotations: HashMap<String, String> = (map = "string, string") "7",
        linux: Option<LinuxPodSandboxConfig> = (message, optional) "8",
    }

    LinuxPodSandboxConfig {
        cgroup_parent: String = (string) "1",
    }

    RunPodSandboxRequest {
        config: Option<PodSandboxConfig> = (message, optional) "1",
    }

    Id {
        id: String = (string) "1",
    }

    PodSandboxStatusResponse {
        status: Option<PodSandboxStatus> = (message, optional) "1",
    }

    PodSandboxStatus {
        network: Option<PodSandboxNetworkStatus> = (message, optional) "5",
    }

    PodSandboxNetworkStatus {
        ip: String = (string) "1",
    }

    CreateContainerRequest {
        pod_sandbox_id: String = (string) "1",
        config: Option<ContainerConfig> = (message, optional) "2",
        sandbox_config: Option<PodSandboxConfig> = (message, optional) "3",
    }

    ContainerConfig {
        metadata: Option<Metadata> = (message, optional) "1",
        image: Option<ImageSpec> = (message, optional) "2",
        /// Replaces the image's entry point.
        command: Vec<String> = (string, repeated) "3",
        args: Vec<String> = (string, repeated) "4",
        mounts: Vec<Mount> = (message, repeated) "7",
        /// Relative to the sandbox's log folder.
        log_path: String = (string) "11",
        linux: Option<LinuxContainerConfig> = (message, optional) "15",
    }

    Mount {
        container_path: String = (string) "1",
        host_path: String = (string) "2",
        readonly: bool = (bool) "3",
    }

    ImageSpec {
        image: String = (string) "1",
    }

    LinuxContainerConfig {
        security_context: Option<LinuxContainerSecurityContext> = (message, optional) "2",
    }

    LinuxContainerSecurityContext {
        capabilities: Option<Capability> = (message, optional) "1",
        run_as_user: Option<Number> = (message, optional) "5",
        readonly_rootfs: bool = (bool) "7",
        no_new_privs: bool = (bool) "11",
    }

    Number {
        value: i64 = (int64) "1",
    }

    Capability {
        add: Vec<String> = (string, repeated) "1",
        drop: Vec<String> = (string, repeated) "2",
    }

    ContainerStatusResponse {
        status: Option<ContainerStatus> = (message, optional) "1",
    }

    ContainerStatus {
        /// In nanoseconds since 1970; 0 while running.
        finished_at: i64 = (int64) "6",
        exit_code: i32 = (int32) "7",
    }

    ExecSyncRequest {
        container_id: String = (string) "1",
        command: Vec<String> = (string, repeated) "2",
        timeout: i64 = (int64) "3",
    }

    ExecSyncResponse {
        stdout: Vec<u8> = (bytes = "vec") "1",
    }
}
