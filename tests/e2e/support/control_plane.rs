//! A real control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and KWOK instead of the
//! kubelets, each on a free port of 127.0.0.1.
//!
//! `tests/controlplane/build.sh` builds the programs once; the environment variable `KUBECTL_DS_KUBERNETES` selects the
//! minor release (default 1.37). Everything is stopped when the test process ends; see `watchdog.sh`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::api::{Api, asked};

/// How long anything may take that normally takes seconds; machines differ.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often a condition is looked at.
const INTERVAL: Duration = Duration::from_millis(50);

/// Where the API server puts the certificate that it makes.
const CERTIFICATE: &str = "certificates/apiserver.crt";

/// The users the API server knows, by token; the first may do everything, the others nothing
/// until a test binds roles to them.
pub const USERS: [(&str, &str); 3] =
    [("admin", "token-of-admin"), ("alice", "token-of-alice"), ("bob", "token-of-bob")];

/// A part of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controllers.
    ControllerManager,
    /// The scheduler.
    Scheduler,
    /// The stand-in for the kubelets of all nodes with the label `type=kwok`.
    Kwok,
    /// An admission webhook that refuses everything, see [`ControlPlane::webhook`].
    Webhook,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Etcd => "etcd",
            Part::ApiServer => "kube-apiserver",
            Part::ControllerManager => "kube-controller-manager",
            Part::Scheduler => "kube-scheduler",
            Part::Kwok => "kwok",
            Part::Webhook => "webhook",
        }
    }
}

/// What to start, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The minor release.
    pub kubernetes: String,
    /// The parts besides etcd and the API server.
    pub parts: Vec<Part>,
    /// Additional flags of the API server.
    pub api_server_flags: Vec<String>,
    /// Additional flags of the controller manager.
    pub controller_manager_flags: Vec<String>,
    /// Additional flags of KWOK.
    pub kwok_flags: Vec<String>,
}

impl Options {
    /// Everything.
    pub fn whole() -> Self {
        Options {
            kubernetes: kubernetes(),
            parts: vec![Part::ControllerManager, Part::Scheduler, Part::Kwok],
            api_server_flags: Vec::new(),
            controller_manager_flags: Vec::new(),
            kwok_flags: Vec::new(),
        }
    }

    /// Only the store and the API server: objects stay as they are written.
    pub fn api_server_only() -> Self {
        Options { parts: Vec::new(), ..Options::whole() }
    }
}

/// A running control plane; it ends when this is dropped or the process ends.
pub struct ControlPlane {
    options: Options,
    binary: PathBuf,
    kwok: PathBuf,
    folder: PathBuf,
    etcd_ports: [u16; 2],
    port: u16,
    api: Api,
    webhook_port: u16,
    running: Mutex<Vec<(&'static str, Child)>>,
    watchdog: Mutex<(Child, Option<ChildStdin>)>,
}

/// Returns the Kubernetes minor release that is tested against, such as `1.37`.
pub fn kubernetes() -> String {
    std::env::var("KUBECTL_DS_KUBERNETES").ok().filter(|minor| !minor.is_empty()).unwrap_or_else(|| "1.37".to_owned())
}

/// Tells whether the Kubernetes minor release that is tested against is at least 1.`minor`.
pub fn kubernetes_is_at_least(minor: u32) -> bool {
    kubernetes().strip_prefix("1.").and_then(|minor| minor.parse().ok()).is_some_and(|tested: u32| tested >= minor)
}

/// Builds a program of `tests/controlplane` unless that was done before, and returns the binary.
pub fn build(program: &str) -> PathBuf {
    build_of(program, &kubernetes())
}

/// Builds a program for a Kubernetes minor release unless that was done before, and returns the binary.
pub fn build_of(program: &str, minor: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/controlplane/build.sh");
    let output = Command::new(script)
        .args([program, minor])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("build.sh starts");
    assert!(output.status.success(), "build.sh {program} {minor} failed; its words are above");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

impl ControlPlane {
    /// Starts a control plane and waits until it answers.
    pub fn start(options: Options) -> Self {
        let folder = tempfile::Builder::new().prefix("kubectl-ds-").tempdir().unwrap().keep();
        let mut watchdog = Command::new("sh")
            .args(["-c", include_str!("watchdog.sh"), "watchdog"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C in the terminal must not end the watchdog before the parts.
            .process_group(0)
            .spawn()
            .expect("sh starts");
        let pipe = watchdog.stdin.take();
        let [etcd, etcd_peer, port, webhook_port] = free_ports();
        let control_plane = ControlPlane {
            binary: build_of("parts", &options.kubernetes),
            kwok: if options.parts.contains(&Part::Kwok) { build("kwok") } else { PathBuf::new() },
            api: Api::new(port, folder.join(CERTIFICATE)),
            options,
            folder,
            etcd_ports: [etcd, etcd_peer],
            port,
            webhook_port,
            running: Mutex::default(),
            watchdog: Mutex::new((watchdog, pipe)),
        };
        control_plane.write_files();
        control_plane.start_part(Part::Etcd);
        control_plane.wait_until("etcd listens", || TcpStream::connect(("127.0.0.1", etcd)).ok());
        control_plane.start_api_server();
        for part in control_plane.options.parts.clone() {
            control_plane.start_part(part);
        }
        if control_plane.options.parts.contains(&Part::ControllerManager) {
            // Pods cannot be made in a namespace before it has this account.
            control_plane
                .wait_until("the controllers work", || control_plane.has(&["serviceaccount", "default"]).then_some(()));
        }
        control_plane
    }

    fn start_api_server(&self) {
        self.start_part(Part::ApiServer);
        self.wait_until("the API server is ready", || self.api.has("/readyz").then_some(()));
    }

    /// Replaces the API server, which is given more flags, the controllers and the scheduler by those of another minor release, such as
    /// `1.37`.
    pub fn upgrade(&mut self, minor: &str, api_server_flags: &[&str]) {
        self.options.api_server_flags.extend(api_server_flags.iter().map(|&flag| flag.to_owned()));
        let parts = [Part::ControllerManager, Part::Scheduler].into_iter();
        let parts: Vec<_> = parts.filter(|part| self.options.parts.contains(part)).collect();
        self.binary = build_of("parts", minor);
        for part in parts.iter().chain(&[Part::ApiServer]) {
            self.stop_part(*part);
        }
        self.start_api_server();
        parts.into_iter().for_each(|part| self.start_part(part));
    }

    fn write_files(&self) {
        let mut tokens = String::new();
        for (user, token) in USERS {
            let group = if user == "admin" { ",system:masters" } else { "" };
            writeln!(tokens, "{token},{user},{user}{group}").unwrap();
        }
        fs::write(self.folder.join("tokens.csv"), tokens).unwrap();
        for (user, _) in USERS {
            fs::write(self.kubeconfig_of(user), self.kubeconfig_text(user)).unwrap();
        }
    }

    fn kubeconfig_text(&self, user: &str) -> String {
        let token = USERS.iter().find(|(name, _)| *name == user).expect("a known user").1;
        serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {
                "server": self.server(),
                "certificate-authority": self.certificate_authority(),
            }}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        })
        .to_string()
    }

    /// Returns the kubeconfig of a user who may do everything.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_of("admin")
    }

    /// Returns the kubeconfig of one of [`USERS`].
    pub fn kubeconfig_of(&self, user: &str) -> PathBuf {
        self.folder.join(format!("{user}.kubeconfig"))
    }

    /// Returns the API server's URL.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Returns the certificate (PEM) that the API server's own is checked with.
    pub fn certificate_authority(&self) -> PathBuf {
        self.folder.join(CERTIFICATE)
    }

    /// Returns the webhook's URL, and the certificate that it is checked with in base64, as a
    /// webhook configuration needs them.
    pub fn webhook(&self) -> (String, String) {
        let certificate = fs::read(self.certificate_authority()).unwrap();
        (format!("https://127.0.0.1:{}", self.webhook_port), BASE64_STANDARD.encode(certificate))
    }

    /// Starts a part that does not run.
    pub fn start_part(&self, part: Part) {
        let program = if part == Part::Kwok { &self.kwok } else { &self.binary };
        let mut command = Command::new(program);
        if part != Part::Kwok {
            command.arg(part.name());
        }
        command.args(self.flags(part));
        self.spawn(part.name(), &mut command);
    }

    /// Starts a program that ends with the control plane; its words go to a log of that name.
    pub fn spawn(&self, name: &'static str, command: &mut Command) {
        let log = File::create(self.folder.join(format!("{name}.log"))).unwrap();
        let child = command
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        self.running.lock().unwrap().push((name, child));
        self.tell_watchdog();
    }

    /// Ends a part and waits for its end.
    pub fn stop_part(&self, part: Part) {
        let mut running = self.running.lock().unwrap();
        if let Some(at) = running.iter().position(|(running, _)| *running == part.name()) {
            let (_, mut child) = running.remove(at);
            drop(running);
            child.kill().unwrap();
            child.wait().unwrap();
            self.tell_watchdog();
        }
    }

    fn tell_watchdog(&self) {
        let pids: Vec<_> = self.running.lock().unwrap().iter().map(|(_, child)| child.id().to_string()).collect();
        if let Some(pipe) = &mut self.watchdog.lock().unwrap().1 {
            writeln!(pipe, "{}", pids.join(" ")).unwrap();
        }
    }

    fn flags(&self, part: Part) -> Vec<String> {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig().display());
        let [etcd, peer] = self.etcd_ports.map(|port| format!("http://127.0.0.1:{port}"));
        // The API server makes its own certificate; its key also signs service accounts' tokens.
        let key = path("certificates/apiserver.key");
        match part {
            Part::Etcd => vec![
                format!("--data-dir={}", path("etcd")),
                format!("--listen-client-urls={etcd}"),
                format!("--advertise-client-urls={etcd}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster=default={peer}"),
                "--unsafe-no-fsync".to_owned(),
                "--quota-backend-bytes=8589934592".to_owned(),
                "--log-level=warn".to_owned(),
            ],
            Part::ApiServer => [
                format!("--etcd-servers={etcd}"),
                format!("--secure-port={}", self.port),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--cert-dir={}", path("certificates")),
                format!("--service-account-key-file={key}"),
                format!("--service-account-signing-key-file={key}"),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!("--token-auth-file={}", path("tokens.csv")),
                "--authorization-mode=RBAC".to_owned(),
                "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
                "--endpoint-reconciler-type=none".to_owned(),
            ]
            .into_iter()
            .chain(self.options.api_server_flags.iter().cloned())
            .collect(),
            Part::ControllerManager => [
                kubeconfig,
                // It is the only one, but its lease is what tells whether it lives.
                "--leader-elect=true".to_owned(),
                "--secure-port=0".to_owned(),
                format!("--service-account-private-key-file={key}"),
                "--kube-api-qps=500".to_owned(),
                "--kube-api-burst=1000".to_owned(),
            ]
            .into_iter()
            .chain(self.options.controller_manager_flags.iter().cloned())
            .collect(),
            Part::Scheduler => vec![
                kubeconfig,
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
                "--kube-api-qps=500".to_owned(),
                "--kube-api-burst=1000".to_owned(),
            ],
            Part::Webhook => {
                vec![format!("127.0.0.1:{}", self.webhook_port), path(CERTIFICATE), key]
            }
            Part::Kwok => {
                let stages = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/controlplane/stages");
                [
                    kubeconfig,
                    format!("--config={}", stages.join("node.yaml").display()),
                    format!("--config={}", stages.join("pod.yaml").display()),
                    "--manage-nodes-with-label-selector=type=kwok".to_owned(),
                    "--cidr=10.1.0.0/16".to_owned(),
                    "--node-ip=10.2.0.1".to_owned(),
                    // Without it KWOK keeps no leases, and every node dies after a minute.
                    "--node-lease-duration-seconds=12".to_owned(),
                    "--v=WARN".to_owned(),
                ]
                .into_iter()
                .chain(self.options.kwok_flags.iter().cloned())
                .collect()
            }
        }
    }

    /// Returns the folder of this control plane, which is removed when it ends.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the end of each part's log, to show when something went wrong.
    fn logs(&self) -> String {
        let mut text = String::new();
        let mut paths: Vec<_> = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
        paths.sort();
        for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "log")) {
            if let Ok(mut file) = File::open(path) {
                let length = file.metadata().map_or(0, |metadata| metadata.len());
                let mut tail = Vec::new();
                let _ = file.seek(SeekFrom::Start(length.saturating_sub(3000)));
                let _ = file.read_to_end(&mut tail);
                let name = path.file_stem().unwrap_or_default().display();
                let _ = write!(text, "\n--- {name} ---\n{}", String::from_utf8_lossy(&tail));
            }
        }
        text
    }

    /// Returns kubectl, of the same release, set up for the user who may do everything.
    pub fn kubectl_command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("kubectl").env("KUBECONFIG", self.kubeconfig()).env("HOME", &self.folder);
        command
    }

    /// Runs kubectl as the user who may do everything, and returns how it ended.
    pub fn try_kubectl(&self, args: &[&str], input: Option<&str>) -> Output {
        let mut child = self
            .kubectl_command()
            .args(args)
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        if let Some(input) = input {
            child.stdin.take().unwrap().write_all(input.as_bytes()).expect("kubectl reads its input");
        }
        child.wait_with_output().unwrap()
    }

    /// Runs kubectl as the user who may do everything, and returns what it prints.
    pub fn kubectl(&self, args: &[&str]) -> String {
        succeeded(args, self.try_kubectl(args, None))
    }

    /// Returns the way to the API server as the user who may do everything.
    pub fn api(&self) -> Api {
        self.api
    }

    /// Returns the object that `kubectl get` with these arguments shows, without starting it, which takes 50 times the work.
    pub fn get(&self, args: &[&str]) -> Value {
        let asked = asked(args);
        let mut object = self.api.get(&asked.paths[0]);
        shorten(&mut object, asked.shows_managed_fields);
        object
    }

    /// Tells whether there is the object that `kubectl get` with these arguments shows.
    pub fn has(&self, args: &[&str]) -> bool {
        self.api.has(&asked(args).paths[0])
    }

    /// Returns the objects that `kubectl get` with these arguments lists.
    pub fn items(&self, args: &[&str]) -> Vec<Value> {
        let asked = asked(args);
        let mut items: Vec<Value> = asked.paths.iter().flat_map(|path| self.api.items(path)).collect();
        items.iter_mut().for_each(|item| shorten(item, asked.shows_managed_fields));
        items
    }

    /// Makes the objects of YAML documents; a node's status is taken with it.
    pub fn create(&self, yaml: &str) {
        let args = ["create", "-f", "-"];
        succeeded(&args, self.try_kubectl(&args, Some(yaml)));
    }

    /// Asks again and again until there is an answer, and fails with the parts' logs if it takes
    /// too long or a part has ended.
    pub fn wait_until<T>(&self, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            for (name, child) in self.running.lock().unwrap().iter_mut() {
                if let Some(status) = child.try_wait().unwrap() {
                    panic!("{name} ended by itself ({status}){}", self.logs());
                }
            }
            assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain until {what}{}", self.logs());
            thread::sleep(INTERVAL);
        }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // The API server last but one and etcd last, so that nobody fills a log with complaints.
        let mut running = std::mem::take(&mut *self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        for (_, child) in running.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let mut watchdog = self.watchdog.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(mut pipe) = watchdog.1.take() {
            // These processes are gone; their numbers may be another's by now.
            let _ = writeln!(pipe);
        }
        let _ = watchdog.0.wait();
    }
}

/// Returns what kubectl printed, or fails with its complaint.
fn succeeded(args: &[&str], output: Output) -> String {
    assert!(
        output.status.success(),
        "kubectl {} failed: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    String::from_utf8(output.stdout).expect("kubectl prints UTF-8")
}

/// Returns ports that nobody listens on and that no outgoing connection is given.
pub fn free_ports<const N: usize>() -> [u16; N] {
    // The kernel hands out ports from 32768 on to outgoing connections, of which the parts make
    // hundreds; one of those could be on a port before the part that it was meant for.
    const FIRST: u16 = 10_000;
    const COUNT: u64 = 22_000;
    static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    std::array::from_fn(|_| {
        loop {
            let random = RandomState::new().build_hasher().finish() % COUNT;
            let port = FIRST + u16::try_from(random).expect("it is less than 22000");
            if TcpListener::bind(("127.0.0.1", port)).is_ok() && TAKEN.lock().unwrap().insert(port) {
                return port;
            }
        }
    })
}

/// Leaves out what `kubectl get` does not show.
fn shorten(object: &mut Value, shows_managed_fields: bool) {
    if let Some(metadata) = object["metadata"].as_object_mut().filter(|_| !shows_managed_fields) {
        metadata.remove("managedFields");
    }
}
