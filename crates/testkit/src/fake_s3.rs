//! A small server that speaks S3, for tests: it keeps objects in memory, and makes the faults that
//! a test asks for.
//!
//! Written from Amazon's API reference, for the requests that are made here and no others. It
//! checks no signatures.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use md5::{Digest, Md5};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It is answered with that status, and nothing is done.
    Refused(u16),
    /// It is done, and answered with that status.
    DoneBut(u16),
    /// It is answered with 200 and an ETag, and nothing is done.
    AckWithoutWrite,
    /// The connection ends, and nothing is done.
    Dropped,
    /// It is done, and the connection ends before the answer.
    ReplyLost,
    /// It is done, and half of the answer's body comes.
    CutShort,
    /// It is done; one bit of the answer's body is wrong.
    Flipped,
    /// It is done; half of the answer's body is sent as if it were all.
    Halved,
    /// It is done; the answer does not say how long its body is, and ends with the connection.
    NoContentLength,
    /// It is done that much later.
    Late(Duration),
    /// It is done, and answered that much later.
    AnsweredLate(Duration),
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `PUT`, and so on.
    pub method: String,
    /// The object's key.
    pub key: String,
    /// The query string.
    pub query: HashMap<String, String>,
    /// It says `If-None-Match: *`.
    pub conditional: bool,
    range: Option<(usize, usize)>,
    body: Bytes,
}

/// How it treats `If-None-Match`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionalPut {
    /// As S3 does.
    Keeps,
    /// Not at all.
    Ignores,
    /// It answers that it does not know it.
    Refuses,
    /// Looks first and writes a little later.
    Races,
}

/// The kind of its ETags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tags {
    /// MD5s of the objects.
    Md5,
    /// They look like MD5s, and are none.
    Random,
}

type Plan = dyn FnMut(&Request) -> Fault + Send;

/// The server. It stops with the runtime.
#[derive(Clone)]
pub struct FakeS3(Arc<Shared>);

struct Shared {
    address: SocketAddr,
    conditional_put: Mutex<ConditionalPut>,
    tags: Mutex<Tags>,
    versions: AtomicBool,
    page: usize,
    plan: Mutex<Box<Plan>>,
    objects: Mutex<BTreeMap<String, Bytes>>,
    uploads: Mutex<HashMap<String, BTreeMap<usize, Bytes>>>,
    seen: Mutex<Vec<Request>>,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
    ids: AtomicU64,
}

/// Its bucket.
pub const BUCKET: &str = "mail-test";

impl FakeS3 {
    /// Starts one, with so many keys on a page of a listing.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn start(conditional_put: ConditionalPut, page: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = FakeS3(Arc::new(Shared {
            address: listener.local_addr().unwrap(),
            conditional_put: Mutex::new(conditional_put),
            tags: Mutex::new(Tags::Md5),
            versions: AtomicBool::new(false),
            page,
            plan: Mutex::new(Box::new(|_| Fault::None)),
            objects: Mutex::default(),
            uploads: Mutex::default(),
            seen: Mutex::default(),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
            ids: AtomicU64::new(0),
        }));
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let server = serving.clone();
                tokio::spawn(async move { server.serve(socket).await });
            }
        });
        server
    }

    /// Its address, as a URL.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.0.address)
    }

    /// Sets the fault of each request from now on.
    pub fn plan(&self, plan: impl FnMut(&Request) -> Fault + Send + 'static) {
        *lock(&self.0.plan) = Box::new(plan);
    }

    /// One request fails like that: the next one that `which` says.
    pub fn once(&self, fault: Fault, which: impl Fn(&Request) -> bool + Send + 'static) {
        let mut left = Some(fault);
        self.plan(move |request| match left {
            Some(_) if which(request) => left.take().unwrap(),
            _ => Fault::None,
        });
    }

    /// From now on, how it treats `If-None-Match`.
    pub fn behave(&self, conditional_put: ConditionalPut) {
        *lock(&self.0.conditional_put) = conditional_put;
    }

    /// From now on it numbers versions, as buckets do that keep removed objects.
    pub fn keep_versions(&self) {
        self.0.versions.store(true, Ordering::SeqCst);
    }

    /// Sets the kind of its ETags from now on.
    pub fn tag(&self, tags: Tags) {
        *lock(&self.0.tags) = tags;
    }

    /// Puts an object there, as an attacker with write access to the bucket would.
    ///
    /// # Panics
    /// If another thread panicked that held the objects.
    pub fn plant(&self, key: &str, bytes: impl Into<Bytes>) {
        self.0.objects.lock().unwrap().insert(key.to_owned(), bytes.into());
    }

    /// The object of that key.
    pub fn object(&self, key: &str) -> Option<Bytes> {
        lock(&self.0.objects).get(key).cloned()
    }

    /// Requests since it was asked last.
    pub fn seen(&self) -> Vec<Request> {
        std::mem::take(&mut *lock(&self.0.seen))
    }

    /// The most requests that were under way at once.
    pub fn most_under_way(&self) -> usize {
        self.0.most_under_way.load(Ordering::SeqCst)
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<String> {
        lock(&self.0.objects).keys().cloned().collect()
    }

    /// Uploads that were begun and not completed.
    pub fn uploads(&self) -> usize {
        lock(&self.0.uploads).len()
    }

    async fn serve(&self, mut socket: TcpStream) {
        let mut received = Vec::new();
        while let Some(request) = read_request(&mut socket, &mut received).await {
            lock(&self.0.seen).push(request.clone());
            let now = self.0.under_way.fetch_add(1, Ordering::SeqCst) + 1;
            self.0.most_under_way.fetch_max(now, Ordering::SeqCst);
            let fault = (lock(&self.0.plan))(&request);
            let goes_on = self.answer(&mut socket, &request, fault).await;
            self.0.under_way.fetch_sub(1, Ordering::SeqCst);
            if !goes_on {
                return;
            }
        }
    }

    async fn answer(&self, socket: &mut TcpStream, request: &Request, fault: Fault) -> bool {
        let reply = match fault {
            Fault::Refused(status) => Reply::error(status, "Planned"),
            Fault::AckWithoutWrite => {
                Reply::ok("").with("ETag", "\"d41d8cd98f00b204e9800998ecf8427e\"".into())
            }
            Fault::Dropped => return false,
            Fault::DoneBut(status) => {
                self.reply(request).await;
                Reply::error(status, "Planned")
            }
            Fault::ReplyLost => {
                self.reply(request).await;
                return false;
            }
            Fault::Late(wait) => {
                tokio::time::sleep(wait).await;
                self.reply(request).await
            }
            Fault::AnsweredLate(wait) => {
                let reply = self.reply(request).await;
                tokio::time::sleep(wait).await;
                reply
            }
            Fault::Flipped => self.reply(request).await.flipped(),
            Fault::Halved => self.reply(request).await.halved(),
            Fault::None | Fault::CutShort | Fault::NoContentLength => self.reply(request).await,
        };
        let mut bytes = reply.to_bytes(request.method == "HEAD", fault != Fault::NoContentLength);
        if fault == Fault::CutShort {
            bytes.truncate(bytes.len() - reply.body.len() / 2 - 1);
        }
        socket.write_all(&bytes).await.is_ok() && !matches!(fault, Fault::CutShort | Fault::NoContentLength)
    }

    async fn reply(&self, request: &Request) -> Reply {
        let query = |name: &str| request.query.get(name).map(String::as_str);
        match (request.method.as_str(), query("uploadId")) {
            ("PUT", Some(id)) => match lock(&self.0.uploads).get_mut(id) {
                Some(parts) => {
                    parts.insert(query("partNumber").unwrap().parse().unwrap(), request.body.clone());
                    Reply::ok("").with("ETag", "\"part\"".into())
                }
                None => Reply::error(404, "NoSuchUpload"),
            },
            ("PUT", None) => self.put(request).await,
            ("GET", _) if query("list-type") == Some("2") => self.list(request),
            ("GET" | "HEAD", _) => match lock(&self.0.objects).get(&request.key) {
                Some(object) => object_reply(object, request.range, self.e_tag(object)),
                None => Reply::error(404, "NoSuchKey"),
            },
            ("POST", None) if query("uploads").is_some() => {
                let id = format!("upload-{}", self.0.ids.fetch_add(1, Ordering::SeqCst));
                lock(&self.0.uploads).insert(id.clone(), BTreeMap::new());
                let key = &request.key;
                Reply::ok(&format!(
                    "<InitiateMultipartUploadResult><Bucket>{BUCKET}</Bucket><Key>{key}</Key><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                ))
            }
            ("POST", Some(id)) => {
                let Some(parts) = lock(&self.0.uploads).remove(id) else {
                    return Reply::error(404, "NoSuchUpload");
                };
                let object: Vec<u8> = parts.into_values().flatten().collect();
                lock(&self.0.objects).insert(request.key.clone(), object.into());
                Reply::ok(
                    "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>",
                )
            }
            ("DELETE", Some(id)) => match lock(&self.0.uploads).remove(id) {
                Some(_) => Reply { status: 204, ..Reply::ok("") },
                None => Reply::error(404, "NoSuchUpload"),
            },
            ("DELETE", None) => {
                lock(&self.0.objects).remove(&request.key);
                Reply { status: 204, ..Reply::ok("") }
            }
            _ => Reply::error(501, "NotImplemented"),
        }
    }

    async fn put(&self, request: &Request) -> Reply {
        let conditional_put = *lock(&self.0.conditional_put);
        if request.conditional && conditional_put == ConditionalPut::Refuses {
            return Reply::error(501, "NotImplemented");
        }
        if request.conditional && conditional_put != ConditionalPut::Ignores {
            if lock(&self.0.objects).contains_key(&request.key) {
                return Reply::error(412, "PreconditionFailed");
            }
            if conditional_put == ConditionalPut::Races {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        lock(&self.0.objects).insert(request.key.clone(), request.body.clone());
        let reply = Reply::ok("").with("ETag", self.e_tag(&request.body));
        match self.0.versions.load(Ordering::SeqCst) {
            true => reply.with("x-amz-version-id", "3sL4kqtJlcpXroDTDmJ".into()),
            false => reply,
        }
    }

    fn e_tag(&self, object: &Bytes) -> String {
        let digest = Md5::digest(object);
        let digest = match *lock(&self.0.tags) {
            Tags::Md5 => digest,
            Tags::Random => Md5::digest(digest),
        };
        format!("\"{digest:x}\"")
    }

    fn list(&self, request: &Request) -> Reply {
        let query = |name: &str| request.query.get(name).map_or("", String::as_str);
        let (prefix, after) = (query("prefix"), query("start-after").max(query("continuation-token")));
        let objects = lock(&self.0.objects);
        let mut found = objects.iter().filter(|(key, _)| key.starts_with(prefix) && key.as_str() > after);
        let (mut contents, mut last) = (String::new(), "");
        for (key, object) in found.by_ref().take(self.0.page) {
            let size = object.len();
            contents.push_str(&format!(
                "<Contents><Key>{key}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>\"e\"</ETag><Size>{size}</Size></Contents>"
            ));
            last = key;
        }
        let more = found.next().is_some();
        let next = if more {
            format!("<NextContinuationToken>{last}</NextContinuationToken>")
        } else {
            String::new()
        };
        Reply::ok(&format!(
            "<ListBucketResult><IsTruncated>{more}</IsTruncated>{next}{contents}</ListBucketResult>"
        ))
    }
}

struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
}

impl Reply {
    fn ok(body: &str) -> Self {
        Reply { status: 200, headers: Vec::new(), body: Bytes::copy_from_slice(body.as_bytes()) }
    }

    fn error(status: u16, code: &str) -> Self {
        let body = format!("<Error><Code>{code}</Code><Message>told to</Message></Error>");
        Reply { status, ..Reply::ok(&body) }
    }

    fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    fn flipped(mut self) -> Self {
        let mut body = self.body.to_vec();
        if let Some(middle) = body.len().checked_div(2).and_then(|middle| body.get_mut(middle)) {
            *middle ^= 1;
        }
        self.body = body.into();
        self
    }

    fn halved(mut self) -> Self {
        self.body.truncate(self.body.len() / 2);
        self
    }

    fn to_bytes(&self, head: bool, measured: bool) -> Vec<u8> {
        let reason = if self.status == 409 { "Conflict" } else { "Whatever" };
        let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", self.status).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        if self.status != 204 && measured {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", self.body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        if !head {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }
}

fn object_reply(object: &Bytes, range: Option<(usize, usize)>, e_tag: String) -> Reply {
    let headers = vec![("ETag", e_tag), ("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT".to_owned())];
    let whole = Reply { status: 200, headers, body: object.clone() };
    let Some((first, last)) = range else { return whole };
    if first >= object.len() {
        return Reply::error(416, "InvalidRange");
    }
    let end = (last + 1).min(object.len());
    let range = format!("bytes {first}-{}/{}", end - 1, object.len());
    Reply { status: 206, body: object.slice(first..end), ..whole }.with("Content-Range", range)
}

async fn read_request(socket: &mut TcpStream, received: &mut Vec<u8>) -> Option<Request> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut parsed = httparse::Request::new(&mut headers);
        if let httparse::Status::Complete(head) = parsed.parse(received).ok()? {
            let header = |name: &str| {
                let found = parsed.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name))?;
                std::str::from_utf8(found.value).ok()
            };
            let length: usize = header("content-length").map_or(0, |length| length.parse().unwrap());
            if received.len() >= head + length {
                let range = header("range").and_then(|range| {
                    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
                    Some((first.parse().ok()?, last.parse().unwrap_or(usize::MAX - 1)))
                });
                let conditional = header("if-none-match").is_some();
                let method = parsed.method?.to_owned();
                let (path, query) = parsed.path?.split_once('?').unwrap_or((parsed.path?, ""));
                let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
                let query = pairs.map(|(name, value)| (decoded(name), decoded(value))).collect();
                let key = decoded(path.trim_start_matches('/').strip_prefix(BUCKET)?);
                let key = key.trim_start_matches('/').to_owned();
                let body = Bytes::copy_from_slice(&received[head..head + length]);
                received.drain(..head + length);
                return Some(Request { method, key, query, conditional, range, body });
            }
        }
        let mut more = [0; 64 * 1024];
        match socket.read(&mut more).await.ok()? {
            0 => return None,
            n => received.extend_from_slice(&more[..n]),
        }
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let hex = [rest.next().unwrap(), rest.next().unwrap()];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
            }
            b'+' => bytes.push(b' '),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}
