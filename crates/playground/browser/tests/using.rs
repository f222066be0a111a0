//! A user's input: typed, pasted, faulty, corrected, shared.

use crate::ROOT;
use crate::browser::Browser;
use crate::page::{Input, file};
use crate::server::Server;
use serde_json::{Value, json};
use std::{fs, path::Path};

#[test]
fn typed_input_updates_the_answer() {
    let browser = Browser::at("flags=-b+8080");
    browser.type_into("packet", "8080");
    let shown = browser.shown();
    assert!(
        shown.parts[0].verdict.starts_with("captured: goes to the proxy's inbound port 15006"),
        "{shown:?}"
    );
    assert!(!shown.parts[0].iptables.contains("9090"));
    browser.type_into("flags", ",9090");
    assert_eq!(browser.value("flags"), "-b 8080,9090");
    let shown = browser.shown();
    assert!(shown.parts[0].iptables.contains("--dport 9090"), "{}", shown.parts[0].iptables);
    let size = "const image = document.querySelector('.picture img'); return image.complete && image.naturalWidth > 100";
    browser.wait(size, &[]);
}

#[test]
fn a_manifest_is_pasted() {
    let browser = Browser::at("");
    assert!(!browser.value("flags").is_empty(), "an example is shown");
    let manifest = "kind: Pod\nmetadata: {name: web, annotations: {traffic.sidecar.istio.io/includeOutboundIPRanges: 192.168.0.0/16}}\nspec: {containers: [{name: web}]}\n";
    // A real paste is one event that inserts all of it.
    browser.script(
        "document.getElementById('manifest-tab').click(); document.getElementById('manifest').focus()",
        &[],
    );
    browser.devtools("Input.insertText", &json!({ "text": manifest }));
    browser.settle();
    assert_eq!((browser.value("manifest"), browser.value("flags")), (manifest.to_owned(), String::new()));
    let shown = browser.shown();
    assert_eq!((&*shown.parts[0].title, shown.problems), ("Pod web", Vec::new()));
    assert!(shown.parts[0].verdict.starts_with("not captured: "), "{:?}", shown.parts);
    // Flags typed by the reader override the manifest, as a note shows.
    browser.press_button("#flags-tab");
    browser.type_into("flags", "-i '*'");
    assert!(browser.shown().parts[0].verdict.starts_with("captured: "));
    assert_eq!(browser.texts("#output > #notes li"), ["flags override settings of the manifest: -i"]);
    let later = "return getComputedStyle(document.querySelector('.verdict .sentence'), '::before').content";
    assert_eq!(browser.script(later, &[]), json!("\"after injection: \""));
}

#[test]
fn a_call_is_pasted_as_a_terminal_shows_it() {
    let browser = Browser::at("");
    let flags = "ISTIO_OUTBOUND_OWNER_GROUPS=1000 sidecar-init explain --dry-run -i '*' --lock-wait=5 \\\n  10.0.0.5:443";
    let shown = browser.answer(Input { flags, ..Input::default() });
    assert_eq!(shown.problems, [""; 0]);
    assert_eq!(shown.notes, ["without effect here: --dry-run, --lock-wait"]);
    assert_eq!(shown.parts[0].verdict, "depends: on the group");
    assert!(shown.parts[0].iptables.contains("--gid-owner 1000"), "{shown:?}");
}

#[test]
fn faults_are_beside_their_fields_and_nothing_is_lost() {
    let browser = Browser::at("flags=-b+8080");
    let good = browser.shown();
    assert!(!good.is_stale);
    browser.type_into("flags", ",http --nope");
    browser.type_into("packet", "nowhere");
    assert_eq!(browser.value("flags"), "-b 8080,http --nope");
    let beside = |field: &str| {
        let reported = browser.texts(&format!("#{field}-problems li"));
        let invalid = "return document.getElementById(arguments[0]).getAttribute('aria-invalid')";
        assert_eq!(
            browser.script(invalid, &[json!(field)]),
            json!((!reported.is_empty()).to_string()),
            "{field}"
        );
        reported
    };
    let wrong = beside("flags");
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].contains("--nope") && wrong[1].contains("\"http\""), "{wrong:?}");
    assert_eq!(beside("packet").len(), 1);
    assert_eq!(beside("manifest"), [""; 0]);
    let stale = browser.shown();
    assert!(stale.is_stale, "{stale:?}");
    assert_eq!(stale.parts[0].iptables, good.parts[0].iptables, "valid rules stay");
    browser.erase("flags", ",http --nope".len());
    let mended = browser.shown();
    assert!(!mended.is_stale && beside("flags").is_empty() && !beside("packet").is_empty());
    assert_eq!(mended.parts[0].iptables, good.parts[0].iptables, "rules don't depend on the packet");
    browser.fill(Input { manifest: "kind: [", ..Input::default() });
    assert_eq!(beside("manifest").len(), 1);
}

#[test]
fn every_example_is_understood_and_differs() {
    let browser = Browser::at("");
    let count = browser.texts("#examples button").len();
    let mut verdicts = Vec::new();
    for number in 0..count {
        browser
            .script("document.querySelectorAll('#examples button')[arguments[0]].click()", &[json!(number)]);
        browser.settle();
        let shown = browser.shown();
        assert_eq!(shown.problems, [""; 0]);
        assert!(!shown.parts[0].verdict.is_empty());
        verdicts.push(format!("{} {}", shown.parts[0].verdict, shown.parts[0].iptables));
    }
    let reported = verdicts.len();
    verdicts.sort();
    verdicts.dedup();
    assert!(reported >= 5 && verdicts.len() == reported, "{verdicts:#?}");
}

#[test]
fn the_page_sends_no_request() {
    let server = Server::start("/", &[("", fs::read(file()).expect("the page"))]);
    let browser = Browser::start();
    browser.visit(&server.url);
    browser.type_into("packet", " --sender proxy");
    browser.press_button("#examples button:last-of-type");
    browser.wait("return location.hash.includes('manifest=')", &[]);
    // All requests of the browser, except for its own pages.
    let log = browser.log("performance");
    let url = |line: &String| {
        let sent: Value = serde_json::from_str(line).expect("JSON");
        let of_network = sent["message"]["method"] == json!("Network.requestWillBeSent");
        let url = sent["message"]["params"]["request"]["url"].as_str().filter(|_| of_network)?;
        let kind = url.split(':').next().unwrap_or_default();
        (kind != "chrome" && kind != "data").then(|| url.split('#').next().unwrap_or_default().to_owned())
    };
    let sent: Vec<String> = log.iter().filter_map(url).collect();
    assert_eq!(sent, std::slice::from_ref(&server.url));
    // Neither the page's scripts nor its pictures send requests.
    let tried = browser.script_that_calls_back(
        "const done = arguments[1];
        const image = new Promise((reported) => {
          const tag = new Image();
          tag.onload = () => reported('loaded');
          tag.onerror = () => reported('refused');
          tag.src = arguments[0] + 'picture.png';
        });
        const call = fetch(arguments[0] + 'data').then(() => 'loaded', () => 'refused');
        Promise.all([image, call]).then(done);",
        &[json!(server.url)],
    );
    assert_eq!(tried, json!(["refused", "refused"]));
    assert_eq!(server.requests(), ["GET / HTTP/1.1"]);
    assert_eq!(browser.url().split('#').next(), Some(server.url.as_str()));
}
