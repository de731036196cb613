//! Scripts and the charsets they came in before everything was UTF-8.

use encoding_rs::Encoding;
use sealpost_mime::{Entity, encode};

use super::Sample;
use super::letter::Letter;

/// How the body of a message in an old charset travels.
#[derive(Clone, Copy)]
enum Transfer {
    Seven,
    Eight,
    Base64,
}

struct Script {
    charset: &'static str,
    encoding: &'static Encoding,
    transfer: Transfer,
    from: (&'static str, &'static str),
    subject: &'static str,
    text: &'static str,
}

const SCRIPTS: [Script; 9] = [
    Script {
        charset: "ISO-2022-JP",
        encoding: encoding_rs::ISO_2022_JP,
        transfer: Transfer::Seven,
        from: ("山田太郎", "taro@example.jp"),
        subject: "会議の議事録をお送りします",
        text: "お世話になっております。\r\n\r\n先日の会議の議事録をお送りします。ご確認のほどよろしくお願いいたします。\r\n\r\n山田\r\n",
    },
    Script {
        charset: "GB18030",
        encoding: encoding_rs::GB18030,
        transfer: Transfer::Base64,
        from: ("王小明", "xiaoming@example.cn"),
        subject: "春节快乐，万事如意",
        text: "您好！\r\n\r\n祝您和家人春节快乐，身体健康，万事如意。我们三月在上海见面。\r\n\r\n王小明\r\n",
    },
    Script {
        charset: "Big5",
        encoding: encoding_rs::BIG5,
        transfer: Transfer::Eight,
        from: ("陳美玲", "meiling@example.tw"),
        subject: "下週的行程安排",
        text: "您好，\r\n\r\n附上下週的行程安排，請查收。\r\n\r\n陳美玲\r\n",
    },
    Script {
        charset: "KOI8-R",
        encoding: encoding_rs::KOI8_R,
        transfer: Transfer::Eight,
        from: ("Иван Петров", "ivan@example.ru"),
        subject: "Отчёт за февраль",
        text: "Добрый день!\r\n\r\nОтчёт за февраль готов. Жду ваших замечаний до пятницы.\r\n\r\nС уважением,\r\nИван\r\n",
    },
    Script {
        charset: "windows-1256",
        encoding: encoding_rs::WINDOWS_1256,
        transfer: Transfer::Base64,
        from: ("ليلى حداد", "layla@example.com"),
        subject: "موعد الاجتماع القادم",
        text: "السلام عليكم،\r\n\r\nموعد الاجتماع القادم يوم الخميس في الساعة العاشرة صباحا.\r\n\r\nليلى\r\n",
    },
    Script {
        charset: "EUC-KR",
        encoding: encoding_rs::EUC_KR,
        transfer: Transfer::Base64,
        from: ("김민수", "minsu@example.kr"),
        subject: "안녕하세요, 자료를 보냅니다",
        text: "안녕하세요.\r\n\r\n요청하신 자료를 보내 드립니다. 감사합니다.\r\n\r\n김민수\r\n",
    },
    Script {
        charset: "ISO-8859-7",
        encoding: encoding_rs::ISO_8859_7,
        transfer: Transfer::Eight,
        from: ("Νίκος", "nikos@example.gr"),
        subject: "Καλημέρα από την Αθήνα",
        text: "Καλημέρα!\r\n\r\nΟ καιρός είναι καλός και η θάλασσα ήρεμη.\r\n\r\nΝίκος\r\n",
    },
    Script {
        charset: "windows-1255",
        encoding: encoding_rs::WINDOWS_1255,
        transfer: Transfer::Base64,
        from: ("דוד לוי", "david@example.il"),
        subject: "שלום וברכה",
        text: "שלום,\r\n\r\nהקבצים מוכנים ואפשר להוריד אותם מחר בבוקר.\r\n\r\nדוד\r\n",
    },
    Script {
        charset: "windows-874",
        encoding: encoding_rs::WINDOWS_874,
        transfer: Transfer::Base64,
        from: ("สมชาย", "somchai@example.th"),
        subject: "สวัสดีครับ",
        text: "สวัสดีครับ\r\n\r\nขอบคุณสำหรับเอกสาร แล้วพบกันสัปดาห์หน้า\r\n\r\nสมชาย\r\n",
    },
];

/// The samples.
pub fn samples(me: &str) -> Vec<Sample> {
    let old = SCRIPTS.iter().zip(20..).map(|(script, number)| script.sample(Letter(number), me));
    old.chain([emoji(me), hindi(me)]).collect()
}

impl Script {
    fn sample(&self, letter: Letter, me: &str) -> Sample {
        let (name, address) = self.from;
        let from = format!("{} <{address}>", self.words(name));
        let mut raw = letter.raw_head(&from, me);
        raw.push_str(&format!("Subject: {}\r\nMIME-Version: 1.0\r\n", self.words(self.subject)));
        let encoding = match self.transfer {
            Transfer::Seven => "7bit",
            Transfer::Eight => "8bit",
            Transfer::Base64 => "base64",
        };
        let charset = self.charset;
        raw.push_str(&format!(
            "Content-Type: text/plain; charset={charset}\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n"
        ));
        let mut raw = raw.into_bytes();
        let body = self.encoding.encode(self.text).0;
        match self.transfer {
            Transfer::Base64 => raw.extend_from_slice(encode::base64(&body).as_bytes()),
            Transfer::Seven | Transfer::Eight => raw.extend_from_slice(&body),
        }
        Sample::inbox(&letter, raw)
    }

    /// Encoded-words in this charset, each complete in itself (RFC 2047 §5).
    fn words(&self, text: &str) -> String {
        let letters: Vec<char> = text.chars().collect();
        let words = letters.chunks(10).map(|word| {
            let word: String = word.iter().collect();
            let bytes = self.encoding.encode(&word).0.into_owned();
            format!("=?{}?B?{}?=", self.charset, encode::base64(&bytes).trim_end())
        });
        words.collect::<Vec<_>>().join("\r\n ")
    }
}

fn emoji(me: &str) -> Sample {
    let letter = Letter(40);
    let text = "We did it! 🎉🚀\n\nThe family 👨‍👩‍👧‍👦 sends greetings, and 🏳️‍🌈 flags 🇯🇵🇩🇪 are up. 👍🏽\n";
    let message =
        letter.begin(("Zoë 🌻", "zoe@example.org"), me).subject("🎉 Launch day! 🚀").body(Entity::text(text));
    Sample::inbox(&letter, message.build()).keyword("$Important")
}

fn hindi(me: &str) -> Sample {
    let letter = Letter(41);
    let text = "नमस्ते,\n\nकृपया संलग्न दस्तावेज़ देखें और अपनी राय बताएँ।\n\nधन्यवाद\n";
    let message = letter
        .begin(("अनिता शर्मा", "anita@example.in"), me)
        .subject("दस्तावेज़ की समीक्षा")
        .body(Entity::text(text));
    Sample::inbox(&letter, message.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_fits_into_its_charset() {
        for script in &SCRIPTS {
            for text in [script.from.0, script.subject, script.text] {
                let (_, _, replaced) = script.encoding.encode(text);
                assert!(!replaced, "{} has no way to write {text}", script.charset);
            }
        }
    }
}
