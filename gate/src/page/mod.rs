//! What visitors see instead of the origin: the waiting page, the JSON answers, the gate's own error pages.
//!
//! Everything here is a pure function from a [`WaitView`](crate::room::WaitView) and a room's page settings to text. No
//! sockets, no clock, no decision: what the visitor is told was decided in `room`, and `proxy` sends what is written here.
//!
//! The built-in page refreshes in two ways, and only one at a time. Without script, the `Refresh` header reloads it. With
//! script, the page asks for JSON at the same interval and changes its numbers in place, so that nothing flashes and a screen
//! reader keeps its spot; its script first calls `window.stop()`, which calls off the reload that the header has scheduled
//! (Chromium drops it, which a browser test shows; where a browser did not, the page would still reload as it does without
//! script). Two other ways were weighed: `<noscript><meta http-equiv=refresh>` leaves the field's header out, and a
//! header with a longer interval makes visitors without script miss their turn. To browsers the header names the page's address
//! (`20; url=/shop`), for at one with a fragment (`/shop#part`) they take a bare `20` for a jump within the page.

mod answer;
mod assets;
mod builtin;
mod error;
mod json;
mod language;
mod negotiation;
mod prepared;
mod preview;
mod template;
mod texts;
mod values;

pub use answer::{
    Answer, AnswerKind, CACHE_CONTROL_NEVER, LanguageChoice, POLL_HEADER, POLL_LEAVE, Page,
    PageSource, QueueingStatusCode, refresh_address, refresh_header, write_refresh,
};
pub use assets::{AssetAnswer, PageAssets};
pub use error::{ErrorPage, write_error_page};
pub use json::{JsonFormat, admitted_json, write_json, write_poll_json};
pub use language::{Direction, Language, UnknownLanguage};
pub use negotiation::JsonNegotiation;
pub use prepared::{Prepared, PreparedAnswers};
pub use preview::{PreviewState, UnknownState, preview};
pub use template::{
    Dialect, Location, SECTION_DEPTH_MAX, TEMPLATE_BYTES_MAX, TEMPLATE_WARNINGS_MAX, Template,
    TemplateError, TemplateWarning, TemplateWarningKind,
};
pub use values::State;
