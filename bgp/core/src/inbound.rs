//! A decoded UPDATE becomes routes: withdrawals first, then what is announced, judged by policy.
//! Runs once per received prefix, so nothing in the loops allocates.
//!
//! RFC 4271 §9, RFC 4760 §3 and §4, RFC 7606 §2 (treat-as-withdraw). How many prefixes are too
//! many, and what to say about faults, is the session's to decide from what is returned.

use flock_bgp_wire::{Attributes, Family, Fault, MpReach, MpUnreach, Net, Nlri, Received, Update};
use ipnet::IpNet;

use crate::event::PeerKey;
use crate::policy::Withheld;
use crate::policy::import::Judge;
use crate::rib::Rib;
use crate::tally::Tally;

/// Whose UPDATEs, and how they are taken.
#[derive(Debug)]
pub(crate) struct Inbound<'a> {
    pub(crate) peer: PeerKey,
    pub(crate) judge: &'a Judge,
    /// By `Family::index`: what was negotiated.
    pub(crate) families: [bool; 2],
    /// How many refused routes are kept for people, per family.
    pub(crate) keep_refused: u32,
}

/// What the session may want to know of an UPDATE.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Prefixes announced, refused ones included, by `Family::index`.
    pub(crate) announced: [u32; 2],
    /// Prefixes withdrawn, or treated so.
    pub(crate) withdrawn: [u32; 2],
    /// Prefixes of a family that was not negotiated: ignored (RFC 4760 §8).
    pub(crate) ignored: u32,
    /// Prefixes refused of which people should hear.
    pub(crate) refused: Tally<(Withheld, IpNet)>,
    /// What was wrong with it and survived.
    pub(crate) faults: Vec<Fault>,
    /// The peer has told all of this family.
    pub(crate) end_of_rib: Option<Family>,
}

impl Inbound<'_> {
    /// Takes an UPDATE into the RIB.
    pub(crate) fn take(&self, rib: &mut Rib, update: Update<'_>) -> Taken {
        let mut taken = Taken {
            faults: update.faults,
            end_of_rib: update.end_of_rib.filter(|family| self.speaks(*family)),
            ..Taken::default()
        };
        // RFC 4271 §4.3: a prefix both withdrawn and announced is announced.
        self.withdraw(rib, update.withdrawn, &mut taken);
        match update.mp_unreach {
            Some(MpUnreach::V4(nets)) => self.withdraw(rib, nets, &mut taken),
            Some(MpUnreach::V6(nets)) => self.withdraw(rib, nets, &mut taken),
            None => {}
        }
        // RFC 7606 §2: without attributes that can be used, what is announced is withdrawn.
        let Some(mut attributes) = update.attributes else {
            self.withdraw(rib, update.announced, &mut taken);
            match update.mp_reach {
                Some(MpReach::V4(_, nets)) => self.withdraw(rib, nets, &mut taken),
                Some(MpReach::V6(_, nets)) => self.withdraw(rib, nets, &mut taken),
                None => {}
            }
            return taken;
        };
        match update.mp_reach {
            None => self.announce(rib, update.announced, attributes, &mut taken),
            Some(reach) => {
                // RFC 4760 §3: each run of prefixes has its own next hop. Few UPDATEs have both.
                if !update.announced.is_empty() {
                    self.announce(rib, update.announced, attributes.clone(), &mut taken);
                }
                match reach {
                    MpReach::V4(next_hop, nets) => {
                        attributes.next_hop = next_hop;
                        self.announce(rib, nets, attributes, &mut taken);
                    }
                    MpReach::V6(next_hop, nets) => {
                        attributes.next_hop = next_hop;
                        self.announce(rib, nets, attributes, &mut taken);
                    }
                }
            }
        }
        taken
    }

    fn announce<N: Net>(
        &self,
        rib: &mut Rib,
        nets: Nlri<'_, N>,
        mut attributes: Attributes,
        taken: &mut Taken,
    ) {
        if nets.is_empty() {
            return;
        }
        if !self.speaks(N::FAMILY) {
            taken.ignored += count(nets);
            return;
        }
        let mut announced = 0;
        match self.judge.attributes(&mut attributes) {
            Ok(()) => {
                let id = rib.intern(attributes);
                in_lots(rib, nets, |rib, Received { path_id, net }| {
                    match self.judge.net(net) {
                        Ok(()) => rib.learn(self.peer, net, path_id, id),
                        Err(why) => self.refuse(rib, net, path_id, why, taken),
                    }
                    announced += 1;
                });
                rib.release(id);
            }
            Err(whole) => {
                for Received { path_id, net } in nets {
                    let why = self.judge.refused(net, whole);
                    self.refuse(rib, net, path_id, why, taken);
                    announced += 1;
                }
            }
        }
        *of(&mut taken.announced, N::FAMILY) += announced;
    }

    fn refuse<N: Net>(
        &self,
        rib: &mut Rib,
        net: N,
        path_id: u32,
        why: Withheld,
        taken: &mut Taken,
    ) {
        if self.judge.is_news(net.into(), why) {
            taken.refused.add((why, net.into()));
        }
        rib.refuse(self.peer, net, path_id, why, self.keep_refused);
    }

    fn withdraw<N: Net>(&self, rib: &mut Rib, nets: Nlri<'_, N>, taken: &mut Taken) {
        if !self.speaks(N::FAMILY) {
            taken.ignored += count(nets);
            return;
        }
        let mut withdrawn = 0;
        in_lots(rib, nets, |rib, Received { path_id, net }| {
            rib.unlearn(self.peer, net, path_id);
            withdrawn += 1;
        });
        *of(&mut taken.withdrawn, N::FAMILY) += withdrawn;
    }

    fn speaks(&self, family: Family) -> bool {
        let [ipv4, ipv6] = self.families;
        match family {
            Family::Ipv4 => ipv4,
            Family::Ipv6 => ipv6,
        }
    }
}

/// Calls `act` for each prefix; the table fetches what it needs for a lot of them at a time.
fn in_lots<N: Net>(
    rib: &mut Rib,
    mut nets: Nlri<'_, N>,
    mut act: impl FnMut(&mut Rib, Received<N>),
) {
    const LOT: usize = 32;
    while !nets.is_empty() {
        rib.fetch(nets.take(LOT).map(|received| received.net));
        nets.by_ref().take(LOT).for_each(|received| act(rib, received));
    }
}

fn of(counts: &mut [u32; 2], family: Family) -> &mut u32 {
    let [ipv4, ipv6] = counts;
    match family {
        Family::Ipv4 => ipv4,
        Family::Ipv6 => ipv6,
    }
}

/// A message has at most 65,535 of them.
fn count<N: Net>(nets: Nlri<'_, N>) -> u32 {
    u32::try_from(nets.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
