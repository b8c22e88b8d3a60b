//! What can be drawn: width, characters, colours.

use std::io::{self, IsTerminal};

use antwort_config::LoadOptions;

/// Where it cannot be known.
const WIDTH: usize = 100;
/// Narrower ones wrap.
const LEAST_WIDTH: usize = 60;
const MAX_WIDTH: usize = 400;

/// Where a picture is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terminal {
    pub width: usize,
    pub glyphs: &'static Glyphs,
    pub colors: bool,
}

/// The characters of a picture.
#[derive(Debug)]
pub(super) struct Glyphs {
    /// Nothing has come from the model yet; its headers have; it writes.
    pub waiting: char,
    pub answering: char,
    pub writing: char,
    /// A call runs.
    pub call: char,
    /// The run waits.
    pub pause: char,
    /// A part of the axis is left out.
    pub gap: char,
    /// At the end of what failed.
    pub failed: char,
    pub ellipsis: &'static str,
    pub tick: char,
    /// What was done again begins here.
    pub again: char,
}

pub(super) const BLOCKS: Glyphs = Glyphs {
    waiting: '░',
    answering: '▒',
    writing: '█',
    call: '▆',
    pause: '┄',
    gap: '⫽',
    failed: '✗',
    ellipsis: "…",
    tick: '┬',
    again: '╎',
};

pub(super) const ASCII: Glyphs = Glyphs {
    waiting: '.',
    answering: ':',
    writing: '#',
    call: '=',
    pause: '-',
    gap: '/',
    failed: 'x',
    ellipsis: "...",
    tick: '+',
    again: '!',
};

impl Terminal {
    /// That of standard output.
    pub(super) fn of_output(ascii: bool, options: &LoadOptions) -> Self {
        let variable = |name: &str| options.environment.get(name).map_or("", String::as_str);
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].map(variable).into_iter().find(|value| !value.is_empty());
        // Without a locale, as in containers, what reads the output mostly knows UTF-8.
        let is_utf8 = locale.is_none_or(|name| name.to_ascii_lowercase().replace('-', "").contains("utf8"));
        let is_terminal = io::stdout().is_terminal();
        let known = is_terminal.then(|| rustix::termios::tcgetwinsize(io::stdout()).ok()).flatten();
        let width = known.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0);
        let width = variable("COLUMNS").parse().ok().or(width).unwrap_or(WIDTH);
        Self {
            width: width.clamp(LEAST_WIDTH, MAX_WIDTH),
            glyphs: if ascii || !is_utf8 { &ASCII } else { &BLOCKS },
            colors: is_terminal && variable("NO_COLOR").is_empty() && variable("TERM") != "dumb",
        }
    }

    /// In red, for what failed.
    pub(super) fn alarm(&self, text: &str) -> String {
        if self.colors { format!("\u{1b}[31m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
