//! Paths of containers that are on their nodes, or are files of ConfigMaps and Secrets: what a program finds there is not in its image.

use serde_json::Value;

use super::template_parts::{containers, items, texts, volumes};

/// What programs say of a path that does not exist, on Linux and on Windows.
const MISSING: [&str; 3] =
    ["no such file or directory", "cannot find the file specified", "cannot find the path specified"];

/// A path of a container, and what is mounted there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mounted<'t> {
    container: &'t Value,
    mount: &'t Value,
    volume: &'t Value,
}

impl<'t> Mounted<'t> {
    /// Returns what a container mounts at a path or above it, if that is of the node or an object.
    pub(crate) fn at(template: &'t Value, container: &str, path: &str) -> Option<Self> {
        let container = containers(template).find(|it| it["name"] == container)?;
        let is_above = |mount: &&Value| mount["mountPath"].as_str().is_some_and(|above| is_below(path, &plain(above)));
        let mounts = items(container, "volumeMounts").filter(is_above);
        let mount = mounts.max_by_key(|mount| mount["mountPath"].as_str().map(str::len))?;
        let volume = volumes(template).find(|volume| volume["name"] == mount["name"])?;
        let mounted = Mounted { container, mount, volume };
        (mounted.of_node().is_some() || mounted.of_object().is_some()).then_some(mounted)
    }

    /// Returns the path of the node.
    pub(crate) fn of_node(&self) -> Option<&'t str> {
        self.volume["hostPath"]["path"].as_str()
    }

    /// Returns whether it is a path of the node that the container may write to.
    pub(crate) fn is_writable_on_node(&self) -> bool {
        self.of_node().is_some() && self.mount["readOnly"] != true
    }

    /// Returns the kind and the name of the object.
    pub(crate) fn of_object(&self) -> Option<(&'static str, &'t str)> {
        let secret = self.volume["secret"]["secretName"].as_str().map(|name| ("Secret", name));
        secret.or_else(|| self.volume["configMap"]["name"].as_str().map(|name| ("ConfigMap", name)))
    }

    pub(crate) fn volume(&self) -> &'t str {
        self.volume["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn mount_path(&self) -> &'t str {
        self.mount["mountPath"].as_str().unwrap_or_default()
    }

    /// Returns whether both are mounts of the same volume, at the same place.
    pub(crate) fn is_same(&self, other: &Mounted<'_>) -> bool {
        self.mount_path() == other.mount_path()
            && self.volume() == other.volume()
            && ["subPath", "subPathExpr", "mountPropagation"]
                .iter()
                .all(|field| self.mount[field] == other.mount[field])
    }

    /// Returns whether the template itself has the container use a path: it is what is mounted, or in an argument or a variable.
    pub(crate) fn is_named(&self, path: &str) -> bool {
        plain(self.mount_path()) == path || self.named().any(|named| named == path)
    }

    /// Returns whether an argument or a variable has a directory in which a path is, and which is in the volume.
    pub(crate) fn is_directory_named(&self, path: &str) -> bool {
        let mount = plain(self.mount_path());
        self.named().any(|named| is_below(&named, &mount) && is_below(path, &named))
    }

    fn named(&self) -> impl Iterator<Item = String> + use<'t> {
        let container = self.container;
        let fields = ["command", "args", "env"].into_iter().flat_map(move |field| texts(&container[field]));
        fields.flat_map(|text| text.split(['=', ':', ',', ' ', '"', '\'']).map(plain).collect::<Vec<_>>())
    }
}

/// Returns the path that a line says does not exist, or whose socket nobody serves, if it is one that a container mounts.
///
/// The line may name others, such as a file that asks for the missing one.
pub(crate) fn missing_in<'t>(template: &'t Value, container: &str, line: &str) -> Option<(String, Mounted<'t>)> {
    let lower = line.to_ascii_lowercase();
    let unserved = Some("connection refused").filter(|_| lower.contains("unix"));
    let (at, words) = MISSING.into_iter().chain(unserved).find_map(|words| Some((lower.find(words)?, words)))?;
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '=' | ',' | ';' | '(' | ')' | '[' | ']');
    let mut before = line[..at].split(is_end).rev();
    let is_path = |word: &&str| word.contains(['/', '\\']);
    // Python, Node.js (", open '/x'") and Ruby (" @ rb_sysopen - /x") name it afterwards.
    let after = &line[at + words.len()..];
    let call = || after.strip_prefix(", ").and_then(|call| call.split_once(' '));
    let ruby = || after.strip_prefix(" @ ").and_then(|call| call.split_once(" - "));
    let after = after.strip_prefix(": ").or_else(|| call().or_else(ruby).map(|(_, path)| path));
    let after = after.filter(|after| after.starts_with(['\'', '"', '/', '\\']));
    let after = after.and_then(|after| after.split(is_end).find(|word| !word.is_empty()));
    let word = after.or_else(|| before.find(is_path));
    let path = plain(word?.trim_end_matches([':', '.', '\\']).trim_start_matches("unix:"));
    let is_absolute = path.starts_with(['/', '\\']) || path.get(1..3) == Some(":\\");
    let mounted = Mounted::at(template, container, &path).filter(|_| is_absolute)?;
    Some((path, mounted))
}

/// Returns a path in one form: loggers double the backslashes of Windows, and URLs begin with several slashes.
fn plain(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    for c in path.chars() {
        let is_repeated = matches!(c, '/' | '\\') && plain.ends_with(c);
        plain.extend((!is_repeated).then_some(c));
    }
    let end = if plain.len() > 1 { plain.trim_end_matches(['/', '\\']) } else { plain.as_str() };
    // Windows does not tell upper and lower case apart.
    if end.contains('\\') { end.to_lowercase() } else { end.to_owned() }
}

fn is_below(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    above == "/" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '\\']))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Mounted, missing_in};

    #[test]
    fn a_line_names_a_path_that_is_mounted() {
        let template = json!({"spec": {
            "containers": [{"name": "agent", "args": ["--socket=unix:///run/cri/cri.sock"], "env": [{"name": "KEYS", "value": "/etc/keys"}],
                "volumeMounts": [
                    {"name": "run", "mountPath": "/run/"}, {"name": "keys", "mountPath": "/etc/keys"}, {"name": "tmp", "mountPath": "/tmp"},
                    {"name": "pipe", "mountPath": "\\\\.\\pipe\\csi-proxy"}]}],
            "volumes": [
                {"name": "run", "hostPath": {"path": "/run"}}, {"name": "keys", "secret": {"secretName": "keys"}},
                {"name": "tmp", "emptyDir": {}}, {"name": "pipe", "hostPath": {"path": "\\\\.\\pipe\\csi-proxy"}}]}});
        for (line, expected) in [
            ("open /etc/keys/a.key: no such file or directory", Some(("/etc/keys/a.key", "keys", false, true))),
            ("[Errno 2] No such file or directory: '/etc/keys'", Some(("/etc/keys", "keys", true, true))),
            (
                "dial unix /run/cri/cri.sock: connect: no such file or directory",
                Some(("/run/cri/cri.sock", "run", true, true)),
            ),
            (
                "dial unix /run/cri/cri.sock: connect: connection refused",
                Some(("/run/cri/cri.sock", "run", true, true)),
            ),
            (
                "unix:///run/cri/other.sock: no such file or directory",
                Some(("/run/cri/other.sock", "run", false, false)),
            ),
            (
                "open \\\\.\\\\pipe\\\\CSI-proxy: The system cannot find the file specified.",
                Some(("\\.\\pipe\\csi-proxy", "pipe", true, false)),
            ),
            (
                "File /etc/keys/a.py: [Errno 2] No such file or directory: '/run/x'",
                Some(("/run/x", "run", false, false)),
            ),
            (
                "loading /etc/keys/a: open /run/x: no such file or directory (see /tmp/help)",
                Some(("/run/x", "run", false, false)),
            ),
            ("Error: ENOENT: no such file or directory, open '/run/x'", Some(("/run/x", "run", false, false))),
            (
                "/run/start.rb:3:in 'initialize': No such file or directory @ rb_sysopen - /etc/keys/a.key (Errno::ENOENT)",
                Some(("/etc/keys/a.key", "keys", false, true)),
            ),
            ("/run/start.rb:3:in 'initialize': No such file or directory @ rb_sysopen - /opt/x", None),
            // Nothing of these is missing on the node or in an object.
            ("loading /etc/keys/a: open /opt/plugin.so: no such file or directory", None),
            ("loading /etc/keys/a: open plugins/b.so: no such file or directory", None),
            ("[Errno 2] No such file or directory: 'b.so', said /etc/keys/a", None),
            ("open /tmp/a: no such file or directory", None),
            ("open /etc/keys2/a: no such file or directory", None),
            ("open /etc/keys/a.key: permission denied", None),
            ("dial tcp 10.0.0.1:443: connection refused, see /run/cri", None),
        ] {
            let found = missing_in(&template, "agent", line);
            let found = found.map(|(path, at)| {
                let (is_named, is_below) = (at.is_named(&path), at.is_directory_named(&path));
                (path, at.volume(), is_named, is_below)
            });
            let expected = expected.map(|(path, volume, named, below)| (path.to_owned(), volume, named, below));
            assert_eq!(found, expected, "{line}");
        }
        assert!(Mounted::at(&template, "other", "/run/x").is_none());
    }
}
