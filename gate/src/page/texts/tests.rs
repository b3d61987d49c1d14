//! What must hold in every language.

use super::*;

fn written(language: Language, write: impl FnOnce(&Words, &mut String)) -> String {
    let mut out = String::new();
    write(Words::of(language), &mut out);
    // Languages that group with a narrow space or join with a hard one are compared by eye.
    out.replace(['\u{a0}', '\u{202f}'], " ")
}

fn minutes(language: Language, number: u64) -> String {
    written(language, |words, out| words.write_minutes(number, out))
}

fn all_texts(texts: &'static Texts) -> Vec<&'static str> {
    let mut all: Vec<_> = [texts.minute, texts.hour]
        .concat()
        .iter()
        .map(|(_, form)| *form)
        .collect();
    all.extend([
        texts.hours_and_minutes,
        texts.range,
        texts.unavailable,
        texts.not_known_yet,
        texts.more_than_a_day,
        texts.queueing_heading,
        texts.queueing_lead,
        texts.random_lead,
        texts.full_heading,
        texts.full_lead,
        texts.queue_all_heading,
        texts.queue_all_lead,
        texts.reject_heading,
        texts.reject_lead,
        texts.prequeue_heading,
        texts.prequeue_ordered_lead,
        texts.prequeue_shuffled_lead,
        texts.position_label,
        texts.wait_label,
        texts.until_start_label,
        texts.until_end_label,
        texts.last_updated_label,
        texts.keep_open,
        texts.connection_lost,
        texts.cookies_needed,
        texts.leave_button,
        texts.leave_question,
        texts.left_heading,
        texts.join_again,
        texts.no_answer_heading,
        texts.bad_request_heading,
        texts.bad_request_lead,
        texts.too_many_heading,
        texts.try_again_lead,
    ]);
    all
}

#[test]
fn every_language_says_everything_in_its_own_words() {
    for language in Language::ALL {
        let texts = texts_of(*language);
        for text in all_texts(texts) {
            assert!(!text.trim().is_empty() && text == text.trim(), "{language}");
            // Error pages and JSON rely on this.
            assert!(
                !text.contains(['<', '>', '&', '"', '\\']) && !text.contains(char::is_control),
                "{language}: {text}"
            );
        }
        for pattern in [texts.hours_and_minutes, texts.range] {
            assert!(
                pattern.find("{0}") < pattern.find("{1}"),
                "{language}: {pattern}"
            );
        }
        if *language != Language::EnUs {
            assert_ne!(texts.queueing_lead, en::TEXTS.queueing_lead, "{language}");
        }
    }
    for language in Language::ALL {
        for other in Language::ALL {
            assert!(
                language == other
                    || texts_of(*language).keep_open != texts_of(*other).keep_open
                    || texts_of(*language).full_lead != texts_of(*other).full_lead,
                "{language} and {other} are the same"
            );
        }
    }
}

#[test]
fn every_plural_category_of_whole_numbers_has_a_form() {
    let numbers = || (0..=200).chain([1_000, 1_000_000]);
    for language in Language::ALL {
        let words = Words::of(*language);
        for forms in [words.texts.minute, words.texts.hour] {
            if let [(PluralCategory::Other, _)] = forms {
                continue;
            }
            for number in numbers() {
                let category = words.plurals.category_for(number);
                assert!(
                    forms.iter().any(|(of, _)| *of == category),
                    "{language} has no form for {number}: {category:?}"
                );
            }
        }
    }
}

#[test]
fn plurals_follow_the_language() {
    for (language, number, expected) in [
        (Language::EnUs, 1, "1 minute"),
        (Language::EnUs, 2, "2 minutes"),
        (Language::FrFr, 0, "0 minute"),
        (Language::FrFr, 2, "2 minutes"),
        (Language::PlPl, 1, "1 minuta"),
        (Language::PlPl, 3, "3 minuty"),
        (Language::PlPl, 5, "5 minut"),
        (Language::PlPl, 22, "22 minuty"),
        (Language::RuRu, 1, "1 минута"),
        (Language::RuRu, 11, "11 минут"),
        (Language::RuRu, 21, "21 минута"),
        (Language::RuRu, 24, "24 минуты"),
        (Language::UkUa, 5, "5 хвилин"),
        (Language::LtLt, 21, "21 minutė"),
        (Language::LtLt, 10, "10 minučių"),
        (Language::SlSi, 2, "2 minuti"),
        (Language::SlSi, 103, "103 minute"),
        (Language::RoRo, 19, "19 minute"),
        (Language::RoRo, 20, "20 de minute"),
        (Language::CsCz, 4, "4 minuty"),
        (Language::HeIl, 2, "שתי דקות"),
        (Language::ArEg, 1, "دقيقة"),
        (Language::ArEg, 2, "دقيقتان"),
        (Language::ArEg, 5, "٥ دقائق"),
        (Language::ArEg, 11, "١١ دقيقة"),
        (Language::FaIr, 45, "۴۵ دقیقه"),
        (Language::TlPh, 1, "1 minuto"),
        (Language::TlPh, 4, "4 na minuto"),
        (Language::NbNo, 2, "2 minutter"),
        (Language::JaJp, 3, "3 分"),
        (Language::ZhCn, 3, "3分钟"),
        (Language::SrBa, 22, "22 минута"),
        (Language::HiIn, 3, "3 मिनट"),
    ] {
        assert_eq!(minutes(language, number), expected);
    }
}

#[test]
fn numbers_have_the_digits_and_groups_of_the_language() {
    for (language, expected) in [
        (Language::EnUs, "1,234,567"),
        (Language::DeDe, "1.234.567"),
        (Language::SvSe, "1 234 567"),
        (Language::HiIn, "12,34,567"),
        (Language::ArEg, "١٬٢٣٤٬٥٦٧"),
        (Language::FaIr, "۱٬۲۳۴٬۵۶۷"),
        (Language::NbNo, "1 234 567"),
        (Language::TlPh, "1,234,567"),
    ] {
        let number = written(language, |words, out| words.write_number(1_234_567, out));
        assert_eq!(number, expected);
    }
}

#[test]
fn spans_join_hours_and_minutes() {
    for (language, minutes, expected) in [
        (Language::EnUs, 0, "0 minutes"),
        (Language::EnUs, 59, "59 minutes"),
        (Language::EnUs, 60, "1 hour"),
        (Language::EnUs, 61, "1 hour, 1 minute"),
        (Language::EnUs, 150, "2 hours, 30 minutes"),
        (Language::DeDe, 150, "2 Stunden, 30 Minuten"),
        (Language::ZhCn, 150, "2小时30分钟"),
        (Language::ArEg, 150, "ساعتان و٣٠ دقيقة"),
    ] {
        let span = written(language, |words, out| words.write_span(minutes, out));
        assert_eq!(span, expected);
    }
    for language in Language::ALL {
        let span = written(*language, |words, out| words.write_span(u64::MAX, out));
        assert!(!span.contains('{'), "{span}");
    }
}

#[test]
fn a_pattern_is_filled_in_order() {
    let mut out = String::new();
    fill_two(
        "from {0} to {1}.",
        &mut out,
        |out| out.push('a'),
        |out| out.push('b'),
    );
    assert_eq!(out, "from a to b.");
}
