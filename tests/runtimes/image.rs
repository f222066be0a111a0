//! An image from a folder: Debian's static busybox, packed as `docker save` would. Nothing is pulled.

use serde_json::json;
use std::{
    env::consts::ARCH,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

pub(crate) const NAME: &str = "localhost/pod:1";

/// Writes the image into this folder.
pub(crate) fn pack(folder: &Path) -> PathBuf {
    let (root, parts) = (folder.join("rootfs"), folder.join("image"));
    for folder in [&root.join("bin"), &parts] {
        fs::create_dir_all(folder).expect("a folder of our own");
    }
    fs::copy("/bin/busybox", root.join("bin/busybox"))
        .unwrap_or_else(|error| panic!("copying /bin/busybox failed ({error}): run scripts/setup --checks"));
    for applet in ["cat", "nc", "sh", "sleep"] {
        symlink("busybox", root.join("bin").join(applet)).expect("a link");
    }
    tar(&root, &parts.join("layer.tar"), &["."]);
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": { "Cmd": ["/bin/sleep", "600"] },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(&parts.join("layer.tar")))] },
        "history": [{ "created_by": "tests/runtimes" }],
    });
    let manifest = json!([{ "Config": "config.json", "RepoTags": [NAME], "Layers": ["layer.tar"] }]);
    for (name, content) in [("config.json", config), ("manifest.json", manifest)] {
        fs::write(parts.join(name), content.to_string()).expect("a file in a folder of our own");
    }
    let image = folder.join("image.tar");
    tar(&parts, &image, &["manifest.json", "config.json", "layer.tar"]);
    image
}

/// As Go calls it.
fn architecture() -> &'static str {
    match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn tar(folder: &Path, archive: &Path, files: &[&str]) {
    run(Command::new("tar").arg("-C").arg(folder).arg("-cf").arg(archive).args(files));
}

fn sha256(file: &Path) -> String {
    run(Command::new("sha256sum").arg(file)).split(' ').next().unwrap_or_default().to_owned()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("starting {command:?} failed: {error}"));
    assert!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}
