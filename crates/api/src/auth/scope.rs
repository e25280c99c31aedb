//! What credentials may be good for.

/// Scopes of which any one is enough; `admin` always is.
pub(crate) trait Scope: Send + Sync + 'static {
    /// Their names.
    const ANY_OF: &'static [&'static str];
}

macro_rules! scopes {
    ($($(#[$doc:meta])* $name:ident = [$($scope:literal),*];)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name;
        impl Scope for $name {
            const ANY_OF: &'static [&'static str] = &[$($scope),*];
        }
    )*};
}

scopes! {
    /// To read runs.
    RunsRead = ["runs:read"];
    /// To start and command runs.
    RunsWrite = ["runs:write"];
    /// To decide approvals.
    Decide = ["approvals:decide"];
    /// To write agents.
    AgentsWrite = ["agents:write"];
    /// To read what deciders need.
    ReadOrDecide = ["runs:read", "approvals:decide"];
    /// To read agents.
    ReadOrAgents = ["runs:read", "agents:write"];
    /// The tenant's own settings.
    Admin = [];
}
