//! ResourceQuotas: limits on the total resources of a namespace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::metadata::ObjectMeta;
use super::quantity::Quantity;

/// A limit on what the objects of a namespace take together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceQuota {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// Which pods it is about.
    pub spec: ResourceQuotaSpec,
    /// What it allows, and what is used.
    pub status: ResourceQuotaStatus,
}

/// Which pods a ResourceQuota is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceQuotaSpec {
    /// The scopes that a pod must be in.
    pub scopes: Vec<String>,
    /// The same with values.
    pub scope_selector: Option<ScopeSelector>,
}

/// Scopes with values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeSelector {
    /// What has to hold, all of it.
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

/// What a ResourceQuota allows, and what is used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceQuotaStatus {
    /// What is allowed, by resource.
    pub hard: BTreeMap<String, Quantity>,
    /// What is used.
    pub used: BTreeMap<String, Quantity>,
}
