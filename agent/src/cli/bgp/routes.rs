//! `bgp show routes`: a line per path, marked as routers mark them. What a peer was told has no
//! rivals, so there the marks go and the peer comes forward.

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
    table: Option<Table>,
}

impl RouteTable {
    pub(super) fn new(which: Which, look: Look) -> Self {
        Self { which, look, table: None }
    }

    /// The text of these rows, below headings where they are the first.
    pub(super) fn flow(&mut self, routes: &[RouteRow]) -> String {
        let (which, look) = (self.which, self.look);
        // Most tables need no such column, and are the narrower for it.
        let has_notes = routes.iter().any(|route| !note(route).0.is_empty());
        let table = self.table.get_or_insert_with(|| empty(which, look, has_notes));
        for route in routes {
            let mut row = match which {
                Which::Advertised => told(route),
                _ => known(route),
            };
            if look.wide {
                row.extend(wide(route));
            }
            if has_notes {
                row.push(note(route));
            }
            table.row(row);
        }
        table.flow(look)
    }

    /// Below the last row: what the marks mean.
    pub(super) fn legend(&self) -> &'static str {
        let has_marks = self.which != Which::Advertised && self.table.is_some();
        if has_marks && (self.look.wide || self.look.terminal) { LEGEND } else { "" }
    }
}

fn empty(which: Which, look: Look, has_notes: bool) -> Table {
    let mut headings = match which {
        Which::Advertised => vec!["PREFIX", "TO", "OWNER", "NEXT HOP", "AS PATH"],
        _ => vec!["  PREFIX", "SOURCE", "FROM", "NEXT HOP", "AS PATH"],
    };
    if look.wide {
        headings.extend(["COMMUNITIES", "LARGE COMMUNITIES", "MED", "LOCAL PREF", "INSTALLED"]);
    }
    if has_notes {
        headings.push("NOTE");
    }
    Table::new(headings).numbers(&["MED", "LOCAL PREF"])
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

fn known(route: &RouteRow) -> Vec<(String, Tone)> {
    let (mark, tone) = match route {
        RouteRow { refused: Some(_), .. } => ('!', Tone::Warning),
        RouteRow { best: true, .. } => ('*', Tone::Plain),
        RouteRow { equal: true, .. } => ('=', Tone::Plain),
        _ => (' ', Tone::Plain),
    };
    let (source, from) = match route.source {
        RouteSource::Local => ("local", &route.owner),
        RouteSource::Learned => ("learned", &route.peer),
    };
    let mut row = vec![
        (format!("{mark} {}", route.prefix), tone),
        (source.into(), Tone::Plain),
        (from.clone().unwrap_or_default(), Tone::Plain),
    ];
    row.extend(way(route));
    row
}

fn told(route: &RouteRow) -> Vec<(String, Tone)> {
    let mut row = vec![
        (route.prefix.clone(), Tone::Plain),
        (route.peer.clone().unwrap_or_default(), Tone::Plain),
        (route.owner.clone().unwrap_or_default(), Tone::Plain),
    ];
    row.extend(way(route));
    row
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
