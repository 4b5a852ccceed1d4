//! The region: drawn, changed and resized at random, with text above that must stay.

use kubectl_ds::render::region::{Line, Region, Size};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::terminal::Terminal;

/// What happens to a region.
#[derive(Debug, Clone)]
enum Step {
    Draw(Vec<Line>),
    Resize(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let line = prop_oneof![
        "[a-z ]{0,90}",
        "[a-z日本語é■▲ ]{0,50}",
        "\u{1b}\\[31m[a-z]{0,90}\u{1b}\\[39m[a-z]{0,20}",
        Just("text \u{1b}[5A\u{1b}[2J\u{1b}]0;title\u{7} steers".to_owned()),
    ];
    // A line that stays whole has no spaces at its end, and takes up to nine rows.
    let line = (line, prop::bool::weighted(0.2)).prop_map(|(text, is_whole)| Line { text, is_whole });
    let step = prop_oneof![
        3 => vec(line, 0..5).prop_map(Step::Draw),
        1 => (30_usize..100, 24_usize..40).prop_map(|(columns, rows)| Step::Resize(columns, rows)),
    ];
    vec(step, 1..30)
}

proptest! {
    #[test]
    fn what_is_drawn_is_shown_once_and_what_was_above_stays(above in 40_usize..60, steps in steps()) {
        let mut size = Size { columns: 80, rows: 30 };
        let mut terminal = Terminal::new(size.columns, size.rows);
        let above: Vec<String> = (0..above).map(|number| format!("above {number}")).collect();
        for line in &above {
            terminal.write(format!("{line}\r\n").as_bytes());
        }
        let mut region = Region::default();
        let mut last = Vec::new();
        for step in steps.iter().chain([&Step::Draw(vec!["the end".into()])]) {
            match step {
                Step::Draw(lines) => last.clone_from(lines),
                Step::Resize(columns, rows) => {
                    size = Size { columns: *columns, rows: *rows };
                    terminal.resize(*columns, *rows);
                }
            }
            let mut frame = Vec::new();
            region.draw(&last, size, &mut frame).unwrap();
            terminal.write(&frame);
            let shown = terminal.lines();
            prop_assert!(shown.len() <= above.len() + last.len(), "copies:\n{shown:#?}");
            prop_assert_eq!(&shown[..above.len().min(shown.len())], &above[..]);
            let of_commands: usize = last.iter().map(|line| line.rows(size.columns) - 1).sum();
            prop_assert!(terminal.rows().len() <= shown.len() + of_commands, "a line of the region was wrapped");
        }
        prop_assert_eq!(terminal.lines().pop(), Some("the end".to_owned()));
        let mut frame = Vec::new();
        region.clear(size, &mut frame).unwrap();
        terminal.write(&frame);
        prop_assert_eq!(terminal.lines(), above);
    }
}

#[test]
fn a_region_taller_than_the_terminal_is_cut_and_scrolls_nothing() {
    let mut terminal = Terminal::new(40, 5);
    terminal.write(b"above\r\n");
    let mut region = Region::default();
    for round in 0..20 {
        let lines: Vec<Line> = (0..100).map(|line| format!("{line} in round {round}").into()).collect();
        let mut frame = Vec::new();
        region.draw(&lines, Size { columns: 40, rows: 5 }, &mut frame).unwrap();
        terminal.write(&frame);
    }
    let expected = ["above", "0 in round 19", "1 in round 19", "2 in round 19", "3 in round 19"];
    assert_eq!(terminal.rows(), expected);
}

#[test]
fn a_terminal_without_rows_or_columns_is_survived() {
    let mut region = Region::default();
    for (columns, rows) in [(80, 24), (1, 1), (0, 0), (80, 1), (1, 24), (80, 24)] {
        region.draw(&["日本 text".into()], Size { columns, rows }, &mut Vec::new()).unwrap();
    }
}
