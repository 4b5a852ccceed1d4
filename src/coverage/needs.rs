//! What the pods of a manifest need: claims, ConfigMaps and Secrets, and whether a dump has them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::proposed_daemon_set::Admission;
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::Snapshot;
use crate::model::template_parts::{Referrer, references};

/// An object that pods need, in their namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need<'a> {
    /// `ConfigMap`, `PersistentVolumeClaim` or `Secret`.
    pub kind: &'static str,
    pub name: &'a str,
    /// Whether it is only used to pull images, in which case containers may start without it.
    pub pulls_images: bool,
}

impl Need<'_> {
    /// Records that it is unknown whether the object exists.
    pub(crate) fn unknown(&self, why: &str, admission: &mut Admission) {
        let message = format!("whether {} {} exists is not known: {why}", self.kind.to_lowercase(), self.name);
        admission.unknown.push(message);
    }

    /// Records that the object does not exist.
    pub(crate) fn not_found(&self, namespace: &str, admission: &mut Admission) {
        if self.pulls_images {
            admission.unknown.push(format!(
                "secret {} of imagePullSecrets not found in namespace {namespace}: whether the images can be pulled without it is \
                 not known",
                self.name
            ));
        } else {
            admission.missing.push((self.kind, self.name.to_owned()));
        }
    }
}

/// Returns what the pods of a template need to start. Optional objects are not needed.
///
/// The kubelet mounts all volumes, even those that no container mounts.
pub fn needs(template: &Value) -> BTreeSet<Need<'_>> {
    let mut needs = BTreeSet::new();
    // Those that only pull images are last.
    for it in references(template).into_iter().filter(|it| !it.is_optional() && !matches!(it.by, Referrer::Pod)) {
        let need = Need { kind: it.kind, name: it.name, pulls_images: false };
        // Every namespace has this one.
        let always_exists = (it.kind, it.name) == ("ConfigMap", "kube-root-ca.crt");
        if !always_exists && !needs.contains(&need) {
            needs.insert(Need { pulls_images: matches!(it.by, Referrer::ImagePull), ..need });
        }
    }
    needs
}

/// Returns whether available pods of the live DaemonSet need the same object, which therefore exists.
pub(crate) fn is_in_use(need: &Need<'_>, live: Option<&DaemonSet>) -> bool {
    let available = live.filter(|live| live.status.number_available > 0 && live.is_observed());
    available.is_some_and(|live| needs(&live.object["spec"]["template"]).contains(need))
}

/// Returns which needed objects are missing from a dump, and for which this is unknown. Objects in the manifests count as existing.
///
/// A dump of this program has only those that DaemonSets use; a dump with another object of the kind in the namespace has all.
pub(crate) fn in_dump(
    snapshot: &Snapshot,
    proposed: &DaemonSet,
    live: Option<&DaemonSet>,
    creates: impl Fn(&str, &str) -> bool,
) -> Admission {
    let mut found = Admission { is_of_dump: true, ..Admission::default() };
    let namespace = proposed.metadata.namespace.as_str();
    let others = snapshot.daemon_sets.iter().filter(|daemon_set| daemon_set.metadata.namespace == namespace);
    let used: BTreeSet<Need<'_>> = others.flat_map(|one| needs(&one.object["spec"]["template"])).collect();
    for need in needs(&proposed.object["spec"]["template"]) {
        let named = |name: &str| snapshot.has_name(need.kind, namespace, name);
        let is_used = |name: &str| used.iter().any(|one| (one.kind, one.name) == (need.kind, name));
        if creates(need.kind, need.name) || named(need.name) || is_in_use(&need, live) {
            continue;
        }
        if snapshot.names(need.kind, namespace).any(|name| !is_used(name)) {
            need.not_found(namespace, &mut found);
        } else {
            let why = format!("the dump does not have the {}s of namespace {namespace}", need.kind.to_lowercase());
            need.unknown(&why, &mut found);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Need, in_dump, needs};
    use crate::model::daemon_set::DaemonSet;
    use crate::model::snapshot::Snapshot;

    /// Returns pod specs that each need one object, with its kind; empty if they need none.
    fn specs() -> Vec<(Value, &'static str)> {
        let volume = |source: Value| json!({"volumes": [source]});
        let container = |fields: Value| json!({"containers": [fields]});
        let init = |fields: Value| json!({"initContainers": [fields]});
        let projected = |source: Value| json!({"volumes": [{"projected": {"sources": [source]}}]});
        vec![
            (volume(json!({"persistentVolumeClaim": {"claimName": "x"}})), "PersistentVolumeClaim"),
            (volume(json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}})), ""),
            (volume(json!({"configMap": {"name": "x"}})), "ConfigMap"),
            (volume(json!({"configMap": {"name": "x", "optional": true}})), ""),
            (volume(json!({"configMap": {"name": "x", "optional": false}})), "ConfigMap"),
            (volume(json!({"configMap": {"name": "kube-root-ca.crt"}})), ""),
            (volume(json!({"secret": {"secretName": "x"}})), "Secret"),
            (volume(json!({"secret": {"secretName": "x", "optional": true}})), ""),
            (volume(json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "x"}}})), "Secret"),
            (volume(json!({"azureFile": {"secretName": "x", "shareName": "s"}})), "Secret"),
            (volume(json!({"cephfs": {"monitors": [], "secretRef": {"name": "x"}}})), "Secret"),
            (volume(json!({"hostPath": {"path": "/x"}})), ""),
            (projected(json!({"configMap": {"name": "x"}})), "ConfigMap"),
            (projected(json!({"secret": {"name": "x"}})), "Secret"),
            (projected(json!({"secret": {"name": "x", "optional": true}})), ""),
            (projected(json!({"serviceAccountToken": {"path": "x"}})), ""),
            (container(json!({"envFrom": [{"configMapRef": {"name": "x"}}]})), "ConfigMap"),
            (container(json!({"envFrom": [{"secretRef": {"name": "x"}}]})), "Secret"),
            (container(json!({"envFrom": [{"secretRef": {"name": "x", "optional": true}}]})), ""),
            (init(json!({"env": [{"valueFrom": {"configMapKeyRef": {"name": "x", "key": "k"}}}]})), "ConfigMap"),
            (init(json!({"env": [{"valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}]})), "Secret"),
            (container(json!({"env": [{"valueFrom": {"fieldRef": {"fieldPath": "x"}}}]})), ""),
            (json!({"imagePullSecrets": [{"name": "x"}]}), "Secret"),
            (json!({}), ""),
        ]
    }

    fn daemon_set(spec: &Value) -> DaemonSet {
        let object = json!({"metadata": {"name": "agent", "namespace": "apps"}, "spec": {"template": {"spec": spec}}});
        DaemonSet::from_object(object).unwrap()
    }

    fn dump(names: &[(&str, &str)]) -> Snapshot {
        let mut snapshot = Snapshot::empty(jiff::Timestamp::UNIX_EPOCH);
        let name = |(kind, name): &(&str, &str)| ((*kind).to_owned(), "apps".to_owned(), (*name).to_owned());
        snapshot.object_names = names.iter().map(name).collect();
        snapshot
    }

    #[test]
    fn what_pods_need_is_missing_from_a_dump_that_has_others_and_else_unknown() {
        for (spec, kind) in specs() {
            let template = json!({"spec": spec});
            let found: Vec<_> = needs(&template).into_iter().map(|Need { kind, name, .. }| (kind, name)).collect();
            let expected: Vec<_> = Some((kind, "x")).filter(|_| !kind.is_empty()).into_iter().collect();
            assert_eq!(found, expected, "{spec}");
            let pulls_images = spec["imagePullSecrets"].is_array();
            let proposed = daemon_set(&spec);
            let of = |names: &[(&str, &str)]| {
                let found = in_dump(&dump(names), &proposed, None, |_, _| false);
                (found.missing.len(), found.unknown.len())
            };
            let (missing, unknown) = match (kind, pulls_images) {
                ("", _) => ((0, 0), (0, 0)),
                (_, true) => ((0, 1), (0, 1)),
                (_, false) => ((1, 0), (0, 1)),
            };
            assert_eq!(of(&[(kind, "other")]), missing, "{spec}");
            assert_eq!(of(&[]), unknown, "{spec}");
            assert_eq!(of(&[(kind, "x")]), (0, 0), "{spec}");
            let created = in_dump(&dump(&[(kind, "other")]), &proposed, None, |_, name| name == "x");
            assert!(created.missing.is_empty() && created.unknown.is_empty(), "{spec}");
        }
    }

    #[test]
    fn a_dump_with_only_what_daemon_sets_use_does_not_tell_what_else_exists() {
        let used = json!({"volumes": [{"secret": {"secretName": "used"}}]});
        let proposed = daemon_set(&json!({"volumes": [{"secret": {"secretName": "new"}}]}));
        let mut snapshot = dump(&[("Secret", "used")]);
        snapshot.daemon_sets.push(daemon_set(&used));
        let found = in_dump(&snapshot, &proposed, None, |_, _| false);
        assert_eq!((found.missing.len(), found.unknown.len()), (0, 1));
        assert_eq!(
            found.unknown[0],
            "whether secret new exists is not known: the dump does not have the secrets of namespace apps"
        );
    }

    #[test]
    fn what_available_pods_use_exists() {
        let spec = json!({"volumes": [{"secret": {"secretName": "tls"}}]});
        for (available, unknown) in [(0, 1), (2, 0)] {
            let mut live = daemon_set(&spec);
            live.status.number_available = available;
            let found = in_dump(&dump(&[]), &daemon_set(&spec), Some(&live), |_, _| false);
            assert_eq!(found.unknown.len(), unknown);
        }
    }
}
