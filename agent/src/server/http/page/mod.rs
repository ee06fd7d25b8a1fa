//! The looking glass: the files of the page, as they are in `assets/`. Hand-written and served as they
//! are; decides which address has which file, and nothing about what they show.

use hyper::{Response, StatusCode};

use super::reply::{Body, reply};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Address, kind, content.
const FILES: [(&str, &str, &str); 12] = [
    ("/", HTML, include_str!("assets/index.html")),
    ("/page.css", CSS, include_str!("assets/page.css")),
    ("/favicon.svg", SVG, include_str!("assets/favicon.svg")),
    ("/draw.js", SCRIPT, include_str!("assets/draw.js")),
    ("/table.js", SCRIPT, include_str!("assets/table.js")),
    ("/agent.js", SCRIPT, include_str!("assets/agent.js")),
    ("/sessions.js", SCRIPT, include_str!("assets/sessions.js")),
    ("/routes.js", SCRIPT, include_str!("assets/routes.js")),
    ("/explain.js", SCRIPT, include_str!("assets/explain.js")),
    ("/pods.js", SCRIPT, include_str!("assets/pods.js")),
    ("/check.js", SCRIPT, include_str!("assets/check.js")),
    ("/page.js", SCRIPT, include_str!("assets/page.js")),
];

/// The file at an address.
pub(super) fn file(path: &str) -> Option<Response<Body>> {
    let (_, kind, content) = FILES.iter().find(|(address, ..)| *address == path)?;
    Some(reply(StatusCode::OK, kind, *content))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For people on slow lines to far nodes.
    const ALL_OF_IT: usize = 60_000;

    #[test]
    fn the_page_is_small_and_names_only_files_that_are_there() {
        let size: usize = FILES.iter().map(|(_, _, content)| content.len()).sum();
        assert!(size < ALL_OF_IT, "{size} bytes");
        let (_, _, html) = FILES[0];
        let named =
            |name: &'static str| html.split(name).skip(1).filter_map(|rest| rest.split('"').next());
        let named: Vec<&str> = named("src=\"").chain(named("href=\"")).collect();
        for file in named.iter().filter(|name| !name.starts_with('#')) {
            assert!(FILES.iter().any(|(address, ..)| address == file), "{file}");
        }
        for (address, ..) in &FILES[1..] {
            assert!(named.contains(address), "nobody asks for {address}");
        }
    }

    #[test]
    fn nothing_outside_is_named_and_nothing_becomes_markup() {
        for (address, kind, content) in FILES {
            let content = content.replace("http://www.w3.org/2000/svg", "");
            let banned = [
                "http:",
                "https:",
                "innerHTML",
                "outerHTML",
                "insertAdjacent",
                "document.write",
                "eval(",
                "new Function",
                "localStorage",
                "sessionStorage",
                "document.cookie",
                "javascript:",
                "@import",
                "url(",
                "import(",
            ];
            for word in banned {
                assert!(!content.contains(word), "{address}: {word}");
            }
            if kind == HTML {
                for word in ["<style", " style=", " onclick=", " onload=", "<script>", "<iframe"] {
                    assert!(!content.contains(word), "{address}: {word}");
                }
            }
        }
    }
}
