//! Bypass rules (`[[rooms.rules]]`) and the lists they name (`[lists]`).

use crate::rules::{BypassRules, Expression, List, ListEntry, Lists, Rule};

use super::fields::{Section, WordCase};

/// Most rules of a room. More are refused.
pub const RULES_MAX: usize = 200;
/// Most lists. More are refused.
pub const LISTS_MAX: usize = 1_000;
/// Most entries of one list. More are refused.
pub const LIST_ENTRIES_MAX: usize = 100_000;
/// Longest name of a list.
const LIST_NAME_BYTES_MAX: usize = 50;

/// Reads `[lists]`: faulty entries are reported and left out.
pub(super) fn read_lists(mut section: Section<'_>) -> Lists {
    let report = section.report();
    let mut lists = Lists::new();
    let named = section.named_strings(ListEntry::parse);
    if named.len() > LISTS_MAX {
        report.add(&section.at(), format!("must be at most {LISTS_MAX} lists"));
        return lists;
    }
    for (name, at, entries) in named {
        if !is_list_name(&name) {
            report.add(
                &at,
                format!(
                    "the name must be 1 to {LIST_NAME_BYTES_MAX} small letters (a-z), digits and \"_\""
                ),
            );
        }
        if entries.len() > LIST_ENTRIES_MAX {
            report.add(&at, format!("must be at most {LIST_ENTRIES_MAX} entries"));
        }
        match List::new(entries) {
            Ok(list) => {
                lists.insert(name, list);
            }
            Err(mixed) => report.add(&at, mixed.to_string()),
        }
    }
    lists
}

fn is_list_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=LIST_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

/// Reads the rules of a room. Those that are switched off are checked all the same.
pub(super) fn read_rules(section: &mut Section<'_>, lists: &Lists) -> BypassRules {
    let report = section.report();
    let sections = section.tables("rules");
    if sections.len() > RULES_MAX {
        report.add(
            &section.at_value("rules"),
            format!("must be at most {RULES_MAX} rules"),
        );
        return BypassRules::default();
    }
    let rules = sections
        .into_iter()
        .filter_map(|section| read_rule(section, lists));
    BypassRules::new(rules.collect())
}

fn read_rule(mut section: Section<'_>, lists: &Lists) -> Option<Rule> {
    section.require("expression", "a rule needs an expression");
    section.require("action", "a rule needs its action, \"bypass_waiting_room\"");
    let expression = section.parsed("expression", |text| {
        Expression::parse(text, lists).map_err(|error| error.to_string())
    });
    let description = section.string("description");
    let enabled = section.boolean("enabled");
    // There is one; it is said so that a rule can be read by itself.
    let _action = section.word("action", WordCase::Exact, &[("bypass_waiting_room", ())]);
    section.finish();
    if enabled.is_some_and(|found| !found.value) {
        return None;
    }
    Some(Rule {
        description: description.map(|found| found.value).unwrap_or_default(),
        expression: expression?.value,
    })
}
