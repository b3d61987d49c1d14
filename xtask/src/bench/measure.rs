//! What the kernel says about a process: time on a processor, memory. And whether the machine is quiet enough to measure.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// Other work above this share of one processor spoils a measurement.
const QUIET_CPU_MAX: f64 = 0.25;
/// Length of one look at the machine's load.
const QUIET_WINDOW: Duration = Duration::from_millis(250);
/// `/proc/stat` counts in these (USER_HZ is 100 on every Linux architecture that still matters).
const TICKS_PER_SECOND: f64 = 100.0;

/// Time all threads of these processes have spent on a processor, in nanoseconds; user and system. Threads that have ended
/// are not in it.
///
/// # Errors
///
/// Where the process is gone.
pub(super) fn cpu_nanoseconds(ids: &[u32]) -> Result<u64> {
    let mut sum = 0;
    for id in ids {
        let tasks = fs::read_dir(format!("/proc/{id}/task"))
            .with_context(|| format!("process {id} has ended"))?;
        for task in tasks {
            // A thread may end between the listing and the reading.
            let line = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            sum += line
                .split_whitespace()
                .next()
                .and_then(|first| first.parse::<u64>().ok())
                .unwrap_or(0);
        }
    }
    Ok(sum)
}

/// Resident memory of these processes, in KiB; pages they share count for each.
pub(super) fn rss_kib(ids: &[u32]) -> u64 {
    sum_of_field(ids, "status", "VmRSS:")
}

/// Memory of these processes, in KiB; pages they share are split among those who share them.
pub(super) fn pss_kib(ids: &[u32]) -> u64 {
    sum_of_field(ids, "smaps_rollup", "Pss:")
}

fn sum_of_field(ids: &[u32], file: &str, field: &str) -> u64 {
    ids.iter()
        .filter_map(|id| {
            let text = fs::read_to_string(format!("/proc/{id}/{file}")).ok()?;
            let line = text.lines().find(|line| line.starts_with(field))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .sum()
}

/// Processor time the whole machine has spent working since it started, in seconds, soft interrupts included.
pub(super) fn machine_busy_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = |column: usize| -> f64 {
        stat.lines()
            .next()
            .and_then(|line| line.split_whitespace().nth(column + 1))
            .and_then(|ticks| ticks.parse().ok())
            .unwrap_or(0.0)
    };
    // user, nice, system, irq, softirq; not idle, iowait, steal.
    [0, 1, 2, 5, 6].into_iter().map(ticks).sum::<f64>() / TICKS_PER_SECOND
}

/// Work of others during a measurement, from the machine's busy time less what is known to be ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct OtherLoad {
    /// Processors' worth of other work when the measurement began.
    pub cpus_at_start: f64,
}

/// Waits until the machine is quiet, at most `seconds_max`, and says how quiet it was in the end.
pub(super) fn wait_for_quiet(seconds_max: u32) -> OtherLoad {
    let looks_max = 1 + seconds_max * 4;
    let mut cpus_at_start = 0.0;
    for _ in 0..looks_max {
        let before = machine_busy_seconds();
        thread::sleep(QUIET_WINDOW);
        cpus_at_start = (machine_busy_seconds() - before) / QUIET_WINDOW.as_secs_f64();
        if cpus_at_start < QUIET_CPU_MAX {
            break;
        }
    }
    OtherLoad { cpus_at_start }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_loop_shows_as_processor_time() {
        let ids = [std::process::id()];
        let before = cpu_nanoseconds(&ids).unwrap();
        let mut sum = 0_u64;
        while cpu_nanoseconds(&ids).unwrap() < before + 20_000_000 {
            for value in 0..100_000_u64 {
                sum = std::hint::black_box(sum.wrapping_add(value));
            }
        }
        assert!(rss_kib(&ids) > 100);
        assert!(pss_kib(&ids) > 100);
    }
}
