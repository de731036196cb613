//! A runner with scripted servers. The wall clock follows tokio's paused clock, which advances when all
//! tasks wait.

mod canceled;
mod reuse;
mod servers;
mod simulation;

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{AccountId, Budget, Position, SeededRandom};
use sealpost_delivery::outcome::{Failure as Refusal, PeerReply, Reason};
use sealpost_smtp::types::Reply;
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::MailKeys;

use super::*;
use crate::envelope::{Mail, Notify, Source};
use crate::event::{Event, Rule, Selector};
use crate::state::tests::mail;
use crate::{Opening, Queue};
use servers::{Behaviour, Servers, TokioClock};

/// A queue that is being sent.
struct Fixture {
    queue: Queue,
    runner: Runner,
    servers: Servers,
    clock: Arc<TokioClock>,
}

async fn open(store: &Store, clock: &Arc<TokioClock>, seed: u64) -> Queue {
    let opening = Opening {
        store: store.clone(),
        node: crate::node_id("a"),
        name: "a".to_owned(),
        log_key: LogKey::for_tests(),
        mail_keys: MailKeys::generate(&SeededRandom::new(77)),
        clock: clock.clone(),
        random: Arc::new(SeededRandom::new(seed)),
        budget: Budget::new(64 << 20),
        known: Position::ZERO,
    };
    Queue::open(opening).await.unwrap()
}

impl Fixture {
    async fn on(store: &Store, servers: &Servers, clock: &Arc<TokioClock>) -> Self {
        Self::with(store, servers, clock, 100, 1).await
    }

    async fn with(
        store: &Store,
        servers: &Servers,
        clock: &Arc<TokioClock>,
        connections: usize,
        seed: u64,
    ) -> Self {
        let queue = open(store, clock, seed).await;
        let writing = queue.clone();
        tokio::spawn(async move { writing.run().await });
        let settings = Settings { host: "mx.here.example".to_owned(), connections };
        let transport = Arc::new(servers.clone());
        let runner = Runner::new(queue.clone(), transport, Arc::new(AsAccepted), settings);
        let running = runner.clone();
        tokio::spawn(async move { running.run().await });
        Fixture { queue, runner, servers: servers.clone(), clock: clock.clone() }
    }

    async fn new() -> Self {
        let clock = Arc::new(TokioClock::new());
        let servers = Servers::new(clock.clone());
        Self::on(&Store::memory(), &servers, &clock).await
    }

    fn mail(&self, account: u8, to: &[&str]) -> Mail {
        mail(self.clock.now(), account, to)
    }

    async fn accept(&self, account: u8, to: &[&str]) -> MailId {
        self.queue.accept(self.mail(account, to)).await.unwrap()
    }

    /// Lets time pass until the queue is empty, at most that long.
    async fn drain(&self, most: Duration) {
        let mut changes = self.queue.changes();
        let empty = changes.wait_for(|_| self.queue.state().is_empty());
        let _ = tokio::time::timeout(most, empty).await;
    }
}

fn refused(code: u16, enhanced: (u8, u16, u16), reason: Reason) -> Behaviour {
    let reply = PeerReply::new(&Reply::status(code, enhanced, "as the test says"));
    Behaviour::Refuse(Refusal::new(reason, "mx.there.example").with_reply(reply))
}

const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test(start_paused = true)]
async fn a_mail_is_delivered_at_once_and_marked_before() {
    let fixture = Fixture::new().await;
    let id = fixture.accept(1, &["u@there.example"]).await;
    fixture.servers.check_marks(&fixture.queue);
    fixture.drain(Duration::from_secs(5)).await;
    assert!(fixture.queue.state().is_empty());
    let [delivery] = &fixture.servers.deliveries()[..] else { panic!("one delivery") };
    assert_eq!(delivery.recipients, ["u@there.example"]);
    assert_eq!(delivery.message, b"Received: here\r\nSubject: x\r\n\r\ntext\r\n");
    assert!(delivery.at.since(fixture.servers.start()) < Duration::from_secs(1));
    assert_eq!(fixture.servers.marked(), 1, "{id} was not marked");
    assert_eq!(fixture.runner.metrics().relayed.read() + fixture.runner.metrics().delivered.read(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deferred_mail_is_retried_reported_late_and_failed() {
    let fixture = Fixture::new().await;
    fixture.servers.set("slow.example", refused(450, (4, 7, 1), Reason::RecipientRefused));
    fixture.accept(1, &["u@slow.example"]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let why = fixture.queue.state().left(MailId(0), 0).unwrap().unwrap();
    assert!(why.to_string().contains("mx.there.example replied: 450 4.7.1"), "{why}");
    tokio::time::sleep(Duration::from_secs(9 * 60)).await;
    assert_eq!(fixture.servers.attempts("slow.example"), 2);
    tokio::time::sleep(DAY).await;
    let reports = fixture.servers.deliveries();
    let [report] = &reports[..] else { panic!("one report of the delay: {}", reports.len()) };
    assert_eq!(report.recipients, ["1@sender.example"]);
    assert!(String::from_utf8_lossy(&report.message).contains("Action: delayed"));
    let late = report.at.since(fixture.servers.start());
    assert!(late >= retry_delay() && late < retry_delay() + Duration::from_secs(60), "{late:?}");
    fixture.drain(6 * DAY).await;
    let reports = fixture.servers.deliveries();
    let [_, report] = &reports[..] else { panic!("and one of the failure") };
    let text = String::from_utf8_lossy(&report.message);
    assert!(text.contains("Action: failed") && text.contains("Status: 4.4.7"), "{text}");
    let late = report.at.since(fixture.servers.start());
    assert!(late >= 5 * DAY && late < 5 * DAY + Duration::from_secs(600), "{late:?}");
    assert!(fixture.queue.state().is_empty());
    assert!((25..45).contains(&fixture.servers.attempts("slow.example")));
}

fn retry_delay() -> Duration {
    crate::retry::DELAY_REPORT_AFTER
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_reported_and_reports_are_not() {
    let fixture = Fixture::new().await;
    fixture.servers.set("no.example", refused(550, (5, 1, 1), Reason::RecipientRefused));
    fixture.servers.set("sender.example", refused(550, (5, 1, 1), Reason::RecipientRefused));
    fixture.accept(1, &["u@no.example", "v@there.example", "w@no.example"]).await;
    fixture.drain(DAY).await;
    assert!(fixture.queue.state().is_empty());
    assert_eq!(fixture.servers.attempts("no.example"), 1);
    assert_eq!(fixture.servers.attempts("sender.example"), 1, "the report is refused, and that is the end");
    assert_eq!(fixture.servers.deliveries().len(), 1);
    assert_eq!(fixture.queue.state().totals().failed, 3);
}

#[tokio::test(start_paused = true)]
async fn success_is_reported_where_it_is_asked_for() {
    let fixture = Fixture::new().await;
    let mut mail = fixture.mail(1, &["u@there.example", "v@there.example"]);
    mail.recipients[0].notify = Some(Notify::SUCCESS);
    fixture.queue.accept(mail).await.unwrap();
    fixture.drain(DAY).await;
    let deliveries = fixture.servers.deliveries();
    let report = deliveries.iter().find(|d| d.recipients == ["1@sender.example"]).unwrap();
    let text = String::from_utf8_lossy(&report.message);
    assert!(text.contains("Action: relayed") && text.contains("u@there.example"), "{text}");
    assert!(!text.contains("v@there.example"));
}

#[tokio::test(start_paused = true)]
async fn a_lone_mail_is_next_behind_ten_thousand() {
    for same_site in [true, false] {
        let clock = Arc::new(TokioClock::new());
        let servers = Servers::new(clock.clone());
        servers.take(Duration::from_millis(50));
        let fixture = Fixture::with(&Store::memory(), &servers, &clock, 40, 1).await;
        let many = (0..10_000).map(|n| {
            let to = if same_site { "u@there.example".to_owned() } else { format!("u@d{}.example", n % 500) };
            fixture.queue.accept(fixture.mail(1, &[&to]))
        });
        futures::future::join_all(many).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(fixture.queue.state().len() > 5000);
        let began = clock.now();
        let to = if same_site { "lone@there.example" } else { "lone@elsewhere.example" };
        fixture.accept(2, &[to]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let lone = servers.deliveries().into_iter().find(|d| d.recipients == [to]);
        let lone = lone.unwrap_or_else(|| panic!("not within a second (same site: {same_site})"));
        assert!(lone.at.since(began) < Duration::from_secs(1));
        assert!(servers.most_connections("there.example") <= 20);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_site_is_suspended_and_retried() {
    let fixture = Fixture::new().await;
    fixture.servers.set("dead.example", Behaviour::NoConnection);
    for n in 0..200 {
        fixture.accept(1, &[&format!("u{n}@dead.example")]).await;
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(fixture.servers.attempts("dead.example") <= 12, "{}", fixture.servers.attempts("dead.example"));
    assert_eq!(fixture.queue.state().len(), 200);
    assert_eq!(fixture.runner.sites(1).suspended, 1);
    let suspended = fixture.runner.status().sites.into_iter().find(|(site, ..)| site == "dead.example");
    assert!(suspended.unwrap().4.is_some());
    let why = fixture.queue.state().left(MailId(150), 0).unwrap().unwrap();
    assert!(why.to_string().contains("not tried before"), "{why}");
    fixture.accept(1, &["u@alive.example"]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.servers.attempts("alive.example"), 1, "others are not delayed");
    fixture.servers.set("dead.example", Behaviour::Accept);
    fixture.drain(DAY).await;
    assert!(fixture.queue.state().is_empty());
    assert_eq!(fixture.servers.deliveries().len(), 201);
}

#[tokio::test(start_paused = true)]
async fn the_busiest_sites_are_named() {
    let fixture = Fixture::new().await;
    for n in 0..200 {
        fixture.accept(1, &[&format!("u{n}@there.example")]).await;
    }
    fixture.accept(2, &["u@elsewhere.example"]).await;
    let mut most_waiting = 0;
    while !fixture.queue.state().is_empty() {
        let loads = fixture.runner.sites(1);
        assert!(loads.busiest.len() <= 1 && loads.suspended == 0, "{loads:?}");
        if let [load] = &loads.busiest[..] {
            assert!(load.site == "there.example" || load.waiting == 0, "{load:?}");
            most_waiting = most_waiting.max(load.waiting);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(most_waiting > 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_second_choice_of_a_route_loses_nothing() {
    let fixture = Fixture::new().await;
    fixture.servers.set("picky.example", refused(550, (5, 7, 1), Reason::MessageRefused));
    fixture.servers.set_second("picky.example", Behaviour::Accept);
    fixture.servers.set("hard.example", refused(550, (5, 7, 1), Reason::MessageRefused));
    fixture.accept(1, &["u@picky.example", "v@hard.example"]).await;
    fixture.drain(DAY).await;
    let deliveries = fixture.servers.deliveries();
    assert!(deliveries.iter().any(|d| d.recipients == ["u@picky.example"]));
    let report = deliveries.iter().find(|d| d.recipients == ["1@sender.example"]).unwrap();
    let text = String::from_utf8_lossy(&report.message);
    assert!(text.contains("v@hard.example") && !text.contains("u@picky.example"), "{text}");
    assert_eq!(deliveries.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn rules_hold_mail_until_they_are_removed() {
    let fixture = Fixture::new().await;
    let rule = |selector| {
        let until = fixture.clock.now().after(20 * DAY);
        Event::RuleAdded(Rule { number: 0, selector, until, note: "test".to_owned() })
    };
    let domain = Selector { domain: Some("held.example".to_owned()), ..Selector::default() };
    let site = Selector { site: Some("paused.example".to_owned()), ..Selector::default() };
    fixture.queue.commit(vec![rule(domain), rule(site)]).await.unwrap();
    fixture.accept(1, &["u@held.example"]).await;
    fixture.accept(1, &["u@paused.example"]).await;
    fixture.accept(1, &["u@free.example"]).await;
    tokio::time::sleep(10 * DAY).await;
    assert_eq!(fixture.servers.deliveries().len(), 1);
    assert_eq!(fixture.queue.state().len(), 2);
    fixture.queue.commit(vec![Event::RuleRemoved(1), Event::RuleRemoved(2)]).await.unwrap();
    fixture.drain(Duration::from_secs(10)).await;
    assert_eq!(fixture.servers.deliveries().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_queue_on_hold_sends_nothing() {
    let fixture = Fixture::new().await;
    fixture.queue.commit(vec![Event::AllHeld("restored".to_owned())]).await.unwrap();
    fixture.accept(1, &["u@there.example"]).await;
    tokio::time::sleep(DAY).await;
    assert!(fixture.servers.deliveries().is_empty());
    fixture.queue.commit(vec![Event::AllReleased]).await.unwrap();
    fixture.drain(Duration::from_secs(10)).await;
    assert_eq!(fixture.servers.deliveries().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_future_release_waits_for_its_time() {
    let fixture = Fixture::new().await;
    let mut later = fixture.mail(1, &["u@there.example"]);
    later.release = Some(fixture.clock.now().after(3 * DAY));
    fixture.queue.accept(later).await.unwrap();
    tokio::time::sleep(3 * DAY - Duration::from_secs(10)).await;
    assert!(fixture.servers.deliveries().is_empty());
    fixture.drain(Duration::from_secs(60)).await;
    assert_eq!(fixture.servers.deliveries().len(), 1, "no report of a delay either");
}

#[tokio::test(start_paused = true)]
async fn a_loop_ends() {
    let fixture = Fixture::new().await;
    let mut mail = fixture.mail(1, &["u@there.example"]);
    mail.facts.received = 101;
    fixture.queue.accept(mail).await.unwrap();
    fixture.drain(DAY).await;
    let deliveries = fixture.servers.deliveries();
    let [report] = &deliveries[..] else { panic!("a report alone") };
    assert!(String::from_utf8_lossy(&report.message).contains("Status: 5.4.6"));
}

#[tokio::test(start_paused = true)]
async fn a_mail_in_transfer_at_shutdown_arrives_once() {
    let clock = Arc::new(TokioClock::new());
    let (servers, store) = (Servers::new(clock.clone()), Store::memory());
    servers.take(Duration::from_millis(80));
    let fixture = Fixture::on(&store, &servers, &clock).await;
    for n in 0..200 {
        fixture.accept(1 + (n % 5) as u8, &[&format!("u{n}@there.example")]).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    fixture.runner.stop();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let sent = servers.deliveries().len();
    assert!((1..200).contains(&sent), "{sent}");
    fixture.queue.close();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = Fixture::on(&store, &servers, &clock).await;
    assert_eq!(again.queue.state().len(), 200 - sent);
    assert_eq!(again.queue.state().totals().repeated, 0);
    again.drain(Duration::from_secs(60)).await;
    assert_eq!(servers.deliveries().len(), 200, "none twice");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_loses_and_strands_nothing() {
    let fixture = Fixture::new().await;
    fixture.servers.set("slow.example", refused(450, (4, 7, 1), Reason::RecipientRefused));
    fixture.accept(1, &["u@slow.example"]).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    // The clock goes back a year: a mail that would be due in a year is due in four hours at most.
    fixture.clock.jump(-365 * 86_400);
    fixture.servers.set("slow.example", Behaviour::Accept);
    fixture.drain(Duration::from_secs(5 * 3600)).await;
    assert!(fixture.queue.state().is_empty());
    // The clock goes ahead a year: a mail that was never tried does not expire.
    fixture.queue.commit(vec![Event::AllHeld("wait".to_owned())]).await.unwrap();
    fixture.accept(1, &["v@there.example"]).await;
    fixture.clock.jump(365 * 86_400);
    fixture.queue.commit(vec![Event::AllReleased]).await.unwrap();
    fixture.drain(Duration::from_secs(60)).await;
    assert!(fixture.servers.deliveries().iter().any(|d| d.recipients == ["v@there.example"]));
}

#[tokio::test(start_paused = true)]
async fn a_report_of_this_server_says_so() {
    let fixture = Fixture::new().await;
    fixture.servers.set("no.example", refused(550, (5, 1, 1), Reason::RecipientRefused));
    let mut mail = fixture.mail(1, &["u@no.example"]);
    mail.account = Some(AccountId([9; 16]));
    fixture.queue.accept(mail).await.unwrap();
    fixture.drain(DAY).await;
    let deliveries = fixture.servers.deliveries();
    let [report] = &deliveries[..] else { panic!("a report") };
    assert_eq!(report.sender, "");
    let text = String::from_utf8_lossy(&report.message).into_owned();
    assert!(text.contains("Reporting-MTA: dns; mx.here.example"), "{text}");
    assert_eq!(Source::Report as u8, 2);
}

#[tokio::test(start_paused = true)]
async fn requests_of_other_processes_are_carried_out_once() {
    use crate::request::{Action, Request, is_pending, submit};
    let clock = Arc::new(TokioClock::new());
    let (servers, store) = (Servers::new(clock.clone()), Store::memory());
    servers.set("slow.example", refused(450, (4, 7, 1), Reason::RecipientRefused));
    let fixture = Fixture::on(&store, &servers, &clock).await;
    for n in 0..4 {
        fixture.accept(1 + n, &[&format!("u{n}@slow.example")]).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let keys = MailKeys::generate(&SeededRandom::new(77));
    let random = SeededRandom::new(5);
    let ask = async |action, selector| {
        let request = Request { action, selector, by: "test".to_owned() };
        let node = crate::node_id("a");
        let path = submit(&store, &keys, node, &request, clock.now(), &random).await.unwrap();
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert!(!is_pending(&store, &path).await.unwrap());
    };
    let by_sender = |sender: &str| Selector { sender: Some(sender.to_owned()), ..Selector::default() };
    let by_id = |id| Selector { mails: Some(vec![MailId(id)]), ..Selector::default() };
    ask(Action::Hold(clock.now().after(20 * DAY)), by_sender("1@sender.example")).await;
    ask(Action::Remove, by_id(1)).await;
    ask(Action::Bounce, by_sender("3@sender.example")).await;
    let before = servers.attempts("slow.example");
    ask(Action::Retry, by_id(3)).await;
    assert_eq!(servers.attempts("slow.example"), before + 1);
    let deliveries = servers.deliveries();
    let [report] = &deliveries[..] else { panic!("the bounce alone") };
    assert_eq!(report.recipients, ["3@sender.example"]);
    assert_eq!(fixture.queue.state().len(), 2);
    servers.set("slow.example", Behaviour::Accept);
    fixture.drain(DAY).await;
    assert_eq!(fixture.queue.state().len(), 1, "one is held");
    ask(Action::Release, by_id(0)).await;
    assert!(fixture.queue.state().is_empty());
    let domain = Selector { domain: Some("there.example".to_owned()), ..Selector::default() };
    ask(Action::AddRule(clock.now().after(DAY), "why not".to_owned()), domain.clone()).await;
    fixture.accept(1, &["u@there.example"]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fixture.queue.state().len(), 1);
    ask(Action::RemoveRule(0), domain).await;
    assert!(fixture.queue.state().is_empty());
}

/// A process that has just started knows of no mail where it goes, but where it was tried last.
#[tokio::test(start_paused = true)]
async fn requests_about_a_site_find_mail_after_a_restart() {
    use crate::request::{Action, Request, submit};
    let clock = Arc::new(TokioClock::new());
    let (servers, store) = (Servers::new(clock.clone()), Store::memory());
    servers.set("slow.example", refused(450, (4, 7, 1), Reason::RecipientRefused));
    let former = Fixture::on(&store, &servers, &clock).await;
    former.accept(1, &["u@slow.example"]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let owner = Fixture::with(&store, &servers, &clock, 100, 3).await;
    let keys = MailKeys::generate(&SeededRandom::new(77));
    for (site, left) in [("mx.elsewhere.example", 1), ("mx.there.example", 0)] {
        let selector = Selector { site: Some(site.to_owned()), ..Selector::default() };
        let request = Request { action: Action::Remove, selector, by: "test".to_owned() };
        let (node, random) = (crate::node_id("a"), SeededRandom::new(5));
        submit(&store, &keys, node, &request, clock.now(), &random).await.unwrap();
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert_eq!(owner.queue.state().len(), left, "{site}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_requested_removal_removes_a_body_once_it_is_recorded() {
    use crate::request::{Action, Request, is_pending, submit};
    let clock = Arc::new(TokioClock::new());
    let (servers, store) = (Servers::new(clock.clone()), Store::memory());
    servers.set("slow.example", refused(450, (4, 7, 1), Reason::RecipientRefused));
    let former = Fixture::on(&store, &servers, &clock).await;
    let mut body = former.queue.begin_body(100);
    body.write(&vec![b'x'; 100_000]).await.unwrap();
    let mut large = former.mail(1, &["u@slow.example"]);
    (large.facts.size, large.body) = (100_000, body.finish().await.unwrap());
    let id = former.queue.accept(large).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let node = crate::node_id("a");
    let bodies = async || futures::StreamExt::count(store.list(&format!("queue/{node}/body"), None)).await;
    let adopted = open(&store, &clock, 2).await;
    let selector = Selector { mails: Some(vec![id]), ..Selector::default() };
    let request = Request { action: Action::Remove, selector, by: "test".to_owned() };
    let keys = MailKeys::generate(&SeededRandom::new(77));
    let path = submit(&store, &keys, node, &request, clock.now(), &SeededRandom::new(5)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(former.queue.stopped().is_some() && is_pending(&store, &path).await.unwrap());
    assert!(adopted.state().rows().get(id).is_some());
    assert_eq!(bodies().await, 1, "the mail is still queued");
    let owner = Fixture::with(&store, &servers, &clock, 100, 3).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(owner.queue.state().is_empty() && !is_pending(&store, &path).await.unwrap());
    assert_eq!(bodies().await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_log_has_the_accepting_server_and_its_reply() {
    use crate::trace::Traced;
    let (store, clock) = (Store::memory(), Arc::new(TokioClock::new()));
    let servers = Servers::new(clock.clone());
    let fixture = Fixture::on(&store, &servers, &clock).await;
    fixture.servers.set("slow.example", refused(450, (4, 7, 1), Reason::RecipientRefused));
    let id = fixture.accept(1, &["u@there.example", "v@slow.example"]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let keys = MailKeys::generate(&SeededRandom::new(77));
    let (key, random) = (LogKey::for_tests(), Arc::new(SeededRandom::new(1)));
    let view = crate::QueueView::open(store, crate::node_id("a"), &key, keys, clock, random).await.unwrap();
    let trace = view.trace(&Traced::Mail(id), 1).await.unwrap();
    let steps: Vec<&Event> = trace.mails[&id].steps.iter().map(|(_, event)| event).collect();
    let taken = steps.iter().position(|event| matches!(event, Event::Taken(_))).unwrap();
    let [Event::Taken(server), Event::Attempted(attempted)] = steps[taken..taken + 2] else {
        panic!("the attempt follows the server that took it");
    };
    assert!(server.host == "there.example" && server.reply.starts_with("250"), "{server}");
    assert_eq!(attempted.outcomes[0].0, 0);
    assert_eq!(
        steps.iter().filter(|event| matches!(event, Event::Taken(_))).count(),
        1,
        "who refuses takes nothing"
    );
}
