// Drives a server with jmap-jam, which is not ours: writes a draft, sends it, finds it, reads it, moves it.
// node jmap_jam.mjs PATH-OF-JMAP-JAM URL TOKEN OWN-ADDRESS; prints what it saw as JSON.

const [, , path, url, bearerToken, address] = process.argv;
const { JamClient } = await import(path);
const jam = new JamClient({ sessionUrl: `${url}/.well-known/jmap`, bearerToken });
const accountId = await jam.getPrimaryAccount();

const [mailboxes] = await jam.api.Mailbox.get({ accountId });
const drafts = mailboxes.list.find((mailbox) => mailbox.role === "drafts") ?? mailboxes.list[0];
const inbox = mailboxes.list.find((mailbox) => mailbox.role === "inbox");
const [identities] = await jam.api.Identity.get({ accountId });
const identity = identities.list.find((identity) => identity.email === address);

const subject = `from jmap-jam ${process.pid}`;
const draft = {
  mailboxIds: { [drafts.id]: true },
  keywords: { $draft: true },
  from: [{ email: address }],
  to: [{ email: address }],
  subject,
  bodyStructure: { partId: "1", type: "text/plain" },
  bodyValues: { 1: { value: "Grüße von jam" } },
};
const [written] = await jam.api.Email.set({ accountId, create: { draft } });
const emailId = written.created.draft.id;
const [sent] = await jam.api.EmailSubmission.set({
  accountId,
  create: { sending: { emailId, identityId: identity.id } },
  onSuccessUpdateEmail: { "#sending": { "keywords/$draft": null } },
});

const filter = { inMailbox: inbox.id, subject };
let found = [];
for (let attempt = 0; attempt < 100 && found.length === 0; attempt += 1) {
  const [{ query, emails }] = await jam.requestMany((ask) => {
    const query = ask.Email.query({ accountId, filter });
    const properties = ["subject", "preview", "keywords"];
    const emails = ask.Email.get({ accountId, ids: query.$ref("/ids"), properties });
    return { query, emails };
  });
  found = query.ids.length === 0 ? [] : emails.list;
  if (found.length === 0) await new Promise((done) => setTimeout(done, 100));
}
console.log(JSON.stringify({ submission: sent.created.sending, found }));
