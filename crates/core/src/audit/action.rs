//! What can be done that is recorded.

use std::fmt;
use std::str::FromStr;

/// A name that no action has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such action")]
pub struct NoAction;

macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $text:literal on $target:literal;)*) => {
        /// Something that is recorded.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Action {
            $($(#[$doc])* $name,)*
        }

        impl Action {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// As it is written.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What kind of thing it is done to.
            pub fn target_type(self) -> &'static str {
                match self { $(Self::$name => $target,)* }
            }
        }
    };
}

actions! {
    /// The operator makes a tenant.
    TenantCreate = "tenant.create" on "tenant";
    /// The operator changes a tenant.
    TenantUpdate = "tenant.update" on "tenant";
    /// The operator suspends a tenant.
    TenantSuspend = "tenant.suspend" on "tenant";
    /// The operator resumes a tenant.
    TenantResume = "tenant.resume" on "tenant";
    /// All that a tenant has is taken away as a copy.
    TenantExport = "tenant.export" on "tenant";
    /// The operator deletes a tenant.
    TenantDelete = "tenant.delete" on "tenant";
    /// The operator makes a key.
    KeyCreate = "key.create" on "key";
    /// The operator gives a key another secret.
    KeyRotate = "key.rotate" on "key";
    /// The operator takes a key back.
    KeyRevoke = "key.revoke" on "key";
    /// A model provider is stored.
    ProviderPut = "provider.put" on "provider";
    /// A model provider is deleted.
    ProviderDelete = "provider.delete" on "provider";
    /// A secret is stored.
    SecretPut = "secret.put" on "secret";
    /// A secret is deleted.
    SecretDelete = "secret.delete" on "secret";
    /// The data keys of stored secrets are wrapped by another key.
    SecretsRewrap = "secrets.rewrap" on "secret_key";
    /// An MCP server is stored.
    McpServerPut = "mcp_server.put" on "mcp_server";
    /// An MCP server is deleted.
    McpServerDelete = "mcp_server.delete" on "mcp_server";
    /// The tenant's policy is replaced.
    PolicyPut = "policy.put" on "policy";
    /// A new secret signs tool calls.
    SigningSecretRotate = "signing_secret.rotate" on "signing_secret";
    /// An agent is made.
    AgentCreate = "agent.create" on "agent";
    /// An agent gets a new version.
    AgentUpdate = "agent.update" on "agent";
    /// An agent is archived.
    AgentArchive = "agent.archive" on "agent";
    /// A webhook is made.
    WebhookCreate = "webhook.create" on "webhook";
    /// A webhook is changed.
    WebhookUpdate = "webhook.update" on "webhook";
    /// A webhook is deleted.
    WebhookDelete = "webhook.delete" on "webhook";
    /// A webhook gets a new signing secret.
    WebhookRotateSecret = "webhook.rotate_secret" on "webhook";
    /// A webhook is tried.
    WebhookTest = "webhook.test" on "webhook";
    /// Something is sent to a webhook once more.
    WebhookRedeliver = "webhook.redeliver" on "webhook";
    /// Somebody decides on an approval, and more people must agree.
    ApprovalVote = "approval.vote" on "approval";
    /// An approval is decided.
    ApprovalDecide = "approval.decide" on "approval";
    /// An approval is remembered.
    GrantCreate = "grant.create" on "grant";
    /// What was remembered is taken back.
    GrantRevoke = "grant.revoke" on "grant";
    /// Somebody says what became of an effect.
    LedgerResolve = "ledger.resolve" on "ledger_entry";
    /// A schedule is made.
    ScheduleCreate = "schedule.create" on "schedule";
    /// A schedule is changed.
    ScheduleUpdate = "schedule.update" on "schedule";
    /// A schedule is deleted.
    ScheduleDelete = "schedule.delete" on "schedule";
    /// A schedule is fired out of its time.
    ScheduleTrigger = "schedule.trigger" on "schedule";
    /// A run is cancelled.
    RunCancel = "run.cancel" on "run";
    /// A run's limits or metadata are changed.
    RunUpdate = "run.update" on "run";
    /// A run is deleted.
    RunDelete = "run.delete" on "run";
    /// A thread is deleted.
    ThreadDelete = "thread.delete" on "thread";
    /// A person writes a file of a workspace.
    FilePut = "file.put" on "workspace";
    /// A person deletes a file of a workspace.
    FileDelete = "file.delete" on "workspace";
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Action {
    type Err = NoAction;

    fn from_str(text: &str) -> Result<Self, NoAction> {
        Self::ALL.iter().copied().find(|action| action.as_str() == text).ok_or(NoAction)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_no_two_are_the_same() {
        for action in Action::ALL {
            assert_eq!(action.to_string().parse(), Ok(*action));
        }
        let names: BTreeSet<&str> = Action::ALL.iter().map(|action| action.as_str()).collect();
        assert_eq!(names.len(), Action::ALL.len());
        assert_eq!("run.create".parse::<Action>(), Err(NoAction));
    }
}
