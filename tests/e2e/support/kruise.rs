//! The real OpenKruise controller, which runs Advanced DaemonSets.
//!
//! It cannot be built from Go's module proxy, so the environment variable `KUBECTL_DS_KRUISE` names a directory with
//! `kruise-manager.xz` (its program), `crds.yaml`, and `webhooks.yaml` (those of its DaemonSet).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;

use super::control_plane::{ControlPlane, free_ports};
use super::say;

/// Returns the folder with the controller. Without it, the tests that need it are ignored.
pub fn folder() -> PathBuf {
    PathBuf::from(env::var_os("KUBECTL_DS_KRUISE").expect("KUBECTL_DS_KRUISE names the folder with OpenKruise"))
}

/// Starts the controller for a control plane, and waits until it takes Advanced DaemonSets.
pub fn start(control_plane: &ControlPlane, folder: &Path) {
    let start = Instant::now();
    let file = |name: &str| folder.join(name).to_str().expect("the folder's name is UTF-8").to_owned();
    // Too long for the annotation that client-side apply leaves.
    control_plane.kubectl(&["apply", "--server-side", "-f", &file("crds.yaml")]);
    control_plane.kubectl(&["create", "-f", &file("webhooks.yaml")]);

    let certificates = control_plane.folder().join("kruise-certificates");
    fs::create_dir_all(&certificates).unwrap();
    let [webhook, metrics, health, profiles] = free_ports();
    let mut command = Command::new(unpack(&folder.join("kruise-manager.xz")));
    command
        .env("WEBHOOK_HOST", "127.0.0.1")
        .env("WEBHOOK_PORT", webhook.to_string())
        .env("WEBHOOK_CERT_DIR", certificates)
        .env("POD_NAMESPACE", "kruise-system")
        .arg("--kubeconfig")
        .arg(control_plane.kubeconfig())
        .arg("--enable-leader-election=false")
        .args(["--metrics-addr", &format!("127.0.0.1:{metrics}")])
        .args(["--health-probe-addr", &format!("127.0.0.1:{health}")])
        .args(["--pprof-addr", &format!("127.0.0.1:{profiles}")]);
    control_plane.spawn("kruise-manager", &mut command);

    let probe = json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "DaemonSet",
        "metadata": {"name": "probe", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "probe"}},
            "template": {
                "metadata": {"labels": {"app": "probe"}},
                "spec": {"containers": [{"name": "agent", "image": "agent"}]},
            },
        },
    })
    .to_string();
    control_plane.wait_until("OpenKruise takes Advanced DaemonSets", || {
        let made = control_plane.try_kubectl(&["create", "-f", "-"], Some(&probe));
        made.status.success().then_some(())
    });
    control_plane.wait_until("OpenKruise runs Advanced DaemonSets", || {
        let probe = control_plane.get(&["daemonsets.apps.kruise.io", "probe"]);
        (probe["status"]["observedGeneration"] == probe["metadata"]["generation"]).then_some(())
    });
    control_plane.kubectl(&["delete", "daemonsets.apps.kruise.io", "probe"]);
    say(&format!("OpenKruise runs after {:.1?}", start.elapsed()));
}

fn unpack(packed: &Path) -> PathBuf {
    let output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/controlplane/unpack.sh"))
        .arg(packed)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("unpack.sh starts");
    assert!(output.status.success(), "{} cannot be unpacked; the words are above", packed.display());
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}
