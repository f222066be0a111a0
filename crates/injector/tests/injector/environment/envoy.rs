//! The filter that adds the header, run by a real Envoy, with Istio's configuration.

use crate::PROGRAM;
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    thread,
};
use testkit::{folder::Folder, http::get, running::Running, until};

fn filter(header: &str) -> Value {
    let manifest = json!({ "apiVersion": "env.alibaba.com/v1alpha2", "kind": "VirtualEnvironment",
        "metadata": { "name": "demo" }, "spec": { "envHeader": { "name": header, "autoInject": true } } });
    let words = ["environment", "routes", "-f", "-", "--output", "json"];
    let list = PROGRAM.run_with(&words, &manifest.to_string()).with(0).json();
    list["items"][0]["spec"]["configPatches"][0]["patch"]["value"].clone()
}

fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut request, mut byte) = (Vec::new(), [0]);
                while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                    request.push(byte[0]);
                }
                let head = format!(
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    request.len()
                );
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&request));
            });
        }
    });
    address
}

struct Envoy {
    child: Running,
    folder: Folder,
    address: SocketAddr,
}

impl Envoy {
    fn start(filter: &Value, tag: Option<&str>) -> Self {
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).output();
        assert!(up.expect("ip starts").status.success(), "loopback can't be set up");
        let folder = Folder::new("envoy");
        let socket = |address: SocketAddr| json!({ "socket_address": { "address": address.ip().to_string(), "port_value": address.port() } });
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let router = json!({ "name": "envoy.filters.http.router",
            "typed_config": { "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" } });
        let manager = json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "test", "http_filters": [filter, router],
            "route_config": { "virtual_hosts": [{ "name": "all", "domains": ["*"],
                "routes": [{ "match": { "prefix": "/" }, "route": { "cluster": "echo" } }] }] },
        });
        let config = json!({
            "admin": { "address": socket(any) },
            "static_resources": {
                "listeners": [{ "name": "in", "address": socket(any), "filter_chains": [{ "filters": [
                    { "name": "envoy.filters.network.http_connection_manager", "typed_config": manager }] }] }],
                "clusters": [{ "name": "echo", "type": "STATIC", "load_assignment": { "cluster_name": "echo",
                    "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": socket(echo()) } }] }] } }],
            },
        });
        fs::write(folder.join("envoy.json"), config.to_string()).expect("written");
        let program = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/envoy"))
            .output()
            .expect("it starts");
        let program = String::from_utf8(program.stdout).expect("a path");
        let mut command = Command::new(program.trim());
        command.arg("-c").arg(folder.join("envoy.json"));
        command.arg("--admin-address-path").arg(folder.join("admin"));
        command
            .args(["--disable-hot-restart", "--concurrency", "1", "-l", "warning"])
            .env_remove("VIRTUAL_ENVIRONMENT_TAG");
        command.envs(tag.map(|tag| ("VIRTUAL_ENVIRONMENT_TAG", tag)));
        let log = fs::File::create(folder.join("log")).expect("a file");
        let child = command.stderr(log).spawn().expect("Envoy starts");
        let mut envoy = Self { child: Running(child), folder, address: any };
        until("Envoy listens", || {
            let admin = fs::read_to_string(envoy.folder.join("admin")).unwrap_or_default();
            // The file exists before its contents.
            if admin.parse::<SocketAddr>().is_err() {
                assert_eq!(envoy.child.try_wait().expect("a child"), None, "{}", envoy.log());
                return false;
            }
            let (_, listeners) = get(&admin, "/listeners");
            let port = listeners.lines().find_map(|line| line.strip_prefix("in::")?.parse().ok());
            port.map(|address| envoy.address = address).is_some()
        });
        envoy
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn sent(&self, headers: &str) -> Vec<String> {
        let mut stream = TcpStream::connect(self.address).expect("Envoy listens");
        write!(stream, "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\r\n")
            .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("HTTP");
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}\n{}", self.log());
        body.lines().filter(|line| line.starts_with("x-virtual-env")).map(str::to_owned).collect()
    }
}

#[test]
#[ignore = "needs Envoy"]
fn the_sidecar_adds_a_missing_header() {
    let envoy = Envoy::start(&filter("X-Virtual-Env"), Some("dev.red"));
    assert_eq!(envoy.sent(""), ["x-virtual-env: dev.red"]);
    assert_eq!(envoy.sent("x-virtual-env: base\r\n"), ["x-virtual-env: base"], "an existing header is kept");
    assert!(!envoy.log().contains("virtual environment"), "logged without being asked: {}", envoy.log());
    envoy.sent("KT-ENV-DIAGNOSE: yes\r\n");
    until("the added header is logged", || envoy.log().contains("the request gets X-Virtual-Env: dev.red"));
    assert!(!envoy.log().contains(":authority"));
    envoy.sent("KT-ENV-DIAGNOSE: DEBUG\r\nX-Virtual-Env: base\r\n");
    until("the existing header is logged", || {
        envoy.log().contains("the request carries X-Virtual-Env: base")
    });
    until("all headers are logged", || envoy.log().contains(":authority: test"));
}

#[test]
#[ignore = "needs Envoy"]
fn without_a_tag_no_header_is_added() {
    for tag in [None, Some("")] {
        let envoy = Envoy::start(&filter("x-virtual-env"), tag);
        assert_eq!(envoy.sent(""), [""; 0]);
        envoy.sent("kt-env-diagnose: 1\r\n");
        until("it is logged", || envoy.log().contains("the pod has no tag"));
    }
}

/// All valid characters of a header's name occur unescaped in the script.
#[test]
#[ignore = "needs Envoy"]
fn any_header_name_makes_a_valid_script() {
    let envoy = Envoy::start(&filter("x-virtual-env-!#$%&'*+.^_`|~"), Some("dev"));
    assert_eq!(envoy.sent(""), ["x-virtual-env-!#$%&'*+.^_`|~: dev"]);
}
