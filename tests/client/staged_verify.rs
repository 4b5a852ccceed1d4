//! The command of `--verify`, and output that nobody reads.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write, pipe};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::server::Server;
use super::staged_faults::Cluster;
use crate::screens::{end, kubectl_ds};

const PATIENCE: Duration = Duration::from_secs(60);

fn serve() -> (Arc<Cluster>, Server) {
    let cluster = Cluster::new();
    let kept = cluster.clone();
    (cluster, Server::start(move |asked| kept.answer(asked)))
}

fn partition(server: &Server, arguments: &[&str]) -> Command {
    let address = format!("http://{}", server.address);
    let command = ["partition", "agent", "-n", "team", "--image=agent=agent:2", "--server", &address];
    let mut command = kubectl_ds(&[&command[..], arguments].concat());
    command.env("PATH", "/usr/bin:/bin");
    command
}

#[test]
fn the_exit_of_the_command_decides_although_what_it_has_started_holds_its_output_open() {
    let (cluster, server) = serve();
    // It lives as long as the program.
    let background = "(while kill -0 $PPID 2>/dev/null; do sleep 0.2; done) & echo checked";
    let ended = end(partition(&server, &["0", "--progress-deadline=20s", "--verify", background]), None);
    assert_eq!(ended.code, Some(0), "{} {}", ended.out, ended.err);
    assert_eq!(ended.err.matches("checked\n").count(), 2, "{}", ended.err);
    assert!(!cluster.is_suspended());
    let failed = end(
        partition(&serve().1, &["0", "--progress-deadline=20s", "--verify", &format!("{background}; false")]),
        None,
    );
    assert_eq!(failed.code, Some(3), "{} {}", failed.out, failed.err);
    assert!(failed.out.contains("the --verify command failed"), "{}", failed.out);
}

#[test]
fn what_the_command_prints_is_passed_on_and_not_kept() {
    let (_, server) = serve();
    let verify = ["--update=1", "--verify", "head -c 700000000 /dev/zero"];
    let program = partition(&server, &verify);
    let mut limited = Command::new("/bin/sh");
    limited.args(["-c", "ulimit -v 600000; exec \"$0\" \"$@\""]).arg(program.get_program()).args(program.get_args());
    limited.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).stderr(Stdio::null());
    let output = limited.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn an_interruption_of_the_command_tells_how_to_continue() {
    let (_, server) = serve();
    let mut command = partition(&server, &["0", "--verify", "echo checking; sleep 60"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    errors.by_ref().find(|line| line.as_ref().unwrap() == "checking").unwrap().unwrap();
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let rest: Vec<String> = errors.map_while(Result::ok).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    let hint = "hint: the update strategy stays suspended; to continue: kubectl ds partition -n team ";
    let command = rest.iter().find_map(|line| line.strip_prefix(hint)).unwrap_or_else(|| panic!("{rest:?}"));
    assert!(command.contains("--verify 'echo checking; sleep 60' ") && command.ends_with(" agent 0"), "{command}");
}

#[test]
fn a_command_that_is_empty_is_a_mistake() {
    let (cluster, server) = serve();
    for empty in ["", " \n"] {
        let ended = end(partition(&server, &["0", "--verify", empty]), None);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{}", ended.err);
        assert!(ended.err.contains("--verify needs a command"), "{}", ended.err);
    }
    assert!(!cluster.is_suspended());
}

#[test]
#[cfg(target_os = "linux")]
fn a_stage_whose_report_cannot_be_written_is_reported_nevertheless() {
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    for (arguments, code, says) in [
        (&["0", "-o", "json"][..], 6, "2 nodes on revision 2, 0 on other revisions"),
        (&["--update=1", "-o", "json"], 6, "1 node on revision 2, 1 on other revisions"),
        (&["0", "-o", "json", "--verify=false"], 3, "stopped after 1 node"),
    ] {
        let (_, server) = serve();
        let output = partition(&server, arguments).stdout(full()).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
        assert!(err.contains(says) && err.contains("the output cannot be written"), "{arguments:?}: {err}");
    }
    // Nothing is done unseen.
    let (cluster, server) = serve();
    let output = partition(&server, &["0"]).stdout(full()).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!cluster.is_suspended() && String::from_utf8_lossy(&cluster.object()).contains("agent:1"));
}

/// The change is reported by then, so that nothing has to be waited for.
#[test]
fn an_interruption_ends_a_watch_into_a_blocked_pipe_at_once() {
    let (is_patched, (sender, receiver)) = (AtomicBool::new(false), channel::<()>());
    let receiver = Mutex::new(receiver);
    let cluster = Cluster::new();
    let server = Server::start(move |asked| {
        is_patched.fetch_or(asked.method == "PATCH", Ordering::SeqCst);
        if is_patched.load(Ordering::SeqCst) && asked.path().ends_with("/pods") {
            // Once it is sent, or the test has ended.
            let _ = receiver.lock().unwrap().recv_timeout(PATIENCE);
        }
        cluster.answer(asked)
    });
    let address = format!("http://{}", server.address);
    let (reader, writer) = pipe().unwrap();
    let mut filler = writer.try_clone().unwrap();
    let arguments = ["set", "agent", "-n", "team", "--max-unavailable=2", "--watch", "--server", &address];
    let mut command = kubectl_ds(&arguments);
    let mut child = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    let mut lines = BufReader::new(reader).lines();
    lines.by_ref().find(|line| line.as_ref().unwrap().contains("daemonset.apps/agent updated")).unwrap().unwrap();
    // It blocks, too, and ends with the reader.
    thread::spawn(move || drop(filler.write_all(&vec![b'.'; 1 << 20])));
    thread::sleep(Duration::from_millis(500));
    drop(sender);
    thread::sleep(Duration::from_millis(1_500));
    let start = Instant::now();
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}
