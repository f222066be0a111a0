//! An Envoy process and its log, started in a pod as injection starts proxies, and ended with the test.

use crate::support::program::{Outcome, Run};
use crate::{
    meshes::envoy::stage::{TIMEOUT, until},
    support::{namespace::Namespace, pod::proxy_identity, setting::Mode, traffic::Identity},
};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread,
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) identity: Identity,
    pub(crate) capabilities: String,
    pub(crate) arguments: Vec<String>,
}

impl Launch {
    pub(crate) fn of(mode: Mode) -> Self {
        let capabilities = match mode {
            Mode::Redirect => "-all",
            Mode::Tproxy => "-all,+net_admin",
        };
        let path = configuration(mode);
        let text = fs::read_to_string(path).expect("its configuration");
        Self {
            identity: proxy_identity(mode),
            capabilities: capabilities.to_owned(),
            arguments: vec!["--config-yaml".to_owned(), text, "--log-level".to_owned(), "warning".to_owned()],
        }
    }
}

pub(crate) fn configuration(mode: Mode) -> PathBuf {
    let name = match mode {
        Mode::Redirect => "docker/envoy.yaml",
        Mode::Tproxy => "docker/envoy-tproxy.yaml",
    };
    Path::new(ROOT).join(name)
}

pub(crate) struct Envoy {
    process: Mutex<Child>,
    launch: Launch,
    namespace: String,
    log: Arc<Mutex<Vec<String>>>,
}

impl Envoy {
    pub(crate) fn start(host: &Namespace, launch: Launch) -> Self {
        let (namespace, log) = (host.path(), Arc::default());
        let process = Mutex::new(spawn(&namespace, &launch, &log));
        let envoy = Self { process, launch, namespace, log };
        envoy.wait_until_ready(host);
        envoy
    }

    pub(crate) fn kill(&self) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.kill().expect("our child");
        process.wait().expect("our child");
    }

    pub(crate) fn restart(&self, host: &Namespace) {
        *self.process.lock().expect("no panic while locked") =
            spawn(&self.namespace, &self.launch, &self.log);
        self.wait_until_ready(host);
    }

    /// Waits for a log line with this start: lines are written some time after a connection's end.
    pub(crate) fn wait_for_line(&self, start: &str) -> bool {
        until(|| self.log().iter().any(|line| line.starts_with(start)).then_some(())).is_some()
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn wait_until_ready(&self, host: &Namespace) {
        let ready = until(|| {
            let ended = self.process.lock().expect("no panic while locked").try_wait();
            if let Ok(Some(status)) = ended {
                panic!("Envoy ended with {status}:\n{}", self.log().join("\n"));
            }
            host.run(is_ready).then_some(())
        });
        assert!(ready.is_some(), "Envoy is not ready after {TIMEOUT:?}:\n{}", self.log().join("\n"));
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(namespace: &str, launch: &Launch, log: &Arc<Mutex<Vec<String>>>) -> Child {
    let Launch { identity: Identity { uid, gid }, capabilities, arguments } = launch;
    // The checkout may be in a folder that other users can't read. An open file can still be executed, so the program is standard
    // input.
    let program = File::open(program()).expect("scripts/envoy has just named it");
    let mut process = Command::new("nsenter")
        .args([&format!("--net={namespace}"), "setpriv", "--pdeathsig", "KILL", "--clear-groups"])
        .args(["--reuid", &uid.to_string(), "--regid", &gid.to_string()])
        .args(["--inh-caps=-all", &format!("--bounding-set={capabilities}")])
        .args(["--no-new-privs", "/proc/self/fd/0"])
        .args(arguments)
        // The shared memory of a hot restart has a machine-wide name.
        .args(["--disable-hot-restart", "--concurrency", "1"])
        .args(["--file-flush-interval-msec", "20"])
        .stdin(program)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("starting `nsenter` failed ({error}): run scripts/setup"));
    listen(process.stdout.take(), process.stderr.take(), log);
    process
}

fn listen(stdout: Option<ChildStdout>, stderr: Option<ChildStderr>, log: &Arc<Mutex<Vec<String>>>) {
    let streams: [Box<dyn Read + Send>; 2] =
        [Box::new(stdout.expect("a pipe")), Box::new(stderr.expect("it is piped"))];
    for stream in streams {
        let log = Arc::clone(log);
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
    }
}

fn program() -> &'static str {
    static FOUND: OnceLock<Outcome> = OnceLock::new();
    let found = FOUND.get_or_init(|| Command::new(Path::new(ROOT).join("scripts/envoy")).outcome());
    let why = "there is no Envoy, and tests have no network: run scripts/envoy";
    assert!(found.succeeded(), "{why}\n{}", found.stderr);
    found.stdout.trim()
}

fn is_ready() -> bool {
    let ask = || {
        let mut stream = TcpStream::connect("127.0.0.1:15000")?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(b"GET /ready HTTP/1.1\r\nHost: envoy\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
}
