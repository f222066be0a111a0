//! The containers' network as files for a runtime: Debian's bridge plugin and others that podman requires, then this plugin, last
//! in the chain. Also direct calls to the plugin, like a runtime's.

use crate::cni::runtimes::stage::Stage;
use serde_json::{Map, Value, json};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

const PLUGINS: &str = "/usr/lib/cni";
const THEIRS: [&str; 5] = ["bridge", "host-local", "loopback", "portmap", "tuning"];
pub(crate) const NAME: &str = "pods";
const INTERFACE: &str = "eth0";
const ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    subnet: &'static str,
    reach: &'static str,
}

pub(crate) const V4: Addresses = Addresses { subnet: "10.89.0.0/24", reach: "0.0.0.0/0" };
pub(crate) const V6: Addresses = Addresses { subnet: "fd89::/64", reach: "::/0" };

pub(crate) fn plugins(folder: &Path) -> PathBuf {
    folder.join("plugins")
}

pub(crate) fn configuration(folder: &Path) -> PathBuf {
    folder.join("net.d")
}

/// Writes the network's files. The project's plugin is named `plugin` and has these additional keys.
pub(crate) fn write(folder: &Path, plugin: &str, addresses: Addresses, ours: Value) {
    for folder in [plugins(folder), configuration(folder)] {
        fs::create_dir(folder).expect("a new folder");
    }
    for name in THEIRS {
        let theirs = Path::new(PLUGINS).join(name);
        assert!(theirs.is_file(), "{} is missing: run scripts/setup --all", theirs.display());
        symlink(theirs, plugins(folder).join(name)).expect("a link");
    }
    // A copy, since the stage may not see the build's folder.
    crate::support::program::copy(crate::support::program::BINARY, plugins(folder).join(plugin));
    let mut last = json!({
        "type": plugin,
        "capabilities": { ANNOTATIONS: true },
        "state_dir": folder.join("state"),
        "log": folder.join("cni.log"),
    });
    let Value::Object(ours) = ours else { panic!("keys are an object's") };
    last.as_object_mut().expect("an object").extend(ours);
    let path = configuration(folder).join(format!("10-{NAME}.conflist"));
    fs::write(path, list(addresses, &last).to_string()).expect("a file");
}

fn list(addresses: Addresses, last: &Value) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": NAME,
        "plugins": [
            {
                "type": "bridge",
                "bridge": format!("{NAME}0"),
                "isGateway": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/run/host-local",
                    "ranges": [[{ "subnet": addresses.subnet }]],
                    "routes": [{ "dst": addresses.reach }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
            { "type": "tuning" },
            last,
        ],
    })
}

/// A runtime's input to the plugin for a container, from `libcni`'s cache for CHECK and DEL.
pub(crate) struct Attachment {
    input: Map<String, Value>,
    container: String,
    arguments: String,
    pub(crate) netns: String,
}

impl Attachment {
    pub(crate) fn of(stage: &Stage, container: &str) -> Self {
        let path = format!("/var/lib/cni/results/{NAME}-{container}-{INTERFACE}");
        let text = fs::read_to_string(stage.seen(&path))
            .unwrap_or_else(|error| panic!("reading {path} of {} failed: {error}", stage.name));
        let cached: Value = serde_json::from_str(&text).expect("JSON");
        let decoded = stage.output(&["base64", "-d"], &[], cached["config"].as_str().expect("a string"));
        let list: Value = serde_json::from_str(&decoded.stdout).expect("JSON");
        let ours = list["plugins"].as_array().and_then(|plugins| plugins.last()).expect("a plugin");
        let mut input = ours.as_object().expect("an object").clone();
        let result = &cached["result"];
        input.insert("name".to_owned(), list["name"].clone());
        input.insert("cniVersion".to_owned(), list["cniVersion"].clone());
        input.insert("prevResult".to_owned(), result.clone());
        let annotations = &cached["capabilityArgs"][ANNOTATIONS];
        if !annotations.is_null() {
            input.insert("runtimeConfig".to_owned(), json!({ ANNOTATIONS: annotations }));
        }
        let pair = |pair: &Value| Some(format!("{}={}", pair[0].as_str()?, pair[1].as_str()?));
        let arguments = cached["cniArgs"].as_array().into_iter().flatten().filter_map(pair);
        let interfaces = result["interfaces"].as_array().into_iter().flatten();
        let netns = interfaces.filter(|known| known["name"] == INTERFACE);
        Self {
            input,
            container: container.to_owned(),
            arguments: arguments.collect::<Vec<_>>().join(";"),
            netns: netns.filter_map(|known| known["sandbox"].as_str()).collect(),
        }
    }

    pub(crate) fn address(&self) -> String {
        let network = self.input["prevResult"]["ips"][0]["address"].as_str().expect("an address");
        network.split('/').next().unwrap_or_default().to_owned()
    }

    /// `None` if the runtime did not pass it.
    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        self.input.get("runtimeConfig")?[ANNOTATIONS][name].as_str()
    }

    /// Returns the plugin's error as `Err`.
    pub(crate) fn call(&self, stage: &Stage, verb: &str) -> Result<String, Value> {
        let folder = plugins(&stage.folder);
        let plugin = folder.join(self.input["type"].as_str().expect("a string"));
        let (folder, plugin) = (folder.to_string_lossy(), plugin.to_string_lossy());
        let variables = [
            ("CNI_CONTAINERID", self.container.as_str()),
            ("CNI_NETNS", &self.netns),
            ("CNI_IFNAME", INTERFACE),
            ("CNI_ARGS", &self.arguments),
            ("CNI_COMMAND", verb),
            ("CNI_PATH", &folder),
        ];
        let output = stage.output(&[&plugin], &variables, &Value::Object(self.input.clone()).to_string());
        if output.succeeded() {
            return Ok(output.stdout);
        }
        let error = serde_json::from_str(&output.stdout);
        Err(error.unwrap_or_else(|_| panic!("{verb} failed without an error in JSON: {output:?}")))
    }

    pub(crate) fn is_remembered(&self, stage: &Stage) -> bool {
        let mut open = vec![stage.folder.join("state")];
        while let Some(folder) = open.pop() {
            for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
                if path.to_string_lossy().contains(&self.container) {
                    return true;
                }
                open.push(path);
            }
        }
        false
    }
}
