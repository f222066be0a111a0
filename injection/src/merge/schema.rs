//! Which lists merge item by item, and by which key: the `patchStrategy` and `patchMergeKey` of `k8s.io/api/core/v1`, as
//! far as they concern a pod.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `Pod`, and `PodTemplateSpec`, which has the same fields.
    Pod,
    Meta,
    Spec,
    /// `Container`, `EphemeralContainer`.
    Container,
    Status,
    /// One without lists that merge.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// It is replaced as a whole.
    Atomic,
    /// Its items are objects that merge with those of the same value in this field.
    Keyed(&'static str),
    /// Its items are scalars, each of which is in it once.
    Set,
}

/// Fields whose lists merge, with what their items are.
type Table = &'static [(&'static str, Strategy, Kind)];

const POD: Table = &[
    ("metadata", Strategy::Atomic, Kind::Meta),
    ("spec", Strategy::Atomic, Kind::Spec),
    ("status", Strategy::Atomic, Kind::Status),
];

const META: Table =
    &[("finalizers", Strategy::Set, Kind::Other), ("ownerReferences", Strategy::Keyed("uid"), Kind::Other)];

const SPEC: Table = &[
    ("containers", Strategy::Keyed("name"), Kind::Container),
    ("ephemeralContainers", Strategy::Keyed("name"), Kind::Container),
    ("hostAliases", Strategy::Keyed("ip"), Kind::Other),
    ("imagePullSecrets", Strategy::Keyed("name"), Kind::Other),
    ("initContainers", Strategy::Keyed("name"), Kind::Container),
    ("resourceClaims", Strategy::Keyed("name"), Kind::Other),
    ("schedulingGates", Strategy::Keyed("name"), Kind::Other),
    ("topologySpreadConstraints", Strategy::Keyed("topologyKey"), Kind::Other),
    ("volumes", Strategy::Keyed("name"), Kind::Other),
];

const CONTAINER: Table = &[
    ("env", Strategy::Keyed("name"), Kind::Other),
    ("ports", Strategy::Keyed("containerPort"), Kind::Other),
    ("volumeDevices", Strategy::Keyed("devicePath"), Kind::Other),
    ("volumeMounts", Strategy::Keyed("mountPath"), Kind::Other),
];

const STATUS: Table = &[
    ("conditions", Strategy::Keyed("type"), Kind::Other),
    ("hostIPs", Strategy::Keyed("ip"), Kind::Other),
    ("podIPs", Strategy::Keyed("ip"), Kind::Other),
    ("resourceClaimStatuses", Strategy::Keyed("name"), Kind::Other),
];

impl Kind {
    /// How a field's list merges, and what its items are, or what the field itself is.
    pub fn field(self, name: &str) -> (Strategy, Self) {
        let table = match self {
            Self::Pod => POD,
            Self::Meta => META,
            Self::Spec => SPEC,
            Self::Container => CONTAINER,
            Self::Status => STATUS,
            Self::Other => &[],
        };
        let row = table.iter().find(|(field, ..)| *field == name);
        row.map_or((Strategy::Atomic, Self::Other), |(_, strategy, kind)| (*strategy, *kind))
    }
}
