//! nginx: the origin, a plain reverse proxy, and its nearest thing to a waiting room (`limit_req`).

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Result, bail};

use super::lab::write;
use super::namespace;
use super::process::{Cpus, Process, free_address};

/// The least that serves the connections of every suite.
const WORKER_CONNECTIONS: u32 = 19_000;
/// nginx reads no longer argument than its 4096-byte buffer holds, so longer pages come from a file.
const RETURN_BYTES_MAX: usize = 4000;

/// A running nginx and where it accepts.
#[derive(Debug)]
pub(super) struct Nginx {
    pub process: Process,
    pub address: SocketAddr,
}

impl Nginx {
    /// Serves `/1k` and `/64k`.
    ///
    /// # Errors
    ///
    /// Where nginx does not start.
    pub(super) fn origin(dir: &Path, cpus: Cpus) -> Result<Self> {
        Self::start("origin", dir, cpus, "", &origin_server(dir)?)
    }

    /// The same in a namespace.
    ///
    /// # Errors
    ///
    /// Where nginx does not start.
    pub(super) fn origin_in(namespace: &str, address: SocketAddr, dir: &Path) -> Result<Process> {
        let home = dir.join("origin");
        std::fs::create_dir_all(&home)?;
        let arguments = arguments(&home, address, "", &origin_server(dir)?)?;
        let mut command = namespace::command(namespace, Cpus::Load, "nginx");
        command.args(arguments);
        let process = Process::start("origin", command, &home.join("log"))?;
        for _ in 0..100 {
            if home.join("pid").exists() {
                return Ok(process);
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        bail!("the origin does not start in {namespace}")
    }

    /// A reverse proxy in front of `origin`, and nothing else.
    ///
    /// # Errors
    ///
    /// Where nginx does not start.
    pub(super) fn proxy(dir: &Path, origin: SocketAddr, cpus: Cpus) -> Result<Self> {
        let http = format!(
            "upstream origin {{ server {origin}; keepalive 1024; keepalive_requests 1000000000; keepalive_timeout 1h; }}"
        );
        // The buffers hold the largest answer of the suites, so that nothing touches a disk.
        let server = "location / { proxy_pass http://origin; proxy_http_version 1.1; \
            proxy_set_header Connection \"\"; proxy_set_header Host $host; \
            proxy_buffer_size 8k; proxy_buffers 32 8k; proxy_busy_buffers_size 128k; }";
        Self::start("nginx-proxy", dir, cpus, &http, server)
    }

    /// Answers `/page` with `return 200` (a file where the body is too long for that) and refuses `/refuse` by
    /// `limit_req` per value of the cookie `cookie`, both with `body` and a cookie of `pad` bytes.
    ///
    /// # Errors
    ///
    /// Where nginx does not start.
    pub(super) fn pages(name: &str, dir: &Path, page: &Page<'_>) -> Result<Self> {
        let file = dir.join(format!("{name}.body"));
        write(&file, page.body)?;
        let headers = format!(
            "add_header Cache-Control \"private, no-store\" always; add_header Set-Cookie \"{}\" always; default_type \"{}\";",
            "x".repeat(page.cookie_bytes),
            page.content_type
        );
        let answer = if page.body.len() <= RETURN_BYTES_MAX {
            format!("return 200 \"{}\";", String::from_utf8_lossy(page.body))
        } else {
            format!(
                "alias {}; open_file_cache max=10; open_file_cache_valid 1h;",
                file.display()
            )
        };
        let http = format!(
            "limit_req_zone $cookie_{} zone=room:64m rate=1r/m;",
            page.cookie_name
        );
        let server = format!(
            "location = /page {{ {headers} {answer} }} \
             location = /refused {{ internal; {headers} {answer} }} \
             location = /refuse {{ limit_req zone=room; limit_req_status 429; error_page 429 =200 /refused; \
             limit_req_log_level info; {headers} alias {}; }}",
            file.display()
        );
        Self::start(name, dir, Cpus::Subject, &http, &server)
    }

    fn start(name: &str, dir: &Path, cpus: Cpus, http: &str, server: &str) -> Result<Self> {
        let address = free_address()?;
        let home = dir.join(name);
        std::fs::create_dir_all(&home)?;
        let mut command = cpus.command("nginx");
        command.args(arguments(&home, address, http, server)?);
        let mut process = Process::start(name, command, &home.join("log"))?;
        process.wait_for(address)?;
        Ok(Self { process, address })
    }
}

fn origin_server(dir: &Path) -> Result<String> {
    let www = dir.join("www");
    std::fs::create_dir_all(&www)?;
    write(&www.join("1k"), vec![b'x'; 1024])?;
    write(&www.join("64k"), vec![b'x'; 64 * 1024])?;
    Ok(format!(
        "root {}; default_type text/html; open_file_cache max=10; open_file_cache_valid 1h;",
        www.display()
    ))
}

/// Writes the configuration into `home` and returns the command line that uses it.
fn arguments(home: &Path, address: SocketAddr, http: &str, server: &str) -> Result<Vec<OsString>> {
    let shown = home.display();
    let config = format!(
        "daemon off; user root; worker_processes 1; pid {shown}/pid; error_log stderr crit;\n\
         events {{ worker_connections {WORKER_CONNECTIONS}; }}\n\
         http {{\n\
         access_log off; sendfile on; tcp_nodelay on; keepalive_timeout 1h; keepalive_requests 1000000000;\n\
         client_body_temp_path {shown}/b; proxy_temp_path {shown}/p; fastcgi_temp_path {shown}/f;\n\
         uwsgi_temp_path {shown}/u; scgi_temp_path {shown}/s;\n\
         {http}\n\
         server {{ listen {address} backlog=4096;\n{server}\n}}\n}}\n"
    );
    let path = home.join("nginx.conf");
    write(&path, config)?;
    let words: [&OsStr; 6] = [
        "-c".as_ref(),
        path.as_ref(),
        "-p".as_ref(),
        home.as_ref(),
        "-e".as_ref(),
        "stderr".as_ref(),
    ];
    Ok(words.map(OsStr::to_owned).to_vec())
}

/// What an answer to a waiting visitor is made of, for those who answer the same bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<'a> {
    /// Free of quotes, backslashes and dollar signs, which configuration languages would read.
    pub body: &'a [u8],
    pub content_type: &'a str,
    /// Length of the `Set-Cookie` value.
    pub cookie_bytes: usize,
    /// Of the visitors' cookie.
    pub cookie_name: &'a str,
}
