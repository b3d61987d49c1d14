//! `cargo xtask demo`: a small shop, a gate in front of it, and visitors who want in, all real and all ours. When it ends,
//! however it ends, nothing is left: processes die with us, the namespace with its process, files are below `target/`.

mod gate;
mod ledger;
mod network;
mod room;
mod screen;
mod shop;
mod visitor;
mod wire;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{build_ebpf, setup, test};

use gate::Gate;
use network::Network;
use room::ROOMS;
use screen::{Row, Screen};
use visitor::{Arrivals, Crowd};

/// How long `--once` plays.
const ONCE: Duration = Duration::from_secs(30);

/// How often the screen is drawn.
const FRAME: Duration = Duration::from_millis(500);

/// The port that people are told, where it is free.
const PORT: u16 = 8000;

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Plays for about 30 seconds, prints a table and fails unless every limit held
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(root: &Path, args: &DemoArgs) -> Result<()> {
    let over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&over);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .context("cannot catch Ctrl-C")?;

    let folder = root.join("target/demo");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let network = kernel_network(root, &folder);
    let binary = test::build_gate(root)?;
    if over.load(Ordering::Relaxed) {
        return Ok(());
    }
    let stage = Stage::build(&binary, folder, network, args)?;
    stage.announce(args);
    stage.play(&over, args)
}

/// The kernel part's own network, where everything it needs is there; else says why not and the demo goes on without it.
fn kernel_network(root: &Path, folder: &Path) -> Option<Network> {
    if !setup::is_root() {
        eprintln!("note: not root, so the demo runs without the kernel part");
        return None;
    }
    let made = setup::ensure(&[setup::IP])
        .and_then(|()| build_ebpf::run(root))
        .and_then(|()| Network::make(folder));
    match made {
        Ok(network) => Some(network),
        Err(error) => {
            eprintln!("note: the demo runs without the kernel part: {error:#}");
            None
        }
    }
}

/// Everything that runs. Fields are dropped in this order: the gate lets go of its interface before the network goes.
#[derive(Debug)]
struct Stage {
    crowd: Option<Crowd>,
    gate: Gate,
    books: Arc<shop::Books>,
    shop: SocketAddr,
}

impl Stage {
    fn build(
        binary: &Path,
        folder: PathBuf,
        network: Option<Network>,
        args: &DemoArgs,
    ) -> Result<Self> {
        let (shop, books) = shop::open().context("cannot open the shop")?;
        let port = if args.once { 0 } else { PORT };
        let gate = Gate::start(binary, &folder, shop, port, network.as_ref())?;
        let within = Duration::from_secs(if args.once { 4 } else { 10 });
        let crowd = Crowd::start(Arrivals {
            gate: gate.for_visitors(),
            network,
            within,
        })?;
        Ok(Self {
            crowd: Some(crowd),
            gate,
            books,
            shop,
        })
    }

    fn announce(&self, args: &DemoArgs) {
        println!("\nA waiting room in front of a small shop. Open in a browser:");
        for room in &ROOMS {
            println!(
                "  http://{}{:<8} {}: at most {} at a time, {} new a minute ({})",
                self.gate.address(),
                room.path,
                room.title,
                room.total_active_users,
                room.new_users_per_minute,
                room.pacing
            );
        }
        println!(
            "  http://{}/status  what the gate says of itself",
            self.gate.admin()
        );
        println!(
            "  http://{}/        the shop itself, behind the gate's back",
            self.shop
        );
        if args.once {
            println!("It ends by itself after {} seconds.", ONCE.as_secs());
        } else {
            println!("Ctrl-C ends it.");
        }
    }

    fn play(mut self, over: &AtomicBool, args: &DemoArgs) -> Result<()> {
        let begun = Instant::now();
        let mut screen = Screen::new();
        let ended = || over.load(Ordering::Relaxed) || args.once && begun.elapsed() >= ONCE;
        while !ended() {
            self.gate.must_run()?;
            screen.draw(begun.elapsed(), &self.rows(), &self.gate.kernel());
            thread::sleep(FRAME);
        }
        let verdict = Verdict::of(&self);
        println!("\n{}", verdict.table);
        if let Some(crowd) = self.crowd.take() {
            // The network goes with the crowd, so the gate has to let go of it first.
            self.gate.stop()?;
            crowd.leave();
        }
        match verdict.faults.is_empty() {
            true => Ok(()),
            false => bail!("{}", verdict.faults.join("; ")),
        }
    }

    fn rows(&self) -> Vec<Row> {
        let status = self.gate.status();
        ROOMS
            .iter()
            .map(|room| {
                let (active, in_the_last_minute, admitted) =
                    self.books.read(room, |ledger, now| {
                        (
                            ledger.active(now),
                            ledger.in_the_last_minute(now),
                            ledger.admitted(),
                        )
                    });
                let mut positions: Vec<u64> = self.crowd.as_ref().map_or_else(Vec::new, |crowd| {
                    crowd.diary(room, |diary| diary.positions.values().copied().collect())
                });
                positions.sort_unstable();
                Row {
                    room,
                    gate: status
                        .as_ref()
                        .ok()
                        .and_then(|all| all.get(room.name).cloned()),
                    active,
                    in_the_last_minute,
                    admitted,
                    positions,
                }
            })
            .collect()
    }
}

/// Whether every limit held, as the origin and the visitors saw it.
#[derive(Debug)]
struct Verdict {
    table: String,
    faults: Vec<String>,
}

impl Verdict {
    fn of(stage: &Stage) -> Self {
        let mut table = format!(
            "{:<34} {:>14} {:>14}\n",
            "measured at the origin", ROOMS[0].name, ROOMS[1].name
        );
        let mut faults = Vec::new();
        let mut line = |title: &str, cells: [String; ROOMS.len()]| {
            table.push_str(&format!("{title:<34} {:>14} {:>14}\n", cells[0], cells[1]));
        };
        let books = |reader: fn(&ledger::Ledger) -> usize| {
            ROOMS.map(|room| stage.books.read(&room, |ledger, _| reader(ledger)))
        };
        let most_active = books(ledger::Ledger::most_active);
        let most_new = books(ledger::Ledger::most_in_a_minute);
        let admitted = books(ledger::Ledger::admitted);
        line(
            "most active at a time (limit)",
            cells(&most_active, |room| room.total_active_users),
        );
        line(
            "most new in any 60 s (limit)",
            cells(&most_new, |room| room.new_users_per_minute),
        );
        line("admitted", admitted.map(|count| count.to_string()));
        for room in &ROOMS {
            let over = |what: &str, count: usize, limit: u32| {
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                (count > limit).then(|| format!("{}: {count} {what}, over {limit}", room.name))
            };
            faults.extend(over(
                "active",
                most_active[room.index],
                room.total_active_users,
            ));
            faults.extend(over(
                "new in a minute",
                most_new[room.index],
                room.new_users_per_minute,
            ));
            if admitted[room.index] == 0 {
                faults.push(format!("{}: nobody got in", room.name));
            }
        }
        if let Some(crowd) = &stage.crowd {
            let diaries = |reader: &dyn Fn(&visitor::Diary) -> String| {
                ROOMS.map(|room| crowd.diary(&room, reader))
            };
            line(
                "waiting at the end",
                diaries(&|diary| diary.positions.len().to_string()),
            );
            line(
                "got in after waiting",
                diaries(&|diary| diary.admitted_after_waiting.to_string()),
            );
            line(
                "longest wait of those",
                diaries(&|diary| format!("{} s", diary.longest_wait.as_secs())),
            );
            line(
                "places that moved back",
                diaries(&|diary| diary.set_back.to_string()),
            );
            line("errors", diaries(&|diary| diary.errors.to_string()));
            for room in &ROOMS {
                faults.extend(crowd.diary(room, |diary| crowd_faults(room, diary)));
            }
        }
        Self { table, faults }
    }
}

fn cells(counts: &[usize; ROOMS.len()], limit: fn(&room::Room) -> u32) -> [String; ROOMS.len()] {
    ROOMS.map(|room| format!("{} ({})", counts[room.index], limit(&room)))
}

fn crowd_faults(room: &room::Room, diary: &visitor::Diary) -> Vec<String> {
    let mut faults = Vec::new();
    if diary.set_back > 0 {
        faults.push(format!("{}: a place in the line moved back", room.name));
    }
    if let Some(error) = &diary.last_error {
        faults.push(format!(
            "{}: {} errors, the last: {error}",
            room.name, diary.errors
        ));
    }
    faults
}
