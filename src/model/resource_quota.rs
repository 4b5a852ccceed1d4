//! ResourceQuotas: limits on the total resources of a namespace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::metadata::ObjectMeta;
use super::quantity::Quantity;

/// A limit on the total resources of the objects in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceQuota {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// The pods that it applies to.
    pub spec: ResourceQuotaSpec,
    /// The limits, and the usage.
    pub status: ResourceQuotaStatus,
}

/// The pods to which a ResourceQuota applies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceQuotaSpec {
    /// The scopes that a pod must be in.
    pub scopes: Vec<String>,
    /// Scopes with values.
    pub scope_selector: Option<ScopeSelector>,
}

/// Scopes with values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeSelector {
    /// Requirements that must all hold.
    pub match_expressions: Vec<ScopedRequirement>,
}

/// A scope with values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopedRequirement {
    /// The scope, such as `PriorityClass`.
    pub scope_name: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values.
    pub values: Vec<String>,
}

/// The limits of a ResourceQuota, and the usage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceQuotaStatus {
    /// The limits, by resource.
    pub hard: BTreeMap<String, Quantity>,
    /// The usage, by resource.
    pub used: BTreeMap<String, Quantity>,
}
