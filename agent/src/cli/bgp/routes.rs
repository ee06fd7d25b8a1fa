//! `bgp show routes`: a line per path, marked as routers mark them. What a peer was told has no
//! rivals, so there the marks go and the peer comes forward.
//!
//! A terminal may be too narrow for everything. Then first the notes go under their rows, then of
//! several pods only one is named, and last the source goes, which the next column tells as well.

use super::answer::{RouteRow, RouteSource};
use super::question::{Destination, RoutesArgs, Which};
use crate::cli::output::{Look, Table, Tone};

const LEGEND: &str = "\n* best   = shares the best's traffic   ! refused\n";

/// All of them at once.
pub(super) fn render(routes: &[RouteRow], which: Which, look: Look) -> String {
    let mut table = RouteTable::new(which, look);
    let mut text = table.flow(routes);
    text.push_str(table.legend());
    text
}

/// A table that is drawn as its rows come.
pub(super) struct RouteTable {
    which: Which,
    look: Look,
    /// From the first rows on.
    table: Option<(Table, Layout)>,
}

/// What has a place in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    notes: Notes,
    all_owners: bool,
    source: bool,
}

/// Where notes stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notes {
    /// Most tables need no such column, and are the narrower for it.
    Nowhere,
    InColumn,
    Under,
}

/// Narrower than this, a column of notes is a ribbon of words.
const NOTES_NEED: usize = 36;

impl Layout {
    /// From everything to the least.
    fn all(has_notes: bool) -> [Self; 4] {
        let first = if has_notes { Notes::InColumn } else { Notes::Nowhere };
        let notes = if has_notes { Notes::Under } else { Notes::Nowhere };
        [
            Self { notes: first, all_owners: true, source: true },
            Self { notes, all_owners: true, source: true },
            Self { notes, all_owners: false, source: true },
            Self { notes, all_owners: false, source: false },
        ]
    }

    fn fits(self, table: &Table, width: Option<usize>) -> bool {
        let Some(width) = width else { return true };
        let folded = table.width_before_last() + NOTES_NEED;
        table.width() <= width || (self.notes == Notes::InColumn && folded <= width)
    }
}

impl RouteTable {
    pub(super) fn new(which: Which, look: Look) -> Self {
        Self { which, look, table: None }
    }

    /// The text of these rows, below headings where they are the first.
    pub(super) fn flow(&mut self, routes: &[RouteRow]) -> String {
        let look = self.look;
        let (mut table, layout) = match self.table.take() {
            Some((mut table, layout)) => {
                self.fill(&mut table, routes, layout);
                (table, layout)
            }
            None => self.begin(routes),
        };
        let text = table.flow(look);
        self.table = Some((table, layout));
        text
    }

    /// The first layout that fits, with these rows; the least of all where none does.
    fn begin(&self, routes: &[RouteRow]) -> (Table, Layout) {
        let has_notes = routes.iter().any(|route| !note(route).0.is_empty());
        let filled = |layout: Layout| {
            let mut table = self.empty(layout);
            self.fill(&mut table, routes, layout);
            (table, layout)
        };
        let [most @ .., least] = Layout::all(has_notes);
        let width = self.look.width.filter(|_| !self.look.wide);
        let fitting =
            most.into_iter().map(filled).find(|(table, layout)| layout.fits(table, width));
        fitting.unwrap_or_else(|| filled(least))
    }

    fn empty(&self, layout: Layout) -> Table {
        let mut headings = match self.which {
            Which::Advertised => vec!["PREFIX", "TO", "OWNER", "NEXT HOP", "AS PATH"],
            _ if layout.source => vec!["  PREFIX", "SOURCE", "FROM", "NEXT HOP", "AS PATH"],
            _ => vec!["  PREFIX", "FROM", "NEXT HOP", "AS PATH"],
        };
        if self.look.wide {
            headings.extend(["COMMUNITIES", "LARGE COMMUNITIES", "MED", "LOCAL PREF", "INSTALLED"]);
        }
        if layout.notes == Notes::InColumn {
            headings.push("NOTE");
        }
        Table::new(headings).numbers(&["MED", "LOCAL PREF"])
    }

    fn fill(&self, table: &mut Table, routes: &[RouteRow], layout: Layout) {
        let has_notes = routes.iter().any(|route| !note(route).0.is_empty());
        for route in routes {
            let mut row = match self.which {
                Which::Advertised => told(route, layout),
                _ => known(route, layout),
            };
            if self.look.wide {
                row.extend(wide(route));
            }
            let (words, tone) = note(route);
            let is_beside = match layout.notes {
                Notes::InColumn => true,
                // Rare, and so not foreseen.
                Notes::Nowhere => has_notes,
                Notes::Under => false,
            };
            if is_beside {
                row.push((words, tone));
                table.row(row);
            } else {
                table.row(row);
                if !words.is_empty() {
                    table.under(words, tone);
                }
            }
        }
    }

    /// Below the last row: what the marks mean.
    pub(super) fn legend(&self) -> &'static str {
        let has_marks = self.which != Which::Advertised && self.table.is_some();
        if has_marks && (self.look.wide || self.look.terminal) { LEGEND } else { "" }
    }
}

/// What to say when nothing was found.
pub(super) fn none(question: &RoutesArgs) -> String {
    match question.prefix {
        None => "No routes.\n".into(),
        Some(Destination::Prefix(prefix)) if question.within => {
            format!("No route for {prefix} or within it.\n")
        }
        Some(Destination::Prefix(prefix)) => format!("No route for {prefix}.\n"),
        Some(Destination::Address(address)) => format!("No route holds {address}.\n"),
    }
}

fn known(route: &RouteRow, layout: Layout) -> Vec<(String, Tone)> {
    let (mark, tone) = match route {
        RouteRow { refused: Some(_), .. } => ('!', Tone::Warning),
        RouteRow { best: true, .. } => ('*', Tone::Plain),
        RouteRow { equal: true, .. } => ('=', Tone::Plain),
        _ => (' ', Tone::Plain),
    };
    let (source, from) = match route.source {
        RouteSource::Local => ("local", owner(route, layout)),
        RouteSource::Learned => ("learned", route.peer.clone().unwrap_or_default()),
    };
    let mut row = vec![(format!("{mark} {}", route.prefix), tone)];
    row.extend(layout.source.then(|| (source.into(), Tone::Plain)));
    row.push((from, Tone::Plain));
    row.extend(way(route));
    row
}

fn told(route: &RouteRow, layout: Layout) -> Vec<(String, Tone)> {
    let mut row = vec![
        (route.prefix.clone(), Tone::Plain),
        (route.peer.clone().unwrap_or_default(), Tone::Plain),
        (owner(route, layout), Tone::Plain),
    ];
    row.extend(way(route));
    row
}

/// For whom we originate it; where there is little room one of several, and how many more.
fn owner(route: &RouteRow, layout: Layout) -> String {
    let all = route.owner.clone().unwrap_or_default();
    match all.split_once(", ") {
        Some((one, others)) if !layout.all_owners => {
            format!("{one} +{}", others.split(", ").count())
        }
        _ => all,
    }
}

fn way(route: &RouteRow) -> [(String, Tone); 2] {
    let path: Vec<String> = route.as_path.iter().map(u32::to_string).collect();
    [(route.next_hops.join(","), Tone::Plain), (path.join(" "), Tone::Plain)]
}

fn wide(route: &RouteRow) -> Vec<(String, Tone)> {
    let plain = |text: String| (text, Tone::Plain);
    let number = |number: Option<u32>| plain(number.map(|n| n.to_string()).unwrap_or_default());
    vec![
        plain(route.communities.join(" ")),
        plain(route.large_communities.join(" ")),
        number(route.med),
        number(route.local_pref),
        match route.installed {
            Some(true) => ("yes".into(), Tone::Good),
            Some(false) => ("no".into(), Tone::Warning),
            None => plain(String::new()),
        },
    ]
}

/// What is odd about a path.
fn note(route: &RouteRow) -> (String, Tone) {
    let is_missing = route.installed == Some(false) && (route.best || route.equal);
    let words: Vec<&str> = route
        .refused
        .as_deref()
        .into_iter()
        .chain(route.stale.then_some("stale: its peer restarts"))
        .chain(is_missing.then_some("not in the kernel"))
        .collect();
    (words.join("; "), Tone::Warning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bgp::sample;

    #[test]
    fn a_line_per_path_with_its_mark() {
        assert_eq!(
            render(&sample::routes(), Which::All, sample::NARROW),
            "  PREFIX           SOURCE   FROM        NEXT HOP          AS PATH      NOTE
* 2001:db8:a::/64  local    spec.cidr6  -                 -            -
* 192.0.2.53/32    local    shop/dns-0  -                 -            -
* ::/0             learned  tor-a       2001:db8:ffff::1  65000        -
= ::/0             learned  tor-b       2001:db8:ffff::3  65000        stale: its peer restarts; not in the kernel
  ::/0             learned  tor-c       2001:db8:ffff::5  65000 65010  -
! 10.0.0.0/8       learned  tor-a       192.0.2.1         65000        no rule of import.accept matches
"
        );
    }

    #[test]
    fn a_narrow_terminal_has_what_fits() {
        let [_, mut anycast, best, equal, .., refused] = sample::routes();
        anycast.owner = Some("anycast default/dns-0, default/dns-1".into());
        let rows = [anycast, best, equal, refused];
        let at = |columns: usize| {
            render(&rows, Which::All, Look { width: Some(columns), ..sample::NARROW })
        };
        assert_eq!(
            at(80),
            "  PREFIX         SOURCE   FROM                      NEXT HOP          AS PATH
* 192.0.2.53/32  local    anycast default/dns-0 +1  -                 -
* ::/0           learned  tor-a                     2001:db8:ffff::1  65000
= ::/0           learned  tor-b                     2001:db8:ffff::3  65000
    stale: its peer restarts; not in the kernel
! 10.0.0.0/8     learned  tor-a                     192.0.2.1         65000
    no rule of import.accept matches
"
        );
        assert!(at(70).starts_with("  PREFIX         FROM                      NEXT HOP "));
        assert!(at(130).contains("default/dns-0, default/dns-1") && at(130).contains("  NOTE\n"));
        for columns in 70..200 {
            let text = at(columns);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{text}");
        }
    }

    #[test]
    fn ordinary_routes_fit_eighty_columns_and_have_no_notes() {
        let mut routes = sample::routes().to_vec();
        routes.retain(|route| note(route).0.is_empty());
        let text = render(&routes, Which::All, sample::NARROW);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(!text.contains("NOTE"), "{text}");
    }

    #[test]
    fn the_wide_table_has_everything_and_a_legend() {
        let [summary, .., learned, _, _, _] = sample::routes();
        assert_eq!(
            render(&[summary, learned], Which::All, sample::WIDE),
            "  PREFIX           SOURCE   FROM        NEXT HOP          AS PATH  COMMUNITIES          LARGE COMMUNITIES  MED  LOCAL PREF  INSTALLED
* 2001:db8:a::/64  local    spec.cidr6  -                 -        65001:100 no-export  65001:1:2            -           -  -
* ::/0             learned  tor-a       2001:db8:ffff::1  65000    -                    -                   10         100  yes

* best   = shares the best's traffic   ! refused
"
        );
    }

    #[test]
    fn the_legend_is_for_eyes() {
        let mut look = sample::NARROW;
        assert!(!render(&sample::routes(), Which::All, look).contains(LEGEND));
        look.terminal = true;
        assert!(render(&sample::routes(), Which::All, look).ends_with(LEGEND));
        assert!(!render(&sample::routes(), Which::Advertised, look).contains(LEGEND));
    }

    #[test]
    fn what_was_told_names_who_was_told() {
        let [mut route, ..] = sample::routes();
        (route.peer, route.as_path) = (Some("tor-a".into()), vec![65001]);
        route.next_hops = vec!["2001:db8:ffff::2".into()];
        assert_eq!(
            render(&[route], Which::Advertised, sample::NARROW),
            "\
PREFIX           TO     OWNER       NEXT HOP          AS PATH
2001:db8:a::/64  tor-a  spec.cidr6  2001:db8:ffff::2  65001
"
        );
    }

    #[test]
    fn nothing_found_names_what_was_looked_for() {
        let none_of = |prefix: Option<&str>| {
            none(&RoutesArgs { prefix: prefix.map(|p| p.parse().unwrap()), ..Default::default() })
        };
        assert_eq!(none_of(None), "No routes.\n");
        assert_eq!(none_of(Some("10.0.0.0/8")), "No route for 10.0.0.0/8.\n");
        assert_eq!(none_of(Some("2001:db8::1")), "No route holds 2001:db8::1.\n");
    }
}
