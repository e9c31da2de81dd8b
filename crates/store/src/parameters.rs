//! The parameters of a store's address: takes out those that choose TLS, and refuses unknown ones.
//!
//! A driver ignores parameters that it does not know, so `?sslMode=REQUIRED` would connect without
//! TLS. One driver also logs such parameters with their values.

#[cfg(test)]
mod tests;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{Result, StoreSettings, TlsMode};

/// Parameters that name files. Drivers read these for each connection.
const FILES: [&str; 5] = ["kubeconfig", "ssl-cert", "ssl-key", "sslcert", "sslkey"];

/// The parameters of one engine's addresses.
#[derive(Debug)]
pub(super) struct Parameters {
    /// The parameters that the driver reads.
    pub(super) passed: &'static [&'static str],
    /// The names of the parameter that chooses the TLS mode, the preferred one first.
    pub(super) mode: &'static [&'static str],
    /// The values of that parameter in lower case, and their modes.
    pub(super) modes: &'static [(&'static str, TlsMode)],
    /// The names of the parameter for the file of authorities.
    pub(super) ca_file: &'static [&'static str],
}

impl Parameters {
    /// Returns the parameters of an engine whose addresses do not choose TLS.
    #[cfg(any(feature = "kubernetes", feature = "redis", feature = "sqlite"))]
    pub(super) const fn without_tls(passed: &'static [&'static str]) -> Self {
        Self { passed, mode: &[], modes: &[], ca_file: &[] }
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.mode, self.ca_file, self.passed].into_iter().flatten().copied()
    }

    /// Explains why there is no parameter of this name.
    fn unknown(&self, name: &str) -> String {
        let letters = |name: &str| name.replace(['-', '_', '.'], "").to_lowercase();
        let given = letters(name);
        if let Some(right) = self.names().find(|known| letters(known) == given) {
            return format!("the parameter {name} is misspelled: it must be {right}");
        }
        let known: Vec<_> = self.names().collect();
        let about_tls = match (given.contains("ssl") || given.contains("tls"), self.mode.first()) {
            (false, _) => String::new(),
            (true, None) => "; store.tls and store.tls_ca_file choose TLS".to_owned(),
            (true, Some(mode)) => {
                format!("; store.tls and store.tls_ca_file choose TLS, or {mode}")
            }
        };
        let known = match &known[..] {
            [] => "there are none".to_owned(),
            known => format!("known are {}", known.join(", ")),
        };
        format!("it has no parameter {name}{about_tls}; {known}")
    }
}

/// Where and how to connect.
#[derive(Debug)]
pub(super) struct Target {
    /// The address with the parameters that the driver reads.
    pub(super) url: String,
    /// The TLS mode, if the address or a setting chooses one.
    pub(super) tls: Option<TlsMode>,
    /// A file of trusted authorities.
    pub(super) ca_file: Option<PathBuf>,
}

/// Checks the parameters of the address and the settings of TLS, and combines them.
pub(super) fn read(settings: &StoreSettings, parameters: &Parameters) -> Result<Target> {
    let target = split(settings, parameters).and_then(|target| {
        match &target.ca_file {
            Some(_) if target.tls != Some(TlsMode::Verify) => {
                Err("a file of authorities needs store.tls = \"verify\", which alone reads it"
                    .to_owned())
            }
            // Read here, so that a missing file ends the start instead of failing every connection.
            Some(file) => match regular(file).and_then(|()| fs::read_to_string(file)) {
                // Drivers would skip an authority after a byte-order mark without an error.
                Ok(text) if text.starts_with('\u{feff}') => Err(format!(
                    "{} begins with a byte-order mark: save it without one",
                    file.display()
                )),
                Ok(text) if text.contains("-----BEGIN CERTIFICATE-----") => Ok(target),
                Ok(_) => Err(format!("{} contains no certificate in PEM", file.display())),
                Err(error) => Err(format!("{}: {error}", file.display())),
            },
            None => Ok(target),
        }
    });
    target.map_err(|reason| settings.unusable(reason))
}

/// Refuses a path that exists and is no regular file. A driver that reads a FIFO waits forever, and
/// blocks a thread.
fn regular(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            Err(io::Error::other("must be a regular file: it is read again for each connection"))
        }
        // The driver reports a missing file, or the value is not a path but the content itself.
        _ => Ok(()),
    }
}

fn split(settings: &StoreSettings, parameters: &Parameters) -> Result<Target, String> {
    let (mut tls, mut ca_file) = (settings.tls, settings.tls_ca_file.clone());
    let url = settings.url.secret();
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    // SQLite reads a `#` as a part of the file's name.
    let may_have_hash = address.starts_with("sqlite:");
    if query.contains('#') || (address.contains('#') && !may_have_hash) {
        return Err("it has a fragment (#…), which is not read; a # is written as %23".to_owned());
    }
    if address.contains('&') && !may_have_hash {
        return Err(
            "its parameters begin with ?, not with &; in a name, & is written as %26".to_owned()
        );
    }
    if let Some(other) = query.chars().find(|letter| matches!(letter, '?' | ';')) {
        let code = u32::from(other);
        return Err(format!(
            "its parameters are separated by & alone; in a value, {other} is written as %{code:X}"
        ));
    }
    let mut passed = Vec::new();
    let mut seen = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let Some((name, value)) = form_urlencoded::parse(part.as_bytes()).next() else { continue };
        let is_shown = settings.url.to_string().contains(&format!("{name}="));
        if parameters.mode.contains(&&*name) {
            let known = value.to_lowercase();
            let found = parameters.modes.iter().find(|(text, _)| *text == known);
            let Some((_, mode)) = found else {
                let allowed: Vec<_> = parameters.modes.iter().map(|(text, _)| *text).collect();
                return Err(format!("{name}={value}: must be {}", allowed.join(", ")));
            };
            agree("store.tls", &name, &mut tls, *mode)?;
        } else if parameters.ca_file.contains(&&*name) {
            agree("store.tls_ca_file", &name, &mut ca_file, PathBuf::from(&*value))?;
        } else if parameters.passed.contains(&&*name) || is_option(&name, parameters) {
            if FILES.contains(&&*name) {
                let path = Path::new(&*value);
                regular(path).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            passed.push(part);
        } else if is_shown {
            return Err(parameters.unknown(&name));
        } else {
            return Err(
                "one of its parameters is unknown, and not shown because it may be a part \
                        of a password, in which ? is written as %3F and & as %26"
                    .to_owned(),
            );
        }
        // Drivers differ in which of two values they use.
        if seen.contains(&name) {
            return Err(format!("the parameter {name} is given twice"));
        }
        seen.push(name);
    }
    let url = match passed.join("&") {
        passed if passed.is_empty() => address.to_owned(),
        passed => format!("{address}?{passed}"),
    };
    // Unless a setting says otherwise, `rediss` means verified TLS.
    let tls = tls.or(address.starts_with("rediss").then_some(TlsMode::Verify));
    Ok(Target { url, tls, ca_file })
}

/// Returns whether it is one of PostgreSQL's `options[name]`.
fn is_option(name: &str, parameters: &Parameters) -> bool {
    parameters.passed.contains(&"options") && name.starts_with("options[") && name.ends_with(']')
}

/// Sets a value that a parameter gives, unless the setting has another one already.
fn agree<T: PartialEq>(
    key: &str,
    name: &str,
    setting: &mut Option<T>,
    value: T,
) -> Result<(), String> {
    match setting.replace(value) {
        Some(other) if Some(&other) != setting.as_ref() => Err(format!(
            "its parameter {name} contradicts {key} or another parameter: give one of them"
        )),
        _ => Ok(()),
    }
}
