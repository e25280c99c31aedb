//! Commands of shell tools: whether this server can confine them, found out once, when it starts.

use std::sync::Arc;

use answerable_api::ShellRule;
use answerable_ports::WorkspaceStore;
use answerable_sandbox::{Sandbox, Settings};
use answerable_tools::ShellTools;

use crate::config;

/// What tenants are told where commands are switched off.
const OFF: &str = "the operator switched them off";
/// What they are told where nobody knows better.
const BROKEN: &str = "the sandbox could not be tried; the server's log says why";

/// What runs commands, if anything does.
pub(super) struct Shell {
    sandbox: Option<Sandbox>,
    rule: ShellRule,
}

impl Shell {
    /// Tries it. What a server that died left behind is taken away.
    pub(super) async fn find(config: &config::Shell) -> Self {
        let (network, memory_mb) = (config.network, config.memory_mb);
        let found = if config.on { tried(settings(config)).await } else { Err(OFF) };
        let (sandbox, refusal) = match found {
            Ok(sandbox) => (Some(sandbox), None),
            Err(why) => (None, Some(why.to_owned())),
        };
        Self { sandbox, rule: ShellRule { refusal, network, memory_mb } }
    }

    pub(super) fn rule(&self) -> ShellRule {
        self.rule.clone()
    }

    /// Where commands run, if they do.
    pub(super) fn sandbox(&self) -> Option<Sandbox> {
        self.sandbox.clone()
    }

    /// Runs commands over these files.
    pub(super) fn tools(&self, files: Arc<dyn WorkspaceStore>) -> Option<ShellTools> {
        let sandbox = self.sandbox.clone()?;
        Some(ShellTools::new(sandbox, files, self.rule.network))
    }
}

fn settings(config: &config::Shell) -> Settings {
    let defaults = Settings { at_once: config.at_once, ..Settings::default() };
    match &config.folder {
        Some(folder) => Settings { folders: folder.clone(), ..defaults },
        None => defaults,
    }
}

/// A sandbox that was tried; or why there is none, for tenants. The log has all of it.
async fn tried(settings: Settings) -> Result<Sandbox, &'static str> {
    // It starts a process and waits for it.
    let tried = tokio::task::spawn_blocking(move || usable(settings)).await;
    tried.unwrap_or_else(|error| {
        tracing::error!(%error, "the sandbox could not be tried");
        Err(BROKEN)
    })
}

fn usable(settings: Settings) -> Result<Sandbox, &'static str> {
    let sandbox = Sandbox::new(settings);
    match sandbox.probe() {
        Ok(layers) => tracing::info!(%layers, "commands run in sandboxes"),
        Err(why) => {
            tracing::info!(%why, "this server runs no commands: agents with run_command are refused");
            return Err(why.what());
        }
    }
    sweep(&sandbox);
    Ok(sandbox)
}

/// Takes away what commands of servers left behind that are gone. Blocks.
pub(super) fn sweep(sandbox: &Sandbox) {
    match sandbox.sweep() {
        Ok(0) => {}
        Ok(folders) => tracing::info!(folders, "took away what commands of a dead server left"),
        Err(error) => tracing::warn!(%error, "can't look for what commands of a dead server left"),
    }
}
