//! One gate of a cluster and its Redis from Debian: how the gate shows that its counter is gone and back, and that it speaks TLS
//! and logs in, or says why it cannot, while it goes on serving.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use gate_tests::http::Visitor;
use gate_tests::redis::Redis;
use gate_tests::{DEADLINE, Gate, Need, Nginx, need, ports, until};
use serde_json::Value;
use tempfile::TempDir;

const NEEDS: [Need; 2] = [Need::Command("redis-server"), Need::Command("nginx")];
const HOST: &str = "shop.test";
/// The snapshot of a gate that hears of the others is younger.
const FRESH_MS: u64 = 1000;

struct Clustered {
    gate: Gate,
    admin: SocketAddr,
}

impl Clustered {
    /// A gate with `keys` in its `[cluster]` beside what it cannot do without.
    fn start(origin: &Nginx, keys: &str) -> Self {
        let admin = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let gate = Gate::configured(&format!(
            r#"
            listen = ["{{listen}}"]
            admin = "{admin}"
            origin = "http://{}"
            key_file = "{{folder}}/keys"
            [cluster]
            data_center = "dc"
            gate = "dc-1"
            gate_number = 0
            publish_interval_ms = 100
            gate_absent_seconds = 1
            {keys}
            [[rooms]]
            name = "shop"
            host = "{HOST}"
            total_active_users = 100
            new_users_per_minute = 100
            refresh_interval_seconds = 1
            json_response_enabled = true
            "#,
            origin.address(),
        ));
        Self { gate, admin }
    }

    fn admin(&self, path: &str) -> String {
        let mut operator = Visitor::new(self.admin, "admin");
        // It is there once the gate has waited for its counter.
        until("the admin endpoint answers", DEADLINE, || {
            operator.request("GET", path, b"").ok()
        })
        .text()
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.admin("/status")).unwrap()
    }

    fn counter(&self) -> Value {
        self.status()["cluster"]["counters"][0].clone()
    }

    fn last_error(&self) -> Option<String> {
        self.counter()["last_error"].as_str().map(str::to_owned)
    }

    /// Waits until the counter answers and what is known of the others is fresh.
    #[track_caller]
    fn is_well(&self) {
        until("the counter answers", DEADLINE, || {
            let age = self.status()["rooms"][0]["cluster"]["snapshot_age_ms"].as_u64();
            let reachable = self.counter()["reachable"] == true;
            (reachable && age.is_some_and(|age| age < FRESH_MS)).then_some(())
        });
        assert_eq!(self.counter()["unreachable_ms"], 0);
        assert!(
            self.admin("/metrics")
                .contains("gate_counter_reachable{counter=\"all\"} 1\n")
        );
    }

    fn visitor(&self) -> Visitor {
        Visitor::new(self.gate.address(), HOST).json()
    }

    /// Waits until a newcomer gets in.
    #[track_caller]
    fn admits(&self) -> Visitor {
        let mut visitor = self.visitor();
        until("a newcomer is in", DEADLINE, || {
            is_in(&mut visitor).then_some(())
        });
        visitor
    }
}

/// Anything but the origin's page or the line is a failure.
#[track_caller]
fn is_in(visitor: &mut Visitor) -> bool {
    let response = visitor.get("/");
    let text = response.text();
    assert_eq!(response.status, 200, "{text}");
    let waits = text.contains("cfWaitingRoom");
    assert!(waits || text.contains("the origin"), "{text}");
    !waits
}

#[test]
fn a_counter_that_is_gone_and_back_is_seen() {
    if !need::all(&NEEDS) {
        return;
    }
    let origin = Nginx::start();
    let mut redis = Redis::start();
    let address = redis.address();
    let clustered = Clustered::start(&origin, &format!("redis_url = \"redis://{address}\""));
    clustered.is_well();
    let mut inside = clustered.admits();
    assert_eq!(clustered.last_error(), None);
    let status = clustered.status();
    assert_eq!(status["cluster"]["gate"], "dc-1");
    assert!(status["rooms"][0]["cluster"]["counter_answers_total"].as_u64() > Some(0));

    redis.process().kill();
    until("the counter is seen to be gone", DEADLINE, || {
        (clustered.counter()["reachable"] == false).then_some(())
    });
    assert!(clustered.last_error().is_some(), "and why");
    until("what is known of the others gets old", DEADLINE, || {
        let metrics = clustered.admin("/metrics");
        let age = metrics
            .lines()
            .find_map(|line| line.strip_prefix("gate_snapshot_age_milliseconds{room=\"shop\"} "))
            .and_then(|age| age.parse::<u64>().ok());
        (age > Some(2 * FRESH_MS)).then_some(())
    });
    let metrics = clustered.admin("/metrics");
    assert!(metrics.contains("gate_counter_reachable{counter=\"all\"} 0\n"));
    assert!(!metrics.contains("gate_counter_unreachable_milliseconds{counter=\"all\"} 0\n"));
    assert!(is_in(&mut inside), "an active user needs no counter");

    let _back = Redis::start_at(address, &[]);
    clustered.is_well();
    clustered.admits();
}

/// A certificate authority of our own, and a certificate of it for the loopback address.
struct Authority {
    folder: TempDir,
}

impl Authority {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let openssl = |words: &str| {
            let output = Command::new(need::command("openssl").unwrap())
                .current_dir(folder.path())
                .args(words.split(' '))
                .output()
                .unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "openssl {words}: {error}");
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        openssl(&format!(
            "req -x509 {key} -keyout ca.key -out ca.pem -subj /CN={name} -days 2"
        ));
        openssl(&format!(
            "req {key} -keyout redis.key -out redis.csr -subj /CN=redis -addext subjectAltName=IP:127.0.0.1"
        ));
        openssl(
            "x509 -req -in redis.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out redis.pem -days 2 -copy_extensions copy",
        );
        Self { folder }
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A Redis that speaks nothing but TLS and lets in nobody but the user `gate`, who may do no more than the gate needs.
    fn redis(&self, password: &str) -> Redis {
        let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let port = address.port().to_string();
        let password = format!(">{password}");
        let [certificate, key, ca] =
            ["redis.pem", "redis.key", "ca.pem"].map(|name| self.file(name));
        let words = [
            ["--port", "0"],
            ["--tls-port", &port],
            ["--tls-cert-file", &certificate],
            ["--tls-key-file", &key],
            ["--tls-ca-cert-file", &ca],
            ["--tls-auth-clients", "no"],
        ]
        .concat();
        let users = [
            "--user",
            "default",
            "off",
            "--user",
            "gate",
            "on",
            &password,
            "~gate:*",
            "+@all",
            "-@admin",
            "-@dangerous",
        ];
        Redis::start_at(address, &[&words[..], &users[..]].concat())
    }
}

const TLS_NEEDS: [Need; 3] = [
    Need::Command("redis-server"),
    Need::Command("nginx"),
    Need::Command("openssl"),
];

fn cluster_keys(redis: &Redis, ca_file: &str, password_file: &Path) -> String {
    format!(
        r#"
        redis_url = "rediss://gate@{}"
        redis_password_file = "{}"
        tls_ca_file = "{ca_file}"
        "#,
        redis.address(),
        password_file.display(),
    )
}

#[test]
fn a_gate_speaks_tls_and_logs_in_once_the_password_is_right() {
    if !need::all(&TLS_NEEDS) {
        return;
    }
    let origin = Nginx::start();
    let authority = Authority::new("authority");
    let redis = authority.redis("sesame-7c1");
    let password_file = authority.folder.path().join("password");
    std::fs::write(&password_file, "wrong-5d2\n").unwrap();
    let keys = cluster_keys(&redis, &authority.file("ca.pem"), &password_file);
    let mut clustered = Clustered::start(&origin, &keys);
    let refused = "refuses the user or password";
    until("the refusal is shown", DEADLINE, || {
        clustered
            .last_error()
            .is_some_and(|error| error.contains(refused))
            .then_some(())
    });
    assert_eq!(clustered.counter()["reachable"], false);
    assert!(!is_in(&mut clustered.visitor()), "nobody may be let in");
    let log = clustered.gate.process().log();
    assert!(log.contains(refused), "{log}");
    assert!(!log.contains("wrong-5d2") && !clustered.admin("/status").contains("wrong-5d2"));

    std::fs::write(&password_file, "sesame-7c1\n").unwrap();
    clustered.is_well();
    clustered.admits();
}

#[test]
fn a_server_of_an_unknown_authority_is_not_trusted() {
    if !need::all(&TLS_NEEDS) {
        return;
    }
    let origin = Nginx::start();
    let authority = Authority::new("authority");
    let redis = authority.redis("sesame-7c1");
    let password_file = authority.folder.path().join("password");
    std::fs::write(&password_file, "sesame-7c1\n").unwrap();
    let stranger = Authority::new("stranger");
    let keys = cluster_keys(&redis, &stranger.file("ca.pem"), &password_file);
    let mut clustered = Clustered::start(&origin, &keys);
    until("the distrust is shown", DEADLINE, || {
        clustered
            .last_error()
            .is_some_and(|error| error.contains("certificate"))
            .then_some(())
    });
    let log = clustered.gate.process().log();
    assert!(log.contains("certificate"), "{log}");
    assert!(!is_in(&mut clustered.visitor()), "nobody may be let in");
}

#[test]
fn a_file_without_certificates_is_refused_at_the_start() {
    if !need::all(&[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("ca.pem");
    std::fs::write(&empty, "no certificate\n").unwrap();
    let file = folder.path().join("gate.toml");
    let text = format!(
        r#"
        listen = ["127.0.0.1:{}"]
        origin = "http://127.0.0.1:9"
        key_file = "keys"
        [cluster]
        data_center = "dc"
        gate = "dc-1"
        gate_number = 0
        redis_url = "rediss://127.0.0.1:9"
        tls_ca_file = "{}"
        [[rooms]]
        name = "shop"
        total_active_users = 1
        new_users_per_minute = 1
        "#,
        ports::free(),
        empty.display()
    );
    std::fs::write(&file, text).unwrap();
    let (code, _, error) =
        gate_tests::gate::run(&["serve", "--config", &file.display().to_string()]);
    assert_ne!(code, 0);
    assert!(error.contains("ca.pem: holds no certificate"), "{error}");
}
