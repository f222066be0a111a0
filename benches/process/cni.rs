//! Benchmark of the CNI plugin: calls for a node's containers, one at a time and as many at once as a runtime starts. Each verb
//! is measured from the plugin's spawn to its exit. The calls run in a mount namespace with an empty `/run`, apart from the
//! machine's plugin state and its shared iptables lock; the last rows hold that lock. `BENCH_CONTAINERS` is the number of
//! containers (250).

use super::{Outcome, in_fresh_namespace, succeed};
use nix::{
    fcntl::{Flock, FlockArg},
    sched::{CloneFlags, unshare},
};
use std::{
    env,
    fs::File,
    io::{Write, stderr},
    os::fd::AsRawFd,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const TITLE: &str = "CNI plugin";
const VERBS: [&str; 3] = ["ADD", "CHECK", "DEL"];
/// Concurrent calls.
const AT_A_TIME: [usize; 2] = [1, 16];

const CONFIGURATION: &str = r#"{"cniVersion":"1.1.0","name":"mesh","type":"sidecar-cni","log":"/run/cni.log",
    "runtimeConfig":{"io.kubernetes.cri.pod-annotations":{
        "sidecar.istio.io/status":"{\"containers\":[\"istio-proxy\"]}",
        "sidecar-init/dual-stack":"true"}},
    "prevResult":{"cniVersion":"1.1.0","ips":[{"address":"192.0.2.1/32"}]}}"#;

pub(super) fn table(binary: &Path, selected: &[&str]) -> Outcome<Option<String>> {
    if !selected.is_empty() && !selected.iter().any(|part| TITLE.contains(part)) {
        return Ok(None);
    }
    let count = env::var("BENCH_CONTAINERS").map_or(Ok(250), |count| count.parse())?;
    writeln!(stderr(), "bench: {TITLE}: {count} containers")?;
    let own_namespace = || File::open("/proc/thread-self/ns/net").map_err(Into::into);
    let containers = (0..count).map(|_| in_fresh_namespace(own_namespace)).collect::<Outcome<Vec<File>>>()?;
    let work = || {
        let mut text = format!("### {TITLE}, {count} containers\n\n");
        text += "| case | at a time | p50 ms | p99 ms | containers a second |\n|---|--:|--:|--:|--:|\n";
        for at_a_time in AT_A_TIME {
            text += &rounds(binary, &containers, at_a_time, "")?;
        }
        let lock = File::create("/run/xtables.lock")?;
        let _held = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, error)| error)?;
        text += &rounds(binary, &containers, AT_A_TIME[1], ", `/run/xtables.lock` held")?;
        Ok(text)
    };
    in_mount_namespace(work).map(Some)
}

fn in_mount_namespace<T: Send>(work: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    let inside = || {
        unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("no mount namespace: {error}"))?;
        succeed(Command::new("mount").args(["--make-rprivate", "/"]))?;
        succeed(Command::new("mount").args(["-t", "tmpfs", "tmpfs", "/run"]))?;
        work()
    };
    thread::scope(|scope| scope.spawn(inside).join()).map_err(|_| "a run panicked")?
}

fn rounds(binary: &Path, containers: &[File], at_a_time: usize, note: &str) -> Outcome<String> {
    let mut text = String::new();
    for verb in VERBS {
        let start = Instant::now();
        let mut times = round(binary, verb, containers, at_a_time)?;
        let all = start.elapsed();
        times.sort_unstable();
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        text += &format!(
            "| {verb}{note} | {at_a_time} | {:.2} | {:.2} | {:.0} |\n",
            milliseconds(times[times.len() / 2]),
            milliseconds(times[times.len() * 99 / 100]),
            times.len() as f64 / all.as_secs_f64(),
        );
    }
    Ok(text)
}

fn round(binary: &Path, verb: &str, containers: &[File], at_a_time: usize) -> Outcome<Vec<Duration>> {
    let (next, times) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(containers.len())));
    let work = || -> Outcome<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(container) = containers.get(number) else { return Ok(()) };
            let time = call(binary, verb, number, container)?;
            times.lock().map_err(|_| "a run panicked")?.push(time);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..at_a_time).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a run panicked")?)
    })?;
    Ok(times.into_inner().map_err(|_| "a run panicked")?)
}

fn call(binary: &Path, verb: &str, number: usize, container: &File) -> Outcome<Duration> {
    let path = format!("/proc/{}/fd/{}", std::process::id(), container.as_raw_fd());
    let mut command = Command::new(binary);
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs([
        ("CNI_COMMAND", verb),
        ("CNI_CONTAINERID", &format!("c{number}")),
        ("CNI_NETNS", &path),
        ("CNI_IFNAME", "eth0"),
        ("CNI_ARGS", "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web"),
    ]);
    let start = Instant::now();
    let mut child = command.spawn()?;
    child.stdin.take().ok_or("no pipe")?.write_all(CONFIGURATION.as_bytes())?;
    let ended = child.wait_with_output()?;
    let took = start.elapsed();
    match ended.status.success() && ended.stderr.is_empty() {
        true => Ok(took),
        false => Err(format!("{verb}: {ended:?}").into()),
    }
}
