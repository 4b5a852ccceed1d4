//! `logs` against a server with logs chosen by the test: which logs are requested, what is shown, and the limits.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use kubectl_ds::model::pod::Pod;
use serde_json::{from_value, json};

use super::server::{Asked, JSON, Reply, Server};
use super::{absent, cluster, daemon_set, json_list, node, protobuf_list, refusal};
use crate::screens::{Ended, end, kubectl_ds};

/// A pod of the DaemonSet `agent` whose container crashes after an init container has completed.
fn crashing(number: usize) -> Pod {
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "uid-of-agent", "controller": true});
    from_value(json!({
        "metadata": {"name": format!("agent-{number}"), "namespace": "team", "uid": format!("uid-{number}"),
            "labels": {"app": "agent"}, "ownerReferences": [owner]},
        "spec": {"nodeName": format!("n{number}"), "initContainers": [{"name": "setup"}],
            "containers": [{"name": "proxy"}, {"name": "main"}]},
        "status": {"phase": "Running",
            "initContainerStatuses": [{"name": "setup", "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [{"name": "proxy", "ready": true, "state": {"running": {}}},
                {"name": "main", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]},
    }))
    .unwrap()
}

/// Starts a cluster with crashing pods, which answers a request for the log of one of them, by its number.
fn serve(pods: usize, log: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static) -> Server {
    Server::start(move |asked: &Asked| {
        let of = asked.path().strip_prefix("/api/v1/namespaces/team/pods/agent-");
        if let Some(number) = of.and_then(|of| of.strip_suffix("/log")) {
            return log(asked, number.parse().unwrap());
        }
        match asked.path() {
            "/api/v1/nodes" => {
                protobuf_list("NodeList", &(0..pods).map(|at| node(&format!("n{at}"))).collect::<Vec<_>>(), "")
            }
            "/api/v1/pods" | "/api/v1/namespaces/team/pods" => {
                protobuf_list("PodList", &(0..pods).map(crashing).collect::<Vec<_>>(), "")
            }
            _ => cluster(asked),
        }
    })
}

fn text(lines: impl Into<Vec<u8>>) -> Reply {
    Reply::of(200, "text/plain", lines)
}

fn arguments(server: &Server, arguments: &[&str]) -> Vec<String> {
    let own = ["logs", "agent", "-n", "team", "--server"].map(str::to_owned);
    own.into_iter()
        .chain([format!("http://{}", server.address)])
        .chain(arguments.iter().map(|it| (*it).to_owned()))
        .collect()
}

fn run(server: &Server, given: &[&str]) -> Ended {
    end(kubectl_ds(&arguments(server, given)), None)
}

/// Returns the queries of the requests for logs.
fn requested(server: &Server) -> Vec<String> {
    let logs = server.asked().into_iter().filter(|asked| asked.path().ends_with("/log"));
    logs.map(|asked| asked.target.split_once('?').unwrap().1.to_owned()).collect()
}

#[test]
fn equal_lines_are_shown_once_with_their_nodes_and_the_odd_ones_after() {
    let server = serve(6, |_, number| {
        let odd = if number == 4 { "disk is full\n" } else { "" };
        text(format!("10:00:0{number} start on n{number}\n{odd}Error: scap_init failed after {number} ms\n"))
    });
    let ended = run(&server, &["--reason", "CrashLooping"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let expected = "on 6 nodes: n0, n1, n2, n3, n4, n5\n    10:00:00 start on n0\n    Error: scap_init failed after 0 ms\n\n\
        only on n4\n    disk is full\n";
    // Which of the equal lines is shown depends on which log was read first.
    let shown: String = ended.out.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let expected: String = expected.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shown, expected);
    let queries = requested(&server);
    assert_eq!(queries.len(), 6);
    assert!(
        queries.iter().all(|query| query == "container=main&previous=true&follow=false&tailLines=21"),
        "{queries:?}"
    );
}

#[test]
fn the_log_of_one_pod_is_shown_as_it_is_but_steers_no_terminal() {
    let server =
        serve(1, |_, _| text("\u{1b}[31mred\u{1b}[0m\r\n\u{1b}]0;title\u{7}\n\u{1b}[2Jgone\n\nagain\nagain\n"));
    let ended = run(&server, &["--node", "n0", "-c", "proxy", "--since", "5m", "--tail", "7"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert_eq!(ended.out, "red\n\\u{1b}]0;title\\u{7}\n\\u{1b}[2Jgone\n\nagain\nagain\n");
    assert_eq!(requested(&server), ["container=proxy&previous=false&follow=false&tailLines=8&sinceSeconds=300"]);
    run(&server, &["--node", "n0"]);
    assert_eq!(requested(&server)[1], "container=main&previous=true&follow=false&tailLines=60001");
}

/// Only lines of several pods are folded.
#[test]
fn the_report_of_one_log_has_all_of_its_lines() {
    let server = serve(1, |_, _| text("Error 8\nError 9\n\nError 9\n"));
    let ended = run(&server, &["--node", "n0", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let expected = json!([{"daemonSets": [{"namespace": "team", "name": "agent", "nodes": ["n0"]}], "lines": ["Error 8", "Error 9", "", "Error 9"]}]);
    assert_eq!(report["blocks"], expected, "{}", ended.err);
}

/// What keeps pods from being evicted explains nodes, not logs.
#[test]
fn logs_do_not_read_what_keeps_nodes_from_being_drained() {
    let server = Server::start(|asked: &Asked| match asked.path() {
        "/api/v1/nodes" => {
            let mut stuck = node("n0");
            let taint = json!({"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"});
            stuck.spec.taints = from_value(json!([taint])).unwrap();
            protobuf_list("NodeList", &[stuck, node("n1")], "")
        }
        "/api/v1/pods" | "/api/v1/namespaces/team/pods" => protobuf_list("PodList", &[crashing(0), crashing(1)], ""),
        path if path.ends_with("/log") => text("boom\n"),
        _ => cluster(asked),
    });
    let ended = run(&server, &["--reason", "CrashLooping"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "boom\n"), "{}", ended.err);
    let asked: Vec<String> = server.asked().into_iter().map(|asked| asked.target).collect();
    assert!(!asked.iter().any(|target| target.contains("poddisruptionbudgets")), "{asked:#?}");
    assert!(!asked.iter().any(|target| target.contains("spec.nodeName")), "{asked:#?}");
}

#[test]
fn without_a_previous_run_the_current_one_is_read() {
    let server = serve(1, |asked, _| match asked.target.contains("previous=true") {
        true => refusal(400, "BadRequest", "previous terminated container \"main\" in pod \"agent-0\" not found"),
        false => text("current\n"),
    });
    let ended = run(&server, &["--node", "n0", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&report["logs"][0]["previous"], &report["blocks"][0]["lines"]), (&json!(false), &json!(["current"])));
}

#[test]
fn a_pod_that_went_away_is_told_and_the_others_are_shown() {
    let server = serve(3, |asked, number| match number {
        1 => absent(asked.path().strip_suffix("/log").unwrap()),
        _ => text("boom\n"),
    });
    let ended = run(&server, &["--state", "Starting", "--state", "NotReady"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "on 2 nodes: n0, n2\n    boom\n"));
    assert!(ended.err.starts_with("warning: the log of pod agent-1 on n1 could not be read: "), "{}", ended.err);
}

/// A proxy answers with 200 as well.
#[test]
fn the_page_of_a_proxy_is_no_log() {
    for media in ["text/html", "application/json", ""] {
        let server = serve(1, |_, _| Reply::of(200, media, "<html>sign in</html>"));
        for flags in [&[][..], &["--follow"]] {
            let ended = run(&server, &[&["--node", "n0"], flags].concat());
            assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{media} {flags:?}");
            assert!(ended.err.contains(&format!("it is of type \"{media}\", not text/plain")), "{}", ended.err);
        }
    }
}

#[test]
fn of_a_log_that_breaks_off_is_shown_what_was_read() {
    let server = serve(2, |_, number| Reply { cut: number == 0, ..text("first\nlast!\n") });
    let ended = run(&server, &["--node", "n0"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), "first\nlast!\n"));
    let warning = "warning: the log of pod agent-0 on n0 could not be read: its end is missing (";
    assert!(ended.err.starts_with(warning), "{}", ended.err);
    let ended = run(&server, &["--reason", "CrashLooping"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "on 2 nodes: n0, n1\n    first\n    last!\n"));
    assert!(ended.err.starts_with(warning), "{}", ended.err);
}

#[test]
fn a_missing_permission_is_an_error_that_names_it() {
    let server = serve(3, |_, number| {
        let message = format!("pods \"agent-{number}\" is forbidden: User \"jane\" cannot get resource \"pods/log\"");
        refusal(403, "Forbidden", &message)
    });
    let ended = run(&server, &["--reason", "CrashLooping"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert!(ended.err.starts_with("Error from server (Forbidden): pods \"agent-"), "{}", ended.err);
    assert!(ended.err.contains("\"pods/log\"") && ended.err.contains("auth can-i --list"), "{}", ended.err);
}

/// While surging, a node has an available pod and one that fails.
#[test]
fn by_default_the_pods_that_are_not_available_are_chosen_and_not_their_nodes() {
    let server = Server::start(|asked: &Asked| match asked.path() {
        "/api/v1/nodes" => protobuf_list("NodeList", &[node("n0")], ""),
        "/api/v1/pods" | "/api/v1/namespaces/team/pods" => {
            let mut old = crashing(0);
            "agent-old".clone_into(&mut old.metadata.name);
            "uid-old".clone_into(&mut old.metadata.uid);
            let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            old.status = from_value(ready).unwrap();
            protobuf_list("PodList", &[old, crashing(0)], "")
        }
        path if path.ends_with("/log") => text("no such file\n"),
        _ => cluster(asked),
    });
    let ended = run(&server, &[]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "no such file\n"), "{}", ended.err);
    let logs: Vec<String> = server.asked().iter().map(|asked| asked.path().to_owned()).collect();
    assert!(!logs.iter().any(|path| path.ends_with("agent-old/log")), "{logs:?}");
}

#[test]
fn pods_that_could_not_be_read_are_not_called_available() {
    let server = Server::start(|asked: &Asked| match asked.path() {
        "/api/v1/pods" | "/api/v1/namespaces/team/pods" => refusal(403, "Forbidden", "pods is forbidden"),
        _ => cluster(asked),
    });
    let ended = run(&server, &[]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert!(ended.err.starts_with("error: which pods of team/agent to choose is not known: "), "{}", ended.err);
    assert!(ended.err.contains("list pods"), "{}", ended.err);
}

#[test]
fn no_more_than_eight_logs_are_read_at_a_time() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, noted) = (now.clone(), most.clone());
    let server = serve(30, move |_, _| {
        noted.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(30));
        counted.fetch_sub(1, Ordering::SeqCst);
        text("boom\n")
    });
    assert_eq!(run(&server, &["--reason", "CrashLooping"]).code, Some(0));
    let most = most.load(Ordering::SeqCst);
    assert!((4..=8).contains(&most), "{most}");
}

/// Returns how much memory a process has beside its program, which is large where it is not optimized, in kilobytes.
#[cfg(target_os = "linux")]
fn memory(pid: u32) -> Option<usize> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().split(' ').next()?.parse().ok()
}

#[cfg(target_os = "linux")]
#[test]
fn forty_pods_that_log_much_take_less_than_30_mb() {
    // Every line is another one, and they are short, which takes most memory.
    let letters = |number: usize| [number / 26 % 26, number % 26].map(|letter| b'a' + u8::try_from(letter).unwrap());
    for width in [10, 300] {
        let line = |at: usize| {
            let mut line = vec![b' '; width];
            line[width - 4..].copy_from_slice(&[letters(at / 676), letters(at)].concat());
            line.push(b'\n');
            line
        };
        let log: Vec<u8> = (0..4_000_000 / width).flat_map(line).collect();
        let server = serve(40, move |_, number| {
            let mut log = log.clone();
            log.chunks_mut(width + 1).for_each(|line| line[width - 6..width - 4].copy_from_slice(&letters(number)));
            text(log)
        });
        let mut command = kubectl_ds(&arguments(&server, &["--reason", "CrashLooping", "--tail", "-1"]));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let most = Arc::new(Mutex::new(0));
        let noted = most.clone();
        let watch = thread::spawn(move || {
            while let Some(now) = memory(pid) {
                let mut most = noted.lock().unwrap();
                *most = now.max(*most);
                drop(most);
                thread::sleep(Duration::from_millis(5));
            }
        });
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().count();
        let output = child.wait_with_output().unwrap();
        watch.join().unwrap();
        assert!(output.status.success(), "{output:?}");
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(err.contains("of 40 long logs only the end is shown"), "{err}");
        let most = *most.lock().unwrap() / 1024;
        assert!(lines > 20_000 && most < 30, "{lines} lines, {most} MB");
    }
}

#[test]
fn what_is_followed_comes_with_its_node_until_the_pods_end() {
    let (reply, sender) = Reply::open("text/plain");
    let server = serve(2, move |_, number| if number == 0 { text("from the first\n") } else { reply.clone() });
    let mut command = kubectl_ds(&arguments(&server, &["--reason", "CrashLooping", "-f"]));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "n0 from the first");
    for piece in ["o", "ne\ntwo\nthr"] {
        sender.send(piece.as_bytes().to_vec()).unwrap();
    }
    assert_eq!(lines.next().unwrap().unwrap(), "n1 one");
    assert_eq!(lines.next().unwrap().unwrap(), "n1 two");
    drop(sender);
    assert_eq!(lines.next().unwrap().unwrap(), "n1 thr");
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(err, "warning: the log of pod agent-0 on n0 ended\nwarning: the log of pod agent-1 on n1 ended\n");
    assert_eq!(output.status.code(), Some(0));
    assert!(requested(&server).iter().all(|query| query == "container=main&previous=false&follow=true&tailLines=20"));
}

/// Starts a cluster with two DaemonSets, of which `proxy` has a pod that crashes on each of `pods` nodes, and `agent` one.
fn serve_two(pods: usize) -> Server {
    Server::start(move |asked: &Asked| match asked.path() {
        path if path.ends_with("/daemonsets") => json_list(path, &[daemon_set("agent"), daemon_set("proxy")]),
        "/apis/apps/v1/namespaces/team/daemonsets/proxy" => Reply::of(200, JSON, daemon_set("proxy").to_string()),
        "/api/v1/nodes" => {
            protobuf_list("NodeList", &(0..pods).map(|at| node(&format!("n{at}"))).collect::<Vec<_>>(), "")
        }
        "/api/v1/pods" | "/api/v1/namespaces/team/pods" => {
            let of_proxy = |at| {
                let mut pod = serde_json::to_value(crashing(at)).unwrap();
                pod["metadata"]["name"] = format!("proxy-{at}").into();
                pod["metadata"]["uid"] = format!("uid-of-proxy-{at}").into();
                pod["metadata"]["labels"] = json!({"app": "proxy"});
                pod["metadata"]["ownerReferences"][0]["name"] = "proxy".into();
                pod["metadata"]["ownerReferences"][0]["uid"] = "uid-of-proxy".into();
                from_value::<Pod>(pod).unwrap()
            };
            let pods: Vec<Pod> = [crashing(0)].into_iter().chain((0..pods).map(of_proxy)).collect();
            protobuf_list("PodList", &pods, "")
        }
        path if path.ends_with("/log") => text("refused\n"),
        _ => cluster(asked),
    })
}

#[test]
fn of_several_daemon_sets_equal_lines_are_folded_and_those_that_are_followed_come_with_their_names() {
    let server = serve_two(2);
    let address = format!("http://{}", server.address);
    let ended = |given: &[&str]| {
        let ended = end(kubectl_ds(&[&["logs", "--server", &address], given].concat()), None);
        assert_eq!(ended.code, Some(0), "{given:?}: {}", ended.err);
        ended.out
    };
    let folded = "team/agent on n0\nteam/proxy on 2 nodes: n0, n1\n    refused\n";
    for given in [&["-A", "--reason", "CrashLooping"][..], &["-n", "team"], &["agent", "proxy", "-n", "team"]] {
        assert_eq!(ended(given), folded, "{given:?}");
    }
    assert_eq!(ended(&["--node", "n1"]), "team/proxy on n1\n    refused\n");
    let followed = ended(&["-A", "--follow"]);
    let mut lines: Vec<&str> = followed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["n0 agent refused", "n0 proxy refused", "n1 proxy refused"]);
}

#[test]
fn no_more_than_200_logs_are_requested() {
    let server = serve_two(300);
    let ended = end(kubectl_ds(&["logs", "-A", "--server", &format!("http://{}", server.address)]), None);
    assert_eq!(requested(&server).len(), 200);
    assert!(ended.out.starts_with("team/agent on n0\nteam/proxy on 199 nodes: n0, n1, "), "{}", ended.out);
    let expected = "warning: of 301 pods that match, the logs of 200 were read, spread over DaemonSets and reasons;";
    assert_eq!((ended.code, ended.err.starts_with(expected)), (Some(0), true), "{}", ended.err);
}

/// They are cut between characters, and lose none.
#[test]
fn long_lines_that_are_followed_come_in_pieces_and_whole() {
    let long = ["0".repeat(1 << 16), "1".repeat(1 << 16), format!("2{}", "\u{20ac}".repeat(1 << 16))].concat();
    let log = format!("{long}\n{}\nEND\n", "3".repeat(1 << 16));
    let server = serve(1, move |_, _| text(log.clone()));
    let ended = run(&server, &["--node", "n0", "--follow"]);
    let lines: Vec<&str> = ended.out.lines().collect();
    let (pieces, rest) = lines.split_at(lines.len() - 2);
    assert!(pieces.concat() == long, "{} of {} bytes", pieces.concat().len(), long.len());
    assert_eq!((rest[0].len(), rest[1]), (1 << 16, "END"));
}

#[test]
fn a_closed_pipe_ends_what_is_followed() {
    let (reply, sender) = Reply::open("text/plain");
    let server = serve(1, move |_, _| reply.clone());
    let mut command = kubectl_ds(&arguments(&server, &["--node", "n0", "--follow"]));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    sender.send(b"line\n".to_vec()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn too_many_logs_are_not_followed() {
    let server = serve(51, |_, _| text(""));
    let ended = run(&server, &["--reason", "CrashLooping", "-f"]);
    assert_eq!((ended.code, requested(&server).len()), (Some(2), 0));
    assert!(ended.err.starts_with("error: 51 logs match, and no more than 50 can be followed\n"), "{}", ended.err);
}
