//! One room (`[[rooms]]`): every key of the field's room object, and ours.

use std::num::NonZeroU32;

use crate::room::slots::StrategyKind;
use crate::room::{
    AdmissionPacing, Limits, Operation, Plan, QueueAll, QueueingMethod, RefreshInterval,
    SessionDuration, SessionRenewal, Settings,
    settings::{
        LIMIT_MAX, QUEUE_PLACE_GRACE_SECONDS_DEFAULT, QUEUE_PLACE_GRACE_SECONDS_MAX,
        REFRESH_INTERVAL_SECONDS_MAX, SESSION_DURATION_SECONDS_MAX, WAITERS_MAX_DEFAULT,
    },
};
use crate::route::{Host, PathCase, Route, RoutePath};
use crate::rules::{BypassRules, Lists};

use super::cluster;
use super::cookie::{self, CookieSettings};
use super::event::{self, EventConfig};
use super::fields::{At, Found, OneOrMany, Section, WordCase};
use super::origin::Origin;
use super::page::{self, PageSettings};
use super::rule;
use super::tree::Value;
use super::{ADDITIONAL_ROUTES_MAX, ROOM_NAME_BYTES_MAX, Surroundings};

/// One room, valid as a whole.
#[derive(Clone, Debug)]
pub struct RoomConfig {
    pub name: String,
    pub description: String,
    /// `host` and `path`, then `additional_routes`.
    pub routes: Vec<Route>,
    pub path_case: PathCase,
    /// The room's own origin, else the gate's.
    pub origin: Origin,
    pub plan: Plan,
    /// In the order of the plan's events.
    pub events: Vec<EventConfig>,
    pub page: PageSettings,
    pub cookie: CookieSettings,
    pub forward_cookie: ForwardCookie,
    pub revoke_command: RevokeCommand,
    pub ticket_binding: TicketBinding,
    pub cors: CorsPolicy,
    /// How the limits are split over the gates of a cluster.
    pub slot_strategy: StrategyKind,
    /// Requests that fit one of them pass as if there were no room.
    pub bypass_rules: BypassRules,
}

/// Whether the origin sees the room's cookie (`forward_cookie`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardCookie {
    #[default]
    Withheld,
    Forwarded,
}

/// Whether the origin may end the session of the visitor it answers (`enabled_origin_commands` has `"revoke"`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RevokeCommand {
    /// The command is stripped all the same.
    #[default]
    Ignored,
    Obeyed,
}

/// Which properties of the client a ticket is bound to (`ticket_binding`): with others it does not open, and its bearer is a
/// new user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TicketBinding {
    /// IPv4 whole, IPv6 by /64. Costs visitors whose address changes their place.
    pub client_address: Bound,
    pub user_agent: Bound,
}

/// Whether one property is part of a [`TicketBinding`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    #[default]
    No,
    Yes,
}

/// Whose scripts may read the gate's answers from another origin (`cors_allowed_origins`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CorsPolicy {
    #[default]
    NoOrigin,
    /// `"*"`: the sender's own origin is answered, so that cookies may go along.
    AnyOrigin,
    /// Serialized origins in lower case, such as `https://shop.example.com`.
    Origins(Vec<String>),
}

/// A room as far as it could be read, for the checks between rooms.
pub(super) struct RoomRead {
    pub(super) at: At,
    pub(super) name: Option<Found<String>>,
    pub(super) routes: Vec<Found<Route>>,
    pub(super) cookie_chosen: Option<At>,
    /// Absent where a fault leaves nothing sensible to build.
    pub(super) config: Option<RoomConfig>,
}

pub(super) fn read(
    mut section: Section<'_>,
    default_origin: Option<&Origin>,
    lists: &Lists,
    around: &Surroundings<'_>,
) -> RoomRead {
    let report = section.report();
    let at = section.at();
    section.require("name", "a room needs a name");
    let name = section.parsed("name", parse_name);
    let description = section.string("description");
    let path_case = section.boolean("path_case_insensitive");
    let routes = read_routes(&mut section);
    let own_origin = section.parsed("origin", |text| text.parse().map_err(display));
    let settings = read_settings(&mut section);
    let page = page::read(&mut section, &PageSettings::default(), around);
    page::refuse_turnstile(&mut section);
    let events = event::read_all(&mut section, &page, around);
    let cookie = cookie::read(&mut section);
    if section.has("additional_routes") && routes.len() > 1 && cookie.chosen.is_none() {
        report.add(
            &section.at_key("cookie_suffix"),
            "missing; a room with additional_routes needs a cookie_suffix (or cookie_name) of its own",
        );
    }
    if let Some(domain) = &cookie.domain {
        check_domain(&section, domain, &routes);
    }
    let forward_cookie = section.boolean("forward_cookie");
    let revoke_command = read_commands(&mut section);
    let ticket_binding = read_binding(&mut section);
    let cors = read_cors(&mut section);
    let slot_strategy = cluster::read_strategy(&mut section);
    let bypass_rules = rule::read_rules(&mut section, lists);
    section.finish();
    let config = build(settings, events, |plan, events| {
        Some(RoomConfig {
            name: name.as_ref()?.value.clone(),
            description: description.map(|found| found.value).unwrap_or_default(),
            routes: routes.iter().map(|route| route.value.clone()).collect(),
            path_case: if path_case.is_some_and(|found| found.value) {
                PathCase::Insensitive
            } else {
                PathCase::Sensitive
            },
            origin: own_origin
                .map(|found| found.value)
                .or_else(|| default_origin.cloned())?,
            plan,
            events,
            page,
            cookie: cookie.settings,
            forward_cookie: if forward_cookie.is_some_and(|found| found.value) {
                ForwardCookie::Forwarded
            } else {
                ForwardCookie::Withheld
            },
            revoke_command,
            ticket_binding,
            cors,
            slot_strategy,
            bypass_rules,
        })
    });
    RoomRead {
        at,
        name,
        routes,
        cookie_chosen: cookie.chosen,
        config,
    }
}

fn build(
    settings: Option<Settings>,
    events: Vec<event::EventRead>,
    rest: impl FnOnce(Plan, Vec<EventConfig>) -> Option<RoomConfig>,
) -> Option<RoomConfig> {
    let (configs, events) = events
        .into_iter()
        .map(|event| (event.config, event.event))
        .unzip();
    // An overlap has been reported.
    let plan = Plan::new(settings?, events).ok()?;
    rest(plan, configs)
}

fn display(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A room's or event's name.
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !text.is_empty() && text.len() <= ROOM_NAME_BYTES_MAX && text.bytes().all(allowed) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "must be 1 to {ROOM_NAME_BYTES_MAX} letters (A-Z, a-z), digits, \"_\" and \"-\""
        ))
    }
}

fn read_route(section: &mut Section<'_>, at: At) -> Option<Found<Route>> {
    let has_bad = |found: bool, given: bool| given && !found;
    let host = section.parsed("host", |text| Host::parse(text).map_err(display));
    let path = section.parsed("path", |text| RoutePath::parse(text).map_err(display));
    if has_bad(host.is_some(), section.has("host")) || has_bad(path.is_some(), section.has("path"))
    {
        return None;
    }
    // The route's faults are shown at its path where there is one: that is what usually tells routes apart.
    let at = path
        .as_ref()
        .map(|found| found.at.clone())
        .or_else(|| host.as_ref().map(|found| found.at.clone()))
        .unwrap_or(at);
    Some(Found {
        value: Route {
            host: host.map_or(Host::Any, |found| found.value),
            path: path.map_or_else(RoutePath::root, |found| found.value),
        },
        at,
    })
}

fn read_routes(section: &mut Section<'_>) -> Vec<Found<Route>> {
    let report = section.report();
    let at = section.at();
    let mut routes: Vec<_> = read_route(section, at).into_iter().collect();
    let additional = section.tables("additional_routes");
    if additional.len() > ADDITIONAL_ROUTES_MAX {
        report.add(
            &section.at_value("additional_routes"),
            format!("must be at most {ADDITIONAL_ROUTES_MAX} routes"),
        );
        return routes;
    }
    for mut below in additional {
        below.require("host", "an additional route needs a host");
        let at = below.at();
        routes.extend(read_route(&mut below, at));
        below.finish();
    }
    routes
}

fn check_domain(section: &Section<'_>, domain: &Found<String>, routes: &[Found<Route>]) {
    let below = |host: &str| {
        host == domain.value
            || host
                .strip_suffix(domain.value.as_str())
                .is_some_and(|rest| rest.ends_with('.'))
    };
    for route in routes {
        match &route.value.host {
            Host::Name(name) if below(name) => {}
            Host::Name(_) | Host::Any => section.report().add(
                &domain.at,
                format!(
                    "must be the domain of every host of the room; {} is not below it",
                    route.value.host
                ),
            ),
        }
    }
}

/// `total_active_users` and `new_users_per_minute`, each in range and in order.
pub(super) fn read_limits(section: &mut Section<'_>) -> (Option<Found<u32>>, Option<Found<u32>>) {
    let total = section.small_integer("total_active_users", 1..=LIMIT_MAX);
    let rate = section.small_integer("new_users_per_minute", 1..=LIMIT_MAX);
    if let (Some(total), Some(rate)) = (&total, &rate)
        && rate.value > total.value
    {
        section.report().add(
            &rate.at,
            format!(
                "must be at most total_active_users, which is {}",
                total.value
            ),
        );
    }
    (total, rate)
}

/// `session_duration` in minutes, or `session_duration_seconds`.
pub(super) fn read_session_duration(section: &mut Section<'_>) -> Option<SessionDuration> {
    let minutes = section.small_integer("session_duration", 1..=SESSION_DURATION_SECONDS_MAX / 60);
    let seconds =
        section.small_integer("session_duration_seconds", 1..=SESSION_DURATION_SECONDS_MAX);
    match (minutes, seconds) {
        (Some(_), Some(seconds)) => {
            section.report().add(
                &seconds.at,
                "must not stand beside session_duration (which is in minutes)",
            );
            None
        }
        (Some(minutes), None) => SessionDuration::from_minutes(minutes.value),
        (None, Some(seconds)) => SessionDuration::from_seconds(seconds.value),
        (None, None) => None,
    }
}

/// `queueing_method`, in any case.
pub(super) fn read_method(section: &mut Section<'_>) -> Option<QueueingMethod> {
    let method = section.word(
        "queueing_method",
        WordCase::Any,
        &[
            ("fifo", QueueingMethod::Fifo),
            ("random", QueueingMethod::Random),
            ("passthrough", QueueingMethod::Passthrough),
            ("reject", QueueingMethod::Reject),
            // ESA's word.
            ("reject-all", QueueingMethod::Reject),
        ],
    );
    method.map(|found| found.value)
}

fn read_settings(section: &mut Section<'_>) -> Option<Settings> {
    section.require("total_active_users", "a room needs its limit");
    section.require("new_users_per_minute", "a room needs its rate");
    let (total, rate) = read_limits(section);
    let duration = read_session_duration(section);
    let renewal = section.boolean("disable_session_renewal");
    let method = read_method(section);
    let queue_all = read_queue_all(section);
    let suspended = section.boolean("suspended");
    let pacing = section.word(
        "admission_pacing",
        WordCase::Any,
        &[
            ("burst", AdmissionPacing::Burst),
            ("smooth", AdmissionPacing::Smooth),
        ],
    );
    let refresh = read_refresh(section);
    let grace = section.small_integer(
        "queue_place_grace_seconds",
        1..=QUEUE_PLACE_GRACE_SECONDS_MAX,
    );
    let waiters = section.small_integer("waiters_max", 1..=100_000_000);
    Some(Settings {
        limits: Limits::new(total?.value, rate?.value).ok()?,
        session_duration: duration.unwrap_or_default(),
        session_renewal: if renewal.is_some_and(|found| found.value) {
            SessionRenewal::Disabled
        } else {
            SessionRenewal::EachRequest
        },
        queueing_method: method.unwrap_or_default(),
        queue_all,
        operation: if suspended.is_some_and(|found| found.value) {
            Operation::Suspended
        } else {
            Operation::Running
        },
        admission_pacing: pacing.map(|found| found.value).unwrap_or_default(),
        refresh_interval: refresh,
        queue_place_grace_seconds: grace
            .map_or(QUEUE_PLACE_GRACE_SECONDS_DEFAULT, |found| found.value),
        waiters_max: waiters.map_or(WAITERS_MAX_DEFAULT, |found| found.value),
    })
}

fn read_queue_all(section: &mut Section<'_>) -> QueueAll {
    let queue_all = section.boolean("queue_all");
    let recalls = section.boolean("queue_all_recalls_active");
    let is_on = queue_all.is_some_and(|found| found.value);
    // Without queue_all it is a setting for later, when the switch is thrown.
    let recalls = recalls.is_some_and(|found| found.value);
    match (is_on, recalls) {
        (false, _) => QueueAll::Off,
        (true, false) => QueueAll::NewUsers,
        (true, true) => QueueAll::Everyone,
    }
}

fn read_refresh(section: &mut Section<'_>) -> RefreshInterval {
    let report = section.report();
    let interval = section.either("refresh_interval_seconds", |value| match value {
        Value::String(word) if word == "adaptive" => Ok(RefreshInterval::ADAPTIVE_DEFAULT),
        Value::Integer(Ok(number)) => u32::try_from(*number)
            .ok()
            .filter(|seconds| *seconds <= REFRESH_INTERVAL_SECONDS_MAX)
            .and_then(NonZeroU32::new)
            .map(|seconds| RefreshInterval::Fixed { seconds })
            .ok_or_else(refresh_problem),
        Value::String(_)
        | Value::Integer(Err(_))
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Datetime(_)
        | Value::Array(_)
        | Value::Table(_) => Err(refresh_problem()),
    });
    let low = section.small_integer(
        "refresh_interval_seconds_min",
        1..=REFRESH_INTERVAL_SECONDS_MAX,
    );
    let high = section.small_integer(
        "refresh_interval_seconds_max",
        1..=REFRESH_INTERVAL_SECONDS_MAX,
    );
    let interval = interval.map(|found| found.value).unwrap_or_default();
    let RefreshInterval::Adaptive {
        seconds_min,
        seconds_max,
    } = interval
    else {
        for bound in [low, high].into_iter().flatten() {
            report.add(
                &bound.at,
                "has no effect without refresh_interval_seconds = \"adaptive\"",
            );
        }
        return interval;
    };
    let bound = |found: &Option<Found<u32>>, default| {
        found
            .as_ref()
            .and_then(|found| NonZeroU32::new(found.value))
            .unwrap_or(default)
    };
    let (seconds_min, seconds_max) = (bound(&low, seconds_min), bound(&high, seconds_max));
    if let Some(at) = low.or(high).map(|found| found.at)
        && seconds_min > seconds_max
    {
        report.add(
            &at,
            format!(
                "refresh_interval_seconds_min must be at most refresh_interval_seconds_max; they are {seconds_min} and {seconds_max}"
            ),
        );
    }
    RefreshInterval::Adaptive {
        seconds_min,
        seconds_max,
    }
}

fn refresh_problem() -> String {
    format!("must be an integer from 1 to {REFRESH_INTERVAL_SECONDS_MAX}, or \"adaptive\"")
}

fn read_commands(section: &mut Section<'_>) -> RevokeCommand {
    let commands = section.strings("enabled_origin_commands", OneOrMany::Many, |text| {
        super::fields::pick(text, WordCase::Exact, &[("revoke", RevokeCommand::Obeyed)])
    });
    let commands = commands.unwrap_or_default();
    commands
        .first()
        .map(|found| found.value)
        .unwrap_or_default()
}

fn read_binding(section: &mut Section<'_>) -> TicketBinding {
    let mut binding = TicketBinding::default();
    let properties = section.strings("ticket_binding", OneOrMany::Many, |text| {
        super::fields::pick(
            text,
            WordCase::Exact,
            &[("client_address", true), ("user_agent", false)],
        )
    });
    for property in properties.unwrap_or_default() {
        if property.value {
            binding.client_address = Bound::Yes;
        } else {
            binding.user_agent = Bound::Yes;
        }
    }
    binding
}

fn read_cors(section: &mut Section<'_>) -> CorsPolicy {
    let report = section.report();
    let origins = section.strings("cors_allowed_origins", OneOrMany::Many, parse_cors_origin);
    let origins = origins.unwrap_or_default();
    match origins.iter().find(|origin| origin.value == "*") {
        None if origins.is_empty() => CorsPolicy::NoOrigin,
        None => CorsPolicy::Origins(origins.into_iter().map(|origin| origin.value).collect()),
        Some(any) => {
            if origins.len() > 1 {
                report.add(&any.at, "must stand alone: \"*\" is every origin");
            }
            CorsPolicy::AnyOrigin
        }
    }
}

fn parse_cors_origin(text: &str) -> Result<String, String> {
    let text = text.to_ascii_lowercase();
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let is_origin = rest.is_some_and(|rest| {
        let authority = rest.parse::<http::uri::Authority>();
        authority.is_ok() && !rest.contains(['@', '/', '*'])
    });
    if text == "*" || is_origin {
        Ok(text)
    } else {
        Err(
            "must be \"*\" or an origin such as https://shop.example.com, without a path"
                .to_owned(),
        )
    }
}
