//! The cookie of a room: its name and attributes. What is in it is `ticket`'s.

use super::fields::{At, Found, Section, WordCase};

/// The cookie's name where a room says nothing.
pub const COOKIE_NAME_DEFAULT: &str = "__waitingroom";
/// Longest `cookie_suffix`.
pub(super) const COOKIE_SUFFIX_BYTES_MAX: usize = 100;
/// Longest `cookie_name`.
pub(super) const COOKIE_NAME_BYTES_MAX: usize = 128;

/// `cookie_attributes.samesite`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SameSite {
    /// `None` where the request came over https and the cookie is `Secure`, else `Lax`.
    #[default]
    Auto,
    Lax,
    None,
    Strict,
}

/// `cookie_attributes.secure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Secure {
    /// Where the request came over https, and wherever `SameSite=None` needs it.
    #[default]
    Auto,
    Always,
    Never,
}

/// How the request came to the gate, or to the trusted proxy in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// Name and attributes of a room's cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieSettings {
    name: String,
    over_http: String,
    over_https: String,
}

impl CookieSettings {
    /// `domain`: hosts below it share the cookie; `None` leaves it to the host that set it.
    pub fn new(name: String, same_site: SameSite, secure: Secure, domain: Option<&str>) -> Self {
        let rendered = |scheme| attributes(scheme, same_site, secure, domain);
        Self {
            name,
            over_http: rendered(Scheme::Http),
            over_https: rendered(Scheme::Https),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Everything behind the value but `Max-Age`: begins with `; `. `Path` is `/`, because one page has many spellings and a
    /// room may have many paths; the gate keeps the cookie from origins.
    pub fn attributes(&self, scheme: Scheme) -> &str {
        match scheme {
            Scheme::Http => &self.over_http,
            Scheme::Https => &self.over_https,
        }
    }

    pub(super) fn rename(&mut self, name: String) {
        self.name = name;
    }
}

fn attributes(scheme: Scheme, same_site: SameSite, secure: Secure, domain: Option<&str>) -> String {
    let is_secure = match (secure, same_site, scheme) {
        (Secure::Always, _, _) | (Secure::Auto, SameSite::None, _) => true,
        (Secure::Auto, _, Scheme::Https) => true,
        (Secure::Auto, _, Scheme::Http) | (Secure::Never, _, _) => false,
    };
    let in_frames = match same_site {
        SameSite::None => true,
        SameSite::Auto => is_secure && scheme == Scheme::Https,
        SameSite::Lax | SameSite::Strict => false,
    };
    let mut text = String::from("; Path=/; HttpOnly");
    if let Some(domain) = domain {
        text.push_str("; Domain=");
        text.push_str(domain);
    }
    if is_secure {
        text.push_str("; Secure");
    }
    // A cookie for frames is partitioned by the site around the frame; browsers that block third-party cookies keep only those.
    text.push_str(match (in_frames, same_site) {
        (true, _) => "; SameSite=None; Partitioned",
        (false, SameSite::Strict) => "; SameSite=Strict",
        (false, _) => "; SameSite=Lax",
    });
    text
}

/// A room's cookie as far as the room itself determines it.
pub(super) struct CookieRead {
    pub(super) settings: CookieSettings,
    /// Where the name was chosen; `None` where it is the default.
    pub(super) chosen: Option<At>,
    pub(super) domain: Option<Found<String>>,
}

pub(super) fn read(section: &mut Section<'_>) -> CookieRead {
    let report = section.report();
    let name = section.parsed("cookie_name", |text| {
        if text.is_empty() || text.len() > COOKIE_NAME_BYTES_MAX {
            return Err(format!("must have 1 to {COOKIE_NAME_BYTES_MAX} characters"));
        }
        if text.bytes().all(is_token) {
            Ok(text.to_owned())
        } else {
            Err("must be a cookie name: letters, digits and !#$%&'*+-.^_`|~".to_owned())
        }
    });
    let suffix = section.parsed("cookie_suffix", |text| {
        if text.len() > COOKIE_SUFFIX_BYTES_MAX {
            return Err(format!(
                "must have at most {COOKIE_SUFFIX_BYTES_MAX} characters"
            ));
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if text.bytes().all(allowed) {
            Ok(text.to_owned())
        } else {
            Err("must have only letters, digits, \"_\", \"-\" and \".\"".to_owned())
        }
    });
    let suffix = suffix.filter(|suffix| !suffix.value.is_empty());
    if let (Some(name), Some(_)) = (&name, &suffix) {
        report.add(
            &name.at,
            "must not stand beside cookie_suffix: either names the cookie",
        );
    }
    let domain = section.parsed("cookie_domain", |text| {
        match crate::route::Host::parse(text.strip_prefix('.').unwrap_or(text)) {
            Ok(crate::route::Host::Name(name)) if name.parse::<std::net::IpAddr>().is_err() => {
                Ok(name)
            }
            Ok(_) => Err("must be a domain name".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    });
    let (same_site, secure) = match section.table("cookie_attributes") {
        Some(below) => read_attributes(below),
        None => (SameSite::default(), Secure::default()),
    };
    if let Some(name) = &name
        && secure != Secure::Always
        && ["__host-", "__secure-"]
            .iter()
            .any(|prefix| name.value.to_ascii_lowercase().starts_with(prefix))
    {
        report.add(
            &name.at,
            "browsers take a cookie of this name only with cookie_attributes.secure = \"always\"",
        );
    }
    if let (Some(name), Some(_)) = (&name, &domain)
        && name.value.to_ascii_lowercase().starts_with("__host-")
    {
        report.add(
            &name.at,
            "browsers take a __Host- cookie only without a cookie_domain",
        );
    }
    let (name, chosen) = match (name, suffix) {
        (Some(name), _) => (name.value, Some(name.at)),
        (None, Some(suffix)) => (
            format!("{COOKIE_NAME_DEFAULT}_{}", suffix.value),
            Some(suffix.at),
        ),
        (None, None) => (COOKIE_NAME_DEFAULT.to_owned(), None),
    };
    let domain_text = domain.as_ref().map(|domain| domain.value.as_str());
    CookieRead {
        settings: CookieSettings::new(name, same_site, secure, domain_text),
        chosen,
        domain,
    }
}

fn read_attributes(mut section: Section<'_>) -> (SameSite, Secure) {
    let same_site = section.word(
        "samesite",
        WordCase::Any,
        &[
            ("auto", SameSite::Auto),
            ("lax", SameSite::Lax),
            ("none", SameSite::None),
            ("strict", SameSite::Strict),
        ],
    );
    let secure = section.word(
        "secure",
        WordCase::Any,
        &[
            ("auto", Secure::Auto),
            ("always", Secure::Always),
            ("never", Secure::Never),
        ],
    );
    if let (Some(same_site), Some(secure)) = (&same_site, &secure)
        && same_site.value == SameSite::None
        && secure.value == Secure::Never
    {
        section.report().add(
            &secure.at,
            "must be \"auto\" or \"always\" where samesite is \"none\": browsers drop such a cookie otherwise",
        );
    }
    section.finish();
    (
        same_site.map(|found| found.value).unwrap_or_default(),
        secure.map(|found| found.value).unwrap_or_default(),
    )
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_what_browsers_take() {
        let over = |scheme, same_site, secure| {
            CookieSettings::new("c".to_owned(), same_site, secure, None)
                .attributes(scheme)
                .to_owned()
        };
        for (scheme, same_site, secure, rest) in [
            (Scheme::Http, SameSite::Auto, Secure::Auto, "; SameSite=Lax"),
            (
                Scheme::Https,
                SameSite::Auto,
                Secure::Auto,
                "; Secure; SameSite=None; Partitioned",
            ),
            (
                Scheme::Https,
                SameSite::Auto,
                Secure::Never,
                "; SameSite=Lax",
            ),
            (
                Scheme::Http,
                SameSite::Auto,
                Secure::Always,
                "; Secure; SameSite=Lax",
            ),
            (
                Scheme::Http,
                SameSite::None,
                Secure::Auto,
                "; Secure; SameSite=None; Partitioned",
            ),
            (
                Scheme::Https,
                SameSite::Lax,
                Secure::Auto,
                "; Secure; SameSite=Lax",
            ),
            (
                Scheme::Http,
                SameSite::Strict,
                Secure::Auto,
                "; SameSite=Strict",
            ),
            (
                Scheme::Https,
                SameSite::Strict,
                Secure::Always,
                "; Secure; SameSite=Strict",
            ),
        ] {
            assert_eq!(
                over(scheme, same_site, secure),
                format!("; Path=/; HttpOnly{rest}"),
                "{scheme:?} {same_site:?} {secure:?}"
            );
        }
    }

    #[test]
    fn a_domain_is_shared() {
        let settings = CookieSettings::new(
            "c".to_owned(),
            SameSite::Lax,
            Secure::Never,
            Some("example.com"),
        );
        assert_eq!(
            settings.attributes(Scheme::Http),
            "; Path=/; HttpOnly; Domain=example.com; SameSite=Lax"
        );
    }
}
