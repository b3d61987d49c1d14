//! The thread that saves while the gate runs. Never holds a room for longer than a snapshot takes.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use super::file::{StateError, StateFile};
use crate::clock::Clock;
use crate::room::{Millis, Snapshot};

/// Time between two saves: what a crash may forget, besides what tickets still tell.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// A save may take this part of the time; large rooms are saved less often.
const SAVE_TIME_PART: u32 = 10;

/// Gives the rooms' snapshots, by name.
pub trait Source: Send + 'static {
    fn snapshots(&self, now: Millis) -> Vec<(String, Snapshot)>;
}

impl<F: Fn(Millis) -> Vec<(String, Snapshot)> + Send + 'static> Source for F {
    fn snapshots(&self, now: Millis) -> Vec<(String, Snapshot)> {
        self(now)
    }
}

/// Saves about once a second until stopped.
#[derive(Debug)]
pub struct Saver {
    stop: Sender<()>,
    thread: JoinHandle<Result<(), StateError>>,
}

impl Saver {
    /// # Errors
    /// The system gives no thread.
    pub fn start(file: StateFile, clock: Clock, source: impl Source) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("gate-state".to_owned())
            .spawn(move || {
                let mut interval = SAVE_INTERVAL;
                let mut failing = false;
                loop {
                    let last = match stopped.recv_timeout(interval) {
                        Err(RecvTimeoutError::Timeout) => false,
                        Ok(()) | Err(RecvTimeoutError::Disconnected) => true,
                    };
                    let began = clock.now();
                    let saved = file.save(&source.snapshots(began));
                    if last {
                        return saved;
                    }
                    // Once is enough to say: a full disk stays full for a while.
                    match (&saved, failing) {
                        (Err(error), false) => log::error!("{}", chain(error)),
                        (Ok(()), true) => log::info!("The state is saved again."),
                        (Err(_), true) | (Ok(()), false) => {}
                    }
                    failing = saved.is_err();
                    let took = Duration::from_millis(clock.now().millis_since(began));
                    interval = SAVE_INTERVAL.max(took * SAVE_TIME_PART);
                }
            })?;
        Ok(Self { stop, thread })
    }

    /// Saves once more, and returns when that is done.
    ///
    /// # Errors
    /// The last save failed: a restart goes on from the one before.
    pub fn stop(self) -> Result<(), StateError> {
        // A thread that is gone has panicked; there is nothing left to tell it.
        drop(self.stop);
        match self.thread.join() {
            Ok(saved) => saved,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::{Limits, Plan, Room, Settings};

    #[test]
    fn the_last_save_holds_what_was_there_at_the_stop() {
        let path = std::env::temp_dir().join(format!("gate-saver-{}", std::process::id()));
        let file = StateFile::new(path.clone());
        let clock = Clock::start(Millis::ZERO);
        let saver = Saver::start(file.clone(), clock, |now| {
            let settings = Settings::with_limits(Limits::new(1, 1).unwrap());
            let mut room = Room::new(Plan::new_without_events(settings), 1, now);
            room.check_in(now, None);
            vec![("room".to_owned(), room.snapshot(now))]
        })
        .unwrap();
        saver.stop().unwrap();
        assert_eq!(file.load().unwrap().rooms.len(), 1);
        std::fs::remove_file(path).unwrap();
    }
}
