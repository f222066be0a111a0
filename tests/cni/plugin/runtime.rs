//! A container runtime from a plugin's view: variables, standard input, standard output.

use crate::support::folder::Folder;
use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, Outcome, finish};
use serde_json::{Value, json};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

pub(crate) const CAPTURE: &str = r#"{"istio-inbound-ports":"*","istio-service-cidr":"*"}"#;

pub(crate) struct Node {
    pub(crate) folder: Folder,
}

pub(crate) fn container() -> Namespace {
    let namespace = Namespace::new();
    namespace.ip("addr add 10.1.2.3/32 dev lo");
    namespace
}

pub(crate) fn rules(namespace: &Namespace) -> String {
    crate::support::note::without_note(&namespace.stdout("nft", &["--stateless", "list", "ruleset"]))
}

impl Node {
    pub(crate) fn new() -> Self {
        Self { folder: Folder::new("cni") }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    pub(crate) fn attachments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state().join("attachments")).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths
    }

    pub(crate) fn configuration(&self, more: &Value) -> Value {
        let mut configuration = json!({
            "cniVersion": "1.1.0",
            "name": "mesh",
            "type": "sidecar-cni",
            "state_dir": self.state(),
            "log": self.log(),
        });
        let fields = configuration.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        configuration
    }

    pub(crate) fn capturing(&self) -> Value {
        self.configuration(&json!({"capture": serde_json::from_str::<Value>(CAPTURE).expect("JSON")}))
    }

    pub(crate) fn second(&self) -> Value {
        self.configuration(&json!({"name": "second", "capture": self.capturing()["capture"]}))
    }

    pub(crate) fn call(&self, verb: &str, configuration: &Value, namespace: &str) -> Outcome {
        run(verb, &variables("c1", namespace), &configuration.to_string())
    }

    /// Calls a verb with the machine's `PATH`, which has the iptables programs.
    pub(crate) fn call_with_programs(&self, verb: &str, configuration: &Value, namespace: &str) -> Outcome {
        let programs = env::var("PATH").expect("PATH");
        let variables = [&variables("c1", namespace)[..], &[("PATH", &programs)]].concat();
        run(verb, &variables, &configuration.to_string())
    }

    pub(crate) fn does(&self, verb: &str, configuration: &Value, namespace: &str) -> String {
        self.call(verb, configuration, namespace).well()
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

/// Variables of a call for a container of the pod `shop/web`.
pub(crate) fn variables<'a>(container: &'a str, namespace: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("CNI_CONTAINERID", container),
        ("CNI_NETNS", namespace),
        ("CNI_IFNAME", "eth0"),
        ("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web"),
        ("CNI_PATH", "/opt/cni/bin"),
    ]
}

/// Starts a call that waits for its input, without other variables, not even `PATH`.
pub(crate) fn start(verb: &str, variables: &[(&str, &str)]) -> Child {
    let mut command = Command::new(BINARY);
    command.env_clear().envs(variables.iter().copied());
    if !verb.is_empty() {
        command.env("CNI_COMMAND", verb);
    } else {
        command.arg("cni");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the plugin starts")
}

pub(crate) fn run(verb: &str, variables: &[(&str, &str)], input: &str) -> Outcome {
    finish(start(verb, variables), input)
}

pub(crate) trait Answer {
    fn well(self) -> String;
    fn refused(&self, code: u16) -> Value;
}

impl Answer for Outcome {
    #[track_caller]
    fn well(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        assert_eq!(self.stderr, "");
        self.stdout
    }

    #[track_caller]
    fn refused(&self, code: u16) -> Value {
        assert_eq!(self.code, Some(1), "{self:?}");
        let error: Value = serde_json::from_str(&self.stdout).expect("JSON on standard output");
        assert_eq!(error["code"], code, "{error:#}");
        assert!(error["msg"].as_str().is_some_and(|msg| !msg.is_empty()), "{error:#}");
        assert!(error["cniVersion"].is_string(), "{error:#}");
        error
    }
}

#[track_caller]
pub(crate) fn mentions(error: &Value, words: &[&str]) {
    let text =
        format!("{}\n{}", error["msg"].as_str().unwrap_or(""), error["details"].as_str().unwrap_or(""));
    for word in words {
        assert!(text.contains(word), "no {word:?} in\n{text}");
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
