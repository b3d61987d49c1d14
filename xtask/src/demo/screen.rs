//! What the demo shows: one row for each room, drawn over itself on a terminal, one line now and then elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use super::gate::RoomStatus;
use super::room::Room;

/// What is known of one room at one moment.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) room: &'static Room,
    /// What the gate says; `None` while it does not answer.
    pub(super) gate: Option<RoomStatus>,
    /// What the origin counted.
    pub(super) active: usize,
    pub(super) in_the_last_minute: usize,
    pub(super) admitted: usize,
    /// Positions of the demo visitors that wait, in order.
    pub(super) positions: Vec<u64>,
}

/// Draws rows.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: bool,
    drawn_lines: usize,
    last_plain: Option<Duration>,
}

/// Where the output is no terminal, so often does a line come.
const PLAIN_PAUSE: Duration = Duration::from_secs(5);

impl Screen {
    pub(super) fn new() -> Self {
        Self {
            terminal: io::stdout().is_terminal(),
            drawn_lines: 0,
            last_plain: None,
        }
    }

    /// Shows the rows as of `time` since the demo began, and the kernel's counters.
    pub(super) fn draw(&mut self, time: Duration, rows: &[Row], kernel: &[String]) {
        if self.terminal {
            let text = full(time, rows, kernel);
            let up = match self.drawn_lines {
                0 => String::new(),
                lines => format!("\x1b[{lines}A"),
            };
            self.drawn_lines = text.lines().count();
            let cleared: String = text.lines().map(|line| format!("{line}\x1b[K\n")).collect();
            print!("{up}{cleared}\x1b[J");
            // A terminal that is gone is noticed elsewhere.
            io::stdout().flush().ok();
        } else if self
            .last_plain
            .is_none_or(|last| time.saturating_sub(last) >= PLAIN_PAUSE)
        {
            self.last_plain = Some(time);
            println!("{}", plain(time, rows));
        }
    }
}

fn full(time: Duration, rows: &[Row], kernel: &[String]) -> String {
    let mut text = format!(
        "\n{:<6} {:>22} {:>26} {:>9} {:>9}   next in line\n",
        clock(time),
        "active: origin / gate",
        "in 60 s: origin / gate",
        "waiting",
        "admitted"
    );
    for row in rows {
        let (active, minute, waiting) = row.gate.as_ref().map_or_else(
            || ("?".to_owned(), "?".to_owned(), "?".to_owned()),
            |gate| {
                (
                    gate.active.to_string(),
                    gate.in_the_last_minute.to_string(),
                    gate.waiting.to_string(),
                )
            },
        );
        let first: Vec<String> = row.positions.iter().take(8).map(u64::to_string).collect();
        text.push_str(&format!(
            "{:<6} {:>22} {:>26} {:>9} {:>9}   {}\n",
            row.room.name,
            format!(
                "{} / {active} of {}",
                row.active, row.room.total_active_users
            ),
            format!(
                "{} / {minute} of {}",
                row.in_the_last_minute, row.room.new_users_per_minute
            ),
            waiting,
            row.admitted,
            first.join(" ")
        ));
    }
    if !kernel.is_empty() {
        text.push_str(&format!("kernel {}\n", kernel.join("  ")));
    }
    text
}

fn plain(time: Duration, rows: &[Row]) -> String {
    let rooms: Vec<String> = rows
        .iter()
        .map(|row| {
            format!(
                "{}: {} active of {}, {} waiting, {} admitted",
                row.room.name,
                row.active,
                row.room.total_active_users,
                row.gate.as_ref().map_or(0, |gate| gate.waiting),
                row.admitted
            )
        })
        .collect();
    format!("{}  {}", clock(time), rooms.join("; "))
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::super::room::ROOMS;
    use super::*;

    #[test]
    fn a_gate_that_does_not_answer_is_shown_as_unknown() {
        let row = Row {
            room: &ROOMS[0],
            gate: None,
            active: 3,
            in_the_last_minute: 4,
            admitted: 5,
            positions: vec![1, 2],
        };
        let text = full(Duration::from_secs(61), &[row], &[]);
        assert!(text.contains("01:01"), "{text}");
        assert!(text.contains("3 / ? of 10"), "{text}");
        assert!(text.contains("1 2"), "{text}");
    }
}
