//! The main promise with nginx behind and curl in front: five get in, the others wait in order, and neither a replay nor a
//! restart changes that. Most of the time goes into waiting for real minutes to pass.

use std::thread;
use std::time::Duration;

use gate_tests::curl::{Answer, Curl};
use gate_tests::http::{Connection, Visitor};
use gate_tests::{Gate, Need, Nginx, Stopwatch, need, until};

const NEEDS: [Need; 2] = [Need::Command("nginx"), Need::Command("curl")];

/// A page of the shop, and one that ends the visitor's session.
const ORIGIN: &str = "
    location / { default_type text/html; return 200 '<h1>the origin</h1>'; }
    location = /logout { add_header Cf-Waiting-Room-Command revoke; return 200 'bye'; }";

fn room(session_minutes: u32) -> String {
    format!(
        "listen = [\"{{listen}}\"]
origin = \"{{origin}}\"
state_file = \"{{folder}}/state\"
key_file = \"{{folder}}/keys\"

[[rooms]]
name = \"shop\"
host = \"shop.test\"
path = \"/\"
total_active_users = 5
new_users_per_minute = 5
session_duration = {session_minutes}
json_response_enabled = true
enabled_origin_commands = [\"revoke\"]
"
    )
}

/// Visitors with jars of their own.
fn visitors(gate: &Gate, count: usize) -> Vec<Curl> {
    (0..count)
        .map(|number| {
            Curl::new(gate.address(), "shop.test").with(&[
                "--header",
                "Accept: application/json",
                "--header",
                &format!("X-Visitor: {number}"),
            ])
        })
        .collect()
}

/// All of them ask at the same time.
fn all_at_once(visitors: &[Curl]) -> Vec<Answer> {
    let pending: Vec<_> = visitors.iter().map(|visitor| visitor.begin("/")).collect();
    pending
        .into_iter()
        .map(|request| request.finish())
        .collect()
}

fn is_in(answer: &Answer) -> bool {
    assert_eq!((answer.exit, answer.status), (0, 200), "{answer:?}");
    answer.body.contains("the origin")
}

/// The waiting ones in the order of the line: index, position.
fn line(answers: &[Answer]) -> Vec<(usize, u64)> {
    let mut line: Vec<(usize, u64)> = answers
        .iter()
        .enumerate()
        .filter(|(_, answer)| !is_in(answer))
        .map(|(index, answer)| (index, answer.position().expect("a position")))
        .collect();
    line.sort_by_key(|(_, position)| *position);
    line
}

fn assert_positions(line: &[(usize, u64)], expected: &[u64]) {
    let positions: Vec<u64> = line.iter().map(|(_, position)| *position).collect();
    assert_eq!(positions, expected);
}

/// How many different visitors nginx has seen.
fn visitors_at(origin: &Nginx) -> usize {
    let mut seen: Vec<String> = origin.hits().into_iter().map(|hit| hit.visitor).collect();
    seen.sort();
    seen.dedup();
    seen.len()
}

/// The first eight, as every case below begins: five in, three in line.
fn five_of_eight(gate: &Gate, origin: &Nginx) -> (Vec<Curl>, Vec<(usize, u64)>) {
    let visitors = visitors(gate, 8);
    let answers = all_at_once(&visitors);
    let line = line(&answers);
    assert_positions(&line, &[1, 2, 3]);
    origin.hits_at_least(5);
    assert_eq!(visitors_at(origin), 5, "exactly five reach the origin");
    (visitors, line)
}

#[test]
fn the_first_in_line_gets_the_slot_of_a_session_that_ends() {
    if !need::all(&NEEDS) {
        return;
    }
    let origin = Nginx::with(ORIGIN);
    let mut gate = Gate::configured(&room(1).replace("{origin}", &origin.url()));
    let begun = Stopwatch::start();
    let (visitors, line) = five_of_eight(&gate, &origin);

    replay_a_thousand_times(&gate, &visitors, line[2].0);
    assert_eq!(visitors_at(&origin), 5);
    assert_positions(&ask_line(&visitors, &line), &[1, 2, 3]);

    // An orderly restart, then a violent one: the five are still in, the line still stands.
    assert!(gate.stop().success());
    gate.restart();
    still_the_same(&visitors, &line, &origin);
    // The state is written now and then, not at each request.
    thread::sleep(Duration::from_secs(3));
    gate.kill();
    gate.restart();
    still_the_same(&visitors, &line, &origin);

    // Four of the five stay; the session of the fifth ends one minute after its last request.
    let active: Vec<usize> = (0..8)
        .filter(|index| line.iter().all(|(waiting, _)| waiting != index))
        .collect();
    let last_of_the_fifth = Stopwatch::start();
    while last_of_the_fifth.elapsed() < Duration::from_secs(61)
        || begun.elapsed() < Duration::from_secs(61)
    {
        for index in &active[..4] {
            assert!(is_in(&visitors[*index].get("/")), "an active user stays in");
        }
        // The last in line asks first: whoever asks first must not profit.
        for (index, _) in line.iter().rev() {
            if last_of_the_fifth.elapsed() < Duration::from_secs(50) {
                assert!(
                    !is_in(&visitors[*index].get("/")),
                    "nobody's session has ended"
                );
            }
        }
        thread::sleep(Duration::from_secs(10));
    }
    for (index, _) in line[1..].iter().rev() {
        assert!(
            !is_in(&visitors[*index].get("/")),
            "not before the first in line"
        );
    }
    assert!(
        is_in(&visitors[line[0].0].get("/")),
        "the first in line gets in"
    );
    assert_positions(&ask_line(&visitors, &line[1..]), &[1, 2]);
    assert_eq!(visitors_at(&origin), 6);
}

fn ask_line(visitors: &[Curl], places: &[(usize, u64)]) -> Vec<(usize, u64)> {
    places
        .iter()
        .map(|(index, _)| {
            let answer = visitors[*index].get("/");
            assert!(!is_in(&answer), "visitor {index} waits");
            (*index, answer.position().expect("a position"))
        })
        .collect()
}

fn still_the_same(visitors: &[Curl], line: &[(usize, u64)], origin: &Nginx) {
    assert_positions(&ask_line(visitors, line), &[1, 2, 3]);
    for (index, visitor) in visitors.iter().enumerate() {
        if line.iter().all(|(waiting, _)| *waiting != index) {
            assert!(is_in(&visitor.get("/")), "visitor {index} is still in");
        }
    }
    let newcomer = Curl::new(visitors[0].address(), "shop.test")
        .with(&["--header", "Accept: application/json"]);
    let answer = newcomer.get("/");
    assert!(!is_in(&answer), "a newcomer gets no slot by a restart");
    assert!(
        answer.position().expect("a position") > 3,
        "and no place before the three"
    );
    assert_eq!(visitors_at(origin), 5);
}

/// One waiting cookie, a thousand requests, ten connections at a time.
fn replay_a_thousand_times(gate: &Gate, visitors: &[Curl], waiting: usize) {
    let mut copy = Visitor::new(gate.address(), "shop.test").json();
    copy.cookies_mut().extend(visitors[waiting].cookies());
    assert!(!copy.cookies().is_empty());
    let head = copy
        .head("GET", "/", 0)
        .replace("Connection: close\r\n", "");
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                let mut connection = Connection::open(gate.address()).expect("a connection");
                for _ in 0..100 {
                    connection.send(head.as_bytes()).expect("a request");
                    let response = connection.receive().expect("an answer");
                    assert_eq!(response.position(), Some(3));
                }
            });
        }
    });
}

#[test]
fn the_origin_can_end_a_session() {
    if !need::all(&NEEDS) {
        return;
    }
    let origin = Nginx::with(ORIGIN);
    let gate = Gate::configured(&room(5).replace("{origin}", &origin.url()));
    let begun = Stopwatch::start();
    let (visitors, line) = five_of_eight(&gate, &origin);
    let leaving = (0..8)
        .find(|index| line.iter().all(|(waiting, _)| waiting != index))
        .expect("somebody is in");
    let answer = Curl::new(gate.address(), "shop.test")
        .with(&["--include", "--cookie", &cookie_header(&visitors[leaving])])
        .get("/logout");
    let head = answer.body.to_ascii_lowercase();
    assert!(head.contains("bye"), "{head}");
    assert!(
        !head.contains("cf-waiting-room-command"),
        "clients never see the command: {head}"
    );
    assert!(head.contains("max-age=0"), "the cookie is expired: {head}");

    // The slot is free, but five have come in within this minute: nobody enters before it is over.
    while begun.elapsed() < Duration::from_secs(55) {
        assert_positions(&ask_line(&visitors, &line), &[1, 2, 3]);
        thread::sleep(Duration::from_secs(9));
    }
    until("the minute is over", Duration::from_secs(20), || {
        (begun.elapsed() > Duration::from_secs(61)).then_some(())
    });
    for (index, _) in line[1..].iter().rev() {
        assert!(
            !is_in(&visitors[*index].get("/")),
            "not before the first in line"
        );
    }
    assert!(is_in(&visitors[line[0].0].get("/")));
    assert_positions(&ask_line(&visitors, &line[1..]), &[1, 2]);
}

fn cookie_header(visitor: &Curl) -> String {
    let pairs: Vec<String> = visitor
        .cookies()
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("; ")
}
