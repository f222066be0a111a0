//! What a template may say: the words of each part, and what stands behind them. They are Kubernetes' own (`k8s.io/api/core/v1`),
//! but where a shorter one is given.

/// What stands behind a word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// A text, with references.
    Text,
    /// One of these, or a reference to one.
    Word(&'static [&'static str]),
    /// A whole number within these bounds, or a reference to one.
    Number(i64, i64),
    /// `true` or `false`, or a reference to one of them.
    Bool,
    /// A port by its number or its name, or a reference to one.
    Port,
    /// A path of the API that a variable may be filled from, with the text itself as it is written.
    Field,
    /// A mapping of names to texts.
    Texts,
    List(&'static Form),
    Object(&'static Shape),
}

/// An object.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) fields: &'static [Field],
    /// Fields of which there has to be exactly one.
    pub(super) one_of: &'static [&'static str],
}

impl Shape {
    /// What every such object has, in words.
    pub(super) fn vital(&self) -> String {
        let words = self.fields.iter().filter(|field| field.required).map(|field| field.word);
        let one_of = (!self.one_of.is_empty()).then(|| format!("one of {}", self.one_of.join(", ")));
        words.map(str::to_owned).chain(one_of).collect::<Vec<_>>().join(" and ")
    }
}

/// A word of an object.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) word: &'static str,
    pub(super) form: Form,
    /// Whether the object means nothing without it: it has to be written, and where what it refers to isn't set, the object is
    /// left out.
    pub(super) required: bool,
    /// Where it stands in the pod.
    pub(super) path: &'static [&'static str],
}

const fn field(word: &'static str, form: Form) -> Field {
    Field { word, form, required: false, path: &[] }
}

const fn required(word: &'static str, form: Form) -> Field {
    Field { word, form, required: true, path: &[] }
}

const fn at(word: &'static str, form: Form, path: &'static [&'static str]) -> Field {
    Field { word, form, required: false, path }
}

const fn shape(fields: &'static [Field]) -> Shape {
    Shape { fields, one_of: &[] }
}

const TEXTS: Form = Form::List(&Form::Text);
/// Seconds and counts, which the API holds in 32 bits.
const COUNT: Form = Form::Number(0, i32::MAX as i64);
const ID: Form = Form::Number(0, i32::MAX as i64);
const PORT: Form = Form::Number(1, 65_535);
const MODE: Form = Form::Number(0, 0o777);

/// A container.
pub(super) static CONTAINER: Shape = shape(&[
    required("name", Form::Text),
    field("image", Form::Text),
    field("imagePullPolicy", Form::Word(&["Always", "IfNotPresent", "Never"])),
    field("command", TEXTS),
    field("args", TEXTS),
    field("workingDir", Form::Text),
    field("env", Form::List(&Form::Object(&VARIABLE))),
    field("ports", Form::List(&Form::Object(&PORTS))),
    field("resources", Form::Object(&RESOURCES)),
    field("volumeMounts", Form::List(&Form::Object(&MOUNT))),
    field("startupProbe", Form::Object(&PROBE)),
    field("readinessProbe", Form::Object(&PROBE)),
    field("livenessProbe", Form::Object(&PROBE)),
    field("lifecycle", Form::Object(&LIFECYCLE)),
    field("securityContext", Form::Object(&SECURITY)),
    field("terminationMessagePolicy", Form::Word(&["File", "FallbackToLogsOnError"])),
]);

/// A volume of the pod.
pub(super) static VOLUME: Shape = Shape {
    fields: &[
        required("name", Form::Text),
        field("emptyDir", Form::Object(&EMPTY_DIR)),
        field("configMap", Form::Object(&CONFIG_MAP)),
        field("secret", Form::Object(&SECRET)),
        field("downwardAPI", Form::Object(&DOWNWARD)),
        field("projected", Form::Object(&PROJECTED)),
        field("csi", Form::Object(&CSI)),
    ],
    one_of: &["emptyDir", "configMap", "secret", "downwardAPI", "projected", "csi"],
};

/// An entry of `imagePullSecrets`.
pub(super) static NAMED: Shape = shape(&[required("name", Form::Text)]);

/// An environment variable. Where it comes from stands beside its name, without `valueFrom`.
pub(super) static VARIABLE: Shape = Shape {
    fields: &[
        required("name", Form::Text),
        field("value", Form::Text),
        at("field", Form::Field, &["valueFrom", "fieldRef", "fieldPath"]),
        at("resource", Form::Word(RESOURCE), &["valueFrom", "resourceFieldRef", "resource"]),
        at("configMap", Form::Object(&KEY), &["valueFrom", "configMapKeyRef"]),
        at("secret", Form::Object(&KEY), &["valueFrom", "secretKeyRef"]),
    ],
    one_of: &["value", "field", "resource", "configMap", "secret"],
};

const RESOURCE: &[&str] = &["limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

static KEY: Shape =
    shape(&[required("name", Form::Text), required("key", Form::Text), field("optional", Form::Bool)]);

static PORTS: Shape = shape(&[
    required("containerPort", PORT),
    field("name", Form::Text),
    field("protocol", Form::Word(&["TCP", "UDP", "SCTP"])),
]);

static RESOURCES: Shape = shape(&[field("requests", Form::Texts), field("limits", Form::Texts)]);

pub(super) static MOUNT: Shape = shape(&[
    required("name", Form::Text),
    required("mountPath", Form::Text),
    field("subPath", Form::Text),
    field("readOnly", Form::Bool),
]);

static PROBE: Shape = Shape {
    fields: &[
        field("httpGet", Form::Object(&HTTP_GET)),
        field("tcpSocket", Form::Object(&TCP_SOCKET)),
        field("grpc", Form::Object(&GRPC)),
        field("exec", Form::Object(&EXEC)),
        field("initialDelaySeconds", COUNT),
        field("periodSeconds", COUNT),
        field("timeoutSeconds", COUNT),
        field("successThreshold", COUNT),
        field("failureThreshold", COUNT),
    ],
    one_of: &["httpGet", "tcpSocket", "grpc", "exec"],
};

static HTTP_GET: Shape = shape(&[
    required("port", Form::Port),
    field("path", Form::Text),
    field("host", Form::Text),
    field("scheme", Form::Word(&["HTTP", "HTTPS"])),
    field("httpHeaders", Form::List(&Form::Object(&HEADER))),
]);

static HEADER: Shape = shape(&[required("name", Form::Text), required("value", Form::Text)]);
static TCP_SOCKET: Shape = shape(&[required("port", Form::Port), field("host", Form::Text)]);
static GRPC: Shape = shape(&[required("port", PORT), field("service", Form::Text)]);
static EXEC: Shape = shape(&[required("command", TEXTS)]);

static LIFECYCLE: Shape =
    shape(&[field("postStart", Form::Object(&HANDLER)), field("preStop", Form::Object(&HANDLER))]);

static HANDLER: Shape = Shape {
    fields: &[
        field("exec", Form::Object(&EXEC)),
        field("httpGet", Form::Object(&HTTP_GET)),
        field("sleep", Form::Object(&SLEEP)),
    ],
    one_of: &["exec", "httpGet", "sleep"],
};

static SLEEP: Shape = shape(&[required("seconds", COUNT)]);

static SECURITY: Shape = shape(&[
    field("allowPrivilegeEscalation", Form::Bool),
    field("capabilities", Form::Object(&CAPABILITIES)),
    field("privileged", Form::Bool),
    field("readOnlyRootFilesystem", Form::Bool),
    field("runAsGroup", ID),
    field("runAsNonRoot", Form::Bool),
    field("runAsUser", ID),
    field("seccompProfile", Form::Object(&SECCOMP)),
]);

static CAPABILITIES: Shape = shape(&[field("add", TEXTS), field("drop", TEXTS)]);
static SECCOMP: Shape = shape(&[required("type", Form::Word(&["RuntimeDefault", "Unconfined"]))]);

static EMPTY_DIR: Shape =
    shape(&[field("medium", Form::Word(&["", "Memory"])), field("sizeLimit", Form::Text)]);

static CONFIG_MAP: Shape = shape(&[
    required("name", Form::Text),
    field("items", Form::List(&Form::Object(&ITEM))),
    field("defaultMode", MODE),
    field("optional", Form::Bool),
]);

static SECRET: Shape = shape(&[
    required("secretName", Form::Text),
    field("items", Form::List(&Form::Object(&ITEM))),
    field("defaultMode", MODE),
    field("optional", Form::Bool),
]);

static ITEM: Shape = shape(&[required("key", Form::Text), required("path", Form::Text)]);

static DOWNWARD: Shape = shape(&[required("items", Form::List(&Form::Object(&DOWNWARD_ITEM)))]);

static DOWNWARD_ITEM: Shape = shape(&[
    required("path", Form::Text),
    Field { word: "field", form: Form::Field, required: true, path: &["fieldRef", "fieldPath"] },
]);

static PROJECTED: Shape =
    shape(&[required("sources", Form::List(&Form::Object(&SOURCE))), field("defaultMode", MODE)]);

static SOURCE: Shape = Shape {
    fields: &[
        field("serviceAccountToken", Form::Object(&TOKEN)),
        field("configMap", Form::Object(&PROJECTED_MAP)),
        field("secret", Form::Object(&PROJECTED_MAP)),
        field("downwardAPI", Form::Object(&DOWNWARD)),
        field("clusterTrustBundle", Form::Object(&TRUST_BUNDLE)),
    ],
    one_of: &["serviceAccountToken", "configMap", "secret", "downwardAPI", "clusterTrustBundle"],
};

static TOKEN: Shape = shape(&[
    required("path", Form::Text),
    field("audience", Form::Text),
    // The API refuses less than ten minutes.
    field("expirationSeconds", Form::Number(600, u32::MAX as i64)),
]);

static PROJECTED_MAP: Shape = shape(&[
    required("name", Form::Text),
    field("items", Form::List(&Form::Object(&ITEM))),
    field("optional", Form::Bool),
]);

static TRUST_BUNDLE: Shape = shape(&[
    required("path", Form::Text),
    field("name", Form::Text),
    field("signerName", Form::Text),
    field("optional", Form::Bool),
]);

static CSI: Shape = shape(&[
    required("driver", Form::Text),
    field("readOnly", Form::Bool),
    field("volumeAttributes", Form::Texts),
]);

/// What `field` may name: what `fieldRef` of a variable takes, and of a volume beside it.
pub(super) fn is_field(path: &str) -> bool {
    const PATHS: [&str; 11] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.labels",
        "metadata.annotations",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    let keyed = ["metadata.labels['", "metadata.annotations['"]
        .iter()
        .any(|start| path.strip_prefix(start).is_some_and(|rest| rest.len() > 2 && rest.ends_with("']")));
    PATHS.contains(&path) || keyed
}
