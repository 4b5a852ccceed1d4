//! `coverage`.

use super::{NOW, SHOP, end, kubectl_ds, on_shop};

#[test]
fn data_has_every_node_and_a_reason_for_each_that_is_not_available() {
    let json: serde_json::Value = serde_json::from_str(&on_shop(&["coverage", "-o", "json"])).unwrap();
    assert_eq!((&json["apiVersion"], &json["kind"]), (&"kubectl-ds/v1".into(), &"CoverageReport".into()));
    for daemon_set in json["daemonSets"].as_array().unwrap() {
        let nodes = daemon_set["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), 6);
        for node in nodes {
            let reasons = node["reasons"].as_array().unwrap();
            assert_eq!(node["state"] == "Available", reasons.is_empty(), "{node}");
        }
    }
    let yaml: serde_json::Value = serde_saphyr::from_str(&on_shop(&["coverage", "-o", "yaml"])).unwrap();
    assert_eq!(yaml, json);
}

#[test]
fn a_locale_without_unicode_gets_ascii() {
    for arguments in [["coverage"].as_slice(), &["coverage", "agent", "--node", "node-c"], &["coverage", "--nodes"]] {
        let ascii = on_shop(&[arguments, &["--ascii"]].concat());
        assert!(ascii.is_ascii(), "{ascii}");
        let mut command = kubectl_ds(&[arguments, &["--from", SHOP, "--now", NOW]].concat());
        command.env("LANG", "C");
        assert_eq!(end(command, None).out, ascii);
    }
}

#[test]
fn color_only_adds_to_the_text() {
    let plain = on_shop(&["coverage"]);
    let colored = on_shop(&["coverage", "--color", "always"]);
    assert!(!plain.contains('\u{1b}') && colored.contains('\u{1b}'));
    assert_eq!(anstream::adapter::strip_str(&colored).to_string(), plain);
    let mut command = kubectl_ds(&["coverage", "--from", SHOP, "--now", NOW]);
    command.env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1");
    assert_eq!(end(command, None).out, plain);
}
