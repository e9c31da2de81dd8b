pub mod core;
#[cfg(feature = "keeper")]
pub mod keeper;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "keeper")]
pub mod store;
