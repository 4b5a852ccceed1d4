//! Formats of single values. Each function returns what is wrong with a text, if anything.
//!
//! Ported from k8s.io/apimachinery/pkg/util/validation/validation.go and pkg/api/validate/content, release 0.37.2,
//! unless an item names another file.

use std::net::IpAddr;

use crate::model::names::{is_dns_label, is_dns_subdomain, is_label_key, is_label_value};

/// Returns the required format of a text, if it does not have it.
pub(super) type Format = fn(&str) -> Option<&'static str>;

/// Returns the message unless a condition holds.
fn unless(holds: bool, message: &'static str) -> Option<&'static str> {
    (!holds).then_some(message)
}

/// Returns whether a text consists of such bytes, and starts and ends with an inner one: `[a-z0-9]([-a-z0-9]*[a-z0-9])?`.
fn is_bounded(text: &str, inner: fn(u8) -> bool, outer: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().is_some_and(|&byte| inner(byte)) && bytes.last().is_some_and(|&byte| inner(byte));
    ends && bytes.iter().all(|&byte| inner(byte) || outer.contains(&byte))
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

macro_rules! formats {
    ($($(#[doc = $doc:literal])+ $name:ident($text:ident): $holds:expr, $message:literal;)+) => { $(
        $(#[doc = $doc])+
        pub(super) fn $name($text: &str) -> Option<&'static str> {
            unless($holds, $message)
        }
    )+ };
}

formats! {
    /// `IsDNS1123Label`.
    label(text): is_dns_label(text),
        "must consist of at most 63 lower case alphanumeric characters or '-', and start and end with an alphanumeric character";
    /// `IsDNS1123Subdomain`.
    subdomain(text): is_dns_subdomain(text),
        "must consist of lower case alphanumeric characters, '-' or '.', and start and end with an alphanumeric character";
    /// `IsLabelKey`, which is also `IsQualifiedName`.
    qualified_name(text): is_label_key(text),
        "must consist of at most 63 alphanumeric characters, '-', '_' or '.', and start and end with an alphanumeric character, \
         with an optional DNS subdomain prefix and '/'";
    /// `IsLabelValue`.
    label_value(text): is_label_value(text),
        "must be empty or consist of at most 63 alphanumeric characters, '-', '_' or '.', and start and end with an alphanumeric \
         character";
    /// `IsValidPortName`.
    port_name(text): text.len() <= 15 && text.bytes().any(|byte| byte.is_ascii_lowercase())
        && is_bounded(text, is_lower, b"-") && !text.contains("--"),
        "must consist of at most 15 lower case alphanumeric characters or single hyphens, contain a letter, and not begin or end \
         with a hyphen";
    /// `IsRelaxedEnvVarName`.
    variable(text): !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'='),
        "must consist only of printable ASCII characters other than '='";
    /// `IsHTTPHeaderName`.
    header_name(text): !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
        "must consist of alphanumeric characters or '-'";
    /// `validatePathNoBacksteps`, pkg/apis/core/validation/validation.go.
    without_parent_directory(text): text.split('/').all(|part| part != ".."),
        "must not contain '..'";
    /// The path check of `validateNFSVolumeSource`, pkg/apis/core/validation/validation.go.
    absolute_path(text): text.starts_with('/'),
        "must be an absolute path";
    /// `IsValidSysctlName`, pkg/apis/core/validation/validation.go.
    sysctl(text): text.len() <= 253 && text.split(['.', '/']).all(|part| is_bounded(part, is_lower, b"-_")),
        "must be the name of a sysctl: segments of lower case alphanumeric characters, '-' or '_', separated by '.' or '/'";
    /// `ValidateAppArmorProfileFormat`, pkg/apis/core/validation/validation.go.
    app_armor_profile(text): matches!(text, "" | "runtime/default" | "unconfined") || text.starts_with("localhost/"),
        "invalid AppArmor profile name";
}

/// `NameIsDNSSubdomain` for a prefix: `maskTrailingDash`, pkg/api/validation/generic.go.
pub(super) fn subdomain_prefix(text: &str) -> Option<&'static str> {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let end = rest.char_indices().next_back().map_or(0, |(end, _)| end);
            subdomain(&format!("{}a", &rest[..end]))
        }
        _ => subdomain(text),
    }
}

/// `IsDNS1123SubdomainWithUnderscore`.
pub(super) fn search_domain(text: &str) -> Option<&'static str> {
    let is_label = |label: &str| is_bounded(label.strip_prefix('_').unwrap_or(label), is_lower, b"-_");
    unless(
        text.len() <= 253 && text.split('.').all(is_label),
        "must consist of lower case alphanumeric characters, '_', '-' or '.', and start and end with an alphanumeric character",
    )
}

/// `IsConfigMapKey`.
pub(super) fn config_key(text: &str) -> Option<&'static str> {
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let holds = !text.is_empty() && text.len() <= 253 && text.bytes().all(is_key);
    unless(
        holds && text != "." && !text.starts_with(".."),
        "must consist of alphanumeric characters, '-', '_' or '.', and not be '.' or start with '..'",
    )
}

/// `IsValidIPForLegacyField` with `StrictIPCIDRValidation`, pkg/util/validation/ip.go.
pub(super) fn ip(text: &str) -> Option<&'static str> {
    let is_strict = |address: IpAddr| !matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
    unless(
        text.parse::<IpAddr>().is_ok_and(is_strict),
        "must be a valid IP address without leading zeros, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    )
}

/// `validateLocalDescendingPath`, pkg/apis/core/validation/validation.go.
pub(super) fn descending_path(text: &str) -> Option<&'static str> {
    unless(!text.starts_with('/'), "must be a relative path").or_else(|| without_parent_directory(text))
}

/// `ValidateLocalNonReservedPath`, pkg/apis/core/validation/validation.go.
pub(super) fn free_path(text: &str) -> Option<&'static str> {
    descending_path(text).or_else(|| unless(!text.starts_with(".."), "must not start with '..'"))
}

/// `ValidateCSIDriverName`, pkg/apis/core/validation/validation.go.
pub(super) fn csi_driver(text: &str) -> Option<&'static str> {
    unless(text.len() <= 63, "may not be more than 63 bytes").or_else(|| subdomain(&text.to_lowercase()))
}

/// `validateISCSIVolumeSource`, pkg/apis/core/validation/validation.go: the expressions are anchored differently.
pub(super) fn iscsi_name(text: &str) -> Option<&'static str> {
    let is_hex = |rest: &str, length: usize| rest.len() == length && rest.bytes().all(is_alphanumeric);
    // `.` of `^eui.` and `^naa.` is any character but a line break.
    let after = |prefix: &str| {
        let mut rest = text.strip_prefix(prefix)?.chars();
        rest.next().filter(|&any| any != '\n').map(|_| rest.as_str())
    };
    let holds = match text.get(..3) {
        Some("iqn") => (0..text.len()).any(|start| text.get(start..).is_some_and(is_iqn)),
        Some("eui") => after("eui").is_some_and(|rest| is_hex(rest, 16)),
        Some("naa") => after("naa").is_some_and(|rest| is_hex(rest, 32)),
        _ => false,
    };
    unless(holds, "must be a valid name that starts with iqn, eui or naa")
}

/// `iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`.
fn is_iqn(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("iqn.") else { return false };
    let (Some(date), Some(rest)) = (rest.get(..8), rest.get(8..)) else { return false };
    let is_date = date.bytes().enumerate().all(|(index, byte)| match index {
        4 => byte == b'-',
        7 => byte == b'.',
        _ => byte.is_ascii_digit(),
    });
    let Some((authority, name)) = rest.split_once(':') else { return false };
    let is_authority = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    is_date
        && !authority.is_empty()
        && authority.bytes().all(is_authority)
        && !name.is_empty()
        && !name.contains([',', ';', '*', '&', '$', '|', '\t', '\n', '\u{c}', '\r', ' '])
}

/// `ValidateSignerName`, pkg/apis/core/validation/names.go.
pub(super) fn signer_name(text: &str) -> Option<&'static str> {
    let parts: Vec<&str> = text.split('/').collect();
    let holds = match parts.as_slice() {
        [domain, path] => {
            domain.len() <= 253
                && domain.contains('.')
                && domain.split('.').all(|part| label(part).is_none())
                && path.split('.').all(|part| subdomain(part).is_none())
                && text.len() <= 253 + 253 + 63 + 2
        }
        _ => false,
    };
    unless(holds, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
}

/// `ValidateClusterTrustBundleName`, pkg/apis/core/validation/names.go.
pub(super) fn trust_bundle(text: &str) -> Option<&'static str> {
    match text.rsplit_once(':') {
        // The part before the last colon is the signer, whose name contains colons only in place of slashes.
        Some((_, name)) if text.len() > name.len() + 1 => subdomain(name),
        Some(_) => Some("must not have \":\" in its name without a signer"),
        None => subdomain(text),
    }
}

/// `validateWindowsSecurityContextOptions`, pkg/apis/core/validation/validation.go: a user with an optional domain.
pub(super) fn windows_user(text: &str) -> Option<&'static str> {
    let (domain, user) = text.split_once('\\').map_or((None, text), |(domain, user)| (Some(domain), user));
    let is_netbios = |domain: &str| {
        (1..=15).contains(&domain.chars().count())
            && !domain.starts_with('.')
            && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
    };
    let is_dns =
        |domain: &str| domain.split('.').all(|part| part.len() <= 63 && is_bounded(part, is_alphanumeric, b"-"));
    let is_domain = |domain: &str| domain.len() < 256 && (is_netbios(domain) || is_dns(domain));
    let is_user = !user.is_empty()
        && user.len() <= 104
        && !user.chars().all(|character| matches!(character, '.' | ' '))
        && !user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']);
    let has_control = text.bytes().any(|byte| byte.is_ascii_control());
    unless(
        !has_control && is_user && domain.is_none_or(is_domain),
        "must be a user name, with an optional domain and a backslash before it",
    )
}

/// `ValidateSeccompProfile`, pkg/apis/core/validation/validation.go.
pub(super) fn seccomp_profile(text: &str) -> Option<&'static str> {
    match text.strip_prefix("localhost/") {
        Some(path) => descending_path(path),
        None => unless(
            matches!(text, "runtime/default" | "docker/default" | "unconfined"),
            "must be a valid seccomp profile",
        ),
    }
}

/// `GetDeletionCostFromPodAnnotations`, pkg/apis/core/helper/helpers.go.
pub(super) fn deletion_cost(text: &str) -> Option<&'static str> {
    let starts = text == "0" || text.starts_with(|first: char| matches!(first, '-' | '1'..='9'));
    unless(starts && text.parse::<i32>().is_ok(), "must be a 32bit integer")
}

/// Returns the required format of a text if it is not `[0-9]+%`: `IsValidPercent`.
pub(super) fn percent(text: &str) -> Option<&'static str> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    unless(
        !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()),
        "must be an integer or a percentage such as 10%",
    )
}
