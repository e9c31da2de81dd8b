//! `raindrop token`: creates a token.

use std::io::{self, Write};

use clap::builder::PossibleValuesParser;
use rand::{TryRng, rngs::SysRng};

use super::{
    arguments::{self, code},
    failure::Failure,
    output,
};
use crate::{
    auth::{EXPIRY_FORM, Permission, TokenHash, is_code_or_beginning, read_expiry},
    config::TOKEN_PREFIX,
    core::code::CODE_PATTERN,
};

#[derive(Debug, clap::Args)]
pub(super) struct TokenArguments {
    /// The token's name, for people and logs.
    #[arg(value_parser = code)]
    name: String,
    /// The namespaces that it may use, comma-separated; all by default, none when empty.
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', value_parser = namespace)]
    namespaces: Option<Vec<String>>,
    /// The codes that it may use, such as order or invoice:*, comma-separated; all by default,
    /// none when empty.
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = codes)]
    codes: Option<Vec<String>>,
    #[arg(long, value_name = "PERMISSION", value_delimiter = ',', value_parser = permissions(), help = permissions_help())]
    permissions: Option<Vec<String>>,
    /// When it expires, such as 2027-01-31T00:00:00Z or 2027-01-31; never by default.
    #[arg(long, value_name = "INSTANT", value_parser = expiry)]
    expires: Option<String>,
}

fn namespace(text: &str) -> Result<String, String> {
    if text.is_empty() { Ok(String::new()) } else { arguments::namespace(text) }
}

fn codes(text: &str) -> Result<String, String> {
    let is_valid = text.is_empty() || is_code_or_beginning(text);
    is_valid.then(|| text.to_owned()).ok_or_else(|| {
        format!("must match {CODE_PATTERN}, with a * at the end for all codes that begin so")
    })
}

fn permissions() -> PossibleValuesParser {
    Permission::ALL.map(Permission::name).into()
}

fn permissions_help() -> String {
    let by_default = Permission::ALL.into_iter().filter(|it| it.is_granted_by_default());
    let by_default: Vec<_> = by_default.map(Permission::name).collect();
    format!("What it permits, comma-separated; {} by default", by_default.join(" and "))
}

fn expiry(text: &str) -> Result<String, String> {
    let is_valid = read_expiry(text).is_some();
    is_valid.then(|| text.to_owned()).ok_or_else(|| format!("must be {EXPIRY_FORM}"))
}

/// Returns random bytes of the operating system.
pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N], Failure> {
    let mut random = [0; N];
    SysRng
        .try_fill_bytes(&mut random)
        .map_err(|error| Failure::Failed(format!("no random numbers: {error}")))?;
    Ok(random)
}

pub(super) fn run(arguments: &TokenArguments) -> Result<(), Failure> {
    output::require_stdout()?;
    let digits: String = random_bytes::<32>()?.iter().map(|byte| format!("{byte:02x}")).collect();
    let token = format!("{TOKEN_PREFIX}{digits}");
    output::print(&entry(arguments, TokenHash::of(token.as_bytes())))?;
    Ok(writeln!(io::stderr(), "{token}")?)
}

fn entry(arguments: &TokenArguments, hash: TokenHash) -> String {
    let mut entry = format!("[[token]]\nname = {:?}\nhash = \"{hash}\"\n", arguments.name);
    if let Some(expires) = &arguments.expires {
        entry += &format!("expires = {expires:?}\n");
    }
    for (field, list) in [
        ("permissions", &arguments.permissions),
        ("namespaces", &arguments.namespaces),
        ("codes", &arguments.codes),
    ] {
        if let Some(list) = list {
            let list: Vec<_> = list.iter().filter(|item| !item.is_empty()).collect();
            entry += &format!("{field} = {list:?}\n");
        }
    }
    entry + "\n"
}
