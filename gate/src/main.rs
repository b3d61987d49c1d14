//! The command. Parses, builds, runs and turns the result into an exit code; everything else is the library's.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser as _;
use gate::cli::{Cli, Command, Kernel, Keys, Page};
use gate::config::{Config, ConfigError};
use gate::page::{Dialect, PageSource, Template, TemplateError, preview};
use gate::serve::ServeError;
use gate::simulate::command::{SimulateError, execute as simulate};
use gate::ticket::Keyring;

/// The system's allocator spends a tenth of a proxied request's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FAILED: u8 = 1;
const BAD_ORDER: u8 = 2;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Where even that cannot be printed, the exit code is all that is left to say.
            let printed = error.print();
            return ExitCode::from(if error.use_stderr() || printed.is_err() {
                BAD_ORDER
            } else {
                0
            });
        }
    };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            for line in format!("{error:#}").lines() {
                log::error!("{line}");
            }
            ExitCode::from(exit_code(&error))
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(order) => gate::serve::serve(&order).map_err(anyhow::Error::from),
        Command::Check { config } => {
            let rooms = Config::load(&config)?.rooms.len();
            let rooms_are = if rooms == 1 { "room" } else { "rooms" };
            print(&format!("{}: ok, {rooms} {rooms_are}\n", config.display()))
        }
        Command::Keys {
            command: Keys::Rotate { key_file },
        } => {
            let id = Keyring::rotate(&key_file)?;
            log::info!("key {id:08x} seals from the next start or reload on");
            Ok(())
        }
        Command::Simulate(args) => {
            simulate(&args, &mut std::io::stdout().lock()).map_err(anyhow::Error::from)
        }
        Command::Kernel { command } => kernel(&command),
        Command::Page {
            command:
                Page::Preview {
                    state,
                    language,
                    template,
                },
        } => {
            let source = match template {
                Some(file) => PageSource::Custom(Arc::new(read_template(&file)?)),
                None => PageSource::BuiltIn,
            };
            print(&preview(&source, language, state))
        }
    }
}

fn kernel(command: &Kernel) -> anyhow::Result<()> {
    match command {
        Kernel::Status { json } => {
            for gate in gate::kernel::status()? {
                if *json {
                    print(&format!("{}\n", serde_json::to_string(&gate.status)?))?;
                } else {
                    print(&format!("gate {}\n{}", gate.gate, gate.status.as_text()))?;
                }
            }
        }
        Kernel::Detach => {
            for done in gate::kernel::detach()? {
                log::info!("{done}");
            }
        }
    }
    Ok(())
}

fn read_template(file: &Path) -> anyhow::Result<Template> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("{}: cannot be read", file.display()))?;
    let (template, warnings) = Template::parse(&text, Dialect::Cloudflare)
        .with_context(|| format!("{}: is no usable page", file.display()))?;
    for warning in warnings {
        log::warn!("{}: {warning}", file.display());
    }
    Ok(template)
}

fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("cannot write to standard output")
}

/// 2 for a bad command line or configuration, 1 for everything that went wrong later.
fn exit_code(error: &anyhow::Error) -> u8 {
    let is_bad_order = error.chain().any(|cause| {
        cause.is::<ConfigError>()
            || cause.is::<TemplateError>()
            || matches!(cause.downcast_ref(), Some(SimulateError::Scenario(_)))
            || matches!(
                cause.downcast_ref(),
                Some(
                    ServeError::Configuration(_)
                        | ServeError::FlagsBesideFile
                        | ServeError::Kernel(_)
                )
            )
    });
    if is_bad_order { BAD_ORDER } else { FAILED }
}
