//! The two forms of the text. Decides which one a caller gets.
//!
//! OpenMetrics names a family of counters without `_total` and ends with a mark; the older text names
//! it as its samples are named and has no end. Debian's Prometheus asks for the first and falls back
//! to the second; `promtool check metrics` and everything that simply reads the page know only the
//! second. The encoder writes the first, and the second is made from it.

use std::fmt::Write;

/// How the text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// The Prometheus text format 0.0.4.
    Classic,
}

impl Form {
    /// What a caller with this `Accept` header gets: OpenMetrics when it asks for it.
    pub fn asked_by(accept: Option<&str>) -> Self {
        let kinds = accept.unwrap_or_default().split(',');
        let mut names = kinds.map(|kind| kind.split(';').next().unwrap_or_default().trim());
        if names.any(|name| name.eq_ignore_ascii_case("application/openmetrics-text")) {
            Self::OpenMetrics
        } else {
            Self::Classic
        }
    }

    /// For the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// OpenMetrics in the older form: only descriptions differ.
pub(super) fn classic(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = None;
    for line in openmetrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            // Writing to a text never fails.
            if let Some((_, words)) = help.take().filter(|(named, _)| *named == name) {
                let _ = writeln!(text, "# HELP {name}{suffix} {words}");
            }
            let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_openmetrics_gets_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, form) in [
            (None, Form::Classic),
            (Some("*/*"), Form::Classic),
            (Some("text/html,application/xhtml+xml;q=0.9"), Form::Classic),
            (Some("text/plain;version=0.0.4"), Form::Classic),
            (Some(prometheus), Form::OpenMetrics),
            (Some("text/plain, Application/OpenMetrics-Text; q=0.1"), Form::OpenMetrics),
            (Some("application/openmetrics-textual"), Form::Classic),
        ] {
            assert_eq!(Form::asked_by(accept), form, "{accept:?}");
        }
    }

    #[test]
    fn the_older_form_names_counters_as_their_samples_are_named() {
        let openmetrics = "# HELP a_calls Calls of # all kinds.\n# TYPE a_calls counter\n\
            a_calls_total{x=\"# HELP y\"} 7\n# HELP b_seconds How long.\n\
            # TYPE b_seconds histogram\n# UNIT b_seconds seconds\nb_seconds_sum 0.5\n\
            b_seconds_bucket{le=\"+Inf\"} 1\n# EOF\n";
        let older = "# HELP a_calls_total Calls of # all kinds.\n# TYPE a_calls_total counter\n\
            a_calls_total{x=\"# HELP y\"} 7\n# HELP b_seconds How long.\n\
            # TYPE b_seconds histogram\nb_seconds_sum 0.5\nb_seconds_bucket{le=\"+Inf\"} 1\n";
        assert_eq!(classic(openmetrics), older);
    }
}
