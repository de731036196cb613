//! Two users, one of whom gives and takes rights while the other reads over JMAP and IMAP: each look
//! shows what the rights allow, over both protocols under the same ids (RFC 9698 §3).

#[path = "support/imap.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod imap;
#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;

use std::collections::{BTreeMap, BTreeSet};

use sealpost_base::SeededRandom;
use sealpost_directory::AccountName;
use sealpost_jmap_session::Caller;
use sealpost_vault::Store;
use serde_json::{Value, json};
use server::{TestServer, api};

const MAILBOXES: [&str; 3] = ["Team", "Plans", "Notes"];
/// Rights that the owner gives, in turn.
const RIGHTS: [&str; 8] = ["", "l", "r", "lr", "lrs", "lrswite", "li", "lrx"];
const STEPS: usize = 60;

type Ids = BTreeSet<String>;

struct World {
    owner: TestServer,
    caller: Caller,
    owners: Caller,
    imap: imap::Client,
    /// The account of the owner.
    account: String,
    rights: BTreeMap<&'static str, &'static str>,
    /// What the reader knows of the account: a state, and the emails at it.
    known: Option<(Value, Ids)>,
}

async fn call(caller: &Caller, account: &str, name: &str, mut arguments: Value) -> Value {
    arguments["accountId"] = json!(account);
    let using = ["core", "mail"].map(|name| format!("urn:ietf:params:jmap:{name}"));
    let request = json!({ "using": using, "methodCalls": [[name, arguments, "0"]] });
    api(caller, &request).await.unwrap()["methodResponses"][0][1].take()
}

fn ids(value: &Value) -> Ids {
    value.as_array().into_iter().flatten().map(|id| id.as_str().unwrap().to_owned()).collect()
}

impl World {
    async fn new(seed: u64) -> Self {
        let owner = TestServer::over(Store::memory()).await;
        let reader = owner.neighbour("you@localhost").await;
        for (mailbox, at) in MAILBOXES.iter().zip(0..) {
            owner.act(&format!("create {mailbox}")).await;
            for nth in 0..=at {
                deliver(&owner, mailbox, &format!("{seed}-{nth}")).await;
            }
        }
        let (caller, owners) = (reader.login_by_password().await, owner.login_by_password().await);
        let imap = imap::Client::login(&reader).await;
        let account = format!("A{}", owner.record.id);
        World { owner, caller, owners, imap, account, rights: BTreeMap::new(), known: None }
    }

    fn has(&self, mailbox: &str, letters: &str) -> bool {
        let rights = self.rights.get(mailbox).copied().unwrap_or("");
        letters.chars().all(|letter| rights.contains(letter))
    }

    /// The emails of a mailbox, as its owner sees them.
    async fn emails_of(&self, mailbox: &str) -> Ids {
        let filter = json!({ "filter": { "name": mailbox } });
        let found = call(&self.owners, &self.account, "Mailbox/query", filter).await;
        let filter = json!({ "filter": { "inMailbox": found["ids"][0] } });
        ids(&call(&self.owners, &self.account, "Email/query", filter).await["ids"])
    }

    /// What the reader may see.
    async fn allowed(&self) -> Ids {
        let mut all = Ids::new();
        for mailbox in MAILBOXES.into_iter().filter(|mailbox| self.has(mailbox, "lr")) {
            all.extend(self.emails_of(mailbox).await);
        }
        all
    }

    async fn seen(&self) -> Ids {
        let found = call(&self.caller, &self.account, "Email/query", json!({})).await;
        assert!(found["ids"].is_array() || found["type"] == "accountNotFound", "{found}");
        ids(&found["ids"])
    }

    /// JMAP shows what is allowed, and IMAP the same under the same ids.
    async fn check(&mut self, step: &str) {
        let allowed = self.allowed().await;
        assert_eq!(self.seen().await, allowed, "{step}: {:?}", self.rights);
        let get = json!({ "ids": null, "properties": ["name", "totalEmails", "myRights"] });
        let got = call(&self.caller, &self.account, "Mailbox/get", get).await;
        let listed: BTreeMap<&str, &Value> = got["list"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|mailbox| (mailbox["name"].as_str().unwrap(), mailbox))
            .collect();
        for mailbox in MAILBOXES {
            let shown = listed.get(mailbox);
            assert_eq!(shown.is_some(), self.has(mailbox, "l"), "{step}: {mailbox} {:?}", self.rights);
            let name = format!("\"Other Users/me@localhost/{mailbox}\"");
            let list = self.imap.command(&format!("LIST \"\" {name}")).await;
            assert_eq!(list.len() == 2, self.has(mailbox, "l"), "{step}: {list:?}");
            let selected = self.imap.command(&format!("EXAMINE {name}")).await;
            let is_selected = selected.last().unwrap().starts_with("x OK");
            assert_eq!(is_selected, self.has(mailbox, "r"), "{step}: {selected:?}");
            if let Some(shown) = shown.filter(|_| is_selected) {
                let validity = selected.iter().find_map(|line| imap::object_id(line, "MAILBOXID"));
                assert_eq!(validity.as_deref(), shown["id"].as_str(), "RFC 9698 §3");
                let emails = self.imap.emails().await;
                assert_eq!(emails, self.emails_of(mailbox).await, "{step}");
                assert_eq!(shown["totalEmails"], json!(emails.len()), "{step}");
            }
            if is_selected {
                // The server ends a session whose mailbox is taken away.
                self.imap.command("UNSELECT").await;
            }
        }
        self.sync(step, &allowed).await;
    }

    /// A client that follows the account by its states comes to the same emails.
    async fn sync(&mut self, step: &str, allowed: &Ids) {
        let Some((state, mut emails)) = self.known.take() else {
            let found = call(&self.caller, &self.account, "Email/query", json!({})).await;
            if found["queryState"].is_string() {
                self.known = Some((found["queryState"].clone(), ids(&found["ids"])));
            }
            return;
        };
        let changes =
            call(&self.caller, &self.account, "Email/changes", json!({ "sinceState": state })).await;
        let Some(new) = changes["newState"].as_str() else { return };
        assert_eq!(changes["hasMoreChanges"], false);
        for id in ids(&changes["created"]) {
            assert!(emails.insert(id), "{step}: created twice");
        }
        for id in ids(&changes["destroyed"]) {
            assert!(emails.remove(&id), "{step}: destroyed and never there");
        }
        assert_eq!(emails, *allowed, "{step}: {changes}");
        self.known = Some((json!(new), emails));
    }

    async fn step(&mut self, random: &SeededRandom, step: usize) -> String {
        let mailbox = MAILBOXES[usize::try_from(random.below(3)).unwrap()];
        match random.below(4) {
            0 | 1 => {
                let rights = RIGHTS[usize::try_from(random.below(8)).unwrap()];
                let before = self.allowed().await;
                let name = AccountName::parse("you@localhost").unwrap();
                // The reader reads at the same time: what was allowed, or what is.
                let granted = self.owner.grant_to(mailbox, &name, rights);
                let (seen, ()) = tokio::join!(self.seen(), granted);
                self.rights.insert(mailbox, rights);
                let after = self.allowed().await;
                assert!(seen == before || seen == after, "{step}: {mailbox} {rights}");
                format!("{step}: grant {mailbox} {rights:?}")
            }
            2 => {
                deliver_shared(&self.owners, &self.account, mailbox, step).await;
                format!("{step}: a message comes into {mailbox}")
            }
            _ => {
                let emails = self.emails_of(mailbox).await;
                if let Some(email) = emails.first() {
                    let set = json!({ "destroy": [email] });
                    call(&self.owners, &self.account, "Email/set", set).await;
                }
                format!("{step}: a message of {mailbox} goes")
            }
        }
    }
}

async fn deliver(owner: &TestServer, mailbox: &str, name: &str) {
    let text = format!("Message-ID: <{mailbox}-{name}@x>\r\nSubject: {mailbox}\r\n\r\ntext\r\n");
    owner.deliver(mailbox, text.as_bytes()).await;
}

/// The owner puts a message into a mailbox, shared or not.
async fn deliver_shared(owner: &Caller, account: &str, mailbox: &str, step: usize) {
    let found = call(owner, account, "Mailbox/query", json!({ "filter": { "name": mailbox } })).await;
    let id = found["ids"][0].as_str().unwrap();
    let email = json!({ "mailboxIds": { id: true }, "subject": format!("{mailbox} {step}"),
        "bodyValues": { "t": { "value": "text" } }, "textBody": [{ "partId": "t", "type": "text/plain" }] });
    let set = call(owner, account, "Email/set", json!({ "create": { "e": email } })).await;
    assert!(set["created"]["e"].is_object(), "{set}");
}

#[tokio::test]
async fn responses_show_exactly_the_readable_mailboxes() {
    for seed in 0..3 {
        let random = SeededRandom::new(seed);
        let mut world = World::new(seed).await;
        for step in 0..STEPS {
            let done = world.step(&random, step).await;
            world.check(&done).await;
        }
    }
}

#[tokio::test]
async fn ids_agree_over_both_protocols() {
    let url = |settings: &mut sealpost_session::Settings| {
        settings.listen.http = vec!["127.0.0.1:80".parse().unwrap()];
        settings.http.url = Some("https://mail.example".parse().unwrap());
    };
    let server = TestServer::with(Store::memory(), url).await;
    server.act("create Team").await;
    deliver(&server, "INBOX", "1").await;
    deliver(&server, "Team", "2").await;
    let caller = server.login_by_password().await;
    let account = format!("A{}", server.record.id);
    let mut imap = imap::Client::login(&server).await;
    let capabilities = imap.command("CAPABILITY").await;
    assert!(capabilities[0].contains(" JMAPACCESS") && capabilities[0].contains(" OBJECTID"));
    let access = imap.command("GETJMAPACCESS").await;
    assert_eq!(access[0], "* JMAPACCESS \"https://mail.example/.well-known/jmap\"\r\n");
    for (name, shown) in [("INBOX", "Inbox"), ("Team", "Team")] {
        let selected = imap.command(&format!("SELECT {name}")).await;
        let mailbox = selected.iter().find_map(|line| imap::object_id(line, "MAILBOXID")).unwrap();
        let fetched = imap.command("FETCH 1 (EMAILID THREADID)").await;
        let id = |kind| imap::object_id(&fetched[0], kind).unwrap();
        let get = call(&caller, &account, "Mailbox/get", json!({ "ids": [mailbox] })).await;
        assert_eq!(get["list"][0]["name"], shown);
        let get = call(&caller, &account, "Email/get", json!({ "ids": [id("EMAILID")] })).await;
        assert_eq!(get["list"][0]["threadId"], json!(id("THREADID")));
        assert_eq!(get["list"][0]["mailboxIds"], json!({ mailbox: true }));
    }
    let server = TestServer::new().await;
    let mut imap = imap::Client::login(&server).await;
    assert!(!imap.command("CAPABILITY").await[0].contains("JMAPACCESS"), "JMAP is not served");
    assert!(imap.command("GETJMAPACCESS").await[0].starts_with("x BAD"), "RFC 9698 §4");
}
