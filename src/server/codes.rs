//! The codes that are configured: bound to a namespace, written with a prefix.

use std::{collections::HashMap, sync::Arc};

use super::state::DEFAULT_NAMESPACE;

/// A configured code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeConfig {
    /// The code.
    pub name: String,
    /// The only namespace that issues for it.
    pub namespace: String,
    /// What stands before its IDs as texts.
    pub prefix: Option<Arc<str>>,
}

/// The codes that are configured. Others need no configuration: they may be used in every
/// namespace, and have no prefix.
#[derive(Clone, Debug, Default)]
pub struct Codes {
    by_name: HashMap<String, CodeConfig>,
    /// Codes with a prefix, the longest prefix first.
    by_prefix: Vec<CodeConfig>,
}

/// A code was asked for in another namespace than its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("code {code:?} belongs to namespace {own:?}, not to {asked:?}")]
pub struct WrongNamespace {
    code: String,
    own: String,
    asked: String,
}

impl Codes {
    /// These codes, of distinct names.
    pub fn new(codes: impl IntoIterator<Item = CodeConfig>) -> Self {
        let by_name: HashMap<String, CodeConfig> =
            codes.into_iter().map(|code| (code.name.clone(), code)).collect();
        let mut by_prefix: Vec<CodeConfig> =
            by_name.values().filter(|code| code.prefix.is_some()).cloned().collect();
        by_prefix.sort_by_key(|code| std::cmp::Reverse(code.prefix.as_ref().map(|p| p.len())));
        Self { by_name, by_prefix }
    }

    /// The namespace that issues for a code, and the prefix of its IDs.
    ///
    /// # Errors
    ///
    /// When the code is bound to another namespace than the one that is asked for.
    pub fn locate<'a>(
        &'a self,
        code: &str,
        asked: Option<&'a str>,
    ) -> Result<(&'a str, Option<&'a Arc<str>>), WrongNamespace> {
        // Most services configure none, and then nothing is looked up.
        let found = if self.by_name.is_empty() { None } else { self.by_name.get(code) };
        match found {
            Some(code) => Ok((code.namespace_for(asked)?, code.prefix.as_ref())),
            None => Ok((asked.unwrap_or(DEFAULT_NAMESPACE), None)),
        }
    }

    /// The code whose prefix the text begins with, and the rest of the text: the code with the
    /// longest prefix when several fit.
    pub fn by_prefix<'a>(&self, text: &'a str) -> Option<(&CodeConfig, &'a str)> {
        self.by_prefix.iter().find_map(|code| {
            let prefix = code.prefix.as_deref()?;
            Some((code, text.strip_prefix(prefix)?))
        })
    }
}

impl CodeConfig {
    /// Its namespace, unless another one is asked for.
    ///
    /// # Errors
    ///
    /// When another one is asked for.
    pub fn namespace_for(&self, asked: Option<&str>) -> Result<&str, WrongNamespace> {
        match asked {
            Some(asked) if asked != self.namespace => Err(WrongNamespace {
                code: self.name.clone(),
                own: self.namespace.clone(),
                asked: asked.to_owned(),
            }),
            _ => Ok(&self.namespace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(name: &str, prefix: &str) -> CodeConfig {
        CodeConfig { name: name.into(), namespace: "n".into(), prefix: Some(prefix.into()) }
    }

    #[test]
    fn a_bound_code_needs_no_namespace_and_refuses_another() {
        let codes = Codes::new([code("a", "A-")]);
        let prefix: Arc<str> = "A-".into();
        assert_eq!(codes.locate("a", None), Ok(("n", Some(&prefix))));
        assert_eq!(codes.locate("a", Some("n")), Ok(("n", Some(&prefix))));
        let refused = codes.locate("a", Some("m")).expect_err("another").to_string();
        assert_eq!(refused, r#"code "a" belongs to namespace "n", not to "m""#);
        assert_eq!(codes.locate("b", None), Ok((DEFAULT_NAMESPACE, None)));
        assert_eq!(codes.locate("b", Some("m")), Ok(("m", None)));
        assert_eq!(Codes::default().locate("a", None), Ok((DEFAULT_NAMESPACE, None)));
    }

    #[test]
    fn the_longest_prefix_wins() {
        let codes = Codes::new([code("a", "A-"), code("b", "A-B-"), code("c", "C-")]);
        let found = |text| codes.by_prefix(text).map(|(code, rest)| (code.name.clone(), rest));
        assert_eq!(found("A-1"), Some(("a".into(), "1")));
        assert_eq!(found("A-B-1"), Some(("b".into(), "1")));
        assert_eq!(found("C-"), Some(("c".into(), "")));
        assert_eq!(found("1"), None);
        assert_eq!(found("a-1"), None);
    }
}
