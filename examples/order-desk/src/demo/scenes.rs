//! The story: one scene for each thing that a runtime has to answer for.

use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;

use super::Trouble;
use super::checks::{Checks, entries, validations};
use super::count::{self, Verdict, WANTED};
use super::desk::Desk;
use super::follow::follow;
use super::inbox::Message;
use super::price::excerpt;
use super::runtime::ended;
use super::screen::{Screen, Tone};
use super::timeline::{self, Timeline};
use crate::shop::FaultKind;

const RUN_WITHIN: Duration = Duration::from_secs(150);

/// A run under way, with its timeline on the screen.
struct Running {
    id: String,
    following: JoinHandle<()>,
}

/// The stage: the desk, the screen, what was shown so far.
struct Stage<'a> {
    desk: &'a mut Desk,
    screen: Screen,
    checks: Checks,
    runs: Vec<String>,
}

/// Plays every scene and counts.
pub(super) async fn play(desk: &mut Desk, screen: &Screen) -> Result<Verdict, Trouble> {
    let checks = Checks::new(*screen, desk.scripted);
    let mut stage = Stage { desk, screen: *screen, checks, runs: Vec::new() };
    stage.plain_order().await?;
    stage.cut_answer().await?;
    stage.refused_order().await?;
    stage.malformed_arguments().await?;
    stage.rest_of_the_inbox().await?;
    stage.killed_server().await?;
    stage.verdict().await
}

impl Stage<'_> {
    async fn plain_order(&mut self) -> Result<(), Trouble> {
        self.screen.title("1. A plain order");
        let Some(message) = self.pick("01-two-teas") else { return Ok(()) };
        let run = self.run(&message).await?;
        self.checks.promise(ended(&run), "the run came to an end");
        self.checks.story(self.orders_of(&message).await? == 1, "the shop has this order, once");
        Ok(())
    }

    async fn cut_answer(&mut self) -> Result<(), Trouble> {
        self.screen.title("2. An order whose answer never arrives");
        let Some(message) = self.pick("02-blue-cup") else { return Ok(()) };
        self.aside("The shop will commit the order and cut the line before it answers. It ignores");
        self.aside("idempotency keys, so sending the order again would make a second one.");
        self.desk.shopfront.accident("POST /orders", FaultKind::Cut, ("sku", "CUP-02")).await?;
        let run = self.run(&message).await?;
        let ledger = self.desk.runtime.ledger(&id(&run)).await?;
        let ordered = entries(&ledger, "create_order");
        let once = ordered.len() == 1 && ordered[0]["attempts"] == 1;
        self.checks.story(once, "the order was sent once, and not again when its answer was missing");
        let settled = ordered.iter().all(|entry| entry["status"] == "succeeded");
        self.checks.story(settled, "the shop was asked, and the order is known to be made");
        self.checks.promise(self.orders_of(&message).await? <= 1, "the order does not exist twice");
        Ok(())
    }

    async fn refused_order(&mut self) -> Result<(), Trouble> {
        self.screen.title("3. An order that the policy denies");
        let Some(message) = self.pick("04-cleaning-alcohol") else { return Ok(()) };
        let run = self.run(&message).await?;
        let denied =
            run["denied"].as_array().into_iter().flatten().any(|call| call["tool_name"] == "create_order");
        self.checks.story(denied, "the run names the action that was refused");
        let told = run["final_answer"].as_str().is_some_and(|answer| answer.contains("create_order"));
        self.checks.story(told, "the answer names it too");
        self.checks.promise(self.orders_of(&message).await? == 0, "the shop has no such order");
        Ok(())
    }

    async fn malformed_arguments(&mut self) -> Result<(), Trouble> {
        self.screen.title("4. Arguments that are no JSON, and are mended");
        let Some(message) = self.pick("05-honey-in-words") else { return Ok(()) };
        let run = self.run(&message).await?;
        let steps = self.desk.runtime.steps(&id(&run)).await?;
        let seen = validations(&steps, "create_order");
        let mended = seen == ["malformed_arguments", "ok"];
        self.checks.story(mended, "the broken call was not sent; the next one was in order");
        self.checks.story(self.orders_of(&message).await? == 1, "the shop has this order, once");
        Ok(())
    }

    /// Everything that has no scene of its own, all at once: also what a reader added to the inbox.
    async fn rest_of_the_inbox(&mut self) -> Result<(), Trouble> {
        self.screen.title("5. The rest of the inbox, all at once");
        self.aside("The shop is closed for a second when the refund of 08-leaking-jar comes.");
        self.desk.shopfront.accident("POST /refunds", FaultKind::Unavailable, ("order_id", "1003")).await?;
        let own_scene = [
            "01-two-teas",
            "02-blue-cup",
            "03-broken-kettle",
            "04-cleaning-alcohol",
            "05-honey-in-words",
            "07-teapot",
        ];
        let rest: Vec<Message> =
            self.desk.inbox.iter().filter(|message| !own_scene.contains(&&*message.id)).cloned().collect();
        let mut running = Vec::new();
        for message in &rest {
            running.push(self.start(message).await?);
        }
        for run in running {
            let run = self.finish(run).await?;
            let message = run["metadata"]["message"].as_str().unwrap_or_default();
            self.checks.promise(ended(&run), &format!("{message} came to an end"));
        }
        if self.pick("08-leaking-jar").is_some() {
            self.checks.story(
                self.refunds_of(1003).await? == 1,
                "the small refund was paid, once, when the shop was open again",
            );
        }
        Ok(())
    }

    async fn killed_server(&mut self) -> Result<(), Trouble> {
        self.screen.title("6. A refund that waits for a person, and a server that dies meanwhile");
        let (Some(refund), Some(order)) = (self.pick("03-broken-kettle"), self.pick("07-teapot")) else {
            return Ok(());
        };
        let refunding = self.start(&refund).await?;
        let waiting = self.desk.runtime.wait(&refunding.id, RUN_WITHIN).await?;
        self.checks
            .story(waiting["status"] == "waiting_approval", "the refund over 50.00 waits for a person");
        self.desk.shopfront.accident("POST /orders", FaultKind::Late, ("sku", "POT-80")).await?;
        let ordering = self.start(&order).await?;
        self.aside("Another order is on its way; the shop commits it and is slow to answer.");
        let caught = self.desk.shopfront.has_order_of(&order.id, Duration::from_secs(60)).await?;
        self.checks.story(caught, "the order stands in the shop's books, its answer is still to come");
        self.die_and_rise().await?;
        let ordered = self.finish(ordering).await?;
        self.checks.promise(ended(&ordered), "the run that was in the middle of a call came to its end");
        self.checks.promise(self.orders_of(&order).await? <= 1, "its order does not exist twice");
        self.approve(refunding, waiting).await
    }

    async fn die_and_rise(&mut self) -> Result<(), Trouble> {
        let pid = self.desk.server_pid();
        self.desk.kill_server().await?;
        self.screen.line(Tone::Bad, &format!("  ⚡ the server (process {pid}) is killed with SIGKILL"));
        tokio::time::sleep(Duration::from_millis(400)).await;
        let took = self.desk.start_server_again().await?;
        let pid = self.desk.server_pid();
        let text = format!("  ⚡ a new server (process {pid}) is ready after {} ms", took.as_millis());
        self.screen.line(Tone::Good, &text);
        Ok(())
    }

    async fn approve(&mut self, refunding: Running, waiting: Value) -> Result<(), Trouble> {
        if ended(&waiting) {
            self.finish(refunding).await?;
            return Ok(());
        }
        let after = self.desk.runtime.get(&format!("/v1/runs/{}", refunding.id)).await?;
        self.checks
            .promise(after["status"] == "waiting_approval", "the refund still waits, as before the crash");
        self.checks.promise(self.refunds_of(1002).await? == 0, "nothing was paid before anybody approved");
        self.aside("A person looks at it and approves.");
        self.desk.runtime.approve(&after, "the photo shows the crack").await?;
        let run = self.finish(refunding).await?;
        self.checks.story(run["status"] == "finished", "the run went on after the approval");
        self.checks.story(self.refunds_of(1002).await? == 1, "the refund was paid, once");
        Ok(())
    }

    async fn verdict(self) -> Result<Verdict, Trouble> {
        self.screen.title("The count, from the shop's own books");
        let runtime = &self.desk.runtime;
        let (mut runs, mut ledgers) = (Vec::new(), Vec::new());
        for id in &self.runs {
            runs.push(runtime.get(&format!("/v1/runs/{id}")).await?);
            ledgers.extend(runtime.ledger(id).await?);
        }
        let books = self.desk.shopfront.books().await?;
        for ((message, what, which), times) in count::made(&books) {
            let tone = if times == 1 { Tone::Plain } else { Tone::Bad };
            self.screen.line(tone, &format!("  {message:<22} {what:<7} {which:<8} {times} ×"));
        }
        let wanted: &[count::Wanted] = if self.desk.scripted { &WANTED } else { &[] };
        let wanted: Vec<_> =
            wanted.iter().filter(|wish| self.desk.message(wish.0).is_some()).copied().collect();
        let lost = count::lost(&books, &runs, &ledgers, &wanted);
        for what in &lost {
            self.screen.line(Tone::Bad, &format!("  lost: {what}"));
        }
        let mut checks = self.checks;
        let unaccounted = count::unaccounted(&books, &ledgers);
        checks.promise(unaccounted.is_empty(), "everything in the shop's books stands in a run's ledger");
        Ok(Verdict {
            runs: runs.len(),
            orders: books.orders.len(),
            duplicates: count::duplicates(&books),
            lost: lost.len(),
            failures: checks.failures(),
        })
    }

    fn pick(&self, id: &str) -> Option<Message> {
        self.desk.message(id).cloned()
    }

    /// Works a message through to its end.
    async fn run(&mut self, message: &Message) -> Result<Value, Trouble> {
        let running = self.start(message).await?;
        self.finish(running).await
    }

    async fn start(&mut self, message: &Message) -> Result<Running, Trouble> {
        let what = format!("  ✉ {}: {}", message.from(), excerpt(message.body(), 100));
        self.screen.line(Tone::Title, &what);
        let run = self.desk.runtime.start_run(&self.desk.agent_id, &message.id, &message.text).await?;
        let id = id(&run);
        let label: String = message.id.chars().take_while(|c| *c != '-').collect();
        let timeline = Timeline::new(self.screen, &label);
        let following = tokio::spawn(follow(self.desk.runtime.clone(), id.clone(), timeline));
        self.runs.push(id.clone());
        Ok(Running { id, following })
    }

    /// Waits for a run's end and its whole timeline, and sums it up. A run that waits for a
    /// person whom the scene doesn't play is approved, as a patient owner would.
    async fn finish(&mut self, running: Running) -> Result<Value, Trouble> {
        let mut run = self.desk.runtime.wait(&running.id, RUN_WITHIN).await?;
        while run["status"] == "waiting_approval" {
            self.desk.runtime.approve(&run, "fine").await?;
            run = self.desk.runtime.wait(&running.id, RUN_WITHIN).await?;
        }
        // The stream ends with the run; were it stuck, the count must not wait for it.
        if tokio::time::timeout(Duration::from_secs(10), running.following).await.is_err() {
            self.checks.promise(false, &format!("the event stream of {} ends with the run", running.id));
        }
        let (took, answer) = timeline::summary(&run);
        self.screen.line(Tone::Plain, &format!("     “{answer}”"));
        self.screen.line(Tone::Quiet, &format!("     {took}"));
        Ok(run)
    }

    async fn orders_of(&self, message: &Message) -> Result<usize, Trouble> {
        let books = self.desk.shopfront.books().await?;
        Ok(books.orders.iter().filter(|order| order.message_id.as_deref() == Some(&message.id)).count())
    }

    async fn refunds_of(&self, order_id: i64) -> Result<usize, Trouble> {
        let books = self.desk.shopfront.books().await?;
        Ok(books.refunds.iter().filter(|refund| refund.order_id == order_id).count())
    }

    fn aside(&self, text: &str) {
        self.screen.line(Tone::Quiet, &format!("  {text}"));
    }
}

fn id(run: &Value) -> String {
    run["id"].as_str().unwrap_or_default().to_owned()
}
