//! docs/pictures: the README's screens as they look on a terminal, for dark and for light pages.

use anstyle_svg::{Palette, Term};

use super::must_be;
use super::readme::printed;

/// The colors of a terminal: text, page, and black, red, green, yellow, blue, magenta, cyan, white, plain and bright.
pub(super) struct Theme {
    pub name: &'static str,
    pub text: u32,
    pub page: u32,
    pub palette: [u32; 16],
}

pub(super) const THEMES: [Theme; 2] = [
    Theme {
        name: "dark",
        text: 0xe6edf3,
        page: 0x0d1117,
        palette: [
            0x484f58, 0xff7b72, 0x3fb950, 0xd29922, 0x58a6ff, 0xbc8cff, 0x39c5cf, 0xb1bac4, 0x6e7681, 0xffa198,
            0x56d364, 0xe3b341, 0x79c0ff, 0xd2a8ff, 0x56d4dd, 0xffffff,
        ],
    },
    Theme {
        name: "light",
        text: 0x1f2328,
        page: 0xffffff,
        palette: [
            0x24292f, 0xcf222e, 0x116329, 0x7d4e00, 0x0969da, 0x8250df, 0x1b7c83, 0x6e7781, 0x57606a, 0xa40e26,
            0x1a7f37, 0x633c01, 0x218bff, 0xa475f9, 0x3192aa, 0x8c959f,
        ],
    },
];

#[test]
fn the_picture_shows_what_the_program_prints() {
    let colored = printed("kubectl ds --from demo --color always");
    assert!(colored.contains("\u{1b}[31"), "red is missing: {colored:?}");
    for theme in THEMES {
        let picture = theme.terminal().render_svg(&format!("$ kubectl ds --from demo\n{}", colored.trim_end()));
        must_be(&format!("pictures/fleet-{}.svg", theme.name), &picture);
    }
}

impl Theme {
    fn terminal(&self) -> Term {
        let rgb = |color: u32| anstyle::RgbColor((color >> 16) as u8, (color >> 8) as u8, color as u8);
        Term::new()
            .fg_color(rgb(self.text).into())
            .bg_color(rgb(self.page).into())
            .min_width_px(840)
            .palette(Palette(self.palette.map(rgb)))
    }
}
