//! Name servers in this process: a signed root at 127.0.0.1 and the unsigned zone `plain` at 127.0.0.2.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hickory_resolver::proto::dnssec::crypto::EcdsaSigningKey;
use hickory_resolver::proto::dnssec::rdata::{DNSKEY, DNSSECRData, NSEC, RRSIG};
use hickory_resolver::proto::dnssec::{Algorithm, DnssecSigner, SigningKey};
use hickory_resolver::proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_resolver::proto::rr::rdata::tlsa::{CertUsage, Matching, Selector};
use hickory_resolver::proto::rr::rdata::{A, CNAME, MX, NS, SOA, TLSA, TXT};
use hickory_resolver::proto::rr::{DNSClass, Name, RData, Record, RecordSet, RecordType};
use sealpost_base::Timestamp;
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

const TTL: u32 = 300;

/// A server's scripted behaviour for one name, instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trick {
    Silence,
    Garbage,
    Refuse,
    ServFail,
    /// Answers another question.
    OtherQuestion,
    /// Refers to servers below, again and again.
    EndlessReferral,
    /// An alias of itself by way of another.
    AliasLoop,
    /// So many TXT records.
    Records(u16),
    /// Another address under the old signature.
    Forge,
    /// No signature.
    Strip,
    /// A signature that is over.
    Expire,
}

/// Both servers.
pub struct Network {
    shared: Arc<Shared>,
    port: u16,
}

struct Shared {
    signer: DnssecSigner,
    now: OffsetDateTime,
    names: BTreeMap<(String, RecordType), Vec<RData>>,
    tricks: Mutex<BTreeMap<String, Trick>>,
}

fn n(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

impl Network {
    pub async fn start(now: Timestamp) -> Self {
        let pkcs8 = EcdsaSigningKey::generate_pkcs8(Algorithm::ECDSAP256SHA256).unwrap();
        let key = EcdsaSigningKey::from_pkcs8(&pkcs8, Algorithm::ECDSAP256SHA256).unwrap();
        let dnskey = DNSKEY::from_key(&key.to_public_key().unwrap());
        let week = Duration::from_secs(7 * 86_400);
        let signer = DnssecSigner::new(dnskey, Box::new(key), Name::root(), week);
        let now = OffsetDateTime::from_unix_timestamp(now.seconds()).unwrap();
        let names = names(&signer);
        let shared = Arc::new(Shared { signer, now, names, tricks: Mutex::default() });
        let port = serve(&shared).await;
        Network { shared, port }
    }

    pub fn root_address(&self) -> IpAddr {
        Ipv4Addr::LOCALHOST.into()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn trust_anchor(&self) -> String {
        format!(". {TTL} IN DNSKEY {}\n", self.shared.signer.to_dnskey())
    }

    pub fn play(&self, name: &str, trick: Trick) {
        self.shared.tricks.lock().unwrap().insert(format!("{name}."), trick);
    }
}

fn names(signer: &DnssecSigner) -> BTreeMap<(String, RecordType), Vec<RData>> {
    let mut names: BTreeMap<_, Vec<RData>> = BTreeMap::new();
    let mut add = |name: &str, data: RData| {
        names.entry((name.to_owned(), data.record_type())).or_default().push(data);
    };
    let soa = || RData::SOA(SOA::new(n("ns."), n("host."), 1, 3600, 600, 86_400, 60));
    add(".", soa());
    add(".", RData::NS(NS(n("ns."))));
    add(".", RData::DNSSEC(DNSSECRData::DNSKEY(signer.to_dnskey())));
    add("ns.", RData::A(A::new(127, 0, 0, 1)));
    add("signed.", RData::MX(MX::new(10, n("mx.signed."))));
    add("signed.", RData::TXT(TXT::new(vec!["one ".into(), "two".into()])));
    add("null.signed.", RData::MX(MX::new(0, Name::root())));
    add("mx.signed.", RData::A(A::new(192, 0, 2, 5)));
    add("alias.signed.", RData::CNAME(CNAME(n("mx.signed."))));
    let tlsa = TLSA::new(CertUsage::DaneEe, Selector::Spki, Matching::Sha256, vec![7; 32]);
    add("_25._tcp.mx.signed.", RData::TLSA(tlsa));
    add("plain.", RData::NS(NS(n("ns.plain."))));
    add("plain.", soa());
    add("ns.plain.", RData::A(A::new(127, 0, 0, 2)));
    add("d.plain.", RData::MX(MX::new(10, n("mx.d.plain."))));
    add("d.plain.", RData::TXT(TXT::new(vec!["text".into()])));
    add("mx.d.plain.", RData::A(A::new(192, 0, 2, 7)));
    names
}

/// Starts both servers on one free port.
async fn serve(shared: &Arc<Shared>) -> u16 {
    loop {
        let root = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = root.local_addr().unwrap().port();
        let at = |last: u8| SocketAddr::from(([127, 0, 0, last], port));
        let (Ok(root_udp), Ok(plain), Ok(plain_udp)) =
            (UdpSocket::bind(at(1)).await, TcpListener::bind(at(2)).await, UdpSocket::bind(at(2)).await)
        else {
            continue;
        };
        for (tcp, udp, is_root) in [(root, root_udp, true), (plain, plain_udp, false)] {
            tokio::spawn(serve_udp(shared.clone(), udp, is_root));
            tokio::spawn(serve_tcp(shared.clone(), tcp, is_root));
        }
        return port;
    }
}

async fn serve_udp(shared: Arc<Shared>, socket: UdpSocket, is_root: bool) {
    let mut buffer = [0; 4096];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { return };
        let Some(answer) = shared.answer(&buffer[..length], is_root) else { continue };
        let answer = if answer.len() > 1232 { truncated(&answer) } else { answer };
        let _ = socket.send_to(&answer, from).await;
    }
}

async fn serve_tcp(shared: Arc<Shared>, listener: TcpListener, is_root: bool) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let shared = shared.clone();
        tokio::spawn(async move {
            while let Ok(length) = stream.read_u16().await {
                let mut query = vec![0; usize::from(length)];
                if stream.read_exact(&mut query).await.is_err() {
                    return;
                }
                let Some(answer) = shared.answer(&query, is_root) else { continue };
                let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
                if stream.write_all(&[&length, answer.as_slice()].concat()).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// The same answer without records, to be asked for again over TCP.
fn truncated(answer: &[u8]) -> Vec<u8> {
    let mut message = Message::from_vec(answer).unwrap();
    message.metadata.truncation = true;
    message.answers.clear();
    message.authorities.clear();
    message.additionals.clear();
    message.to_vec().unwrap()
}

impl Shared {
    fn answer(&self, query: &[u8], is_root: bool) -> Option<Vec<u8>> {
        let query = Message::from_vec(query).ok()?;
        let question = query.queries.first()?.clone();
        let asked = question.name.to_ascii().to_ascii_lowercase();
        let mut reply = Message::response(query.metadata.id, OpCode::Query);
        reply.add_query(question.clone());
        if let Some(edns) = &query.edns {
            reply.set_edns(edns.clone());
        }
        let trick = self.tricks.lock().unwrap().get(&asked).copied();
        match trick {
            Some(Trick::Silence) => return None,
            Some(Trick::Garbage) => return Some(b"\x12\x34 this is no answer".to_vec()),
            Some(Trick::Refuse) => reply.metadata.response_code = ResponseCode::Refused,
            Some(Trick::ServFail) => reply.metadata.response_code = ResponseCode::ServFail,
            _ if is_root => self.root(&asked, &question, trick, &mut reply),
            _ => self.plain(&asked, &question, trick, &mut reply),
        }
        Some(reply.to_vec().unwrap())
    }

    fn root(&self, asked: &str, question: &Query, trick: Option<Trick>, reply: &mut Message) {
        let below = asked == "plain." || asked.ends_with(".plain.");
        if below && !(asked == "plain." && question.query_type == RecordType::DS) {
            // A referral, with proof that the zone is not signed.
            reply.add_authority(Record::from_rdata(n("plain."), TTL, RData::NS(NS(n("ns.plain.")))));
            reply.add_additional(Record::from_rdata(n("ns.plain."), TTL, RData::A(A::new(127, 0, 0, 2))));
            self.sign_into(&self.no_ds(), &mut reply.authorities, None);
            return;
        }
        reply.metadata.authoritative = true;
        if below {
            self.sign_into(&self.set(".", RecordType::SOA), &mut reply.authorities, None);
            self.sign_into(&self.no_ds(), &mut reply.authorities, None);
            return;
        }
        let mut owner = asked.to_owned();
        for _ in 0..2 {
            let set = self.set(&owner, question.query_type);
            if !set.is_empty() {
                self.sign_into(&set, &mut reply.answers, trick);
                return;
            }
            let alias = self.set(&owner, RecordType::CNAME);
            let Some(RData::CNAME(target)) = alias.first().map(|record| record.data.clone()) else { break };
            self.sign_into(&alias, &mut reply.answers, trick);
            owner = target.0.to_ascii();
        }
        self.sign_into(&self.set(".", RecordType::SOA), &mut reply.authorities, None);
        if !self.exists(asked) {
            reply.metadata.response_code = ResponseCode::NXDomain;
        }
    }

    fn plain(&self, asked: &str, question: &Query, trick: Option<Trick>, reply: &mut Message) {
        reply.metadata.authoritative = true;
        let owner = question.name.clone();
        match trick {
            Some(Trick::OtherQuestion) => {
                reply.queries.clear();
                reply.add_query(Query::query(n("other.plain."), question.query_type));
                reply.add_answer(Record::from_rdata(n("other.plain."), TTL, RData::A(A::new(192, 0, 2, 9))));
            }
            Some(Trick::EndlessReferral) => {
                reply.metadata.authoritative = false;
                let server = n("ns.elsewhere.plain.");
                reply.add_authority(Record::from_rdata(owner, TTL, RData::NS(NS(server.clone()))));
                reply.add_additional(Record::from_rdata(server, TTL, RData::A(A::new(127, 0, 0, 2))));
            }
            Some(Trick::AliasLoop) => {
                let other = n("loop.plain.");
                reply.add_answer(Record::from_rdata(owner.clone(), TTL, RData::CNAME(CNAME(other.clone()))));
                reply.add_answer(Record::from_rdata(other, TTL, RData::CNAME(CNAME(owner))));
            }
            Some(Trick::Records(count)) if question.query_type == RecordType::TXT => {
                for i in 0..count {
                    let text = RData::TXT(TXT::new(vec![i.to_string()]));
                    reply.add_answer(Record::from_rdata(owner.clone(), TTL, text));
                }
            }
            _ => {
                reply.answers = self.set(asked, question.query_type);
                if reply.answers.is_empty() {
                    reply.authorities = self.set("plain.", RecordType::SOA);
                }
                if !self.exists(asked) {
                    reply.metadata.response_code = ResponseCode::NXDomain;
                }
            }
        }
    }

    fn exists(&self, name: &str) -> bool {
        self.names.keys().any(|(known, _)| known == name || known.ends_with(&format!(".{name}")))
    }

    fn set(&self, name: &str, kind: RecordType) -> Vec<Record> {
        let data = self.names.get(&(name.to_owned(), kind)).into_iter().flatten();
        data.map(|data| Record::from_rdata(n(name), TTL, data.clone())).collect()
    }

    /// Says that `plain` is a delegation without DS records.
    fn no_ds(&self) -> Vec<Record> {
        let types = [RecordType::NS, RecordType::NSEC, RecordType::RRSIG];
        let nsec = NSEC::new(n("signed."), types);
        vec![Record::from_rdata(n("plain."), TTL, RData::DNSSEC(DNSSECRData::NSEC(nsec)))]
    }

    /// Adds a set with its signature.
    fn sign_into(&self, set: &[Record], out: &mut Vec<Record>, trick: Option<Trick>) {
        let Some(first) = set.first() else { return };
        let mut signed = RecordSet::new(first.name.clone(), first.record_type(), 0);
        for record in set {
            signed.insert(record.clone(), 0);
        }
        let age = if trick == Some(Trick::Expire) { time::Duration::days(30) } else { time::Duration::HOUR };
        let rrsig = RRSIG::from_rrset(&signed, DNSClass::IN, self.now - age, &self.signer).unwrap();
        match trick {
            Some(Trick::Forge) => {
                let forged = RData::A(A::new(203, 0, 113, 66));
                out.push(Record::from_rdata(first.name.clone(), TTL, forged));
            }
            _ => out.extend(set.iter().cloned()),
        }
        if trick != Some(Trick::Strip) {
            let rrsig = RData::DNSSEC(DNSSECRData::RRSIG(rrsig));
            out.push(Record::from_rdata(first.name.clone(), TTL, rrsig));
        }
    }
}
