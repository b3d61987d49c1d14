//! HAProxy: a plain reverse proxy, and the waiting room its users build from a stick table.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::http::Client;
use super::lab::write;
use super::nginx::Page;
use super::process::{Cpus, Process, free_address};

/// Visitors the stick-table room has admitted; it is full then.
const ADMITTED_VISITORS: u32 = 20_000;

/// A running HAProxy and where it accepts.
#[derive(Debug)]
pub(super) struct Haproxy {
    pub process: Process,
    pub address: SocketAddr,
}

impl Haproxy {
    /// A reverse proxy in front of `origin`, and nothing else.
    ///
    /// # Errors
    ///
    /// Where HAProxy does not start.
    pub(super) fn proxy(dir: &Path, origin: SocketAddr, cpus: Cpus) -> Result<Self> {
        let rest = format!(
            "backend origin\n  http-reuse always\n  server origin {origin} pool-max-conn 2048\n"
        );
        Self::start(
            "haproxy-proxy",
            dir,
            cpus,
            "  default_backend origin\n",
            &rest,
        )
    }

    /// Answers `/page` with `http-request return`, and `/refuse` the same way to everyone who is not in a full stick table of
    /// admitted visitors. The table is filled here.
    ///
    /// # Errors
    ///
    /// Where HAProxy does not start or the table does not fill.
    pub(super) fn pages(name: &str, dir: &Path, page: &Page<'_>) -> Result<Self> {
        let file = dir.join(format!("{name}.body"));
        write(&file, page.body)?;
        let answer = format!(
            "http-request return status 200 content-type \"{}\" file {} hdr Cache-Control private,\\ no-store hdr Set-Cookie {}",
            page.content_type,
            file.display(),
            "x".repeat(page.cookie_bytes)
        );
        let cookie = page.cookie_name;
        let frontend = format!(
            "  {answer} if {{ path /page }}\n\
             \x20 http-request set-var(txn.admitted) req.cook({cookie}),in_table(visitors)\n\
             \x20 {answer} if {{ path /refuse }} !{{ var(txn.admitted) -m bool }} {{ table_cnt(visitors) ge {ADMITTED_VISITORS} }}\n\
             \x20 http-request track-sc0 req.cook({cookie}) table visitors\n\
             \x20 http-request return status 204\n"
        );
        let rest = "backend visitors\n  stick-table type string len 200 size 200k expire 60m store conn_cnt\n";
        let haproxy = Self::start(name, dir, Cpus::Subject, &frontend, rest)?;
        let mut client = Client::connect(haproxy.address)?;
        for visitor in 0..ADMITTED_VISITORS {
            let header = format!("{cookie}=admitted-visitor-{visitor}");
            let answer = client.get("/admit", &[("Cookie", &header), ("Content-Length", "0")]);
            ensure!(
                answer.context("filling the stick table")?.status == 204,
                "HAProxy refused a visitor"
            );
        }
        Ok(haproxy)
    }

    fn start(name: &str, dir: &Path, cpus: Cpus, frontend: &str, rest: &str) -> Result<Self> {
        let address = free_address()?;
        let home = dir.join(name);
        std::fs::create_dir_all(&home)?;
        // Each proxied connection may need two files, more than the limit where many are idle; it rarely does.
        let config = format!(
            "global\n  nbthread 1\n  maxconn 18000\n  no strict-limits\n  tune.bufsize 32768\n\
             defaults\n  mode http\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n  option http-keep-alive\n\
             frontend front\n  bind {address} backlog 4096\n{frontend}\n{rest}"
        );
        let path = home.join("haproxy.cfg");
        write(&path, config)?;
        let mut command = cpus.command("haproxy");
        command.arg("-db").arg("-f").arg(&path);
        let mut process = Process::start(name, command, &home.join("log"))?;
        process.wait_for(address)?;
        Ok(Self { process, address })
    }
}
