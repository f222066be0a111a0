//! State of attachments since ADD: their rules' settings, in one file per attachment, named after it. The file is written before
//! the first rule, so that DEL finds leftovers of a killed ADD and CHECK can compare. Records and rules change together, under
//! the attachment's namespace lock.

use super::files::{self, Durability, Links, UnreadableFile};
use super::protocol::{Attachment, CniError, CniErrorCode, CniResult, MAX_BYTES};
use mesh::Mesh;
use mesh::settings::{self, Setting};
use mesh::sources::{Given, Raw, Source};
use serde::{Deserialize, Serialize};
use sidecar_init::engine::Choice;
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, fs, io, time::Duration};

#[derive(Clone)]
pub(super) struct AttachmentStore {
    pub(super) folder: PathBuf,
}

/// An attachment in a network: the specification's key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AttachmentKey {
    pub(super) network: String,
    pub(super) attachment: Attachment,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AttachmentRecord {
    form: u32,
    /// For readers of the file.
    pub(super) pod: Option<String>,
    /// Backend of the rules, by its name in the network configuration.
    backend: String,
    settings: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoredRecord {
    Absent,
    Valid(AttachmentRecord),
    /// Anything except a readable record, with the reason: torn, from another version, or not a file.
    Unreadable(String),
}

const ABANDONED: Duration = Duration::from_secs(3600);
const FORM: u32 = 1;
const FOLDER: &str = "attachments";
const ENDING: &str = ".json";
/// Separator in a file's name, absent from IDs and network names.
const BETWEEN: char = '@';

impl AttachmentRecord {
    pub(super) fn new(pod: Option<String>, backend: &str, raw: &Raw) -> Self {
        // Configurations may contain other meshes' settings with the same names, for those meshes' pods.
        let own = raw.iter().filter(|(setting, _)| setting.is_for(raw.mesh()));
        let settings = own.map(|(setting, given)| (setting.row().name().to_owned(), given.value.clone()));
        Self { form: FORM, pod, backend: backend.to_owned(), settings: settings.collect() }
    }

    pub(super) fn backend(&self) -> Option<Choice> {
        Choice::named(&self.backend)
    }

    pub(super) fn mesh(&self) -> Mesh {
        self.named_mesh().unwrap_or_default()
    }

    /// Mesh in the settings; the error is a name that this version lacks.
    fn named_mesh(&self) -> Result<Mesh, &str> {
        let Some(name) = self.settings.get(Setting::Mesh.row().name()) else { return Ok(Mesh::default()) };
        name.trim().parse().map_err(|_| name.trim())
    }

    pub(super) fn raw(&self) -> Raw {
        let mesh = self.mesh();
        let setting = |name: &str| Some(settings::of(mesh).find(|row| row.name() == name)?.setting);
        let given = |(name, value): (&String, &String)| {
            let source = Source::Key(format!("settings.{name}"));
            Some((setting(name)?, Given { value: value.clone(), source }))
        };
        Raw::of(self.settings.iter().filter_map(given).collect::<Vec<(Setting, Given)>>())
    }
}

impl StoredRecord {
    pub(super) fn mesh(&self) -> Option<Mesh> {
        match self {
            Self::Valid(record) => Some(record.mesh()),
            Self::Absent | Self::Unreadable(_) => None,
        }
    }
}

impl AttachmentKey {
    fn file(&self) -> String {
        let Self { network, attachment: Attachment { container, interface } } = self;
        format!("{container}{BETWEEN}{interface}{BETWEEN}{network}{ENDING}")
    }

    fn of_file(name: &str) -> Option<Self> {
        let (container, rest) = name.strip_suffix(ENDING)?.split_once(BETWEEN)?;
        let (interface, network) = rest.rsplit_once(BETWEEN)?;
        let attachment = Attachment { container: container.to_owned(), interface: interface.to_owned() };
        Some(Self { network: network.to_owned(), attachment })
    }
}

impl AttachmentStore {
    pub(super) fn new(root: &Path) -> Self {
        Self { folder: root.join(FOLDER) }
    }

    pub(super) fn prepare(&self) -> io::Result<()> {
        files::make_folder(&self.folder)
    }

    pub(super) fn record(&self, key: &AttachmentKey) -> CniResult<StoredRecord> {
        // The settings came in a call of at most this length.
        let text = match files::read(&self.folder.join(key.file()), MAX_BYTES, Links::Refused) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(StoredRecord::Absent),
            Err(UnreadableFile::Io(error)) => return Err(read_error(&error)),
            Err(why) => return Ok(StoredRecord::Unreadable(format!("it {why}"))),
        };
        Ok(match serde_json::from_slice::<AttachmentRecord>(&text) {
            Ok(record) if record.form == FORM => match record.named_mesh() {
                Ok(_) => StoredRecord::Valid(record),
                Err(name) => StoredRecord::Unreadable(format!("its mesh {name:?} is from another version")),
            },
            Ok(record) => {
                StoredRecord::Unreadable(format!("its format {} is from another version", record.form))
            }
            Err(error) => StoredRecord::Unreadable(error.to_string()),
        })
    }

    /// On failure, the old record remains, or a new one that a machine crash may undo.
    pub(super) fn keep(&self, key: &AttachmentKey, record: &AttachmentRecord) -> CniResult<()> {
        let text = serde_json::to_vec(record).expect("our own data has text keys");
        self.prepare()
            .and_then(|()| files::put(&self.folder, &key.file(), &text, Durability::Kept))
            .map_err(|error| write_error(&error))
    }

    pub(super) fn forget(&self, key: &AttachmentKey) -> CniResult<()> {
        files::remove(&self.folder.join(key.file())).map_err(|error| write_error(&error))
    }

    pub(super) fn keys(&self) -> CniResult<Vec<AttachmentKey>> {
        let entries = files::present(fs::read_dir(&self.folder)).map_err(|error| read_error(&error))?;
        let keys = entries.into_iter().flatten().filter_map(|entry| {
            let name = entry.map(|entry| entry.file_name().to_string_lossy().into_owned());
            name.map(|name| AttachmentKey::of_file(&name)).map_err(|error| read_error(&error)).transpose()
        });
        keys.collect()
    }

    pub(super) fn sweep(&self) -> CniResult<()> {
        let folders = self.folder.ancestors().take(2).filter(|folder| folder.is_dir());
        let sweep = |folder: &Path| files::sweep(folder, ABANDONED);
        folders.into_iter().try_for_each(sweep).map_err(|error| read_error(&error))
    }
}

fn read_error(error: &io::Error) -> CniError {
    CniError::caused(CniErrorCode::Io, "the state directory can't be read (state_dir)", error)
}

fn write_error(error: &io::Error) -> CniError {
    CniError::caused(CniErrorCode::Io, "the state directory can't be written (state_dir)", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_parsed_back() {
        for (container, interface, network) in [("c1", "eth0", "mesh"), ("a.b-c_d", "a@b@c", "1")] {
            let attachment = Attachment { container: container.into(), interface: interface.into() };
            let key = AttachmentKey { network: network.into(), attachment };
            assert_eq!(AttachmentKey::of_file(&key.file()), Some(key));
        }
        assert_eq!(AttachmentKey::of_file("counters.json"), None);
    }

    #[test]
    fn record_with_an_unknown_mesh_is_unreadable() {
        let store =
            AttachmentStore::new(&std::env::temp_dir().join(format!("records-{}", std::process::id())));
        let attachment = Attachment { container: "c".into(), interface: "eth0".into() };
        let key = AttachmentKey { network: "mesh".into(), attachment };
        let given = Given { value: "linkerd".to_owned(), source: Source::Key("mesh".to_owned()) };
        let mut record = AttachmentRecord::new(None, "nftables", &Raw::of([(Setting::Mesh, given)]));
        store.keep(&key, &record).expect("written");
        assert_eq!(store.record(&key).expect("read"), StoredRecord::Valid(record.clone()));
        record.settings.insert(Setting::Mesh.row().name().to_owned(), "future".to_owned());
        store.keep(&key, &record).expect("written");
        let StoredRecord::Unreadable(why) = store.record(&key).expect("read") else { panic!("it is valid") };
        assert_eq!(why, "its mesh \"future\" is from another version");
        fs::remove_dir_all(store.folder.parent().expect("a folder")).expect("removed");
    }

    #[test]
    fn truncated_record_is_torn() {
        let given = Given { value: "*".to_owned(), source: Source::Key("x".to_owned()) };
        let raw = Raw::of([(Setting::InboundPorts, given)]);
        let record = AttachmentRecord::new(Some("shop/web".to_owned()), "nftables", &raw);
        let text = serde_json::to_vec(&record).expect("JSON");
        for end in 0..text.len() {
            assert!(serde_json::from_slice::<AttachmentRecord>(&text[..end]).is_err(), "cut at {end}");
        }
        assert_eq!(serde_json::from_slice::<AttachmentRecord>(&text).expect("whole"), record);
        assert_eq!(record.raw().get(Setting::InboundPorts).map(|given| given.value.as_str()), Some("*"));
    }

    #[test]
    fn record_has_only_the_settings_of_its_mesh() {
        let given = |value: &str| Given { value: value.to_owned(), source: Source::Key("x".to_owned()) };
        let users = |mesh: Mesh| mesh.settings().iter().find(|row| row.name() == "proxy-uid");
        let user = |mesh: Mesh| users(mesh).expect("it has one").setting;
        for mesh in [Mesh::Istio, Mesh::Linkerd] {
            let all = [Mesh::Istio, Mesh::Linkerd].map(|of| (user(of), given(of.name())));
            let raw = Raw::of([(Setting::Mesh, given(mesh.name()))].into_iter().chain(all));
            let record = AttachmentRecord::new(None, "nftables", &raw);
            assert_eq!(record.mesh(), mesh);
            let read = record.raw();
            assert_eq!(read.iter().count(), 2, "{record:?}");
            assert_eq!(read.get(user(mesh)).map(|given| given.value.as_str()), Some(mesh.name()));
        }
    }
}
