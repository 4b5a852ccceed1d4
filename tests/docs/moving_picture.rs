//! docs/pictures: a rollout that blocks and is undone, as seen by a person who follows it.
//!
//! `tests/e2e/rollouts/recording.rs` records it on the real control plane; here a terminal emulator plays it.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Deserialize;

use super::must_be;
use super::pictures::{THEMES, Theme};
use crate::support::terminal::{Span, Terminal};

/// The font of the other pictures, and the room that it takes.
const FONT: &str = "14px SFMono-Regular, Consolas, Liberation Mono, Menlo, monospace";
const LINE_HEIGHT: usize = 18;
const WIDTH: usize = 860;

/// How many milliseconds the longest wait and the shortest take, and how long a command and the end stay.
const LONGEST: u32 = 1_200;
const SHORTEST: u32 = 150;
const TO_READ: u32 = 1_500;
const AT_THE_END: u32 = 5_000;

/// What was recorded.
#[derive(Deserialize)]
struct Recording {
    /// Columns and rows.
    size: (usize, usize),
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    command: String,
    /// What was written, after so many seconds.
    output: Vec<(f64, String)>,
}

/// What is on the terminal for a time.
struct Frame {
    rows: Vec<Vec<Span>>,
    milliseconds: u32,
}

/// A row that is shown from one time to another.
struct Shown<'a> {
    spans: &'a [Span],
    row: usize,
    from: u32,
    to: u32,
}

#[test]
fn the_moving_picture_shows_what_was_recorded() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/undone-rollout.json");
    let recording: Recording = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (frames, blocked) = frames(&recording);
    let shows = |text: &str| {
        let is_in = |spans: &Vec<Span>| spans.iter().map(|span| &*span.text).collect::<String>().contains(text);
        frames.iter().any(|frame| frame.rows.iter().any(is_in))
    };
    for text in ["$ kubectl ds status", "is blocked", "$ kubectl ds undo", "is complete"] {
        assert!(shows(text), "{text:?} is not shown");
    }
    for theme in THEMES {
        must_be(&format!("pictures/rollout-{}.svg", theme.name), &picture(&frames, blocked, &theme));
    }
}

/// Plays a recording. Returns the frames, and the time of the last one of the first run.
fn frames(recording: &Recording) -> (Vec<Frame>, u32) {
    let (columns, rows) = recording.size;
    let mut frames: Vec<Frame> = Vec::new();
    let mut show = |terminal: &Terminal, milliseconds: u32| match frames.last_mut() {
        Some(last) if last.rows == terminal.styled() || last.milliseconds < SHORTEST => {
            *last = Frame { rows: terminal.styled(), milliseconds: last.milliseconds + milliseconds };
        }
        _ => frames.push(Frame { rows: terminal.styled(), milliseconds }),
    };
    for run in &recording.runs {
        let mut terminal = Terminal::new(columns, rows);
        terminal.write(format!("$ {}", run.command).as_bytes());
        show(&terminal, TO_READ);
        terminal.write(b"\r\n");
        for (index, (time, text)) in run.output.iter().enumerate() {
            terminal.write(text.as_bytes());
            let wait = run.output.get(index + 1).map_or(TO_READ, |(next, _)| ((next - time) * 1_000.0) as u32);
            show(&terminal, wait.min(if index + 1 < run.output.len() { LONGEST } else { TO_READ }));
        }
    }
    frames.last_mut().expect("a frame").milliseconds += AT_THE_END;
    let is_second = |frame: &Frame| frame.rows[0].iter().any(|span| span.text.contains(&recording.runs[1].command));
    let first = frames.iter().take_while(|frame| !is_second(frame));
    let blocked = first.map(|frame| frame.milliseconds).sum::<u32>() - 1;
    (frames, blocked)
}

/// Returns each row once for as long as it does not change.
fn shown(frames: &[Frame]) -> Vec<Shown<'_>> {
    let mut all = Vec::new();
    for row in 0..frames[0].rows.len() {
        let mut open: Option<Shown<'_>> = None;
        let mut time = 0;
        for frame in frames {
            let spans = &frame.rows[row][..];
            let end = time + frame.milliseconds;
            match &mut open {
                Some(shown) if shown.spans == spans => shown.to = end,
                _ => all.extend(open.replace(Shown { spans, row, from: time, to: end })),
            }
            time = end;
        }
        all.extend(open);
    }
    all.retain(|shown| !shown.spans.is_empty());
    all
}

/// Returns the picture. Where nothing may move, it shows this time.
fn picture(frames: &[Frame], still: u32, theme: &Theme) -> String {
    let shown = shown(frames);
    let total: u32 = frames.iter().map(|frame| frame.milliseconds).sum();
    let used = shown.iter().map(|shown| shown.row + 1).max().unwrap_or_default();
    let height = used * LINE_HEIGHT + 20;
    let mut svg = format!(
        "<svg width=\"{WIDTH}px\" height=\"{height}px\" xmlns=\"http://www.w3.org/2000/svg\">\n  <style>\n    \
         text {{ font: {FONT}; white-space: pre; fill: #{:06X} }}\n    .bold {{ font-weight: bold }}\n    \
         .dim {{ opacity: 0.7 }}\n    .inverse {{ text-decoration: underline }}\n",
        theme.text
    );
    let colors: BTreeSet<usize> = shown.iter().flat_map(|shown| shown.spans).filter_map(|span| span.color).collect();
    for color in colors {
        let _ = writeln!(svg, "    .c{color} {{ fill: #{:06X} }}", theme.palette[color]);
    }
    let times: BTreeSet<(u32, u32)> = shown.iter().map(|shown| (shown.from, shown.to)).collect();
    for (from, to) in &times {
        let percent = |time: u32| f64::from(time) * 100.0 / f64::from(total);
        let before = if *from > 0 {
            format!("0% {{ opacity: 0 }} {:.3}% {{ opacity: 1 }}", percent(*from))
        } else {
            "0% { opacity: 1 }".to_owned()
        };
        let after = if *to < total { format!(" {:.3}% {{ opacity: 0 }}", percent(*to)) } else { String::new() };
        let end = u8::from(*to == total);
        let is_still = u8::from((*from..*to).contains(&still));
        let _ = writeln!(
            svg,
            "    .t{from}-{to} {{ opacity: {is_still}; animation: t{from}-{to} {total}ms step-end infinite }}\n    \
             @keyframes t{from}-{to} {{ {before}{after} 100% {{ opacity: {end} }} }}",
        );
    }
    let _ = write!(
        svg,
        "    @media (prefers-reduced-motion: reduce) {{ text {{ animation: none !important }} }}\n  </style>\n  \
         <rect width=\"100%\" height=\"100%\" rx=\"4.5\" fill=\"#{:06X}\" />\n",
        theme.page
    );
    for Shown { spans, row, from, to } in &shown {
        let y = row * LINE_HEIGHT + 28;
        let _ = write!(svg, "  <text x=\"10\" y=\"{y}\" xml:space=\"preserve\" class=\"t{from}-{to}\">");
        for span in *spans {
            let text = span.text.replace('&', "&amp;").replace('<', "&lt;");
            let color = span.color.map(|color| format!("c{color}"));
            let flags = [(span.is_bold, "bold"), (span.is_dim, "dim"), (span.is_inverse, "inverse")];
            let flags = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, class)| class.to_owned());
            let classes: Vec<String> = color.into_iter().chain(flags).collect();
            let _ = match classes.is_empty() {
                true => write!(svg, "{text}"),
                false => write!(svg, "<tspan class=\"{}\">{text}</tspan>", classes.join(" ")),
            };
        }
        svg.push_str("</text>\n");
    }
    svg.push_str("</svg>\n");
    svg
}
