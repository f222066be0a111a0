//! The folder of network configurations: finds the file that the runtime uses, and inserts or removes our entry.

use super::conflist::{FileKind, NetworkConfiguration, Unusable};
use super::neighbours::{Delegation, InstallWarning, Replaced, UNUSABLE_FILE, second_meshes};
use crate::cni::PLUGIN;
use crate::cni::files::{self, MAX_CONFIGURATION, Put, UnreadableFile};
use crate::cni::protocol::{CAPTURE, KUBECONFIG, has_key};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{borrow::Cow, collections::BTreeMap, fs, thread};

/// The time to wait for a half-written file before it is skipped, as CRI-O skips it.
const TIMEOUT: Duration = Duration::from_secs(2);
const ATTEMPTS: u32 = 20;
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InstallState {
    Installed(PathBuf),
    Waiting(String),
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) state: InstallState,
    pub(super) replaced: Option<Replaced>,
    pub(super) warnings: Vec<InstallWarning>,
    pub(super) again: Option<Instant>,
}

impl Attempt {
    fn new(state: InstallState, warnings: Vec<InstallWarning>) -> Self {
        Self { state, replaced: None, warnings, again: None }
    }
}

#[derive(Debug, Default)]
pub(super) struct Broken(BTreeMap<PathBuf, Instant>);

type ConfigurationFile = (PathBuf, FileKind, String);

struct FolderScan {
    first: Option<ConfigurationFile>,
    /// The unusable files before it, or all of them if there is no usable one.
    unusable: Vec<(PathBuf, Unusable)>,
}

/// Inserts our entry into the first usable file, once.
pub(super) fn insert(folder: &Path, entry: &str, broken: &mut Broken) -> io::Result<Attempt> {
    for _ in 0..ATTEMPTS {
        let FolderScan { first, unusable } = scan(folder)?;
        let faults: Vec<String> =
            unusable.iter().map(|(path, why)| format!("{} {why}", path.display())).collect();
        if let Some(until) = broken.until(&unusable) {
            let attempt = Attempt::new(InstallState::Waiting(faults.join("; ")), Vec::new());
            return Ok(Attempt { again: Some(until), ..attempt });
        }
        // Runtimes accept such a file, and use none after it.
        let is_used =
            |why: &Unusable| matches!(why, Unusable::Twice(_) | Unusable::Encoding | Unusable::Folder(_));
        if unusable.iter().any(|(_, why)| is_used(why)) {
            let warnings = faults.iter().cloned().map(unusable_file).collect();
            return Ok(Attempt::new(InstallState::Waiting(faults.join("; ")), warnings));
        }
        let passed_over = faults.iter().map(|fault| unusable_file(format!("{fault}: passed over")));
        let mut warnings: Vec<InstallWarning> = passed_over.collect();
        let Some(first) = first else {
            let none = format!("no network configuration is in {}", folder.display());
            let why = if faults.is_empty() { none } else { faults.join("; ") };
            return Ok(Attempt::new(InstallState::Waiting(why), warnings));
        };
        let delegate = delegate(folder, &first, entry, &mut warnings)?;
        let (path, kind, text) = delegate.as_ref().unwrap_or(&first);
        let network = NetworkConfiguration::read(text, *kind).expect("it was usable just now");
        if let Err(why) = network.serves(&file_name(path)) {
            // A file after it would not be used.
            let why = format!("{} {why}", path.display());
            warnings.push(unusable_file(why.clone()));
            return Ok(Attempt::new(InstallState::Waiting(why), warnings));
        }
        warnings.extend(second_meshes(path, &network));
        // `None` where the entry is there.
        let (to, put) = match kind {
            FileKind::Single => {
                (path.with_extension("conflist"), Some(convert(path, &network, text, entry)?))
            }
            FileKind::List => match network.with(entry) {
                None => (path.clone(), None),
                Some(new) if is_long(&new) => (path.clone(), Some(Err(grown(path)))),
                Some(new) => (path.clone(), Some(Ok(files::replace(path, text.as_bytes(), new.as_bytes())?))),
            },
        };
        let (state, replaced) = match put {
            None => (InstallState::Installed(to), None),
            Some(Ok(Put::Done)) => (InstallState::Installed(to), Some((path.clone(), text.clone()))),
            Some(Ok(Put::Overtaken)) => continue,
            Some(Err(why)) => (InstallState::Waiting(why), None),
        };
        // An entry of an earlier version stays there until the delegate's is called.
        let is_called = !warnings.iter().any(|warning| warning.is_blocking);
        if matches!(state, InstallState::Installed(_))
            && delegate.is_some()
            && first.1 == FileKind::List
            && is_called
        {
            withdraw_of(&first.0)?;
        }
        return Ok(Attempt { replaced, ..Attempt::new(state, warnings) });
    }
    let why = "other programs keep writing it".to_owned();
    let again = Some(Instant::now() + RETRY_INTERVAL);
    Ok(Attempt { again, ..Attempt::new(InstallState::Waiting(why), Vec::new()) })
}

fn unusable_file(text: String) -> InstallWarning {
    InstallWarning { cause: UNUSABLE_FILE, text, is_blocking: false }
}

/// Finds the list to which a configuration of Multus delegates, if the entry has its effect there. A single plugin stays as
/// it is, because Multus reads the file by its name.
fn delegate(
    folder: &Path,
    (own, kind, text): &ConfigurationFile,
    entry: &str,
    warnings: &mut Vec<InstallWarning>,
) -> io::Result<Option<ConfigurationFile>> {
    let network = NetworkConfiguration::read(text, *kind).ok();
    let Some(delegation) = network.as_ref().and_then(Delegation::of) else { return Ok(None) };
    let lists = files(folder)?.into_iter().filter(|(_, kind)| *kind == FileKind::List);
    let mut lists = lists.filter_map(|(path, kind)| readable(&path, kind).map(|text| (path, kind, text)));
    let delegate = lists.find(|(path, kind, text)| {
        let network = NetworkConfiguration::read(text, *kind);
        network.is_ok_and(|network| delegation.leads_to(&file_name(path), &network))
    });
    let is_usable = has_key(entry, &[KUBECONFIG, CAPTURE]);
    warnings.extend(delegation.warning(own, delegate.as_ref().map(|(to, ..)| &**to), is_usable));
    Ok(delegate.filter(|_| is_usable))
}

fn is_long(text: &str) -> bool {
    u64::try_from(text.len()).is_ok_and(|length| length > MAX_CONFIGURATION)
}

fn grown(path: &Path) -> String {
    format!("{} would have more than {MAX_CONFIGURATION} bytes with the entry", path.display())
}

/// Takes our entry out of every file, and files that we have made. Returns those that were changed.
pub(super) fn withdraw(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut changed = Vec::new();
    for (path, kind) in files(folder)? {
        if kind == FileKind::List && withdraw_of(&path)? {
            changed.push(path);
        }
    }
    Ok(changed)
}

fn withdraw_of(path: &Path) -> io::Result<bool> {
    let end = Instant::now() + TIMEOUT;
    loop {
        let bytes = match files::configuration(path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(false),
            Err(UnreadableFile::Io(error)) => return Err(error),
            Err(why) => {
                tracing::warn!(target: "install", "{} {why}: passed over", path.display());
                return Ok(false);
            }
        };
        let put = match NetworkConfiguration::decode(&bytes, FileKind::List) {
            Ok(network) => match (single_of(path, &network).zip(network.original()), network.without()) {
                (Some((single, original)), _) => restore(path, &bytes, &single, &original)?,
                (None, Some(without)) => files::replace(path, &bytes, without.as_bytes())?,
                (None, None) => return Ok(false),
            },
            Err(_) if !String::from_utf8_lossy(&bytes).contains(PLUGIN) => return Ok(false),
            Err(why) if Instant::now() >= end => {
                let text = format!("{} {why}, and names {PLUGIN}; mend it first", path.display());
                return Err(io::Error::new(ErrorKind::InvalidData, text));
            }
            // Another program may be writing it.
            Err(_) => Put::Overtaken,
        };
        match put {
            Put::Done => return Ok(true),
            Put::Overtaken if Instant::now() >= end => {
                let text = format!("other programs keep writing {}; end them first", path.display());
                return Err(io::Error::new(ErrorKind::ResourceBusy, text));
            }
            Put::Overtaken => thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn single_of(path: &Path, network: &NetworkConfiguration<'_>) -> Option<PathBuf> {
    let single = Path::new(network.made_of()?);
    let is_name =
        single.file_name() == Some(single.as_os_str()) && FileKind::of(single) == Some(FileKind::Single);
    is_name.then(|| path.with_file_name(single))
}

/// Restores a single plugin in place of the list that was made from it. An existing one is newer, and is kept.
fn restore(path: &Path, list: &[u8], single: &Path, original: &str) -> io::Result<Put> {
    let is_there = fs::symlink_metadata(single).is_ok();
    if !is_there && files::create(single, original.as_bytes(), path)? == Put::Overtaken {
        return Ok(Put::Overtaken);
    }
    files::remove_known(path, list)
}

/// Makes a list of a single plugin. The list is created before the single one is removed, so that one of them always exists.
fn convert(
    path: &Path,
    network: &NetworkConfiguration<'_>,
    text: &str,
    entry: &str,
) -> io::Result<Result<Put, String>> {
    let list = path.with_extension("conflist");
    let file = file_name(path);
    let new = network.list(&file, entry);
    if is_long(&new) {
        return Ok(Err(grown(path)));
    }
    let put = match files::configuration(&list) {
        Err(UnreadableFile::Io(error)) => return Err(error),
        Err(why) => return Ok(Err(format!("{} {why}; remove it", list.display()))),
        Ok(None) => files::create(&list, new.as_bytes(), path)?,
        Ok(Some(there)) if there == new.as_bytes() => Put::Done,
        Ok(Some(there)) => {
            let text = String::from_utf8_lossy(&there);
            let is_ours = NetworkConfiguration::read(&text, FileKind::List)
                .is_ok_and(|list| list.made_of() == Some(&file));
            if !is_ours {
                let (one, other) = (path.display(), list.display());
                return Ok(Err(format!("both {one} and {other} are there; remove one of them")));
            }
            files::replace(&list, &there, new.as_bytes())?
        }
    };
    Ok(Ok(match put {
        Put::Overtaken => Put::Overtaken,
        Put::Done => files::remove_known(path, text.as_bytes())?,
    }))
}

fn scan(folder: &Path) -> io::Result<FolderScan> {
    let mut view = FolderScan { first: None, unusable: Vec::new() };
    for (path, kind) in files(folder)? {
        let usable = match files::configuration(&path) {
            Ok(None) => continue,
            Ok(Some(bytes)) => NetworkConfiguration::decode(&bytes, kind)
                .map(|network| (String::from_utf8_lossy(&bytes).into_owned(), single_of(&path, &network))),
            Err(why) => Err(Unusable::Unread(why.to_string())),
        };
        match usable {
            Ok((text, single)) => {
                // An agent has written its file again, next to the list that was made from it.
                let again = single.and_then(|file| {
                    readable(&file, FileKind::Single).map(|text| (file, FileKind::Single, text))
                });
                view.first = Some(again.unwrap_or((path, kind, text)));
                break;
            }
            // Runtimes refuse a list that has none there either.
            Err(Unusable::Folder(name)) if !has_plugins(&folder.join(&name)) => {
                view.unusable.push((path, Unusable::Lacks("plugins")));
            }
            Err(why) => view.unusable.push((path, why)),
        }
    }
    Ok(view)
}

fn has_plugins(folder: &Path) -> bool {
    let is_plugin = |path: &Path| path.extension().is_some_and(|ending| ending == "conf");
    files(folder).is_ok_and(|found| found.iter().any(|(path, _)| is_plugin(path)))
}

fn file_name(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

fn readable(file: &Path, kind: FileKind) -> Option<String> {
    let text = String::from_utf8(files::configuration(file).ok()??).ok()?;
    NetworkConfiguration::read(&text, kind).is_ok().then_some(text)
}

/// The files that runtimes read, in the order in which they do (`libcni.ConfFiles`, sorted).
fn files(folder: &Path) -> io::Result<Vec<(PathBuf, FileKind)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if let Some(kind) = FileKind::of(&path).filter(|_| !path.is_dir()) {
            found.push((path, kind));
        }
    }
    found.sort_by(|(one, _), (other, _)| one.as_os_str().cmp(other.as_os_str()));
    Ok(found)
}

impl Broken {
    /// The end of the time in which all of these files may become complete.
    fn until(&mut self, unusable: &[(PathBuf, Unusable)]) -> Option<Instant> {
        let now = Instant::now();
        let since = |path: &PathBuf| self.0.get(path).copied().unwrap_or(now);
        self.0 = unusable.iter().map(|(path, _)| (path.clone(), since(path))).collect();
        let end = *self.0.values().max()? + TIMEOUT;
        (now < end).then_some(end)
    }
}
