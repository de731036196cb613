//! Clients of all types that follow an account by its states, on several nodes that restart, while others
//! change it over JMAP and IMAP: each comes to what a client sees that reads everything. So does one that
//! takes pushes (RFC 8620 §5.2, §5.6, §7.1).

#[path = "support/followers.rs"]
mod followers;
#[path = "support/imap.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod imap;
#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use followers::{Follower, OWN_TYPES, QueryFollower, SHARED_TYPES, call, read_all};
use sealpost_base::SeededRandom;
use sealpost_directory::AccountName;
use sealpost_jmap_session::{Caller, JmapShared, StateChanges};
use sealpost_vault::Store;
use serde_json::{Map, Value, json};
use server::TestServer;

/// What a client may do over several calls.
struct World {
    me: TestServer,
    you: TestServer,
    /// My account, for both.
    account: String,
    /// The first node sends mail, and never restarts.
    nodes: Vec<Arc<JmapShared>>,
    restarts: u64,
    random: SeededRandom,
    step: usize,
}

impl World {
    async fn new(seed: u64) -> Self {
        let me = TestServer::over(Store::memory()).await;
        let you = me.neighbour("you@localhost").await;
        for action in ["create Team", "create Team/Plans", "share Team"] {
            me.act(action).await;
        }
        me.grant_to("Team", &you.record.name, "lrswite").await;
        you.act("subscribe Other Users/me@localhost/Team").await;
        let account = format!("A{}", me.record.id);
        let nodes = vec![me.jmap.clone(), me.node(1), me.node(2)];
        World { me, you, account, nodes, restarts: 2, random: SeededRandom::new(seed), step: 0 }
    }

    fn below(&self, limit: usize) -> usize {
        usize::try_from(self.random.below(limit as u64)).unwrap()
    }

    /// A caller of some node.
    async fn somewhere(&self) -> Caller {
        self.me.login_at(&self.nodes[self.below(self.nodes.len())]).await
    }

    /// Some of the ids of a type, by a /query or a /get.
    async fn some(&self, caller: &Caller, kind: &str) -> Vec<String> {
        let all = read_all(caller, &self.account, kind).await.1;
        let ids = all.into_keys().filter(|_| self.below(3) == 0);
        ids.take(12).collect()
    }

    /// A change of my account by one of my clients.
    async fn act(&mut self) -> String {
        self.step += 1;
        let caller = self.somewhere().await;
        let roles: BTreeMap<String, String> = mailboxes(&caller, &self.account).await;
        let places: Vec<&String> =
            ["inbox", "archive", "Team", "Plans"].iter().filter_map(|name| roles.get(*name)).collect();
        let place = |n: usize| places[n % places.len()].clone();
        let (one, other) = (place(self.below(4)), place(self.below(4)));
        let set = async |caller: &Caller, kind: &str, arguments: Value| {
            call(caller, &self.account, &format!("{kind}/set"), arguments).await
        };
        let step = self.step;
        match self.below(13) {
            0 | 1 => {
                let thread = self.below(5);
                let mailbox = ["INBOX", "Archive", "Team"][self.below(3)];
                let text = format!(
                    "Message-ID: <{step}@x>\r\nReferences: <t{thread}@x>\r\nSubject: t{thread}\r\n\r\nx\r\n"
                );
                self.me.deliver(mailbox, text.as_bytes()).await;
                format!("deliver into {mailbox}")
            }
            2 | 3 => {
                let keyword = ["$seen", "$flagged", "work"][self.below(3)];
                let value = if self.below(2) == 0 { json!(true) } else { json!(null) };
                let some = self.some(&caller, "Email").await;
                let patch = |id: String| (id, json!({ (format!("keywords/{keyword}")): value }));
                let update: Map<String, Value> = some.into_iter().map(patch).collect();
                let done = set(&caller, "Email", json!({ "update": update })).await;
                format!("flags: {done}")
            }
            4 => {
                let some = self.some(&caller, "Email").await;
                let patch = |id: String| (id, json!({ "mailboxIds": { &one: true, &other: true } }));
                let update: Map<String, Value> = some.into_iter().map(patch).collect();
                let done = set(&caller, "Email", json!({ "update": update })).await;
                format!("move: {done}")
            }
            5 => {
                let some = self.some(&caller, "Email").await;
                format!("destroy: {}", set(&caller, "Email", json!({ "destroy": some })).await)
            }
            6 => {
                let email = |n: usize| {
                    let subject = format!("t{}", (n + step) % 5);
                    (format!("c{n}"), json!({ "mailboxIds": { &one: true }, "subject": subject }))
                };
                let create: Map<String, Value> = (0..1 + self.below(6)).map(email).collect();
                format!("create: {}", set(&caller, "Email", json!({ "create": create })).await)
            }
            7 => self.change_mailboxes(&caller, &one).await,
            8 => self.change_contacts(&caller).await,
            9 => {
                let first = self.me.login_at(&self.nodes[0]).await;
                let some = self.some(&first, "Identity").await;
                let update: Map<String, Value> =
                    some.into_iter().map(|id| (id, json!({ "name": format!("n{step}") }))).collect();
                let create = json!({ "a": { "email": "me@localhost", "name": "a" } });
                let done = set(&first, "Identity", json!({ "create": create, "update": update })).await;
                format!("identities: {done}")
            }
            10 => self.submit().await,
            11 => {
                let rights = ["", "l", "lr", "lrs", "lrswite"][self.below(5)];
                let name: &AccountName = &self.you.record.name;
                self.me.grant_to("Team", name, rights).await;
                format!("rights {rights:?}")
            }
            _ => {
                let which = 1 + self.below(self.nodes.len() - 1);
                self.restarts += 1;
                self.nodes[which] = self.me.node(self.restarts);
                format!("restart node {which}")
            }
        }
    }

    async fn change_mailboxes(&self, caller: &Caller, parent: &str) -> String {
        let name = format!("m{}", self.step);
        let some = self.some(caller, "Mailbox").await;
        let arguments = match self.below(4) {
            0 => json!({ "create": { "a": { "name": name }, "b": { "name": "sub", "parentId": "#a" } } }),
            1 => json!({ "create": { "a": { "name": name, "parentId": parent } } }),
            2 => {
                let order = self.below(3);
                let patch = |id: String| (id, json!({ "sortOrder": order, "isSubscribed": order > 0 }));
                json!({ "update": some.into_iter().map(patch).collect::<Map<_, _>>() })
            }
            _ => {
                // Not those with a role, and not the shared ones.
                let all = read_all(caller, &self.account, "Mailbox").await.1;
                let ours = all
                    .iter()
                    .filter(|(_, it)| it["name"].as_str().is_some_and(|name| name.starts_with('m')));
                let doomed: Vec<&String> = ours.map(|(id, _)| id).take(2).collect();
                json!({ "destroy": doomed, "onDestroyRemoveEmails": true })
            }
        };
        let done = call(caller, &self.account, "Mailbox/set", arguments.clone()).await;
        format!("mailboxes: {arguments} {done}")
    }

    async fn change_contacts(&self, caller: &Caller) -> String {
        let (books, cards) = (self.some(caller, "AddressBook").await, self.some(caller, "ContactCard").await);
        let any = read_all(caller, &self.account, "AddressBook").await.1;
        let (kind, arguments) = match self.below(5) {
            0 => ("AddressBook", json!({ "create": { "a": { "name": format!("b{}", self.step) } } })),
            1 => ("AddressBook", json!({ "destroy": books, "onDestroyRemoveContents": true })),
            2 => {
                let book = any.keys().next().unwrap();
                let card = |n: usize| {
                    let uid = format!("{}-{n}", self.step);
                    (
                        format!("c{n}"),
                        json!({ "addressBookIds": { book: true }, "version": "1.0", "uid": uid }),
                    )
                };
                let create: Map<String, Value> = (0..1 + self.below(5)).map(card).collect();
                ("ContactCard", json!({ "create": create }))
            }
            3 => {
                let name = format!("n{}", self.step);
                let patch = |id: String| (id, json!({ "name": { "full": name } }));
                ("ContactCard", json!({ "update": cards.into_iter().map(patch).collect::<Map<_, _>>() }))
            }
            _ => ("ContactCard", json!({ "destroy": cards })),
        };
        let done = call(caller, &self.account, &format!("{kind}/set"), arguments).await;
        format!("contacts: {done}")
    }

    /// Submits a mail, and a node reports what became of one.
    async fn submit(&self) -> String {
        let caller = self.me.login_at(&self.nodes[0]).await;
        let emails = read_all(&caller, &self.account, "Email").await.1;
        let identities = read_all(&caller, &self.account, "Identity").await.1;
        let (Some(email), Some(identity)) = (emails.keys().next(), identities.keys().next()) else {
            return "nothing to submit".to_owned();
        };
        let to = json!([{ "email": "x@there.example", "parameters": null }]);
        let envelope = json!({ "mailFrom": { "email": "me@localhost", "parameters": null }, "rcptTo": to });
        let submission = json!({ "identityId": identity, "emailId": email, "envelope": envelope });
        let known = self.some(&caller, "EmailSubmission").await;
        let arguments = json!({ "create": { "s": submission }, "destroy": known });
        let done = call(&caller, &self.account, "EmailSubmission/set", arguments).await;
        if done["created"]["s"].is_object() && self.below(2) == 0 {
            self.me.act(["sent 0 here", "sent 0 deferred", "sent 0 nowhere"][self.below(3)]).await;
        }
        format!("submit: {done}")
    }
}

/// Mailboxes by their roles, or names where they have none.
async fn mailboxes(caller: &Caller, account: &str) -> BTreeMap<String, String> {
    let all = read_all(caller, account, "Mailbox").await.1.into_iter();
    all.map(|(id, mailbox)| {
        let role = mailbox["role"].as_str().or(mailbox["name"].as_str());
        (role.unwrap().to_owned(), id)
    })
    .collect()
}

/// A random command of an IMAP client in its inbox.
async fn disturb(imap: &mut imap::Client, random: &SeededRandom) {
    let number = 1 + random.below(6);
    let command = match random.below(6) {
        0 => format!("STORE {number} +FLAGS (\\Seen work)"),
        1 => format!("STORE {number} +FLAGS (\\Deleted)"),
        2 => format!("STORE {number} -FLAGS (\\Deleted)"),
        3 => format!("COPY {number} Archive"),
        4 => format!("MOVE {number} Team"),
        _ => "EXPUNGE".to_owned(),
    };
    imap.command(&command).await;
}

#[tokio::test]
async fn clients_that_follow_states_on_any_node_see_everything() {
    let (mut pages, mut anew) = (0, 0);
    for seed in 0..4 {
        let mut world = World::new(seed).await;
        let mut imap = imap::Client::select(&world.me, "INBOX").await;
        let mut followers: Vec<Follower> = Vec::new();
        for most in [None, Some(1), Some(3)] {
            followers.extend(OWN_TYPES.iter().map(|kind| Follower::new(kind, most, true)));
            followers.extend(SHARED_TYPES.iter().map(|kind| Follower::new(kind, most, false)));
        }
        let mut queries = [QueryFollower::new("Email"), QueryFollower::new("ContactCard")];
        for step in 0..60 {
            let done = match world.below(4) {
                0 => {
                    disturb(&mut imap, &world.random).await;
                    "IMAP".to_owned()
                }
                _ => world.act().await,
            };
            let place = format!("seed {seed}, step {step}: {done}");
            for follower in &mut followers {
                // Some clients return later than others.
                if world.below(3) != 0 && step != 59 {
                    continue;
                }
                // Identities are those of addresses that a node that sends knows.
                let is_first = matches!(follower.kind, "EmailSubmission" | "Identity");
                let node = if is_first { 0 } else { world.below(world.nodes.len()) };
                let who = if follower.is_own { &world.me } else { &world.you };
                let caller = who.login_at(&world.nodes[node]).await;
                let responses = if world.below(3) == 0 && step != 59 { 1 } else { usize::MAX };
                let place = format!("{place}\n{} by {:?} on node {node}", follower.kind, follower.most);
                follower.follow(&caller, &world.account, responses, &place).await;
            }
            for query in &mut queries {
                if world.below(2) == 0 {
                    let caller = world.somewhere().await;
                    query.follow(&caller, &world.account, &place).await;
                }
            }
        }
        pages += followers.iter().map(|follower| follower.pages).sum::<usize>();
        let own = followers.iter().filter(|follower| follower.is_own);
        anew += own.map(|follower| follower.anew).sum::<usize>();
    }
    assert!(pages > 200, "responses that were not the last: {pages}");
    // A first response, and those after a nonexistent parent came or went.
    assert!(anew < 200, "clients that read everything again: {anew}");
}

/// A client that knows states from pushes alone.
struct Listener {
    changes: StateChanges,
    states: BTreeMap<(String, String), Value>,
}

impl Listener {
    async fn new(caller: &Caller, account: &str) -> Self {
        let mut states = BTreeMap::new();
        for kind in OWN_TYPES {
            let state = read_all(caller, account, kind).await.0;
            states.insert((account.to_owned(), (*kind).to_owned()), state);
        }
        // After that, as reading identities makes those of the account's addresses.
        let changes = caller.follow(None).await.unwrap();
        Listener { changes, states }
    }

    /// Takes all pushes that come.
    async fn drain(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        while let Ok(change) = tokio::time::timeout(Duration::from_secs(20), self.changes.next()).await {
            let change = serde_json::to_value(change.unwrap()).unwrap();
            for (account, types) in change["changed"].as_object().unwrap() {
                for (name, state) in types.as_object().unwrap() {
                    names.push(name.clone());
                    self.states.insert((account.clone(), name.clone()), state.clone());
                }
            }
        }
        names
    }
}

#[tokio::test(start_paused = true)]
async fn pushes_say_each_new_state() {
    for seed in 0..3 {
        let mut world = World::new(100 + seed).await;
        let caller = world.me.login_at(&world.nodes[0]).await;
        let mut listener = Listener::new(&caller, &world.account).await;
        for step in 0..40 {
            let done = world.act().await;
            // What other nodes wrote is known here, as it is after a while without this.
            world.me.refresh("Team").await;
            let place = format!("seed {seed}, step {step}: {done}");
            let before = listener.states.clone();
            let mut now = BTreeMap::new();
            for kind in OWN_TYPES {
                let state = read_all(&caller, &world.account, kind).await.0;
                now.insert((world.account.clone(), (*kind).to_owned()), state);
            }
            let pushed = listener.drain().await;
            for ((account, kind), state) in now {
                let key = (account, kind);
                assert_eq!(listener.states[&key], state, "{} {place}", key.1);
                let changed = before[&key] != state;
                assert!(changed || !pushed.contains(&key.1), "{} without a change, {place}", key.1);
            }
            // A client that comes back with its state missed nothing.
            if step % 8 == 0 {
                let mut again = caller.follow(Some(&listener.changes.state())).await.unwrap();
                let missed = tokio::time::timeout(Duration::from_secs(20), again.next()).await;
                assert!(missed.is_err(), "{missed:?} {place}");
            }
        }
    }
}
