//! `version`.

use super::run;

#[test]
fn data_has_the_version_of_the_package() {
    let json: serde_json::Value = serde_json::from_str(&run(&["version", "--client", "-o", "json"]).out).unwrap();
    assert_eq!(json["clientVersion"], concat!("v", env!("CARGO_PKG_VERSION")));
    // Only a release has been built from a commit as it is.
    assert_eq!(json.get("gitCommit"), None);
}
