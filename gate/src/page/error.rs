//! Pages for requests that the gate itself cannot serve. They say what the visitor can do, not what broke: that is in the log.

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::answer::CACHE_CONTROL_NEVER;
use super::builtin;
use super::language::Language;
use super::texts::{Texts, Words};

/// Why the gate answers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPage {
    /// 502: the origin refused the connection or broke it off.
    BadGateway,
    /// 504: the origin did not answer in time.
    GatewayTimeout,
    /// 400
    BadRequest,
    /// 408: the request did not arrive in time.
    RequestTimeout,
    /// 413
    ContentTooLarge,
    /// 431
    HeaderFieldsTooLarge,
    /// 429: this source asks too often. Not a place in the line.
    TooManyRequests { retry_after_seconds: u32 },
    /// 503: the gate itself has no room for another request.
    ServiceUnavailable { retry_after_seconds: u32 },
}

impl ErrorPage {
    /// The status the page goes with.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::BadGateway => StatusCode::BAD_GATEWAY,
            Self::GatewayTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::ContentTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::HeaderFieldsTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::TooManyRequests { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::ServiceUnavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Sets the page's headers, all but the length.
    pub fn insert_headers(self, headers: &mut HeaderMap) {
        headers.insert(CACHE_CONTROL, CACHE_CONTROL_NEVER);
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        );
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(
            CONTENT_SECURITY_POLICY,
            builtin::error_content_security_policy().clone(),
        );
        if let Self::TooManyRequests {
            retry_after_seconds,
        }
        | Self::ServiceUnavailable {
            retry_after_seconds,
        } = self
        {
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_after_seconds));
        }
    }

    const fn heading_and_lead(self, texts: &Texts) -> (&'static str, &'static str) {
        match self {
            Self::BadGateway | Self::GatewayTimeout | Self::ServiceUnavailable { .. } => {
                (texts.no_answer_heading, texts.try_again_lead)
            }
            Self::BadRequest
            | Self::RequestTimeout
            | Self::ContentTooLarge
            | Self::HeaderFieldsTooLarge => (texts.bad_request_heading, texts.bad_request_lead),
            Self::TooManyRequests { .. } => (texts.too_many_heading, texts.try_again_lead),
        }
    }
}

/// Appends the page.
pub fn write_error_page(error: ErrorPage, language: Language, out: &mut String) {
    let (heading, lead) = error.heading_and_lead(Words::of(language).texts);
    let mut pieces = include_str!("builtin/error.html").split("{{");
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (name, text) = piece.split_once("}}").unwrap_or((piece, ""));
        match name {
            "language" => out.push_str(language.tag()),
            "direction" => out.push_str(language.direction().as_str()),
            "style" => out.push_str(builtin::STYLE),
            // A test keeps the texts free of what HTML would read.
            "heading" => out.push_str(heading),
            "lead" => out.push_str(lead),
            "status" => out.push_str(error.status().as_str()),
            _ => {}
        }
        out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ErrorPage; 8] = [
        ErrorPage::BadGateway,
        ErrorPage::GatewayTimeout,
        ErrorPage::BadRequest,
        ErrorPage::RequestTimeout,
        ErrorPage::ContentTooLarge,
        ErrorPage::HeaderFieldsTooLarge,
        ErrorPage::TooManyRequests {
            retry_after_seconds: 7,
        },
        ErrorPage::ServiceUnavailable {
            retry_after_seconds: 7,
        },
    ];

    #[test]
    fn every_error_has_a_page_in_every_language() {
        for error in ALL {
            for language in Language::ALL {
                let mut html = String::new();
                write_error_page(error, *language, &mut html);
                assert!(html.contains(&format!(
                    "<html lang=\"{language}\" dir=\"{}\">",
                    language.direction().as_str()
                )));
                assert!(html.contains(error.status().as_str()));
                assert!(html.contains("<h1>") && !html.contains("{{"), "{html}");
                assert!(html.len() < 6 * 1024);
            }
        }
    }

    #[test]
    fn only_passing_trouble_says_when_to_come_back() {
        for error in ALL {
            let mut headers = HeaderMap::new();
            error.insert_headers(&mut headers);
            let passing = matches!(error.status().as_u16(), 429 | 503);
            assert_eq!(headers.get(RETRY_AFTER).is_some(), passing, "{error:?}");
            assert_eq!(headers[CACHE_CONTROL], CACHE_CONTROL_NEVER);
        }
    }
}
