//! The objects of JSContact and their properties, as RFC 9553 §2 defines them.

use super::check::{Kind, Object, Property};
use super::rules;

use Kind::{
    AnniversaryDate, CountryCode, Date, Enumerated, Flag, Geo, Id, Language, List, Mailbox, Map, MapByUid,
    Number, One, Patches, Set, Text, TextMap, Uri, Version, WithText,
};

/// `contexts` of most objects (RFC 9553 §1.5.1).
const CONTEXTS: Property = Property::optional("contexts", Set(&["private", "work"]));
/// `pref` (RFC 9553 §1.5.3).
const PREF: Property = Property::optional("pref", Number(1, 100));
/// `label` (RFC 9553 §1.5.2).
const LABEL: Property = Property::optional("label", Text);
const LIST_AS: Property = Property::optional("listAs", Number(1, crate::read::MAX_INT));
const PHONETIC_SYSTEM: Property = Property::optional("phoneticSystem", Enumerated(&["ipa", "jyut", "piny"]));
const PHONETIC_SCRIPT: Property = Property::optional("phoneticScript", WithText);
const MEDIA_TYPE: Property = Property::optional("mediaType", WithText);
const URI: Property = Property::required("uri", Uri);

/// A card (RFC 9553 §2).
pub(super) static CARD: Object = Object {
    name: "Card",
    properties: &[
        Property::required("version", Version),
        Property::optional("created", Date),
        Property::optional(
            "kind",
            Enumerated(&["individual", "group", "org", "location", "device", "application"]),
        ),
        Property::optional("language", Language),
        Property::optional("members", Set(&[])),
        Property::optional("prodId", WithText),
        Property::optional("relatedTo", MapByUid(&RELATION)),
        Property::required("uid", WithText),
        Property::optional("updated", Date),
        Property::optional("name", One(&NAME)),
        Property::optional("nicknames", Map(&NICKNAME)),
        Property::optional("organizations", Map(&ORGANIZATION)),
        Property::optional("speakToAs", One(&SPEAK_TO_AS)),
        Property::optional("titles", Map(&TITLE)),
        Property::optional("emails", Map(&EMAIL_ADDRESS)),
        Property::optional("onlineServices", Map(&ONLINE_SERVICE)),
        Property::optional("phones", Map(&PHONE)),
        Property::optional("preferredLanguages", Map(&LANGUAGE_PREF)),
        Property::optional("calendars", Map(&CALENDAR)),
        Property::optional("schedulingAddresses", Map(&SCHEDULING_ADDRESS)),
        Property::optional("addresses", Map(&ADDRESS)),
        Property::optional("cryptoKeys", Map(&CRYPTO_KEY)),
        Property::optional("directories", Map(&DIRECTORY)),
        Property::optional("links", Map(&LINK)),
        Property::optional("media", Map(&MEDIA)),
        Property::optional("localizations", Patches),
        Property::optional("anniversaries", Map(&ANNIVERSARY)),
        Property::optional("keywords", Set(&[])),
        Property::optional("notes", Map(&NOTE)),
        Property::optional("personalInfo", Map(&PERSONAL_INFO)),
    ],
    rule: rules::card,
};

/// RFC 9553 §2.1.8.
static RELATION: Object = Object {
    name: "Relation",
    properties: &[Property::optional(
        "relation",
        Set(&[
            "acquaintance",
            "agent",
            "child",
            "colleague",
            "contact",
            "co-resident",
            "co-worker",
            "crush",
            "date",
            "emergency",
            "friend",
            "kin",
            "me",
            "met",
            "muse",
            "neighbor",
            "parent",
            "sibling",
            "spouse",
            "sweetheart",
        ]),
    )],
    rule: rules::none,
};

/// RFC 9553 §2.2.1.1.
static NAME: Object = Object {
    name: "Name",
    properties: &[
        Property::optional("components", List(&NAME_COMPONENT)),
        Property::optional("isOrdered", Flag),
        Property::optional("defaultSeparator", Text),
        Property::optional("full", Text),
        Property::optional("sortAs", TextMap),
        PHONETIC_SCRIPT,
        PHONETIC_SYSTEM,
    ],
    rule: rules::name,
};

/// RFC 9553 §2.2.1.2.
static NAME_COMPONENT: Object = Object {
    name: "NameComponent",
    properties: &[
        Property::required("value", Text),
        Property::required(
            "kind",
            Enumerated(&[
                "title",
                "given",
                "given2",
                "surname",
                "surname2",
                "credential",
                "generation",
                "separator",
            ]),
        ),
        Property::optional("phonetic", Text),
    ],
    rule: rules::none,
};

/// RFC 9553 §2.2.2.
static NICKNAME: Object = Object {
    name: "Nickname",
    properties: &[Property::required("name", Text), CONTEXTS, PREF],
    rule: rules::none,
};

/// RFC 9553 §2.2.3.
static ORGANIZATION: Object = Object {
    name: "Organization",
    properties: &[
        Property::optional("name", Text),
        Property::optional("units", List(&ORG_UNIT)),
        Property::optional("sortAs", Text),
        CONTEXTS,
    ],
    rule: rules::organization,
};

static ORG_UNIT: Object = Object {
    name: "OrgUnit",
    properties: &[Property::required("name", Text), Property::optional("sortAs", Text)],
    rule: rules::none,
};

/// RFC 9553 §2.2.4.
static SPEAK_TO_AS: Object = Object {
    name: "SpeakToAs",
    properties: &[
        Property::optional(
            "grammaticalGender",
            Enumerated(&["animate", "common", "feminine", "inanimate", "masculine", "neuter"]),
        ),
        Property::optional("pronouns", Map(&PRONOUNS)),
    ],
    rule: rules::speak_to_as,
};

static PRONOUNS: Object = Object {
    name: "Pronouns",
    properties: &[Property::required("pronouns", Text), CONTEXTS, PREF],
    rule: rules::none,
};

/// RFC 9553 §2.2.5.
static TITLE: Object = Object {
    name: "Title",
    properties: &[
        Property::required("name", Text),
        Property::optional("kind", Enumerated(&["title", "role"])),
        Property::optional("organizationId", Id),
    ],
    rule: rules::none,
};

/// RFC 9553 §2.3.1.
static EMAIL_ADDRESS: Object = Object {
    name: "EmailAddress",
    properties: &[Property::required("address", Mailbox), CONTEXTS, PREF, LABEL],
    rule: rules::none,
};

/// RFC 9553 §2.3.2.
static ONLINE_SERVICE: Object = Object {
    name: "OnlineService",
    properties: &[
        Property::optional("service", Text),
        Property::optional("uri", Uri),
        Property::optional("user", Text),
        CONTEXTS,
        PREF,
        LABEL,
    ],
    rule: rules::online_service,
};

/// RFC 9553 §2.3.3.
static PHONE: Object = Object {
    name: "Phone",
    properties: &[
        Property::required("number", Text),
        Property::optional(
            "features",
            Set(&["mobile", "voice", "text", "video", "main-number", "textphone", "fax", "pager"]),
        ),
        CONTEXTS,
        PREF,
        LABEL,
    ],
    rule: rules::none,
};

/// RFC 9553 §2.3.4.
static LANGUAGE_PREF: Object = Object {
    name: "LanguagePref",
    properties: &[Property::required("language", Language), CONTEXTS, PREF],
    rule: rules::none,
};

/// RFC 9553 §2.4.1.
static CALENDAR: Object = Object {
    name: "Calendar",
    properties: &[
        Property::required("kind", Enumerated(&["calendar", "freeBusy"])),
        URI,
        MEDIA_TYPE,
        CONTEXTS,
        PREF,
        LABEL,
    ],
    rule: rules::none,
};

/// RFC 9553 §2.4.2.
static SCHEDULING_ADDRESS: Object =
    Object { name: "SchedulingAddress", properties: &[URI, CONTEXTS, PREF, LABEL], rule: rules::none };

/// RFC 9553 §2.5.1.1.
static ADDRESS: Object = Object {
    name: "Address",
    properties: &[
        Property::optional("components", List(&ADDRESS_COMPONENT)),
        Property::optional("isOrdered", Flag),
        Property::optional("countryCode", CountryCode),
        Property::optional("coordinates", Geo),
        Property::optional("timeZone", WithText),
        Property::optional("contexts", Set(&["billing", "delivery", "private", "work"])),
        Property::optional("full", Text),
        Property::optional("defaultSeparator", Text),
        PREF,
        PHONETIC_SCRIPT,
        PHONETIC_SYSTEM,
    ],
    rule: rules::address,
};

/// RFC 9553 §2.5.1.2.
static ADDRESS_COMPONENT: Object = Object {
    name: "AddressComponent",
    properties: &[
        Property::required("value", Text),
        Property::required(
            "kind",
            Enumerated(&[
                "room",
                "apartment",
                "floor",
                "building",
                "number",
                "name",
                "block",
                "subdistrict",
                "district",
                "locality",
                "region",
                "postcode",
                "country",
                "direction",
                "landmark",
                "postOfficeBox",
                "separator",
            ]),
        ),
        Property::optional("phonetic", Text),
    ],
    rule: rules::none,
};

/// RFC 9553 §2.6.1.
static CRYPTO_KEY: Object = Object {
    name: "CryptoKey",
    properties: &[Property::optional("kind", WithText), URI, MEDIA_TYPE, CONTEXTS, PREF, LABEL],
    rule: rules::none,
};

/// RFC 9553 §2.6.2.
static DIRECTORY: Object = Object {
    name: "Directory",
    properties: &[
        Property::required("kind", Enumerated(&["directory", "entry"])),
        URI,
        MEDIA_TYPE,
        CONTEXTS,
        PREF,
        LABEL,
        LIST_AS,
    ],
    rule: rules::none,
};

/// RFC 9553 §2.6.3.
static LINK: Object = Object {
    name: "Link",
    properties: &[
        Property::optional("kind", Enumerated(&["contact"])),
        URI,
        MEDIA_TYPE,
        CONTEXTS,
        PREF,
        LABEL,
    ],
    rule: rules::none,
};

/// RFC 9553 §2.6.4, with `blobId` of RFC 9610 §3 in the place of `uri`.
static MEDIA: Object = Object {
    name: "Media",
    properties: &[
        Property::required("kind", Enumerated(&["photo", "sound", "logo"])),
        Property::optional("uri", Uri),
        Property::optional("blobId", WithText),
        MEDIA_TYPE,
        CONTEXTS,
        PREF,
        LABEL,
    ],
    rule: rules::media,
};

/// RFC 9553 §2.8.1.
static ANNIVERSARY: Object = Object {
    name: "Anniversary",
    properties: &[
        Property::required("kind", Enumerated(&["birth", "death", "wedding"])),
        Property::required("date", AnniversaryDate),
        Property::optional("place", One(&ADDRESS)),
    ],
    rule: rules::none,
};

/// RFC 9553 §2.8.1.
pub(super) static PARTIAL_DATE: Object = Object {
    name: "PartialDate",
    properties: &[
        Property::optional("year", Number(0, crate::read::MAX_INT)),
        Property::optional("month", Number(1, 12)),
        Property::optional("day", Number(1, 31)),
        Property::optional("calendarScale", WithText),
    ],
    rule: rules::partial_date,
};

/// RFC 9553 §2.8.1.
pub(super) static TIMESTAMP: Object =
    Object { name: "Timestamp", properties: &[Property::required("utc", Date)], rule: rules::none };

/// RFC 9553 §2.8.3.
static NOTE: Object = Object {
    name: "Note",
    properties: &[
        Property::required("note", Text),
        Property::optional("created", Date),
        Property::optional("author", One(&AUTHOR)),
    ],
    rule: rules::none,
};

static AUTHOR: Object = Object {
    name: "Author",
    properties: &[Property::optional("name", Text), Property::optional("uri", Uri)],
    rule: rules::author,
};

/// RFC 9553 §2.8.4.
static PERSONAL_INFO: Object = Object {
    name: "PersonalInfo",
    properties: &[
        Property::required("kind", Enumerated(&["expertise", "hobby", "interest"])),
        Property::required("value", Text),
        Property::optional("level", Enumerated(&["high", "medium", "low"])),
        LIST_AS,
        LABEL,
    ],
    rule: rules::none,
};
