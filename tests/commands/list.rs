//! `list`, and plain `kubectl ds`.

use super::{SHOP, end, kubectl_ds, on_shop, run};

#[test]
fn those_in_trouble_come_first() {
    assert_eq!(
        on_shop(&["list"]),
        "\
NAMESPACE   NAME      AVAILABLE   OUTDATED   TROUBLE
shop        agent     2/5                0   1 QuotaExceeded, 1 HostPortConflic…
shop        fine      2/2                0
shop        nowhere   0/0                0
"
    );
}

#[test]
fn a_wide_screen_gets_every_column() {
    let mut command = kubectl_ds(&["list", "--from", SHOP]);
    command.env("COLUMNS", "160");
    assert_eq!(
        end(command).out,
        "\
NAMESPACE   NAME      ELIGIBLE   AVAILABLE   MISSING   MISSCHEDULED   OUTDATED   STRATEGY            TROUBLE
shop        agent            5           2         1              0          0   RollingUpdate 10%   1 QuotaExceeded, 1 HostPortConflict, +1 more
shop        fine             2           2         0              0          0   RollingUpdate 1
shop        nowhere          0           0         0              0          0   OnDelete
"
    );
}

#[test]
fn no_subcommand_means_list() {
    let plain = run(&["--from", SHOP]);
    assert_eq!(plain.out, run(&["list", "--from", SHOP]).out);
    assert_eq!(run(&["-A", "-o", "name", "--from", SHOP]).out, run(&["list", "-o", "name", "--from", SHOP]).out);
}

#[test]
fn a_namespace_that_is_named_is_no_column() {
    assert!(on_shop(&["list", "-n", "shop"]).starts_with("NAME      AVAILABLE"));
}

#[test]
fn names_and_selectors_are_kubectls() {
    assert_eq!(on_shop(&["list", "-o", "name"]), "daemonset.apps/agent\ndaemonset.apps/fine\ndaemonset.apps/nowhere\n");
    assert_eq!(on_shop(&["list", "-o", "name", "-l", "app=agent"]), "daemonset.apps/agent\n");
}

#[test]
fn data_carries_what_the_table_shows() {
    let json: serde_json::Value = serde_json::from_str(&on_shop(&["list", "-o", "json"])).unwrap();
    let agent = &json["daemonSets"][0];
    assert_eq!(
        (&json["kind"], &agent["name"], &agent["available"], &agent["missing"], &agent["strategy"]),
        (&"ListReport".into(), &"agent".into(), &2.into(), &1.into(), &"RollingUpdate 10%".into())
    );
    let yaml: serde_json::Value = serde_saphyr::from_str(&on_shop(&["list", "-o", "yaml"])).unwrap();
    assert_eq!(yaml, json);
}

#[test]
fn wide_adds_ages_images_and_node_selectors() {
    let wide = on_shop(&["list", "-o", "wide"]);
    for word in ["19d", "example.com/agent:2", "disk=ssd", "CrashLooping"] {
        assert!(wide.contains(word), "{word} is missing in\n{wide}");
    }
}

#[test]
fn a_long_fleet_is_cut_after_those_in_trouble() {
    let demo = run(&["list", "--from", "demo"]).out;
    assert!(demo.contains(" more without trouble (--all shows them)"), "{demo}");
    let all = run(&["list", "--all", "--from", "demo"]).out;
    assert!(!all.contains(" more without trouble"), "{all}");
    assert!(all.lines().count() > demo.lines().count());
}

#[test]
fn nothing_found_is_said_on_standard_error() {
    let ended = run(&["list", "-n", "empty", "--from", SHOP]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""));
    assert_eq!(ended.err, "No DaemonSets found in empty namespace.\n");
}
