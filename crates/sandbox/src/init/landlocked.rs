//! Landlock: which files may be touched, said a second time and by other means than mounts.

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use crate::bubblewrap::HOME;

/// What is read and executed.
const PROGRAMS: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// What is read.
const READ: [&str; 2] = ["/etc", "/proc"];
/// What is written too.
const WRITTEN: [&str; 3] = [HOME, "/tmp", "/dev/shm"];
/// The newest rules that are asked for; an older kernel gets what it knows of them.
const NEWEST: ABI = ABI::V6;

/// Confines this thread and all that it starts. Says how much of it the kernel could do.
pub(super) fn confine(network: bool) -> Result<&'static str, RulesetError> {
    let read = AccessFs::from_read(NEWEST) & !AccessFs::Execute;
    let devices = read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(scopes(network))?
        .create()?
        // What is there may be listed: it is what the sandbox is made of.
        .add_rules(path_beneath_rules(["/"], AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(PROGRAMS, AccessFs::from_read(NEWEST)))?
        .add_rules(path_beneath_rules(READ, read))?
        .add_rules(path_beneath_rules(["/dev"], devices))?
        .add_rules(path_beneath_rules(WRITTEN, AccessFs::from_all(NEWEST)))?
        .restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => "full",
        RulesetStatus::PartiallyEnforced => "partial",
        RulesetStatus::NotEnforced => "none",
    })
}

/// Sockets without a path belong to the network namespace: on the host's network, they would be the host's.
fn scopes(network: bool) -> BitFlags<Scope> {
    if network { Scope::from_all(NEWEST) } else { Scope::Signal.into() }
}
