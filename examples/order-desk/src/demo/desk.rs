//! The scenery: a private PostgreSQL, the shop, the model and the Answerable server, each a
//! process of its own, on loopback ports that happen to be free.

use std::time::{Duration, Instant};

use reqwest::Client;
use tempfile::TempDir;

use super::children::Process;
use super::inbox::{self, Message};
use super::parts::{self, Database};
use super::runtime::Runtime;
use super::screen::{Screen, Tone};
use super::server::Settings;
use super::shopfront::Shopfront;
use super::{Options, Trouble, setup};

/// Everything that the scenes need.
pub(super) struct Desk {
    pub(super) inbox: Vec<Message>,
    pub(super) runtime: Runtime,
    pub(super) agent_id: String,
    pub(super) shopfront: Shopfront,
    /// Whether the model is the scripted one, whose every reply is known beforehand.
    pub(super) scripted: bool,
    client: Client,
    settings: Settings,
    server: Process,
    others: Vec<Process>,
    database: Database,
    folder: TempDir,
}

impl Desk {
    /// Starts everything and sets the order desk up.
    pub(super) async fn prepare(options: &Options, screen: &Screen) -> Result<Self, Trouble> {
        screen.title("Preparing");
        let inbox = inbox::read(&options.inbox)?;
        let client = client()?;
        let folder = parts::folder("order-desk-")?;
        let at = folder.path();
        let database = screen.during("PostgreSQL, private and fresh", parts::database()).await?;
        let url = |name| database.postgres.url(name);
        let shop = screen.during("the shop", parts::shop(&client, at, url("shop"))).await?;
        let mut others = vec![shop.process];
        let model = match options.openai_api_key.as_ref().filter(|key| !key.is_empty()) {
            Some(key) => parts::real_model(options, key),
            None => {
                let started = parts::scripted_model(&client, at);
                let (model, process) = screen.during("the scripted model", started).await?;
                others.push(process);
                model
            }
        };
        let settings = Settings::new(options.answerable.as_deref(), url("answerable"), &model)?;
        let server = screen.during("Answerable", settings.start(&client, at)).await?;
        let operator = Runtime::new(client.clone(), settings.url(), settings.operator_key().to_owned());
        let integration = setup::integrate(&operator, &model, &shop.url, &shop.token).await?;
        let ready =
            format!("  tenant, key, provider, secret and agent are set up; the model is {}", model.model);
        screen.line(Tone::Quiet, &ready);
        Ok(Self {
            inbox,
            runtime: integration.runtime,
            agent_id: integration.agent_id,
            shopfront: Shopfront::new(client.clone(), shop.url, shop.token),
            scripted: model.scripted,
            client,
            settings,
            server,
            others,
            database,
            folder,
        })
    }

    /// The message with this name, if it is in the inbox.
    pub(super) fn message(&self, id: &str) -> Option<&Message> {
        self.inbox.iter().find(|message| message.id == id)
    }

    /// The server's process id.
    pub(super) fn server_pid(&self) -> u32 {
        self.server.pid().unwrap_or_default()
    }

    /// Kills the server with SIGKILL.
    pub(super) async fn kill_server(&mut self) -> Result<(), Trouble> {
        self.server.kill().await
    }

    /// Starts the server again, and says how long it took until it was ready.
    pub(super) async fn start_server_again(&mut self) -> Result<Duration, Trouble> {
        let begun = Instant::now();
        self.server = self.settings.start(&self.client, self.folder.path()).await?;
        Ok(begun.elapsed())
    }

    /// What the processes printed last, for when something went wrong.
    pub(super) fn logs(&self) -> String {
        let others: Vec<String> = self.others.iter().map(|process| process.tail(10)).collect();
        format!("\n{}\n{}", self.server.tail(30), others.join("\n"))
    }

    /// Ends every process, the server first, so that it can hand its runs back.
    pub(super) async fn close(mut self) {
        self.server.stop(Duration::from_secs(10)).await;
        for process in &mut self.others {
            process.stop(Duration::from_secs(5)).await;
        }
        let stopped = tokio::task::spawn_blocking(move || self.database.postgres.stop()).await;
        if !matches!(stopped, Ok(Ok(()))) {
            Screen::of_this_terminal().line(Tone::Careful, "The private PostgreSQL did not stop in order.");
        }
    }
}

fn client() -> Result<Client, Trouble> {
    // A proxy of this machine's must not come between processes on loopback.
    let builder = Client::builder().no_proxy().connect_timeout(Duration::from_secs(2));
    builder.build().map_err(|error| Trouble::new(error.to_string()))
}
