pub mod core;
#[cfg(feature = "keeper")]
pub mod keeper;
#[cfg(feature = "keeper")]
pub mod store;
