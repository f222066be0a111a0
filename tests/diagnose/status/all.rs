//! Overview of a node's network namespaces. Each test has separate mount, network and PID namespaces, so it sees only its own.

use crate::support::program::{BINARY, Outcome, Run};
use crate::support::scope;
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs a script in which `$B` is the program, and `made NAME` creates a network namespace with loopback.
fn script(lines: &str) -> Outcome {
    let script = format!(
        "set -e; B={BINARY}; mount -t tmpfs none /run\n\
         made() {{ ip netns add \"$1\"; ip -n \"$1\" link set lo up; }}\n\
         {lines}"
    );
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        "sh",
        "-c",
        &script,
    ]);
    command.outcome()
}

const STATES: &str = r#"
for name in drifted overruled failing outbound legacy none; do made "$name"; done
capture="--pod-ips 10.1.2.3 --envoy-port 15001"
for name in drifted overruled failing; do
    "$B" apply --network-namespace "$name" $capture -b '*' -i '*' --backend nftables
done
"$B" apply --network-namespace legacy $capture -b '*' -i '*' --backend iptables-legacy
"$B" apply --network-namespace outbound --mesh kuma --pod-ips 10.1.2.3 --redirect-inbound=false
ip netns exec drifted nft add rule inet sidecar_init nat_ISTIO_OUTPUT counter
ip netns exec overruled nft add table ip other
ip netns exec overruled nft add chain ip other first '{ type nat hook output priority -110; }'
ip netns exec overruled nft add rule ip other first tcp dport 1-65535 redirect to :9999
unshare --net sleep 60 &
until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
status=0; "$B" status --all --output json || status=$?
kill $!
echo "exit $status"
"#;

#[test]
fn worst_states_are_first() {
    let printed = script(STATES).success().stdout;
    let (document, end) = printed.rsplit_once("exit ").expect("the exit code");
    assert_eq!(end.trim(), "1", "{printed}");
    let document: Value = serde_json::from_str(document).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let rows: Vec<(String, String)> = document["namespaces"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| (text(&row["state"]), text(&row["name"])))
        .collect();
    let states: Vec<(&str, &str)> = rows.iter().map(|(state, name)| (&**state, &**name)).collect();
    let [first @ .., (last, process)] = &states[..] else { panic!("{printed}") };
    let expected = [
        ("drifted", "drifted"),
        ("overruled", "overruled"),
        ("failing", "failing"),
        ("failing", "legacy"),
        ("failing", "outbound"),
        ("not-captured", "none"),
    ];
    assert_eq!(first, expected, "{printed}");
    assert!(*last == "not-captured" && process.starts_with("pid:"), "{printed}");
    let of = |name: &str| {
        let rows = document["namespaces"].as_array().expect("rows");
        rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {printed}"))
    };
    assert_eq!(of("legacy")["held_by"][0]["backend"], "iptables-legacy");
    assert_eq!(of("outbound")["meshes"], serde_json::json!(["kuma"]));
    let made = |name: &str| of(name)["held_by"][0]["made"].is_object();
    assert!(made("drifted") && !made("legacy"), "{printed}");
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// As many namespaces as on a large node, of four meshes, while others are created and removed.
#[test]
fn a_large_node_is_read_whole() {
    let of_each = scope::runs(60, 8);
    let lines = r#"
for number in $(seq 1 ALL); do
    for mesh in istio linkerd kuma ambient; do made "$mesh-$number"; done
    "$B" apply --network-namespace "istio-$number" --pod-ips 10.1.2.3 -b '*' -i '*' --backend nftables
    "$B" apply --network-namespace "linkerd-$number" --mesh linkerd --pod-ips 10.1.2.3 --backend nftables
    "$B" apply --network-namespace "kuma-$number" --mesh kuma --pod-ips 10.1.2.3 --backend nftables
    "$B" apply --network-namespace "ambient-$number" --mesh ambient --pod-ips 10.1.2.3 --backend nftables
done 2>/run/log || { cat /run/log; exit 1; }
for number in $(seq 1 10); do made "empty-$number"; done
(while :; do ip netns add passing; sleep 0.02; ip netns delete passing; sleep 0.02; done) &
for round in 1 2 3; do "$B" status --all --output json || [ $? = 1 ]; echo; done
kill $!
"#;
    let printed = script(&lines.replace("ALL", &of_each.to_string())).success().stdout;
    let documents = serde_json::Deserializer::from_str(&printed).into_iter::<Value>();
    let documents: Vec<Value> =
        documents.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}: {printed}"));
    assert_eq!(documents.len(), 3);
    for document in documents {
        let rows = document["namespaces"].as_array().expect("rows");
        for mesh in ["istio", "linkerd", "kuma", "ambient"] {
            let of_mesh = rows.iter().filter(|row| row["meshes"] == serde_json::json!([mesh])).count();
            assert_eq!(of_mesh, of_each, "{mesh}: {document}");
        }
        let is_empty = |row: &&Value| row["name"].as_str().is_some_and(|name| name.starts_with("empty-"));
        assert!(rows.iter().filter(is_empty).all(|row| row["state"] == "not-captured"), "{document}");
        assert_eq!(rows.iter().filter(is_empty).count(), 10);
    }
}

/// A substitute for the iptables program hangs in one namespace, and so does its reader.
#[test]
fn hanging_namespace_delays_no_other() {
    let lines = r#"
for name in hangs web; do
    made "$name"
    "$B" apply --network-namespace "$name" --pod-ips 10.1.2.3 -b '*' -i '*' --backend iptables-nft
done
real=$(command -v iptables-nft-save)
mkdir /run/bin
cat >/run/bin/iptables-nft-save <<END
#!/bin/sh
if [ -e /run/stop ] && [ "\$(stat -Lc %i /proc/self/ns/net)" = "\$(stat -c %i /run/netns/hangs)" ]; then
    echo \$\$ >/run/stopped
    kill -STOP \$\$
fi
exec $real "\$@"
END
chmod +x /run/bin/iptables-nft-save
PATH=/run/bin:$PATH
touch /run/stop /run/out
"$B" status --all --watch --interval 100ms --output json >/run/out &
watcher=$!
until [ "$(wc -l </run/out)" -ge 2 ]; do sleep 0.05; done
rm /run/stop
kill -CONT "$(cat /run/stopped)"
until grep -q '"name":"hangs","pod":null,"container":null,"state":"failing"' /run/out; do sleep 0.05; done
kill $watcher; wait $watcher
cat /run/out
"#;
    let start = Instant::now();
    let printed = script(lines).success().stdout;
    assert!(start.elapsed() >= Duration::from_secs(5), "the timeout");
    let documents: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("a document a line")).collect();
    let state = |document: &Value, name: &str| {
        let rows = document["namespaces"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {printed}"));
        (text(&row["state"]), text(&row["findings"][0]["text"]))
    };
    for (document, why) in
        [(0, "reading it takes longer than 5 s"), (1, "an earlier reading of it has not finished")]
    {
        assert_eq!(state(&documents[document], "hangs"), ("unknown".to_owned(), why.to_owned()));
        assert_eq!(documents[document]["namespaces"][0]["name"], "hangs", "the worst first: {printed}");
    }
    for document in &documents {
        assert_eq!(state(document, "web").0, "failing", "{printed}");
    }
    let last = documents.last().expect("several");
    assert_eq!(state(last, "hangs"), state(last, "web"), "read again after the earlier read has ended");
}
