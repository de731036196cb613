//! Parts of `make bench` that are not turns at a case: each takes every server by itself and makes a table.

use anyhow::{Context, Result};

use crate::compare::Options;
use crate::server::Target;
use crate::table::{Section, mebibytes, milliseconds};
use crate::{hostile, huge};

/// Size of the large message, in MiB.
const HUGE_MIB: u64 = 1024;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// [`huge`].
    Huge,
    /// [`hostile`].
    Hostile,
}

impl Part {
    /// All, in the order in which they run.
    pub const ALL: &[Part] = &[Part::Huge, Part::Hostile];

    /// What it is called, also on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Part::Huge => "a message of 1 GiB",
            Part::Hostile => "hostile clients",
        }
    }
}

/// Runs one.
pub async fn run(part: Part, options: &Options) -> Result<Section> {
    match part {
        Part::Huge => huge(options).await,
        Part::Hostile => hostile(options).await,
    }
}

fn head(first: &str, options: &Options, columns: &[&str]) -> Vec<String> {
    let each = options
        .targets
        .iter()
        .flat_map(|t| columns.iter().map(move |column| format!("{}: {column}", t.name())));
    std::iter::once(first.to_owned()).chain(each).collect()
}

/// A directory of its own for one server of one part, emptied first.
fn directory(options: &Options, part: &str, target: &Target) -> Result<std::path::PathBuf> {
    let dir = options.dir.join(format!("{part}-{}", target.name().to_lowercase()));
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

async fn huge(options: &Options) -> Result<Section> {
    let mut all = Vec::new();
    for target in &options.targets {
        let dir = directory(options, "huge", target)?;
        all.push(huge::measure(target, HUGE_MIB, &dir).await.with_context(|| target.name())?);
        std::fs::remove_dir_all(&dir)?;
    }
    let most = all.iter().max_by_key(|steps| steps.len()).map(Vec::as_slice).unwrap_or_default();
    let rows = most.iter().map(|step| {
        let each = all.iter().flat_map(|steps| match steps.iter().find(|other| other.name == step.name) {
            Some(done) => [milliseconds(done.seconds * 1000.0), mebibytes(done.peak_bytes), grown(done)],
            None => ["–".into(), "–".into(), "–".into()],
        });
        std::iter::once(step.name.clone()).chain(each).collect()
    });
    Ok(Section {
        title: "A message of 1 GiB".into(),
        about: "In and out, made and hashed on the way, after one of 1 MiB the same way; what came back is what was sent. \
                How much memory grew is from just before the command to its highest."
            .into(),
        head: head("", options, &["time", "peak", "grown by"]),
        rows: rows.collect(),
    })
}

fn grown(done: &huge::Done) -> String {
    match done.begin_bytes {
        // A process of its own.
        0 => "–".into(),
        begin => format!("{:.1} MiB", done.peak_bytes.saturating_sub(begin) as f64 / 1_048_576.0),
    }
}

/// Ours only: what is asked of the server here is that it keeps its bound.
fn ours(options: &Options) -> Result<&Target> {
    let ours = options.targets.iter().find(|target| matches!(target, Target::Sealpost(_)));
    ours.context("this part is about Sealpost: --sealpost PATH")
}

async fn hostile(options: &Options) -> Result<Section> {
    let target = ours(options)?;
    let dir = directory(options, "hostile", target)?;
    let outcomes = hostile::attacks(target, &dir).await?;
    std::fs::remove_dir_all(&dir)?;
    let rows = outcomes.into_iter().map(|outcome| {
        let verdict = outcome.verdict.unwrap_or_else(|error| format!("**hurt**: {error}"));
        vec![outcome.name.to_owned(), mebibytes(outcome.peak_bytes), verdict]
    });
    Ok(Section {
        title: "Hostile clients, one kind after the other".into(),
        about: "Each kind is still connected when an ordinary client logs in, selects and fetches, which must take less than \
                two seconds. Sealpost with `memory = \"256MiB\"`."
            .into(),
        head: ["", "peak memory", "what happened"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    })
}
