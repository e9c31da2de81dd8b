//! The variables of the environment that configure traces.
//!
//! They mean what OpenTelemetry's specification says, except that a value which cannot be used ends
//! the start: ignored, it would only show when traces are missed. The library reads those that are
//! not here, such as attributes. Secrets can be in headers, in the user info of an address and in
//! its query: errors show none of them.

use std::{borrow::Cow, time::Duration};

use axum::http::{HeaderName, HeaderValue, Uri, uri::Scheme};
use opentelemetry_sdk::trace::Sampler;

use crate::core::visible::visible;

/// The settings of the exporter.
#[derive(Debug)]
pub(super) struct Settings {
    /// Where spans are sent, with the path.
    pub(super) endpoint: String,
    /// How long an export may take.
    pub(super) timeout: Duration,
    /// Which traces are sent.
    pub(super) sampler: Sampler,
    /// The most spans that wait for an export.
    pub(super) queue: usize,
    /// The most spans of an export.
    pub(super) batch: usize,
    /// How long is between exports.
    pub(super) delay: Duration,
    /// Whether the variables name the service.
    pub(super) names_service: bool,
}

impl Settings {
    /// Reads the settings from the variables that are set and not empty. Returns `None` if they name
    /// no collector or ask for no traces; the other variables are not checked then.
    ///
    /// # Errors
    ///
    /// When a value cannot be used.
    pub(super) fn read(given: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let one_of = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| given(name).map(|value| Variable { name, value }))
        };
        let endpoint =
            one_of(["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]);
        let is_disabled =
            given("OTEL_SDK_DISABLED").is_some_and(|it| it.trim().eq_ignore_ascii_case("true"));
        let Some(endpoint) = endpoint.filter(|_| !is_disabled) else { return Ok(None) };
        let only = |name| given(name).map(|value| Variable { name, value });
        if let Some(exporter) = only("OTEL_TRACES_EXPORTER")
            && exporter.must_be_one_of(&["otlp", "none"])? == "none"
        {
            return Ok(None);
        }
        if let Some(protocol) =
            one_of(["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"])
        {
            protocol.must_be_one_of(&["http/protobuf"])?;
        }
        if let Some(compression) =
            one_of(["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"])
        {
            compression.must_be_one_of(&["none"])?;
        }
        if let Some(headers) =
            one_of(["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"])
        {
            headers.must_be_headers()?;
        }
        // Made here, because the library ignores a value in capitals or with a space.
        let sampler = only("OTEL_TRACES_SAMPLER");
        let sampler = sampler.map_or(Ok(DEFAULT_SAMPLER), |it| it.must_be_one_of(&SAMPLERS))?;
        let ratio = only("OTEL_TRACES_SAMPLER_ARG").filter(|_| sampler.ends_with("ratio"));
        let ratio = ratio.map_or(Ok(1.0), |ratio| ratio.must_be_ratio())?;
        let timeout = one_of(["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"]);
        let timeout = timeout.map_or(Ok(10_000), |it| it.must_be_from_1_to(u32::MAX))?;
        let queue = only("OTEL_BSP_MAX_QUEUE_SIZE");
        let queue = queue.map_or(Ok(2_048), |it| it.must_be_from_1_to(LARGEST_QUEUE))?;
        let batch = only("OTEL_BSP_MAX_EXPORT_BATCH_SIZE");
        let batch = batch.map_or(Ok(512), |it| it.must_be_from_1_to(LARGEST_QUEUE))?;
        // With 0, the thread that exports would never rest.
        let delay = only("OTEL_BSP_SCHEDULE_DELAY");
        let delay = delay.map_or(Ok(5_000), |it| it.must_be_from_1_to(u32::MAX))?;
        let attributes = given("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let names_service = given("OTEL_SERVICE_NAME").is_some()
            || attributes.split(',').any(|it| it.trim_start().starts_with("service.name="));
        Ok(Some(Self {
            endpoint: endpoint.must_be_endpoint()?,
            timeout: Duration::from_millis(timeout.into()),
            sampler: sampler_of(sampler, ratio),
            queue: usize::try_from(queue).unwrap_or(usize::MAX),
            batch: usize::try_from(batch).unwrap_or(usize::MAX),
            delay: Duration::from_millis(delay.into()),
            names_service,
        }))
    }
}

/// The largest queue. The library reserves memory for all of it at the start.
const LARGEST_QUEUE: u32 = 65_536;

/// The sampler that OpenTelemetry's specification has as the default.
const DEFAULT_SAMPLER: &str = "parentbased_always_on";

/// The values of `OTEL_TRACES_SAMPLER` that the library has.
const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];

/// Returns the sampler of this name, one of [`SAMPLERS`].
fn sampler_of(name: &str, ratio: f64) -> Sampler {
    let (is_based_on_parent, root) =
        name.strip_prefix("parentbased_").map_or((false, name), |root| (true, root));
    let root = match root {
        "always_off" => Sampler::AlwaysOff,
        "traceidratio" => Sampler::TraceIdRatioBased(ratio),
        _ => Sampler::AlwaysOn,
    };
    if is_based_on_parent { Sampler::ParentBased(Box::new(root)) } else { root }
}

/// A variable that is set.
struct Variable {
    name: &'static str,
    value: String,
}

impl Variable {
    fn must_be_one_of(&self, allowed: &[&'static str]) -> Result<&'static str, String> {
        let value = self.value.trim();
        let found = allowed.iter().find(|it| it.eq_ignore_ascii_case(value));
        found.copied().ok_or_else(|| self.refused(&allowed.join(" or ")))
    }

    fn must_be_ratio(&self) -> Result<f64, String> {
        let ratio = self.value.trim().parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
        ratio.ok_or_else(|| self.refused("a number from 0 to 1"))
    }

    fn must_be_from_1_to(&self, most: u32) -> Result<u32, String> {
        let number = self.value.trim().parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| self.refused(&format!("a whole number from 1 to {most}")))
    }

    /// Checks headers as the library reads them, which drops those that it cannot use.
    fn must_be_headers(&self) -> Result<(), String> {
        let is_usable = |header: &str| {
            header.split_once('=').is_some_and(|(name, value)| {
                let (name, value) = (name.trim(), decoded(value.trim()));
                name.parse::<HeaderName>().is_ok()
                    && !value.is_empty()
                    && HeaderValue::from_str(&value).is_ok()
            })
        };
        let mut headers = self.value.split(',').map(str::trim).filter(|it| !it.is_empty());
        if headers.all(is_usable) {
            return Ok(());
        }
        // Without the value, which may be a secret as a whole.
        let name = self.name;
        Err(format!("{name}: must be NAME=VALUE, several with a comma between them"))
    }

    /// Returns the address to which spans are sent.
    fn must_be_endpoint(&self) -> Result<String, String> {
        let value = self.value.trim();
        let uri = value.parse::<Uri>().ok().filter(|uri| {
            let authority = uri.authority().map_or("", |it| it.as_str());
            uri.scheme() == Some(&Scheme::HTTP)
                && uri.host().is_some_and(|host| !host.is_empty())
                && !authority.contains('@')
        });
        if uri.is_none() {
            return Err(self.refused(
                "http://HOST:PORT of a collector on the same host or network, with credentials in \
                 OTEL_EXPORTER_OTLP_HEADERS; https:// is not supported: let that collector forward \
                 by TLS",
            ));
        }
        let is_base = self.name == "OTEL_EXPORTER_OTLP_ENDPOINT";
        // The path would be added to the query.
        if is_base && value.contains(['?', '#']) {
            return Err(self.refused(
                "an address without ? and #, as /v1/traces is added to it; \
                 OTEL_EXPORTER_OTLP_TRACES_ENDPOINT may have a query",
            ));
        }
        Ok(if is_base {
            format!("{}/v1/traces", value.trim_end_matches('/'))
        } else {
            value.to_owned()
        })
    }

    fn refused(&self, allowed: &str) -> String {
        let Self { name, value } = self;
        format!("{name}={}: must be {allowed}", visible(&without_secrets(value)))
    }
}

/// Resolves `%XX`, and leaves a value as it is that has other uses of `%`, as the library does.
fn decoded(value: &str) -> Cow<'_, str> {
    let mut parts = value.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let Some(byte) = byte else { return value.into() };
        bytes.push(byte);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_or_else(|_| value.into(), Cow::Owned)
}

/// Hides the user info of an address and its query. Of what is no address it may hide more.
fn without_secrets(value: &str) -> String {
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    let address = rest.rsplit_once('@').map_or(rest, |(_, address)| address);
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let begin = &value[..value.len() - rest.len()];
    let user_info = if address.len() < rest.len() { "***@" } else { "" };
    let query = if path.len() < address.len() { "?***" } else { "" };
    format!("{begin}{user_info}{path}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
    const OF_TRACES: (&str, &str) =
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector/spans");

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        Settings::read(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn traces_are_sent_only_to_a_named_collector() {
        let general = Some("http://127.0.0.1:4318/v1/traces");
        for (variables, expected) in [
            (&[][..], None),
            (&[("OTEL_TRACES_EXPORTER", "otlp")], None),
            // Without a collector, no other variable matters.
            (&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], None),
            (&[ENDPOINT], general),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a/base/")], Some("http://a/base/v1/traces")),
            (&[OF_TRACES], Some("http://collector/spans")),
            (&[ENDPOINT, OF_TRACES], Some("http://collector/spans")),
            (&[ENDPOINT, ("OTEL_SDK_DISABLED", "True")], None),
            (&[ENDPOINT, ("OTEL_SDK_DISABLED", "no")], general),
            (&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")], None),
            (&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "otlp")], general),
        ] {
            let found = read(variables).expect("allowed").map(|settings| settings.endpoint);
            assert_eq!(found.as_deref(), expected, "{variables:?}");
        }
    }

    #[test]
    fn settings_have_the_defaults_of_the_specification() {
        let defaults = read(&[ENDPOINT]).expect("allowed").expect("an endpoint");
        assert_eq!((defaults.timeout, defaults.queue), (Duration::from_secs(10), 2_048));
        assert_eq!((defaults.delay, defaults.batch), (Duration::from_secs(5), 512));
        assert!(!defaults.names_service);
        let given = read(&[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "5"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "7"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "9"),
            ("OTEL_BSP_SCHEDULE_DELAY", " 50 "),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "3"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a=b, service.name=ids"),
        ]);
        let given = given.expect("allowed").expect("an endpoint");
        assert_eq!((given.timeout, given.queue), (Duration::from_millis(7), 9));
        assert_eq!((given.delay, given.batch), (Duration::from_millis(50), 3));
        assert!(given.names_service);
        let other = read(&[ENDPOINT, ("OTEL_RESOURCE_ATTRIBUTES", "my.service.name=x")]);
        assert!(!other.expect("allowed").expect("an endpoint").names_service);
    }

    #[test]
    fn values_that_cannot_be_used_are_refused() {
        for (name, allowed, refused) in [
            ("OTEL_TRACES_EXPORTER", "otlp", "zipkin"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf", "http/json"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "none", "gzip"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1", "0"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "1", "many"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "65536", "65537"),
            ("OTEL_BSP_SCHEDULE_DELAY", "1", "0"),
            ("OTEL_BSP_SCHEDULE_DELAY", "5000", "5s"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1", "0"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "65536", "-1"),
            ("OTEL_TRACES_SAMPLER", "parentbased_always_off", "xray"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://[::1]:4318/", "https://collector:4318"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector", "127.0.0.1:4318"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", " http://collector ", "http://"),
        ] {
            read(&[(name, allowed), ENDPOINT]).expect("allowed").expect("an endpoint");
            let error = read(&[(name, refused), ENDPOINT]).expect_err(refused);
            assert!(error.starts_with(&format!("{name}={refused}: must be ")), "{error}");
        }
        let sampler = ("OTEL_TRACES_SAMPLER", "traceidratio");
        read(&[ENDPOINT, sampler, ("OTEL_TRACES_SAMPLER_ARG", "0.25")]).expect("allowed");
        read(&[ENDPOINT, sampler, ("OTEL_TRACES_SAMPLER_ARG", "25%")]).expect_err("no ratio");
        // The other samplers have no argument.
        let sampler = ("OTEL_TRACES_SAMPLER", "always_on");
        read(&[ENDPOINT, sampler, ("OTEL_TRACES_SAMPLER_ARG", "25%")]).expect("unused");
    }

    #[test]
    fn samplers_are_what_was_checked() {
        let ratio = ("OTEL_TRACES_SAMPLER_ARG", " 0.25 ");
        for (sampler, expected) in [
            ("", "ParentBased(AlwaysOn)"),
            ("always_on", "AlwaysOn"),
            ("Always_Off", "AlwaysOff"),
            (" traceidratio ", "TraceIdRatioBased(0.25)"),
            ("parentbased_always_on", "ParentBased(AlwaysOn)"),
            ("PARENTBASED_ALWAYS_OFF", "ParentBased(AlwaysOff)"),
            ("parentbased_traceidratio ", "ParentBased(TraceIdRatioBased(0.25))"),
        ] {
            let sampler = Some(("OTEL_TRACES_SAMPLER", sampler)).filter(|it| !it.1.is_empty());
            let variables: Vec<_> = [ENDPOINT, ratio].into_iter().chain(sampler).collect();
            let found = read(&variables).expect("allowed").expect("an endpoint").sampler;
            assert_eq!(format!("{found:?}"), expected);
        }
        let found = read(&[ENDPOINT, ("OTEL_TRACES_SAMPLER", "traceidratio")]);
        let found = found.expect("allowed").expect("an endpoint").sampler;
        assert_eq!(format!("{found:?}"), "TraceIdRatioBased(1.0)");
    }

    #[test]
    fn headers_that_would_be_dropped_are_refused_and_not_shown() {
        for name in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"] {
            for allowed in
                ["api-key=se%20cret, x-team = ids,", "a=b=c", "a=100%", "a=%FF", "a=%C", "a=é"]
            {
                read(&[ENDPOINT, (name, allowed)]).expect(allowed);
            }
            for refused in
                ["cret", "a=b,cret", "api key=cret", "=cret", "cret=", "a=cret%0A", "a:cret"]
            {
                let error = read(&[ENDPOINT, (name, refused)]).expect_err(refused);
                assert!(error.starts_with(&format!("{name}: must be NAME=VALUE")), "{error}");
                assert!(!error.contains("cr"), "{error}");
            }
        }
    }

    #[test]
    fn errors_show_no_secret_of_an_address() {
        for (value, shown) in [
            ("http://user:secret@collector:4318", "http://***@collector:4318"),
            ("https://secret@a/b?key=secret#c", "https://***@a/b?***"),
            ("https://user:se?cret@a", "https://***@a"),
            ("user:secret@a", "***@a"),
        ] {
            let error = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", value)]).expect_err(value);
            let begins = format!("OTEL_EXPORTER_OTLP_ENDPOINT={shown}: must be http://HOST:PORT");
            assert!(error.starts_with(&begins), "{error}");
        }
    }

    #[test]
    fn only_the_address_with_its_path_may_have_a_query() {
        for value in ["http://a?key=secret", "http://a/b?", "http://a#secret"] {
            let error = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", value)]).expect_err(value);
            assert!(error.contains("?***: must be an address without ? and #"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let address = "http://a/spans?key=b";
        let found = read(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", address)]);
        assert_eq!(found.expect("allowed").expect("an endpoint").endpoint, address);
    }
}
