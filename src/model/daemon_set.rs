//! DaemonSets, with the API's defaults applied once.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::SerializeDisplay;

use super::int_or_percent::IntOrPercent;
use super::metadata::{ObjectMeta, TEMPLATE_GENERATION_ANNOTATION};
use super::pod::{Container, PodSpec};
use super::selector::LabelSelector;
use super::template::Template;
use super::wire::without_struct;

/// The API group of OpenKruise's Advanced DaemonSets, the prefix of their API versions.
pub const ADVANCED_GROUP: &str = "apps.kruise.io/";

/// The API of a DaemonSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    /// Kubernetes' own, apps/v1.
    Apps,
    /// OpenKruise's Advanced DaemonSet, apps.kruise.io.
    Advanced,
}

/// A DaemonSet: the slim fields that rules read, and the whole object for diffs and writes.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonSet {
    /// Name, namespace and generation.
    pub metadata: ObjectMeta,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// The spec.
    pub spec: DaemonSetSpec,
    /// The status that the controller last wrote.
    pub status: DaemonSetStatus,
    /// The whole object, as it was read.
    pub object: Value,
}

/// A DaemonSet's spec.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    /// Selects its pods.
    pub selector: LabelSelector,
    /// The pod template.
    pub template: PodTemplate,
    /// How pods are replaced.
    pub update_strategy: UpdateStrategy,
    /// How long in seconds a pod must be ready to count as available.
    pub min_ready_seconds: i64,
    /// The number of revisions to keep besides the current one.
    pub revision_history_limit: Option<i64>,
}

impl DaemonSetSpec {
    /// Returns the number of revisions to keep, which is 10 if it is not set: `SetDefaults_DaemonSet`, pkg/apis/apps/v1/defaults.go, release
    /// 1.37.2.
    pub fn revisions_kept(&self) -> i64 {
        self.revision_history_limit.unwrap_or(10)
    }
}

/// The pod template.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTemplate {
    /// The labels of the pods.
    pub metadata: ObjectMeta,
    /// The spec of the pods.
    pub spec: PodSpec,
}

/// How pods are replaced.
#[derive(Debug, Clone, PartialEq, Deserialize, SerializeDisplay)]
#[serde(try_from = "UpdateStrategyFields")]
pub enum UpdateStrategy {
    /// The controller replaces them.
    RollingUpdate(RollingUpdate),
    /// Somebody deletes them, and the controller creates new ones.
    OnDelete,
    /// A type that the API does not define; the controller replaces nothing.
    Unknown(String),
}

const ROLLING_UPDATE: &str = "rollingUpdate";

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UpdateStrategyFields {
    r#type: String,
    /// Decoded only for `RollingUpdate`; the API server does not validate it for `OnDelete`.
    rolling_update: Value,
}

impl TryFrom<UpdateStrategyFields> for UpdateStrategy {
    type Error = String;

    /// Ported from `SetDefaults_DaemonSet`, pkg/apis/apps/v1/defaults.go, release 1.37.2: the type defaults to `RollingUpdate`.
    fn try_from(UpdateStrategyFields { r#type, rolling_update }: UpdateStrategyFields) -> Result<Self, String> {
        match r#type.as_str() {
            "" | "RollingUpdate" if rolling_update.is_null() => Ok(UpdateStrategy::default()),
            "" | "RollingUpdate" => serde_path_to_error::deserialize(rolling_update)
                .map(UpdateStrategy::RollingUpdate)
                .map_err(|error| match error.path().iter().next() {
                    Some(_) => format!("{ROLLING_UPDATE}.{}: {}", error.path(), error.inner()),
                    None => format!("{ROLLING_UPDATE}: {}", error.inner()),
                }),
            "OnDelete" => Ok(UpdateStrategy::OnDelete),
            _ => Ok(UpdateStrategy::Unknown(r#type)),
        }
    }
}

impl Default for UpdateStrategy {
    fn default() -> Self {
        UpdateStrategy::RollingUpdate(RollingUpdate::default())
    }
}

/// The pace of a rolling update.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// The number of nodes that may be without an available pod.
    pub max_unavailable: IntOrPercent,
    /// The number of nodes that may have a second pod.
    pub max_surge: IntOrPercent,
    /// Advanced DaemonSets only: the number of pods that stay on the old revision.
    pub partition: Option<IntOrPercent>,
    /// Advanced DaemonSets only: whether the rolling update is suspended.
    pub paused: bool,
    /// Advanced DaemonSets only: the labels of the nodes that are updated; all if absent.
    pub selector: Option<LabelSelector>,
    /// Advanced DaemonSets only: `Standard` or `InPlaceIfPossible`; empty if not set.
    pub rolling_update_type: String,
}

impl RollingUpdate {
    /// Reads the values that the API server retains under another strategy, of which it drops those that are null.
    pub(crate) fn retained(strategy: &Value) -> Self {
        let mut rolling = strategy["rollingUpdate"].clone();
        drop_nulls(&mut rolling);
        RollingUpdate::deserialize(rolling).unwrap_or_default()
    }

    /// Returns whether the controller of an Advanced DaemonSet keeps pods on an older revision.
    pub(crate) fn keeps_pods(&self) -> bool {
        self.paused || self.selector.is_some() || self.partition.is_some_and(|partition| partition.value() != 0)
    }
}

impl Default for RollingUpdate {
    /// Ported from `SetDefaults_DaemonSet`, pkg/apis/apps/v1/defaults.go, release 1.37.2.
    fn default() -> Self {
        RollingUpdate {
            max_unavailable: IntOrPercent::Int(1),
            max_surge: IntOrPercent::Int(0),
            partition: None,
            paused: false,
            selector: None,
            rolling_update_type: String::new(),
        }
    }
}

/// A DaemonSet's status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    /// Nodes that should have a pod.
    pub desired_number_scheduled: i64,
    /// Nodes that should have a pod and have one.
    pub current_number_scheduled: i64,
    /// Nodes that should not have a pod and have one.
    pub number_misscheduled: i64,
    /// Nodes with a ready pod.
    pub number_ready: i64,
    /// Nodes with an available pod.
    pub number_available: i64,
    /// Nodes without an available pod.
    pub number_unavailable: i64,
    /// Nodes with a pod of the current revision.
    pub updated_number_scheduled: i64,
    /// The generation of the spec that the controller last reconciled.
    pub observed_generation: i64,
}

impl DaemonSetStatus {
    /// Returns whether the controller last saw a pod of the DaemonSet on any node.
    pub fn counts_pods(&self) -> bool {
        self.current_number_scheduled > 0 || self.number_misscheduled > 0
    }
}

impl DaemonSet {
    /// Returns the host directories that its pods mount.
    pub fn host_paths(&self) -> impl Iterator<Item = &str> {
        let volumes = self.object.pointer("/spec/template/spec/volumes").and_then(Value::as_array);
        let paths = volumes.into_iter().flatten().filter_map(|volume| volume.pointer("/hostPath/path")?.as_str());
        paths.map(|path| path.trim_end_matches('/'))
    }

    /// Returns the writer that restores the DaemonSet if somebody else changes it: the object whose controller owns it,
    /// the one for which k3s and Rancher created it, or the addon manager of the cluster.
    pub fn writer(&self) -> Option<String> {
        let owner = || self.metadata.controller().map(|owner| format!("{} {}", owner.kind, owner.name));
        let rancher = || {
            let annotation = |key: &str| self.annotations.get(&format!("objectset.rio.cattle.io/{key}"));
            let (_, kind) = annotation("owner-gvk")?.rsplit_once("Kind=")?;
            Some(format!("{kind} {}/{}", annotation("owner-namespace")?, annotation("owner-name")?))
        };
        let addon = || {
            let mode = self.metadata.labels.get("addonmanager.kubernetes.io/mode");
            mode.filter(|mode| *mode == "Reconcile").map(|_| "the addon manager of the cluster".to_owned())
        };
        owner().or_else(rancher).or_else(addon)
    }

    /// Returns the writer that reverts changes immediately. k3s applies the files of its add-ons only when they change and when it
    /// starts.
    pub fn reverted_by(&self) -> Option<String> {
        let owner = self.annotations.get("objectset.rio.cattle.io/owner-gvk");
        let is_addon = self.metadata.controller().is_none() && owner.is_some_and(|it| it.ends_with("Kind=Addon"));
        self.writer().filter(|_| !is_addon)
    }

    /// Returns whether its pods install a CNI network plugin on their nodes: they mount its directories.
    pub fn installs_network(&self) -> bool {
        self.host_paths().any(|path| path.ends_with("/cni/net.d") || path.ends_with("/cni/bin"))
    }

    /// Returns whether its pods register a plugin with the kubelet, such as a CSI driver: they mount the kubelet's registration
    /// directory, below any distribution's root directory, or have the container that registers a driver there.
    pub fn registers_with_kubelet(&self) -> bool {
        let is_registrar = |container: &Container| {
            [&container.name, &container.image].into_iter().any(|name| name.contains("driver-registrar"))
        };
        self.host_paths().any(|path| path.ends_with("/plugins_registry"))
            || self.spec.template.spec.containers.iter().any(is_registrar)
    }

    /// Reads a DaemonSet from the whole object; `null` is the same as an absent field. Fails if a field has the wrong type.
    pub fn from_object(object: Value) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(default)]
        #[derive(Default)]
        struct Slim {
            metadata: ObjectMeta,
            spec: DaemonSetSpec,
            status: DaemonSetStatus,
        }
        let mut slim = object.clone();
        drop_nulls(&mut slim);
        let read = serde_path_to_error::deserialize(&slim);
        let Slim { metadata, mut spec, status } = read.map_err(|error| {
            // It is read on its own.
            let text = error.to_string().replace(&format!(": {ROLLING_UPDATE}"), &format!(".{ROLLING_UPDATE}"));
            serde_json::Error::custom(without_struct(text))
        })?;
        let annotations = annotations(&slim);
        spec.template.spec.apply_defaults();
        Ok(DaemonSet { metadata, annotations, spec, status, object })
    }

    /// Returns whether the controller has observed the current spec.
    pub fn is_observed(&self) -> bool {
        self.status.observed_generation >= self.metadata.generation
    }

    /// Returns the group and version in which the object was read, such as `apps/v1`.
    pub fn api_version(&self) -> &str {
        self.object.get("apiVersion").and_then(Value::as_str).unwrap_or("apps/v1")
    }

    /// Returns its flavor.
    pub fn flavor(&self) -> Flavor {
        if self.api_version().starts_with(ADVANCED_GROUP) { Flavor::Advanced } else { Flavor::Apps }
    }

    /// Returns the whole pod template.
    pub fn template(&self) -> Template {
        Template::new(self.object.pointer("/spec/template").cloned().unwrap_or_default())
    }

    /// Returns the DaemonSet with another template; unchanged if the template cannot be read.
    pub(crate) fn with_template(&self, template: &Template) -> DaemonSet {
        let mut object = self.object.clone();
        object["spec"]["template"] = template.value().clone();
        let Ok(mut after) = DaemonSet::from_object(object) else { return self.clone() };
        // The API server increments both, so that only a revision with the same template counts as current, and pods that another
        // DaemonSet has left may count as updated.
        after.metadata.generation = after.status.observed_generation + 1;
        if let Some(generation) = self.template_generation() {
            after.annotations.insert(TEMPLATE_GENERATION_ANNOTATION.to_owned(), (generation + 1).to_string());
        }
        after
    }

    /// Returns the number of the live template, by which pods without a known hash are updated.
    ///
    /// Ported from `GetTemplateGeneration`, pkg/controller/daemon/util/daemonset_util.go, release
    /// 1.37.2.
    pub fn template_generation(&self) -> Option<i64> {
        self.annotations.get(TEMPLATE_GENERATION_ANNOTATION)?.parse().ok()
    }
}

kept_whole!(DaemonSet);

/// Returns the annotations of a whole object.
pub(super) fn annotations(object: &Value) -> BTreeMap<String, String> {
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    annotations
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Removes `null` fields, which Go reads as absent, like `discardNullValuesFromPatch` for a strategic merge patch.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{DaemonSet, IntOrPercent, RollingUpdate, UpdateStrategy};

    #[test]
    fn an_update_strategy_gets_the_defaults_of_its_type() {
        let read = |strategy| {
            DaemonSet::from_object(json!({"spec": {"updateStrategy": strategy}})).unwrap().spec.update_strategy
        };
        let ten_percent = RollingUpdate { max_unavailable: IntOrPercent::Percent(10), ..RollingUpdate::default() };
        for (strategy, expected) in [
            (json!(null), UpdateStrategy::default()),
            (json!({"type": "RollingUpdate", "rollingUpdate": null}), UpdateStrategy::default()),
            (json!({"rollingUpdate": {"maxUnavailable": "10%"}}), UpdateStrategy::RollingUpdate(ten_percent)),
            (json!({"rollingUpdate": {"maxUnavailable": null, "maxSurge": null}}), UpdateStrategy::default()),
            (json!({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 3}}), UpdateStrategy::OnDelete),
            (json!({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": "many"}}), UpdateStrategy::OnDelete),
            (json!({"type": "Recreate"}), UpdateStrategy::Unknown("Recreate".to_owned())),
        ] {
            assert_eq!(read(strategy.clone()), expected, "{strategy}");
        }
    }

    #[test]
    fn a_bare_manifest_gets_the_defaults_of_the_api() {
        let daemon_set = DaemonSet::from_object(json!({
            "metadata": {"name": "agent", "labels": null},
            "spec": {
                "updateStrategy": null,
                "template": {"spec": {
                    "hostNetwork": true,
                    "nodeSelector": null,
                    "containers": [{"name": "agent", "ports": [{"containerPort": 9100}],
                        "resources": {"limits": {"cpu": 1, "memory": "64Mi"}, "requests": {"cpu": "100m"}}}],
                }},
            },
        }))
        .unwrap();
        let spec = &daemon_set.spec;
        assert_eq!(spec.update_strategy, UpdateStrategy::default());
        assert_eq!(spec.template.spec.scheduler_name, "default-scheduler");
        let container = &spec.template.spec.containers[0];
        assert_eq!((container.ports[0].host_port, container.ports[0].protocol.as_str()), (9100, "TCP"));
        assert_eq!(container.resources.requests["cpu"].text, "100m");
        assert_eq!(container.resources.requests["memory"].text, "64Mi");
    }
}
