//! The demo: the whole inbox through a real Answerable server, with the accidents that make a
//! runtime necessary, and a count of the shop's books at the end.
//!
//! Read `setup` to see what an integration has to do once, `runtime` and `follow` for what it
//! does with every run, `scenes` for the story.

mod checks;
mod children;
mod count;
mod desk;
mod follow;
mod inbox;
mod parts;
mod price;
mod runtime;
mod scenes;
mod screen;
mod server;
mod setup;
mod shopfront;
mod sse;
#[cfg(test)]
mod tests;
mod timeline;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use thiserror::Error;

use crate::parent;
use count::Verdict;
use desk::Desk;
use screen::{Screen, Tone};

/// How to run the demo.
#[derive(Args)]
pub(crate) struct Options {
    /// The folder with the customers' messages, one `.txt` file each.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/inbox"))]
    inbox: PathBuf,
    /// The `answerable` program; by default the one beside this program.
    #[arg(long)]
    answerable: Option<PathBuf>,
    /// Use this OpenAI-compatible server instead of the scripted model.
    #[arg(long, env = "OPENAI_API_KEY", hide_env_values = true)]
    openai_api_key: Option<String>,
    /// The base address of that server.
    #[arg(long, env = "OPENAI_BASE_URL", default_value = "https://api.openai.com/v1")]
    openai_base_url: String,
    /// The model to ask there.
    #[arg(long, env = "OPENAI_MODEL", default_value = "gpt-4o-mini")]
    openai_model: String,
}

/// Why the demo could not go on. The text is for the person at the terminal.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Trouble(String);

impl Trouble {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

const AT_MOST: Duration = Duration::from_secs(15 * 60);

/// Runs the demo. Status 0: everything was as promised; 1: it was not; 130: interrupted.
pub(crate) async fn run(options: Options) -> ExitCode {
    let screen = Screen::of_this_terminal();
    tokio::select! {
        code = from_start_to_end(&options, &screen) => code,
        () = parent::told_to_end(false) => {
            // Dropping the desk ends its processes.
            screen.line(Tone::Bad, "\nInterrupted; everything is being stopped.");
            ExitCode::from(130)
        }
    }
}

async fn from_start_to_end(options: &Options, screen: &Screen) -> ExitCode {
    let mut desk = match Desk::prepare(options, screen).await {
        Ok(desk) => desk,
        Err(trouble) => {
            screen.line(Tone::Bad, &format!("The demo could not begin: {trouble}"));
            return ExitCode::FAILURE;
        }
    };
    let played = tokio::time::timeout(AT_MOST, scenes::play(&mut desk, screen)).await;
    let played = played.unwrap_or_else(|_| Err(Trouble::new("it took longer than 15 minutes")));
    if !played.as_ref().is_ok_and(Verdict::good) {
        screen.plain(&desk.logs());
    }
    desk.close().await;
    match played {
        Ok(verdict) => {
            screen.plain(&verdict.to_string());
            if verdict.good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(trouble) => {
            screen.line(Tone::Bad, &format!("The demo stopped: {trouble}"));
            ExitCode::FAILURE
        }
    }
}
