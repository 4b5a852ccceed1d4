//! The big-cluster measurement of docs/performance.md: 5,000 nodes and 15,000 pods of about 20 kB each
//! on a real API server, read by kubectl-ds, by curl and by kubectl in one run.
//!
//! `cargo bench --bench big_cluster`. Objects are written straight to an API server without controllers.
//! `KUBECTL_DS_NODES` makes the cluster smaller; there are three pods per node. `-- lists` measures only the commands
//! that read all of it, and `-- watch` the cost of following it, idle and while pods change.
//! `KUBECTL_DS_PROGRAMS=NEW:OLD` measures these programs in turn instead of this version, and checks the first against
//! the aims.

#![expect(clippy::print_stdout, reason = "what a measurement prints is its result")]

#[path = "../tests/e2e/support/mod.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kubectl_ds::cluster::Query;
use kubectl_ds::cluster::live::connect;
use kubectl_ds::connection::ConnectOptions;
use serde_json::{Value, json};
use support::control_plane::{ControlPlane, Options, USERS};

/// How often each command is run; the median counts.
const ROUNDS: usize = 5;

/// The DaemonSets, with a pod of each on every node.
const DAEMON_SETS: [&str; 3] = ["cni", "logs", "exporter"];

/// The hashes of the revisions; all pods are of the second.
const REVISION_HASHES: [&str; 2] = ["6b9d7f5c8", "5d8c9f7b6"];

/// How long a watch is idle while it is measured.
const IDLE: Duration = Duration::from_secs(60);

/// How many pod events are sent while a DaemonSet is followed on a terminal, and how many delays are measured.
const EVENTS: usize = 4_000;
const DELAYS: usize = 50;

/// The name of the variable that makes this program the one that follows a cluster; it holds the kubeconfig.
const FOLLOW: &str = "KUBECTL_DS_FOLLOW";

fn main() {
    if let Ok(kubeconfig) = std::env::var(FOLLOW) {
        return follow(kubeconfig);
    }
    let nodes = std::env::var("KUBECTL_DS_NODES").ok().and_then(|text| text.parse().ok()).unwrap_or(5_000);
    let control_plane = ControlPlane::start(Options::api_server_only());
    load(&control_plane, nodes);
    let only = |part: &str| std::env::args().any(|argument| argument == part);
    if !only("watch") {
        let coverage = measure_lists(&control_plane);
        if !only("lists") {
            measure_others(&control_plane, coverage);
        }
    }
    if !only("lists") {
        measure_screen(&control_plane, nodes);
        measure_watch(&control_plane);
    }
}

/// Follows every DaemonSet until the process is killed, and looks at the snapshot once a second.
fn follow(kubeconfig: String) {
    let options = ConnectOptions { kubeconfig: Some(kubeconfig), ..ConnectOptions::default() };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let live = connect(&options, Timestamp::now, Arc::new(|_| ())).await.expect("a connection");
        let mut watch = live.watch(Query::default()).await.expect("a watch");
        loop {
            let snapshot = watch.snapshot().await;
            let (nodes, pods) = (snapshot.nodes.len(), snapshot.pods.len());
            println!("{nodes} nodes, {pods} pods, failure: {:?}", watch.failure());
            let _ = tokio::time::timeout(Duration::from_secs(1), watch.changed()).await;
        }
    });
}

/// Measures what it costs to follow one DaemonSet on a terminal while its pods change, and how soon that is shown.
fn measure_screen(control_plane: &ControlPlane, nodes: usize) {
    let proxy = Proxy::start(control_plane);
    let received = Arc::new(AtomicUsize::new(0));
    let mut connection = proxy.connect();
    let owner = connection.get("/apis/apps/v1/namespaces/default/daemonsets/cni");
    let set_status = |connection: &mut Connection, index: usize, ready: bool| {
        let mut pod = pod(&owner, index);
        pod["status"] = running();
        if !ready {
            pod["status"]["conditions"][3] =
                json!({"type": "Ready", "status": "False", "lastTransitionTime": Timestamp::now().to_string()});
        }
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        connection.send("PUT", &format!("/api/v1/namespaces/default/pods/{name}/status"), &pod);
        name
    };
    // A rollout that is complete is not followed.
    set_status(&mut connection, nodes - 1, false);
    let relay = relay(proxy.address.clone(), received.clone());
    let kubectl_ds = env!("CARGO_BIN_EXE_kubectl-ds");
    let command = format!(
        "stty rows 50 cols 200; TERM=xterm exec {kubectl_ds} status cni -n default --watch --server http://{relay}"
    );
    let mut script = Command::new("script");
    script.args(["-qfc", &command, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut script = script.spawn().expect("`script` makes a terminal");
    let shown = Arc::new(Mutex::new(String::new()));
    let mut output = script.stdout.take().unwrap();
    let screen = shown.clone();
    thread::spawn(move || {
        let mut buffer = [0; 1 << 16];
        while let Ok(length @ 1..) = output.read(&mut buffer) {
            screen.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    });
    let wait_for = |text: &str| {
        let start = Instant::now();
        while !shown.lock().unwrap().contains(text) {
            assert!(start.elapsed() < Duration::from_secs(60), "{text} is not shown: {}", shown.lock().unwrap());
            thread::sleep(Duration::from_millis(2));
        }
    };
    wait_for(&format!(" of {nodes} available"));
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", script.id())).unwrap();
    let process: u32 = children.trim().parse().expect("one child");
    println!(
        "\nscreen of one DaemonSet: {} MB received, at most {} MB of memory",
        received.load(Ordering::Relaxed) / 1_000_000,
        memory(process, "VmHWM") / 1_000
    );
    let mut delays: Vec<Duration> = (0..DELAYS)
        .map(|index| {
            shown.lock().unwrap().clear();
            let name = set_status(&mut connection, index, false);
            let changed = Instant::now();
            wait_for(&name);
            let delay = changed.elapsed();
            set_status(&mut connection, index, true);
            thread::sleep(Duration::from_millis(130 + 7 * (index as u64 % 30)));
            delay
        })
        .collect();
    delays.sort();
    println!(
        "from a pod's change to the screen: {:.0?} (median of {DELAYS}; aim: 200 ms or less), at most {:.0?}",
        delays[DELAYS / 2],
        delays[DELAYS - 1]
    );
    thread::sleep(Duration::from_secs(2));
    let (used, bytes, started) = (processor_time(process), received.load(Ordering::Relaxed), Instant::now());
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut connection = proxy.connect();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= EVENTS {
                        break;
                    }
                    set_status(&mut connection, number / 2 % nodes, number % 2 == 1);
                }
            });
        }
    });
    thread::sleep(Duration::from_secs(2));
    let used = processor_time(process) - used;
    println!(
        "{EVENTS} pod events in {:.0?}: {:.2} s of processor time per 1,000, {} bytes received per event, at most {} MB",
        started.elapsed(),
        used.as_secs_f64() * 1_000.0 / EVENTS as f64,
        (received.load(Ordering::Relaxed) - bytes) / EVENTS,
        memory(process, "VmHWM") / 1_000
    );
    script.kill().unwrap();
    script.wait().unwrap();
}

/// Passes connections on to an address, counts the bytes that come back, and returns where it listens.
fn relay(address: String, received: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(&address).expect("the proxy listens");
            let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                let _ = std::io::copy(&mut from_client, &mut to_server);
                let _ = to_server.shutdown(std::net::Shutdown::Both);
            });
            let (received, mut client, mut server) = (received.clone(), client, server);
            thread::spawn(move || {
                let mut buffer = [0; 1 << 16];
                while let Ok(length @ 1..) = server.read(&mut buffer) {
                    received.fetch_add(length, Ordering::Relaxed);
                    if client.write_all(&buffer[..length]).is_err() {
                        break;
                    }
                }
                let _ = client.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    here
}

/// Measures what a watch costs from its beginning, and then while nothing happens.
fn measure_watch(control_plane: &ControlPlane) {
    let started = Instant::now();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut child = command.env(FOLLOW, control_plane.kubeconfig()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    println!("\nwatch of every DaemonSet: {}", lines.next().expect("a line").unwrap());
    println!(
        "listed after {:.2} s, at most {} MB",
        started.elapsed().as_secs_f64(),
        memory(child.id(), "VmHWM") / 1_000
    );
    // Bookmarks come about once a minute, and the first soon.
    let reader = thread::spawn(move || lines.map_while(Result::ok).last());
    thread::sleep(Duration::from_secs(5));
    let (before, idle) = (processor_time(child.id()), Instant::now());
    thread::sleep(IDLE);
    let used = processor_time(child.id()) - before;
    println!(
        "idle for {:.0} s: {:.2}% of a core (aim: less than 5%), {} MB, at most {} MB (aim: 100 MB or less)",
        idle.elapsed().as_secs_f64(),
        used.as_secs_f64() / idle.elapsed().as_secs_f64() * 100.0,
        memory(child.id(), "VmRSS") / 1_000,
        memory(child.id(), "VmHWM") / 1_000,
    );
    child.kill().unwrap();
    child.wait().unwrap();
    println!("at the end: {}", reader.join().unwrap().unwrap_or_default());
}

/// Returns the processor time that a process has used.
fn processor_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    // The name of the program, in parentheses, may contain spaces. Times are in hundredths of a second.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

fn load(control_plane: &ControlPlane, nodes: usize) {
    let proxy = Proxy::start(control_plane);
    let mut connection = proxy.connect();
    connection.send("POST", "/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}}));
    let owners: Vec<Value> = DAEMON_SETS
        .iter()
        .map(|name| connection.send("POST", "/apis/apps/v1/namespaces/default/daemonsets", &daemon_set(name)))
        .collect();
    for (number, image) in [(1, "1.4.1"), (2, "1.4.2")] {
        let path = "/apis/apps/v1/namespaces/default/controllerrevisions";
        connection.send("POST", path, &revision(&owners[0], number, image));
    }
    let started = Instant::now();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut connection = proxy.connect();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= nodes {
                        break;
                    }
                    connection.send("POST", "/api/v1/nodes", &node(index));
                    for owner in &owners {
                        let mut pod = pod(owner, index);
                        connection.send("POST", "/api/v1/namespaces/default/pods", &pod);
                        pod["status"] = running();
                        let path = format!(
                            "/api/v1/namespaces/default/pods/{}/status",
                            pod["metadata"]["name"].as_str().unwrap()
                        );
                        connection.send("PUT", &path, &pod);
                    }
                }
            });
        }
    });
    // As the controller would have written it, which does not run here.
    for owner in &owners {
        let mut daemon_set = owner.clone();
        daemon_set["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        daemon_set["status"] = json!({
            "observedGeneration": 1, "currentNumberScheduled": nodes, "desiredNumberScheduled": nodes, "numberMisscheduled": 0,
            "numberReady": nodes, "numberAvailable": nodes, "updatedNumberScheduled": nodes,
        });
        let name = owner["metadata"]["name"].as_str().unwrap();
        let path = format!("/apis/apps/v1/namespaces/default/daemonsets/{name}/status");
        connection.send("PUT", &path, &daemon_set);
    }
    println!("{nodes} nodes and {} pods written in {:.0?}", nodes * DAEMON_SETS.len(), started.elapsed());
}

/// Measures the commands that read every node and pod, in turn with two curls that read the same. Returns the
/// seconds of `coverage -A`.
fn measure_lists(control_plane: &ControlPlane) -> f64 {
    let kubeconfig = control_plane.kubeconfig().display().to_string();
    let curl = |path: &str| {
        let mut command = Command::new("curl");
        command.args(["-sSkf", "-o", "/dev/null", "-H", "Accept: application/vnd.kubernetes.protobuf"]);
        command.args(["-H", &format!("Authorization: Bearer {}", USERS[0].1)]);
        command.arg(format!("{}{path}?resourceVersion=0", control_plane.server()));
        command
    };
    let programs = std::env::var("KUBECTL_DS_PROGRAMS").unwrap_or(env!("CARGO_BIN_EXE_kubectl-ds").to_owned());
    let programs: Vec<&Path> = programs.split(':').map(Path::new).collect();
    let mut runs: Vec<(String, Vec<Run>)> = Vec::new();
    for round in 0..=ROUNDS {
        let mut commands = Vec::new();
        for arguments in [&["coverage", "-A"][..], &["status", "-A"], &["list"], &["overhead"], &["changes", "-A"]] {
            for program in &programs {
                let mut command = Command::new(program);
                command.args(arguments).env("KUBECONFIG", &kubeconfig);
                let name = program.file_name().unwrap().display();
                commands.push((format!("{name} {}", arguments.join(" ")), vec![command]));
            }
        }
        let both = vec![curl("/api/v1/nodes"), curl("/api/v1/pods")];
        commands.push(("curl of the same protobuf, two at once".to_owned(), both));
        for (at, (name, command)) in commands.into_iter().enumerate() {
            let run = run(command);
            match round {
                // The first round warms the server's caches.
                0 => runs.push((name, Vec::new())),
                _ => runs[at].1.push(run),
            }
        }
    }
    println!("\n{:<52} {:>9} {:>9} {:>9} {:>9}", "MEDIANS", "SECONDS", "PROCESSOR", "PEAK MB", "SWITCHES");
    let medians: Vec<Run> = runs.iter().map(|(name, runs)| report(&format!("{name} (of {ROUNDS})"), runs)).collect();
    let [coverage, .., curls] = &medians[..] else { unreachable!() };
    println!("\ncoverage -A / two curls                      {:.2}  (aim: 0.8 or less)", coverage.wall / curls.wall);
    println!(
        "processor time of coverage -A / that of two curls  {:.2}  (aim: 1.5 or less)",
        coverage.processor / curls.processor
    );
    for (at, command) in ["status -A", "list", "overhead"].into_iter().enumerate() {
        let median = &medians[(at + 1) * programs.len()];
        println!("{:<44} {:.2}  (aim: 1.0 or less)", format!("{command} / coverage -A"), median.wall / coverage.wall);
    }
    println!("most memory of coverage -A                   {} MB  (aim: 60 MB or less)\n", coverage.peak / 1_000);
    coverage.wall
}

/// Measures the commands that read a part of the cluster, and kubectl.
fn measure_others(control_plane: &ControlPlane, coverage: f64) {
    let kubeconfig = control_plane.kubeconfig().display().to_string();
    let ours = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"));
        command.args(arguments).env("KUBECONFIG", &kubeconfig);
        command
    };
    let kubectl = |arguments: &[&str]| {
        let mut command = control_plane.kubectl_command();
        command.args(arguments);
        command
    };

    let mut named = Vec::new();
    let mut listed = Vec::new();
    for _ in 0..3 {
        named.push(run(vec![ours(&["coverage", "cni"])]));
        listed.push(run(vec![kubectl(&["get", "pods", "-l", "app=cni"])]));
    }
    let named = report("kubectl ds coverage cni (median of 3)", &named);
    let listed = report("kubectl get pods -l app=cni (median of 3)", &listed);
    for arguments in [
        &["history", "cni"][..],
        &["history", "cni", "--diff"],
        &["undo", "cni", "--dry-run=client"],
        &["status", "cni"],
        &["__complete", "coverage", ""],
        &["__complete", "coverage", "--node", "node-0"],
    ] {
        let runs: Vec<Run> = (0..3).map(|_| run(vec![ours(arguments)])).collect();
        report(&format!("kubectl ds {} (median of 3)", arguments.join(" ")), &runs);
    }
    let runs: Vec<Run> = (0..3).map(|_| run(vec![kubectl(&["rollout", "status", "daemonset/cni"])])).collect();
    report("kubectl rollout status daemonset/cni (median of 3)", &runs);
    let proxy = Proxy::start(control_plane);
    let received = Arc::new(AtomicUsize::new(0));
    let server = format!("http://{}", relay(proxy.address.clone(), received.clone()));
    for (name, command) in [
        ("kubectl ds status cni", ours(&["status", "cni", "--namespace=default", "--server", &server])),
        (
            "kubectl rollout status",
            kubectl(&["rollout", "status", "daemonset/cni", "--namespace=default", "--server", &server]),
        ),
    ] {
        let before = received.load(Ordering::Relaxed);
        run(vec![command]);
        println!("{name:<52} {} bytes received", received.load(Ordering::Relaxed) - before);
    }
    let everything = report(
        "kubectl get nodes,pods -A -o json (one run)",
        &[run(vec![kubectl(&["get", "nodes,pods", "-A", "-o", "json"])])],
    );
    println!(
        "\ncoverage -A / kubectl get nodes,pods -A -o json  1/{:.0}  (aim: 1/60 or less)",
        everything.wall / coverage
    );
    println!("coverage NAME / kubectl get pods -l          1/{:.1}  (aim: 1/8 or less)", listed.wall / named.wall);
}

/// What a run cost.
#[derive(Clone, Copy)]
struct Run {
    /// How many seconds it took.
    wall: f64,
    /// The processor time of all its processes, in seconds.
    processor: f64,
    /// The most memory in kB that one of its processes held.
    peak: u64,
    /// How often one of its threads gave way to another.
    switches: u64,
}

/// Runs commands at the same time until all have ended, and demands that they succeed.
fn run(commands: Vec<Command>) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let mut children = Vec::new();
    for (at, command) in commands.into_iter().enumerate() {
        let costs = folder.path().join(at.to_string());
        let mut timed = Command::new("time");
        timed
            .args(["-q", "-f", "%U %S %M %w %c", "-o"])
            .arg(&costs)
            .arg(command.get_program())
            .args(command.get_args());
        timed.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let child = timed.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("GNU time starts");
        children.push((command, child, costs));
    }
    let mut run = Run { wall: 0.0, processor: 0.0, peak: 0, switches: 0 };
    for (command, mut child, costs) in children {
        let status = child.wait().unwrap();
        assert!(status.success(), "{command:?} ended with {status}");
        run.wall = started.elapsed().as_secs_f64();
        let costs = std::fs::read_to_string(costs).unwrap();
        let costs: Vec<f64> = costs.split_whitespace().map(|cost| cost.parse().unwrap()).collect();
        run.processor += costs[0] + costs[1];
        run.peak = run.peak.max(costs[2] as u64);
        run.switches += (costs[3] + costs[4]) as u64;
    }
    run
}

/// Returns memory of a process in kB, 0 once it is gone.
fn memory(process: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or(0)
}

/// Prints the medians of some runs, and the most memory of all; and returns them.
fn report(name: &str, runs: &[Run]) -> Run {
    let median = |cost: fn(&Run) -> f64| {
        let mut costs: Vec<f64> = runs.iter().map(cost).collect();
        costs.sort_by(f64::total_cmp);
        costs[costs.len() / 2]
    };
    let run = Run {
        wall: median(|run| run.wall),
        processor: median(|run| run.processor),
        peak: runs.iter().map(|run| run.peak).max().unwrap_or(0),
        switches: median(|run| run.switches as f64) as u64,
    };
    println!("{name:<52} {:>9.2} {:>9.2} {:>9} {:>9}", run.wall, run.processor, run.peak / 1_000, run.switches);
    run
}

/// `kubectl proxy`, through which objects are written without TLS.
struct Proxy {
    process: Child,
    address: String,
}

impl Proxy {
    fn start(control_plane: &ControlPlane) -> Self {
        let mut command = control_plane.kubectl_command();
        let mut process = command.args(["proxy", "--port=0"]).stdout(Stdio::piped()).spawn().expect("kubectl starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        Proxy { process, address }
    }

    fn connect(&self) -> Connection {
        let stream = TcpStream::connect(&self.address).expect("the proxy listens");
        stream.set_nodelay(true).unwrap();
        Connection { reader: BufReader::new(stream) }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection that sends one request after the other.
struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    /// Returns an object.
    fn get(&mut self, path: &str) -> Value {
        self.send("GET", path, &Value::Null)
    }

    /// Sends an object and returns the server's answer to it.
    fn send(&mut self, method: &str, path: &str, object: &Value) -> Value {
        let body = object.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.reader.get_mut().write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let status = line.clone();
        let (mut length, mut chunked) = (0, false);
        loop {
            line.clear();
            self.reader.read_line(&mut line).unwrap();
            let header = line.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            chunked |= header.starts_with("transfer-encoding:") && header.ends_with("chunked");
        }
        let body = if chunked { self.read_chunks() } else { self.read_exactly(length) };
        assert!(status.contains(" 20"), "{method} {path}: {status}{}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }

    fn read_exactly(&mut self, length: usize) -> Vec<u8> {
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).unwrap();
        body
    }

    fn read_chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).unwrap();
            let length = usize::from_str_radix(line.trim(), 16).unwrap();
            let chunk = self.read_exactly(length + 2);
            body.extend_from_slice(&chunk[..length]);
            if length == 0 {
                return body;
            }
        }
    }
}

fn daemon_set(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container(name)], "tolerations": [{"operator": "Exists"}]},
            },
        },
    })
}

/// A revision of a DaemonSet, whose pods have an image of that tag.
fn revision(owner: &Value, number: usize, tag: &str) -> Value {
    let name = owner["metadata"]["name"].as_str().unwrap();
    let mut template = owner["spec"]["template"].clone();
    template["$patch"] = "replace".into();
    template["spec"]["containers"][0]["image"] = format!("registry.example/{name}:{tag}").into();
    json!({
        "metadata": {
            "name": format!("{name}-{number}"),
            "labels": {"app": name, "controller-revision-hash": REVISION_HASHES[number - 1]},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "controller": true, "uid": owner["metadata"]["uid"],
            }],
        },
        "revision": number,
        "data": {"spec": {"template": template}},
    })
}

fn container(name: &str) -> Value {
    json!({
        "name": name,
        "image": format!("registry.example/{name}:1.4.2"),
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
    })
}

/// A node of about 20 kB, most of it images, as real nodes have them.
fn node(index: usize) -> Value {
    let name = format!("node-{index:05}");
    let zone = format!("zone-{}", index % 3);
    let images: Vec<Value> = (0..100)
        .map(|image| {
            json!({
                "names": [
                    format!("registry.example/team-{}/component-{image}@sha256:{:064x}", image % 7, index * 1_000 + image),
                    format!("registry.example/team-{}/component-{image}:v1.{image}.0", image % 7),
                ],
                "sizeBytes": 10_000_000 + image,
            })
        })
        .collect();
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": "KubeletReports", "message": "kubelet reports its condition",
            "lastHeartbeatTime": "2026-11-20T12:00:00Z", "lastTransitionTime": "2026-11-01T12:00:00Z",
        })
    };
    json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": zone, "node.kubernetes.io/instance-type": "m5.xlarge",
        }},
        "status": {
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"},
            "allocatable": {"cpu": "3900m", "memory": "15Gi", "pods": "110", "ephemeral-storage": "90Gi"},
            "conditions": [
                condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
                condition("PIDPressure", "False"), condition("Ready", "True"),
            ],
            "nodeInfo": {
                "kubeletVersion": "v1.37.2", "operatingSystem": "linux", "architecture": "amd64", "machineID": "0",
                "systemUUID": "0", "bootID": "0", "kernelVersion": "6.1", "osImage": "Debian",
                "containerRuntimeVersion": "containerd://2.0", "kubeProxyVersion": "v1.37.2",
            },
            "images": images,
        },
    })
}

/// A pod of about 20 kB, most of it environment, bound to its node.
fn pod(owner: &Value, index: usize) -> Value {
    let name = owner["metadata"]["name"].as_str().unwrap();
    let environment: Vec<Value> =
        (0..120).map(|number| json!({"name": format!("SETTING_{number}"), "value": "x".repeat(80)})).collect();
    let mut container = container(name);
    container["env"] = environment.into();
    json!({
        "metadata": {
            "name": format!("{name}-{index:05}"),
            "labels": {"app": name, "controller-revision-hash": REVISION_HASHES[1], "pod-template-generation": "1"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "controller": true,
                "blockOwnerDeletion": true, "uid": owner["metadata"]["uid"],
            }],
        },
        "spec": {
            "nodeName": format!("node-{index:05}"),
            "automountServiceAccountToken": false,
            "containers": [container],
        },
    })
}

/// The status of a pod that has been available for days.
fn running() -> Value {
    let since = "2026-11-01T12:00:00Z";
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": since});
    json!({
        "phase": "Running",
        "startTime": since,
        "conditions": [condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
        "containerStatuses": [{
            "name": "cni", "ready": true, "restartCount": 0, "started": true, "image": "registry.example/agent:1.4.2",
            "imageID": "registry.example/agent@sha256:0", "state": {"running": {"startedAt": since}},
        }],
    })
}
