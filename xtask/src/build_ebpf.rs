//! Builds the kernel object: finds or installs a compiler with the sources of `core` and the BPF linker, builds `gate-ebpf`, and
//! puts the object where gate's build script embeds it.
//!
//! Everything it downloads by itself goes below `target/`, except the two Debian packages that bring the compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{run, setup};

/// Relative to the workspace's root; gate's build script looks here.
const OBJECT: &str = "target/ebpf/gate-ebpf";
const TARGET: &str = "bpfel-unknown-none";
const LINKER_VERSION: &str = "0.10.3";
/// The linker opens the LLVM of the active Rust toolchain; its feature names which.
const LINKER_LLVM_MAJORS: [u32; 3] = [20, 21, 22];
/// Debian's compiler with its sources, built for the browser but complete.
const DEBIAN_PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];
const DEBIAN_COMPILER: &str = "/usr/bin/rustc";

/// A compiler that can build `core` for another target.
#[derive(Debug, PartialEq, Eq)]
struct Compiler {
    program: PathBuf,
    llvm_major: u32,
}

/// Builds and puts in place; says where.
pub(crate) fn run(root: &Path) -> Result<()> {
    let compiler = find_or_install_compiler()?;
    let linker = find_or_install_linker(root, &compiler)?;
    build(root, &compiler, &linker)?;
    let built = root
        .join("target/ebpf-build")
        .join(TARGET)
        .join("release/gate-ebpf");
    let object = root.join(OBJECT);
    match place(&built, &object)? {
        Placed::New => eprintln!("kernel object: {}", object.display()),
        Placed::Same => eprintln!("kernel object: {} (unchanged)", object.display()),
    }
    Ok(())
}

fn find_or_install_compiler() -> Result<Compiler> {
    if let Some(compiler) = find_compiler() {
        return Ok(compiler);
    }
    if let Err(error) = setup::install(&DEBIAN_PACKAGES) {
        bail!("{error:#}\n{}", by_hand());
    }
    find_compiler().with_context(by_hand)
}

/// What to type where nothing can be done unattended.
fn by_hand() -> String {
    format!(
        "no Rust compiler here has the sources of its `core` library, which the BPF target needs.\n\
         Either, with rustup:          rustup component add rust-src\n\
         or, on Debian or Ubuntu:      apt-get install {}\n\
         Then run `cargo xtask build-ebpf` again. Until then gate builds and runs with the kernel part off.",
        DEBIAN_PACKAGES.join(" ")
    )
}

/// The first compiler that has what it needs: the one asked for, the active one, Debian's.
fn find_compiler() -> Option<Compiler> {
    let asked_for = std::env::var_os("RUSTC").map(PathBuf::from);
    asked_for
        .into_iter()
        .chain([PathBuf::from("rustc"), PathBuf::from(DEBIAN_COMPILER)])
        .find_map(usable)
}

/// The compiler if it has the sources of `core` and an LLVM the linker can be built for.
fn usable(program: PathBuf) -> Option<Compiler> {
    let sysroot = output(Command::new(&program).args(["--print", "sysroot"]))?;
    let core = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core/Cargo.toml");
    if !core.exists() {
        return None;
    }
    let version = output(Command::new(&program).arg("-vV"))?;
    let llvm_major = llvm_major(&version)?;
    LINKER_LLVM_MAJORS
        .contains(&llvm_major)
        .then_some(Compiler {
            program,
            llvm_major,
        })
}

/// From the lines of `rustc -vV`.
fn llvm_major(version: &str) -> Option<u32> {
    let line = version
        .lines()
        .find_map(|line| line.strip_prefix("LLVM version: "))?;
    line.split('.').next()?.parse().ok()
}

fn output(command: &mut Command) -> Option<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    String::from_utf8(output.stdout).ok()
}

/// The linker below `target/`, one folder per version and LLVM, so that a new compiler gets a new linker.
fn find_or_install_linker(root: &Path, compiler: &Compiler) -> Result<PathBuf> {
    let feature = format!("rust-llvm-{}", compiler.llvm_major);
    let folder = root.join(format!("target/bpf-linker-{LINKER_VERSION}-{feature}"));
    let linker = folder.join("bin/bpf-linker");
    if linker.exists() {
        return Ok(linker);
    }
    eprintln!("building the BPF linker, once, in about a minute");
    run::checked(
        run::cargo(root)
            .args(["install", "bpf-linker", "--locked", "--version", LINKER_VERSION])
            .args(["--no-default-features", "--features", &feature])
            .arg("--root")
            .arg(&folder)
            .arg("--target-dir")
            .arg(root.join("target/bpf-linker-build")),
    )
    .context(
        "cannot build the BPF linker; it comes from the crates.io registry and needs a C compiler (Debian: build-essential)",
    )?;
    Ok(linker)
}

fn build(root: &Path, compiler: &Compiler, linker: &Path) -> Result<()> {
    let flags = [
        "-Cdebuginfo=2".to_owned(),
        format!("-Clinker={}", linker.display()),
        "-Clink-arg=--btf".to_owned(),
        // 32-bit arithmetic and jumps: every kernel the program loads on has them.
        "-Ctarget-cpu=v3".to_owned(),
        format!("--remap-path-prefix={}=.", root.display()),
    ];
    run::checked(
        run::cargo(root)
            .args(["build", "--package", "gate-ebpf", "--release"])
            .args(["-Z", "build-std=core", "--target", TARGET])
            .arg("--target-dir")
            .arg(root.join("target/ebpf-build"))
            .env("RUSTC", &compiler.program)
            // `build-std` is not stable; with the sources of the very compiler it needs nothing else of a nightly.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
            .env_remove("RUSTC_WRAPPER")
            .env_remove("RUSTC_WORKSPACE_WRAPPER"),
    )
    .context("cannot build the kernel object")
}

#[derive(Debug, PartialEq, Eq)]
enum Placed {
    New,
    /// The bytes are those already there, and so is the file: nothing that depends on it is rebuilt.
    Same,
}

/// Puts the object in place whole or not at all.
fn place(built: &Path, object: &Path) -> Result<Placed> {
    let bytes = fs::read(built).with_context(|| format!("cannot read {}", built.display()))?;
    let folder = object.parent().unwrap_or(object);
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if fs::read(object).is_ok_and(|there| there == bytes) {
        freshen(built, object)?;
        return Ok(Placed::Same);
    }
    let partial = object.with_extension("partial");
    fs::write(&partial, &bytes)
        .and_then(|()| fs::rename(&partial, object))
        .with_context(|| format!("cannot write {}", object.display()))?;
    Ok(Placed::New)
}

/// After a build that yielded the same bytes, dates the object like that build: gate's build script warns of an object older
/// than its sources.
fn freshen(built: &Path, object: &Path) -> Result<()> {
    let modified = |file: &Path| fs::metadata(file).and_then(|meta| meta.modified());
    let built_at = modified(built).context("cannot date the built object")?;
    if modified(object).is_ok_and(|at| at < built_at) {
        fs::File::options()
            .write(true)
            .open(object)
            .and_then(|file| file.set_modified(built_at))
            .with_context(|| format!("cannot date {}", object.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_tells_its_llvm() {
        assert_eq!(llvm_major("rustc 1.96.0\nLLVM version: 22.1.8\n"), Some(22));
        assert_eq!(llvm_major("rustc 1.96.0\n"), None);
    }

    #[test]
    fn a_compiler_that_is_not_there_is_not_usable() {
        assert_eq!(usable(PathBuf::from("/no/such/rustc")), None);
    }

    #[test]
    fn the_object_is_replaced_only_by_other_bytes() {
        let folder = std::env::temp_dir().join(format!("gate-xtask-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (built, object) = (folder.join("built"), folder.join("placed/object"));
        fs::write(&built, "one").unwrap();
        assert_eq!(place(&built, &object).unwrap(), Placed::New);
        assert_eq!(place(&built, &object).unwrap(), Placed::Same);
        fs::write(&built, "two").unwrap();
        assert_eq!(place(&built, &object).unwrap(), Placed::New);
        assert_eq!(fs::read(&object).unwrap(), b"two");
        fs::remove_dir_all(&folder).unwrap();
    }
}
