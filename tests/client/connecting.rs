//! Connections: who is asked, as whom, and what is said where nobody answers.

use std::fs;
use std::time::{Duration, Instant};

use kubectl_ds::cluster::live::ConnectOptions;
use kubectl_ds::error::{CommandError, Exit};

use super::server::{Server, closed_port, fixture};
use super::{Reply, agent, cluster, environment, options, read, refusal, shown};

/// Flags that lead to a server with TLS, whose authority is trusted.
fn options_tls(server: &Server) -> ConnectOptions {
    ConnectOptions {
        server: Some(format!("https://{}", server.address)),
        certificate_authority: Some(fixture("authority.crt")),
        ..ConnectOptions::default()
    }
}

#[test]
fn a_server_that_does_not_listen_is_named_as_kubectl_names_it() {
    let address = closed_port();
    let options = ConnectOptions { server: Some(format!("http://{address}")), ..ConnectOptions::default() };
    assert_eq!(
        shown(read(&options, &agent()).unwrap_err()),
        format!("The connection to the server {address} was refused - did you specify the right host or port?")
    );
}

#[test]
fn a_server_whose_name_nobody_knows_is_told_with_a_hint() {
    let options = ConnectOptions { server: Some("https://no-such.invalid".to_owned()), ..ConnectOptions::default() };
    let error = shown(read(&options, &agent()).unwrap_err());
    assert!(error.starts_with("Unable to connect to the server: failed to lookup address information"), "{error}");
    assert!(
        error.ends_with(
            "hint: the server's name is not known; check the kubeconfig's server, and that you are in the right network"
        ),
        "{error}"
    );
}

#[test]
fn a_token_is_sent_over_tls_and_the_user_acted_as_is_named() {
    let server = Server::start_tls(cluster);
    let options = ConnectOptions {
        token: Some("secret".to_owned()),
        as_: Some("eve".to_owned()),
        as_group: vec!["admins".to_owned(), "users".to_owned()],
        ..options_tls(&server)
    };
    read(&options, &agent()).unwrap();
    for asked in server.asked() {
        assert_eq!(asked.header("authorization"), "Bearer secret");
        assert_eq!(asked.header("impersonate-user"), "eve");
        assert_eq!(asked.headers.iter().filter(|(name, _)| name == "impersonate-group").count(), 2);
    }
}

#[test]
fn a_credential_plugin_runs_once_however_much_is_asked() {
    let server = Server::start_tls(cluster);
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let script = format!(
        "echo run >> {}; echo '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\
         \"status\":{{\"token\":\"of-the-plugin\",\"expirationTimestamp\":\"2020-01-01T00:00:00Z\"}}}}'",
        runs.display()
    );
    let kubeconfig = serde_json::json!({
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "mock", "user": "person"}}],
        "clusters": [{"name": "mock", "cluster": {
            "server": format!("https://{}", server.address),
            "certificate-authority": fixture("authority.crt"),
        }}],
        "users": [{"name": "person", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh",
            "args": ["-c", script],
            "interactiveMode": "IfAvailable",
        }}}],
    });
    let path = folder.path().join("config");
    fs::write(&path, kubeconfig.to_string()).unwrap();
    let path = path.display().to_string();
    let options = ConnectOptions {
        environment: environment(&[("KUBECONFIG", &path), ("PATH", "/usr/bin:/bin")]),
        ..ConnectOptions::default()
    };
    read(&options, &agent()).unwrap();
    assert!(server.asked().len() >= 7);
    assert!(server.asked().iter().all(|asked| asked.header("authorization") == "Bearer of-the-plugin"));
    assert_eq!(fs::read_to_string(runs).unwrap(), "run\n");
}

#[test]
fn an_authority_that_is_not_trusted_comes_with_a_hint() {
    let server = Server::start_tls(cluster);
    let options = ConnectOptions { certificate_authority: None, ..options_tls(&server) };
    let error = shown(read(&options, &agent()).unwrap_err());
    assert!(error.starts_with("Unable to connect to the server: invalid peer certificate: UnknownIssuer"), "{error}");
    assert!(error.ends_with("name the authority's file with --certificate-authority"), "{error}");
    let trusting = ConnectOptions { insecure_skip_tls_verify: true, ..options };
    read(&trusting, &agent()).unwrap();
}

#[test]
fn a_certificate_for_another_name_comes_with_a_hint() {
    let server = Server::start_tls(cluster);
    let mut options = options_tls(&server);
    options.tls_server_name = Some("elsewhere.test".to_owned());
    let error = shown(read(&options, &agent()).unwrap_err());
    assert!(error.contains("not valid for name"), "{error}");
    assert!(error.ends_with("give the right one with --tls-server-name or --server"), "{error}");
    options.tls_server_name = Some("api.test".to_owned());
    read(&options, &agent()).unwrap();
}

#[test]
fn a_client_certificate_of_version_1_comes_with_a_hint() {
    let server = Server::start_tls(cluster);
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = serde_json::json!({
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "mock", "user": "person"}}],
        "clusters": [{"name": "mock", "cluster": {
            "server": format!("https://{}", server.address),
            "certificate-authority": fixture("authority.crt"),
        }}],
        "users": [{"name": "person", "user": {
            "client-certificate": fixture("client-version-1.crt"),
            "client-key": fixture("client-version-1.key"),
        }}],
    });
    let path = folder.path().join("config");
    fs::write(&path, kubeconfig.to_string()).unwrap();
    let options = ConnectOptions { kubeconfig: Some(path.display().to_string()), ..ConnectOptions::default() };
    let error = shown(read(&options, &agent()).unwrap_err());
    assert!(error.starts_with("the kubeconfig's certificates or credentials cannot be used: "), "{error}");
    assert!(error.ends_with("of X.509 version 1, which is not supported here; have it issued as version 3"), "{error}");
}

#[test]
fn a_server_that_speaks_no_tls_comes_with_a_hint() {
    let server = Server::start(cluster);
    let options = ConnectOptions { server: Some(format!("https://{}", server.address)), ..ConnectOptions::default() };
    let error = shown(read(&options, &agent()).unwrap_err());
    assert!(error.contains("the server does not speak TLS on this port"), "{error}");
}

#[test]
fn credentials_that_are_refused_ask_for_a_login() {
    let server = Server::start(|_| refusal(401, "Unauthorized", "Unauthorized"));
    assert_eq!(
        shown(read(&options(&server), &agent()).unwrap_err()),
        "You must be logged in to the server (Unauthorized)\n\
         hint: the credentials are missing, wrong or expired; log in again, or choose others with --context or --user"
    );
}

#[test]
fn a_silent_server_is_left_when_the_time_is_up() {
    let server = Server::start(|asked| {
        std::thread::sleep(Duration::from_secs(5));
        cluster(asked)
    });
    let options = ConnectOptions { request_timeout: Some(std::time::Duration::from_millis(300)), ..options(&server) };
    let start = Instant::now();
    let error = CommandError::from(read(&options, &agent()).unwrap_err());
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(error.exit, Exit::TimedOut);
    assert_eq!(
        error.to_string(),
        format!(
            "Unable to connect to the server: {}: no whole answer came within 0.3 s (--request-timeout)\n\
             hint: check that the server can be reached from here; --request-timeout says how long to wait",
            server.address
        )
    );
}

#[test]
fn a_proxy_of_the_environment_is_asked_for_the_way() {
    let proxy = Server::start(|_| Reply::of(502, "text/plain", ""));
    let options = ConnectOptions {
        server: Some("https://api.example:6443".to_owned()),
        environment: environment(&[("HTTPS_PROXY", &proxy.address.to_string())]),
        ..ConnectOptions::default()
    };
    let error = shown(read(&options, &agent()).unwrap_err());
    assert!(error.starts_with("Unable to connect to the server: "), "{error}");
    let asked = &proxy.asked()[0];
    assert_eq!((asked.method.as_str(), asked.target.as_str()), ("CONNECT", "api.example:6443"));
}

#[test]
fn a_loopback_server_is_asked_without_the_proxy() {
    let server = Server::start(cluster);
    let proxy = format!("http://{}", closed_port());
    let environment = environment(&[("HTTP_PROXY", &proxy), ("HTTPS_PROXY", &proxy)]);
    read(&ConnectOptions { environment, ..options(&server) }, &agent()).unwrap();
}
