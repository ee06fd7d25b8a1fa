//! The files: where they go, and the lines that say where a message is from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use rack::binaries::run;
use rack::capture::Message;
use rack::router::Brand;

/// The messages of one router.
#[derive(Debug)]
pub(crate) struct Album {
    pub(crate) brand: Brand,
    directory: PathBuf,
    router: String,
}

/// What a decoder has to know about the session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    pub(crate) as4: bool,
    pub(crate) extended_next_hop: bool,
    pub(crate) extended_messages: bool,
    pub(crate) internal: bool,
}

impl Context {
    /// An external session with four-byte AS numbers.
    pub(crate) const PLAIN: Self =
        Self { as4: true, extended_next_hop: false, extended_messages: false, internal: false };
}

impl Album {
    pub(crate) fn new(directory: &Path, brand: Brand) -> Result<Self> {
        let directory = directory.join(brand.name());
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        let (name, package) = match brand {
            Brand::Bird => ("BIRD", "bird2"),
            Brand::Frr => ("FRR", "frr"),
            Brand::Gobgp => ("GoBGP", "gobgpd"),
            Brand::Openbgpd => ("OpenBGPD", "openbgpd"),
            Brand::Exabgp => ("ExaBGP", "exabgp"),
        };
        let mut query = Command::new("dpkg-query");
        let version = run(query.args(["--show", "--showformat=${Version}", package]))?;
        Ok(Self { brand, directory, router: format!("{name} (Debian {package} {version})") })
    }

    /// Writes one message.
    pub(crate) fn keep(
        &self,
        name: &str,
        how: &str,
        context: Context,
        expect: &str,
        message: &Message,
    ) -> Result<()> {
        let yes = |flag: bool| if flag { "yes" } else { "no" };
        let peer = if context.internal { "ibgp" } else { "ebgp" };
        let mut line = format!(
            "as4={}, add-path=no, ext-next-hop={}, peer={peer}",
            yes(context.as4),
            yes(context.extended_next_hop)
        );
        if context.extended_messages {
            line.push_str(", ext-messages=yes");
        }
        let text = format!(
            "# origin: {}, {how}\n# context: {line}\n# expect: {expect}\n{}\n",
            self.router,
            message.hex()
        );
        let file = self.directory.join(format!("{name}.hex"));
        fs::write(&file, text).with_context(|| file.display().to_string())?;
        println!("{:<9} {:<28} {} bytes", self.brand.name(), name, message.bytes().len());
        Ok(())
    }
}
