//! The load generators: wrk for a closed loop, h2load for a fixed rate. Both run on the processor that the subject does not
//! have.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::lab::write;
use super::process::{Cpus, run};

/// Between the first requests of two clients of a fixed-rate run, so that they do not fire together.
const CLIENT_STAGGER_MILLISECONDS: u32 = 10;
/// h2load sends the same head in all its requests; this many of them side by side bring as many cookies.
const FIXED_RATE_GENERATORS: u32 = 4;

/// What the clients ask for.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    pub address: SocketAddr,
    pub path: String,
    /// Sent with every request, `(name, value)`.
    pub headers: Vec<(String, String)>,
    /// `name=value` of one cookie per line; each request carries the next. Where `None`, no cookie is sent.
    pub cookies: Option<PathBuf>,
    /// Every answer has about this many bytes; another size means another answer than the one to be measured.
    pub answer_bytes: usize,
}

/// Whether a connection serves more than one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connections {
    Kept,
    OnePerRequest,
}

/// What a run gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub requests: u64,
    pub seconds: f64,
    pub p50_milliseconds: f64,
    pub p99_milliseconds: f64,
    /// Connections refused, reset or timed out.
    pub failed: u64,
}

/// As fast as `connections` clients get their answers.
///
/// # Errors
///
/// Where wrk fails or the answers are not of the expected size.
pub(super) fn closed_loop(
    requests: &Requests,
    kind: Connections,
    connections: u32,
    seconds: f64,
    dir: &Path,
) -> Result<Outcome> {
    let script = dir.join("wrk.lua");
    fs::write(&script, wrk_script(requests, kind))
        .with_context(|| format!("cannot write {}", script.display()))?;
    let printed = run(Cpus::Load
        .command("wrk")
        .args(["--threads", "1", "--connections", &connections.to_string()])
        .args([
            "--duration",
            &format!("{}s", whole_seconds(seconds)),
            "--timeout",
            "10s",
        ])
        .arg("--script")
        .arg(&script)
        .arg(format!("http://{}{}", requests.address, requests.path)))?;
    let line = printed
        .lines()
        .find_map(|line| line.strip_prefix("RESULT "))
        .with_context(|| format!("wrk printed no result: {printed}"))?;
    let fields: Vec<f64> = line
        .split(' ')
        .filter_map(|field| field.parse().ok())
        .collect();
    let [count, microseconds, bytes, p50, p99, failed] = fields.as_slice() else {
        bail!("wrk printed {line:?}");
    };
    ensure!(
        *count > 0.0,
        "{} answered nothing: {printed}",
        requests.address
    );
    expect_size(requests, bytes / count)?;
    Ok(Outcome {
        requests: *count as u64,
        seconds: microseconds / 1e6,
        p50_milliseconds: p50 / 1e3,
        p99_milliseconds: p99 / 1e3,
        failed: *failed as u64,
    })
}

/// wrk takes whole seconds only.
fn whole_seconds(seconds: f64) -> u32 {
    (seconds.ceil() as u32).max(1)
}

fn expect_size(requests: &Requests, bytes: f64) -> Result<()> {
    let expected = requests.answer_bytes as f64;
    ensure!(
        (bytes / expected - 1.0).abs() < 0.1,
        "{}{} answered {bytes:.0} bytes on average where {expected} were expected",
        requests.address,
        requests.path
    );
    Ok(())
}

fn wrk_script(requests: &Requests, kind: Connections) -> String {
    let mut headers = String::new();
    for (name, value) in &requests.headers {
        headers.push_str(&format!("  h[{name:?}] = {value:?}\n"));
    }
    if kind == Connections::OnePerRequest {
        headers.push_str("  h[\"Connection\"] = \"close\"\n");
    }
    let cookies = requests.cookies.as_ref().map_or("nil".to_owned(), |path| {
        format!("{:?}", path.display().to_string())
    });
    format!(
        r#"local list, next_request = {{}}, 0
function init(args)
  local h = {{}}
{headers}  local cookies = {cookies}
  if cookies then
    for line in io.lines(cookies) do
      h["Cookie"] = line
      list[#list + 1] = wrk.format("GET", nil, h)
    end
  else
    list[1] = wrk.format("GET", nil, h)
  end
end
function request()
  next_request = next_request % #list + 1
  return list[next_request]
end
function done(summary, latency, requests)
  local e = summary.errors
  print(string.format("RESULT %d %d %d %.1f %.1f %d", summary.requests, summary.duration, summary.bytes,
    latency:percentile(50), latency:percentile(99), e.connect + e.read + e.write + e.timeout))
end
"#
    )
}

/// A fixed number of requests per second, whatever the subject does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub requests_per_second: u32,
    pub connections: u32,
    pub seconds: f64,
    /// Runs the generators at this niceness, so that other generators beside them do not delay them.
    pub niceness: i32,
}

/// Requests at a fixed rate, arrivals spread in time. Latency counts from the moment a request was sent.
///
/// # Errors
///
/// Where h2load fails or requests fail.
pub(super) fn fixed_rate(requests: &Requests, rate: Rate, dir: &Path) -> Result<Outcome> {
    let mut logs = String::new();
    for (mut child, log) in start_generators(requests, rate, dir, "measured")? {
        let status = child.wait()?;
        ensure!(status.success(), "h2load failed: {status}");
        logs.push_str(&fs::read_to_string(&log)?);
    }
    parse_h2load_log(&logs)
}

fn start_generators(
    requests: &Requests,
    rate: Rate,
    dir: &Path,
    name: &str,
) -> Result<Vec<(Child, PathBuf)>> {
    let clients = (rate.connections / FIXED_RATE_GENERATORS).max(1);
    let per_client =
        f64::from(rate.requests_per_second) / f64::from(clients * FIXED_RATE_GENERATORS);
    let count = (per_client * rate.seconds).ceil() as u32 * clients;
    let period = CLIENT_STAGGER_MILLISECONDS * FIXED_RATE_GENERATORS;

    let mut running = Vec::new();
    for (index, cookie) in cookies_for_generators(requests)?.iter().enumerate() {
        let log = dir.join(format!("h2load.{name}.{index}.log"));
        // h2load appends.
        write(&log, "")?;
        let mut command = Cpus::Load.command("nice");
        command
            .args([
                "-n",
                &rate.niceness.to_string(),
                "h2load",
                "--h1",
                "--threads=1",
            ])
            .args([
                format!("--clients={clients}"),
                format!("--requests={count}"),
            ])
            .args(["--rate=1".to_owned(), format!("--rate-period={period}ms")])
            .arg(format!("--rps={per_client:.0}"))
            .arg(format!("--log-file={}", log.display()));
        for (name, value) in &requests.headers {
            command.arg("-H").arg(format!("{name}: {value}"));
        }
        if let Some(cookie) = cookie {
            command.arg("-H").arg(format!("cookie: {cookie}"));
        }
        command.arg(format!("http://{}{}", requests.address, requests.path));
        running.push((silent(command, "h2load")?, log));
    }
    Ok(running)
}

fn silent(mut command: Command, name: &str) -> Result<Child> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {name}"))
}

fn cookies_for_generators(requests: &Requests) -> Result<Vec<Option<String>>> {
    let Some(path) = &requests.cookies else {
        return Ok(vec![None; FIXED_RATE_GENERATORS as usize]);
    };
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let cookies: Vec<Option<String>> = text
        .lines()
        .take(FIXED_RATE_GENERATORS as usize)
        .map(|line| Some(line.to_owned()))
        .collect();
    ensure!(
        cookies.len() == FIXED_RATE_GENERATORS as usize,
        "too few cookies in {}",
        path.display()
    );
    Ok(cookies)
}

/// Lines of `start µs <tab> status <tab> duration µs`; a status of -1 is a failure.
fn parse_h2load_log(log: &str) -> Result<Outcome> {
    let mut durations = Vec::new();
    let (mut first, mut last, mut failed) = (u64::MAX, 0, 0);
    for line in log.lines() {
        let fields: Vec<i64> = line
            .split('\t')
            .filter_map(|field| field.parse().ok())
            .collect();
        let [start, status, duration, ..] = fields.as_slice() else {
            bail!("h2load logged {line:?}");
        };
        if *status < 0 {
            failed += 1;
            continue;
        }
        first = first.min(start.unsigned_abs());
        last = last.max(start.unsigned_abs() + duration.unsigned_abs());
        durations.push(duration.unsigned_abs());
    }
    ensure!(!durations.is_empty(), "h2load completed no request");
    durations.sort_unstable();
    let percentile = |percent: usize| -> f64 {
        let index = (durations.len() * percent / 100).min(durations.len() - 1);
        durations.get(index).copied().unwrap_or(0) as f64 / 1e3
    };
    Ok(Outcome {
        requests: durations.len() as u64,
        seconds: last.saturating_sub(first).max(1) as f64 / 1e6,
        p50_milliseconds: percentile(50),
        p99_milliseconds: percentile(99),
        failed,
    })
}

/// A load that runs beside another measurement until it is dropped. What it gets is not looked at.
#[derive(Debug)]
pub(super) struct Background {
    children: Vec<Child>,
}

impl Background {
    /// As fast as `connections` clients get their answers.
    ///
    /// # Errors
    ///
    /// Where wrk cannot be started.
    pub(super) fn closed_loop(
        requests: &Requests,
        kind: Connections,
        connections: u32,
        seconds: f64,
        dir: &Path,
    ) -> Result<Self> {
        let script = dir.join("wrk.background.lua");
        write(&script, wrk_script(requests, kind))?;
        let mut command = Cpus::Load.command("wrk");
        command
            .args(["--threads", "1", "--connections", &connections.to_string()])
            .args(["--duration", &format!("{}s", whole_seconds(seconds))])
            .arg("--script")
            .arg(&script)
            .arg(format!("http://{}{}", requests.address, requests.path));
        Ok(Self {
            children: vec![silent(command, "wrk")?],
        })
    }

    /// At a fixed rate.
    ///
    /// # Errors
    ///
    /// Where h2load cannot be started.
    pub(super) fn fixed_rate(requests: &Requests, rate: Rate, dir: &Path) -> Result<Self> {
        let running = start_generators(requests, rate, dir, "background")?;
        Ok(Self {
            children: running.into_iter().map(|(child, _)| child).collect(),
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        for child in &mut self.children {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_come_from_the_log_and_failures_are_counted() {
        let log: String = (1..=100)
            .map(|duration| format!("{}\t200\t{duration}000\n", 1_000_000 + duration))
            .chain(["1\t-1\t5\n".to_owned()])
            .collect();
        let outcome = parse_h2load_log(&log).unwrap();
        assert_eq!((outcome.requests, outcome.failed), (100, 1));
        assert!((outcome.p50_milliseconds - 51.0).abs() < f64::EPSILON);
        assert!((outcome.p99_milliseconds - 100.0).abs() < f64::EPSILON);
        assert!(parse_h2load_log("nonsense").is_err());
        assert!(parse_h2load_log("").is_err());
    }
}
