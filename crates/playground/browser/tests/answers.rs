//! Use of answers: packets of rules and arrows, remedies, copies, files.

use crate::browser::Browser;
use crate::page::Input;
use serde_json::json;

const CLICK: &str = "
  const found = Array.from(document.querySelectorAll(arguments[0])).find((node) => node.textContent.includes(arguments[1])
    || (node.getAttribute('aria-label') ?? '').includes(arguments[1]));
  found.click();";

fn click(browser: &Browser, selector: &str, text: &str) {
    browser.script(CLICK, &[json!(selector), json!(text)]);
    browser.settle();
}

#[test]
fn rules_and_arrows_show_packets_that_take_them() {
    let browser = Browser::start();
    for (selector, text, place, packet) in [
        (".rule", "-A ISTIO_INBOUND -p tcp --dport 15021 -j RETURN", "details .taken", "15021"),
        (".arrow", "Into the pod, all other TCP (-b): captured by Envoy at 15006", ".drawn .taken", "8080"),
    ] {
        browser.open_page("flags=-b+'*'+-d+15090,15021&packet=9999");
        click(&browser, selector, text);
        let buttons = format!("{place} button");
        assert_eq!(browser.texts(&buttons), [packet]);
        click(&browser, &buttons, packet);
        assert_eq!(browser.value("packet"), packet);
        assert!(!browser.shown().parts[0].verdict.is_empty());
        browser.back();
        browser.wait("return document.getElementById('packet').value === '9999'", &[]);
    }
}

#[test]
fn a_remedy_is_applied_and_taken_back() {
    let browser = Browser::at("flags=-b+'*'+-d+15090,15090");
    assert!(browser.shown().parts[0].lint.contains("SI008"));
    click(&browser, ".fix", "Set -d to 15090");
    assert_eq!(browser.value("flags"), "-b '*' -d 15090");
    assert_eq!(browser.shown().parts[0].lint, "No findings\n");
    browser.back();
    browser.wait("return document.getElementById('flags').value.endsWith('15090,15090')", &[]);
}

#[test]
fn a_dropped_file_is_the_manifest() {
    let browser = Browser::at("flags=+&packet=8080");
    let empty = "return [document.getElementById('empty').checkVisibility(), document.getElementById('parts').checkVisibility()]";
    assert_eq!(browser.script(empty, &[]), json!([true, false]));
    browser.script(
        "const data = new DataTransfer();
        data.items.add(new File([arguments[0]], 'pod.yaml'));
        const drop = new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: data });
        document.getElementById('input').dispatchEvent(drop)",
        &[json!("kind: Pod\nmetadata: {name: dropped}\nspec: {containers: [{name: web}]}\n")],
    );
    browser.wait("return document.querySelector('#parts .title')?.textContent.includes('dropped')", &[]);
    browser.settle();
    assert_eq!(browser.script(empty, &[]), json!([false, true]));
    assert_eq!(
        browser.script("return document.getElementById('manifest').checkVisibility()", &[]),
        json!(true)
    );
}

#[test]
fn an_empty_page_starts_with_an_example() {
    let browser = Browser::at("flags=+");
    click(&browser, "#starts button", "TPROXY");
    assert!(browser.value("flags").contains("TPROXY"));
    assert!(browser.shown().parts[0].verdict.starts_with("captured: "));
}

#[test]
fn controls_name_the_sender_and_the_protocol() {
    let browser = Browser::at("flags=-b+'*'+-i+'*'&packet=10.0.0.5:443");
    let choose = |id: &str, value: &str| {
        browser.script(
            "const choice = document.getElementById(arguments[0]);
            choice.value = arguments[1];
            choice.dispatchEvent(new Event('change', { bubbles: true }))",
            &[json!(id), json!(value)],
        );
        browser.settle();
        browser.shown().parts[0].verdict.clone()
    };
    assert!(browser.shown().parts[0].verdict.starts_with("captured: "));
    assert!(choose("sender", "proxy").starts_with("not captured: "));
    assert!(choose("sender", "app").starts_with("captured: "));
    assert!(choose("protocol", "udp").starts_with("not captured: "));
    browser.wait("return location.hash.includes('--sender+app+--proto+udp')", &[]);
}

#[test]
fn rules_and_pictures_are_copied_and_saved() {
    let browser = Browser::at("flags=-b+'*'&packet=8080");
    browser.allow_copies();
    browser.answer(Input { flags: "-b '*'", manifest: "", packet: "8080" });
    // Records saved files instead of downloading them.
    browser.script(
        "window.saved = {};
        HTMLAnchorElement.prototype.click = function () { window.saved[this.download] = this.href; };",
        &[],
    );
    let part = browser.shown().parts.remove(0);
    for (button, copy) in [("iptables", &part.iptables), ("nft", &part.nft), ("picture", &part.picture)] {
        browser.press_button(&format!("[data-copies={button}]"));
        browser.wait(
            "return document.querySelector(`[data-copies=${arguments[0]}]`).textContent === 'Copied'",
            &[json!(button)],
        );
        assert_eq!(browser.copied(), *copy, "{button}");
    }
    for (kind, begin) in [("svg", "data:image/svg+xml,%3Csvg"), ("png", "data:image/png;base64,iVBOR")] {
        browser.press_button(&format!("[data-saves={kind}]"));
        let saved = browser.wait("return window.saved[`traffic.${arguments[0]}`]", &[json!(kind)]);
        assert!(saved.as_str().is_some_and(|url| url.starts_with(begin) && url.len() > 1000), "{saved}");
    }
}

#[test]
fn two_configurations_are_compared() {
    let browser = Browser::at("flags=-b+'*'&packet=8080");
    let headings = || browser.texts("#compared h2");
    assert_eq!(headings(), [""; 0]);
    ["#before-tab", "#keep"].iter().for_each(|id| browser.press_button(id));
    assert_eq!(browser.value("flags_before"), "-b '*'");
    assert_eq!(headings(), ["No verdict changes"]);
    browser.press_button("#flags-tab");
    browser.type_into("flags", " -d 5432");
    assert_eq!(headings(), ["1 verdict change"]);
    let row = browser.texts("#compared tbody tr > *");
    assert!(
        row[0].contains("5432") && row[1].starts_with("captured") && row[2].starts_with("not captured"),
        "{row:?}"
    );
    click(&browser, "#compared button", "5432");
    assert_eq!(browser.value("packet"), "5432");
    browser.wait("return location.hash.includes('flags_before=-b+%27*%27')", &[]);
    browser.fill(Input { flags: "-b '*'", manifest: "", packet: "8080" });
    browser.press_button("#before-tab");
    browser.type_into("flags_before", " --nope");
    assert_eq!(browser.texts("#flags_before-problems li").len(), 1);
    browser.press_button("#discard");
    assert_eq!(headings(), [""; 0]);
}
