//! The command line: what can be asked for, with which flags and variables. Each command's own
//! file does it; `main` only parses and turns an outcome into an exit code.

mod ask;
pub mod bgp;
pub mod check;
pub mod completions;
pub mod crd;
#[cfg(test)]
mod desk;
pub mod drain;
pub(crate) mod elapsed;
pub mod exit;
pub mod log_level;
pub mod output;
pub mod pods;
pub mod policy;
pub mod schema;
mod view;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::install::Places;

/// Where the command line finds the agent unless told otherwise.
pub const ADMIN_SOCKET: &str = "/run/flock/admin.sock";

/// A CNI agent for nodes that peer with their routers by BGP.
#[derive(Debug, Parser)]
#[command(
    name = "flock-agent",
    version,
    about = "A CNI agent for nodes that peer with their routers by BGP",
    long_about = "A CNI agent for nodes that peer with their routers by BGP: it wires pods, announces \
                  their addresses and learns the ways out. `run` is the daemon; the other commands \
                  ask the daemon that runs on this node, over a socket that only root may use.",
    after_help = exit::HELP,
    after_long_help = format!("{}\n\n{MAIN_EXAMPLES}", exit::HELP),
    max_term_width = 100
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the agent: serve CNI calls, wire pods, keep the kernel as it should be
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// List the pods of this node
    #[command(after_help = pods::HELP)]
    Pods(Show),
    /// Look for what is wrong on this node: kernel, files, state, sessions, clock
    #[command(after_help = check::HELP)]
    Check(Show),
    /// Show what this node's BGP speaker does, or tell it what to do
    #[command(after_help = bgp::HELP)]
    Bgp(bgp::Bgp),
    /// Show what NetworkPolicies do to the pods of this node, or explain it
    #[command(after_help = policy::HELP)]
    Policy(policy::Policy),
    /// Take this node out of service: traffic moves away first, then every BGP session ends
    #[command(after_help = drain::HELP)]
    Drain(drain::Drain),
    /// Show or change which lines the running agent writes to its log
    #[command(after_help = log_level::HELP)]
    LogLevel(log_level::Level),
    /// Install the plugin and its configuration, once, without running the agent
    #[command(after_help = INSTALL_HELP)]
    Install(Install),
    /// Print the CustomResourceDefinition of NodeConfig, for a cluster
    #[command(after_help = crd::HELP)]
    Crd {
        /// The form of the definition
        #[arg(short, long, value_name = "FORM", default_value = "yaml")]
        output: crd::CrdForm,
    },
    /// Print the JSON Schema of what a command answers with -o json
    #[command(after_help = schema::HELP)]
    Schema {
        /// Whose answer; without it, a list of them
        #[arg(value_parser = schema::name())]
        name: Option<String>,
    },
    /// Print a completion script for a shell
    #[command(after_help = completions::HELP)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

const MAIN_EXAMPLES: &str = "\
Examples:
  flock-agent run --standalone /etc/flock
  flock-agent bgp show --watch
  flock-agent bgp show routes 2001:db8:a::/64 -o json
  flock-agent check && echo all well
  kubectl exec ds/flock -- flock-agent bgp show";

const INSTALL_HELP: &str = "\
Writes the plugin `flock` (and `loopback`, where there is none) to BIN_DIR and 01-flock.conflist \
to CONF_DIR. What is there and the same is left alone. `flock-agent run --install-cni` does it when \
the agent can serve, which is when it should happen.

Examples:
  flock-agent install
  flock-agent install /opt/cni/bin:/etc/cni/net.d";

const RUN_EXAMPLES: &str = "\
SIGTERM and SIGINT are a restart: pods, routes and what peers know stay as they are. Every flag has \
a variable; the flag wins.

Examples:
  # On one Linux host, without Kubernetes: DIR holds nodeconfig.yaml and pods/*.yaml
  flock-agent run --standalone DIR

  # On a node of a cluster, outside of a pod
  flock-agent run --kubeconfig /etc/flock/kubeconfig --node-name node-1

  # Make it the node's CNI
  flock-agent run --standalone DIR --install-cni /opt/cni/bin:/etc/cni/net.d";

/// How the agent runs.
#[derive(Debug, Clone, Args)]
pub struct Run {
    /// This node's name; the host's name when absent
    #[arg(long, env = "NODE_NAME", hide_env_values = true, value_name = "NAME")]
    pub node_name: Option<String>,

    /// Where state is kept across restarts
    #[arg(
        long,
        env = "FLOCK_STATE_DIR",
        hide_env_values = true,
        value_name = "DIR",
        default_value = "/var/lib/flock"
    )]
    pub state_dir: PathBuf,

    /// The CNI socket that the plugin calls
    #[arg(long, env = "FLOCK_SOCKET", hide_env_values = true, value_name = "PATH", default_value = flock_cni::netconf::DEFAULT_SOCKET)]
    pub socket: PathBuf,

    /// The socket that this command line asks
    #[arg(long, env = "FLOCK_ADMIN_SOCKET", hide_env_values = true, value_name = "PATH", default_value = ADMIN_SOCKET)]
    pub admin_socket: PathBuf,

    /// Where the plugin leaves DELs while the agent is away; STATE_DIR/spool when absent
    #[arg(long, env = "FLOCK_SPOOL", hide_env_values = true, value_name = "DIR")]
    pub spool: Option<PathBuf>,

    /// Address and port for /metrics, /healthz, /readyz and the page; nothing listens when absent
    #[arg(long, env = "FLOCK_HTTP", hide_env_values = true, value_name = "ADDR:PORT", value_parser = listen_address)]
    pub http: Option<SocketAddr>,

    /// Whether the page at / is served there; auto: on a loopback address only
    #[arg(
        long,
        env = "FLOCK_HTTP_PAGE",
        hide_env_values = true,
        value_name = "WHEN",
        default_value = "auto"
    )]
    pub http_page: PageWhen,

    /// How log lines look
    #[arg(
        long,
        env = "FLOCK_LOG_FORMAT",
        hide_env_values = true,
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub log_format: LogFormat,

    /// Take NodeConfig and pods from this directory instead of Kubernetes
    #[arg(long, env = "FLOCK_STANDALONE", hide_env_values = true, value_name = "DIR")]
    pub standalone: Option<PathBuf>,

    /// Reach the API server as this file says; as the service account of its pod when absent
    #[arg(long, env = "KUBECONFIG", hide_env_values = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The namespace of the Secrets that a NodeConfig names; that of its pod when absent
    #[arg(long, env = "POD_NAMESPACE", hide_env_values = true, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Install the plugin and, once the agent can serve, its configuration
    #[arg(
        long,
        env = "FLOCK_INSTALL_CNI",
        hide_env_values = true,
        value_name = "BIN_DIR:CONF_DIR"
    )]
    pub install_cni: Option<Places>,
}

impl Run {
    /// The spool's directory.
    pub fn spool_dir(&self) -> PathBuf {
        self.spool.clone().unwrap_or_else(|| self.state_dir.join("spool"))
    }
}

/// When the page is served. It has no password: whoever reaches the port sees pods and peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PageWhen {
    /// On a loopback address.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl PageWhen {
    /// Whether it is served at this address.
    pub fn at(self, address: SocketAddr) -> bool {
        match self {
            Self::Auto => address.ip().to_canonical().is_loopback(),
            Self::On => true,
            Self::Off => false,
        }
    }
}

/// `ADDR:PORT`, or `:PORT` for all addresses.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let whole = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
    whole.parse().map_err(|_| "expected ADDR:PORT or :PORT, such as 127.0.0.1:9179".into())
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// In `--help`, flags of every view stand behind a view's own.
const BEHIND: usize = 100;

/// How a command that shows something is asked. Both flags may stand before or behind what is
/// to be shown.
#[derive(Debug, Clone, Args)]
pub struct Show {
    /// The running agent's socket
    #[arg(
        long,
        env = "FLOCK_ADMIN_SOCKET", hide_env_values = true,
        value_name = "PATH",
        default_value = ADMIN_SOCKET,
        global = true,
        display_order = BEHIND
    )]
    pub admin_socket: PathBuf,

    /// The form of the answer
    #[arg(
        short,
        long,
        value_name = "FORM",
        default_value = "table",
        global = true,
        display_order = BEHIND
    )]
    pub output: output::Form,

    /// Show it again whenever it changes, until Ctrl-C
    #[arg(short, long, global = true, display_order = BEHIND)]
    pub watch: bool,
}

/// Where to install.
#[derive(Debug, Clone, Args)]
pub struct Install {
    /// The runtime's plugin and configuration directories
    #[arg(
        value_name = "BIN_DIR:CONF_DIR",
        env = "FLOCK_INSTALL_CNI",
        hide_env_values = true,
        default_value = "/opt/cni/bin:/etc/cni/net.d"
    )]
    pub places: Places,

    /// The CNI socket to name in the configuration
    #[arg(long, env = "FLOCK_SOCKET", hide_env_values = true, value_name = "PATH", default_value = flock_cni::netconf::DEFAULT_SOCKET)]
    pub socket: PathBuf,

    /// The spool to name in the configuration
    #[arg(long, env = "FLOCK_SPOOL", hide_env_values = true, value_name = "DIR", default_value = flock_cni::netconf::DEFAULT_SPOOL)]
    pub spool: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listen_address_is_an_address_or_a_port() {
        assert_eq!(listen_address(":9179").unwrap().to_string(), "[::]:9179");
        assert_eq!(listen_address("127.0.0.1:1").unwrap().to_string(), "127.0.0.1:1");
        for bad in ["", "foo", "127.0.0.1", ":", ":99999", "localhost:1"] {
            assert!(listen_address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_page_is_shown_to_this_node_unless_said_otherwise() {
        let at = |when: PageWhen, address: &str| when.at(listen_address(address).unwrap());
        for (address, auto) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            (":1", false),
            ("0.0.0.0:1", false),
            ("192.0.2.1:1", false),
        ] {
            assert_eq!(at(PageWhen::Auto, address), auto, "{address}");
            assert!(at(PageWhen::On, address) && !at(PageWhen::Off, address));
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    /// Every command says how it is used, and no word of it stands too far to the right.
    #[test]
    fn every_command_has_examples() {
        use clap::CommandFactory;
        let mut left = vec![Cli::command()];
        while let Some(command) = left.pop() {
            let name = command.get_name().to_owned();
            let help = command.get_after_long_help().or(command.get_after_help());
            let help = help.map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:\n  "), "{name}: {help}");
            let examples = help.lines().filter(|line| line.starts_with("  "));
            for line in examples.filter(|line| !line.contains("# ")) {
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
            left.extend(command.get_subcommands().filter(|c| c.get_name() != "help").cloned());
        }
    }
}
