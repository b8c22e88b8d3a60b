//! The tools of a run: which are offered, under which names, who runs them, and what may be called.

pub(crate) mod hosted;
