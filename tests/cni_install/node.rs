//! A node, as far as an installer sees it: folders of its own, gone when done with, and the programs that run there.

use serde_json::Value;
use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Whatever is waited for comes within this time, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program without its debug information: it is copied often, and that would be most of it.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cni_install");
        fs::create_dir_all(&folder).expect("a folder");
        let aside = folder.join(format!("new-{}", std::process::id()));
        let strip = ["-o", aside.to_str().expect("UTF-8"), env!("CARGO_BIN_EXE_sidecar-init")];
        assert!(Command::new("strip").args(strip).status().expect("strip").success());
        let program = folder.join("sidecar-init");
        fs::rename(aside, &program).expect("the program is put in place");
        program
    })
}

pub(crate) struct Node(PathBuf);

impl Node {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("sidecar-node-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let node = Self(env::temp_dir().join(name));
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

    /// A path beside the two folders.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Puts a network configuration in place as a well-behaved agent does.
    pub(crate) fn put(&self, name: &str, text: &str) {
        let aside = self.0.join(format!("{name}.new"));
        fs::write(&aside, text).expect("written");
        fs::rename(aside, self.configurations().join(name)).expect("renamed");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.configurations().join(name)).unwrap_or_default()
    }

    /// All network configurations, by name.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.configurations()).expect("the folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        names.map(|name| (name.clone(), self.read(&name))).collect()
    }

    /// Those of them that runtimes read.
    pub(crate) fn configurations_by_name(&self) -> BTreeMap<String, String> {
        let mut all = self.all();
        all.retain(|name, _| name.contains(".conf"));
        all
    }

    /// The arguments of a command of `cni` for this node.
    pub(crate) fn arguments(&self, verb: &str, more: &[&str]) -> Vec<String> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let folders = ["cni".into(), verb.into(), "--conf-dir".into(), text(self.configurations())];
        let programs = ["--bin-dir".into(), text(self.programs())];
        folders.into_iter().chain(programs).chain(more.iter().map(|word| (*word).to_owned())).collect()
    }

    pub(crate) fn call(&self, verb: &str, more: &[&str]) -> Output {
        Command::new(program()).args(self.arguments(verb, more)).output().expect("the program starts")
    }

    #[track_caller]
    pub(crate) fn succeed(&self, verb: &str, more: &[&str]) {
        let output = self.call(verb, more);
        assert!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts an install that stays.
    pub(crate) fn start(&self, more: &[&str]) -> Running {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let log = self.0.join(format!("log-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let child = Command::new(program())
            .args(self.arguments("install", more))
            .stderr(fs::File::create(&log).expect("a log"))
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        Running { child, log }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let removed = fs::remove_dir_all(&self.0);
        assert!(removed.is_ok() || thread::panicking(), "{} stays: {removed:?}", self.0.display());
    }
}

/// A program that ends with the test, if not before.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and tells its exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
        self.ended()
    }

    pub(crate) fn ended(&mut self) -> Option<i32> {
        let Self { child, log } = self;
        let log = || fs::read_to_string(&log).unwrap_or_default();
        wait_for("the end", || child.try_wait().expect("it can be waited for"), log).code()
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        wait_for(what, || is_so().then_some(()), || self.log());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>, log: impl Fn() -> String) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} does not come\n{}", log());
        thread::sleep(Duration::from_millis(5));
    }
}

/// The plugins of a list, by their types.
#[track_caller]
pub(crate) fn types(text: &str) -> Vec<String> {
    let list: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text:?}"));
    let name = |plugin: &Value| plugin["type"].as_str().unwrap_or_default().to_owned();
    list["plugins"].as_array().map(|plugins| plugins.iter().map(name).collect()).unwrap_or_default()
}

/// What tells a file from one that was written anew.
pub(crate) fn identity(path: &Path) -> (u64, i64, i64) {
    let metadata = fs::metadata(path).expect("the file");
    (metadata.ino(), metadata.mtime(), metadata.mtime_nsec())
}

/// The shapes of real network configurations: their names and texts.
pub(crate) fn shapes() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cni_install/shapes");
    let entries = fs::read_dir(folder).expect("the shapes").map(|entry| entry.expect("an entry").path());
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).expect("UTF-8"))
    };
    let shapes: Vec<(String, String)> = entries.map(read).collect();
    assert_eq!(shapes.len(), 8);
    shapes
}
