//! The control plane: etcd, API server, controller manager and scheduler, in a network namespace of
//! their own, one hop behind the ToR.
//!
//! The API server listens at the port of the `kubernetes` service, and the namespace has the service's
//! address. So nodes and pods reach it under that address by plain routing, as they would by way of a
//! kube-proxy, and none is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::assets::Assets;
use super::keys::{Keys, User};
use super::kubectl::Kubectl;
use super::plan::{API_SERVICE, CLUSTER_CIDRS, CONTROL, SERVICES};
use super::{GATES, SLOW};
use crate::binaries::{run, tool};
use crate::netns::Netns;
use crate::process::Daemon;
use crate::wait::until;

/// Where etcd listens, in the namespace.
const ETCD: &str = "http://127.0.0.1:2379";

/// The parts of the control plane besides the API server and etcd.
const OTHERS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

/// A control plane that runs.
#[derive(Debug)]
pub struct Control {
    // Ended in this order, before the namespace goes.
    others: Vec<Daemon>,
    api_server: Option<Daemon>,
    etcd: Daemon,
    netns: Netns,
    assets: Assets,
    keys: Keys,
    dir: PathBuf,
    kubectl: Kubectl,
}

impl Control {
    /// Starts everything in a namespace that is cabled, and awaits that the API server is ready.
    /// `nodes` are the names of those that will join; with `node_cidrs` they get `podCIDRs`.
    pub fn start(
        netns: Netns,
        assets: &Assets,
        dir: &Path,
        nodes: &[String],
        node_cidrs: bool,
    ) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let users = [User::admin()].into_iter();
        let users = users.chain(OTHERS.map(User::part));
        let users: Vec<_> = users.chain(nodes.iter().map(|name| User::node(name))).collect();
        let keys =
            Keys::make(&dir.join("keys"), &format!("https://{}", CONTROL.far(false)), &users)?;
        let addresses: Vec<_> =
            [false, true].map(|ipv6| CONTROL.far(ipv6)).into_iter().chain(API_SERVICE).collect();
        let hosts = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"];
        keys.certificate("api-server", "/CN=kube-apiserver", &hosts, &addresses)?;
        keys.certificate("kubelet-client", "/O=system:masters/CN=kube-apiserver", &[], &[])?;
        let admin = keys.kubeconfig(&User::admin())?;
        let kubectl = Kubectl::inside(assets.program("kubectl"), admin, &netns)?;
        let etcd = daemon(&netns, dir, assets, "etcd", &etcd_flags(dir))?;
        let mut control = Self {
            others: Vec::new(),
            api_server: None,
            etcd,
            netns,
            assets: assets.clone(),
            keys,
            dir: dir.to_path_buf(),
            kubectl,
        };
        control.start_api_server()?;
        control.start_others(node_cidrs)?;
        Ok(control)
    }

    /// kubectl as its administrator.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Who is who.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Where it runs.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Starts the API server and awaits that it is ready.
    pub fn start_api_server(&mut self) -> Result<()> {
        ensure!(self.api_server.is_none(), "the API server runs");
        let flags = self.api_server_flags();
        let started = daemon(&self.netns, &self.dir, &self.assets, "kube-apiserver", &flags)?;
        let started = self.api_server.insert(started);
        let (etcd, kubectl) = (&mut self.etcd, &self.kubectl);
        until("the API server to be ready", SLOW, || {
            etcd.ensure_alive()?;
            started.ensure_alive()?;
            kubectl.run(&["get", "--raw", "/readyz"])
        })
        .map(drop)
        .with_context(|| started.log_tail())
    }

    /// Ends the API server at once, as a crash does.
    pub fn stop_api_server(&mut self) -> Result<()> {
        self.api_server.take().context("the API server does not run")?.kill()
    }

    fn start_others(&mut self, node_cidrs: bool) -> Result<()> {
        for name in OTHERS {
            let mut flags = vec![
                format!("--kubeconfig={}", self.keys.kubeconfig(&User::part(name))?.display()),
                "--leader-elect=false".to_owned(),
                "--port=0".to_owned(),
                format!("--feature-gates={GATES}"),
            ];
            if name == "kube-controller-manager" {
                flags.extend(self.controller_flags(node_cidrs));
            }
            self.others.push(daemon(&self.netns, &self.dir, &self.assets, name, &flags)?);
        }
        Ok(())
    }

    fn api_server_flags(&self) -> Vec<String> {
        let key = |name: &str| self.keys.file(name).display().to_string();
        vec![
            format!("--etcd-servers={ETCD}"),
            "--secure-port=443".to_owned(),
            "--bind-address=::".to_owned(),
            format!("--advertise-address={}", CONTROL.far(false)),
            format!("--service-cluster-ip-range={}", SERVICES.join(",")),
            format!("--tls-cert-file={}", key("api-server.crt")),
            format!("--tls-private-key-file={}", key("api-server.key")),
            format!("--client-ca-file={}", key("ca.crt")),
            format!("--token-auth-file={}", key("tokens.csv")),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", key("accounts.key")),
            format!("--service-account-signing-key-file={}", key("accounts.key")),
            format!("--kubelet-client-certificate={}", key("kubelet-client.crt")),
            format!("--kubelet-client-key={}", key("kubelet-client.key")),
            format!("--kubelet-certificate-authority={}", key("ca.crt")),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            format!("--feature-gates={GATES}"),
        ]
    }

    fn controller_flags(&self, node_cidrs: bool) -> Vec<String> {
        let key = |name: &str| self.keys.file(name).display().to_string();
        let mut flags = vec![
            "--use-service-account-credentials=true".to_owned(),
            format!("--root-ca-file={}", key("ca.crt")),
            format!("--service-account-private-key-file={}", key("accounts.key")),
            format!("--allocate-node-cidrs={node_cidrs}"),
        ];
        if node_cidrs {
            flags.push(format!("--cluster-cidr={CLUSTER_CIDRS}"));
            flags.push("--node-cidr-mask-size-ipv4=24".to_owned());
            flags.push("--node-cidr-mask-size-ipv6=64".to_owned());
        }
        flags
    }

    /// Deletes a key straight from etcd, behind the API server's back; says how many there were.
    pub fn delete_from_etcd(&self, key: &str) -> Result<u64> {
        let request = json!({ "key": STANDARD.encode(key) }).to_string();
        let mut curl = Command::new(tool("curl")?);
        curl.args(["--silent", "--show-error", "--fail", "--data", &request]);
        curl.arg(format!("{ETCD}/v3/kv/deleterange"));
        let said = self.netns.within(|| run(&mut curl))?;
        let said: Value = serde_json::from_str(&said)?;
        // etcd writes numbers of 64 bits as text, and leaves a zero out.
        let deleted = said.get("deleted").and_then(Value::as_str).unwrap_or("0");
        Ok(deleted.parse()?)
    }

    /// The ends of all logs.
    pub fn logs(&self) -> String {
        let all = self.api_server.iter().chain(&self.others).chain([&self.etcd]);
        all.map(Daemon::log_tail).collect::<Vec<_>>().join("\n")
    }
}

fn daemon(
    netns: &Netns,
    dir: &Path,
    assets: &Assets,
    name: &str,
    flags: &[String],
) -> Result<Daemon> {
    let mut command = Command::new(assets.program(name));
    command.args(flags).current_dir(dir);
    netns.within(|| Daemon::start(name, &mut command, &dir.join(format!("{name}.log"))))
}

fn etcd_flags(dir: &Path) -> Vec<String> {
    vec![
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={ETCD}"),
        format!("--advertise-client-urls={ETCD}"),
        "--listen-peer-urls=http://127.0.0.1:2380".to_owned(),
    ]
}
