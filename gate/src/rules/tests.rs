//! What expressions mean, what is refused, and that nothing panics.

use http::HeaderMap;
use proptest::prelude::*;

use super::*;

fn lists() -> Lists {
    [
        ("office", &["198.51.100.0/24", "2001:db8:1::/48"][..]),
        ("shops", &["shop.example.com", "*.example.org"]),
        ("nobody", &[]),
    ]
    .map(|(name, entries)| {
        let entries = entries.iter().map(|text| ListEntry::parse(text).unwrap());
        (name.to_owned(), List::new(entries).unwrap())
    })
    .into()
}

/// A request, in the order: address, method, host, target, header lines.
struct Request {
    client: &'static str,
    transport: Transport,
    method: &'static str,
    host: &'static str,
    target: &'static str,
    headers: HeaderMap,
}

impl Request {
    fn matches(&self, expression: &Expression) -> bool {
        let (path, query) = self.target.split_once('?').unwrap_or((self.target, ""));
        expression.matches(&Facts {
            client: self.client.parse().unwrap(),
            transport: self.transport,
            method: self.method,
            version: "HTTP/1.1",
            host: self.host.as_bytes(),
            path: path.as_bytes(),
            query: query.as_bytes(),
            headers: &self.headers,
        })
    }
}

fn request() -> Request {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("user-agent", "Mozilla/5.0 (X11)"),
        ("referer", "https://news.example/a"),
        ("x-key", "first"),
        ("x-key", "Second"),
        ("x-forwarded-for", "203.0.113.9"),
        ("cookie", "a=1; session=abc; a=2"),
        ("cookie", "b=3"),
    ] {
        headers.append(name, value.parse().unwrap());
    }
    Request {
        client: "198.51.100.7",
        transport: Transport::Plain,
        method: "GET",
        host: "Shop.Example.com:8443",
        target: "/shop/Cart.JS?id=7&color=red&id=8",
        headers,
    }
}

fn compile(text: &str) -> Expression {
    Expression::parse(text, &lists()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn semantics() {
    let request = request();
    for (text, expected) in [
        // Addresses.
        ("ip.src eq 198.51.100.7", true),
        ("ip.src == 198.51.100.8", false),
        ("ip.src ne 198.51.100.8", true),
        ("ip.src in {198.51.100.7}", true),
        ("ip.src in {192.0.2.1 198.51.100.0/24 2001:db8::/32}", true),
        ("ip.src in {198.51.100.1..198.51.100.6}", false),
        ("ip.src in {198.51.100.1..198.51.100.7, ::1}", true),
        ("ip.src in $office", true),
        ("not ip.src in $office", false),
        ("ip.src in $nobody", false),
        // Lists of hosts.
        ("http.host in $shops", true),
        ("http.host in $nobody", false),
        ("not http.host in $shops and ssl", false),
        ("ip.src in {::/0}", false),
        // Hosts are read as routes are.
        ("http.host eq \"shop.example.com\"", true),
        ("http.host eq \"Shop.Example.com\"", false),
        ("http.host in {\"a\" \"shop.example.com\"}", true),
        ("http.host wildcard \"*.EXAMPLE.com\"", true),
        ("http.host strict wildcard \"*.EXAMPLE.com\"", false),
        ("http.host strict wildcard \"shop.*\"", true),
        ("http.host wildcard \"example.com\"", false),
        // Targets.
        ("http.request.uri.path eq \"/shop/Cart.JS\"", true),
        ("http.request.uri.path eq \"/shop/cart.js\"", false),
        ("lower(http.request.uri.path) eq \"/shop/cart.js\"", true),
        ("upper(http.request.uri.path) eq \"/SHOP/CART.JS\"", true),
        ("starts_with(http.request.uri.path, \"/shop/\")", true),
        ("starts_with(http.request.uri.path, \"/shopping\")", false),
        ("ends_with(lower(http.request.uri.path), \".js\")", true),
        ("ends_with(http.request.uri.path, \".js\")", false),
        ("http.request.uri.path.extension eq \"js\"", true),
        (
            "http.request.uri.path.extension in {\"css\" \"png\"}",
            false,
        ),
        (
            "http.request.uri eq \"/shop/Cart.JS?id=7&color=red&id=8\"",
            true,
        ),
        (
            "http.request.full_uri eq \"http://shop.example.com/shop/Cart.JS?id=7&color=red&id=8\"",
            true,
        ),
        ("http.request.uri.query contains \"color=red\"", true),
        ("http.request.uri.query contains \"color=blue\"", false),
        ("http.request.uri.args[\"id\"][1] eq \"8\"", true),
        ("any(http.request.uri.args[\"id\"][*] eq \"7\")", true),
        ("all(http.request.uri.args[\"id\"][*] eq \"7\")", false),
        ("any(http.request.uri.args.names[*] eq \"color\")", true),
        ("any(http.request.uri.args.values[*] eq \"red\")", true),
        ("len(http.request.uri.args[\"id\"]) == 2", true),
        ("http.request.method eq \"GET\"", true),
        ("http.request.method in {\"POST\" \"PUT\"}", false),
        ("http.request.version eq \"HTTP/1.1\"", true),
        ("ssl", false),
        ("not ssl", true),
        ("!ssl", true),
        // Headers and cookies.
        ("http.user_agent contains \"Mozilla\"", true),
        ("http.user_agent matches \"^Mozilla/\\d\\.\"", true),
        ("http.user_agent ~ r\"^mozilla\"", false),
        ("http.user_agent matches \"(?i)^mozilla\"", true),
        ("http.referer contains \"news.example\"", true),
        ("http.x_forwarded_for eq \"203.0.113.9\"", true),
        ("http.request.headers[\"x-key\"][0] eq \"first\"", true),
        ("http.request.headers[\"X-Key\"][1] eq \"Second\"", true),
        ("http.request.headers[\"x-key\"][2] eq \"third\"", false),
        ("http.request.headers[\"x-key\"][2] ne \"third\"", true),
        (
            "any(http.request.headers[\"x-key\"][*] eq \"Second\")",
            true,
        ),
        (
            "any(lower(http.request.headers[\"x-key\"][*])[*] eq \"second\")",
            true,
        ),
        (
            "any(starts_with(http.request.headers[\"x-key\"][*], \"Sec\"))",
            true,
        ),
        (
            "all(http.request.headers[\"x-key\"][*] contains \"s\")",
            false,
        ),
        ("all(len(http.request.headers[\"x-key\"][*]) gt 4)", true),
        ("any(http.request.headers[\"none\"][*] ne \"x\")", false),
        ("all(http.request.headers[\"none\"][*] ne \"x\")", false),
        ("any(http.request.headers.names[*] eq \"x-key\")", true),
        ("any(http.request.headers.values[*] eq \"first\")", true),
        ("len(http.request.headers[\"none\"]) eq 0", true),
        ("http.cookie contains \"session=abc\"", true),
        ("http.cookie eq \"a=1; session=abc; a=2; b=3\"", true),
        ("http.request.cookies[\"a\"][1] eq \"2\"", true),
        ("http.request.cookies[\"b\"][0] eq \"3\"", true),
        ("http.request.cookies[\"A\"][0] eq \"1\"", false),
        // Numbers.
        ("len(http.host) eq 16", true),
        ("len(http.host) ne 16", false),
        ("len(http.host) lt 16", false),
        ("len(http.host) <= 16", true),
        ("len(http.host) > 15", true),
        ("len(http.host) ge 17", false),
        ("len(http.host) in {1 10..20}", true),
        // Precedence: not, and, xor, or.
        ("ssl and ssl or not ssl", true),
        ("not ssl or ssl and ssl", true),
        ("(not ssl or ssl) and ssl", false),
        ("not ssl xor not ssl", false),
        ("not ssl xor not ssl and ssl", true),
        ("not ssl or not ssl xor not ssl", true),
        ("not ssl ^^ ssl", true),
        ("!ssl&&(!ssl||ssl)", true),
        ("not not ssl", false),
        ("not (ssl)", true),
        // Strings.
        ("http.host eq \"sho\\x70.example.com\"", true),
        ("http.host eq r#\"shop.example.com\"#", true),
        ("http.user_agent contains \"\\\"\"", false),
        ("http.user_agent contains \"\"", true),
        ("\n\thttp.host\n eq\n \"shop.example.com\"\n", true),
    ] {
        assert_eq!(request.matches(&compile(text)), expected, "{text}");
    }
}

#[test]
fn a_tls_client_is_one() {
    let mut request = request();
    request.transport = Transport::Tls;
    assert!(request.matches(&compile("ssl")));
    assert!(request.matches(&compile("starts_with(http.request.full_uri, \"https://\")")));
}

#[test]
fn a_rule_fits_only_by_every_reading_of_the_path() {
    let rule = compile("starts_with(http.request.uri.path, \"/static/\")");
    let inverse = compile("not starts_with(http.request.uri.path, \"/sale\")");
    for (target, fits, fits_inverse) in [
        ("/static/a.css", true, true),
        ("/static/", true, true),
        ("/static/%20a", true, true),
        ("/static/%C3%A4", true, true),
        ("/static//a.css", true, true),
        ("/static/./a.css", true, true),
        ("/static/../sale", false, false),
        ("/static/..%2fsale", false, false),
        ("/static/%2e%2e/sale", false, false),
        ("/static\\..\\sale", false, false),
        ("/static/..;/sale", false, false),
        ("/static%2f..%2fsale", false, false),
        ("/sale/../static/a", false, false),
        ("//static/a", false, true),
        ("/%73tatic/a", false, true),
        ("/%73ale", false, false),
        ("/./sale", false, false),
        ("//sale", false, false),
        ("/sale", false, false),
        ("/static/a%", true, true),
    ] {
        let mut request = request();
        request.target = target;
        assert_eq!(request.matches(&rule), fits, "{target}");
        assert_eq!(request.matches(&inverse), fits_inverse, "{target}");
    }
    let mut request = request();
    for (target, text) in [
        ("/a%20b", "http.request.uri.path eq \"/a%20b\""),
        ("/shop/", "http.request.uri.path eq \"/shop/\""),
        ("/", "http.request.uri.path eq \"/\""),
        (
            "/.well-known/x",
            "http.request.uri.path eq \"/.well-known/x\"",
        ),
    ] {
        request.target = target;
        assert!(request.matches(&compile(text)), "{target}");
    }
}

#[test]
fn faults_have_a_place_and_a_reason() {
    for (text, expected) in [
        ("", "line 1, column 1: the expression is empty"),
        ("  \n ", "line 1, column 1: the expression is empty"),
        (
            "http.hots eq \"a\"",
            "line 1, column 1: no field http.hots; did you mean http.host?",
        ),
        (
            "xyz",
            "line 1, column 1: no field xyz; there are ip.src, http.host, ",
        ),
        ("ssl and\n  foo eq 1", "line 2, column 3: no field foo; "),
        (
            "http.host",
            "line 1, column 10: the expression ends where an operator must stand",
        ),
        (
            "http.host eq",
            "line 1, column 13: the expression ends where a string in double quotes must stand",
        ),
        (
            "http.host eq 5",
            "line 1, column 14: a string in double quotes must stand here, not `5`",
        ),
        (
            "http.host = \"a\"",
            "line 1, column 11: `=` is no operator; equality is `==` or `eq`",
        ),
        (
            "http.host eq 'a'",
            "line 1, column 14: strings stand in double quotes",
        ),
        (
            "http.host eq \"a",
            "line 1, column 14: the string that begins here is not closed",
        ),
        (
            "http.host eq \"\\q\"",
            "line 1, column 14: escapes are \\\", \\\\ and \\xHH",
        ),
        (
            "http.host lt \"a\"",
            "line 1, column 11: `lt` does not compare texts",
        ),
        (
            "http.host matches \"(\"",
            "line 1, column 19: no regular expression: unclosed group",
        ),
        (
            "http.host matches \"a{1000}{1000}{1000}\"",
            "line 1, column 19: no regular expression: ",
        ),
        (
            "http.host wildcard \"a**\"",
            "line 1, column 20: two stars stand together",
        ),
        (
            "ssl eq true",
            "line 1, column 5: this field is true or false by itself",
        ),
        (
            "ssl ssl",
            "line 1, column 5: `ssl` does not belong here; comparisons are joined by and, or, xor",
        ),
        (
            "ssl & ssl",
            "line 1, column 5: an operator has this sign twice",
        ),
        (
            "(ssl",
            "line 1, column 5: the expression ends where `)` must stand",
        ),
        ("ssl)", "line 1, column 4: this `)` closes nothing"),
        (
            "not",
            "line 1, column 4: the expression ends where a field or function must stand",
        ),
        (
            "ip.src eq 10.0.0.0/8",
            "line 1, column 11: 10.0.0.0/8 is more than one address: write ip.src in {10.0.0.0/8}",
        ),
        ("ip.src in {10.0.0.1/8}", "line 1, column 12: "),
        (
            "ip.src in {abc}",
            "line 1, column 12: \"abc\" is no address, prefix or range",
        ),
        (
            "ip.src in {\"10.0.0.1\"}",
            "line 1, column 12: addresses stand without quotes",
        ),
        (
            "ip.src in {}",
            "line 1, column 13: the set before this is empty",
        ),
        (
            "ip.src in {10.0.0.1",
            "line 1, column 20: the expression ends where an address must stand",
        ),
        (
            "ip.src in $home",
            "line 1, column 11: no list home in [lists]",
        ),
        (
            "ip.src in $cf.anonymizer",
            "line 1, column 11: $cf.anonymizer is a list of the vendor's",
        ),
        (
            "http.host in $office",
            "line 1, column 14: $office is a list of addresses; ip.src is compared with it",
        ),
        (
            "ip.src in $shops",
            "line 1, column 11: $shops is a list of host names; http.host is compared with it",
        ),
        (
            "http.request.method in $shops",
            "line 1, column 24: lists hold addresses or host names; ip.src and http.host are compared with them",
        ),
        (
            "http.host in $shop",
            "line 1, column 14: no list shop in [lists]",
        ),
        (
            "ip.src contains \"1\"",
            "line 1, column 8: `contains` does not compare addresses",
        ),
        (
            "len(http.host) contains 1",
            "line 1, column 16: `contains` does not compare numbers",
        ),
        (
            "len(http.host) eq 1..5",
            "line 1, column 19: a range stands in {…} behind `in`",
        ),
        (
            "len(http.host) in {5..1}",
            "line 1, column 20: the range runs backwards",
        ),
        (
            "len(ip.src) eq 1",
            "line 1, column 5: len() takes a text or a list",
        ),
        (
            "lower(ip.src) eq \"a\"",
            "line 1, column 7: lower() takes a text",
        ),
        (
            "concat(http.host, \"a\") eq \"b\"",
            "line 1, column 1: no function concat()",
        ),
        (
            "lower(starts_with(http.host, \"a\"))",
            "starts_with() is true or false",
        ),
        (
            "http.request.headers eq \"a\"",
            "line 1, column 22: http.request.headers is taken by name",
        ),
        (
            "http.request.headers[\"a\"] eq \"a\"",
            "line 1, column 1: a list is compared value by value",
        ),
        (
            "http.request.headers[\"a\"][*] eq \"a\"",
            "line 1, column 1: a comparison with [*] has many answers",
        ),
        (
            "any(http.request.headers[\"a\"][0] eq \"a\")",
            "line 1, column 5: any(…) is about a list",
        ),
        (
            "any(http.host eq \"a\")",
            "line 1, column 5: any(…) is about a list",
        ),
        (
            "http.request.headers[\"a\"][x] eq \"a\"",
            "line 1, column 27: `*` or a number from 0 to 65535 must stand here, not `x`",
        ),
        (
            "cf.threat_score gt 10",
            "line 1, column 1: cf.threat_score is not supported: it needs the vendor's network",
        ),
        (
            "cf.bot_management.score lt 30",
            "cf.bot_management.score is not supported: ",
        ),
        (
            "cf.client.bot",
            "cf.client.bot is not supported: set search_engine_crawler_bypass in [settings]",
        ),
        (
            "ip.src.country eq \"DE\"",
            "ip.src.country is not supported: it needs a database of networks",
        ),
        (
            "ip.src.is_in_european_union",
            "ip.src.is_in_european_union is not supported: it needs a database",
        ),
        (
            "ip.geoip.asnum eq 1",
            "ip.geoip.asnum is not supported: it needs a database",
        ),
        (
            "http.response.code eq 200",
            "http.response.code is not supported: rules are decided before the origin has answered",
        ),
        (
            "http.request.body.raw eq \"a\"",
            "http.request.body.raw is not supported: ",
        ),
        (
            "raw.http.request.uri.path eq \"/\"",
            "raw.http.request.uri.path is not supported: ",
        ),
        (
            "http.host eq \"é\" and @",
            "line 1, column 22: '@' has no meaning here",
        ),
    ] {
        let error = Expression::parse(text, &lists())
            .expect_err(text)
            .to_string();
        assert!(
            error.starts_with("line ") && error.contains(expected),
            "{text:?}: {error}"
        );
    }
}

#[test]
fn depth_and_length_are_limited() {
    let nested = |depth: usize| format!("{}ssl{}", "(".repeat(depth), ")".repeat(depth));
    compile(&nested(DEPTH_MAX));
    for text in [
        nested(DEPTH_MAX + 1),
        "!".repeat(EXPRESSION_BYTES_MAX - 3) + "ssl",
        "lower(".repeat(500) + "http.host" + &")".repeat(500),
    ] {
        let error = Expression::parse(&text, &lists()).unwrap_err();
        assert!(
            error.problem.contains("nested more than 64 deep"),
            "{error}"
        );
    }
    let long = format!("ssl {}", " ".repeat(EXPRESSION_BYTES_MAX));
    let error = Expression::parse(&long, &lists()).unwrap_err();
    assert!(
        error.problem.contains("at most 4096 are allowed"),
        "{error}"
    );
    // Chains are not nested.
    compile(&vec!["ssl"; 500].join(" or "));
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        if let Ok(expression) = Expression::parse(&text, &lists()) {
            request().matches(&expression);
        }
    }

    #[test]
    fn no_row_of_words_panics(words in prop::collection::vec(prop::sample::select(vec![
        "ip.src", "http.host", "http.request.uri.path", "http.request.headers", "http.request.cookies", "ssl", "eq", "ne",
        "in", "contains", "matches", "strict", "wildcard", "lt", "any", "all", "len", "lower", "starts_with", "not", "and",
        "or", "xor", "(", ")", "{", "}", "[", "]", ",", "*", "\"a\"", "r\"b\"", "5", "1..9", "10.0.0.0/8", "::1", "$office",
        "!", "&&", "~",
    ]), 0..24)) {
        if let Ok(expression) = Expression::parse(&words.join(" "), &lists()) {
            request().matches(&expression);
        }
    }
}
