//! Who is a crawler, with a DNS of a few names; the real one is asked in the end-to-end cases.

use super::*;
use crate::rules::AddressRange;

/// Names of addresses and addresses of names.
#[derive(Debug)]
struct Zone {
    names: Vec<(IpAddr, &'static str)>,
    addresses: Vec<(&'static str, IpAddr)>,
}

impl Dns for Zone {
    fn names(&self, address: IpAddr) -> Answer<'_, Vec<String>> {
        let names = self.names.iter().filter(|(of, _)| *of == address);
        let names = names.map(|(_, name)| (*name).to_owned()).collect();
        Box::pin(async move { Ok(names) })
    }

    fn addresses<'a>(&'a self, name: &'a str) -> Answer<'a, Vec<IpAddr>> {
        let addresses = self.addresses.iter().filter(|(of, _)| *of == name);
        let addresses = addresses.map(|(_, address)| *address).collect();
        Box::pin(async move { Ok(addresses) })
    }
}

/// A DNS that never answers, or only with an error.
#[derive(Debug)]
struct Down;

impl Dns for Down {
    fn names(&self, _address: IpAddr) -> Answer<'_, Vec<String>> {
        Box::pin(async { Err(DnsError::UNKNOWN) })
    }

    fn addresses<'a>(&'a self, _name: &'a str) -> Answer<'a, Vec<IpAddr>> {
        Box::pin(async { Err(DnsError::UNKNOWN) })
    }
}

const BOT: Option<&[u8]> = Some(b"Mozilla/5.0 (compatible; Googlebot/2.1)");
const PERSON: Option<&[u8]> = Some(b"Mozilla/5.0 (X11; Linux)");

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn settings() -> CrawlerSettings {
    CrawlerSettings {
        ranges: [AddressRange::from(ip("203.0.113.5"))]
            .into_iter()
            .collect(),
        domains: vec!["googlebot.com".to_owned()],
        dns_servers: Vec::new(),
    }
}

/// Asks until the lookup is over, and gives the verdict.
fn verdict(crawlers: &Crawlers, clock: Clock, client: IpAddr) -> bool {
    crawlers.is_verified(clock.now(), client, BOT);
    let pending = (LOOKUP_TIMEOUT_SECONDS + 1) * 1_000;
    for _ in 0..1_000_000 {
        let addresses = crawlers.known.addresses.lock();
        if let Some((verdict, until)) = addresses.get(&client)
            && (*verdict == Verdict::Verified || until.millis_since(clock.now()) > pending)
        {
            break;
        }
        drop(addresses);
        std::thread::yield_now();
    }
    crawlers.is_verified(clock.now(), client, BOT)
}

#[test]
fn a_name_must_lead_back_to_the_address() {
    let zone = Zone {
        names: vec![
            (ip("192.0.2.1"), "crawl-1.googlebot.com."),
            // Anybody may write any name into the reverse zone of an address of theirs.
            (ip("192.0.2.2"), "crawl-1.googlebot.com."),
            (ip("192.0.2.3"), "evilgooglebot.com."),
            (ip("192.0.2.4"), "googlebot.com.evil.example."),
            (ip("192.0.2.5"), "other.example."),
            (ip("192.0.2.5"), "CRAWL-5.GoogleBot.com."),
        ],
        addresses: vec![
            ("crawl-1.googlebot.com.", ip("192.0.2.1")),
            ("evilgooglebot.com.", ip("192.0.2.3")),
            ("googlebot.com.evil.example.", ip("192.0.2.4")),
            ("CRAWL-5.GoogleBot.com.", ip("192.0.2.5")),
        ],
    };
    let clock = Clock::start(Millis::ZERO);
    let crawlers = Crawlers::start(&settings(), zone, clock).unwrap();
    for (client, expected) in [
        ("192.0.2.1", true),
        ("192.0.2.2", false),
        ("192.0.2.3", false),
        ("192.0.2.4", false),
        ("192.0.2.5", true),
        ("192.0.2.6", false),
    ] {
        assert_eq!(verdict(&crawlers, clock, ip(client)), expected, "{client}");
    }
    // A verified address still has to call itself a crawler.
    assert!(!crawlers.is_verified(clock.now(), ip("192.0.2.1"), PERSON));
    assert!(!crawlers.is_verified(clock.now(), ip("192.0.2.1"), None));
    // What is known ends.
    let later = clock.now().plus_millis(VERIFIED_SECONDS * 1_000 + 1);
    assert!(!crawlers.is_verified(later, ip("192.0.2.1"), BOT));
}

#[test]
fn published_ranges_need_no_lookup() {
    let clock = Clock::start(Millis::ZERO);
    let crawlers = Crawlers::start(&settings(), Down, clock).unwrap();
    assert!(crawlers.is_verified(clock.now(), ip("203.0.113.5"), PERSON));
    assert!(!crawlers.is_verified(clock.now(), ip("203.0.113.6"), BOT));
    // People are never looked up.
    assert!(!crawlers.is_verified(clock.now(), ip("203.0.113.7"), PERSON));
    assert!(
        !crawlers
            .known
            .addresses
            .lock()
            .contains_key(&ip("203.0.113.7"))
    );
}

#[test]
fn a_dns_that_is_down_verifies_nobody() {
    let clock = Clock::start(Millis::ZERO);
    let crawlers = Crawlers::start(&settings(), Down, clock).unwrap();
    assert!(!verdict(&crawlers, clock, ip("192.0.2.1")));
}

#[test]
fn what_is_remembered_is_bounded() {
    let now = Millis::new(1_000);
    let until = now.plus_millis(60_000);
    let mut addresses = HashMap::new();
    let address = |number: usize| IpAddr::from(u32::try_from(number).unwrap().to_be_bytes());
    remember(&mut addresses, now, ip("::1"), Verdict::Verified, until);
    for number in 0..3 * KNOWN_ADDRESSES_MAX {
        remember(
            &mut addresses,
            now,
            address(number),
            Verdict::Visitor,
            until,
        );
        assert!(addresses.len() <= KNOWN_ADDRESSES_MAX);
    }
    assert!(
        addresses.contains_key(&ip("::1")),
        "a flood of visitors made it forget a crawler"
    );
    for number in 0..KNOWN_ADDRESSES_MAX + 2 {
        remember(
            &mut addresses,
            now,
            address(number),
            Verdict::Verified,
            until,
        );
        assert!(addresses.len() <= KNOWN_ADDRESSES_MAX);
    }
}
