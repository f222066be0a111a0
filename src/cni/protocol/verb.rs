//! The verbs of the specification ("CNI operations").

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Add,
    Check,
    Del,
    Gc,
    Status,
    Version,
}

impl Verb {
    pub(crate) const ALL: [Self; 6] =
        [Self::Add, Self::Check, Self::Del, Self::Gc, Self::Status, Self::Version];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Check => "CHECK",
            Self::Del => "DEL",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }
}
