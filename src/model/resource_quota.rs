//! ResourceQuotas: limits on the total resources of a namespace.

use std::collections::BTreeMap;

use super::metadata::ObjectMeta;
use super::quantity::Quantity;

json_object! {
    /// A limit on the total resources of the objects in a namespace.
    pub struct ResourceQuota {
        /// Name and namespace.
        metadata: ObjectMeta,
        /// The pods that it applies to.
        spec: ResourceQuotaSpec,
        /// The limits, and the usage.
        status: ResourceQuotaStatus,
    }

    /// The pods to which a ResourceQuota applies.
    pub struct ResourceQuotaSpec {
        /// The scopes that a pod must be in.
        scopes: Vec<String>,
        /// Scopes with values.
        scope_selector: Option<ScopeSelector>,
    }

    /// Scopes with values.
    pub struct ScopeSelector {
        /// Requirements that must all hold.
        match_expressions: Vec<ScopedRequirement>,
    }

    /// A scope with values.
    pub struct ScopedRequirement {
        /// The scope, such as `PriorityClass`.
        scope_name: String,
        /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
        operator: String,
        /// The values.
        values: Vec<String>,
    }

    /// The limits of a ResourceQuota, and the usage.
    pub struct ResourceQuotaStatus {
        /// The limits, by resource.
        hard: BTreeMap<String, Quantity>,
        /// The usage, by resource.
        used: BTreeMap<String, Quantity>,
    }
}
