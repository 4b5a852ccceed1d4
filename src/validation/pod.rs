//! Rules for pods and templates that compare fields, from pkg/apis/core/validation/validation.go. Each names its upstream function.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{At, PodFacts, Validation, formats};
use crate::model::template_types as types;

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";

/// Returns the containers of a pod: `VisitContainersWithPath`, pkg/apis/core/pods/helpers.go.
fn all_containers<'a>(pod: &At<'a>) -> impl Iterator<Item = At<'a>> {
    let lists = ["initContainers", "containers", "ephemeralContainers"].map(|name| pod.list(name));
    lists.into_iter().flatten()
}

impl<'a> Validation<'a> {
    /// `ValidatePodTemplateSpec`.
    pub(super) fn pod_template(&mut self, at: &At<'a>) {
        let (metadata, pod) = (at.field("metadata"), at.field("spec"));
        // The path lacks `metadata`.
        self.labels(&metadata.field("labels").named(at.child("labels")));
        let annotations = metadata.field("annotations").named(at.child("annotations"));
        self.annotations(&annotations);
        self.pod_annotations(&annotations, &pod);
        self.object(&types::PodSpec, &pod);
        self.annotated_profiles(&annotations, &pod);
        if pod.has("ephemeralContainers") {
            self.forbidden(pod.child("ephemeralContainers"), "ephemeral containers not allowed in pod template");
        }
    }

    /// `ValidatePodSpecificAnnotations`.
    fn pod_annotations(&mut self, at: &At<'a>, pod: &At<'a>) {
        for (key, value) in at.value.as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            match key.as_str() {
                "kubernetes.io/config.mirror" if !pod.has("nodeName") => {
                    self.invalid(at.entry(key), value, "must set spec.nodeName if mirror pod annotation is set");
                }
                "controller.kubernetes.io/pod-deletion-cost" => {
                    self.check(at.entry(key), value, formats::deletion_cost)
                }
                TOLERATIONS if !value.is_empty() => self.annotated_tolerations(at, value),
                SECCOMP_POD => self.check(at.child(key), value, formats::seccomp_profile),
                _ if key.starts_with(SECCOMP_CONTAINER) => self.check(at.child(key), value, formats::seccomp_profile),
                _ => {}
            }
            if let Some(container) = key.strip_prefix(APP_ARMOR) {
                if all_containers(pod).all(|one| one.text("name") != container) {
                    self.invalid(at.entry(key), container, "container not found");
                }
                self.check(at.entry(key), value, formats::app_armor_profile);
            }
        }
    }

    /// `ValidateTolerationsInPodAnnotations`.
    fn annotated_tolerations(&mut self, at: &At<'a>, text: &str) {
        let mut read = Validation::default();
        let tolerations: Value = serde_json::from_str(text).unwrap_or(json!(""));
        let list = At { path: at.child(TOLERATIONS), value: &tolerations, given: &tolerations };
        if !(tolerations.is_null() || tolerations.is_array()) {
            return self.invalid(&*at.path, TOLERATIONS, "must be a list of tolerations in JSON");
        }
        list.items().for_each(|toleration| read.object(&types::Toleration, &toleration));
        self.problems.extend(read.problems);
    }

    /// `validateSeccompAnnotationsAndFields` and `validateAppArmorAnnotationsAndFieldsMatchOnCreate`.
    fn annotated_profiles(&mut self, annotations: &At<'a>, pod: &At<'a>) {
        let value_of = |key: &str| annotations.value[key].as_str();
        let own = |at: &At<'a>, kind: &str| Some(at.field("securityContext").field(kind)).filter(At::is_there);
        if let (Some(profile), Some(annotation)) = (own(pod, "seccompProfile"), value_of(SECCOMP_POD)) {
            self.same_profile(&profile, annotation, &["runtime/default", "docker/default"]);
        }
        let is_windows = pod.value["os"]["name"] == "windows";
        for container in all_containers(pod) {
            let of = |prefix: &str| value_of(&format!("{prefix}{}", container.text("name")));
            if let (Some(profile), Some(annotation)) = (own(&container, "seccompProfile"), of(SECCOMP_CONTAINER)) {
                self.same_profile(&profile, annotation, &["runtime/default", "docker/default"]);
            }
            let profile = own(&container, "appArmorProfile").or_else(|| own(pod, "appArmorProfile"));
            if let (Some(profile), Some(annotation), false) = (profile, of(APP_ARMOR), is_windows) {
                let path = container.child("securityContext.appArmorProfile");
                self.same_profile(&profile.named(path), annotation, &["runtime/default"]);
            }
        }
    }

    /// `validateSeccompAnnotationsAndFieldsMatch`, and the same for AppArmor.
    fn same_profile(&mut self, at: &At<'a>, annotation: &str, defaults: &[&str]) {
        let field = match (at.text("type"), annotation.strip_prefix("localhost/")) {
            ("Unconfined", _) => (annotation != "unconfined").then_some("type"),
            ("RuntimeDefault", _) => (!defaults.contains(&annotation)).then_some("type"),
            ("Localhost", None) => Some("type"),
            ("Localhost", Some(path)) => {
                (at.value["localhostProfile"].as_str() != Some(path)).then_some("localhostProfile")
            }
            _ => None,
        };
        if let Some(field) = field {
            self.forbidden(at.child(field), "the annotation and the field must match");
        }
    }

    /// `ValidatePodSpec`.
    pub(super) fn pod_spec(&mut self, at: &At<'a>) {
        self.pod = PodFacts {
            grace_period: at.value["terminationGracePeriodSeconds"].as_i64(),
            shares_users_with_host: at.value["hostUsers"] != false,
            claims: at.list("resourceClaims").map(|claim| claim.text("name")).filter(|name| !name.is_empty()).collect(),
            ..PodFacts::default()
        };
        self.volumes(at);
        let claims = at.field("resourceClaims");
        self.unique(&claims);
        for claim in claims.items() {
            self.object(&types::PodResourceClaim, &claim);
            if claim.has("resourceClaimName") == claim.has("resourceClaimTemplateName") {
                let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                self.problem(&*claim.path, format!("Invalid value: {why}"));
            }
        }
        self.containers(at);
        self.pod_resources(at);
        self.host_ports(at);
        self.labels(&at.field("nodeSelector"));
        for (field, of) in
            [("securityContext", &types::PodSecurityContext), ("affinity", &types::Affinity), ("os", &types::PodOS)]
        {
            if at.has(field) {
                self.object(of, &at.field(field));
            }
        }
        self.sysctls(at);
        if at.is_true("shareProcessNamespace") && at.is_true("hostPID") {
            let path = at.child("shareProcessNamespace");
            self.problem(path, "Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled");
        }
        self.dns(at);
        for (field, of) in [
            ("readinessGates", &types::PodReadinessGate),
            ("topologySpreadConstraints", &types::TopologySpreadConstraint),
            ("tolerations", &types::Toleration),
            ("hostAliases", &types::HostAlias),
        ] {
            at.list(field).for_each(|item| self.object(of, &item));
        }
        let mut gates = BTreeSet::new();
        for gate in at.list("schedulingGates") {
            self.check(&*gate.path, gate.text("name"), formats::qualified_name);
            if !gates.insert(gate.text("name")) {
                self.duplicate(&*gate.path, gate.text("name"));
            }
        }
        self.repeated_spread(at);
        self.host_process(at);
        self.own_users(at);
        if let Some(name) = at.value["hostnameOverride"].as_str() {
            let path = at.child("hostnameOverride");
            for field in ["setHostnameAsFQDN", "hostNetwork"].into_iter().filter(|field| at.is_true(field)) {
                self.forbidden(&*path, &format!("may not be specified when {field} is true"));
            }
            if name.len() > 64 {
                self.problem(&*path, "Too long: may not be more than 64 bytes");
            }
            self.check(path, name, formats::subdomain);
        }
        self.container_resources(&at.field("overhead"), true);
        match at.value["os"]["name"].as_str() {
            Some("linux") => self.not_for_linux(at),
            Some("windows") => self.not_for_windows(at),
            // The path lacks the name.
            Some(other) => self.one_of(at.child("os"), other, &["linux", "windows"]),
            None => {}
        }
        self.file_keys(at);
    }

    /// `validatePodHostNetworkDeps`.
    fn host_ports(&mut self, at: &At<'a>) {
        for port in at.list("containers").filter(|_| at.is_true("hostNetwork")).flat_map(|one| one.list("ports")) {
            if port.has("hostPort") && port.number("hostPort") != port.number("containerPort") {
                self.invalid_at(&port.field("hostPort"), "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }

    /// `validateSysctls` and `ValidateHostSysctl`.
    fn sysctls(&mut self, pod: &At<'a>) {
        let sysctls = pod.field("securityContext").field("sysctls");
        self.unique(&sysctls);
        for sysctl in sysctls.items() {
            let name = sysctl.text("name");
            // `NormalizeName`: the first separator is a dot.
            let is_slashed = name.find(['.', '/']).is_some_and(|at| name.as_bytes()[at] == b'/');
            let swap = |character| match character {
                '.' => '/',
                '/' => '.',
                other => other,
            };
            let normal: String = if is_slashed { name.chars().map(swap).collect() } else { name.to_owned() };
            let normal = normal.split('*').next().unwrap_or_default();
            let is_ipc = normal.starts_with("fs.mqueue.")
                || normal.strip_prefix("kernel.").is_some_and(|rest| {
                    let memory = ["sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "shm"];
                    memory.contains(&rest) || ["msgmax", "msgmnb", "msgmni", "msg"].contains(&rest)
                });
            for (field, is_of) in [("hostNetwork", normal.starts_with("net.") || normal == "net"), ("hostIPC", is_ipc)]
            {
                if is_of && pod.is_true(field) {
                    self.invalid(sysctl.child("name"), name, &format!("may not be specified when '{field}' is true"));
                }
            }
        }
    }

    /// `ValidateSecurityContext`, except for the table.
    pub(super) fn security_context(&mut self, at: &At<'a>) {
        if self.pod.shares_users_with_host && at.text("procMount") == "Unmasked" {
            self.invalid_at(&at.field("procMount"), "`hostUsers` must be false to use `Unmasked`");
        }
        if at.value["allowPrivilegeEscalation"] == false {
            if at.is_true("privileged") {
                let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
                self.problem(&*at.path, format!("Invalid value: {why}"));
            }
            if at.field("capabilities").list("add").any(|one| one.as_text() == "CAP_SYS_ADMIN") {
                let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
                self.problem(&*at.path, format!("Invalid value: {why}"));
            }
        }
    }

    /// `validateSeccompProfileField`.
    pub(super) fn seccomp_profile(&mut self, at: &At<'a>) {
        self.profile_type(at);
        let profile = at.field("localhostProfile");
        match (at.text("type"), profile.is_there()) {
            ("Localhost", false) => self.required(&*profile.path),
            ("Localhost", true) => self.check(&*profile.path, profile.as_text(), formats::descending_path),
            (_, true) => self.invalid_at(&profile, "can only be set when seccomp type is Localhost"),
            (_, false) => {}
        }
    }

    /// `ValidateAppArmorProfileField`.
    pub(super) fn app_armor_profile(&mut self, at: &At<'a>) {
        self.profile_type(at);
        let profile = at.field("localhostProfile");
        match at.text("type") {
            "Localhost" if profile.as_text().trim().len() != profile.as_text().len() => {
                self.invalid_at(&profile, "must not be padded with whitespace");
            }
            "Localhost" if profile.as_text().is_empty() => self.required(&*profile.path),
            "RuntimeDefault" | "Unconfined" if profile.is_there() => {
                self.invalid_at(&profile, "can only be set when AppArmor type is Localhost");
            }
            _ => {}
        }
        if at.text("type") == "Localhost" && profile.as_text().len() > 4_095 {
            self.problem(&*profile.path, "Too long: may not be more than 4095 bytes");
        }
    }

    fn profile_type(&mut self, at: &At<'a>) {
        match at.has("type") {
            true => self.one_of(at.child("type"), at.text("type"), &["Localhost", "RuntimeDefault", "Unconfined"]),
            false => self.required(at.child("type")),
        }
    }

    /// `validateWindowsSecurityContextOptions`.
    pub(super) fn windows_options(&mut self, at: &At<'a>) {
        let [name, spec, user] =
            ["gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName"].map(|name| at.field(name));
        if name.is_there() {
            self.check(&*name.path, name.as_text(), formats::subdomain);
        }
        if spec.is_there() && !(1..=64 * 1024).contains(&spec.as_text().len()) {
            self.problem(&*spec.path, "Invalid value: must not be empty, and its size must be under 64 KiB");
        }
        if user.is_there() {
            self.check(&*user.path, user.as_text(), formats::windows_user);
        }
    }

    /// `validateWindowsHostProcessPod`.
    fn host_process(&mut self, at: &At<'a>) {
        let of = |at: &At<'a>| at.value["securityContext"]["windowsOptions"]["hostProcess"].as_bool();
        let (mut all, mut processes) = (0, 0);
        for container in all_containers(at) {
            if let (Some(pod), Some(own)) = (of(at), of(&container))
                && pod != own
            {
                let path = container.child("securityContext.windowsOptions.hostProcess");
                self.problem(
                    path,
                    format!("Invalid value: {own}: pod hostProcess value must be identical if both are specified"),
                );
            }
            all += 1;
            processes += usize::from(of(&container).or(of(at)) == Some(true));
        }
        if processes > 0 && processes < all {
            let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
            self.problem(&*at.path, format!("Invalid value: {why}"));
        }
        if processes > 0 && !at.is_true("hostNetwork") {
            let why = "hostNetwork must be true if pod contains any hostProcess containers";
            self.problem(at.child("hostNetwork"), format!("Invalid value: false: {why}"));
        }
    }

    /// `validateHostUsers`.
    fn own_users(&mut self, at: &At<'a>) {
        if self.pod.shares_users_with_host {
            return;
        }
        for (field, named) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
            if at.is_true(field) {
                self.forbidden(at.child(named), "when `hostUsers` is false");
            }
        }
        for container in all_containers(at).filter(|one| one.has("volumeDevices")) {
            self.forbidden(container.child("volumeDevices"), "when `hostUsers` is false");
        }
    }

    /// `validateLinux`.
    fn not_for_linux(&mut self, at: &At<'a>) {
        for one in std::iter::once(at.clone()).chain(all_containers(at)) {
            if one.field("securityContext").has("windowsOptions") {
                let path = one.child("securityContext.windowsOptions");
                self.forbidden(path, "windows options cannot be set for a linux pod");
            }
        }
    }

    /// `validateWindows`.
    fn not_for_windows(&mut self, at: &At<'a>) {
        const POD: [&str; 11] = [
            "appArmorProfile",
            "seLinuxOptions",
            "seccompProfile",
            "fsGroup",
            "fsGroupChangePolicy",
            "sysctls",
            "runAsUser",
            "runAsGroup",
            "supplementalGroups",
            "supplementalGroupsPolicy",
            "seLinuxChangePolicy",
        ];
        const CONTAINER: [&str; 10] = [
            "appArmorProfile",
            "seLinuxOptions",
            "seccompProfile",
            "capabilities",
            "readOnlyRootFilesystem",
            "privileged",
            "allowPrivilegeEscalation",
            "procMount",
            "runAsUser",
            "runAsGroup",
        ];
        let contexts = all_containers(at).map(|one| (one.field("securityContext"), &CONTAINER[..]));
        let pod = [
            (at.field("securityContext"), &POD[..]),
            (at.clone(), &["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"][..]),
        ];
        for (context, fields) in pod.into_iter().chain(contexts) {
            // An empty list of groups counts as set, an empty list of sysctls does not.
            let is_set = |field: &&&str| {
                context.has(field) || **field == "supplementalGroups" && !context.given[field].is_null()
            };
            for field in fields.iter().filter(is_set) {
                self.forbidden(context.child(field), "cannot be set for a windows pod");
            }
        }
    }

    /// `ValidateTolerations`, with TaintTolerationComparisonOperators disabled.
    pub(super) fn toleration(&mut self, at: &At<'a>) {
        let (operator, value, path) = (at.text("operator"), at.text("value"), at.child("operator"));
        if !at.has("key") && operator != "Exists" {
            self.invalid(
                &*path,
                operator,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        if at.has("tolerationSeconds") && at.text("effect") != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            self.invalid(at.child("effect"), at.text("effect"), why);
        }
        match operator {
            "" | "Equal" => self.check(path, value, formats::label_value),
            "Exists" if !value.is_empty() => {
                self.invalid(path, value, "value must be empty when `operator` is 'Exists'")
            }
            "Exists" => {}
            operator => self.one_of(path, operator, &["Equal", "Exists"]),
        }
    }

    /// `validateNodeAffinity`.
    pub(super) fn node_affinity(&mut self, at: &At<'a>) {
        let required = at.field("requiredDuringSchedulingIgnoredDuringExecution");
        if required.is_there() {
            self.fields("NodeSelector", &required);
            required.list("nodeSelectorTerms").for_each(|term| self.node_selector_term(&term, true));
        }
        for term in at.list("preferredDuringSchedulingIgnoredDuringExecution") {
            self.fields("PreferredSchedulingTerm", &term);
            self.node_selector_term(&term.field("preference"), false);
        }
    }

    /// `ValidateNodeSelectorTerm`, with `ValidateNodeSelectorRequirement` and `ValidateNodeFieldSelectorRequirement`.
    fn node_selector_term(&mut self, at: &At<'a>, checks_values: bool) {
        for requirement in at.list("matchExpressions") {
            let values = requirement.field("values");
            self.requirement(&requirement, &["In", "NotIn", "Gt", "Lt"], &["Exists", "DoesNotExist"], checks_values);
            if matches!(requirement.text("operator"), "Gt" | "Lt") && values.items().nth(1).is_some() {
                self.required(&*values.path);
            }
        }
        for requirement in at.list("matchFields") {
            let values = requirement.field("values");
            match requirement.text("operator") {
                "In" | "NotIn" if values.items().count() != 1 => self.required(&*values.path),
                "In" | "NotIn" => {}
                other => self.invalid(requirement.child("operator"), other, "not a valid selector operator"),
            }
            match requirement.text("key") {
                "metadata.name" => {
                    values.items().for_each(|value| self.check(&*value.path, value.as_text(), formats::subdomain));
                }
                other => self.invalid(requirement.child("key"), other, "not a valid field selector key"),
            }
        }
    }

    /// `validatePodAffinityTerm`.
    pub(super) fn pod_affinity_term(&mut self, at: &At<'a>) {
        for namespace in at.list("namespaces") {
            self.check(at.child("namespace"), namespace.as_text(), formats::label);
        }
        self.match_label_keys(at);
    }

    /// `ValidateMatchLabelKeysAndMismatchLabelKeys`.
    pub(super) fn match_label_keys(&mut self, at: &At<'a>) {
        let selector = at.field("labelSelector");
        let [matched, mismatched] = ["matchLabelKeys", "mismatchLabelKeys"].map(|name| at.field(name));
        for keys in [&matched, &mismatched] {
            if keys.is_there() && !selector.is_there() {
                self.forbidden(&*keys.path, "must not be specified when labelSelector is not set");
            } else {
                keys.items().for_each(|key| self.check(&*key.path, key.as_text(), formats::qualified_name));
            }
        }
        let mut known: BTreeSet<&str> = selector.texts("matchLabels").map(|(key, _)| key).collect();
        for key in selector.list("matchExpressions").map(|requirement| requirement.text("key")) {
            // The index is that of the last such key, and the path is that of an element of the list's parent.
            let last = matched.items().enumerate().filter(|(_, one)| one.as_text() == key).last();
            if let (Some((index, _)), true) = (last, known.contains(key)) {
                self.invalid(at.entry(&index.to_string()), key, "exists in both matchLabelKeys and labelSelector");
            }
            known.insert(key);
        }
        for key in matched.items() {
            if mismatched.items().any(|other| other.as_text() == key.as_text()) {
                self.invalid(&*key.path, key.as_text(), "exists in both matchLabelKeys and mismatchLabelKeys");
            }
        }
    }

    /// `ValidateSpreadConstraintNotRepeat` and `validateMinDomains`.
    fn repeated_spread(&mut self, at: &At<'a>) {
        let constraints: Vec<_> = at.list("topologySpreadConstraints").collect();
        let key = |one: &At<'a>| (one.text("topologyKey"), one.text("whenUnsatisfiable"));
        for (index, constraint) in constraints.iter().enumerate() {
            if constraints[index + 1..].iter().any(|other| key(other) == key(constraint)) {
                let value = format!("{{{}, {}}}", key(constraint).0, key(constraint).1);
                self.duplicate(constraint.child("{topologyKey, whenUnsatisfiable}"), &value);
            }
            if constraint.has("minDomains") && constraint.text("whenUnsatisfiable") != "DoNotSchedule" {
                self.invalid_at(
                    &constraint.field("minDomains"),
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule",
                );
            }
        }
    }

    /// `validatePodDNSConfig` under the policy None.
    fn dns(&mut self, at: &At<'a>) {
        let config = at.field("dnsConfig");
        let is_none = at.text("dnsPolicy") == "None";
        if is_none && !config.is_there() {
            self.required(&*config.path);
        } else if is_none && !config.has("nameservers") {
            self.required(config.child("nameservers"));
        } else if config.is_there() {
            self.object(&types::PodDNSConfig, &config);
        }
    }

    /// `validatePodDNSConfig`.
    pub(super) fn dns_config(&mut self, at: &At<'a>) {
        for (field, most) in [("nameservers", 3), ("searches", 32)] {
            if at.list(field).count() > most {
                self.problem(at.child(field), format!("Invalid value: must not have more than {most} {field}"));
            }
        }
        at.list("nameservers").for_each(|server| self.check(&*server.path, server.as_text(), formats::ip));
        let searches: Vec<_> = at.list("searches").collect();
        if searches.iter().map(|search| search.as_text().len() + 1).sum::<usize>() > 2_049 {
            self.problem(
                at.child("searches"),
                "Invalid value: must not have more than 2048 characters (including spaces)",
            );
        }
        for search in searches.iter().filter(|search| search.as_text() != ".") {
            let text = search.as_text();
            self.check(&*search.path, text.strip_suffix('.').unwrap_or(text), formats::search_domain);
        }
        for option in at.list("options").filter(|option| !option.has("name")) {
            self.required(&*option.path);
        }
    }
}
