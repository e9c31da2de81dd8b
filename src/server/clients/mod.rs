//! Limits the requests per second of each client, and says by which name a client is counted, for
//! these limits and for the one on new codes (`state`).

mod client_address;
mod rate_limit;

use std::{hash::BuildHasher, hash::RandomState, net::IpAddr};

use axum::http::HeaderMap;
use ipnet::IpNet;
use tokio::time::Instant;

use self::client_address::client_address;
pub(super) use self::{
    client_address::{is_in, subscriber},
    rate_limit::RateLimiter,
};
use super::response::{Problem, ProblemCode};
use crate::config::HttpConfig;

/// The clients of the service, by token or address.
#[derive(Debug)]
pub(super) struct Clients {
    hasher: RandomState,
    trusted_proxies: Vec<IpNet>,
    per_address: Option<RateLimiter>,
    per_token: Option<RateLimiter>,
}

impl Clients {
    pub(super) fn new(http: &HttpConfig) -> Self {
        Self {
            hasher: RandomState::new(),
            trusted_proxies: http.trusted_proxies.clone(),
            per_address: http.max_requests_per_ip.map(RateLimiter::new),
            per_token: http.max_requests_per_token.map(RateLimiter::new),
        }
    }

    /// Refuses a request from an address that has sent too many.
    pub(super) fn limit_address(&self, address: Option<IpAddr>) -> Result<(), Problem> {
        let (Some(limiter), Some(address)) = (&self.per_address, address) else { return Ok(()) };
        limiter.count(self.hasher.hash_one(address), Instant::now()).map_err(|wait| {
            tracing::debug!(%address, "request refused: too many from this address");
            let detail = format!("too many requests from {address}: see http.max_requests_per_ip");
            Problem::passing(ProblemCode::TooManyRequests, detail, wait)
        })
    }

    /// Refuses a request with a token of this name if too many came with it.
    pub(super) fn limit_token(&self, token: Option<&str>) -> Result<(), Problem> {
        let (Some(limiter), Some(token)) = (&self.per_token, token) else { return Ok(()) };
        limiter.count(self.hasher.hash_one(token), Instant::now()).map_err(|wait| {
            tracing::debug!(token, "request refused: too many with this token");
            let key = "auth.max_requests_per_token";
            let detail = format!("too many requests with the token {token:?}: see {key}");
            Problem::passing(ProblemCode::TooManyRequests, detail, wait)
        })
    }

    /// Returns the key of a client: a hash of the token's name or, without a token, of the address.
    pub(super) fn key(&self, token: Option<&str>, address: Option<IpAddr>) -> u64 {
        match token {
            Some(token) => self.hasher.hash_one(token),
            None => self.hasher.hash_one(address),
        }
    }

    /// Returns the address of the client of a request, given the peer that sent it.
    pub(super) fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        client_address(peer, headers, &self.trusted_proxies)
    }
}
