//! A separate browser, ended with all its processes on drop.

use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use thirtyfour::prelude::*;
use thirtyfour::{ChromiumLikeCapabilities, DesiredCapabilities};
use tokio::runtime::Runtime;

pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) struct Browser {
    runtime: Runtime,
    driver: Option<WebDriver>,
    _process: Process,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let (process, port) = Process::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let mut desired = DesiredCapabilities::chrome();
        for argument in [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1280,900",
            &format!("--user-data-dir={}", process.folder.display()),
        ] {
            desired.add_arg(argument).expect("an argument");
        }
        let logs = json!({ "performance": "ALL", "browser": "ALL" });
        desired.set("goog:loggingPrefs", logs).expect("a capability");
        let driver = runtime.block_on(WebDriver::new(format!("http://127.0.0.1:{port}"), desired));
        Self { runtime, driver: Some(driver.expect("a session")), _process: process }
    }

    fn driver(&self) -> &WebDriver {
        self.driver.as_ref().expect("it runs")
    }

    pub(crate) fn open(&self, url: &str) {
        self.runtime.block_on(self.driver().goto(url)).expect("the page");
    }

    pub(crate) fn back(&self) {
        self.runtime.block_on(self.driver().back()).expect("the page before");
    }

    pub(crate) fn url(&self) -> String {
        self.runtime.block_on(self.driver().current_url()).expect("an address").to_string()
    }

    /// Runs a script in the page: the body of a function of `arguments`.
    pub(crate) fn script(&self, script: &str, arguments: &[Value]) -> Value {
        let done = self.runtime.block_on(self.driver().execute(script, arguments.to_vec()));
        done.unwrap_or_else(|error| panic!("{script}: {error}")).json().clone()
    }

    /// Runs a script that calls the last of its arguments with the outcome.
    pub(crate) fn script_that_calls_back(&self, script: &str, arguments: &[Value]) -> Value {
        let done = self.runtime.block_on(self.driver().execute_async(script, arguments.to_vec()));
        done.unwrap_or_else(|error| panic!("{script}: {error}")).json().clone()
    }

    pub(crate) fn type_on(&self, id: &str, keys: &str) {
        self.runtime.block_on(async {
            let element = self.driver().find(By::Id(id)).await.expect("the element");
            element.send_keys(keys).await.expect("typed");
        });
    }

    pub(crate) fn type_into(&self, id: &str, keys: &str) {
        self.type_on(id, keys);
        self.settle();
    }

    pub(crate) fn resize(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
        self.wait("return innerWidth === arguments[0]", &[json!(width)]);
    }

    pub(crate) fn erase(&self, id: &str, letters: usize) {
        let key: String = std::iter::repeat_n(char::from(Key::Backspace), letters).collect();
        self.type_into(id, &key);
    }

    pub(crate) fn press(&self, key: Key) {
        let keys = self.driver().action_chain().send_keys(key);
        self.runtime.block_on(keys.perform()).expect("pressed");
    }

    pub(crate) fn devtools(&self, method: &str, parameters: &Value) -> Value {
        self.runtime.block_on(self.driver().cdp().send_raw(method, parameters)).expect(method)
    }

    pub(crate) fn prefer(&self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &features);
    }

    /// The browser's log since the last call, such as network requests or console lines.
    pub(crate) fn log(&self, kind: &str) -> Vec<String> {
        let entries = self.runtime.block_on(self.driver().get_log(kind)).expect("a log");
        entries.into_iter().map(|entry| entry.message).collect()
    }

    /// Waits until a script returns a value other than null or false, and returns it.
    pub(crate) fn wait(&self, script: &str, arguments: &[Value]) -> Value {
        let body = format!(
            "const done = arguments[arguments.length - 1], until = Date.now() + {};
            const look = () => {{
              const found = (function () {{ {script} }}).apply(null, Array.from(arguments).slice(0, -1));
              if (found || Date.now() > until) done(found); else setTimeout(look, 20);
            }};
            look();",
            LONG.as_millis()
        );
        let found = self.script_that_calls_back(&body, arguments);
        assert!(!found.is_null() && found != json!(false), "timeout: {script}");
        found
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take() {
            // After the timeout its processes are killed.
            drop(self.runtime.block_on(async { tokio::time::timeout(LONG, driver.quit()).await }));
        }
    }
}

struct Process {
    child: Child,
    folder: PathBuf,
}

impl Process {
    fn start() -> (Self, u16) {
        // Cargo's runner alone leaves loopback down.
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip");
        assert!(up.success(), "loopback is needed");
        // The driver looks for a port that is free for both families; another program may take it first.
        let started = (0..10).find_map(|_| Self::try_start());
        started.expect("chromedriver starts: scripts/setup --all installs it")
    }

    fn try_start() -> Option<(Self, u16)> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("playground-{}-{number}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).expect("a folder");
        // When a PID namespace's first process ends, the kernel kills all others.
        let child = Command::new("setpriv")
            .args(["--pdeathsig=KILL", "--", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["--", "chromedriver", "--port=0"])
            .env("HOME", &folder)
            .env("TMPDIR", &folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.expect("setpriv of util-linux");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let process = Self { child, folder };
        let port = lines.find_map(|line| {
            let line = line.ok()?;
            let port = line.strip_prefix("ChromeDriver was started successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        })?;
        // A pipe that is not read would block.
        std::thread::spawn(move || lines.for_each(drop));
        Some((process, port))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may already have ended.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}
