//! Images from folders, packed like `docker save`: Debian's static busybox, and the binary. None is pulled.

use crate::support::program::Run;
use serde_json::{Value, json};
use std::{
    env::consts::ARCH,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

pub(crate) const NAME: &str = "localhost/pod:1";
/// Images with the binary, by entry point: `docker/Dockerfile`'s, and `proxy-init` for charts without a command.
pub(crate) const TOOL: &str = "localhost/sidecar-init:1";
pub(crate) const PROXY_INIT: &str = "localhost/proxy-init:1";

pub(crate) fn pack(folder: &Path) -> PathBuf {
    let root = folder.join("rootfs");
    fs::create_dir_all(root.join("bin")).expect("a new folder");
    fs::copy("/bin/busybox", root.join("bin/busybox"))
        .unwrap_or_else(|error| panic!("copying /bin/busybox failed ({error}): run scripts/setup --all"));
    for applet in ["cat", "nc", "sh", "sleep"] {
        symlink("busybox", root.join("bin").join(applet)).expect("a link");
    }
    let config = json!({ "Cmd": ["/bin/sleep", "600"] });
    packed(folder, "image", &root, &[(NAME, config)])
}

/// Writes the images into this folder: only the binary, with its file capability and its names in images. This build is not
/// static, so its libraries are included.
pub(crate) fn pack_tool(folder: &Path) -> PathBuf {
    let root = folder.join("tool-rootfs");
    let binary = root.join("usr/local/bin/sidecar-init");
    for name in ["usr/local/bin", "usr/bin", "usr/lib/linkerd", "tmp"] {
        fs::create_dir_all(root.join(name)).expect("a new folder");
    }
    let built = Path::new(crate::support::program::BINARY);
    run(Command::new("strip").arg("-o").arg(&binary).arg(built));
    for word in run(Command::new("ldd").arg(built)).split_whitespace().filter(|word| word.starts_with('/')) {
        let library = root.join(word.trim_start_matches('/'));
        fs::create_dir_all(library.parent().expect("a folder")).expect("a new folder");
        fs::copy(word, library).expect("a library");
    }
    run(Command::new("setcap").arg("cap_net_admin+ep").arg(&binary));
    for name in ["local/bin/proxy-init", "lib/linkerd/linkerd2-proxy-init", "bin/kumactl"] {
        symlink("/usr/local/bin/sidecar-init", root.join("usr").join(name)).expect("a link");
    }
    let config = |name: &str| {
        json!({
            "Entrypoint": [format!("/usr/local/bin/{name}")],
            "Env": ["NATIVE_NFTABLES=true"],
            "User": "1337:1337",
        })
    };
    let images = [(TOOL, config("sidecar-init")), (PROXY_INIT, config("proxy-init"))];
    packed(folder, "tool", &root, &images)
}

fn packed(folder: &Path, name: &str, root: &Path, images: &[(&str, Value)]) -> PathBuf {
    let parts = folder.join(format!("{name}-parts"));
    fs::create_dir(&parts).expect("a new folder");
    tar(root, &parts.join("layer.tar"), &["."]);
    let diff = format!("sha256:{}", sha256(&parts.join("layer.tar")));
    let (mut manifest, mut files) = (Vec::new(), vec!["layer.tar".to_owned(), "manifest.json".to_owned()]);
    for (number, (name, config)) in images.iter().enumerate() {
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": config,
            "rootfs": { "type": "layers", "diff_ids": [diff] },
            "history": [{ "created_by": "tests/cni/runtimes" }],
        });
        let file = format!("config{number}.json");
        fs::write(parts.join(&file), config.to_string()).expect("a file");
        manifest.push(json!({ "Config": file, "RepoTags": [name], "Layers": ["layer.tar"] }));
        files.push(file);
    }
    fs::write(parts.join("manifest.json"), Value::from(manifest).to_string()).expect("a file");
    let image = folder.join(format!("{name}.tar"));
    tar(&parts, &image, &files.iter().map(String::as_str).collect::<Vec<_>>());
    image
}

/// The architecture's name in Go.
fn architecture() -> &'static str {
    match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn tar(folder: &Path, archive: &Path, files: &[&str]) {
    let attributes = ["--xattrs", "--xattrs-include=security.capability"];
    run(Command::new("tar").args(attributes).arg("-C").arg(folder).arg("-cf").arg(archive).args(files));
}

fn sha256(file: &Path) -> String {
    run(Command::new("sha256sum").arg(file)).split(' ').next().unwrap_or_default().to_owned()
}

fn run(command: &mut Command) -> String {
    let output = command.outcome();
    output.with(0, &format!("{command:?}")).stdout
}
