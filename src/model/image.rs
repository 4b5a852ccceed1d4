//! Names of container images.

/// The parts of an image name, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image<'a> {
    /// The registry and the path.
    pub repository: &'a str,
    /// The part after the colon.
    pub tag: Option<&'a str>,
    /// The part after the `@`, such as `sha256:…`.
    pub digest: Option<&'a str>,
}

impl<'a> Image<'a> {
    /// Splits a name, which need not be valid.
    pub fn new(name: &'a str) -> Self {
        let (tagged, digest) = name.split_once('@').map_or((name, None), |(tagged, digest)| (tagged, Some(digest)));
        let path = tagged.rfind('/').map_or(0, |slash| slash + 1);
        let (repository, tag) = match tagged[path..].find(':') {
            Some(colon) => (&tagged[..path + colon], Some(&tagged[path + colon + 1..])),
            None => (tagged, None),
        };
        Image { repository, tag, digest }
    }
}

/// Returns the API's default pull policy for an image: `Always` for the tag `latest`, which is also the default tag of
/// a name without tag and digest.
///
/// Ported from `SetDefaults_Container`, pkg/apis/core/v1/defaults.go, with `ParseImageName`,
/// pkg/util/parsers/parsers.go, release 1.37.2: names that cannot be parsed have no tag.
pub fn default_pull_policy(name: &str) -> &'static str {
    let image = Image::new(name);
    let latest = image.tag.map_or(image.digest.is_none(), |tag| tag == "latest");
    if latest && is_valid(name) { "Always" } else { "IfNotPresent" }
}

/// Returns whether the name is a reference to an image.
///
/// Ported from `ParseNormalizedNamed` of github.com/distribution/reference 0.6.0, the release used by Kubernetes 1.37.2.
pub fn is_valid(name: &str) -> bool {
    let is_identifier = name.len() == 64 && is_lower_hex(name);
    let (domain, remainder) = split_docker_domain(name);
    let remote = remainder.split(':').next().unwrap_or_default();
    if is_identifier || remote.to_lowercase() != remote {
        return false;
    }
    let whole = format!("{domain}/{remainder}");
    let Image { repository, tag, digest } = Image::new(&whole);
    let path = repository.strip_prefix(&format!("{domain}/")).unwrap_or_default();
    let is_name = is_remote_name(repository) || is_domain(&domain) && is_remote_name(path);
    let length = if is_domain(&domain) { path.len() } else { repository.len() };
    is_name && length <= 255 && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

/// Splits off the registry, which is Docker Hub by default.
fn split_docker_domain(name: &str) -> (String, String) {
    let first = name
        .split_once('/')
        .filter(|(first, _)| first.contains(['.', ':']) || *first == "localhost" || first.to_lowercase() != *first);
    let (domain, remainder) = first.unwrap_or(("docker.io", name));
    let domain = if domain == "index.docker.io" { "docker.io" } else { domain };
    let library = if domain == "docker.io" && !remainder.contains('/') { "library/" } else { "" };
    (domain.to_owned(), format!("{library}{remainder}"))
}

/// Returns whether the text is a host, with or without a port.
fn is_domain(text: &str) -> bool {
    let (host, port) = match text.rfind(':').filter(|&colon| !text[colon..].contains(']')) {
        Some(colon) => (&text[..colon], Some(&text[colon + 1..])),
        None => (text, None),
    };
    let is_port = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let is_address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).is_some_and(|address| {
        !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
    });
    let is_component = |component: &str| {
        !component.is_empty()
            && component.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !component.starts_with('-')
            && !component.ends_with('-')
    };
    is_port && (is_address || host.split('.').all(is_component))
}

/// Returns whether the text consists of path components separated by slashes.
fn is_remote_name(text: &str) -> bool {
    text.split('/').all(|component| {
        let atoms = component.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        let is_separator = |gap: &str| matches!(gap, "" | "." | "_" | "__") || gap.bytes().all(|byte| byte == b'-');
        let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        ends(component.chars().next()) && ends(component.chars().last()) && atoms.into_iter().all(is_separator)
    })
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, encoded)| {
        let length = match algorithm {
            "sha256" => 64,
            "sha384" => 96,
            "sha512" => 128,
            _ => return false,
        };
        encoded.len() == length && is_lower_hex(encoded)
    })
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::{Image, default_pull_policy};

    #[test]
    fn parts_are_told_apart_by_slash_colon_and_at() {
        let parts = |name| {
            let Image { repository, tag, digest } = Image::new(name);
            (repository, tag, digest)
        };
        assert_eq!(parts("agent"), ("agent", None, None));
        assert_eq!(parts("agent:1.4"), ("agent", Some("1.4"), None));
        assert_eq!(parts("host:5000/team/agent"), ("host:5000/team/agent", None, None));
        assert_eq!(parts("host:5000/agent:2@sha256:ab"), ("host:5000/agent", Some("2"), Some("sha256:ab")));
        assert_eq!(parts(""), ("", None, None));
    }

    #[test]
    fn only_the_latest_of_a_valid_name_is_always_pulled() {
        let digest = "sha256:7cc4b5aefd1d0cadf8d97d4350462ba51c694ebca145b08d7d41b41acc8db5aa";
        for (name, policy) in [
            ("agent", "Always"),
            ("agent:latest", "Always"),
            ("host:5000/agent", "Always"),
            ("Host/agent", "Always"),
            ("[::1]:5000/agent", "Always"),
            ("a__b/c--d", "Always"),
            (&format!("agent:latest@{digest}"), "Always"),
            ("agent:latest@sha256:ab", "IfNotPresent"),
            (&format!("agent@{digest}"), "IfNotPresent"),
            ("agent:1", "IfNotPresent"),
            ("", "IfNotPresent"),
            ("Agent", "IfNotPresent"),
            ("a..b", "IfNotPresent"),
            ("a/-b", "IfNotPresent"),
            ("agent:", "IfNotPresent"),
            ("https://host/agent", "IfNotPresent"),
        ] {
            assert_eq!(default_pull_policy(name), policy, "{name}");
        }
    }
}
