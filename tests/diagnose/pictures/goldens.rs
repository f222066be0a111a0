//! The documentation's pictures; `UPDATE_GOLDENS=1` writes them instead of comparing them.

use crate::support::program::Run;
use std::{fs, path::Path, process::Command};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

const PICTURES: &str = r#"
default.svg: sidecar-init explain --output svg --pod-ips 10.1.2.3 -u 1337 -i '*' -b '*' -d 15090,15021,15020
hero.svg: sidecar-init explain --output svg --of summary --pod-ips 10.1.2.3 -i '*' -b '*' -d 15090,15021,15020
default.txt: sidecar-init explain --output picture --pod-ips 10.1.2.3 -u 1337 -i '*' -b '*' -d 15090,15021,15020
explain.svg: sidecar-init explain --output svg --pod-ips 10.1.2.3 -u 1337 -i '*' -b '*' -d 15090,15021,15020 15090
explain.txt: sidecar-init explain --output picture --pod-ips 10.1.2.3 -u 1337 -i '*' -b '*' -d 15090,15021,15020 15090
tproxy.svg: sidecar-init explain --output svg --pod-ips 10.1.2.3,fd00::3 --dual-stack -u 1337 -m TPROXY -i '*' -b '*' -d 15090 --drop-invalid --redirect-dns --dns-servers 10.96.0.10
networks.svg: sidecar-init explain --output svg --pod-ips 10.1.2.3 -u 1337 -i "$(seq -s, -f '10.%g.0.0/16' 1 61)" -x 10.5.6.0/24 -b "$(seq -s, 8000 2 8998)" -o 3306,5432 -q 8443
machines.svg: ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE=5001 sidecar-init explain --output svg --pod-ips 10.1.2.3 -u 1337 -i '*' -b '*' -c eth1,br+ -k tap0
pod.svg: sidecar-init explain --output svg -f docker/pod-istio.yaml
none.svg: sidecar-init explain --output svg --pod-ips 10.1.2.3 -u 1337 -m NONE
linkerd.svg: sidecar-init explain --mesh linkerd --output svg --inbound-ports-to-ignore 4190,4191,4567,4568 --outbound-ports-to-ignore 4567,4568 --subnets-to-ignore 172.17.0.0/16
kuma.txt: sidecar-init explain --mesh kuma --output picture --pod-ips 10.1.2.3,fd00::3 --kuma-dp-user 5678 --redirect-all-dns-traffic --exclude-outbound-ips 10.96.0.1 --drop-invalid-packets
ambient.svg: sidecar-init explain --mesh ambient --output svg --reroute-virtual-interfaces tap0
"#;

fn pictures() -> impl Iterator<Item = (&'static str, &'static str)> {
    PICTURES.lines().filter_map(|line| line.split_once(": "))
}

#[test]
fn documented_pictures_match_their_commands() {
    let binary = Path::new(crate::support::program::BINARY).parent().expect("a folder").display();
    let path = format!("{binary}:{}", std::env::var("PATH").unwrap_or_default());
    for (file, command) in pictures() {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(ROOT)
            .env("PATH", &path)
            .env_remove("CLICOLOR_FORCE")
            .outcome();
        assert!(output.succeeded(), "{command}: {}", output.stderr);
        testkit::golden(Path::new(ROOT).join("docs/pictures").join(file), &output.stdout);
    }
}

#[test]
fn every_picture_has_a_command() {
    for entry in fs::read_dir(Path::new(ROOT).join("docs/pictures")).expect("the folder") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        // `tests/cli/recording.rs` records the terminal.
        let is_other = name == "terminal.svg";
        assert!(is_other || pictures().any(|(file, _)| file == name), "{name}");
    }
}
