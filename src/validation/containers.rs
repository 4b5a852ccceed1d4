//! Rules for containers that compare fields, from pkg/apis/core/validation/validation.go. Each names its upstream function.

use std::collections::{BTreeMap, BTreeSet};

use super::{At, Validation, formats};
use crate::model::quantity::Quantity;
use crate::model::template_types as types;
use crate::model::template_types::Type;

/// The handlers of a probe or hook, in order of precedence.
const HANDLERS: [(&str, &Type); 5] = [
    ("exec", &types::ExecAction),
    ("httpGet", &types::HTTPGetAction),
    ("tcpSocket", &types::TCPSocketAction),
    ("grpc", &types::GRPCAction),
    ("sleep", &types::SleepAction),
];

impl<'a> Validation<'a> {
    /// `validateContainers` and `validateInitContainers`.
    pub(super) fn containers(&mut self, pod: &At<'a>) {
        let mut names = BTreeSet::new();
        for container in pod.list("containers") {
            self.container(&container, pod.text("restartPolicy"));
            if !names.insert(container.text("name")) {
                self.duplicate(container.child("name"), container.text("name"));
            }
            self.hooks_and_probes(&container);
            self.restart_rules(&container);
        }
        self.unique_host_ports(pod.list("containers"));
        for (index, container) in pod.list("initContainers").enumerate() {
            self.container(&container, pod.text("restartPolicy"));
            let name = container.text("name");
            if names.contains(name) || !(name.is_empty() || names.insert(name)) {
                self.duplicate(container.child("name"), name);
            }
            // The path has the index of the only container compared.
            let path = format!("{}[0]", pod.child("initContainers"));
            self.unique_host_ports(std::iter::once(container.clone().named(path)));
            if container.text("restartPolicy") == "Always" {
                self.hooks_and_probes(&container);
            } else {
                // A lifecycle with only a stop signal, whose feature is disabled, was dropped earlier.
                let lifecycle = container.field("lifecycle");
                let is_dropped =
                    lifecycle.has("stopSignal") && !lifecycle.has("postStart") && !lifecycle.has("preStop");
                let probes = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
                for field in probes.into_iter().filter(|field| container.has(field)) {
                    if !(field == "lifecycle" && is_dropped) {
                        let why = "may not be set for init containers without restartPolicy=Always";
                        self.forbidden(container.child(field), why);
                    }
                }
                for (number, policy) in container.list("resizePolicy").enumerate() {
                    if policy.text("restartPolicy") == "RestartContainer" {
                        let path =
                            format!("{}[{index}].resizePolicy[{number}].restartPolicy", pod.child("initContainers"));
                        let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                        self.invalid(path, "RestartContainer", why);
                    }
                }
            }
            // `validateInitContainerRestartPolicy`
            self.restart_rules(&container);
        }
    }

    /// `validateContainerCommon`.
    fn container(&mut self, at: &At<'a>, restart_policy_of_pod: &str) {
        self.fields("Container", at);
        let ports = at.field("ports");
        let mut names = BTreeSet::new();
        for port in ports.items() {
            self.fields("ContainerPort", &port);
            let name = port.text("name");
            if formats::port_name(name).is_none() && !names.insert(name) {
                self.duplicate(port.child("name"), name);
            }
        }
        for variable in at.list("env") {
            self.fields("EnvVar", &variable);
            let from = variable.field("valueFrom");
            if from.is_there() {
                self.object(&types::EnvVarSource, &from);
                let sources = from.value.as_object().into_iter().flatten().count();
                if sources != 1 || variable.has("value") {
                    let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                               `fileKeyRef`, and not be specified when `value` is not empty";
                    self.problem(&*from.path, format!("Invalid value: {why}"));
                }
            }
        }
        let from = at.field("envFrom");
        for source in from.items() {
            self.fields("EnvFromSource", &source);
            for (field, of) in [("configMapRef", "ConfigMapEnvSource"), ("secretRef", "SecretEnvSource")] {
                if source.has(field) {
                    self.fields(of, &source.field(field));
                }
            }
            if source.has("configMapRef") == source.has("secretRef") {
                self.problem(&*from.path, "Invalid value: must specify one of: `configMapRef` or `secretRef`");
            }
        }
        self.mounts(at);
        self.devices(at);
        self.container_resources(&at.field("resources"), false);
        let policies = at.field("resizePolicy");
        let mut resources = BTreeSet::new();
        for policy in policies.items() {
            if !resources.insert(policy.text("resourceName")) {
                self.duplicate(&*policy.path, policy.text("resourceName"));
            }
            self.one_of(&*policies.path, policy.text("resourceName"), &["cpu", "memory"]);
            self.one_of(&*policies.path, policy.text("restartPolicy"), &["NotRequired", "RestartContainer"]);
            if restart_policy_of_pod == "Never" && policy.text("restartPolicy") != "NotRequired" {
                let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
                self.invalid(&*policies.path, policy.text("restartPolicy"), why);
            }
        }
        if at.has("securityContext") {
            self.object(&types::SecurityContext, &at.field("securityContext"));
        }
    }

    /// `AccumulateUniqueHostPorts`.
    fn unique_host_ports(&mut self, containers: impl Iterator<Item = At<'a>>) {
        let mut seen = BTreeSet::new();
        for port in containers.flat_map(|container| container.list("ports")).filter(|port| port.has("hostPort")) {
            let key = format!("{}/{}/{}", port.text("protocol"), port.text("hostIP"), port.number("hostPort"));
            if seen.contains(&key) {
                self.duplicate(port.child("hostPort"), &key);
            }
            seen.insert(key);
        }
    }

    fn hooks_and_probes(&mut self, at: &At<'a>) {
        if at.has("lifecycle") {
            self.lifecycle(&at.field("lifecycle"));
        }
        for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
            let probe = at.field(name);
            if !probe.is_there() {
                continue;
            }
            self.handler(&probe);
            self.fields("Probe", &probe);
            if name == "readinessProbe" && probe.has("terminationGracePeriodSeconds") {
                self.invalid_at(&probe.field("terminationGracePeriodSeconds"), "must not be set for readinessProbes");
            }
            if name != "readinessProbe" && probe.number("successThreshold") != 1 {
                self.invalid_at(&probe.field("successThreshold"), "must be 1");
            }
        }
    }

    /// `validateLifecycle`, with ContainerStopSignals disabled.
    pub(super) fn lifecycle(&mut self, at: &At<'a>) {
        for hook in ["postStart", "preStop"].map(|name| at.field(name)).iter().filter(|hook| hook.is_there()) {
            self.handler(hook);
        }
    }

    /// `validateHandler`.
    pub(super) fn handler(&mut self, at: &At<'a>) {
        let mut handlers = HANDLERS.iter().filter(|(name, _)| at.has(name));
        match handlers.next() {
            Some((name, of)) => self.object(of, &at.field(name)),
            None => self.problem(&*at.path, "Required value: must specify a handler type"),
        }
        for (name, _) in handlers {
            self.forbidden(at.child(name), "may not specify more than 1 handler type");
        }
        // `validateSleepAction`
        let sleep = at.field("sleep");
        let is_first = HANDLERS[..4].iter().all(|(name, _)| !at.has(name));
        if let (Some(period), true, true) = (self.pod.grace_period, sleep.is_there(), is_first)
            && !(0..=period).contains(&sleep.number("seconds"))
        {
            let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({period})");
            self.problem(&*sleep.path, format!("Invalid value: {}: {why}", sleep.number("seconds")));
        }
    }

    /// `validateHTTPGetAction`, except for the table, and with H2CContainerProbe disabled.
    pub(super) fn http_get(&mut self, at: &At<'a>) {
        self.port(&at.field("port"));
        for header in at.list("httpHeaders") {
            self.check(at.child("httpHeaders"), header.text("name"), formats::header_name);
        }
    }

    /// `ValidatePortNumOrName`.
    pub(super) fn port(&mut self, at: &At<'a>) {
        match at.value.as_str() {
            Some(name) => self.check(&*at.path, name, formats::port_name),
            None if (1..=65_535).contains(&at.value.as_i64().unwrap_or_default()) => {}
            None => self.invalid_at(at, "must be between 1 and 65535, inclusive"),
        }
    }

    /// `validateContainerRestartPolicy`.
    fn restart_rules(&mut self, at: &At<'a>) {
        let policy = at.field("restartPolicy");
        let rules = at.field("restartPolicyRules");
        match policy.is_there() {
            true => self.one_of(&*policy.path, policy.as_text(), &["Always", "Never", "OnFailure"]),
            false if rules.is_there() => self.required(&*policy.path),
            false => {}
        }
        let is_init_without_policy = !policy.is_there() && at.path.contains(".initContainers[");
        if rules.items().count() > 20 {
            self.problem(&*rules.path, "Too many: must have at most 20 items");
        }
        for rule in rules.items().filter(|_| !is_init_without_policy) {
            self.one_of(rule.child("action"), rule.text("action"), &["Restart", "RestartAllContainers"]);
            let codes = rule.field("exitCodes");
            if !codes.is_there() {
                self.required(&*codes.path);
                continue;
            }
            self.one_of(codes.child("operator"), codes.text("operator"), &["In", "NotIn"]);
            if codes.list("values").count() > 255 {
                self.problem(codes.child("values"), "Too many: must have at most 255 items");
            }
        }
    }

    /// `validateEnvVarValueFrom`.
    pub(super) fn variable_source(&mut self, at: &At<'a>) {
        const FIELDS: [&str; 9] = [
            "metadata.name",
            "metadata.namespace",
            "metadata.uid",
            "spec.nodeName",
            "spec.serviceAccountName",
            "status.hostIP",
            "status.hostIPs",
            "status.podIP",
            "status.podIPs",
        ];
        if at.has("fieldRef") {
            self.field_selector(&at.field("fieldRef"), &FIELDS);
        }
        if at.has("resourceFieldRef") {
            self.resource_selector(&at.field("resourceFieldRef"), false);
        }
        for (field, of) in [
            ("configMapKeyRef", "ConfigMapKeySelector"),
            ("secretKeyRef", "SecretKeySelector"),
            ("fileKeyRef", "FileKeySelector"),
        ] {
            if at.has(field) {
                self.fields(of, &at.field(field));
            }
        }
    }

    /// `validateObjectFieldSelector`, with `ConvertDownwardAPIFieldLabel` of pkg/apis/core/pods/helpers.go.
    pub(super) fn field_selector(&mut self, at: &At<'a>, supported: &[&str]) {
        let (path, text) = (at.child("fieldPath"), at.text("fieldPath"));
        if text.is_empty() {
            return self.required(path);
        }
        let subscript = text.strip_suffix("']").and_then(|text| text.split_once("['"));
        match subscript.filter(|(name, _)| !name.is_empty()) {
            _ if at.text("apiVersion") != "v1" => self.invalid(path, text, "unsupported pod version"),
            Some(("metadata.annotations", key)) => self.check(&*at.path, &key.to_lowercase(), formats::qualified_name),
            Some(("metadata.labels", key)) => self.check(&*at.path, key, formats::qualified_name),
            Some(_) => self.invalid(path, text, "field label does not support subscript"),
            None => self.one_of(path, if text == "spec.host" { "spec.nodeName" } else { text }, supported),
        }
    }

    /// `validateContainerResourceFieldSelector` and `validateContainerResourceDivisor`.
    pub(super) fn resource_selector(&mut self, at: &At<'a>, in_volume: bool) {
        const RESOURCES: [&str; 6] = [
            "limits.cpu",
            "limits.memory",
            "limits.ephemeral-storage",
            "requests.cpu",
            "requests.memory",
            "requests.ephemeral-storage",
        ];
        let resource = at.text("resource");
        let is_huge = resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
        if in_volume && !at.has("containerName") {
            self.required(at.child("containerName"));
        } else if resource.is_empty() {
            self.required(at.child("resource"));
        } else if !is_huge {
            self.one_of(at.child("resource"), resource, &RESOURCES);
        }
        let divisor = Quantity::new(at.text("divisor")).nanos().unwrap_or_default();
        // The spelling matters: 1024 is not 1Ki.
        let given = at.given["divisor"].as_str().unwrap_or_default();
        let units: i128 = if given.ends_with('i') { 1_024 } else { 1_000 };
        let supported = match resource.split_once('.') {
            Some((_, "cpu")) => vec![1_000_000, 1_000_000_000],
            Some(_) if is_huge || RESOURCES.contains(&resource) => {
                (0..=6).map(|power| units.pow(power) * 1_000_000_000).collect()
            }
            _ => return,
        };
        // So does an exponent: 1e3 is not 1k, but 1e0 is 1.
        let has_exponent = given.split_once(['e', 'E']).is_some_and(|(_, exponent)| !exponent.is_empty());
        let is_spelled = !has_exponent || divisor == 1_000_000_000;
        if divisor != 0 && !(is_spelled && supported.contains(&divisor)) {
            self.invalid(
                at.child("divisor"),
                resource,
                "only 1m and 1 for cpu, else 1 or one unit of a suffix are supported",
            );
        }
    }

    /// `validateFileKeyRefVolumes`.
    pub(super) fn file_keys(&mut self, pod: &At<'a>) {
        // If volumes have the same name, the last one is used.
        let volumes: BTreeMap<&str, At<'a>> = pod.list("volumes").map(|volume| (volume.text("name"), volume)).collect();
        for container in pod.list("initContainers").chain(pod.list("containers")) {
            for variable in container.list("env") {
                let key = variable.field("valueFrom").field("fileKeyRef");
                match volumes.get(key.text("volumeName")) {
                    _ if !key.is_there() => {}
                    None => self.problem(key.child("volumeName"), format!("Not found: {:?}", key.text("volumeName"))),
                    Some(volume) if volume.has("emptyDir") => {}
                    Some(_) => {
                        let why = "referenced volume must be of type emptyDir";
                        self.invalid(key.child("volumeName"), key.text("volumeName"), why);
                    }
                }
            }
        }
    }

    /// `ValidateVolumeMounts`, with VolumeBindMountOptions disabled.
    fn mounts(&mut self, container: &At<'a>) {
        let list = container.field("volumeMounts");
        let devices: Vec<_> = container.list("volumeDevices").collect();
        let mut paths = BTreeSet::new();
        for mount in list.items() {
            self.fields("VolumeMount", &mount);
            let (name, path) = (mount.text("name"), mount.text("mountPath"));
            if !self.pod.volumes.contains_key(name) {
                self.problem(mount.child("name"), format!("Not found: {name:?}"));
            }
            if !paths.insert(path) {
                self.invalid(mount.child("mountPath"), path, "must be unique");
            }
            if devices.iter().any(|device| device.text("name") == name) {
                self.invalid(mount.child("name"), name, "must not already exist in volumeDevices");
            }
            if last_by_name(&devices).any(|device| device.text("devicePath") == path) {
                self.invalid(mount.child("mountPath"), path, "must not already exist as a path in volumeDevices");
            }
            for field in ["subPath", "subPathExpr"] {
                // The path lacks the index.
                self.check(list.child(field), mount.text(field), formats::descending_path);
            }
            if mount.has("subPath") && mount.has("subPathExpr") {
                let why = "subPathExpr and subPath are mutually exclusive";
                self.invalid(mount.child("subPathExpr"), mount.text("subPathExpr"), why);
            }
            let propagation = mount.value["mountPropagation"].as_str();
            if let Some(propagation) = propagation {
                let path = list.child("mountPropagation");
                self.one_of(&*path, propagation, &["Bidirectional", "HostToContainer", "None"]);
                if propagation == "Bidirectional" && !container.field("securityContext").is_true("privileged") {
                    self.forbidden(path, "Bidirectional mount propagation is available only to privileged containers");
                }
            }
            let path = list.child("recursiveReadOnly");
            match mount.value["recursiveReadOnly"].as_str() {
                Some("Enabled" | "IfPossible") => {
                    if !mount.is_true("readOnly") {
                        self.forbidden(&*path, "may only be specified when readOnly is true");
                    }
                    if propagation.is_some_and(|propagation| propagation != "None") {
                        self.forbidden(path, "may only be specified when mountPropagation is None or not specified");
                    }
                }
                Some(other) => self.one_of(path, other, &["Disabled", "Enabled", "IfPossible"]),
                None => {}
            }
        }
    }

    /// `ValidateVolumeDevices`.
    fn devices(&mut self, container: &At<'a>) {
        let mounts: Vec<_> = container.list("volumeMounts").collect();
        let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
        for device in container.list("volumeDevices") {
            self.fields("VolumeDevice", &device);
            let (name, path) = (device.text("name"), device.text("devicePath"));
            if !(name.is_empty() || names.insert(name)) {
                self.invalid(device.child("name"), name, "must be unique");
            }
            match self.pod.volumes.get(name) {
                None => self.problem(device.child("name"), format!("Not found: {name:?}")),
                Some(volume) if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() => {
                    let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    self.invalid(device.child("name"), name, why);
                }
                Some(_) => {}
            }
            if !paths.insert(path) {
                self.invalid(device.child("devicePath"), path, "must be unique");
            }
            if mounts.iter().any(|mount| mount.text("name") == name) {
                self.invalid(device.child("name"), name, "must not already exist in volumeMounts");
            }
            if last_by_name(&mounts).any(|mount| mount.text("mountPath") == path) {
                self.invalid(device.child("devicePath"), path, "must not already exist as a path in volumeMounts");
            }
        }
    }
}

/// Returns the last entry of each name: `GetVolumeMountMap` and `GetVolumeDeviceMap`.
fn last_by_name<'b, 'a>(entries: &'b [At<'a>]) -> impl Iterator<Item = &'b At<'a>> {
    let is_last = |index: usize, name: &str| entries[index + 1..].iter().all(|other| other.text("name") != name);
    entries.iter().enumerate().filter(move |(index, entry)| is_last(*index, entry.text("name"))).map(|(_, entry)| entry)
}
