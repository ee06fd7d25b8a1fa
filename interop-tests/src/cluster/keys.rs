//! Who is who in a cluster: a certificate authority, the certificates that it signed, the tokens of
//! everybody who talks to the API server, and a kubeconfig for each of them.
//!
//! Users have tokens, because a file with a line for each is all that they need. The two servers (API
//! server and kubelet) have certificates, because clients have to verify them, and the API server
//! also shows one to a kubelet.

use std::fs::{self, Permissions};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::binaries::{run, tool};

/// What the cluster is called in kubeconfigs.
const CLUSTER: &str = "rack";

/// A user of the API server.
#[derive(Debug, Clone)]
pub struct User {
    name: String,
    group: Option<&'static str>,
}

impl User {
    /// May do everything.
    pub fn admin() -> Self {
        Self { name: "admin".to_owned(), group: Some("system:masters") }
    }

    /// A part of the control plane; what it may do is in the API server's own roles.
    pub fn part(name: &str) -> Self {
        Self { name: format!("system:{name}"), group: None }
    }

    /// A kubelet, which may do what concerns its node.
    pub fn node(name: &str) -> Self {
        Self { name: format!("system:node:{name}"), group: Some("system:nodes") }
    }

    fn token(&self) -> String {
        // Nobody outside the cluster's own namespaces can reach the API server.
        format!("token-of-{}", self.name.replace(':', "-"))
    }
}

/// The directory with all keys.
#[derive(Debug)]
pub struct Keys {
    dir: PathBuf,
    server: String,
}

impl Keys {
    /// Makes an authority, the key of service accounts and the tokens of these users. `server` is the
    /// URL of the API server.
    pub fn make(dir: &Path, server: &str, users: &[User]) -> Result<Self> {
        fs::create_dir_all(dir)?;
        fs::set_permissions(dir, Permissions::from_mode(0o700))?;
        let keys = Self { dir: dir.to_path_buf(), server: server.to_owned() };
        keys.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 \
             -subj /CN=rack -addext basicConstraints=critical,CA:TRUE \
             -addext keyUsage=critical,keyCertSign,cRLSign -keyout ca.key -out ca.crt",
        )?;
        keys.openssl("genrsa -out accounts.key 2048")?;
        let line = |(number, user): (usize, &User)| {
            let groups = user.group.map(|group| format!(",\"{group}\"")).unwrap_or_default();
            format!("{},{},{number}{groups}\n", user.token(), user.name)
        };
        fs::write(keys.file("tokens.csv"), users.iter().enumerate().map(line).collect::<String>())?;
        Ok(keys)
    }

    /// A file among them.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A certificate `NAME.crt` with its key `NAME.key`, signed by the authority, good for a server
    /// under these names and addresses and for a client of this subject.
    pub fn certificate(
        &self,
        name: &str,
        subject: &str,
        hosts: &[&str],
        addresses: &[IpAddr],
    ) -> Result<()> {
        let hosts = hosts.iter().map(|host| format!("DNS:{host}"));
        let all: Vec<_> = hosts.chain(addresses.iter().map(|one| format!("IP:{one}"))).collect();
        let mut extensions = "basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth,clientAuth\n\
            keyUsage=digitalSignature\n"
            .to_owned();
        if !all.is_empty() {
            extensions.push_str(&format!("subjectAltName={}\n", all.join(",")));
        }
        fs::write(self.file(&format!("{name}.ext")), extensions)?;
        self.openssl(&format!(
            "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
             -subj {subject} -keyout {name}.key -out {name}.csr"
        ))?;
        self.openssl(&format!(
            "x509 -req -days 365 -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial \
             -extfile {name}.ext -out {name}.crt"
        ))
    }

    /// Writes the kubeconfig of a user and returns its path. The authority is inside, so that it can be
    /// read wherever it is put.
    pub fn kubeconfig(&self, user: &User) -> Result<PathBuf> {
        let authority = STANDARD.encode(fs::read(self.file("ca.crt"))?);
        let path = self.file(&format!("{}.kubeconfig", user.name.replace(':', "-")));
        fs::write(&path, kubeconfig(&self.server, &authority, user).to_string())?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(path)
    }

    fn openssl(&self, arguments: &str) -> Result<()> {
        let mut openssl = Command::new(tool("openssl")?);
        openssl.current_dir(&self.dir).args(arguments.split_whitespace());
        run(&mut openssl).map(drop).context("making the keys of a cluster")
    }
}

fn kubeconfig(server: &str, authority: &str, user: &User) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": CLUSTER,
            "cluster": { "server": server, "certificate-authority-data": authority },
        }],
        "users": [{ "name": user.name, "user": { "token": user.token() } }],
        "contexts": [{ "name": CLUSTER, "context": { "cluster": CLUSTER, "user": user.name } }],
        "current-context": CLUSTER,
    })
}
