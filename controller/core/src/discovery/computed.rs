//! Resources that are worked out when somebody asks for them and that no store holds: reviews, and metrics.

use Computed::{
    LocalSubjectAccessReview, NodeMetrics, PodMetrics, SelfSubjectAccessReview, SelfSubjectReview,
    SelfSubjectRulesReview, SubjectAccessReview,
};

/// Such a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computed {
    /// `kubectl auth whoami`
    SelfSubjectReview,
    /// `kubectl auth can-i`
    SelfSubjectAccessReview,
    /// May somebody else?
    SubjectAccessReview,
    /// May somebody else, in this namespace?
    LocalSubjectAccessReview,
    /// `kubectl auth can-i --list`
    SelfSubjectRulesReview,
    /// `kubectl top node`
    NodeMetrics,
    /// `kubectl top pod`
    PodMetrics,
}

/// What discovery and paths need to know of it.
#[derive(Debug)]
pub struct ComputedInfo {
    /// Which one.
    pub what: Computed,
    /// API group.
    pub group: &'static str,
    /// `v1`
    pub version: &'static str,
    /// `kind`
    pub kind: &'static str,
    /// The name in paths.
    pub plural: &'static str,
    /// The name of one.
    pub singular: &'static str,
    /// Whether it is asked for in a namespace.
    pub namespaced: bool,
    /// What may be done with it.
    pub verbs: &'static [&'static str],
}

const REVIEW: ComputedInfo = ComputedInfo {
    what: SelfSubjectReview,
    group: "authorization.k8s.io",
    version: "v1",
    kind: "",
    plural: "",
    singular: "",
    namespaced: false,
    verbs: &["create"],
};

const METRICS: ComputedInfo =
    ComputedInfo { group: "metrics.k8s.io", version: "v1beta1", verbs: &["get", "list"], ..REVIEW };

/// Every one, the ones of a group together.
pub static COMPUTED: &[ComputedInfo] = &[
    ComputedInfo {
        what: SelfSubjectReview,
        group: "authentication.k8s.io",
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        ..REVIEW
    },
    ComputedInfo {
        what: LocalSubjectAccessReview,
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        namespaced: true,
        ..REVIEW
    },
    ComputedInfo {
        what: SelfSubjectAccessReview,
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        ..REVIEW
    },
    ComputedInfo {
        what: SelfSubjectRulesReview,
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        ..REVIEW
    },
    ComputedInfo {
        what: SubjectAccessReview,
        kind: "SubjectAccessReview",
        plural: "subjectaccessreviews",
        singular: "subjectaccessreview",
        ..REVIEW
    },
    ComputedInfo { what: NodeMetrics, kind: "NodeMetrics", plural: "nodes", singular: "", ..METRICS },
    ComputedInfo { what: PodMetrics, kind: "PodMetrics", plural: "pods", singular: "", namespaced: true, ..METRICS },
];

impl Computed {
    /// Its row.
    #[must_use]
    pub fn info(self) -> &'static ComputedInfo {
        COMPUTED.iter().find(|info| info.what == self).unwrap_or(&REVIEW)
    }

    /// The one that a path names with group, version and plural.
    #[must_use]
    pub fn of_path(group: &str, version: &str, plural: &str) -> Option<Self> {
        let mut found = COMPUTED.iter();
        let fits = |info: &&ComputedInfo| info.group == group && info.version == version && info.plural == plural;
        found.find(fits).map(|info| info.what)
    }

    /// `apiVersion`
    #[must_use]
    pub fn api_version(self) -> String {
        let info = self.info();
        format!("{}/{}", info.group, info.version)
    }
}
