//! `sidecar-init cni install`: the plugin's program, and its entry in the runtime's network configuration. `--watch` restores
//! both after other programs overwrite them. The program is installed before the entry and removed after it, so the runtime never
//! misses it. No API server is contacted: all state is in two folders.

mod conflist;
mod entry;
mod folder;
mod folders;
mod neighbours;
mod serve;

use crate::cni::files::UNFINISHED;
use crate::cni::{NODE_PROGRAM, PLUGIN};
use entry::state_directory;
use folder::{Broken, InstallState};
use folders::{Placed, remove};
use neighbours::{InstallWarning, Removals};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::{errno::Errno, fcntl::Flock};
use serve::InstallerServer;
use sidecar_init::sys::wait::{Requests, Woken};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{ffi::OsString, io, mem};

pub(crate) use entry::entry;
pub(crate) use folders::{
    CniInstallOptions, Folders, InstallError, RemovedInstallation, WatchOptions, uninstall,
};

/// Longest sleep, to find changes without an event.
const MAX_SLEEP: Duration = Duration::from_secs(10);
/// Sleep after a failure whose end causes no event.
const RETRY: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Repairs in quick succession are delayed: an agent that undoes them must not keep the node busy.
const QUIET: Duration = Duration::from_secs(10);
const AT_ONCE: u32 = 4;
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];

/// Installs, and returns at once or watches until a stop request. Returns the removed installation, if any.
pub(crate) fn keep(options: &CniInstallOptions) -> Result<Option<RemovedInstallation>, InstallError> {
    options.folders.exist()?;
    options.folders.warn_of_missing_node(&options.entry);
    // Must precede any other thread, which would take the signals.
    let requests = Requests::take().map_err(InstallError::Watch)?;
    let state = state_directory(&options.entry);
    let server = Arc::new(InstallerServer { state, ..InstallerServer::default() });
    for address in options.watch.iter().flat_map(|watch| &watch.addresses) {
        let served = serve::serve(*address, Arc::clone(&server))
            .map_err(|error| InstallError::Serve(*address, error))?;
        tracing::info!(target: "install", "listening at http://{served}");
    }
    let end = options.wait.and_then(|wait| Instant::now().checked_add(wait));
    let mut install = InstallLoop {
        options,
        requests,
        server,
        end,
        interval: RetryInterval::default(),
        placed: Placed::default(),
        reported: None,
        removals: Removals::default(),
    };
    install.show(false)?;
    let Some(_held) = install.lock()? else {
        return if options.watch.is_some() { Ok(None) } else { Err(InstallError::Ended) };
    };
    options.folders.sweep()?;
    let is_installed = install.run();
    let shown = install.show(matches!(is_installed, Ok(true)));
    let is_installed = is_installed?;
    shown?;
    match &options.watch {
        None if is_installed => Ok(None),
        None => Err(InstallError::Ended),
        Some(watch) => watch.uninstall.then(|| remove(&options.folders, false)).transpose(),
    }
}

struct InstallLoop<'a> {
    options: &'a CniInstallOptions,
    requests: Requests,
    server: Arc<InstallerServer>,
    end: Option<Instant>,
    interval: RetryInterval,
    placed: Placed,
    reported: Option<String>,
    removals: Removals,
}

#[derive(Debug, Default)]
struct RetryInterval {
    last: Option<Instant>,
    times: u32,
}

impl RetryInterval {
    fn repaired(&mut self) {
        let goes_on = self.last.is_some_and(|last| last.elapsed() < QUIET);
        self.times = if goes_on { self.times + 1 } else { 1 };
        self.last = Some(Instant::now());
    }

    fn pause(&self) -> Option<Duration> {
        let more = self.times.checked_sub(AT_ONCE + 1)?;
        let is_quiet = self.last.is_some_and(|last| last.elapsed() >= QUIET);
        (!is_quiet).then(|| PAUSES[1].min(PAUSES[0] * 2_u32.saturating_pow(more.min(10))))
    }
}

impl InstallLoop<'_> {
    /// Locks the folder, once no other installer holds the lock; `None` after a signal.
    fn lock(&mut self) -> Result<Option<Flock<File>>, InstallError> {
        loop {
            if let Some(held) = self.options.folders.lock()? {
                return Ok(Some(held));
            }
            let busy = InstallError::Busy(self.options.folders.configurations.clone());
            if self.is_late() {
                return Err(busy);
            }
            self.report_once(format!("waiting: {busy}"));
            if self.sleep(POLL_INTERVAL)? == Woken::Asked {
                return Ok(None);
            }
        }
    }

    /// Returns true once the plugin is installed (unless watching), and false for a signal.
    fn run(&mut self) -> Result<bool, InstallError> {
        let watcher = DirectoryWatcher::open(&self.options.folders)?;
        let mut broken = Broken::default();
        loop {
            let (state, again) = self.check(&mut broken)?;
            match state {
                InstallState::Installed(_) if self.options.watch.is_none() => return Ok(true),
                InstallState::Waiting(why) if self.is_late() => return Err(InstallError::Late(why)),
                InstallState::Installed(_) | InstallState::Waiting(_) => {}
            }
            let limits = [Some(Instant::now() + MAX_SLEEP), again, self.end];
            let until = limits.into_iter().flatten().min();
            loop {
                match self.requests.wait(&watcher.0, until).map_err(InstallError::Watch)? {
                    Woken::Asked => return Ok(false),
                    Woken::Late => break,
                    Woken::Ready if watcher.has_relevant_events(&self.options.folders)? => break,
                    Woken::Ready => {}
                }
            }
            if let Some(pause) = self.interval.pause()
                && self.sleep(pause)? == Woken::Asked
            {
                return Ok(false);
            }
        }
    }

    fn check(&mut self, broken: &mut Broken) -> Result<(InstallState, Option<Instant>), InstallError> {
        let CniInstallOptions { folders, entry, watch, .. } = self.options;
        if let Some(folder) = folders.gone() {
            return Err(InstallError::Removed(folder.to_owned()));
        }
        let done = folders.put_programs(&mut self.placed).and_then(|new| {
            let attempt = folder::insert(&folders.configurations, entry, broken)
                .map_err(|error| folders.unchanged(error))?;
            Ok((new, attempt))
        });
        let (new, attempt) = match done {
            Ok(done) => done,
            Err(error) if watch.is_none() => return Err(error),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                let why = format!("{error}{}", cause.unwrap_or_default());
                self.show(false)?;
                self.report_once(format!("waiting: {why}"));
                return Ok((InstallState::Waiting(why), Some(Instant::now() + RETRY)));
            }
        };
        if new > 0 || attempt.replaced.is_some() {
            self.interval.repaired();
            self.server.change(|installer| {
                installer.programs += new;
                installer.entries += u64::from(attempt.replaced.is_some());
            });
            self.reported = None;
        }
        attempt.replaced.into_iter().for_each(|replaced| self.removals.inserted(replaced));
        let warnings: Vec<InstallWarning> =
            attempt.warnings.into_iter().chain(self.removals.warning()).collect();
        let before = self.server.change(|installer| mem::replace(&mut installer.warnings, warnings.clone()));
        for new in warnings.iter().filter(|warning| !before.contains(warning)) {
            tracing::warn!(target: "install", "{}", new.text);
        }
        let (is_installed, state) = match &attempt.state {
            InstallState::Installed(path) => (
                !warnings.iter().any(|warning| warning.is_blocking),
                format!("installed: {} and {}", path.display(), folders.program().display()),
            ),
            InstallState::Waiting(why) => (false, format!("waiting: {why}")),
        };
        self.show(is_installed)?;
        self.report_once(state);
        Ok((attempt.state, attempt.again))
    }

    fn show(&self, is_installed: bool) -> Result<(), InstallError> {
        self.server.change(|installer| installer.is_installed = is_installed);
        let Some(file) = self.options.watch.as_ref().and_then(|watch| watch.ready_file.as_ref()) else {
            return Ok(());
        };
        let done = match (is_installed, file.exists()) {
            (true, false) => fs::write(file, ""),
            (false, true) => fs::remove_file(file),
            (true, true) | (false, false) => Ok(()),
        };
        done.map_err(|error| InstallError::ReadyFile(file.clone(), error))
    }

    fn report_once(&mut self, what: String) {
        if self.reported.as_ref() != Some(&what) {
            tracing::info!(target: "install", "{what}");
            self.server.change(|installer| installer.state.clone_from(&what));
            self.reported = Some(what);
        }
    }

    fn is_late(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    fn sleep(&self, time: Duration) -> Result<Woken, InstallError> {
        self.requests.pause(Instant::now() + time).map_err(InstallError::Watch)
    }
}

struct DirectoryWatcher(Inotify);

impl DirectoryWatcher {
    fn open(folders: &Folders) -> Result<Self, InstallError> {
        let open = || {
            let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
            let changes = AddWatchFlags::IN_CLOSE_WRITE
                | AddWatchFlags::IN_MOVE
                | AddWatchFlags::IN_CREATE
                | AddWatchFlags::IN_DELETE
                | AddWatchFlags::IN_ATTRIB
                | AddWatchFlags::IN_ONLYDIR;
            // A watched directory that is held open reports no removal; its parent does.
            let goes = AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_FROM;
            let both = [&folders.configurations, &folders.programs];
            for folder in both.iter().filter_map(|folder| fs::canonicalize(folder).ok()) {
                folder.parent().map(|above| inotify.add_watch(above, goes)).transpose()?;
            }
            // Last, because a folder's last mask wins: one may contain the other.
            both.iter().try_for_each(|folder| inotify.add_watch(folder.as_path(), changes).map(drop))?;
            nix::Result::Ok(inotify)
        };
        open().map(Self).map_err(|error| InstallError::Watch(error.into()))
    }

    fn has_relevant_events(&self, folders: &Folders) -> Result<bool, InstallError> {
        let mut concerns = false;
        loop {
            let events = match self.0.read_events() {
                Err(Errno::EAGAIN) => return Ok(concerns),
                Err(Errno::EINTR) => continue,
                other => other.map_err(|error| InstallError::Watch(io::Error::from(error)))?,
            };
            // An event without a name is about a watched folder itself, or reports lost events.
            let concern = |name: &OsString| is_of_concern(Path::new(name));
            concerns |= events.iter().any(|event| event.name.as_ref().is_none_or(concern));
            concerns |= folders.gone().is_some();
        }
    }
}

fn is_of_concern(name: &Path) -> bool {
    let is_unfinished = name.as_os_str().as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
    !is_unfinished
        && ([PLUGIN, NODE_PROGRAM].map(Path::new).contains(&name) || conflist::FileKind::of(name).is_some())
}
