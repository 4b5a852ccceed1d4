//! `list`, and plain `kubectl ds`.

use super::{FAULTY_CLUSTER, SHOP, end, kubectl_ds, on_shop, run};

#[test]
fn no_subcommand_means_list() {
    let plain = run(&["--from", SHOP]);
    assert_eq!(plain.out, run(&["list", "--from", SHOP]).out);
    assert_eq!(run(&["-A", "-o", "name", "--from", SHOP]).out, run(&["list", "-o", "name", "--from", SHOP]).out);
}

#[test]
fn data_carries_what_the_table_shows() {
    let json: serde_json::Value = serde_json::from_str(&on_shop(&["list", "-o", "json"])).unwrap();
    let agent = &json["daemonSets"][0];
    assert_eq!(
        (&json["kind"], &agent["name"], &agent["counts"]["available"], &agent["counts"]["missing"], &agent["strategy"]),
        (&"ListReport".into(), &"agent".into(), &2.into(), &1.into(), &"RollingUpdate 10%".into())
    );
    let yaml: serde_json::Value = serde_saphyr::from_str(&on_shop(&["list", "-o", "yaml"])).unwrap();
    assert_eq!(yaml, json);
}

#[test]
fn a_long_list_is_cut_after_the_unhealthy() {
    let short = run(&["list", "--from", FAULTY_CLUSTER]).out;
    let all = run(&["list", "--all", "--from", FAULTY_CLUSTER]).out;
    assert!(all.lines().count() > short.lines().count());
}

#[test]
fn output_to_a_pipe_is_complete() {
    let piped = |arguments: &[&str]| {
        let mut command = kubectl_ds(&[arguments, &["--from", FAULTY_CLUSTER]].concat());
        command.env_remove("COLUMNS");
        end(command, None).out
    };
    assert!(!piped(&["list"]).contains("(--all)"));
    let wide = piped(&["coverage", "-o", "wide"]);
    let is_cut =
        |line: &str| line.split_once(" more").is_some_and(|(before, _)| before.ends_with(|c: char| c.is_ascii_digit()));
    assert!(!wide.lines().any(is_cut), "{wide}");
}

#[cfg(unix)]
#[test]
fn a_terminal_that_reports_no_rows_keeps_its_columns() {
    use std::fs::File;
    use std::io::Read;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{Winsize, tcsetwinsize};

    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let screen = File::options().read(true).write(true).open(name).unwrap();
    tcsetwinsize(&screen, Winsize { ws_row: 0, ws_col: 64, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let mut command = kubectl_ds(&["list", "--from", SHOP, "--color", "never"]);
    let status = command.env_remove("COLUMNS").stdout(screen.try_clone().unwrap()).status().unwrap();
    assert!(status.success());
    drop((command, screen));
    // Once the other end is closed, Linux ends the reading with an error.
    let mut shown = Vec::new();
    let _ = File::from(terminal).read_to_end(&mut shown);
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("PROBLEM") && shown.lines().all(|line| line.chars().count() <= 64), "{shown}");
}
