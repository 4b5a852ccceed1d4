//! The scripts of docs/pipelines.md and the pages it links to, run by a shell with the real kubectl.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::workload::{Api, CRASHING, FATE, Workload};
use super::{Cluster, cluster};

/// A folder with the programs and the manifest that the scripts name.
struct Pipeline {
    folder: tempfile::TempDir,
    workload: Workload,
}

impl Pipeline {
    fn new(cluster: &'static Cluster) -> Self {
        let namespace = cluster.namespace();
        let workload = Workload::create(cluster, Api::Apps, &namespace, "agent", &json!({}));
        let folder = tempfile::tempdir().unwrap();
        let kubectl = cluster.control_plane.kubectl_command();
        let kubectl = format!("#!/bin/sh\nexec {} kubectl \"$@\"\n", kubectl.get_program().display());
        fs::write(folder.path().join("kubectl"), kubectl).unwrap();
        // Rendering and storing a release is Helm's own; what the page relies on is that the release has the manifest.
        let helm = "#!/bin/sh\ncase $1 in upgrade) exec kubectl apply -n \"$6\" -f agent.yaml;; get) exec cat agent.yaml;; esac\n";
        fs::write(folder.path().join("helm"), helm).unwrap();
        for program in ["kubectl", "helm"] {
            fs::set_permissions(folder.path().join(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::create_dir_all(folder.path().join("overlays/production")).unwrap();
        fs::write(folder.path().join("overlays/production/kustomization.yaml"), "resources: [agent.yaml]\n").unwrap();
        symlink(env!("CARGO_BIN_EXE_kubectl-ds"), folder.path().join("kubectl-ds")).unwrap();
        let pipeline = Pipeline { folder, workload };
        pipeline.manifest("1", None);
        pipeline
    }

    /// Writes the manifest, with what becomes of its pods.
    fn manifest(&self, image: &str, fate: Option<&str>) {
        let mut metadata = json!({"labels": {"app": "agent"}});
        if let Some(fate) = fate {
            metadata["annotations"] = json!({FATE: fate});
        }
        let manifest = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
            "spec": {
                "selector": {"matchLabels": {"app": "agent"}},
                "template": {
                    "metadata": metadata,
                    "spec": {"containers": [{"name": "agent", "image": format!("agent:{image}")}]},
                },
            },
        });
        for file in ["agent.yaml", "overlays/production/agent.yaml"] {
            fs::write(self.folder.path().join(file), manifest.to_string()).unwrap();
        }
    }

    /// Runs a script, with shorter times, as pipelines do, and returns its exit code and what it printed.
    fn run(&self, script: &str) -> (Option<i32>, String) {
        let script = script.replace("-n monitoring", &format!("-n {}", self.workload.namespace));
        let script = script.replace("--blocked-for 2m", "--blocked-for 2s");
        let path = [self.folder.path(), Path::new("/usr/local/bin"), Path::new("/usr/bin"), Path::new("/bin")];
        let output = Command::new("sh")
            .args(["-ec", &script])
            .env_clear()
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", self.workload.cluster.control_plane.kubeconfig())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(printed).unwrap())
    }
}

/// The pages with scripts and roles, in `docs/`.
const PAGES: [&str; 5] = ["pipelines.md", "accept.md", "pipelines-ci.md", "pipelines-gitops.md", "permissions.md"];

/// Returns the code blocks of a language, in the order of the pages.
fn blocks(language: &str) -> Vec<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let text: String = PAGES.iter().map(|page| fs::read_to_string(docs.join(page)).unwrap()).collect();
    let fence = format!("```{language}\n");
    let parts = text.split(&fence).skip(1);
    parts.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Returns the scripts in a document of a pipeline, in order.
fn scripts(document: &Value) -> Vec<String> {
    match document {
        Value::Object(fields) => {
            let of_field = |(name, value): (&String, &Value)| match (name.as_str(), value) {
                ("run", Value::String(script)) => vec![script.clone()],
                ("script" | "after_script", Value::Array(lines)) => {
                    lines.iter().map(|line| line.as_str().unwrap().to_owned()).collect()
                }
                ("command", Value::Array(words)) => vec![words[2].as_str().unwrap().to_owned()],
                (_, value) => scripts(value),
            };
            fields.iter().flat_map(of_field).collect()
        }
        Value::Array(items) => items.iter().flat_map(scripts).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn the_scripts_of_the_page_wait_for_good_rollouts_and_stop_at_bad_ones() {
    let pipeline = Pipeline::new(cluster());
    let [wait, of_manifest, roll_back, without_some_nodes, helm, kustomize] =
        <[String; 6]>::try_from(blocks("sh")).unwrap();
    for script in [&wait, &without_some_nodes, &of_manifest, &helm, &kustomize] {
        let (code, printed) = pipeline.run(script);
        assert_eq!(code, Some(0), "{script}\n{printed}");
    }

    // In YAML, each script runs by itself, with the change applied.
    let documents: Vec<Value> = blocks("yaml").iter().map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    let mut all: Vec<String> = documents.iter().flat_map(scripts).collect();
    let of_terraform = |block: &String| {
        let command = block.lines().find_map(|line| line.trim().strip_prefix("command = ")).unwrap();
        serde_json::from_str::<String>(command).unwrap()
    };
    all.extend(blocks("hcl").iter().map(of_terraform));
    assert_eq!(all.len(), 8, "{all:?}");
    for script in &all {
        let (code, printed) = pipeline.run(script);
        assert_eq!(code, Some(0), "{script}\n{printed}");
    }

    pipeline.manifest("2", Some(CRASHING));
    let (code, printed) = pipeline.run(&roll_back);
    assert_eq!(code, Some(3), "{printed}");
    let template = pipeline.workload.template();
    assert_eq!(template["spec"]["containers"][0]["image"], "agent:1", "{printed}");

    // Blocked again, and left so: each script that waits fails, and each that shows why does not.
    for script in [&wait, &without_some_nodes, &of_manifest, &helm, &kustomize] {
        let (code, printed) = pipeline.run(script);
        assert_eq!(code, Some(3), "{script}\n{printed}");
    }
    for script in &all {
        let fails = script.contains("--watch");
        let (code, printed) = pipeline.run(script);
        assert_eq!(code, Some(if fails { 3 } else { 0 }), "{script}\n{printed}");
    }
    // There is nothing good to go back to: the job leaves the rollout as it is.
    let (code, printed) = pipeline.run(&roll_back);
    assert_eq!(code, Some(3), "{printed}");
    assert_eq!(pipeline.workload.image(), "agent:2", "{printed}");
}

#[test]
fn a_rollout_that_is_named_by_its_manifest_ends_once_the_cluster_has_another_template() {
    let pipeline = Pipeline::new(cluster());
    let apply = "kubectl apply -n monitoring -f agent.yaml";
    let status = "kubectl ds status -n monitoring -f agent.yaml";
    let run = |script: &str| pipeline.run(script);
    let (code, printed) = run(&format!("{apply} && {status} --watch --timeout 3m"));
    assert_eq!(code, Some(0), "{printed}");
    // As `helm get manifest` prints a release.
    let release = "(echo '---'; echo '# Source: x'; echo '{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"c\"}}'; \
                   echo '---'; cat agent.yaml) | kubectl ds status -n monitoring -f - --watch --timeout 3m";
    let (code, printed) = run(release);
    assert_eq!(code, Some(0), "{printed}");
    // Of several DaemonSets, all have to be complete, and the worst comes first.
    let both = "cp agent.yaml both.yaml; echo >> both.yaml; echo --- >> both.yaml; \
                sed 's/agent/zeta/g' agent.yaml >> both.yaml; kubectl apply -n monitoring -f both.yaml";
    let status_of_both = "cat both.yaml | kubectl ds status -n monitoring -f -";
    let (code, printed) = run(&format!("{both} && {status_of_both} --watch --timeout 3m"));
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) =
        run("sed 's/\"zeta:1\"/\"zeta:2\"/' both.yaml | kubectl ds status -n monitoring -f - --watch");
    assert_eq!(code, Some(3), "{printed}");
    let rows: Vec<&str> = printed.lines().skip_while(|line| !line.starts_with("NAMESPACE")).skip(1).collect();
    assert!(rows.len() == 2 && rows[0].contains("zeta") && rows[0].contains("another template"), "{printed}");
    assert!(rows[1].contains("agent") && rows[1].contains("Healthy"), "{printed}");
    // A restart changes nothing that the manifest has.
    let (code, printed) =
        run(&format!("kubectl rollout restart ds/agent -n monitoring && {status} --watch --timeout 3m"));
    assert_eq!(code, Some(0), "{printed}");

    pipeline.manifest("2", None);
    for how in ["", " --watch", " --watch --progress none"] {
        let (code, printed) = run(&format!("{status}{how}"));
        assert_eq!(code, Some(3), "{printed}");
        assert!(printed.contains("the cluster has another template than the manifest"), "{printed}");
    }
    let (code, printed) = run(&format!("{apply} && {status} --watch --timeout 3m"));
    assert_eq!(code, Some(0), "{printed}");
    // Somebody else changes it meanwhile: the image is one that the kubelets have no pods ready with.
    pipeline.manifest("3", Some(CRASHING));
    let change = "(sleep 5; kubectl set image -n monitoring ds/agent agent=agent:4 >&2) &";
    let (code, printed) = run(&format!("{apply}\n{change}\n{status} --watch --timeout 3m"));
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("the cluster has another template than the manifest"), "{printed}");

    let (code, printed) = run(
        "sed 's/\"name\":\"agent\"/\"name\":\"absent\"/' agent.yaml | kubectl ds status -n monitoring -f - --watch",
    );
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("\"absent\" not found"), "{printed}");
}

#[test]
fn the_role_of_the_page_suffices() {
    let cluster = cluster();
    let pipeline = Pipeline::new(cluster);
    let roles = blocks("yaml").into_iter().filter(|text| text.contains("kind: ClusterRole"));
    for role in roles {
        cluster.control_plane.create(&role);
    }
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "rollout-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "rollout-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": pipeline.workload.namespace}],
    });
    cluster.api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding);
    let user = format!("system:serviceaccount:{}:default", pipeline.workload.namespace);
    for command in ["status agent --watch --timeout 2m", "coverage agent --exit-code"] {
        let (code, printed) = pipeline.run(&format!("kubectl ds {command} -n monitoring --as {user}"));
        assert_eq!(code, Some(0), "{printed}");
        assert!(!printed.contains("partial") && !printed.contains("forbidden"), "{printed}");
    }
}
