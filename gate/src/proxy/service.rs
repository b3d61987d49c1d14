//! The path of one request through the gate.

use std::rc::Rc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};

use super::answers::{self, Reply, Wish};
use super::body::{AnswerStream, Content, InFlight};
use super::check;
use super::forward::{self, Peer, Rewrite, Sender};
use super::gate::{Core, Local};
use super::upstream::{Answer, AnswerBody, Exchange, Framing, Pool, UpstreamError, tokens};
use super::visit::{Visit, client_address, facts};
use super::watch::{Awaiting, Decided, Watch};
use crate::clock::MonotonicNs;
use crate::config::{CookieSettings, RevokeCommand, Scheme};
use crate::kernel::SourceCharge;
use crate::page::{AssetAnswer, CACHE_CONTROL_NEVER, ErrorPage, Language, write_error_page};
use crate::registry::OpenRoom;
use crate::room::{Decision, Ticket};
use crate::rules::BypassRules;
use crate::ticket::SealedTicket;

/// Answers a request.
pub(super) async fn answer(
    core: Rc<Core>,
    watch: Rc<Watch>,
    sender: Rc<Sender>,
    request: Request<Incoming>,
) -> Response<AnswerStream> {
    let local = core.local();
    let decided = watch.decided.borrow_mut().take();
    let (parts, body) = request.into_parts();
    let scan = watch.head_scan();
    watch.enter(Awaiting::Response);
    watch.linger.set(!body.is_end_stream());
    let in_flight = InFlight(Rc::clone(&watch));
    core.counts.requests.add_one();
    let body_bytes_max = local.limits().body_bytes_max.unwrap_or(u64::MAX);
    if let Err(refusal) = check::check(&parts, scan, body_bytes_max) {
        return closing(refused(refusal.status, refusal.reason, in_flight));
    }
    if let Some(assets) = local.setup.registry.page_assets()
        && let Some(found) = assets.answer(&parts.method, parts.uri.path(), &parts.headers)
    {
        return asset(found, in_flight);
    }
    let way = Way {
        core: &core,
        local: &local,
        watch: &watch,
        sender: &sender,
    };
    let host = parts.headers.get(header::HOST).map(HeaderValue::as_bytes);
    match local.room(&parts.uri, host) {
        Some((room, pool)) => visit(way, room, pool, decided, parts, body, in_flight).await,
        None => {
            way.forward(None, &local.pool, parts, body, in_flight)
                .await
                .0
        }
    }
}

/// What a request passes through.
#[derive(Clone, Copy)]
struct Way<'a> {
    core: &'a Core,
    local: &'a Local,
    watch: &'a Rc<Watch>,
    sender: &'a Sender,
}

/// A request that a room covers.
async fn visit(
    way: Way<'_>,
    room: &OpenRoom,
    pool: &Rc<Pool>,
    decided: Option<Decided>,
    parts: Parts,
    body: Incoming,
    in_flight: InFlight,
) -> Response<AnswerStream> {
    let core = way.core;
    let config = room.config();
    if bypasses(way, &config.bypass_rules, &parts) {
        return way
            .forward(Some(room), pool, parts, body, in_flight)
            .await
            .0;
    }
    let wish = Wish::of(&parts);
    if wish == Wish::Preflight {
        return match answers::preflight(&config.cors, &parts) {
            Some(reply) => reply_with(reply, in_flight),
            None => {
                way.forward(Some(room), pool, parts, body, in_flight)
                    .await
                    .0
            }
        };
    }
    let visit = Visit::of(core, way.local, room, way.sender, &parts.headers);
    let now = core.now();
    if wish == Wish::Leave {
        if let Some(ticket) = visit.ticket {
            room.leave(now, ticket);
        }
        let mut response = reply_with(answers::left(), in_flight);
        expire_cookie(room, &visit, &mut response);
        return response;
    }
    let kernel = &core.gate.kernel;
    if visit.ticket.is_none() && kernel.source_rate().is_on() && !room.lets_all_pass(now) {
        // Without a ticket each request would be one more visitor: the source pays for it as for a new connection.
        let client = client_address(way.local, way.sender, &parts.headers);
        if let SourceCharge::Over {
            retry_after_seconds,
        } = kernel.source_rate().charge(MonotonicNs::now(), client)
        {
            core.counts.rate_limited.add_one();
            let page = ErrorPage::TooManyRequests {
                retry_after_seconds,
            };
            return error_page(page, in_flight);
        }
    }
    let decision = match decided.and_then(|decided| decided.by(room)) {
        Some(decision) => decision,
        None => room.decide(core.clock(), visit.ticket, wish.asks()).await,
    };
    match decision {
        Decision::Admit {
            session,
            lifetime_seconds,
            ..
        } => {
            // A proxy that others speak through is never limited in the kernel, so it needs no fast path there.
            if way.sender.peer == Peer::Client {
                kernel.admitted(MonotonicNs::now(), way.sender.address, lifetime_seconds);
            }
            let ticket = Ticket::Session(session);
            if wish == Wish::Poll {
                let reply = answers::admitted(&config.cors, &parts);
                let mut response = reply_with(reply, in_flight);
                set_cookie(core, room, &visit, &ticket, lifetime_seconds, &mut response);
                return response;
            }
            let (mut response, command) =
                way.forward(Some(room), pool, parts, body, in_flight).await;
            if command == Command::Revoke && config.revoke_command == RevokeCommand::Obeyed {
                room.revoke(core.now(), session.visitor);
                expire_cookie(room, &visit, &mut response);
            } else {
                set_cookie(core, room, &visit, &ticket, lifetime_seconds, &mut response);
            }
            response
        }
        Decision::Wait {
            ticket,
            view,
            lifetime_seconds,
        } => {
            core.counts.queued_answers.add_one();
            let settings = room.page(view.event_index);
            let reply = answers::waiting(way.local, settings, &config.cors, wish, &parts, &view);
            let mut response = reply_with(reply, in_flight);
            let ticket = Ticket::Waiting(ticket);
            set_cookie(core, room, &visit, &ticket, lifetime_seconds, &mut response);
            response
        }
        Decision::Refuse { view } => {
            core.counts.queued_answers.add_one();
            let settings = room.page(view.event_index);
            let reply = answers::waiting(way.local, settings, &config.cors, wish, &parts, &view);
            reply_with(reply, in_flight)
        }
        Decision::Bypass => {
            way.forward(Some(room), pool, parts, body, in_flight)
                .await
                .0
        }
    }
}

/// Whether a request passes as if there were no room.
fn bypasses(way: Way<'_>, rules: &BypassRules, parts: &Parts) -> bool {
    if !rules.is_empty() && rules.matches(&facts(way.local, way.sender, parts)) {
        return true;
    }
    way.local.setup.crawlers.as_ref().is_some_and(|crawlers| {
        let client = client_address(way.local, way.sender, &parts.headers);
        let agent = parts.headers.get(header::USER_AGENT);
        crawlers.is_verified(way.core.now(), client, agent.map(HeaderValue::as_bytes))
    })
}

/// What the origin told the gate beside its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    None,
    /// End the session of the visitor whose request this answers.
    Revoke,
}

/// The field's header for commands. Clients never see it.
const COMMAND_HEADER: HeaderName = HeaderName::from_static("cf-waiting-room-command");

impl Command {
    /// Takes the command out of the answer's fields. Several may stand there, separated by commas.
    fn take(fields: &mut HeaderMap) -> Self {
        if !fields.contains_key(COMMAND_HEADER) {
            return Self::None;
        }
        let revokes = fields.get_all(COMMAND_HEADER).iter().any(|value| {
            tokens(value.as_bytes()).any(|token| token.eq_ignore_ascii_case(b"revoke"))
        });
        fields.remove(COMMAND_HEADER);
        if revokes { Self::Revoke } else { Self::None }
    }
}

impl Way<'_> {
    /// Passes a request, which is for this room or for none, to the origin, and its answer back.
    async fn forward(
        self,
        room: Option<&OpenRoom>,
        pool: &Rc<Pool>,
        mut parts: Parts,
        body: Incoming,
        in_flight: InFlight,
    ) -> (Response<AnswerStream>, Command) {
        let framing = framing(&parts, &body);
        let host = match check::host(&parts) {
            b"" => pool.authority().as_bytes(),
            named => named,
        };
        let mut head = pool.buffer();
        let upgrade = upgrade(&parts);
        let is_upgrade = upgrade.is_some();
        forward::write_head(
            &mut head,
            &parts,
            &Rewrite {
                sender: self.sender,
                host,
                framing,
                upgrade,
                hidden_cookies: self.local.setup.registry.hidden_cookies(room),
            },
        );
        let exchange = Exchange {
            method: &parts.method,
            head,
            framing,
            body: (framing != Framing::Empty).then_some(body),
            fields: std::mem::take(&mut parts.headers),
            upgrade: is_upgrade,
        };
        self.core.counts.forwarded.add_one();
        match exchange.run(pool, self.watch, self.local.limits()).await {
            Ok(mut answer) => {
                let command = Command::take(&mut answer.fields);
                (self.pass_on(answer, is_upgrade, in_flight), command)
            }
            Err(error) => (self.failed(pool, &error, in_flight), Command::None),
        }
    }

    fn pass_on(
        self,
        answer: Answer,
        is_upgrade: bool,
        in_flight: InFlight,
    ) -> Response<AnswerStream> {
        let mut response = match answer.body {
            AnswerBody::Empty => respond(Content::Empty, in_flight),
            AnswerBody::Whole(bytes) => respond(Content::Whole(bytes), in_flight),
            AnswerBody::Streaming(body) => respond(Content::Upstream(Box::new(body)), in_flight),
            AnswerBody::Upgraded(upgraded) => {
                *self.watch.upgraded.borrow_mut() = Some(upgraded);
                respond(Content::Empty, in_flight)
            }
        };
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.fields;
        if is_upgrade && answer.status == StatusCode::SWITCHING_PROTOCOLS {
            let value = HeaderValue::from_static("upgrade");
            response.headers_mut().insert(header::CONNECTION, value);
        }
        response
    }

    fn failed(
        self,
        pool: &Pool,
        error: &UpstreamError,
        in_flight: InFlight,
    ) -> Response<AnswerStream> {
        let page = match error {
            UpstreamError::Resolve(_)
            | UpstreamError::Connect(_)
            | UpstreamError::Closed
            | UpstreamError::Io(_)
            | UpstreamError::Malformed(_) => ErrorPage::BadGateway,
            UpstreamError::ConnectTimeout | UpstreamError::ResponseTimeout => {
                ErrorPage::GatewayTimeout
            }
            UpstreamError::ClientBody(_) => ErrorPage::BadRequest,
            UpstreamError::ClientBodyTimeout => ErrorPage::RequestTimeout,
            UpstreamError::ClientBodyTooLong => ErrorPage::ContentTooLarge,
        };
        let response = error_page(page, in_flight);
        if page.status().is_client_error() {
            return closing(response);
        }
        self.core.counts.origin_failures.add_one();
        self.core.log_failure(pool.origin(), error);
        response
    }
}

fn set_cookie(
    core: &Core,
    room: &OpenRoom,
    visit: &Visit,
    ticket: &Ticket,
    lifetime_seconds: u32,
    response: &mut Response<AnswerStream>,
) {
    let sealed = core
        .tickets
        .borrow_mut()
        .seal(room.scope(), visit.binding, ticket);
    let cookie = &room.config().cookie;
    let attributes = cookie.attributes(visit.scheme);
    let mut text = String::with_capacity(cookie.name().len() + attributes.len() + 128);
    write_cookie(cookie, visit.scheme, &sealed, lifetime_seconds, &mut text);
    add_cookie(text, response);
}

/// Appends the value of `Set-Cookie`.
pub(super) fn write_cookie(
    cookie: &CookieSettings,
    scheme: Scheme,
    ticket: &SealedTicket,
    lifetime_seconds: u32,
    out: &mut String,
) {
    out.push_str(cookie.name());
    out.push('=');
    out.push_str(ticket.as_str());
    out.push_str("; Max-Age=");
    out.push_str(itoa::Buffer::new().format(lifetime_seconds));
    out.push_str(cookie.attributes(scheme));
}

/// Makes the client forget the room's cookie.
fn expire_cookie(room: &OpenRoom, visit: &Visit, response: &mut Response<AnswerStream>) {
    let cookie = &room.config().cookie;
    let mut text = String::new();
    text.push_str(cookie.name());
    text.push_str("=; Max-Age=0");
    text.push_str(cookie.attributes(visit.scheme));
    add_cookie(text, response);
}

fn add_cookie(text: String, response: &mut Response<AnswerStream>) {
    // Names and attributes were checked with the configuration, and a ticket is base64url.
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(text)) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

fn reply_with(reply: Reply, in_flight: InFlight) -> Response<AnswerStream> {
    let mut response = respond(Content::Whole(reply.body), in_flight);
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    response
}

/// A file of a custom page.
fn asset(found: AssetAnswer, in_flight: InFlight) -> Response<AnswerStream> {
    let mut response = respond(Content::Whole(found.body), in_flight);
    *response.status_mut() = found.status;
    *response.headers_mut() = found.headers;
    response
}

fn respond(content: Content, in_flight: InFlight) -> Response<AnswerStream> {
    Response::new(AnswerStream::new(content, in_flight))
}

/// How the request's body goes to the origin.
fn framing(parts: &Parts, body: &Incoming) -> Framing {
    if body.is_end_stream() {
        return Framing::Empty;
    }
    match body.size_hint().exact() {
        Some(length) if parts.headers.contains_key(header::CONTENT_LENGTH) => {
            Framing::Length(length)
        }
        Some(_) | None => Framing::Chunked,
    }
}

/// The protocol a client asks to change to. WebSocket only: an origin that took up `h2c` would be talked to past the gate.
pub(super) fn upgrade(parts: &Parts) -> Option<&[u8]> {
    if parts.method != Method::GET || parts.version != Version::HTTP_11 {
        return None;
    }
    let protocol = parts.headers.get(header::UPGRADE)?.as_bytes();
    let asked = parts
        .headers
        .get_all(header::CONNECTION)
        .iter()
        .any(|value| tokens(value.as_bytes()).any(|token| token.eq_ignore_ascii_case(b"upgrade")));
    (asked && protocol.eq_ignore_ascii_case(b"websocket")).then_some(protocol)
}

/// A page of the gate's own.
fn error_page(page: ErrorPage, in_flight: InFlight) -> Response<AnswerStream> {
    let mut body = String::new();
    write_error_page(page, Language::default(), &mut body);
    let mut response = respond(Content::Whole(Bytes::from(body)), in_flight);
    *response.status_mut() = page.status();
    page.insert_headers(response.headers_mut());
    response
}

/// A request that is not served: its sender is a program, which reads the reason.
fn refused(
    status: StatusCode,
    reason: &'static str,
    in_flight: InFlight,
) -> Response<AnswerStream> {
    let mut response = respond(
        Content::Whole(Bytes::from_static(reason.as_bytes())),
        in_flight,
    );
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(header::CACHE_CONTROL, CACHE_CONTROL_NEVER);
    response
}

/// The connection ends with this answer.
fn closing(mut response: Response<AnswerStream>) -> Response<AnswerStream> {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}
