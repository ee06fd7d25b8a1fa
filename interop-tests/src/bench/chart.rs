//! A few figures as a picture: grouped bars, or lines over sizes. Pure: data in, SVG out.
//!
//! Colours follow the reader's light or dark scheme; flock's is the one that stands out.

use serde::{Deserialize, Serialize};

use super::table::short;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 64.0;
const BAR: f64 = 16.0;
const GROUP_GAP: f64 = 14.0;
const PLOT_HEIGHT: f64 = 220.0;
const STYLE: &str = "text{font:12px sans-serif;fill:#333}.t{font-size:15px;font-weight:bold}\
.f0{fill:#1769aa}.s0{stroke:#1769aa}.f1{fill:#9aa5b1}.s1{stroke:#9aa5b1}.f2{fill:#c9a227}.s2{stroke:#c9a227}\
.f3{fill:#7a9e7e}.s3{stroke:#7a9e7e}.f4{fill:#b5767d}.s4{stroke:#b5767d}.g{stroke:#8884}\
path{fill:none;stroke-width:2}@media(prefers-color-scheme:dark){text{fill:#ddd}.f0{fill:#5ab0f2}.s0{stroke:#5ab0f2}}";

/// How it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A bar for each point, from zero.
    Bars,
    /// Bars on a logarithmic scale, for what differs by factors of ten.
    LogBars,
    /// A line for each series, from zero.
    Lines,
}

/// A contestant's points: where, and how much.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Series {
    /// Whose.
    pub label: String,
    /// In the order of the picture.
    pub points: Vec<(String, f64)>,
}

/// A picture.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Chart {
    /// Of the file.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What the figures are in.
    pub unit: String,
    /// How.
    pub kind: Kind,
    /// flock's first.
    pub series: Vec<Series>,
}

impl Chart {
    /// An empty picture.
    pub fn new(name: &str, title: &str, unit: &str, kind: Kind) -> Self {
        let [name, title, unit] = [name, title, unit].map(str::to_owned);
        Self { name, title, unit, kind, series: Vec::new() }
    }

    /// Adds somebody's points; those without a figure are left out.
    pub fn with(mut self, label: &str, points: Vec<(String, Option<f64>)>) -> Self {
        let known = points.into_iter().filter_map(|(at, figure)| Some((at, figure?)));
        self.series.push(Series { label: label.to_owned(), points: known.collect() });
        self
    }

    /// The picture.
    pub fn svg(&self) -> String {
        let (body, height) = match self.kind {
            Kind::Bars | Kind::LogBars => self.bars(),
            Kind::Lines => self.lines(),
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
             aria-label=\"{title}\"><style>{STYLE}</style>\n<text class=\"t\" x=\"12\" y=\"22\">{title}</text>\n\
             {legend}{body}</svg>\n",
            title = escaped(&self.title),
            legend = self.legend(),
        )
    }

    fn legend(&self) -> String {
        let mut x = 12.0;
        let mut text = String::new();
        for (index, series) in self.series.iter().enumerate() {
            let label = escaped(&series.label);
            text.push_str(&format!(
                "<rect class=\"f{index}\" x=\"{x:.0}\" y=\"34\" width=\"11\" height=\"11\"/>\
                 <text x=\"{:.0}\" y=\"44\">{label}</text>\n",
                x + 16.0
            ));
            x += 34.0 + 7.0 * series.label.chars().count() as f64;
        }
        text
    }

    fn categories(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for (at, _) in self.series.iter().flat_map(|series| &series.points) {
            if !all.contains(&at.as_str()) {
                all.push(at);
            }
        }
        all
    }

    fn extremes(&self) -> (f64, f64) {
        let figures = || self.series.iter().flat_map(|series| &series.points).map(|(_, at)| *at);
        let positive = figures().filter(|at| *at > 0.0);
        (positive.fold(f64::INFINITY, f64::min), figures().fold(0.0, f64::max))
    }

    /// How far along a bar reaches, between 0 and 1.
    fn share(&self, figure: f64) -> f64 {
        let (least, most) = self.extremes();
        let share = match self.kind {
            Kind::LogBars if figure > 0.0 => {
                // The shortest is still to be seen.
                let floor = (least / 3.0).log10();
                (figure.log10() - floor) / (most.log10() - floor)
            }
            _ => figure / most,
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    fn bars(&self) -> (String, f64) {
        let mut y = TOP;
        let mut text = String::new();
        for category in self.categories() {
            text.push_str(&format!(
                "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\n",
                LEFT - 8.0,
                y + 12.5,
                escaped(category)
            ));
            for (index, series) in self.series.iter().enumerate() {
                let Some((_, figure)) = series.points.iter().find(|(at, _)| at == category) else {
                    continue;
                };
                let long = (WIDTH - LEFT - RIGHT) * self.share(*figure);
                text.push_str(&format!(
                    "<rect class=\"f{index}\" x=\"{LEFT}\" y=\"{y:.0}\" width=\"{long:.1}\" height=\"{:.0}\"/>\
                     <text x=\"{:.1}\" y=\"{:.1}\">{} {}</text>\n",
                    BAR - 3.0,
                    LEFT + long + 6.0,
                    y + 11.0,
                    short(*figure),
                    escaped(&self.unit)
                ));
                y += BAR;
            }
            y += GROUP_GAP;
        }
        let scale = match self.kind {
            Kind::LogBars => "logarithmic scale",
            _ => "",
        };
        text.push_str(&format!(
            "<text x=\"{:.0}\" y=\"44\" text-anchor=\"end\">{scale}</text>\n",
            WIDTH - 12.0
        ));
        (text, y)
    }

    fn lines(&self) -> (String, f64) {
        let categories = self.categories();
        let step = (WIDTH - LEFT - RIGHT) / (categories.len().saturating_sub(1).max(1)) as f64;
        let x = |at: &str| {
            let index = categories.iter().position(|category| *category == at).unwrap_or(0);
            LEFT + step * index as f64
        };
        let y = |figure: f64| TOP + PLOT_HEIGHT * (1.0 - self.share(figure));
        let base = TOP + PLOT_HEIGHT;
        let mut text = format!(
            "<path class=\"g\" d=\"M{LEFT} {base}H{}\"/>\n<text x=\"{}\" y=\"{}\" text-anchor=\"end\">0</text>\n",
            WIDTH - RIGHT,
            LEFT - 8.0,
            base + 4.0
        );
        for category in &categories {
            text.push_str(&format!(
                "<text x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>\n",
                x(category),
                base + 20.0,
                escaped(category)
            ));
        }
        for (index, series) in self.series.iter().enumerate() {
            let mut path = String::new();
            for (at, figure) in &series.points {
                let verb = if path.is_empty() { 'M' } else { 'L' };
                path.push_str(&format!("{verb}{:.1} {:.1}", x(at), y(*figure)));
            }
            text.push_str(&format!("<path class=\"s{index}\" d=\"{path}\"/>\n"));
            if let Some((at, figure)) = series.points.last() {
                text.push_str(&format!(
                    "<text x=\"{:.1}\" y=\"{:.1}\">{} {}</text>\n",
                    x(at) + 8.0,
                    y(*figure) + 4.0,
                    short(*figure),
                    escaped(&self.unit)
                ));
            }
        }
        (text, base + 34.0)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(kind: Kind) -> Chart {
        let points = |figures: [f64; 2]| {
            ["a <b>", "c"].map(str::to_owned).into_iter().zip(figures.map(Some)).collect()
        };
        Chart::new("x", "flock & others", "ms", kind)
            .with("flock", points([1.0, 2.0]))
            .with("BIRD", points([100.0, 50.0]))
    }

    #[test]
    fn every_figure_has_its_mark() {
        let bars = chart(Kind::Bars).svg();
        assert_eq!(bars.matches("height=\"13\"").count(), 4, "{bars}");
        assert!(bars.contains("flock &amp; others") && bars.contains("a &lt;b&gt;"));
        let lines = chart(Kind::Lines).svg();
        assert_eq!(lines.matches("<path class=\"s").count(), 2);
    }

    #[test]
    fn the_largest_reaches_to_the_end_and_small_ones_are_seen() {
        let linear = chart(Kind::Bars);
        assert_eq!((linear.share(100.0), linear.share(50.0)), (1.0, 0.5));
        let logarithmic = chart(Kind::LogBars);
        assert_eq!(logarithmic.share(100.0), 1.0);
        assert!(logarithmic.share(1.0) > 0.15 && logarithmic.share(1.0) < 0.3);
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let empty = Chart::new("x", "y", "z", Kind::Lines).with("flock", vec![("a".into(), None)]);
        assert!(empty.svg().ends_with("</svg>\n"));
    }
}
