//! A node for an installer: separate folders, removed on drop, and the programs that run there.

use crate::support::folder::Folder;
use crate::support::program::{self, Outcome, Run};
use crate::support::wait;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    sync::atomic::{AtomicU32, Ordering},
};
use testkit::seccomp;

pub(crate) const LIST: &str = r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"a"}]}"#;

/// The program without its debug information, which is most of its size: tests copy it often.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cni_install");
        fs::create_dir_all(&folder).expect("a folder");
        let aside = folder.join(format!("new-{}", std::process::id()));
        let strip = ["-o", aside.to_str().expect("UTF-8"), program::BINARY];
        assert!(Command::new("strip").args(strip).status().expect("strip").success());
        let program = folder.join("sidecar-init");
        fs::rename(aside, &program).expect("the program is put in place");
        program
    })
}

pub(crate) struct Node(Folder);

impl Node {
    pub(crate) fn new() -> Self {
        let node = Self(Folder::new("node"));
        fs::create_dir_all(node.configurations()).expect("a folder");
        fs::create_dir_all(node.programs()).expect("a folder");
        node
    }

    pub(crate) fn configurations(&self) -> PathBuf {
        self.0.join("net.d")
    }

    pub(crate) fn programs(&self) -> PathBuf {
        self.0.join("bin")
    }

    pub(crate) fn plugin(&self) -> PathBuf {
        self.programs().join("sidecar-cni")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn put(&self, name: &str, text: &str) {
        let aside = self.0.join(format!("{name}.new"));
        fs::write(&aside, text).expect("written");
        fs::rename(aside, self.configurations().join(name)).expect("renamed");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.configurations().join(name)).unwrap_or_default()
    }

    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.configurations()).expect("the folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        names.map(|name| (name.clone(), self.read(&name))).collect()
    }

    /// Configurations that runtimes read.
    pub(crate) fn configurations_by_name(&self) -> BTreeMap<String, String> {
        let mut all = self.all();
        all.retain(|name, _| name.contains(".conf"));
        all
    }

    pub(crate) fn arguments(&self, verb: &str, more: &[&str]) -> Vec<String> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let folders = ["cni".into(), verb.into(), "--conf-dir".into(), text(self.configurations())];
        let programs = ["--bin-dir".into(), text(self.programs())];
        folders.into_iter().chain(programs).chain(more.iter().map(|word| (*word).to_owned())).collect()
    }

    pub(crate) fn call(&self, verb: &str, more: &[&str]) -> Outcome {
        seccomp::command("sidecar-cni", program()).args(self.arguments(verb, more)).outcome()
    }

    #[track_caller]
    pub(crate) fn succeed(&self, verb: &str, more: &[&str]) {
        self.call(verb, more).with(0, verb);
    }

    pub(crate) fn start(&self, more: &[&str]) -> Running {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let log = self.0.join(format!("log-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let child = seccomp::command("sidecar-cni", program())
            .args(self.arguments("install", more))
            .stderr(fs::File::create(&log).expect("a log"))
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        Running { child: testkit::running::Running(child), log }
    }
}

pub(crate) struct Running {
    child: testkit::running::Running,
    log: PathBuf,
}

impl Running {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn end(&mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
        self.ended()
    }

    #[track_caller]
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let log = self.log.clone();
        let status = wait::until_ok(|| {
            let ended = self.child.try_wait().expect("a child");
            ended.ok_or_else(|| format!("its end\n{}", fs::read_to_string(&log).unwrap_or_default()))
        });
        status.code()
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        wait::until_ok(|| if is_so() { Ok(()) } else { Err(format!("{what}\n{}", self.log())) });
    }
}

#[track_caller]
pub(crate) fn types(text: &str) -> Vec<String> {
    let list: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text:?}"));
    let name = |plugin: &Value| plugin["type"].as_str().unwrap_or_default().to_owned();
    list["plugins"].as_array().map(|plugins| plugins.iter().map(name).collect()).unwrap_or_default()
}

/// Changes whenever a file is written again.
pub(crate) fn identity(path: &Path) -> (u64, i64, i64) {
    let metadata = fs::metadata(path).expect("the file");
    (metadata.ino(), metadata.mtime(), metadata.mtime_nsec())
}

pub(crate) fn shapes() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cni/install/shapes");
    let entries = fs::read_dir(folder).expect("the shapes").map(|entry| entry.expect("an entry").path());
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).expect("UTF-8"))
    };
    let shapes: Vec<(String, String)> = entries.map(read).collect();
    assert_eq!(shapes.len(), 8);
    shapes
}
