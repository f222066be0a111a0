//! The page by keyboard and with a screen reader.

use crate::browser::Browser;
use serde_json::{Value, json};
use thirtyfour::Key;

const FOCUSED: &str = "
  const at = document.activeElement, style = getComputedStyle(at);
  if (at === document.body) return null;
  at.dataset.reached = 'yes';
  return { name: at.id || at.textContent.trim() || at.className, outline: style.outlineStyle, width: parseFloat(style.outlineWidth) };";

fn walk(browser: &Browser) -> Vec<String> {
    let mut names = Vec::new();
    for _ in 0..200 {
        browser.press(Key::Tab);
        let at = browser.script(FOCUSED, &[]);
        let Some(name) = at["name"].as_str() else { break };
        assert_eq!(at["outline"], "solid", "{name} shows no focus");
        assert!(at["width"].as_f64().is_some_and(|width| width >= 2.0), "{name} hardly shows its focus");
        names.push(name.to_owned());
    }
    names
}

#[test]
fn every_part_is_reached_and_used_by_keys() {
    let browser = Browser::at("flags=-b+8080");
    let names = walk(&browser);
    let place = |desired: &str| {
        names
            .iter()
            .position(|name| name == desired)
            .unwrap_or_else(|| panic!("{desired} is not reached: {names:?}"))
    };
    let order =
        ["Everything", "flags-tab", "flags", "packet", "sender", "protocol", "arrow", "Copy SVG"].map(place);
    assert!(order.is_sorted(), "{names:?}");
    let order = ["protocol", "For iptables-restore", "For nft"].map(place);
    assert!(order.is_sorted(), "{names:?}");
    let missed = "return Array.from(document.querySelectorAll('button, input, select, textarea, summary, [tabindex=\"0\"]'))
        .filter((node) => node.checkVisibility() && node.tabIndex >= 0 && !node.dataset.reached)
        .map((node) => node.outerHTML.slice(0, 80))";
    assert_eq!(browser.script(missed, &[]), json!([]));
    browser.script("document.querySelector('#examples button').focus()", &[]);
    browser.press(Key::Enter);
    browser.settle();
    assert!(browser.value("flags").contains("-i '*'"), "{}", browser.value("flags"));
    browser.script("Array.from(document.querySelectorAll('summary')).at(-1).focus()", &[]);
    let open = "return document.activeElement.parentElement.open";
    assert_eq!(browser.script(open, &[]), json!(false));
    browser.press(Key::Enter);
    assert_eq!(browser.script(open, &[]), json!(true));
}

#[test]
fn arrows_move_among_tabs_and_rules() {
    let browser = Browser::at("flags=-b+'*'&packet=8080");
    let focused = "return document.activeElement.id || document.activeElement.textContent";
    let shown = "return ['flags', 'manifest', 'flags_before'].filter((name) => document.getElementById(name).checkVisibility())";
    browser.script("document.getElementById('flags-tab').focus()", &[]);
    for (key, tab, panel) in [
        (Key::Right, "manifest-tab", "manifest"),
        (Key::Right, "before-tab", "flags_before"),
        (Key::Right, "flags-tab", "flags"),
        (Key::Left, "before-tab", "flags_before"),
    ] {
        browser.press(key);
        assert_eq!(browser.script(focused, &[]), json!(tab));
        assert_eq!(browser.script(shown, &[]), json!([panel]));
    }
    browser.script("document.querySelector('.rule').focus()", &[]);
    let first = browser.script(focused, &[]);
    browser.press(Key::Down);
    let second = browser.script(focused, &[]);
    assert!(first != second && second.as_str().is_some_and(|rule| rule.starts_with("-A ")), "{second}");
    browser.press(Key::Up);
    assert_eq!(browser.script(focused, &[]), first);
}

/// Nodes of the accessibility tree that a screen reader announces, by role and name.
fn announced(browser: &Browser) -> Vec<(String, String, Value)> {
    let tree = browser.devtools("Accessibility.getFullAXTree", &json!({}));
    let nodes =
        tree["nodes"].as_array().expect("nodes").iter().filter(|node| node["ignored"] == json!(false));
    let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
    nodes.map(|node| (text(&node["role"]), text(&node["name"]), node["properties"].clone())).collect()
}

#[test]
fn a_screen_reader_announces_names_and_verdicts() {
    let browser = Browser::at("flags=-b+8080,http&packet=8080");
    let nodes = announced(&browser);
    for role in ["textbox", "button", "region"] {
        let mut names = nodes.iter().filter(|node| node.0 == role).map(|node| &node.1).peekable();
        assert!(names.peek().is_some(), "no {role} at all: {nodes:?}");
        assert!(names.all(|name| !name.is_empty()), "a {role} without a name");
    }
    let fields: Vec<&str> =
        nodes.iter().filter(|node| node.0 == "textbox").map(|node| node.1.as_str()).collect();
    assert_eq!(fields.len(), 2, "the manifest is behind its tab: {fields:?}");
    let flags = nodes.iter().find(|node| node.0 == "textbox" && node.1.starts_with("Flags of"));
    let properties = flags.expect("the field of the flags").2.to_string();
    assert!(properties.contains("\"invalid\"") && properties.contains("\"true\""), "{properties}");
    // Announced after a pause, in a live region.
    let printed = "const place = document.getElementById('announcement');
      return place.getAttribute('aria-live') === 'polite' && place.textContent.includes(arguments[0]) && place.textContent";
    browser.wait(printed, &[json!("--istio-inbound-ports: \"http\" is not a port")]);
    browser.erase("flags", ",http".len());
    browser.wait(printed, &[json!("captured: goes to the proxy's inbound port 15006")]);
    let nodes = announced(&browser);
    let picture = nodes.iter().find(|node| node.0 == "image").expect("the picture");
    assert!(picture.1.contains("captured: goes to the proxy's inbound port 15006"), "{}", picture.1);
}
