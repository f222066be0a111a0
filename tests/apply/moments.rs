//! Each moment of a change: connections that start, go on or come back between two commits work, and reach the proxy.
//!
//! Scripts of the names of iptables' programs stand before the real ones on `PATH`. They commit table by table and stop
//! before each; where all is done by nf_tables, the engine stops before each step. The test connects meanwhile: from a
//! port that was never used, from one whose last connection the pod still has in TIME_WAIT, and over every connection that
//! was opened at an earlier moment.

use crate::support::rows::rows;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use nix::sys::stat::Mode as Rights;
use nix::unistd::mkfifo;

use crate::apply::paused;
use crate::apply::stage::{VARIANTS, call};
use crate::support::address::Place;
use crate::support::folder::Folder;
use crate::support::namespace::Namespace;
use crate::support::pod::{APP, Answerer, Pod};
use crate::support::program::{PATH, binary};
use crate::support::setting::{Family, Mode, Setting, Variant};
use crate::support::traffic::{Call, Protocol, QUESTION_OF_MORE};

const END: &str = "at the end";
const SCRIPT: &str = r#"#!/bin/bash
for real in /usr/sbin /sbin /usr/local/sbin /usr/bin; do
  [ -x "$real/${0##*/}" ] && break
done
while IFS= read -r line; do
  table+=$line$'\n'
  if [ "$line" = COMMIT ]; then
    echo "before ${0##*/} $(head -n 1 <<< "$table")" > "${0%/*}/moments"
    read -r _ < "${0%/*}/go"
    "$real/${0##*/}" "$@" <<< "$table" || exit
    table=
  fi
done
"#;

/// All inbound and outbound TCP.
const COMMON: [&str; 10] =
    ["--dual-stack", "-u", "1337", "-g", "1337", "-i", "*", "-b", "*", "--dns-servers=10.88.0.10,fd88::10"];
/// Of both families, where nobody asks the host.
const DECLARED: &[&str] = &["--pod-ips", "10.77.0.2,fd77::2"];
const REDIRECT: &[&str] = &["-m", "REDIRECT"];
const REDIRECT_WITH_MORE: &[&str] = &["-m", "REDIRECT", "--redirect-dns", "--drop-invalid"];
const TPROXY: &[&str] = &["-m", "TPROXY"];
const TPROXY_WITH_MORE: &[&str] =
    &["-m", "TPROXY", "--redirect-dns", "--drop-invalid", "-t", "1400", "-r", "140"];
/// What the one holds, and what the other is to hold.
const CHANGES: [[&[&str]; 2]; 7] = [
    [REDIRECT, REDIRECT_WITH_MORE],
    [REDIRECT, TPROXY],
    [TPROXY, REDIRECT],
    [REDIRECT_WITH_MORE, TPROXY_WITH_MORE],
    [TPROXY_WITH_MORE, REDIRECT],
    [TPROXY, TPROXY],
    [TPROXY, TPROXY_WITH_MORE],
];

#[test]
fn legacy_to_legacy() {
    every_change([Variant::Legacy; 2]);
}

#[test]
fn nft_to_nft() {
    every_change([Variant::Nft; 2]);
}

rows! {
    legacy_to_nft: every_change([Variant::Legacy, Variant::Nft]);
    nft_to_legacy: every_change([Variant::Nft, Variant::Legacy]);
    legacy_to_native: every_change([Variant::Legacy, Variant::Native]);
    nft_to_native: every_change([Variant::Nft, Variant::Native]);
}

#[test]
fn native_to_native() {
    every_change([Variant::Native; 2]);
}

/// There and back. On the way back the hooks of both are called in the same order as on
/// the way there: what came first in the namespace comes first.
fn every_change([one, other]: [Variant; 2]) {
    let mut faults = Vec::new();
    for family in Family::BOTH {
        for [old, new] in CHANGES {
            let scene = Scene::new(Setting { variant: other, family, mode: Mode::Tproxy }, one);
            let mut kept = Vec::new();
            for (variant, flags) in [(one, old), (other, new), (one, old)] {
                match [one, other] {
                    [Variant::Native, Variant::Native] => {
                        scene.change_natively(flags, &mut kept, &mut faults);
                    }
                    _ => scene.change(variant, flags, &mut kept, &mut faults),
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

struct Scene {
    pod: Pod,
    /// Scripts, and the pipes by which they wait.
    folder: Folder,
}

/// Connections that are open, each with the moment in which it was opened.
type Kept = Vec<(String, TcpStream)>;

impl Scene {
    fn new(setting: Setting, old: Variant) -> Self {
        let pod = Pod::new(setting);
        // The proxy closes first, so that its end alone is left in TIME_WAIT and the port outside is free again.
        pod.outside.set("ipv4/tcp_max_tw_buckets", "0");
        pod.listen(Protocol::Tcp, Place::Service, 9080);
        pod.listen(Protocol::Tcp, Place::Pod, 8080);
        let Setting { variant, family, .. } = setting;
        let folder = Folder::new(&format!("moments-{}-{}-{}", old.name(), variant.name(), family as u8));
        for (variant, family) in VARIANTS.into_iter().flat_map(|v| Family::BOTH.map(|family| (v, family))) {
            let script = folder.join(variant.program(family, "-restore"));
            crate::support::program::script(&script, SCRIPT);
            // What reads the rules is left as it is; it has to stand beside what writes them.
            let save = variant.program(family, "-save");
            symlink(Path::new("/usr/sbin").join(&save), folder.join(&save)).expect("the folder takes a link");
        }
        for name in ["moments", "go"] {
            mkfifo(&folder.join(name), Rights::S_IRWXU).expect("the folder takes a pipe");
        }
        Self { pod, folder }
    }

    /// Changes the state, and looks at each moment of it.
    fn change(&self, variant: Variant, flags: &[&str], kept: &mut Kept, faults: &mut Vec<String>) {
        let pipe = |name| File::options().read(true).write(true).open(self.folder.join(name));
        let [moments, mut go] = ["moments", "go"].map(|name| pipe(name).expect("both ends are ours"));
        let mut end = moments.try_clone().expect("a descriptor is free");
        let path = format!("{}:{PATH}", self.folder.display());
        let arguments = call("apply", variant, &[&COMMON, flags].concat());
        let inside = &self.pod.inside;
        let ended = thread::scope(|scope| {
            let run = scope.spawn(|| {
                let ended = inside.outcome(binary(&arguments).env("PATH", path));
                writeln!(end, "{END}").expect("a pipe takes a line");
                ended
            });
            for moment in BufReader::new(moments).lines().map(|line| line.expect("scripts write text")) {
                let at = format!("{moment} of the change to {variant:?} {flags:?}");
                // Before the first rules nothing is captured.
                if moment == END || !kept.is_empty() {
                    self.look_for_faults(&at, kept, faults);
                }
                if moment == END {
                    break;
                }
                writeln!(go, "go").expect("a pipe takes a line");
            }
            run.join().expect("the thread does not panic")
        });
        ended.with(0, &arguments.join(" "));
    }

    fn change_natively(&self, flags: &[&str], kept: &mut Kept, faults: &mut Vec<String>) {
        // No room in either, so that one waits for the other.
        let ((at, moments), (go, proceed)) = (mpsc::sync_channel(0), mpsc::sync_channel(0));
        let (inside, all) = (&self.pod.inside, [&COMMON, DECLARED, flags].concat());
        thread::scope(|scope| {
            scope.spawn(move || {
                inside.run(move || {
                    paused::apply(&all, |step| {
                        at.send(format!("before {step}")).expect("the test listens");
                        proceed.recv().expect("the test answers");
                    });
                });
            });
            for (index, moment) in moments.iter().enumerate() {
                if !kept.is_empty() {
                    self.look_for_faults(&format!("{index}: {moment}, {flags:?}"), kept, faults);
                }
                go.send(()).expect("the change goes on");
            }
        });
        self.look_for_faults(&format!("{END}, {flags:?}"), kept, faults);
    }

    fn look_for_faults(&self, at: &str, kept: &mut Kept, faults: &mut Vec<String>) {
        let found = self.look(at, kept).into_iter();
        faults.extend(found.map(|fault| format!("{}: {at}: {fault}", self.pod.setting)));
    }

    /// What is wrong at this moment.
    fn look(&self, moment: &str, kept: &mut Kept) -> Vec<String> {
        let family = self.pod.setting.family;
        let (inside, outside) = (&self.pod.inside, &self.pod.outside);
        let (pod, service) = (Place::Pod.at(family, 8080), Place::Service.at(family, 9080));
        let mut faults = Vec::new();
        let mut expect = |what: &str, answerer: Answerer, done: io::Result<()>| {
            let arrivals: Vec<Answerer> =
                self.pod.arrivals().iter().map(|arrival| arrival.listener).collect();
            if done.is_err() || arrivals != [answerer] {
                faults.push(format!("{what}: {done:?}, seen by {arrivals:?}"));
            }
        };
        // The same port each time, which the last call has left in TIME_WAIT.
        let again = SocketAddr::new(Place::Neighbour.ip(family), 20_000);
        expect("from outside, again", Answerer::Inbound, open(outside, Some(again), pod).and_then(finish));
        expect("from outside", Answerer::Inbound, open(outside, None, pod).and_then(finish));
        expect("from the pod", Answerer::Outbound, open(inside, None, service).and_then(finish));
        for (what, home, to, answerer) in [
            ("kept from outside", outside, pod, Answerer::Inbound),
            ("kept from the pod", inside, service, Answerer::Outbound),
        ] {
            let opened = open(home, None, to).and_then(|mut stream| {
                ask(&mut stream)?;
                kept.push((format!("{what} since {moment}"), stream));
                Ok(())
            });
            expect(what, answerer, opened);
        }
        for (what, stream) in kept {
            if let Err(error) = ask(stream) {
                faults.push(format!("{what}: {error}"));
            }
        }
        faults
    }
}

/// A connection of the application's, or of a host outside.
fn open(home: &Namespace, from: Option<SocketAddr>, to: SocketAddr) -> io::Result<TcpStream> {
    Call { protocol: Protocol::Tcp, identity: APP, from, mark: None, to }.open(home).map(TcpStream::from)
}

/// Asks, and leaves it to the other side to end the connection.
fn finish(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(b"?")?;
    stream.read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Asks over a connection that stays.
fn ask(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(QUESTION_OF_MORE)?;
    stream.read_exact(&mut [0])
}
