//! The folder of network configurations: finds the file that the runtime uses, and inserts or removes our entry.

use super::conflist::{FileKind, NetworkConfiguration, Unusable};
use super::neighbours::{Delegation, InstallWarning, Replaced, UNUSABLE_FILE, second_meshes};
use crate::cni::PLUGIN;
use crate::cni::files::{self, MAX_CONFIGURATION, Put, UnreadableFile};
use crate::cni::protocol::{CAPTURE, KUBECONFIG, has_key};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{borrow::Cow, collections::BTreeMap, fs, thread};

/// Time to wait for a half-written file before skipping it, as CRI-O does.
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
    fn waiting(why: String, warnings: Vec<InstallWarning>) -> Self {
        Self { state: InstallState::Waiting(why), replaced: None, warnings, again: None }
    }
}

#[derive(Debug, Default)]
pub(super) struct Broken(BTreeMap<PathBuf, Instant>);

type ConfigurationFile = (PathBuf, NetworkConfiguration);
type UnusableFile = (PathBuf, Unusable);

pub(super) fn insert(folder: &Path, entry: &str, broken: &mut Broken) -> io::Result<Attempt> {
    for _ in 0..ATTEMPTS {
        let (first, unusable) = scan(folder)?;
        let faults: Vec<String> =
            unusable.iter().map(|(path, why)| format!("{} {why}", path.display())).collect();
        if let Some(until) = broken.until(&unusable) {
            return Ok(Attempt { again: Some(until), ..Attempt::waiting(faults.join("; "), Vec::new()) });
        }
        // Runtimes accept such files, and use only the first.
        let is_used =
            |why: &Unusable| matches!(why, Unusable::Twice(_) | Unusable::Encoding | Unusable::Folder(_));
        if unusable.iter().any(|(_, why)| is_used(why)) {
            let warnings = faults.iter().cloned().map(unusable_file).collect();
            return Ok(Attempt::waiting(faults.join("; "), warnings));
        }
        let passed_over = faults.iter().map(|fault| unusable_file(format!("{fault}: ignored")));
        let mut warnings: Vec<InstallWarning> = passed_over.collect();
        let Some(first) = first else {
            let none = format!("no network configuration in {}", folder.display());
            let why = if faults.is_empty() { none } else { faults.join("; ") };
            return Ok(Attempt::waiting(why, warnings));
        };
        let delegate = delegate(folder, &first, entry, &mut warnings)?;
        let (path, network) = delegate.as_ref().unwrap_or(&first);
        let (text, kind) = (&network.text, network.kind);
        if let Err(why) = network.serves(&file_name(path)) {
            let why = format!("{} {why}", path.display());
            warnings.push(unusable_file(why.clone()));
            return Ok(Attempt::waiting(why, warnings));
        }
        warnings.extend(second_meshes(path, network));
        let to = path.with_extension("conflist");
        let new = match kind {
            FileKind::Single => Some(network.list(&file_name(path), entry)),
            FileKind::List => network.with(entry),
        };
        let put = match (&new, kind) {
            (None, _) => Ok(Put::Done),
            (Some(new), _) if files::is_longer(new.as_bytes(), MAX_CONFIGURATION) => Err(format!(
                "{} would have more than {MAX_CONFIGURATION} bytes with the entry",
                path.display()
            )),
            (Some(new), FileKind::Single) => convert(path, text.as_bytes(), &to, new.as_bytes())?,
            (Some(new), FileKind::List) => Ok(files::replace(path, text.as_bytes(), new.as_bytes())?),
        };
        let (state, replaced) = match put {
            Ok(Put::Done) => (InstallState::Installed(to), new.map(|_| (path.clone(), text.clone()))),
            Ok(Put::Overtaken) => continue,
            Err(why) => (InstallState::Waiting(why), None),
        };
        // Multus' file keeps an old entry until the delegate's entry is called.
        let is_called = !warnings.iter().any(|warning| warning.is_blocking);
        let is_left = delegate.is_some() && first.1.kind == FileKind::List;
        if is_left && is_called && matches!(state, InstallState::Installed(_)) {
            withdraw_of(&first.0)?;
        }
        return Ok(Attempt { state, replaced, warnings, again: None });
    }
    let again = Some(Instant::now() + RETRY_INTERVAL);
    Ok(Attempt { again, ..Attempt::waiting("other programs keep writing it".to_owned(), Vec::new()) })
}

fn unusable_file(text: String) -> InstallWarning {
    InstallWarning { cause: UNUSABLE_FILE, text, is_blocking: false }
}

/// Finds the list to which Multus' configuration delegates, if the entry takes effect there. A single plugin is not converted,
/// because Multus reads the file by name.
fn delegate(
    folder: &Path,
    (own, network): &ConfigurationFile,
    entry: &str,
    warnings: &mut Vec<InstallWarning>,
) -> io::Result<Option<ConfigurationFile>> {
    let Some(delegation) = Delegation::of(network) else { return Ok(None) };
    let mut lists = lists(folder)?.filter_map(|path| readable(path, FileKind::List));
    let delegate = lists.find(|(path, network)| delegation.leads_to(&file_name(path), network));
    let is_usable = has_key(entry, &[KUBECONFIG, CAPTURE]);
    warnings.extend(delegation.warning(own, delegate.as_ref().map(|(to, ..)| &**to), is_usable));
    Ok(delegate.filter(|_| is_usable))
}

/// Removes our entry from every file, and removes files that we made. Returns changed files.
pub(super) fn withdraw(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let changed = lists(folder)?.map(|path| Ok(withdraw_of(&path)?.then_some(path)));
    changed.filter_map(Result::transpose).collect()
}

fn withdraw_of(path: &Path) -> io::Result<bool> {
    let end = Instant::now() + TIMEOUT;
    loop {
        let bytes = match files::configuration(path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(false),
            Err(UnreadableFile::Io(error)) => return Err(error),
            Err(why) => {
                tracing::warn!(target: "install", "{} {why}: ignored", path.display());
                return Ok(false);
            }
        };
        let file = path.display();
        let mut obstacle = format!("other programs keep writing {file}; stop them first");
        let put = match NetworkConfiguration::decode(&bytes, FileKind::List) {
            Ok(network) => match (single_of(path, &network).zip(network.original()), network.without()) {
                (Some((single, original)), _) => restore(path, &bytes, &single, &original)?,
                (None, Some(without)) => files::replace(path, &bytes, without.as_bytes())?,
                (None, None) => return Ok(false),
            },
            Err(_) if !String::from_utf8_lossy(&bytes).contains(PLUGIN) => return Ok(false),
            Err(why) => {
                obstacle = format!("{file} {why}, and names {PLUGIN}; fix it first");
                Put::Overtaken
            }
        };
        match put {
            Put::Done => return Ok(true),
            Put::Overtaken if Instant::now() >= end => return Err(io::Error::other(obstacle)),
            Put::Overtaken => thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn single_of(path: &Path, network: &NetworkConfiguration) -> Option<PathBuf> {
    let single = Path::new(network.made_of.as_deref()?);
    let is_name =
        single.file_name() == Some(single.as_os_str()) && FileKind::of(single) == Some(FileKind::Single);
    is_name.then(|| path.with_file_name(single))
}

/// Restores a single plugin in place of the list made from it. An existing file is newer and is kept.
fn restore(path: &Path, list: &[u8], single: &Path, original: &str) -> io::Result<Put> {
    let is_there = fs::symlink_metadata(single).is_ok();
    if !is_there && files::create(single, original.as_bytes(), path)? == Put::Overtaken {
        return Ok(Put::Overtaken);
    }
    files::remove_known(path, list)
}

/// Converts a single plugin to a list. The list is created before the single plugin is removed, so that one file always exists.
fn convert(path: &Path, old: &[u8], list: &Path, new: &[u8]) -> io::Result<Result<Put, String>> {
    let is_ours = |there: &[u8]| {
        let text = String::from_utf8_lossy(there);
        let made_of = NetworkConfiguration::read(&text, FileKind::List).ok().and_then(|list| list.made_of);
        made_of.is_some_and(|file| file == file_name(path))
    };
    let put = match files::configuration(list) {
        Err(UnreadableFile::Io(error)) => return Err(error),
        Err(why) => return Ok(Err(format!("{} {why}; remove it", list.display()))),
        Ok(None) => files::create(list, new, path)?,
        Ok(Some(there)) if there == new => Put::Done,
        Ok(Some(there)) if is_ours(&there) => files::replace(list, &there, new)?,
        Ok(Some(_)) => {
            let (one, other) = (path.display(), list.display());
            return Ok(Err(format!("both {one} and {other} exist; remove one of them")));
        }
    };
    Ok(Ok(if put == Put::Done { files::remove_known(path, old)? } else { put }))
}

/// First usable file, if any, and the unusable files before it.
fn scan(folder: &Path) -> io::Result<(Option<ConfigurationFile>, Vec<UnusableFile>)> {
    let mut unusable = Vec::new();
    for (path, kind) in files(folder)? {
        let usable = match files::configuration(&path) {
            Ok(None) => continue,
            Ok(Some(bytes)) => NetworkConfiguration::decode(&bytes, kind),
            Err(why) => Err(Unusable::Unread(why.to_string())),
        };
        match usable {
            Ok(network) => {
                // An agent has written its file again, next to the list made from it.
                let again = single_of(&path, &network).and_then(|file| readable(file, FileKind::Single));
                return Ok((Some(again.unwrap_or((path, network))), unusable));
            }
            // Runtimes also refuse a list whose folder has no plugins.
            Err(Unusable::Folder(name)) if !has_plugins(&folder.join(&name)) => {
                unusable.push((path, Unusable::Lacks("plugins")));
            }
            Err(why) => unusable.push((path, why)),
        }
    }
    Ok((None, unusable))
}

fn has_plugins(folder: &Path) -> bool {
    let is_plugin = |path: &Path| path.extension().is_some_and(|ending| ending == "conf");
    files(folder).is_ok_and(|found| found.iter().any(|(path, _)| is_plugin(path)))
}

fn file_name(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

fn readable(path: PathBuf, kind: FileKind) -> Option<ConfigurationFile> {
    let bytes = files::configuration(&path).ok()??;
    Some((path, NetworkConfiguration::decode(&bytes, kind).ok()?))
}

fn lists(folder: &Path) -> io::Result<impl Iterator<Item = PathBuf>> {
    let lists = files(folder)?.into_iter().filter(|(_, kind)| *kind == FileKind::List);
    Ok(lists.map(|(path, _)| path))
}

/// Files that runtimes read, in their order (`libcni.ConfFiles`, sorted).
fn files(folder: &Path) -> io::Result<Vec<(PathBuf, FileKind)>> {
    let paths = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<io::Result<_>>()?;
    paths.sort_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
    let read = |path: PathBuf| FileKind::of(&path).filter(|_| !path.is_dir()).map(|kind| (path, kind));
    Ok(paths.into_iter().filter_map(read).collect())
}

impl Broken {
    /// Deadline for all of these files to become complete.
    fn until(&mut self, unusable: &[UnusableFile]) -> Option<Instant> {
        let now = Instant::now();
        let since = |path: &PathBuf| self.0.get(path).copied().unwrap_or(now);
        self.0 = unusable.iter().map(|(path, _)| (path.clone(), since(path))).collect();
        let end = *self.0.values().max()? + TIMEOUT;
        (now < end).then_some(end)
    }
}
