//! Every setting of every mesh is read from its flag and each of its variables, and an error names the source.

use crate::support::program::{Run, binary};
use mesh::settings::{self, SettingRow, Topic};
use mesh::{Mesh, Setting};

const BAD: &str = "a\nb";

/// Settings of a mesh's command, and the command's words.
fn rows(mesh: Mesh) -> (Vec<&'static SettingRow>, Vec<&'static str>) {
    let others = [Setting::Format, Setting::AllowHostNamespace, Setting::Mesh, Setting::Replace];
    let rows = settings::of(mesh).filter(|row| !others.contains(&row.setting));
    match mesh {
        Mesh::Istio => (rows.filter(|row| !row.topic.is_of_one_command()).collect(), vec!["istio-iptables"]),
        Mesh::Linkerd | Mesh::Kuma | Mesh::Ambient => {
            let rows = rows.filter(|row| matches!(row.topic, Topic::Capture | Topic::Facts));
            (rows.collect(), vec!["apply", "--mesh", mesh.name()])
        }
    }
}

#[test]
fn settings_are_refused_by_the_names_of_their_flags_and_variables() {
    for &mesh in Mesh::ALL {
        let (rows, words) = rows(mesh);
        let check = |flags: Vec<String>, variables: &[&str]| {
            let mut call = binary(&words);
            call.args(flags.iter().map(|flag| format!("{flag}={BAD}")));
            let refused = call.envs(variables.iter().map(|name| (name, BAD))).outcome().with(2, mesh.name());
            for name in flags.into_iter().chain(variables.iter().map(|name| (*name).to_owned())) {
                let complaint = format!(" {name}: {BAD:?} ");
                assert!(refused.stderr.contains(&complaint), "{mesh}: {name}: {}", refused.stderr);
            }
        };
        let flags = rows.iter().map(|row| row.long).filter(|long| !long.is_empty());
        check(flags.map(|long| format!("--{long}")).collect(), &[]);
        // The first of a setting's set variables wins.
        for nth in 0..3 {
            let variables: Vec<&str> =
                rows.iter().filter_map(|row| row.variables.get(nth).copied()).collect();
            if !variables.is_empty() {
                check(Vec::new(), &variables);
            }
        }
    }
}
