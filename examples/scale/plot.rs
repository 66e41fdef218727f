//! Plots as SVG: greys and colours that can be read on white and on black, and no background.

const INK: &str = "#7d8590";
const COLOURS: [&str; 4] = ["#d2691e", "#2e86c1", "#2e9e6b", "#9b59b6"];
const WIDTH: f64 = 720.0;

/// A line of a plot.
pub struct Line {
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
}

/// The place of the plot itself.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 680.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 290.0;

fn svg(title: &str, height: f64, inside: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"{INK}\">\n\
         <title>{title}</title>\n{}{inside}</svg>\n",
        text(10.0, 20.0, "start", title)
    )
}

fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\">{text}</text>\n")
}

fn stroke(x1: f64, y1: f64, x2: f64, y2: f64, more: &str) -> String {
    format!("<line x1=\"{x1:.0}\" y1=\"{y1:.0}\" x2=\"{x2:.0}\" y2=\"{y2:.0}\" stroke=\"{INK}\" {more}/>\n")
}

/// Bars of two parts, one below the other.
pub fn bars(title: &str, parts: [&str; 2], bars: &[(&str, f64, f64)]) -> String {
    let (left, right, each) = (260.0, 650.0, 28.0);
    let most = bars.iter().map(|(_, first, second)| first + second).fold(0.0, f64::max);
    let mut inside = String::new();
    for (index, part) in parts.iter().enumerate() {
        let x = left + 110.0 * index as f64;
        inside += &format!("<rect x=\"{x:.0}\" y=\"32\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", COLOURS[index]);
        inside += &text(x + 18.0, 42.0, "start", part);
    }
    let mut y = 56.0;
    for (name, first, second) in bars {
        inside += &text(left - 8.0, y + 14.0, "end", name);
        let mut x = left;
        for (index, part) in [first, second].into_iter().enumerate() {
            let width = part / most * (right - left);
            let colour = COLOURS[index];
            inside +=
                &format!("<rect x=\"{x:.1}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"18\" fill=\"{colour}\"/>\n");
            x += width;
        }
        inside += &text(x + 6.0, y + 14.0, "start", &format!("${:.2}", first + second));
        y += each;
    }
    svg(title, y + 10.0, &inside)
}

/// Lines over powers of ten, with a bound.
pub fn log_lines(title: &str, bound: f64, lines: &[Line]) -> String {
    let x = |value: f64| LEFT + (value.log10() - 2.0) / 3.0 * (RIGHT - LEFT);
    let y = |value: f64| BOTTOM - (value.max(10.0).log10() - 1.0) / 4.0 * (BOTTOM - TOP);
    let mut inside = String::new();
    for (value, name) in [(10.0, "10"), (100.0, "100"), (1e3, "1,000"), (1e4, "10,000"), (1e5, "100,000")] {
        if value >= 100.0 {
            inside += &text(x(value), BOTTOM + 18.0, "middle", name);
        }
        inside += &text(LEFT - 6.0, y(value) + 4.0, "end", name);
        inside += &stroke(LEFT, y(value), RIGHT, y(value), "stroke-opacity=\"0.3\"");
    }
    inside += &stroke(LEFT, y(bound), RIGHT, y(bound), "stroke-dasharray=\"6 4\"");
    inside += &text(LEFT + 6.0, y(bound) - 6.0, "start", "what one object can answer");
    svg(title, 320.0, &(inside + &drawn(lines, x, y)))
}

/// Lines over equal steps, from 0 up.
pub fn lines(title: &str, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let least = all().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let most = all().map(|point| point.0).fold(0.0, f64::max);
    let highest = (all().map(|point| point.1).fold(1.0, f64::max) / 10.0).ceil() * 10.0;
    let x = |value: f64| LEFT + (value - least) / (most - least) * (RIGHT - LEFT);
    let y = |value: f64| BOTTOM - value / highest * (BOTTOM - TOP);
    let mut inside = String::new();
    for step in 0..=6 {
        let value = least + (most - least) / 6.0 * f64::from(step);
        inside += &text(x(value), BOTTOM + 18.0, "middle", &format!("{value:.0}"));
    }
    for step in 0..=(highest / 10.0) as u32 {
        let value = f64::from(step) * 10.0;
        inside += &text(LEFT - 6.0, y(value) + 4.0, "end", &format!("{value:.0}"));
        inside += &stroke(LEFT, y(value), RIGHT, y(value), "stroke-opacity=\"0.3\"");
    }
    svg(title, 320.0, &(inside + &drawn(lines, x, y)))
}

/// The lines themselves, and their names.
fn drawn(lines: &[Line], x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut drawn = String::new();
    for (index, Line { name, points }) in lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let path: Vec<_> = points.iter().map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
        drawn += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
            path.join(" ")
        );
        let below = TOP + 10.0 + 18.0 * index as f64;
        drawn += &format!(
            "<rect x=\"{:.0}\" y=\"{:.0}\" width=\"12\" height=\"4\" fill=\"{colour}\"/>\n",
            LEFT + 10.0,
            below
        );
        drawn += &text(LEFT + 28.0, below + 6.0, "start", name);
    }
    drawn
}
