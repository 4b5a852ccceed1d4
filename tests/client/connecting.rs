//! Connections: which server, as whom, and which error if it cannot be reached.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use kubectl_ds::connection::ConnectOptions;
use kubectl_ds::error::{CommandError, Exit};

use super::server::{Server, closed_port, fixture};
use super::{Reply, agent, cluster, environment, options, read, refusal};
use crate::screens::{Ended, end, kubectl_ds};
use crate::support::shown;

/// Flags that lead to a TLS server by a kubeconfig in `directory`, as `user`.
fn options_as(server: &Server, directory: &Path, user: serde_json::Value) -> ConnectOptions {
    let kubeconfig = serde_json::json!({
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "mock", "user": "person"}}],
        "clusters": [{"name": "mock", "cluster": {
            "server": format!("https://{}", server.address),
            "certificate-authority": fixture("authority.crt"),
        }}],
        "users": [{"name": "person", "user": user}],
    });
    let path = directory.join("config");
    fs::write(&path, kubeconfig.to_string()).unwrap();
    let environment = environment(&[("KUBECONFIG", &path.display().to_string()), ("PATH", "/usr/bin:/bin")]);
    ConnectOptions { environment, ..ConnectOptions::default() }
}

/// A user whose plugin notes each run in `runs` of a directory, and prints what `status` prints.
fn plugin(directory: &Path, status: &str) -> serde_json::Value {
    let script = format!(
        "cd {}; echo run >> runs; run=$(wc -l < runs | tr -d ' '); echo '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\
         \"kind\":\"ExecCredential\",\"status\":'; {status}; echo '}}'",
        directory.display()
    );
    serde_json::json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", script],
        "interactiveMode": "Never",
    }})
}

/// Returns how often the plugin of a directory has run.
fn runs(directory: &Path) -> usize {
    fs::read_to_string(directory.join("runs")).unwrap().lines().count()
}

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
    assert!(error.starts_with("Unable to connect to the server: lookup no-such.invalid: "), "{error}");
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
fn a_credential_plugin_runs_once_however_much_is_requested() {
    let server = Server::start_tls(cluster);
    let directory = tempfile::tempdir().unwrap();
    // Expired by this machine's clock: the server decides.
    let status = r#"echo '{"token":"of-the-plugin","expirationTimestamp":"2020-01-01T00:00:00Z"}'"#;
    read(&options_as(&server, directory.path(), plugin(directory.path(), status)), &agent()).unwrap();
    assert!(server.asked().len() >= 7);
    assert!(server.asked().iter().all(|asked| asked.header("authorization") == "Bearer of-the-plugin"));
    assert_eq!(runs(directory.path()), 1);
}

#[test]
fn a_token_that_is_rejected_is_renewed_once_however_many_requests_wait() {
    let server = Server::start_tls(|asked| match asked.header("authorization") {
        "Bearer token-1" if asked.path().ends_with("/agent") => cluster(asked),
        "Bearer token-2" => cluster(asked),
        _ => refusal(401, "Unauthorized", "Unauthorized"),
    });
    let directory = tempfile::tempdir().unwrap();
    let user = plugin(directory.path(), r#"echo "{\"token\":\"token-$run\"}""#);
    read(&options_as(&server, directory.path(), user), &agent()).unwrap();
    assert!(server.asked().iter().filter(|asked| asked.header("authorization") == "Bearer token-2").count() > 3);
    assert_eq!(runs(directory.path()), 2);
}

#[test]
fn credentials_that_stay_rejected_after_a_renewal_ask_for_a_login() {
    let server = Server::start_tls(|_| refusal(401, "Unauthorized", "Unauthorized"));
    let directory = tempfile::tempdir().unwrap();
    let user = plugin(directory.path(), r#"echo '{"token":"old"}'"#);
    let error = shown(read(&options_as(&server, directory.path(), user), &agent()).unwrap_err());
    assert!(error.starts_with("You must be logged in to the server (Unauthorized)"), "{error}");
}

#[test]
fn a_plugin_that_fails_to_renew_a_rejected_token_is_reported() {
    let server = Server::start_tls(|_| refusal(401, "Unauthorized", "Unauthorized"));
    let directory = tempfile::tempdir().unwrap();
    let user = plugin(directory.path(), r#"[ "$run" = 1 ] || exit 7; echo '{"token":"old"}'"#);
    let error = shown(read(&options_as(&server, directory.path(), user), &agent()).unwrap_err());
    assert!(error.starts_with("getting credentials: exec: executable sh failed with exit code 7\n"), "{error}");
}

#[test]
fn a_client_certificate_that_a_plugin_renews_is_presented() {
    let der = |name: &str| {
        use rustls::pki_types::CertificateDer;
        use rustls::pki_types::pem::PemObject;
        CertificateDer::from_pem_file(fixture(name)).unwrap().to_vec()
    };
    let (first, second) = (der("client-version-1.crt"), der("server.crt"));
    let renewed = second.clone();
    let server = Server::start_tls(move |asked| {
        if asked.path().ends_with("/agent") || asked.certificate.as_ref() == Some(&renewed) {
            cluster(asked)
        } else {
            refusal(401, "Unauthorized", "Unauthorized")
        }
    });
    let directory = tempfile::tempdir().unwrap();
    for (run, name) in [(1, "client-version-1"), (2, "server")] {
        let read = |extension: &str| fs::read_to_string(fixture(&format!("{name}.{extension}"))).unwrap();
        let status = serde_json::json!({"clientCertificateData": read("crt"), "clientKeyData": read("key")});
        fs::write(directory.path().join(run.to_string()), status.to_string()).unwrap();
    }
    let options = options_as(&server, directory.path(), plugin(directory.path(), "cat $run"));
    read(&options, &agent()).unwrap();
    assert_eq!(server.asked()[0].certificate, Some(first));
    assert!(server.asked().iter().filter(|asked| asked.certificate.as_ref() == Some(&second)).count() > 3);
    assert_eq!(runs(directory.path()), 2);
}

#[test]
fn user_and_password_of_the_servers_address_are_sent_and_never_shown() {
    let server = Server::start_tls(cluster);
    let options =
        ConnectOptions { server: Some(format!("https://ann:secret@{}", server.address)), ..options_tls(&server) };
    read(&options, &agent()).unwrap();
    assert!(server.asked().iter().all(|asked| asked.header("authorization") == "Basic YW5uOnNlY3JldA=="));
    for server in [format!("https://ann:secret@{}", closed_port()), "https://ann:secret@no such host".to_owned()] {
        let options = ConnectOptions { server: Some(server), ..ConnectOptions::default() };
        let error = shown(read(&options, &agent()).unwrap_err());
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn text_from_a_server_cannot_pass_for_a_hint() {
    let server = Server::start(|_| refusal(403, "Forbidden", "no\nhint: run `rm -rf /`\n    → do it: x\nerror: no"));
    let error = shown(read(&options(&server), &agent()).unwrap_err());
    let lines: Vec<&str> = error.lines().skip(1).collect();
    assert_eq!(lines, ["  | hint: run `rm -rf /`", "  |     → do it: x", "  | error: no"]);
}

#[test]
fn a_body_that_trickles_ends_at_the_request_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n");
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let options = ConnectOptions {
        server: Some(format!("http://{address}")),
        request_timeout: Some(Duration::from_millis(300)),
        ..ConnectOptions::default()
    };
    assert_eq!(CommandError::from(read(&options, &agent()).unwrap_err()).exit, Exit::TimedOut);
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
    let options = ConnectOptions { request_timeout: Some(Duration::from_millis(300)), ..options(&server) };
    let start = Instant::now();
    let error = read(&options, &agent()).unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(CommandError::from(error.clone()).exit, Exit::TimedOut);
    assert_eq!(
        shown(error),
        format!(
            "Unable to connect to the server: {}: the response was incomplete after 0.3 s (--request-timeout)\n\
             hint: check that the server can be reached from here, or increase --request-timeout",
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

#[test]
fn a_token_that_a_header_cannot_carry_is_refused() {
    let server = Server::start_tls(cluster);
    for token in ["se\ncret", "secret\n", "se\u{7}cret"] {
        let options = ConnectOptions { token: Some(token.to_owned()), ..options_tls(&server) };
        let error = shown(read(&options, &agent()).unwrap_err());
        assert_eq!(
            error,
            "invalid bearer token: it contains a line break or another control character\n\
             hint: check --token and the user's token in the kubeconfig"
        );
    }
    assert!(server.asked().is_empty());
}

#[test]
fn version_warns_of_a_server_that_is_much_newer_than_the_rules() {
    for (version, is_warned_of) in [("v1.33.9", false), ("v1.38.0", false), ("v1.39.0-eks-1", true), ("unknown", false)]
    {
        let body = format!(r#"{{"gitVersion":"{version}"}}"#);
        let server = Server::start(move |_| Reply::of(200, "application/json", body.clone()));
        let address = format!("http://{}", server.address);
        let Ended { out, err, .. } = end(kubectl_ds(&["version", "--server", &address]), None);
        assert!(out.ends_with(&format!("Server Version: {version}\n")), "{out}{err}");
        assert_eq!(
            err.contains(&format!("warning: the server is {version}, the rules are those of Kubernetes v1.37.2;")),
            is_warned_of,
            "{err}"
        );
    }
}

#[test]
fn an_answer_that_is_not_http_is_told_from_no_answer() {
    let server = Server::start(|asked| cluster(asked).with("warning", "299 - \"\u{1b}[31mold\""));
    let error = read(&options(&server), &agent()).unwrap_err().to_string();
    let expected = format!("the answer of the server {} is not valid HTTP: ", server.address);
    assert!(error.starts_with(&expected), "{error}");
}
