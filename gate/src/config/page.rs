//! How a room answers those it does not let in: the keys about pages, languages, status and JSON.

use std::path::Path;
use std::sync::Arc;

use crate::page::{
    Dialect, JsonFormat, JsonNegotiation, Language, LanguageChoice, Page, PageSource,
    QueueingStatusCode, Template,
};

use super::fields::{Found, Section, WordCase};
use super::{PAGE_BYTES_MAX, Surroundings};

/// How a room, or one event of it, answers visitors it does not let in.
#[derive(Clone, Debug, Default)]
pub struct PageSettings {
    pub page: Page,
    pub json_negotiation: JsonNegotiation,
}

/// Reads the keys of a room, or those of an event over its room's values.
pub(super) fn read(
    section: &mut Section<'_>,
    inherited: &PageSettings,
    around: &Surroundings<'_>,
) -> PageSettings {
    let mut settings = inherited.clone();
    let page = &mut settings.page;
    let html = read_html(section, around);
    let language = section.parsed("default_template_language", |text| {
        text.parse::<Language>().map_err(|_| {
            let tags: Vec<&str> = Language::ALL.iter().map(|l| l.tag()).collect();
            format!("must be one of {}", tags.join(", "))
        })
    });
    if let Some(language) = language {
        page.language = language.value;
    }
    if let Some(choice) = section.boolean("accept_language") {
        page.language_choice = if choice.value {
            LanguageChoice::Negotiated
        } else {
            LanguageChoice::Fixed
        };
    }
    let status = section.either("queueing_status_code", |value| {
        value
            .as_integer()
            .and_then(|number| u16::try_from(number).ok())
            .and_then(QueueingStatusCode::from_number)
            .ok_or_else(|| "must be 200, 202 or 429".to_owned())
    });
    if let Some(status) = status {
        page.status = status.value;
    }
    read_json(section, &mut settings);
    if let Some(html) = html {
        settings.page.source = compile(section, html, settings.page.json_format);
    }
    settings
}

/// Checks a custom page as a whole; what is wrong with it is reported with its line and column.
fn compile(section: &Section<'_>, html: Option<Found<String>>, format: JsonFormat) -> PageSource {
    let Some(html) = html else {
        return PageSource::BuiltIn;
    };
    let dialect = match format {
        JsonFormat::Cloudflare => Dialect::Cloudflare,
        JsonFormat::Esa => Dialect::Esa,
    };
    match Template::parse(&html.value, dialect) {
        Ok((template, warnings)) => {
            for warning in warnings {
                log::warn!("{}: {warning}", html.at.key());
            }
            PageSource::Custom(Arc::new(template))
        }
        Err(error) => {
            section.report().add(&html.at, error.to_string());
            PageSource::BuiltIn
        }
    }
}

fn read_json(section: &mut Section<'_>, settings: &mut PageSettings) {
    let format = section.word(
        "json_response_format",
        WordCase::Any,
        &[
            ("cloudflare", JsonFormat::Cloudflare),
            ("esa", JsonFormat::Esa),
        ],
    );
    if let Some(format) = format {
        settings.page.json_format = format.value;
    }
    let enabled = section.boolean("json_response_enabled");
    let negotiation = section.word(
        "json_response_negotiation",
        WordCase::Any,
        &[
            ("exact", JsonNegotiation::Exact),
            ("contains", JsonNegotiation::Contains),
            ("q_values", JsonNegotiation::QValues),
        ],
    );
    let is_enabled = enabled
        .as_ref()
        .map_or(settings.json_negotiation != JsonNegotiation::Off, |found| {
            found.value
        });
    if let Some(negotiation) = &negotiation
        && !is_enabled
    {
        section.report().add(
            &negotiation.at,
            "has no effect without json_response_enabled = true",
        );
    }
    settings.json_negotiation = match (is_enabled, negotiation, settings.json_negotiation) {
        (false, _, _) => JsonNegotiation::Off,
        (true, Some(negotiation), _) => negotiation.value,
        (true, None, JsonNegotiation::Off) => match settings.page.json_format {
            JsonFormat::Cloudflare => JsonNegotiation::Exact,
            JsonFormat::Esa => JsonNegotiation::Contains,
        },
        (true, None, kept) => kept,
    };
}

/// The page of `custom_page_html` or `custom_page_file`; the inner `None` is the built-in page, asked for by `""`.
fn read_html(
    section: &mut Section<'_>,
    around: &Surroundings<'_>,
) -> Option<Option<Found<String>>> {
    let report = section.report();
    let html = section.string("custom_page_html");
    let file = section.string("custom_page_file");
    let html = match (html, file) {
        (Some(_), Some(file)) => {
            report.add(&file.at, "must not stand beside custom_page_html");
            return None;
        }
        (Some(html), None) => html,
        (None, Some(file)) => match around.read_text(Path::new(&file.value), PAGE_BYTES_MAX) {
            Ok(value) => Found { value, at: file.at },
            Err(problem) => {
                report.add(&file.at, problem);
                return None;
            }
        },
        (None, None) => return None,
    };
    if html.value.len() > PAGE_BYTES_MAX {
        report.add(
            &html.at,
            format!("must have at most {PAGE_BYTES_MAX} bytes"),
        );
        return None;
    }
    if html.value.is_empty() {
        return Some(None);
    }
    Some(Some(html))
}

/// The keys of a bot check that is not there: only their harmless values are taken.
pub(super) fn refuse_turnstile(section: &mut Section<'_>) {
    let report = section.report();
    if let Some(mode) = section.string("turnstile_mode")
        && mode.value != "off"
    {
        report.add(
            &mode.at,
            "must be \"off\": Turnstile is a service of its vendor and is not supported; limit abusive sources with [kernel]",
        );
    }
    if let Some(action) = section.string("turnstile_action")
        && action.value != "log"
    {
        report.add(
            &action.at,
            "must be \"log\": without Turnstile nobody can be told from a bot",
        );
    }
}
