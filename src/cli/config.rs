//! `raindrop config`: check and print.

use std::fmt::Write;

use super::{Failure, output};
use crate::server::config::Config;

pub(super) fn run(config: &Config) -> Result<(), Failure> {
    let mut text = String::new();
    let longest = config.effective().iter().map(|setting| setting.key.len()).max().unwrap_or(0);
    for setting in config.effective() {
        let value = if setting.value.is_empty() { "(unset)" } else { &setting.value };
        writeln!(text, "{:longest$} = {value}  ({})", setting.key, setting.source)
            .expect("a string takes any text");
    }
    Ok(output::print(&text)?)
}
