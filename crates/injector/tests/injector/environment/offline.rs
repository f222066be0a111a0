//! `environment routes`: manifests in, objects out: the cases of `offline.txt`, whose answers `UPDATE_GOLDENS=1` writes. The first line
//! of a case has the arguments, further ones change the manifest below, and what follows `---` is appended to it; `alone`, it takes
//! its place.

use crate::PROGRAM;
use testkit::command_line::Ended;

const MANIFEST: &str = "\
apiVersion: env.alibaba.com/v1alpha2
kind: VirtualEnvironment
metadata: {name: demo}
spec: {envLabel: {defaultSubset: base}}
---
apiVersion: v1
kind: Service
metadata: {name: cart}
spec: {selector: {app: cart}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: cart}
  spec: {template: {metadata: {labels: {app: cart, virtual-env: base}}}}
- apiVersion: apps/v1
  kind: StatefulSet
  metadata: {name: cart-red}
  spec: {template: {metadata: {labels: {app: cart, virtual-env: base.red}}}}
";

/// The exit code, what is printed, and what is told.
fn answered(case: &str) -> String {
    let (head, more) = case.split_once("---\n").unwrap_or((case, ""));
    let mut lines = head.lines();
    let arguments = lines.next().expect("arguments");
    let mut input = MANIFEST.to_owned();
    for line in lines {
        match line.split_once(" => ") {
            Some((from, to)) => {
                assert!(input.contains(from), "{from}");
                input = input.replace(from, to);
            }
            None => input.clear(),
        }
    }
    let words: Vec<&str> = ["environment", "routes"].into_iter().chain(arguments.split(' ')).collect();
    let Ended { code, stdout, stderr } = PROGRAM.run_with(&words, &(input + more));
    format!("exit {}\n{stdout}{stderr}", code.expect("a code"))
}

#[test]
fn answers_are_as_written() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/injector/environment/offline.txt");
    testkit::sections::answers(file, ", answered", answered);
}
