//! The `auth` section: who may send requests.

use std::path::PathBuf;

use super::reader::Reader;

/// Who may send requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthConfig {
    /// The file of tokens; `None` disables authentication.
    pub tokens_file: Option<PathBuf>,
}

/// Reads the section. The file itself is read by commands that need it: a probe of a service must
/// not fail because of it.
pub(super) fn read(reader: &mut Reader) -> AuthConfig {
    let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
    AuthConfig { tokens_file: reader.given("auth.tokens_file", "the path of a file", path) }
}
