//! A walk through the table in the order of prefixes, a piece at a time, when the reader has taken
//! the one before. The table has no order of its own and is not copied: the next few prefixes are
//! chosen by a look at all (`choice`), and what is known of them is asked for then.
//!
//! Each question to the speaker is short, so that it is not kept from its work. What changes during
//! the walk is told as it is when its turn comes: a prefix that is there all the time is told once,
//! in its place.

use std::collections::VecDeque;
use std::sync::Arc;

use flock_bgp::{Family, PeerKey, Speaker};
use flock_bgp_io::{Gone, Handle};
use ipnet::IpNet;

use super::Names;
use super::asked::{self, Asked, Where};
use super::choice::Choice;
use super::table::{self, Row};
use crate::cli::bgp::{RoutesArgs, Which};

/// Rows of a piece weigh about so much at most.
const PIECE_BYTES: usize = 1 << 20;

/// How much at once.
#[derive(Debug, Clone, Copy)]
struct Steps {
    /// Prefixes chosen by one look at the table.
    chosen: usize,
    /// Places looked at in one question.
    places: u32,
    /// Prefixes asked for in one question.
    piece: usize,
}

const STEPS: Steps = Steps { chosen: 1 << 15, places: 20_000, piece: 1_000 };

/// A walk under way.
pub(super) struct Walk {
    handle: Handle,
    names: Arc<Names>,
    asked: Arc<Asked>,
    /// Families that are not walked to their end.
    families: VecDeque<Family>,
    /// The last prefix that was chosen.
    last: Option<IpNet>,
    chosen: VecDeque<IpNet>,
    steps: Steps,
}

impl Walk {
    pub(super) fn new(handle: Handle, names: Arc<Names>, args: &RoutesArgs) -> Self {
        let (families, chosen) = match asked::place(args) {
            Where::All(families) => (families.into(), VecDeque::new()),
            Where::These(nets) => {
                let behind = |net: &IpNet| args.after.is_none_or(|after| *net > after);
                (VecDeque::new(), nets.into_iter().filter(behind).collect())
            }
        };
        // Every prefix has a row, and one more tells whether there are more. Where something is looked
        // for, most have none: few at a time would mean a walk for each few.
        let limit = args.limit.filter(|_| args.find.is_none());
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        let chosen_at_once = limit.map_or(STEPS.chosen, |limit| limit.saturating_add(1));
        let steps = Steps { chosen: chosen_at_once.min(STEPS.chosen), ..STEPS };
        Self {
            handle,
            asked: Arc::new(Asked::new(args, &names)),
            names,
            families,
            last: args.after,
            chosen,
            steps,
        }
    }

    /// The next rows, perhaps none; `None`: that was all.
    pub(super) async fn piece(&mut self) -> Result<Option<Vec<Row>>, Gone> {
        if self.chosen.is_empty() && !self.choose().await? {
            return Ok(None);
        }
        let nets: Vec<IpNet> = self.chosen.iter().take(self.steps.piece).copied().collect();
        let (names, asked) = (self.names.clone(), self.asked.clone());
        let told = asked.told(&names);
        let look = move |speaker: &Speaker| {
            let (mut rows, mut weight, mut done) = (Vec::new(), 0, 0);
            for net in nets {
                let before = rows.len();
                match asked.which {
                    Which::Advertised => table::told(speaker, net, &told, &names, &mut rows),
                    _ => table::known(speaker, net, &asked, &names, &mut rows),
                }
                weight +=
                    rows.iter().skip(before).map(|(_, row)| table::weight(row)).sum::<usize>();
                done += 1;
                if weight >= PIECE_BYTES {
                    break;
                }
            }
            (rows, done)
        };
        let (rows, done) = self.handle.query(look).await?;
        self.chosen.drain(..done);
        Ok(Some(rows))
    }

    /// Whether a row, with its owner, has what is looked for.
    pub(super) fn is_found(&self, (_, row): &Row) -> bool {
        self.asked.is_found(row)
    }

    /// Chooses the next few prefixes; false where there are none.
    async fn choose(&mut self) -> Result<bool, Gone> {
        while let Some(family) = self.families.front().copied() {
            let choice = Choice::new(self.steps.chosen, self.last);
            let choice = match self.asked.which {
                Which::Advertised => self.offer_told(family, choice).await?,
                _ => self.offer_known(family, choice).await?,
            };
            if !choice.is_full() {
                self.families.pop_front();
            }
            self.chosen = choice.into_sorted();
            if let Some(last) = self.chosen.back() {
                self.last = Some(*last);
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn offer_known(&self, family: Family, mut choice: Choice) -> Result<Choice, Gone> {
        let mut from = 0_u32;
        loop {
            let asked = self.asked.clone();
            let to = from.saturating_add(self.steps.places);
            let look = move |speaker: &Speaker| {
                for spot in speaker.spots(family, from..to) {
                    if choice.wants(&spot.net) && asked.admits(&spot) {
                        choice.offer(spot.net);
                    }
                }
                (choice, speaker.places(family))
            };
            let end;
            (choice, end) = self.handle.query(look).await?;
            if to >= end {
                return Ok(choice);
            }
            from = to;
        }
    }

    async fn offer_told(&self, family: Family, mut choice: Choice) -> Result<Choice, Gone> {
        for peer in self.asked.told(&self.names) {
            choice = self.offer_told_to(peer, family, choice).await?;
        }
        Ok(choice)
    }

    async fn offer_told_to(
        &self,
        peer: PeerKey,
        family: Family,
        mut choice: Choice,
    ) -> Result<Choice, Gone> {
        let mut after = None;
        loop {
            let (asked, most) = (self.asked.clone(), self.steps.places as usize);
            let look = move |speaker: &Speaker| {
                let mut last = None;
                for (place, net) in speaker.told_spots(peer, family, after).take(most) {
                    last = Some(place);
                    if choice.wants(&net) && asked.holds(&net) {
                        choice.offer(net);
                    }
                }
                (choice, last)
            };
            (choice, after) = self.handle.query(look).await?;
            if after.is_none() {
                return Ok(choice);
            }
        }
    }
}

#[cfg(test)]
mod tests;
