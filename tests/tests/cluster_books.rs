//! The scripts in Redis keep the same books as the ledger they follow, operation by operation.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use gate::cluster::ledger::{
    DataCenterStock, GateRun, Grants, Ledger, Predecessor, Published, Terms,
};
use gate::cluster::redis::{RemoteLedger, RemoteStock};
use gate::cluster::settings::{ClusterSettings, RawCluster};
use gate::room::Millis;
use gate::room::shared::WaitersBySecond;
use gate_tests::redis::Redis;
use gate_tests::{Need, need};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

const SEEDS: [u64; 4] = [1, 2, 3, 4];
const STEPS: usize = 400;

fn settings(redis: &Redis) -> ClusterSettings {
    ClusterSettings::new(RawCluster {
        data_center: "a".to_owned(),
        gate: "a0".to_owned(),
        redis_url: format!("redis://{}", redis.address()),
        data_center_redis_url: Some(format!("redis://{}/1", redis.address())),
        ..RawCluster::default()
    })
    .unwrap()
}

/// No time passes: nobody becomes absent, and the ledger is open from the start.
const TERMS: Terms = Terms {
    total_active_users: 300,
    new_users_per_minute: 200,
    settle_millis: 0,
    absent_millis: 1_000_000_000,
    gate_hold_millis: 1_000_000_000,
    data_center_hold_millis: 1_000_000_000,
    leased_percent: 10,
};

struct Gate {
    run: GateRun,
    published: Published,
}

fn gates() -> Vec<Gate> {
    ["a", "a", "b", "b"]
        .iter()
        .enumerate()
        .map(|(number, center)| Gate {
            run: GateRun {
                gate: format!("{center}{number}"),
                run: (1 << 51) + number as u64,
            },
            published: Published {
                data_center: (*center).to_owned(),
                minute: 1000,
                ..Published::default()
            },
        })
        .collect()
}

#[tokio::test(flavor = "current_thread")]
async fn scripts_and_ledger_agree() {
    if !need::all(&[Need::Command("redis-server")]) {
        return;
    }
    let redis = Redis::start();
    let settings = settings(&redis);
    let remote = RemoteLedger::new(&settings).unwrap();
    let remote_stock = RemoteStock::new(&settings).unwrap().unwrap();
    for seed in SEEDS {
        let room = format!("room-{seed}");
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut ledger = Ledger::default();
        let mut stock = DataCenterStock::new(1);
        let mut stock_opened = false;
        let mut gates = gates();
        for step in 0..STEPS {
            let what = format!("seed {seed}, step {step}");
            let at = rng.random_range(0..gates.len());
            let gate = &mut gates[at];
            match rng.random_range(0..10) {
                0..4 => {
                    let p = &mut gate.published;
                    // What it holds beside the lease, it uses, gives back or keeps.
                    let held = (p.granted + p.taken) - p.used - p.returned - p.lease;
                    let used = rng.random_range(0..=held);
                    p.used += used;
                    p.active_users += i64::try_from(used).unwrap() - rng.random_range(0..8);
                    p.admitted_last_minute =
                        (p.admitted_last_minute + used).saturating_sub(rng.random_range(0..8));
                    p.returned += rng.random_range(0..=held - used);
                    p.new_users = rng.random_range(0..50);
                    p.admitted_this_minute = rng.random_range(0..50);
                    p.grants = if rng.random() {
                        Grants::Settled
                    } else {
                        Grants::UnderWay
                    };
                    p.predecessor = Predecessor::Forgotten;
                    let mine = ledger.publish(Millis::new(1), &gate.run, p, TERMS);
                    let waiters = WaitersBySecond::from_pairs([(1_700_000_000 + at as u64, 3)]);
                    let (theirs, elsewhere) = remote
                        .publish(&room, &gate.run, p, TERMS, &waiters)
                        .await
                        .unwrap();
                    assert_eq!(theirs, mine, "{what}");
                    assert!(
                        elsewhere
                            .pairs()
                            .iter()
                            .all(|(s, n)| *s != 1_700_000_000 + at as u64 && *n == 3),
                        "{what}"
                    );
                    p.granted += mine.leased;
                    p.lease += mine.leased;
                    if p.lease > mine.lease_max {
                        p.returned += p.lease - mine.lease_max;
                        p.lease = mine.lease_max;
                    }
                }
                4..7 => {
                    let wanted = rng.random_range(1..20);
                    let mine = ledger.take(&gate.run, wanted);
                    let theirs = remote.take(&room, &gate.run, wanted).await.unwrap();
                    assert_eq!(theirs, mine, "{what}");
                    gate.published.granted += mine;
                }
                7..9 if stock_opened && gate.published.data_center == "a" => {
                    let wanted = rng.random_range(1..6);
                    let taken = gate.published.taken;
                    let mine = stock.take(&gate.run, taken, wanted);
                    let theirs = remote_stock
                        .take(&room, &gate.run, taken, wanted)
                        .await
                        .unwrap();
                    assert_eq!(theirs, mine, "{what}");
                    gate.published.taken += mine;
                }
                _ => {
                    let wanted = rng.random_range(0..30);
                    let keeper = &gates[0].run;
                    let mine = stock.report(wanted);
                    let theirs = remote_stock
                        .report(
                            &room,
                            keeper,
                            wanted,
                            std::time::Duration::from_secs(60),
                            60_000,
                        )
                        .await
                        .unwrap()
                        .unwrap();
                    stock_opened = true;
                    assert_eq!(theirs.slots(), mine.slots, "{what}");
                    let granted = ledger.refill("a", &mine);
                    assert_eq!(
                        remote.refill(&room, "a", &theirs).await.unwrap(),
                        granted,
                        "{what}"
                    );
                    // The same report again is old news.
                    assert_eq!(
                        remote.refill(&room, "a", &theirs).await.unwrap(),
                        ledger.refill("a", &mine),
                        "{what}"
                    );
                    if let Some(granted) = granted {
                        assert_eq!(
                            remote_stock.add(&room, &theirs, granted).await.unwrap(),
                            stock.add(&mine, granted),
                            "{what}"
                        );
                    }
                    let other = remote_stock
                        .report(
                            &room,
                            &gates[1].run,
                            0,
                            std::time::Duration::from_secs(60),
                            60_000,
                        )
                        .await
                        .unwrap();
                    assert_eq!(other, None, "{what}: another keeps it");
                }
            }
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn every_key_has_its_namespace_and_expires() {
    if !need::all(&[Need::Command("redis-server")]) {
        return;
    }
    let redis = Redis::start();
    let settings = settings(&redis);
    let remote = RemoteLedger::new(&settings).unwrap();
    let gate = &gates()[0];
    remote
        .publish(
            "shop",
            &gate.run,
            &gate.published,
            TERMS,
            &WaitersBySecond::default(),
        )
        .await
        .unwrap();
    let keys = std::process::Command::new("redis-cli")
        .args(["-p", &redis.address().port().to_string(), "--raw", "eval"])
        .arg("local r = {} for _, k in ipairs(redis.call('KEYS', '*')) do r[#r + 1] = k .. ' ' .. redis.call('PTTL', k) end return r")
        .arg("0")
        .output()
        .unwrap();
    let keys = String::from_utf8(keys.stdout).unwrap();
    assert_eq!(keys.lines().count(), 2, "{keys}");
    for line in keys.lines() {
        let (key, life) = line.split_once(' ').unwrap();
        assert!(key.starts_with("gate:{shop}:"), "{line}");
        assert!(life.parse::<i64>().unwrap() > 0, "{line}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_password_is_read_from_its_file_and_a_wrong_one_is_an_error() {
    if !need::all(&[Need::Command("redis-server")]) {
        return;
    }
    let port = gate_tests::ports::free();
    let redis = Redis::start_at(
        ([127, 0, 0, 1], port).into(),
        &["--requirepass", "open sesame"],
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    let mut settings = settings(&redis);
    settings.global.password_file = Some(file.clone());
    std::fs::write(&file, "open sesame\n").unwrap();
    assert!(RemoteLedger::new(&settings).unwrap().time().await.is_ok());
    std::fs::write(&file, "wrong").unwrap();
    assert!(RemoteLedger::new(&settings).unwrap().time().await.is_err());
    std::fs::remove_file(&file).unwrap();
    let error = RemoteLedger::new(&settings).unwrap_err().to_string();
    assert!(error.contains("password"), "{error}");
}
