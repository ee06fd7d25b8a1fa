//! The figures by name: which there are, of what kind, with which labels, in words that an operator
//! understands. Decides nothing else.

mod sessions;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, MetricEncoder,
    NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;

use super::figures::{
    ByFamily, DRAINS, FAMILIES, Figures, NODE_CONFIGS, POLICY_STATES, Policies, Pool,
};
use super::process::unix_seconds;
use crate::pods::book::Phase;

/// Labels of a row.
type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        self.agent(&mut sheet)?;
        sessions::states(&self.peers, self.at, &mut sheet)?;
        sessions::messages(&self.peers, &mut sheet)?;
        sessions::prefixes(&self.peers, &mut sheet)?;
        self.speaker(&mut sheet)?;
        self.kernel(&mut sheet)?;
        self.pods(&mut sheet)?;
        pools(&self.pools, &mut sheet)?;
        policies(&self.policies, &mut sheet)?;
        self.store(&mut sheet)?;
        self.process(&mut sheet)
    }
}

impl Figures {
    fn agent(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        sheet.gauges(
            "flock_build_info",
            "The agent that runs, by its version; always 1",
            [([("version", env!("CARGO_PKG_VERSION"))], 1_u32)],
        )?;
        sheet.gauge(
            "flock_ready",
            "Whether pods can be added now, as STATUS and /readyz say it",
            u32::from(self.ready),
        )?;
        sheet.gauges(
            "flock_nodeconfig_state",
            "Whether the NodeConfig is in force, the last good one because the newest is refused, or because it was deleted; unknown: none was ever good",
            one_of("state", &NODE_CONFIGS, self.node_config),
        )?;
        sheet.gauge(
            "flock_manifest_problems",
            "Manifests that cannot be used as they are",
            self.manifest_problems,
        )?;
        sheet.gauge(
            "flock_source_up",
            "Whether the API server tells of NodeConfig and pods; always 1 in standalone mode",
            u32::from(self.source_up),
        )?;
        sheet.gauges(
            "flock_drain_state",
            "How far a drain of this node is",
            one_of("state", &DRAINS, self.drain),
        )?;
        sheet.gauge(
            "flock_scrape_missing_parts",
            "Parts of the agent that did not answer this scrape in time; their metrics are not in it",
            self.missing,
        )
    }

    fn speaker(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        sheet.gauge(
            "flock_bgp_peers",
            "Peers of the NodeConfig",
            u64::try_from(self.wished_peers).unwrap_or(u64::MAX),
        )?;
        sheet.gauge(
            "flock_bgp_ready_sessions",
            "Sessions that are up and were told everything, End-of-RIB included",
            self.ready_sessions,
        )?;
        if let Some(traffic) = &self.traffic {
            sheet.counters(
                "flock_bgp_bytes",
                "Bytes of all BGP connections, by direction",
                [
                    ([("direction", "received")], traffic.received),
                    ([("direction", "sent")], traffic.sent),
                ],
            )?;
            let arrivals = traffic.arrivals;
            sheet.counters(
                "flock_bgp_connections",
                "Connections that came to the BGP port, by what became of them: taken, from nobody we know, too often, too many",
                [
                    ([("outcome", "taken")], arrivals.taken),
                    ([("outcome", "unknown")], arrivals.unknown),
                    ([("outcome", "paced")], arrivals.paced),
                    ([("outcome", "crowded")], arrivals.crowded),
                ],
            )?;
        }
        if let Some(routes) = &self.routes {
            let kinds =
                [("summary", routes.summaries), ("pod", routes.pods), ("anycast", routes.anycast)];
            sheet.gauges(
                "flock_bgp_originated_prefixes",
                "Prefixes that this node announces: its networks, pods by themselves, anycast addresses",
                kinds.into_iter().flat_map(|(kind, counts)| by_family(kind, counts)),
            )?;
        }
        Ok(())
    }

    fn kernel(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        if let Some(fib) = &self.fib {
            let rows = |counts: ByFamily| {
                FAMILIES.into_iter().zip(counts).map(|(name, count)| ([("family", name)], count))
            };
            sheet.gauges(
                "flock_fib_learned_routes",
                "Routes that peers told and the speaker chose for the kernel",
                rows(fib.wanted),
            )?;
            sheet.gauges(
                "flock_fib_installed_routes",
                "Learned routes that the kernel has; fewer than learned where a next hop cannot be reached, more after a restart until peers have told everything",
                rows(fib.installed),
            )?;
            sheet.gauge(
                "flock_fib_refused_routes",
                "Learned routes that the kernel refuses, or another program has the place of",
                fib.refused,
            )?;
        }
        if let Some(routes) = &self.routes {
            let kinds =
                [("summary", routes.installed_summaries), ("anycast", routes.installed_anycast)];
            sheet.gauges(
                "flock_node_routes",
                "Routes of the node itself in the kernel: unreachable networks of its pods, anycast addresses",
                kinds.into_iter().flat_map(|(kind, counts)| by_family(kind, counts)),
            )?;
        }
        sheet.counter(
            "flock_kernel_errors",
            "Calls to the kernel that failed for its reasons or on the way to it",
            self.kernel_failures,
        )
    }

    fn pods(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let Some(book) = &self.book else { return Ok(()) };
        let phase = |phase: Phase| match phase {
            Phase::Wiring => "wiring",
            Phase::Serving => "serving",
            Phase::Leaving => "leaving",
            Phase::Orphaned => "orphaned",
        };
        sheet.gauges(
            "flock_attachments",
            "Attached pods by where they are in their life; orphaned: the link is gone and the runtime has not said DEL",
            book.phases.map(|(at, count)| ([("phase", phase(at))], count)),
        )?;
        sheet.gauge(
            "flock_unwired_attachments",
            "Attached pods that a repair failed for; tried again all the time, and not announced",
            book.unwired,
        )?;
        sheet.gauge(
            "flock_doomed_links",
            "Links of detached pods that are about to be deleted",
            book.doomed,
        )?;
        sheet.gauge(
            "flock_stranger_links",
            "Links of flock's kind that no entry of the state file knows; their addresses are not handed out",
            book.strangers,
        )
    }

    fn store(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        sheet.counter(
            "flock_store_writes",
            "Writes of the state file that became durable",
            self.store.writes,
        )?;
        sheet.counter(
            "flock_store_write_failures",
            "Writes of the state file that failed",
            self.store.failures,
        )?;
        sheet.gauge(
            "flock_store_failing",
            "Whether the last write of the state file failed: ADD and DEL fail until one succeeds",
            u32::from(self.store.last_failed),
        )?;
        sheet.gauge("flock_store_entries", "Entries of the state file", self.store.entries)
    }

    fn process(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let process = &self.process;
        sheet.counter(
            "process_cpu_seconds",
            "CPU time that the agent used",
            process.cpu_seconds,
        )?;
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Memory of the agent that is resident",
                process.resident_bytes,
            ),
            ("process_virtual_memory_bytes", "Address space of the agent", process.virtual_bytes),
            ("process_threads", "Threads of the agent", process.threads),
            (
                "process_open_fds",
                "Open file descriptors of the agent",
                process.open_fds.and_then(|open| u64::try_from(open).ok()),
            ),
            ("process_max_fds", "File descriptors that the agent may have open", process.max_fds),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                sheet.gauge(name, help, value)?;
            }
        }
        sheet.gauge(
            "process_start_time_seconds",
            "When the agent started, in seconds of the epoch",
            unix_seconds(self.started),
        )
    }
}

fn policies(policies: &Policies, sheet: &mut Sheet<'_>) -> fmt::Result {
    sheet.gauges(
        "flock_policy_state",
        "Whether network policies are in force; waiting: not everything was told yet; failing: the kernel refuses them, and what was in force stays",
        one_of("state", &POLICY_STATES, policies.state),
    )?;
    sheet.gauge("flock_policies", "Network policies that are known", policies.known)?;
    sheet.gauge(
        "flock_policy_isolated_pods",
        "Pods of this node that a network policy isolates",
        policies.isolated,
    )?;
    sheet.counters(
        "flock_policy_dropped_packets",
        "Packets that network policies dropped, by pod and direction; from 0 again when its rules are made anew",
        policies.dropped.iter().map(|row| {
            let labels = [
                ("namespace", row.namespace.as_str()),
                ("pod", &row.pod),
                ("direction", row.direction),
            ];
            (labels, row.packets)
        }),
    )
}

fn pools(pools: &[Pool], sheet: &mut Sheet<'_>) -> fmt::Result {
    sheet.gauges(
        "flock_ipam_pool_addresses",
        "Addresses that a network of the NodeConfig has for pods",
        pools.iter().map(|pool| (labels(pool), pool.size)),
    )?;
    sheet.gauges(
        "flock_ipam_pool_held_addresses",
        "Addresses of it that pods hold, or links that are about to be deleted",
        pools.iter().map(|pool| (labels(pool), pool.held)),
    )?;
    sheet.gauges(
        "flock_ipam_pool_cooling_addresses",
        "Addresses of it that were released a moment ago and rest",
        pools.iter().map(|pool| (labels(pool), pool.cooling)),
    )
}

fn labels(pool: &Pool) -> Labels<'_, 2> {
    [("pool", &pool.name), ("family", pool.family)]
}

fn by_family(
    kind: &'static str,
    counts: ByFamily,
) -> impl Iterator<Item = (Labels<'static, 2>, usize)> {
    let row = move |(family, count)| ([("kind", kind), ("family", family)], count);
    FAMILIES.into_iter().zip(counts).map(row)
}

/// 1 for the one that is, 0 for the others.
fn one_of<'a>(
    label: &'static str,
    all: &'a [&'static str],
    is: &'a str,
) -> impl Iterator<Item = (Labels<'a, 1>, u32)> {
    all.iter().map(move |name| ([(label, *name)], u32::from(*name == is)))
}

/// Where figures are written.
struct Sheet<'a>(DescriptorEncoder<'a>);

impl Sheet<'_> {
    fn begin<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        kind: MetricType,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.0.encode_descriptor(name, &format!("{help}."), None, kind)
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
        self.begin(name, help, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.begin(name, help, MetricType::Gauge)?;
        for (labels, value) in rows {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn counter(&mut self, name: &str, help: &str, value: impl EncodeCounterValue) -> fmt::Result {
        self.begin(name, help, MetricType::Counter)?.encode_counter(&value, NO_EXEMPLAR)
    }

    fn counters<L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.begin(name, help, MetricType::Counter)?;
        for (labels, value) in rows {
            family.encode_family(&labels)?.encode_counter(&value, NO_EXEMPLAR)?;
        }
        Ok(())
    }
}

const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, f64>> = None;
