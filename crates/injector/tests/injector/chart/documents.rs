//! `helm install` commands in the documents render the chart.

use super::rendered::{Tool, call, root};
use std::fs;
use testkit::command_line::ended;

#[test]
#[ignore = "compiles Helm"]
fn commands_of_documents_render() {
    let mut seen = 0;
    for document in ["docs/injector.md", "docs/cni.md", "docs/migrate.md"] {
        let text = fs::read_to_string(root().join(document)).expect("a document").replace("\\\n", "");
        for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("helm install ")) {
            let line = line.replace("REGISTRY", "registry.example").replace("VERSION", "1");
            let mut helm = call(Tool::Helm);
            helm.args(["template", "--kube-version", "1.33.0"]).args(line.split_whitespace());
            let ended = ended(&mut helm);
            assert_eq!(ended.code, Some(0), "{document}: {line}: {}", ended.stderr);
            seen += 1;
        }
    }
    assert_eq!(seen, 3);
}
