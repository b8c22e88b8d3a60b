//! The macros of `tracing`, whose lines have `antwort::<part>` as target, such as `antwort::mcp::session`.
//!
//! A target is otherwise the path of the module, which begins with the name of its crate: `antwort_mcp::session`. Filters, log
//! pipelines and documents know the parts of the gateway by one name; how it is divided into crates is nobody else's business.
//! The other crates depend on this one as `tracing`.

pub mod target;

pub use tracing::*;

#[doc(hidden)]
pub use tracing as upstream;

/// The target of the module that this stands in.
#[macro_export]
macro_rules! target {
    () => {{
        const PATH: &str = ::core::module_path!();
        const BYTES: [u8; $crate::target::len(PATH)] = $crate::target::bytes(PATH);
        const TARGET: &str = $crate::target::text(&BYTES);
        TARGET
    }};
}

/// Defines macros of the same names that say the target, unless the caller does.
macro_rules! with_target {
    ($d:tt $($name:ident)+) => {$(
        #[doc = concat!("`tracing::", stringify!($name), "!`, with the part of the gateway as target.")]
        #[macro_export]
        macro_rules! $name {
            (target: $d($d rest:tt)+) => { $d crate::upstream::$name!(target: $d($d rest)+) };
            ($d($d rest:tt)+) => { $d crate::upstream::$name!(target: $d crate::target!(), $d($d rest)+) };
        }
    )+};
}

/// Defines the macros of levels, which `tracing` reads otherwise with a target than without: the first field may be `{ NAME } = value`
/// only without one.
macro_rules! levels {
    ($d:tt $($name:ident $level:ident),+) => {$(
        #[doc = concat!("`tracing::", stringify!($name), "!`, with the part of the gateway as target.")]
        #[macro_export]
        macro_rules! $name {
            (target: $d($d rest:tt)+) => { $d crate::upstream::$name!(target: $d($d rest)+) };
            ({ $d($d fields:tt)* }, $d($d message:tt)+) => {
                $d crate::event!($d crate::Level::$level, { $d($d fields)* }, $d($d message)+)
            };
            ($d message:literal $d($d rest:tt)*) => {
                $d crate::event!($d crate::Level::$level, {}, $d message $d($d rest)*)
            };
            ($d($d fields:tt)+) => { $d crate::event!($d crate::Level::$level, { $d($d fields)+ }) };
        }
    )+};
}

with_target!($ event enabled event_enabled span_enabled trace_span debug_span info_span warn_span error_span);
levels!($ trace TRACE, debug DEBUG, info INFO, warn WARN, error ERROR);
