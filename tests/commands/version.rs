//! `version`.

use super::{failure, run};

#[test]
fn the_version_and_that_of_the_rules_are_said() {
    let ended = run(&["version", "--client"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert_eq!(ended.out, concat!("Client Version: v", env!("CARGO_PKG_VERSION"), "\nKubernetes rules: v1.36.3\n"));
    // A dump has no server.
    assert_eq!(run(&["version", "--from", super::SHOP]).out, ended.out);
}

#[test]
fn the_version_can_be_had_as_data() {
    let json: serde_json::Value = serde_json::from_str(&run(&["version", "--client", "-o", "json"]).out).unwrap();
    assert_eq!(json["clientVersion"], concat!("v", env!("CARGO_PKG_VERSION")));
    assert_eq!(run(&["version", "--client", "-o", "yaml"]).out.lines().count(), 2);
}

#[test]
fn tables_of_versions_are_refused() {
    let (code, err) = failure(&["version", "-o", "wide"]);
    assert_eq!((code, err.as_str()), (Some(2), "error: version prints -o json or -o yaml only\n"));
}

#[test]
fn a_server_that_cannot_be_asked_does_not_hide_the_rest() {
    let ended = run(&["version", "--server", "http://127.0.0.1:1"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.out.starts_with("Client Version: v"), "{}", ended.out);
    assert!(ended.err.starts_with("The connection to the server 127.0.0.1:1 was refused"), "{}", ended.err);
}
