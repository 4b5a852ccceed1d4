//! Why the sandbox of a pod cannot be created, by the events of the kubelet.

use super::admission_changes::of_runtime_class;
use super::cause::{Also, CONTAINER_TOOLKIT, Cause, FixIn, cause, platform};
use super::creation_errors::{
    BPF_MEMORY, MEMORY_TOO_LOW, PROFILE, PROFILE_OF_RUNTIME, RUNTIME_IS_SLOW, is_profile_of_runtime,
};
use super::daemon_set_context::Subject;
use super::finding::{Finding, Origin, TemplatePart, edit};
use super::images::{other_platform, template_of};
use super::node_plugin::{of_own_plugin, with_network_plugin};
use super::sentence::Sentence;
use super::services::{of_gpu, of_ready_toolkit};
use super::volumes::is_past;
use crate::model::event::Event;
use crate::model::pod::Pod;
use crate::report::fix::Command;
use crate::report::reason::ReasonCode;

/// What container runtimes and network plugins say of sandboxes that they cannot create: containerd 1.7 and 2, CRI-O, runc, and the
/// plugins of containernetworking, AWS, Azure, Calico, Cilium and Flannel.
const CAUSES: &[Cause] = &[
    cause(FixIn::Object, &["no runtime for \"nvidia"], CONTAINER_TOOLKIT),
    cause(
        FixIn::Object,
        &["no runtime for … is configured", "failed to find runtime handler", "unknown runtime handler"],
        "install the handler of the RuntimeClass in the container runtime of the node, or exclude these nodes by the template's \
         nodeSelector: that of the RuntimeClass would only leave their pods Pending",
    ),
    cause(
        FixIn::Cluster,
        &[
            "no ip addresses available",
            "no available ip",
            "no available addresses",
            "no more ips",
            "range is full",
            "failed to assign an ip address",
            "insufficientfreeaddresses",
            "ip pool exhausted",
            "ippools exhausted",
            "could not allocate ip in range",
            "not enough ip",
            "ipnotenough",
            "no free ip",
            "insufficientcidrblocks",
        ],
        "free IP addresses, or enlarge the address range of the network plugin: the node has none left for pods; if it has far fewer pods \
         than addresses, the plugin keeps those of former pods: drain and reboot the node",
    )
    .and(Also::ShowPodsOfNode),
    cause(
        FixIn::Host,
        &[
            "network plugin is not ready",
            "networkpluginnotready",
            "cni plugin not initialized",
            "cni config uninitialized",
        ],
        "check the pod of the network plugin on the node: it has not configured the node yet",
    )
    .and(Also::ShowPodsOfNode),
    cause(
        FixIn::Template,
        &["cannot find a network-attachment-definition", "network-attachment-definitions… not found"],
        "create the NetworkAttachmentDefinition that the message names in the namespace, or correct annotation k8s.v1.cni.cncf.io/networks \
         of the template",
    )
    .and(Also::List("network-attachment-definitions")),
    // HCN_E_INVALID_POLICY
    cause(
        FixIn::Host,
        &["0x803b000d", "policy configuration is invalid"],
        "correct the policies in the configuration of the network plugin, or use a release of Windows Server that has them: Windows of this \
         node does not accept one",
    )
    .and(Also::ShowPodsOfNode),
    cause(
        FixIn::Node,
        &["hnscall failed", "hcnshim", "hnsendpoint", "hostcomputeendpoint"],
        "restart the Host Network Service of the node (`Restart-Service hns` there), or the node: it has kept networks or endpoints of \
         pods that are gone",
    ),
    cause(
        FixIn::Node,
        &["unable to ensure pod container exists"],
        "restart the kubelet of the node, or the node: it cannot make the cgroup of the pod",
    ),
    cause(
        FixIn::Host,
        &["sandbox resource controller cgroups"],
        "upgrade the runtime of the RuntimeClass on the node, such as Kata Containers: it does not support the cgroups of the node (v2), or \
         its sandbox_cgroup_only",
    ),
    cause(
        FixIn::Host,
        &["incompatible cni versions", "unsupported cni result version", "does not support config version"],
        "upgrade the CNI plugin on the node (its binary in /opt/cni/bin), or lower cniVersion in /etc/cni/net.d there: they have no version \
         in common, which no pod logs",
    ),
    cause(
        FixIn::Host,
        &["failed to find plugin"],
        "install the CNI plugin on the node: its binary is not in the directory of the container runtime",
    )
    .and(Also::MendNetworkPlugin),
    BPF_MEMORY,
    PROFILE,
    platform(&["network host not found"]),
    // The images of the template are not run yet.
    cause(
        FixIn::Node,
        &["container operating system does not match the host operating system"],
        "set a sandbox image (pause) for the Windows build of the node in the configuration of its container runtime",
    ),
    cause(
        FixIn::Node,
        &[
            "sandbox image… dial tcp",
            "sandbox image… i/o timeout",
            "sandbox image… deadline exceeded",
            "initializing source… dial tcp",
            "initializing source… i/o timeout",
            "pull image… dial tcp",
            "pulling image… dial tcp",
        ],
        "check that the node reaches the registry of the sandbox image (pause), which the message names: its DNS, routes, firewall and proxy",
    ),
    // CRI-O pulls it where containerd names it.
    cause(
        FixIn::Node,
        &[
                        "sandbox image",
            "pause image",
            "pulling image",
            "pull image",
            "pull and unpack",
            "initializing source docker://",
        ],
        "set a sandbox image that the node can pull in the configuration of its container runtime: imagePullSecrets \
         of a pod are not used for it",
    ),
    cause(
        FixIn::Node,
        &[
            "https://[…:443/… dial tcp",
            "https://1…:443/… dial tcp",
            "getting clusterinformation…:443/… dial tcp",
        ],
        "check kube-proxy and the routes of the node: its network plugin does not reach the service address of the API server",
    )
    .and(Also::ShowPodsOfNode),
    cause(
        FixIn::Node,
        &["https://… dial tcp"],
        "check that the node reaches the server that the message names, and that it answers: its network plugin does not reach it",
    )
    .and(Also::ShowPodsOfNode),
    cause(
        FixIn::Cluster,
        &["https://…x509: … doesn't contain any ip sans", "https://…x509: certificate is valid for", "https://…x509: certificate is not valid for"],
        "reissue the certificate of the API server with the address that the message names: the network plugin does not accept it \
         without",
    ),
    cause(
        FixIn::Cluster,
        &["https://…x509: … has expired or is not yet valid"],
        "check the clock of the node, and renew the certificate of the API server if it has expired",
    ),
    cause(
        FixIn::Node,
        &["/api/v1/…x509:", "/apis/…x509:"],
        "restart the pod of the network plugin on the node: the CA in the configuration that it has written there is not that of the API \
         server",
    )
    .and(Also::MendNetworkPlugin),
    cause(
        FixIn::Node,
                &["unauthorized"],
        "restart the pod of the network plugin on the node: the API server does not accept its token; if it has no pod there any \
         more, remove its file from /etc/cni/net.d",
    )
    .and(Also::MendNetworkPlugin),
    cause(
        FixIn::Host,
        &["already has an ip address different from"],
        "delete the bridge that another network plugin has left on the node, or restart the node",
    ),
    cause(
        FixIn::Host,
        &["failed to reserve sandbox name", "name is reserved", "due to system load"],
        RUNTIME_IS_SLOW,
    ),
    // What a plugin says may have any words.
    cause(FixIn::Host, &["plugin type=", "networkplugin cni", "failed to setup network"], CHECK_NETWORK_PLUGIN)
        .and(Also::MendNetworkPlugin),
    cause(
        FixIn::Template,
        &["sysctl"],
        "correct securityContext.sysctls, or load the kernel module that has them on the node",
    ),
    cause(FixIn::Template, MEMORY_TOO_LOW, "raise the memory limit: the pod does not start with so little"),
    cause(
        FixIn::Host,
                &["cgroup"],
        "check that the kubelet and the container runtime of the node use the same cgroup driver and version",
    ),
    cause(FixIn::Host, &["cni", "set up sandbox container"], CHECK_NETWORK_PLUGIN).and(Also::MendNetworkPlugin),
    cause(
        FixIn::Host,
        &["deadline exceeded", "containerd.sock", "crio.sock", "dial unix"],
        RUNTIME_IS_SLOW,
    ),
];

/// What the kubelet says of sandboxes for which it does not call the container runtime, which knows nothing of them then:
/// `generatePodSandboxConfig`, pkg/kubelet/kuberuntime/kuberuntime_sandbox.go, with `getDNSConfig`, pkg/kubelet/network/dns/dns.go,
/// `GeneratePodHostNameAndDomain`, pkg/kubelet/kubelet_pods.go, `GetNodenameForKernel`, pkg/kubelet/util, and pkg/kubelet/userns,
/// release 1.37.2.
const OF_KUBELET: &[Cause] = &[
    cause(
        FixIn::Template,
        &["failed to construct fqdn", "is not a valid dns label", "is not a valid dns subdomain", "hostname for pod"],
        "correct hostname, subdomain or setHostnameAsFQDN in the template, as the message says: no node takes such a name, and one with the \
         domain of the cluster may have 64 characters",
    ),
    cause(
        FixIn::Template,
        &["hostprocess containers"],
        "set windowsOptions.hostProcess alike for all containers of the template, and hostNetwork: true with it",
    ),
    cause(
        FixIn::Host,
        &["user namespace", "can't set spec.hostusers"],
        "remove hostUsers: false from the template, or exclude these nodes with a nodeSelector: they have no user namespace for the pod",
    ),
    cause(
        FixIn::Node,
        &["resolv conf file", "sandbox: open /"],
        "create the file that the message names on the node (systemd-resolved has those below /run/systemd/resolve), or correct resolvConf in \
         the kubelet configuration there: the kubelet reads it for every pod, before it calls the container runtime",
    ),
    cause(
        FixIn::Node,
        &["sandbox: mkdir "],
        "see why the kubelet of the node cannot make the directory that the message names, which is for logs of pods",
    ),
];

/// What is said without a cause that is known.
const CHECK_NETWORK_PLUGIN: &str = "check the pod of the network plugin on the node, and its log";
const UNKNOWN: &str = "check the container runtime on the node, and its log";
const UNKNOWN_OF_KUBELET: &str =
    "check the log of the kubelet on the node: it has not called the container runtime, whose log has nothing of it";

/// Returns the cause that an event about a sandbox tells, and what to do if none is known.
fn told(event: &Event) -> (Option<&'static Cause>, &'static str) {
    let is_of_kubelet = event.message.contains("sandbox: ") && !event.message.contains("rpc error");
    match is_of_kubelet {
        true => {
            (Cause::of(OF_KUBELET, &event.message).or_else(|| Cause::among(CAUSES, &event.message)), UNKNOWN_OF_KUBELET)
        }
        false => (Cause::of(CAUSES, &event.message), UNKNOWN),
    }
}

/// Returns what is to be done about the network plugin of a node by what it said when it was to remove a pod; `None` if it said nothing.
pub fn of_network(message: &str) -> Option<&'static str> {
    let is_of_network = |cause: &&Cause| matches!(cause.also, Some(Also::ShowPodsOfNode | Also::MendNetworkPlugin));
    Cause::of(CAUSES, message).filter(is_of_network).map(|cause| cause.advice)
}

/// Returns the command that shows the pods of the node that a pod is on.
pub fn pods_of_node(pod: &Pod) -> Command {
    Command::kubectl(&["get", "pods", "-A"]).flag("--field-selector", format!("spec.nodeName={}", pod.spec.node_name))
}

/// Finds that the pod's sandbox cannot be created, or waits for the network.
pub fn sandbox_failed(subject: &Subject, pod: &Pod, events: &[&Event]) -> Option<Finding> {
    let finding = not_created(subject, pod, events)?;
    let only_with = match finding.origin {
        Origin::Node | Origin::ControlPlane if of_network(&finding.message.to_string()).is_some() => {
            Some(TemplatePart::HostNetwork)
        }
        _ => None,
    };
    Some(finding.only_with(only_with))
}

/// Returns what to correct in the securityContext of a template if the node does not have what it asks for the whole pod.
fn of_security_context(subject: &Subject, pod: &Pod, said: &str) -> Option<String> {
    let context = &template_of(subject, pod).value()["spec"]["securityContext"];
    if said.contains("/proc/self/attr/") && context["seLinuxOptions"].is_object() {
        let advice = "correct seLinuxOptions in the securityContext of the template, or remove it: SELinux of the node does not have that label";
        return Some(advice.to_owned());
    }
    let mut names = context["sysctls"].as_array()?.iter().filter_map(|sysctl| sysctl["name"].as_str());
    let is_lacking = |name: &&str| said.contains(&format!("/proc/sys/{}:", name.replace('.', "/")));
    let name = names.find(is_lacking)?;
    Some(format!(
        "correct sysctl {name} in the securityContext of the template, or load the kernel module that has it: the node does not have it"
    ))
}

fn not_created(subject: &Subject, pod: &Pod, events: &[&Event]) -> Option<Finding> {
    let is_about = |event: &&&Event| {
        matches!(event.reason.as_str(), "FailedCreatePodSandBox" | "NetworkNotReady" | "FailedCreatePodContainer")
    };
    let event = events.iter().find(is_about).filter(|event| !is_past(event, events))?;
    let message = Sentence::from("the pod sandbox cannot be created: ").event(event, subject.now());
    let (cause, unknown) = told(event);
    let advice = match cause {
        Some(Cause { fix_in: FixIn::Placement, .. }) => other_platform(subject, pod),
        Some(cause) => cause.advice.to_owned(),
        None => unknown.to_owned(),
    };
    let part = match cause.map(|cause| cause.fix_in) {
        Some(FixIn::Object) => TemplatePart::RuntimeClass,
        _ => TemplatePart::Sandbox,
    };
    let (origin, advice) = match cause {
        Some(cause) if is_profile_of_runtime(cause, subject, pod, &event.message) => {
            (Origin::Node, PROFILE_OF_RUNTIME.to_owned())
        }
        cause => (cause.map_or(FixIn::Template, |cause| cause.fix_in).origin(part), advice),
    };
    let finding = |advice: String| {
        Finding::new(ReasonCode::SandboxFailed, message.clone().apart(&advice), advice).with_origin(origin.clone())
    };
    if let Some(advice) = cause.is_none().then(|| of_security_context(subject, pod, &event.message)).flatten() {
        return Some(finding(advice).with_command(edit(subject.daemon_set)));
    }
    let finding = finding(advice);
    // It is the toolkit that configures the runtime, once the driver is there.
    let needs_toolkit = cause.is_some_and(|cause| cause.advice == CONTAINER_TOOLKIT);
    let of_toolkit = || of_gpu(subject, pod, 2, &finding).or_else(|| of_ready_toolkit(subject, pod, event, &finding));
    if let Some(first) = needs_toolkit.then(of_toolkit).flatten() {
        return Some(first);
    }
    let class = pod.spec.runtime_class_name.as_deref().filter(|class| !class.is_empty());
    Some(match (cause.map(|cause| (cause.fix_in, cause.also)), class) {
        (Some((FixIn::Object, _)), Some(class)) => {
            let show = Command::kubectl(&["get", "runtimeclass", "-o", "yaml"]).name(class);
            of_runtime_class(subject, pod, finding.with_command(show))
        }
        (Some((_, Some(Also::List(resource)))), _) => {
            let namespace = &subject.daemon_set.metadata.namespace;
            finding.with_command(Command::kubectl(&["get", resource]).namespace(namespace))
        }
        (Some((FixIn::Template | FixIn::Asked | FixIn::Placement, _)), _) => {
            finding.with_command(edit(subject.daemon_set))
        }
        (Some((_, Some(also @ (Also::ShowPodsOfNode | Also::MendNetworkPlugin)))), _) => {
            let own =
                (also == Also::MendNetworkPlugin).then(|| of_own_plugin(subject.daemon_set, pod, &finding)).flatten();
            own.unwrap_or_else(|| {
                with_network_plugin(
                    subject.index,
                    subject.daemon_set,
                    subject.index.node(&pod.spec.node_name),
                    finding.with_command(pods_of_node(pod)),
                )
            })
        }
        _ => finding,
    })
}
