//! What the pages say, in every language, and how numbers and times are written there.
//!
//! Plural rules and digits come from CLDR by way of `icu_plurals` and `icu_decimal`. The forms of the units are CLDR's, too,
//! but stand in the language's own file: no stable library formats units. Texts never put a time or a number inside a
//! sentence, because its case would differ by language; they stand beside a label.

use std::sync::OnceLock;

use icu_decimal::DecimalFormatter;
use icu_decimal::input::Decimal;
use icu_locale_core::Locale;
use icu_plurals::{PluralCategory, PluralRules};
use writeable::Writeable;

use super::language::Language;

mod ar;
mod bg;
mod cs;
mod da;
mod de;
mod el;
mod en;
mod es;
mod fa;
mod fi;
mod fr;
mod he;
mod hi;
mod hr;
mod hu;
mod id;
mod it;
mod ja;
mod ko;
mod lt;
mod ms;
mod nb;
mod nl;
mod pl;
mod pt_br;
mod ro;
mod ru;
mod sk;
mod sl;
mod sr;
mod sv;
mod th;
mod tl;
mod tr;
mod uk;
mod vi;
mod zh_cn;
mod zh_tw;

/// The forms of a unit by plural category, each with `{0}` where the number goes (or without, where the language has a word
/// for one or two of it). The last is the form for everything not named.
type Forms = &'static [(PluralCategory, &'static str)];

/// Everything said in one language. HTML is escaped on output, so these are plain text.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) minute: Forms,
    pub(super) hour: Forms,
    /// Joins hours `{0}` and minutes `{1}`.
    pub(super) hours_and_minutes: &'static str,
    /// From `{0}` to `{1}`.
    pub(super) range: &'static str,
    /// A time nobody can give, as `waitTimeFormatted` says it.
    pub(super) unavailable: &'static str,
    /// The same beside a label.
    pub(super) not_known_yet: &'static str,
    pub(super) more_than_a_day: &'static str,

    pub(super) queueing_heading: &'static str,
    pub(super) queueing_lead: &'static str,
    pub(super) random_lead: &'static str,
    pub(super) full_heading: &'static str,
    pub(super) full_lead: &'static str,
    pub(super) queue_all_heading: &'static str,
    pub(super) queue_all_lead: &'static str,
    pub(super) reject_heading: &'static str,
    pub(super) reject_lead: &'static str,
    pub(super) prequeue_heading: &'static str,
    pub(super) prequeue_ordered_lead: &'static str,
    pub(super) prequeue_shuffled_lead: &'static str,

    pub(super) position_label: &'static str,
    pub(super) wait_label: &'static str,
    pub(super) until_start_label: &'static str,
    pub(super) until_end_label: &'static str,
    pub(super) last_updated_label: &'static str,

    pub(super) keep_open: &'static str,
    pub(super) connection_lost: &'static str,
    pub(super) cookies_needed: &'static str,
    pub(super) leave_button: &'static str,
    pub(super) leave_question: &'static str,
    pub(super) left_heading: &'static str,
    pub(super) join_again: &'static str,

    pub(super) no_answer_heading: &'static str,
    pub(super) bad_request_heading: &'static str,
    pub(super) bad_request_lead: &'static str,
    pub(super) too_many_heading: &'static str,
    pub(super) try_again_lead: &'static str,
}

/// A language, ready to write texts, numbers and times.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) language: Language,
    pub(super) texts: &'static Texts,
    plurals: PluralRules,
    numbers: DecimalFormatter,
}

impl Words {
    /// The words of a language; loaded at first use and kept.
    pub(super) fn of(language: Language) -> &'static Self {
        static LOADED: [OnceLock<Words>; Language::ALL.len()] =
            [const { OnceLock::new() }; Language::ALL.len()];
        LOADED[language as usize].get_or_init(|| Self::load(language))
    }

    fn load(language: Language) -> Self {
        // CLDR keeps Tagalog under Filipino.
        let tag = if language == Language::TlPh {
            "fil-PH"
        } else {
            language.tag()
        };
        let locale: Locale = tag
            .parse()
            .expect("the tag of every language is well formed");
        Self {
            language,
            texts: texts_of(language),
            plurals: PluralRules::try_new_cardinal((&locale).into())
                .expect("the rules are compiled in for every language"),
            numbers: DecimalFormatter::try_new((&locale).into(), Default::default())
                .expect("the digits are compiled in for every language"),
        }
    }

    /// A whole number in the digits and groups of the language.
    pub(super) fn write_number(&self, number: u64, out: &mut String) {
        self.numbers
            .format(&Decimal::from(number))
            .write_to(out)
            .expect("a string takes every write");
    }

    /// A number of minutes, never in hours: `90 minutes`.
    pub(super) fn write_minutes(&self, minutes: u64, out: &mut String) {
        self.write_unit(self.texts.minute, minutes, out);
    }

    /// A span in hours and minutes: `1 hour, 30 minutes`; minutes alone below an hour.
    pub(super) fn write_span(&self, minutes: u64, out: &mut String) {
        let (hours, rest) = (minutes / 60, minutes % 60);
        if hours == 0 {
            self.write_minutes(rest, out);
        } else if rest == 0 {
            self.write_unit(self.texts.hour, hours, out);
        } else {
            fill_two(
                self.texts.hours_and_minutes,
                out,
                |out| self.write_unit(self.texts.hour, hours, out),
                |out| self.write_minutes(rest, out),
            );
        }
    }

    /// Two things as a range, each written by its own function.
    pub(super) fn write_range(
        &self,
        out: &mut String,
        from: impl FnOnce(&mut String),
        to: impl FnOnce(&mut String),
    ) {
        fill_two(self.texts.range, out, from, to);
    }

    fn write_unit(&self, forms: Forms, number: u64, out: &mut String) {
        let category = self.plurals.category_for(number);
        let form = forms
            .iter()
            .find(|(of, _)| *of == category)
            .or(forms.last())
            .map_or("{0}", |(_, form)| form);
        match form.split_once("{0}") {
            Some((before, after)) => {
                out.push_str(before);
                self.write_number(number, out);
                out.push_str(after);
            }
            None => out.push_str(form),
        }
    }
}

/// Writes a pattern with `{0}` before `{1}`.
fn fill_two(
    pattern: &str,
    out: &mut String,
    first: impl FnOnce(&mut String),
    second: impl FnOnce(&mut String),
) {
    let (before, rest) = pattern.split_once("{0}").unwrap_or(("", pattern));
    let (between, after) = rest.split_once("{1}").unwrap_or((rest, ""));
    out.push_str(before);
    first(out);
    out.push_str(between);
    second(out);
    out.push_str(after);
}

const fn texts_of(language: Language) -> &'static Texts {
    match language {
        Language::EnUs => &en::TEXTS,
        Language::EsEs => &es::TEXTS,
        Language::DeDe => &de::TEXTS,
        Language::FrFr => &fr::TEXTS,
        Language::ItIt => &it::TEXTS,
        Language::JaJp => &ja::TEXTS,
        Language::KoKr => &ko::TEXTS,
        Language::PtBr => &pt_br::TEXTS,
        Language::ZhCn => &zh_cn::TEXTS,
        Language::ZhTw => &zh_tw::TEXTS,
        Language::NlNl => &nl::TEXTS,
        Language::PlPl => &pl::TEXTS,
        Language::IdId => &id::TEXTS,
        Language::TrTr => &tr::TEXTS,
        Language::ArEg => &ar::TEXTS,
        Language::RuRu => &ru::TEXTS,
        Language::FaIr => &fa::TEXTS,
        Language::BgBg => &bg::TEXTS,
        Language::HrHr => &hr::TEXTS,
        Language::CsCz => &cs::TEXTS,
        Language::DaDk => &da::TEXTS,
        Language::FiFi => &fi::TEXTS,
        Language::LtLt => &lt::TEXTS,
        Language::MsMy => &ms::TEXTS,
        Language::NbNo => &nb::TEXTS,
        Language::RoRo => &ro::TEXTS,
        Language::ElGr => &el::TEXTS,
        Language::HeIl => &he::TEXTS,
        Language::HiIn => &hi::TEXTS,
        Language::HuHu => &hu::TEXTS,
        Language::SrBa => &sr::TEXTS,
        Language::SkSk => &sk::TEXTS,
        Language::SlSi => &sl::TEXTS,
        Language::SvSe => &sv::TEXTS,
        Language::TlPh => &tl::TEXTS,
        Language::ThTh => &th::TEXTS,
        Language::UkUa => &uk::TEXTS,
        Language::ViVn => &vi::TEXTS,
    }
}

#[cfg(test)]
mod tests;
