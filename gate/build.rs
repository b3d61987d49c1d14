//! Embeds the kernel object where there is one: the file `GATE_EBPF_OBJECT` names, else what `cargo xtask build-ebpf` left in
//! `target/ebpf`. Without it the gate is built with the kernel part off. Never builds the object itself: a plain `cargo build`
//! needs nothing but the stable toolchain.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs};

const OBJECT_VARIABLE: &str = "GATE_EBPF_OBJECT";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rustc-check-cfg=cfg(kernel_object)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={OBJECT_VARIABLE}");
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("..");
    let object = match env::var_os(OBJECT_VARIABLE) {
        Some(path) => named(PathBuf::from(path))?,
        None => built_before(&root)?,
    };
    let Some(object) = object else {
        println!(
            "cargo::warning=no kernel object: gate is built with the kernel part off; `cargo xtask build-ebpf` builds it"
        );
        return Ok(());
    };
    fs::copy(&object, Path::new(&env::var("OUT_DIR")?).join("gate-ebpf"))?;
    println!("cargo::rustc-cfg=kernel_object");
    Ok(())
}

/// The object named by the environment; an empty name asks for none.
fn named(path: PathBuf) -> Result<Option<PathBuf>, Box<dyn Error>> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    println!("cargo::rerun-if-changed={}", path.display());
    if path.is_file() {
        Ok(Some(path))
    } else {
        Err(format!(
            "{OBJECT_VARIABLE} names {}, which is no file",
            path.display()
        )
        .into())
    }
}

/// The object in `target/ebpf`. The folder is created and watched rather than the file, since cargo takes a missing file for a
/// changed one and would rebuild the gate every time.
fn built_before(root: &Path) -> Result<Option<PathBuf>, Box<dyn Error>> {
    let folder = root.join("target/ebpf");
    fs::create_dir_all(&folder)?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let object = folder.join("gate-ebpf");
    if !object.is_file() {
        return Ok(None);
    }
    let built = fs::metadata(&object)?.modified()?;
    for sources in ["gate-common/src", "gate-ebpf/src"] {
        let sources = root.join(sources);
        println!("cargo::rerun-if-changed={}", sources.display());
        if newest(&sources)? > built {
            println!(
                "cargo::warning=the kernel object is older than {}: run `cargo xtask build-ebpf`",
                sources.display()
            );
        }
    }
    Ok(Some(object))
}

/// When the newest file of a folder was changed.
fn newest(folder: &Path) -> Result<SystemTime, Box<dyn Error>> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(folder)? {
        newest = newest.max(entry?.metadata()?.modified()?);
    }
    Ok(newest)
}
