//! Parameters of a request, from a query or a form. Each is there once at most (RFC 6749 §3.1, §3.2),
//! and one without a value counts as missing.

use sealpost_base::limits::{OAUTH_PARAMETER_BYTES, OAUTH_PARAMETERS};
use zeroize::Zeroizing;

use crate::error::OAuthError;

/// Names and values, in their order.
#[derive(Default)]
pub struct Parameters(Vec<(String, Zeroizing<String>)>);

impl Parameters {
    /// Those of a decoded form.
    ///
    /// # Errors
    /// `invalid_request` beyond [`OAUTH_PARAMETERS`] and [`OAUTH_PARAMETER_BYTES`].
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, OAuthError> {
        let mut parameters = Vec::new();
        for (name, value) in pairs {
            if parameters.len() == OAUTH_PARAMETERS {
                return Err(OAuthError::invalid_request("the request has too many parameters"));
            }
            if name.len().max(value.len()) > OAUTH_PARAMETER_BYTES {
                return Err(OAuthError::invalid_request("a parameter is too long"));
            }
            parameters.push((name, Zeroizing::new(value)));
        }
        Ok(Parameters(parameters))
    }

    /// The value of that name, if it has one.
    ///
    /// # Errors
    /// `invalid_request` if it is there twice.
    pub fn get(&self, name: &str) -> Result<Option<&str>, OAuthError> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(OAuthError::invalid_request("a parameter is there twice")),
            (value, None) => Ok(value.filter(|value| !value.is_empty())),
        }
    }

    /// The same, of one that has to be there.
    ///
    /// # Errors
    /// `invalid_request` with `missing`, or if it is there twice.
    pub fn required(&self, name: &str, missing: &'static str) -> Result<&str, OAuthError> {
        self.get(name)?.ok_or_else(|| OAuthError::invalid_request(missing))
    }

    /// All values of that name.
    pub fn all<'a, 'b>(&'a self, name: &'b str) -> impl Iterator<Item = &'a str> + use<'a, 'b> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
pub(crate) fn of(pairs: &[(&str, &str)]) -> Parameters {
    let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Parameters::new(owned).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_there_once_and_not_empty() {
        let parameters = of(&[("a", "1"), ("b", ""), ("c", "1"), ("c", "1")]);
        assert_eq!(parameters.get("a"), Ok(Some("1")));
        assert_eq!((parameters.get("b"), parameters.get("d")), (Ok(None), Ok(None)));
        assert!(parameters.get("c").is_err() && parameters.required("b", "b is missing").is_err());
        assert_eq!(parameters.all("c").count(), 2);
    }

    #[test]
    fn parameters_are_bounded() {
        let many = |count| Parameters::new((0..count).map(|n: usize| (n.to_string(), String::new())));
        assert!(many(OAUTH_PARAMETERS).is_ok() && many(OAUTH_PARAMETERS + 1).is_err());
        let long = |bytes| Parameters::new([("a".to_owned(), "x".repeat(bytes))]);
        assert!(long(OAUTH_PARAMETER_BYTES).is_ok() && long(OAUTH_PARAMETER_BYTES + 1).is_err());
    }
}
