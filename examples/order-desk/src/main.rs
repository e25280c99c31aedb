//! The order desk: a small shop, its inbox and an agent, run on Answerable.
//!
//! One binary plays the three parts that would be three systems in real life: `shop` is the
//! service whose orders must never be made twice, `model` is a language model's server as far
//! as its wire goes, and `demo` is the integrator, who runs the inbox through Answerable.

mod demo;
mod model;
mod parent;
mod shop;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The order desk: a small shop, its inbox and an agent, run on Answerable.
#[derive(Parser)]
#[command(name = "order-desk", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the shop: customers, stock, orders, refunds and mails over HTTP.
    Shop(shop::Options),
    /// Runs a scripted model behind the OpenAI chat completions wire.
    Model(model::Options),
    /// Runs the whole inbox through Answerable and counts the shop's orders at the end.
    Demo(demo::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    // The first provider installed wins and this is the first, so there is no failure to report.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let outcome = match Cli::parse().command {
        Command::Shop(options) => shop::run(options).await.map_err(|e| e.to_string()),
        Command::Model(options) => model::run(options).await.map_err(|e| e.to_string()),
        Command::Demo(options) => return demo::run(options).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            use std::io::Write;
            // If standard error is gone too, the exit status still tells.
            let _ = writeln!(std::io::stderr(), "order-desk: {message}");
            ExitCode::FAILURE
        }
    }
}
