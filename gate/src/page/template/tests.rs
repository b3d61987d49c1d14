//! Cases of the template parser and renderer.

use super::*;
use crate::page::preview::PreviewState;

fn render(source: &str) -> String {
    render_as(source, Dialect::Cloudflare, PreviewState::Queueing)
}

fn render_as(source: &str, dialect: Dialect, state: PreviewState) -> String {
    let (template, _) = Template::parse(source, dialect).unwrap();
    let mut out = String::new();
    template.fill(Language::EnUs, &state.view(), &mut out);
    out
}

fn warnings(source: &str) -> Vec<String> {
    let (_, warnings) = Template::parse(source, Dialect::Cloudflare).unwrap();
    warnings.iter().map(ToString::to_string).collect()
}

fn error(source: &str) -> String {
    Template::parse(source, Dialect::Cloudflare)
        .unwrap_err()
        .to_string()
}

#[test]
fn plain_text_is_kept_byte_for_byte() {
    for text in ["", "a", "a\r\nb\n", "}} { { $ ${ ${x} {", "héé 待ち 🙂\n\n"] {
        assert_eq!(render(text), text);
    }
}

#[test]
fn variables_are_plain_values() {
    assert_eq!(
        render("var k = {{waitTimeKnown}}, w = {{ waitTime }}, f = {{isRandomQueue}};"),
        "var k = true, w = 25, f = false;"
    );
    assert_eq!(render("{{lastUpdated}}"), "2026-03-01T12:00:00.000Z");
    assert_eq!(render("{{waitTimeFormatted}}"), "25 minutes");
    assert_eq!(render("{{queueingMethod}}{{position}}"), "fifo1284");
}

#[test]
fn zero_null_and_empty_text_are_false() {
    let both = |name: &str, state| {
        render_as(
            &format!("{{{{#{name}}}}}yes{{{{/{name}}}}}{{{{^{name}}}}}no{{{{/{name}}}}}"),
            Dialect::Cloudflare,
            state,
        )
    };
    assert_eq!(both("refreshIntervalSeconds", PreviewState::Reject), "no");
    assert_eq!(
        both("refreshIntervalSeconds", PreviewState::Queueing),
        "yes"
    );
    assert_eq!(both("turnstile", PreviewState::Queueing), "no");
    assert_eq!(both("position", PreviewState::Random), "no");
    assert_eq!(both("queueAll", PreviewState::Queueing), "no");
    assert_eq!(both("queueAll", PreviewState::QueueAll), "yes");
    assert_eq!(both("lastUpdated", PreviewState::Queueing), "yes");
    assert_eq!(both("noSuchThing", PreviewState::Queueing), "no");
}

#[test]
fn sections_nest_anywhere() {
    let source = "<script>{{#waitTimeKnown}}{{^queueAll}}{{#position}}p({{position}});{{/position}}{{/queueAll}}\
                  {{/waitTimeKnown}}</script><p class=\"{{#queueAll}}all{{/queueAll}}{{^queueAll}}some{{/queueAll}}\">";
    assert_eq!(
        render(source),
        "<script>p(1284);</script><p class=\"some\">"
    );
    assert_eq!(
        render_as(source, Dialect::Cloudflare, PreviewState::QueueAll),
        "<script></script><p class=\"all\">"
    );
    // A section within the same section again.
    assert_eq!(
        render("{{#waitTime}}a{{#waitTime}}b{{/waitTime}}c{{/waitTime}}"),
        "abc"
    );
}

#[test]
fn a_dot_is_the_innermost_value() {
    assert_eq!(render("{{#waitTime}}{{.}} min{{/waitTime}}"), "25 min");
    // Mustache.js does not make a boolean the context.
    assert_eq!(
        render("{{#waitTime}}{{#waitTimeKnown}}{{.}}{{/waitTimeKnown}}{{/waitTime}}"),
        "25"
    );
    assert_eq!(warnings("{{.}}").len(), 1);
}

#[test]
fn values_are_escaped_unless_asked_otherwise() {
    let mut out = String::new();
    let (template, _) = Template::parse(
        "{{timeUntilEventStartFormatted}}|{{{timeUntilEventStartFormatted}}}|{{&timeUntilEventStartFormatted}}",
        Dialect::Cloudflare,
    )
    .unwrap();
    template.fill(Language::EnUs, &PreviewState::Queueing.view(), &mut out);
    assert_eq!(out, "unavailable|unavailable|unavailable");
    let mut text = "kept <".to_owned();
    let start = text.len();
    text.push_str("a&<>\"'/`=é");
    escape_tail(&mut text, start);
    assert_eq!(text, "kept <a&amp;&lt;&gt;&quot;&#39;&#x2F;&#x60;&#x3D;é");
}

#[test]
fn lines_that_hold_only_tags_vanish() {
    assert_eq!(
        render(
            "<ul>\n  {{#waitTimeKnown}}\n  <li>{{waitTime}}</li>\n  {{/waitTimeKnown}}\n</ul>\n"
        ),
        "<ul>\n  <li>25</li>\n</ul>\n"
    );
    assert_eq!(render("a\n{{! note\n over lines }}\nb"), "a\nb");
    assert_eq!(
        render("a\r\n{{#waitTime}}\r\nb\r\n{{/waitTime}}\r\n"),
        "a\r\nb\r\n"
    );
    assert_eq!(render("  {{waitTime}}\n"), "  25\n");
    assert_eq!(render("  {{#waitTime}} {{/waitTime}}"), "");
}

#[test]
fn comments_partials_and_other_delimiters() {
    assert_eq!(render("a{{! nothing }}b{{> footer}}c"), "abc");
    assert_eq!(
        warnings("\n {{> footer}}"),
        ["line 2, column 2: there are no partials; \"footer\" renders nothing"]
    );
    assert_eq!(
        render("{{=<% %>=}}<% waitTime %> {{waitTime}} <%={{ }}=%>{{waitTime}}"),
        "25 {{waitTime}} 25"
    );
    assert_eq!(render("{{=| |=}}|{waitTime}| |&waitTime|"), "25 25");
}

#[test]
fn unknown_variables_render_nothing_and_are_reported() {
    assert_eq!(render("[{{waittime}}]"), "[]");
    assert_eq!(
        warnings("é {{waittime}}\n{{#nope}}x{{/nope}}"),
        [
            "line 1, column 3: there is no variable \"waittime\"; it renders nothing",
            "line 2, column 1: there is no variable \"nope\"; it renders nothing",
        ]
    );
    // Ours are not for custom pages.
    assert_eq!(warnings("{{heading}}{{script}}").len(), 2);
    assert_eq!(warnings(&"{{x}}".repeat(1000)).len(), TEMPLATE_WARNINGS_MAX);
}

#[test]
fn faults_are_refused_with_their_place() {
    for (source, expected) in [
        (
            "a\n  {{waitTime",
            "line 2, column 3: the tag that begins here is not closed",
        ),
        (
            "{{{waitTime}} x",
            "line 1, column 1: the tag that begins here is not closed",
        ),
        (
            "{{=<% %>}}",
            "line 1, column 1: the tag that begins here is not closed",
        ),
        ("é{{}}", "line 1, column 2: the tag names no variable"),
        ("{{# }}", "line 1, column 1: the tag names no variable"),
        (
            "{{#queueAll}}\nx",
            "line 1, column 1: the section \"queueAll\" is not closed",
        ),
        (
            "x\r\ny{{/queueAll}}",
            "line 2, column 2: the section \"queueAll\" is closed but was not opened",
        ),
        (
            "{{#queueAll}}{{^waitTime}}{{/queueAll}}{{/waitTime}}",
            "line 1, column 27: the section \"queueAll\" is closed while \"waitTime\" is still open",
        ),
        (
            "{{=<%=}}",
            "line 1, column 1: a change of delimiters must be two of them between equals signs, as in {{=<% %>=}}",
        ),
    ] {
        assert_eq!(error(source), expected, "{source}");
    }
}

#[test]
fn depth_and_length_have_limits() {
    let nested = |depth: usize| {
        format!(
            "{}x{}",
            "{{#waitTime}}".repeat(depth),
            "{{/waitTime}}".repeat(depth)
        )
    };
    assert_eq!(render(&nested(SECTION_DEPTH_MAX)), "x");
    assert_eq!(
        error(&nested(SECTION_DEPTH_MAX + 1)),
        "line 1, column 833: sections are nested more than 64 deep"
    );
    let longest = "é".repeat(TEMPLATE_BYTES_MAX / 2);
    assert_eq!(render(&longest), longest);
    assert_eq!(
        error(&format!("{longest}x")),
        "the template has 1048577 bytes; at most 1048576 are allowed"
    );
}

#[test]
fn dollar_names_are_filled_where_they_mean_nothing_else() {
    let source = "<p>${waitTime} ${ waitTimeFormatted }, ${position}, ${other}, ${waitTimeHours}</p>\n\
                  <SCRIPT>let t = `${waitTime}`;</Script><b>${queueAll}</b>";
    assert_eq!(
        render(source),
        "<p>25 25 minutes, 1284, ${other}, ${waitTimeHours}</p>\n<SCRIPT>let t = `${waitTime}`;</Script><b>false</b>"
    );
    assert_eq!(
        render_as(source, Dialect::Esa, PreviewState::Queueing),
        "<p>25 25 minutes, 1284, ${other}, ${waitTimeHours}</p>\n<SCRIPT>let t = `25`;</Script><b>false</b>"
    );
}

#[test]
fn hours_and_minutes_of_every_time() {
    let source = "{{waitTimeHours}}:{{waitTimeHourMinutes}} {{timeUntilEventStart}} \
                  {{timeUntilEventStartHours}}:{{timeUntilEventStartHourMinutes}} {{timeUntilEventEnd}} \
                  {{timeUntilEventEndHours}}:{{timeUntilEventEndHourMinutes}}";
    assert_eq!(
        render_as(source, Dialect::Cloudflare, PreviewState::Event),
        "1:12 0 0:0 120 2:0"
    );
    assert_eq!(
        render_as(source, Dialect::Cloudflare, PreviewState::Prequeue),
        "0:0 15 0:15 135 2:15"
    );
}

#[test]
fn hostile_templates_cost_no_more_than_their_length() {
    for source in [
        "${".repeat(TEMPLATE_BYTES_MAX / 2),
        "<script".repeat(100_000),
        "{{x}}".repeat(200_000),
        "{{#waitTime}}{{/waitTime}}".repeat(40_000),
        "\n".repeat(1_000_000),
        format!("{{{{{{{}", "}} ".repeat(300_000)),
    ] {
        if let Ok((template, _)) = Template::parse(&source, Dialect::Esa) {
            template.fill(
                Language::EnUs,
                &PreviewState::Queueing.view(),
                &mut String::new(),
            );
        }
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics(source in "(\\{\\{[#^/>&={!]?[a-z. ]{0,3}=?\\}?\\}\\}|\\$\\{[a-zA-Z]*\\}?|<script>|\\PC|\n|\\{|\\}|waitTime){0,40}") {
        if let Ok((template, _)) = Template::parse(&source, Dialect::Esa) {
            for state in PreviewState::ALL {
                template.fill(Language::ArEg, &state.view(), &mut String::new());
            }
        }
    }
}

/// Templates put together at random, and what Mustache.js 4.2.0 makes of them for the same variables.
#[test]
fn pages_come_out_as_mustache_js_renders_them() {
    let cases: Vec<(String, String)> =
        serde_json::from_str(include_str!("mustache_js.json")).unwrap();
    assert_eq!(cases.len(), 200);
    for (source, expected) in cases {
        assert_eq!(render(&source), expected, "{source:?}");
    }
}
