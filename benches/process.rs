//! Benchmark of whole processes, from spawn to exit: their cost at a pod's start. Every run gets a new network namespace, made
//! before the clock starts. A table's rows take turns, run by run, so that load on the machine affects all rows alike and medians
//! compare fairly. The result is a Markdown table; a row is one entry in [`tables`]. Memory is the largest resident set of any
//! process in the row, children included. `BENCH_RUNS` sets runs per row, `SIDECAR_INIT` the binary, `BENCH_BEFORE` another
//! binary to run beside it; `BENCH_LOAD=1` keeps every core busy meanwhile. Arguments select rows by part of the table title or
//! row name.

use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

#[path = "process/before.rs"]
mod before;
#[path = "process/cni.rs"]
mod cni;
#[path = "process/latency.rs"]
mod latency;
#[path = "process/load.rs"]
mod load;
#[path = "process/nftables.rs"]
mod nftables;
#[path = "process/peak.rs"]
mod peak;

use nix::sched::{CloneFlags, unshare};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Arguments of Istio's injected init container.
const INIT_CONTAINER: &[&str] = &[
    "-p",
    "15001",
    "-z",
    "15006",
    "-u",
    "1337",
    "-m",
    "REDIRECT",
    "-i",
    "*",
    "-x",
    "",
    "-b",
    "*",
    "-d",
    "15090,15021,15020",
];

const CAPTURE: &[&str] = &["-u", "1337", "-i", "*", "-b", "*", "-d", "15090,15021,15020", "--dual-stack"];

/// Addresses of a dual-stack pod, on `lo`: a fresh namespace has no other interface.
const POD: &str = "link set lo up
address add 192.0.2.1/32 dev lo
address add 2001:db8::1/128 dev lo nodad
";

struct Table {
    title: &'static str,
    rows: Vec<Row>,
}

/// One measured case. The programs of `timed` run one after another; those of `before` prepare the namespace.
struct Row {
    name: &'static str,
    baseline: Option<&'static str>,
    before: Vec<Command>,
    timed: Vec<Command>,
}

struct Figures {
    name: &'static str,
    baseline: Option<&'static str>,
    median: Duration,
    p90: Duration,
    peak_kib: i64,
}

struct Scratch(PathBuf);

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let outcome = match args.as_slice() {
        [flag, program, args @ ..] if flag == peak::FLAG => peak::print(program, args),
        _ => bench(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &[String]) -> Outcome<()> {
    // Cargo adds flags, such as `--bench`.
    let selected: Vec<&str> = args.iter().map(String::as_str).filter(|arg| !arg.starts_with('-')).collect();
    let runs = runs()?;
    let scratch = Scratch::new()?;
    let load = load::start()?;
    writeln!(io::stdout(), "{}{load}", surroundings(runs)?)?;
    let others = [latency::table(&binary()?, &selected, runs)?, cni::table(&binary()?, &selected)?];
    for table in others.into_iter().flatten() {
        writeln!(io::stdout(), "\n{table}")?;
    }
    for mut table in tables(&binary()?, &scratch)? {
        table.keep(&selected);
        before::add_to(&mut table, &binary()?)?;
        if !table.rows.is_empty() {
            writeln!(io::stderr(), "bench: {}: {runs} runs of {} rows", table.title, table.rows.len())?;
            let figures = measure(&mut table.rows, runs)?;
            writeln!(io::stdout(), "\n### {}\n\n{}", table.title, markdown(&figures))?;
        }
    }
    Ok(())
}

fn tables(binary: &Path, scratch: &Scratch) -> Outcome<Vec<Table>> {
    let init = |flags: &[&str]| program(binary, &[&["istio-iptables"], flags].concat());
    let call = |more: &[&str]| init(&[INIT_CONTAINER, more].concat());
    let [v4, v6] = restore_files(call(&["--dual-stack", "--dry-run"]), scratch, "plain")?;
    let restore = |name: String, file| program(Path::new(&name), &["--wait", "--noflush", file]);
    let fresh_apply = |title, variant| Table {
        title,
        rows: vec![
            Row::timed(
                "raw restore pair",
                vec![
                    restore(format!("iptables-{variant}-restore"), &v4),
                    restore(format!("ip6tables-{variant}-restore"), &v6),
                ],
            ),
            Row::timed("apply", vec![call(&["--dual-stack", "--force-iptables-binary", variant])])
                .against("raw restore pair"),
        ],
    };

    let settled = |verb: &str, more: &[&str]| program(binary, &[&[verb], CAPTURE, more].concat());
    let run = |name: &str, args: &[&str]| program(Path::new(name), args);
    let life = |title, variant: &str| {
        let force = ["--force-iptables-binary", variant];
        let set = || vec![settled("apply", &force)];
        let drifted = || {
            let delete = ["-t", "nat", "-D", "OUTPUT", "-j", "ISTIO_OUTPUT"];
            vec![settled("apply", &force), run(&format!("iptables-{variant}"), &delete)]
        };
        let save = || {
            vec![
                run(&format!("iptables-{variant}-save"), &[]),
                run(&format!("ip6tables-{variant}-save"), &[]),
            ]
        };
        Table {
            title,
            rows: vec![
                Row::timed("raw save pair", save()).after(set()),
                Row::timed("apply, nothing to do", set()).after(set()).against("raw save pair"),
                Row::timed("diff", vec![settled("diff", &force)]).after(set()).against("raw save pair"),
                Row::timed("drift repaired", set()).after(drifted()).against("raw save pair"),
                Row::timed("clean", vec![program(binary, &["clean"])]).after(set()).against("raw save pair"),
            ],
        }
    };

    let mut tables = vec![
        Table {
            title: "Start",
            rows: vec![
                Row::timed("`/bin/true`", vec![program(Path::new("/bin/true"), &[])]),
                Row::timed("dry run, default flags", vec![init(&["--dry-run"])]).against("`/bin/true`"),
                Row::timed("dry run, init container", vec![call(&["--dry-run"])]).against("`/bin/true`"),
            ],
        },
        fresh_apply("Fresh apply, both families, iptables-nft", "nft"),
        fresh_apply("Fresh apply, both families, iptables-legacy", "legacy"),
        life("Life cycle, both families, iptables-nft", "nft"),
        life("Life cycle, both families, iptables-legacy", "legacy"),
    ];
    tables.extend(nftables::tables(call, scratch)?);
    Ok(tables)
}

impl Table {
    /// Keeps selected rows and their baselines; every row if none is selected.
    fn keep(&mut self, selected: &[&str]) {
        let title = self.title;
        let is_selected = |name: &str| {
            selected.is_empty() || selected.iter().any(|part| title.contains(part) || name.contains(part))
        };
        let baselines: Vec<_> =
            self.rows.iter().filter(|row| is_selected(row.name)).filter_map(|row| row.baseline).collect();
        self.rows.retain(|row| is_selected(row.name) || baselines.contains(&row.name));
    }
}

impl Row {
    fn timed(name: &'static str, timed: Vec<Command>) -> Self {
        Self { name, baseline: None, before: Vec::new(), timed }
    }

    fn after(self, before: Vec<Command>) -> Self {
        Self { before, ..self }
    }

    fn against(self, baseline: &'static str) -> Self {
        Self { baseline: Some(baseline), ..self }
    }

    /// Runs once and keeps all output, so that a broken row shows its error.
    fn rehearse(&mut self) -> Outcome<()> {
        in_fresh_namespace(|| self.before.iter_mut().chain(&mut self.timed).try_for_each(succeed))
    }

    fn run(&mut self) -> Outcome<Duration> {
        in_fresh_namespace(|| {
            self.before.iter_mut().try_for_each(succeed)?;
            let start = Instant::now();
            for command in &mut self.timed {
                let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
                if !status.success() {
                    return Err(format!("{command:?}: {status}").into());
                }
            }
            Ok(start.elapsed())
        })
    }

    fn peak_kib(&mut self) -> Outcome<i64> {
        in_fresh_namespace(|| {
            self.before.iter_mut().try_for_each(succeed)?;
            let peaks = self.timed.iter().map(peak::kib).collect::<Outcome<Vec<_>>>()?;
            Ok(peaks.into_iter().max().unwrap_or_default())
        })
    }
}

impl Scratch {
    fn new() -> io::Result<Self> {
        let path = env::temp_dir().join(format!("sidecar-init-bench-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    fn write(&self, name: &str, text: &str) -> io::Result<String> {
        let path = self.0.join(name);
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn measure(rows: &mut [Row], runs: usize) -> Outcome<Vec<Figures>> {
    rows.iter_mut().try_for_each(Row::rehearse)?;
    let mut times = vec![Vec::with_capacity(runs); rows.len()];
    for _ in 0..runs {
        for (row, times) in rows.iter_mut().zip(&mut times) {
            times.push(row.run()?);
        }
    }
    rows.iter_mut().zip(times).map(|(row, times)| figures(row, times)).collect()
}

fn figures(row: &mut Row, mut times: Vec<Duration>) -> Outcome<Figures> {
    times.sort_unstable();
    Ok(Figures {
        name: row.name,
        baseline: row.baseline,
        median: times[times.len() / 2],
        p90: times[times.len() * 9 / 10],
        peak_kib: row.peak_kib()?,
    })
}

fn markdown(figures: &[Figures]) -> String {
    let mut text = String::from("| case | median ms | p90 ms | ratio | peak KiB |\n|---|--:|--:|--:|--:|");
    for row in figures {
        text += &format!(
            "\n| {} | {:.2} | {:.2} | {} | {} |",
            row.name,
            row.median.as_secs_f64() * 1e3,
            row.p90.as_secs_f64() * 1e3,
            ratio(row, figures),
            row.peak_kib
        );
    }
    text
}

fn ratio(row: &Figures, all: &[Figures]) -> String {
    let baseline = row.baseline.and_then(|name| all.iter().find(|other| other.name == name));
    baseline
        .map(|baseline| format!("{:.2}", row.median.as_secs_f64() / baseline.median.as_secs_f64()))
        .unwrap_or_default()
}

/// Runs `work` on a thread in a new network namespace, which its child processes inherit.
fn in_fresh_namespace<T: Send>(work: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    let enter_and_work = || {
        unshare(CloneFlags::CLONE_NEWNET)
            .map_err(|error| format!("no network namespace: {error}; run as root"))?;
        assign_addresses()?;
        work()
    };
    thread::scope(|scope| scope.spawn(enter_and_work).join()).map_err(|_| "a run panicked")?
}

fn assign_addresses() -> Outcome<()> {
    let mut ip = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn()?;
    ip.stdin.take().ok_or("no pipe to ip")?.write_all(POD.as_bytes())?;
    let status = ip.wait()?;
    if status.success() { Ok(()) } else { Err(format!("ip could not set addresses: {status}").into()) }
}

fn program(path: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(path);
    command.args(args).stdin(Stdio::null());
    command
}

fn succeed(command: &mut Command) -> Outcome<()> {
    stdout_of(command).map(drop)
}

fn stdout_of(command: &mut Command) -> Outcome<String> {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}\n{}", output.status, reason.trim_end()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn restore_files(mut dry_run: Command, scratch: &Scratch, name: &str) -> Outcome<[String; 2]> {
    let text = in_fresh_namespace(|| stdout_of(&mut dry_run))?;
    let (v4, v6) = text.split_once("# ip6tables-restore\n").ok_or("the dry run printed no IPv6 rules")?;
    let v4 = v4.strip_prefix("# iptables-restore\n").ok_or("the dry run printed no IPv4 rules")?;
    Ok([scratch.write(&format!("{name}-v4"), v4)?, scratch.write(&format!("{name}-v6"), v6)?])
}

fn runs() -> Outcome<usize> {
    let text = env::var("BENCH_RUNS").unwrap_or_else(|_| "200".into());
    text.parse()
        .ok()
        .filter(|runs| *runs > 0)
        .ok_or_else(|| format!("BENCH_RUNS {text:?} is not a positive number").into())
}

fn binary() -> Outcome<PathBuf> {
    let built = || format!("target/{}-unknown-linux-musl/release/sidecar-init", env::consts::ARCH).into();
    let path = env::var_os("SIDECAR_INIT").map_or_else(built, PathBuf::from);
    if path.is_file() { Ok(path) } else { Err(format!("{} is not built", path.display()).into()) }
}

/// Test conditions in one line: kernel, iptables and cores.
fn surroundings(runs: usize) -> Outcome<String> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let iptables = stdout_of(&mut program(Path::new("iptables"), &["--version"]))?;
    let cores = thread::available_parallelism()?;
    Ok(format!("{runs} runs each; Linux {}, {}, {cores} cores", kernel.trim(), iptables.trim()))
}
