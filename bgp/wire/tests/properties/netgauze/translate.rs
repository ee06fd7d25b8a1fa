//! Our values as netgauze's, and netgauze's as ours.

use std::io::Cursor;
use std::net::{IpAddr, Ipv4Addr};

use bytes::BytesMut;
use flock_bgp_wire::{
    AddPathMode, Aggregator, AsPath, Attributes, Capability, Community, ExtendedCommunity, Family,
    GracefulRestart, LargeCommunity, NextHop, Open, Origin, Segment, SegmentKind, Unknown, encode,
};
use ipnet::{Ipv4Net, Ipv6Net};
use netgauze_bgp_pkt::capabilities as caps;
use netgauze_bgp_pkt::capabilities::BgpCapability;
use netgauze_bgp_pkt::community as theirs;
use netgauze_bgp_pkt::iana::BgpRoleValue;
use netgauze_bgp_pkt::nlri::{Ipv4Unicast, Ipv6Unicast};
use netgauze_bgp_pkt::path_attribute as attr;
use netgauze_bgp_pkt::path_attribute::{PathAttribute, PathAttributeValue as Value};
use netgauze_bgp_pkt::update::BgpUpdateMessage;
use netgauze_iana::address_family::{AddressFamily, AddressType};
use netgauze_parse_utils::WritablePdu;

pub(super) fn segments(list: &[attr::As4PathSegment]) -> AsPath {
    let segment = |segment: &attr::As4PathSegment| Segment {
        kind: match segment.segment_type() {
            attr::AsPathSegmentType::AsSet => SegmentKind::Set,
            attr::AsPathSegmentType::AsSequence => SegmentKind::Sequence,
        },
        asns: segment.as_numbers().to_vec(),
    };
    AsPath { segments: list.iter().map(segment).collect() }
}

/// Four-octet sessions only: what two octets lose is merged by us, not by it.
pub(super) fn from_theirs(update: &BgpUpdateMessage) -> (Attributes, Vec<Ipv4Net>, Vec<Ipv6Net>) {
    let mut ours = Attributes::new(Origin::Incomplete, NextHop::V4(Ipv4Addr::UNSPECIFIED));
    let mut v4: Vec<Ipv4Net> = update.nlri().iter().map(|net| net.network().address()).collect();
    let mut v6 = Vec::new();
    for attribute in update.path_attributes() {
        match attribute.value() {
            Value::Origin(origin) => {
                ours.origin = match origin {
                    attr::Origin::IGP => Origin::Igp,
                    attr::Origin::EGP => Origin::Egp,
                    attr::Origin::Incomplete => Origin::Incomplete,
                };
            }
            Value::AsPath(attr::AsPath::As4PathSegments(list)) => ours.as_path = segments(list),
            Value::NextHop(hop) => ours.next_hop = NextHop::V4(hop.next_hop()),
            Value::MultiExitDiscriminator(med) => ours.med = Some(med.metric()),
            Value::LocalPreference(preference) => ours.local_pref = Some(preference.metric()),
            Value::AtomicAggregate(_) => ours.atomic_aggregate = true,
            Value::Aggregator(attr::Aggregator::As4Aggregator(aggregator)) => {
                let (asn, id) = (*aggregator.asn(), aggregator.origin());
                ours.aggregator = Some(Aggregator { asn, id });
            }
            Value::Communities(list) => {
                ours.communities =
                    list.communities().iter().map(|one| Community(one.value())).collect();
            }
            Value::ExtendedCommunities(list) => {
                ours.extended_communities = list.communities().iter().map(octets).collect();
            }
            Value::LargeCommunities(list) => {
                let one = |one: &theirs::LargeCommunity| {
                    LargeCommunity(one.global_admin(), one.local_data1(), one.local_data2())
                };
                ours.large_communities = list.communities().iter().map(one).collect();
            }
            Value::Originator(id) => ours.originator_id = Some(id.id()),
            Value::ClusterList(list) => {
                ours.cluster_list = list.cluster_list().iter().map(|id| id.id()).collect();
            }
            Value::OnlyToCustomer(otc) => ours.only_to_customer = Some(otc.asn()),
            Value::MpReach(attr::MpReach::Ipv4Unicast { next_hop, next_hop_local, nlri }) => {
                ours.next_hop = match next_hop {
                    IpAddr::V4(hop) => NextHop::V4(*hop),
                    IpAddr::V6(hop) => NextHop::V6 { global: *hop, link_local: *next_hop_local },
                };
                v4.extend(nlri.iter().map(|net| net.network().address()));
            }
            Value::MpReach(attr::MpReach::Ipv6Unicast {
                next_hop_global,
                next_hop_local,
                nlri,
            }) => {
                let (global, link_local) = (*next_hop_global, *next_hop_local);
                ours.next_hop = NextHop::V6 { global, link_local };
                v6.extend(nlri.iter().map(|net| net.network().address()));
            }
            Value::UnknownAttribute(unknown) => {
                let flags = u8::from(attribute.optional()) << 7
                    | u8::from(attribute.transitive()) << 6
                    | u8::from(attribute.partial()) << 5;
                let value = unknown.value().into();
                ours.unknown.push(Unknown { kind: unknown.code(), flags, value });
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    (ours, v4, v6)
}

/// Its many kinds of extended communities, as the octets that they are.
fn octets(community: &theirs::ExtendedCommunity) -> ExtendedCommunity {
    let mut out = Vec::new();
    community.write(&mut Cursor::new(&mut out)).unwrap();
    ExtendedCommunity(out.try_into().unwrap())
}

/// It keeps a link-local address as it finds it; we write one without a global address twice.
pub(super) fn as_it_sees(attributes: &Attributes) -> Attributes {
    let mut seen = attributes.clone();
    if let NextHop::V6 { global, link_local: Some(address) } = &mut seen.next_hop
        && global.is_unspecified()
    {
        *global = *address;
    }
    seen
}

pub(super) fn unicast(nets: &[Ipv4Net]) -> Vec<Ipv4Net> {
    nets.iter().copied().filter(|net| Ipv4Unicast::from_net(*net).is_ok()).collect()
}

pub(super) fn unicast6(nets: &[Ipv6Net]) -> Vec<Ipv6Net> {
    nets.iter().copied().filter(|net| Ipv6Unicast::from_net(*net).is_ok()).collect()
}

pub(super) fn put(list: &mut Vec<PathAttribute>, flags: u8, value: Value) {
    let extended = true; // Needless, and right nonetheless.
    let [optional, transitive, partial] = [0x80, 0x40, 0x20].map(|bit| flags & bit != 0);
    list.push(PathAttribute::from(optional, transitive, partial, extended, value).unwrap());
}

/// All attributes but the ones with prefixes or next hop, in an order that is not ours.
pub(super) fn to_theirs(ours: &Attributes) -> Vec<PathAttribute> {
    let mut list = Vec::new();
    for unknown in &ours.unknown {
        let value = attr::UnknownAttribute::new(unknown.kind, unknown.value.clone());
        put(&mut list, unknown.flags, Value::UnknownAttribute(value));
    }
    if let Some(otc) = ours.only_to_customer {
        put(&mut list, 0xC0, Value::OnlyToCustomer(attr::OnlyToCustomer::new(otc)));
    }
    if !ours.large_communities.is_empty() {
        let one = |one: &LargeCommunity| theirs::LargeCommunity::new(one.0, one.1, one.2);
        let all: Vec<_> = ours.large_communities.iter().map(one).collect();
        put(&mut list, 0xC0, Value::LargeCommunities(attr::LargeCommunities::new(all)));
    }
    if !ours.communities.is_empty() {
        let all: Vec<_> =
            ours.communities.iter().map(|one| theirs::Community::new(one.0)).collect();
        put(&mut list, 0xC0, Value::Communities(attr::Communities::new(all)));
    }
    if !ours.cluster_list.is_empty() {
        let all: Vec<_> = ours.cluster_list.iter().map(|id| attr::ClusterId::new(*id)).collect();
        put(&mut list, 0x80, Value::ClusterList(attr::ClusterList::new(all)));
    }
    if let Some(id) = ours.originator_id {
        put(&mut list, 0x80, Value::Originator(attr::Originator::new(id)));
    }
    if let Some(aggregator) = ours.aggregator {
        let value = attr::As4Aggregator::new(aggregator.asn, aggregator.id);
        put(&mut list, 0xC0, Value::Aggregator(attr::Aggregator::As4Aggregator(value)));
    }
    if ours.atomic_aggregate {
        put(&mut list, 0x40, Value::AtomicAggregate(attr::AtomicAggregate));
    }
    if let Some(preference) = ours.local_pref {
        put(&mut list, 0x40, Value::LocalPreference(attr::LocalPreference::new(preference)));
    }
    if let Some(med) = ours.med {
        let value = attr::MultiExitDiscriminator::new(med);
        put(&mut list, 0x80, Value::MultiExitDiscriminator(value));
    }
    let segments: Vec<_> = ours.as_path.segments.iter().map(segment).collect();
    put(&mut list, 0x40, Value::AsPath(attr::AsPath::as4_path_segments(segments)));
    let origin = match ours.origin {
        Origin::Igp => attr::Origin::IGP,
        Origin::Egp => attr::Origin::EGP,
        Origin::Incomplete => attr::Origin::Incomplete,
    };
    put(&mut list, 0x40, Value::Origin(origin));
    list
}

fn segment(segment: &Segment) -> attr::As4PathSegment {
    let kind = match segment.kind {
        SegmentKind::Set => attr::AsPathSegmentType::AsSet,
        _ => attr::AsPathSegmentType::AsSequence,
    };
    attr::As4PathSegment::new(kind, segment.asns.clone())
}

fn family(address_type: AddressType) -> Family {
    match address_type {
        AddressType::Ipv4Unicast => Family::Ipv4,
        AddressType::Ipv6Unicast => Family::Ipv6,
        other => panic!("unexpected {other:?}"),
    }
}

pub(super) fn address_type(family: Family) -> AddressType {
    match family {
        Family::Ipv4 => AddressType::Ipv4Unicast,
        Family::Ipv6 => AddressType::Ipv6Unicast,
    }
}

/// Ours as a number, for the roles that it misnames.
const ROLES: [flock_bgp_wire::Role; 5] = [
    flock_bgp_wire::Role::Provider,
    flock_bgp_wire::Role::RouteServer,
    flock_bgp_wire::Role::RouteServerClient,
    flock_bgp_wire::Role::Customer,
    flock_bgp_wire::Role::Peer,
];

pub(super) fn capability(theirs: &BgpCapability) -> Capability {
    match theirs {
        BgpCapability::MultiProtocolExtensions(one) => {
            Capability::Multiprotocol(family(one.address_type()))
        }
        BgpCapability::RouteRefresh => Capability::RouteRefresh,
        BgpCapability::EnhancedRouteRefresh => Capability::EnhancedRouteRefresh,
        BgpCapability::ExtendedMessage => Capability::ExtendedMessage,
        BgpCapability::FourOctetAs(one) => Capability::FourOctetAs(one.asn4()),
        BgpCapability::BgpRole(one) => Capability::Role(ROLES[usize::from(u8::from(one.role()))]),
        BgpCapability::GracefulRestartCapability(one) => {
            let families = one.address_families().iter();
            Capability::GracefulRestart(GracefulRestart {
                restarted: one.restart(),
                notification: one.graceful_notification(),
                time: one.time(),
                families: families
                    .map(|one| (family(one.address_type()), one.forwarding_state()))
                    .collect(),
            })
        }
        BgpCapability::AddPath(one) => {
            let mode = |one: &caps::AddPathAddressFamily| match (one.send(), one.receive()) {
                (true, true) => AddPathMode::Both,
                (true, false) => AddPathMode::Send,
                _ => AddPathMode::Receive,
            };
            let families = one.address_families().iter();
            Capability::AddPath(
                families.map(|one| (family(one.address_type()), mode(one))).collect(),
            )
        }
        BgpCapability::ExtendedNextHopEncoding(one) => {
            assert!(one.encodings().iter().all(|one| one.next_hop_afi() == AddressFamily::IPv6));
            let families = one.encodings().iter().map(|one| family(one.address_type()));
            Capability::ExtendedNextHop(families.collect())
        }
        BgpCapability::Unrecognized(one) => {
            Capability::Other { code: *one.code(), value: one.value().to_vec().into() }
        }
        other => panic!("unexpected {other:?}"),
    }
}

pub(super) fn to_capability(ours: &Capability) -> BgpCapability {
    match ours {
        Capability::Multiprotocol(family) => BgpCapability::MultiProtocolExtensions(
            caps::MultiProtocolExtensionsCapability::new(address_type(*family)),
        ),
        Capability::RouteRefresh => BgpCapability::RouteRefresh,
        Capability::EnhancedRouteRefresh => BgpCapability::EnhancedRouteRefresh,
        Capability::ExtendedMessage => BgpCapability::ExtendedMessage,
        Capability::FourOctetAs(asn) => {
            BgpCapability::FourOctetAs(caps::FourOctetAsCapability::new(*asn))
        }
        Capability::Role(role) => {
            let number = ROLES.iter().position(|one| one == role).unwrap();
            let role = BgpRoleValue::try_from(u8::try_from(number).unwrap()).unwrap();
            BgpCapability::BgpRole(caps::BgpRoleCapability::new(role))
        }
        Capability::GracefulRestart(one) => {
            let families = one.families.iter().map(|(family, kept)| {
                caps::GracefulRestartAddressFamily::new(*kept, address_type(*family))
            });
            BgpCapability::GracefulRestartCapability(caps::GracefulRestartCapability::new(
                one.restarted,
                one.notification,
                one.time,
                families.collect::<Vec<_>>(),
            ))
        }
        Capability::AddPath(list) => {
            let families = list.iter().map(|(family, mode)| {
                let (send, receive) = match mode {
                    AddPathMode::Receive => (false, true),
                    AddPathMode::Send => (true, false),
                    AddPathMode::Both => (true, true),
                };
                caps::AddPathAddressFamily::new(address_type(*family), send, receive)
            });
            BgpCapability::AddPath(caps::AddPathCapability::new(families.collect::<Vec<_>>()))
        }
        Capability::ExtendedNextHop(list) => {
            let list = list.iter().map(|family| {
                caps::ExtendedNextHopEncoding::new(address_type(*family), AddressFamily::IPv6)
            });
            BgpCapability::ExtendedNextHopEncoding(caps::ExtendedNextHopEncodingCapability::new(
                list.collect::<Vec<_>>(),
            ))
        }
        Capability::Other { code, value } => {
            BgpCapability::Unrecognized(caps::UnrecognizedCapability::new(*code, value.to_vec()))
        }
    }
}

/// It does not know RFC 9072.
pub(super) fn fits_the_short_form(open: &Open) -> bool {
    let mut out = BytesMut::new();
    encode::open(open, &mut out);
    out.get(29) != Some(&255)
}
