//! The terminal while the screen is drawn: keys one by one, no echo, a page of its own. Dropped for
//! any reason, it restores the terminal.

use std::io::{self, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

/// A page of its own, without a cursor.
const BEGIN: &str = "\x1b[?1049h\x1b[?25l";
const END: &str = "\x1b[?25h\x1b[?1049l";
/// For terminals that do not say how large they are.
const SIZE: (usize, usize) = (80, 24);

/// The terminal that is drawn on.
pub struct Terminal {
    /// How it was; `None`: keys come from somewhere else.
    before: Option<Termios>,
}

impl Terminal {
    /// Takes it over.
    ///
    /// # Errors
    /// If it cannot be written to.
    pub fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            // Without ISIG, Ctrl-Z cannot stop the process and leave the terminal like this.
            raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
            tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        }
        let terminal = Terminal { before };
        write(BEGIN)?;
        Ok(terminal)
    }

    /// The keys as they come; none if they would not come one by one.
    pub fn keys(&self) -> mpsc::UnboundedReceiver<u8> {
        let (sender, keys) = mpsc::unbounded_channel();
        if self.before.is_some() {
            // Waiting for a key cannot be interrupted: the thread ends with the process.
            std::thread::spawn(move || {
                let mut key = [0];
                while matches!(io::stdin().lock().read(&mut key), Ok(1)) && sender.send(key[0]).is_ok() {}
            });
        }
        keys
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => SIZE,
        }
    }

    /// Draws the lines, none longer than the screen is wide, from its top.
    ///
    /// # Errors
    /// If it cannot be written to.
    pub fn show(&mut self, lines: &[String]) -> io::Result<()> {
        let mut page = String::from("\x1b[H");
        for (at, line) in lines.iter().enumerate() {
            if at > 0 {
                page.push_str("\r\n");
            }
            page.push_str(line);
            // What the last page had there.
            page.push_str("\x1b[K");
        }
        page.push_str("\x1b[J");
        write(&page)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // If the terminal is gone there is nothing to restore.
        let _ = write(END);
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, before);
        }
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
