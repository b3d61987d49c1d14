//! `cargo xtask package`: an archive that can be unpacked on another machine of the same architecture, below `target/package`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{build_ebpf, run};

/// Runs with no more than it needs: the kernel part's capabilities are dropped by the gate itself once the program is loaded.
const SERVICE: &str = "\
[Unit]
Description=gate, a virtual waiting room
After=network-online.target
Wants=network-online.target

[Service]
ExecStartPre=/usr/local/bin/gate check --config /etc/gate/gate.toml
ExecStart=/usr/local/bin/gate serve --config /etc/gate/gate.toml
Restart=on-failure
StateDirectory=gate
LimitNOFILE=1048576
LimitMEMLOCK=infinity
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_BPF CAP_NET_ADMIN CAP_PERFMON CAP_NET_BIND_SERVICE
AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_PERFMON CAP_NET_BIND_SERVICE
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
";

const CONFIGURATION: &str = "\
# gate check --config /etc/gate/gate.toml says what is wrong with this file. The README has every key.
listen = [\"0.0.0.0:80\"]
origin = \"http://127.0.0.1:8080\"
state_file = \"/var/lib/gate/state\"
admin = \"127.0.0.1:9000\"

[kernel]
# interfaces = [\"eth0\"]
mode = \"monitor\"

[[rooms]]
name = \"all\"
total_active_users = 500
new_users_per_minute = 200
";

pub(crate) fn run(root: &Path) -> Result<()> {
    if let Err(error) = build_ebpf::run(root) {
        eprintln!("note: the package has the kernel part off: {error:#}");
    }
    run::checked(run::cargo(root).args(["build", "--release", "--locked", "--package", "gate"]))?;
    let name = format!(
        "gate-{}-{}-linux",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH
    );
    let parent = root.join("target/package");
    let folder = parent.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (from, to) in [("target/release/gate", "gate"), ("README.md", "README.md")] {
        fs::copy(root.join(from), folder.join(to))
            .with_context(|| format!("cannot copy {from}"))?;
    }
    for (file, text) in [("gate.service", SERVICE), ("gate.toml", CONFIGURATION)] {
        fs::write(folder.join(file), text).with_context(|| format!("cannot write {file}"))?;
    }
    let archive = parent.join(format!("{name}.tar.gz"));
    run::checked(
        Command::new("tar")
            .args(["--create", "--gzip", "--owner=0", "--group=0", "--file"])
            .arg(&archive)
            .arg("--directory")
            .arg(&parent)
            .arg(&name),
    )?;
    println!("{}", archive.display());
    Ok(())
}
