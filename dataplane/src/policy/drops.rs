//! What was dropped, by the counters of `denied_in` and `denied_out`.

use netlink_packet_core::NlasIterator;

use super::sets::{self, NAME};
use super::{Direction, Dropped};
use crate::channel::Channel;
use crate::error::Error;
use crate::nftables::{self as nft, NFT_MSG_GETSETELEM, value};

const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_EXPR: u16 = 7;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_COUNTER_BYTES: u16 = 1;
const NFTA_COUNTER_PACKETS: u16 = 2;

/// The counters of all isolated links, also those that are 0; none where there is no table.
pub(crate) fn drops(channel: &mut Channel) -> Result<Vec<Dropped>, Error> {
    let mut drops = Vec::new();
    for direction in [Direction::Ingress, Direction::Egress] {
        let place = sets::place(sets::denied(direction));
        let listed = nft::list(channel, "list what was dropped", NFT_MSG_GETSETELEM, &place)?;
        for reply in &listed {
            let list = nft::find(&reply.payload, NFTA_SET_ELEM_LIST_ELEMENTS).unwrap_or_default();
            let elements = NlasIterator::new(list.as_slice()).flatten();
            drops.extend(elements.filter_map(|element| read(direction, element.value())));
        }
    }
    Ok(drops)
}

fn read(direction: Direction, element: &[u8]) -> Option<Dropped> {
    let key = value(&value(element, NFTA_SET_ELEM_KEY)?, NFTA_DATA_VALUE)?;
    let name = key.iter().take(NAME).take_while(|byte| **byte != 0).copied().collect();
    let counter = value(&value(element, NFTA_SET_ELEM_EXPR)?, NFTA_EXPR_DATA)?;
    let number = |kind| {
        let bytes = value(&counter, kind)?;
        bytes.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
    };
    Some(Dropped {
        ifname: String::from_utf8(name).ok()?,
        direction,
        packets: number(NFTA_COUNTER_PACKETS)?,
        bytes: number(NFTA_COUNTER_BYTES)?,
    })
}
