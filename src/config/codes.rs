//! The configured codes: bound to a namespace, or with a prefix.

use std::{collections::HashMap, sync::Arc};

use crate::core::{code::series_of_name, encoding::Encoding, namespace::DEFAULT_NAMESPACE};

/// Why an operator cannot manage a series while the service runs.
pub const SERIES_IS_CONFIGURED: &str = "is a series, which only a [[code]] entry of the \
     configuration creates: a node that does not know it yet would refuse its members, or create \
     them with other settings";

/// A configured code, or a series of codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeConfig {
    /// The code, or the name of the series.
    pub name: String,
    /// The only namespace that issues for the code.
    pub namespace: String,
    /// The text before the IDs of the code.
    pub prefix: Option<Arc<str>>,
    /// How its IDs are written where a request does not say it.
    pub encoding: Encoding,
}

/// The configured codes. Any other code may be used in every namespace and has no prefix.
#[derive(Clone, Debug, Default)]
pub struct Codes {
    by_name: HashMap<String, CodeConfig>,
    /// Series by their common beginning, such as `invoice` of `invoice:*`.
    series: HashMap<String, CodeConfig>,
    /// Codes and series with a prefix, the longest prefix first.
    by_prefix: Vec<CodeConfig>,
}

/// A code was requested in another namespace than its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("code {code:?} belongs to namespace {own:?}, not to {requested:?}")]
pub struct WrongNamespace {
    code: String,
    own: String,
    requested: String,
}

impl WrongNamespace {
    /// Returns the only namespace that issues for the code.
    pub fn own(&self) -> &str {
        &self.own
    }
}

impl Codes {
    /// Creates the table of these codes, whose names are distinct.
    pub fn new(codes: impl IntoIterator<Item = CodeConfig>) -> Self {
        let by_name: HashMap<String, CodeConfig> =
            codes.into_iter().map(|code| (code.name.clone(), code)).collect();
        let mut by_prefix: Vec<CodeConfig> =
            by_name.values().filter(|code| code.prefix.is_some()).cloned().collect();
        by_prefix.sort_by_key(|code| std::cmp::Reverse(code.prefix.as_ref().map(|p| p.len())));
        let series = by_name.values();
        let series = series.filter_map(|code| Some((series_of_name(&code.name)?, code)));
        let series = series.map(|(series, code)| (series.to_owned(), code.clone())).collect();
        Self { by_name, series, by_prefix }
    }

    /// Returns the entry of a code: its own, or that of the series with whose beginning it begins. A
    /// code that cannot be a member of that series belongs to its namespace, too, so that a misspelt
    /// one gets no ID of another namespace.
    fn of(&self, code: &str) -> Option<&CodeConfig> {
        let own = self.by_name.get(code);
        if own.is_some() || self.series.is_empty() {
            return own;
        }
        code.rmatch_indices(':').find_map(|(end, _)| self.series.get(&code[..end]))
    }

    /// Returns the namespace that issues for a code, and how its IDs are written.
    ///
    /// # Errors
    ///
    /// When the code is bound to another namespace than the requested one.
    pub fn locate<'a: 'b, 'b>(
        &'a self,
        code: &str,
        requested: Option<&'b str>,
    ) -> Result<LocatedCode<'b>, WrongNamespace> {
        let Some(code) = self.of(code) else {
            let namespace = requested.unwrap_or(DEFAULT_NAMESPACE);
            return Ok(LocatedCode { namespace, prefix: None, encoding: Encoding::default() });
        };
        Ok(LocatedCode {
            namespace: code.namespace_for(requested)?,
            prefix: code.prefix.as_deref(),
            encoding: code.encoding,
        })
    }

    /// Splits an ID's text into the longest configured prefix that it begins with and the rest, and
    /// returns the namespace of the prefix. Prefixes of namespaces that the caller may not use
    /// count as unknown, so that a client cannot probe for them.
    ///
    /// # Errors
    ///
    /// When the prefix belongs to another namespace than the requested one.
    pub fn locate_text<'a>(
        &'a self,
        text: &'a str,
        requested: Option<&'a str>,
        may_use: impl Fn(&str) -> bool,
    ) -> Result<LocatedText<'a>, WrongNamespace> {
        for code in self.by_prefix.iter().filter(|code| may_use(&code.namespace)) {
            let prefix = code.prefix.as_deref().unwrap_or_default();
            if let Some(text) = text.strip_prefix(prefix) {
                return Ok(LocatedText { namespace: code.namespace_for(requested)?, prefix, text });
            }
        }
        Ok(LocatedText { namespace: requested.unwrap_or(DEFAULT_NAMESPACE), prefix: "", text })
    }
}

/// The namespace that issues the IDs of a code, and their text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocatedCode<'a> {
    /// The namespace that issues the IDs.
    pub namespace: &'a str,
    /// The text before each ID.
    pub prefix: Option<&'a str>,
    /// The encoding of the IDs if a request names none.
    pub encoding: Encoding,
}

/// The text of an ID, split into the prefix of its code and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocatedText<'a> {
    /// The namespace of the ID.
    pub namespace: &'a str,
    /// The removed prefix; empty when there was none.
    pub prefix: &'a str,
    /// The rest, in any encoding.
    pub text: &'a str,
}

impl CodeConfig {
    /// Returns the namespace of the ID.
    ///
    /// # Errors
    ///
    /// When the request names another namespace.
    fn namespace_for(&self, requested: Option<&str>) -> Result<&str, WrongNamespace> {
        match requested {
            Some(requested) if requested != self.namespace => Err(WrongNamespace {
                code: self.name.clone(),
                own: self.namespace.clone(),
                requested: requested.to_owned(),
            }),
            _ => Ok(&self.namespace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(name: &str, prefix: &str) -> CodeConfig {
        CodeConfig {
            name: name.into(),
            namespace: "n".into(),
            prefix: Some(prefix.into()),
            encoding: Encoding::Uuid7,
        }
    }

    #[test]
    fn a_bound_code_needs_no_namespace_and_refuses_others() {
        let codes = Codes::new([code("a", "A-")]);
        let own = Ok(LocatedCode { namespace: "n", prefix: Some("A-"), encoding: Encoding::Uuid7 });
        assert_eq!(codes.locate("a", None), own);
        assert_eq!(codes.locate("a", Some("n")), own);
        let refused = codes.locate("a", Some("m")).expect_err("another").to_string();
        assert_eq!(refused, r#"code "a" belongs to namespace "n", not to "m""#);
        let plain =
            |namespace| Ok(LocatedCode { namespace, prefix: None, encoding: Encoding::Decimal });
        assert_eq!(codes.locate("b", None), plain(DEFAULT_NAMESPACE));
        assert_eq!(codes.locate("b", Some("m")), plain("m"));
        assert_eq!(Codes::default().locate("a", None), plain(DEFAULT_NAMESPACE));
    }

    #[test]
    fn codes_that_begin_like_a_series_belong_to_its_namespace() {
        let own = CodeConfig { namespace: "m".into(), ..code("a:own", "B-") };
        let deep = CodeConfig { namespace: "d".into(), ..code("a:b:*", "C-") };
        let codes = Codes::new([code("a:*", "A-"), own, deep]);
        for (code, namespace) in [
            ("a:x", "n"),
            ("a:not-a-member", "n"),
            ("a:b:x", "d"),
            ("a:c:x", "n"),
            ("a:own", "m"),
            ("a", DEFAULT_NAMESPACE),
            ("b:x", DEFAULT_NAMESPACE),
        ] {
            let located = codes.locate(code, None);
            assert_eq!(located.map(|located| located.namespace), Ok(namespace), "{code}");
        }
        let located = codes.locate("a:x", Some("n")).expect("its own");
        assert_eq!((located.prefix, located.encoding), (Some("A-"), Encoding::Uuid7));
        let refused = codes.locate("a:x", Some("m")).expect_err("another").to_string();
        assert_eq!(refused, r#"code "a:*" belongs to namespace "n", not to "m""#);
        let located = codes.locate_text("A-1", None, |_| true);
        assert_eq!(located.map(|located| located.prefix), Ok("A-"));
    }

    #[test]
    fn the_longest_prefix_wins() {
        let codes = Codes::new([code("a", "A-"), code("b", "A-B-"), code("c", "C-")]);
        for (text, prefix, rest) in [
            ("A-1", "A-", "1"),
            ("A-B-1", "A-B-", "1"),
            ("C-", "C-", ""),
            ("1", "", "1"),
            ("a-1", "", "a-1"),
        ] {
            let namespace = if prefix.is_empty() { DEFAULT_NAMESPACE } else { "n" };
            let located = LocatedText { namespace, prefix, text: rest };
            assert_eq!(codes.locate_text(text, None, |_| true), Ok(located));
        }
        assert!(codes.locate_text("A-1", Some("m"), |_| true).is_err());
        let located = codes.locate_text("1", Some("m"), |_| true);
        assert_eq!(located.map(|located| located.namespace), Ok("m"));
    }

    #[test]
    fn prefixes_of_forbidden_namespaces_count_as_unknown() {
        let inner = CodeConfig { namespace: "m".into(), ..code("b", "A-B-") };
        let codes = Codes::new([code("a", "A-"), inner]);
        let locate = |text, requested| codes.locate_text(text, requested, |name| name != "m");
        let unknown = |text| Ok(LocatedText { namespace: DEFAULT_NAMESPACE, prefix: "", text });
        let shorter = LocatedText { namespace: "n", prefix: "A-", text: "B-1" };
        assert_eq!(locate("A-B-1", None), Ok(shorter));
        let codes = Codes::new([code("b", "A-B-")]);
        assert_eq!(codes.locate_text("A-B-1", None, |name| name != "n"), unknown("A-B-1"));
        let requested = codes.locate_text("A-B-1", Some("m"), |name| name != "n");
        assert_eq!(
            requested.map(|located| located.text),
            Ok("A-B-1"),
            "no error names the namespace"
        );
    }
}
