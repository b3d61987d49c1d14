//! SIGHUP: the configuration changes under visitors who wait, and nobody loses a place.

use std::fs;

use gate_tests::http::{Response, Visitor};
use gate_tests::{Gate, Need, Nginx, need};
use rustix::process::Signal;

struct Stage {
    gate: Gate,
    head: String,
}

impl Stage {
    #[track_caller]
    fn with(keys: &str) -> Option<(Self, Nginx)> {
        if !need::all(&[Need::Command("nginx")]) {
            return None;
        }
        let origin = Nginx::start();
        let head = format!(
            "listen = [\"{{listen}}\"]\norigin = \"{}\"\nstate_file = \"{{folder}}/state\"\n\n[[rooms]]\nname = \"shop\"\nhost = \"shop.test\"\n\
             json_response_enabled = true\n",
            origin.url()
        );
        let gate = Gate::configured(&format!("{head}{keys}\n"));
        Some((Self { gate, head }, origin))
    }

    /// Writes the file anew, tells the gate, and waits until it says `said`.
    #[track_caller]
    fn reload(&mut self, keys: &str, said: &str) {
        let text = format!("{}{keys}\n", self.head)
            .replace("{listen}", &self.gate.address().to_string())
            .replace("{folder}", &self.gate.folder().display().to_string());
        fs::write(self.gate.folder().join("gate.toml"), text).expect("a configuration file");
        let before = self.gate.process().log().matches(said).count();
        self.gate.process().signal(Signal::HUP);
        gate_tests::until(said, gate_tests::DEADLINE, || {
            (self.gate.process().log().matches(said).count() > before).then_some(())
        });
    }

    fn visitor(&self) -> Visitor {
        Visitor::new(self.gate.address(), "shop.test").json()
    }
}

fn is_in(response: &Response) -> bool {
    response.text().contains("the origin")
}

const ONE: &str = "total_active_users = 1\nnew_users_per_minute = 1";

#[test]
fn higher_limits_let_the_first_in_line_in() {
    let Some((mut stage, _origin)) = Stage::with(ONE) else {
        return;
    };
    assert!(is_in(&stage.visitor().get("/")));
    let (mut first, mut second) = (stage.visitor(), stage.visitor());
    assert_eq!(first.get("/").position(), Some(1));
    assert_eq!(second.get("/").position(), Some(2));
    stage.reload(
        "total_active_users = 2\nnew_users_per_minute = 2",
        "reloaded:",
    );
    assert_eq!(
        second.get("/").position(),
        Some(2),
        "one slot, and one ahead"
    );
    assert!(is_in(&first.get("/")));
    assert_eq!(second.get("/").position(), Some(1));
}

#[test]
fn a_file_that_is_wrong_changes_nothing() {
    let Some((mut stage, _origin)) = Stage::with(ONE) else {
        return;
    };
    let mut inside = stage.visitor();
    assert!(is_in(&inside.get("/")));
    let mut waiting = stage.visitor();
    assert_eq!(waiting.get("/").position(), Some(1));
    stage.reload(
        "total_active_users = 1\nnew_users_per_minute = 2",
        "not reloaded",
    );
    let log = stage.gate.process().log();
    assert!(
        log.contains("new_users_per_minute") && log.contains("gate.toml"),
        "{log}"
    );
    assert!(is_in(&inside.get("/")));
    assert_eq!(waiting.get("/").position(), Some(1));
    assert!(!is_in(&stage.visitor().get("/")));
}

#[test]
fn a_method_and_back_keeps_the_order() {
    let Some((mut stage, _origin)) = Stage::with(ONE) else {
        return;
    };
    stage.visitor().get("/");
    let mut line: Vec<Visitor> = (1..=4)
        .map(|position| {
            let mut visitor = stage.visitor();
            assert_eq!(visitor.get("/").position(), Some(position));
            visitor
        })
        .collect();
    stage.reload(&format!("{ONE}\nqueueing_method = \"random\""), "reloaded:");
    for visitor in line.iter_mut().rev() {
        assert_eq!(visitor.get("/").position(), None, "no order by lot");
    }
    stage.reload(ONE, "reloaded:");
    let positions: Vec<Option<u64>> = line
        .iter_mut()
        .map(|visitor| visitor.get("/").position())
        .collect();
    assert_eq!(positions, [Some(1), Some(2), Some(3), Some(4)]);
}

#[test]
fn queue_all_keeps_active_users_unless_they_are_recalled() {
    let limits = "total_active_users = 5\nnew_users_per_minute = 5";
    let Some((mut stage, _origin)) = Stage::with(limits) else {
        return;
    };
    let mut inside = stage.visitor();
    assert!(is_in(&inside.get("/")));
    stage.reload(&format!("{limits}\nqueue_all = true"), "reloaded:");
    assert!(is_in(&inside.get("/")), "active users stay");
    assert!(!is_in(&stage.visitor().get("/")));
    stage.reload(
        &format!("{limits}\nqueue_all = true\nqueue_all_recalls_active = true"),
        "reloaded:",
    );
    assert!(!is_in(&inside.get("/")), "everybody waits");
}

#[test]
fn suspending_a_room_opens_it_at_once() {
    let Some((mut stage, _origin)) = Stage::with(ONE) else {
        return;
    };
    stage.visitor().get("/");
    let mut waiting = stage.visitor();
    assert!(!is_in(&waiting.get("/")));
    stage.reload(&format!("{ONE}\nsuspended = true"), "reloaded:");
    let response = waiting.get("/");
    assert!(is_in(&response));
    assert_eq!(response.header("set-cookie"), None);
}

#[test]
fn rotated_keys_open_old_tickets_and_seal_new_ones() {
    let Some((mut stage, _origin)) = Stage::with(ONE) else {
        return;
    };
    let mut inside = stage.visitor();
    assert!(is_in(&inside.get("/")));
    let keys = stage.gate.folder().join("state.keys").display().to_string();
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(&keys).expect("a key file").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    let (code, _, error) = gate_tests::gate::run(&["keys", "rotate", "--key-file", &keys]);
    assert_eq!(code, 0, "{error}");
    stage.reload(ONE, "reloaded:");
    assert!(is_in(&inside.get("/")), "a ticket of the older key opens");
    stage.gate.kill();
    stage.gate.restart();
    assert!(
        is_in(&inside.get("/")),
        "and what was sealed with the new one, too"
    );
}
