//! How long a change of the state file takes until it is durable, and how that grows with the
//! entries in it. `cargo run --release -p flock-agent --example store_bench [DIRECTORY]`: the
//! directory should be on the disk that the product would use.
#![allow(clippy::print_stdout, reason = "a benchmark talks to whoever runs it")]

use std::path::Path;
use std::time::{Duration, Instant};

use flock_agent::store::{Allocation, Key, State, Store};

const SAMPLES: usize = 400;

fn main() -> anyhow::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "target".to_owned());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!(
        "{:>8} {:>10} {:>10} {:>10} {:>12} {:>14}",
        "entries", "median us", "p90 us", "p99 us", "bytes", "8 at once us"
    );
    for entries in [10, 100, 1000, 5000] {
        let path = Path::new(&directory).join(format!("store-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        let outcome = runtime.block_on(measure(&path, entries));
        std::fs::remove_dir_all(&path)?;
        outcome?;
    }
    Ok(())
}

async fn measure(directory: &Path, entries: usize) -> anyhow::Result<()> {
    let file = directory.join("allocations.json");
    let (store, _) = Store::open(&file, "bench")?;
    for batch in (0..entries).collect::<Vec<_>>().chunks(1000) {
        let waiting: Vec<_> = batch.iter().map(|i| store.put(entry(*i))).collect();
        for durable in waiting {
            durable.await?;
        }
    }
    let mut one = Vec::new();
    let mut eight = Vec::new();
    for i in 0..SAMPLES {
        let mut changed = entry(i % entries);
        changed.state = if i % 2 == 0 { State::Pending } else { State::Committed };
        // About as long as wiring a pod takes; the writer tidies up meanwhile.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let start = Instant::now();
        store.put(changed).await?;
        one.push(start.elapsed());
    }
    for _ in 0..SAMPLES / 4 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let start = Instant::now();
        let waiting: Vec<_> = (0..8).map(|i| store.put(entry(i))).collect();
        for durable in waiting {
            durable.await?;
        }
        eight.push(start.elapsed());
    }
    let bytes = std::fs::metadata(&file)?.len();
    println!(
        "{entries:>8} {:>10} {:>10} {:>10} {bytes:>12} {:>14}",
        at(&mut one, 50),
        at(&mut one, 90),
        at(&mut one, 99),
        at(&mut eight, 50)
    );
    Ok(())
}

fn at(samples: &mut [Duration], percent: usize) -> u128 {
    samples.sort_unstable();
    samples.get(samples.len() * percent / 100).map_or(0, Duration::as_micros)
}

/// An entry as long as those of a dual-stack pod.
fn entry(i: usize) -> Allocation {
    let key = Key { container_id: format!("{i:064x}"), ifname: "eth0".to_owned() };
    let mut entry = Allocation::new(&key, jiff::Timestamp::UNIX_EPOCH);
    entry.namespace = "production".to_owned();
    entry.pod_name = "front-5d59d67564-x7k2p".to_owned();
    entry.owner_uid = "0b5fd7a1-4c47-4f0e-9a40-0d4f6a1c1e11".to_owned();
    entry.ip6 =
        Some(std::net::Ipv6Addr::from_bits(0x2001_0db8_000a_0000_8594_4af6_3dcb_0000 + i as u128));
    entry.ip4 = Some(std::net::Ipv4Addr::from_bits(0x0af4_0000 + u32::try_from(i).unwrap_or(0)));
    entry.netns = Some("/var/run/netns/cni-0b5fd7a1-4c47-4f0e-9a40-0d4f6a1c1e11".to_owned());
    entry.netns_dev = Some(4);
    entry.netns_ino = Some(4_026_532_000);
    entry.host_ifname = Some("flock01234567".to_owned());
    entry.mtu = Some(1500);
    entry.host_mac = Some("02:00:00:00:00:01".to_owned());
    entry.pod_mac = Some("02:00:00:00:00:02".to_owned());
    entry
}
