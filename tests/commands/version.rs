//! `version`.

use super::{failure, run};

#[test]
fn the_version_and_that_of_the_rules_are_said() {
    let ended = run(&["version"]);
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.out, concat!("Client Version: v", env!("CARGO_PKG_VERSION"), "\nKubernetes rules: v1.36.3\n"));
    assert_eq!(run(&["version", "--client"]).out, ended.out);
}

#[test]
fn the_version_can_be_had_as_data() {
    let json: serde_json::Value = serde_json::from_str(&run(&["version", "-o", "json"]).out).unwrap();
    assert_eq!(json["clientVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["version", "-o", "yaml"]).out.lines().count(), 2);
}

#[test]
fn tables_of_versions_are_refused() {
    let (code, err) = failure(&["version", "-o", "wide"]);
    assert_eq!((code, err.as_str()), (Some(2), "error: version prints -o json or -o yaml only\n"));
}
