//! The demo's origin: a small shop on a port of its own. It knows its visitors by its own cookie and keeps its own books, so
//! that what it says about the limits does not come from the gate.

use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::ledger::Ledger;
use super::room::{ROOMS, Room};
use super::wire::{self, Message};

/// The cookie by which the shop knows its visitors.
const COOKIE: &str = "shop_visitor";

/// Connections without a request for this long are closed.
const IDLE: Duration = Duration::from_secs(120);

/// The shop's books.
#[derive(Debug)]
pub(super) struct Books {
    begun: Instant,
    ledgers: [Mutex<Ledger>; ROOMS.len()],
    next_visitor: AtomicU64,
}

impl Books {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn ledger(&self, room: &Room) -> MutexGuard<'_, Ledger> {
        self.ledgers[room.index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What the books say of one room.
    pub(super) fn read<T>(
        &self,
        room: &Room,
        reader: impl FnOnce(&mut Ledger, Duration) -> T,
    ) -> T {
        let now = self.now();
        reader(&mut self.ledger(room), now)
    }
}

/// Opens the shop. It serves until the process ends.
pub(super) fn open() -> io::Result<(SocketAddr, Arc<Books>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let books = Arc::new(Books {
        begun: Instant::now(),
        ledgers: ROOMS.map(|room| Mutex::new(Ledger::new(room.session))),
        next_visitor: AtomicU64::new(1),
    });
    let kept = Arc::clone(&books);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let books = Arc::clone(&kept);
            // A visitor that hangs up early is no concern of the shop's.
            thread::spawn(move || serve(&stream, &books).ok());
        }
    });
    Ok((address, books))
}

fn serve(stream: &TcpStream, books: &Books) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE))?;
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    while let Some(request) = Message::read(&mut reader)? {
        answer(&mut writer, &request, books)?;
    }
    Ok(())
}

fn answer(writer: &mut impl io::Write, request: &Message, books: &Books) -> io::Result<()> {
    let path = request.first.get(1).map_or("/", String::as_str);
    let room = Room::of(path);
    let known = request.cookie(COOKIE).and_then(|value| value.parse().ok());
    let visitor = known.unwrap_or_else(|| books.next_visitor.fetch_add(1, Ordering::Relaxed));
    let mut headers = vec![("Content-Type", "text/html; charset=utf-8".to_owned())];
    if path == room.leave {
        let now = books.now();
        let mut ledger = books.ledger(room);
        ledger.seen(visitor, now);
        // Before the answer goes out: the gate may give the slot away the moment it reads it.
        ledger.left(visitor);
        drop(ledger);
        headers.push(("Cf-Waiting-Room-Command", "revoke".to_owned()));
        headers.push((
            "Set-Cookie",
            format!("{COOKIE}=; Path={}; Max-Age=0", room.path),
        ));
        return wire::respond(writer, "200 OK", &headers, &page(room, GOODBYE));
    }
    books.ledger(room).seen(visitor, books.now());
    headers.push((
        "Set-Cookie",
        format!("{COOKIE}={visitor}; Path={}", room.path),
    ));
    let body = format!(
        "<p class=you>You are visitor {visitor}. {}</p>{}<p><a class=button href=\"{}\">Check out and leave</a></p>",
        room.welcome, GOODS, room.leave
    );
    wire::respond(writer, "200 OK", &headers, &page(room, &body))
}

fn page(room: &Room, body: &str) -> String {
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <link rel=icon href=\"data:,\"><title>{title}</title><style>{STYLE}</style>\
         <header><b>Lantern &amp; Loom</b><nav><a href=/>Shop</a><a href=/drop>Tonight's drop</a></nav></header>\
         <main><h1>{title}</h1>{body}</main></html>",
        title = room.title
    )
}

const GOODBYE: &str = "<p class=you>Thank you, your order is on its way. Your place in the shop is free for the next \
     visitor.</p><p><a class=button href=\"\">Come back</a></p>";

const GOODS: &str = "<ul>\
     <li><i style=\"--a:#e9b872;--b:#7a3b1d\"></i><b>Paper lantern</b><span>€ 24</span></li>\
     <li><i style=\"--a:#7fb7be;--b:#1f4e5f\"></i><b>Wool throw</b><span>€ 89</span></li>\
     <li><i style=\"--a:#d8a7b1;--b:#6d2e46\"></i><b>Clay teapot</b><span>€ 42</span></li>\
     <li><i style=\"--a:#a7c4a0;--b:#33553a\"></i><b>Linen apron</b><span>€ 35</span></li></ul>";

const STYLE: &str = "\
     :root{color-scheme:light dark;--ink:#22201d;--soft:#6d675f;--back:#faf7f2;--card:#fff}\
     @media(prefers-color-scheme:dark){:root{--ink:#efe9e1;--soft:#a59d92;--back:#1b1917;--card:#262320}}\
     *{box-sizing:border-box}body,html{margin:0;background:var(--back);color:var(--ink);font:17px/1.5 system-ui,sans-serif}\
     header{display:flex;justify-content:space-between;padding:1.2rem 6vw;font-size:1.1rem}\
     nav a{margin-left:1.4rem;color:var(--soft);text-decoration:none}main{padding:2rem 6vw;max-width:70rem;margin:auto}\
     h1{font:600 2.4rem/1.1 Georgia,serif;margin:0 0 .6rem}.you{color:var(--soft)}\
     ul{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:1.2rem;padding:0;list-style:none}\
     li{background:var(--card);border-radius:14px;padding:0 0 1rem;overflow:hidden;display:grid;gap:.2rem;\
     box-shadow:0 1px 4px #0002}li>b,li>span{padding:0 1rem}li>span{color:var(--soft)}\
     i{display:block;height:9rem;background:radial-gradient(circle at 30% 30%,var(--a),var(--b));margin-bottom:.6rem}\
     .button{display:inline-block;margin-top:1rem;background:var(--ink);color:var(--back);padding:.7rem 1.3rem;\
     border-radius:999px;text-decoration:none}";
