//! The pages that a user sees: a form for consent, and what went wrong. Plain HTML: no script, no
//! image, nothing of another server; text from outside is escaped in one place.

use std::fmt::Write;

use sealpost_auth::Scope;

use crate::authorization::Authorization;

/// The style sheet of the pages, served by the same server: the policy allows none in the page.
pub const STYLE: &str = include_str!("style.css");

impl Authorization {
    /// The page that asks the user for consent; `wrong` is what went wrong before, `name` what the user
    /// typed then.
    pub fn page(&self, name: Option<&str>, wrong: Option<&str>) -> String {
        let client = escaped(self.client.name.as_deref().unwrap_or("An unnamed program"));
        let recipient = escaped(&self.redirect.recipient());
        let name = escaped(name.unwrap_or(&self.login_hint));
        let mut wants = String::new();
        for scope in self.scopes.iter() {
            let _ = write!(wants, "<li>{}</li>", about(scope));
        }
        let mut hidden = String::new();
        for (name, value) in self.parameters() {
            let value = escaped(value);
            let _ = write!(hidden, "<input type=\"hidden\" name=\"{name}\" value=\"{value}\">");
        }
        let wrong = wrong.map_or_else(String::new, |text| {
            format!("<p class=\"wrong\" role=\"alert\">{}</p>", escaped(text))
        });
        let body = format!(
            "<h1>Allow access to your mail?</h1>{wrong}\
             <p><strong>{client}</strong> asks for access to your account. It may:</p><ul>{wants}</ul>\
             <p>The name is the program's own word. Access goes to <strong>{recipient}</strong>. Allow it only \
             if you have just started to set up this program.</p>\
             <form method=\"post\" action=\"/oauth/authorize\">{hidden}\
             <label>Name<input name=\"username\" value=\"{name}\" autocomplete=\"username\" autocapitalize=\"none\" \
             spellcheck=\"false\"></label>\
             <label>Password<input name=\"password\" type=\"password\" autocomplete=\"current-password\"></label>\
             <p class=\"buttons\"><button name=\"decision\" value=\"allow\">Allow</button>\
             <button name=\"decision\" value=\"deny\" class=\"other\">Cancel</button></p></form>"
        );
        page("Allow access", &body)
    }

    /// Content-Security-Policy of the page: no script, no frame around it, and a form that goes to this
    /// server and on to the client alone.
    pub fn policy(&self) -> String {
        policy(&format!("'self' {}", self.redirect.csp_source()))
    }

    /// The request again, for the form.
    fn parameters(&self) -> Vec<(&'static str, &str)> {
        let mut parameters = vec![
            ("client_id", self.client_id.as_str()),
            ("redirect_uri", self.redirect.as_str()),
            ("response_type", "code"),
            ("code_challenge", self.challenge.as_str()),
            ("code_challenge_method", "S256"),
            ("scope", &self.scope_names),
        ];
        parameters.extend(self.state.as_deref().map(|state| ("state", state)));
        parameters
    }
}

/// A page that says what went wrong, and its policy.
pub fn error_page(text: &str) -> (String, String) {
    let body = format!(
        "<h1>This does not work</h1><p class=\"wrong\">{}</p><p>Close this page, and start again in the program \
         that opened it.</p>",
        escaped(text)
    );
    (page("Error", &body), policy("'none'"))
}

fn policy(forms: &str) -> String {
    format!(
        "default-src 'none'; style-src 'self'; form-action {forms}; frame-ancestors 'none'; base-uri 'none'"
    )
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} · Sealpost</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"stylesheet\" href=\"/oauth/style.css\"></head><body><main>{body}</main></body></html>\n"
    )
}

fn about(scope: Scope) -> &'static str {
    match scope {
        Scope::Mail => "read, change, delete and send mail",
        Scope::Contacts => "read, change and delete contacts",
    }
}

/// Text for an element or an attribute in quotation marks.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_leave_its_place() {
        assert_eq!(escaped("<a href='x'>\"&"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;");
        let (page, policy) = error_page("<script>alert(1)</script>");
        assert!(!page.contains("<script>") && policy.contains("default-src 'none'"), "{page}");
    }
}
