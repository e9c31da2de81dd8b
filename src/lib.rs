pub mod core;
#[cfg(feature = "keeper")]
pub mod store;
