//! The folder for a static web server, and links to its page.

use crate::browser::Browser;
use crate::page::{Input, file};
use crate::server::Server;
use serde_json::json;
use std::fs;

/// The folder's page, and the name and content of its program.
fn site() -> (Vec<u8>, String, Vec<u8>) {
    let folder = file().parent().expect("a folder").join("site");
    let names = fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("an entry").file_name());
    let name = names.map(|name| name.into_string().expect("UTF-8")).find(|name| name != "index.html");
    let name = name.expect("the program");
    (
        fs::read(folder.join("index.html")).expect("the page"),
        name.clone(),
        fs::read(folder.join(name)).expect("its content"),
    )
}

#[test]
fn static_server_is_enough() {
    let (page, name, program) = site();
    // A subfolder, in which absolute paths fail.
    let server = Server::start("/docs/playground/", &[("", page.clone()), (&name, program.clone())]);
    let browser = Browser::start();
    browser.visit(&format!("{}#flags=-b+8080&packet=8080", server.url));
    assert!(browser.shown().parts[0].verdict.starts_with("captured: "));
    let requests = ["", &name].map(|name| format!("GET /docs/playground/{name} HTTP/1.1"));
    assert_eq!(server.requests(), requests);
    let refused: Vec<String> =
        browser.log("browser").into_iter().filter(|line| line.contains(&server.url)).collect();
    assert_eq!(refused, [""; 0]);
    let changed = [&program[..], b"x"].concat();
    let server = Server::start("/", &[("", page), (&name, changed)]);
    browser.open(&server.url);
    let waiting =
        "return document.getElementById('waiting').textContent.includes('can\u{2019}t run the program')";
    browser.wait(waiting, &[]);
}

#[test]
fn link_omits_secrets_and_reports_it() {
    let (page, name, program) = site();
    let server = Server::start("/", &[("", page), (&name, program)]);
    let browser = Browser::start();
    browser.allow_copies();
    browser.visit(&server.url);
    let manifest = "kind: Pod\nmetadata:\n  name: web\n  annotations:\n    sidecar.istio.io/status: '{}'\n\
        spec:\n  containers:\n  - name: web\n    env:\n    - name: PASSWORD\n      value: hunter2\n  - name: istio-proxy\n\
        ---\nkind: Secret\nstringData:\n  key: swordfish\n";
    let seen = browser.answer(Input { flags: "TOKEN=sesame istio-iptables -d 7", manifest, packet: "8080" });
    assert_eq!(seen.problems, [""; 0]);
    let expected = "The link holds the flags, the manifest and the packet, without the values of 2 environment variables and \
                    the data of 1 Secret or ConfigMap.";
    assert_eq!(browser.texts("#holds"), [expected]);
    browser.press_button("#share");
    browser.wait("return document.getElementById('shared').textContent === 'Copied.'", &[]);
    let link = &browser.copied();
    assert!(link.contains("flags=") && link.contains("PASSWORD"), "{link}");
    for secret in ["hunter2", "swordfish", "sesame"] {
        assert!(!link.contains(secret) && !browser.url().contains(secret), "{link}");
        assert!(!server.requests().concat().contains(secret));
    }
    assert_eq!(browser.value("manifest"), manifest);
    browser.open("about:blank");
    browser.back();
    browser.settle();
    assert_eq!(browser.value("manifest"), manifest);
    let other = Browser::start();
    other.visit(link);
    let shared = other.shown();
    assert_eq!(shared.problems, [""; 0]);
    assert_eq!(shared.parts[0].verdict, seen.parts[0].verdict);
    assert_eq!(shared.parts[0].iptables, seen.parts[0].iptables);
    other.script("location.hash = 'flags=-b+7'", &[]);
    other.wait("return document.getElementById('flags').value === '-b 7'", &[]);
    other.settle();
    assert!(other.shown().parts[0].iptables.contains("--dport 7"));
}

#[test]
fn a_file_offers_no_link() {
    let browser = Browser::at("flags=-b+8080");
    let shown = "return document.getElementById('share').checkVisibility()";
    assert_eq!(browser.script(shown, &[]), json!(false));
}
