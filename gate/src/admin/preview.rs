//! `GET /preview`: a room's page in a state that the room need not be in, as its visitors would see it. Decides nothing and
//! counts nobody.

use std::fmt;

use crate::config::{Config, RoomConfig};
use crate::page::{Language, Page, PreviewState, preview};

/// What the address asks for beyond what there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PreviewError {
    Parameter(String),
    Twice(&'static str),
    RoomMissing { rooms: String },
    Room { room: String, rooms: String },
    Event { event: String, events: String },
    State(String),
    Language(String),
}

impl fmt::Display for PreviewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameter(name) => write!(
                f,
                "{name:?} is no parameter of a preview: room, event, state or language"
            ),
            Self::Twice(name) => write!(f, "{name} is given twice"),
            Self::RoomMissing { rooms } => write!(f, "room is missing: one of {rooms}"),
            Self::Room { room, rooms } => write!(f, "room {room:?} must be one of {rooms}"),
            Self::Event { event, events } if events.is_empty() => {
                write!(f, "event {event:?}: the room has none")
            }
            Self::Event { event, events } => write!(f, "event {event:?} must be one of {events}"),
            Self::State(state) => write!(f, "state {state:?} {}", crate::page::UnknownState),
            Self::Language(tag) => {
                write!(f, "language {tag:?} must be one of")?;
                Language::ALL
                    .iter()
                    .try_for_each(|language| write!(f, " {}", language.tag()))
            }
        }
    }
}

impl std::error::Error for PreviewError {}

/// The page that an address's query asks for.
///
/// # Errors
/// What of the query means nothing, and what would.
pub(super) fn page(query: &str, config: &Config) -> Result<String, PreviewError> {
    let query = Query::read(query)?;
    let room = room(query.room.as_deref(), &config.rooms)?;
    let (page, usual) = match &query.event {
        Some(event) => (event_page(event, room)?, PreviewState::Event),
        None => (&room.page.page, PreviewState::Queueing),
    };
    let state = query
        .state
        .map(|state| state.parse().map_err(|_| PreviewError::State(state)));
    let language = query
        .language
        .map(|tag| tag.parse().map_err(|_| PreviewError::Language(tag)));
    Ok(preview(
        &page.source,
        language.transpose()?.unwrap_or(page.language),
        state.transpose()?.unwrap_or(usual),
    ))
}

#[derive(Default)]
struct Query {
    room: Option<String>,
    event: Option<String>,
    state: Option<String>,
    language: Option<String>,
}

impl Query {
    fn read(query: &str) -> Result<Self, PreviewError> {
        let mut read = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let (name, slot) = match &*name {
                "room" => ("room", &mut read.room),
                "event" => ("event", &mut read.event),
                "state" => ("state", &mut read.state),
                "language" => ("language", &mut read.language),
                _ => return Err(PreviewError::Parameter(name.into_owned())),
            };
            if slot.replace(value.into_owned()).is_some() {
                return Err(PreviewError::Twice(name));
            }
        }
        Ok(read)
    }
}

fn room<'c>(name: Option<&str>, rooms: &'c [RoomConfig]) -> Result<&'c RoomConfig, PreviewError> {
    let names = || {
        let names: Vec<&str> = rooms.iter().map(|room| room.name.as_str()).collect();
        names.join(", ")
    };
    match (name, rooms) {
        (None, [only]) => Ok(only),
        (None, _) => Err(PreviewError::RoomMissing { rooms: names() }),
        (Some(name), _) => {
            rooms
                .iter()
                .find(|room| room.name == name)
                .ok_or_else(|| PreviewError::Room {
                    room: name.to_owned(),
                    rooms: names(),
                })
        }
    }
}

fn event_page<'c>(name: &str, room: &'c RoomConfig) -> Result<&'c Page, PreviewError> {
    let found = room.events.iter().find(|event| event.name == name);
    found.map(|event| &event.page.page).ok_or_else(|| {
        let names: Vec<&str> = room
            .events
            .iter()
            .map(|event| event.name.as_str())
            .collect();
        PreviewError::Event {
            event: name.to_owned(),
            events: names.join(", "),
        }
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use super::*;

    pub(in crate::admin) fn config() -> Config {
        let text = r#"listen = "127.0.0.1:0"
origin = "http://127.0.0.1:1"
[[rooms]]
name = "shop"
host = "a.example"
default_template_language = "de-DE"
total_active_users = 10
new_users_per_minute = 10
[[rooms.events]]
name = "big_sale"
event_start_time = "2030-01-01T00:00:00Z"
event_end_time = "2030-01-02T00:00:00Z"
custom_page_html = "<p>sale, position {{position}}</p>"
[[rooms]]
name = "quiet"
host = "b.example"
total_active_users = 10
new_users_per_minute = 10
"#;
        Config::parse(text, Path::new("gate.toml")).unwrap()
    }

    #[test]
    fn shows_each_room_event_state_and_language() {
        let config = config();
        let shown = |query| page(query, &config).unwrap();
        assert!(shown("room=shop").contains("lang=\"de-DE\""));
        assert!(shown("room=shop&language=ar-EG").contains("dir=\"rtl\""));
        assert!(shown("room=quiet&state=reject").contains("data-state=\"reject\""));
        let event = "room=shop&event=big%5Fsale";
        assert_eq!(shown(event), "<p>sale, position 1284</p>");
        assert_eq!(
            shown(&format!("{event}&state=queue-full")),
            "<p>sale, position 1250000</p>"
        );
    }

    #[test]
    fn says_what_is_wrong_and_what_would_do() {
        let config = config();
        for (query, said) in [
            ("", "room is missing: one of shop, quiet"),
            ("room=x", "room \"x\" must be one of shop, quiet"),
            ("room=shop&room=shop", "room is given twice"),
            ("room=shop&event=x", "event \"x\" must be one of big_sale"),
            ("room=quiet&event=x", "event \"x\": the room has none"),
            (
                "room=shop&state=full",
                "state \"full\" must be one of queueing random",
            ),
            (
                "room=shop&language=xx",
                "language \"xx\" must be one of en-US es-ES",
            ),
            (
                "room=shop&lang=de",
                "\"lang\" is no parameter of a preview: room, event, state or language",
            ),
            ("room=%FF%00", "room \"\u{fffd}\\0\" must be one of"),
        ] {
            let error = page(query, &config).unwrap_err().to_string();
            assert!(error.starts_with(said), "{query}: {error}");
        }
    }
}
