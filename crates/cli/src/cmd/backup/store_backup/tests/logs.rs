//! What is copied of an account's log and checkpoints, and in which order.

use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;

use super::super::*;

const ID: &str = "00000000000000000000000000000001";

/// Two stores with these objects of the account; what is in each says its path, or what is given.
async fn copy_of(from: &[&str], to: &[(&str, &str)]) -> StoreBackup {
    let stores = [Arc::new(InMemory::new()), Arc::new(InMemory::new())];
    let from = from.iter().map(|path| (0, *path, *path));
    for (at, path, text) in from.chain(to.iter().map(|(path, text)| (1, *path, *text))) {
        stores[at].put(&Path::from(format!("acct/{ID}/{path}")), text.to_owned().into()).await.unwrap();
    }
    let [from, to] = stores.map(|store| Store::over(store));
    StoreBackup::new(from, to)
}

async fn there(copy: &StoreBackup, kind: &str) -> Vec<String> {
    let prefix = format!("acct/{ID}/{kind}");
    let listed: Vec<ListedObject> = copy.to.list(&prefix, None).try_collect().await.unwrap();
    listed.into_iter().map(|object| object.path[prefix.len() + 1..].to_owned()).collect()
}

fn log(positions: impl IntoIterator<Item = u64>) -> Vec<String> {
    positions.into_iter().map(|position| format!("log/{position:016x}")).collect()
}

fn folder() -> String {
    format!("acct/{ID}")
}

fn borrowed(paths: &[String]) -> Vec<&str> {
    paths.iter().map(String::as_str).collect()
}

/// Something was appended at TO after it was seen that its log is an earlier one of FROM's.
#[tokio::test]
async fn where_logs_went_on_differently_nothing_follows() {
    let from = log(1..=5);
    let mut to: Vec<(&str, &str)> = from[..2].iter().map(|path| (&**path, &**path)).collect();
    to.push((&from[2], "another entry"));
    let mut copy = copy_of(&borrowed(&from), &to).await;
    let (_, listed) = copy.log_and_manifests(&folder()).await.unwrap();
    let done = copy.in_order(listed).await.unwrap();
    assert!(done.ends_before.is_some_and(|end| end.ends_with(&from[2])));
    assert_eq!(there(&copy, "log").await.len(), 3);
    assert_eq!((copy.summary.differing.len(), copy.summary.held_back.len()), (1, 2));
    assert!(!copy.summary.is_complete());
}

/// The log was trimmed since the last copy.
#[tokio::test]
async fn a_checkpoint_comes_before_the_log_behind_it() {
    let mut from = log(5..=8);
    let manifests = [5, 7].map(|position: u64| format!("manifest/{position:016x}"));
    from.extend(manifests.clone());
    for (end, wants) in [(0, true), (2, true), (4, true), (5, false), (8, false)] {
        let to = log(1..=end);
        let to: Vec<(&str, &str)> = to.iter().map(|path| (&**path, &**path)).collect();
        let mut copy = copy_of(&borrowed(&from), &to).await;
        let (listed, _) = copy.log_and_manifests(&folder()).await.unwrap();
        let first = copy.before_the_log(&folder(), &listed).await.unwrap();
        assert_eq!(first.is_some(), wants, "{end}");
        assert!(first.is_none_or(|first| first.path.ends_with(&manifests[0])));
        copy.log(&folder()).await.unwrap();
        assert_eq!(there(&copy, "manifest").await.len(), 2, "{end}");
        assert!(copy.summary.is_complete());
    }
}

#[tokio::test]
async fn parts_of_a_checkpoint_without_a_manifest_are_left_alone() {
    let mut from = log(1..=9);
    let manifest = format!("manifest/{:016x}", 7);
    let chunks = [7, 9].map(|position: u64| format!("snap/{position:016x}/head"));
    from.extend([manifest].into_iter().chain(chunks));
    let mut copy = copy_of(&borrowed(&from), &[]).await;
    copy.log(&folder()).await.unwrap();
    assert_eq!(there(&copy, "snap").await, [format!("{:016x}/head", 7)]);
}
