//! Which lists merge item by item, and by which key: the `patchStrategy` and `patchMergeKey` of `k8s.io/api/core/v1`, as
//! far as they concern a pod.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaKind {
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
type StrategyTable = &'static [(&'static str, Strategy, SchemaKind)];

const POD: StrategyTable = &[
    ("metadata", Strategy::Atomic, SchemaKind::Meta),
    ("spec", Strategy::Atomic, SchemaKind::Spec),
    ("status", Strategy::Atomic, SchemaKind::Status),
];

const META: StrategyTable = &[
    ("finalizers", Strategy::Set, SchemaKind::Other),
    ("ownerReferences", Strategy::Keyed("uid"), SchemaKind::Other),
];

const SPEC: StrategyTable = &[
    ("containers", Strategy::Keyed("name"), SchemaKind::Container),
    ("ephemeralContainers", Strategy::Keyed("name"), SchemaKind::Container),
    ("hostAliases", Strategy::Keyed("ip"), SchemaKind::Other),
    ("imagePullSecrets", Strategy::Keyed("name"), SchemaKind::Other),
    ("initContainers", Strategy::Keyed("name"), SchemaKind::Container),
    ("resourceClaims", Strategy::Keyed("name"), SchemaKind::Other),
    ("schedulingGates", Strategy::Keyed("name"), SchemaKind::Other),
    ("topologySpreadConstraints", Strategy::Keyed("topologyKey"), SchemaKind::Other),
    ("volumes", Strategy::Keyed("name"), SchemaKind::Other),
];

const CONTAINER: StrategyTable = &[
    ("env", Strategy::Keyed("name"), SchemaKind::Other),
    ("ports", Strategy::Keyed("containerPort"), SchemaKind::Other),
    ("volumeDevices", Strategy::Keyed("devicePath"), SchemaKind::Other),
    ("volumeMounts", Strategy::Keyed("mountPath"), SchemaKind::Other),
];

const STATUS: StrategyTable = &[
    ("conditions", Strategy::Keyed("type"), SchemaKind::Other),
    ("hostIPs", Strategy::Keyed("ip"), SchemaKind::Other),
    ("podIPs", Strategy::Keyed("ip"), SchemaKind::Other),
    ("resourceClaimStatuses", Strategy::Keyed("name"), SchemaKind::Other),
];

impl SchemaKind {
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
