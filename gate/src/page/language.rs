//! The languages of the built-in page, and how one is chosen. No text is kept here.

use std::fmt;
use std::str::FromStr;

use super::negotiation::split_quality;

/// Languages looked at in one `Accept-Language` header; the rest is ignored.
const ACCEPT_LANGUAGE_RANGES_MAX: usize = 32;

/// Which way a language is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    LeftToRight,
    RightToLeft,
}

impl Direction {
    /// The value of HTML's `dir` attribute.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LeftToRight => "ltr",
            Self::RightToLeft => "rtl",
        }
    }
}

macro_rules! languages {
    ($($variant:ident $tag:literal,)*) => {
        /// A value of `default_template_language`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum Language {
            #[default]
            $($variant,)*
        }

        impl Language {
            /// Every language there is, in the field's order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The tag as the field writes it, which is also HTML's `lang` attribute: `pt-BR`.
            pub const fn tag(self) -> &'static str {
                match self {
                    $(Self::$variant => $tag,)*
                }
            }
        }
    };
}

languages! {
    EnUs "en-US",
    EsEs "es-ES",
    DeDe "de-DE",
    FrFr "fr-FR",
    ItIt "it-IT",
    JaJp "ja-JP",
    KoKr "ko-KR",
    PtBr "pt-BR",
    ZhCn "zh-CN",
    ZhTw "zh-TW",
    NlNl "nl-NL",
    PlPl "pl-PL",
    IdId "id-ID",
    TrTr "tr-TR",
    ArEg "ar-EG",
    RuRu "ru-RU",
    FaIr "fa-IR",
    BgBg "bg-BG",
    HrHr "hr-HR",
    CsCz "cs-CZ",
    DaDk "da-DK",
    FiFi "fi-FI",
    LtLt "lt-LT",
    MsMy "ms-MY",
    NbNo "nb-NO",
    RoRo "ro-RO",
    ElGr "el-GR",
    HeIl "he-IL",
    HiIn "hi-IN",
    HuHu "hu-HU",
    SrBa "sr-BA",
    SkSk "sk-SK",
    SlSi "sl-SI",
    SvSe "sv-SE",
    TlPh "tl-PH",
    ThTh "th-TH",
    UkUa "uk-UA",
    ViVn "vi-VN",
}

impl Language {
    /// Which way the language is written.
    pub const fn direction(self) -> Direction {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "every language but these three is written from left to right"
        )]
        match self {
            Self::ArEg | Self::FaIr | Self::HeIl => Direction::RightToLeft,
            _ => Direction::LeftToRight,
        }
    }

    /// The best language for an `Accept-Language` header: the range with the highest `q` that fits one of ours, the earlier of
    /// equals; `default` where none does, where `*` comes first or where the header is malformed.
    ///
    /// A range without a region fits the default if that is of the same language, else the first of that language.
    /// At most 32 ranges are read; a longer header is judged by those.
    #[must_use]
    pub fn negotiate(accept_language: &str, default: Self) -> Self {
        let mut best = (0, default);
        for range in accept_language.split(',').take(ACCEPT_LANGUAGE_RANGES_MAX) {
            let (tag, quality) = split_quality(range);
            if quality > best.0
                && let Some(language) = Self::matching(tag, default)
            {
                best = (quality, language);
            }
        }
        best.1
    }

    fn matching(range: &str, default: Self) -> Option<Self> {
        if range == "*" {
            return Some(default);
        }
        if let Some(exact) = Self::ALL
            .iter()
            .find(|language| language.tag().eq_ignore_ascii_case(range))
        {
            return Some(*exact);
        }
        let mut subtags = range.split('-');
        let primary = match subtags.next()?.to_ascii_lowercase().as_str() {
            // Other codes for languages that the field lists under these.
            "no" | "nn" => "nb".to_owned(),
            "fil" => "tl".to_owned(),
            "iw" => "he".to_owned(),
            "in" => "id".to_owned(),
            other => other.to_owned(),
        };
        let traditional = subtags.any(|subtag| {
            ["hant", "tw", "hk", "mo"]
                .iter()
                .any(|known| subtag.eq_ignore_ascii_case(known))
        });
        if primary == "zh" {
            return Some(if traditional { Self::ZhTw } else { Self::ZhCn });
        }
        let same = |language: &Self| language.tag().split('-').next() == Some(primary.as_str());
        if same(&default) {
            return Some(default);
        }
        Self::ALL.iter().copied().find(same)
    }
}

/// Text that is no language of the built-in page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLanguage;

impl fmt::Display for UnknownLanguage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be one of")?;
        for language in Language::ALL {
            write!(f, " {}", language.tag())?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownLanguage {}

impl FromStr for Language {
    type Err = UnknownLanguage;

    /// Reads the tag in any case; `en-us` is `en-US`.
    fn from_str(tag: &str) -> Result<Self, UnknownLanguage> {
        Self::ALL
            .iter()
            .copied()
            .find(|language| language.tag().eq_ignore_ascii_case(tag))
            .ok_or(UnknownLanguage)
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tag())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_reads_back() {
        assert_eq!(Language::ALL.len(), 38);
        for language in Language::ALL {
            assert_eq!(language.tag().parse(), Ok(*language));
            assert_eq!(
                language.tag().to_lowercase().parse::<Language>(),
                Ok(*language)
            );
        }
        let error = "xx-XX".parse::<Language>().unwrap_err().to_string();
        assert!(error.starts_with("must be one of en-US es-ES"), "{error}");
    }

    #[test]
    fn arabic_persian_and_hebrew_run_from_right_to_left() {
        let right_to_left: Vec<_> = Language::ALL
            .iter()
            .filter(|language| language.direction() == Direction::RightToLeft)
            .map(|language| language.tag())
            .collect();
        assert_eq!(right_to_left, ["ar-EG", "fa-IR", "he-IL"]);
    }

    #[test]
    fn negotiation_follows_quality_then_order() {
        let cases = [
            ("de-DE,de;q=0.9,en;q=0.8", Language::DeDe),
            ("de-AT", Language::DeDe),
            ("xx, fr;q=0.3, it;q=0.7", Language::ItIt),
            ("fr;q=0.5, it;q=0.5", Language::FrFr),
            ("de;q=0, fi;q=0.001", Language::FiFi),
            ("zh-Hant-HK", Language::ZhTw),
            ("zh", Language::ZhCn),
            ("ZH-tw", Language::ZhTw),
            ("no", Language::NbNo),
            ("fil-PH", Language::TlPh),
            ("iw", Language::HeIl),
            ("pt-PT", Language::PtBr),
            ("*", Language::ElGr),
            ("*;q=0.1, sv;q=0.5", Language::SvSe),
            ("", Language::ElGr),
            (";;;,,q=1", Language::ElGr),
            ("de;q=1.5", Language::ElGr),
            ("de;q=0.1234", Language::ElGr),
            ("de;q=x", Language::ElGr),
            ("\u{fffd}-\u{1F600}", Language::ElGr),
        ];
        for (header, expected) in cases {
            assert_eq!(
                Language::negotiate(header, Language::ElGr),
                expected,
                "{header}"
            );
        }
    }

    #[test]
    fn a_long_header_is_judged_by_its_first_ranges() {
        let header = format!("{}de", "xx,".repeat(ACCEPT_LANGUAGE_RANGES_MAX));
        assert_eq!(Language::negotiate(&header, Language::EnUs), Language::EnUs);
    }
}
