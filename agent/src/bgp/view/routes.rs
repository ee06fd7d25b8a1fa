//! `bgp show routes` as a pull: rows in order, a few at a time, each with its owner and with what
//! the kernel has. How many are wanted is kept here; where they come from is `walk`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use serde::Serialize;

use super::table::{self, Row};
use super::walk::Walk;
use super::{Names, gone};
use crate::bgp::Bgp;
use crate::cli::bgp::{RouteRow, RouteSource, RoutesArgs};

/// Rows that a page has at most.
pub const PAGE: u32 = 1_000;
/// And about so many bytes: peers choose how long their paths are.
const PAGE_BYTES: usize = 1 << 20;

/// A page of routes, as the looking glass asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoutesPage {
    /// As in [`RouteList`](crate::cli::bgp::RouteList).
    pub routes: Vec<RouteRow>,
    /// There are others behind the last.
    pub more: bool,
}

impl Bgp {
    /// `bgp show routes`, to be pulled.
    pub async fn routes(&self, args: RoutesArgs) -> Result<Routes, String> {
        args.check()?;
        let walk = match self.live() {
            Some(live) => {
                let names = live.handle.query(|speaker| {
                    speaker.peers().map(|peer| (peer.key, peer.name)).collect::<Names>()
                });
                let names = Arc::new(names.await.map_err(gone)?);
                Some(Walk::new(live.handle, names, &args))
            }
            None => None,
        };
        let limit = args.limit.and_then(|limit| usize::try_from(limit).ok());
        Ok(Routes { bgp: self.clone(), walk, limit, given: 0, is_cut: false })
    }

    /// The first routes behind `after`, at once: some [`PAGE`] at most, and fewer where they are long.
    pub async fn routes_page(&self, args: RoutesArgs) -> Result<RoutesPage, String> {
        let limit = args.limit.unwrap_or(PAGE).min(PAGE);
        let mut routes = self.routes(RoutesArgs { limit: Some(limit), ..args }).await?;
        let mut page = RoutesPage { routes: Vec::new(), more: false };
        let mut bytes = 0;
        while let Some(rows) = routes.next().await? {
            bytes += rows.iter().map(table::weight).sum::<usize>();
            page.routes.extend(rows);
            if bytes >= PAGE_BYTES {
                page.more = true;
                return Ok(page);
            }
        }
        page.more = routes.is_cut();
        Ok(page)
    }
}

/// Routes in order, a few at a time.
pub struct Routes {
    bgp: Bgp,
    /// `None`: there are no more.
    walk: Option<Walk>,
    limit: Option<usize>,
    given: usize,
    is_cut: bool,
}

impl Routes {
    /// The next few; `None`: that was all.
    pub async fn next(&mut self) -> Result<Option<Vec<RouteRow>>, String> {
        while let Some(walk) = &mut self.walk {
            let Some(mut rows) = walk.piece().await.map_err(gone)? else { break };
            self.bgp.ask_kernel(&mut rows);
            self.bgp.name_owners(&mut rows).await;
            rows.retain(|row| walk.is_found(row));
            let all = rows.len();
            if let Some(limit) = self.limit {
                rows.truncate(whole(&rows, limit.saturating_sub(self.given)));
            }
            if rows.len() < all {
                self.is_cut = true;
                self.walk = None;
            }
            self.given += rows.len();
            if !rows.is_empty() {
                return Ok(Some(rows.into_iter().map(|(_, row)| row).collect()));
            }
        }
        self.walk = None;
        Ok(None)
    }

    /// After the last: whether there are more than were asked for.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// How many rows are `wanted`, so that no prefix is told by half: who asks for what is behind it
/// would never hear of its other paths.
fn whole(rows: &[Row], wanted: usize) -> usize {
    let last = wanted.checked_sub(1).and_then(|last| rows.get(last));
    let Some((last, _)) = last else { return wanted.min(rows.len()) };
    wanted + rows.iter().skip(wanted).take_while(|(net, _)| net == last).count()
}

impl Bgp {
    fn ask_kernel(&self, rows: &mut [Row]) {
        let is_asked = |row: &RouteRow| row.source == RouteSource::Learned && row.refused.is_none();
        let asked = rows.iter().filter(|(_, row)| is_asked(row)).map(|(net, _)| net);
        let installed = self.fib.installed_of(asked);
        let asked = rows.iter_mut().filter(|(_, row)| is_asked(row));
        for ((_, row), installed) in asked.zip(installed) {
            row.installed = Some(installed);
        }
    }

    async fn name_owners(&self, rows: &mut [Row]) {
        let local = rows.iter().filter(|(_, row)| row.source == RouteSource::Local);
        let local: BTreeSet<IpNet> = local.map(|(prefix, _)| *prefix).collect();
        if local.is_empty() {
            return;
        }
        let owners = self.reconciler.ask(move |picture| {
            let owner = |prefix: IpNet| Some((prefix, picture.owner(&prefix)?));
            local.into_iter().filter_map(owner).collect::<BTreeMap<IpNet, String>>()
        });
        let Some(owners) = owners.await else { return };
        for (prefix, row) in rows.iter_mut() {
            if row.source == RouteSource::Local {
                row.owner = owners.get(prefix).cloned();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bgp::sample;

    #[test]
    fn no_prefix_is_told_by_half() {
        let [row, ..] = sample::routes();
        let nets = ["10.0.0.0/8", "10.1.0.0/16", "10.1.0.0/16", "10.1.0.0/16", "10.2.0.0/16"];
        let rows = nets.map(|net| (net.parse().unwrap(), row.clone()));
        let table = [(0, 0), (1, 1), (2, 4), (3, 4), (4, 4), (5, 5), (6, 5), (usize::MAX, 5)];
        for (wanted, given) in table {
            assert_eq!(whole(&rows, wanted), given, "{wanted}");
        }
        assert_eq!(whole(&[], 3), 0);
    }
}
