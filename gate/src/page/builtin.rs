//! The built-in waiting page and the policy that lets nothing but itself run on it.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use sha2::{Digest, Sha256};

use super::template::Template;

pub(super) const STYLE: &str = include_str!("builtin/page.css");
pub(super) const SCRIPT: &str = include_str!("builtin/waiting.js");

/// The built-in page. The language and the state are variables of it, so there is only one.
pub(super) fn template() -> &'static Template {
    static TEMPLATE: LazyLock<Template> = LazyLock::new(|| {
        Template::built_in(include_str!("builtin/waiting.html"))
            .expect("the built-in page is a valid template")
    });
    &TEMPLATE
}

/// `Content-Security-Policy` of the built-in page: its own style and script by hash, its own polls, and nothing else. Framing
/// is left to the room, whose cookie may be made for frames.
pub(super) fn content_security_policy() -> &'static HeaderValue {
    static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
        policy(&format!(
            "script-src '{}'; connect-src 'self'; ",
            hash(SCRIPT)
        ))
    });
    &POLICY
}

/// `Content-Security-Policy` of the error pages, which hold no script.
pub(super) fn error_content_security_policy() -> &'static HeaderValue {
    static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| policy(""));
    &POLICY
}

fn policy(scripts: &str) -> HeaderValue {
    let text = format!(
        "default-src 'none'; {scripts}style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(STYLE)
    );
    HeaderValue::try_from(text).expect("the policy is plain ASCII")
}

fn hash(inline: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(inline)))
}

#[cfg(test)]
mod tests {
    use super::super::{AnswerKind, Language, Page};
    use super::*;
    use crate::page::preview::PreviewState;

    fn page() -> String {
        let mut html = String::new();
        let view = PreviewState::Queueing.view();
        Page::default().write_body(AnswerKind::Page, Language::EnUs, &view, &mut html);
        html
    }

    #[test]
    fn the_policy_names_exactly_what_the_page_holds() {
        let html = page();
        let policy = content_security_policy().to_str().unwrap();
        for (element, directive) in [("style", "style-src"), ("script", "script-src")] {
            let (_, rest) = html.split_once(&format!("<{element}>")).unwrap();
            let (inline, rest) = rest.split_once(&format!("</{element}>")).unwrap();
            assert!(!rest.contains(&format!("<{element}")), "one {element} only");
            assert!(policy.contains(&format!("{directive} '{}'", hash(inline))));
        }
    }

    #[test]
    fn the_page_asks_nothing_of_other_hosts() {
        let html = page();
        for external in ["http:", "https:", "//", "url(", "@import", "src="] {
            let found = html
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .any(|line| line.contains(external));
            assert!(!found, "{external}");
        }
    }
}
