//! kubectl and kubectl-ds with the same flags, kubeconfig and environment, against a server that records the requests:
//! which server, which namespace, as whom, and with what result.
//!
//! `docs/kubectl-differences.md` is generated from the rows that differ, each with its reason.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::control_plane::{build, kubernetes};
use crate::support::documents::must_be;
use crate::support::server::{Asked, Reply, Server, fixture};

const V1: &str = "client.authentication.k8s.io/v1";
const JSON: &str = "application/json";

/// A server, a proxy and a home directory, made for one row.
struct Place {
    directory: tempfile::TempDir,
    server: Server,
    proxy: Server,
}

impl Place {
    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a plugin that prints credentials with the token `of-the-plugin`.
    fn plugin(&self, name: &str) -> String {
        let path = self.write(name, &plugin_script(json!({"token": "of-the-plugin"})));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

fn plugin_script(status: Value) -> String {
    let output = json!({"apiVersion": V1, "kind": "ExecCredential", "status": status});
    format!("#!/bin/sh\necho '{output}'\n")
}

/// What a row changes: the kubeconfig, flags and environment variables.
struct Setup {
    kubeconfig: Value,
    /// How the kubeconfig is written as bytes.
    write: fn(&str) -> Vec<u8>,
    flags: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Setup {
    fn cluster(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.kubeconfig["clusters"][0]["cluster"][key] = value.into();
        self
    }

    fn written(mut self, write: fn(&str) -> Vec<u8>) -> Self {
        self.write = write;
        self
    }

    fn user(mut self, user: Value) -> Self {
        self.kubeconfig["users"][0]["user"] = user;
        self
    }

    fn exec(self, exec: Value) -> Self {
        self.user(json!({"exec": exec}))
    }

    fn context(mut self, key: &str, value: &str) -> Self {
        self.kubeconfig["contexts"][0]["context"][key] = value.into();
        self
    }

    fn top(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.kubeconfig[key] = value.into();
        self
    }

    fn add(mut self, list: &str, entry: Value) -> Self {
        self.kubeconfig[list].as_array_mut().unwrap().push(entry);
        self
    }

    fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.into()));
        self
    }
}

/// What is done, and whether the outcome is the same.
struct Row {
    name: &'static str,
    setup: fn(&Place, Setup) -> Setup,
    differs: Option<Difference>,
    /// The first minor release 1.x, of those that are tested, whose kubectl knows what is done.
    since: u32,
}

impl Row {
    fn since(self, minor: u32) -> Self {
        Row { since: minor, ..self }
    }
}

struct Difference {
    kubectl: &'static str,
    kubectl_ds: &'static str,
    reason: &'static str,
}

fn same(name: &'static str, setup: fn(&Place, Setup) -> Setup) -> Row {
    Row { name, setup, differs: None, since: 0 }
}

fn differs(
    name: &'static str,
    setup: fn(&Place, Setup) -> Setup,
    kubectl: &'static str,
    kubectl_ds: &'static str,
    reason: &'static str,
) -> Row {
    Row { name, setup, differs: Some(Difference { kubectl, kubectl_ds, reason }), since: 0 }
}

fn rows() -> Vec<Row> {
    fn plugin(place: &Place) -> Value {
        json!({"apiVersion": V1, "command": place.plugin("plugin"), "interactiveMode": "Never"})
    }
    fn with(mut object: Value, key: &str, value: impl Into<Value>) -> Value {
        object[key] = value.into();
        object
    }
    vec![
        same("a token", |_, setup| setup),
        same("a namespace of the context", |_, setup| setup.context("namespace", "team")),
        same("an empty namespace of the context", |_, setup| setup.context("namespace", "")),
        same("`--namespace`", |_, setup| setup.context("namespace", "team").flags(&["-n", "other"])),
        same("a missing file in `KUBECONFIG`", |place, setup| {
            let config = place.path("config");
            setup.variable("KUBECONFIG", format!("{}:{config}", place.path("absent")))
        }),
        same("an empty current context in the first file", |place, setup| {
            let first = place.write("first", "{current-context: ''}");
            let config = place.path("config");
            setup.variable("KUBECONFIG", format!("{first}:{config}"))
        }),
        same("a loopback server with a proxy in the environment", |place, setup| {
            setup.variable("HTTPS_PROXY", format!("http://{}", place.proxy.address))
        }),
        same("`NO_PROXY` with a trailing comma", |place, setup| {
            setup
                .cluster("server", "https://api.test:6443")
                .variable("HTTPS_PROXY", format!("http://{}", place.proxy.address))
                .variable("NO_PROXY", "<local>,other.test,")
        }),
        same("a proxy without a scheme in the environment", |place, setup| {
            setup.cluster("server", "https://api.test:6443").variable("HTTPS_PROXY", place.proxy.address.to_string())
        }),
        same("a proxy with a user and no password", |place, setup| {
            setup
                .cluster("server", "https://api.test:6443")
                .variable("HTTPS_PROXY", format!("http://ann@{}", place.proxy.address))
        }),
        same("`proxy-url`", |place, setup| setup.cluster("proxy-url", format!("http://{}", place.proxy.address))),
        same("`proxy-url` without a scheme", |place, setup| {
            setup.cluster("proxy-url", place.proxy.address.to_string())
        }),
        same("a certificate authority and `insecure-skip-tls-verify`", |_, setup| {
            setup.cluster("insecure-skip-tls-verify", true)
        }),
        same("`--insecure-skip-tls-verify`", |_, setup| setup.flags(&["--insecure-skip-tls-verify"])),
        same("`--insecure-skip-tls-verify=true`", |_, setup| setup.flags(&["--insecure-skip-tls-verify=true"])),
        same("no certificate authority", |_, setup| setup.cluster("certificate-authority", "")),
        same("`--certificate-authority`", |_, setup| {
            setup.cluster("certificate-authority", "").flags(&["--certificate-authority", &fixture("authority.crt")])
        }),
        same("authority data beside a missing authority file", |_, setup| {
            setup.cluster("certificate-authority", "/no/such").cluster("certificate-authority-data", "QQ==")
        }),
        differs(
            "a server certificate as its own authority",
            |_, setup| setup.cluster("certificate-authority", fixture("server.crt")),
            "works",
            "fails",
            "the TLS library trusts authorities, not servers",
        ),
        same("another `tls-server-name`", |_, setup| setup.cluster("tls-server-name", "elsewhere.test")),
        same("`--tls-server-name`", |_, setup| setup.flags(&["--tls-server-name", "api.test"])),
        same("user and password in the server's address", |place, setup| {
            setup.cluster("server", format!("https://ann:secret@{}", place.server.address)).user(json!({
                "client-certificate": fixture("server.crt"),
                "client-key": fixture("server.key"),
            }))
        }),
        same("a user name and a password", |_, setup| setup.user(json!({"username": "ann", "password": "secret"}))),
        same("a user name without a password", |_, setup| setup.user(json!({"username": "ann"}))),
        same("a user name and a token", |_, setup| setup.user(json!({"username": "ann", "token": "mine"}))),
        same("a token file that ends in a newline", |place, setup| {
            setup.user(json!({"tokenFile": place.write("token", "of-the-file\n")}))
        }),
        same("an empty token file", |place, setup| setup.user(json!({"tokenFile": place.write("token", "")}))),
        same("a token beside a missing token file", |_, setup| {
            setup.user(json!({"token": "mine", "tokenFile": "/no/such"}))
        }),
        same("a token beside a token file", |place, setup| {
            setup.user(json!({"token": "mine", "tokenFile": place.write("token", "of-the-file")}))
        }),
        same("a token with a line break", |_, setup| setup.user(json!({"token": "two\nlines"}))),
        same("`--token` instead of a client certificate's user", |_, setup| setup.flags(&["--token", "given"])),
        differs(
            "`--token` beside a `tokenFile` of the kubeconfig",
            |place, setup| {
                setup.user(json!({"tokenFile": place.write("token", "of-the-file")})).flags(&["--token", "given"])
            },
            "sends the file's token",
            "sends the token of the flag",
            "a flag overrides the kubeconfig",
        ),
        same("impersonation by flags", |_, setup| {
            setup.flags(&["--as=eve", "--as-group=a", "--as-group=b", "--as-uid=7", "--as-user-extra=scope=x"])
        })
        .since(35),
        same("extra fields without a user to impersonate", |_, setup| {
            setup.user(json!({"token": "mine", "as-user-extra": {"scope": ["x"]}}))
        }),
        same("a client certificate of X.509 version 1", |_, setup| {
            setup.user(json!({
                "client-certificate": fixture("client-version-1.crt"),
                "client-key": fixture("client-version-1.key"),
            }))
        }),
        differs(
            "an RSA client key of 1024 bits",
            |_, setup| {
                setup.user(json!({
                    "client-certificate": fixture("client-rsa-1024.crt"),
                    "client-key": fixture("client-rsa-1024.key"),
                }))
            },
            "works",
            "fails with a hint",
            "the TLS library does not accept it, since such keys can be broken",
        ),
        same("`--client-certificate` and `--client-key`", |_, setup| {
            setup.user(json!({})).flags(&[
                "--client-certificate",
                &fixture("server.crt"),
                "--client-key",
                &fixture("server.key"),
            ])
        }),
        same("a client certificate without a key", |_, setup| {
            setup.user(json!({"client-certificate": fixture("server.crt")}))
        }),
        same("`--username` and `--password`", |_, setup| {
            setup.user(json!({})).flags(&["--username=ann", "--password=secret"])
        }),
        same("a credential plugin", |place, setup| setup.exec(plugin(place))),
        same("a credential plugin beside a client certificate", |place, setup| {
            setup.user(json!({
                "exec": plugin(place),
                "client-certificate": fixture("server.crt"),
                "client-key": fixture("server.key"),
            }))
        }),
        same("a credential plugin beside `--token`", |place, setup| {
            setup.exec(plugin(place)).flags(&["--token", "given"])
        }),
        same("a credential plugin of v1 without `interactiveMode`", |place, setup| {
            setup.exec(with(plugin(place), "interactiveMode", ""))
        }),
        same("a credential plugin of v1alpha1", |place, setup| {
            setup.exec(with(plugin(place), "apiVersion", "client.authentication.k8s.io/v1alpha1"))
        }),
        same("a credential plugin without `apiVersion`", |place, setup| {
            setup.exec(with(plugin(place), "apiVersion", ""))
        }),
        same("a credential plugin that must prompt without a terminal", |place, setup| {
            setup.exec(with(plugin(place), "interactiveMode", "Always"))
        }),
        same("a credential plugin with an invalid expiration", |place, setup| {
            let plugin = plugin(place);
            place.write("plugin", &plugin_script(json!({"token": "t", "expirationTimestamp": "soon"})));
            setup.exec(plugin)
        }),
        same("a credential plugin whose output has no kind", |place, setup| {
            let plugin = plugin(place);
            place.write(
                "plugin",
                &format!("#!/bin/sh\necho '{{\"apiVersion\":\"{V1}\",\"status\":{{\"token\":\"t\"}}}}'"),
            );
            setup.exec(plugin)
        }),
        same("a credential plugin whose token has a line break", |place, setup| {
            let plugin = plugin(place);
            place.write("plugin", &plugin_script(json!({"token": "two\nlines"})).replace("\\n", "\\\\n"));
            setup.exec(plugin)
        }),
        same("a credential plugin found in the current directory only", |place, setup| {
            setup.exec(with(plugin(place), "command", "plugin")).variable("PATH", ".:/usr/bin:/bin")
        }),
        same("a credential plugin in the `PATH` of `exec.env` only", |place, setup| {
            place.plugin("bin/hidden-plugin");
            let env = json!([{"name": "PATH", "value": format!("{}:/usr/bin:/bin", place.path("bin"))}]);
            setup.exec(with(with(plugin(place), "command", "hidden-plugin"), "env", env))
        }),
        same("a credential plugin relative to the kubeconfig", |place, setup| {
            setup.exec(with(plugin(place), "command", "./plugin"))
        }),
        same("a plugin policy that denies all", |place, setup| {
            setup.exec(plugin(place)).variable("KUBERC", place.write("kuberc", &kuberc("DenyAll", json!(null))))
        })
        .since(35),
        same("a plugin policy in the second document of a file", |place, setup| {
            let other = json!({"apiVersion": "kubectl.config.k8s.io/v9", "kind": "Preference"});
            let documents = format!("{other}\n---\n{}", kuberc("DenyAll", json!(null)));
            setup.exec(plugin(place)).variable("KUBERC", place.write("kuberc", &documents))
        })
        .since(35),
        same("a plugin policy with the plugin in its allowlist", |place, setup| {
            let allowlist = json!([{"name": place.path("plugin")}]);
            let path = place.write("kuberc", &kuberc("Allowlist", allowlist));
            setup.exec(plugin(place)).flags(&["--kuberc", &path])
        })
        .since(35),
        same("a plugin policy without the plugin in its allowlist", |place, setup| {
            place.write(".kube/kuberc", &kuberc("Allowlist", json!([{"name": "another"}])));
            setup.exec(plugin(place))
        })
        .since(35),
        same("a kubeconfig of another kind", |_, setup| setup.top("kind", "Pod")),
        same("a kubeconfig of another version", |_, setup| setup.top("apiVersion", "v2")),
        same("a kubeconfig in UTF-16", |_, setup| {
            setup.written(|text| format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect())
        }),
        same("a kubeconfig in UTF-16, the high byte first", |_, setup| {
            setup.written(|text| format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_be_bytes).collect())
        }),
        same("a kubeconfig in UTF-16 without a byte order mark", |_, setup| {
            setup.written(|text| text.encode_utf16().flat_map(u16::to_le_bytes).collect())
        }),
        same("a kubeconfig with a byte order mark", |_, setup| {
            setup.written(|text| format!("\u{feff}{text}").into_bytes())
        }),
        same("a kubeconfig that is not UTF-8", |_, setup| {
            setup.written(|text| [text.as_bytes(), b"\n# \xff\n"].concat())
        }),
        same("an empty kubeconfig, and a server by flag", |place, setup| {
            let server = format!("https://{}", place.server.address);
            setup.written(|_| Vec::new()).flags(&["--server", &server, "--token=t", "--insecure-skip-tls-verify"])
        }),
        differs(
            "two values of a key in a kubeconfig",
            |_, setup| setup.written(|text| text.replace(r#""token":"#, r#""token":"first","token":"#).into_bytes()),
            "uses the last one",
            "refuses",
            "kube reads the files, and the case is rare",
        ),
        differs(
            "two values of a list in a kubeconfig",
            |_, setup| {
                setup.written(|text| {
                    text.replacen('{', r#"{"current-context":"no","users":[{"name":"person"}],"#, 1).into_bytes()
                })
            },
            "uses the last one",
            "refuses",
            "kube reads the files, and the case is rare",
        ),
        same("a kubeconfig of two documents", |_, setup| {
            setup.written(|text| format!("# One\n---\n{text}\n---\n{}\n", text.replace("mine", "other")).into_bytes())
        }),
        differs(
            "a kubeconfig whose second document is broken",
            |_, setup| setup.written(|text| format!("{text}\n--- # Two\n{{[\n").into_bytes()),
            "reads the first document",
            "refuses",
            "kube reads the files, and the case is rare",
        ),
        differs(
            "a kubeconfig whose first document is empty",
            |_, setup| {
                setup.written(|text| format!("---\n# One\n---\n{text}\n").into_bytes()).flags(&["--context=here"])
            },
            "fails",
            "reads the other documents, too",
            "kube reads the files, and the case is rare",
        ),
        same("a kubeconfig that ends before the end of its file", |_, setup| {
            setup.written(|text| format!("{text}\n...\nnot: read\n").into_bytes())
        }),
        same("a broken kubeconfig", |_, setup| setup.written(|text| text.replacen("{", "{[", 1).into_bytes())),
        differs(
            "two clusters of one name",
            |_, setup| setup.add("clusters", json!({"name": "mock", "cluster": {}})),
            "fails",
            "uses the first one",
            "kube reads the files, and the case is rare",
        ),
        differs(
            "odd entries that are not used",
            |_, setup| {
                setup
                .add("contexts", json!({"name": "odd", "context": {}}))
                .add("users", json!({"user": {}}))
                .add(
                    "users",
                    json!({"name": "odd", "user": {"exec": {"command": "x", "env": [{"name": "A", "value": null}]}}}),
                )
                .add("clusters", json!({"name": "odd", "cluster": {"extensions": [{"name": "e"}]}}))
            },
            "ignores them",
            "refuses contexts without a cluster, entries without a name and environment variables without a value",
            "kube reads the files, and the case is rare",
        ),
        same("a context that does not exist", |_, setup| setup.flags(&["--context", "other"])),
        same("a user that does not exist", |_, setup| setup.flags(&["--user", "other"])),
        same("a context whose user does not exist", |_, setup| setup.context("user", "other").flags(&["--token=t"])),
        same("a server with a path", |place, setup| {
            setup.cluster("server", format!("https://{}/k8s/clusters/c-1/", place.server.address))
        }),
        differs(
            "a server that redirects",
            |place, setup| setup.cluster("server", format!("https://{}/redirecting", place.server.address)),
            "follows up to ten redirects",
            "fails",
            "API servers do not redirect, and credentials are for one server",
        ),
        same("an invalid `--request-timeout`", |_, setup| setup.flags(&["--request-timeout", "soon"])),
        same("a flag without an effect here", |_, setup| setup.flags(&["-v=0"])),
        same("`--warnings-as-errors` with a warning", |place, setup| {
            setup
                .cluster("server", format!("https://{}/warning", place.server.address))
                .flags(&["--warnings-as-errors"])
        }),
        differs(
            "no credentials",
            |_, setup| setup.user(json!({})),
            "prompts for a user name and a password",
            "sends the request without credentials",
            "API servers have not accepted passwords since Kubernetes 1.19",
        ),
        differs(
            "a context whose cluster does not exist",
            |place, setup| {
                setup
                    .context("cluster", "other")
                    .variable("KUBERNETES_MASTER", format!("https://{}", place.server.address))
                    .flags(&["--insecure-skip-tls-verify"])
            },
            "connects to `KUBERNETES_MASTER`, to the cluster of the pod that it runs in, or to `localhost:8080`",
            "refuses",
            "another cluster than the one that is named must never be read or changed",
        ),
    ]
}

fn kuberc(policy: &str, allowlist: Value) -> String {
    let mut kuberc = json!({
        "apiVersion": "kubectl.config.k8s.io/v1beta1",
        "kind": "Preference",
        "credentialPluginPolicy": policy,
    });
    if !allowlist.is_null() {
        kuberc["credentialPluginAllowlist"] = allowlist;
    }
    kuberc.to_string()
}

/// Answers as an API server does that has the DaemonSet `agent` in every namespace.
fn answer(asked: &Asked) -> Reply {
    if let Some(target) = asked.target.strip_prefix("/k8s/clusters/c-1") {
        return answer(&Asked { target: target.to_owned(), ..asked.clone() });
    }
    if let Some(target) = asked.target.strip_prefix("/warning") {
        let reply = answer(&Asked { target: target.to_owned(), ..asked.clone() });
        return reply.with("warning", "299 - \"old API\"");
    }
    if let Some(target) = asked.target.strip_prefix("/redirecting") {
        return Reply::of(302, "text/plain", "").with("location", target);
    }
    let json = |value: Value| Reply::of(200, JSON, value.to_string());
    let resources = |group_version: &str, resource: Value| json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": [resource]});
    match asked.path() {
        "/version" => json(json!({"major": "1", "minor": "30", "gitVersion": "v1.30.0"})),
        "/api" => json(json!({"kind": "APIVersions", "versions": ["v1"]})),
        "/apis" => json(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [{
            "name": "apps",
            "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
        }]})),
        "/api/v1" => json(resources(
            "v1",
            json!({
                "name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": ["get", "list"],
            }),
        )),
        "/apis/apps/v1" => json(resources(
            "apps/v1",
            json!({
                "name": "daemonsets", "singularName": "daemonset", "namespaced": true, "kind": "DaemonSet",
                "verbs": ["get", "list"], "shortNames": ["ds"],
            }),
        )),
        path if path.ends_with("/daemonsets/agent") => {
            let namespace = path.split('/').nth(5).unwrap_or_default();
            json(json!({
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": "agent", "namespace": namespace, "uid": "u"},
                "spec": {
                    "selector": {"matchLabels": {"app": "agent"}},
                    "template": {"metadata": {"labels": {"app": "agent"}}},
                },
            }))
        }
        path if path.ends_with("/controllerrevisions") => json(empty_list("ControllerRevisionList", "apps/v1")),
        path if path.ends_with("/pods") => json(empty_list("PodList", "v1")),
        path => {
            let message = format!("{path} not found");
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound",
                "code": 404, "message": message});
            Reply::of(404, JSON, status.to_string())
        }
    }
}

fn empty_list(kind: &str, api_version: &str) -> Value {
    json!({"kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": "1"}, "items": []})
}

/// Runs a program as a row sets it up, and returns what was observed.
fn observe(row: &Row, program: &Path, arguments: &[&str]) -> String {
    let place = Place {
        directory: tempfile::tempdir().unwrap(),
        server: Server::start_tls(answer),
        proxy: Server::start(|_| Reply::of(502, "text/plain", "")),
    };
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "mock", "user": "person"}}],
        "clusters": [{"name": "mock", "cluster": {
            "server": format!("https://{}", place.server.address),
            "certificate-authority": fixture("authority.crt"),
        }}],
        "users": [{"name": "person", "user": {"token": "mine"}}],
    });
    let environment = [
        ("HOME", place.directory.path().display().to_string()),
        ("KUBECONFIG", place.path("config")),
        ("PATH", "/usr/bin:/bin".to_owned()),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
    let write = |text: &str| text.as_bytes().to_vec();
    let setup = (row.setup)(&place, Setup { kubeconfig, write, flags: Vec::new(), environment });
    fs::write(place.path("config"), (setup.write)(&setup.kubeconfig.to_string())).unwrap();
    let output = Command::new(program)
        .args(arguments)
        .args(&setup.flags)
        .env_clear()
        .envs(setup.environment)
        .current_dir(place.directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut observed = String::new();
    let daemon_set = place.server.asked().into_iter().find(|asked| asked.path().ends_with("/daemonsets/agent"));
    for (name, asked) in [("server", daemon_set), ("proxy", place.proxy.asked().into_iter().next())] {
        let Some(asked) = asked else { continue };
        let _ = write!(observed, "{name}: {} {}", asked.method, asked.path());
        let headers = asked.headers.iter().filter(|(name, _)| {
            name.starts_with("impersonate-") || matches!(name.as_str(), "authorization" | "proxy-authorization")
        });
        for (name, value) in headers.collect::<BTreeSet<_>>() {
            let _ = write!(observed, ", {name}: {value}");
        }
        if let Some(certificate) = asked.certificate {
            let _ = write!(observed, ", client certificate of {} bytes", certificate.len());
        }
        observed.push_str("; ");
    }
    observed.push_str(if output.status.success() { "succeeds" } else { "fails" });
    // The system chooses the ports of a row.
    observed.replace(&place.server.address.to_string(), "SERVER")
}

#[test]
fn kubectl_and_kubectl_ds_reach_the_same_server_as_the_same_user() {
    let kubectl = Arc::new(build("parts"));
    let rows = rows();
    let mut wrong = Vec::new();
    let release = kubernetes();
    let release: u32 = release.trim_start_matches("1.").parse().unwrap();
    for row in rows.iter().filter(|row| row.since <= release) {
        let theirs = observe(row, &kubectl, &["kubectl", "get", "daemonsets.apps", "agent", "--output=name"]);
        let ours = observe(row, Path::new(env!("CARGO_BIN_EXE_kubectl-ds")), &["history", "agent"]);
        if (theirs == ours) == row.differs.is_some() {
            wrong.push(format!("{}:\n  kubectl:    {theirs}\n  kubectl-ds: {ours}", row.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    must_be("kubectl-differences.md", &document(&rows));
}

/// Differences that a row cannot show.
const OTHERS: &[(&str, &str, &str, &str)] = &[
    ("no cluster is configured", "connects to `localhost:8080`", "refuses", "the error says what to configure"),
    (
        "flags to impersonate, in a pod without a kubeconfig",
        "connects to `localhost:8080`",
        "impersonates as the pod's service account",
        "kubectl uses the pod's cluster only if no flag has an effect",
    ),
    (
        "`--request-timeout`, in a pod without a kubeconfig",
        "connects to `localhost:8080`",
        "connects to the pod's cluster",
        "kubectl uses the pod's cluster only if no flag has an effect",
    ),
    (
        "credentials and an `http://` server that is not on this machine",
        "leaves the credentials out",
        "refuses",
        "the request would fail, or be made as another user",
    ),
    (
        "an entry of a kubeconfig that has data both in itself and in a file",
        "fails",
        "uses the data in the entry",
        "kube reads the entry, and the case is rare",
    ),
    (
        "`.example.com` in `NO_PROXY`, and the server `example.com`",
        "uses the proxy",
        "connects directly",
        "the HTTP library matches as curl does",
    ),
    (
        "a port in `NO_PROXY`",
        "compares it with the server's",
        "ignores the entry",
        "the HTTP library matches as curl does",
    ),
    ("`HTTP_PROXY` in a CGI environment", "fails", "uses the proxy", "kubectl-ds is no CGI program"),
    ("`socks5h://` in `proxy-url`", "fails", "works as `socks5://`", "the proxy resolves names either way"),
    (
        "`POD_NAMESPACE`, in a pod without a kubeconfig",
        "uses it as the namespace",
        "uses the namespace of the service account",
        "kube reads the environment of a pod",
    ),
    (
        "an unreadable certificate authority of the service account, in a pod without a kubeconfig",
        "trusts the system's authorities",
        "refuses",
        "kube reads the environment of a pod",
    ),
    (
        "a certificate authority's file with a certificate that cannot be parsed beside others",
        "skips it",
        "fails",
        "kube reads the file",
    ),
    (
        "a token that the server rejects, of a credential plugin or a file",
        "fails, and renews the token for the next request",
        "renews the token and sends the request again",
        "a run of minutes must survive a token",
    ),
    (
        "credentials that a plugin returns expired",
        "runs the plugin before each request",
        "uses them until the server rejects them",
        "this machine's clock may be wrong",
    ),
    (
        "a credential plugin that does not end, or writes without end",
        "waits for ever, and keeps all of it",
        "ends it after `--request-timeout`, or 60 seconds, or a megabyte",
        "one cluster must not keep the answers of the others",
    ),
    (
        "a server that is silent, without `--request-timeout`",
        "waits for ever",
        "says so after ten seconds, and gives up after 60",
        "the API server ends requests after 60 seconds; what is silent for longer has lost the request, or is no API server",
    ),
    (
        "a change that is not answered",
        "waits for ever",
        "after 60 seconds, reads the object again within 5 seconds, three times at most, and reports what became of it, or that \
         it is unknown (exit code 7)",
        "whoever waits for ever neither knows nor tells what was changed",
    ),
    (
        "a change that is answered with 5xx and `Retry-After`, or with 429 by something other than the API server",
        "sends it again",
        "reports that the outcome is unknown",
        "the change may have been made",
    ),
    (
        "a read that is answered with 429, 503 or 504 without `Retry-After`",
        "fails",
        "retries for three seconds",
        "a server that restarts comes back within that time",
    ),
    (
        "a server or client key on the curve P-521",
        "works",
        "fails; for a client key with a hint",
        "the TLS library does not support it; the one that does adds 30 ms to each run",
    ),
    (
        "a server certificate with an RSA key of less than 2048 bits",
        "works",
        "fails",
        "the TLS library does not accept it, since such keys can be broken",
    ),
    ("a server certificate of X.509 version 1", "works", "fails", "the TLS library does not support it"),
    (
        "an `http://` server through an HTTP proxy",
        "sends absolute-form requests",
        "opens a tunnel with CONNECT",
        "the HTTP library only tunnels; servers without TLS are reached on this machine, without a proxy",
    ),
    (
        "a kuberc file that cannot be read",
        "warns, and runs any credential plugin",
        "refuses to run credential plugins",
        "the file may forbid them",
    ),
    (
        "compression",
        "requests gzip",
        "does not",
        "measured slower on links faster than 0.7 Gbit/s, and protobuf halves the size",
    ),
    (
        "a list that the server divides into pages without being asked",
        "reads every page",
        "fails",
        "API servers divide only lists with a limit, and kubectl-ds sets none",
    ),
    ("HTTP/2", "is used", "is not used", "a handful of parallel requests need no multiplexing"),
    (
        "`-v`",
        "logs",
        "is accepted, and `-v 1` counts the files of a dump that were skipped",
        "there is nothing to log; scripts pass it to every command",
    ),
    (
        "`--cache-dir`, `--disable-compression`, `--match-server-version`, `--profile`, `--profile-output`",
        "have an effect",
        "are unknown flags",
        "there is nothing to cache, compress, compare or profile, and a flag without an effect misleads",
    ),
    (
        "`KUBECTL_EXTERNAL_DIFF`",
        "names the program that shows differences",
        "is not read",
        "`history --diff --unified` can be piped into any such program",
    ),
    (
        "`-o custom-columns`",
        "prints columns that the user chooses",
        "is an error",
        "`-o json` with a tool such as jq does it",
    ),
];

fn document(rows: &[Row]) -> String {
    let mut text = "# Differences from kubectl\n\n\
        kubectl-ds connects as kubectl does with the same kubeconfig, flags and environment: to the same server, as the same\n\
        user, in the same namespace. A test runs both against a recording server. This is what differs, and why.\n\n\
        | Situation | kubectl | kubectl-ds | Reason |\n|---|---|---|---|\n"
        .to_owned();
    let shown = rows.iter().filter_map(|row| {
        let Difference { kubectl, kubectl_ds, reason } = row.differs.as_ref()?;
        Some((row.name, *kubectl, *kubectl_ds, *reason))
    });
    for (name, kubectl, kubectl_ds, reason) in shown.chain(OTHERS.iter().copied()) {
        let _ = writeln!(text, "| {name} | {kubectl} | {kubectl_ds} | {reason} |");
    }
    text
}
