//! Why an image cannot be pulled, by what the kubelet and the container runtime say: the image of a container, or of a volume.

use std::collections::BTreeSet;

use super::cause::{Also, Cause, FixIn, cause, platform};
use super::creation_errors::{other_nodes, recent_elsewhere, runs_elsewhere, same_elsewhere};
use super::daemon_set_context::Subject;
use super::finding::{Finding, Origin, TemplatePart, describe_pod, edit};
use super::roles::Role;
use super::sentence::Sentence;
use crate::model::event::Event;
use crate::model::metadata::ObjectMeta;
use crate::model::pod::{Container, ContainerStatus, Pod};
use crate::model::template::Template;
use crate::model::template_parts::{containers, items, volumes};
use crate::report::reason::ReasonCode;

/// The advice for a registry that asks for credentials.
const ADD_CREDENTIALS: &str = "add imagePullSecrets with credentials for the registry";

/// What failed pulls say.
///
/// The kubelet's own words are those of `EnsureImageExists` and `evalCRIPullErr`, pkg/kubelet/images/image_manager.go, release
/// 1.37.2; the others are those of containerd 1.7 and 2, CRI-O with containers/image, and registries of the distribution
/// specification.
const CAUSES: &[Cause] = &[
    cause(
        FixIn::Template,
        &["is not present with pull policy of never", "errimageneverpull"],
        "load the image onto the node, or exclude the node if it is not to have it; imagePullPolicy: IfNotPresent helps only if a registry \
         has the image; if the node has it, give the pod the imagePullSecrets that it was pulled with",
    ),
    cause(
        FixIn::Template,
        &["short-name … did not resolve", "short name mode is enforcing"],
        "write the image with the host name of its registry: the container runtime does not search registries for short names",
    ),
    cause(
        FixIn::Template,
        &["couldn't parse image", "invalid reference format", "invalidimagename", "must be lowercase"],
        "correct the name of the image: it is not a valid reference",
    ),
    cause(
        FixIn::Template,
        &[
            "signature validation failed",
            "signaturevalidationfailed",
            "source image rejected",
            "signature was required",
            "no signature exists",
        ],
        "sign the image as the signature policy of the nodes demands, or change that policy",
    ),
    cause(
        FixIn::Node,
        &["read-only file system", "input/output error", "structure needs cleaning"],
        "check the disk of the node: the container runtime cannot write to it",
    ),
    platform(&[
        "no match for platform",
        "no matching manifest for",
        "no image found in image index for",
        "no image found in manifest list for",
        "no supported platform found in manifest list",
        "does not match the specified platform",
        "cannot be used on this platform",
        "does not match the host operating system",
    ]),
    cause(
        FixIn::Node,
        &["dial unix", "containerd.sock", "crio.sock"],
        "check the container runtime of the node: the kubelet does not reach it",
    ),
    cause(
        FixIn::Node,
        &[
            "content digest … not found",
            "parent snapshot … does not exist",
            "layer does not exist",
            "failed to register layer",
            "imageinspecterror",
            "commit failed: rename",
            "failed to extract layer",
        ],
        "remove the image from the node (`crictl rmi` there), so that it is pulled again: its image store is damaged",
    ),
    cause(
        FixIn::Cluster,
        &["text/html"],
        "check the proxy or the mirror of the registry: it answers with a page for people instead of the image",
    ),
    cause(
        FixIn::Cluster,
        &["proxyconnect", "proxy authentication required"],
        "check the proxy, and the proxy settings of the container runtime on the node (HTTPS_PROXY, NO_PROXY)",
    ),
    cause(
        FixIn::Cluster,
        &["no such host", "dial tcp: lookup", "server misbehaving", "name resolution", "name or service not known"],
        "check the DNS servers of the node, and the host name of the registry",
    ),
    cause(
        FixIn::Node,
        &["not yet valid: current time … is before"],
        "correct the clock of the node, which is behind: by it, the certificate of the registry is not valid yet",
    ),
    cause(
        FixIn::Cluster,
        &["certificate has expired or is not yet valid"],
        "renew the certificate of the registry, or correct the clock of the node",
    ),
    cause(
        FixIn::Cluster,
        &["x509: certificate is valid for", "x509: cannot validate certificate for", "common name field"],
        "correct the certificate of the registry: it is not for this host name",
    ),
    cause(
        FixIn::Host,
        &["x509:", "unknown authority", "tls: failed to verify certificate", "self-signed certificate"],
        "add the CA of the registry to the certificates that the container runtime of the node trusts",
    ),
    cause(
        FixIn::Host,
        &["server gave http response to https client", "first record does not look like a tls handshake"],
        "configure the registry as one without TLS in the container runtime of the node, or serve it with TLS",
    ),
    cause(
        FixIn::Node,
        &["pull qps exceeded"],
        "wait: the kubelet limits how often it pulls (registryPullQPS and registryBurst in its configuration)",
    ),
    cause(
        FixIn::Cluster,
        &["toomanyrequests", "too many requests", "rate limit", "status code 429"],
        "wait until the rate limit of the registry resets; to stay below it, pull through a mirror, or as a user with a higher limit",
    ),
    cause(
        FixIn::Cluster,
        &["500 internal server error", "502 bad gateway", "503 service unavailable", "504 gateway"],
        "check the registry: it answers with an error of its own",
    ),
    cause(
        FixIn::Cluster,
        &[
            "connection refused",
            "connection reset",
            "connection timed out",
            "i/o timeout",
            "tls handshake timeout",
            "no route to host",
            "network is unreachable",
            "deadline exceeded",
            "request canceled while waiting for connection",
            "client.timeout",
            "registry is unavailable",
            "registryunavailable",
        ],
        "check that the registry is up, and that the node reaches it: routes, firewall, proxy",
    ),
    cause(
        FixIn::Cluster,
        &[": eof", "unexpected eof", "stream error", "short read", "unexpected commit digest", "context canceled", "http2: "],
        "see whether it persists, and then check the registry and what is between it and the node, such as a proxy: the transfer of the image \
         broke off",
    ),
    cause(
        FixIn::Template,
        &["repository does not exist or may require"],
        "correct the name of the image; if its repository is private, add imagePullSecrets with credentials for the registry",
    )
    .and(Also::Credentials),
    cause(
        FixIn::Template,
        &[
            "401 unauthorized",
            "403 forbidden",
            "401 (unauthorized)",
            "403 (forbidden)",
            "unauthorized:",
            "authentication required",
            "may require authorization",
            "no basic auth credentials",
            "access to the resource is denied",
            "insufficient_scope",
            "authorization failed",
            "invalid username/password",
            "not authorized",
            "access denied",
            "permission … denied",
        ],
        ADD_CREDENTIALS,
    )
    .and(Also::Credentials),
    // The firewall and the policies of registries.
    cause(
        FixIn::Cluster,
        &[": denied: client with ip", "is not allowed access", "cannot be pulled due to"],
        "allow the node, or the image, in the settings of the registry: it refuses the pull for a rule of its own",
    ),
    cause(FixIn::Template, &[": denied"], ADD_CREDENTIALS).and(Also::Credentials),
    cause(
        FixIn::Template,
        &["name unknown", "name_unknown", "repository name not known", "repository does not exist"],
        "correct the repository in the name of the image: the registry does not have it",
    )
    .and(Also::MayBeNode),
    cause(
        FixIn::Template,
        &[
            "no longer supported since containerd",
            "unsupported manifest media type",
            "unsupported media type",
            "docker image format v1",
            "schema 1 support",
            "schema 1 images",
        ],
        "build and push the image again: the container runtime does not support the format of its manifest",
    ),
    cause(
        FixIn::Template,
        &["manifest unknown", "manifest_unknown", "not found", "no such manifest", "deleted or has expired"],
        "correct the tag or digest of the image, or push it: the registry does not have it",
    )
    .and(Also::MayBeNode),
];

/// Returns the host name of the registry that an image is pulled from, as container runtimes tell it from the first part of a path.
pub fn registry(image: &str) -> &str {
    let host = image.split_once('/').map(|(host, _)| host);
    host.filter(|host| host.contains(['.', ':']) || *host == "localhost").unwrap_or("docker.io")
}

/// Returns whether a container waits for this reason because its image cannot be pulled.
pub fn is_image_pull_failure(reason: &str) -> bool {
    ReasonCode::of_word(reason) == Some(ReasonCode::ImagePullFailed)
}

/// Returns the name of a container whose image cannot be pulled, with the image, or with its registry if that does not accept the
/// credentials, which are the same for all of its images.
pub fn not_pulled<'p>(container: &'p Container, status: &ContainerStatus) -> Option<(&'p str, &'p str)> {
    let waiting = status.state.waiting.as_ref().filter(|waiting| is_image_pull_failure(&waiting.reason))?;
    let is_refused = Cause::of(CAUSES, &waiting.message).is_some_and(|cause| cause.also == Some(Also::Credentials));
    Some((&container.name, if is_refused { registry(&container.image) } else { &container.image }))
}

/// Finds an image that cannot be pulled.
pub fn image_pull_failed(
    subject: &Subject,
    pod: &Pod,
    (role, container, status): (Role, &Container, &ContainerStatus),
    events: &[&Event],
) -> Option<Finding> {
    let waiting = status.state.waiting.as_ref().filter(|waiting| is_image_pull_failure(&waiting.reason))?;
    let volumes = image_volumes(subject, pod);
    let volume = volume_of(&volumes, &waiting.message, &container.image);
    let image = volume.map_or(container.image.as_str(), |(_, reference)| reference);
    let what = match volume {
        Some((volume, _)) => format!("volume {volume}"),
        None => format!("{} {}", role.noun(), container.name),
    };
    let said = said(&waiting.message, image, events);
    let mut message = Sentence::from(format!("{what}: cannot pull {image} (")).value(&waiting.reason).words(")");
    if !said.is_empty() {
        message = message.words(": ").said(said);
    }
    // The reason tells it, too, if the message does not.
    let cause = Cause::of(CAUSES, said).or_else(|| Cause::of(CAUSES, &waiting.reason));
    let recent = recent_elsewhere(subject, pod);
    let may_be_node = cause.is_none_or(|cause| matches!(cause.also, Some(Also::MayBeNode | Also::Credentials)));
    let advice = match cause {
        Some(Cause { fix_in: FixIn::Placement, .. }) => other_platform(subject, pod),
        Some(cause) if cause.also == Some(Also::Credentials) => {
            missing_pull_secrets(events).unwrap_or_else(|| credentials(subject, pod, image, cause.advice))
        }
        Some(cause) if cause.fix_in == FixIn::Template && cause.also == Some(Also::MayBeNode) && recent > 0 => format!(
            "check which registry or mirror this node asks: the same image runs on {}; else {}",
            other_nodes(recent),
            cause.advice
        ),
        // What is never pulled may be part of the machine's image.
        Some(cause)
            if cause.fix_in == FixIn::Template
                && waiting.reason != "ErrImageNeverPull"
                && runs_elsewhere(subject, pod) =>
        {
            format!(
                "{}; {} it from before: do not drain or replace them until a node can pull it",
                cause.advice,
                match same_elsewhere(subject, pod).count() {
                    1 => "another node has".to_owned(),
                    nodes => format!("{nodes} other nodes have"),
                }
            )
        }
        Some(cause) => local_registry(subject, pod, image, said).unwrap_or_else(|| cause.advice.to_owned()),
        None if said.is_empty() => "look at the events of the pod".to_owned(),
        None => {
            "read the message of the container runtime; on the node, `crictl pull` shows whether it persists".to_owned()
        }
    };
    // A registry may hide what it does not show to everybody.
    let secrets = missing_pull_secrets(events).filter(|_| cause.is_none_or(|it| it.also == Some(Also::MayBeNode)));
    let advice = secrets.map_or_else(|| advice.clone(), |secrets| format!("{secrets}; else {advice}"));
    let origin = match cause.map_or(FixIn::Template, |cause| cause.fix_in) {
        // The image is there, and may be pulled.
        FixIn::Template if may_be_node && recent > 0 => Origin::Node,
        FixIn::Host | FixIn::Cluster if recent > 0 => Origin::Node,
        fix_in @ (FixIn::Host | FixIn::Cluster) => fix_in.origin(TemplatePart::Registry(registry(image).to_owned())),
        fix_in => fix_in.origin(TemplatePart::Image(image.to_owned())),
    };
    let finding = |message: Sentence, advice: String| {
        Finding::new(ReasonCode::ImagePullFailed, message.apart(&advice), advice).with_origin(origin.clone())
    };
    Some(match cause.map(|cause| cause.fix_in) {
        Some(FixIn::Node | FixIn::Host | FixIn::Cluster) => finding(message, advice),
        fix_in => {
            let message = match image_of_revision(subject, image) {
                Some(revision) => message.words(format!("; revision {revision} changed the image")),
                None => message,
            };
            let command = if fix_in.is_some() { edit(subject.daemon_set) } else { describe_pod(pod) };
            finding(message, advice).with_command(command)
        }
    })
}

/// Returns why a pull failed, in the words of the container runtime: what follows the image in the message of the back-off, or else
/// in the last event of a failed pull.
fn said<'m>(message: &'m str, image: &str, events: &[&'m Event]) -> &'m str {
    let message = message.trim();
    let cause = match message.strip_prefix("Back-off pulling image ") {
        Some(rest) => rest.split_once(": ").map_or("", |(_, cause)| cause),
        None => message,
    };
    let failed = || {
        let failed = events.iter().filter(|event| event.reason == "Failed" || event.reason == "ErrImageNeverPull");
        let mut about_image = failed.map(|event| event.message.trim()).filter(|said| names(said, image));
        about_image.find(|said| said.starts_with("Failed to pull image ") || said.starts_with("Container image "))
    };
    Some(cause).filter(|cause| !cause.is_empty()).or_else(failed).unwrap_or_default()
}

/// Returns the volumes that are images, by name, with the reference of each, in the template of the pod.
fn image_volumes<'s>(subject: &'s Subject, pod: &Pod) -> Vec<(&'s str, &'s str)> {
    let image =
        |volume: &'s serde_json::Value| Some((volume["name"].as_str()?, volume["image"]["reference"].as_str()?));
    volumes(template_of(subject, pod).value()).filter_map(image).collect()
}

/// Returns the template that a pod was created from, or the live one if that is not known.
pub fn template_of<'s>(subject: &'s Subject, pod: &Pod) -> &'s Template {
    let template = subject.revisions.template_of_pod(pod);
    template.filter(|template| !template.value()["spec"].is_null()).unwrap_or(&subject.revisions.live)
}

/// Returns the volume whose image a message is about, unless it is about that of the container: a container fails with the message
/// of the volume that it mounts (`toKubeContainerImageVolumes`, pkg/kubelet/kuberuntime/kuberuntime_manager.go, release 1.37.2).
fn volume_of<'v>(volumes: &[(&'v str, &'v str)], message: &str, image: &str) -> Option<(&'v str, &'v str)> {
    let named = volumes.iter().copied().filter(|(_, reference)| *reference != image && names(message, reference));
    let longest = named.max_by_key(|(_, reference)| reference.len())?;
    (!names(message, image) || image.len() < longest.1.len()).then_some(longest)
}

/// Returns whether a message names an image, which the container runtime may write with its registry and tag.
fn names(message: &str, image: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    !image.is_empty()
        && message
            .match_indices(image)
            .any(|(at, _)| !message[..at].ends_with(is_part) && !message[at + image.len()..].starts_with(is_part))
}

/// Returns what to do about an image that has no build for the platform of a node, or whose programs are not for it. Windows runs only
/// images of its own build, which the kubelet has as a label.
pub fn other_platform(subject: &Subject, pod: &Pod) -> String {
    const KEYS: [&str; 3] = ["kubernetes.io/os", "kubernetes.io/arch", "node.kubernetes.io/windows-build"];
    let label = |node: &str, key: &str| subject.index.node(node)?.metadata.labels.get(key).cloned();
    let works_on = |key: &str| -> BTreeSet<String> {
        same_elsewhere(subject, pod).filter_map(|pod| label(&pod.spec.node_name, key)).collect()
    };
    let here = KEYS.map(|key| label(&pod.spec.node_name, key));
    let [os, _, build] = &here;
    let platform = here[..2].iter().flatten().map(String::as_str).collect::<Vec<_>>().join("/");
    let this = |key: &str| match (key == KEYS[2], build) {
        (true, Some(build)) => format!("Windows {build}"),
        _ => platform.clone(),
    };
    let has_same = |other: &&Pod| KEYS.iter().zip(&here).all(|(key, here)| label(&other.spec.node_name, key) == *here);
    let is_older = |other: &&Pod| other.is_ready() && other.revision_hash() != pod.revision_hash();
    let is_known = here.iter().any(Option::is_some);
    if is_known && subject.pods().filter(is_older).any(|other| has_same(&other)) {
        return format!(
            "the image is not for {platform}, although that of another revision is: build it for {platform}, or use one that is"
        );
    }
    if is_known && os.as_deref() != Some("windows") && same_elsewhere(subject, pod).any(|other| has_same(&other)) {
        return format!(
            "other nodes of {platform} run this image: its tag was pushed again for another platform since, or the copy on the node is \
             damaged; remove that from the node, and use an image that is for {platform}"
        );
    }
    for (key, here) in KEYS.into_iter().zip(&here) {
        let others: Vec<String> = works_on(key).into_iter().collect();
        if let ([other], true) = (others.as_slice(), here.as_ref().is_some_and(|here| !others.contains(here))) {
            let this = this(key);
            return format!(
                "the image is not for {this}: add nodeSelector {key}: {other} to the template, or build it for {this}"
            );
        }
    }
    let [of_os, of_arch, of_build] = KEYS;
    let is_windows = |os: &Option<String>| os.as_deref() == Some("windows");
    let selected = pod.spec.node_selector.get(of_os).cloned();
    if is_windows(os) && (is_windows(&selected) || works_on(of_os).contains("windows")) {
        let this = this(of_build);
        return format!(
            "the image is not for this version of Windows ({this}): exclude these nodes by {of_build}, or build it for several versions"
        );
    }
    match platform.as_str() {
        "" => format!(
            "the image is not for the platform of the node: exclude these nodes by {of_os} or {of_arch}, or build it for them"
        ),
        _ if is_windows(os) => {
            format!(
                "the image is not for {platform}: add nodeSelector {of_os}: linux to the template, or build it for {platform}"
            )
        }
        _ => format!(
            "the image is not for {platform}: exclude these nodes by {of_os} or {of_arch}, or build it for {platform}"
        ),
    }
}

/// Returns what to do if nothing listens on the port of the node that an image is pulled from: `localhost` in the name of an image is
/// the node, and a pod there may be what listens.
fn local_registry(subject: &Subject, pod: &Pod, image: &str, said: &str) -> Option<String> {
    let (host, _) = image.split_once('/')?;
    let (name, port) = host.split_once(':')?;
    if !matches!(name, "localhost" | "127.0.0.1") || !said.contains("connection refused") {
        return None;
    }
    let port: i32 = port.parse().ok()?;
    Some(match subject.index.declaring(&pod.spec.node_name, port).next() {
        Some(registry) => {
            let ObjectMeta { namespace, name, .. } = &registry.metadata;
            let state = if registry.is_ready() { "is ready" } else { "is not ready" };
            format!(
                "nothing listens on {host} of the node: it is a host port of pod {namespace}/{name}, which {state}; see why"
            )
        }
        None => format!("nothing listens on {host} of the node: check the pod or service that the registry has there"),
    })
}

/// The advice for a registry of a cloud provider, from which kubelets pull by the identity of their node.
const BY_IDENTITY: &str = "check that the identity of the node (its instance role, service account or managed identity) may pull from the \
                           repository, and the credential provider of its kubelet; or add imagePullSecrets";

/// Returns whether kubelets pull from a registry by the identity of their node: those of Amazon, Google and Azure.
fn is_by_identity(registry: &str) -> bool {
    let is_amazon = registry.contains(".dkr.ecr") && registry.contains(".amazonaws.com");
    is_amazon
        || registry == "gcr.io"
        || [".gcr.io", ".pkg.dev", ".azurecr.io"].iter().any(|end| registry.ends_with(end))
}

/// Returns what to do if a registry does not accept the credentials for an image, or there are none; `otherwise` if the template names
/// none, and the image runs nowhere.
fn credentials(subject: &Subject, pod: &Pod, image: &str, otherwise: &str) -> String {
    let secrets = items(&template_of(subject, pod).value()["spec"], "imagePullSecrets");
    let names: Vec<&str> = secrets.filter_map(|secret| secret["name"].as_str()).collect();
    match (recent_elsewhere(subject, pod), names.as_slice()) {
        (0, []) => {
            let first = match is_by_identity(registry(image)) {
                true => BY_IDENTITY.to_owned(),
                false if runs_elsewhere(subject, pod) => {
                    format!("check that the repository is still there and public, or {ADD_CREDENTIALS}")
                }
                false => return otherwise.to_owned(),
            };
            let rest =
                "; other nodes have the image from before: do not drain or replace them until a node can pull it";
            if runs_elsewhere(subject, pod) { first + rest } else { first }
        }
        (0, names) => format!(
            "check the name of the image, and that the credentials in Secret {} (imagePullSecrets) are for this registry and still valid",
            names.join(", ")
        ),
        (nodes, names) => {
            let or = match names {
                [] => ADD_CREDENTIALS.to_owned(),
                names => format!("renew those of Secret {}, which may have expired since", names.join(", ")),
            };
            format!(
                "check the credentials of this node, such as those of its instance role or credential provider: the same image runs \
                 on {}; or {or}",
                other_nodes(nodes)
            )
        }
    }
}

/// Returns what to do if the kubelet could not read a Secret with credentials.
///
/// The event is that of `getPullSecretsForPod`, pkg/kubelet/kubelet_pods.go, and its caller, release 1.37.2.
fn missing_pull_secrets(events: &[&Event]) -> Option<String> {
    let event = events.iter().find(|event| event.reason == "FailedToRetrieveImagePullSecret")?;
    let (_, rest) = event.message.split_once('(')?;
    let (secrets, _) = rest.split_once(')')?;
    Some(format!("create the missing Secret of imagePullSecrets, or correct its name: {secrets}"))
}

/// Returns the current revision if it has brought an image, and the one that works without it.
fn image_of_revision(subject: &Subject, image: &str) -> Option<i64> {
    let revisions = &subject.revisions;
    let has_it = |template: &Template| {
        let mut parts = containers(template.value()).chain(volumes(template.value()));
        parts.any(|it| it["image"] == image || it["image"]["reference"] == image)
    };
    let current = revisions.current().filter(|_| has_it(&revisions.live))?;
    revisions.proven().filter(|(_, template)| !has_it(template))?;
    Some(current.number())
}
