//! The binary `sealpost-rig`: measures and checks mail servers from outside.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a measuring program reports on its terminal")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use sealpost_rig::compare::{self, MEMORY, Options};
use sealpost_rig::server::{self, Dovecot, Sealpost, Start, Target};
use sealpost_rig::{bulk, clients, crash, crowd, followers, hostile, http_load, huge, idle, million, shapes};

/// Measures and checks mail servers from outside.
#[derive(Parser)]
#[command(name = "sealpost-rig", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the benchmark cases against Sealpost, Dovecot or both alternately; print a markdown table.
    Compare {
        /// The sealpost binary.
        #[arg(long)]
        sealpost: Option<PathBuf>,
        /// Measure the installed Dovecot too.
        #[arg(long)]
        dovecot: bool,
        /// Dovecot's storage format: maildir, sdbox or mdbox.
        #[arg(long, default_value = "maildir")]
        format: String,
        /// Measured runs of each case.
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// Only cases and parts whose name contains this, repeatable.
        #[arg(long)]
        only: Vec<String>,
        /// Also cases that take many minutes.
        #[arg(long)]
        all: bool,
        /// Do not count fsyncs with strace.
        #[arg(long)]
        no_strace: bool,
        /// Seed of the generated mail.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Where the servers keep their data (default: a temporary directory, removed afterwards).
        #[arg(long)]
        dir: Option<PathBuf>,
        /// Write all results to this file, as JSON.
        #[arg(long)]
        json: Option<PathBuf>,
        /// Put the tables between the markers of this page.
        #[arg(long)]
        write: Option<PathBuf>,
    },
    /// Every FETCH and SEARCH of the trace of real clients over whole mailboxes, beside Dovecot;
    /// print the tables.
    Clients {
        /// The sealpost binary.
        #[arg(long)]
        sealpost: PathBuf,
        /// Measure the installed Dovecot too.
        #[arg(long)]
        dovecot: bool,
        /// Mailboxes, separated by commas: a data set and how many messages.
        #[arg(
            long,
            value_name = "DATA:N",
            value_delimiter = ',',
            default_value = "small:1000,small:10000,personal:1000"
        )]
        mailboxes: Vec<clients::Mailbox>,
        /// Sealpost's bounds on memory, separated by commas.
        #[arg(long, value_delimiter = ',', default_values = clients::MEMORIES, value_parser = clap::builder::PossibleValuesParser::new(clients::MEMORIES))]
        memory: Vec<String>,
        /// Measured runs, warm and beside a writer.
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// Measured runs after a restart, of each command; 0 leaves them out.
        #[arg(long, default_value_t = 5)]
        cold_runs: usize,
        /// Rounds a second of a client that writes into the mailbox; 0 leaves it out.
        #[arg(long, default_value_t = 20.0)]
        writes: f64,
        /// Only commands that contain this, repeatable.
        #[arg(long)]
        only: Vec<String>,
        /// Seed of the generated mail.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Where the servers keep their data (default: a temporary directory, removed afterwards).
        #[arg(long)]
        dir: Option<PathBuf>,
        /// Write all results to this file, as JSON.
        #[arg(long)]
        json: Option<PathBuf>,
        /// Put the worst rows and the sums between the markers of this page.
        #[arg(long, requires = "write_runs")]
        write: Option<PathBuf>,
        /// Put the whole tables between the markers of this page.
        #[arg(long, requires = "write")]
        write_runs: Option<PathBuf>,
    },
    /// Kill a server with SIGKILL under load, restart it, verify; again and again.
    Crash {
        /// The sealpost binary.
        #[arg(long)]
        sealpost: Option<PathBuf>,
        /// Use Dovecot instead, all its processes killed: checks the harness itself.
        #[arg(long)]
        dovecot: bool,
        /// Damage a copy after each kill: flip bits and plant objects, then check, serve and repair it.
        #[arg(long, conflicts_with = "dovecot")]
        damage: bool,
        /// How many kills.
        #[arg(long, default_value_t = 200)]
        kills: u32,
        /// Seed of operations and moments (default: from the clock).
        #[arg(long)]
        seed: Option<u64>,
        /// The directory to use (default: a temporary one, kept only on failure).
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Send a very large message through LMTP, APPEND, FETCH and export, and watch the server's memory.
    Huge {
        /// The sealpost binary.
        #[arg(long)]
        sealpost: Option<PathBuf>,
        /// Use Dovecot instead (no export): checks the harness itself.
        #[arg(long)]
        dovecot: bool,
        /// Size of the message, in MiB.
        #[arg(long, default_value_t = 1024)]
        mib: u64,
        /// Fail when the server's peak memory is above this, in MiB.
        #[arg(long, default_value_t = 64)]
        limit_mib: u64,
        /// Where the server keeps its data (default: a temporary directory).
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// A mailbox of a million messages: fill, open, synchronize, search, change; all within a bound
    /// on memory.
    Million {
        /// The sealpost binary.
        #[arg(long)]
        sealpost: PathBuf,
        /// How many messages.
        #[arg(long, default_value_t = 1_000_000)]
        messages: u32,
        /// The server's bound on memory.
        #[arg(long, default_value = "256MiB")]
        memory: String,
        /// Fail when the server's peak memory is above this, in MiB.
        #[arg(long, default_value_t = 256)]
        limit_mib: u64,
        /// Where the server keeps its data (default: a temporary directory). One that was filled
        /// before is used again.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Clients that stall, flood and never finish; then an ordinary one.
    Hostile {
        /// The sealpost binary.
        #[arg(long)]
        sealpost: Option<PathBuf>,
        /// Use Dovecot instead: checks the harness itself.
        #[arg(long)]
        dovecot: bool,
        /// Fail when the server's peak memory is above this, in MiB.
        #[arg(long, default_value_t = 256)]
        limit_mib: u64,
    },
    /// Thousands of hostile clients at once, and whether an honest one is served meanwhile.
    Crowd {
        /// The sealpost binary.
        #[arg(long)]
        sealpost: PathBuf,
        /// Attackers of each attack.
        #[arg(long, default_value_t = 2000)]
        crowd: usize,
        /// TLS handshakes that are begun and not finished.
        #[arg(long, default_value_t = 10_000)]
        half_open: usize,
        /// How long each attack lasts, in seconds.
        #[arg(long, default_value_t = 15)]
        hold: u64,
        /// How often all attacks are run; the honest client's visits of all rounds count together.
        #[arg(long, default_value_t = 1)]
        rounds: usize,
        /// The server's bound on memory.
        #[arg(long, default_value = "256MiB")]
        memory: String,
        /// Fail when the server's peak memory is above this, in MiB [default: the bound].
        #[arg(long)]
        limit_mib: Option<u64>,
        /// Count the peak without the pages of the program, of which a debug build has many more.
        #[arg(long)]
        without_program: bool,
        /// How long the honest client may wait, in seconds, before it counts as turned away.
        #[arg(long, default_value_t = 60)]
        timeout_each: u64,
        /// End the server when its private writable memory would be above this, in MiB.
        #[arg(long)]
        hard_limit_mib: Option<u64>,
        /// Fail when the honest client takes more than so many times as long as before.
        #[arg(long)]
        ratio: Option<f64>,
        /// Only attacks whose name contains this.
        #[arg(long)]
        only: Option<String>,
    },
    /// Accounts that change or fetch half a million messages again and again, and how long a visitor
    /// takes meanwhile.
    Bulk {
        /// The sealpost binary.
        #[arg(long)]
        sealpost: PathBuf,
        /// Accounts with such work, each with one client.
        #[arg(long, default_value_t = 2)]
        accounts: usize,
        /// Messages of each.
        #[arg(long, default_value_t = 512_000)]
        messages: u32,
        /// How long the visitor is measured beside each kind of work, in seconds.
        #[arg(long, default_value_t = 10)]
        hold: u64,
        /// How often all kinds are run; the visits of all rounds count together.
        #[arg(long, default_value_t = 2)]
        rounds: usize,
        /// The server's bound on memory.
        #[arg(long, default_value = "256MiB")]
        memory: String,
        /// Fail when visits take more than so many times as long as alone (99th percentile).
        #[arg(long)]
        ratio: Option<f64>,
        /// Only kinds of work whose name contains this.
        #[arg(long)]
        only: Option<String>,
    },
    /// Thousands of clients that do nothing: what each costs the server, at every stage up to IDLE.
    Idle {
        /// The sealpost binary.
        #[arg(long)]
        sealpost: PathBuf,
        /// How many clients.
        #[arg(long, default_value_t = 1000)]
        connections: usize,
        /// How many accounts they share [default: each has its own]; each costs two password
        /// checks, to make and to log in
        #[arg(long)]
        accounts: Option<usize>,
        /// Messages of each INBOX.
        #[arg(long, default_value_t = 1000)]
        messages: u32,
        /// Speak TLS.
        #[arg(long)]
        tls: bool,
        /// How far the clients go.
        #[arg(long, value_enum, default_value = "idle")]
        stage: idle::Stage,
        /// How long they say nothing, in seconds, before it is measured what a connection costs.
        /// Accounts that were quick to load are unloaded within half a minute.
        #[arg(long, default_value_t = 45)]
        silence: u64,
        /// The server's bound on memory.
        #[arg(long, default_value = "256MiB")]
        memory: String,
        /// Fail when a connection costs more than this after the silence, in KiB.
        #[arg(long)]
        limit_kib: Option<f64>,
        /// Where the server keeps its data (default: a temporary directory); accounts there are used again.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Thousands of JMAP clients that wait for changes: what each costs the server, and when they hear of one.
    Followers {
        /// The sealpost binary.
        #[arg(long)]
        sealpost: PathBuf,
        /// How many clients.
        #[arg(long, default_value_t = 10_000)]
        clients: usize,
        /// How many accounts they share; each costs two password checks, to make and to log in.
        #[arg(long, default_value_t = 100)]
        accounts: usize,
        /// Speak TLS.
        #[arg(long)]
        tls: bool,
        /// How the clients wait.
        #[arg(long, value_enum, default_value = "events")]
        wait: followers::Wait,
        /// How long nothing happens, in seconds.
        #[arg(long, default_value_t = 15)]
        silence: u64,
        /// The server's bound on memory.
        #[arg(long, default_value = "256MiB")]
        memory: String,
        /// Fail when the server's peak memory is above this, in MiB.
        #[arg(long)]
        limit_mib: Option<u64>,
        /// Where the server keeps its data (default: a temporary directory); accounts there are used again.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Send JSON requests again and again over HTTP/1.1; print the times as a line of JSON.
    HttpLoad {
        /// Where the server listens, such as 127.0.0.1:1080.
        #[arg(long)]
        address: std::net::SocketAddr,
        /// The target of the request.
        #[arg(long, default_value = "/jmap/api")]
        path: String,
        /// The account.
        #[arg(long)]
        user: String,
        /// The file with its password, of a server of one's own.
        #[arg(long)]
        password_file: PathBuf,
        /// A file with a body; several are sent in turn.
        #[arg(long = "body", required = true)]
        bodies: Vec<PathBuf>,
        /// How many connections, with one request at a time each.
        #[arg(long, default_value_t = 1)]
        connections: usize,
        /// How many requests, all connections together.
        #[arg(long, default_value_t = 200)]
        requests: u64,
        /// No request begins after so many seconds.
        #[arg(long, default_value_t = 10.0)]
        seconds: f64,
        /// The server's process: its CPU time is measured.
        #[arg(long)]
        pid: Option<u32>,
        /// Fail when an answer contains this, repeatable.
        #[arg(long)]
        refuse: Vec<String>,
    },
    /// Print the shapes of a trace of IMAP clients, as crates/bench/data/trace-shapes.tsv has them.
    Shapes {
        /// The trace: one line for each different command.
        log: PathBuf,
        /// How often each verb was sent: count,command,aggregation.
        summary: PathBuf,
    },
    /// Run Dovecot with a configuration of its own in DIR and print the line `sealpost try --json` would.
    Dovecot {
        /// The directory for all it writes.
        #[arg(long)]
        dir: PathBuf,
        /// Accounts, repeatable.
        #[arg(long = "account", default_value = "me@localhost")]
        accounts: Vec<String>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // One thread: the client must leave the machine to the server that is measured.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.context("start the runtime").and_then(|runtime| runtime.block_on(run(arguments.command))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sealpost-rig: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<()> {
    match command {
        Command::Compare {
            sealpost,
            dovecot,
            format,
            runs,
            only,
            all,
            no_strace,
            seed,
            dir,
            json,
            write,
        } => {
            let (dir, _temporary) = directory(dir)?;
            let sealpost = sealpost.map(|path| Target::Sealpost(Sealpost { path, memory: Some(MEMORY) }));
            let dovecot = dovecot.then_some(Target::Dovecot(Dovecot { format, tls: false }));
            let targets = sealpost.into_iter().chain(dovecot).collect();
            let options = Options { targets, dir, runs, only, all, strace: !no_strace, seed };
            let report = compare::compare(&options).await?;
            println!("{}", report.markdown());
            if let Some(path) = json {
                std::fs::write(path, serde_json::to_vec_pretty(&report)?)?;
            }
            write.map_or(Ok(()), |path| report.write_into(&path))
        }
        Command::Clients {
            sealpost,
            dovecot,
            mailboxes,
            memory,
            runs,
            cold_runs,
            writes,
            only,
            seed,
            dir,
            json,
            write,
            write_runs,
        } => {
            let (dir, _temporary) = directory(dir)?;
            let memories =
                clients::MEMORIES.into_iter().filter(|bound| memory.iter().any(|given| given == bound));
            let options = clients::Options {
                sealpost,
                memories: memories.collect(),
                dovecot,
                mailboxes,
                runs,
                cold_runs,
                writes: (writes > 0.0).then_some(writes),
                only,
                dir,
                seed,
            };
            let report = clients::measure(&options).await?;
            println!("{}", report.long());
            if let Some(path) = json {
                std::fs::write(path, serde_json::to_vec_pretty(&report)?)?;
            }
            write.zip(write_runs).map_or(Ok(()), |(page, runs)| report.write_into(&page, &runs))
        }
        Command::Crash { sealpost, dovecot, damage, kills, seed, dir } => match target(sealpost, dovecot)? {
            Target::Sealpost(sealpost) if damage => crash::damage::main(sealpost, kills, seed, dir).await,
            target => crash::main(target, kills, seed, dir).await,
        },
        Command::Huge { sealpost, dovecot, mib, limit_mib, dir } => {
            let (dir, _temporary) = directory(dir)?;
            huge::main(target(sealpost, dovecot)?, mib, limit_mib, &dir).await
        }
        Command::Million { sealpost, messages, memory, limit_mib, dir } => {
            let (dir, _temporary) = directory(dir)?;
            million::main(million::Options { sealpost, messages, memory, limit_mib }, &dir).await
        }
        Command::Hostile { sealpost, dovecot, limit_mib } => {
            let (dir, _temporary) = directory(None)?;
            hostile::main(target(sealpost, dovecot)?, limit_mib, &dir).await
        }
        Command::Crowd {
            sealpost,
            crowd,
            half_open,
            hold,
            rounds,
            memory,
            limit_mib,
            without_program,
            timeout_each,
            hard_limit_mib,
            ratio,
            only,
        } => {
            let (dir, _temporary) = directory(None)?;
            let hold = std::time::Duration::from_secs(hold);
            let options = crowd::Options {
                sealpost,
                crowd,
                half_open,
                hold,
                rounds,
                memory,
                limit_mib,
                without_program,
                timeout_each: std::time::Duration::from_secs(timeout_each),
                hard_limit_mib,
                ratio,
                only,
            };
            crowd::main(&options, &dir).await
        }
        Command::Bulk { sealpost, accounts, messages, hold, rounds, memory, ratio, only } => {
            let (dir, _temporary) = directory(None)?;
            let hold = std::time::Duration::from_secs(hold);
            let options = bulk::Options { sealpost, accounts, messages, hold, rounds, memory, ratio, only };
            bulk::main(&options, &dir).await
        }
        Command::Idle {
            sealpost,
            connections,
            accounts,
            messages,
            tls,
            stage,
            silence,
            memory,
            limit_kib,
            dir,
        } => {
            let (dir, _temporary) = directory(dir)?;
            let silence = std::time::Duration::from_secs(silence);
            idle::main(&idle::Options {
                sealpost,
                dir,
                connections,
                accounts: accounts.unwrap_or(connections),
                messages,
                tls,
                stage,
                silence,
                memory,
                limit_kib,
            })
            .await
        }
        Command::Followers { sealpost, clients, accounts, tls, wait, silence, memory, limit_mib, dir } => {
            let (dir, _temporary) = directory(dir)?;
            let silence = std::time::Duration::from_secs(silence);
            followers::main(&followers::Options {
                sealpost,
                dir,
                clients,
                accounts,
                tls,
                wait,
                silence,
                memory,
                limit_mib,
            })
            .await
        }
        Command::HttpLoad {
            address,
            path,
            user,
            password_file,
            bodies,
            connections,
            requests,
            seconds,
            pid,
            refuse,
        } => {
            let password = std::fs::read_to_string(password_file)?.trim_end().to_owned();
            http_load::main(&http_load::Options {
                address,
                path,
                user,
                password,
                bodies,
                connections,
                requests,
                seconds,
                pid,
                refuse,
            })
            .await
        }
        Command::Shapes { log, summary } => {
            print!("{}", shapes::table(&log, &summary)?);
            Ok(())
        }
        Command::Dovecot { dir, accounts } => serve_dovecot(dir, &accounts).await,
    }
}

fn target(sealpost: Option<PathBuf>, dovecot: bool) -> Result<server::Target> {
    match (sealpost, dovecot) {
        (Some(path), false) => Ok(server::Target::Sealpost(server::Sealpost { path, memory: None })),
        (None, true) => Ok(server::Target::Dovecot(Dovecot::default())),
        _ => anyhow::bail!("name one server: --sealpost PATH or --dovecot"),
    }
}

/// The given directory, or a temporary one that lives as long as the second value.
fn directory(dir: Option<PathBuf>) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    if let Some(dir) = dir {
        std::fs::create_dir_all(&dir)?;
        return Ok((dir.canonicalize()?, None));
    }
    let temporary = tempfile::Builder::new().prefix("sealpost-rig-").tempdir()?;
    // Dovecot's mail user must be able to reach its directory below.
    std::fs::set_permissions(temporary.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok((temporary.path().to_owned(), Some(temporary)))
}

async fn serve_dovecot(dir: PathBuf, accounts: &[String]) -> Result<()> {
    std::fs::create_dir_all(&dir)?;
    let dovecot = Dovecot { tls: true, ..Dovecot::default() };
    let mut command = dovecot.command(&dir.canonicalize()?, accounts)?;
    let mut child = command.kill_on_drop(true).spawn()?;
    let ready = dovecot.ready(&mut child, &dir).await?;
    println!("{}", serde_json::to_string(&ready)?);
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
        status = child.wait() => anyhow::bail!("dovecot ended: {}", status?),
    }
    server::signal(ready.pid, "TERM").await?;
    child.wait().await?;
    Ok(())
}
