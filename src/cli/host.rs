//! The local machine, or the pod whose network namespace is entered (`--network-namespace`), with its facts.

use mesh::sources::{Given, Raw, Source, name_servers};
use mesh::{Host, InputProblem, Setting, settings::nearest};
use rules::{Family, Gid, Table, Uid};
use sidecar_init::sys::lookup::{self, LookupError, LookupPlaces};
use sidecar_init::sys::{address, process};
use sidecar_init::{backend::Kernel, backend::iptables::Lock, sys::namespace::OpenNamespace};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::{fs, io};

pub(super) struct System {
    /// True for the drop-in: like `istio-iptables`, it fails if the pod has no address.
    is_drop_in: bool,
    files: FilesOf,
}

/// Owner of the files that name users, groups, hosts and DNS servers.
enum FilesOf {
    Ours,
    Process(PathBuf),
    Unknown,
}

impl System {
    /// This process's own facts, whatever its namespace.
    pub(super) const HERE: Self = Self { is_drop_in: false, files: FilesOf::Ours };

    /// Facts of a call's namespace, from the process that names the namespace, if any.
    pub(super) fn of(raw: &Raw) -> Self {
        let named = raw.get(Setting::NetworkNamespace).filter(|given| !given.value.is_empty());
        let found = named.map(|given| lookup::find(&given.value, &LookupPlaces::default()));
        let process = |found: OpenNamespace| found.process().map(Path::to_owned);
        let files = match found {
            None => FilesOf::Ours,
            Some(found) => found.ok().and_then(process).map_or(FilesOf::Unknown, FilesOf::Process),
        };
        Self { files, ..Self::HERE }
    }

    pub(super) fn drop_in(raw: &Raw) -> Self {
        Self { is_drop_in: true, ..Self::of(raw) }
    }

    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        let text = match &self.files {
            FilesOf::Ours => fs::read(Path::new("/").join(path)),
            FilesOf::Process(process) => process::read_as(process, path),
            FilesOf::Unknown => {
                return Err(io::Error::other(
                    "a namespace's name or path does not identify the pod's files; give pid:N",
                ));
            }
        };
        match text {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => text.map(Some),
        }
    }

    /// A user or group ID of the pod, from the line whose field `of` has this value (`passwd(5)`, `group(5)`).
    fn number(&self, file: &str, of: usize, value: &str) -> io::Result<Option<u32>> {
        let text = self.read(file)?.unwrap_or_default();
        let number = |line: &str| {
            let fields: Vec<&str> = line.split(':').collect();
            (fields.get(of) == Some(&value)).then(|| fields.get(2)?.parse().ok())?
        };
        Ok(String::from_utf8_lossy(&text).lines().find_map(number))
    }

    /// Unique addresses of a name, from the pod's hosts file or else the system's resolver.
    pub(super) fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if let FilesOf::Process(_) = self.files {
            let text = self.read("etc/hosts")?.unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines = text.lines().filter_map(|line| line.split('#').next());
            let named = lines.filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                let address = words.next()?.parse().ok()?;
                words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
            });
            let found: Vec<IpAddr> = named.collect();
            if !found.is_empty() {
                return Ok(found);
            }
        }
        let mut found: Vec<IpAddr> = Vec::new();
        for address in (name, 0).to_socket_addrs()?.map(|address| address.ip()) {
            if !found.contains(&address) {
                found.push(address);
            }
        }
        Ok(found)
    }
}

impl Host for System {
    fn user(&self, name: &str) -> io::Result<Option<Uid>> {
        Ok(self.number("etc/passwd", 0, name)?.and_then(Uid::new))
    }

    fn has_user(&self, uid: Uid) -> io::Result<bool> {
        Ok(self.number("etc/passwd", 2, &uid.to_string())?.is_some())
    }

    fn group(&self, name: &str) -> io::Result<Option<Gid>> {
        Ok(self.number("etc/group", 0, name)?.and_then(Gid::new))
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        address::all()
    }

    // Rules can be set before addresses, for example in a new namespace.
    fn may_lack_addresses(&self) -> bool {
        !self.is_drop_in
    }

    fn name_servers_in(&self, path: &str) -> io::Result<Vec<IpAddr>> {
        match &self.files {
            FilesOf::Process(_) => self
                .read(path.trim_start_matches('/'))?
                .map(|text| name_servers(&text))
                .ok_or_else(|| io::ErrorKind::NotFound.into()),
            FilesOf::Ours | FilesOf::Unknown => Ok(name_servers(&fs::read(path)?)),
        }
    }

    fn has_nat_chain(&self, family: Family, name: &str) -> io::Result<bool> {
        Kernel::open(Lock::default(), mesh::kuma::OWNERSHIP)
            .and_then(|mut kernel| kernel.has_chain(family, Table::Nat, name))
            .map_err(|error| io::Error::new(error.kind(), error))
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(self.read("etc/resolv.conf")?.map(|text| name_servers(&text)).unwrap_or_default())
    }
}

/// Enters the namespace of a call. For a drop-in, an empty name means the current one, like upstream.
pub(super) fn enter_namespace(raw: &Raw, is_drop_in: bool) -> Option<InputProblem> {
    if let Some(given) = raw.get(Setting::NetworkNamespace)
        && given.value.is_empty()
        && matches!(given.source, Source::Flag(_))
        && !is_drop_in
    {
        let text = "is empty; omit the flag for the current network namespace";
        return Some(InputProblem::with_item(&given.source, "", text));
    }
    let given = namespace_to_enter(raw)?;
    enter(&given.value).err().map(|text| InputProblem::with_item(&given.source, &given.value, text))
}

pub(super) fn enter(word: &str) -> Result<(), String> {
    let form = "expected an ip netns name, a container id or at least its first 4 digits, pid:N, or a network \
                namespace such as /run/netns/NAME or /proc/PID/ns/net";
    let text = |error: &LookupError| {
        // The namespace was found, so another name does not help.
        if let LookupError::Open(cause) = error
            && cause.kind() == io::ErrorKind::PermissionDenied
        {
            return format!("{error}; root with CAP_SYS_ADMIN is required");
        }
        let nearest = nearest(word, error.known()).map(|name| format!("; did you mean {name}?"));
        format!("{error}{}; {form}", nearest.unwrap_or_default())
    };
    let found = lookup::find(word, &LookupPlaces::default()).map_err(|error| text(&error))?;
    found.enter().map_err(|error| text(&LookupError::Open(error)))
}

/// Namespace to enter, if any. A preview with all facts declared does not enter, so it needs no right to.
pub(super) fn namespace_to_enter(raw: &Raw) -> Option<&Given> {
    let given = raw.get(Setting::NetworkNamespace).filter(|given| !given.value.is_empty())?;
    let removal = raw.is_on(Setting::CleanupOnly);
    let asks_nothing = raw.is_on(Setting::DryRun) && !removal && raw.get(Setting::PodIps).is_some();
    (!asks_nothing).then_some(given)
}
