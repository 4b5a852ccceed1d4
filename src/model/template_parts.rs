//! What a pod template consists of and refers to, as JSON.

use serde_json::Value;

/// Returns the items of a list; none if there is no such list.
pub(crate) fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + Clone + use<'a> {
    value[field].as_array().into_iter().flatten()
}

/// Returns the containers of a template, followed by its init containers.
pub fn containers(template: &Value) -> impl Iterator<Item = &Value> + Clone {
    items(&template["spec"], "containers").chain(items(&template["spec"], "initContainers"))
}

/// Returns the volumes of a template.
pub(crate) fn volumes(template: &Value) -> impl Iterator<Item = &Value> + Clone {
    items(&template["spec"], "volumes")
}

/// Returns every text that is the value of a field or an item.
pub(crate) fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// A reference of a template to an object in the namespace of the pods, or to a cluster-scoped one.
#[derive(Debug, Clone, Copy)]
pub struct Reference<'a> {
    /// As Kubernetes spells it, such as `ConfigMap`.
    pub kind: &'static str,
    /// Its name.
    pub name: &'a str,
    /// What refers to it.
    pub by: Referrer<'a>,
    /// The part with the name.
    source: &'a Value,
}

/// What refers to an object.
#[derive(Debug, Clone, Copy)]
pub enum Referrer<'a> {
    /// A container, which has the data in its environment.
    Environment(&'a Value),
    /// A volume, which has the data as files.
    Files(&'a Value),
    /// A volume, which is mounted with it.
    Mount,
    /// The kubelet, to pull images.
    ImagePull,
    /// The pod as a whole.
    Pod,
}

impl Reference<'_> {
    /// Returns whether containers start without the object.
    pub fn is_optional(&self) -> bool {
        self.source["optional"] == true
    }

    /// Returns whether it is about a certain key of the object, which must exist.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.source["key"] == key || items(self.source, "items").any(|item| item["key"] == key)
    }
}

/// Returns all references of a template to other objects.
pub fn references(template: &Value) -> Vec<Reference<'_>> {
    let spec = &template["spec"];
    let mut found = volumes(template).flat_map(of_volume).collect::<Vec<_>>();
    for container in containers(template) {
        let variables = items(container, "env").map(|variable| &variable["valueFrom"]);
        for source in items(container, "envFrom").chain(variables) {
            let fields = ["configMapRef", "configMapKeyRef"].map(|field| ("ConfigMap", field));
            for (kind, field) in fields.into_iter().chain(["secretRef", "secretKeyRef"].map(|field| ("Secret", field)))
            {
                found.extend(named(Referrer::Environment(container), kind, &source[field], "name"));
            }
        }
    }
    found.extend(items(spec, "imagePullSecrets").flat_map(|it| named(Referrer::ImagePull, "Secret", it, "name")));
    let claims = items(spec, "resourceClaims").flat_map(|claim| {
        let of_claim = |kind, field| named(Referrer::Pod, kind, claim, field);
        let template = of_claim("ResourceClaimTemplate", "resourceClaimTemplateName");
        of_claim("ResourceClaim", "resourceClaimName").into_iter().chain(template)
    });
    found.extend(claims);
    let of_pod = [
        ("ServiceAccount", "serviceAccountName"),
        ("PriorityClass", "priorityClassName"),
        ("RuntimeClass", "runtimeClassName"),
    ];
    found.extend(of_pod.into_iter().flat_map(|(kind, field)| named(Referrer::Pod, kind, spec, field)));
    found
}

/// Returns the references of a volume. An ephemeral volume creates its own claim.
fn of_volume(volume: &Value) -> Vec<Reference<'_>> {
    let files = |kind, source, field| named(Referrer::Files(volume), kind, source, field);
    let mount = |kind, source, field| named(Referrer::Mount, kind, source, field);
    let projected = items(&volume["projected"], "sources").flat_map(|source| {
        let config_map = files("ConfigMap", &source["configMap"], "name");
        config_map.into_iter().chain(files("Secret", &source["secret"], "name"))
    });
    // As in rbd and cephfs.
    let others = volume.as_object().into_iter().flatten().flat_map(|(_, of)| mount("Secret", &of["secretRef"], "name"));
    let plain = [
        files("ConfigMap", &volume["configMap"], "name"),
        files("Secret", &volume["secret"], "secretName"),
        mount("PersistentVolumeClaim", &volume["persistentVolumeClaim"], "claimName"),
        mount("Secret", &volume["azureFile"], "secretName"),
        mount("Secret", &volume["csi"]["nodePublishSecretRef"], "name"),
    ];
    plain.into_iter().flatten().chain(projected).chain(others).collect()
}

fn named<'a>(by: Referrer<'a>, kind: &'static str, source: &'a Value, field: &str) -> Option<Reference<'a>> {
    let name = source[field].as_str().filter(|name| !name.is_empty())?;
    Some(Reference { kind, name, by, source })
}
