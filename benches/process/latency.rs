//! Benchmark of a captured TCP connection's handshake, with port lists of several lengths. Every case keeps its namespace
//! throughout, and cases take turns. The connection goes to a port on no list, so it passes all rules to a listener in the same
//! namespace; without rules, it reaches the listener directly. A reset ends the connection and leaves no state behind.

use super::nftables::ports;
use super::{Outcome, in_fresh_namespace, program, stdout_of, succeed};
use nix::{
    libc::linger,
    sys::socket::{setsockopt, sockopt},
};
use std::{
    io::{Write, stderr},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

const TITLE: &str = "Connect latency";
const SIZES: [usize; 4] = [0, 100, 1_000, 5_000];
const CONNECTIONS: usize = 20;
/// The proxy's listener and the connections' destination.
const PROXY: &str = "127.0.0.1:15001";
const DESTINATION: &str = "203.0.113.1:8080";

const COLUMNS: [(&str, &[&str]); 3] = [
    ("nftables", &["--native-nftables"]),
    ("iptables-nft", &["--force-iptables-binary", "nft"]),
    ("iptables-legacy", &["--force-iptables-binary", "legacy"]),
];

/// Handle to a case's thread: requests a turn and receives its times.
struct Case {
    turn: Sender<()>,
    times: Receiver<Outcome<Vec<Duration>>>,
    all: Vec<Duration>,
}

pub(super) fn table(binary: &Path, selected: &[&str], runs: usize) -> Outcome<Option<String>> {
    if !selected.is_empty() && !selected.iter().any(|part| TITLE.contains(part)) {
        return Ok(None);
    }
    writeln!(stderr(), "bench: {TITLE}: {runs} runs of {CONNECTIONS} connections")?;
    thread::scope(|scope| {
        let start = |flags: Option<Vec<String>>| {
            let ((turn, turns), (note, times)) = (channel(), channel());
            scope.spawn(move || {
                let failed = note.clone();
                let work = move || serve(binary, flags.as_deref(), &turns, &note);
                if let Err(error) = in_fresh_namespace(work) {
                    let _ = failed.send(Err(error));
                }
            });
            Case { turn, times, all: Vec::new() }
        };
        let mut cases = vec![start(None)];
        for size in SIZES {
            for (_, backend) in COLUMNS {
                let list = ["-o".to_owned(), ports(size)];
                cases.push(start(Some(backend.iter().map(|flag| (*flag).to_owned()).chain(list).collect())));
            }
        }
        // The first turn warms the caches.
        for run in 0..=runs {
            for case in &mut cases {
                let _ = case.turn.send(());
                let times = case.times.recv()??;
                case.all.extend(if run == 0 { Vec::new() } else { times });
            }
        }
        Ok(Some(markdown(cases)))
    })
}

fn serve(
    binary: &Path,
    flags: Option<&[String]>,
    turns: &Receiver<()>,
    note: &Sender<Outcome<Vec<Duration>>>,
) -> Outcome<()> {
    for command in [
        "link add eth0 type veth peer name eth1",
        "link set eth0 up",
        "link set eth1 up",
        "route add 203.0.113.0/24 dev eth0",
    ] {
        succeed(&mut program(Path::new("ip"), &command.split(' ').collect::<Vec<_>>()))?;
    }
    let listener = TcpListener::bind(PROXY)?;
    let mut to = PROXY;
    if let Some(flags) = flags {
        let mut apply = program(binary, &["istio-iptables", "-u", "1337", "-i", "*", "-b", "*"]);
        stdout_of(apply.args(flags))?;
        to = DESTINATION;
    }
    while let Ok(()) = turns.recv() {
        let times = (0..CONNECTIONS).map(|_| connect(&listener, to)).collect();
        note.send(times)?;
    }
    Ok(())
}

fn connect(listener: &TcpListener, to: &str) -> Outcome<Duration> {
    let start = Instant::now();
    let stream = TcpStream::connect(to)?;
    let time = start.elapsed();
    let accepted = listener.accept()?;
    setsockopt(&stream, sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 })?;
    drop(stream);
    drop(accepted);
    Ok(time)
}

fn markdown(cases: Vec<Case>) -> String {
    let mut medians = cases.into_iter().map(|mut case| {
        case.all.sort_unstable();
        format!("{:.1}", case.all[case.all.len() / 2].as_secs_f64() * 1e6)
    });
    let columns = COLUMNS.map(|(name, _)| name);
    let none = medians.next().unwrap_or_default();
    let mut text = format!(
        "### {TITLE}, median us; without rules {none}\n\n| excluded ports | {} |\n|--:|",
        columns.join(" | ")
    );
    text += &"--:|".repeat(columns.len());
    for size in SIZES {
        let row: Vec<String> = medians.by_ref().take(columns.len()).collect();
        text += &format!("\n| {size} | {} |", row.join(" | "));
    }
    text
}
